//! Tools that modules share and that don't depend on any of them: data forms, result sets, the
//! content of disco#info, requests, options.
//!
//! # Invariants
//!
//! * Nothing here has state, and nothing names a module: a module's crate needs this one and no
//!   other module's.
//! * The existence of an account is only revealed to those who may see its presence (XEP-0030 §8);
//!   [`asker`] decides that for all.
//!
//! # Layout
//!
//! [`form`] reads and writes data forms, [`rsm`] pages, [`disco`] describes an entity, [`caps`]
//! computes the hash of that, [`request`] refuses malformed requests, [`asker`] decides who may
//! know of an account, [`option`] checks options, [`payload`] distinguishes conversations from the
//! rest.

#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_types))]

pub mod asker;
pub mod caps;
pub mod disco;
pub mod form;
pub mod option;
pub mod payload;
pub mod request;
pub mod rsm;

/// The name of this crate in paths.
pub const CRATE: &str = module_path!();
