//! Strict one-pass stanza scanner, element tree and the only XML writer.
//!
//! Peers send XML; most of it is passed on to other peers, whose parsers give up at the first
//! fault. So every byte is validated once, on the way in, by a [`Scanner`] that allocates nothing,
//! and then the original bytes are forwarded. The server's own XML comes from the [`Writer`],
//! which escapes everything.
//!
//! # Invariants
//! - A [`Stanza`] comes from the scanner, or from the [`Outline`] of one that did; a [`Built`] from
//!   the writer or a stanza: bytes of either are valid, and need nothing from outside but the
//!   stream's content namespace.
//! - Nothing here recurses, panics or grows without bound over what a peer sends.
//!
//! # Layout
//! - `limits`: the limits of one stanza; `fault`: the reasons why bytes can't be read.
//! - `lex`: the pieces of XML, over bytes that may end anywhere; `stride`: many of those bytes at
//!   a time. `scope`: prefixes and attributes in scope. `scan` combines them, `view` has its
//!   notes, `stanza` its result.
//! - `namespaces`: those that a stanza may name. `outline`: the part of a scan that is kept with
//!   forwarded bytes.
//! - `walk` reads scanned bytes again, `unescape` their text, `element` makes a tree of them.
//! - `escape`, `writer` and `built` are the way out.
//! - [`header`] reads stream headers, [`wrapper`] the tags around stanzas that come in a document
//!   of their own, [`slow`] rewrites stanzas that depend on one, [`ns`] names namespaces.

#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_types))]

mod built;
mod element;
mod escape;
mod fault;
pub mod header;
mod lex;
mod limits;
mod namespaces;
pub mod ns;
mod outline;
mod scan;
mod scope;
pub mod slow;
mod stanza;
mod stride;
mod unescape;
mod view;
mod walk;
pub mod wrapper;
mod writer;

pub use built::Built;
pub use element::{Attr, Element, Node};
pub use escape::{escape_attr, escape_text};
pub use fault::Fault;
pub use header::Header;
pub use limits::{Limits, MAX_NAMESPACE};
pub use namespaces::Namespaces;
pub use outline::Outline;
pub use scan::{Scan, Scanner};
pub use stanza::{Child, ChildAttribute, Children, Head, InsertPoint, Raw, Stanza};
pub use unescape::value as unescape;
pub use view::Kind;
pub use writer::Writer;
