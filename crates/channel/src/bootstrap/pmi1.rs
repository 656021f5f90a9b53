//! PMI-1 as Hydra speaks it: over an inherited socket (`PMI_FD`), or one that is opened (`PMI_PORT`, `PMI_ID`).

use super::launcher::{Launcher, Place};
use base::{Result, fail, log};
use protocol::pmi::v1::{self, Lines};
use protocol::pmi::{Reply, mapping};
use std::fs::File;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::fd::OwnedFd;

/// The socket to the launcher's proxy.
pub struct Wire {
    socket: File,
    lines: Lines,
}

impl Wire {
    /// The socket that was inherited.
    pub fn inherited(number: &str) -> Result<Wire> {
        let Some(socket) = number.trim().parse().ok().and_then(|fd| sys::process::inherited_socket(fd).ok()) else {
            log!(
                Error,
                "PMI_FD={number} is not an open socket: this process was started by a rank, which is itself the MPI process; set \
                 FERRULE_SINGLETON=1 to run it as a job of one rank"
            );
            fail!(ERR_OTHER, "the launcher's socket is not there");
        };
        Ok(Wire { socket: socket.into(), lines: Lines::default() })
    }

    fn dialled(address: &str) -> Result<Wire> {
        match TcpStream::connect(address) {
            Ok(stream) => Ok(Wire { socket: OwnedFd::from(stream).into(), lines: Lines::default() }),
            Err(e) => {
                log!(Error, "cannot reach the launcher at PMI_PORT={address}: {e}");
                fail!(ERR_OTHER, "the launcher does not answer");
            }
        }
    }

    /// Writes all of `bytes`.
    pub fn write(&mut self, bytes: &[u8]) -> Result {
        match self.socket.write_all(bytes) {
            Ok(()) => Ok(()),
            Err(e) => {
                log!(Error, "cannot write to the launcher: {e}");
                fail!(ERR_OTHER, "the launcher is gone");
            }
        }
    }

    /// Reads all of `bytes`.
    pub fn read(&mut self, bytes: &mut [u8]) -> Result {
        match self.socket.read_exact(bytes) {
            Ok(()) => Ok(()),
            Err(e) => {
                log!(Error, "cannot read from the launcher: {e}");
                fail!(ERR_OTHER, "the launcher is gone");
            }
        }
    }

    /// The next line.
    pub fn line(&mut self) -> Result<Reply> {
        loop {
            if let Some(line) = self.lines.next_line()? {
                return v1::parse(&line);
            }
            // Not a byte more than the line: PMI-2 goes on in another format.
            let mut byte = [0];
            self.read(&mut byte)?;
            self.lines.feed(&byte);
        }
    }

    /// Asks, and waits for the answer `answer`.
    pub fn ask(&mut self, name: &str, fields: &[(&str, &str)], answer: &str) -> Result<Reply> {
        self.write(&v1::command(name, fields)?)?;
        self.line()?.expect(answer)
    }
}

/// A conversation in PMI-1.
pub struct Pmi1 {
    wire: Wire,
    place: Place,
    leaders: Vec<u32>,
    space: String,
    value_max: usize,
}

impl Pmi1 {
    /// Connects and learns this process's place.
    pub fn connect(variable: &dyn Fn(&str) -> Option<String>) -> Result<Pmi1> {
        let number = |name: &str| variable(name).and_then(|v| v.trim().parse::<u32>().ok());
        let (mut rank, mut size) = (number("PMI_RANK"), number("PMI_SIZE"));
        let mut wire = match (variable("PMI_FD"), variable("PMI_PORT")) {
            (Some(fd), _) => Wire::inherited(&fd)?,
            (None, Some(address)) => {
                let mut wire = Wire::dialled(&address)?;
                let id = variable("PMI_ID").or_else(|| variable("PMI_RANK")).unwrap_or_default();
                wire.ask("initack", &[("pmiid", id.trim())], "initack")?;
                let mut set = |name| wire.line()?.expect("set").map(|reply| reply.number(name));
                size = set("size")?.and_then(|n| n.try_into().ok());
                rank = set("rank")?.and_then(|n| n.try_into().ok());
                set("debug")?;
                wire
            }
            (None, None) => fail!(ERR_OTHER, "neither PMI_FD nor PMI_PORT is set"),
        };
        let (Some(rank), Some(size)) = (rank, size.filter(|n| *n > 0)) else {
            fail!(ERR_OTHER, "the launcher does not say rank and size (PMI_RANK, PMI_SIZE)");
        };
        wire.ask("init", &[("pmi_version", "1"), ("pmi_subversion", "1")], "response_to_init")?;
        let value_max = wire.ask("get_maxes", &[], "maxes")?.number("vallen_max").unwrap_or(256);
        let space = wire.ask("get_my_kvsname", &[], "my_kvsname")?.get("kvsname").unwrap_or_default().to_string();
        let answer = |wire: &mut Wire, what: &str, reply: &str| {
            wire.write(&v1::command(what, &[])?)?;
            Result::Ok(wire.line()?.expect(reply).ok().and_then(|r| r.number(reply)))
        };
        let app_num = answer(&mut wire, "get_appnum", "appnum")?.and_then(|n| n.try_into().ok());
        let universe = answer(&mut wire, "get_universe_size", "universe_size")?.and_then(|n| u32::try_from(n).ok());
        let place = Place { rank, size, app_num, universe_size: universe.unwrap_or(0), leader: 0 };
        let value_max = usize::try_from(value_max).unwrap_or(0).clamp(64, 32 << 10) - 1;
        let mut pmi = Pmi1 { wire, place, leaders: Vec::new(), space, value_max };
        // Of a process that is alone some launchers say nothing.
        let node_of = if size == 1 { vec![0] } else { mapping::parse(&pmi.get(0, "PMI_process_mapping")?, size)? };
        pmi.leaders = mapping::leaders(&node_of);
        pmi.place.leader = pmi.leaders.get(rank as usize).copied().unwrap_or(0);
        Ok(pmi)
    }
}

impl Launcher for Pmi1 {
    fn name(&self) -> &'static str {
        "a PMI-1 launcher"
    }

    fn place(&self) -> &Place {
        &self.place
    }

    fn leaders(&mut self) -> Result<Vec<u32>> {
        Ok(self.leaders.clone())
    }

    fn value_max(&self) -> usize {
        self.value_max
    }

    fn put(&mut self, key: &str, value: &str) -> Result {
        let fields = [("kvsname", self.space.as_str()), ("key", key), ("value", value)];
        self.wire.ask("put", &fields, "put_result").map(drop)
    }

    fn fence(&mut self) -> Result {
        self.wire.ask("barrier_in", &[], "barrier_out").map(drop)
    }

    fn get(&mut self, _from: u32, key: &str) -> Result<String> {
        let reply = self.wire.ask("get", &[("kvsname", self.space.as_str()), ("key", key)], "get_result")?;
        Ok(reply.get("value").unwrap_or_default().to_string())
    }

    fn abort(&mut self, code: i32, text: &str) {
        let words: String = text.chars().map(|c| if c.is_ascii_graphic() { c } else { ' ' }).take(200).collect();
        if let Ok(line) = v1::command("abort", &[("exitcode", &code.to_string()), ("message", &words)]) {
            let _ = self.wire.write(&line);
        }
    }

    /// As Hydra does.
    fn closes_outputs(&self) -> bool {
        true
    }

    fn finalize(&mut self) -> Result {
        self.wire.ask("finalize", &[], "finalize_ack").map(drop)
    }
}
