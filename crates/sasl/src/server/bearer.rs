//! OAUTHBEARER (RFC 7628 §3.1): a GS2 header, then fields between bytes of 0x01.
//!
//! ```text
//! n,a=juliet@example.org, 0x01 auth=Bearer TOKEN 0x01 host=… 0x01 port=… 0x01 0x01
//! ```

use super::{ServerContext, ServerStep};
use crate::Failure;
use crate::message;

/// Reads the client's message. The token can't be checked here, since that takes the keys of its
/// issuer.
pub(super) fn read(context: &ServerContext, message: &[u8]) -> Result<ServerStep, Failure> {
    let text = std::str::from_utf8(message).map_err(|_| Failure::MalformedRequest)?;
    let (header, fields) = text.split_once(SEPARATOR).ok_or(Failure::MalformedRequest)?;
    let wanted = match authzid(header).ok_or(Failure::MalformedRequest)? {
        Some(authzid) => Some(context.own(&authzid)?),
        None => None,
    };
    let fields = fields.strip_suffix(END).ok_or(Failure::MalformedRequest)?;
    let auth = fields.split(SEPARATOR).find_map(|field| field.strip_prefix("auth="));
    let token = auth.and_then(bearer).ok_or(Failure::MalformedRequest)?;
    Ok(ServerStep::Bearer { token: token.to_owned(), wanted })
}

/// Returns the address in a GS2 header (RFC 5801 §4), if there is one; `None` if it isn't a header.
/// The mechanism knows no channel binding, so a client that binds has taken it for another.
fn authzid(header: &str) -> Option<Option<String>> {
    let mut parts = header.split(',');
    let (flag, authzid, "", None) = (parts.next()?, parts.next()?, parts.next()?, parts.next()) else { return None };
    matches!(flag, "n" | "y").then_some(())?;
    match authzid {
        "" => Some(None),
        named => message::unescape(named.strip_prefix("a=")?).map(Some),
    }
}

/// Returns the token of a header field by RFC 6750 §2.1.
fn bearer(value: &str) -> Option<&str> {
    let (scheme, token) = value.split_once(' ')?;
    let token = token.trim_matches(' ');
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~+/=".contains(&byte);
    let is_right = scheme.eq_ignore_ascii_case("Bearer") && !token.is_empty() && token.bytes().all(is_token);
    is_right.then_some(token)
}

/// The byte between fields, `kvsep` of RFC 7628 §3.1.
const SEPARATOR: char = '\x01';
/// The end of the last field and of the message.
const END: &str = "\x01\x01";
