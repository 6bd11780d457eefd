//! gRPC: `services.daq.DAQ`, the protocol of newer clients, and `services.devdb.DevDB`, which tells
//! them of devices.
//!
//! A `Read` is a list that starts at once and ends with the stream; its readings are encoded once
//! for all of its kind, as those of other clients are. A `Set` is a list whose settings are applied
//! at once, for clients that prove by a token or by Kerberos that a role allows them.
//!
//! - [`generated`] are the messages, made of the files of the interface; [`daq`] turns replies into
//!   such and such into settings, [`devdb`] devices.
//! - [`protocol`] is what a stream of readings needs of gRPC besides HTTP/2; all other methods are
//!   called by `tonic`.
//! - The service knows streams as clients of a third kind; sockets and HTTP/2 are in
//!   [`driver`](crate::driver).

pub mod daq;
pub mod devdb;
pub mod generated;
pub mod protocol;
