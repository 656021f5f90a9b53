//! What an ABI says of itself, and the conversions that follow from it.
//!
//! The core (`crates/mpi`) has numbers and handles of its own. An ABI lists its own ones here ([`Abi`]); how statuses and
//! requests lie in the program's memory, it says by [`mpi::status::Place`] and [`mpi::request::complete::Holder`]. Where an ABI has the
//! core's numbers nothing is converted.

use base::Class;
use mpi::buffer;
use mpi::coll::args;
use mpi::comm::attributes;
use mpi::constructors::SplitType;
use mpi::datatype::{self, Combiner, Name, TypeClass};
use mpi::group::Comparison;
use mpi::handle::{Handle, Kind};
use mpi::io::{Amode, Whence};
use mpi::op::Predefined;
use mpi::rma;
use mpi::status;
use mpi::thread::Level;
use mpi::topo;

/// The numbers, addresses and handles of an ABI.
pub trait Abi {
    /// A handle as the program holds it.
    type Handle: Copy + PartialEq + 'static;

    /// `MPI_ANY_SOURCE`
    const ANY_SOURCE: i32;
    /// `MPI_ANY_TAG`
    const ANY_TAG: i32;
    /// `MPI_PROC_NULL`
    const PROC_NULL: i32;
    /// `MPI_ROOT`
    const ROOT: i32;
    /// `MPI_UNDEFINED`
    const UNDEFINED: i32;
    /// `MPI_IN_PLACE`
    const IN_PLACE: usize;
    /// `MPI_BUFFER_AUTOMATIC`
    const BUFFER_AUTOMATIC: usize;
    /// `MPI_KEYVAL_INVALID`
    const KEYVAL_INVALID: i32;
    /// The first keyval that a program makes.
    const FIRST_KEYVAL: i32;
    /// `MPI_ERR_LASTCODE`
    const ERR_LASTCODE: i32;
    /// `MPI_DISTRIBUTE_DFLT_DARG`
    const DISTRIBUTE_DFLT_DARG: i32;
    /// Error classes.
    const CODES: &'static [(i32, Class)];
    /// `MPI_WIN_BASE` …
    const WIN_KEYVALS: &'static [(i32, rma::Attribute)];
    /// `MPI_WIN_FLAVOR_CREATE` …
    const WIN_FLAVORS: &'static [(i32, rma::Flavor)];
    /// `MPI_WIN_UNIFIED`
    const WIN_UNIFIED: i32;
    /// `MPI_LOCK_EXCLUSIVE` and `MPI_LOCK_SHARED`: whether the lock is for one alone.
    const LOCK_TYPES: &'static [(i32, bool)];
    /// `MPI_MODE_NOCHECK` …, one bit each.
    const ASSERTIONS: &'static [(i32, rma::Mode)];
    /// `MPI_IDENT` …
    const COMPARISONS: &'static [(i32, Comparison)];
    /// `MPI_CART` …
    const TOPOLOGIES: &'static [(i32, topo::Kind)];
    /// `MPI_COMM_TYPE_SHARED` …
    const SPLIT_TYPES: &'static [(i32, SplitType)];
    /// `MPI_THREAD_SINGLE` …, from the lowest.
    const LEVELS: &'static [(i32, Level)];
    /// `MPI_COMBINER_NAMED` …
    const COMBINERS: &'static [(i32, Combiner)];
    /// `MPI_ORDER_C` …
    const ORDERS: &'static [(i32, i32)];
    /// `MPI_DISTRIBUTE_NONE` …
    const DISTRIBUTIONS: &'static [(i32, i32)];
    /// `MPI_TYPECLASS_INTEGER` …
    const TYPE_CLASSES: &'static [(i32, TypeClass)];
    /// `MPI_TAG_UB` …
    const PREDEFINED_KEYVALS: &'static [(i32, attributes::Predefined)];
    /// `MPI_MODE_RDONLY` …
    const ACCESS_MODES: &'static [(i32, Amode)];
    /// `MPI_SEEK_SET` …
    const WHENCES: &'static [(i32, Whence)];
    /// `MPI_COMM_NULL` …
    const NULLS: &'static [(Self::Handle, Kind)];
    /// `MPI_COMM_WORLD` …
    const OBJECTS: &'static [(Self::Handle, (Kind, Handle))];
    /// `MPI_INT` …
    const TYPES: &'static [(Self::Handle, Name)];
    /// `MPI_SUM` …
    const OPS: &'static [(Self::Handle, Predefined)];

