//! Reads tables in the form of OpenSM's options file.
//!
//! ```text
//! qos_max_vls 8
//! qos_high_limit 4
//! qos_vlarb_high 0:64
//! qos_vlarb_low 1:32,2:32
//! qos_sl2vl 0,1,2,0,1,2,0,1,2,0,1,2,0,1,2,15
//! ```
//!
//! `qos_ca_…` is for hosts and `qos_swe_…` for ports of switches; each takes the value of `qos_…` where it is not set or `(null)`, and that OpenSM's
//! own default (QoS_management_in_OpenSM.txt, section 7). `qos_sw0_…` and `qos_rtr_…` are read and not used: no traffic of this model goes to port 0
//! of a switch or to a router. Other options of the file are passed over.

use super::tables::{
    Arbitration, BadTables, DATA_LANES_MAX, DROPPED, Entry, PortTables, SERVICE_LEVELS, SlToVl, Tables,
};
use std::collections::BTreeMap;

/// OpenSM's own tables.
const DEFAULTS: [(&str, &str); 5] = [
    ("max_vls", "15"),
    ("high_limit", "0"),
    ("vlarb_high", "0:4,1:0,2:0,3:0,4:0,5:0,6:0,7:0,8:0,9:0,10:0,11:0,12:0,13:0,14:0"),
    ("vlarb_low", "0:0,1:4,2:4,3:4,4:4,5:4,6:4,7:4,8:4,9:4,10:4,11:4,12:4,13:4,14:4"),
    ("sl2vl", "0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,7"),
];

/// Kinds of ports, as prefixes; the empty one is for all of them.
const PORTS: [&str; 5] = ["ca_", "sw0_", "swe_", "rtr_", ""];

/// Options of a QoS policy that say nothing about tables.
const OTHER: [&str; 1] = ["policy_file"];

/// What the file says: value and line of each option, without `qos_`.
type Options<'a> = BTreeMap<&'a str, (&'a str, usize)>;

/// The tables of an options file. Errors name the line, what was expected and what was found.
pub fn parse(text: &str) -> Result<Tables, BadTables> {
    let options = read(text)?;
    let lanes = [lanes(&options, "ca_")?, lanes(&options, "swe_")?];
    let tables = Tables {
        // A link has as many lanes as both of its ends.
        lanes: lanes[0].min(lanes[1]),
        hosts: port(&options, "ca_")?,
        switches: port(&options, "swe_")?,
    };
    tables.check()?;
    Ok(tables)
}

fn read(text: &str) -> Result<Options<'_>, BadTables> {
    let mut options = Options::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default().trim();
        let Some(option) = line.strip_prefix("qos_") else { continue };
        let (name, value) = option.split_once(char::is_whitespace).unwrap_or((option, ""));
        let kind = PORTS.iter().find_map(|port| name.strip_prefix(port));
        if !kind.is_some_and(|kind| DEFAULTS.iter().any(|(known, _)| *known == kind)) {
            if OTHER.contains(&name) {
                continue;
            }
            return Err(at(number + 1, format!("qos_{name} is no option of OpenSM's tables")));
        }
        if let Some((_, before)) = options.insert(name, (value.trim(), number + 1)) {
            return Err(at(number + 1, format!("qos_{name} is already in line {before}")));
        }
    }
    if options.is_empty() {
        return Err(BadTables("there is no qos_ option in it".into()));
    }
    Ok(options)
}

fn at(line: usize, what: String) -> BadTables {
    BadTables(if line == 0 { format!("OpenSM's default: {what}") } else { format!("line {line}: {what}") })
}

/// The value for this kind of port, and its line; 0 for a default.
fn value<'a>(options: &Options<'a>, port: &str, kind: &str) -> (&'a str, usize) {
    let set = |name: &str| options.get(name).copied().filter(|(value, _)| *value != "(null)");
    let default = DEFAULTS.iter().find(|(known, _)| *known == kind).map_or("", |(_, value)| value);
    set(&format!("{port}{kind}")).or_else(|| set(kind)).unwrap_or((default, 0))
}

fn lanes(options: &Options, port: &str) -> Result<usize, BadTables> {
    let (text, line) = value(options, port, "max_vls");
    match text.parse::<usize>() {
        // OpenSM takes the next smaller number that a port can be set to.
        Ok(number) if (1..=DATA_LANES_MAX).contains(&number) => {
            Ok([15, 8, 4, 2, 1].into_iter().find(|lanes| *lanes <= number).unwrap_or(1))
        }
        _ => Err(at(line, format!("a number of lanes from 1 to {DATA_LANES_MAX} is expected, not {text:?}"))),
    }
}

