//! Who has run the non-blocking and persistent collectives of this process, and why: what `ferrule why --collectives` prints when the program ends.
//!
//! All processes of a communicator decide alike, so its first one speaks for them; of an inter-communicator that of the group with the lower one.

use super::offload::Known;
use crate::comm::Comm;
use crate::cs::Section;
use crate::inside::Inside;
use crate::job;
use base::log;
use channel::profile::Call;
use channel::why::WHY_COLLECTIVES;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;

/// Lines at most; calls on further communicators are only counted.
const LINES_MAX: usize = 256;

/// Who runs a collective, and why.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Verdict {
    /// A worker.
    Worker,
    /// The job has no workers.
    NoWorkers,
    /// A setting of rank 0 says so.
    Off,
    /// The hint of the communicator says so.
    Hint,
    /// Not all processes know how much it is.
    UnknownSize,
    /// It is too small.
    Small(u32),
    /// On one node, and the workers share the ranks' processors.
    NoProcessor,
    /// The communicator has one process.
    Alone,
    /// The communicator has processes of other jobs.
    OtherJobs,
    /// Workers of several nodes need TCP.
    NoTcp,
    /// Its operation is a function of the program.
    UserFunction,
    /// What its operation does depends on the process: logicals of Fortran.
    NotPortable,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reason = match self {
            Verdict::Worker => return f.write_str("by a worker"),
            Verdict::NoWorkers => "the job has no workers: mpiexec --offload N",
            Verdict::Off => "FERRULE_COLL_OFFLOAD=off",
            Verdict::Hint => "the communicator has the hint ferrule_offload=false",
            Verdict::UnknownSize => {
                "not all of them know its size (FERRULE_COLL_OFFLOAD=all, or the hint ferrule_offload=true)"
            }
            Verdict::Small(least) => {
                return write!(f, "by the ranks: less than FERRULE_COLL_OFFLOAD_MIN_BYTES={least}");
            }
            Verdict::NoProcessor => {
                "on one node workers need a processor that no rank uses (FERRULE_COLL_OFFLOAD=all, or the hint ferrule_offload=true)"
            }
            Verdict::Alone => "the communicator has one process",
            Verdict::OtherJobs => "the communicator has processes of other jobs",
            Verdict::NoTcp => "workers of several nodes need TCP, which FERRULE_CHANNELS excludes",
            Verdict::UserFunction => "its operation is a function of the program",
            Verdict::NotPortable => "its operation is on logicals of Fortran, whose values are the program's",
        };
        write!(f, "by the ranks: {reason}")
    }
}

/// Calls of one function on one communicator that went the same way.
struct Line {
    comm: String,
    ranks: i32,
    times: u64,
    /// Least and most bytes, of calls whose size is known.
    bytes: Option<(usize, usize)>,
}

/// By function, communicator and verdict.
#[derive(Default)]
struct Table {
    lines: BTreeMap<(&'static str, u64, Verdict), Line>,
    left_out: u64,
}

static TABLE: Inside<RefCell<Option<Table>>> = Inside::new(RefCell::new(None));

/// From now on calls are noted, if the setting says so.
pub(crate) fn open(cs: &Section) {
    *TABLE.get(cs).borrow_mut() = WHY_COLLECTIVES.value().then(Table::default);
}

/// `call` starts a collective on `comm` of this size.
#[inline]
pub fn note(cs: &Section, comm: &Comm, call: Call, known: Option<Known>, verdict: Verdict) {
    if let Some(table) = TABLE.get(cs).borrow_mut().as_mut()
        && speaks(comm)
    {
        let name = comm.owner.describe().unwrap_or_else(|| "a communicator of the library".into());
        let key = (call.map_or("a collective", |name| *name), comm.context.0, verdict);
        table.add(key, name, comm.size(), known.map(|known| known.bytes));
    }
}

/// Whether this process speaks for the communicator.
fn speaks(comm: &Comm) -> bool {
    let is_first = |peer| comm.remote.as_ref().is_none_or(|remote| job::id_of(peer) < job::id_of(remote.peer(0)));
    comm.rank == 0 && is_first(comm.group.peer(0))
}

impl Table {
    fn add(&mut self, key: (&'static str, u64, Verdict), comm: String, ranks: i32, bytes: Option<usize>) {
        if self.lines.len() >= LINES_MAX && !self.lines.contains_key(&key) {
            self.left_out += 1;
            return;
        }
        let line = self.lines.entry(key).or_insert(Line { comm, ranks, times: 0, bytes: None });
        line.times += 1;
        if let Some(bytes) = bytes {
            let (least, most) = line.bytes.unwrap_or((bytes, bytes));
            line.bytes = Some((least.min(bytes), most.max(bytes)));
        }
    }

    fn text(&self) -> Vec<String> {
        let mut all: Vec<String> = self
            .lines
            .iter()
            .map(|((call, _, verdict), line)| {
                let bytes = match line.bytes {
                    Some((least, most)) if least == most => format!(" of {least} bytes"),
                    Some((least, most)) => format!(" of {least} to {most} bytes"),
                    None => String::new(),
                };
                let times = if line.times == 1 { "once".into() } else { format!("{} times", line.times) };
                format!("{call}{bytes} on {} ({} ranks), {times}, {verdict}", line.comm, line.ranks)
            })
            .collect();
        if self.left_out > 0 {
            all.push(format!("and {} collectives more", self.left_out));
        }
        all
    }
}

/// MPI ends: prints what was noted.
pub(crate) fn close(cs: &Section) {
    let Some(table) = TABLE.get(cs).borrow_mut().take() else { return };
    for line in table.text() {
        log::write(log::Level::Info, format_args!("why: {line}"));
    }
    if table.lines.is_empty() && job::me() == job::world()[0] {
        log::write(
            log::Level::Info,
            format_args!(
                "why: rank 0 has started no non-blocking or persistent collective; the ranks run blocking ones"
            ),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_that_go_the_same_way_are_one_line() {
        let mut table = Table::default();
        for (call, context, verdict, bytes) in [
            ("MPI_Ialltoall", 1, Verdict::Worker, Some(65_536)),
            ("MPI_Ialltoall", 1, Verdict::Small(32_768), Some(400)),
            ("MPI_Ialltoall", 1, Verdict::Small(32_768), Some(8)),
            ("MPI_Ialltoall", 1, Verdict::Worker, Some(65_536)),
            ("MPI_Ialltoallv", 2, Verdict::UnknownSize, None),
        ] {
            table.add((call, context, verdict), format!("comm{context}"), 4, bytes);
        }
        let text = table.text();
        assert_eq!(text[0], "MPI_Ialltoall of 65536 bytes on comm1 (4 ranks), 2 times, by a worker");
        assert_eq!(
            text[1],
            "MPI_Ialltoall of 8 to 400 bytes on comm1 (4 ranks), 2 times, by the ranks: less than FERRULE_COLL_OFFLOAD_MIN_BYTES=32768"
        );
        assert!(text[2].starts_with("MPI_Ialltoallv on comm2 (4 ranks), once, by the ranks: not all"), "{}", text[2]);
        assert_eq!(text.len(), 3);
    }

    #[test]
    fn lines_are_bounded() {
        let mut table = Table::default();
        for context in 0..LINES_MAX as u64 + 5 {
            table.add(("MPI_Ibcast", context, Verdict::Worker), "comm".into(), 2, None);
        }
        assert_eq!(table.text().len(), LINES_MAX + 1);
        assert_eq!(table.text()[LINES_MAX], "and 5 collectives more");
    }
}
