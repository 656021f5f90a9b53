//! A connection to QEMU's monitor: commands and their answers, events kept until somebody asks. Each wait ends with the step's limit.

use super::driver::{Limit, PAUSE};
use ::migrate::qmp::{Decoder, Message, command};
use serde_json::Value;
use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// Events that nobody has asked for; the oldest ones go.
const EVENTS_MAX: usize = 256;

/// Why a command has failed.
#[derive(Debug)]
pub struct Refusal {
    /// QEMU's class; empty if it has not answered.
    pub class: String,
    /// For the user.
    pub text: String,
}

impl From<Refusal> for String {
    fn from(refusal: Refusal) -> String {
        refusal.text
    }
}

trait Stream: Read + Write + Send {
    fn limit(&self, time: Duration) -> std::io::Result<()>;
}

impl Stream for UnixStream {
    fn limit(&self, time: Duration) -> std::io::Result<()> {
        self.set_read_timeout(Some(time)).and_then(|()| self.set_write_timeout(Some(time)))
    }
}

impl Stream for TcpStream {
    fn limit(&self, time: Duration) -> std::io::Result<()> {
        self.set_read_timeout(Some(time)).and_then(|()| self.set_write_timeout(Some(time)))
    }
}

/// See the head of this file.
pub struct Monitor {
    stream: Box<dyn Stream>,
    place: String,
    decoder: Decoder,
    events: VecDeque<(String, Value)>,
    id: u64,
}

impl Monitor {
    /// Connects to `unix:PATH` or `tcp:HOST:PORT`.
    pub fn open(place: &str, limit: &Limit) -> Result<Monitor, String> {
        let failed = |e: std::io::Error| format!("no connection to the monitor {place}: {e}");
        let left = limit.left()?;
        let stream: Box<dyn Stream> = match place.split_once(':') {
            Some(("unix", path)) => Box::new(UnixStream::connect(path).map_err(failed)?),
            Some(("tcp", address)) => {
                let address = address.to_socket_addrs().map_err(failed)?.next();
                let address = address.ok_or_else(|| format!("the monitor {place} has no address"))?;
                Box::new(TcpStream::connect_timeout(&address, left).map_err(failed)?)
            }
            _ => return Err(format!("a monitor is unix:PATH or tcp:HOST:PORT, not {place}")),
        };
        stream.limit(PAUSE).map_err(failed)?;
        let (decoder, events) = (Decoder::default(), VecDeque::new());
        let mut monitor = Monitor { stream, place: place.into(), decoder, events, id: 0 };
        match monitor.next_message(limit)? {
            Message::Greeting => {}
            _ => return Err(format!("{place} doesn't begin as a QMP monitor does")),
        }
        monitor.ask("qmp_capabilities", &Value::Null, limit)?;
        Ok(monitor)
    }

    /// Does a command, and gives its answer.
    pub fn ask(&mut self, name: &str, arguments: &Value, limit: &Limit) -> Result<Value, Refusal> {
        let broken = |text: String| Refusal { class: String::new(), text: format!("{name}: {text}") };
        self.id += 1;
        let mut bytes = &command(self.id, name, arguments)[..];
        while !bytes.is_empty() {
            limit.left().map_err(broken)?;
            match self.stream.write(bytes) {
                Ok(written) => bytes = &bytes[written..],
                Err(e) if is_later(e.kind()) => {}
                Err(e) => return Err(broken(e.to_string())),
            }
        }
        loop {
            match self.next_message(limit).map_err(broken)? {
                Message::Return(id, value) if id == self.id => return Ok(value),
                Message::Failure(id, class, why) if id == self.id => {
                    return Err(Refusal { class, text: format!("{name}: {why}") });
                }
                Message::Event(event, data) => self.keep(event, data),
                // The answer to a command whose limit was over, or a greeting.
                _ => {}
            }
        }
    }

    /// Whether such an event has come; it is taken, and so are all before it.
    pub fn take_event(&mut self, name: &str, wanted: impl Fn(&Value) -> bool) -> bool {
        let found = self.events.iter().position(|(event, data)| event == name && wanted(data));
        found.is_some_and(|at| self.events.drain(..=at).count() > 0)
    }

    fn keep(&mut self, event: String, data: Value) {
        self.events.push_back((event, data));
        if self.events.len() > EVENTS_MAX {
            self.events.pop_front();
        }
    }

    fn next_message(&mut self, limit: &Limit) -> Result<Message, String> {
        let mut room = [0; 16 << 10];
        loop {
            if let Some(message) = self.decoder.poll_message()? {
                return Ok(message);
            }
            limit.left()?;
            match self.stream.read(&mut room) {
                Ok(0) => return Err(format!("the monitor {} has closed the connection", self.place)),
                Ok(length) => self.decoder.on_bytes(&room[..length]),
                Err(e) if is_later(e.kind()) => {}
                Err(e) => return Err(format!("the monitor {}: {e}", self.place)),
            }
        }
    }
}

fn is_later(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}
