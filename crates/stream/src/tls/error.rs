//! Errors of TLS, by the side that caused them.

use std::fmt;

/// The failure of a connection, which can't continue. The alert for the peer, if one is due, is
/// already in the output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TlsError {
    /// The peer broke the protocol, or does not speak TLS at all.
    PeerMisbehaved(String),
    /// The peer follows the protocol, but both sides have nothing in common: version, cipher suite,
    /// ALPN, signature scheme.
    PeerIncompatible(String),
    /// The peer gave up, and its alert says why. `UnknownCA` or `BadCertificate` mean that it
    /// doesn't accept our certificate.
    PeerRefused(String),
    /// The peer keeps a record incomplete that is longer than [`MAX_CARRY`](super::MAX_CARRY)
    /// bytes.
    TooBig,
    /// The caller wrote before the handshake was complete, or after the close.
    NotOpen,
    /// The fault is our own, or the library's.
    Internal(String),
}

impl fmt::Display for TlsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TlsError::PeerMisbehaved(reason) => write!(f, "the peer broke the TLS protocol: {reason}"),
            TlsError::PeerIncompatible(reason) => write!(f, "nothing in common with the peer's TLS: {reason}"),
            TlsError::PeerRefused(reason) => write!(f, "the peer refused TLS: {reason}"),
            TlsError::TooBig => f.write_str("the peer sent an overlong incomplete TLS record"),
            TlsError::NotOpen => f.write_str("the TLS connection is not open for writing"),
            TlsError::Internal(reason) => write!(f, "TLS failed on our side: {reason}"),
        }
    }
}

impl std::error::Error for TlsError {}

impl From<rustls::Error> for TlsError {
    fn from(error: rustls::Error) -> TlsError {
        use rustls::Error;
        let reason = error.to_string();
        match error {
            Error::AlertReceived(alert) => TlsError::PeerRefused(alert.as_str().unwrap_or("unknown alert").to_owned()),
            Error::PeerIncompatible(_) | Error::NoApplicationProtocol => TlsError::PeerIncompatible(reason),
            Error::InappropriateMessage { .. }
            | Error::InappropriateHandshakeMessage { .. }
            | Error::InvalidMessage(_)
            | Error::InvalidCertificate(_)
            | Error::NoCertificatesPresented
            | Error::DecryptError
            | Error::PeerMisbehaved(_)
            | Error::PeerSentOversizedRecord => TlsError::PeerMisbehaved(reason),
            _ => TlsError::Internal(reason),
        }
    }
}
