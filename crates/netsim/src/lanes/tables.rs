//! What a subnet manager writes into ports: which virtual lane a service level takes, and how lanes share a link.
//!
//! InfiniBand Architecture Specification, volume 1, 7.6.6 (SL-to-VL mapping) and 7.6.9 (VL arbitration).

use std::fmt;

/// Service levels of a packet header.
pub const SERVICE_LEVELS: usize = 16;
/// Most virtual lanes that carry data; lane 15 is the subnet manager's own.
pub const DATA_LANES_MAX: usize = 15;
/// Most entries of each arbitration table.
pub const ENTRIES_MAX: usize = 64;
/// Bytes that a unit of weight stands for.
pub const WEIGHT_BYTES: u32 = 64;
/// Bytes that a unit of the high limit stands for.
pub const LIMIT_BYTES: u32 = 4096;
/// The high limit that never lets the low table in before the high one has nothing to send.
pub const LIMIT_NEVER: u8 = 255;
/// In an SL-to-VL table: packets of this service level are dropped.
pub const DROPPED: u8 = 15;

/// The virtual lane of each service level; [`DROPPED`] for those that have none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SlToVl(pub [u8; SERVICE_LEVELS]);

impl SlToVl {
    /// Service level *i* takes lane *i* modulo the number of lanes.
    pub fn modulo(lanes: usize) -> SlToVl {
        SlToVl(std::array::from_fn(|level| (level % lanes.clamp(1, DATA_LANES_MAX)) as u8))
    }

    /// The lane of a service level (0 to 15). `None`: such packets are dropped.
    pub fn lane(&self, level: u8) -> Option<u8> {
        self.0.get(usize::from(level)).copied().filter(|lane| *lane != DROPPED)
    }
}

/// One entry of an arbitration table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry {
    /// The lane.
    pub lane: u8,
    /// What it may send when its turn comes, in units of 64 bytes; 0: the entry is skipped.
    pub weight: u8,
}

/// Both arbitration tables of a port.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Arbitration {
    /// Served first.
    pub high: Vec<Entry>,
    /// Served when the high table has nothing to send, or has sent its limit.
    pub low: Vec<Entry>,
    /// What the high table may send before the low one gets a packet through, in units of 4096 bytes; 0: one packet; 255: no limit.
    pub high_limit: u8,
}

impl Arbitration {
    /// All lanes in the low table, with the same weight.
    pub fn equal(lanes: usize, weight: u8) -> Arbitration {
        let low = (0..lanes.min(DATA_LANES_MAX)).map(|lane| Entry { lane: lane as u8, weight }).collect();
        Arbitration { high: Vec::new(), low, high_limit: 0 }
    }
}

/// The tables of one kind of port.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PortTables {
    /// Which lane a packet leaves on.
    pub sl2vl: SlToVl,
    /// Which lane sends next.
    pub arbitration: Arbitration,
}

/// The tables of a fabric: hosts have one set, all ports of switches the other one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tables {
    /// Data lanes of each port: 1, 2, 4, 8 or 15 (PortInfo, VLCap).
    pub lanes: usize,
    /// Channel adapters.
    pub hosts: PortTables,
    /// Switches.
    pub switches: PortTables,
}

/// What is wrong with tables.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BadTables(pub String);

impl fmt::Display for BadTables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Tables {
    /// Lanes with the same weight (units of 64 bytes) that service levels take in turn.
    pub fn equal(lanes: usize, weight: u8) -> Tables {
        let port = PortTables { sl2vl: SlToVl::modulo(lanes), arbitration: Arbitration::equal(lanes, weight) };
        Tables { lanes, hosts: port.clone(), switches: port }
    }

    /// Service level 0 on lane 0 by the high table (limit 1: 4096 bytes), level 1 on lane 1 by the low table.
    pub fn small_first() -> Tables {
        let arbitration = Arbitration {
            high: vec![Entry { lane: 0, weight: 64 }],
            low: vec![Entry { lane: 1, weight: 64 }],
            high_limit: 1,
        };
        let port = PortTables { sl2vl: SlToVl::modulo(2), arbitration };
        Tables { lanes: 2, hosts: port.clone(), switches: port }
    }

    /// Refuses lanes that the ports don't have, and lanes that are mapped to but never get a turn.
    pub fn check(&self) -> Result<(), BadTables> {
        if ![1, 2, 4, 8, 15].contains(&self.lanes) {
            return Err(BadTables(format!("a port has 1, 2, 4, 8 or 15 data lanes, not {}", self.lanes)));
        }
        self.hosts.check("hosts", self.lanes)?;
        self.switches.check("switches", self.lanes)
    }
}

impl PortTables {
    fn check(&self, whose: &str, lanes: usize) -> Result<(), BadTables> {
        for (table, entries) in [("high", &self.arbitration.high), ("low", &self.arbitration.low)] {
            if entries.len() > ENTRIES_MAX {
                let found = entries.len();
                return Err(BadTables(format!(
                    "{whose}: the {table} table has at most {ENTRIES_MAX} entries, not {found}"
                )));
            }
            if let Some(entry) = entries.iter().find(|entry| usize::from(entry.lane) >= lanes && entry.weight > 0) {
                let lane = entry.lane;
                return Err(BadTables(format!(
                    "{whose}: the {table} table names lane {lane}, but ports have {lanes} lanes"
                )));
            }
        }
        for level in 0..SERVICE_LEVELS as u8 {
            let Some(lane) = self.sl2vl.lane(level) else { continue };
            if usize::from(lane) >= lanes {
                return Err(BadTables(format!(
                    "{whose}: service level {level} maps to lane {lane}, but ports have {lanes} lanes"
                )));
            }
            let mut all = self.arbitration.high.iter().chain(&self.arbitration.low);
            if !all.any(|entry| entry.lane == lane && entry.weight > 0) {
                return Err(BadTables(format!(
                    "{whose}: service level {level} maps to lane {lane}, which has no weight in either arbitration table"
                )));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_tables_are_sound() {
        for lanes in [1, 2, 4, 8, 15] {
            assert_eq!(Tables::equal(lanes, 32).check(), Ok(()));
        }
        assert_eq!(Tables::small_first().check(), Ok(()));
        assert_eq!(SlToVl::modulo(4).lane(6), Some(2));
    }

    #[test]
    fn bad_tables_are_told() {
        let text = |change: fn(&mut Tables)| {
            let mut tables = Tables::equal(4, 32);
            change(&mut tables);
            tables.check().unwrap_err().to_string()
        };
        assert!(text(|t| t.lanes = 3).contains("not 3"));
        assert!(text(|t| t.hosts.sl2vl.0[7] = 9).contains("hosts: service level 7 maps to lane 9, but ports have 4"));
        assert!(
            text(|t| t.switches.arbitration.low[1].weight = 0)
                .contains("service level 1 maps to lane 1, which has no weight")
        );
        assert!(
            text(|t| t.hosts.arbitration.high = vec![Entry { lane: 5, weight: 1 }]).contains("high table names lane 5")
        );
        assert!(
            text(|t| t.hosts.arbitration.low = vec![Entry { lane: 0, weight: 1 }; 65]).contains("at most 64 entries")
        );
    }
}
