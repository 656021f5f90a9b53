//! Binomial tree. A node's operand covers lower ranks than those of its children, so it is the left operand and the received
//! one becomes the result: nothing is copied at the start, and the order of operands is kept.
//!
//! Source: Thakur, Rabenseifner, Gropp, 2005. Cost: ⌈log2 n⌉ (α + mβ + mγ).

use crate::coll::builder::Builder;
use crate::coll::needs::Needs;
use crate::coll::schedule::Ticket;
use crate::coll::span::Span;
use crate::coll::team::Team;

/// Keeps the order of operands: if they may not be exchanged, the tree's root is rank 0, which passes the result on.
pub const NEEDS: Needs = Needs::ANY;

/// Operands of all children together up to this size are received at once.
const POST_ALL_BYTES: usize = 256 << 10;

/// Adds the steps of this process. `result` only matters at the root, where `own` may be the same.
pub fn build(b: &mut Builder, team: &Team<'_>, root: usize, own: Span, result: Span) {
    let tree_root = if b.is_commutative() { root } else { 0 };
    let target = if tree_root == root && team.rank == root { Some(result) } else { None };
    let acc = climb(b, team, tree_root, own, target);
    if tree_root != root {
        if team.rank == tree_root {
            b.send(team, root, acc);
        } else if team.rank == root {
            b.fence();
            b.recv(team, tree_root, result);
        }
    }
    b.fence();
}

/// Combines the operands of the subtree, sends them to the parent, and says where they are. With a `target` they end there.
fn climb(b: &mut Builder, team: &Team<'_>, tree_root: usize, own: Span, target: Option<Span>) -> Span {
    let me = team.relative(tree_root);
    let is_child = |level: u32| me & (1 << level) == 0 && me + (1 << level) < team.size;
    let mut levels = 0;
    while is_child(levels) {
        levels += 1;
    }
    // A parent's lowest set bit ends its children; a gap in the middle only exists above the last member.
    let at_once = own.bytes() * levels as usize <= POST_ALL_BYTES;
    let in_place = target.filter(|t| t.ptr == own.ptr && b.is_commutative());
    let mut operands = b.lend();
    let mut acc = own;
    for level in 0..levels {
        let into = match target {
            Some(target) if level + 1 == levels && target.ptr != own.ptr => target,
            _ if !at_once && level >= 2 => operands[level as usize - 2].0,
            _ => b.temp_like(own),
        };
        let child = team.absolute(me + (1 << level), tree_root);
        let ticket = if at_once { b.recv(team, child, into) } else { Ticket::NONE };
        operands.push((into, ticket));
    }
    for (level, &(operand, ticket)) in operands.iter().enumerate() {
        let ticket = if at_once { ticket } else { b.recv(team, team.absolute(me + (1 << level), tree_root), operand) };
        b.wait_for(ticket);
        if in_place.is_some() {
            b.reduce(operand, acc);
        } else {
            b.reduce(acc, operand);
            acc = operand;
        }
    }
    b.give_back(operands);
    if let Some(target) = target {
        b.copy(acc, target);
        acc = target;
    }
    if me != 0 {
        let parent = me & (me - 1);
        b.send(team, team.absolute(parent, tree_root), acc);
    }
    acc
}
