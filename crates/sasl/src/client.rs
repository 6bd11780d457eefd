//! The client's side of an authentication: for load generators, and for tests of the server against
//! it.
//!
//! ```text
//! SCRAM   start ─► (initial response) ─► challenge() ─► (response) ─► finish()
//! PLAIN   start ─► (initial response) ─► finish()
//! ```

use std::fmt;

use base64::{Engine, engine::general_purpose::STANDARD};
use rookery_base::chance;
use subtle::ConstantTimeEq;

use crate::message::{ServerFirst, escape};
use crate::{BindingType, ChannelBindings, Hash, MAX_MESSAGE, Mechanism, downgrade, prep};

mod salted;

use salted::ClientKeys;
pub use salted::SaltedPasswords;

/// The credentials of a client.
#[derive(Clone, Copy)]
pub struct Login<'a> {
    /// The local part of the account's address.
    pub username: &'a str,
    /// The password, or the token of OAUTHBEARER.
    pub password: &'a str,
    /// The address to act as, if it has to be sent. Servers assume `username@domain`.
    pub authzid: Option<&'a str>,
}

/// The server's announcements before the client chose.
#[derive(Debug, Clone, Copy)]
pub struct Announced<'a> {
    /// The names of the mechanisms, including unknown ones.
    pub mechanisms: &'a [&'a str],
    /// Names of the channel-binding types (XEP-0440), `None` if there was no such list.
    pub binding_types: Option<&'a [&'a str]>,
}

impl Announced<'_> {
    /// Returns the strongest mechanism that both sides speak, given the channel bindings of this
    /// connection.
    pub fn strongest(&self, bindings: &ChannelBindings) -> Option<Mechanism> {
        let usable = |mechanism: &Mechanism| !mechanism.binds() || self.binding(bindings).is_some();
        Mechanism::ALL.into_iter().filter(usable).find(|mechanism| self.mechanisms.contains(&mechanism.name()))
    }

    /// Returns the strongest channel-binding type of both sides. Without an announcement, XEP-0440
    /// §4 leaves `tls-server-end-point`, which every server has to support.
    fn binding(&self, bindings: &ChannelBindings) -> Option<BindingType> {
        let announced = |binding: &BindingType| match self.binding_types {
            Some(types) => types.contains(&binding.name()),
            None => *binding == BindingType::TlsServerEndPoint,
        };
        bindings.types().find(announced)
    }
}

/// The reason why the client gave up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientError {
    /// SASLprep refuses the user name or the password. The caller's fault.
    BadCredentials,
    /// The mechanism binds to the channel, but there is no type that both sides have.
    NoChannelBinding,
    /// The operating system gave no random bytes.
    NoRandomness,
    /// A challenge where none is due, or success before the server has proven itself. The server's
    /// fault.
    OutOfOrder,
    /// The server's message breaks its grammar.
    Malformed,
    /// The server's nonce does not continue the client's.
    Nonce,
    /// The server asks for more PBKDF2 iterations than [`MAX_ITERATIONS`].
    TooManyIterations,
    /// The lists of mechanisms or channel-binding types were changed on the way (XEP-0474):
    /// somebody is in the middle.
    Downgrade,
    /// The server doesn't know the password: it is an impostor.
    ServerSignature,
}

impl fmt::Display for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ClientError::BadCredentials => "user name or password has characters that SASLprep prohibits",
            ClientError::NoChannelBinding => "no channel-binding type in common with the server",
            ClientError::NoRandomness => "the operating system provided no random bytes",
            ClientError::OutOfOrder => "the server broke the order of the exchange",
            ClientError::Malformed => "the server sent a malformed SASL message",
            ClientError::Nonce => "the server's nonce does not continue ours",
            ClientError::TooManyIterations => "the server asks for too many iterations",
            ClientError::Downgrade => "the announced mechanisms were changed on the way",
            ClientError::ServerSignature => "the server's signature is wrong",
        })
    }
}

impl std::error::Error for ClientError {}

/// One authentication in progress.
pub struct Exchange {
    state: ExchangeState,
}

