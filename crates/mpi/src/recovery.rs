//! User-level failure mitigation (`mpi-ext.h`; decision 0053): a job that has lost processes revokes, agrees, shrinks and goes on.
//!
//! An agreement is a vote that mpiexec counts: it outlives all ranks and knows which ones are dead. So it needs no message between members, works on revoked
//! communicators, and ends whoever dies meanwhile. [`shrink`] is an agreement whose verdict is who is dead and the context of the new communicator. What
//! [`revoke`] ends, [`crate::losses`] and the engine say.

use crate::comm::agree::{self, is_context, proposals};
use crate::comm::{self, COMMS, Comm};
use crate::cs::Section;
use crate::group::Group;
use crate::handle::Handle;
use crate::losses::LOST;
use crate::progress::{self, Active};
use crate::request::{self, Operation};
use crate::status::Status;
use crate::{dynamic, engine, job};
use base::ids::{Plane, Proposer};
use base::{ContextId, Error, Peer, Result, ensure};
use protocol::control::decode;
use protocol::control::spawn::{Request, Verdict, Vote, ranks_of, runs};
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;

/// Number of the agreement of `MPI_Finalize`; others count from 0.
const AT_END: u64 = u64::MAX;
/// Contexts of a new communicator: its own and that of each group's local communicator.
const CONTEXTS: usize = 3;

/// The processes of both groups.
fn members(comm: &Comm) -> impl Iterator<Item = Peer> + Clone + '_ {
    [Some(&comm.group), comm.remote.as_ref()].into_iter().flatten().flat_map(|group| group.peers())
}

/// The ranks in `MPI_COMM_WORLD` of processes of this job.
fn world_ranks(peers: impl Iterator<Item = Peer>) -> Vec<(u32, u32)> {
    let ranks: BTreeSet<u32> = peers.filter_map(job::rank_of).map(|rank| rank.0).collect();
    runs(ranks)
}

fn ensure_one_job(comm: &Comm) -> Result {
    ensure!(
        job::contains_all(members(comm)),
        ERR_UNSUPPORTED_OPERATION,
        "processes of several jobs can't agree, and their communicators not be revoked, shrunk: each job's mpiexec knows its own processes only"
    );
    Ok(())
}

/// `MPIX_Comm_revoke`: not collective. Returns when this process is done with the communicator; the others are told.
pub fn revoke(cs: &Section, comm: &Rc<Comm>) -> Result {
    ensure_one_job(comm)?;
    let context = comm.context;
    comm.set_revoked();
    engine::with(cs, |engine| engine.revoke(context));
    if dynamic::has_agent(cs) {
        dynamic::ask(cs, Request::Revoke { context: context.0 })?;
    }
    Ok(())
}

/// `MPIX_Comm_is_revoked`.
pub fn is_revoked(cs: &mut Section, comm: &Rc<Comm>) -> bool {
    if !comm.is_revoked() {
        progress::poll_some(cs);
    }
    comm.is_revoked()
}

/// `MPIX_Comm_get_failed`: processes of the communicator that are known to be gone.
pub fn failed(cs: &mut Section, comm: &Rc<Comm>) -> Rc<Group> {
    progress::poll_some(cs);
    let known = comm.failures.known(cs, comm);
    Group::shared(cs, known)
}

/// `MPIX_Comm_ack_failed`: acknowledges the first `count` of [`failed`]; how many are acknowledged.
pub fn acknowledge(cs: &Section, comm: &Rc<Comm>, count: usize) -> usize {
    comm.failures.known(cs, comm);
    let acknowledged = comm.failures.acknowledge(count);
    engine::with(cs, |engine| engine.reconsider_interrupted());
    acknowledged
}

/// `MPIX_Comm_failure_get_acked`.
pub fn acknowledged(cs: &Section, comm: &Rc<Comm>) -> Rc<Group> {
    Group::shared(cs, comm.failures.acknowledged())
}

/// How an agreement stands.
enum State {
    /// The number of the request.
    Asked(u64),
    Told(Verdict),
    Ended(Result),
}

/// What is done with a verdict.
type Finish = Box<dyn FnOnce(&mut Section, Verdict) -> Result>;

