//! SCRAM's messages (RFC 5802 §7): lists of `letter=value`, separated by commas.
//!
//! Parsing borrows from the message, since the authentication signature covers the very bytes that
//! were sent. Every parser returns `None` for anything that breaks the grammar.

use std::borrow::Cow;

/// The client's statement about channel binding: the `gs2-cbind-flag`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BindingFlag<'a> {
    /// `n`: the client has no channel binding.
    Unsupported,
    /// `y`: the client has it but saw no `-PLUS` mechanism.
    NotOffered,
    /// `p=type`: the client binds.
    Bound(&'a str),
}

/// The client-first message.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ClientFirst<'a> {
    pub(crate) binding: BindingFlag<'a>,
    pub(crate) authzid: Option<String>,
    pub(crate) username: String,
    pub(crate) nonce: &'a str,
    /// `gs2-header` including its last comma: the client repeats it in `c=`.
    pub(crate) header: &'a str,
    /// `client-first-message-bare`: the first part of what gets signed.
    pub(crate) bare: &'a str,
}

impl<'a> ClientFirst<'a> {
    pub(crate) fn parse(message: &'a [u8]) -> Option<ClientFirst<'a>> {
        let text = std::str::from_utf8(message).ok()?;
        let (flag, rest) = text.split_once(',')?;
        let (authzid, bare) = rest.split_once(',')?;
        let binding = match flag {
            "n" => BindingFlag::Unsupported,
            "y" => BindingFlag::NotOffered,
            _ => BindingFlag::Bound(flag.strip_prefix("p=").filter(|name| is_binding_name(name))?),
        };
        let authzid = match authzid {
            "" => None,
            named => Some(unescape(named.strip_prefix("a=")?)?),
        };
        // A mandatory extension (`m=`) would stand in front of the name. None is defined, and RFC
        // 5802 §5.1 wants failure.
        let mut attributes = bare.split(',');
        let username = unescape(attributes.next()?.strip_prefix("n=")?)?;
        let nonce = attributes.next()?.strip_prefix("r=").filter(|nonce| is_printable(nonce))?;
        attributes.all(is_attribute).then_some(())?;
        let header = text.strip_suffix(bare)?;
        Some(ClientFirst { binding, authzid, username, nonce, header, bare })
    }
}

/// The server-first message, as the client reads it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ServerFirst<'a> {
    pub(crate) nonce: &'a str,
    /// Still in Base64.
    pub(crate) salt: &'a str,
    pub(crate) iterations: u32,
    /// XEP-0474's hash, if the server sends one.
    pub(crate) downgrade: Option<&'a str>,
}

impl<'a> ServerFirst<'a> {
    pub(crate) fn parse(message: &'a [u8]) -> Option<ServerFirst<'a>> {
        let mut attributes = std::str::from_utf8(message).ok()?.split(',');
        let nonce = attributes.next()?.strip_prefix("r=").filter(|nonce| is_printable(nonce))?;
        let salt = attributes.next()?.strip_prefix("s=")?;
        let iterations = attributes.next()?.strip_prefix("i=")?.parse().ok().filter(|count| *count > 0)?;
        let mut downgrade = None;
        for extension in attributes {
            is_attribute(extension).then_some(())?;
            downgrade = downgrade.or(extension.strip_prefix("h="));
        }
        Some(ServerFirst { nonce, salt, iterations, downgrade })
    }
}

/// The client-final message. `binding` and `proof` are still in Base64.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ClientFinal<'a> {
    pub(crate) binding: &'a str,
    pub(crate) nonce: &'a str,
    pub(crate) proof: &'a str,
    /// `client-final-message-without-proof`: the last part of what gets signed.
    pub(crate) without_proof: &'a str,
}

