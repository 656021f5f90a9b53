//! Matching of messages with receives (MPI-5.0, 3.5).
//!
//! Exact patterns live in hashed bins and cost O(1). Receives with a wildcard live in a list of their own; a sequence number
//! decides between an exact and a wildcard receive that both match, so that the one posted first wins. Messages that
//! nobody waits for are binned the same way and also linked in order of arrival, for receives and probes with wildcards.

/// Full identity of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Envelope {
    /// [`base::ContextId::plane`] of the communicator.
    pub context: u64,
    /// Rank of the sender in the communicator.
    pub source: u32,
    /// Tag.
    pub tag: i32,
}

/// What a probe tells.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Found {
    /// Sender and tag.
    pub envelope: Envelope,
    /// Bytes of the message.
    pub length: u64,
}

/// What a receive or probe accepts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pattern {
    /// [`base::ContextId::plane`] of the communicator.
    pub context: u64,
    /// Rank of the sender, `None` for any.
    pub source: Option<u32>,
    /// Tag, `None` for any.
    pub tag: Option<i32>,
}

impl Pattern {
    /// Whether a message with this envelope is accepted.
    #[inline]
    pub fn accepts(&self, e: &Envelope) -> bool {
        self.context == e.context && self.source.is_none_or(|s| s == e.source) && self.tag.is_none_or(|t| t == e.tag)
    }

    /// The only envelope that is accepted, if there is no wildcard.
    #[inline]
    fn exact(&self) -> Option<Envelope> {
        Some(Envelope { context: self.context, source: self.source?, tag: self.tag? })
    }
}

const NONE: u32 = u32::MAX;

struct Node {
    envelope: Envelope,
    id: u32,
    sequence: u64,
    bin_previous: u32,
    bin_next: u32,
    order_previous: u32,
    order_next: u32,
}

#[derive(Clone, Copy)]
struct Ends {
    first: u32,
    last: u32,
}

const EMPTY: Ends = Ends { first: NONE, last: NONE };

/// Entries with full envelopes, found by envelope in O(1) and, if they are `ORDERED`, by order of insertion.
struct Bins<const ORDERED: bool> {
    nodes: Vec<Node>,
    free: Vec<u32>,
    bins: Vec<Ends>,
    order: Ends,
    len: usize,
}

impl<const ORDERED: bool> Default for Bins<ORDERED> {
    fn default() -> Self {
        Bins { nodes: Vec::new(), free: Vec::new(), bins: vec![EMPTY; 64], order: EMPTY, len: 0 }
    }
}

