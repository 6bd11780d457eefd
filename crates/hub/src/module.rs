//! Modules and their hooks: how an XEP joins the server without the hub knowing it.
//!
//! A module is one file; [`Module::install`] says what it handles. The tables are made once, at
//! start, so that a stanza which no module cares about passes by without a call. Order is by
//! [`Phase`], within a phase by the module table; there are no magic numbers. Whether a module is
//! on is decided per domain, by the operator; one that is off is neither called nor shown in disco.
//!
//! Some hooks have a single user. They are no calls, because the hub stands below all modules and
//! knows none of them.

mod document;
mod hook;
mod hooks;
mod registry;
mod tables;
mod terms;
mod typed;

pub use document::{DocumentName, DocumentSpec, Exported};
pub(crate) use document::{PREFIX, stored_name};
pub(crate) use hook::{Hook, ModuleCall};
pub use tables::{Hooks, Module, Registry};
pub use terms::{Carry, Guest, LoginSeen, Phase, Target, Verdict};
pub use typed::Document;
