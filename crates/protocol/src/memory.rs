//! Registered memory: what peers may read and write, how they name it, and what they may do with it.
//!
//! A [`Key`] travels in messages of the program. Whoever uses it names the memory by number and nonce: the number is a place in the owner's
//! [`Registry`], the nonce is random, so a key that is stale, made up or of another process names nothing. Every access is checked against
//! the registration before memory is touched.

/// Names registered memory, for its owner and for peers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Key {
    /// The place in the owner's registry.
    pub number: u32,
    /// Random, never 0.
    pub nonce: u64,
    /// Bytes of the memory, so that accesses beyond it are refused before they leave.
    pub len: u64,
    /// Where a transport can look the registration up in the owner's memory; 0 if there is no such place.
    pub record: u64,
}

/// Bytes of an encoded [`Key`].
pub const KEY_BYTES: usize = 28;

impl Key {
    /// The bytes on the wire.
    pub fn encode(&self) -> [u8; KEY_BYTES] {
        let mut out = [0; KEY_BYTES];
        out[..4].copy_from_slice(&self.number.to_le_bytes());
        for (word, at) in [self.nonce, self.len, self.record].iter().zip([4, 12, 20]) {
            out[at..at + 8].copy_from_slice(&word.to_le_bytes());
        }
        out
    }

    /// Reads a key; every value is possible.
    pub fn decode(bytes: &[u8; KEY_BYTES]) -> Key {
        let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| bytes[at + i]));
        let number = u32::from_le_bytes(std::array::from_fn(|i| bytes[i]));
        Key { number, nonce: word(4), len: word(12), record: word(20) }
    }

    /// Whether `len` bytes at `at` are inside.
    pub fn contains(&self, at: u64, len: u64) -> bool {
        is_inside(self.len, at, len)
    }
}

/// Whether `len` bytes at `at` are inside of `whole` bytes.
pub fn is_inside(whole: u64, at: u64, len: u64) -> bool {
    at.checked_add(len).is_some_and(|end| end <= whole)
}

/// What a lane does with registered memory of its peer by itself. What it lacks, the engine does by packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Verbs {
    /// Writes it.
    pub put: bool,
    /// Reads it.
    pub get: bool,
    /// Changes a number in it, in one step.
    pub atomic: bool,
}

impl Verbs {
    /// Nothing.
    pub const NONE: Verbs = Verbs { put: false, get: false, atomic: false };
    /// Everything.
    pub const ALL: Verbs = Verbs { put: true, get: true, atomic: true };
}

/// What an atomic access does with the number before it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Change {
    /// Adds; wraps around. The same for signed and unsigned numbers.
    Add(u64),
    /// Replaces.
    Swap(u64),
    /// Replaces the number by `new` if it is `expected`.
    CompareSwap {
        /// What should be there.
        expected: u64,
        /// What is there afterwards.
        new: u64,
    },
}

/// An atomic access to one number of native byte order, at a multiple of its size.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Atomic {
    /// What it does.
    pub change: Change,
    /// Bytes of the number: 4 or 8. Of operands the lower 4 count for 4.
    pub width: u8,
}

/// Bytes of an encoded [`Atomic`].
const ATOMIC_BYTES: usize = 24;

impl Atomic {
    /// Whether there is such an access to memory of `len` bytes at `at`.
    pub fn fits(&self, len: u64, at: u64) -> bool {
        let width = u64::from(self.width);
        matches!(width, 4 | 8) && at.is_multiple_of(width) && is_inside(len, at, width)
    }

    /// The number afterwards, if it was `before`.
    pub fn apply(&self, before: u64) -> u64 {
        let mask = if self.width == 4 { u64::from(u32::MAX) } else { u64::MAX };
        let after = match self.change {
            Change::Add(n) => before.wrapping_add(n),
            Change::Swap(new) => new,
            Change::CompareSwap { expected, new } if before & mask == expected & mask => new,
            Change::CompareSwap { .. } => before,
        };
        after & mask
    }

    fn encode(&self) -> [u8; ATOMIC_BYTES] {
        let (number, a, b) = match self.change {
            Change::Add(n) => (0, n, 0),
            Change::Swap(new) => (1, new, 0),
            Change::CompareSwap { expected, new } => (2, new, expected),
        };
        let mut out = [0; ATOMIC_BYTES];
        (out[0], out[1]) = (number, self.width);
        out[8..16].copy_from_slice(&a.to_le_bytes());
        out[16..].copy_from_slice(&b.to_le_bytes());
        out
    }

    fn decode(bytes: &[u8; ATOMIC_BYTES]) -> Option<Atomic> {
        let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| bytes[at + i]));
        let change = match bytes[0] {
            0 => Change::Add(word(8)),
            1 => Change::Swap(word(8)),
            2 => Change::CompareSwap { expected: word(16), new: word(8) },
            _ => return None,
        };
        Some(Atomic { change, width: bytes[1] })
    }
}

/// Where a packet wants to reach registered memory of its receiver.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Target {
    /// See [`Key`].
    pub number: u32,
    /// See [`Key`].
    pub nonce: u64,
    /// The first byte.
    pub at: u64,
}

/// Bytes of an encoded [`Target`].
const TARGET_BYTES: usize = 24;
/// Bytes of the body of `PUT` and `GET`: a target, and how many bytes.
pub const RANGE_BYTES: usize = TARGET_BYTES + 8;
/// Bytes of the body of `ATOMIC`: a target, and what is done.
pub const CHANGE_BYTES: usize = TARGET_BYTES + ATOMIC_BYTES;

impl Target {
    /// The place `at` of what a key names.
    pub fn new(key: &Key, at: u64) -> Target {
        Target { number: key.number, nonce: key.nonce, at }
    }

