//! Runs one collective on a cluster.
//!
//! *Ranks that run it themselves*: the sender announces a message, the receiver has its adapter read it (or copies it, on its own node) and tells the sender. A rank takes note of
//! anything only while it is in MPI.
//!
//! *Workers* (decision 0055): the receiver's worker says that there is room, the sender's writes the data, chunk by chunk, as [`Path`] says.
//!
//! In both, the driver that learns of both ends of a message moves its data: the receiver's, or the sender's worker.

use super::network::{Network, ps, transfer_ps};
use super::schedule::{Cursor, Schedule, Step, Todo};
use super::settings::{BadSettings, Path, Settings, Share, Workers};
use crate::lanes::calendar::Calendar;
use std::collections::{HashMap, VecDeque};

/// What ranks do beside the collective: they start it, compute, and wait for it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Program {
    /// Time of the computation.
    pub compute_us: f64,
    /// Calls of `MPI_Test`, which divide it into equal parts.
    pub tests: u32,
}

/// How it went.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// When each rank has come back from `MPI_Wait`.
    pub ends_us: Vec<f64>,
    /// When the operation of each rank was over, whether it was looking or not.
    pub done_us: Vec<f64>,
    /// How long the busiest driver has worked.
    pub driver_busy_us: f64,
    /// How long the busiest link has carried data.
    pub link_busy_us: f64,
    /// Bytes that links have carried.
    pub link_bytes: u64,
}

/// One end of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct End {
    sends: bool,
    transfer: u32,
    bytes: u32,
}

/// A message whose data is moved.
#[derive(Clone, Copy, Debug, Default)]
struct Message {
    from: u32,
    to: u32,
    bytes: u32,
    /// Number of the sender's transfer, and of the receiver's. None: a copy in one rank's memory.
    transfers: Option<(u32, u32)>,
    /// Bytes whose way has begun, that are there, that the receiver has taken note of, and the sender.
    begun: u32,
    arrived: u32,
    landed: u32,
    written: u32,
}

/// What a driver takes from its queue.
#[derive(Clone, Copy, Debug)]
enum Item {
    /// A rank starts the collective.
    Start { rank: u32 },
    /// The peer's driver tells of its end of a message.
    Offer { from: u32, to: u32, end: End },
    /// A transfer is complete; that costs so many operations.
    Complete { rank: u32, transfer: u32, operations: u32 },
    /// The adapter has read a message into the receiver's memory.
    Pulled { message: u32 },
    /// A chunk is in the worker's memory.
    Staged { message: u32, bytes: u32 },
    /// A chunk is in the receiver's memory, and the sender's adapter knows it.
    Written { message: u32, bytes: u32 },
    /// Bytes are there, and their receiver's worker has to do with them.
    Landed { message: u32, bytes: u32 },
}

#[derive(Clone, Copy, Debug)]
enum Event {
    Item(u32, Item),
    /// The driver is free.
    Run(u32),
    /// A rank comes back into MPI.
    Enter(u32),
    /// An adapter begins to send bytes of a message.
    Send {
        message: u32,
        bytes: u32,
    },
    /// It begins to read them from the host's memory.
    Stage {
        message: u32,
        bytes: u32,
    },
}

#[derive(Debug, Default)]
struct Driver {
    queue: VecDeque<Item>,
    free_ps: u64,
    busy_ps: u64,
    /// It takes items: a worker always, a rank while it is in MPI.
    is_open: bool,
    /// A [`Event::Run`] is under way.
    is_running: bool,
    /// How often it leaves MPI before it waits there for the end.
    absences: u32,
    /// Messages whose chunks have not all begun.
    ready: VecDeque<u32>,
    /// Chunks that it may begin.
    chunks: u32,
}

#[derive(Debug, Default)]
struct Rank {
    cursor: Cursor,
    done_ps: Option<u64>,
    /// Since when it has waited.
    waits_ps: u64,
}

/// See the head of this file.
pub struct Simulation<'a> {
    schedules: &'a [Schedule],
    settings: &'a Settings,
    network: Network,
    calendar: Calendar,
    events: Vec<Event>,
    free_events: Vec<u32>,
    messages: Vec<Message>,
    free_messages: Vec<u32>,
    /// By sender and receiver: ends of messages whose other end is not known yet; all are of one kind.
    ends: HashMap<(u32, u32), VecDeque<End>>,
    drivers: Vec<Driver>,
    ranks: Vec<Rank>,
    /// Of an operation of a driver, and of a rank.
    op_ps: u64,
    rank_op_ps: u64,
    copy_gb_s: f64,
    local_ps: u64,
    slice_ps: u64,
    /// The time of the driver that handles an item.
    clock_ps: u64,
}

