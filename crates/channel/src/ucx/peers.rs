//! Links with peers: opening them, closing them, and how they are lost.

use super::link::{Incoming, Link, State};
use super::wire::{Front, Hello, Kind, Stranger, token};
use super::{Ending, Operation, UCX_CONNECT_TIMEOUT_MS, UcxEvent, UcxNet, WITHOUT_CLASS, endpoint_tag, format_number};
use ::ucx::{Payload, Progress};
use base::{Peer, counters, log};
use protocol::control::endpoint_address::UcxAddress;
use protocol::lanes::Class;
use std::time::{Duration, Instant};

/// How long a connection to a dead peer may go on to deliver what had been sent.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// How long other links of a peer are read when one of them has failed.
const LAST_READS: Duration = Duration::from_millis(20);
/// How long a link that both sides have closed waits for the peer's acknowledgement.
const CLOSE_LIMIT: Duration = Duration::from_secs(1);
/// How long a closing process waits for the peer's process when UCX has sent everything.
const LINGER: Duration = Duration::from_millis(500);

impl UcxNet {
    /// Opens all lanes to a peer with this random identity and address: [`UcxEvent::Opened`], `Unreachable` or `Lost` follows. `Err`: it can't be tried.
    pub fn dial(&mut self, peer: Peer, rank_id: u128, address: &UcxAddress) -> Result<(), String> {
        let UcxAddress { minor, format, workers } = address;
        let own = self.ucx.version().minor;
        if *minor != own {
            return Err(format!("the peer has UCX 1.{minor}, this process 1.{own}; versions aren't mixed"));
        }
        if *format != format_number(&self.plan) {
            return Err(format!("as the peer says: {}", Stranger::Settings));
        }
        let mut lanes = Vec::new();
        for lane in 0..self.plan.lanes() as u8 {
            let rail = self.rail_of(peer, lane).ok_or("no worker of that class")?;
            let class = self.rails[rail].class;
            let worker = workers.iter().find(|(other, _)| *other == class);
            lanes.push((lane, rail, worker.ok_or("the peer has no worker of that class")?.1.clone()));
        }
        for (lane, rail, address) in lanes {
            let index = self.link_at(peer, lane, rail);
            (self.link(index).rank_id, self.link(index).address) = (rank_id, address);
            self.dial_link(index);
        }
        Ok(())
    }

    /// The worker for a lane to a peer.
    fn rail_of(&self, peer: Peer, lane: u8) -> Option<usize> {
        let processes = self.identity.processes.borrow();
        let pair = processes.own_id().rank.0 as u64 + u64::from(processes.id(peer)?.rank.0);
        let class = self.plan.class(usize::from(lane), pair).and_then(Class::code).unwrap_or(WITHOUT_CLASS);
        self.rails.of_class(class)
    }

    /// Opens all lanes to a peer again, which goes on at this address; as [`UcxNet::dial`].
    pub fn dial_again(&mut self, peer: Peer, address: &UcxAddress) -> Result<(), String> {
        let link = self.by_lane.get(&(peer, 0)).ok_or("it was never reached over UCX")?;
        self.dial(peer, self.links[*link as usize].rank_id, address)
    }

    fn link_at(&mut self, peer: Peer, lane: u8, rail: usize) -> u32 {
        let links = &mut self.links;
        *self.by_lane.entry((peer, lane)).or_insert_with(|| {
            links.push(Link::new(peer, lane, rail));
            links.len() as u32 - 1
        })
    }

    fn dial_link(&mut self, index: u32) {
        let link = self.link(index);
        match link.state {
            State::Closing => return link.redials = true,
            State::Idle | State::Active if link.leaves_endpoint => return link.redials = true,
            State::Idle | State::Active => {}
            State::Failing | State::Finished | State::Lost => return,
        }
        if !self.has_endpoint(index) {
            return;
        }
        let (rank_id, key) = (self.identity.rank_id, self.key);
        let (from, to) = {
            let processes = self.identity.processes.borrow();
            let Some(to) = processes.rank(self.links[index as usize].peer) else { return };
            (processes.own_id(), to)
        };
        let (minor, format) = (self.ucx.version().minor as u8, format_number(&self.plan));
        let address = self.rails[self.links[index as usize].worker].worker.address().to_vec();
        let link = self.link(index);
        link.generation += 1;
        let (lane, generation, rank_ids) = (link.lane, link.generation, [rank_id, link.rank_id]);
        link.own_token = token(&key, rank_ids, lane, generation);
        link.dialled = Some(Instant::now());
        let own_token = link.own_token;
        self.tokens.insert(own_token, (index, true));
        self.timed.push(index);
        let hello = Hello { ucx_minor: minor, lane, format, from, to, rank_ids, generation, address };
        self.send_control(index, Front::control(Kind::Hello, own_token, 0), &hello.encode(&key));
    }

