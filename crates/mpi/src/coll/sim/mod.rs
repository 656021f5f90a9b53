//! Runs the schedules of many ranks in one thread: random interleaving, random delivery, eager and rendezvous at random.
//!
//! Checks on the way that matching messages have the same size and that no schedule waits for ever.

mod cost;
mod data;
mod inter;
mod memory;
mod mortal;
mod portable;
mod reductions;
mod topology;

use super::builder::Builder;
use super::comm_view::CommView;
use super::execute::{Cursor, Wire};
use super::objects::{Objects, Reduction};
use super::schedule::Step;
use super::team::Via;
use crate::datatype::{self, Datatype};
use base::Result;
use std::collections::{HashMap, VecDeque};
use std::rc::Rc;

/// xorshift64*
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % n
    }
}

enum Source {
    Eager(Vec<u8>),
    Memory { items: Items, transfer: usize },
}

struct Items {
    ptr: *mut u8,
    count: usize,
    datatype: Option<Rc<Datatype>>,
}

impl Items {
    fn len(&self) -> usize {
        self.datatype.as_ref().map_or(self.count, |d| d.size() * self.count)
    }

    fn read(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.len()];
        // SAFETY: a schedule names valid memory until its transfers are complete.
        unsafe {
            match &self.datatype {
                None => std::ptr::copy(self.ptr, bytes.as_mut_ptr(), bytes.len()),
                Some(d) => datatype::pack(d, self.ptr, self.count, 0, bytes.as_mut_ptr(), bytes.len()),
            }
        }
        bytes
    }

    fn write(&self, bytes: &[u8]) {
        assert_eq!(bytes.len(), self.len(), "a message and its receive have different sizes");
        // SAFETY: as for `read`.
        unsafe {
            match &self.datatype {
                None => std::ptr::copy(bytes.as_ptr(), self.ptr, bytes.len()),
                Some(d) => datatype::unpack(d, self.ptr, self.count, 0, bytes.as_ptr(), bytes.len()),
            }
        }
    }
}

type Route = (u8, usize, usize);

#[derive(Default)]
struct Queue {
    sends: VecDeque<Source>,
    recvs: VecDeque<(Items, usize)>,
}

struct Net {
    queues: HashMap<Route, Queue>,
    ready: Vec<Route>,
    complete: Vec<bool>,
    random: Random,
}

impl Net {
    fn new(seed: u64) -> Net {
        Net { queues: HashMap::new(), ready: Vec::new(), complete: Vec::new(), random: Random::new(seed + 77) }
    }

    fn transfer(&mut self) -> usize {
        self.complete.push(false);
        self.complete.len() - 1
    }

    fn deliver_one(&mut self) -> bool {
        if self.ready.is_empty() {
            return false;
        }
        let at = self.random.below(self.ready.len());
        let route = self.ready.swap_remove(at);
        let queue = self.queues.get_mut(&route).unwrap();
        let source = queue.sends.pop_front().unwrap();
        let (into, receive) = queue.recvs.pop_front().unwrap();
        match source {
            Source::Eager(bytes) => into.write(&bytes),
            Source::Memory { items, transfer } => {
                into.write(&items.read());
                self.complete[transfer] = true;
            }
        }
        self.complete[receive] = true;
        true
    }
}

struct SimWire<'a> {
    net: &'a mut Net,
    objects: &'a Objects,
    me: usize,
    /// Number of the first peer through either communicator.
    base: [usize; 2],
}

impl SimWire<'_> {
    fn start_send(&mut self, via: Via, peer: u32, items: Items) -> usize {
        let to = self.base[via as usize] + peer as usize;
        let eager = self.net.random.below(2) == 0;
        let transfer = if eager { usize::MAX } else { self.net.transfer() };
        let source = if eager { Source::Eager(items.read()) } else { Source::Memory { items, transfer } };
        let route = (via as u8, self.me, to);
        let queue = self.net.queues.entry(route).or_default();
        queue.sends.push_back(source);
        if queue.sends.len() <= queue.recvs.len() {
            self.net.ready.push(route);
        }
        transfer
    }

    fn start_recv(&mut self, via: Via, peer: u32, items: Items) -> usize {
        let transfer = self.net.transfer();
        let route = (via as u8, self.base[via as usize] + peer as usize, self.me);
        let queue = self.net.queues.entry(route).or_default();
        queue.recvs.push_back((items, transfer));
        if queue.recvs.len() <= queue.sends.len() {
            self.net.ready.push(route);
        }
        transfer
    }
}