impl<'a> Simulation<'a> {
    /// Runs the collective in which rank `r` does `schedules[r]`. An error if the settings make no sense, or if ranks wait for each other.
    pub fn run(schedules: &'a [Schedule], settings: &'a Settings, program: Program) -> Result<Outcome, BadSettings> {
        settings.check()?;
        if schedules.len() != settings.ranks() as usize {
            return Err(BadSettings(format!("{} schedules for {} ranks", schedules.len(), settings.ranks())));
        }
        let mut simulation = Simulation::new(schedules, settings);
        simulation.start(program);
        while let Some((now_ps, event)) = simulation.calendar.pop() {
            simulation.free_events.push(event);
            simulation.on_event(now_ps, simulation.events[event as usize]);
        }
        simulation.outcome(program)
    }

    fn new(schedules: &'a [Schedule], settings: &'a Settings) -> Simulation<'a> {
        let workers = settings.workers.as_ref();
        let speed = workers.map_or(1.0, |workers| workers.speed);
        let count = workers.map_or(settings.ranks(), |workers| workers.per_node * settings.nodes);
        let driver = || Driver { is_open: true, chunks: workers.map_or(0, |w| w.chunks_max), ..Driver::default() };
        Simulation {
            schedules,
            settings,
            network: Network::new(settings),
            calendar: Calendar::new(1 << 20),
            events: Vec::new(),
            free_events: Vec::new(),
            messages: Vec::new(),
            free_messages: Vec::new(),
            ends: HashMap::new(),
            drivers: (0..count).map(|_| driver()).collect(),
            ranks: schedules.iter().map(|_| Rank::default()).collect(),
            op_ps: ps(settings.op_us / speed),
            rank_op_ps: ps(settings.op_us),
            copy_gb_s: settings.copy_gb_s * speed,
            local_ps: ps(settings.local_us),
            slice_ps: 0,
            clock_ps: 0,
        }
    }

    fn workers(&self) -> Option<&'a Workers> {
        self.settings.workers.as_ref()
    }

    fn node(&self, rank: u32) -> usize {
        (rank / self.settings.ranks_per_node) as usize
    }

    fn driver(&self, rank: u32) -> u32 {
        let (node, place) = (rank / self.settings.ranks_per_node, rank % self.settings.ranks_per_node);
        match self.workers() {
            None => rank,
            Some(Workers { share: Share::Operations, per_node, .. }) => node * per_node,
            Some(Workers { share: Share::Ranks, per_node, .. }) => node * per_node + place % per_node,
        }
    }

    /// From one rank's node to another one's.
    fn latency_ps(&self, from: u32, to: u32) -> u64 {
        if self.node(from) == self.node(to) { self.local_ps } else { self.network.latency_ps() }
    }

    fn post(&mut self, at_ps: u64, event: Event) {
        let place = self.free_events.pop().unwrap_or_else(|| {
            self.events.push(event);
            self.events.len() as u32 - 1
        });
        self.events[place as usize] = event;
        self.calendar.push(at_ps, place);
    }

    fn start(&mut self, program: Program) {
        let hand_over_ps = self.workers().map(|workers| ps(workers.hand_over_us));
        self.slice_ps = ps(program.compute_us / (f64::from(program.tests) + 1.0));
        for rank in 0..self.ranks.len() as u32 {
            let driver = self.driver(rank);
            let at_ps = hand_over_ps.map_or(0, |hand_over_ps| self.rank_op_ps + hand_over_ps);
            if hand_over_ps.is_none() && program.compute_us > 0.0 {
                self.drivers[driver as usize].absences = program.tests + 1;
            }
            self.post(at_ps, Event::Item(driver, Item::Start { rank }));
        }
    }

    fn on_event(&mut self, now_ps: u64, event: Event) {
        match event {
            Event::Item(number, item) => {
                let driver = &mut self.drivers[number as usize];
                driver.queue.push_back(item);
                if driver.is_open && !std::mem::replace(&mut driver.is_running, true) {
                    let free_ps = driver.free_ps.max(now_ps);
                    self.post(free_ps, Event::Run(number));
                }
            }
            Event::Run(number) => self.run_driver(now_ps, number),
            Event::Enter(number) => {
                let driver = &mut self.drivers[number as usize];
                (driver.is_open, driver.is_running) = (true, true);
                self.ranks[number as usize].waits_ps = now_ps;
                self.post(now_ps + self.rank_op_ps, Event::Run(number));
            }
            Event::Send { message, bytes } => self.send(now_ps, message, bytes),
            Event::Stage { message, bytes } => {
                let from = self.messages[message as usize].from;
                let there_ps = self.network.stage(now_ps, self.node(from), bytes) + self.local_ps;
                self.post(there_ps, Event::Item(self.driver(from), Item::Staged { message, bytes }));
            }
        }
    }

    /// Takes one item and begins one chunk. A rank that has neither leaves MPI.
    fn run_driver(&mut self, now_ps: u64, number: u32) {
        let item = self.drivers[number as usize].queue.pop_front();
        if item.is_none() && self.next_chunk(number).is_none() {
            let driver = &mut self.drivers[number as usize];
            driver.is_running = false;
            if driver.absences > 0 {
                driver.absences -= 1;
                driver.is_open = false;
                self.post(now_ps + self.slice_ps, Event::Enter(number));
            }
            return;
        }
        self.clock_ps = now_ps;
        if let Some(item) = item {
            self.on_item(number, item);
        }
        if let Some(message) = self.next_chunk(number) {
            self.begin_chunk(number, message);
        }
        let (clock_ps, has_more) = (self.clock_ps, self.next_chunk(number).is_some());
        let driver = &mut self.drivers[number as usize];
        driver.busy_ps += clock_ps - now_ps;
        driver.free_ps = clock_ps;
        // A rank that is about to leave looks again first.
        if driver.queue.is_empty() && !has_more && driver.absences == 0 {
            driver.is_running = false;
        } else {
            self.post(clock_ps, Event::Run(number));
        }
    }

    fn operate(&mut self, operations: u32) {
        self.clock_ps += u64::from(operations) * self.op_ps;
    }

    fn on_item(&mut self, number: u32, item: Item) {
        match item {
            Item::Start { rank } => {
                self.operate(1);
                self.advance(rank);
            }
            Item::Offer { from, to, end } => {
                self.operate(1);
                self.meet(from, to, end);
            }
            Item::Complete { rank, transfer, operations } => {
                self.operate(operations);
                self.complete(rank, transfer);
            }
            Item::Pulled { message } => {
                let Message { from, to, transfers, .. } = self.forget(message);
                let (sent, received) = transfers.unwrap_or_default();
                // It takes note of the end of the transfer, and tells the sender.
                self.operate(2);
                let told = Item::Complete { rank: from, transfer: sent, operations: 1 };
                self.post(self.clock_ps + self.network.latency_ps(), Event::Item(self.driver(from), told));
                self.complete(to, received);
            }
            Item::Staged { message, bytes } => {
                self.operate(2);
                self.post(self.clock_ps, Event::Send { message, bytes });
            }
            Item::Written { message, bytes } => self.on_written(number, message, bytes),
            Item::Landed { message, bytes } => self.on_landed(message, bytes),
        }
    }

    /// A rank goes on as far as it can.
    fn advance(&mut self, rank: u32) {
        loop {
            let step = self.ranks[rank as usize].cursor.advance(&self.schedules[rank as usize]);
            match step {
                Todo::Wait => return,
                Todo::Ended => return self.end(rank),
                Todo::Begin(Step::Send { to, bytes }, transfer) => {
                    self.begin(rank, to, End { sends: true, transfer, bytes });
                }
                Todo::Begin(Step::Receive { from, bytes }, transfer) => {
                    self.begin(from, rank, End { sends: false, transfer, bytes });
                }
                Todo::Begin(Step::Copy { bytes }, _) => self.copy(rank, bytes),
                Todo::Begin(Step::Await(_) | Step::Fence, _) => {}
            }
        }
    }

    /// The last step is done.
    fn end(&mut self, rank: u32) {
        let told_ps = self.workers().map_or(0, |workers| ps(workers.hand_over_us));
        if self.ranks[rank as usize].done_ps.is_some() {
            return;
        }
        if self.workers().is_some() {
            self.operate(1);
        }
        self.ranks[rank as usize].done_ps = Some(self.clock_ps + told_ps);
    }

    fn copy(&mut self, rank: u32, bytes: u32) {
        match self.workers() {
            Some(Workers { path: Path::Staged, .. }) => {
                self.enqueue(Message { from: rank, to: rank, bytes, ..Message::default() });
            }
            _ => {
                self.clock_ps += transfer_ps(bytes, self.copy_gb_s);
                self.ranks[rank as usize].cursor.copied();
            }
        }
    }

    /// A rank begins its end of a message: the driver that moves the data learns of it.
    fn begin(&mut self, from: u32, to: u32, end: End) {
        let (own, peer) = if end.sends { (from, to) } else { (to, from) };
        let mover = self.driver(if self.workers().is_some() { from } else { to });
        if mover == self.driver(own) {
            return self.meet(from, to, end);
        }
        self.operate(1);
        let at_ps = self.clock_ps + self.latency_ps(own, peer);
        self.post(at_ps, Event::Item(mover, Item::Offer { from, to, end }));
    }

    /// The driver that moves the data knows one end more.
    fn meet(&mut self, from: u32, to: u32, end: End) {
        let waiting = self.ends.entry((from, to)).or_default();
        let other = waiting.pop_front_if(|other| other.sends != end.sends);
        let Some(other) = other else {
            waiting.push_back(end);
            return;
        };
        if waiting.is_empty() {
            self.ends.remove(&(from, to));
        }
        let (send, receive) = if end.sends { (end, other) } else { (other, end) };
        let transfers = Some((send.transfer, receive.transfer));
        let message = Message { from, to, bytes: send.bytes.min(receive.bytes), transfers, ..Message::default() };
        match self.workers() {
            None => self.pull(message),
            Some(_) => self.enqueue(message),
        }
    }

    fn remember(&mut self, message: Message) -> u32 {
        let place = self.free_messages.pop().unwrap_or_else(|| {
            self.messages.push(message);
            self.messages.len() as u32 - 1
        });
        self.messages[place as usize] = message;
        place
    }

    fn forget(&mut self, message: u32) -> Message {
        self.free_messages.push(message);
        self.messages[message as usize]
    }

    /// A receiver gets the data of a message.
    fn pull(&mut self, message: Message) {
        let Message { from, to, bytes, transfers, .. } = message;
        if self.node(from) == self.node(to) {
            return self.copy_message(from, to, bytes, transfers.unwrap_or_default());
        }
        self.operate(1);
        // The request goes to the sender's adapter first.
        let at_ps = self.clock_ps + self.network.latency_ps();
        let message = self.remember(message);
        self.post(at_ps, Event::Send { message, bytes });
    }

    /// A driver copies a whole message between ranks of its node, and tells who else has to know.
    fn copy_message(&mut self, from: u32, to: u32, bytes: u32, (sent, received): (u32, u32)) {
        self.clock_ps += transfer_ps(bytes, self.copy_gb_s);
        let (mover, other) =
            if self.workers().is_some() { ((from, sent), (to, received)) } else { ((to, received), (from, sent)) };
        let own = self.driver(mover.0);
        for (rank, transfer) in [mover, other] {
            let is_own = self.driver(rank) == own;
            if !is_own {
                self.operate(1);
            }
            let at_ps = self.clock_ps + if is_own { 0 } else { self.local_ps };
            let complete = Item::Complete { rank, transfer, operations: u32::from(!is_own) };
            self.post(at_ps, Event::Item(self.driver(rank), complete));
        }
    }

    fn complete(&mut self, rank: u32, transfer: u32) {
        self.ranks[rank as usize].cursor.complete(transfer);
        self.advance(rank);
    }

    /// A worker has a message more to move.
    fn enqueue(&mut self, message: Message) {
        let driver = self.driver(message.from);
        let message = self.remember(message);
        self.drivers[driver as usize].ready.push_back(message);
    }

    /// Whether the worker itself copies a message from one rank of its node to another one.
    fn is_copied_here(&self, message: &Message) -> bool {
        let has_adapter = self.workers().is_some_and(|workers| workers.path == Path::Staged);
        !has_adapter && self.node(message.from) == self.node(message.to)
    }

    /// The message of which a worker may begin the next chunk.
    fn next_chunk(&self, number: u32) -> Option<u32> {
        let driver = &self.drivers[number as usize];
        let message = *driver.ready.front()?;
        (driver.chunks > 0 || self.is_copied_here(&self.messages[message as usize])).then_some(message)
    }

    /// A worker begins the next chunk of a message, or copies all of it.
    fn begin_chunk(&mut self, number: u32, message: u32) {
        let Some(Workers { path, chunk_bytes, .. }) = self.workers() else { return };
        let found = self.messages[message as usize];
        self.operate(1);
        if self.is_copied_here(&found) {
            self.drivers[number as usize].ready.pop_front();
            self.forget(message);
            return self.copy_message(found.from, found.to, found.bytes, found.transfers.unwrap_or_default());
        }
        let bytes = (found.bytes - found.begun).min(*chunk_bytes);
        self.messages[message as usize].begun += bytes;
        let driver = &mut self.drivers[number as usize];
        driver.chunks -= 1;
        if found.begun + bytes == found.bytes {
            driver.ready.pop_front();
        }
        if *path == Path::Copy {
            self.clock_ps += transfer_ps(bytes, self.copy_gb_s);
        }
        let event = match path {
            Path::Staged => Event::Stage { message, bytes },
            Path::Copy | Path::Registered => Event::Send { message, bytes },
        };
        self.post(self.clock_ps, event);
    }

    /// An adapter sends bytes of a message.
    fn send(&mut self, now_ps: u64, number: u32, bytes: u32) {
        let Message { from, to, transfers, .. } = self.messages[number as usize];
        let nodes = [from, to].map(|rank| self.node(rank));
        let there_ps = match nodes[0] == nodes[1] {
            true => self.network.unstage(now_ps, nodes[0], bytes),
            false => self.network.carry(now_ps, nodes[0], nodes[1], bytes),
        };
        let Some(Workers { path, .. }) = self.workers() else {
            return self.post(there_ps, Event::Item(to, Item::Pulled { message: number }));
        };
        let message = &mut self.messages[number as usize];
        message.arrived += bytes;
        let (is_whole, total) = (message.arrived == message.bytes, message.bytes);
        // Without a copy only the last chunk tells the receiver's worker, by an immediate value.
        let landed = match path {
            Path::Copy => Some(bytes),
            Path::Registered | Path::Staged => is_whole.then_some(total),
        };
        if let Some(bytes) = landed.filter(|_| transfers.is_some()) {
            self.post(there_ps, Event::Item(self.driver(to), Item::Landed { message: number, bytes }));
        }
        let known_ps = there_ps + self.latency_ps(from, to);
        self.post(known_ps, Event::Item(self.driver(from), Item::Written { message: number, bytes }));
    }

    fn on_written(&mut self, driver: u32, number: u32, bytes: u32) {
        self.operate(1);
        self.drivers[driver as usize].chunks += 1;
        self.messages[number as usize].written += bytes;
        let message = self.messages[number as usize];
        if message.written == message.bytes {
            match message.transfers {
                None => {
                    self.forget(number);
                    self.ranks[message.from as usize].cursor.copied();
                    self.advance(message.from);
                }
                Some((sent, _)) => {
                    if message.landed == message.bytes {
                        self.forget(number);
                    }
                    self.complete(message.from, sent);
                }
            }
        }
    }

    fn on_landed(&mut self, number: u32, bytes: u32) {
        self.operate(1);
        if self.workers().is_some_and(|workers| workers.path == Path::Copy) {
            self.clock_ps += transfer_ps(bytes, self.copy_gb_s);
        }
        self.messages[number as usize].landed += bytes;
        let message = self.messages[number as usize];
        if message.landed == message.bytes {
            if message.written == message.bytes {
                self.forget(number);
            }
            self.complete(message.to, message.transfers.map_or(0, |(_, received)| received));
        }
    }

    fn outcome(&self, program: Program) -> Result<Outcome, BadSettings> {
        let us = |ps: u64| ps as f64 / 1e6;
        let mut outcome = Outcome {
            ends_us: Vec::new(),
            done_us: Vec::new(),
            driver_busy_us: us(self.drivers.iter().map(|driver| driver.busy_ps).max().unwrap_or(0)),
            link_busy_us: us(self.network.busiest_ps()),
            link_bytes: self.network.bytes,
        };
        for rank in &self.ranks {
            let done_ps = rank.done_ps.ok_or(BadSettings("the schedules wait for each other".into()))?;
            let end_us = match self.workers() {
                None => us(done_ps.max(rank.waits_ps + self.rank_op_ps)),
                Some(_) => end_beside_workers(self.settings, program, us(done_ps)),
            };
            outcome.done_us.push(us(done_ps));
            outcome.ends_us.push(end_us);
        }
        Ok(outcome)
    }
}

/// When a rank is back from `MPI_Wait` whose collective a worker has ended: it posts, computes, and looks at a word in its memory. No worker waits for it meanwhile.
pub fn end_beside_workers(settings: &Settings, program: Program, done_us: f64) -> f64 {
    let worked_us = settings.op_us + program.compute_us + f64::from(program.tests) * settings.op_us;
    worked_us.max(done_us) + settings.op_us
}
