//! The schedules that the ranks of this library make for a collective, as the simulation takes them: the same builders, the same choice of an algorithm.
//!
//! Schedules hold addresses, which nobody follows here: the buffers don't exist.

use mpi::coll::builder::Builder;
use mpi::coll::comm_view::CommView;
use mpi::coll::layout::Layout;
use mpi::coll::schedule::Step as Real;
use mpi::coll::{BlockBuffer, Buffer, allgather, alltoall, bcast};
use mpi::datatype::{Name, predefined};
use netsim::offload::{Schedule, Step};

/// What can be simulated: names as on the command line.
pub const COLLECTIVES: [&str; 3] = ["ialltoall", "iallgather", "ibcast"];

/// Where the buffers of a rank would be: far enough from each other.
const SEND: usize = 1 << 44;
const RECEIVE: usize = 1 << 45;

/// The schedules of all ranks of `nodes` nodes with `ranks_per_node` ranks each, in the order of ranks. `bytes` are those of a block, or of the vector of a broadcast from rank 0.
pub fn of(collective: &str, nodes: u32, ranks_per_node: u32, bytes: u32) -> Result<Vec<Schedule>, String> {
    let (size, each) = ((nodes * ranks_per_node) as usize, ranks_per_node as usize);
    let mut builder = Builder::default();
    (0..size)
        .map(|rank| {
            let layout = Layout::new(rank, size, |rank| (rank / each) as u64);
            let view = CommView { layout: (nodes > 1).then_some(&layout), ..CommView::new(rank, size) };
            let buffer = |address| Buffer {
                ptr: std::ptr::without_provenance_mut(address),
                count: bytes as usize,
                datatype: predefined(Name::MPI_BYTE),
            };
            let (send, receive) = (buffer(SEND), buffer(RECEIVE));
            builder.reset();
            match collective {
                "ialltoall" => {
                    alltoall::build(&mut builder, &view, Some(BlockBuffer::Even(send)), BlockBuffer::Even(receive))
                }
                "iallgather" => allgather::build(&mut builder, &view, Some(send), BlockBuffer::Even(receive)),
                "ibcast" => bcast::build(&mut builder, &view, send, 0),
                _ => return Err(format!("{collective} is not one of {}", COLLECTIVES.join(", "))),
            }
            .map_err(|error| format!("no schedule: {}", error.origin))?;
            builder.schedule().steps().iter().map(converted).collect()
        })
        .collect()
}

fn converted(step: &Real) -> Result<Step, String> {
    let short =
        |len: usize| u32::try_from(len).map_err(|_| format!("a message of {len} bytes is too long to be simulated"));
    Ok(match *step {
        Real::Send { len, peer, .. } => Step::Send { to: peer, bytes: short(len)? },
        Real::Recv { len, peer, .. } => Step::Receive { from: peer, bytes: short(len)? },
        Real::Move { len, .. } => Step::Copy { bytes: short(len)? },
        Real::Await(ticket) => Step::Await(ticket.0),
        Real::Fence => Step::Fence,
        _ => return Err("a step of the schedule can't be simulated".into()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(schedule: &[Step]) -> Vec<(u32, u32)> {
        schedule
            .iter()
            .filter_map(|step| if let Step::Send { to, bytes } = step { Some((*to, *bytes)) } else { None })
            .collect()
    }

    #[test]
    fn an_alltoall_visits_its_destinations_from_the_next_rank_on() {
        let schedules = of("ialltoall", 2, 4, 65_536).expect("there are schedules");
        for (rank, schedule) in schedules.iter().enumerate() {
            let expected: Vec<_> = (1..8).map(|distance| ((rank as u32 + distance) % 8, 65_536)).collect();
            assert_eq!(sent(schedule), expected);
            assert!(schedule.contains(&Step::Copy { bytes: 65_536 }));
        }
        // Longer ones wait in between: not everything is under way at the same time.
        let long = of("ialltoall", 16, 4, 16_384).expect("there are schedules");
        assert!(long[0].iter().any(|step| matches!(step, Step::Await(_))));
    }

    #[test]
    fn each_collective_is_received_as_it_is_sent() {
        for collective in COLLECTIVES {
            let schedules = of(collective, 3, 4, 100_000).expect("there are schedules");
            let mut routes: Vec<(u32, u32, u32)> = Vec::new();
            let mut received = Vec::new();
            for (rank, schedule) in schedules.iter().enumerate() {
                routes.extend(sent(schedule).into_iter().map(|(to, bytes)| (rank as u32, to, bytes)));
                received.extend(schedule.iter().filter_map(|step| match step {
                    Step::Receive { from, bytes } => Some((*from, rank as u32, *bytes)),
                    _ => None,
                }));
            }
            routes.sort_unstable();
            received.sort_unstable();
            assert_eq!(routes, received, "{collective}");
            assert!(!routes.is_empty());
        }
        assert!(of("ibarrier", 2, 2, 8).is_err());
    }
}
