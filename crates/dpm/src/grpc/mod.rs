//! gRPC: `services.daq.DAQ`, the protocol of newer clients.
//!
//! A `Read` is a list that starts at once and ends with the stream; its readings are encoded once for all of its kind, as those of other clients are.
//! `Set` needs a token (JWT) of an authority that is not known here, so every setting is refused, each with its status.
//!
//! - [`protobuf`] is the encoding, [`daq`] the messages of the service, [`protocol`] what gRPC adds to HTTP/2: codes, deadlines, frames.
//! - The service knows streams as clients of a third kind; sockets and HTTP/2 are in [`driver`](crate::driver).
//!
//! The messages are so few that they are written by hand: a generator and its runtime would take longer to build than all of this crate.

pub mod daq;
pub mod protobuf;
pub mod protocol;
