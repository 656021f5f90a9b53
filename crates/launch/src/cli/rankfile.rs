//! Where each rank runs, said rank by rank: rank files of Open MPI (`rank 0=host slot=1:0-2`) and Hydra's `-rankmap 0,0,1` or `-rankmap (0,2,4)`.
//!
//! What is wrong is told with its line. Cores and packages are counted as hwloc counts them (logical numbers).

use super::hostfile;
use super::parse::RANKS_MAX;
use protocol::control::tree::{ALL_CORES, CoreRange};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::Read;

/// Longest rank file, in bytes.
const BYTES_MAX: u64 = 64 << 20;
/// Longest line, in bytes.
const LINE_MAX: usize = 4096;
/// Highest number of a core or package.
const NUMBER_MAX: u32 = 65_535;

/// A host of a rank file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RankHost {
    /// By its name.
    Named(String),
    /// `+n2`: the third of the job's hosts.
    Numbered(u32),
}

/// One line of a rank file.
#[derive(Clone, Debug, PartialEq)]
pub struct RankPlace {
    /// Its number, from 1.
    pub line: usize,
    /// The host.
    pub host: RankHost,
    /// The cores.
    pub cores: Vec<CoreRange>,
}

/// Ranks and their places.
#[derive(Clone, Debug, PartialEq)]
pub struct RankFile {
    /// Its name, for messages.
    pub name: String,
    /// By rank.
    pub ranks: BTreeMap<u32, RankPlace>,
}

impl RankFile {
    /// Reads the file; an error names it and the line.
    pub fn read(path: &OsStr) -> Result<RankFile, String> {
        let name = path.to_string_lossy().into_owned();
        let mut bytes = Vec::new();
        std::fs::File::open(path)
            .and_then(|file| file.take(BYTES_MAX + 1).read_to_end(&mut bytes))
            .map_err(|e| format!("cannot read rank file {name}: {e}"))?;
        if bytes.len() as u64 > BYTES_MAX {
            return Err(format!("rank file {name} is longer than {} MiB", BYTES_MAX >> 20));
        }
        let ranks = parse(&String::from_utf8_lossy(&bytes)).map_err(|e| format!("rank file {name}: {e}"))?;
        Ok(RankFile { name, ranks })
    }

    /// The place of a rank.
    pub fn place(&self, rank: u32) -> Result<&RankPlace, String> {
        self.ranks.get(&rank).ok_or_else(|| format!("rank file {}: no line for rank {rank}", self.name))
    }

    /// An error about a line of it.
    pub fn wrong(&self, place: &RankPlace, why: &str) -> String {
        format!("rank file {}: line {}: {why}", self.name, place.line)
    }
}

/// Reads the text of a rank file.
pub fn parse(text: &str) -> Result<BTreeMap<u32, RankPlace>, String> {
    let mut ranks: BTreeMap<u32, RankPlace> = BTreeMap::new();
    for (number, line) in text.lines().enumerate() {
        let at = |why: String| format!("line {}: {why}", number + 1);
        if line.len() > LINE_MAX {
            return Err(at(format!("longer than {LINE_MAX} bytes")));
        }
        let line = line.split('#').next().unwrap_or("").trim();
        if line.is_empty() {
            continue;
        }
        let (rank, host, cores) = parse_line(line).map_err(at)?;
        if let Some(other) = ranks.insert(rank, RankPlace { line: number + 1, host, cores }) {
            return Err(at(format!("rank {rank} has a place in line {} already", other.line)));
        }
    }
    if ranks.is_empty() { Err("it places no rank".into()) } else { Ok(ranks) }
}

