//! As much of HTTP/1.1 (RFC 9112) as the manager's API needs: one request per connection, JSON both ways, bounded in time and size.

use serde_json::Value;
use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// Most bytes of an answer.
const ANSWER_MAX: usize = 1 << 20;

/// Where the manager is, and how long it may take to answer.
#[derive(Debug)]
pub struct Manager {
    place: Place,
    token: Option<String>,
    patience: Duration,
}

#[derive(Debug, PartialEq, Eq)]
enum Place {
    Unix(String),
    Tcp(String),
}

/// Why a request has failed; the status is 0 when there was no answer.
#[derive(Debug)]
pub struct Problem {
    /// Of HTTP.
    pub status: u16,
    /// For the user.
    pub text: String,
}

trait Stream: Read + Write {
    fn limit(&self, left: Duration) -> std::io::Result<()>;
}

impl Stream for UnixStream {
    fn limit(&self, left: Duration) -> std::io::Result<()> {
        self.set_read_timeout(Some(left)).and_then(|()| self.set_write_timeout(Some(left)))
    }
}

impl Stream for TcpStream {
    fn limit(&self, left: Duration) -> std::io::Result<()> {
        self.set_read_timeout(Some(left)).and_then(|()| self.set_write_timeout(Some(left)))
    }
}

impl Manager {
    /// At `unix:PATH`, `/PATH` or `http://HOST:PORT`; `token_file` may be empty.
    pub fn new(place: &str, token_file: &str, patience: Duration) -> Result<Manager, String> {
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
        Ok(Manager { place, token, patience })
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
        let deadline = Instant::now() + self.patience;
        let late = || format!("no answer of the manager within {} ms", self.patience.as_millis());
        let wrong = |e: std::io::Error| match e.kind() {
            std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut => late(),
            _ => format!("the manager hangs up: {e}"),
        };
        let mut stream = self.connect()?;
        let authorization = self.token.as_ref().map(|t| format!("Authorization: Bearer {t}\r\n")).unwrap_or_default();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: manager\r\nContent-Type: application/json\r\nContent-Length: {}\r\n{authorization}Connection: close\r\n\r\n",
            body.len()
        );
        let message = [head.as_bytes(), body].concat();
        stream.limit(self.patience).and_then(|()| stream.write_all(&message)).map_err(wrong)?;
        let (mut answer, mut piece) = (Vec::new(), [0; 8192]);
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(late());
            }
            stream.limit(left).map_err(wrong)?;
            match stream.read(&mut piece) {
                Ok(0) => return Ok(answer),
                Ok(length) if answer.len() + length <= ANSWER_MAX => answer.extend(&piece[..length]),
                Ok(_) => return Err("the manager's answer has no end".into()),
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                Err(e) => return Err(wrong(e)),
            }
        }
    }

    fn connect(&self) -> Result<Box<dyn Stream>, String> {
        match &self.place {
            Place::Unix(path) => match UnixStream::connect(path) {
                Ok(stream) => Ok(Box::new(stream)),
                Err(e) => Err(format!("no manager at {path}: {e}")),
            },
            Place::Tcp(place) => {
                let addresses = place.to_socket_addrs().map_err(|e| format!("no manager at {place}: {e}"))?;
                let mut why = String::from("the name has no address");
                for address in addresses {
                    match TcpStream::connect_timeout(&address, self.patience) {
                        Ok(stream) => return Ok(Box::new(stream)),
                        Err(e) => why = e.to_string(),
                    }
                }
                Err(format!("no manager at {place}: {why}"))
            }
        }
    }
}

fn place_of(text: &str) -> Result<Place, String> {
    if let Some(path) = text.strip_prefix("unix:").or_else(|| text.starts_with('/').then_some(text)) {
        return Ok(Place::Unix(path.into()));
    }
    let place = text.strip_prefix("http://").map(|rest| rest.trim_end_matches('/'));
    match place.and_then(|place| place.rsplit_once(':')) {
        Some((host, port)) if !host.is_empty() && !host.contains('/') && port.parse::<u16>().is_ok() => {
            Ok(Place::Tcp(format!("{host}:{port}")))
        }
        _ => Err(format!("the manager is at unix:PATH or http://HOST:PORT, not at '{text}'")),
    }
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
        assert_eq!(place_of("http://[::1]:80/").unwrap(), Place::Tcp("[::1]:80".into()));
        for wrong in ["", "run", "https://a:1", "http://a", "http://a/b:1", "http://:80"] {
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
