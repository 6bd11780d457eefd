//! BOSH (XEP-0124, XEP-0206): a stream whose two directions are requests and the answers to them.
//!
//! [`request`] reads a request, [`answer`] writes what goes back, [`session`] knows who waits for
//! what: the order of requests, how many may wait and for how long, what was answered lately.
//! [`handover`] is a session as data, on its way to another process.
//! [`terms`] are what it has agreed on, `keys` what protects it in the clear. None of it knows
//! HTTP, sockets or a clock. What a client says in its requests is the same stream as any other's
//! and goes to the same machine, [`crate::c2s`]; what it is sent waits in the same outbox.

pub mod answer;
pub mod handover;
mod keys;
pub mod request;
pub mod session;
pub mod terms;

pub use answer::{AnswerCondition, AnswerStatus, BoshAnswer, Waiter};
pub use handover::{AnswerSent, BoshHandOver};
pub use request::{BoshBody, BoshOpening, Whose};
pub use session::BoshSession;
pub use terms::Terms;

#[cfg(test)]
mod tests;