    /// Makes an endpoint if there is none. False: it can't be made.
    fn has_endpoint(&mut self, index: u32) -> bool {
        let link = self.link(index);
        if link.endpoint.is_some() {
            return true;
        }
        let (peer, lane) = (link.peer, link.lane);
        // This process may have moved to new workers since.
        let Some(rail) = self.rail_of(peer, lane) else { return false };
        let link = self.link(index);
        link.incarnation += 1;
        link.worker = rail;
        let tag = endpoint_tag(index, link);
        let address = link.address.clone();
        match self.rails[rail].worker.connect(&address, tag) {
            Ok(endpoint) => {
                let link = self.link(index);
                (link.endpoint, link.state) = (Some(endpoint), State::Active);
                true
            }
            Err(status) => {
                let peer = self.link(index).peer;
                self.events.push_back(UcxEvent::Unreachable(peer, status.to_string()));
                false
            }
        }
    }

    pub(super) fn on_hello_bytes(&mut self, rail: usize, payload: Payload) {
        let hello = self.rails[rail].worker.bytes(&payload).map(|bytes| Hello::decode(&self.key, bytes));
        self.rails[rail].worker.release(payload);
        let result = hello.unwrap_or(Err(Stranger::Garbage)).and_then(|hello| self.on_hello(rail, hello));
        if let Err(why) = result {
            counters::PACKETS_REJECTED.add(1);
            log!(Warn, "a process that called over UCX was refused: {why}");
        }
    }

    /// A member of the job opens its direction of a link.
    fn on_hello(&mut self, rail: usize, hello: Hello) -> Result<(), Stranger> {
        let (me, peer) = {
            let processes = self.identity.processes.borrow();
            (processes.own_id(), processes.peer(hello.from))
        };
        let is_ours = hello.to == me.rank && hello.rank_ids[1] == self.identity.rank_id;
        let peer = match peer {
            _ if hello.from.job != me.job => return Err(Stranger::Job),
            Some(peer) if is_ours && hello.from != me => peer,
            _ => return Err(Stranger::Misdirected),
        };
        if u32::from(hello.ucx_minor) != self.ucx.version().minor {
            return Err(Stranger::Ucx(hello.ucx_minor));
        }
        if hello.format != format_number(&self.plan) || usize::from(hello.lane) >= self.plan.lanes() {
            return Err(Stranger::Settings);
        }
        if self.rail_of(peer, hello.lane) != Some(rail) {
            return Err(Stranger::Misdirected);
        }
        let index = self.link_at(peer, hello.lane, rail);
        let link = self.link(index);
        if link.their_generation >= hello.generation {
            return Err(Stranger::Stale);
        }
        match link.state {
            State::Failing | State::Finished | State::Lost => return Err(Stranger::Stale),
            // The peer has closed its end and opens it again, which this process does when it has closed its own.
            State::Closing => {
                link.pending_hello = Some(Box::new(hello));
                self.leave_endpoint(index);
                return Ok(());
            }
            State::Idle | State::Active if link.leaves_endpoint || link.is_left => {
                link.pending_hello = Some(Box::new(hello));
                return Ok(());
            }
            State::Idle | State::Active => self.greet(index, hello),
        }
        Ok(())
    }

    /// The peer's direction is open.
    fn greet(&mut self, index: u32, hello: Hello) {
        let key = self.key;
        let link = self.link(index);
        link.rank_id = hello.rank_ids[0];
        link.address = hello.address;
        link.their_generation = hello.generation;
        let before = link.their_token;
        link.their_token = token(&key, hello.rank_ids, hello.lane, hello.generation);
        let now = link.their_token;
        self.tokens.remove(&before);
        self.tokens.insert(now, (index, false));
        if self.has_endpoint(index) {
            self.send_control(index, Front::control(Kind::Ready, now, 0), &[]);
        }
    }

    /// The peer has accepted this process's hello.
    pub(super) fn on_ready(&mut self, index: u32) {
        let link = self.link(index);
        (link.is_accepted, link.dialled) = (true, None);
        let peer = link.peer;
        let links = self.links_of(peer);
        let is_ready = |index: &u32| self.links[*index as usize].is_accepted && !self.links[*index as usize].is_opened;
        if links.len() == self.plan.lanes() && links.iter().all(is_ready) {
            links.iter().for_each(|index| self.link(*index).is_opened = true);
            self.events.push_back(UcxEvent::Opened(peer, links));
        }
    }

