//! As much of HTTP/1.1 (RFC 9112) as the manager's API needs: one request per connection, JSON both ways, bounded in time and size; bare or over TLS (`tls.rs`).
//!
//! The token goes over unix sockets and TLS. Over bare TCP it goes to this host only, and only if a setting says so.

use super::tls::Trust;
use crate::settings;
use serde_json::Value;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// Most bytes of an answer.
const ANSWER_MAX: usize = 1 << 20;

/// Where the manager is, and how long it may take to answer.
#[derive(Debug)]
pub struct Manager {
    place: Place,
    token: Option<String>,
    /// Whether the token may go over bare TCP to this host.
    plain_token: bool,
    /// For TLS.
    trust: Option<Trust>,
    patience: Duration,
}

#[derive(Debug, PartialEq, Eq)]
enum Place {
    Unix(String),
    Tcp { host: String, port: u16, tls: bool },
}

/// Why a request has failed; the status is 0 when there was no answer.
#[derive(Debug)]
pub struct Problem {
    /// Of HTTP.
    pub status: u16,
    /// For the user.
    pub text: String,
}

/// A connection each of whose waits ends at the deadline.
pub(super) struct Timed<S> {
    stream: S,
    deadline: Instant,
}

pub(super) trait Limited: Read + Write {
    fn limit(&self, left: Duration) -> io::Result<()>;
}

impl Limited for UnixStream {
    fn limit(&self, left: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(left)).and_then(|()| self.set_write_timeout(Some(left)))
    }
}

impl Limited for TcpStream {
    fn limit(&self, left: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(left)).and_then(|()| self.set_write_timeout(Some(left)))
    }
}

impl<S: Limited> Timed<S> {
    fn limit(&self) -> io::Result<()> {
        match self.deadline.saturating_duration_since(Instant::now()) {
            Duration::ZERO => Err(ErrorKind::TimedOut.into()),
            left => self.stream.limit(left),
        }
    }
}

impl<S: Limited> Read for Timed<S> {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        self.limit()?;
        self.stream.read(room)
    }
}

impl<S: Limited> Write for Timed<S> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.limit()?;
        self.stream.write(bytes)
    }
    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

trait Stream: Read + Write {}
impl<S: Read + Write> Stream for S {}

impl Manager {
    /// At `unix:PATH`, `/PATH`, `https://HOST:PORT` or `http://HOST:PORT`; the rest is as the settings say.
    pub fn configured(place: &str) -> Result<Manager, String> {
        let patience = Duration::from_millis(settings::FABRIC_TIMEOUT.value());
        let mut manager = Manager::new(place, settings::FABRIC_TOKEN_FILE.value(), patience)?;
        manager.plain_token = settings::FABRIC_PLAIN_TOKEN.value();
        if matches!(manager.place, Place::Tcp { tls: true, .. }) {
            manager.trust = Some(Trust::new(settings::FABRIC_TLS_CA.value())?);
        }
        Ok(manager)
    }

    /// `token_file` may be empty.
    fn new(place: &str, token_file: &str, patience: Duration) -> Result<Manager, String> {
        let place = place_of(place)?;
        let token = match token_file {
            "" => None,
            path => Some(
                std::fs::read_to_string(path)
                    .map_err(|e| format!("cannot read the token in {path}: {e}"))?
                    .trim()
                    .to_string(),
            ),
        };
        if token.as_ref().is_some_and(|t| t.chars().any(|c| !c.is_ascii_graphic())) {
            return Err(format!("{token_file} holds more than a token"));
        }
        Ok(Manager { place, token, plain_token: false, trust: None, patience })
    }

    /// One request; the answer's JSON if its status says success.
    pub fn request(&self, method: &str, path: &str, body: &[u8]) -> Result<Value, Problem> {
        let told = self.exchange(method, path, body).map_err(|text| Problem { status: 0, text })?;
        let (status, answer) =
            split(&told).ok_or(Problem { status: 0, text: "the manager's answer is not HTTP".into() })?;
        let value: Value = serde_json::from_slice(answer).unwrap_or(Value::Null);
        if (200..300).contains(&status) {
            return Ok(value);
        }
        let said = value["error"]["problem"].as_str().map(String::from);
        Err(Problem { status, text: said.unwrap_or_else(|| format!("the manager answers with status {status}")) })
    }

