//! `ferrule info --protocols`: which protocol a message of each size takes, by where its receiver is.

use channel::protocols::{Kind, kinds};
use protocol::engine::Mode;
use std::fmt::Write;

/// `0`, `64 KiB`, `1 MiB + 1`.
fn size(bytes: usize) -> String {
    let exact = |n: usize| match n {
        n if n >= 1 << 20 && n.is_multiple_of(1 << 20) => Some(format!("{} MiB", n >> 20)),
        n if n >= 1 << 10 && n.is_multiple_of(1 << 10) => Some(format!("{} KiB", n >> 10)),
        _ => None,
    };
    match (exact(bytes), bytes.checked_sub(1).and_then(exact)) {
        (Some(text), _) => text,
        (None, Some(text)) => format!("{text} + 1"),
        (None, None) => format!("{bytes} B"),
    }
}

/// The table; for one size only if that is given.
pub fn table(only: Option<usize>) -> String {
    let (kinds, trouble) = kinds();
    let mut text = String::new();
    for kind in &kinds {
        describe(&mut text, kind, only);
    }
    if let Some(why) = trouble {
        let _ = writeln!(text, "{why}");
    }
    text.push_str(
        "\nMPI_Send and the like; a synchronous send in brackets where it differs. Pulled messages of processors that aren't oversubscribed are\n\
         streamed through shared memory where that has been faster for their size; data that aren't contiguous are always streamed.\n\
         The sizes are settings: ferrule info --config. The channel of each pair of a job: ferrule why.\n",
    );
    text
}

fn describe(text: &mut String, kind: &Kind, only: Option<usize>) {
    let _ = writeln!(text, "{}  ({})", kind.name, kind.note);
    let holds = |first: usize, last: Option<usize>| only.is_none_or(|s| s >= first && last.is_none_or(|end| s <= end));
    let ranges = |mode| {
        let all = kind.limits.ranges(mode).into_iter();
        all.filter(|(first, last, _)| holds(*first, *last)).collect::<Vec<_>>()
    };
    let standard = ranges(Mode::Standard);
    let synchronous = Some(ranges(Mode::Synchronous)).filter(|synchronous| *synchronous != standard);
    for (found, open, close) in [(standard, "", ""), (synchronous.unwrap_or_default(), "[", "]")] {
        for (first, last, protocol) in found {
            let to = last.map_or_else(|| "…".into(), size);
            let range = format!("{open}{} – {to}{close}", size(first));
            let _ = writeln!(text, "  {range:30} {protocol}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_read_well() {
        let texts = [0, 7, 1024, 1025, 16 << 10, (16 << 10) + 1, 3 << 20, 12289].map(size);
        assert_eq!(texts, ["0 B", "7 B", "1 KiB", "1 KiB + 1", "16 KiB", "16 KiB + 1", "3 MiB", "12 KiB + 1"]);
    }

    #[test]
    fn one_size_has_one_line_for_each_kind_and_mode() {
        let all = table(None);
        assert!(all.contains("tcp  (") && all.contains("rendezvous, streamed"), "{all}");
        let one = table(Some(100));
        assert_eq!(one.lines().filter(|l| l.starts_with("  0 B")).count(), 6, "{one}");
    }
}
