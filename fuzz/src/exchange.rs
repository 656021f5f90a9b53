//! Exchanges of endpoints with one rank, or one agent, that says anything: the others refuse it or go on, nobody panics, and whoever is done
//! knows one offer of each rank. And the loader's cache, from which `--preload` learns where libraries are.

use crate::input::Input;
use base::WorldRank;
use launch::preload::elf::parse_cache;
use protocol::control::EndpointAddress;
use protocol::control::exchange::hypercube::Hypercube;
use protocol::control::exchange::original::{Collector, pick};
use protocol::control::exchange::ring::Ring;
use protocol::control::exchange::tree::Gather;
use protocol::control::exchange::{Exchange, Offer, Step, dr};

/// Plays one input.
pub fn run(data: &[u8]) {
    let mut input = Input::new(data);
    match input.byte() % 5 {
        0 => among_ranks(&mut input, true),
        1 => among_ranks(&mut input, false),
        2 => collector(&mut input),
        3 => gather(&mut input),
        _ => assert!(parse_cache(input.rest()).len() <= data.len()),
    }
}

fn address(rank: u32) -> EndpointAddress {
    EndpointAddress { rank_id: rank.into(), pid: 1, ..EndpointAddress::default() }
}

fn offer(rank: u32, ids: usize) -> Offer {
    Offer { rank: WorldRank(rank), address: address(rank), ids: vec![[rank as u8; 16]; ids] }
}

/// A small number, or a large one now and then.
fn number(input: &mut Input<'_>, size: u32) -> u32 {
    if input.byte() == 0xff { input.word() } else { input.below(size as usize + 2) as u32 }
}

fn among_ranks(input: &mut Input<'_>, ring: bool) {
    let size = 1 + input.below(9) as u32;
    let ids = if ring { size as usize - 1 } else { 0 };
    let make = |rank| -> Box<dyn Exchange> {
        match ring {
            true => Box::new(Ring::new(offer(rank, ids), size, 1)),
            false => Box::new(Hypercube::new(offer(rank, ids), size, 1)),
        }
    };
    let mut ranks: Vec<_> = (0..size).map(make).collect();
    // Rank 0 says what the input wants, besides what it should.
    for _ in 0..input.below(40) {
        let to = input.below(size as usize);
        let blocks = (0..input.below(4)).map(|_| offer(number(input, size), input.below(10))).collect();
        let step = Step { generation: input.below(3) as u32, round: number(input, size), blocks };
        let _ = ranks[to].on_step(WorldRank(0), step);
        pass_on(&mut ranks);
    }
    pass_on(&mut ranks);
    for rank in ranks.into_iter().filter(|rank| rank.is_done()) {
        let offers = rank.into_offers();
        assert!(
            offers.len() == size as usize && offers.iter().zip(0..).all(|(offer, rank)| offer.rank == WorldRank(rank))
        );
    }
}

/// Delivers what can be delivered.
fn pass_on(ranks: &mut [Box<dyn Exchange>]) {
    loop {
        let mut moved = false;
        for from in 0..ranks.len() {
            while let Some((to, step)) = ranks[from].next_outgoing() {
                let _ = ranks[to.0 as usize].on_step(WorldRank(from as u32), step);
                moved = true;
            }
        }
        if !moved {
            return;
        }
    }
}

fn collector(input: &mut Input<'_>) {
    let size = 1 + input.below(9) as u32;
    let mut collector = Collector::new(size);
    let mut heard = vec![false; size as usize];
    for _ in 0..input.below(60) {
        let rank = number(input, size);
        let counts = match input.flag() {
            true => collector.add(offer(rank, if input.flag() { size as usize - 1 } else { input.below(12) })).is_ok(),
            false => {
                collector.gone(rank);
                rank < size
            }
        };
        if counts {
            heard[rank as usize] = true;
        }
        assert_eq!(collector.is_complete(), heard.iter().all(|h| *h));
    }
    let offers = collector.offers();
    let me = WorldRank(input.below(size as usize) as u32);
    let picked = pick(me, size, offers.clone()).expect("sound offers");
    assert_eq!(picked, dr::entries_for(me, &offers));
    assert!(picked.iter().all(|entry| entry.peer != me && entry.peer.0 < size));
}

fn gather(input: &mut Input<'_>) {
    let mut gather = Gather::default();
    for _ in 0..input.below(60) {
        let (node, generation) = (number(input, 4), number(input, 3));
        match input.below(5) {
            0 => gather.own(node, generation, address(node)),
            1 => gather.report(node, generation, vec![(WorldRank(node), address(node))]),
            2 => {
                let present = gather.generation();
                assert_eq!(gather.advance(generation), generation == present);
                assert_eq!(gather.generation(), present + u32::from(generation == present));
            }
            3 => assert!(gather.take().len() <= 120),
            _ => assert!(gather.complete(0..0) == (true, true)),
        }
    }
}
