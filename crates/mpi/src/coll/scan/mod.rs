//! Prefix reductions (MPI-5.0, 6.11).

mod choice;
pub mod linear;
pub mod recursive_doubling;

use super::args::ReduceArgs;
use super::builder::Builder;
use super::comm_view::CommView;
use base::{Result, ensure};
pub use choice::Scan;

/// Adds the steps of this process; without its own operand if `exclusive`.
#[inline]
pub fn build(b: &mut Builder, view: &CommView<'_>, args: ReduceArgs<'_>, exclusive: bool) -> Result {
    ensure!(view.remote.is_none(), ERR_COMM, "scans are not defined on inter-communicators");
    args.set_up(b)?;
    let (own, result) = args.both(b)?;
    if own.bytes() == 0 {
        return Ok(());
    }
    let team = view.team();
    match (view.choose(&view.selection_key(own.bytes())), exclusive) {
        (Scan::RecursiveDoubling, false) => recursive_doubling::inclusive(b, &team, own, result),
        (Scan::RecursiveDoubling, true) => recursive_doubling::exclusive(b, &team, own, result),
        (Scan::Linear, false) => linear::inclusive(b, &team, own, result),
        (Scan::Linear, true) => linear::exclusive(b, &team, own, result),
    }
    Ok(())
}