fn port(options: &Options, port: &str) -> Result<PortTables, BadTables> {
    let (limit, line) = value(options, port, "high_limit");
    let high_limit =
        limit.parse().map_err(|_| at(line, format!("a limit from 0 to 255 is expected, not {limit:?}")))?;
    let (high, low) = (entries(value(options, port, "vlarb_high"))?, entries(value(options, port, "vlarb_low"))?);
    let sl2vl = sl2vl(value(options, port, "sl2vl"))?;
    Ok(PortTables { sl2vl, arbitration: Arbitration { high, low, high_limit } })
}

fn entries((text, line): (&str, usize)) -> Result<Vec<Entry>, BadTables> {
    let entry = |word: &str| {
        let (lane, weight) = word.split_once(':')?;
        let entry = Entry { lane: lane.trim().parse().ok()?, weight: weight.trim().parse().ok()? };
        (usize::from(entry.lane) < DATA_LANES_MAX).then_some(entry)
    };
    let words = text.split(',').filter(|_| !text.is_empty());
    words
        .map(|word| {
            entry(word).ok_or_else(|| at(line, format!("LANE:WEIGHT (0 to 14, 0 to 255) is expected, not {word:?}")))
        })
        .collect()
}

fn sl2vl((text, line): (&str, usize)) -> Result<SlToVl, BadTables> {
    let lane = |word: &str| word.trim().parse::<u8>().ok().filter(|lane| *lane <= DROPPED);
    let found: Vec<u8> = text
        .split(',')
        .map(|word| lane(word).ok_or_else(|| at(line, format!("a lane from 0 to 15 is expected, not {word:?}"))))
        .collect::<Result<_, _>>()?;
    let count = found.len();
    let lanes: [u8; SERVICE_LEVELS] = found.try_into().map_err(|_| {
        at(line, format!("{SERVICE_LEVELS} lanes are expected, one for each service level, not {count}"))
    })?;
    Ok(SlToVl(lanes))
}

#[cfg(test)]
mod tests {
    use super::*;

    const EIGHT: &str = "\
# lanes of the policy segregate
log_file /var/log/opensm.log
qos TRUE
qos_max_vls 8
qos_high_limit 4
qos_vlarb_high 0:64
qos_vlarb_low 1:32, 2:16
qos_sl2vl 0,1,2,0,1,2,0,1,2,0,1,2,0,1,2,15
qos_swe_vlarb_low 1:8,2:8  # switches share evenly
qos_ca_high_limit (null)
";

    #[test]
    fn a_file_is_read() {
        let tables = parse(EIGHT).unwrap();
        assert_eq!(tables.lanes, 8);
        assert_eq!((tables.hosts.arbitration.high_limit, tables.switches.arbitration.high_limit), (4, 4));
        assert_eq!(tables.hosts.arbitration.high, [Entry { lane: 0, weight: 64 }]);
        assert_eq!(tables.hosts.arbitration.low, [Entry { lane: 1, weight: 32 }, Entry { lane: 2, weight: 16 }]);
        assert_eq!(tables.switches.arbitration.low, [Entry { lane: 1, weight: 8 }, Entry { lane: 2, weight: 8 }]);
        assert_eq!((tables.hosts.sl2vl.lane(4), tables.hosts.sl2vl.lane(15)), (Some(1), None));
    }

    #[test]
    fn what_is_not_set_is_opensms_default() {
        let tables = parse("qos_ca_high_limit 255\n").unwrap();
        assert_eq!((tables.lanes, tables.hosts.arbitration.high_limit), (15, 255));
        assert_eq!(tables.switches.arbitration.high[0], Entry { lane: 0, weight: 4 });
        assert_eq!(tables.switches.sl2vl.lane(15), Some(7));
    }

    #[test]
    fn bad_files_are_told() {
        for (text, expected) in [
            ("", "no qos_ option"),
            ("qos_max_vls 16", "line 1: a number of lanes from 1 to 15 is expected, not \"16\""),
            ("qos_high_limit 256", "line 1: a limit from 0 to 255 is expected, not \"256\""),
            ("\nqos_vlarb_low 1:32,2", "line 2: LANE:WEIGHT (0 to 14, 0 to 255) is expected, not \"2\""),
            ("qos_vlarb_low 15:32", "not \"15:32\""),
            ("qos_sl2vl 0,1", "line 1: 16 lanes are expected, one for each service level, not 2"),
            ("qos_sl2vl 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,16", "a lane from 0 to 15 is expected, not \"16\""),
            ("qos_speed 3", "line 1: qos_speed is no option"),
            ("qos_max_vls 8\nqos_max_vls 8", "line 2: qos_max_vls is already in line 1"),
            ("qos_max_vls 4", "names lane 4, but ports have 4 lanes"),
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.contains(expected), "{text:?}: {error}");
        }
    }
}
