//! `--bind-to` and `--map-by`, in the words of both traditions. What is not supported is an error, never another binding.

use super::parse::{RANKS_MAX, number};
use super::{BindTo, MapBy, Options, RankFile};
use protocol::control::tree::Bind;

/// Most objects of one rank.
const COUNT_MAX: u32 = 4096;
/// Highest number of a CPU.
const CPU_MAX: u32 = 1023;

/// Reads the argument of `--bind-to`: an object, Hydra's `core:2` and `user:0+1,2+3`, Open MPI's qualifiers.
pub fn bind_to(text: &str) -> Result<BindTo, String> {
    let (object, rest) = text.split_once(':').map_or((text, None), |(object, rest)| (object, Some(rest)));
    let unit = match object.to_ascii_lowercase().as_str() {
        // Only a qualifier.
        "" if rest.is_some() => Bind::None,
        "none" | "board" | "machine" => Bind::None,
        "hwthread" | "thread" | "pu" => Bind::HwThread,
        "core" => Bind::Core,
        "numa" | "numanode" => Bind::Numa,
        "socket" | "package" => Bind::Socket,
        "user" => return Ok(BindTo { unit: Bind::HwThread, count: 1, user: user(rest.unwrap_or(""))? }),
        _ => return Err(format!("--bind-to knows none, hwthread, core, numa, socket and user:LIST, not '{object}'")),
    };
    let mut said = BindTo { unit, ..BindTo::default() };
    for word in rest.iter().flat_map(|rest| rest.split(':')) {
        match word.to_ascii_lowercase().as_str() {
            "overload-allowed" | "overload" | "if-supported" => {}
            count if unit != Bind::None && count.starts_with(|c: char| c.is_ascii_digit()) => {
                said.count = number("--bind-to", count, COUNT_MAX)?;
            }
            _ => return Err(format!("--bind-to {object}: '{word}' is not supported, only a number of objects")),
        }
    }
    Ok(said)
}

/// Reads a list of CPUs: `0,2-5`.
pub(super) fn cpu_set(shown: &str, text: &str) -> Result<Vec<u32>, String> {
    let wrong = || format!("{shown} needs a list of cpus like 0,2-5, not '{text}'");
    let lists: Option<Vec<Vec<u32>>> = text.split(',').map(cpus_of).collect();
    lists.map(|lists| lists.concat()).ok_or_else(wrong)
}

/// The CPUs of `3` or `2-5`.
fn cpus_of(part: &str) -> Option<Vec<u32>> {
    let cpu = |text: &str| text.parse::<u32>().ok().filter(|cpu| *cpu <= CPU_MAX);
    let (first, last) = part.split_once('-').unwrap_or((part, part));
    Some(cpu(first)?..=cpu(last)?).filter(|range| !range.is_empty()).map(Iterator::collect)
}

/// Each rank of a host takes the next of these lists: `0+1,2+3`, also with ranges (`0-1,2-3`).
fn user(text: &str) -> Result<Vec<Vec<u32>>, String> {
    let wrong = || format!("--bind-to user: needs lists of cpus like 0+1,2+3, not '{text}'");
    let one = |list: &str| -> Option<Vec<u32>> {
        let ranges: Option<Vec<Vec<u32>>> = list.split('+').map(cpus_of).collect();
        ranges.map(|ranges| ranges.concat())
    };
    text.split(',').map(|list| one(list).ok_or_else(wrong)).collect()
}

/// Reads the argument of `--map-by`.
pub(super) fn map_by(text: &str, options: &mut Options) -> Result<(), String> {
    let mut parts = text.split(':');
    let policy = parts.next().unwrap_or("");
    let mut file = None;
    let mut is_ordered = false;
    match policy.to_ascii_lowercase().as_str() {
        "slot" | "" => options.map_by = MapBy::Slot(Bind::None),
        "node" => options.map_by = MapBy::Node,
        "hwthread" => options.map_by = MapBy::Slot(Bind::HwThread),
        "core" => options.map_by = MapBy::Slot(Bind::Core),
        "numa" | "numanode" => options.map_by = MapBy::Slot(Bind::Numa),
        "socket" | "package" => options.map_by = MapBy::Slot(Bind::Socket),
        "ppr" => {
            options.per_node = Some(number("--map-by ppr:", parts.next().unwrap_or(""), RANKS_MAX)?);
            match parts.next() {
                Some("node") | None => {}
                Some(other) => return Err(format!("--map-by ppr:N:{other} is not supported, only ppr:N:node")),
            }
        }
        "rankfile" => {}
        list if list.starts_with("pe-list=") => options.cpu_set = cpu_set("--map-by pe-list=", &list[8..])?,
        _ => {
            return Err(format!(
                "--map-by knows slot, node, core, hwthread, numa, socket, ppr:N:node, rankfile:file=FILE and pe-list=CPUS, not '{policy}'"
            ));
        }
    }
    for word in parts.flat_map(|part| part.split(',')) {
        match word.to_ascii_lowercase().as_str() {
            // How things are anyway.
            "" | "oversubscribe" | "inherit" | "noinherit" | "corecpus" | "donotresolve" => {}
            "nooversubscribe" => return Err("--map-by: give hosts max_slots instead of NOOVERSUBSCRIBE".into()),
            "nolocal" => return Err("--map-by: leave this host out of the list of hosts instead of NOLOCAL".into()),
            "hwtcpus" => return Err("--map-by: use --bind-to hwthread instead of HWTCPUS".into()),
            "donotlaunch" => options.do_not_launch = true,
            "ordered" => is_ordered = true,
            path if path.starts_with("file=") => file = Some(&word[5..]),
            pe if pe.starts_with("pe=") => options.map_by_pe = Some(number("--map-by PE=", &pe[3..], COUNT_MAX)?),
            _ => return Err(format!("--map-by: '{word}' is not supported, only PE=N")),
        }
    }
    match (policy.eq_ignore_ascii_case("rankfile"), file) {
        (true, Some(path)) => options.rank_file = Some(RankFile::read(path.as_ref())?),
        (true, None) => return Err("--map-by rankfile needs the file: --map-by rankfile:file=FILE".into()),
        (false, Some(_)) => return Err("--map-by: file= goes together with rankfile only".into()),
        (false, None) => {}
    }
    if is_ordered {
        let list = std::mem::take(&mut options.cpu_set);
        if list.is_empty() {
            return Err("--map-by: ordered goes together with pe-list=CPUS only".into());
        }
        let user = list.into_iter().map(|cpu| vec![cpu]).collect();
        options.bind_to = Some(BindTo { unit: Bind::HwThread, count: 1, user });
    }
    Ok(())
}

