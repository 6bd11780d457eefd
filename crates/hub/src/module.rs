//! Modules and their hooks: the way in which an XEP joins the server without the hub knowing it.
//!
//! A module is one file; [`Module::install`] declares what it handles. The tables are made once, at
//! start, so that a stanza in which no module is interested passes without a call. The order is by
//! [`Phase`], and within a phase by the module table; there are no magic numbers. The operator
//! decides for each domain whether a module is on; one that is off is neither called nor shown in
//! disco.
//!
//! Some hooks have a single user. They aren't direct calls, because the hub is below all modules
//! and knows none of them.

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
pub use tables::{Hooks, Module, ModuleGauge, Registry};
pub use terms::{Carry, Guest, LoginSeen, Phase, Target, Verdict};
pub use typed::Document;
