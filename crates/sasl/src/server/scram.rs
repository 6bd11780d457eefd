//! SCRAM (RFC 5802), the server's part: two messages in, two out.

use base64::{Engine, engine::general_purpose::STANDARD};
use rookery_base::chance;
use subtle::ConstantTimeEq;

use super::{Decoy, ServerContext, ServerStep};
use crate::message::{BindingFlag, ClientFinal, ClientFirst};
use crate::{BindingType, Credentials, Failure, Hash, Keys};

/// An exchange after its client-first message.
pub(super) struct Scram {
    hash: Hash,
    username: String,
    /// The value that `c=` of the client-final message has to have: gs2 header and channel-binding
    /// data, in Base64.
    binding: String,
    client_first_bare: String,
    /// The client's part until the challenge is made, then the whole.
    nonce: String,
    downgrade: String,
    challenged: Option<Challenged>,
}

/// The state once the challenge is out.
struct Challenged {
    keys: Keys,
    /// False if the keys are a decoy's.
    real: bool,
    server_first: String,
}

impl Scram {
    /// Reads the client-first message. Returns [`ServerStep::NeedCredentials`] with it.
    pub(super) fn read(context: &ServerContext, hash: Hash, message: &[u8]) -> Result<(Scram, ServerStep), Failure> {
        let first = ClientFirst::parse(message).ok_or(Failure::MalformedRequest)?;
        let binding = expected_binding(context, &first)?;
        let username = context.user(&first.username, first.authzid.as_deref())?;
        let step = ServerStep::NeedCredentials { username: username.clone(), authzid: first.authzid };
        let scram = Scram {
            hash,
            username,
            binding,
            client_first_bare: first.bare.to_owned(),
            nonce: first.nonce.to_owned(),
            downgrade: context.downgrade.clone(),
            challenged: None,
        };
        Ok((scram, step))
    }

    /// Makes the server-first message.
    pub(super) fn challenge(&mut self, found: Option<&Credentials>, decoy: &Decoy) -> Result<ServerStep, Failure> {
        let mut random = [0; NONCE_BYTES];
        chance::fill(&mut random).map_err(|_| Failure::TemporaryAuthFailure)?;
        self.challenge_with(&STANDARD.encode(random), found, decoy)
    }

    /// Does the same with a given server nonce, for the examples of the RFCs.
    pub(super) fn challenge_with(
        &mut self,
        nonce: &str,
        found: Option<&Credentials>,
        decoy: &Decoy,
    ) -> Result<ServerStep, Failure> {
        if self.challenged.is_some() {
            return Err(Failure::TemporaryAuthFailure);
        }
        // The decoy is made for existing accounts as well, which must not be answered sooner.
        let made_up = decoy.keys(&self.username, self.hash);
        let keys = found.map_or(made_up, |credentials| credentials.keys(self.hash).clone());
        self.nonce.push_str(nonce);
        let mut server_first = format!("r={},s={},i={}", self.nonce, STANDARD.encode(&keys.salt), keys.iterations);
        if !self.downgrade.is_empty() {
            server_first.push_str(",h=");
            server_first.push_str(&self.downgrade);
        }
        let step = ServerStep::Challenge(server_first.clone().into_bytes());
        self.challenged = Some(Challenged { keys, real: found.is_some(), server_first });
        Ok(step)
    }

    /// Checks the client-final message.
    pub(super) fn finish(self, message: &[u8]) -> Result<ServerStep, Failure> {
        // Without a challenge this response is unexpected.
        let challenged = self.challenged.ok_or(Failure::MalformedRequest)?;
        let last = ClientFinal::parse(message).ok_or(Failure::MalformedRequest)?;
        let proof = STANDARD.decode(last.proof).map_err(|_| Failure::MalformedRequest)?;
        let signed = [self.client_first_bare.as_str(), &challenged.server_first, last.without_proof].join(",");
        let (proven, signature) = challenged.keys.judge(&proof, signed.as_bytes());
        let same_nonce = last.nonce == self.nonce;
        let same_channel = bool::from(last.binding.as_bytes().ct_eq(self.binding.as_bytes()));
        if !(proven & challenged.real & same_nonce & same_channel) {
            return Err(Failure::NotAuthorized);
        }
        let additional = format!("v={}", STANDARD.encode(signature)).into_bytes();
        Ok(ServerStep::Success { username: self.username, additional })
    }
}

impl Keys {
    /// Returns whether `proof` is the client's over `signed` (RFC 5802 §3's AuthMessage), and the
    /// server's signature of the same.
    fn judge(&self, proof: &[u8], signed: &[u8]) -> (bool, Vec<u8>) {
        let mut client_key = self.hash.hmac(&self.stored_key, &[signed]);
        for (key, proof) in client_key.iter_mut().zip(proof) {
            *key ^= proof;
        }
        let proven = self.hash.digest(&client_key).ct_eq(&self.stored_key);
        let proven = bool::from(proven) & (proof.len() == client_key.len());
        (proven, self.hash.hmac(&self.server_key, &[signed]))
    }
}

/// Checks the client's binding flag against mechanism and offer (RFC 5802 §6); returns what the
/// client will have to repeat.
fn expected_binding(context: &ServerContext, first: &ClientFirst<'_>) -> Result<String, Failure> {
    let mut expected = first.header.as_bytes().to_vec();
    match first.binding {
        BindingFlag::Bound(name) if context.mechanism.binds() => {
            let binding = BindingType::from_name(name).and_then(|binding| context.bindings.value(binding));
            // RFC 5802 calls this error unsupported-channel-binding-type. XMPP has no condition for
            // it.
            expected.extend_from_slice(binding.ok_or(Failure::NotAuthorized)?);
        }
        BindingFlag::Unsupported if !context.mechanism.binds() => {}
        // The client supports channel binding and thinks that we don't: somebody removed it from
        // our list.
        BindingFlag::NotOffered if context.plus_offered => return Err(Failure::NotAuthorized),
        BindingFlag::NotOffered => {}
        BindingFlag::Bound(_) | BindingFlag::Unsupported => return Err(Failure::MalformedRequest),
    }
    Ok(STANDARD.encode(expected))
}

/// Random bytes in the server's part of the nonce: 24 characters in Base64.
const NONCE_BYTES: usize = 18;