    /// The handle of an object that the program has made.
    fn encode(handle: Handle) -> Self::Handle;

    /// The reverse of [`Abi::encode`]; `None` for what is in the lists above, or can't be a handle.
    fn decode(handle: Self::Handle) -> Option<Handle>;

    /// As [`Abi::decode`]; of a value that it refuses, the name of no live object.
    #[inline(always)]
    fn made(handle: Self::Handle) -> Handle {
        Self::decode(handle).unwrap_or(Handle::UNKNOWN)
    }

    /// Whether special ranks are those of the core.
    const SAME_RANKS: bool = Self::ANY_SOURCE == status::ANY_SOURCE
        && Self::PROC_NULL == status::PROC_NULL
        && Self::ROOT == status::ROOT
        && Self::UNDEFINED == status::UNDEFINED;

    /// Whether special addresses are those of the core.
    const SAME_ADDRESSES: bool =
        Self::IN_PLACE == args::IN_PLACE_ADDRESS && Self::BUFFER_AUTOMATIC == buffer::AUTOMATIC;

    /// A rank, source, root, colour or `MPI_UNDEFINED` for the core; one that means nothing stays so.
    #[inline(always)]
    fn rank(number: i32) -> i32 {
        match number {
            same if Self::SAME_RANKS => same,
            n if n == Self::ANY_SOURCE => status::ANY_SOURCE,
            n if n == Self::PROC_NULL => status::PROC_NULL,
            n if n == Self::ROOT => status::ROOT,
            n if n == Self::UNDEFINED => status::UNDEFINED,
            n if n < 0 => i32::MIN,
            n => n,
        }
    }

    /// The reverse of [`Abi::rank`].
    #[inline(always)]
    fn c_rank(known: i32) -> i32 {
        match known {
            same if Self::SAME_RANKS => same,
            status::ANY_SOURCE => Self::ANY_SOURCE,
            status::PROC_NULL => Self::PROC_NULL,
            status::ROOT => Self::ROOT,
            status::UNDEFINED => Self::UNDEFINED,
            n => n,
        }
    }

    /// A tag for the core; one that means nothing stays so.
    #[inline(always)]
    fn tag(number: i32) -> i32 {
        match number {
            same if Self::ANY_TAG == status::ANY_TAG => same,
            n if n == Self::ANY_TAG => status::ANY_TAG,
            n if n < 0 => i32::MIN,
            n => n,
        }
    }

    /// The reverse of [`Abi::tag`].
    #[inline(always)]
    fn c_tag(known: i32) -> i32 {
        match known {
            same if Self::ANY_TAG == status::ANY_TAG => same,
            status::ANY_TAG => Self::ANY_TAG,
            n => n,
        }
    }

    /// The address of a buffer for the core.
    #[inline(always)]
    fn address(address: usize) -> usize {
        match address {
            same if Self::SAME_ADDRESSES => same,
            a if a == Self::IN_PLACE => args::IN_PLACE_ADDRESS,
            a if a == Self::BUFFER_AUTOMATIC => buffer::AUTOMATIC,
            a => a,
        }
    }

    /// The reverse of [`Abi::address`].
    fn c_address(known: usize) -> usize {
        match known {
            a if a == args::IN_PLACE_ADDRESS => Self::IN_PLACE,
            buffer::AUTOMATIC => Self::BUFFER_AUTOMATIC,
            a => a,
        }
    }

    /// An error code as the program sees it. What a callback of the program has returned comes back as it was.
    #[cold]
    fn code(class: Class) -> i32 {
        match class {
            Class(n) if n < FOREIGN_END => n - i32::MIN,
            Class(n) if n < 0 => n,
            Class(n) if n > Class::ERR_LASTCODE.0 => Self::ERR_LASTCODE + (n - Class::ERR_LASTCODE.0),
            Class::ERR_LASTCODE => Self::ERR_LASTCODE,
            class => number(Self::CODES, class).unwrap_or(Self::ERR_LASTCODE),
        }
    }

    /// The reverse of [`Abi::code`], for any number.
    #[cold]
    fn class(code: i32) -> Class {
        match code {
            n if n == Self::ERR_LASTCODE => Class::ERR_LASTCODE,
            n if n > Self::ERR_LASTCODE => {
                Class(n.saturating_sub(Self::ERR_LASTCODE).saturating_add(Class::ERR_LASTCODE.0))
            }
            n if n < 0 => Class(n.max(FOREIGN_END)),
            n => known(Self::CODES, n).unwrap_or(Class((i32::MIN + n).min(FOREIGN_END - 1))),
        }
    }

