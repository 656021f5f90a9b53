//! Registered memory of peers: keys are fetched by a message when they are first needed, and kept with the link.
//!
//! The owner maps a registration when it is first asked for, until it is deregistered. Atomics are left to the engine's packets, since UCX 1.22 has none over some transports.

use super::link::{Flush, Remote};
use super::wire::{Front, KEY_FACTS_BYTES, KeyFacts, Kind};
use super::{Operation, UcxNet};
use crate::buffer::{RecvBuf, SendBuf};
use ::ucx::{Payload, Progress, RemoteKey, Status};
use base::log;
use protocol::memory::{Key, is_inside};
use protocol::transport::{Access, Token};

/// Remote keys that a link keeps.
const KEYS_MAX: usize = 4096;

impl UcxNet {
    /// Writes to registered memory of the peer.
    pub fn put(&mut self, index: u32, key: &Key, at: u64, source: &SendBuf) -> Access {
        let (remote, address) = match self.place(index, key, at, source.len()) {
            Ok(place) => place,
            Err(access) => return access,
        };
        let collected = source.as_contiguous(0).is_none().then(|| {
            let mut bytes = vec![0; source.len()];
            // SAFETY: as long as the source.
            unsafe { source.copy_out(0, bytes.as_mut_ptr(), bytes.len()) };
            bytes
        });
        let place = collected.as_ref().map(|bytes| bytes.as_ptr()).or(source.as_contiguous(0));
        let bytes = (place.unwrap_or(std::ptr::null()), source.len());
        let tag = self.tag();
        // SAFETY: the source is in use until `Accessed`, or until the peer is lost; bytes of our own belong to the operation.
        let progress = unsafe { self.worker_of(index).put(remote, bytes, address, tag) };
        self.on_started(index, progress, tag, Operation::Put { _data: collected })
    }

    /// Reads registered memory of the peer.
    pub fn get(&mut self, index: u32, key: &Key, at: u64, sink: &RecvBuf) -> Access {
        let (remote, address) = match self.place(index, key, at, sink.len()) {
            Ok(place) => place,
            Err(access) => return access,
        };
        let mut by_way_of = sink.as_contiguous(0).is_none().then(|| (vec![0; sink.len()], sink.clone()));
        let place = match &mut by_way_of {
            Some((bytes, _)) => bytes.as_mut_ptr(),
            None => sink.as_contiguous(0).unwrap_or(std::ptr::null_mut()),
        };
        let tag = self.tag();
        // SAFETY: the sink is in use until `Accessed`, or until the peer is lost; bytes of our own belong to the operation.
        let progress = unsafe { self.worker_of(index).get(remote, (place, sink.len()), address, tag) };
        if progress == Ok(Progress::Done)
            && let Some((bytes, sink)) = &by_way_of
        {
            // SAFETY: all of the bytes were read.
            unsafe { sink.copy_in(0, bytes.as_ptr(), bytes.len()) };
        }
        self.on_started(index, progress, tag, Operation::Get { by_way_of })
    }

    fn on_started(&mut self, index: u32, progress: Result<Progress, Status>, tag: u64, operation: Operation) -> Access {
        let link = self.link(index);
        match progress {
            Ok(Progress::Done) => {
                link.accesses += 1;
                Access::Done(0)
            }
            Ok(Progress::Posted) => {
                link.accesses += 1;
                link.posted += 1;
                self.operations.insert(tag, (index, operation));
                Access::Posted(Token(tag))
            }
            Err(status) => {
                self.on_failed(index, status.to_string());
                Access::Again
            }
        }
    }

    /// Whether all accesses so far are visible.
    pub fn flush(&mut self, index: u32) -> Access {
        let link = self.link(index);
        if link.accesses == link.flushed {
            return Access::Done(0);
        }
        let Some(endpoint) = link.endpoint.filter(|_| link.is_sendable()) else { return Access::Again };
        if link.flush != Flush::Idle {
            return Access::Again;
        }
        link.flush = Flush::Running(link.accesses);
        let tag = self.tag();
        match self.worker_of(index).flush(endpoint, tag) {
            Ok(Progress::Done) => {
                self.on_flushed(index);
                Access::Done(0)
            }
            Ok(Progress::Posted) => {
                self.operations.insert(tag, (index, Operation::Flush));
                Access::Again
            }
            Err(status) => {
                self.on_failed(index, status.to_string());
                Access::Again
            }
        }
    }

    pub(super) fn on_flushed(&mut self, index: u32) {
        let link = self.link(index);
        if let Flush::Running(accesses) = std::mem::take(&mut link.flush) {
            link.flushed = accesses;
        }
    }

