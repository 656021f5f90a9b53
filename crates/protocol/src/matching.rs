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

/// An envelope as it is compared and hashed: the context; source and tag in one word.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Key(u64, u64);

impl Key {
    #[inline(always)]
    fn of(e: &Envelope) -> Key {
        Key(e.context, u64::from(e.source) << 32 | u64::from(e.tag as u32))
    }

    #[inline(always)]
    fn bin(self, bins: usize) -> usize {
        ((self.0 ^ self.1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize & (bins - 1)
    }

    fn envelope(self) -> Envelope {
        Envelope { context: self.0, source: (self.1 >> 32) as u32, tag: self.1 as i32 }
    }
}

/// An entry; those before and after it in its bin, and in order of insertion.
#[derive(Clone, Copy)]
struct Node {
    key: Key,
    sequence: u64,
    bin_previous: u32,
    bin_next: u32,
    order_previous: u32,
    order_next: u32,
}

const UNUSED: Node =
    Node { key: Key(0, 0), sequence: 0, bin_previous: NONE, bin_next: NONE, order_previous: NONE, order_next: NONE };

#[derive(Clone, Copy)]
struct Ends {
    first: u32,
    last: u32,
}

const EMPTY: Ends = Ends { first: NONE, last: NONE };

/// The caller's small numbers, found by envelope in O(1) and, if they are `ORDERED`, by order of insertion.
struct Bins<const ORDERED: bool> {
    /// By the caller's number.
    nodes: Vec<Node>,
    bins: Vec<Ends>,
    order: Ends,
    len: usize,
}

impl<const ORDERED: bool> Default for Bins<ORDERED> {
    fn default() -> Self {
        Bins { nodes: Vec::new(), bins: vec![EMPTY; 64], order: EMPTY, len: 0 }
    }
}

impl<const ORDERED: bool> Bins<ORDERED> {
    #[inline(always)]
    fn insert(&mut self, envelope: &Envelope, id: u32, sequence: u64) {
        if self.len >= self.bins.len() * 2 {
            self.grow();
        }
        let key = Key::of(envelope);
        let bin = key.bin(self.bins.len());
        let ends = &mut self.bins[bin];
        let node = Node { key, sequence, bin_previous: ends.last, bin_next: NONE, ..UNUSED };
        match self.nodes.get_mut(id as usize) {
            Some(place) => *place = node,
            None => make_room(&mut self.nodes, id, node),
        }
        match std::mem::replace(&mut ends.last, id) {
            NONE => ends.first = id,
            last => self.nodes[last as usize].bin_next = id,
        }
        if ORDERED {
            let last = std::mem::replace(&mut self.order.last, id);
            self.nodes[id as usize].order_previous = last;
            match last {
                NONE => self.order.first = id,
                last => self.nodes[last as usize].order_next = id,
            }
        }
        self.len += 1;
    }

    /// Takes `id` out, which is there.
    #[inline]
    fn remove(&mut self, id: u32) {
        self.unlink(id, self.nodes[id as usize].key.bin(self.bins.len()));
    }

    /// Takes out the first entry with this envelope.
    #[inline(always)]
    fn take_first(&mut self, e: &Envelope) -> Option<u32> {
        let key = Key::of(e);
        let bin = key.bin(self.bins.len());
        let id = self.first_in(bin, key)?;
        self.unlink(id, bin);
        Some(id)
    }

    #[inline(always)]
    fn unlink(&mut self, id: u32, bin: usize) {
        let Node { bin_previous, bin_next, order_previous, order_next, .. } = self.nodes[id as usize];
        let ends = &mut self.bins[bin];
        match bin_previous {
            NONE => ends.first = bin_next,
            p => self.nodes[p as usize].bin_next = bin_next,
        }
        match bin_next {
            NONE => ends.last = bin_previous,
            n => self.nodes[n as usize].bin_previous = bin_previous,
        }
        if ORDERED {
            match order_previous {
                NONE => self.order.first = order_next,
                p => self.nodes[p as usize].order_next = order_next,
            }
            match order_next {
                NONE => self.order.last = order_previous,
                n => self.nodes[n as usize].order_previous = order_previous,
            }
        }
        self.len -= 1;
    }

    #[inline]
    fn first(&self, e: &Envelope) -> Option<u32> {
        let key = Key::of(e);
        self.first_in(key.bin(self.bins.len()), key)
    }

    #[inline(always)]
    fn first_in(&self, bin: usize, key: Key) -> Option<u32> {
        self.first_such(bin, key, |_| true)
    }

    /// The first entry with this envelope whose number `accepts`.
    #[inline(always)]
    fn first_such(&self, bin: usize, key: Key, accepts: impl Fn(u32) -> bool) -> Option<u32> {
        let mut id = self.bins[bin].first;
        while id != NONE {
            let node = &self.nodes[id as usize];
            if node.key == key && accepts(id) {
                return Some(id);
            }
            id = node.bin_next;
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
            let mut id = old.first;
            while id != NONE {
                let node = &mut self.nodes[id as usize];
                let bin = node.key.bin(self.bins.len());
                let next = std::mem::replace(&mut node.bin_next, NONE);
                node.bin_previous = std::mem::replace(&mut self.bins[bin].last, id);
                match node.bin_previous {
                    NONE => self.bins[bin].first = id,
                    last => self.nodes[last as usize].bin_next = id,
                }
                id = next;
            }
        }
    }
}

/// Puts the node of `id` behind all there are.
#[cold]
fn make_room(nodes: &mut Vec<Node>, id: u32, node: Node) {
    nodes.resize(id as usize, UNUSED);
    nodes.push(node);
}

impl Bins<true> {
    fn first_in_order(&self, pattern: &Pattern) -> Option<u32> {
        let mut id = self.order.first;
        while id != NONE {
            let node = &self.nodes[id as usize];
            if pattern.accepts(&node.key.envelope()) {
                return Some(id);
            }
            id = node.order_next;
        }
        None
    }
}

struct Wildcard {
    pattern: Pattern,
    id: u32,
    sequence: u64,
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
    #[inline(always)]
    pub fn post(&mut self, pattern: &Pattern, id: u32) {
        self.sequence += 1;
        match pattern.exact() {
            Some(envelope) => self.exact.insert(&envelope, id, self.sequence),
            None => self.wildcards.push(Wildcard { pattern: *pattern, id, sequence: self.sequence }),
        }
    }

    /// Takes out the receive that this message belongs to.
    #[inline(always)]
    pub fn arrive(&mut self, envelope: &Envelope) -> Option<u32> {
        if self.wildcards.is_empty() { self.exact.take_first(envelope) } else { self.arrive_among_wildcards(*envelope) }
    }

    #[inline(never)]
    fn arrive_among_wildcards(&mut self, envelope: Envelope) -> Option<u32> {
        let exact = self.exact.first(&envelope);
        if let Some(i) = self.wildcards.iter().position(|w| w.pattern.accepts(&envelope))
            && exact.is_none_or(|id| self.wildcards[i].sequence < self.exact.nodes[id as usize].sequence)
        {
            return Some(self.wildcards.remove(i).id);
        }
        exact.inspect(|id| self.exact.remove(*id))
    }

    /// Withdraws a posted receive that has not been matched.
    pub fn withdraw(&mut self, pattern: &Pattern, id: u32) {
        match pattern.exact() {
            Some(_) => self.exact.remove(id),
            None => self.wildcards.retain(|w| w.id != id),
        }
    }

    /// Keeps message `id` until somebody asks for it.
    pub fn keep(&mut self, envelope: &Envelope, id: u32) {
        self.unexpected.insert(envelope, id, 0);
    }

    /// The first unexpected message that `pattern` accepts.
    #[inline]
    pub fn peek(&self, pattern: &Pattern) -> Option<u32> {
        if self.unexpected.len == 0 {
            return None;
        }
        match pattern.exact() {
            Some(envelope) => self.unexpected.first(&envelope),
            None => self.unexpected.first_in_order(pattern),
        }
    }

    /// Takes out the first unexpected message that `pattern` accepts.
    pub fn take(&mut self, pattern: &Pattern) -> Option<u32> {
        let id = self.peek(pattern)?;
        self.unexpected.remove(id);
        Some(id)
    }

    /// Takes out the unexpected message with this envelope whose number `accepts`.
    pub fn take_such(&mut self, envelope: &Envelope, accepts: impl Fn(u32) -> bool) -> Option<u32> {
        let key = Key::of(envelope);
        let id = self.unexpected.first_such(key.bin(self.unexpected.bins.len()), key, accepts)?;
        self.unexpected.remove(id);
        Some(id)
    }

    /// Gives memory for unexpected messages back if there are none, and room for more than `most`.
    #[inline]
    pub fn shrink(&mut self, most: usize) {
        self.unexpected.shrink(most);
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

    /// Whether any message waits for its receive.
    #[inline]
    pub fn has_unexpected(&self) -> bool {
        self.unexpected.len != 0
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
        /// Takes back a message, by its place among those that wait.
        Recall(usize),
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
            1 => (0..8usize).prop_map(Step::Recall),
            1 => pattern.prop_map(Step::Probe),
        ]
    }

    proptest! {
        #[test]
        fn agrees_with_the_linear_definition(steps in proptest::collection::vec(step(), 1..600)) {
            let (mut real, mut model) = (Matching::default(), Linear::default());
            for (id, step) in steps.into_iter().enumerate() {
                let id = id as u32;
                match step {
                    Step::Receive(p) => {
                        let found = model.take(&p);
                        prop_assert_eq!(real.take(&p), found);
                        if found.is_none() {
                            model.posted.push((p, id));
                            real.post(&p, id);
                        }
                    }
                    Step::Message(e) => {
                        let found = model.arrive(&e);
                        prop_assert_eq!(real.arrive(&e), found);
                        if found.is_none() {
                            model.unexpected.push((e, id));
                            real.keep(&e, id);
                        }
                    }
                    Step::Cancel(i) if i < model.posted.len() => {
                        let (p, id) = model.posted.remove(i);
                        real.withdraw(&p, id);
                    }
                    Step::Cancel(_) => real.shrink(0),
                    Step::Recall(i) if i < model.unexpected.len() => {
                        let (envelope, id) = model.unexpected.remove(i);
                        prop_assert_eq!(real.take_such(&envelope, |other| other == id), Some(id));
                    }
                    Step::Recall(_) => {
                        let nobodys = Envelope { context: 0, source: 0, tag: 0 };
                        prop_assert_eq!(real.take_such(&nobodys, |_| false), None);
                    }
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
