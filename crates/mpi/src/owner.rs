//! The object that messages, requests and errors belong to: a communicator, window, file or session, as the floors below know it; and what
//! an error of such an object does (MPI-5.0, 9.3).
//!
//! An error of no object goes to the handler of `MPI_COMM_SELF` (if the program has set one, else to that of `MPI_COMM_WORLD`
//! if it has set that: before MPI 4 this was the rule), and to the initial error handler outside of the World Model.
//! [`raise_from`] returns if the handler does.

use crate::buffer::Slot;
use crate::cs::Section;
use crate::errhandler::{self, Errhandler, Target};
use crate::group::Group;
use crate::handle::Handle;
use crate::inside::Inside;
use crate::life::World;
use crate::{cs, errors, life};
use base::{Class, ContextId, Error, Peer, Result};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// What the floors below know of a communicator, file or session. It may outlive the object, in requests and groups.
pub struct Owner {
    /// The program's handle.
    pub handle: Cell<Handle>,
    /// Where the messages of a communicator travel; second that of an inter-communicator's local group.
    pub contexts: [Option<ContextId>; 2],
    /// The local group of a communicator, and the remote one.
    groups: [Option<Rc<Group>>; 2],
    /// Buffer for buffered sends.
    pub buffer: Slot,
    target: Target,
    errhandler: RefCell<Errhandler>,
    errhandler_set: Cell<bool>,
    name: RefCell<Vec<u8>>,
}

impl Owner {
    /// A communicator with these contexts and groups.
    pub fn of_comm(errhandler: Errhandler, contexts: [Option<ContextId>; 2], groups: [Option<Rc<Group>>; 2]) -> Owner {
        Owner { contexts, groups, ..Owner::new(Target::Comm, errhandler) }
    }

    /// An open file of these processes.
    pub fn of_file(errhandler: Errhandler, group: &Rc<Group>) -> Owner {
        Owner { groups: [Some(Rc::clone(group)), None], ..Owner::new(Target::File, errhandler) }
    }

    /// `MPI_FILE_NULL`: errors of files are returned until the program says otherwise (MPI-5.0, 14.7).
    pub fn of_no_file() -> Owner {
        Owner::new(Target::File, Errhandler::Return)
    }

    /// A session.
    pub fn of_session(errhandler: Errhandler) -> Owner {
        Owner::new(Target::Session, errhandler)
    }

    /// A window of this group.
    pub fn of_window(errhandler: Errhandler, group: Rc<Group>) -> Owner {
        Owner { groups: [Some(group), None], ..Owner::new(Target::Window, errhandler) }
    }

    fn new(target: Target, errhandler: Errhandler) -> Owner {
        Owner {
            handle: Cell::default(),
            contexts: [None; 2],
            groups: [None, None],
            buffer: Slot::default(),
            target,
            errhandler: RefCell::new(errhandler),
            errhandler_set: Cell::new(false),
            name: RefCell::default(),
        }
    }

    /// The error handler in force.
    pub fn errhandler(&self) -> Errhandler {
        self.errhandler.borrow().clone()
    }

    /// `MPI_*_set_errhandler`.
    pub fn set_errhandler(&self, cs: &Section, handle: Handle) -> Result {
        let new = errhandler::for_target(cs, handle, self.target)?;
        *self.errhandler.borrow_mut() = new;
        self.errhandler_set.set(true);
        Ok(())
    }

    /// `MPI_*_get_errhandler`: a handle that the program owns.
    pub fn get_errhandler(&self, cs: &Section) -> Handle {
        errhandler::share(cs, &self.errhandler())
    }

    /// The name that the program has given.
    pub fn name(&self) -> Vec<u8> {
        self.name.borrow().clone()
    }

    /// Gives a name.
    pub fn set_name(&self, name: &[u8]) {
        *self.name.borrow_mut() = name.to_vec();
    }

