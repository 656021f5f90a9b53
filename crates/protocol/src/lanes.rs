//! The plan of a pair's lanes: how many there are, and the class of traffic that each carries (decision 0032).
//!
//! | policy | lanes of a pair | what each carries |
//! |---|---|---|
//! | `single` | 1 | everything |
//! | `distribute` | K | packets over each lane in turn; lane *i* is [`Class::Share`]`(i)` |
//! | `distribute:connection` | 1 | everything of the pair; pairs are dealt to K shares in turn |
//! | `segregate` | K, at least 2 | lane 0 small messages and the protocols' own packets, the others large payloads |
//! | `segregate:traffic` | K, 2 to 6 | lane *i* the class *i* of [`Class::TRAFFIC`]; lane 0 also the classes without a lane |
//! | `auto` | as `segregate` with 2 lanes | |
//!
//! The plan is the same on all ranks, since it follows from settings that are ([`LanePlan::format_number`]). Lanes of shared memory have no plan: such
//! a pair has one lane.

pub mod marks;

use std::fmt;

base::config! {
    /// Lanes between two processes over a network: a number (1 to 16), or auto for as many as the policy needs; with ! behind it the job is refused if it
    /// can't have so many. Empty: as many as the policy needs. The same on all ranks.
    LANES: text = "";
    /// What the lanes of a pair carry: single, distribute, distribute:connection, segregate, segregate:traffic or auto. Empty: single; distribute if
    /// FERRULE_LANES is more than 1; auto if it is auto. The same on all ranks.
    LANE_POLICY: text = "";
    /// Largest message that goes over the lane for small messages, if small and large ones have lanes of their own.
    LANE_SMALL_MAX: u64 = 4096, 0..=1048576, "bytes";
    /// DSCP of packets that this process sends over the lanes of a class, where it isn't the default: latency=46,bulk=8,share0=3 (0 to 63 each), or off for
    /// none. The classes and their defaults: ferrule info --lanes. May differ between ranks.
    LANE_DSCP: text = "";
    /// SO_PRIORITY of the lanes of a class, where it isn't the default: latency=6,bulk=2. Above 6 it needs CAP_NET_ADMIN. off leaves it to the kernel. May
    /// differ between ranks.
    LANE_PRIORITY: text = "";
}

/// Most lanes of a pair.
pub const LANES_MAX: usize = 16;

/// What a lane carries.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Class {
    /// One of several equal parts of all traffic.
    Share(u8),
    /// Small messages and the protocols' own packets.
    Latency,
    /// Payloads of large messages.
    Bulk,
    /// Messages of sends and receives, and what no other lane carries.
    PointToPoint,
    /// Messages of collective operations.
    Collectives,
    /// Accesses to registered memory.
    OneSided,
    /// The protocols' own packets.
    Control,
    /// Files.
    Io,
    /// What is carried for others.
    Offload,
}

impl Class {
    /// DSCP of its packets unless FERRULE_LANE_DSCP says another one. Service classes are those of RFC 4594; shares have codes of the pool for
    /// local use (RFC 2474, section 6), so no switch treats them differently unless it is told to. `None` for a share that no plan has.
    pub fn dscp(self) -> Option<u8> {
        match self {
            Class::Latency => Some(46),      // EF
            Class::Control => Some(40),      // CS5
            Class::Collectives => Some(34),  // AF41
            Class::PointToPoint => Some(26), // AF31
            Class::OneSided => Some(18),     // AF21
            Class::Offload => Some(14),      // AF13
            Class::Io => Some(10),           // AF11
            Class::Bulk => Some(8),          // CS1
            Class::Share(number) => self.code().map(|_| 4 * number + 3),
        }
    }

    /// Every class that a plan may have, in the order of their numbers.
    pub fn all() -> impl Iterator<Item = Class> {
        (0..=u8::MAX).map_while(Class::of_code)
    }

    /// The classes by kind of traffic, in the order of their lanes.
    pub const TRAFFIC: [Class; 6] =
        [Class::PointToPoint, Class::Collectives, Class::OneSided, Class::Control, Class::Io, Class::Offload];

    /// The class of this name.
    pub fn named(name: &str) -> Option<Class> {
        if let Some(number) = name.strip_prefix("share") {
            let share = number.parse().ok().map(Class::Share)?;
            return Some(share).filter(|share: &Class| share.code().is_some() && share.to_string() == name);
        }
        Class::NAMED.iter().find(|(_, other)| *other == name).map(|(class, _)| *class)
    }

