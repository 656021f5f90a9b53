//! A datatype's layout as plain data: for processes that move the items of others.
//!
//! A flat type is a list of nodes without pointers. A node names others by their places, and only earlier ones, so there is no circle. Regular
//! patterns are loops, and a part that occurs twice is one node: a vector of a million blocks is two nodes. Node sizes, bounds and
//! the number of entries are checked for a type that comes from elsewhere ([`FlatType::new`]), so walks stay inside of the bounds.

use super::Datatype;
use super::shape::{Placed, Shape};
use base::{Class, Error, Result, ensure};
use std::collections::HashMap;
use std::rc::Rc;

/// Nodes and parts of one type together. An index list of more blocks stays with its owner.
pub const ENTRIES_MAX: usize = 1 << 20;
/// How deeply nodes nest.
const DEPTH_MAX: u32 = 64;

/// A pattern of bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Node {
    /// One run of bytes.
    Run(u64),
    /// `count` times the node `child`, `stride` bytes apart.
    Loop {
        /// Times.
        count: u64,
        /// Bytes from start to start.
        stride: i64,
        /// Place of an earlier node.
        child: u32,
    },
    /// Parts `first .. first + count` of the type, one after the other.
    Sequence {
        /// Place of the first part.
        first: u32,
        /// Number of parts.
        count: u32,
    },
}

/// A part of a sequence.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Part {
    /// Where it begins, relative to the sequence.
    pub disp: i64,
    /// Place of an earlier node.
    pub child: u32,
}

/// See the head of this file.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FlatType {
    /// The last one is the item, the others are what it is made of. None for a type without data.
    pub nodes: Vec<Node>,
    /// Parts of sequences.
    pub parts: Vec<Part>,
    /// Where the last node begins in an item.
    pub disp: i64,
    /// Bytes from item to item.
    pub extent: i64,
    /// What is known of each node.
    measures: Vec<Measure>,
    /// Packed position after each part, in its sequence.
    ends: Vec<u64>,
}

/// Bytes of data of a node, and between which offsets they lie.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Measure {
    size: u64,
    low: i64,
    high: i64,
    depth: u32,
}

const INVALID: Error = Error::new(Class::ERR_TYPE, "a datatype's layout is not valid");

fn narrow(value: i128) -> Result<i64> {
    i64::try_from(value).map_err(|_| INVALID)
}

fn take_words<const N: usize>(bytes: &mut &[u8]) -> Result<[u64; N]> {
    let mut words = [0; N];
    for word in &mut words {
        let (first, rest) = bytes.split_first_chunk::<8>().ok_or(INVALID)?;
        (*word, *bytes) = (u64::from_le_bytes(*first), rest);
    }
    Ok(words)
}

impl Measure {
    /// The same `disp` bytes further on.
    fn moved(self, disp: i64) -> Result<Measure> {
        let at = |offset: i64| offset.checked_add(disp).ok_or(INVALID);
        Ok(Measure { low: at(self.low)?, high: at(self.high)?, ..self })
    }

    /// `count > 0` copies, `stride` apart.
    fn repeated(self, count: u64, stride: i64) -> Result<Measure> {
        let last = i128::from(count - 1) * i128::from(stride);
        Ok(Measure {
            size: self.size.checked_mul(count).filter(|size| *size <= i64::MAX as u64).ok_or(INVALID)?,
            low: narrow(i128::from(self.low) + last.min(0))?,
            high: narrow(i128::from(self.high) + last.max(0))?,
            depth: self.depth + 1,
        })
    }
}

impl FlatType {
    /// A type of these nodes and parts, whose last node begins at `disp`. It is valid if nodes name earlier ones, every
    /// node has data, and no size or offset overflows.
    pub fn new(nodes: Vec<Node>, parts: Vec<Part>, disp: i64, extent: i64) -> Result<FlatType> {
        FlatType { nodes, parts, disp, extent, ..Default::default() }.check()
    }

    /// The layout of `datatype`; `ERR_TYPE` if it has too many parts that differ.
    pub fn of(datatype: &Datatype) -> Result<FlatType> {
        let mut flat =
            FlatType { disp: datatype.place.disp as i64, extent: datatype.extent as i64, ..Default::default() };
        if datatype.size > 0 {
            flat.add(&datatype.place.shape, &mut HashMap::new())?;
        }
        flat.check()
    }

