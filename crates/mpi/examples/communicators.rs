//! Makes communicators in every way and checks that messages in them arrive: run by `mpiexec -n N`.

use base::Result;
use mpi::coll::internal::{allgather_bytes, barrier};
use mpi::comm::{self, Comm};
use mpi::constructors::SplitType;
use mpi::cs::Section;
use mpi::errhandler::Errhandler;
use mpi::group::{Comparison, Group};
use mpi::handle::Handle;
use mpi::request::complete;
use mpi::{constructors, cs, init, job, session, topo};
use std::rc::Rc;

/// Everybody tells everybody its world rank, in the order of the group.
fn check(cs: &mut Section, comm: &Rc<Comm>) -> Result {
    let local = comm.local.as_ref().unwrap_or(comm);
    let all = allgather_bytes(cs, local, &job::me().0.to_le_bytes())?;
    let expected: Vec<u8> = comm.group.peers().flat_map(|p| p.0.to_le_bytes()).collect();
    assert_eq!(all, expected);
    Ok(())
}

fn intra(cs: &mut Section, world: &Rc<Comm>) -> Result {
    let (rank, size) = (world.rank, world.size());
    let copy = constructors::dup(cs, world)?;
    assert_eq!(copy.compare(world), Comparison::Congruent);
    check(cs, &copy)?;
    comm::free(cs, &copy)?;
    let backwards = constructors::split(cs, world, rank % 2, -rank)?.expect("a part");
    assert_eq!(backwards.group.peer(backwards.rank), job::me());
    check(cs, &backwards)?;
    assert!(constructors::split(cs, world, mpi::status::UNDEFINED, 0)?.is_none());
    let reversed: Vec<i32> = (0..size).rev().collect();
    let group = world.group.include(cs, &reversed)?;
    let made = constructors::create(cs, world, &group)?.expect("a member");
    assert_eq!(made.rank, size - 1 - rank);
    assert_eq!(made.compare(world), if size > 1 { Comparison::Similar } else { Comparison::Congruent });
    check(cs, &made)?;
    let own = world.group.include(cs, &[rank])?;
    let alone = constructors::create_group(cs, world, &own, 7)?.expect("a member");
    check(cs, &alone)?;
    let from =
        constructors::create_from_group(cs, &group, b"org.example", None, Errhandler::Return)?.expect("a member");
    check(cs, &from)?;
    let shared = constructors::split_type(cs, world, Some(SplitType::Shared), rank, None)?.expect("a node");
    check(cs, &shared)?;
    constructors::split_type(cs, world, Some(SplitType::HwUnguided), 0, None)?;
    constructors::disconnect(cs, &from)
}

fn nonblocking(cs: &mut Section, world: &Rc<Comm>) -> Result {
    let started: Vec<_> = (0..5).map(|_| constructors::idup(cs, world)).collect::<Result<_>>()?;
    barrier(cs, world)?;
    for (handle, request) in started.into_iter().rev() {
        complete::wait(cs, &mut Some(request), &mut { mpi::status::Status::EMPTY })?;
        let copy = comm::from_handle(cs, handle)?;
        assert_eq!(copy.compare(world), Comparison::Congruent);
        check(cs, &copy)?;
        comm::free(cs, &copy)?;
    }
    Ok(())
}

