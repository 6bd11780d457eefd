//! Finds problems of the running server, as sentences with numbers, from data that it has anyway.
//!
//! # Layout
//!
//! * `finding`: the assessment of single facts, which the admin page's strip also uses. `facts`:
//!   the current data, with the rates of one second. `judge`: the conclusions; `nodes`: those
//!   about a cluster.

pub(crate) mod facts;
pub(crate) mod finding;
pub(crate) mod judge;
mod nodes;