impl<const ORDERED: bool> Bins<ORDERED> {
    #[inline]
    fn bin(&self, e: &Envelope) -> usize {
        let mixed = e.context ^ (u64::from(e.source) << 32) ^ u64::from(e.tag as u32);
        (mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize & (self.bins.len() - 1)
    }

    #[inline]
    fn insert(&mut self, envelope: Envelope, id: u32, sequence: u64) -> u32 {
        if self.len >= self.bins.len() * 2 {
            self.grow();
        }
        let bin = self.bin(&envelope);
        let node = Node {
            envelope,
            id,
            sequence,
            bin_previous: self.bins[bin].last,
            bin_next: NONE,
            order_previous: self.order.last,
            order_next: NONE,
        };
        let at = match self.free.pop() {
            Some(at) => {
                self.nodes[at as usize] = node;
                at
            }
            None => {
                self.nodes.push(node);
                (self.nodes.len() - 1) as u32
            }
        };
        append(&mut self.bins[bin], &mut self.nodes, at);
        if ORDERED {
            match self.order.last {
                NONE => self.order.first = at,
                last => self.nodes[last as usize].order_next = at,
            }
            self.order.last = at;
        }
        self.len += 1;
        at
    }

    #[inline]
    fn remove(&mut self, at: u32) -> u32 {
        let bin = self.bin(&self.nodes[at as usize].envelope);
        self.unlink(at, bin)
    }

    /// As [`Bins::remove`] of the first entry with this envelope.
    #[inline]
    fn take_first(&mut self, e: &Envelope) -> Option<u32> {
        let bin = self.bin(e);
        self.first_in(bin, e).map(|at| self.unlink(at, bin))
    }

    #[inline]
    fn unlink(&mut self, at: u32, bin: usize) -> u32 {
        let node = &self.nodes[at as usize];
        let id = node.id;
        let (previous, next) = (node.bin_previous, node.bin_next);
        let (earlier, later) = (node.order_previous, node.order_next);
        match previous {
            NONE => self.bins[bin].first = next,
            p => self.nodes[p as usize].bin_next = next,
        }
        match next {
            NONE => self.bins[bin].last = previous,
            n => self.nodes[n as usize].bin_previous = previous,
        }
        if ORDERED {
            match earlier {
                NONE => self.order.first = later,
                p => self.nodes[p as usize].order_next = later,
            }
            match later {
                NONE => self.order.last = earlier,
                n => self.nodes[n as usize].order_previous = earlier,
            }
        }
        self.free.push(at);
        self.len -= 1;
        id
    }

    #[inline]
    fn first(&self, e: &Envelope) -> Option<u32> {
        self.first_in(self.bin(e), e)
    }

    #[inline]
    fn first_in(&self, bin: usize, e: &Envelope) -> Option<u32> {
        let mut at = self.bins[bin].first;
        while at != NONE {
            let node = &self.nodes[at as usize];
            if node.envelope == *e {
                return Some(at);
            }
            at = node.bin_next;
        }
        None
    }

    /// Gives memory back if there is no entry, and room for more than `most`.
    fn shrink(&mut self, most: usize) {
        if self.len == 0 && self.nodes.capacity() > most {
            *self = Bins::default();
        }
    }

    /// Doubles the bins. Entries of one envelope come from one bin, and keep their order.
    #[cold]
    fn grow(&mut self) {
        let more = vec![EMPTY; self.bins.len() * 2];
        for old in std::mem::replace(&mut self.bins, more) {
            let mut at = old.first;
            while at != NONE {
                let bin = self.bin(&self.nodes[at as usize].envelope);
                let node = &mut self.nodes[at as usize];
                let next = std::mem::replace(&mut node.bin_next, NONE);
                node.bin_previous = self.bins[bin].last;
                append(&mut self.bins[bin], &mut self.nodes, at);
                at = next;
            }
        }
    }
}

impl Bins<true> {
    fn first_in_order(&self, pattern: &Pattern) -> Option<u32> {
        let mut at = self.order.first;
        while at != NONE {
            let node = &self.nodes[at as usize];
            if pattern.accepts(&node.envelope) {
                return Some(at);
            }
            at = node.order_next;
        }
        None
    }
}

/// Puts `at`, which knows its predecessor, at the end of a bin.
#[inline]
fn append(bin: &mut Ends, nodes: &mut [Node], at: u32) {
    match std::mem::replace(&mut bin.last, at) {
        NONE => bin.first = at,
        last => nodes[last as usize].bin_next = at,
    }
}

struct Wildcard {
    pattern: Pattern,
    id: u32,
    sequence: u64,
}

/// Where a posted receive waits; needed to withdraw it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// Among the exact receives.
    Exact(u32),
    /// Among those with wildcards.
    Wildcard,
}

/// Posted receives and unexpected messages of one process; values are the caller's numbers.
#[derive(Default)]
pub struct Matching {
    exact: Bins<false>,
    wildcards: Vec<Wildcard>,
    unexpected: Bins<true>,
    sequence: u64,
}

impl Matching {
    /// Lets receive `id` wait for a message. The caller has looked for an unexpected one before.
    #[inline]
    pub fn post(&mut self, pattern: Pattern, id: u32) -> Place {
        self.sequence += 1;
        match pattern.exact() {
            Some(envelope) => Place::Exact(self.exact.insert(envelope, id, self.sequence)),
            None => {
                self.wildcards.push(Wildcard { pattern, id, sequence: self.sequence });
                Place::Wildcard
            }
        }
    }

    /// Takes out the receive that this message belongs to.
    #[inline]
    pub fn arrive(&mut self, envelope: &Envelope) -> Option<u32> {
        if self.wildcards.is_empty() { self.exact.take_first(envelope) } else { self.arrive_among_wildcards(envelope) }
    }

    fn arrive_among_wildcards(&mut self, envelope: &Envelope) -> Option<u32> {
        let exact = self.exact.first(envelope);
        if let Some(i) = self.wildcards.iter().position(|w| w.pattern.accepts(envelope))
            && exact.is_none_or(|at| self.wildcards[i].sequence < self.exact.nodes[at as usize].sequence)
        {
            return Some(self.wildcards.remove(i).id);
        }
        exact.map(|at| self.exact.remove(at))
    }

    /// Withdraws a posted receive that has not been matched.
    pub fn withdraw(&mut self, place: Place, id: u32) {
        match place {
            Place::Exact(at) => {
                self.exact.remove(at);
            }
            Place::Wildcard => self.wildcards.retain(|w| w.id != id),
        }
    }

