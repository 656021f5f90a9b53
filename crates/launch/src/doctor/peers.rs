//! Two processes that try on each other what two ranks of a node do: shared memory by a passed memfd, and single copy.
//!
//! They are siblings, as ranks are: Yama lets a parent read its children, so a parent that reads proves nothing. The first one (`offer`) sends
//! its pid, an address and a word that lies there, with a memfd and its `/proc/self/mem`. The second one (`try`) reads all three and prints a line of each.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use sys::shared_file::{LETTERS_BYTES, Letters};

/// The hidden word of the command line: `ferrule doctor --peer offer|try`.
pub const PEER: &str = "--peer";
/// What the first process lays into the memfd.
const LETTER: &[u8] = b"ferrule doctor";
/// How long both may take.
const LIMIT: Duration = Duration::from_secs(20);

/// What two processes found; an error is what the system said.
#[derive(Debug)]
pub struct Tried {
    /// A memfd that was passed over a unix socket, mapped by both.
    pub memfd: Result<(), String>,
    /// `process_vm_readv`.
    pub by_pid: Result<(), String>,
    /// `pread` on the other's `/proc/self/mem`.
    pub by_mem: Result<(), String>,
}

/// Starts both processes and waits for their end. An error is a sentence.
pub fn try_both() -> Result<Tried, String> {
    let own = std::env::current_exe().map_err(|e| format!("cannot find this program: {e}"))?;
    let (one, other) = UnixStream::pair().map_err(|e| format!("cannot make a socket: {e}"))?;
    let start = |what: &str, socket: UnixStream| {
        Command::new(&own)
            .args(["doctor", PEER, what])
            .stdin(OwnedFd::from(socket))
            .stdout(Stdio::piped())
            .spawn()
            .map(Ends)
            .map_err(|e| format!("cannot start a process: {e}"))
    };
    let _offer = start("offer", one)?;
    let mut reader = start("try", other)?;
    let deadline = Instant::now() + LIMIT;
    while reader.0.try_wait().map_err(|e| e.to_string())?.is_none() {
        if Instant::now() > deadline {
            return Err(format!("two processes that try their channels did not end within {} s", LIMIT.as_secs()));
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    let mut text = String::new();
    if let Some(output) = &mut reader.0.stdout {
        output.read_to_string(&mut text).map_err(|e| e.to_string())?;
    }
    let result = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
        match line {
            Some("ok") => Ok(()),
            Some(why) => Err(why.to_string()),
            None => Err("the process that tried it has ended without a result".to_string()),
        }
    };
    Ok(Tried { memfd: result("memfd"), by_pid: result("by_pid"), by_mem: result("by_mem") })
}

/// A child that ends with this value.
struct Ends(Child);

impl Drop for Ends {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// One of the two processes; its exit code.
pub fn run(what: &str) -> i32 {
    let done = match what {
        "offer" => offer(),
        "try" => try_offer(),
        _ => Err(io::ErrorKind::InvalidInput.into()),
    };
    i32::from(done.is_err())
}

fn offer() -> io::Result<()> {
    sys::cma::allow_readers();
    let word = Box::new(u64::from_ne_bytes(sys::mem::random::<8>()?));
    let address = std::ptr::from_ref(&*word).addr() as u64;
    let memfd = shared();
    let memory = sys::cma::own_memory();
    let mut bytes = Vec::new();
    bytes.extend(sys::cma::own_pid().to_ne_bytes());
    bytes.extend(address.to_ne_bytes());
    bytes.extend(word.to_ne_bytes());
    bytes.push(u8::from(memfd.is_ok()));
    bytes.push(u8::from(memory.is_ok()));
    let letters = memfd.ok();
    let fds: Vec<_> =
        letters.iter().map(|(file, _)| file.as_fd()).chain(memory.iter().map(|memory| memory.as_fd())).collect();
    let socket = io::stdin();
    sys::fdpass::send(socket.as_fd(), &bytes, &fds, true)?;
    // Until the other one has ended, which closes its end.
    let mut rest = [0; 1];
    sys::fdpass::recv(socket.as_fd(), &mut rest, &mut Vec::new(), true)?;
    std::hint::black_box(&word);
    Ok(())
}

/// A memfd with the letter in it, written by way of a mapping.
fn shared() -> io::Result<(File, Letters)> {
    let file = File::from(sys::mem::sealed_memfd(c"ferrule-doctor", LETTERS_BYTES)?);
    let letters = Letters::in_file(&file)?;
    letters.post(0, 1, LETTER);
    Ok((file, letters))
}

fn try_offer() -> io::Result<()> {
    let (mut bytes, mut fds) = ([0; 22], Vec::new());
    let got = sys::fdpass::recv(io::stdin().as_fd(), &mut bytes, &mut fds, true)?;
    if got != bytes.len() {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let number = |at: usize| u64::from_ne_bytes(std::array::from_fn(|i| bytes[at + i]));
    let pid = i32::from_ne_bytes(std::array::from_fn(|i| bytes[i]));
    let (address, word) = (number(4), number(12));
    let (has_memfd, has_memory) = (bytes[20] == 1, bytes[21] == 1);
    let mut fds = fds.into_iter().map(File::from);
    let memfd = fds.next().filter(|_| has_memfd);
    let memory = if has_memfd == memfd.is_some() { fds.next().filter(|_| has_memory) } else { None };

    let is_word = |read: io::Result<[u8; 8]>| match read {
        Ok(bytes) if u64::from_ne_bytes(bytes) == word => "ok".to_string(),
        Ok(_) => "it read something else than what lies there".to_string(),
        Err(e) => e.to_string(),
    };
    println!("memfd: {}", memfd.map_or_else(|| "no memfd could be made or passed".to_string(), read_letter));
    let mut into = [0; 8];
    println!("by_pid: {}", is_word(sys::cma::read_exact_by_pid(pid, address, &mut into).map(|()| into)));
    let by_mem = |memory: File| is_word(memory.read_exact_at(&mut into, address).map(|()| into));
    println!("by_mem: {}", memory.map_or_else(|| "/proc/self/mem could not be opened or passed".to_string(), by_mem));
    Ok(())
}

fn read_letter(file: File) -> String {
    match Letters::in_file(&file).map(|letters| letters.read(0, 1)) {
        Ok(Some(letter)) if letter == LETTER => "ok".into(),
        Ok(_) => "the mapping doesn't show what the other process wrote".into(),
        Err(e) => e.to_string(),
    }
}