enum ExchangeState {
    Plain,
    /// OAUTHBEARER: a challenge says why the token isn't valid, and is acknowledged (RFC 7628
    /// §3.2.3).
    Bearer,
    First(FirstSent),
    /// Waits for the server's signature, which has to equal this.
    Final(Vec<u8>),
    Finished,
}

/// A SCRAM exchange after its client-first message.
struct FirstSent {
    hash: Hash,
    password: String,
    nonce: String,
    client_first_bare: String,
    /// `c=` of the client-final message.
    binding: String,
    /// The value that XEP-0474's attribute has to have, if the server sends it and the client
    /// checks it.
    downgrade: Option<String>,
}

impl Exchange {
    /// Begins; returns the initial response too, not yet in Base64.
    ///
    /// # Errors
    ///
    /// [`ClientError::BadCredentials`], [`ClientError::NoChannelBinding`],
    /// [`ClientError::NoRandomness`].
    pub fn start(
        mechanism: Mechanism,
        login: &Login<'_>,
        bindings: &ChannelBindings,
        announced: &Announced<'_>,
    ) -> Result<(Exchange, Vec<u8>), ClientError> {
        let mut random = [0; NONCE_BYTES];
        chance::fill(&mut random).map_err(|_| ClientError::NoRandomness)?;
        Exchange::start_with(&STANDARD.encode(random), mechanism, login, bindings, announced)
    }

    /// Does the same with a given nonce, for the examples of the RFCs.
    fn start_with(
        nonce: &str,
        mechanism: Mechanism,
        login: &Login<'_>,
        bindings: &ChannelBindings,
        announced: &Announced<'_>,
    ) -> Result<(Exchange, Vec<u8>), ClientError> {
        let authzid = login.authzid.map(|authzid| format!("a={}", escape(authzid))).unwrap_or_default();
        match mechanism {
            Mechanism::Anonymous => return Ok((Exchange { state: ExchangeState::Plain }, Vec::new())),
            Mechanism::OAuthBearer => {
                let message = format!("n,{authzid},\x01auth=Bearer {}\x01\x01", login.password);
                return Ok((Exchange { state: ExchangeState::Bearer }, message.into_bytes()));
            }
            _ => {}
        }
        let username = prep::saslprep(login.username).ok_or(ClientError::BadCredentials)?;
        let password = prep::saslprep(login.password).ok_or(ClientError::BadCredentials)?;
        let Some(hash) = mechanism.hash() else {
            let message = [login.authzid.unwrap_or_default(), &username, &password].join("\0");
            return Ok((Exchange { state: ExchangeState::Plain }, message.into_bytes()));
        };
        let (flag, data) = binding_flag(mechanism, bindings, announced)?;
        let header = format!("{flag},{authzid},");
        let client_first_bare = format!("n={},r={nonce}", escape(&username));
        let message = format!("{header}{client_first_bare}").into_bytes();
        let first = FirstSent {
            hash,
            password: password.into_owned(),
            nonce: nonce.to_owned(),
            client_first_bare,
            binding: STANDARD.encode([header.as_bytes(), data].concat()),
            downgrade: Some(downgrade::attribute(hash, announced.mechanisms, announced.binding_types)),
        };
        Ok((Exchange { state: ExchangeState::First(first) }, message))
    }

    /// Returns the exchange of a client that doesn't know XEP-0474, as most don't: only the server
    /// can notice that the announced lists were changed on the way.
    #[must_use]
    pub fn without_downgrade_check(mut self) -> Self {
        if let ExchangeState::First(first) = &mut self.state {
            first.downgrade = None;
        }
        self
    }

    /// Returns the response to a `<challenge/>`. The first use of a password costs a PBKDF2;
    /// `cache` saves the later ones.
    ///
    /// # Errors
    ///
    /// The kinds of [`ClientError`] that are the server's fault, [`ClientError::Downgrade`] among
    /// them. Send `<abort/>`.
    pub fn challenge(&mut self, message: &[u8], cache: Option<&SaltedPasswords>) -> Result<Vec<u8>, ClientError> {
        let first = match std::mem::replace(&mut self.state, ExchangeState::Finished) {
            ExchangeState::First(first) => first,
            ExchangeState::Bearer => return Ok(vec![1]),
            _ => return Err(ClientError::OutOfOrder),
        };
        let (answer, signature) = first.answer(message, cache)?;
        self.state = ExchangeState::Final(signature);
        Ok(answer)
    }