    /// Its number in tables and on the wire: below 16 a share. `None` for a share that no plan has.
    pub fn code(self) -> Option<u8> {
        match self {
            Class::Share(number) => Some(number).filter(|number| usize::from(*number) < LANES_MAX),
            class => Class::NAMED.iter().position(|(other, _)| *other == class).map(|at| (LANES_MAX + at) as u8),
        }
    }

    /// The class of this number.
    pub fn of_code(code: u8) -> Option<Class> {
        match usize::from(code).checked_sub(LANES_MAX) {
            None => Some(Class::Share(code)),
            Some(at) => Class::NAMED.get(at).map(|(class, _)| *class),
        }
    }

    /// In the order of their numbers.
    const NAMED: [(Class, &str); 8] = [
        (Class::Latency, "latency"),
        (Class::Bulk, "bulk"),
        (Class::PointToPoint, "p2p"),
        (Class::Collectives, "collectives"),
        (Class::OneSided, "onesided"),
        (Class::Control, "control"),
        (Class::Io, "io"),
        (Class::Offload, "offload"),
    ];
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Class::Share(number) => write!(f, "share{number}"),
            class => f.write_str(Class::NAMED.iter().find(|(other, _)| other == class).map_or("", |(_, name)| name)),
        }
    }
}

/// How traffic is divided among lanes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Policy {
    /// One lane without a class.
    Single,
    /// Packets go over each lane in turn.
    Distribute,
    /// Each pair has one lane; pairs get the shares in turn.
    DistributeConnection,
    /// By size.
    Segregate,
    /// By kind of traffic.
    SegregateTraffic,
}

impl Policy {
    const NAMED: [(Policy, &str); 5] = [
        (Policy::Single, "single"),
        (Policy::Distribute, "distribute"),
        (Policy::DistributeConnection, "distribute:connection"),
        (Policy::Segregate, "segregate"),
        (Policy::SegregateTraffic, "segregate:traffic"),
    ];

    /// The policy of this name; `auto` is one of the others.
    fn named(name: &str) -> Result<Policy, String> {
        if name == "auto" {
            return Ok(Policy::Segregate);
        }
        let found = Policy::NAMED.iter().find(|(_, other)| *other == name).map(|(policy, _)| *policy);
        let names = Policy::NAMED.map(|(_, name)| name).join(", ");
        found.ok_or_else(|| format!("FERRULE_LANE_POLICY={name} is none of {names}, auto"))
    }

    /// Fewest lanes (shares, of `distribute:connection`) with which it makes sense, as many as it takes by itself, and most.
    fn lanes(self) -> (usize, usize, usize) {
        match self {
            Policy::Single => (1, 1, 1),
            Policy::Distribute | Policy::DistributeConnection => (1, 4, LANES_MAX),
            Policy::Segregate => (2, 2, LANES_MAX),
            Policy::SegregateTraffic => (2, 3, Class::TRAFFIC.len()),
        }
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Policy::NAMED.iter().find(|(policy, _)| policy == self).map_or("", |(_, name)| name))
    }
}

/// See the head of this file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LanePlan {
    policy: Policy,
    /// Lanes of a pair; of `distribute:connection` the shares.
    count: u8,
    forced: bool,
}

impl LanePlan {
    /// One lane.
    pub const SINGLE: LanePlan = LanePlan { policy: Policy::Single, count: 1, forced: false };

    /// What the settings say.
    pub fn configured() -> Result<LanePlan, String> {
        LanePlan::parse(LANES.value(), LANE_POLICY.value())
    }

    /// The plan of the texts of both settings.
    pub fn parse(lanes: &str, policy: &str) -> Result<LanePlan, String> {
        let (lanes, policy) = (lanes.trim(), policy.trim());
        let (number, forced) = lanes.strip_suffix('!').map_or((lanes, false), |number| (number, true));
        let count = match number {
            "auto" | "" => None,
            number => match number.parse::<usize>() {
                Ok(count) if (1..=LANES_MAX).contains(&count) => Some(count),
                _ => return Err(format!("FERRULE_LANES={lanes} is not auto or a number from 1 to {LANES_MAX}")),
            },
        };
        let policy = match (policy, count) {
            ("", None) if number == "auto" => Policy::named("auto")?,
            ("", None | Some(1)) => Policy::Single,
            ("", Some(_)) => Policy::Distribute,
            (name, _) => Policy::named(name)?,
        };
        let (fewest, own, most) = policy.lanes();
        let count = count.unwrap_or(own);
        if !(fewest..=most).contains(&count) {
            let range = if fewest == most { format!("{most}") } else { format!("{fewest} to {most}") };
            return Err(format!("FERRULE_LANES={lanes}: the lane policy {policy} has {range}"));
        }
        Ok(LanePlan { policy, count: count as u8, forced })
    }

