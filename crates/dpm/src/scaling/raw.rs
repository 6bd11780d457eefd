//! Numbers as front-ends send them.

/// Returns the number in a front-end's bytes, sign-extended; `None` if there are not 1, 2 or 4 of
/// them.
pub fn raw(bytes: &[u8]) -> Option<i32> {
    Some(match *bytes {
        [byte] => i32::from(byte as i8),
        [low, high] => i32::from(i16::from_le_bytes([low, high])),
        [a, b, c, d] => i32::from_le_bytes([a, b, c, d]),
        _ => return None,
    })
}
