//! The shared file pointer (MPI-5.0, 14.4.4): a number that every process of a file changes without the help of the others.
//!
//! It lies in memory of rank 0 that the other processes open through `/proc`, where they all are in one PID namespace of one kernel. Else it
//! lies in a hidden file beside the data, which is made when the pointer is used first, and removed when the file is closed. A lock
//! makes each change one step.

use super::agree::{agree, share_bytes};
use super::raw::{self, error_of};
use crate::comm::Comm;
use crate::cs::Section;
use base::{Result, ensure};
use std::cell::{Cell, OnceCell};
use std::fs::OpenOptions;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use sys::file::LockKind;

/// The number, then what proves that the memory is the right one.
const NUMBER_BYTES: usize = 8;
const PROOF_BYTES: usize = 16;

/// See the head of this file.
pub struct SharedPointer {
    place: Place,
    initial: i64,
}

enum Place {
    /// Of the only process.
    Own(Cell<i64>),
    Memory(std::fs::File),
    Beside(PathBuf, OnceCell<std::fs::File>),
}

/// Where rank 0 has the number.
struct Offer {
    proof: [u8; PROOF_BYTES],
    memory: Option<std::fs::File>,
}

/// The kernel and PID namespace in which `/proc` names processes.
fn namespace() -> Option<String> {
    let kernel = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let pids = std::fs::read_link("/proc/self/ns/pid").ok()?;
    Some(format!("{} {}", kernel.trim(), pids.display()))
}

impl Offer {
    fn make(initial: i64) -> Result<Offer> {
        let proof = sys::mem::random().map_err(|error| error_of("making a random number", &error))?;
        let memory = sys::mem::sealed_memfd(c"ferrule-file-pointer", NUMBER_BYTES + PROOF_BYTES);
        let memory = memory.map(std::fs::File::from).ok();
        if let Some(memory) = &memory {
            let bytes = [&initial.to_le_bytes()[..], &proof].concat();
            // SAFETY: the vector has this length.
            unsafe { raw::write_at(memory, bytes.as_ptr(), bytes.len(), 0)? };
        }
        Ok(Offer { proof, memory })
    }

    /// For the other processes: the proof, then where the memory is.
    fn to_bytes(&self) -> Vec<u8> {
        let place = self.memory.as_ref().zip(namespace()).map_or(String::new(), |(memory, namespace)| {
            format!("/proc/{}/fd/{}\n{namespace}", std::process::id(), memory.as_raw_fd())
        });
        [&self.proof[..], place.as_bytes()].concat()
    }

    /// Rank 0's memory, opened by another process.
    fn open(bytes: &[u8]) -> Option<std::fs::File> {
        let (proof, place) = bytes.split_at_checked(PROOF_BYTES)?;
        let (path, namespace_there) = std::str::from_utf8(place).ok()?.split_once('\n')?;
        if namespace()? != namespace_there {
            return None;
        }
        let file = open_private(Path::new(path), false).ok()?;
        let mut found = [0u8; PROOF_BYTES];
        // SAFETY: the array has this length.
        let read = unsafe { raw::read_at(&file, found.as_mut_ptr(), PROOF_BYTES, NUMBER_BYTES as u64) };
        (read == Ok(PROOF_BYTES) && found == *proof).then_some(file)
    }
}

fn open_private(path: &Path, create: bool) -> std::io::Result<std::fs::File> {
    OpenOptions::new().read(true).write(true).create(create).truncate(false).mode(0o600).open(path)
}

