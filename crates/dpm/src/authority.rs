//! Decides who may set devices: clients prove their identity, roles define what they may set, and a
//! log records every attempt.
//!
//! Without an acceptor no client can prove its identity, and every setting is refused with
//! [`PRIV`](crate::status::Status::PRIV). Without roles clients may prove their identity, but set
//! nothing. No statement of a client about itself counts: neither the name in its settings nor its
//! `#USER`.

mod acceptor;
mod audit;
mod configured;
mod issuer;
mod kerberos;
mod roles;

pub use acceptor::{ProofAcceptor, ProofConversation, ProvenPeer, SetterProof, SettingAuthority};
pub use audit::{Attempt, Audit, AuditFile, ClientPlace};
pub use configured::AccessFiles;
pub use issuer::IssuerKeys;
pub use kerberos::Kerberos;
pub use roles::Roles;
