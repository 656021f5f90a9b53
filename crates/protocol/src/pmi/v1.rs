//! PMI-1: lines of `cmd=name key=value …`, as Hydra speaks it over the socket of `PMI_FD` or `PMI_PORT`.
//!
//! ```text
//! init, get_maxes, get_my_kvsname, get_appnum, get_universe_size, put*, barrier_in ─► barrier_out, get*, finalize | abort
//! ```
//! Each is answered by one line before the next is sent, `abort` by none.

use super::{MESSAGE_MAX, Reply, is_plain};
use base::{Result, ensure};

/// The line of a command. A value with a blank is allowed in the last field only.
pub fn command(name: &str, fields: &[(&str, &str)]) -> Result<Vec<u8>> {
    let mut line = format!("cmd={name}");
    for (at, (key, value)) in fields.iter().enumerate() {
        let last = at + 1 == fields.len();
        let sound = value.bytes().all(|b| b.is_ascii_graphic() || (last && b == b' '));
        ensure!(
            !key.is_empty() && is_plain(key) && !key.contains('=') && sound,
            ERR_INTERN,
            "a field that PMI-1 cannot carry"
        );
        line += &format!(" {key}={value}");
    }
    line.push('\n');
    ensure!(line.len() <= MESSAGE_MAX, ERR_INTERN, "a PMI-1 command is too long");
    Ok(line.into_bytes())
}

/// Reads a line (without its newline). A word without `=` belongs to the value before it.
pub fn parse(line: &[u8]) -> Result<Reply> {
    ensure!(line.len() <= MESSAGE_MAX, ERR_OTHER, "a line of the launcher is too long");
    let text = std::str::from_utf8(line).ok();
    let mut reply = Reply::default();
    let mut named = false;
    for word in text.unwrap_or_default().split(' ').filter(|w| !w.is_empty()) {
        match (word.split_once('='), reply.fields.last_mut()) {
            (Some(("cmd", value)), _) if !named => {
                named = true;
                reply.command = value.into();
            }
            (Some((key, value)), _) if !key.is_empty() => reply.fields.push((key.into(), value.into())),
            (_, Some((_, value))) => {
                value.push(' ');
                value.push_str(word);
            }
            _ => {}
        }
    }
    ensure!(text.is_some() && named, ERR_OTHER, "a line of the launcher is not PMI-1");
    Ok(reply)
}

/// Cuts a stream into lines.
#[derive(Default)]
pub struct Lines {
    bytes: Vec<u8>,
}

impl Lines {
    /// Appends what has arrived.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// The next whole line.
    pub fn next_line(&mut self) -> Result<Option<Vec<u8>>> {
        let end = self.bytes.iter().position(|b| *b == b'\n');
        ensure!(end.unwrap_or(self.bytes.len()) <= MESSAGE_MAX, ERR_OTHER, "a line of the launcher is too long");
        Ok(end.map(|end| {
            let mut line: Vec<u8> = self.bytes.drain(..=end).collect();
            line.pop();
            line
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_and_replies() {
        let line = command("put", &[("kvsname", "k_1"), ("key", "a"), ("value", "b=c")]).unwrap();
        assert_eq!(line, b"cmd=put kvsname=k_1 key=a value=b=c\n");
        let reply = parse(b"cmd=get_result rc=0 msg=all is well value=(vector,(0,2,4))").unwrap();
        assert_eq!(reply.get("msg"), Some("all is well"));
        assert_eq!(reply.get("value"), Some("(vector,(0,2,4))"));
        assert_eq!(reply.clone().expect("get_result").unwrap(), reply);
        assert!(parse(b"cmd=put_result rc=-1").unwrap().expect("put_result").is_err());
        assert!(parse(b"cmd=barrier_out").unwrap().expect("get_result").is_err());
    }

    #[test]
    fn nothing_breaks_out_of_its_field() {
        for wrong in ["a b", "a\nb", "a;b", "", "k=v"] {
            assert!(command("put", &[(wrong, "v")]).is_err(), "{wrong}");
        }
        assert!(command("put", &[("key", "a b"), ("value", "v")]).is_err());
        assert!(command("abort", &[("exitcode", "3"), ("message", "two words")]).is_ok());
        assert!(command("put", &[("value", "a\nb")]).is_err());
    }

    #[test]
    fn lines_come_in_any_pieces_and_are_limited() {
        let mut lines = Lines::default();
        lines.feed(b"cmd=a\ncm");
        assert_eq!(lines.next_line().unwrap().unwrap(), b"cmd=a");
        assert_eq!(lines.next_line().unwrap(), None);
        lines.feed(b"d=b\n");
        assert_eq!(lines.next_line().unwrap().unwrap(), b"cmd=b");
        lines.feed(&vec![b'x'; MESSAGE_MAX + 1]);
        assert!(lines.next_line().is_err());
        assert!(parse(b"hello").is_err() && parse(&[0xff, 0xfe]).is_err());
    }
}
