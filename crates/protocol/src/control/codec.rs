//! Bytes of control messages: little-endian integers, `u32` counts before sequences, one tag byte before enum variants.
//!
//! Decoding never allocates more than the input could fill and never recurses, so hostile input costs at most its length.

use base::{Result, ensure, fail};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

/// What is left of a message that is being decoded.
pub struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    /// Starts at the first byte of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader(bytes)
    }

    /// Takes the next `n` bytes.
    pub fn bytes(&mut self, n: usize) -> Result<&'a [u8]> {
        ensure!(n <= self.0.len(), ERR_OTHER, "control message is truncated");
        let (head, tail) = self.0.split_at(n);
        self.0 = tail;
        Ok(head)
    }

    /// Bytes not yet taken.
    pub fn remaining(&self) -> usize {
        self.0.len()
    }
}

/// A value with a fixed encoding.
pub trait Wire: Sized {
    /// Appends the value's bytes.
    fn put(&self, out: &mut Vec<u8>);
    /// Reads one value.
    fn take(input: &mut Reader<'_>) -> Result<Self>;
    /// Appends the elements of a sequence (bytes are copied at once).
    fn put_all(all: &[Self], out: &mut Vec<u8>) {
        all.iter().for_each(|v| v.put(out));
    }
    /// Reads `n` elements. Each takes at least one byte of input unless it is zero-sized.
    fn take_all(n: usize, input: &mut Reader<'_>) -> Result<Vec<Self>> {
        ensure!(n <= input.remaining(), ERR_OTHER, "control message promises more elements than it has bytes");
        let mut all = Vec::with_capacity(n.min(1024));
        for _ in 0..n {
            all.push(Self::take(input)?);
        }
        Ok(all)
    }
}

/// The bytes of `value`.
pub fn encode<T: Wire>(value: &T) -> Vec<u8> {
    let mut out = Vec::new();
    value.put(&mut out);
    out
}

/// The value whose encoding is exactly `bytes`.
pub fn decode<T: Wire>(bytes: &[u8]) -> Result<T> {
    let mut input = Reader::new(bytes);
    let value = T::take(&mut input)?;
    ensure!(input.remaining() == 0, ERR_OTHER, "control message has bytes after its end");
    Ok(value)
}

macro_rules! wire_int {
    ($($ty:ty)*) => {$(
        impl Wire for $ty {
            fn put(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_le_bytes());
            }
            fn take(input: &mut Reader<'_>) -> Result<$ty> {
                let mut raw = [0; size_of::<$ty>()];
                raw.copy_from_slice(input.bytes(size_of::<$ty>())?);
                Ok(<$ty>::from_le_bytes(raw))
            }
        }
    )*};
}
wire_int!(u16 u32 u64 u128 i32 i64);

impl Wire for u8 {
    fn put(&self, out: &mut Vec<u8>) {
        out.push(*self);
    }
    fn take(input: &mut Reader<'_>) -> Result<u8> {
        Ok(input.bytes(1)?[0])
    }
    fn put_all(all: &[u8], out: &mut Vec<u8>) {
        out.extend_from_slice(all);
    }
    fn take_all(n: usize, input: &mut Reader<'_>) -> Result<Vec<u8>> {
        Ok(input.bytes(n)?.to_vec())
    }
}

impl Wire for bool {
    fn put(&self, out: &mut Vec<u8>) {
        out.push(u8::from(*self));
    }
    fn take(input: &mut Reader<'_>) -> Result<bool> {
        match u8::take(input)? {
            0 => Ok(false),
            1 => Ok(true),
            _ => fail!(ERR_OTHER, "control message has a truth value that is neither 0 nor 1"),
        }
    }
}

impl<const N: usize> Wire for [u8; N] {
    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self);
    }
    fn take(input: &mut Reader<'_>) -> Result<[u8; N]> {
        let mut raw = [0; N];
        raw.copy_from_slice(input.bytes(N)?);
        Ok(raw)
    }
}

impl<T: Wire> Wire for Vec<T> {
    fn put(&self, out: &mut Vec<u8>) {
        u32::try_from(self.len()).expect("a control message is far below 4 GiB").put(out);
        T::put_all(self, out);
    }
    fn take(input: &mut Reader<'_>) -> Result<Vec<T>> {
        let n = u32::take(input)? as usize;
        T::take_all(n, input)
    }
}

impl Wire for String {
    fn put(&self, out: &mut Vec<u8>) {
        u32::try_from(self.len()).expect("a control message is far below 4 GiB").put(out);
        out.extend_from_slice(self.as_bytes());
    }
    fn take(input: &mut Reader<'_>) -> Result<String> {
        match String::from_utf8(Vec::<u8>::take(input)?) {
            Ok(text) => Ok(text),
            Err(_) => fail!(ERR_OTHER, "control message has text that is not UTF-8"),
        }
    }
}