    fn encode(&self) -> [u8; TARGET_BYTES] {
        let mut out = [0; TARGET_BYTES];
        out[..8].copy_from_slice(&self.nonce.to_le_bytes());
        out[8..16].copy_from_slice(&self.at.to_le_bytes());
        out[16..20].copy_from_slice(&self.number.to_le_bytes());
        out
    }

    fn decode(bytes: &[u8; TARGET_BYTES]) -> Target {
        let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| bytes[at + i]));
        Target { nonce: word(0), at: word(8), number: word(16) as u32 }
    }

    /// The body of a `PUT` or `GET` of `len` bytes.
    pub fn encode_range(&self, len: u64) -> [u8; RANGE_BYTES] {
        let mut out = [0; RANGE_BYTES];
        out[..TARGET_BYTES].copy_from_slice(&self.encode());
        out[TARGET_BYTES..].copy_from_slice(&len.to_le_bytes());
        out
    }

    /// Reads the body of a `PUT` or `GET`.
    pub fn decode_range(bytes: &[u8; RANGE_BYTES]) -> (Target, u64) {
        let len = u64::from_le_bytes(std::array::from_fn(|i| bytes[TARGET_BYTES + i]));
        (Target::decode(&std::array::from_fn(|i| bytes[i])), len)
    }

    /// The body of an `ATOMIC`.
    pub fn encode_atomic(&self, atomic: &Atomic) -> [u8; CHANGE_BYTES] {
        let mut out = [0; CHANGE_BYTES];
        out[..TARGET_BYTES].copy_from_slice(&self.encode());
        out[TARGET_BYTES..].copy_from_slice(&atomic.encode());
        out
    }

    /// Reads the body of an `ATOMIC`; `None` if there is no such change.
    pub fn decode_atomic(bytes: &[u8; CHANGE_BYTES]) -> Option<(Target, Atomic)> {
        let atomic = Atomic::decode(&std::array::from_fn(|i| bytes[TARGET_BYTES + i]))?;
        Some((Target::decode(&std::array::from_fn(|i| bytes[i])), atomic))
    }
}

/// The registered memory of one process.
#[derive(Debug)]
pub struct Registry<R> {
    slots: Vec<Option<(u64, R)>>,
}

impl<R> Default for Registry<R> {
    fn default() -> Registry<R> {
        Registry { slots: Vec::new() }
    }
}

impl<R> Registry<R> {
    /// Registers memory under a random nonce; its number.
    pub fn insert(&mut self, nonce: u64, region: R) -> u32 {
        assert_ne!(nonce, 0, "0 is no nonce");
        let free = self.slots.iter().position(Option::is_none).unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() - 1
        });
        self.slots[free] = Some((nonce, region));
        free as u32
    }

    /// What is registered so; `None` if nothing is.
    pub fn find(&self, number: u32, nonce: u64) -> Option<&R> {
        let (known, region) = self.slots.get(number as usize)?.as_ref()?;
        (*known == nonce).then_some(region)
    }

    /// Ends a registration; `None` if there is no such one.
    pub fn remove(&mut self, number: u32, nonce: u64) -> Option<R> {
        self.find(number, nonce)?;
        self.slots[number as usize].take().map(|(_, region)| region)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_stale_key_names_nothing() {
        let mut registry = Registry::default();
        let number = registry.insert(5, 'a');
        assert_eq!((registry.find(number, 5), registry.find(number, 6), registry.find(9, 5)), (Some(&'a'), None, None));
        assert_eq!(registry.remove(number, 6), None);
        assert_eq!(registry.remove(number, 5), Some('a'));
        assert_eq!(registry.insert(7, 'b'), number, "the place is used again");
        assert_eq!((registry.find(number, 5), registry.find(number, 7)), (None, Some(&'b')));
    }

    #[test]
    fn nothing_outside_is_inside() {
        assert!(is_inside(8, 0, 8) && is_inside(8, 8, 0) && is_inside(0, 0, 0));
        assert!(!is_inside(8, 1, 8) && !is_inside(8, 9, 0) && !is_inside(8, u64::MAX, 2));
        let add = |width| Atomic { change: Change::Add(1), width };
        assert!(add(8).fits(16, 8) && add(4).fits(16, 12));
        assert!(!add(8).fits(16, 12) && !add(8).fits(16, 16) && !add(4).fits(16, 2) && !add(2).fits(16, 0));
    }

    #[test]
    fn four_bytes_wrap_as_four_bytes() {
        let four = |change| Atomic { change, width: 4 };
        assert_eq!(four(Change::Add(1)).apply(u64::from(u32::MAX)), 0);
        assert_eq!(four(Change::Add(u64::MAX)).apply(5), 4);
        assert_eq!(four(Change::CompareSwap { expected: 1 << 40 | 7, new: 3 }).apply(7), 3);
        assert_eq!(four(Change::CompareSwap { expected: 8, new: 3 }).apply(7), 7);
    }

    proptest! {
        #[test]
        fn bodies_survive_the_wire(number: u32, nonce: u64, at: u64, len: u64, a: u64, b: u64, kind in 0..3, wide: bool) {
            let key = Key { number, nonce, len, record: a };
            prop_assert_eq!(Key::decode(&key.encode()), key);
            let target = Target::new(&key, at);
            prop_assert_eq!(Target::decode(&target.encode()), target);
            prop_assert_eq!(Target::decode_range(&target.encode_range(len)), (target, len));
            let change = [Change::Add(a), Change::Swap(a), Change::CompareSwap { expected: a, new: b }][kind as usize];
            let atomic = Atomic { change, width: if wide { 8 } else { 4 } };
            prop_assert_eq!(Target::decode_atomic(&target.encode_atomic(&atomic)), Some((target, atomic)));
        }
    }
}
