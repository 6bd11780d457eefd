//! The HT mechanisms (draft-schmaus-kitten-sasl-ht): logging in with a token in one message, as
//! XEP-0484 uses them.
//!
//! ```text
//! client   user NUL HMAC(token, "Initiator" || binding)
//! server   HMAC(token, "Responder" || binding)
//! ```
//!
//! A token is longer than a block of the hash, so that HMAC begins by hashing it: the server keeps
//! that hash and never the token. A thief of the hash can log in with these mechanisms until it
//! expires, but learns nothing that a client would show or send.

use std::fmt;

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use rookery_base::chance;
use subtle::ConstantTimeEq;

use crate::{BindingType, ChannelBindings, Failure, Hash, MAX_MESSAGE};

/// An HT mechanism with SHA-256. `tls-unique` (`-UNIQ`) is missing: TLS 1.3 has no such binding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub enum TokenMechanism {
    /// `HT-SHA-256-EXPR`: bound by `tls-exporter`.
    Exporter,
    /// `HT-SHA-256-ENDP`: bound by `tls-server-end-point`.
    EndPoint,
    /// `HT-SHA-256-NONE`: bound to nothing.
    Unbound,
}

impl TokenMechanism {
    /// All of them, strongest first.
    pub const ALL: [TokenMechanism; 3] = [TokenMechanism::Exporter, TokenMechanism::EndPoint, TokenMechanism::Unbound];

    /// Returns the name under which servers offer the mechanism.
    pub fn name(self) -> &'static str {
        match self {
            TokenMechanism::Exporter => "HT-SHA-256-EXPR",
            TokenMechanism::EndPoint => "HT-SHA-256-ENDP",
            TokenMechanism::Unbound => "HT-SHA-256-NONE",
        }
    }

    /// Returns the mechanism of that name, if it is one of ours.
    pub fn from_name(name: &str) -> Option<TokenMechanism> {
        TokenMechanism::ALL.into_iter().find(|mechanism| mechanism.name() == name)
    }

    /// Returns the binding data of a connection; `None` if it lacks the data that the mechanism
    /// binds to.
    pub fn binding(self, bindings: &ChannelBindings) -> Option<&[u8]> {
        match self {
            TokenMechanism::Exporter => bindings.value(BindingType::TlsExporter),
            TokenMechanism::EndPoint => bindings.value(BindingType::TlsServerEndPoint),
            TokenMechanism::Unbound => Some(&[]),
        }
    }

    /// Returns the mechanisms that a connection can support, strongest first. If a proof can be
    /// bound to the connection, unbound mechanisms are not offered: anybody who can read inside
    /// TLS, such as a proxy that ends it elsewhere, could use an unbound proof again.
    pub fn to_offer(bindings: &ChannelBindings) -> impl Iterator<Item = TokenMechanism> + '_ {
        let supported = move |mechanism: &TokenMechanism| mechanism.binding(bindings).is_some();
        let is_bound = TokenMechanism::ALL.iter().any(|mechanism| *mechanism != Self::Unbound && supported(mechanism));
        let is_offered = move |mechanism: &TokenMechanism| *mechanism != Self::Unbound || !is_bound;
        TokenMechanism::ALL.into_iter().filter(supported).filter(is_offered)
    }
}

/// The stored form of a token.
#[derive(Clone, PartialEq, Eq)]
pub struct TokenKey([u8; 32]);

impl TokenKey {
    /// Returns the stored form of a token.
    pub fn of(token: &str) -> TokenKey {
        let mut key = [0; 32];
        key.iter_mut().zip(Hash::Sha256.digest(token.as_bytes())).for_each(|(to, from)| *to = from);
        TokenKey(key)
    }

    /// Returns the stored bytes.
    pub fn bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Reads stored bytes.
    pub fn from_bytes(bytes: [u8; 32]) -> TokenKey {
        TokenKey(bytes)
    }

