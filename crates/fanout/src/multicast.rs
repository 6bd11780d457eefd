//! XEP-0033: one stanza for many, by a list of addresses in its header.
//!
//! [`MulticastHeader`] reads the sender's header; [`Plan`] determines the form of the stanza for
//! each recipient; [`Distant`] holds the part of one remote domain until its multicast service is
//! known. Permissions are not checked here.
//!
//! # Invariants
//!
//! * Whatever the number of recipients, a stanza has at most two forms on its own server and among
//!   those who get individual copies: one for the recipients that everybody sees, and one for blind
//!   copies, into which each recipient's own address is spliced at rendering, as `to` is. (A blind
//!   copy whose address has more than a JID has a form of its own.)
//! * The block of delivered addresses is built once. A remote service gets that block with one part
//!   replaced by its own addresses ([`Outgoing`]): the bytes on the wire grow as recipients ×
//!   domains, as the standard requires, but the work doesn't.
//! * Only a blind recipient itself, or the service that serves it, sees that recipient.
//! * Addresses are passed on unchanged, except for the mark of delivery.

mod distant;
mod header;
mod plan;

pub use distant::{Distant, Outgoing};
pub use header::{AddressType, BadAddress, HeaderAddress, HeaderTarget, MulticastHeader, find};
pub use plan::{Groups, Hop, Plan, bcc};

#[cfg(test)]
mod tests;