/// An agreement as one member sees it.
struct Agreement {
    comm: Rc<Comm>,
    state: RefCell<State>,
    finish: Cell<Option<Finish>>,
}

impl Agreement {
    /// Votes.
    fn begin(
        cs: &Section,
        comm: &Rc<Comm>,
        (number, flag, contexts): (u64, u32, Vec<u64>),
        finish: Finish,
    ) -> Result<Agreement> {
        ensure_one_job(comm)?;
        let acknowledged = world_ranks(comm.failures.acknowledged().into_iter());
        let vote =
            Vote { context: comm.context.0, number, members: world_ranks(members(comm)), flag, acknowledged, contexts };
        let is_alone = members(comm).all(|member| member == job::me());
        let state = match is_alone || !dynamic::has_agent(cs) {
            true => State::Told(Verdict { flag, dead: Vec::new(), acknowledged: true, contexts: vote.contexts }),
            false => State::Asked(dynamic::ask(cs, Request::Agree { vote })?),
        };
        Ok(Agreement { comm: Rc::clone(comm), state: RefCell::new(state), finish: Cell::new(Some(finish)) })
    }

    /// The verdict if it is there.
    fn take_verdict(&self, cs: &Section, number: u64) -> Result<Option<Verdict>> {
        let Some(answer) = dynamic::take_answer(cs, number)? else { return Ok(None) };
        let bytes =
            answer.into_result("mpiexec has refused the agreement: its members have called different functions")?;
        decode(&bytes).map(Some)
    }

    /// Waits for the end.
    fn wait(&self, cs: &mut Section) -> Result {
        progress::wait_until(cs, |cs| self.advance(cs));
        match *self.state.borrow() {
            State::Ended(result) => result,
            State::Asked(_) | State::Told(_) => unreachable!("the wait ends with the agreement"),
        }
    }
}

impl Active for Agreement {
    fn advance(&self, cs: &mut Section) -> bool {
        let verdict = match &*self.state.borrow() {
            State::Asked(number) => self.take_verdict(cs, *number).transpose(),
            State::Told(verdict) => Some(Ok(verdict.clone())),
            State::Ended(_) => return true,
        };
        let Some(verdict) = verdict else { return false };
        let outcome = verdict.and_then(|verdict| {
            let is_dead = dead(&verdict);
            self.comm.failures.learn(members(&self.comm).filter(|member| is_dead(*member)));
            self.finish.take().map_or(Ok(()), |finish| finish(cs, verdict))
        });
        *self.state.borrow_mut() = State::Ended(outcome);
        true
    }
}

impl Operation for Agreement {
    fn start(&self, _cs: &mut Section) -> Result {
        Ok(())
    }

    fn outcome(&self, _cs: &Section) -> Option<Result<Status>> {
        match *self.state.borrow() {
            State::Ended(result) => Some(result.map(|()| Status::EMPTY)),
            State::Asked(_) | State::Told(_) => None,
        }
    }
}

/// Whether a process is among the dead of a verdict.
fn dead(verdict: &Verdict) -> impl Fn(Peer) -> bool + use<> {
    let dead: BTreeSet<u32> = ranks_of(&verdict.dead, job::world_size()).collect();
    move |peer| job::rank_of(peer).is_some_and(|rank| dead.contains(&rank.0))
}

fn agreement(cs: &Section, comm: &Rc<Comm>, flag: i32, place: impl FnOnce(i32) + 'static) -> Result<Agreement> {
    let finish = move |_: &mut Section, verdict: Verdict| {
        place(verdict.flag as i32);
        if verdict.dead.is_empty() || verdict.acknowledged { Ok(()) } else { Err(LOST) }
    };
    Agreement::begin(cs, comm, (comm.failures.next_agreement(), flag as u32, Vec::new()), Box::new(finish))
}

/// `MPIX_Comm_agree`: the bits that all who live have in `flag`, the same for everybody, go to `place` also when a failure that not all have acknowledged is
/// the outcome.
pub fn agree(cs: &mut Section, comm: &Rc<Comm>, flag: i32, place: &mut i32) -> Result {
    let result = Rc::new(Cell::new(flag));
    let told = Rc::clone(&result);
    let outcome = agreement(cs, comm, flag, move |flag| told.set(flag))?.wait(cs);
    *place = result.get();
    outcome
}