impl<T: Wire> Wire for Option<T> {
    fn put(&self, out: &mut Vec<u8>) {
        self.is_some().put(out);
        if let Some(value) = self {
            value.put(out);
        }
    }
    fn take(input: &mut Reader<'_>) -> Result<Option<T>> {
        Ok(if bool::take(input)? { Some(T::take(input)?) } else { None })
    }
}

impl<A: Wire, B: Wire> Wire for (A, B) {
    fn put(&self, out: &mut Vec<u8>) {
        self.0.put(out);
        self.1.put(out);
    }
    fn take(input: &mut Reader<'_>) -> Result<(A, B)> {
        Ok((A::take(input)?, B::take(input)?))
    }
}

impl<T: Wire> Wire for Box<T> {
    fn put(&self, out: &mut Vec<u8>) {
        (**self).put(out);
    }
    fn take(input: &mut Reader<'_>) -> Result<Box<T>> {
        Ok(Box::new(T::take(input)?))
    }
}

impl Wire for SocketAddr {
    fn put(&self, out: &mut Vec<u8>) {
        let scope = match self {
            SocketAddr::V4(_) => 0,
            SocketAddr::V6(v6) => v6.scope_id(),
        };
        match self.ip() {
            IpAddr::V4(ip) => (4u8, ip.octets()).put(out),
            IpAddr::V6(ip) => (6u8, (ip.octets(), scope)).put(out),
        }
        self.port().put(out);
    }
    fn take(input: &mut Reader<'_>) -> Result<SocketAddr> {
        Ok(match u8::take(input)? {
            4 => {
                let ip = Ipv4Addr::from(<[u8; 4]>::take(input)?);
                SocketAddr::new(ip.into(), u16::take(input)?)
            }
            6 => {
                let (octets, scope) = <([u8; 16], u32)>::take(input)?;
                SocketAddrV6::new(Ipv6Addr::from(octets), u16::take(input)?, 0, scope).into()
            }
            _ => fail!(ERR_OTHER, "control message has an address of an unknown family"),
        })
    }
}

impl Wire for base::WorldRank {
    fn put(&self, out: &mut Vec<u8>) {
        self.0.put(out);
    }
    fn take(input: &mut Reader<'_>) -> Result<base::WorldRank> {
        Ok(base::WorldRank(u32::take(input)?))
    }
}

impl Wire for super::handshake::Key {
    fn put(&self, out: &mut Vec<u8>) {
        self.0.put(out);
    }
    fn take(input: &mut Reader<'_>) -> Result<super::handshake::Key> {
        Ok(super::handshake::Key(Wire::take(input)?))
    }
}

/// Declares a struct, or an enum with numbered variants, together with its encoding: fields in order, variants by number.
#[macro_export]
macro_rules! wire {
    ($(#[$meta:meta])* pub struct $name:ident { $($(#[$fmeta:meta])* pub $field:ident : $ty:ty,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq)]
        pub struct $name { $($(#[$fmeta])* pub $field: $ty,)* }
        impl $crate::control::Wire for $name {
            fn put(&self, out: &mut Vec<u8>) {
                $(self.$field.put(out);)*
            }
            fn take(input: &mut $crate::control::codec::Reader<'_>) -> base::Result<$name> {
                Ok($name { $($field: <$ty as $crate::control::Wire>::take(input)?,)* })
            }
        }
    };
    ($(#[$meta:meta])* pub enum $name:ident {
        $($(#[$vmeta:meta])* $variant:ident = $tag:literal { $($(#[$fmeta:meta])* $field:ident : $ty:ty),* $(,)? },)*
    }) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq)]
        pub enum $name { $($(#[$vmeta])* $variant { $($(#[$fmeta])* $field: $ty),* },)* }
        impl $crate::control::Wire for $name {
            fn put(&self, out: &mut Vec<u8>) {
                match self {
                    $($name::$variant { $($field),* } => {
                        out.push($tag);
                        $($field.put(out);)*
                    })*
                }
            }
            fn take(input: &mut $crate::control::codec::Reader<'_>) -> base::Result<$name> {
                Ok(match u8::take(input)? {
                    $($tag => $name::$variant { $($field: <$ty as $crate::control::Wire>::take(input)?),* },)*
                    _ => base::fail!(ERR_OTHER, concat!("unknown ", stringify!($name), " message")),
                })
            }
        }
    };
}
pub use wire;