    fn exchange(&self, method: &str, path: &str, body: &[u8]) -> Result<Vec<u8>, String> {
        let mut stream = self.connect(Instant::now() + self.patience)?;
        let authorization = self.token.as_ref().map(|t| format!("Authorization: Bearer {t}\r\n")).unwrap_or_default();
        let host = match &self.place {
            Place::Unix(_) => "manager".into(),
            Place::Tcp { host, port, .. } => format!("{host}:{port}"),
        };
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n{authorization}Connection: close\r\n\r\n",
            body.len()
        );
        let message = [head.as_bytes(), body].concat();
        stream.write_all(&message).and_then(|()| stream.flush()).map_err(|e| self.wrong(&e))?;
        let (mut answer, mut piece) = (Vec::new(), [0; 8192]);
        while !is_whole(&answer) {
            match stream.read(&mut piece) {
                Ok(0) => break,
                Ok(length) if answer.len() + length <= ANSWER_MAX => answer.extend(&piece[..length]),
                Ok(_) => return Err("the manager's answer has no end".into()),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(self.wrong(&e)),
            }
        }
        Ok(answer)
    }

    fn wrong(&self, error: &io::Error) -> String {
        match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut => {
                format!("no answer of the manager within {} ms", self.patience.as_millis())
            }
            _ => Trust::distrust(error).unwrap_or_else(|| format!("the manager hangs up: {error}")),
        }
    }

    fn connect(&self, deadline: Instant) -> Result<Box<dyn Stream>, String> {
        let (host, port) = match &self.place {
            Place::Unix(path) => {
                let stream = UnixStream::connect(path).map_err(|e| format!("no manager at {path}: {e}"))?;
                return Ok(Box::new(Timed { stream, deadline }));
            }
            Place::Tcp { host, port, .. } => (host, *port),
        };
        let nobody = |why: &dyn std::fmt::Display| format!("no manager at {host}:{port}: {why}");
        let addresses = (unbracketed(host), port).to_socket_addrs().map_err(|e| nobody(&e))?;
        let mut why = String::from("the name has no address");
        for address in addresses {
            if self.trust.is_none() {
                self.may_speak_plainly(address.ip())?;
            }
            match TcpStream::connect_timeout(&address, self.patience) {
                Err(e) => why = e.to_string(),
                Ok(stream) => {
                    let stream = Timed { stream, deadline };
                    return match &self.trust {
                        None => Ok(Box::new(stream)),
                        Some(trust) => Ok(Box::new(trust.over(stream, unbracketed(host))?)),
                    };
                }
            }
        }
        Err(nobody(&why))
    }

    /// Refuses to send the token where somebody could read it.
    fn may_speak_plainly(&self, to: IpAddr) -> Result<(), String> {
        match self.token {
            Some(_) if !to.is_loopback() => {
                Err(format!("the token would go to {to} in clear: use https:// or a unix socket"))
            }
            Some(_) if !self.plain_token => Err(format!(
                "the token would go to {to} in clear: use https://, a unix socket, or FERRULE_FABRIC_PLAIN_TOKEN=1"
            )),
            _ => Ok(()),
        }
    }
}

fn unbracketed(host: &str) -> &str {
    host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host)
}

fn place_of(text: &str) -> Result<Place, String> {
    if let Some(path) = text.strip_prefix("unix:").or_else(|| text.starts_with('/').then_some(text)) {
        return Ok(Place::Unix(path.into()));
    }
    let tls = text.starts_with("https://");
    let place = text.strip_prefix("http://").or_else(|| text.strip_prefix("https://"));
    match place.map(|rest| rest.trim_end_matches('/')).and_then(|place| place.rsplit_once(':')) {
        Some((host, port)) if !host.is_empty() && !host.contains(['/', '@']) && port.parse::<u16>().is_ok() => {
            Ok(Place::Tcp { host: host.into(), port: port.parse().unwrap_or(0), tls })
        }
        _ => Err(format!("the manager is at unix:PATH, https://HOST:PORT or http://HOST:PORT, not at '{text}'")),
    }
}

/// Whether all of an answer is there, as far as it says how long it is; else its end is that of the connection.
fn is_whole(answer: &[u8]) -> bool {
    let Some(head) = answer.windows(4).position(|w| w == b"\r\n\r\n") else { return false };
    let text = String::from_utf8_lossy(&answer[..head]).to_ascii_lowercase();
    let said = text.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse::<usize>().ok());
    said.is_some_and(|length| answer.len() - head - 4 >= length)
}

