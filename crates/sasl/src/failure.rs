//! Failures of an authentication, in the words of RFC 6120 §6.5.

use std::fmt;

/// A SASL error condition of XMPP (RFC 6120 §6.5), to be sent as the child of `<failure/>`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// The peer gave up with `<abort/>` (§6.5.1).
    Aborted,
    /// The account exists but is switched off (§6.5.2).
    AccountDisabled,
    /// The credentials have expired (§6.5.3).
    CredentialsExpired,
    /// The mechanism may not be used on a stream without TLS (§6.5.4).
    EncryptionRequired,
    /// The data is not Base64 as RFC 4648 §4 wants it (§6.5.5).
    IncorrectEncoding,
    /// The peer may not act as the address that it asked for (§6.5.6).
    InvalidAuthzid,
    /// The mechanism was not offered (§6.5.7).
    InvalidMechanism,
    /// The mechanism's message breaks its grammar (§6.5.8).
    MalformedRequest,
    /// The account wants a stronger mechanism (§6.5.9).
    MechanismTooWeak,
    /// Wrong credentials, unknown account, or channel bindings that differ; the peer is not told
    /// which (§6.5.10).
    NotAuthorized,
    /// The server could not decide, for instance because its storage failed (§6.5.11).
    TemporaryAuthFailure,
}

impl Failure {
    /// Returns the element name of the condition.
    pub fn condition(self) -> &'static str {
        match self {
            Failure::Aborted => "aborted",
            Failure::AccountDisabled => "account-disabled",
            Failure::CredentialsExpired => "credentials-expired",
            Failure::EncryptionRequired => "encryption-required",
            Failure::IncorrectEncoding => "incorrect-encoding",
            Failure::InvalidAuthzid => "invalid-authzid",
            Failure::InvalidMechanism => "invalid-mechanism",
            Failure::MalformedRequest => "malformed-request",
            Failure::MechanismTooWeak => "mechanism-too-weak",
            Failure::NotAuthorized => "not-authorized",
            Failure::TemporaryAuthFailure => "temporary-auth-failure",
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.condition())
    }
}

impl std::error::Error for Failure {}