fn inter(cs: &mut Section, world: &Rc<Comm>) -> Result {
    let (rank, size) = (world.rank, world.size());
    if size < 2 {
        return Ok(());
    }
    let low = rank < size / 2;
    let half = constructors::split(cs, world, i32::from(low), 0)?.expect("a half");
    let remote = if low { size / 2 } else { 0 };
    let inter = constructors::intercomm_create(cs, &half, 0, Ok(Rc::clone(world)), remote, 3)?;
    check(cs, &inter)?;
    let copy = constructors::dup(cs, &inter)?;
    assert_eq!(copy.compare(&inter), Comparison::Congruent);
    check(cs, &copy)?;
    for (high, first) in [(!low, true), (low, false)] {
        let merged = constructors::intercomm_merge(cs, &copy, high)?;
        assert_eq!(merged.compare(world), if first { Comparison::Congruent } else { Comparison::Similar });
        check(cs, &merged)?;
    }
    let split = constructors::split(cs, &inter, 0, -rank)?.expect("both sides");
    assert_eq!((split.size(), split.peer_size()), (inter.size(), inter.peer_size()));
    check(cs, &split)?;
    if let Some(pair) = constructors::split(cs, &inter, inter.rank, 0)? {
        assert_eq!((pair.size(), pair.peer_size()), (1, 1));
    }
    let made = constructors::create(cs, &inter, &inter.group)?.expect("both sides");
    assert_eq!(made.compare(&inter), Comparison::Congruent);
    let leader = inter.size() - 1;
    let others = inter.remote.clone().expect("an inter-communicator");
    let last = others.size() - 1;
    let from = constructors::intercomm_create_from_groups(
        cs,
        &inter.group,
        leader,
        Ok(others),
        last,
        b"x",
        None,
        Errhandler::Return,
    )?;
    assert_eq!(from.expect("both sides").compare(&inter), Comparison::Congruent);
    constructors::disconnect(cs, &made)
}

fn topologies(cs: &mut Section, world: &Rc<Comm>) -> Result {
    let size = world.size();
    let mut dims = [0, 0];
    topo::dims::create(size, &mut dims)?;
    let cart = topo::cart::create(cs, world, &dims, &[true, false], true)?.expect("a place");
    check(cs, &cart)?;
    let row = topo::cart::sub(cs, &cart, &[false, true])?;
    assert_eq!(row.size(), dims[1]);
    check(cs, &row)?;
    let neighbors: Vec<i32> = (0..size).flat_map(|r| [(r + size - 1) % size, (r + 1) % size]).collect();
    let index: Vec<i32> = (1..=size).map(|r| 2 * r).collect();
    let graph = topo::graph::create(cs, world, &index, &neighbors, true)?.expect("a place");
    check(cs, &graph)?;
    // One process names the edges of all.
    let sources: Vec<i32> = if world.rank == 0 { (0..size).collect() } else { Vec::new() };
    let degrees = vec![2; sources.len()];
    let graph = topo::dist_graph::create(cs, world, &sources, &degrees, &neighbors, None, true)?;
    let found = topo::neighbors(&graph)?;
    assert_eq!(found.destinations, neighbors[2 * graph.rank as usize..][..2]);
    let adjacent =
        topo::dist_graph::create_adjacent(cs, &graph, (&found.sources, None), (&found.destinations, None), false)?;
    assert_eq!(topo::neighbors(&adjacent)?, found);
    Ok(())
}

fn sessions(cs: &mut Section) -> Result {
    let session = session::init(cs, None, Handle::ERRORS_RETURN)?;
    let group: Rc<Group> = session::group_from_pset(&session, b"mpi://WORLD")?;
    let comm = constructors::create_from_group(cs, &group, b"session", None, Errhandler::Return)?.expect("a member");
    assert_eq!(comm.group.compare(&group), Comparison::Ident);
    check(cs, &comm)?;
    constructors::disconnect(cs, &comm)?;
    session::finalize(cs, &session)
}

fn main() {
    // SAFETY: the first to enter.
    let mut inside = unsafe { cs::enter() };
    let cs = inside.section();
    if std::env::args().nth(1).as_deref() == Some("sessions") {
        for _ in 0..3 {
            sessions(cs).expect("sessions work");
        }
        return;
    }
    init::init_world(cs, mpi::thread::Level::Single).expect("MPI starts");
    let world = comm::from_handle(cs, Handle::COMM_WORLD).expect("there is a world");
    check(cs, &world).expect("the world works");
    sessions(cs).expect("sessions work");
    intra(cs, &world).expect("intra-communicators work");
    nonblocking(cs, &world).expect("non-blocking duplicates work");
    inter(cs, &world).expect("inter-communicators work");
    topologies(cs, &world).expect("topologies work");
    init::finalize(cs).expect("MPI ends");
    if job::me().0 == 0 {
        println!("{} processes: no errors", job::world_size());
    }
}
