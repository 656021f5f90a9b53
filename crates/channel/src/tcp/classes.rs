//! What the kernel is told about the connections of a class of lanes (decision 0034): marks, how much may wait unsent, pace.
//!
//! What it refuses is logged once for each kind of option, and the connection goes on without it. Pairs with one lane have no class and nothing is told.

use super::{Net, hello::LinkId};
use base::log;
use protocol::lanes::marks::{Mark, Marks, PerClass};
use protocol::lanes::{Class, LanePlan};
use std::io;
use std::net::{IpAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use sys::sock;

base::config! {
    /// Bytes that may wait in the kernel before they leave for the first time, for the lanes of a class that differ from the default (128K for bulk and shares, no
    /// limit for others): bulk=64K,share0=1M; off for no limit at all. What waits longer does so where the next packet's lane is chosen. May differ between ranks.
    TCP_NOTSENT: text = "";
    /// Most that a connection of a class sends: bulk=95% (of its interface's speed) or bulk=900Mbit (bits per second; Kbit, Mbit, Gbit). Empty for no limit. May
    /// differ between ranks.
    LANE_PACING: text = "";
}

/// How fast a connection may send.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Pace {
    /// Bits per second.
    Bits(u64),
    /// Part of the interface's speed.
    Percent(f64),
}

/// What the settings say about all classes.
pub(super) struct Classes {
    pub plan: LanePlan,
    marks: Marks,
    unsent: PerClass<u64>,
    pace: PerClass<Pace>,
    /// Options whose refusal was logged.
    refused: Vec<&'static str>,
}

impl Classes {
    /// As configured; an error names the setting that can't be read.
    pub fn configured() -> Result<Classes, String> {
        let (unsent, pace) = (TCP_NOTSENT.value(), LANE_PACING.value());
        Ok(Classes {
            plan: LanePlan::configured()?,
            marks: Marks::configured()?,
            unsent: PerClass::parse("FERRULE_TCP_NOTSENT", unsent, "a size such as 128K", |text| {
                <u64 as base::config::Value>::parse(text).filter(|size| (1..=1 << 30).contains(size))
            })?,
            pace: PerClass::parse("FERRULE_LANE_PACING", pace, "1% to 100%, or a rate such as 900Mbit", read_pace)?,
            refused: Vec::new(),
        })
    }

    /// Marks the packets of a connection.
    fn mark(&mut self, fd: BorrowedFd<'_>, class: Class) {
        let Mark { dscp, priority } = self.marks.of(class);
        if let Some(dscp) = dscp {
            self.note("DSCP", "FERRULE_LANE_DSCP", class, u64::from(dscp), sock::set_dscp(fd, dscp));
        }
        // Second: the kernel derives a priority from the DSCP.
        if let Some(priority) = priority {
            let done = sock::set_priority(fd, priority);
            self.note("SO_PRIORITY", "FERRULE_LANE_PRIORITY", class, u64::from(priority), done);
        }
    }

    /// Limits what a connection has in the kernel, and its pace.
    fn limit(&mut self, stream: &TcpStream, class: Class) {
        let fd = stream.as_fd();
        if let Some(bytes) = self.unsent.get_or(class, default_unsent(class)) {
            self.note("TCP_NOTSENT_LOWAT", "FERRULE_TCP_NOTSENT", class, bytes, sock::set_unsent_max(fd, bytes as u32));
        }
        let (bits, done) = match self.pace.get(class) {
            None => return,
            Some(Pace::Bits(bits)) => (bits, sock::set_pacing(fd, bits.div_ceil(8))),
            Some(Pace::Percent(percent)) => {
                match stream.local_addr().and_then(|local| speed_at(local.ip().to_canonical())) {
                    Ok(speed) => {
                        let bits = (speed as f64 * percent / 100.0) as u64;
                        (bits, sock::set_pacing(fd, bits.div_ceil(8)))
                    }
                    Err(error) => (0, Err(error)),
                }
            }
        };
        self.note("SO_MAX_PACING_RATE", "FERRULE_LANE_PACING", class, bits, done);
    }