    /// The engine has suspended the lane: nothing of it is under way in either direction.
    pub fn close_link(&mut self, index: u32) {
        let link = self.link(index);
        if link.state != State::Active {
            return;
        }
        (link.state, link.closing_since) = (State::Closing, Some(Instant::now()));
        self.timed.push(index);
        if self.link(index).is_accepted {
            self.say_close(index);
        }
        self.close_on(index);
    }

    /// The last message of this process's direction.
    fn say_close(&mut self, index: u32) {
        let link = self.link(index);
        let front = Front::control(Kind::Close, link.own_token, link.window.next());
        link.window.note_sent(0);
        self.send_control(index, front, &[]);
    }

    /// The peer's last message is here, after all others.
    pub(super) fn on_left(&mut self, index: u32) {
        let link = self.link(index);
        link.is_left = true;
        let _ = link.order.consumed(0);
        let count = link.order.tell();
        self.acknowledge(index, count);
        let link = self.link(index);
        match link.state {
            // Nobody here has opened the lane, so nobody will close it.
            State::Active if !link.is_opened && link.dialled.is_none() => self.close_link(index),
            _ => self.close_on(index),
        }
    }

    /// Moves the closing of a link on.
    fn close_on(&mut self, index: u32) {
        let link = self.link(index);
        let is_over = link.is_left || link.their_token == 0;
        if link.state != State::Closing || !is_over || !link.window.is_acknowledged() {
            return;
        }
        let Some(endpoint) = link.endpoint else { return self.on_closed(index) };
        // The acknowledgement of the peer's last message leaves first.
        let tag = self.tag();
        match self.worker_of(index).flush(endpoint, tag) {
            Ok(Progress::Posted) => drop(self.operations.insert(tag, (index, Operation::LastFlush))),
            _ => self.leave_endpoint(index),
        }
    }

    /// Closes the endpoint without waiting for the peer.
    pub(super) fn leave_endpoint(&mut self, index: u32) {
        let link = self.link(index);
        let Some(endpoint) = link.endpoint.take() else { return };
        link.leaves_endpoint = true;
        self.worker_of(index).close(endpoint);
    }

    /// The endpoint of a link is gone.
    pub(super) fn on_closed(&mut self, index: u32) {
        let link = self.link(index);
        match link.state {
            State::Closing | State::Idle => {}
            State::Active if link.is_left => return link.state = State::Finished,
            State::Active => {}
            State::Failing | State::Finished | State::Lost => return,
        }
        let tokens = [link.own_token, link.their_token];
        let early: Vec<Payload> = link.order.take_early().into_iter().map(|Incoming { payload, .. }| payload).collect();
        link.reset();
        let (pending, redials) = (link.pending_hello.take(), std::mem::take(&mut link.redials));
        self.drop_payloads(index, early);
        self.forget_tokens(tokens);
        if let Some(hello) = pending {
            self.greet(index, *hello);
        }
        if redials {
            self.dial_link(index);
        }
    }

    fn forget_tokens(&mut self, tokens: [u64; 2]) {
        for token in tokens {
            self.tokens.remove(&token);
        }
    }

    /// The peer breaks the protocol.
    pub(super) fn fail(&mut self, index: u32, why: &str) {
        self.on_failed(index, why.to_string());
    }

    /// The endpoint of a link has failed, or can't be used any more.
    #[cold]
    pub(super) fn on_failed(&mut self, index: u32, why: String) {
        let link = self.link(index);
        let peer = link.peer;
        match link.state {
            // The peer has gone on before this process; or has left.
            State::Closing => self.leave_endpoint(index),
            State::Active if link.is_left => self.leave_endpoint(index),
            State::Active if link.is_in_use() => self.lose_peer(peer, why),
            State::Active => {
                let was_dialled = link.dialled.take().is_some() || link.is_accepted;
                self.leave_endpoint(index);
                if was_dialled {
                    self.give_up(peer, why);
                }
            }
            State::Idle | State::Failing | State::Finished | State::Lost => {}
        }
    }

    /// The peer isn't reached; nothing was sent to it.
    fn give_up(&mut self, peer: Peer, why: String) {
        for index in self.links_of(peer) {
            let link = self.link(index);
            link.dialled = None;
            if link.state == State::Active && link.their_token == 0 {
                self.leave_endpoint(index);
            }
        }
        self.events.push_back(UcxEvent::Unreachable(peer, why));
    }

    /// A peer is gone: what has arrived is read first, and operations end.
    fn lose_peer(&mut self, peer: Peer, why: String) {
        for index in self.links_of(peer) {
            let link = self.link(index);
            if matches!(link.state, State::Active | State::Closing | State::Idle) {
                link.state = State::Failing;
            }
        }
        self.dead.remove(&peer);
        self.failing.entry(peer).or_insert(Ending { why, since: Instant::now() });
    }

