//! mpiexec's side: takes questions from `ferrule top` and passes answers back. Never keeps the job waiting.

use super::find;
use crate::link::{Frame, Link};
use crate::pollset::PollSet;
use protocol::control::inquiry::{Answer, Question};
use protocol::control::{VERSION, decode, frame};
use std::os::unix::net::UnixListener;

/// Clients at a time; more are turned away.
const CLIENTS_MAX: usize = 16;

/// Who asked.
pub type ClientId = u64;

/// What was asked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Asked {
    /// The state of all ranks.
    Status,
    /// The wait-for graph.
    Waits,
    /// A migration epoch.
    Drain(Drain),
    /// The end of it.
    Resume,
    /// How far it is.
    Epoch,
}

/// What is to be suspended, and for how long.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Drain {
    /// As given to mpiexec.
    pub hosts: Vec<String>,
    /// Of each step, in milliseconds.
    pub limit_ms: u64,
    /// Of the suspension, in milliseconds.
    pub hold_ms: u64,
    /// The same, from when the client hangs up.
    pub alone_ms: u64,
    /// Whether the client waits until all is resumed.
    pub resume: bool,
}

struct Client {
    id: ClientId,
    /// It has asked and got no answer yet.
    waits: bool,
    link: Link,
}

/// Listener and clients.
#[derive(Default)]
pub struct TopServer {
    listener: Option<UnixListener>,
    clients: Vec<Client>,
    next_id: ClientId,
}

impl TopServer {
    /// Starts the server; without it the job runs all the same.
    pub fn open(random: u64) -> TopServer {
        let listener = find::listen(random)
            .map_err(|e| base::log!(Debug, "ferrule top can't ask about this job: cannot listen: {e}"))
            .ok();
        TopServer { listener, ..TopServer::default() }
    }

    /// Registers with the loop.
    pub fn register(&self, set: &mut PollSet) {
        if let Some(listener) = &self.listener {
            set.add(listener, true, false);
        }
        self.clients.iter().for_each(|client| client.link.register(set));
    }

    /// Takes new clients and their questions.
    pub fn handle(&mut self, set: &PollSet) -> Vec<(ClientId, Asked)> {
        self.accept(set);
        let mut asked = Vec::new();
        self.clients.retain_mut(|client| {
            client.link.handle(set);
            loop {
                match client.link.next_packet() {
                    Ok(None) => return !client.link.is_closed(),
                    // One question at a time, so that nothing grows.
                    Ok(Some(_)) if client.waits || !client.link.is_flushed() => return false,
                    Ok(Some(body)) => match understand(&body) {
                        Some(what) => {
                            client.waits = true;
                            asked.push((client.id, what));
                        }
                        None => client.link.send(refusal()),
                    },
                    Err(_) => return false,
                }
            }
        });
        asked
    }

    fn accept(&mut self, set: &PollSet) {
        let Some(listener) = self.listener.as_ref().filter(|l| set.readable(l)) else { return };
        while let Ok((stream, _)) = listener.accept() {
            if self.clients.len() >= CLIENTS_MAX || !find::is_trusted(&stream) {
                continue;
            }
            if let Ok(link) = Link::over_socket(stream.into()) {
                self.next_id += 1;
                self.clients.push(Client { id: self.next_id, waits: false, link });
            }
        }
    }

    /// Whether a client has not hung up.
    pub fn is_there(&self, client: ClientId) -> bool {
        self.clients.iter().any(|c| c.id == client)
    }

    /// Sends an answer, if its client is still there.
    pub fn answer(&mut self, client: ClientId, answer: &Answer) {
        if let Some(client) = self.clients.iter_mut().find(|c| c.id == client) {
            client.waits = false;
            client.link.send(frame::frame(answer).into());
        }
    }
}

fn understand(body: &[u8]) -> Option<Asked> {
    match decode::<Question>(body) {
        Ok(Question::Status { version: VERSION }) => Some(Asked::Status),
        Ok(Question::Waits { version: VERSION }) => Some(Asked::Waits),
        Ok(Question::Drain { version: VERSION, hosts, limit_ms, hold_ms, alone_ms, resume }) => {
            Some(Asked::Drain(Drain { hosts, limit_ms, hold_ms, alone_ms, resume }))
        }
        Ok(Question::Resume { version: VERSION }) => Some(Asked::Resume),
        Ok(Question::Epoch { version: VERSION }) => Some(Asked::Epoch),
        _ => None,
    }
}

fn refusal() -> Frame {
    let line = String::from("mpiexec is of another version than ferrule");
    frame::frame(&Answer::Text { lines: vec![line] }).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    fn server() -> (TopServer, UnixStream) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let client = Client { id: 1, waits: false, link: Link::over_socket(ours.into()).unwrap() };
        (TopServer { clients: vec![client], ..TopServer::default() }, theirs)
    }

    fn receive(server: &mut TopServer) -> Vec<(ClientId, Asked)> {
        let mut set = PollSet::default();
        server.register(&mut set);
        set.until(std::time::Instant::now() + std::time::Duration::from_secs(1));
        set.wait().unwrap();
        server.handle(&set)
    }

    #[test]
    fn questions_are_answered_one_at_a_time() {
        let (mut server, mut client) = server();
        let question = frame::frame(&Question::Status { version: VERSION });
        client.write_all(&question).unwrap();
        assert_eq!(receive(&mut server), [(1, Asked::Status)]);
        server.answer(1, &Answer::Text { lines: vec!["x".into()] });
        client.write_all(&frame::frame(&Question::Waits { version: VERSION })).unwrap();
        assert_eq!(receive(&mut server), [(1, Asked::Waits)]);
        client.write_all(&question).unwrap();
        assert!(
            receive(&mut server).is_empty() && server.clients.is_empty(),
            "one that asks without waiting is let go"
        );
    }

    #[test]
    fn nonsense_is_refused() {
        let (mut server, mut client) = server();
        client.write_all(&frame::frame(&Question::Status { version: 77 })).unwrap();
        assert!(receive(&mut server).is_empty());
        let mut text = [0; 64];
        let n = client.read(&mut text).unwrap();
        assert!(String::from_utf8_lossy(&text[..n]).contains("another version"));
        client.write_all(&[0xff; 8]).unwrap();
        assert!(receive(&mut server).is_empty() && server.clients.is_empty());
    }
}
