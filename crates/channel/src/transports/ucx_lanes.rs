//! UCX among the transports: opening it, trying peers over it, its events.

use super::{Change, Lane, TOKEN_UCX, Transports};
use crate::bootstrap::EndpointAddress;
use crate::transports::AnyPacket;
use crate::ucx::{Identity, UcxEvent, UcxNet, Wakeup, devices};
use crate::why::Why;
use base::{Class, Error, Peer, Result, log};
use protocol::control::endpoint_address::UcxAddress;
use protocol::lanes::LanePlan;
use protocol::transport::Event;
use std::sync::Arc;
use sys::epoll::Epoll;

/// Polls between two polls of UCX when only others have traffic.
const UCX_EVERY_MAX: u32 = 16;
/// The same when there is no link at all.
const UCX_EVERY_UNUSED: u32 = 64;

impl Transports {
    /// Opens UCX's workers, if UCX is to be used. Fails only if the job must not start without it.
    pub(super) fn open_ucx(&mut self, rank_id: u128, epoll: &Arc<Epoll>) -> Result {
        let identity = Identity { processes: self.processes.clone(), rank_id, job_key: self.job.key };
        let wakeup = Wakeup { epoll: Arc::clone(epoll), token: TOKEN_UCX };
        let opened = devices::find().and_then(|found| {
            let plan = LanePlan::configured();
            let opened = plan.and_then(|plan| UcxNet::open(identity, plan, found, wakeup));
            opened.map_err(devices::NotUsed::because)
        });
        match opened {
            Ok(ucx) => self.ucx = Some(Box::new(ucx)),
            Err(not_used) if not_used.is_fatal => {
                log!(Error, "FERRULE_UCX=required, but UCX can't be used: {}", not_used.why);
                return Err(Error::new(Class::ERR_OTHER, "UCX can't be used, which FERRULE_UCX=required asks for"));
            }
            Err(not_used) => {
                // Once on each host.
                if not_used.is_wanted && self.is_first_of_host() {
                    log!(Warn, "FERRULE_UCX=on, but UCX can't be used, so other channels are: {}", not_used.why);
                }
                self.no_ucx = not_used.why;
            }
        }
        Ok(())
    }

    /// Opens new workers, for lanes that are opened from now on, and where peers reach this process then. The workers before are closed when the lanes over them
    /// have been suspended.
    pub fn renew_ucx(&mut self) -> std::result::Result<UcxAddress, String> {
        self.ucx.as_mut().ok_or_else(|| self.no_ucx.clone())?.renew()
    }

    /// How many workers UCX has open.
    pub fn ucx_workers(&self) -> usize {
        self.ucx.as_ref().map_or(0, |ucx| ucx.worker_count())
    }

    /// A peer that is reached over UCX, and whose endpoint is suspended, goes on at this address: it is used when the endpoint is resumed.
    pub fn moves_over_ucx(&mut self, peer: Peer, address: UcxAddress) {
        self.moved_over_ucx.insert(peer, Box::new(address));
    }

    /// Opens the lanes over UCX to a peer that has moved. False if it hasn't, or can't be tried there.
    pub(super) fn open_ucx_where_it_is(&mut self, peer: Peer) -> bool {
        let (Some(address), Some(ucx)) = (self.moved_over_ucx.remove(&peer), &mut self.ucx) else { return false };
        if let Err(why) = ucx.dial_again(peer, &address) {
            log!(Warn, "{} has moved, but can't be reached over UCX there: {why}", self.processes.borrow().name(peer));
            return false;
        }
        let tcp = self.finder.known(peer).map(|address| address.tcp).unwrap_or_default();
        self.instead_of_ucx.insert(peer, tcp);
        true
    }

    /// Starts to open lanes over UCX. False if that isn't possible.
    pub(super) fn try_ucx(&mut self, peer: Peer, address: &EndpointAddress, why: &mut Why) -> bool {
        let dialled = match &mut self.ucx {
            Some(ucx) => match &address.ucx {
                Some(theirs) => ucx.dial(peer, address.rank_id, theirs),
                None => Err("the peer doesn't use it".into()),
            },
            None => Err(self.no_ucx.clone()),
        };
        match dialled {
            Ok(()) => {
                self.instead_of_ucx.insert(peer, address.tcp.clone());
                true
            }
            Err(reason) => {
                why.reject("ucx", reason);
                false
            }
        }
    }

    /// Looks at UCX, and decides how soon to look again.
    pub(super) fn poll_ucx(&mut self) -> Option<Event<AnyPacket, Lane>> {
        let ucx = self.ucx.as_mut()?;
        let found = ucx.poll();
        let idle = match found {
            Some(_) => false,
            None if !ucx.is_active() => {
                self.ucx_every = UCX_EVERY_UNUSED;
                return None;
            }
            None => self.hub.iter().chain(self.region.as_deref()).any(|hub| hub.is_active()),
        };
        self.ucx_every = if idle { (self.ucx_every * 2).min(UCX_EVERY_MAX) } else { 1 };
        match found? {
            UcxEvent::Packet(packet) => Some(Event::Packet(AnyPacket::Ucx(packet))),
            UcxEvent::Landed { peer, header, len } => Some(Event::Landed { peer, header, len }),
            UcxEvent::Sent(token) => Some(Event::Sent(token)),
            UcxEvent::Accessed(token) => Some(Event::Accessed(token, Some(0))),
            event => {
                self.on_ucx_event(event);
                None
            }
        }
    }

    #[cold]
    fn on_ucx_event(&mut self, event: UcxEvent) {
        match event {
            UcxEvent::Opened(peer, links) => {
                self.instead_of_ucx.remove(&peer);
                self.changes.push_back(Change::Opened(peer, links.into_iter().map(Lane::Ucx).collect()));
            }
            UcxEvent::Unreachable(peer, reason) => {
                // It has been opened otherwise, or was tried by several lanes.
                let Some(addresses) = self.instead_of_ucx.remove(&peer) else { return };
                log!(Info, "{} is not reached over UCX: {reason}", self.processes.borrow().name(peer));
                let mut why = self.finder.reasons(peer);
                why.reject("ucx", reason);
                self.open_net(peer, &addresses, &mut why);
                self.finder.note_reasons(peer, why);
            }
            UcxEvent::KeyWanted(link, (number, nonce)) => {
                let memory = self.registered.find(number, nonce).map(|region| region.place());
                if let Some(ucx) = &mut self.ucx {
                    // SAFETY: the region is registered until `deregister`, which forgets it here, too.
                    unsafe { ucx.answer_key(link, (number, nonce), memory) };
                }
            }
            UcxEvent::Lost(peer, reason) => {
                let name = self.processes.borrow().name(peer);
                log!(Warn, "lost {name} on {}, which was reached over UCX: {reason}", self.host(peer));
                self.lose(peer);
            }
            UcxEvent::Packet(_) | UcxEvent::Landed { .. } | UcxEvent::Sent(_) | UcxEvent::Accessed(_) => {}
        }
    }
}
