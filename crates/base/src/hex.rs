//! Bytes as hexadecimal digits (RFC 4648 §8).

/// Returns the digits of bytes, in lower case.
pub fn encode(bytes: impl AsRef<[u8]>) -> String {
    let digits = bytes.as_ref().iter().flat_map(|byte| [byte >> 4, byte & 15]);
    digits.filter_map(|digit| char::from_digit(u32::from(digit), 16)).collect()
}

/// Reads exactly `N` bytes from digits of either case; `None` if the text is anything else.
pub fn decode<const N: usize>(text: &str) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    if pairs.len() != N || !rest.is_empty() {
        return None;
    }
    for (byte, pair) in bytes.iter_mut().zip(pairs) {
        let [high, low] = pair.map(|digit| char::from(digit).to_digit(16));
        *byte = u8::try_from(high? << 4 | low?).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_survive_their_digits() {
        let bytes: [u8; 256] = std::array::from_fn(|byte| byte as u8);
        let text = encode(bytes);
        assert!(text.starts_with("000102") && text.ends_with("fdfeff"));
        assert_eq!(decode(&text), Some(bytes));
        assert_eq!(decode(&text.to_uppercase()), Some(bytes));
    }

    #[test]
    fn what_is_no_digit_or_of_another_length_is_nothing() {
        for text in ["0", "000", "0000", "+f", "0x", "é", " 0", "0 "] {
            assert_eq!(decode::<1>(text), None, "{text}");
        }
        assert_eq!((decode(""), decode("fF")), (Some([0; 0]), Some([255])));
    }
}
