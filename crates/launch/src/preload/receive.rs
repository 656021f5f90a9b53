//! An agent's side: a private directory, into which pieces are written in order; each file is checked when it is complete.

use super::{ACK_EVERY, FILES_MAX, INNER};
use crate::tmpdir::PrivateDir;
use protocol::control::tree::{CHUNK_MAX, PreloadFile};
use std::ffi::OsStr;
use std::fs::{File, Permissions};
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Component, Path, PathBuf};

/// A file that is being written.
struct Open {
    file: File,
    hasher: blake3::Hasher,
    written: u64,
}

/// What has come.
pub struct Receiver {
    directory: PrivateDir,
    files: Vec<PreloadFile>,
    /// Index of the file that is being written; their number when all are there.
    at: usize,
    open: Option<Open>,
    total: u64,
    acked: u64,
}

fn name(file: &PreloadFile) -> String {
    String::from_utf8_lossy(&file.path).into_owned()
}

impl Receiver {
    /// Makes the directory `path`. An error is a sentence, and leaves nothing.
    pub fn new(path: PathBuf, files: Vec<PreloadFile>) -> Result<Receiver, String> {
        let plain = |file: &PreloadFile| {
            let path = Path::new(OsStr::from_bytes(&file.path));
            !file.path.is_empty() && path.components().all(|part| matches!(part, Component::Normal(_)))
        };
        if files.len() > FILES_MAX || !files.iter().all(plain) {
            return Err("the list of files to be sent is wrong".into());
        }
        let shown = path.display().to_string();
        let directory = PrivateDir::create(path, INNER).map_err(|e| format!("cannot make {shown} for files: {e}"))?;
        let mut receiver = Receiver { directory, files, at: 0, open: None, total: 0, acked: 0 };
        receiver.go_on()?;
        Ok(receiver)
    }

    /// Where file `index` is, or will be.
    pub fn path_of(&self, index: u32) -> Option<PathBuf> {
        let file = self.files.get(index as usize)?;
        Some(self.inner().join(OsStr::from_bytes(&file.path)))
    }

    /// The directory of the files.
    pub fn inner(&self) -> PathBuf {
        self.directory.path().join(INNER)
    }

    /// Whether all files are there, and right.
    pub fn is_complete(&self) -> bool {
        self.at == self.files.len()
    }

    /// Bytes so far, if it is time to say so.
    pub fn take_ack(&mut self) -> Option<u64> {
        let due = self.total - self.acked >= ACK_EVERY || self.is_complete();
        due.then(|| {
            self.acked = self.total;
            self.total
        })
    }

    /// Writes the next piece. An error is a sentence; nothing can follow it.
    pub fn chunk(&mut self, file: u32, offset: u64, bytes: &[u8]) -> Result<(), String> {
        let Some(expected) = self.files.get(self.at) else { return Err("more was sent than was announced".into()) };
        let Some(open) = &mut self.open else { return Err(format!("{} can't be written any more", name(expected))) };
        if file as usize > self.at && offset == 0 {
            return Err(format!("{} is truncated: {} of {} bytes came", name(expected), open.written, expected.bytes));
        }
        let in_order = file as usize == self.at && offset == open.written && bytes.len() <= CHUNK_MAX;
        if !in_order || bytes.is_empty() || bytes.len() as u64 > expected.bytes - open.written {
            return Err(format!("a piece of {} came that is not the next one", name(expected)));
        }
        open.file.write_all(bytes).map_err(|e| format!("cannot write {}: {e}", name(expected)))?;
        open.hasher.update(bytes);
        open.written += bytes.len() as u64;
        self.total += bytes.len() as u64;
        if open.written == expected.bytes { self.finish() } else { Ok(()) }
    }

    fn finish(&mut self) -> Result<(), String> {
        let file = &self.files[self.at];
        let Some(open) = self.open.take() else { return Ok(()) };
        if open.hasher.finalize() != file.hash {
            return Err(format!("{} is corrupt: its BLAKE3 is not that of the file that was sent", name(file)));
        }
        let mode = if file.executable { 0o700 } else { 0o600 };
        open.file
            .set_permissions(Permissions::from_mode(mode))
            .map_err(|e| format!("cannot set the mode of {}: {e}", name(file)))?;
        drop(open);
        self.at += 1;
        self.go_on()
    }

    /// Opens the next file; empty ones are complete at once.
    fn go_on(&mut self) -> Result<(), String> {
        let Some(file) = self.files.get(self.at) else { return Ok(()) };
        let path = self.inner().join(OsStr::from_bytes(&file.path));
        let wrong = |e: std::io::Error| format!("cannot create {}: {e}", path.display());
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent).map_err(wrong)?;
        }
        let opened = File::options().write(true).create_new(true).mode(0o600).open(&path).map_err(wrong)?;
        self.open = Some(Open { file: opened, hasher: blake3::Hasher::new(), written: 0 });
        if file.bytes == 0 { self.finish() } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, contents: &[u8]) -> PreloadFile {
        let hash = *blake3::hash(contents).as_bytes();
        PreloadFile { path: path.into(), bytes: contents.len() as u64, hash, executable: path.starts_with("bin") }
    }

    fn receiver(files: Vec<PreloadFile>) -> Result<Receiver, String> {
        Receiver::new(PrivateDir::name(""), files)
    }

    #[test]
    fn files_arrive_in_pieces_and_vanish_with_their_receiver() {
        let mut r = receiver(vec![file("bin0/a", b"abcdef"), file("data/none", b""), file("lib/b", b"xy")]).unwrap();
        r.chunk(0, 0, b"abc").unwrap();
        assert_eq!(r.take_ack(), None);
        r.chunk(0, 3, b"def").unwrap();
        assert!(!r.is_complete());
        r.chunk(2, 0, b"xy").unwrap();
        assert!(r.is_complete());
        assert_eq!(r.take_ack(), Some(8));
        let path = r.path_of(0).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"abcdef");
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
        let outer = r.directory.path().to_path_buf();
        assert_eq!(std::fs::metadata(&outer).unwrap().permissions().mode() & 0o777, 0o700);
        assert!(r.chunk(3, 0, b"x").is_err());
        drop(r);
        assert!(!outer.exists());
    }

    #[test]
    fn what_is_corrupt_truncated_or_out_of_order_is_named() {
        let two = || receiver(vec![file("bin0/a", b"abcdef"), file("lib/b", b"xy")]).unwrap();
        let said = |result: Result<(), String>| result.unwrap_err();
        assert!(said(two().chunk(0, 0, b"abcdeX")).contains("bin0/a is corrupt"));
        let mut r = two();
        r.chunk(0, 0, b"abc").unwrap();
        assert!(said(r.chunk(1, 0, b"xy")).contains("bin0/a is truncated: 3 of 6"));
        assert!(said(two().chunk(0, 3, b"def")).contains("not the next one"));
        assert!(said(two().chunk(0, 0, b"abcdefg")).contains("not the next one"));
        assert!(said(two().chunk(0, 0, b"")).contains("not the next one"));
        assert!(said(two().chunk(1, u64::MAX, b"x")).contains("not the next one"));
    }

    #[test]
    fn no_path_leads_out_of_the_directory() {
        for path in ["../a", "/etc/a", "a/../../b", "", "."] {
            assert!(receiver(vec![file(path, b"x")]).is_err(), "{path}");
        }
        let twice = receiver(vec![file("a", b""), file("a", b"")]);
        assert!(twice.is_err());
    }
}