    /// Keeps message `id` until somebody asks for it.
    pub fn keep(&mut self, envelope: Envelope, id: u32) {
        self.unexpected.insert(envelope, id, 0);
    }

    /// The first unexpected message that `pattern` accepts.
    #[inline]
    pub fn peek(&self, pattern: &Pattern) -> Option<u32> {
        self.find(pattern).map(|at| self.unexpected.nodes[at as usize].id)
    }

    /// Takes out the first unexpected message that `pattern` accepts.
    #[inline]
    pub fn take(&mut self, pattern: &Pattern) -> Option<u32> {
        let at = self.find(pattern)?;
        Some(self.unexpected.remove(at))
    }

    /// Gives memory for unexpected messages back if there are none, and room for more than `most`.
    #[inline]
    pub fn shrink(&mut self, most: usize) {
        self.unexpected.shrink(most);
    }

    #[inline]
    fn find(&self, pattern: &Pattern) -> Option<u32> {
        if self.unexpected.len == 0 {
            return None;
        }
        match pattern.exact() {
            Some(envelope) => self.unexpected.first(&envelope),
            None => self.unexpected.first_in_order(pattern),
        }
    }

    /// Whether nothing is posted and nothing unexpected is kept.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.exact.len | self.unexpected.len | self.wildcards.len() == 0
    }

    /// Whether any receive waits for a message.
    #[inline]
    pub fn has_posted(&self) -> bool {
        self.exact.len | self.wildcards.len() != 0
    }

    /// Number of posted receives and of unexpected messages.
    pub fn depth(&self) -> (usize, usize) {
        (self.exact.len + self.wildcards.len(), self.unexpected.len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The definition: two lists searched from the front.
    #[derive(Default)]
    struct Linear {
        posted: Vec<(Pattern, u32)>,
        unexpected: Vec<(Envelope, u32)>,
    }

    impl Linear {
        fn take(&mut self, p: &Pattern) -> Option<u32> {
            let i = self.unexpected.iter().position(|(e, _)| p.accepts(e))?;
            Some(self.unexpected.remove(i).1)
        }
        fn arrive(&mut self, e: &Envelope) -> Option<u32> {
            let i = self.posted.iter().position(|(p, _)| p.accepts(e))?;
            Some(self.posted.remove(i).1)
        }
    }

    #[derive(Clone, Debug)]
    enum Step {
        Receive(Pattern),
        Message(Envelope),
        Cancel(usize),
        Probe(Pattern),
    }

    fn step() -> impl Strategy<Value = Step> {
        let envelope = (0..2u64, 0..3u32, 0..3i32).prop_map(|(context, source, tag)| Envelope { context, source, tag });
        let pattern = (0..2u64, proptest::option::of(0..3u32), proptest::option::of(0..3i32))
            .prop_map(|(context, source, tag)| Pattern { context, source, tag });
        prop_oneof![
            4 => pattern.clone().prop_map(Step::Receive),
            4 => envelope.prop_map(Step::Message),
            1 => (0..8usize).prop_map(Step::Cancel),
            1 => pattern.prop_map(Step::Probe),
        ]
    }

    proptest! {
        #[test]
        fn agrees_with_the_linear_definition(steps in proptest::collection::vec(step(), 1..600)) {
            let (mut real, mut model) = (Matching::default(), Linear::default());
            let mut places = std::collections::HashMap::new();
            for (id, step) in steps.into_iter().enumerate() {
                let id = id as u32;
                match step {
                    Step::Receive(p) => {
                        let found = model.take(&p);
                        prop_assert_eq!(real.take(&p), found);
                        if found.is_none() {
                            model.posted.push((p, id));
                            places.insert(id, real.post(p, id));
                        }
                    }
                    Step::Message(e) => {
                        let found = model.arrive(&e);
                        prop_assert_eq!(real.arrive(&e), found);
                        if found.is_none() {
                            model.unexpected.push((e, id));
                            real.keep(e, id);
                        }
                    }
                    Step::Cancel(i) if i < model.posted.len() => {
                        let (_, id) = model.posted.remove(i);
                        real.withdraw(places[&id], id);
                    }
                    Step::Cancel(_) => real.shrink(0),
                    Step::Probe(p) => {
                        let first = model.unexpected.iter().find(|(e, _)| p.accepts(e)).map(|(_, id)| *id);
                        prop_assert_eq!(real.peek(&p), first);
                    }
                }
                prop_assert_eq!(real.depth(), (model.posted.len(), model.unexpected.len()));
            }
        }
    }
}