impl<'a> ClientFinal<'a> {
    pub(crate) fn parse(message: &'a [u8]) -> Option<ClientFinal<'a>> {
        let text = std::str::from_utf8(message).ok()?;
        let (without_proof, last) = text.rsplit_once(',')?;
        let proof = last.strip_prefix("p=")?;
        let mut attributes = without_proof.split(',');
        let binding = attributes.next()?.strip_prefix("c=")?;
        let nonce = attributes.next()?.strip_prefix("r=")?;
        attributes.all(is_attribute).then_some(())?;
        Some(ClientFinal { binding, nonce, proof, without_proof })
    }
}

/// Writes a name as `saslname`: `,` and `=` escaped.
pub(crate) fn escape(name: &str) -> Cow<'_, str> {
    if name.contains([',', '=']) { name.replace('=', "=3D").replace(',', "=2C").into() } else { name.into() }
}

/// Reads a `saslname`; an empty one, a NUL or an `=` that starts no escape is refused.
pub(crate) fn unescape(name: &str) -> Option<String> {
    let mut pieces = name.split('=');
    let mut plain = pieces.next()?.to_owned();
    for piece in pieces {
        let (character, rest) = match piece.strip_prefix("2C") {
            Some(rest) => (',', rest),
            None => ('=', piece.strip_prefix("3D")?),
        };
        plain.push(character);
        plain.push_str(rest);
    }
    (!plain.is_empty() && !plain.contains('\0')).then_some(plain)
}

/// Returns whether a text is `attr-val` of RFC 5802 §7: what an extension has to look like to be
/// ignored.
fn is_attribute(text: &str) -> bool {
    let bytes = text.as_bytes();
    matches!(bytes, [letter, b'=', _, ..] if letter.is_ascii_alphabetic()) && !bytes.contains(&0)
}

/// Returns whether a text is `printable` of RFC 5802 §7, without the comma that ends it.
fn is_printable(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic())
}

/// Returns whether a text is `cb-name` of RFC 5802 §7.
fn is_binding_name(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'.' || byte == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn client_first() {
        let first = ClientFirst::parse(b"p=tls-exporter,a=x=2Cy,n=a=3Db,r=nonce,x=1").unwrap();
        assert_eq!(first.binding, BindingFlag::Bound("tls-exporter"));
        assert_eq!(first.authzid.as_deref(), Some("x,y"));
        assert_eq!(first.username, "a=b");
        assert_eq!(first.header, "p=tls-exporter,a=x=2Cy,");
        assert_eq!(first.bare, "n=a=3Db,r=nonce,x=1");
    }

    #[test]
    fn broken_client_first() {
        let broken: [&[u8]; 14] = [
            b"",
            b"n",
            b"n,,",
            b"n,,n=user",
            b"n,,n=,r=x",
            b"n,,n=us=er,r=x",
            b"n,,n=user,r=",
            b"n,,n=user,r=\xc3\xa9",
            b"n,,m=ext,n=user,r=x",
            b"q,,n=user,r=x",
            b"p=,,n=user,r=x",
            b"n,x=1,n=user,r=x",
            b"n,,n=user,r=x,",
            b"F,n,,n=user,r=x",
        ];
        for message in broken {
            assert_eq!(ClientFirst::parse(message), None, "{}", String::from_utf8_lossy(message));
        }
    }

    #[test]
    fn server_first_with_extension() {
        let first = ServerFirst::parse(b"r=ab,s=QQ==,i=4096,x=y,h=hash=").unwrap();
        assert_eq!((first.nonce, first.salt, first.iterations, first.downgrade), ("ab", "QQ==", 4096, Some("hash=")));
        assert_eq!(ServerFirst::parse(b"r=ab,s=QQ==,i=0"), None);
        assert_eq!(ServerFirst::parse(b"r=ab,s=QQ==,i=99999999999"), None);
    }

    #[test]
    fn proof_comes_last() {
        let last = ClientFinal::parse(b"c=biws,r=x,e=1,p=abc=").unwrap();
        assert_eq!((last.binding, last.proof, last.without_proof), ("biws", "abc=", "c=biws,r=x,e=1"));
        assert_eq!(ClientFinal::parse(b"c=biws,r=x,p=abc,e=1"), None);
    }

    #[test]
    fn names_survive_escaping() {
        for name in ["a", "=2C", ",,==", "é,="] {
            assert_eq!(unescape(&escape(name)).as_deref(), Some(name));
        }
    }
}