    /// Appends the type to `out`, as little-endian words of 64 bits: disp, extent, numbers of nodes and parts, nodes of four words, parts of two.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut words = |words: &[u64]| words.iter().for_each(|word| out.extend_from_slice(&word.to_le_bytes()));
        words(&[self.disp as u64, self.extent as u64, self.nodes.len() as u64, self.parts.len() as u64]);
        for node in &self.nodes {
            words(&match *node {
                Node::Run(len) => [0, len, 0, 0],
                Node::Loop { count, stride, child } => [1, count, stride as u64, child.into()],
                Node::Sequence { first, count } => [2, first.into(), count.into(), 0],
            });
        }
        for part in &self.parts {
            words(&[part.disp as u64, part.child.into()]);
        }
    }

    /// Takes what [`FlatType::encode`] has written from the start of `bytes`; an error for anything else.
    pub fn decode(bytes: &mut &[u8]) -> Result<FlatType> {
        let narrow = |word: u64| u32::try_from(word).map_err(|_| INVALID);
        let [disp, extent, nodes, parts] = take_words(bytes)?;
        let whole = nodes.checked_mul(32).zip(parts.checked_mul(16)).and_then(|(a, b)| a.checked_add(b));
        ensure!(whole.is_some_and(|whole| whole <= bytes.len() as u64), ERR_TYPE, "a datatype's layout is cut off");
        let node = |bytes: &mut &[u8]| {
            Ok(match take_words(bytes)? {
                [0, len, 0, 0] => Node::Run(len),
                [1, count, stride, child] => Node::Loop { count, stride: stride as i64, child: narrow(child)? },
                [2, first, count, 0] => Node::Sequence { first: narrow(first)?, count: narrow(count)? },
                _ => return Err(INVALID),
            })
        };
        let part = |bytes: &mut &[u8]| {
            let [disp, child] = take_words(bytes)?;
            Ok(Part { disp: disp as i64, child: narrow(child)? })
        };
        let nodes = (0..nodes).map(|_| node(bytes)).collect::<Result<_>>()?;
        let parts = (0..parts).map(|_| part(bytes)).collect::<Result<_>>()?;
        FlatType::new(nodes, parts, disp as i64, extent as i64)
    }

    /// Enters a shape and says its place. `known` are those that are shared.
    fn add(&mut self, shape: &Rc<Shape>, known: &mut HashMap<*const Shape, u32>) -> Result<u32> {
        if let Some(&place) = known.get(&Rc::as_ptr(shape)) {
            return Ok(place);
        }
        let node = match **shape {
            Shape::Empty => return Err(INVALID),
            Shape::Run(len) => Node::Run(len as u64),
            Shape::Strided { count, len, stride } => {
                let child = self.push(Node::Run(len as u64))?;
                Node::Loop { count: count as u64, stride: stride as i64, child }
            }
            Shape::Loop { count, stride, ref child } => {
                let child = self.add(child, known)?;
                Node::Loop { count: count as u64, stride: stride as i64, child }
            }
            Shape::Listed { len, ref disps } => {
                let child = self.push(Node::Run(len as u64))?;
                self.sequence(disps.iter().map(|disp| Part { disp: *disp as i64, child }).collect())?
            }
            Shape::Blocks { ref disps, ref ends } => {
                let (mut runs, mut start, mut parts) = (HashMap::new(), 0, Vec::new());
                for (disp, end) in disps.iter().zip(ends) {
                    let len = (end - start) as u64;
                    let child = match runs.get(&len) {
                        Some(&child) => child,
                        None => self.push(Node::Run(len))?,
                    };
                    runs.insert(len, child);
                    parts.push(Part { disp: *disp as i64, child });
                    start = *end;
                }
                self.sequence(parts)?
            }
            Shape::Sequence { ref parts, .. } => {
                let mut add = |part: &Placed| Ok(Part { disp: part.disp as i64, child: self.add(&part.shape, known)? });
                let parts = parts.iter().map(&mut add).collect::<Result<_>>()?;
                self.sequence(parts)?
            }
        };
        let place = self.push(node)?;
        known.insert(Rc::as_ptr(shape), place);
        Ok(place)
    }

    fn push(&mut self, node: Node) -> Result<u32> {
        ensure!(
            self.nodes.len() + self.parts.len() < ENTRIES_MAX,
            ERR_TYPE,
            "the datatype has too many parts that differ"
        );
        self.nodes.push(node);
        Ok(self.nodes.len() as u32 - 1)
    }

    fn sequence(&mut self, parts: Vec<Part>) -> Result<Node> {
        let (first, count) = (self.parts.len(), parts.len());
        ensure!(
            self.nodes.len() + first + count < ENTRIES_MAX,
            ERR_TYPE,
            "the datatype has too many parts that differ"
        );
        self.parts.extend(parts);
        Ok(Node::Sequence { first: first as u32, count: count as u32 })
    }

    /// The type if it is valid.
    fn check(mut self) -> Result<FlatType> {
        ensure!(self.nodes.len() + self.parts.len() <= ENTRIES_MAX, ERR_TYPE, "a datatype's layout has too many parts");
        self.measures.clear();
        self.ends = vec![0; self.parts.len()];
        let mut used = 0;
        for at in 0..self.nodes.len() {
            let measure = match self.nodes[at] {
                Node::Run(len) => Measure { size: len, low: 0, high: narrow(i128::from(len))?, depth: 1 },
                Node::Loop { count: 0, .. } => return Err(INVALID),
                Node::Loop { count, stride, child } => self.earlier(child)?.repeated(count, stride)?,
                Node::Sequence { first, count } => {
                    // Parts stand in the order of their sequences, so each belongs to one.
                    if first as usize != used || count as usize > self.parts.len() - used {
                        return Err(INVALID);
                    }
                    used += count as usize;
                    self.measure_sequence(first as usize..used)?
                }
            };
            if measure.size == 0 || measure.size > i64::MAX as u64 || measure.depth > DEPTH_MAX {
                return Err(INVALID);
            }
            self.measures.push(measure);
        }
        let known = used == self.parts.len() && (self.nodes.is_empty() || self.item().moved(self.disp).is_ok());
        if known { Ok(self) } else { Err(INVALID) }
    }

    fn earlier(&self, node: u32) -> Result<Measure> {
        self.measures.get(node as usize).copied().ok_or(INVALID)
    }

    /// The measure of the sequence of these parts; also notes where they end.
    fn measure_sequence(&mut self, parts: std::ops::Range<usize>) -> Result<Measure> {
        let mut whole: Option<Measure> = None;
        for i in parts {
            let Part { disp, child } = self.parts[i];
            let part = self.earlier(child)?.moved(disp)?;
            let sum = whole.map_or(part, |sum| Measure {
                size: sum.size.saturating_add(part.size),
                low: sum.low.min(part.low),
                high: sum.high.max(part.high),
                depth: sum.depth.max(part.depth),
            });
            self.ends[i] = sum.size;
            whole = Some(sum);
        }
        let whole = whole.ok_or(INVALID)?;
        Ok(Measure { depth: whole.depth + 1, ..whole })
    }

    fn item(&self) -> Measure {
        self.measures.last().copied().unwrap_or_default()
    }

    /// Bytes of data of an item.
    pub fn size(&self) -> u64 {
        self.item().size
    }

    /// Bytes of data of `count` items, and between which offsets they lie; `None` without data.
    pub fn bounds(&self, count: u64) -> Result<Option<(u64, i64, i64)>> {
        if count == 0 || self.nodes.is_empty() {
            return Ok(None);
        }
        let all = self.item().moved(self.disp)?.repeated(count, self.extent)?;
        Ok(Some((all.size, all.low, all.high)))
    }

    /// Calls `run(offset, length)` for each run of memory that holds the packed bytes `from .. to` of `count` items, in packed
    /// order; [`FlatType::bounds`] has agreed to `count`, and the range lies inside of them.
    pub fn walk(&self, count: u64, from: u64, to: u64, run: &mut impl FnMut(i64, u64)) {
        if count == 0 || from >= to || self.nodes.is_empty() {
            return;
        }
        self.walk_loop((self.extent, self.nodes.len() as u32 - 1), self.disp, from, to, run);
    }

    fn walk_loop(&self, (stride, child): (i64, u32), at: i64, from: u64, to: u64, run: &mut impl FnMut(i64, u64)) {
        let size = self.measures[child as usize].size;
        for i in from / size..to.div_ceil(size) {
            let start = i * size;
            let (a, b) = (from.max(start) - start, to.min(start + size) - start);
            self.walk_node(child, at.wrapping_add((i as i64).wrapping_mul(stride)), a, b, run);
        }
    }

    fn walk_node(&self, node: u32, at: i64, from: u64, to: u64, run: &mut impl FnMut(i64, u64)) {
        match self.nodes[node as usize] {
            Node::Run(_) => run(at.wrapping_add(from as i64), to - from),
            Node::Loop { stride, child, .. } => self.walk_loop((stride, child), at, from, to, run),
            Node::Sequence { first, count } => {
                let range = first as usize..first as usize + count as usize;
                let ends = &self.ends[range.clone()];
                let skipped = ends.partition_point(|end| *end <= from);
                let mut start = if skipped == 0 { 0 } else { ends[skipped - 1] };
                for (part, end) in self.parts[range].iter().zip(ends).skip(skipped) {
                    if start >= to {
                        break;
                    }
                    let (a, b) = (from.max(start) - start, to.min(*end) - start);
                    self.walk_node(part.child, at.wrapping_add(part.disp), a, b, run);
                    start = *end;
                }
            }
        }
    }
}
