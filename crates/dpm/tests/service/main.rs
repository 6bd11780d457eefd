//! The service against simulated front-ends, without sockets and with virtual time.

mod acnet;
mod bad_input;
mod bounds;
mod channels;
mod daq;
mod events;
mod front_ends;
mod gauges;
mod history;
mod lists;
mod node;
mod overview;
mod passing;
mod plots;
mod pooling;
mod pv_access;
mod raw;
mod remote;
mod replay;
mod settings;
mod shares;
mod silent;
mod tasks;
mod top;
mod topics;
mod world;

/// A device of each kind on nodes of both protocols.
const DEMO: &str = include_str!("../../src/database/demo.toml");
