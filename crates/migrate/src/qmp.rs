//! QEMU's monitor protocol, QMP: a message per line, JSON both ways. Bytes in, messages out, within limits; no I/O.
//!
//! The other side is a hypervisor of the administrator, but what it passes on may come from a guest: everything is bounded, and a message of another
//! shape is an error and ends the connection. Reference: QEMU, docs/interop/qmp-spec.

use serde_json::{Value, json};

/// Longest message, in bytes.
pub const MESSAGE_MAX: usize = 1 << 20;

/// What QEMU says.
#[derive(Clone, PartialEq, Debug)]
pub enum Message {
    /// The first message.
    Greeting,
    /// The answer to the command of this number.
    Return(u64, Value),
    /// Its failure: class and description.
    Failure(u64, String, String),
    /// Something has happened: name and data.
    Event(String, Value),
}

/// Bytes that are no message yet.
#[derive(Debug, Default)]
pub struct Decoder {
    bytes: Vec<u8>,
    /// So many have no end of line.
    searched: usize,
}

impl Decoder {
    /// More bytes have come.
    pub fn on_bytes(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// The next message, if it is complete.
    pub fn poll_message(&mut self) -> Result<Option<Message>, String> {
        loop {
            let Some(end) = self.bytes[self.searched..].iter().position(|b| *b == b'\n') else {
                self.searched = self.bytes.len();
                return if self.searched > MESSAGE_MAX { Err(too_long()) } else { Ok(None) };
            };
            let end = self.searched + end;
            let line: Vec<u8> = self.bytes.drain(..=end).collect();
            self.searched = 0;
            if line.len() > MESSAGE_MAX {
                return Err(too_long());
            }
            if !line.trim_ascii().is_empty() {
                return message(&line).map(Some);
            }
        }
    }
}

fn too_long() -> String {
    format!("the monitor has sent a message of more than {MESSAGE_MAX} bytes")
}

fn message(line: &[u8]) -> Result<Message, String> {
    // serde_json refuses what is nested too deeply.
    let value: Value = serde_json::from_slice(line).map_err(|e| format!("the monitor has sent no QMP message: {e}"))?;
    let text = |value: &Value, name: &str| value.get(name).and_then(Value::as_str).map(String::from);
    if value.get("QMP").is_some_and(Value::is_object) {
        return Ok(Message::Greeting);
    }
    if let Some(name) = text(&value, "event") {
        return Ok(Message::Event(name, value.get("data").cloned().unwrap_or(Value::Null)));
    }
    let id = value.get("id").and_then(Value::as_u64);
    if let Some(error) = value.get("error") {
        let (class, why) = (text(error, "class").unwrap_or_default(), text(error, "desc").unwrap_or_default());
        // Without a number if QEMU could not read the command.
        return id.map(|id| Message::Failure(id, class, why.clone())).ok_or(why);
    }
    match (id, value.get("return")) {
        (Some(id), Some(value)) => Ok(Message::Return(id, value.clone())),
        _ => Err("the monitor has sent a message that is no answer and no event".into()),
    }
}

/// The bytes of a command.
pub fn command(id: u64, name: &str, arguments: &Value) -> Vec<u8> {
    let mut command = json!({ "execute": name, "id": id });
    if !arguments.is_null() {
        command["arguments"] = arguments.clone();
    }
    let mut bytes = command.to_string().into_bytes();
    bytes.push(b'\n');
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TALK: &[u8] = b"{\"QMP\": {\"version\": {}, \"capabilities\": [\"oob\"]}}\r\n\r\n{\"return\": {\"status\": \"running\"}, \"id\": 1}\r\n\
        {\"timestamp\": {\"seconds\": 1}, \"event\": \"DEVICE_DELETED\", \"data\": {\"device\": \"nic\"}}\r\n\
        {\"id\": 2, \"error\": {\"class\": \"DeviceNotFound\", \"desc\": \"Device 'x' not found\"}}\r\n";

    fn all(decoder: &mut Decoder) -> Vec<Message> {
        std::iter::from_fn(|| decoder.poll_message().unwrap()).collect()
    }

    #[test]
    fn messages_are_read_however_they_are_cut() {
        for size in [1, 2, 7, 64, 4096] {
            let (mut decoder, mut messages) = (Decoder::default(), Vec::new());
            for part in TALK.chunks(size) {
                decoder.on_bytes(part);
                messages.extend(all(&mut decoder));
            }
            let wanted = [
                Message::Greeting,
                Message::Return(1, json!({"status": "running"})),
                Message::Event("DEVICE_DELETED".into(), json!({"device": "nic"})),
                Message::Failure(2, "DeviceNotFound".into(), "Device 'x' not found".into()),
            ];
            assert_eq!(messages, wanted);
        }
    }

    #[test]
    fn a_command_is_one_line() {
        let bytes = command(7, "device_del", &json!({"id": "a\nb"}));
        assert_eq!(bytes.iter().filter(|b| **b == b'\n').count(), 1);
        let value: Value = serde_json::from_slice(&bytes).unwrap();
        assert_eq!(value, json!({"execute": "device_del", "id": 7, "arguments": {"id": "a\nb"}}));
        assert!(!command(7, "stop", &Value::Null).windows(9).any(|w| w == b"arguments"));
    }

    #[test]
    fn what_is_too_long_or_of_another_shape_is_an_error() {
        let mut decoder = Decoder::default();
        decoder.on_bytes(&vec![b'['; MESSAGE_MAX + 1]);
        assert!(decoder.poll_message().unwrap_err().contains("more than"));
        let deep = [b"[".repeat(100_000), b"\n".to_vec()].concat();
        for wrong in [
            &b"\xff\xfe\n"[..],
            b"null\n",
            b"{}\n",
            b"{\"id\": -1, \"return\": 1}\n",
            b"{\"error\": 3}\n",
            b"{\"QMP\": 1}\n",
            &deep,
        ] {
            let mut decoder = Decoder::default();
            decoder.on_bytes(wrong);
            assert!(decoder.poll_message().is_err());
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

        /// Flipped, cut and foreign bytes give messages or errors, never a panic or an endless loop.
        #[test]
        fn hostile_bytes_do_no_harm(changes in proptest::collection::vec((0..TALK.len(), any::<u8>()), 0..8), tail in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut bytes = TALK.to_vec();
            changes.iter().for_each(|(at, byte)| bytes[*at] = *byte);
            bytes.extend(tail);
            let mut decoder = Decoder::default();
            let (mut messages, mut errors) = (0, 0);
            for part in bytes.chunks(13) {
                decoder.on_bytes(part);
                loop {
                    match decoder.poll_message() {
                        Ok(Some(_)) => messages += 1,
                        Ok(None) => break,
                        Err(_) => errors += 1,
                    }
                }
            }
            prop_assert!(messages + errors <= bytes.len());
        }
    }
}
