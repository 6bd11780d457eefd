//! The part of gRPC above HTTP/2: the codes with which calls end, deadlines, the frame around a
//! message.

use std::time::Duration;

/// The end of a call, by the names of gRPC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Code {
    /// Success.
    Ok = 0,
    /// The deadline has passed.
    DeadlineExceeded = 4,
    /// A message that is too large, or too many calls.
    ResourceExhausted = 8,
    /// There is no such method, or not in this form.
    Unimplemented = 12,
    /// An invalid message.
    Internal = 13,
    /// The service is ending.
    Unavailable = 14,
}

/// Reads the header `grpc-timeout`: up to eight digits and a unit. Returns `None` if it is invalid.
pub fn timeout(value: &str) -> Option<Duration> {
    let (digits, unit) = value.split_at_checked(value.len().checked_sub(1)?)?;
    if digits.len() > 8 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let number: u64 = digits.parse().ok()?;
    Some(match unit {
        "H" => Duration::from_secs(number * 3600),
        "M" => Duration::from_secs(number * 60),
        "S" => Duration::from_secs(number),
        "m" => Duration::from_millis(number),
        "u" => Duration::from_micros(number),
        "n" => Duration::from_nanos(number),
        _ => return None,
    })
}

/// Returns the one message of a call's body; `Ok(None)` if it is incomplete. The error is the one
/// with which the call ends.
pub fn message(body: &[u8], is_over: bool) -> Result<Option<&[u8]>, (Code, &'static str)> {
    let Some((head, rest)) = body.split_first_chunk::<HEAD>() else {
        return if is_over { Err((Code::Internal, "there is no message")) } else { Ok(None) };
    };
    let [compressed, length @ ..] = *head;
    let length = u32::from_be_bytes(length) as usize;
    if compressed != 0 {
        return Err((Code::Unimplemented, "messages must not be compressed"));
    }
    if length > LARGEST {
        return Err((Code::ResourceExhausted, "the message is too large"));
    }
    match (rest.len(), is_over) {
        (have, _) if have > length => Err((Code::Internal, "there is more than one message")),
        (have, true) if have < length => Err((Code::Internal, "the message ends too early")),
        (have, is_over) if have == length && is_over => Ok(Some(rest)),
        _ => Ok(None),
    }
}

/// Returns a message with its frame.
pub fn frame(message: &[u8]) -> Vec<u8> {
    let mut framed = vec![0];
    framed.extend_from_slice(&(message.len() as u32).to_be_bytes());
    framed.extend_from_slice(message);
    framed
}

const HEAD: usize = 5;
/// The largest message of a client, in bytes.
pub const LARGEST: usize = 4 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts_are_read() {
        for (text, timeout) in [
            ("5S", Some(Duration::from_secs(5))),
            ("100m", Some(Duration::from_millis(100))),
            ("99999999H", Some(Duration::from_secs(99_999_999 * 3600))),
            ("7u", Some(Duration::from_micros(7))),
            ("7n", Some(Duration::from_nanos(7))),
            ("2M", Some(Duration::from_secs(120))),
            ("", None),
            ("S", None),
            ("5", None),
            ("-5S", None),
            ("123456789S", None),
            ("5\u{e9}", None),
        ] {
            assert_eq!(self::timeout(text), timeout, "{text}");
        }
    }

    #[test]
    fn a_body_is_one_message() {
        assert_eq!(message(&frame(b"abc"), true), Ok(Some(&b"abc"[..])));
        assert_eq!(message(&frame(b""), true), Ok(Some(&b""[..])));
        assert_eq!(message(&frame(b"abc"), false), Ok(None), "more may come, which would be wrong");
        assert_eq!(message(&frame(b"abc")[..6], false), Ok(None));
        let code =
            |body: &[u8], is_over| message(body, is_over).map(|message| message.is_some()).map_err(|error| error.0);
        assert_eq!(code(&frame(b"abc")[..6], true), Err(Code::Internal));
        assert_eq!(code(&[], true), Err(Code::Internal));
        assert_eq!(code(&[frame(b"a"), frame(b"b")].concat(), false), Err(Code::Internal));
        assert_eq!(code(&[1, 0, 0, 0, 0], true), Err(Code::Unimplemented));
        assert_eq!(code(&[0, 0xff, 0, 0, 0], false), Err(Code::ResourceExhausted));
    }
}
