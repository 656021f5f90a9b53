//! `--bind-to` and `--map-by`, in the words of both traditions. What is not supported is an error, never another binding.

use super::parse::{RANKS_MAX, number};
use super::{BindTo, MapBy, Options};
use protocol::control::tree::Bind;

/// Most objects of one rank.
const COUNT_MAX: u32 = 4096;
/// Highest number of a CPU.
const CPU_MAX: u32 = 1023;

/// Reads the argument of `--bind-to`: an object, Hydra's `core:2` and `user:0+1,2+3`, Open MPI's qualifiers.
pub fn bind_to(text: &str) -> Result<BindTo, String> {
    let (object, rest) = text.split_once(':').map_or((text, None), |(object, rest)| (object, Some(rest)));
    let unit = match object {
        "none" | "board" | "machine" => Bind::None,
        "hwthread" | "thread" | "pu" => Bind::HwThread,
        "core" => Bind::Core,
        "numa" => Bind::Numa,
        "socket" | "package" => Bind::Socket,
        "user" => return Ok(BindTo { unit: Bind::HwThread, count: 1, user: user(rest.unwrap_or(""))? }),
        _ => return Err(format!("--bind-to knows none, hwthread, core, numa, socket and user:LIST, not '{object}'")),
    };
    let mut said = BindTo { unit, ..BindTo::default() };
    for word in rest.iter().flat_map(|rest| rest.split(':')) {
        match word.to_ascii_lowercase().as_str() {
            "overload-allowed" | "if-supported" => {}
            count if unit != Bind::None && count.starts_with(|c: char| c.is_ascii_digit()) => {
                said.count = number("--bind-to", count, COUNT_MAX)?;
            }
            _ => return Err(format!("--bind-to {object}: '{word}' is not supported, only a number of objects")),
        }
    }
    Ok(said)
}

/// Each rank of a host takes the next of these lists: `0+1,2+3`, also with ranges (`0-1,2-3`).
fn user(text: &str) -> Result<Vec<Vec<u32>>, String> {
    let wrong = || format!("--bind-to user: needs lists of cpus like 0+1,2+3, not '{text}'");
    let cpu = |text: &str| text.parse::<u32>().ok().filter(|cpu| *cpu <= CPU_MAX);
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(cpu(first)?..=cpu(last)?).filter(|range| !range.is_empty())
    };
    let one = |list: &str| -> Option<Vec<u32>> {
        let ranges: Option<Vec<_>> = list.split('+').map(range).collect();
        Some(ranges?.into_iter().flatten().collect())
    };
    text.split(',').map(|list| one(list).ok_or_else(wrong)).collect()
}

/// Reads the argument of `--map-by`.
pub(super) fn map_by(text: &str, options: &mut Options) -> Result<(), String> {
    let mut parts = text.split(':');
    match parts.next().unwrap_or("") {
        "slot" | "" => options.map_by = MapBy::Slot(Bind::None),
        "node" => options.map_by = MapBy::Node,
        "hwthread" => options.map_by = MapBy::Slot(Bind::HwThread),
        "core" => options.map_by = MapBy::Slot(Bind::Core),
        "numa" => options.map_by = MapBy::Slot(Bind::Numa),
        "socket" | "package" => options.map_by = MapBy::Slot(Bind::Socket),
        "ppr" => {
            options.per_node = Some(number("--map-by ppr:", parts.next().unwrap_or(""), RANKS_MAX)?);
            match parts.next() {
                Some("node") | None => {}
                Some(other) => return Err(format!("--map-by ppr:N:{other} is not supported, only ppr:N:node")),
            }
        }
        other => {
            return Err(format!(
                "--map-by knows slot, node, core, hwthread, numa, socket and ppr:N:node, not '{other}'"
            ));
        }
    }
    for word in parts.flat_map(|part| part.split(',')) {
        match word.to_ascii_lowercase().as_str() {
            // How things are anyway.
            "oversubscribe" | "inherit" | "noinherit" | "corecpus" => {}
            "nooversubscribe" => return Err("--map-by: give hosts max_slots instead of NOOVERSUBSCRIBE".into()),
            pe if pe.starts_with("pe=") => options.map_by_pe = Some(number("--map-by PE=", &pe[3..], COUNT_MAX)?),
            _ => return Err(format!("--map-by: '{word}' is not supported, only PE=N")),
        }
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