/// Options about places that contradict each other. None of them is left out in silence.
pub(super) fn check(options: &Options) -> Result<(), String> {
    let mapping =
        options.map_by != MapBy::Slot(Bind::None) || options.map_by_pe.is_some() || options.per_node.is_some();
    let placing = match (&options.rank_file, options.rank_map.is_empty()) {
        (Some(_), false) => return Err("a rank file doesn't go together with -rankmap".into()),
        (Some(_), true) => Some("a rank file"),
        (None, false) => Some("-rankmap"),
        (None, true) => None,
    };
    if let Some(what) = placing.filter(|_| mapping || options.rank_by.is_some()) {
        return Err(format!(
            "{what} says where each rank runs: --map-by, --rank-by and ranks for each host don't go together with it"
        ));
    }
    if options.rank_file.is_some() {
        let bound = options.bind_to.as_ref();
        let is_plain = bound.is_none_or(|b| {
            b.count == 1 && b.user.is_empty() && matches!(b.unit, Bind::None | Bind::Core | Bind::HwThread)
        });
        if !is_plain || !options.cpu_set.is_empty() {
            return Err(
                "a rank file goes together with --bind-to none, core or hwthread only, and not with --cpu-set".into()
            );
        }
    }
    if !options.rank_map.is_empty() && options.apps.iter().any(|app| app.hosts.is_some()) {
        return Err("-rankmap numbers the hosts of -hosts or a host file; -host doesn't go together with it".into());
    }
    if options.rank_by.is_some_and(|by| by != options.map_by) {
        return Err("--rank-by: ranks are numbered in the order of --map-by; only slot with --map-by slot, and node with --map-by node".into());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(unit: Bind, count: u32) -> Result<BindTo, String> {
        Ok(BindTo { unit, count, user: Vec::new() })
    }

    #[test]
    fn objects_counts_and_lists_are_read() {
        assert_eq!(bind_to("core"), said(Bind::Core, 1));
        assert_eq!(bind_to("core:4"), said(Bind::Core, 4));
        assert_eq!(bind_to("hwthread:2:overload-allowed"), said(Bind::HwThread, 2));
        assert_eq!(bind_to("socket:IF-SUPPORTED"), said(Bind::Socket, 1));
        let lists = |text| bind_to(text).map(|b| b.user);
        assert_eq!(lists("user:0,2"), Ok(vec![vec![0], vec![2]]));
        assert_eq!(lists("user:0+2,4-6+9"), Ok(vec![vec![0, 2], vec![4, 5, 6, 9]]));
        for wrong in
            ["user", "user:", "user:a", "user:3-1", "user:4096", "core:0", "core:x", "none:2", "l3cache", "die"]
        {
            assert!(bind_to(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn mappings_are_read() {
        let map = |text: &str| {
            let mut options = Options::default();
            map_by(text, &mut options).map(|()| (options.map_by, options.per_node, options.map_by_pe))
        };
        assert_eq!(map("slot:PE=4"), Ok((MapBy::Slot(Bind::None), None, Some(4))));
        assert_eq!(map("ppr:2:node:PE=3:OVERSUBSCRIBE"), Ok((MapBy::Slot(Bind::None), Some(2), Some(3))));
        assert_eq!(map("socket:oversubscribe,pe=2"), Ok((MapBy::Slot(Bind::Socket), None, Some(2))));
        for wrong in
            ["slot:PE=0", "slot:PE=", "slot:SPAN", "slot:NOOVERSUBSCRIBE", "ppr:2:socket", "l3cache", "dist:eth0"]
        {
            assert!(map(wrong).is_err(), "{wrong}");
        }
    }
}
