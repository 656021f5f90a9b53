//! What algorithms need to give right results, and what a choice among them may depend on: known to algorithms and selector alike.

/// What the choice depends on.
#[derive(Clone, Copy, Debug)]
pub struct SelectionKey {
    /// Processes that take part.
    pub ranks: usize,
    /// Bytes of the vector (bcast, reductions), or of one block (gather, scatter, all-to-all).
    pub bytes: usize,
    /// Whether a node has more ranks than allowed CPUs.
    pub oversubscribed: bool,
    /// Nodes on which they are.
    pub nodes: usize,
    /// Largest number of processes on one node.
    pub ranks_per_node: usize,
    /// Whether operands may be exchanged; true for collectives without an operation.
    pub commutative: bool,
    /// Whether all blocks have the same size and follow each other.
    pub even: bool,
    /// Whether the data is in the receive buffer (`MPI_IN_PLACE`).
    pub in_place: bool,
}

impl SelectionKey {
    /// `ranks` processes on one node with CPUs enough.
    pub fn new(ranks: usize, bytes: usize) -> SelectionKey {
        SelectionKey {
            ranks,
            bytes,
            oversubscribed: false,
            nodes: 1,
            ranks_per_node: ranks,
            commutative: true,
            even: true,
            in_place: false,
        }
    }
}

/// What an algorithm needs to give right results.
#[derive(Clone, Copy, Debug)]
pub struct Needs {
    /// It exchanges operands.
    pub commutative: bool,
    /// It needs a power of two of processes.
    pub power_of_two: bool,
    /// It needs blocks of one size.
    pub even: bool,
    /// It can't work in place.
    pub not_in_place: bool,
    /// It can only work in place.
    pub in_place: bool,
    /// It needs several nodes.
    pub nodes: bool,
}

impl Needs {
    /// Nothing.
    pub const ANY: Needs = Needs {
        commutative: false,
        power_of_two: false,
        even: false,
        not_in_place: false,
        in_place: false,
        nodes: false,
    };

    /// Whether an algorithm with these needs may run.
    #[inline]
    pub fn are_met(&self, s: &SelectionKey) -> bool {
        (!self.commutative || s.commutative)
            && (!self.power_of_two || s.ranks.is_power_of_two())
            && (!self.even || s.even)
            && (!self.not_in_place || !s.in_place)
            && (!self.in_place || s.in_place)
            && (!self.nodes || (s.nodes > 1 && s.nodes < s.ranks))
    }
}
