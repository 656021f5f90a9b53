//! A machine from an XML file of hwloc (versions 1 and 2): `lstopo --of xml`.
//!
//! Every object tells its processors in its attribute `cpuset`, so how objects are nested doesn't matter. The file may be anything:
//! its size and the number of its objects are bounded, and the parser expands no entities and follows no references.

use super::{Thread, Topology};
use crate::affinity::{CPUS_MAX, CpuSet};
use quick_xml::Reader;
use quick_xml::events::{BytesStart, Event};
use std::io::Read;
use std::path::Path;

/// Largest file, in bytes.
pub const FILE_BYTES_MAX: usize = 8 << 20;
/// Most objects that count: processors, cores, NUMA nodes and packages.
const OBJECTS_MAX: usize = 1 << 14;

/// The text of a file, if it isn't too large.
pub fn read(path: &Path) -> Result<String, String> {
    let file = std::fs::File::open(path).map_err(|e| format!("can't be opened: {e}"))?;
    let mut text = String::new();
    file.take(FILE_BYTES_MAX as u64 + 1).read_to_string(&mut text).map_err(|e| format!("can't be read: {e}"))?;
    if text.len() > FILE_BYTES_MAX {
        return Err(format!("is larger than {FILE_BYTES_MAX} bytes"));
    }
    Ok(text)
}

/// What is found in the file: where each processor is, if that has been told.
#[derive(Default)]
struct Found {
    processors: CpuSet,
    /// Number and processors of each, in the order of the file.
    cores: Vec<(usize, CpuSet)>,
    numas: Vec<(usize, CpuSet)>,
    packages: Vec<(usize, CpuSet)>,
}

/// Reads the XML text; the error says what is wrong in which line.
pub fn parse(text: &str) -> Result<Topology, String> {
    let mut reader = Reader::from_str(text);
    let mut found = Found::default();
    let mut root_seen = false;
    let mut depth = 0usize;
    loop {
        let event = reader.read_event();
        let line =
            || 1 + text.as_bytes().iter().take(reader.buffer_position() as usize).filter(|b| **b == b'\n').count();
        depth = match &event {
            Ok(Event::Start(_)) => depth + 1,
            Ok(Event::End(_)) => depth.saturating_sub(1),
            _ => depth,
        };
        match event {
            Ok(Event::Start(tag) | Event::Empty(tag)) => {
                if !root_seen && tag.name().0 != "topology" {
                    return Err(format!("line {}: hwloc's files begin with <topology>", line()));
                }
                root_seen = true;
                if tag.name().0 == "object" {
                    found.add(&tag).map_err(|why| format!("line {}: {why}", line()))?;
                }
            }
            Ok(Event::Eof) if depth > 0 => return Err(format!("line {}: the file ends too early", line())),
            Ok(Event::Eof) => break,
            Ok(_) => {}
            Err(e) => return Err(format!("line {}: {e}", line())),
        }
    }
    if found.processors.count() == 0 {
        return Err("describes no processor".into());
    }
    Ok(found.topology())
}

impl Found {
    fn add(&mut self, tag: &BytesStart<'_>) -> Result<(), String> {
        let [kind, number, cpus] = attributes(tag, ["type", "os_index", "cpuset"])?;
        let number = match number {
            Some(text) => {
                Some(text.parse::<u32>().map_err(|_| format!("os_index=\"{text}\" is not a number"))? as usize)
            }
            None => None,
        };
        let list = match kind.as_deref() {
            None => return Err("an object has no type".into()),
            Some("PU") => return self.add_processor(number.ok_or("a PU has no os_index")?),
            Some("Core") => &mut self.cores,
            Some("NUMANode") => &mut self.numas,
            Some("Package" | "Socket") => &mut self.packages,
            Some(_) => return Ok(()),
        };
        if list.len() >= OBJECTS_MAX {
            return Err(format!("more than {OBJECTS_MAX} objects of one kind"));
        }
        let kind = kind.as_deref().unwrap_or_default();
        let cpus = parse_set(&cpus.ok_or_else(|| format!("a {kind} has no cpuset"))?)?;
        // Cores' numbers are unique only within a package, and packages may have none.
        let number = if kind == "NUMANode" { number.unwrap_or(list.len()) } else { list.len() };
        if list.iter().any(|other| other.0 == number) {
            return Err(format!("{kind} {number} is described twice"));
        }
        list.push((number, cpus));
        Ok(())
    }

    fn add_processor(&mut self, cpu: usize) -> Result<(), String> {
        if self.processors.contains(cpu) {
            return Err(format!("PU {cpu} is described twice"));
        }
        self.processors.insert(cpu);
        Ok(())
    }