/// Status and body of an answer.
fn split(answer: &[u8]) -> Option<(u16, &[u8])> {
    let head = answer.windows(4).position(|w| w == b"\r\n\r\n")?;
    let line = std::str::from_utf8(&answer[..head]).ok()?.lines().next()?;
    let status = line.strip_prefix("HTTP/1.")?.split(' ').nth(1)?.parse().ok()?;
    Some((status, &answer[head + 4..]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    #[test]
    fn places_are_read() {
        assert_eq!(place_of("unix:/run/x").unwrap(), Place::Unix("/run/x".into()));
        assert_eq!(place_of("/run/x").unwrap(), Place::Unix("/run/x".into()));
        let tcp = |host: &str, tls| Place::Tcp { host: host.into(), port: 80, tls };
        assert_eq!(place_of("http://[::1]:80/").unwrap(), tcp("[::1]", false));
        assert_eq!(place_of("https://fabric.example:80").unwrap(), tcp("fabric.example", true));
        for wrong in
            ["", "run", "ftp://a:1", "http://a", "http://a/b:1", "http://:80", "https://me@a:1", "https://a:65536"]
        {
            assert!(place_of(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn answers_are_split() {
        assert_eq!(split(b"HTTP/1.1 201 Created\r\na: b\r\n\r\n{}"), Some((201, b"{}".as_slice())));
        for wrong in [b"".as_slice(), b"HTTP/1.1 201", b"\r\n\r\n", b"HTTP/2 200\r\n\r\n", b"HTTP/1.1 x\r\n\r\n"] {
            assert_eq!(split(wrong), None);
        }
    }

    #[test]
    fn answers_end_where_they_say() {
        assert!(is_whole(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"));
        for part in
            [b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{".as_slice(), b"HTTP/1.1 200 OK\r\n\r\n{}", b"", b"x"]
        {
            assert!(!is_whole(part));
        }
    }

    #[test]
    fn tokens_are_not_sent_in_clear() {
        let manager = |token: Option<&str>, plain_token| Manager {
            place: Place::Unix(String::new()),
            token: token.map(String::from),
            plain_token,
            trust: None,
            patience: Duration::from_secs(1),
        };
        let (here, there) = ("127.0.0.1".parse().unwrap(), "192.0.2.1".parse().unwrap());
        assert!(manager(None, false).may_speak_plainly(there).is_ok(), "there is nothing to be kept");
        for (address, plain_token, may) in
            [(here, false, false), (here, true, true), (there, false, false), (there, true, false)]
        {
            let told = manager(Some("secret"), plain_token).may_speak_plainly(address);
            assert_eq!(told.is_ok(), may, "{address}, {plain_token}");
            assert!(told.err().is_none_or(|why| why.contains("in clear: use https://") && !why.contains("secret")));
        }
    }

    /// A manager that says `answer` to whatever it is asked; silent if that is empty.
    fn served(answer: &'static [u8], patience_ms: u64) -> Result<Value, Problem> {
        let path =
            std::env::temp_dir().join(format!("ferrule-http-{}-{patience_ms}-{}", std::process::id(), answer.len()));
        let listener = UnixListener::bind(&path).unwrap();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut piece = [0; 4096];
            while !piece.windows(4).any(|w| w == b"\r\n\r\n") && stream.read(&mut piece).unwrap() > 0 {}
            stream.write_all(answer).unwrap();
            if answer.is_empty() {
                let _ = stream.read(&mut piece);
            }
        });
        let manager = Manager::new(path.to_str().unwrap(), "", Duration::from_millis(patience_ms)).unwrap();
        let told = manager.request("POST", "/v1/jobs", b"{}");
        drop(manager);
        server.join().unwrap();
        let _ = std::fs::remove_file(&path);
        told
    }

    #[test]
    fn problems_are_told() {
        assert_eq!(served(b"HTTP/1.1 201 Created\r\n\r\n{\"pairs\": 7}", 5000).unwrap()["pairs"], 7);
        let refused = served(
            b"HTTP/1.1 404 Not Found\r\n\r\n{\"error\": {\"where\": \"path\", \"problem\": \"no pattern\"}}",
            5000,
        )
        .unwrap_err();
        assert_eq!((refused.status, refused.text.as_str()), (404, "no pattern"));
        assert!(served(b"hello", 5000).unwrap_err().text.contains("not HTTP"));
        assert!(served(b"", 50).unwrap_err().text.contains("within 50 ms"));
        let nobody = Manager::new("unix:/nowhere", "", Duration::from_secs(1)).unwrap();
        assert!(nobody.request("GET", "/", b"").unwrap_err().text.contains("no manager at /nowhere"));
    }
}