    /// Returns the proof by which the client shows that it has the token.
    pub fn initiator(&self, binding: &[u8]) -> Vec<u8> {
        Hash::Sha256.hmac(&self.0, &[b"Initiator", binding])
    }

    /// Returns the proof by which the server shows the same.
    pub fn responder(&self, binding: &[u8]) -> Vec<u8> {
        Hash::Sha256.hmac(&self.0, &[b"Responder", binding])
    }

    /// Returns whether a proof is right, in constant time.
    pub fn proves(&self, binding: &[u8], proof: &[u8]) -> bool {
        self.initiator(binding).ct_eq(proof).into()
    }
}

impl fmt::Debug for TokenKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenKey")
    }
}

/// Returns a new token, which nobody can guess: 68 letters, digits, `-` and `_`.
///
/// # Errors
/// The operating system gives no random bytes.
pub fn new_token() -> Result<String, Failure> {
    let mut random = [0; TOKEN_BYTES];
    chance::fill(&mut random).map_err(|_| Failure::TemporaryAuthFailure)?;
    Ok(URL_SAFE_NO_PAD.encode(random))
}

/// The client's message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Presented {
    /// The user name as sent.
    pub username: String,
    /// The proof that the client has the token.
    pub proof: Vec<u8>,
}

impl Presented {
    /// Reads the client's message; `None` if it breaks the grammar.
    pub fn parse(message: &[u8]) -> Option<Presented> {
        let at = message.iter().position(|&byte| byte == 0).filter(|_| message.len() <= MAX_MESSAGE)?;
        let (username, proof) = message.split_at_checked(at)?;
        let username = std::str::from_utf8(username).ok().filter(|name| !name.is_empty())?;
        Some(Presented { username: username.to_owned(), proof: proof.get(1..)?.to_vec() })
    }

    /// Writes the message, on the client's side.
    pub fn write(&self) -> Vec<u8> {
        [self.username.as_bytes(), b"\0", &self.proof].concat()
    }
}

/// Random bytes of a token: in Base64 more than the 64 bytes of a block of SHA-256.
const TOKEN_BYTES: usize = 51;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_back_and_bindings_decide() {
        for mechanism in TokenMechanism::ALL {
            assert_eq!(TokenMechanism::from_name(mechanism.name()), Some(mechanism));
        }
        let none = ChannelBindings::default();
        assert_eq!(TokenMechanism::to_offer(&none).collect::<Vec<_>>(), [TokenMechanism::Unbound]);
        let both = ChannelBindings { exporter: Some([1; 32]), server_end_point: Some(vec![2; 32]) };
        let bound = [TokenMechanism::Exporter, TokenMechanism::EndPoint];
        assert_eq!(TokenMechanism::to_offer(&both).collect::<Vec<_>>(), bound, "unbound ones only where nothing binds");
    }

    /// The kept hash has the same effect as the token in a plain HMAC.
    #[test]
    fn the_hash_stands_for_the_token() {
        let token = new_token().unwrap();
        assert_eq!(token.len(), 68);
        assert_ne!(token, new_token().unwrap());
        let plain = Hash::Sha256.hmac(token.as_bytes(), &[b"Initiator", b"cb"]);
        let key = TokenKey::of(&token);
        assert_eq!(key.initiator(b"cb"), plain);
        assert!(key.proves(b"cb", &plain) && !key.proves(b"other", &plain) && !key.proves(b"cb", b""));
        assert_ne!(key.responder(b"cb"), plain);
    }

    #[test]
    fn messages_have_a_name_and_a_proof() {
        let presented = Presented { username: "juliet".into(), proof: vec![0, 1, 2] };
        assert_eq!(Presented::parse(&presented.write()), Some(presented));
        assert_eq!(Presented::parse(b"juliet"), None);
        assert_eq!(Presented::parse(b"\0proof"), None);
        assert_eq!(Presented::parse(b"\xff\0proof"), None);
    }
}