    /// Puts each processor into the first object of each kind that has it.
    fn topology(self) -> Topology {
        let home = |list: &[(usize, CpuSet)]| {
            let mut of_cpu = vec![None; CPUS_MAX];
            for (number, cpus) in list {
                cpus.iter().for_each(|cpu| _ = of_cpu[cpu].get_or_insert(*number));
            }
            of_cpu
        };
        let (cores, numas, packages) = (home(&self.cores), home(&self.numas), home(&self.packages));
        let threads = self.processors.iter().map(|cpu| Thread {
            cpu,
            core: cores[cpu].unwrap_or(self.cores.len() + cpu),
            numa: numas[cpu],
            package: packages[cpu].unwrap_or(self.packages.len()),
        });
        Topology::new(threads.collect(), false)
    }
}

/// The values of the attributes `names`; others are passed over.
fn attributes<const N: usize>(tag: &BytesStart<'_>, names: [&str; N]) -> Result<[Option<String>; N], String> {
    let mut values = [const { None }; N];
    for attribute in tag.attributes().with_checks(false) {
        let attribute = attribute.map_err(|e| e.to_string())?;
        if let Some(at) = names.iter().position(|name| *name == attribute.key.0) {
            values[at] = Some(attribute.value.into_owned());
        }
    }
    Ok(values)
}

/// Reads `0x0000000f` or `0xf,0x00000000,,0x1`: words of 32 bits, the highest first, an empty one is zero.
fn parse_set(text: &str) -> Result<CpuSet, String> {
    let mut set = CpuSet::default();
    for (index, word) in text.trim().rsplit(',').enumerate() {
        let digits = word.strip_prefix("0x").unwrap_or(word);
        let wrong = || format!("cpuset=\"{}\" is not a set of processors", text.chars().take(40).collect::<String>());
        let bits = if digits.is_empty() { 0 } else { u32::from_str_radix(digits, 16).map_err(|_| wrong())? };
        (0..32).filter(|bit| bits >> bit & 1 == 1).for_each(|bit| set.insert(index.saturating_mul(32) + bit));
    }
    Ok(set)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO_SOCKETS: &str = include_str!("testdata/two-sockets.xml");
    const LAPTOP: &str = include_str!("testdata/laptop.xml");

    #[test]
    fn two_sockets_of_two_nodes() {
        let machine = parse(TWO_SOCKETS).unwrap();
        assert_eq!(machine.summary(), "2 packages, 4 NUMA nodes, 16 cores, 32 processors");
        assert!(!machine.is_here());
        let of = |cpu: usize| *machine.threads().iter().find(|t| t.cpu == cpu).unwrap();
        assert_eq!(of(0).core, of(16).core);
        assert_ne!(of(0).core, of(1).core);
        assert_eq!((of(5).numa, of(5).package), (Some(1), 0));
        assert_eq!((of(31).numa, of(31).package), (Some(3), 1));
    }

    #[test]
    fn a_laptop_with_two_kinds_of_cores() {
        let machine = parse(LAPTOP).unwrap();
        assert_eq!(machine.summary(), "1 package, 1 NUMA node, 4 cores, 6 processors");
        assert_eq!(machine.cpus().to_list(), "0-5");
    }

    #[test]
    fn sets_of_processors() {
        assert_eq!(parse_set("0x0000000f").unwrap().to_list(), "0-3");
        assert_eq!(parse_set("0x1,,0x80000001").unwrap().to_list(), "0,31,64");
        assert_eq!(parse_set("").unwrap().count(), 0);
        assert!(parse_set("0xz").is_err() && parse_set("0x1ffffffff").is_err());
    }

    #[test]
    fn what_is_wrong_is_told() {
        let cases = [
            ("", "describes no processor"),
            ("<a/>", "line 1: hwloc's files begin with <topology>"),
            ("<topology>\n<object type=\"PU\"/></topology>", "line 2: a PU has no os_index"),
            ("<topology><object os_index=\"1\"/></topology>", "has no type"),
            ("<topology><object type=\"PU\" os_index=\"x\"/></topology>", "not a number"),
            ("<topology><object type=\"Core\" os_index=\"1\"/></topology>", "a Core has no cpuset"),
            ("<topology><object type=\"Core\" cpuset=\"what\"/></topology>", "not a set of processors"),
            (
                "<topology><object type=\"PU\" os_index=\"1\"/>\n<object type=\"PU\" os_index=\"1\"/></topology>",
                "line 2: PU 1 is described twice",
            ),
            ("<topology><object type=\"PU\" os_index=\"1\"/>\n</object></topology>", "line 2: "),
            ("<topology><object type=\"PU\" os_index=\"1\"/>\n", "line 2: the file ends too early"),
            ("<topology></topology>", "describes no processor"),
        ];
        for (text, wanted) in cases {
            let told = parse(text).unwrap_err();
            assert!(told.contains(wanted), "{text}: {told}");
        }
        assert!(read(Path::new("/nonexistent")).unwrap_err().contains("can't be opened"));
        assert!(read(Path::new("/dev/zero")).unwrap_err().contains("larger"));
    }
}