/// `MPIX_Comm_iagree`: `place` gets the flag when the request is complete.
pub fn iagree(cs: &mut Section, comm: &Rc<Comm>, flag: i32, place: impl FnOnce(i32) + 'static) -> Result<Handle> {
    let agreement = Rc::new(agreement(cs, comm, flag, place)?);
    progress::activate(cs, Rc::<Agreement>::clone(&agreement));
    Ok(request::enter_collective(cs, agreement, &comm.owner))
}

/// The communicator of those who live, with these contexts.
fn survivors(cs: &Section, comm: &Comm, verdict: &Verdict) -> Result<Comm> {
    let [shared, low, high] = *verdict.contexts.as_slice() else { return Err(agree::NO_CONTEXT) };
    ensure!([shared, low, high].into_iter().all(is_context), ERR_INTERN, "mpiexec tells contexts that are none");
    let is_dead = dead(verdict);
    let alive = |group: &Group| Group::shared(cs, group.peers().filter(|peer| !is_dead(*peer)).collect());
    let group = alive(&comm.group);
    let new = match &comm.remote {
        None => Comm::child(comm, ContextId(shared), group),
        Some(remote) => {
            let is_lower = agree::is_lower(&comm.group, Some(remote.peer(0)));
            let remote = alive(remote);
            ensure!(remote.size() > 0, ERR_PROC_ABORTED, "no process of the other group is left");
            Comm::inter_child(comm, ContextId(shared), ContextId(if is_lower { low } else { high }), group, remote)
        }
    };
    Ok(new)
}

fn shrinking(cs: &Section, comm: &Rc<Comm>, finish: Finish) -> Result<Agreement> {
    let contexts = proposals::<CONTEXTS>(cs, comm.context.plane(Plane::Management));
    let contexts = contexts.into_iter().filter(|word| is_context(*word)).collect();
    Agreement::begin(cs, comm, (comm.failures.next_agreement(), 0, contexts), finish)
}

/// `MPIX_Comm_shrink`: a communicator of those who live, in the same order; also of a revoked one.
pub fn shrink(cs: &mut Section, comm: &Rc<Comm>) -> Result<Rc<Comm>> {
    let new = Rc::new(Cell::new(None));
    let (place, parent) = (Rc::clone(&new), Rc::clone(comm));
    let finish = move |cs: &mut Section, verdict: Verdict| {
        place.set(Some(comm::publish(cs, survivors(cs, &parent, &verdict)?)));
        Ok(())
    };
    shrinking(cs, comm, Box::new(finish))?.wait(cs)?;
    new.take().ok_or(Error::new(base::Class::ERR_INTERN, "the agreement has ended without a communicator"))
}

/// `MPIX_Comm_ishrink`: the handles of the communicator, which is of use when the request is complete, and of the request.
pub fn ishrink(cs: &mut Section, comm: &Rc<Comm>) -> Result<(Handle, Handle)> {
    let unborn = Comm::child(comm, ContextId::new(Proposer::NOBODY, 0), Rc::clone(&comm.group));
    let unborn = comm::publish(cs, unborn);
    let (handle, parent) = (unborn.handle(), Rc::clone(comm));
    let finish = move |cs: &mut Section, verdict: Verdict| {
        let new = survivors(cs, &parent, &verdict)?.replacing(cs, &unborn);
        comm::learn_revocation(cs, &new);
        COMMS.get(cs).with(handle, |slot| *slot = Rc::new(new));
        Ok(())
    };
    let agreement = Rc::new(shrinking(cs, comm, Box::new(finish))?);
    progress::activate(cs, Rc::<Agreement>::clone(&agreement));
    Ok((handle, request::enter_collective(cs, agreement, &comm.owner)))
}

/// In `MPI_Finalize`: returns when all members of a revoked `MPI_COMM_WORLD` have come, or are gone.
pub(crate) fn meet_at_end(cs: &mut Section, world: &Rc<Comm>) -> Result {
    Agreement::begin(cs, world, (AT_END, 0, Vec::new()), Box::new(|_, _| Ok(())))?.wait(cs)
}
