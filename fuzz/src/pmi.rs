//! What a foreign launcher says: PMI-1 lines, PMI-2 messages, process mappings. Refused, or read as what it is; what we say is read back unchanged.

use crate::input::Input;
use protocol::pmi::{MESSAGE_MAX, mapping, v1, v2};

/// Plays one input.
pub fn run(data: &[u8]) {
    let mut input = Input::new(data);
    match input.byte() % 4 {
        0 => lines(&mut input),
        1 => messages(&mut input),
        2 => places(&mut input),
        _ => round_trip(&mut input),
    }
}

fn lines(input: &mut Input<'_>) {
    let mut lines = v1::Lines::default();
    while !input.is_empty() {
        let n = 1 + usize::from(input.byte());
        lines.feed(input.bytes(n));
        while let Ok(Some(line)) = lines.next_line() {
            assert!(!line.contains(&b'\n') && line.len() <= MESSAGE_MAX);
            if let Ok(reply) = v1::parse(&line) {
                let _ = (reply.get("value"), reply.number("rc"), reply.clone().expect("get_result"));
            }
        }
    }
}

fn messages(input: &mut Input<'_>) {
    if let Ok(n) = v2::length(input.array()) {
        assert!(n <= MESSAGE_MAX);
    }
    if let Ok(reply) = v2::parse(input.rest()) {
        assert!(!reply.command.is_empty());
    }
}

fn places(input: &mut Input<'_>) {
    let size = input.word() % 2000;
    let text = String::from_utf8_lossy(input.rest());
    if let Ok(node_of) = mapping::parse(&text, size) {
        assert_eq!(node_of.len(), size as usize);
        let leaders = mapping::leaders(&node_of);
        for (rank, leader) in leaders.iter().enumerate() {
            assert!(*leader as usize <= rank && node_of[*leader as usize] == node_of[rank]);
        }
    }
}

fn round_trip(input: &mut Input<'_>) {
    let n = usize::from(input.byte() % 16);
    let key = String::from_utf8_lossy(input.bytes(n)).into_owned();
    let value = String::from_utf8_lossy(input.rest()).into_owned();
    if let Ok(line) = v1::command("put", &[("kvsname", "k"), (&key, &value)]) {
        assert_eq!(line.iter().filter(|b| **b == b'\n').count(), 1);
        let reply = v1::parse(&line[..line.len() - 1]).expect("what we say");
        assert_eq!(
            (reply.command.as_str(), reply.get("kvsname").map(|k| k.split(' ').next())),
            ("put", Some(Some("k")))
        );
    }
    if let Ok(message) = v2::command("kvs-put", &[("key", "k"), ("value", &value)]) {
        let body = &message[v2::HEADER..];
        assert_eq!(message.first_chunk().map(|header| v2::length(*header).expect("ours")), Some(body.len()));
        let reply = v2::parse(body).expect("what we say");
        assert_eq!((reply.get("key"), reply.get("value")), (Some("k"), Some(value.as_str())));
    }
}
