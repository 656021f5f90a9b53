//! Non-blocking collectives that a worker of the node runs while this rank computes (`mpiexec --offload`, decision 0042).
//!
//! Where a schedule is started, either the rank interprets it or a worker does. All processes of a collective must decide alike, so the decision depends only on what
//! all of them know: the job's settings ([`Choices`](crate::comm::choices::Choices)), the communicator and its hint, and the size on which the choice of an algorithm depends.
//! The encoded schedule stays with its plan, so a call that is repeated costs a slot of shared memory and no more.

use super::objects::Objects;
use super::portable::{Channel, Identity, Portable};
use super::schedule::Schedule;
use super::team::Via;
use super::verdicts::Verdict;
use crate::comm::Comm;
use crate::comm::choices::{OFFLOAD_ALL, OFFLOAD_NEVER};
use crate::cs::Section;
use crate::inside::Inside;
use crate::{job, losses};
use base::{Class, Error, Result, log};
use channel::bootstrap::Bootstrap;
use channel::locality;
use channel::offload::{Posted, Request, Workers};
use channel::waiting::Waiting;
use std::cell::{Cell, RefCell};

/// The workers, while MPI is initialised.
static WORKERS: Inside<RefCell<Option<Workers>>> = Inside::new(RefCell::new(None));

/// Numbers of schedules.
static NEXT_ID: Inside<Cell<u64>> = Inside::new(Cell::new(1));

/// Offers this process to the workers of its node, if the job has some.
pub(crate) fn open(cs: &Section, bootstrap: &mut Bootstrap, waiting: &Waiting) -> Result {
    let workers = Workers::open(bootstrap, &waiting.sleep_set()).map_err(|error| {
        log!(Error, "collectives can't be offloaded: {error}; run without --offload");
        Error::new(Class::ERR_OTHER, "this process can't be offered to the workers of its node")
    })?;
    *WORKERS.get(cs).borrow_mut() = workers;
    Ok(())
}

/// Leaves the workers: MPI ends.
pub(crate) fn close(cs: &Section) {
    *WORKERS.get(cs).borrow_mut() = None;
}

/// The size on which all processes have based their choice of an algorithm.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Known {
    /// Bytes of the vector, or of one block.
    pub bytes: usize,
    /// Whether that is true of all blocks.
    pub even: bool,
}

/// A schedule as workers read it.
struct Exported {
    bytes: Vec<u8>,
    id: u64,
    endpoints: usize,
}

/// Whether and how a plan is offloaded; it is found out once for each plan.
#[derive(Default)]
pub enum Export {
    /// Not yet known.
    #[default]
    Unknown,
    /// Only this rank can run it: why.
    Never(Verdict),
    /// Workers can.
    Ready(Box<Ready>),
}

/// A plan that workers can run.
pub struct Ready {
    exported: Exported,
    run: Option<Run>,
}

/// One run of it.
struct Run {
    request: Request,
    posted: Option<Posted>,
    cancelled: bool,
    losses: usize,
}

/// Why the processes of `comm` don't want a collective of this size offloaded; none if they do. On one node a worker that shares the ranks' processors only takes their
/// time: it copies twice and alone what they copy once and together (decision 0042).
fn unwanted(comm: &Comm, known: Option<Known>, workers: &Workers) -> Option<Verdict> {
    if comm.remote.is_none() && comm.size() == 1 {
        return Some(Verdict::Alone);
    }
    match (comm.hints.borrow().offload(), comm.choices.offload_min) {
        (_, OFFLOAD_NEVER) => Some(Verdict::Off),
        (Some(false), _) => Some(Verdict::Hint),
        (Some(true), _) | (None, OFFLOAD_ALL) => None,
        (None, least) => match known {
            None | Some(Known { even: false, .. }) => Some(Verdict::UnknownSize),
            Some(known) if known.bytes < least as usize => Some(Verdict::Small(least)),
            _ if workers.have_processor() || !comm.nodes.is_one_node(comm) => None,
            _ => Some(Verdict::NoProcessor),
        },
    }
}

/// Why no collective of a communicator is offloaded whose processes have agreed on that.
pub fn never(cs: &Section) -> Verdict {
    if WORKERS.get(cs).borrow().is_some() { Verdict::Off } else { Verdict::NoWorkers }
}

/// Why not all processes of `comm` have workers that reach each other: those of this job have, and no others are known to.
fn unserved(comm: &Comm) -> Option<Verdict> {
    let groups = [Some(&comm.group), comm.remote.as_ref()];
    let members = || groups.into_iter().flatten().flat_map(|group| (0..group.size()).map(|i| group.peer(i)));
    let why = match () {
        () if members().any(|peer| job::rank_of(peer).is_none()) => Verdict::OtherJobs,
        () if !locality::allowed().tcp && !members().all(job::is_on_own_node) => Verdict::NoTcp,
        () => return None,
    };
    log!(Info, "collectives of a communicator are run {why}");
    Some(why)
}

