//! The portable representation "external32": big-endian, standard sizes, no gaps (MPI-5.0, 14.5.2).
//!
//! The signature is walked in chunks: native packed bytes in a small buffer, then scalar by scalar to or from the wire.
//! `MPI_LONG` has 4 bytes there and `MPI_WCHAR` 2: a value that does not fit raises `ERR_CONVERSION`.

use base::{Result, ensure, fail};

use super::builtin::{Builtin, Family, Repr};
use super::{Datatype, pack, unpack};

/// Native bytes converted at a time; holds at least one element of any type.
const CHUNK_BYTES: usize = 1024;

/// Bytes that `count` items take (`MPI_Pack_external_size`); none on overflow.
pub fn pack_external_size(dt: &Datatype, count: usize) -> Option<usize> {
    dt.signature.external.checked_mul(count)
}

/// Writes `count` items at `src` to `dst` and returns the number of bytes written; `ERR_TRUNCATE` if `room` is too small.
///
/// # Safety
/// The items must be readable and `dst` writable for `room` bytes.
pub unsafe fn pack_external(dt: &Datatype, src: *const u8, count: usize, dst: *mut u8, room: usize) -> Result<usize> {
    let total = checked_total(dt, count, room)?;
    let (mut at, mut out) = (0, dst);
    each_chunk(dt, count, &mut |builtin, n| {
        let mut native = [0u8; CHUNK_BYTES];
        let bytes = n * builtin.size();
        // SAFETY: `at + bytes` is inside the packed stream; the caller vouches for the items.
        unsafe { pack(dt, src, count, at, native.as_mut_ptr(), bytes) };
        at += bytes;
        let mut from = &native[..bytes];
        for (repr, wire_len) in scalars(builtin, n) {
            let (value, rest) = from.split_at(repr.size());
            from = rest;
            let mut wire = [0u8; 16];
            encode(repr, value, &mut wire[..wire_len])?;
            // SAFETY: all writes together are `total <= room` bytes.
            unsafe {
                std::ptr::copy_nonoverlapping(wire.as_ptr(), out, wire_len);
                out = out.add(wire_len);
            }
        }
        Ok(())
    })?;
    Ok(total)
}

/// Reads `count` items from `src` and returns the number of bytes read; `ERR_TRUNCATE` if `available` is too small.
///
/// # Safety
/// `src` must be readable for `available` bytes and the items writable.
pub unsafe fn unpack_external(
    dt: &Datatype,
    dst: *mut u8,
    count: usize,
    src: *const u8,
    available: usize,
) -> Result<usize> {
    let total = checked_total(dt, count, available)?;
    let (mut at, mut input) = (0, src);
    each_chunk(dt, count, &mut |builtin, n| {
        let mut native = [0u8; CHUNK_BYTES];
        let bytes = n * builtin.size();
        let mut to = &mut native[..bytes];
        for (repr, wire_len) in scalars(builtin, n) {
            let mut wire = [0u8; 16];
            // SAFETY: all reads together are `total <= available` bytes.
            unsafe {
                std::ptr::copy_nonoverlapping(input, wire.as_mut_ptr(), wire_len);
                input = input.add(wire_len);
            }
            let (value, rest) = to.split_at_mut(repr.size());
            to = rest;
            decode(repr, &wire[..wire_len], value);
        }
        // SAFETY: `at + bytes` is inside the packed stream; the caller vouches for the items.
        unsafe { unpack(dt, dst, count, at, native.as_ptr(), bytes) };
        at += bytes;
        Ok(())
    })?;
    Ok(total)
}

fn checked_total(dt: &Datatype, count: usize, room: usize) -> Result<usize> {
    let Some(total) = pack_external_size(dt, count) else { fail!(ERR_COUNT, "external32 size overflows") };
    ensure!(total <= room, ERR_TRUNCATE, "buffer is too small for external32 data");
    Ok(total)
}

/// Runs of equal elements, cut to at most [`CHUNK_BYTES`] native bytes.
fn each_chunk(dt: &Datatype, count: usize, visit: &mut impl FnMut(Builtin, usize) -> Result<()>) -> Result<()> {
    dt.signature.each_of(count, &mut |builtin, mut n| {
        let most = CHUNK_BYTES / builtin.size();
        while n > 0 {
            let step = n.min(most);
            visit(builtin, step)?;
            n -= step;
        }
        Ok(())
    })
}

/// The scalars of `n` elements with their length on the wire.
fn scalars(builtin: Builtin, n: usize) -> impl Iterator<Item = (Repr, usize)> {
    let first = (builtin.repr, builtin.external);
    let second = match (builtin.family, builtin.index) {
        (Family::Complex, _) => Some(first),
        (_, Some(index)) => Some((index, builtin.external_index)),
        _ => None,
    };
    (0..n).flat_map(move |_| std::iter::once(first).chain(second))
}

/// Native scalar to big-endian bytes.
fn encode(repr: Repr, value: &[u8], wire: &mut [u8]) -> Result<()> {
    if repr == Repr::F80 {
        wire.copy_from_slice(&x87_to_quad(value).to_be_bytes());
        return Ok(());
    }
    let fill = extension(repr, value[wire.len() - 1]);
    let lost = &value[wire.len()..];
    ensure!(lost.iter().all(|byte| *byte == fill), ERR_CONVERSION, "value does not fit its external32 size");
    for (to, from) in wire.iter_mut().rev().zip(value) {
        *to = *from;
    }
    Ok(())
}

