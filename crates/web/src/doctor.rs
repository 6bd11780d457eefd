//! Says what is wrong with the running server, in sentences with numbers, judged by data that it
//! has anyway.
//!
//! # Layout
//!
//! * `finding`: judgements of single facts, which the admin page's strip also uses. `facts`: the
//!   current data, with the rates of one second. `judge`: the conclusions.

pub(crate) mod facts;
pub(crate) mod finding;
pub(crate) mod judge;
