//! Says what is wrong with the running server, in sentences with numbers: the judgement of what it
//! knows anyway.
//!
//! # Layout
//!
//! * `finding`: judgements of single facts, which the admin page's strip has too. `facts`: what is
//!   known at this moment, with the rates of one second. `judge`: what follows from it.

pub(crate) mod facts;
pub(crate) mod finding;
pub(crate) mod judge;
