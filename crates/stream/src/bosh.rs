//! BOSH (XEP-0124, XEP-0206): a stream whose two directions are requests and the responses to them.
//!
//! [`request`] reads a request and [`answer`] writes the response. [`session`] knows which requests
//! wait, their order, how many may wait and for how long, and the latest responses. [`handover`] is
//! a session as data, on its way to another process. [`terms`] are its negotiated terms, `keys` its
//! protection in the clear. None of it knows HTTP, sockets or a clock. A client's requests carry
//! the same stream as any other's and go to the same machine, [`crate::c2s`]; stanzas for it wait
//! in the same outbox.

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
