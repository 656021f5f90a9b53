//! Prefix reductions (MPI-5.0, 6.11).

pub mod linear;
pub mod recursive_doubling;

use super::args::ReduceArgs;
use super::program::Program;
use super::select::rules::Scan;
use super::site::Site;
use base::{Result, ensure};

/// Adds the steps of this process; without its own operand if `exclusive`.
#[inline]
pub fn build(p: &mut Program, site: &Site<'_>, args: ReduceArgs<'_>, exclusive: bool) -> Result {
    ensure!(site.remote.is_none(), ERR_COMM, "scans are not defined on inter-communicators");
    args.set_up(p)?;
    let (own, result) = args.both(p)?;
    if own.bytes() == 0 {
        return Ok(());
    }
    let team = site.team();
    match (site.choose(&site.situation(own.bytes())), exclusive) {
        (Scan::RecursiveDoubling, false) => recursive_doubling::inclusive(p, &team, own, result),
        (Scan::RecursiveDoubling, true) => recursive_doubling::exclusive(p, &team, own, result),
        (Scan::Linear, false) => linear::inclusive(p, &team, own, result),
        (Scan::Linear, true) => linear::exclusive(p, &team, own, result),
    }
    Ok(())
}