impl Wire for SimWire<'_> {
    type Transfer = usize;
    const DONE: usize = usize::MAX;

    unsafe fn send(&mut self, via: Via, peer: u32, from: *const u8, len: usize) -> Result<usize> {
        Ok(self.start_send(via, peer, Items { ptr: from.cast_mut(), count: len, datatype: None }))
    }

    unsafe fn recv(&mut self, via: Via, peer: u32, into: *mut u8, len: usize) -> Result<usize> {
        Ok(self.start_recv(via, peer, Items { ptr: into, count: len, datatype: None }))
    }

    unsafe fn send_items(&mut self, via: Via, peer: u32, from: *const u8, count: usize, d: u32) -> Result<usize> {
        let datatype = Some(Rc::clone(self.objects.datatype(d)));
        Ok(self.start_send(via, peer, Items { ptr: from.cast_mut(), count, datatype }))
    }

    unsafe fn recv_items(&mut self, via: Via, peer: u32, into: *mut u8, count: usize, d: u32) -> Result<usize> {
        let datatype = Some(Rc::clone(self.objects.datatype(d)));
        Ok(self.start_recv(via, peer, Items { ptr: into, count, datatype }))
    }

    unsafe fn perform(&mut self, step: &Step) -> Result {
        let mut inside = crate::cs::enter_test();
        let reduce = |Reduction { op, datatype }: &Reduction, input, inout, count| {
            // SAFETY: handed on from the caller.
            unsafe { op.apply(inside.section(), input, inout, count, datatype) };
        };
        // SAFETY: handed on from the caller.
        unsafe { self.objects.perform(step, reduce) };
        Ok(())
    }

    fn is_done(transfer: usize) -> bool {
        transfer == usize::MAX
    }

    fn test(&mut self, transfer: usize) -> Option<Result> {
        self.net.complete[transfer].then_some(Ok(()))
    }

    fn wait(&mut self, _: usize, _: usize) -> Option<Result> {
        unreachable!("the simulator never blocks")
    }
}

/// Runs the schedules that `build` makes for processes `0..sizes.0`, followed by a second group of `sizes.1` that forms an
/// inter-communicator with the first.
pub fn run_groups(
    sizes: (usize, usize),
    seed: u64,
    mut build: impl FnMut(usize, &CommView<'_>, &mut Builder) -> Result,
) {
    let total = sizes.0 + sizes.1;
    let builders: Vec<Builder> = (0..total)
        .map(|id| {
            let mut b = Builder::default();
            let first = id < sizes.0;
            let (rank, size) = if first { (id, sizes.0) } else { (id - sizes.0, sizes.1) };
            let remote = (sizes.1 > 0).then_some(if first { sizes.1 } else { sizes.0 });
            let view = CommView { remote, ..CommView::new(rank, size) };
            build(id, &view, &mut b).unwrap();
            b
        })
        .collect();
    execute(&builders, sizes, seed);
}

/// As [`run_groups`] for one group.
pub fn run(size: usize, seed: u64, mut build: impl FnMut(usize, &mut Builder) -> Result) {
    run_groups((size, 0), seed, |rank, _, b| build(rank, b));
}

/// How many schedules end while process `late` doesn't start.
pub fn run_without(size: usize, late: usize, mut build: impl FnMut(usize, &mut Builder) -> Result) -> usize {
    let mut net = Net::new(late as u64);
    let mut ended = vec![false; size];
    let mut running: Vec<(usize, Builder, Cursor<usize>)> = (0..size)
        .filter(|&r| r != late)
        .map(|r| {
            let mut b = Builder::default();
            build(r, &mut b).unwrap();
            (r, b, Cursor::default())
        })
        .collect();
    for _ in 0..4 * size {
        for (r, builder, cursor) in &mut running {
            let mut wire = SimWire { net: &mut net, objects: builder.objects(), me: *r, base: [0, 0] };
            // SAFETY: the tests keep their memory until the end.
            ended[*r] |= unsafe { cursor.advance::<false, _>(builder.schedule(), &mut wire) };
        }
        while net.deliver_one() {}
    }
    ended.into_iter().filter(|e| *e).count()
}

/// Number of the first peer of a process through either communicator.
fn base_of(id: usize, sizes: (usize, usize)) -> [usize; 2] {
    match (sizes.1, id < sizes.0) {
        (0, _) => [0, 0],
        (_, true) => [sizes.0, 0],
        (_, false) => [0, sizes.0],
    }
}

fn execute(builders: &[Builder], sizes: (usize, usize), seed: u64) {
    if (seed as usize + builders.len()).is_multiple_of(3) && portable::execute(builders, sizes) {
        return;
    }
    let total = builders.len();
    let mut net =
        Net { queues: HashMap::new(), ready: Vec::new(), complete: Vec::new(), random: Random::new(seed + 77) };
    let mut cursors: Vec<Cursor<usize>> = (0..total).map(|_| Cursor::default()).collect();
    for (cursor, builder) in cursors.iter_mut().zip(builders) {
        cursor.rewind(builder.schedule());
    }
    let mut running: Vec<usize> = (0..total).collect();
    let mut idle_rounds = 0;
    while !running.is_empty() {
        let mut moved = false;
        let mut order = running.clone();
        order.rotate_left(net.random.below(running.len()));
        for id in order {
            let base = base_of(id, sizes);
            let before = cursors[id].position();
            let mut wire = SimWire { net: &mut net, objects: builders[id].objects(), me: id, base };
            // SAFETY: the tests keep their memory until the end.
            if unsafe { cursors[id].advance::<false, _>(builders[id].schedule(), &mut wire) } {
                running.retain(|&r| r != id);
                moved = true;
            }
            moved |= before != cursors[id].position();
            moved |= net.random.below(3) == 0 && net.deliver_one();
        }
        moved |= net.deliver_one();
        idle_rounds = if moved { 0 } else { idle_rounds + 1 };
        assert!(idle_rounds < 2, "deadlock of processes {running:?}");
    }
    assert!(net.queues.values().all(|q| q.sends.is_empty() && q.recvs.is_empty()), "messages are left over");
    assert!(cursors.iter().all(|c| c.outcome().is_ok()));
}
