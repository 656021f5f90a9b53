//! Arbitrary bytes as a source of choices. After their end every choice is zero, so each story ends.

/// What is left of an input.
pub struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    /// Starts at the first byte.
    pub fn new(data: &'a [u8]) -> Input<'a> {
        Input(data)
    }

    /// Whether all has been used.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The next `n` bytes, or what is left.
    pub fn bytes(&mut self, n: usize) -> &'a [u8] {
        let (head, tail) = self.0.split_at(n.min(self.0.len()));
        self.0 = tail;
        head
    }

    /// The next `N` bytes, zeros after the end.
    pub fn array<const N: usize>(&mut self) -> [u8; N] {
        let mut out = [0; N];
        let bytes = self.bytes(N);
        out[..bytes.len()].copy_from_slice(bytes);
        out
    }

    /// A byte.
    pub fn byte(&mut self) -> u8 {
        self.array::<1>()[0]
    }

    /// 32 bits.
    pub fn word(&mut self) -> u32 {
        u32::from_le_bytes(self.array())
    }

    /// 64 bits.
    pub fn long(&mut self) -> u64 {
        u64::from_le_bytes(self.array())
    }

    /// A number below `n`, which is at most 65536.
    pub fn below(&mut self, n: usize) -> usize {
        match n {
            0..=1 => 0,
            2..=256 => usize::from(self.byte()) % n,
            _ => usize::from(u16::from_le_bytes(self.array())) % n,
        }
    }

    /// A number in `low..high`.
    pub fn between(&mut self, low: i64, high: i64) -> i64 {
        low + self.below((high - low) as usize) as i64
    }

    /// A choice.
    pub fn flag(&mut self) -> bool {
        self.byte() & 1 == 1
    }

    /// Usually a small number, now and then one that arithmetic dislikes.
    pub fn evil(&mut self) -> i64 {
        match self.byte() {
            0xf8 => i64::MAX,
            0xf9 => i64::MIN,
            0xfa => i64::MAX / 2 + 1,
            0xfb => i64::from(i32::MAX),
            0xfc => i64::from(i32::MIN),
            0xfd => -1,
            0xfe => 1 << 32,
            0xff => self.long() as i64,
            small => i64::from(small as i8),
        }
    }

    /// The rest.
    pub fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.0)
    }
}
