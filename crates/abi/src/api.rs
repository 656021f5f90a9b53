//! The C API as data: the [`api!`] macro turns one entry per function into `PMPI_X` (strong), `MPI_X` (weak, same
//! address), their large-count twins, and a row of a machine-readable table.
//!
//! A file begins by `with cs;`, the name by which its bodies know the critical section ([`mpi::cs::Section`]). An entry reads:
//! doc, names, parameters with their kinds ([`crate::kinds`]), whose error handler is raised, body.
//! ```text
//! /// Standard-mode send
//! MPI_Send, MPI_Send_c => (buf: SendBuf, count: Count, …, comm: Comm) on comm { p2p::send(cs, …) }
//! ```
//! Every generated function enters the critical section, checks that MPI is running, converts its arguments left to right
//! and runs the body; an `Err` on that way is raised through the error handler of the object named after `on`. `on none`:
//! that of the process; `on files`: that of `MPI_FILE_NULL`; `on anytime`: that of the process, and callable before initialisation and by any thread;
//! `on tool`: no handler; callable by any thread as soon as the tool interface is initialised.
//! `fast f` before `on`: [`crate::short`]`::f` does the call if it can, and only if it can't all this happens.
//! `unimplemented` instead of a body means: exists, and raises `MPI_ERR_UNSUPPORTED_OPERATION`.
//! No exported symbol is called from inside, so tools may replace any `MPI_X` by their own.

/// Whether a function does its work already.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// Implemented.
    Done,
    /// Raises `MPI_ERR_UNSUPPORTED_OPERATION`.
    Unimplemented,
}

