//! Bytes as hexadecimal digits.

/// Two lower-case digits for each byte.
pub fn encode(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The inverse of [`encode`], for digits of either case; none if `text` is anything else.
pub fn decode(text: &str) -> Option<Vec<u8>> {
    let digits: Vec<u32> = text.chars().map(|c| c.to_digit(16)).collect::<Option<_>>()?;
    let (pairs, rest) = digits.as_chunks();
    rest.is_empty().then(|| pairs.iter().map(|[high, low]| (high << 4 | low) as u8).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_survive_and_nothing_else_is_read() {
        for bytes in [&[][..], &[0], &[0x0f, 0xf0, 0xab], &[255; 100]] {
            assert_eq!(decode(&encode(bytes)).as_deref(), Some(bytes));
        }
        assert_eq!(encode(&[1, 0xfe]), "01fe");
        assert_eq!(decode("01FE"), Some(vec![1, 0xfe]));
        for wrong in ["0", "012", "0g", " 01", "+1", "é"] {
            assert_eq!(decode(wrong), None, "{wrong}");
        }
    }
}