    /// Both settings that `mpiexec --lanes K[:POLICY]` stands for, `LANES` and `LANE_POLICY`.
    pub fn settings_of(option: &str) -> Result<(&str, &str), String> {
        let (lanes, policy) = option.split_once(':').unwrap_or((option, ""));
        if lanes.is_empty() || option.ends_with(':') {
            return Err(format!("--lanes {option} is not of the form K[:POLICY]"));
        }
        LanePlan::parse(lanes, policy).map(|_| (lanes, policy))
    }

    /// How traffic is divided.
    pub fn policy(&self) -> Policy {
        self.policy
    }

    /// Lanes that a pair has.
    pub fn lanes(&self) -> usize {
        if self.policy == Policy::DistributeConnection { 1 } else { usize::from(self.count) }
    }

    /// Whether the job is to be refused rather than run with fewer lanes.
    pub fn is_forced(&self) -> bool {
        self.forced
    }

    /// The plan for a pair that has so many lanes: it may have got fewer.
    pub fn with_lanes(&self, lanes: usize) -> LanePlan {
        let (fewest, _, most) = self.policy.lanes();
        match self.policy {
            Policy::DistributeConnection if lanes == 1 => *self,
            policy if (fewest..=most).contains(&lanes) => LanePlan { policy, count: lanes as u8, ..*self },
            _ if (2..=LANES_MAX).contains(&lanes) => {
                LanePlan { policy: Policy::Distribute, count: lanes as u8, ..*self }
            }
            _ => LanePlan { forced: self.forced, ..LanePlan::SINGLE },
        }
    }

    /// What a lane of a pair carries; `None` if everything goes over one lane without a class. `pair` is the sum of the two ranks in their
    /// jobs' `MPI_COMM_WORLD`, the same number at both ends; with it each process deals the shares to its peers in turn.
    pub fn class(&self, lane: usize, pair: u64) -> Option<Class> {
        match self.policy {
            Policy::Single => None,
            Policy::Distribute => Some(Class::Share(lane as u8)),
            Policy::DistributeConnection => Some(Class::Share((pair % u64::from(self.count)) as u8)),
            Policy::Segregate => Some(if lane == 0 { Class::Latency } else { Class::Bulk }),
            Policy::SegregateTraffic => Class::TRAFFIC.get(lane).copied(),
        }
    }

    /// All classes that lanes of the job have.
    pub fn classes(&self) -> Vec<Class> {
        let mut all: Vec<Class> =
            (0..usize::from(self.count)).filter_map(|number| self.class(number, number as u64)).collect();
        all.dedup();
        all
    }

    /// Stands for the plan among the settings that must be the same on all ranks.
    pub fn format_number(&self) -> u32 {
        let policy = Policy::NAMED.iter().position(|(policy, _)| *policy == self.policy).unwrap_or_default();
        (policy * (LANES_MAX + 1) + usize::from(self.count)) as u32
    }
}

impl fmt::Display for LanePlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.policy {
            Policy::Single => write!(f, "{}", self.policy),
            policy => write!(f, "{}:{policy}", self.count),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(lanes: &str, policy: &str) -> LanePlan {
        LanePlan::parse(lanes, policy).unwrap()
    }

    #[test]
    fn settings_make_plans() {
        for (lanes, policy, text, of_a_pair) in [
            ("", "", "single", 1),
            ("1", "", "single", 1),
            ("3", "", "3:distribute", 3),
            ("auto", "", "2:segregate", 2),
            ("", "auto", "2:segregate", 2),
            ("", "distribute", "4:distribute", 4),
            ("auto", "distribute:connection", "4:distribute:connection", 1),
            ("8", "distribute:connection", "8:distribute:connection", 1),
            (" 5 ", " segregate ", "5:segregate", 5),
            ("", "segregate:traffic", "3:segregate:traffic", 3),
            ("6", "segregate:traffic", "6:segregate:traffic", 6),
            ("16", "distribute", "16:distribute", 16),
        ] {
            let found = plan(lanes, policy);
            assert_eq!((found.to_string().as_str(), found.lanes()), (text, of_a_pair), "{lanes} {policy}");
            assert!(!found.is_forced());
        }
        assert!(plan("4!", "distribute").is_forced());
        assert!(plan("auto!", "").is_forced());
    }

