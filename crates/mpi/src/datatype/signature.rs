//! The type signature: which basic elements an item's packed bytes are, in order (MPI-5.0, 5.1).

use std::rc::Rc;

use super::builtin::Builtin;

/// A sequence of basic elements, in normal form.
#[derive(Debug)]
pub(super) struct Signature {
    /// Packed bytes.
    pub bytes: usize,
    /// Basic elements; a pair is two.
    pub elements: usize,
    /// Bytes in external32.
    pub external: usize,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Empty,
    Run {
        builtin: Builtin,
        count: usize,
    },
    Repeat {
        count: usize,
        child: Rc<Signature>,
    },
    /// `ends[i]`: packed position after part `i`.
    Sequence {
        parts: Box<[Rc<Signature>]>,
        ends: Box<[usize]>,
    },
}

impl Signature {
    pub const fn empty() -> Signature {
        Signature { bytes: 0, elements: 0, external: 0, kind: Kind::Empty }
    }

    pub fn run(builtin: Builtin, count: usize) -> Signature {
        Signature {
            bytes: builtin.size() * count,
            elements: builtin.elements() * count,
            external: builtin.external_size() * count,
            kind: Kind::Run { builtin, count },
        }
    }

    /// `count` times `child`.
    pub fn repeat(child: &Rc<Signature>, count: usize) -> Rc<Signature> {
        match child.kind {
            _ if count == 1 => child.clone(),
            Kind::Empty => child.clone(),
            _ if count == 0 => Rc::new(Signature::empty()),
            Kind::Run { builtin, count: inner } => Rc::new(Signature::run(builtin, inner * count)),
            _ => Rc::new(Signature {
                bytes: child.bytes * count,
                elements: child.elements * count,
                external: child.external * count,
                kind: Kind::Repeat { count, child: child.clone() },
            }),
        }
    }

    /// All `parts` in order; neighbours of one kind become one run.
    pub fn sequence<'a>(parts: impl Iterator<Item = &'a Rc<Signature>>) -> Rc<Signature> {
        let mut list: Vec<Rc<Signature>> = Vec::new();
        for part in parts {
            match (list.last().map(|last| &last.kind), &part.kind) {
                (_, Kind::Empty) => {}
                (Some(&Kind::Run { builtin, count }), &Kind::Run { builtin: next, count: more }) if builtin == next => {
                    list.pop();
                    list.push(Rc::new(Signature::run(builtin, count + more)));
                }
                _ => list.push(part.clone()),
            }
        }
        if list.len() <= 1 {
            return list.pop().unwrap_or_else(|| Rc::new(Signature::empty()));
        }
        let mut bytes = 0;
        let ends = list.iter().map(|part| {
            bytes += part.bytes;
            bytes
        });
        let ends = ends.collect();
        Rc::new(Signature {
            bytes,
            elements: list.iter().map(|part| part.elements).sum(),
            external: list.iter().map(|part| part.external).sum(),
            kind: Kind::Sequence { parts: list.into_boxed_slice(), ends },
        })
    }

    /// The type of all basic elements, if there is only one and at least one element.
    pub fn uniform(&self) -> Option<Builtin> {
        match &self.kind {
            Kind::Empty => None,
            Kind::Run { builtin, .. } => Some(*builtin),
            Kind::Repeat { child, .. } => child.uniform(),
            Kind::Sequence { parts, .. } => {
                let first = parts[0].uniform();
                first.filter(|_| parts.iter().all(|part| part.uniform() == first))
            }
        }
    }

    /// Basic elements in the first `bytes` packed bytes (at most one item); none if the last one is not whole.
    pub fn elements_in(&self, bytes: usize) -> Option<usize> {
        if bytes >= self.bytes {
            return (bytes == self.bytes).then_some(self.elements);
        }
        match &self.kind {
            Kind::Empty => None,
            Kind::Run { builtin, .. } => {
                let (whole, rest) = (bytes / builtin.size(), bytes % builtin.size());
                let partial = match rest {
                    0 => 0,
                    // The value of a pair without its index.
                    _ if builtin.index.is_some() && rest == builtin.repr.size() => 1,
                    _ => return None,
                };
                Some(whole * builtin.elements() + partial)
            }
            Kind::Repeat { child, .. } => {
                let (whole, rest) = (bytes / child.bytes, bytes % child.bytes);
                Some(whole * child.elements + child.elements_in(rest)?)
            }
            Kind::Sequence { parts, ends } => {
                let at = ends.partition_point(|end| *end <= bytes);
                let before: usize = parts[..at].iter().map(|part| part.elements).sum();
                let start = if at == 0 { 0 } else { ends[at - 1] };
                Some(before + parts[at].elements_in(bytes - start)?)
            }
        }
    }

    /// Packed bytes taken by the first `elements` basic elements of one item.
    pub fn bytes_of(&self, elements: usize) -> usize {
        if elements >= self.elements {
            return self.bytes;
        }
        match &self.kind {
            Kind::Empty => 0,
            Kind::Run { builtin, .. } => match builtin.index {
                None => elements * builtin.size(),
                Some(_) => elements / 2 * builtin.size() + elements % 2 * builtin.repr.size(),
            },
            Kind::Repeat { child, .. } => {
                elements / child.elements * child.bytes + child.bytes_of(elements % child.elements)
            }
            Kind::Sequence { parts, .. } => {
                let (mut left, mut bytes) = (elements, 0);
                for part in parts {
                    bytes += part.bytes_of(left);
                    left = left.saturating_sub(part.elements);
                    if left == 0 {
                        break;
                    }
                }
                bytes
            }
        }
    }

    /// Calls `visit(builtin, count)` for each run of equal elements, in order, until it fails.
    pub fn each<E>(&self, visit: &mut impl FnMut(Builtin, usize) -> Result<(), E>) -> Result<(), E> {
        match &self.kind {
            Kind::Empty => Ok(()),
            Kind::Run { builtin, count } => visit(*builtin, *count),
            Kind::Repeat { count, child } => (0..*count).try_for_each(|_| child.each(visit)),
            Kind::Sequence { parts, .. } => parts.iter().try_for_each(|part| part.each(visit)),
        }
    }

    /// `count` items in a row, as [`Signature::each`] sees them.
    pub fn each_of<E>(&self, count: usize, visit: &mut impl FnMut(Builtin, usize) -> Result<(), E>) -> Result<(), E> {
        match self.kind {
            Kind::Run { builtin, count: inner } => visit(builtin, inner * count),
            _ => (0..count).try_for_each(|_| self.each(visit)),
        }
    }
}