    /// The node agent says that `peer` is dead. True if nothing of it is left to be read; otherwise `Lost` follows.
    pub fn peer_gone(&mut self, peer: Peer) -> bool {
        let links = self.links_of(peer);
        let is_told = links.iter().any(|index| self.links[*index as usize].state == State::Lost);
        if is_told || self.failing.contains_key(&peer) {
            return false;
        }
        let is_used = links.iter().any(|index| {
            let link = &self.links[*index as usize];
            matches!(link.state, State::Active | State::Closing) && (link.is_in_use() || link.their_token != 0)
        });
        if is_used {
            self.dead.entry(peer).or_insert_with(Instant::now);
            return false;
        }
        for index in links {
            self.leave_endpoint(index);
            self.link(index).state = State::Lost;
        }
        true
    }

    /// What only time decides.
    pub(super) fn attend(&mut self, now: Instant) {
        let limit = Duration::from_millis(UCX_CONNECT_TIMEOUT_MS.value());
        for index in std::mem::take(&mut self.timed) {
            let link = self.link(index);
            let peer = link.peer;
            if let Some(since) = link.dialled {
                match now - since >= limit {
                    true => self.give_up(peer, "it did not answer (FERRULE_UCX_CONNECT_TIMEOUT_MS)".into()),
                    false => self.timed.push(index),
                }
            } else if let (State::Closing, Some(since)) = (link.state, link.closing_since) {
                self.close_on_time(index, now - since);
            }
        }
        let dead: Vec<Peer> =
            self.dead.iter().filter(|(_, since)| now - **since >= LAST_WORDS).map(|(p, _)| *p).collect();
        for peer in dead {
            self.lose_peer(peer, "its process is dead".into());
        }
        if self.events.is_empty() && self.current.is_none() {
            self.close_old_workers();
        }
        let failing: Vec<Peer> = self.failing.keys().copied().collect();
        failing.into_iter().for_each(|peer| self.end(peer, now));
    }

    /// Closes workers of before a move over which no link goes any more.
    fn close_old_workers(&mut self) {
        for place in self.rails.old_places() {
            let is_used = |link: &Link| link.worker == place && (link.endpoint.is_some() || link.leaves_endpoint);
            if !self.links.iter().any(is_used) {
                // Registrations go before the context that they were made for.
                self.mapped.retain(|(_, other), _| *other != place);
                self.rails.close_old(place);
            }
        }
    }

    fn close_on_time(&mut self, index: u32, passed: Duration) {
        let link = self.link(index);
        let is_over = link.is_left || link.their_token == 0;
        if is_over && passed >= CLOSE_LIMIT {
            return self.leave_endpoint(index);
        }
        self.timed.push(index);
        self.close_on(index);
    }

    /// Moves the end of a failing peer on.
    fn end(&mut self, peer: Peer, now: Instant) {
        let links = self.links_of(peer);
        let Some(ending) = self.failing.get(&peer) else { return };
        if links.len() > 1 && now - ending.since < LAST_READS {
            return;
        }
        links.iter().for_each(|index| self.leave_endpoint(*index));
        let shown = self.current.as_ref().map(|current| current.link);
        let is_over = |index: &u32| self.links[*index as usize].is_drained() && shown != Some(*index);
        if !links.iter().all(is_over) {
            return;
        }
        for index in links {
            let link = self.link(index);
            link.state = State::Lost;
            let tokens = [link.own_token, link.their_token];
            let early = link.order.take_early().into_iter().map(|Incoming { payload, .. }| payload).collect();
            self.drop_payloads(index, early);
            self.forget_tokens(tokens);
        }
        if let Some(Ending { why, .. }) = self.failing.remove(&peer) {
            self.events.push_back(UcxEvent::Lost(peer, why));
        }
    }

    /// Says on every link that nothing follows, and waits until the peers have all that was sent. What still comes in is dropped.
    pub fn close(&mut self) {
        let all = 0..self.links.len() as u32;
        for index in all.clone().filter(|index| self.links[*index as usize].is_sendable()).collect::<Vec<u32>>() {
            self.say_close(index);
        }
        let since = Instant::now();
        loop {
            while let Some(event) = self.poll() {
                if let UcxEvent::Packet(_) = event {
                    self.release();
                }
            }
            let is_known = all.clone().all(|index| {
                let link = &self.links[index as usize];
                link.endpoint.is_none() || link.window.is_acknowledged() || link.is_left || link.state == State::Failing
            });
            if self.is_flushed() && (is_known || since.elapsed() >= LINGER) {
                break;
            }
            std::thread::yield_now();
        }
    }
}