    #[test]
    fn bad_settings_are_told() {
        for (lanes, policy, text) in [
            ("0", "", "FERRULE_LANES=0 is not auto or a number from 1 to 16"),
            ("17", "", "FERRULE_LANES=17 is not auto or a number from 1 to 16"),
            ("many", "segregate", "FERRULE_LANES=many is not"),
            ("-1", "", "FERRULE_LANES=-1 is not"),
            ("!!", "", "FERRULE_LANES=!! is not"),
            ("1", "segregate", "FERRULE_LANES=1: the lane policy segregate has 2 to 16"),
            ("7", "segregate:traffic", "FERRULE_LANES=7: the lane policy segregate:traffic has 2 to 6"),
            ("2", "single", "FERRULE_LANES=2: the lane policy single has 1"),
            ("2", "segregat", "FERRULE_LANE_POLICY=segregat is none of single, distribute, distribute:connection"),
        ] {
            let error = LanePlan::parse(lanes, policy).unwrap_err();
            assert!(error.starts_with(text), "{error}");
        }
    }

    #[test]
    fn the_option_is_two_settings() {
        assert_eq!(LanePlan::settings_of("4"), Ok(("4", "")));
        assert_eq!(LanePlan::settings_of("2!:segregate"), Ok(("2!", "segregate")));
        assert_eq!(LanePlan::settings_of("auto:segregate:traffic"), Ok(("auto", "segregate:traffic")));
        for bad in ["", ":segregate", "4:", "x", "4:x", "segregate", "1:segregate"] {
            assert!(LanePlan::settings_of(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn lanes_have_classes() {
        let classes = |plan: LanePlan, pair| (0..plan.lanes()).map(|lane| plan.class(lane, pair)).collect::<Vec<_>>();
        assert_eq!(classes(LanePlan::SINGLE, 3), [None]);
        assert_eq!(classes(plan("2", ""), 3), [Some(Class::Share(0)), Some(Class::Share(1))]);
        assert_eq!(classes(plan("3", "segregate"), 3), [Some(Class::Latency), Some(Class::Bulk), Some(Class::Bulk)]);
        assert_eq!(classes(plan("2", "segregate:traffic"), 3), [Some(Class::PointToPoint), Some(Class::Collectives)]);
        assert_eq!(plan("4", "segregate").classes(), [Class::Latency, Class::Bulk]);
        assert_eq!(plan("2", "distribute:connection").classes(), [Class::Share(0), Class::Share(1)]);
        assert_eq!(LanePlan::SINGLE.classes(), []);
    }

    #[test]
    fn a_process_deals_the_shares_to_its_peers_in_turn() {
        let plan = plan("4", "distribute:connection");
        for me in 0..20u64 {
            let shares = |peers: std::ops::Range<u64>| {
                let mut counts = [0; 4];
                for peer in peers {
                    let Some(Class::Share(share)) = plan.class(0, me + peer) else { panic!("no share") };
                    counts[usize::from(share)] += 1;
                }
                counts
            };
            assert_eq!(shares(0..32), [8; 4]);
        }
    }

    #[test]
    fn fewer_lanes_make_a_smaller_plan() {
        assert_eq!(plan("8", "segregate").with_lanes(3), plan("3", "segregate"));
        assert_eq!(plan("6", "segregate:traffic").with_lanes(2), plan("2", "segregate:traffic"));
        assert_eq!(plan("6", "segregate:traffic").with_lanes(1), LanePlan::SINGLE);
        assert_eq!(plan("8", "distribute").with_lanes(1).lanes(), 1);
        assert_eq!(plan("8", "distribute:connection").with_lanes(1), plan("8", "distribute:connection"));
        assert_eq!(LanePlan::SINGLE.with_lanes(3), plan("3", "distribute"), "lanes that nobody has planned");
    }

    #[test]
    fn names_and_numbers_are_read_back() {
        let codes: Vec<u8> = (0..=u8::MAX).filter(|code| Class::of_code(*code).is_some()).collect();
        assert_eq!(codes.len(), LANES_MAX + Class::NAMED.len());
        for code in codes {
            let class = Class::of_code(code).unwrap();
            assert_eq!((class.code(), Class::named(&class.to_string())), (Some(code), Some(class)));
        }
        for bad in ["", "share", "share16", "share01", "Latency", "point"] {
            assert_eq!(Class::named(bad), None, "{bad}");
        }
    }

    #[test]
    fn different_plans_have_different_numbers() {
        let mut numbers = std::collections::HashSet::new();
        for (policy, name) in Policy::NAMED {
            let (fewest, _, most) = policy.lanes();
            for count in fewest..=most {
                assert!(numbers.insert(plan(&count.to_string(), name).format_number()), "{count} {name}");
            }
        }
    }
}