    /// Checks the data of `<success/>`. Only after this may the server be trusted.
    ///
    /// # Errors
    ///
    /// [`ClientError::ServerSignature`] if it doesn't know the password,
    /// [`ClientError::OutOfOrder`] if it skipped the exchange.
    pub fn finish(&mut self, additional: &[u8]) -> Result<(), ClientError> {
        match std::mem::replace(&mut self.state, ExchangeState::Finished) {
            ExchangeState::Plain | ExchangeState::Bearer => Ok(()),
            ExchangeState::Final(expected) => {
                let signature = additional.strip_prefix(b"v=").ok_or(ClientError::Malformed)?;
                // Extensions may follow (RFC 5802 §7).
                let signature = signature.split(|byte| *byte == b',').next().unwrap_or_default();
                let signature = STANDARD.decode(signature).map_err(|_| ClientError::Malformed)?;
                bool::from(signature.ct_eq(&expected)).then_some(()).ok_or(ClientError::ServerSignature)
            }
            ExchangeState::First(_) | ExchangeState::Finished => Err(ClientError::OutOfOrder),
        }
    }
}

impl FirstSent {
    /// Returns the client-final message and the signature that the server has to reply with.
    fn answer(&self, message: &[u8], cache: Option<&SaltedPasswords>) -> Result<(Vec<u8>, Vec<u8>), ClientError> {
        let text = std::str::from_utf8(message).ok().filter(|text| text.len() <= MAX_MESSAGE);
        let text = text.ok_or(ClientError::Malformed)?;
        let server = ServerFirst::parse(message).ok_or(ClientError::Malformed)?;
        if server.nonce.len() <= self.nonce.len() || !server.nonce.starts_with(&self.nonce) {
            return Err(ClientError::Nonce);
        }
        if server.downgrade.zip(self.downgrade.as_deref()).is_some_and(|(hash, expected)| hash != expected) {
            return Err(ClientError::Downgrade);
        }
        if server.iterations > MAX_ITERATIONS {
            return Err(ClientError::TooManyIterations);
        }
        let salt = STANDARD.decode(server.salt).map_err(|_| ClientError::Malformed)?;
        let derive = || ClientKeys::derive(self.hash, &self.password, &salt, server.iterations);
        let keys = match cache {
            Some(cache) => cache.keys_or(self.hash, &self.password, &salt, server.iterations, derive),
            None => derive(),
        };
        let without_proof = format!("c={},r={}", self.binding, server.nonce);
        let signed = [self.client_first_bare.as_str(), text, &without_proof].join(",");
        let (proof, signature) = keys.sign(self.hash, signed.as_bytes());
        Ok((format!("{without_proof},p={}", STANDARD.encode(proof)).into_bytes(), signature))
    }
}

/// Returns the `gs2-cbind-flag` and the channel-binding data that goes with it (RFC 5802 §6).
fn binding_flag<'a>(
    mechanism: Mechanism,
    bindings: &'a ChannelBindings,
    announced: &Announced<'_>,
) -> Result<(String, &'a [u8]), ClientError> {
    if mechanism.binds() {
        let binding = announced.binding(bindings).ok_or(ClientError::NoChannelBinding)?;
        let data = bindings.value(binding).ok_or(ClientError::NoChannelBinding)?;
        return Ok((format!("p={}", binding.name()), data));
    }
    let plus_offered = announced.mechanisms.iter().any(|name| name.ends_with("-PLUS"));
    // With `-PLUS` on offer but no type in common "y" would fail; XEP-0440 §3 allows "n" then, and
    // XEP-0474 covers the hole.
    let flag = if bindings.is_empty() || plus_offered { "n" } else { "y" };
    Ok((flag.to_owned(), &[]))
}

/// The most PBKDF2 iterations that a client runs, which take a second or so. A larger number is a
/// server's mistake or an attack on the client's CPU.
pub const MAX_ITERATIONS: u32 = 5_000_000;

/// Random bytes in the client's nonce.
const NONCE_BYTES: usize = 18;

#[cfg(test)]
mod tests;