    /// Logs the first refusal of an option.
    fn note(&mut self, option: &'static str, setting: &str, class: Class, value: u64, done: io::Result<()>) {
        let Err(error) = done else { return };
        if !self.refused.contains(&option) {
            self.refused.push(option);
            log!(
                Warn,
                "{option} {value} of lanes of class {class} can't be set: {error}; they go on without it ({setting})"
            );
        }
    }
}

impl Net {
    /// What a link carries; `None` if the pair has one lane without a class.
    fn class_of(&self, link: LinkId) -> Option<Class> {
        self.classes.plan.class(usize::from(link.number), self.id.pair(link.peer))
    }

    /// Marks the packets of a connection that is to be made.
    pub(super) fn mark(&mut self, fd: BorrowedFd<'_>, link: LinkId) {
        if let Some(class) = self.class_of(link) {
            self.classes.mark(fd, class);
        }
    }

    /// Tells the kernel what is to hold for a connection of a link.
    pub(super) fn classify(&mut self, stream: &TcpStream, link: LinkId) {
        if let Some(class) = self.class_of(link) {
            self.classes.mark(stream.as_fd(), class);
            self.classes.limit(stream, class);
        }
    }
}

/// Classes that carry large messages. Less than 128 KiB costs fast links bandwidth; with no limit, a lane's kernel queue takes what another lane could send now.
fn default_unsent(class: Class) -> Option<u64> {
    matches!(class, Class::Bulk | Class::Share(_)).then_some(128 << 10)
}

fn read_pace(text: &str) -> Option<Pace> {
    if let Some(percent) = text.strip_suffix('%') {
        let percent = percent.trim().parse().ok().filter(|percent| (1.0..=100.0).contains(percent));
        return percent.map(Pace::Percent);
    }
    let number = text.strip_suffix("bit")?;
    let (number, unit) = match number.strip_suffix(['K', 'M', 'G']) {
        None => (number, 1.0),
        Some(digits) => (
            digits,
            if number.ends_with('K') {
                1e3
            } else if number.ends_with('M') {
                1e6
            } else {
                1e9
            },
        ),
    };
    let bits = number.trim().parse::<f64>().ok()? * unit;
    (8e3..=1e15).contains(&bits).then_some(Pace::Bits(bits as u64))
}

/// Bits per second of the interface that has a local address.
fn speed_at(local: IpAddr) -> io::Result<u64> {
    let here = sock::interface_addresses()?;
    let (interface, _) =
        here.into_iter().find(|(_, address)| *address == local).ok_or(io::ErrorKind::AddrNotAvailable)?;
    let megabits = speed_of(&interface).ok_or_else(|| io::Error::other(format!("{interface} tells no speed")))?;
    Ok(megabits * 1_000_000)
}

/// Speed of an interface in Mbit/s, if it tells one.
pub(super) fn speed_of(interface: &str) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/sys/class/net/{interface}/speed")).ok()?;
    text.trim().parse().ok().filter(|megabits| *megabits > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paces_are_read() {
        for (text, wanted) in [
            ("95%", Some(Pace::Percent(95.0))),
            ("900Mbit", Some(Pace::Bits(900_000_000))),
            ("2.5Gbit", Some(Pace::Bits(2_500_000_000))),
            ("64Kbit", Some(Pace::Bits(64_000))),
            ("8000bit", Some(Pace::Bits(8000))),
            ("0%", None),
            ("101%", None),
            ("7999bit", None),
            ("900M", None),
            ("nanbit", None),
            ("-1Mbit", None),
        ] {
            assert_eq!(read_pace(text), wanted, "{text}");
        }
    }

    #[test]
    fn a_refusal_is_told_once_for_each_option() {
        let mut classes = Classes::configured().unwrap();
        for class in [Class::Latency, Class::Bulk] {
            let refusal = || Err(io::Error::from_raw_os_error(1));
            classes.note("DSCP", "FERRULE_LANE_DSCP", class, 46, refusal());
            classes.note("SO_PRIORITY", "FERRULE_LANE_PRIORITY", class, 7, refusal());
        }
        assert_eq!(classes.refused, ["DSCP", "SO_PRIORITY"]);
    }
}