    /// How messages for humans name a communicator, window or file.
    pub fn describe(&self) -> Option<String> {
        let name = self.name.borrow();
        let text = |unnamed: &str| match name.is_empty() {
            true => unnamed.to_owned(),
            false => String::from_utf8_lossy(&name).into_owned(),
        };
        match self.target {
            Target::Comm => Some(text("a communicator")),
            Target::File => Some(text("a file")),
            Target::Window => Some(text("a window")),
            Target::Session => None,
        }
    }

    /// All processes of a communicator, on both sides.
    pub fn processes(&self) -> Vec<Peer> {
        self.groups.iter().flatten().flat_map(|group| group.peers()).collect()
    }

    fn invoke(&self, cs: &mut Section, class: Class, origin: &str) -> Class {
        self.run(cs, &self.errhandler(), class, origin)
    }

    /// Lets `handler` do what it does with an error of this object. Returns what the call returns.
    fn run(&self, cs: &mut Section, handler: &Errhandler, class: Class, origin: &str) -> Class {
        match handler {
            Errhandler::Return => class,
            Errhandler::Fatal => fatal(cs, self.describe(), class, origin, &[]),
            Errhandler::Abort => fatal(cs, self.describe(), class, origin, &self.processes()),
            Errhandler::User(user) => user.call(cs, self.handle.get(), class),
        }
    }
}

/// `MPI_COMM_SELF` and `MPI_COMM_WORLD`.
static PREDEFINED: Inside<RefCell<Option<[Rc<Owner>; 2]>>> = Inside::new(RefCell::new(None));

/// The World Model has these communicators: its errors of no object go to them.
pub(crate) fn set_predefined(cs: &Section, own: &Rc<Owner>, world: &Rc<Owner>) {
    *PREDEFINED.get(cs).borrow_mut() = Some([Rc::clone(own), Rc::clone(world)]);
}

thread_local! {
    /// The C function that this thread is in, for the message of a fatal error.
    static FUNCTION: RefCell<Option<&'static str>> = const { RefCell::new(None) };
}

/// Gives `error` of an MPI function to the handler of its object, if it has one. Returns what the function returns if the handler returns.
#[cold]
pub fn raise_from(cs: &mut Section, function: &'static str, on: Option<&Owner>, error: Error) -> Class {
    FUNCTION.with(|f| f.replace(Some(function)));
    let class = invoke(cs, on, error.class, error.origin);
    FUNCTION.with(|f| f.replace(None));
    class
}

/// `MPI_*_call_errhandler`.
pub fn call_errhandler(cs: &mut Section, on: &Owner, code: Class) -> Result {
    cs::locked(cs, |cs| {
        errors::class_of(cs, code)?;
        if code != Class::SUCCESS {
            on.invoke(cs, code, "raised by the program");
        }
        Ok(())
    })
}

fn invoke(cs: &mut Section, on: Option<&Owner>, class: Class, origin: &str) -> Class {
    if let Some(owner) = on {
        return owner.invoke(cs, class, origin);
    }
    let predefined = PREDEFINED.get(cs).borrow().clone();
    match predefined {
        Some([own, world]) if life::world() == World::Active => {
            let theirs = !own.errhandler_set.get() && world.errhandler_set.get();
            if theirs { world.invoke(cs, class, origin) } else { own.invoke(cs, class, origin) }
        }
        Some([own, _]) => own.run(cs, &errhandler::initial(), class, origin),
        None => {
            let unknown =
                Owner { handle: Cell::new(Handle::COMM_SELF), ..Owner::new(Target::Session, errhandler::initial()) };
            unknown.invoke(cs, class, origin)
        }
    }
}

/// Ends the job, or the processes `of` a communicator. mpiexec shows the text, with rank and host; a process without mpiexec shows
/// it itself.
fn fatal(cs: &Section, object: Option<String>, code: Class, origin: &str, of: &[Peer]) -> ! {
    let function = FUNCTION.with(|f| *f.borrow()).unwrap_or("an MPI call");
    let object = object.map_or(String::new(), |name| format!(" on {name}"));
    let text = format!("{function} failed{object}: {} ({origin})", errors::describe(cs, code));
    life::abort(cs, errors::class_of(cs, code).unwrap_or(Class::ERR_OTHER).0, &text, of)
}
