//! Protocol Buffers, as far as a few messages of version 3 need them: varints, 64-bit numbers, and bytes with their length.
//!
//! As version 3 wants it, numbers that are zero and texts that are empty are left out by who calls; unknown fields are skipped by readers.

/// A field's value as it stands in a message.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value<'a> {
    /// An integer, a truth value, an enumeration.
    Varint(u64),
    /// A double, or a fixed integer of 64 bits.
    Fixed64(u64),
    /// A text, bytes, a message, or packed numbers.
    Bytes(&'a [u8]),
    /// A float, or a fixed integer of 32 bits.
    Fixed32(u32),
}

/// Bytes that are no message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Malformed;

/// The fields of a message with their numbers, in the order in which they stand there. The first error is the last item.
pub fn fields(mut bytes: &[u8]) -> impl Iterator<Item = Result<(u32, Value<'_>), Malformed>> {
    std::iter::from_fn(move || {
        if bytes.is_empty() {
            return None;
        }
        let read = field(&mut bytes);
        if read.is_err() {
            bytes = &[];
        }
        Some(read)
    })
}

/// A text of a message.
pub fn text(value: Value<'_>) -> Result<&str, Malformed> {
    match value {
        Value::Bytes(bytes) => std::str::from_utf8(bytes).map_err(|_| Malformed),
        _ => Err(Malformed),
    }
}

/// Appends an integer that is not zero. Negative ones take ten bytes, as `int32` and `int64` have them.
pub fn put_integer(out: &mut Vec<u8>, number: u32, value: i64) {
    if value != 0 {
        put_varint(out, u64::from(number) << 3);
        put_varint(out, value as u64);
    }
}

/// Appends a truth value that is true.
pub fn put_boolean(out: &mut Vec<u8>, number: u32, value: bool) {
    put_integer(out, number, i64::from(value));
}

/// Appends a double, zero or not: those of a `oneof` are there even if they are zero.
pub fn put_double(out: &mut Vec<u8>, number: u32, value: f64) {
    put_varint(out, u64::from(number) << 3 | 1);
    out.extend_from_slice(&value.to_le_bytes());
}

/// Appends packed doubles, unless there are none.
pub fn put_doubles(out: &mut Vec<u8>, number: u32, values: &[f64]) {
    if !values.is_empty() {
        put_varint(out, u64::from(number) << 3 | 2);
        put_varint(out, values.len() as u64 * 8);
        out.extend(values.iter().flat_map(|value| value.to_le_bytes()));
    }
}

/// Appends bytes, a text or a message, empty or not.
pub fn put_bytes(out: &mut Vec<u8>, number: u32, bytes: &[u8]) {
    put_varint(out, u64::from(number) << 3 | 2);
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Appends a message that `write` makes.
pub fn put_message(out: &mut Vec<u8>, number: u32, write: impl FnOnce(&mut Vec<u8>)) {
    let mut message = Vec::new();
    write(&mut message);
    put_bytes(out, number, &message);
}

/// Appends an integer of seven bits to a byte.
pub fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn field<'a>(bytes: &mut &'a [u8]) -> Result<(u32, Value<'a>), Malformed> {
    let tag = varint(bytes)?;
    let number = u32::try_from(tag >> 3).ok().filter(|number| (1..=LARGEST_NUMBER).contains(number));
    let value = match tag & 7 {
        0 => Value::Varint(varint(bytes)?),
        1 => Value::Fixed64(u64::from_le_bytes(*take(bytes, 8)?.first_chunk().ok_or(Malformed)?)),
        2 => {
            let length = usize::try_from(varint(bytes)?).map_err(|_| Malformed)?;
            Value::Bytes(take(bytes, length)?)
        }
        5 => Value::Fixed32(u32::from_le_bytes(*take(bytes, 4)?.first_chunk().ok_or(Malformed)?)),
        // Groups are of version 1.
        _ => return Err(Malformed),
    };
    Ok((number.ok_or(Malformed)?, value))
}

fn varint(bytes: &mut &[u8]) -> Result<u64, Malformed> {
    let mut value = 0;
    for place in 0..10 {
        let byte = take(bytes, 1)?[0];
        // The tenth byte holds one bit; what is beyond 64 bits is lost, as elsewhere.
        value |= u64::from(byte & 0x7f) << (7 * place);
        if byte < 0x80 {
            return Ok(value);
        }
    }
    Err(Malformed)
}

fn take<'a>(bytes: &mut &'a [u8], count: usize) -> Result<&'a [u8], Malformed> {
    let (taken, rest) = bytes.split_at_checked(count).ok_or(Malformed)?;
    *bytes = rest;
    Ok(taken)
}

const LARGEST_NUMBER: u32 = (1 << 29) - 1;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn lies_are_refused() {
        for bytes in [&[0x0a, 0x05, 1][..], &[0x08], &[0x08, 0x80], &[0x00, 1], &[0x0b], &[0x09, 1, 2, 3], &[0x80; 11]]
        {
            assert!(fields(bytes).any(|field| field == Err(Malformed)), "{bytes:?}");
        }
        let huge = [&[0x0a][..], &[0xff; 9], &[1]].concat();
        assert_eq!(fields(&huge).collect::<Vec<_>>(), [Err(Malformed)]);
    }

    proptest! {
        #[test]
        fn anything_is_read_to_an_end(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            prop_assert!(fields(&bytes).count() <= bytes.len());
        }

        #[test]
        fn what_is_written_is_read(number in 1u32..100, integer in any::<i64>(), double in any::<f64>(), bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let mut message = Vec::new();
            put_integer(&mut message, number, integer);
            put_double(&mut message, number + 1, double);
            put_bytes(&mut message, number + 2, &bytes);
            let mut expected = vec![(number, Value::Varint(integer as u64)), (number + 1, Value::Fixed64(double.to_bits())), (number + 2, Value::Bytes(&bytes))];
            if integer == 0 {
                expected.remove(0);
            }
            prop_assert_eq!(fields(&message).collect::<Result<Vec<_>, _>>(), Ok(expected));
        }
    }
}
