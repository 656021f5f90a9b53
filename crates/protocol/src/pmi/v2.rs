//! PMI-2: messages of `key=value;` pairs after a length of six characters, as Slurm's `--mpi=pmi2` speaks it.
//!
//! ```text
//! (PMI-1 line: init pmi_version=2), fullinit, info-getjobattr*, kvs-put*, kvs-fence, kvs-get*, finalize | abort
//! ```
//! A `;` in a value is doubled. Answers are called `<command>-response`.

use super::{MESSAGE_MAX, Reply, is_plain};
use base::{Result, ensure};

/// Bytes of the length before each message.
pub const HEADER: usize = 6;

/// The message of a command, with its length.
pub fn command(name: &str, fields: &[(&str, &str)]) -> Result<Vec<u8>> {
    let mut body = format!("cmd={name};");
    for (key, value) in fields {
        let sound = value.bytes().all(|b| b.is_ascii_graphic() || b == b' ');
        ensure!(
            !key.is_empty() && is_plain(key) && !key.contains('=') && sound,
            ERR_INTERN,
            "a field that PMI-2 cannot carry"
        );
        body += &format!("{key}={};", value.replace(';', ";;"));
    }
    ensure!(body.len() <= MESSAGE_MAX, ERR_INTERN, "a PMI-2 command is too long");
    Ok(format!("{:6}{body}", body.len()).into_bytes())
}

/// The length of the message that follows `header`.
pub fn length(header: [u8; HEADER]) -> Result<usize> {
    let text = std::str::from_utf8(&header).map_or("", str::trim);
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let length = text.parse::<usize>().ok().filter(|n| digits && *n <= MESSAGE_MAX);
    ensure!(length.is_some(), ERR_OTHER, "the length of a PMI-2 message is wrong");
    Ok(length.unwrap_or(0))
}

/// Reads a message (without its length).
pub fn parse(body: &[u8]) -> Result<Reply> {
    ensure!(body.len() <= MESSAGE_MAX, ERR_OTHER, "a message of the launcher is too long");
    let text = std::str::from_utf8(body).ok();
    let mut reply = Reply::default();
    let mut rest = text.unwrap_or_default();
    while let Some((field, after)) = next_field(rest) {
        rest = after;
        if let Some((key, value)) = field.split_once('=') {
            match key.trim() {
                "cmd" if reply.command.is_empty() => reply.command = value.into(),
                key => reply.fields.push((key.into(), value.into())),
            }
        }
    }
    ensure!(text.is_some() && !reply.command.is_empty(), ERR_OTHER, "a message of the launcher is not PMI-2");
    Ok(reply)
}

/// The text up to the next `;` that isn't doubled, with doubled ones undone, and what follows.
fn next_field(text: &str) -> Option<(String, &str)> {
    if text.is_empty() {
        return None;
    }
    let (mut field, mut rest) = (String::new(), text);
    while let Some((before, after)) = rest.split_once(';') {
        field.push_str(before);
        match after.strip_prefix(';') {
            Some(after) => {
                field.push(';');
                rest = after;
            }
            None => return Some((field, after)),
        }
    }
    field.push_str(rest);
    Some((field, ""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sent_can_be_read() {
        let bytes = command("kvs-put", &[("key", "k"), ("value", "a;b=c;;d")]).unwrap();
        assert_eq!(bytes[..HEADER], *b"    36");
        let body = &bytes[HEADER..];
        assert_eq!(length(*bytes.first_chunk().unwrap()).unwrap(), body.len());
        let reply = parse(body).unwrap();
        assert_eq!((reply.command.as_str(), reply.get("value")), ("kvs-put", Some("a;b=c;;d")));
        let reply = parse(b"cmd=info-getjobattr-response;found=TRUE;value=(vector,(0,2,2));rc=0;").unwrap();
        assert_eq!(reply.expect("info-getjobattr-response").unwrap().get("value"), Some("(vector,(0,2,2))"));
    }

    #[test]
    fn nonsense_is_refused() {
        for wrong in [b"      ", b"-00001", b"99999x", b"999999", b" 1 2  "] {
            assert!(length(*wrong).is_err());
        }
        assert!(parse(b"").is_err() && parse(b"rc=0;").is_err() && parse(&[0xff]).is_err());
        assert!(command("kvs-put", &[("a;b", "v")]).is_err());
        assert!(command("kvs-put", &[("a", "v\n")]).is_err());
    }
}