fn parse_line(line: &str) -> Result<(u32, RankHost, Vec<CoreRange>), String> {
    let wrong = || format!("expected 'rank N=HOST slot=CORES', found '{line}'");
    // Blanks around '=' are allowed, and in the list of cores.
    let (rank, rest) = line.strip_prefix("rank").and_then(|rest| rest.split_once('=')).ok_or_else(wrong)?;
    let (host, cores) = rest.split_once('=').ok_or_else(wrong)?;
    let host = host.trim_end().strip_suffix("slot").filter(|host| host.ends_with([' ', '\t'])).ok_or_else(wrong)?;
    if !rank.starts_with([' ', '\t']) {
        return Err(wrong());
    }
    let rank = number(rank.trim(), RANKS_MAX - 1)
        .ok_or_else(|| format!("expected a rank from 0 to {}, found '{}'", RANKS_MAX - 1, rank.trim()))?;
    let host = parse_host(host.trim())?;
    let cores: String = cores.split_whitespace().collect();
    Ok((rank, host, parse_cores(&cores)?))
}

fn parse_host(text: &str) -> Result<RankHost, String> {
    if let Some(relative) = text.strip_prefix("+n").or(text.strip_prefix("+N")) {
        let wrong = || format!("expected +n and a number, found '{text}'");
        return number(relative, RANKS_MAX).map(RankHost::Numbered).ok_or_else(wrong);
    }
    match hostfile::parse_list(text).as_deref() {
        Ok([host]) if host.slots.is_none() => Ok(RankHost::Named(host.name.clone())),
        _ => Err(format!("expected the name of one host, found '{text}'")),
    }
}

/// Reads `0-2,4` (cores), `1:0-2,4` (of package 1), `1:*`, `s1` (package 1), `*` (all), several with ';' between them.
fn parse_cores(text: &str) -> Result<Vec<CoreRange>, String> {
    let wrong = |part: &str| format!("expected cores like 0-2,4 or 1:0-2 or 1:*, found '{part}' in 'slot={text}'");
    let mut found = Vec::new();
    for item in text.split(';') {
        let (package, list) = match (item.split_once(':'), item.strip_prefix(['s', 'S'])) {
            (Some((package, list)), _) => (Some(package), list),
            (None, Some(package)) => (Some(package), "*"),
            (None, None) => (None, item),
        };
        let package = match package.map(|text| number(text, NUMBER_MAX)) {
            None => None,
            Some(Some(package)) => Some(package),
            Some(None) => return Err(wrong(item)),
        };
        for part in list.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last) = match part {
                "*" => (0, ALL_CORES),
                _ => number(first, NUMBER_MAX).zip(number(last, NUMBER_MAX)).ok_or_else(|| wrong(part))?,
            };
            if first > last {
                return Err(wrong(part));
            }
            found.push(CoreRange { package, first, last });
        }
    }
    Ok(found)
}

fn number(text: &str, max: u32) -> Option<u32> {
    text.parse().ok().filter(|n| *n <= max && text.starts_with(|c: char| c.is_ascii_digit()))
}