/// One parameter of a function.
#[derive(Debug)]
pub struct Param {
    /// Name in the standard.
    pub name: &'static str,
    /// Kind, as in [`crate::kinds`].
    pub kind: &'static str,
    /// C declarator with `@` for the name, of the function and of its large-count twin.
    pub c: [&'static str; 2],
}

/// One function of the standard, with its large-count twin.
#[derive(Debug)]
pub struct Entry {
    /// `MPI_…`.
    pub name: &'static str,
    /// `MPI_…_c`, if there is one.
    pub large: Option<&'static str>,
    /// One line.
    pub doc: &'static str,
    /// C return type.
    pub returns: &'static str,
    /// Parameter whose error handler is raised, or `none`, `anytime`, `tool`.
    pub on: &'static str,
    /// Implemented or not.
    pub state: State,
    /// In order.
    pub params: &'static [Param],
}

/// Declares the functions of a chapter; see the head of this file.
macro_rules! api {
    (with $cs:ident; $(
        $(#[doc = $doc:expr])+
        $name:ident $(, $large:ident)? => $params:tt $(fast $short:ident)? on $on:ident $body:tt
    )*) => {
        $(api!{@entry $cs $name [$($large)?] $params $on [$($short)?] $body})*

        /// The functions of this file.
        pub const TABLE: &[$crate::api::Entry] = &[$($crate::api::Entry {
            name: stringify!($name),
            large: api!(@large $($large)?),
            doc: concat!($($doc),+),
            returns: "int",
            on: stringify!($on),
            state: api!(@state $body),
            params: api!(@params $params),
        }),*];
    };
    (@entry $cs:ident $name:ident [$($large:ident)?] $params:tt $on:ident $short:tt $body:tt) => {
        const _: () = {
            api!{@body $cs $name $params $on $short $body}
            api!{@symbol Small $name $params $short}
            $(api!{@symbol Large $large $params $short})?
        };
        api!{@alias $name}
        $(api!{@alias $large})?
    };
    (@body $cs:ident $name:ident ($($p:ident : $k:ident),* $(,)?) $on:ident [] unimplemented) => {
        #[allow(unused_variables, clippy::too_many_arguments, clippy::extra_unused_type_parameters)]
        fn body<W: Width>($($p: <$k as Kind<W>>::C),*) -> core::ffi::c_int {
            // SAFETY: the program calls.
            let inside = unsafe { mpi::cs::enter() };
            let error = base::Error::new(
                base::Class::ERR_UNSUPPORTED_OPERATION,
                concat!(stringify!($name), " is not implemented yet"),
            );
            $crate::raise::fail(api!(@on $on), error, stringify!($name), inside)
        }
    };
    (@body $cs:ident $name:ident $params:tt $on:ident [] $body:block) => {
        api!{@general #[inline(always)] $cs $name $params $on $body}
    };
    (@body $cs:ident $name:ident $params:tt $on:ident [$short:ident] $body:block) => {
        api!{@biased $params $short}
        // Apart from the short path, which keeps everything in registers.
        api!{@general #[inline(never)] $cs $name $params $on $body}
    };
    (@general #[$inline:meta] $cs:ident $name:ident ($($p:ident : $k:ident),* $(,)?) $on:ident $body:block) => {
        #[$inline]
        #[allow(unused_variables, unused_unsafe, clippy::too_many_arguments, clippy::extra_unused_type_parameters)]
        fn body<W: Width>($($p: <$k as Kind<W>>::C),*) -> core::ffi::c_int {
            // SAFETY: the program calls, and no function of this library calls an exported one.
            let mut inside = unsafe { api!(@enter $on $($k)*) };
            let $cs = inside.section();
            mpi::call::enter(&stringify!($name));
            let on = api!(@on $on);
            let outcome: base::Result = (|| {
                api!(@running $on $cs $name);
                let scope = api!(@scope $cs $on);
                // SAFETY: the caller keeps the contract of the C function: its pointers are valid as the standard says.
                unsafe {
                    $(let $p = <$k as Kind<W>>::take($cs, $p, &scope)?;)*
                    $body
                }
            })();
            match outcome {
                Ok(()) => 0,
                Err(error) => $crate::raise::fail(on, error, stringify!($name), inside),
            }
        }
    };
    (@symbol $w:ident $name:ident ($($p:ident : $k:ident),* $(,)?) $short:tt) => {
        #[allow(non_snake_case, clippy::too_many_arguments)]
        #[unsafe(export_name = concat!("P", stringify!($name)))]
        extern "C" fn $name($($p: <$k as Kind<$w>>::C),*) -> core::ffi::c_int {
            api!(@fast $short $w $($p)*)
        }
    };
    (@fast [] $w:ident $($p:ident)*) => { body::<$w>($($p),*) };
    (@fast [$short:ident] $w:ident $($p:ident)*) => {
        // SAFETY: the program calls.
        match unsafe { mpi::cs::enter_unlocked() } {
            None => biased::<$w>($($p),*),
            Some(mut inside) => match $crate::short::$short::<$w>(inside.section(), $($p),*) {
                true => 0,
                false => body::<$w>($($p),*),
            },
        }
    };
    (@biased ($($p:ident : $k:ident),* $(,)?) $short:ident) => {
        /// The same beside a thread of the library. Apart and called like the function itself, so that the path without that thread keeps its registers.
        // Not cold: that would be compiled for size.
        #[inline(never)]
        #[allow(clippy::too_many_arguments)]
        extern "C" fn biased<W: Width>($($p: <$k as Kind<W>>::C),*) -> core::ffi::c_int {
            // SAFETY: the program calls.
            let is_done = match unsafe { mpi::cs::enter_biased() } {
                Some(mut inside) => $crate::short::$short::<W>(inside.section(), $($p),*),
                None => false,
            };
            match is_done {
                true => 0,
                false => body::<W>($($p),*),
            }
        }
    };
    (@alias $name:ident) => {
        core::arch::global_asm!(
            concat!(".weak ", stringify!($name)),
            concat!(".set ", stringify!($name), ", P", stringify!($name)),
        );
    };
    (@enter anytime $($k:ident)*) => { mpi::cs::enter_always() };
    (@enter tool $($k:ident)*) => { mpi::cs::enter_always() };
    (@enter $on:ident $($k:ident)*) => {
        if const { false $(|| <$k as Kind<W>>::ANY_THREAD)* } { mpi::cs::enter_always() } else { mpi::cs::enter() }
    };
    (@on none) => { $crate::raise::On::Process };
    (@on anytime) => { $crate::raise::On::Anytime };
    (@on files) => { $crate::raise::On::File(mpi::handle::Handle::NONE) };
    (@on tool) => { $crate::raise::On::Tool };
    (@on $on:ident) => { $crate::raise::Raise::on($on) };
    (@scope $cs:ident none) => { $crate::raise::Scope::NONE };
    (@scope $cs:ident files) => { $crate::raise::Scope::NONE };
    (@scope $cs:ident tool) => { $crate::raise::Scope::NONE };
    (@scope $cs:ident anytime) => { $crate::raise::Scope::NONE };
    (@scope $cs:ident $on:ident) => { $crate::raise::Raise::scope($on, $cs)? };
    (@running anytime $cs:ident $name:ident) => {};
    (@running tool $cs:ident $name:ident) => { $crate::raise::ensure_tool($cs, stringify!($name))? };
    (@running $on:ident $cs:ident $name:ident) => { $crate::raise::ensure_running()? };
    (@large) => { None };
    (@large $large:ident) => { Some(stringify!($large)) };
    (@state unimplemented) => { $crate::api::State::Unimplemented };
    (@state $body:block) => { $crate::api::State::Done };
    (@params ($($p:ident : $k:ident),* $(,)?)) => {
        &[$($crate::api::Param {
            name: stringify!($p),
            kind: stringify!($k),
            c: [<$k as Kind<Small>>::TEXT, <$k as Kind<Large>>::TEXT],
        }),*]
    };
}
pub(crate) use api;

/// Declares collectives in their blocking, non-blocking and persistent forms, which differ in what happens to the plan.
/// After the arguments come statements that prepare them, then the expression of the plan.
macro_rules! collectives {
    (with $cs:ident; $(
        $(#[doc = $doc:expr])+
        $name:ident $(, $large:ident)?; $iname:ident $(, $ilarge:ident)?; $pname:ident $(, $plarge:ident)? => (
            $($param:ident : $kind:ident),+ $(,)?
        ) on $comm:ident { $($prepare:tt)* } plan $plan:expr;
    )*) => {
        api! {
            with $cs;
            $(
                #[doc = concat!($($doc),+)]
                $name $(, $large)? => ($($param: $kind),+) on $comm {
                    $($prepare)*
                    let plan = $plan?;
                    mpi::coll::plan::run($cs, plan)
                }

                #[doc = concat!($($doc),+, ", non-blocking")]
                $iname $(, $ilarge)? => ($($param: $kind),+, request: OutRequest) on $comm {
                    $($prepare)*
                    let plan = $plan?;
                    let operation = mpi::coll::plan::start($cs, plan)?;
                    request.set(CRequest::of(mpi::request::enter_collective($cs, operation, &$comm.owner)));
                    Ok(())
                }

                #[doc = concat!($($doc),+, ", persistent")]
                $pname $(, $plarge)? => ($($param: $kind),+, info: Info, request: OutRequest) on $comm {
                    $($prepare)*
                    let operation = mpi::coll::plan::persist($plan?);
                    request.set(CRequest::of(mpi::request::enter_persistent_collective($cs, operation, &$comm.owner)));
                    Ok(())
                }
            )*
        }
    };
}
pub(crate) use collectives;

/// Declares functions that return a value and cannot fail: clocks, address arithmetic, handle conversion.
macro_rules! plain {
    ($($(#[doc = $doc:literal])+ $name:ident => ($($p:ident : $k:ident),*) -> $text:literal $ret:ty $body:block)*) => {
        $(
            $(#[doc = $doc])+
            #[allow(non_snake_case)]
            #[unsafe(export_name = concat!("P", stringify!($name)))]
            extern "C" fn $name($($p: <$k as Kind<Small>>::C),*) -> $ret $body
            api!{@alias $name}
        )*
        /// The functions of this file that cannot fail.
        pub const PLAIN: &[$crate::api::Entry] = &[$($crate::api::Entry {
            name: stringify!($name),
            large: None,
            doc: concat!($($doc),+),
            returns: $text,
            on: "none",
            state: $crate::api::State::Done,
            params: api!(@params ($($p: $k),*)),
        }),*];
    };
}
pub(crate) use plain;
