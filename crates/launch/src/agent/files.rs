//! Files that are sent before the ranks start (`crate::preload`): the agent waits for them, then begins.

use super::Agent;
use crate::preload::receive::Receiver;
use crate::settings;
use crate::tmpdir::PrivateDir;
use protocol::control::near::Groups;
use protocol::control::tree::{JobSpec, Message, ROOT};

/// The files of this node.
#[derive(Default)]
pub struct Files {
    receiver: Option<Receiver>,
    awaited: bool,
    /// What came while they were awaited.
    kernels: Option<Groups>,
}

impl Files {
    /// Where files are, if any were sent.
    pub fn receiver(&self) -> Option<&Receiver> {
        self.receiver.as_ref()
    }

    /// Whether ranks wait for files.
    pub fn are_awaited(&self) -> bool {
        self.awaited
    }

    /// Keeps for later which nodes share this kernel.
    pub fn hold_kernels(&mut self, kernels: Groups) {
        self.kernels = Some(kernels);
    }

    /// Removes the files.
    pub fn remove(&mut self) {
        self.receiver = None;
    }
}

impl Agent {
    pub(super) fn await_files(&mut self, job: Box<JobSpec>) {
        let path = PrivateDir::name(settings::PRELOAD_PARENT.value());
        self.near.note(&path);
        let received = Receiver::new(path, job.preload.clone());
        self.files.awaited = true;
        self.job = Some(job);
        match received {
            Ok(receiver) => self.files.receiver = Some(receiver),
            Err(text) => return self.fail_files(text),
        }
        self.begin_if_complete();
    }

    /// A piece of a file; the agents below have got it already.
    pub(super) fn on_chunk(&mut self, file: u32, offset: u64, bytes: &[u8]) {
        let Some(receiver) = self.files.receiver.as_mut().filter(|_| self.files.awaited) else { return };
        if let Err(text) = receiver.chunk(file, offset, bytes) {
            return self.fail_files(text);
        }
        if let Some(bytes) = receiver.take_ack() {
            self.send_up(ROOT, Message::ChunkAck { node: self.node, bytes });
        }
        self.begin_if_complete();
    }

    fn begin_if_complete(&mut self) {
        if !self.files.receiver.as_ref().is_some_and(Receiver::is_complete) {
            return;
        }
        self.files.awaited = false;
        if let Some(job) = self.job.take() {
            self.begin(job);
        }
        if let Some(groups) = self.files.kernels.take() {
            self.on_kernels(groups);
        }
    }

    fn fail_files(&mut self, text: String) {
        self.files.remove();
        self.send_up(ROOT, Message::PreloadFailed { node: self.node, text });
    }

    /// The job ends before it has begun.
    pub(super) fn give_up_files(&mut self) {
        if std::mem::take(&mut self.files.awaited) {
            self.files.remove();
            self.become_idle();
        }
    }
}