    /// Where `len` bytes at `at` of a registration are; or what to answer instead.
    fn place(&mut self, index: u32, key: &Key, at: u64, len: usize) -> Result<(RemoteKey, u64), Access> {
        let link = self.link(index);
        if !link.is_sendable() {
            return Err(Access::Again);
        }
        let name = (key.number, key.nonce);
        match link.remote.get(&name).copied() {
            Some(Remote::Known { key, address, len: whole }) => match is_inside(whole, at, len as u64) {
                true if len == 0 => Err(Access::Done(0)),
                true => Ok((key, address.wrapping_add(at))),
                false => Err(Access::Refused),
            },
            Some(Remote::Refused) => {
                link.remote.remove(&name);
                Err(Access::Refused)
            }
            Some(Remote::Asked) => Err(Access::Again),
            None => {
                if link.remote.len() >= KEYS_MAX {
                    // The library keeps the keys until the link is closed; they are unpacked again if they are needed.
                    link.remote.retain(|_, remote| matches!(remote, Remote::Asked));
                }
                link.remote.insert(name, Remote::Asked);
                let front = Front::control(Kind::KeyWanted, link.own_token, 0);
                self.send_control(index, front, &KeyFacts { name, address: 0, len: 0 }.encode());
                Err(Access::Again)
            }
        }
    }

    pub(super) fn facts(&self, rail: usize, payload: &Payload) -> Option<KeyFacts> {
        self.rails[rail].worker.bytes(payload).and_then(KeyFacts::decode).map(|(facts, _)| facts)
    }

    /// Answers a peer that asks for a registration: where the memory begins and its bytes, if it is registered.
    ///
    /// # Safety
    /// The memory stays readable and writable until [`UcxNet::forget`] has been called with its number.
    pub unsafe fn answer_key(&mut self, index: u32, name: (u32, u64), memory: Option<(*mut u8, usize)>) {
        let link = self.link(index);
        let (token, rail) = (link.their_token, link.worker);
        let mut facts = KeyFacts { name, address: 0, len: 0 };
        let mut packed = Vec::new();
        if let Some((place, len)) = memory {
            // SAFETY: promised by the caller.
            match unsafe { self.mapped_key((name.0, rail), place, len) } {
                Ok(key) => {
                    (facts.address, facts.len) = (place.expose_provenance() as u64, len as u64);
                    packed = key;
                }
                Err(status) => log!(Warn, "UCX can't register {len} bytes: {status}"),
            }
        }
        let bytes = [&facts.encode()[..], &packed].concat();
        self.send_control(index, Front::control(Kind::Key, token, 0), &bytes);
    }

    /// # Safety
    /// As of [`UcxNet::answer_key`].
    unsafe fn mapped_key(&mut self, name: (u32, usize), place: *mut u8, len: usize) -> Result<Vec<u8>, Status> {
        if let Some((_, key)) = self.mapped.get(&name) {
            return Ok(key.clone());
        }
        // SAFETY: promised by the caller.
        let mapping = unsafe { self.rails[name.1].context.map(place, len) }?;
        let key = mapping.packed_key()?;
        self.mapped.insert(name, (mapping, key.clone()));
        Ok(key)
    }

    /// A registration has ended.
    pub fn forget(&mut self, number: u32) {
        self.mapped.retain(|(other, _), _| *other != number);
    }

    pub(super) fn on_key(&mut self, index: u32, payload: Payload) {
        let rail = self.link(index).worker;
        let answer = self.rails[rail].worker.bytes(&payload).and_then(KeyFacts::decode);
        let answer = answer.map(|(facts, packed)| (facts, packed.to_vec()));
        self.rails[rail].worker.release(payload);
        let Some((facts, packed)) = answer else { return self.fail(index, "its key is garbage") };
        let link = self.link(index);
        let Some(endpoint) = link.endpoint.filter(|_| matches!(link.remote.get(&facts.name), Some(Remote::Asked)))
        else {
            return;
        };
        let remote = if packed.is_empty() {
            Remote::Refused
        } else {
            match self.worker_of(index).unpack(endpoint, &packed) {
                Ok(key) => Remote::Known { key, address: facts.address, len: facts.len },
                Err(status) => {
                    return self
                        .fail(index, &format!("its key of {KEY_FACTS_BYTES} + {} bytes: {status}", packed.len()));
                }
            }
        };
        self.link(index).remote.insert(facts.name, remote);
    }
}
