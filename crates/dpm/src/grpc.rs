//! gRPC: `services.daq.DAQ`, the protocol of newer clients, and `services.devdb.DevDB`, by which
//! they look up devices.
//!
//! A `Read` is a list that starts at once and ends with the stream; its readings are encoded once
//! for all gRPC clients, as those of other protocols are. A `Set` is a list whose settings are
//! applied at once, for clients that prove by a token or by Kerberos that a role allows them.
//!
//! - [`generated`] are the messages, made from the files of the interface; [`daq`] converts replies
//!   into messages and messages into settings, [`devdb`] describes devices and
//!   their `alarms`, and [`plots`] keeps configurations of plots.
//! - [`protocol`] is the part of gRPC besides HTTP/2 that streams of readings need; all other
//!   methods are called by `tonic`.
//! - The service knows streams as clients of a third kind; sockets and HTTP/2 are in
//!   [`driver`](crate::driver).

mod alarms;
pub mod daq;
pub mod devdb;
pub mod generated;
pub mod plots;
pub mod protocol;
