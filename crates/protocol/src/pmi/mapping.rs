//! `PMI_process_mapping`: which rank runs on which node, as `(vector,item,…)`.
//!
//! An item is a block `(first node,nodes,ranks of each)`, a node with one rank `3`, or a list `[item,…]`; `x4` behind it says how often it
//! comes. Older launchers write blocks only. The vector begins again if ranks are left.

use base::{Result, ensure, fail};

/// Deepest nesting of lists.
const DEPTH_MAX: u32 = 8;

/// Reads a mapping; gives the launcher's node number of each of `size` ranks.
pub fn parse(text: &str, size: u32) -> Result<Vec<u32>> {
    let text: Vec<u8> = text.bytes().filter(|b| !b.is_ascii_whitespace()).collect();
    let Some(inner) = text.strip_prefix(b"(vector,").and_then(|t| t.strip_suffix(b")")) else {
        fail!(ERR_OTHER, "the launcher's process mapping is not a vector");
    };
    let mut reader = Reader { rest: inner, node_of: Vec::new(), size: size as usize };
    reader.list(0)?;
    ensure!(reader.rest.is_empty(), ERR_OTHER, "the launcher's process mapping goes on after its end");
    let mut node_of = reader.node_of;
    let len = node_of.len();
    for at in len..size as usize {
        node_of.push(node_of[at - len]);
    }
    Ok(node_of)
}

/// What is left of the text, and the nodes so far. Never more than `size` of them.
struct Reader<'a> {
    rest: &'a [u8],
    node_of: Vec<u32>,
    size: usize,
}

impl Reader<'_> {
    fn eat(&mut self, byte: u8) -> bool {
        let found = self.rest.first() == Some(&byte);
        self.rest = &self.rest[usize::from(found)..];
        found
    }

    fn number(&mut self) -> Result<u32> {
        let digits = self.rest.iter().take_while(|b| b.is_ascii_digit()).count();
        let (number, rest) = self.rest.split_at(digits);
        self.rest = rest;
        let number = std::str::from_utf8(number).ok().and_then(|n| n.parse().ok());
        ensure!(number.is_some(), ERR_OTHER, "the launcher's process mapping lacks a number");
        Ok(number.unwrap_or(0))
    }

    fn list(&mut self, depth: u32) -> Result {
        ensure!(depth <= DEPTH_MAX, ERR_OTHER, "the launcher's process mapping is nested too deeply");
        loop {
            self.item(depth)?;
            if !self.eat(b',') {
                return Ok(());
            }
        }
    }

    fn item(&mut self, depth: u32) -> Result {
        let start = self.node_of.len();
        if self.eat(b'(') {
            let first = self.number()?;
            ensure!(self.eat(b','), ERR_OTHER, "a block of the launcher's process mapping is not three numbers");
            let nodes = self.number()?;
            ensure!(self.eat(b','), ERR_OTHER, "a block of the launcher's process mapping is not three numbers");
            let each = self.number()?;
            ensure!(self.eat(b')'), ERR_OTHER, "a block of the launcher's process mapping is not three numbers");
            let sound = nodes > 0 && each > 0 && first.checked_add(nodes).is_some();
            ensure!(sound, ERR_OTHER, "a block of the launcher's process mapping is empty");
            let room = self.size - start;
            let ranks = (first..first + nodes).flat_map(|node| std::iter::repeat_n(node, each as usize));
            self.node_of.extend(ranks.take(room));
        } else if self.eat(b'[') {
            self.list(depth + 1)?;
            ensure!(self.eat(b']'), ERR_OTHER, "a list of the launcher's process mapping isn't closed");
        } else {
            let node = self.number()?;
            self.node_of.extend((start < self.size).then_some(node));
        }
        if self.eat(b'x') {
            let times = self.number()? as usize;
            ensure!(times > 0, ERR_OTHER, "an item of the launcher's process mapping comes never");
            let len = self.node_of.len() - start;
            let more = len.saturating_mul(times - 1).min(self.size - self.node_of.len());
            for _ in 0..more {
                self.node_of.push(self.node_of[self.node_of.len() - len]);
            }
        }
        Ok(())
    }
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
        assert_eq!(parse("(vector,(0,1,3),(1,1,2),2,0)", 7).unwrap(), [0, 0, 0, 1, 1, 2, 0]);
        let twice = [0, 0, 0, 1, 1, 2, 0, 0, 0, 1, 1, 2, 0];
        assert_eq!(parse("(vector,[(0,1,3),(1,1,2),2]x2,0)", 13).unwrap(), twice);
        assert_eq!(parse("(vector,[[0,1]x2,3x2]x2)", 13).unwrap(), [0, 1, 0, 1, 3, 3, 0, 1, 0, 1, 3, 3, 0]);
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
            "(vector,[1)",
            "(vector,1x0)",
            "(vector,1]x2)",
            "(vector,)",
            "(vector,1,)",
        ] {
            assert!(parse(wrong, 4).is_err(), "{wrong}");
        }
        assert_eq!(parse("(vector,(0,4294967295,1))", 2).unwrap(), [0, 1]);
        assert_eq!(parse("(vector,(0,1,4294967295))", 2).unwrap(), [0, 0]);
        assert_eq!(parse("(vector,[[0x4294967295]x4294967295]x4294967295)", 2).unwrap(), [0, 0]);
        assert!(parse(&format!("(vector,{}", "[".repeat(100_000)), 2).is_err());
        assert!(parse(&format!("(vector,{})", "[".repeat(100_000)), 2).is_err());
    }
}
