//! The content of requests: queries and forms (`application/x-www-form-urlencoded`), and bodies
//! within a limit.

use std::time::Duration;

use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::{Bytes, Incoming};
use tokio::time::timeout;

/// Returns names and values in their order, decoded; `None` if the text can't be decoded.
pub fn pairs(text: &str) -> Option<Vec<(String, String)>> {
    let pairs = text.split('&').filter(|pair| !pair.is_empty());
    pairs
        .map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            Some((decode(&name.replace('+', " "))?, decode(&value.replace('+', " "))?))
        })
        .collect()
}

/// Returns the first value of a name, or an empty text.
pub fn value<'a>(pairs: &'a [(String, String)], name: &str) -> &'a str {
    pairs.iter().find(|(found, _)| found == name).map_or("", |(_, value)| value)
}

/// Decodes percent-encoding (RFC 3986 §2.1); `None` if it is invalid or not UTF-8.
pub fn decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
        let (high, low) = (digit(rest.next())?, digit(rest.next())?);
        bytes.push((high << 4 | low) as u8);
    }
    String::from_utf8(bytes).ok()
}

/// Percent-encodes all characters that aren't unreserved (RFC 3986 §2.3), for a part of a path or
/// of a query.
pub fn encode(text: &str) -> String {
    text.bytes().fold(String::with_capacity(text.len()), |mut encoded, byte| {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => encoded.push(char::from(byte)),
            _ => encoded.push_str(&format!("%{byte:02X}")),
        }
        encoded
    })
}

/// The reason why a body wasn't read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnreadForm {
    /// It is larger than the limit.
    TooLarge,
    /// It didn't arrive in time, or the connection broke.
    Broken,
}

/// Reads a whole body, within [`BODY_BYTES`].
///
/// # Errors
/// It is too large or too slow.
pub async fn body(body: Incoming) -> Result<Bytes, UnreadForm> {
    let collected =
        timeout(PATIENCE, Limited::new(body, BODY_BYTES).collect()).await.map_err(|_| UnreadForm::Broken)?;
    match collected {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(UnreadForm::TooLarge),
        Err(_) => Err(UnreadForm::Broken),
    }
}

/// The most bytes of a body: more than an announcement needs.
pub const BODY_BYTES: usize = 64 * 1024;
/// The time for reading a body.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_decoded() {
        let read = pairs("a=1&b=%C3%A9+x&&c").unwrap();
        assert_eq!(read, [("a", "1"), ("b", "é x"), ("c", "")].map(|(name, value)| (name.into(), value.into())));
        assert_eq!((value(&read, "b"), value(&read, "z")), ("é x", ""));
        for broken in ["a=%", "a=%2", "a=%zz", "a=%ff"] {
            assert_eq!(pairs(broken), None, "{broken}");
        }
    }

    #[test]
    fn what_is_encoded_is_decoded() {
        let text = "a b/ü@example.org?&=%";
        assert_eq!(decode(&encode(text)).as_deref(), Some(text));
        assert!(encode(text).is_ascii());
    }
}