impl Export {
    /// The plan begins a run: who is to do it.
    pub fn begin(
        &mut self,
        cs: &Section,
        comm: &Comm,
        (schedule, objects): (&Schedule, &Objects),
        (channels, round): ([Channel; 2], u64),
        known: Option<Known>,
    ) -> Result<Verdict> {
        let why = WORKERS.get(cs).borrow().as_ref().map_or(Some(Verdict::NoWorkers), |w| unwanted(comm, known, w));
        if let Some(why) = why {
            return Ok(why);
        }
        if let Export::Unknown = self {
            *self = export(cs, comm, schedule, objects, known)?;
        }
        let ready = match self {
            Export::Ready(ready) => ready,
            Export::Never(why) => return Ok(*why),
            Export::Unknown => return Ok(Verdict::NoWorkers),
        };
        let exported = &ready.exported;
        let request = Request {
            address: exported.bytes.as_ptr().addr() as u64,
            len: exported.bytes.len() as u64,
            id: exported.id,
            channels: channels.map(|channel| (channel.context, u64::from(channel.tag as u32))),
            round,
        };
        ready.run = Some(Run { request, posted: None, cancelled: false, losses: 0 });
        Ok(Verdict::Worker)
    }

    /// How the run stands: `None` if this rank does it itself.
    pub fn advance(&mut self, cs: &Section, comm: &Comm) -> Option<Option<Result>> {
        let Export::Ready(ready) = self else { return None };
        let run = ready.run.as_mut()?;
        let mut workers = WORKERS.get(cs).borrow_mut();
        let workers = workers.as_mut()?;
        let Some(posted) = run.posted else {
            let number = run.request.channels[0].0.wrapping_add(run.request.channels[0].1);
            run.posted = workers.post(number, &run.request, ready.exported.endpoints);
            return Some(None);
        };
        if let Some(outcome) = workers.outcome(posted) {
            let outcome = match run.cancelled {
                true if losses::is_revoked(cs, comm.context.0) => Err(losses::REVOKED),
                true => Err(losses::LOST),
                false => result_of(outcome),
            };
            ready.run = None;
            return Some(Some(outcome));
        }
        let count = losses::count(cs);
        if std::mem::replace(&mut run.losses, count) != count
            && !run.cancelled
            && (losses::any(cs, |peer| comm.needs(peer)) || losses::is_revoked(cs, comm.context.0))
        {
            run.cancelled = true;
            workers.cancel(posted);
        }
        Some(None)
    }

    /// Before a sleep: true if the run has ended. From now on its end wakes this rank.
    pub fn arm(&self, cs: &Section) -> bool {
        let Export::Ready(ready) = self else { return false };
        let posted = ready.run.as_ref().and_then(|run| run.posted);
        let mut workers = WORKERS.get(cs).borrow_mut();
        posted.zip(workers.as_mut()).is_some_and(|(posted, workers)| workers.arm(posted))
    }
}

/// After a sleep.
pub fn disarm(cs: &Section) {
    if let Some(workers) = WORKERS.get(cs).borrow_mut().as_mut() {
        workers.disarm();
    }
}

fn export(cs: &Section, comm: &Comm, schedule: &Schedule, objects: &Objects, known: Option<Known>) -> Result<Export> {
    if let Some(why) = unserved(comm) {
        return Ok(Export::Never(why));
    }
    let comms = [comm, comm.local.as_deref().unwrap_or(comm)];
    let process_of = |via: Via, peer: u32| job::number_of(comms[via as usize].peer(peer as i32));
    let portable = Portable::new(schedule, objects, Identity::default(), process_of).inspect_err(|_| {
        log!(Error, "a datatype has too many parts that differ for a worker; FERRULE_COLL_OFFLOAD=off or the hint ferrule_offload=false");
    })?;
    if !portable.runs_anywhere() {
        let is_predefined = objects.reduction().is_some_and(|reduction| reduction.op.which().is_some());
        let why = if is_predefined { Verdict::NotPortable } else { Verdict::UserFunction };
        log!(Info, "a collective is run {why}");
        return Ok(Export::Never(why));
    }
    let endpoints = portable.endpoint_count();
    let room = WORKERS.get(cs).borrow().as_ref().map_or(0, Workers::endpoints_max);
    base::ensure!(endpoints <= room, ERR_INTERN, "a collective talks to more processes than the job has");
    let id = NEXT_ID.get(cs).get();
    NEXT_ID.get(cs).set(id + 1);
    let bytes = portable.encode();
    let size = known.map_or("of unknown size".into(), |known| format!("of {} bytes", known.bytes));
    log!(
        Info,
        "a collective {size} is run by a worker: {} steps, {} bytes of schedule",
        schedule.steps().len(),
        bytes.len()
    );
    Ok(Export::Ready(Box::new(Ready { exported: Exported { bytes, id, endpoints }, run: None })))
}

/// What the numbers of workers mean.
fn result_of(outcome: u64) -> Result {
    Err(match outcome {
        0 => return Ok(()),
        1 => Error::new(Class::ERR_OTHER, "a worker can't reach the memory of this process, or of another one"),
        2 => Error::new(Class::ERR_TRUNCATE, "a message is longer than its receive"),
        3 => losses::LOST,
        _ => Error::new(Class::ERR_INTERN, "a worker has refused a schedule"),
    })
}
