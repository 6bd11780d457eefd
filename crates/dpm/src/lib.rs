//! DPM: each device is polled once, and every reader is served.
//!
//! Clients request devices by name and event. DPM looks them up in its database, asks the
//! front-ends over ACNET, scales their answers and sends each reading to all clients that requested
//! it. Requests of many clients for the same value become one request to the front-end, and a
//! reading is scaled and encoded once for all of its readers.
//!
//! # Layout
//!
//! - [`sdd`] is the encoding of all messages between DPM and clients, [`drf`] the grammar of
//!   requests, [`status`] and [`rad50`] the control system's error codes and names.
//! - [`database`] has the devices, [`scaling`] and [`blocks`] interpret their bytes, [`show`] makes
//!   the replies.
//! - [`acnet`] is the network of front-ends, [`channel_access`] and [`pv_access`] are those of
//!   EPICS, [`mqtt`] has the packets of brokers; [`link`](mod@link) has the orders for sockets.
//! - [`pool`] and [`plot`] ask front-ends on behalf of all readers, [`setting`] sets devices as far
//!   as [`authority`] permits, [`service`] talks to clients, [`simulator`] plays front-ends. None
//!   of them opens a socket or reads a clock.
//! - [`history`] has the recorded readings, [`grpc`] the protocol of newer clients, [`gateway`]
//!   that of clients of EPICS.
//! - [`stages`] measures times by stage, [`bounds`] declares the bounds for clients; [`inside`] is
//!   a client without a socket.
//! - [`time`] is passed in by the driver, [`when`] is the part of an event by which requests are
//!   merged.
//! - [`driver`] puts sockets around them, [`cli`] is the command line, [`demo`] starts simulated
//!   front-ends; `count` puts numbers into messages for people.
//!
//! Facts about the protocols come from public clients and the public ACNET daemon, checked byte by
//! byte against recordings.

pub mod acnet;
pub mod authority;
pub mod blocks;
pub mod bounds;
pub mod channel_access;
pub mod cli;
mod count;
pub mod database;
pub mod demo;
pub mod drf;
pub mod driver;
pub mod gateway;
pub mod grpc;
pub mod history;
pub mod inside;
pub mod link;
pub mod mqtt;
pub mod plot;
pub mod pool;
pub mod pv_access;
pub mod rad50;
pub mod scaling;
pub mod sdd;
pub mod service;
pub mod setting;
pub mod show;
pub mod simulator;
pub mod stages;
pub mod status;
pub mod time;
pub mod when;
