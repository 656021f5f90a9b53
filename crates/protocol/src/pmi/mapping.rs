//! `PMI_process_mapping`: which rank runs on which node, as `(vector,(first node,nodes,ranks of each),…)`.

use base::{Result, ensure, fail};

/// Reads a mapping; gives the launcher's node number of each of `size` ranks. Blocks go on from one another, and begin again if ranks are left.
pub fn parse(text: &str, size: u32) -> Result<Vec<u32>> {
    let text: String = text.chars().filter(|c| !c.is_whitespace()).collect();
    let Some(inner) = text.strip_prefix("(vector").and_then(|t| t.strip_suffix(')')) else {
        fail!(ERR_OTHER, "the launcher's process mapping is not a vector");
    };
    let mut blocks = Vec::new();
    for block in inner.split(",(").skip(1) {
        let numbers = block.strip_suffix(')').and_then(|b| b.split(',').map(|n| n.parse().ok()).collect());
        let Some([first, nodes, each]) = numbers.and_then(|n: Vec<u32>| <[u32; 3]>::try_from(n).ok()) else {
            fail!(ERR_OTHER, "the launcher's process mapping has a block that is not three numbers");
        };
        let sound = nodes > 0 && each > 0 && first.checked_add(nodes).is_some();
        ensure!(sound, ERR_OTHER, "the launcher's process mapping has an empty block");
        blocks.push((first, nodes, each));
    }
    ensure!(!blocks.is_empty(), ERR_OTHER, "the launcher's process mapping is empty");
    let mut node_of = Vec::with_capacity(size as usize);
    for (first, nodes, each) in blocks.iter().cycle() {
        for node in *first..first + nodes {
            for _ in 0..*each {
                if node_of.len() == size as usize {
                    return Ok(node_of);
                }
                node_of.push(node);
            }
        }
    }
    Ok(node_of)
}

/// For each rank the lowest rank on its node.
pub fn leaders(node_of: &[u32]) -> Vec<u32> {
    let mut first = std::collections::HashMap::new();
    node_of.iter().zip(0..).map(|(node, rank)| *first.entry(*node).or_insert(rank)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_dealt_in_order_and_again() {
        assert_eq!(parse("(vector,(0,2,2))", 4).unwrap(), [0, 0, 1, 1]);
        assert_eq!(parse("(vector,(0,2,1))", 5).unwrap(), [0, 1, 0, 1, 0]);
        assert_eq!(parse("(vector,(0,1,3),(1,2,1))", 5).unwrap(), [0, 0, 0, 1, 2]);
        assert_eq!(parse(" (vector, (5,1,2)) ", 2).unwrap(), [5, 5]);
        assert_eq!(leaders(&[7, 7, 3, 7, 3]), [0, 0, 2, 0, 2]);
    }

    #[test]
    fn nonsense_is_refused_and_nothing_explodes() {
        for wrong in [
            "",
            "(vector)",
            "(vector,(0,0,1))",
            "(vector,(0,1))",
            "(vector,(0,1,0))",
            "(vector,(4294967295,2,1))",
            "(vector,(a,1,1))",
        ] {
            assert!(parse(wrong, 4).is_err(), "{wrong}");
        }
        assert_eq!(parse("(vector,(0,4294967295,1))", 2).unwrap(), [0, 1]);
        assert_eq!(parse("(vector,(0,1,4294967295))", 2).unwrap(), [0, 0]);
    }
}