/// Big-endian bytes to a native scalar.
fn decode(repr: Repr, wire: &[u8], value: &mut [u8]) {
    if repr == Repr::F80 {
        let mut bits = [0; 16];
        bits.copy_from_slice(wire);
        quad_to_x87(u128::from_be_bytes(bits), value);
        return;
    }
    value.fill(extension(repr, wire[0]));
    for (to, from) in value.iter_mut().zip(wire.iter().rev()) {
        *to = *from;
    }
}

/// The byte that widens an integer whose top byte is `top`.
fn extension(repr: Repr, top: u8) -> u8 {
    if repr.is_signed() && top & 0x80 != 0 { 0xff } else { 0 }
}

const QUAD_FRACTION_BITS: u32 = 112;
const X87_FRACTION_BITS: u32 = 63;
/// Fraction bits that binary128 has and x87 lacks.
const EXTRA_BITS: u32 = QUAD_FRACTION_BITS - X87_FRACTION_BITS;

/// x87 extended (sign, 15-bit exponent, 64-bit significand with its integer bit) to binary128: exact.
fn x87_to_quad(value: &[u8]) -> u128 {
    let significand = u64::from_le_bytes(value[..8].try_into().expect("16 bytes of x87"));
    let head = u16::from_le_bytes([value[8], value[9]]);
    let (sign, mut exponent) = (u128::from(head >> 15) << 127, u32::from(head & 0x7fff));
    let mut fraction = u128::from(significand << 1) << (EXTRA_BITS - 1);
    if exponent == 0 && significand >> 63 == 1 {
        // A pseudo-denormal has the value of the smallest normal exponent.
        exponent = 1;
    }
    if exponent == 0 {
        // Same exponent bias, and bit 63 is 0: the shifted bits are already the subnormal fraction.
        fraction = u128::from(significand) << EXTRA_BITS;
    }
    sign | u128::from(exponent) << QUAD_FRACTION_BITS | fraction & ((1 << QUAD_FRACTION_BITS) - 1)
}

/// binary128 to x87 extended, rounded to nearest even; padding bytes become 0.
fn quad_to_x87(bits: u128, value: &mut [u8]) {
    let sign = ((bits >> 127) as u16) << 15;
    let mut exponent = ((bits >> QUAD_FRACTION_BITS) & 0x7fff) as u16;
    let fraction = bits & ((1 << QUAD_FRACTION_BITS) - 1);
    let integer = u64::from(exponent != 0) << 63;
    let mut significand = integer | (fraction >> EXTRA_BITS) as u64;
    let rest = fraction & ((1 << EXTRA_BITS) - 1);
    let half = 1u128 << (EXTRA_BITS - 1);
    if exponent == 0x7fff {
        // Keep a NaN a NaN when only low fraction bits are set.
        if rest != 0 {
            significand |= 1 << 62;
        }
    } else if rest > half || rest == half && significand & 1 == 1 {
        let (next, carry) = significand.overflowing_add(1);
        significand = next;
        if carry {
            (significand, exponent) = (1 << 63, exponent + 1);
        } else if exponent == 0 && significand >> 63 == 1 {
            exponent = 1;
        }
    }
    value.fill(0);
    value[..8].copy_from_slice(&significand.to_le_bytes());
    value[8..10].copy_from_slice(&(sign | exponent).to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::datatype::predefined;

    #[test]
    fn x87_and_quad_convert_both_ways() {
        // 1.5: exponent 0x3fff, significand 1.1b.
        let mut one_and_half = [0u8; 16];
        one_and_half[7] = 0xc0;
        one_and_half[8..10].copy_from_slice(&0x3fffu16.to_le_bytes());
        let quad = x87_to_quad(&one_and_half);
        assert_eq!(quad, 0x3fff_8000_0000_0000_0000_0000_0000_0000);
        let mut back = [0xaa; 16];
        quad_to_x87(quad, &mut back);
        assert_eq!(back, one_and_half);
        // Smallest subnormal, infinity, largest finite.
        for (significand, head) in [(1u64, 0u16), (1 << 63, 0x7fff), (u64::MAX, 0xfffe), (0, 0x8000)] {
            let mut x = [0u8; 16];
            x[..8].copy_from_slice(&significand.to_le_bytes());
            x[8..10].copy_from_slice(&head.to_le_bytes());
            quad_to_x87(x87_to_quad(&x), &mut back);
            assert_eq!(back, x);
        }
    }

    #[test]
    fn rounding_carries_into_the_exponent() {
        let mut value = [0; 16];
        quad_to_x87(0x3ffe_ffff_ffff_ffff_ffff_ffff_ffff_ffff, &mut value);
        assert_eq!(value[..10], [0, 0, 0, 0, 0, 0, 0, 0x80, 0xff, 0x3f]);
    }

    #[test]
    fn long_shrinks_and_widens() {
        let dt = predefined(crate::datatype::Name::MPI_LONG);
        let (values, mut wire, mut back) = ([1i64, -2], [0u8; 8], [0i64; 2]);
        // SAFETY: arrays of the given sizes.
        unsafe {
            assert_eq!(pack_external(dt, values.as_ptr().cast(), 2, wire.as_mut_ptr(), 8), Ok(8));
            assert_eq!(wire, [0, 0, 0, 1, 0xff, 0xff, 0xff, 0xfe]);
            assert_eq!(unpack_external(dt, back.as_mut_ptr().cast(), 2, wire.as_ptr(), 8), Ok(8));
            let big = [1i64 << 40];
            assert!(pack_external(dt, big.as_ptr().cast(), 1, wire.as_mut_ptr(), 8).is_err());
            assert!(pack_external(dt, values.as_ptr().cast(), 2, wire.as_mut_ptr(), 7).is_err());
        }
        assert_eq!(back, values);
    }
}
