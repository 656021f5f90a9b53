//! Schedules bound to a communicator: run at once (blocking), started (non-blocking), or kept for `MPI_Start` (persistent).
//!
//! Plans are pooled: in steady state a blocking collective allocates nothing. Short plans are also remembered with the
//! call that they are for: a program that repeats a call, as most do, gets its plan back as it was ([`Call`]).

use super::builder::Builder;
use super::call::{Call, MEMO_PLANS, Remembered};
use super::comm_view::CommView;
use super::execute::Cursor;
use super::offload::{self, Export, Known};
use super::verdicts::{self, Verdict};
use super::wire::{CommWire, Numbering, Tags};
use crate::comm::choices::OFFLOAD_NEVER;
use crate::comm::{Comm, watch};
use crate::cs::Section;
use crate::inside::Inside;
use crate::losses;
use crate::p2p::transfer::Transfer;
use crate::progress::{self, Active};
use crate::request::Operation;
use crate::status::Status;
use base::Result;
use base::ids::Plane;
use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};

/// Plans that the pool keeps.
const POOL_PLANS: usize = 8;
/// Remembered plans have at most so many steps and so much temporary memory.
const MEMO_STEPS: usize = 64;
const MEMO_BYTES: usize = 8 << 10;

struct State {
    builder: Builder,
    cursor: Cursor<Transfer>,
    comm: Option<Rc<Comm>>,
    numbering: Numbering,
    tags: Tags,
    /// The call that the plan is for, if it may be remembered.
    call: Remembered,
    /// The size that all processes know.
    known: Option<Known>,
    /// For the workers.
    export: Export,
}

static MEMO: Inside<[Cell<Option<Box<State>>>; MEMO_PLANS]> = Inside::new([const { Cell::new(None) }; MEMO_PLANS]);

/// One collective of one process, ready to run.
pub struct Plan(Option<Box<State>>);

#[expect(clippy::vec_box, reason = "a state moves between pool and plan without being copied")]
static POOL: Inside<RefCell<Vec<Box<State>>>> = Inside::new(RefCell::new(Vec::new()));

impl State {
    #[inline]
    fn take(cs: &Section) -> Box<State> {
        POOL.get(cs).borrow_mut().pop().unwrap_or_else(|| {
            let (builder, cursor) = (Builder::default(), Cursor::default());
            let (numbering, tags) = (Numbering::InOrder(Plane::Collective), Tags::default());
            Box::new(State {
                builder,
                cursor,
                comm: None,
                numbering,
                tags,
                call: Remembered::default(),
                known: None,
                export: Export::Unknown,
            })
        })
    }

    /// Back into the pool.
    #[inline]
    fn recycle(mut self: Box<State>, cs: &Section) {
        self.builder.reset();
        self.comm = None;
        self.export = Export::Unknown;
        self.call.forget();
        let mut pool = POOL.get(cs).borrow_mut();
        if pool.len() < POOL_PLANS {
            pool.push(self);
        }
    }
}

impl Drop for Plan {
    #[inline]
    fn drop(&mut self) {
        let Some(state) = self.0.take() else { return };
        // SAFETY: plans are made, kept and dropped inside, and nothing below outlives this function.
        let cs = unsafe { Section::assume() };
        let old = match state.call.place() {
            Some(place) => MEMO.get(cs)[place].replace(Some(state)),
            None => Some(state),
        };
        if let Some(old) = old {
            old.recycle(cs);
        }
    }
}