    /// The number of a keyval of the program.
    fn c_keyval(keyval: u32) -> i32 {
        Self::FIRST_KEYVAL.wrapping_add(keyval as i32)
    }

    /// The reverse of [`Abi::c_keyval`].
    fn keyval(number: i32) -> u32 {
        number.wrapping_sub(Self::FIRST_KEYVAL) as u32
    }

    /// The lowest level that gives what `required` asks for.
    fn level(required: i32) -> Level {
        Self::LEVELS.iter().find(|(number, _)| *number >= required).map_or(Level::Multiple, |(_, level)| *level)
    }

    /// A set of access modes for the core.
    fn amode(number: i32) -> Amode {
        let listed = Self::ACCESS_MODES.iter().filter(|(bit, _)| number & bit != 0);
        let (bits, amode) =
            listed.fold((0, Amode::default()), |(bits, set), (bit, mode)| (bits | bit, set.with(*mode)));
        if bits == number { amode } else { amode.with(Amode::UNKNOWN) }
    }

    /// The reverse of [`Abi::amode`].
    fn c_amode(amode: Amode) -> i32 {
        Self::ACCESS_MODES.iter().filter(|(_, mode)| amode.has(*mode)).fold(0, |bits, (bit, _)| bits | bit)
    }

    /// The handle of an object of this kind, or the null handle.
    fn c_handle(kind: Kind, handle: Handle) -> Self::Handle {
        if handle.0 >= mpi::handle::PREDEFINED_END {
            return Self::encode(handle);
        }
        let null = || number(Self::NULLS, kind).expect("every kind has a null handle");
        number(Self::OBJECTS, (kind, handle)).unwrap_or_else(null)
    }

    /// The reverse of [`Abi::c_handle`]; [`Handle::UNKNOWN`] for what is no handle of this kind.
    #[inline(always)]
    fn handle(kind: Kind, handle: Self::Handle) -> Handle {
        Self::decode(handle).unwrap_or_else(|| listed::<Self>(kind, handle))
    }
}

/// Numbers of classes below this are codes that mean nothing, from a callback of the program.
const FOREIGN_END: i32 = i32::MIN + (1 << 16);

#[cold]
fn listed<A: Abi + ?Sized>(kind: Kind, handle: A::Handle) -> Handle {
    if number(A::NULLS, kind) == Some(handle) {
        return Handle::NONE;
    }
    let object = A::OBJECTS.iter().find(|(c, (of, _))| *c == handle && *of == kind);
    object.map_or(Handle::UNKNOWN, |(_, (_, known))| *known)
}

/// The ABI's number in a list.
pub fn number<N: Copy, T: PartialEq>(list: &[(N, T)], known: T) -> Option<N> {
    list.iter().find(|(_, entry)| *entry == known).map(|(number, _)| *number)
}

/// What a number stands for.
pub fn known<N: PartialEq, T: Copy>(list: &[(N, T)], number: N) -> Option<T> {
    list.iter().find(|(entry, _)| *entry == number).map(|(_, known)| *known)
}

/// The arguments of a constructor for the program: some of its integers are constants.
pub fn c_integers<A: Abi>(combiner: Combiner, integers: &[i32]) -> Vec<i32> {
    let mut integers = integers.to_vec();
    let order = |n: &mut i32| *n = number(A::ORDERS, *n).unwrap_or(*n);
    match combiner {
        Combiner::F90Real | Combiner::F90Complex => integers.iter_mut().for_each(|n| *n = A::c_rank(*n)),
        Combiner::Subarray => integers.last_mut().into_iter().for_each(order),
        Combiner::Darray => {
            // …, distributions, their arguments, grid, order (5.1.13).
            let (dims, end) = (integers[2] as usize, integers.len() - 1);
            for n in &mut integers[end - 3 * dims..end - 2 * dims] {
                *n = number(A::DISTRIBUTIONS, *n).unwrap_or(*n);
            }
            for n in &mut integers[end - 2 * dims..end - dims] {
                *n = if *n == datatype::DISTRIBUTE_DFLT_DARG { A::DISTRIBUTE_DFLT_DARG } else { *n };
            }
            order(&mut integers[end]);
        }
        _ => {}
    }
    integers
}