impl SharedPointer {
    /// The pointer of a file at `path`; collective. It begins at the `initial` of rank 0.
    pub fn new(cs: &mut Section, comm: &Rc<Comm>, path: &Path, initial: i64) -> Result<SharedPointer> {
        if comm.size() == 1 {
            return Ok(SharedPointer { place: Place::Own(Cell::new(initial)), initial });
        }
        let offer = if comm.rank == 0 { Some(Offer::make(initial)) } else { None };
        let offer = agree(cs, comm, offer.transpose())?;
        let bytes = share_bytes(cs, comm, &offer.as_ref().map_or(Vec::new(), Offer::to_bytes))?;
        let opened = match offer {
            Some(offer) => offer.memory,
            None => Offer::open(&bytes),
        };
        let initial = super::agree::share(cs, comm, initial)?;
        let usable =
            if opened.is_some() { Ok(()) } else { Err(error_of("sharing memory", &std::io::Error::other("no /proc"))) };
        let place = match (agree(cs, comm, usable), opened) {
            (Ok(()), Some(memory)) => Place::Memory(memory),
            _ => Place::Beside(hidden_path(path, &bytes[..PROOF_BYTES]), OnceCell::new()),
        };
        Ok(SharedPointer { place, initial })
    }

    /// Replaces the number by what `change` makes of it. Returns what it was.
    pub fn update(&self, change: impl FnOnce(i64) -> Result<i64>) -> Result<i64> {
        let file = match &self.place {
            Place::Own(number) => {
                let old = number.get();
                number.set(change(old)?);
                return Ok(old);
            }
            Place::Memory(file) => file,
            Place::Beside(path, file) => match file.get() {
                Some(file) => file,
                None => {
                    let opened = open_private(path, true);
                    let opened =
                        opened.map_err(|error| error_of("making the file of a shared file pointer", &error))?;
                    file.get_or_init(|| opened)
                }
            },
        };
        let _locked = raw::lock(file, LockKind::Exclusive, 0, NUMBER_BYTES as u64)?;
        let mut bytes = [0u8; NUMBER_BYTES];
        // SAFETY: the array has this length.
        let known = unsafe { raw::read_at(file, bytes.as_mut_ptr(), NUMBER_BYTES, 0)? };
        let old = if known == NUMBER_BYTES { i64::from_le_bytes(bytes) } else { self.initial };
        let new = change(old)?;
        if new != old || known < NUMBER_BYTES {
            // SAFETY: as above.
            unsafe { raw::write_at(file, new.to_le_bytes().as_ptr(), NUMBER_BYTES, 0)? };
        }
        Ok(old)
    }

    /// Moves the pointer `etypes` on. Returns where it was.
    pub fn take(&self, etypes: i64) -> Result<i64> {
        self.update(|old| {
            let new = old.checked_add(etypes);
            ensure!(new.is_some(), ERR_ARG, "the shared file pointer would be too large");
            Ok(new.unwrap_or(old))
        })
    }

    /// Removes the hidden file; no process uses the pointer any more.
    pub fn remove(&self) {
        if let Place::Beside(path, _) = &self.place
            && let Err(error) = std::fs::remove_file(path)
            && error.kind() != std::io::ErrorKind::NotFound
        {
            base::log!(Warn, "{} could not be removed: {error}", path.display());
        }
    }
}

fn hidden_path(path: &Path, proof: &[u8]) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let number = proof.iter().take(8).fold(0u64, |number, byte| number << 8 | u64::from(*byte));
    path.with_file_name(format!(".{name}.{number:016x}.pointer"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_process_opens_the_memory_only_with_the_right_proof() {
        let offer = Offer::make(0).expect("memory");
        let mut bytes = offer.to_bytes();
        let here = SharedPointer { place: Place::Memory(offer.memory.expect("a memfd")), initial: 0 };
        let there = SharedPointer { place: Place::Memory(Offer::open(&bytes).expect("opened")), initial: 0 };
        assert_eq!((here.take(5), there.take(2), here.update(Ok)), (Ok(0), Ok(5), Ok(7)));
        bytes[0] ^= 1;
        assert!(Offer::open(&bytes).is_none());
    }

    #[test]
    fn a_hidden_file_begins_at_the_initial_position_and_goes() {
        let path = std::env::temp_dir().join(format!("ferrule-test-{}", std::process::id()));
        let hidden = hidden_path(&path, &[7; PROOF_BYTES]);
        let pointer = SharedPointer { place: Place::Beside(hidden.clone(), OnceCell::new()), initial: 3 };
        assert_eq!((pointer.take(4), pointer.update(Ok)), (Ok(3), Ok(7)));
        pointer.remove();
        assert!(!hidden.exists());
    }
}