impl Plan {
    /// The plan that `build` writes for this process of `comm`. It gets its message tag when it starts: a call that `build` refuses for
    /// its arguments has not happened, whatever the other processes do.
    #[inline]
    pub fn new(
        cs: &Section,
        comm: &Rc<Comm>,
        plane: Plane,
        build: impl FnOnce(&mut Builder, &CommView<'_>) -> Result,
    ) -> Result<Plan> {
        Plan::numbered(cs, comm, Numbering::InOrder(plane), build)
    }

    /// As [`Plan::new`] for the program's collectives: if the last plan for the same call is still remembered, it is used again.
    #[inline]
    pub fn recall(
        cs: &Section,
        comm: &Rc<Comm>,
        call: Call<'_>,
        build: impl FnOnce(&mut Builder, &CommView<'_>) -> Result,
    ) -> Result<Plan> {
        let memo = &MEMO.get(cs)[call.place()];
        if let Some(state) = memo.take() {
            if state.call.is(&call) && state.comm.as_ref().is_some_and(|c| Rc::ptr_eq(c, comm)) {
                return Ok(Plan(Some(state)));
            }
            memo.set(Some(state));
        }
        let mut plan = Plan::new(cs, comm, Plane::Collective, build)?;
        let state = plan.state();
        if state.builder.schedule().steps().len() <= MEMO_STEPS && state.builder.temp_total() <= MEMO_BYTES {
            state.call.remember(&call);
        }
        Ok(plan)
    }

    /// As [`Plan::new`] with messages that are told apart in another way.
    #[inline]
    pub fn numbered(
        cs: &Section,
        comm: &Rc<Comm>,
        numbering: Numbering,
        build: impl FnOnce(&mut Builder, &CommView<'_>) -> Result,
    ) -> Result<Plan> {
        let mut state = State::take(cs);
        state.numbering = numbering;
        state.comm = Some(Rc::clone(comm));
        let mut plan = Plan(Some(state));
        let known = Cell::new(None);
        let view = CommView {
            rank: comm.rank as usize,
            size: comm.size() as usize,
            remote: comm.remote.as_ref().map(|remote| remote.size() as usize),
            layout: comm.nodes.of(comm),
            choices: &comm.choices,
            known: (comm.choices.offload_min != OFFLOAD_NEVER).then_some(&known),
        };
        build(&mut plan.state().builder, &view)?;
        plan.state().known = known.get();
        Ok(plan)
    }

    #[inline]
    fn state(&mut self) -> &mut State {
        self.0.as_mut().expect("a plan has its state until it is dropped")
    }

    /// The plan gets its message tags: `take` is [`Tags::blocking`] or [`Tags::nonblocking`].
    #[inline]
    fn take_tags(&mut self, take: impl FnOnce(&Comm, Numbering) -> Tags) {
        let State { comm, numbering, tags, .. } = self.state();
        if let Some(comm) = comm {
            *tags = take(comm, *numbering);
        }
    }

    /// True at the end of the schedule.
    #[inline]
    fn advance<const BLOCK: bool>(&mut self, cs: &mut Section) -> bool {
        let State { builder, cursor, comm, tags, .. } = self.state();
        let comm = comm.as_ref().expect("a plan has its communicator until it is dropped");
        let mut wire = CommWire::new(cs, comm, *tags, builder.objects());
        // SAFETY: the caller of the collective keeps its buffers until it is complete (MPI-5.0, 6.12), and the builder
        // owns the rest.
        unsafe { cursor.advance::<BLOCK, _>(builder.schedule(), &mut wire) }
    }

    /// The `round`-th run of a non-blocking collective begins: true if a worker does it.
    fn offer(&mut self, cs: &Section, round: u64) -> Result<bool> {
        let State { builder, comm, numbering, tags, known, export, .. } = self.state();
        let Some(comm) = comm else { return Ok(false) };
        let verdict = if comm.choices.offload_min == OFFLOAD_NEVER {
            offload::never(cs)
        } else {
            let identity = (tags.channels(comm), round);
            export.begin(cs, comm, (builder.schedule(), builder.objects()), identity, *known)?
        };
        if let Numbering::InOrder(Plane::Collective) = numbering {
            let known = known.filter(|known| known.even);
            verdicts::note(cs, comm, tags.call(), known, verdict);
        }
        Ok(verdict == Verdict::Worker)
    }

    /// Looks for the end of a run that a worker does.
    fn look(&mut self, cs: &Section) -> Option<Result> {
        let State { builder, comm, export, .. } = self.state();
        let comm = comm.as_ref().expect("a plan has its communicator until it is dropped");
        let outcome = export.advance(cs, comm).unwrap_or(Some(Ok(())))?;
        // A defect is this process's own affair, which the worker doesn't know.
        Some(builder.schedule().defect().map_or(outcome, Err))
    }

    /// Tells tools that want to know that a collective of the program begins or ends.
    #[inline]
    fn tell(&mut self, cs: &mut Section, begins: bool) {
        if let Some(watcher) = watch::watcher(cs)
            && let State { comm: Some(comm), numbering: Numbering::InOrder(Plane::Collective), .. } = self.state()
        {
            let comm = Rc::clone(comm);
            watcher(cs, &comm, begins);
        }
    }

    /// An error if the communicator is revoked.
    #[inline]
    fn ensure_valid(&mut self, cs: &Section) -> Result {
        self.state().comm.as_ref().map_or(Ok(()), |comm| losses::ensure_valid(cs, comm.context.0))
    }

    #[inline]
    fn rewind(&mut self) {
        let State { builder, cursor, .. } = self.state();
        cursor.rewind(builder.schedule());
    }
}

/// Runs a plan to its end: a blocking collective.
#[inline]
pub fn run(cs: &mut Section, mut plan: Plan) -> Result {
    plan.ensure_valid(cs)?;
    plan.take_tags(Tags::blocking);
    plan.rewind();
    plan.tell(cs, true);
    plan.advance::<true>(cs);
    plan.tell(cs, false);
    plan.state().cursor.outcome()
}

/// Starts a plan: a non-blocking collective. It is active already.
pub fn start(cs: &mut Section, mut plan: Plan) -> Result<Rc<dyn Operation>> {
    plan.take_tags(Tags::nonblocking);
    let collective = Nonblocking::new(plan);
    collective.start(cs)?;
    Ok(collective)
}

/// Keeps a plan for later: a persistent collective. Its [`Operation::start`] makes it active.
pub fn persist(mut plan: Plan) -> Rc<dyn Operation> {
    plan.take_tags(Tags::nonblocking);
    Nonblocking::new(plan)
}

/// A plan that advances when the library makes progress.
struct Nonblocking {
    plan: RefCell<Plan>,
    outcome: Cell<Option<Result>>,
    /// How often it has been started.
    rounds: Cell<u64>,
    /// A worker runs it.
    is_offloaded: Cell<bool>,
    me: Weak<Nonblocking>,
}

impl Nonblocking {
    fn new(plan: Plan) -> Rc<Nonblocking> {
        Rc::new_cyclic(|me| Nonblocking {
            plan: RefCell::new(plan),
            outcome: Cell::new(None),
            rounds: Cell::new(0),
            is_offloaded: Cell::new(false),
            me: Weak::clone(me),
        })
    }
}

impl Active for Nonblocking {
    fn advance(&self, cs: &mut Section) -> bool {
        // Busy if an operation of the program, called from here, makes progress.
        let Ok(mut plan) = self.plan.try_borrow_mut() else { return false };
        if self.is_offloaded.get() {
            let outcome = plan.look(cs);
            if outcome.is_some() {
                plan.tell(cs, false);
            }
            self.outcome.set(outcome);
            return outcome.is_some();
        }
        let ended = plan.advance::<false>(cs);
        if ended {
            plan.tell(cs, false);
            self.outcome.set(Some(plan.state().cursor.outcome()));
        }
        ended
    }

    fn arm(&self, cs: &Section) -> bool {
        self.is_offloaded.get() && self.plan.try_borrow_mut().is_ok_and(|mut plan| plan.state().export.arm(cs))
    }

    fn disarm(&self, cs: &Section) {
        if self.is_offloaded.get() {
            offload::disarm(cs);
        }
    }
}

impl Operation for Nonblocking {
    fn start(&self, cs: &mut Section) -> Result {
        self.plan.borrow_mut().ensure_valid(cs)?;
        self.plan.borrow_mut().rewind();
        self.outcome.set(None);
        let round = self.rounds.replace(self.rounds.get() + 1);
        self.is_offloaded.set(self.plan.borrow_mut().offer(cs, round)?);
        self.plan.borrow_mut().tell(cs, true);
        if let Some(me) = self.me.upgrade() {
            progress::activate(cs, me);
        }
        Ok(())
    }

    fn outcome(&self, _cs: &Section) -> Option<Result<Status>> {
        self.outcome.get().map(|outcome| outcome.map(|()| Status::EMPTY))
    }
}