/// Reads Hydra's rank map: for each rank the number of its host, counted from 0. `(0,2,4)` stands for two hosts from number 0 on, with four ranks each.
pub fn parse_map(text: &str) -> Result<Vec<u32>, String> {
    let wrong = |part: &str| {
        format!(
            "-rankmap: expected numbers of hosts like 0,0,1 or blocks (first host,hosts,ranks of each), found '{part}' in '{text}'"
        )
    };
    let inner =
        text.strip_prefix("(vector,").map_or(Some(text), |rest| rest.strip_suffix(')')).ok_or_else(|| wrong(text))?;
    let (mut map, mut rest) = (Vec::new(), inner);
    loop {
        let (part, after) = match rest.strip_prefix('(') {
            Some(block) => block.split_once(')').ok_or_else(|| wrong(rest))?,
            None => rest.split_at(rest.find(',').unwrap_or(rest.len())),
        };
        let numbers: Option<Vec<u32>> = part.split(',').map(|n| number(n, RANKS_MAX)).collect();
        let (first, hosts, each) = match (numbers.as_deref(), rest.starts_with('(')) {
            (Some([host]), false) => (*host, 1, 1),
            (Some([first, hosts, each]), true) if *hosts > 0 && *each > 0 => (*first, *hosts, *each),
            _ => return Err(wrong(part)),
        };
        if u64::from(hosts) * u64::from(each) + map.len() as u64 > u64::from(RANKS_MAX) {
            return Err(format!("-rankmap: more than {RANKS_MAX} ranks in '{part}'"));
        }
        map.extend((first..first + hosts).flat_map(|host| std::iter::repeat_n(host, each as usize)));
        match after.strip_prefix(',') {
            Some(more) => rest = more,
            None if after.is_empty() => return Ok(map),
            None => return Err(wrong(after)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cores(package: Option<u32>, first: u32, last: u32) -> CoreRange {
        CoreRange { package, first, last }
    }

    #[test]
    fn lines_of_a_rank_file_are_read() {
        let text =
            "# job\n rank 1=b slot=1:0,2-3\nrank 0 = +n1 slot = 0-2 , 4 # last\n\nrank 2=10.0.0.1 slot=0:*;s1;*\r\n";
        let ranks = parse(text).unwrap();
        assert_eq!(ranks[&1].host, RankHost::Named("b".into()));
        assert_eq!((ranks[&1].line, ranks[&0].line, ranks[&2].line), (2, 3, 5));
        assert_eq!(ranks[&1].cores, [cores(Some(1), 0, 0), cores(Some(1), 2, 3)]);
        assert_eq!(ranks[&0].host, RankHost::Numbered(1));
        assert_eq!(ranks[&0].cores, [cores(None, 0, 2), cores(None, 4, 4)]);
        let all = ALL_CORES;
        assert_eq!(ranks[&2].cores, [cores(Some(0), 0, all), cores(Some(1), 0, all), cores(None, 0, all)]);
        assert_eq!(parse("rank 0=bob@slot slot=0").unwrap()[&0].host, RankHost::Named("bob@slot".into()));
    }

    #[test]
    fn mistakes_are_told_with_their_line() {
        let why = |text: &str| parse(&format!("rank 7=a slot=0\n{text}")).unwrap_err();
        assert_eq!(why("rank 7=b slot=1"), "line 2: rank 7 has a place in line 1 already");
        assert_eq!(why("rank x=a slot=0"), "line 2: expected a rank from 0 to 1048575, found 'x'");
        assert_eq!(why("rank 0=a"), "line 2: expected 'rank N=HOST slot=CORES', found 'rank 0=a'");
        assert_eq!(why("rank 0=+nx slot=0"), "line 2: expected +n and a number, found '+nx'");
        for wrong in [
            "rank0=a slot=0",
            "rank 0=a slot=",
            "rank 0= slot=0",
            "rank 0=a,b slot=0",
            "rank 0=a:2 slot=0",
            "host slots=2",
        ] {
            assert!(why(wrong).starts_with("line 2: expected"), "{wrong}: {}", why(wrong));
        }
        for slots in ["3-1", "a", "0,,1", "1:2:3", ":1", "99999999", "-1", "+1", "0;"] {
            assert!(why(&format!("rank 0=a slot={slots}")).contains("expected cores like"), "{slots}");
        }
        assert!(why(&format!("rank 0=a slot=0{}", " ".repeat(LINE_MAX))).contains("longer than 4096 bytes"));
        assert_eq!(parse("# nothing\n").unwrap_err(), "it places no rank");
    }

    #[test]
    fn maps_of_ranks_are_read() {
        assert_eq!(parse_map("0,0,2").unwrap(), [0, 0, 2]);
        assert_eq!(parse_map("(1,2,2),0").unwrap(), [1, 1, 2, 2, 0]);
        assert_eq!(parse_map("(vector,(0,3,1))").unwrap(), [0, 1, 2]);
        for wrong in ["", "a", "0,", "(0,1)", "(0,0,1)", "(0,1,1", "0(1,1,1)", "(vector,0", "(0,1048576,2)", "-1"] {
            assert!(parse_map(wrong).unwrap_err().starts_with("-rankmap: "), "{wrong}");
        }
    }
}
