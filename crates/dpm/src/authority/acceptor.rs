//! Proofs of a client's identity, and the parts of an authority.

use std::fmt::Debug;

use super::audit::Audit;
use super::roles::Roles;

/// The rights to set, and the log of attempts. The default refuses every client.
#[derive(Debug, Default)]
pub struct SettingAuthority {
    /// Accepts clients' tokens.
    pub acceptor: Option<Box<dyn ProofAcceptor>>,
    /// The devices that each client may set.
    pub roles: Roles,
    /// The log that attempts are written to.
    pub audit: Option<Box<dyn Audit>>,
}

/// Accepts proofs of clients' identity, by GSS-API.
pub trait ProofAcceptor: Debug + Send {
    /// Returns the name of the service to get a ticket for, in the clients' form:
    /// `daeset@localhost` for the principal `daeset/localhost`.
    fn service_name(&self) -> &str;

    /// Starts a conversation.
    fn converse(&self) -> Box<dyn ProofConversation>;
}

/// A conversation with one client.
pub trait ProofConversation: Debug + Send {
    /// Handles a token of the client, and returns the reply, if there is one. An error ends the
    /// conversation; it is for our log only.
    fn step(&mut self, token: &[u8]) -> Result<Option<Vec<u8>>, String>;

    /// Returns the client's identity, once it is proved.
    fn peer(&self) -> Option<ProvenPeer>;

    /// Checks that the client signed this message.
    fn verify(&mut self, message: &[u8], mic: &[u8]) -> Result<(), String>;
}

/// The proof of identity of a client that sets by gRPC.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum SetterProof {
    /// The call carries no token.
    #[default]
    Nothing,
    /// A valid token, with the identity.
    Peer(ProvenPeer),
    /// An invalid proof, with the reason for our log.
    Failed(String),
    /// A token of GSS-API, for the acceptor.
    Negotiate(Vec<u8>),
}

/// A client with a proven identity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProvenPeer {
    /// Its principal, such as `operator@FNAL.GOV`.
    pub principal: String,
    /// The milliseconds for which the proof remains valid; `None` if it never expires.
    pub good_for: Option<u64>,
}
