//! Programs bound to a communicator: run at once (blocking), started in the background, or kept for `MPI_Start`.
//!
//! Plans are pooled: in steady state a blocking collective allocates nothing.

use super::execute::Cursor;
use super::program::Program;
use super::select;
use super::site::Site;
use super::wire::{CommWire, Tags};
use crate::comm::Comm;
use crate::p2p::transfer::Transfer;
use crate::progress::{self, Active};
use crate::request::Operation;
use crate::status::Status;
use base::Result;
use base::ids::Plane;
use std::cell::{Cell, RefCell, UnsafeCell};
use std::rc::{Rc, Weak};

/// Plans that the pool keeps.
const POOL_PLANS: usize = 8;

struct State {
    program: Program,
    cursor: Cursor<Transfer>,
    comm: Option<Rc<Comm>>,
    tags: Tags,
}

/// One collective of one process, ready to run.
pub struct Plan(Option<Box<State>>);

struct Pool(UnsafeCell<Vec<Box<State>>>);

// SAFETY: only reached inside the critical section (`cs`), so by one thread at a time.
unsafe impl Sync for Pool {}

static POOL: Pool = Pool(UnsafeCell::new(Vec::new()));

impl Pool {
    #[inline]
    fn take(&self) -> Box<State> {
        // SAFETY: inside the critical section, and the borrow ends here.
        let pooled = unsafe { (*self.0.get()).pop() };
        pooled.unwrap_or_else(|| {
            let (program, cursor) = (Program::default(), Cursor::default());
            Box::new(State { program, cursor, comm: None, tags: Tags::default() })
        })
    }

    #[inline]
    fn put(&self, state: Box<State>) {
        // SAFETY: inside the critical section, and the borrow ends here; pushing calls nothing of ours.
        let pool = unsafe { &mut *self.0.get() };
        if pool.len() < POOL_PLANS {
            pool.push(state);
        }
    }
}

impl Drop for Plan {
    #[inline]
    fn drop(&mut self) {
        if let Some(mut state) = self.0.take() {
            state.program.reset();
            state.comm = None;
            POOL.put(state);
        }
    }
}

impl Plan {
    /// The plan that `build` writes for this process of `comm`. Takes a message tag even if `build` fails, so that the
    /// processes of the communicator stay in step.
    #[inline]
    pub fn new(comm: &Rc<Comm>, plane: Plane, build: impl FnOnce(&mut Program, &Site<'_>) -> Result) -> Result<Plan> {
        Plan::with_tags(comm, Tags::next(comm, plane), build)
    }

    /// As [`Plan::new`] with given tags.
    #[inline]
    pub fn with_tags(
        comm: &Rc<Comm>,
        tags: Tags,
        build: impl FnOnce(&mut Program, &Site<'_>) -> Result,
    ) -> Result<Plan> {
        let mut state = POOL.take();
        state.tags = tags;
        state.comm = Some(Rc::clone(comm));
        let mut plan = Plan(Some(state));
        let site = Site {
            rank: comm.rank as usize,
            size: comm.size() as usize,
            remote: comm.remote.as_ref().map(|remote| remote.size() as usize),
            layout: comm.nodes.of(comm),
            oversubscribed: select::is_oversubscribed(),
            forced: None,
        };
        build(&mut plan.state().program, &site)?;
        Ok(plan)
    }

    #[inline]
    fn state(&mut self) -> &mut State {
        self.0.as_mut().expect("a plan has its state until it is dropped")
    }

    /// True at the end of the program.
    #[inline]
    fn advance<const BLOCK: bool>(&mut self) -> bool {
        let State { program, cursor, comm, tags } = self.state();
        let comm = comm.as_ref().expect("a plan has its communicator until it is dropped");
        let mut wire = CommWire::new(comm, *tags);
        // SAFETY: the caller of the collective keeps its buffers until it is complete (MPI-5.0, 6.12), and the program
        // owns the rest.
        unsafe { cursor.advance::<BLOCK, _>(program, &mut wire) }
    }

    #[inline]
    fn rewind(&mut self) {
        let State { program, cursor, .. } = self.state();
        cursor.rewind(program);
    }
}

/// Runs a plan to its end: a blocking collective.
#[inline]
pub fn run(mut plan: Plan) -> Result {
    plan.rewind();
    plan.advance::<true>();
    plan.state().cursor.outcome()
}

/// Starts a plan in the background: a non-blocking collective. It is active already.
pub fn start(plan: Plan) -> Result<Rc<dyn Operation>> {
    let schedule = Schedule::new(plan);
    schedule.start()?;
    Ok(schedule)
}

/// Keeps a plan for later: a persistent collective. Its [`Operation::start`] makes it active.
pub fn persist(plan: Plan) -> Rc<dyn Operation> {
    Schedule::new(plan)
}

/// A plan that runs in the background.
struct Schedule {
    plan: RefCell<Plan>,
    outcome: Cell<Option<Result>>,
    me: Weak<Schedule>,
}

impl Schedule {
    fn new(plan: Plan) -> Rc<Schedule> {
        Rc::new_cyclic(|me| Schedule { plan: RefCell::new(plan), outcome: Cell::new(None), me: Weak::clone(me) })
    }
}

impl Active for Schedule {
    fn advance(&self) -> bool {
        // Busy if an operation of the program, called from here, makes progress.
        let Ok(mut plan) = self.plan.try_borrow_mut() else { return false };
        let ended = plan.advance::<false>();
        if ended {
            self.outcome.set(Some(plan.state().cursor.outcome()));
        }
        ended
    }
}

impl Operation for Schedule {
    fn start(&self) -> Result {
        self.plan.borrow_mut().rewind();
        self.outcome.set(None);
        if let Some(me) = self.me.upgrade() {
            progress::activate(me);
        }
        Ok(())
    }

    fn outcome(&self) -> Option<Result<Status>> {
        self.outcome.get().map(|outcome| outcome.map(|()| Status::EMPTY))
    }
}
