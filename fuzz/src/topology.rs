//! Descriptions of machines (hwloc's XML): refused with a sentence, or a machine in which every processor is once.

use crate::input::Input;
use sys::topology::hwloc::parse;

/// Plays one input: a file as it is, or objects with hostile attributes.
pub fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let as_file = input.flag();
    let rest = String::from_utf8_lossy(input.rest());
    let text = if as_file { rest.into_owned() } else { objects(&rest) };
    match parse(&text) {
        Ok(machine) => {
            let threads = machine.threads();
            assert!(!threads.is_empty() && !machine.is_here());
            assert_eq!(machine.cpus().count(), threads.len(), "a processor twice");
            assert!(!machine.summary().is_empty());
        }
        Err(why) => assert!(!why.is_empty()),
    }
}

/// A file whose objects take their attributes from the words of `text`.
fn objects(text: &str) -> String {
    let mut words = text.split_whitespace();
    let mut out = String::from("<topology>");
    while let (Some(kind), Some(number)) = (words.next(), words.next()) {
        let kind = match kind.as_bytes()[0] % 5 {
            0 => "PU",
            1 => "Core",
            2 => "NUMANode",
            3 => "Package",
            _ => kind,
        };
        let set = words.next().unwrap_or("0x1");
        out += &format!("<object type=\"{kind}\" os_index=\"{number}\" cpuset=\"{set}\"/>");
    }
    out + "</topology>"
}
