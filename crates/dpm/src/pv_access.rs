//! pvAccess, the protocol by which newer servers of EPICS offer process variables to clients.
//!
//! It finds variables as Channel Access does: a client searches for a name by datagrams, or on a
//! connection to a name server, and the server that has the variable answers. On the connection to
//! that server each variable is a *channel*. A request for a channel (a reading, a setting, a
//! *monitor*) begins with the server's description of the type; values follow it, in updates of a
//! monitor only those parts that have changed. The variables that operators care about have
//! *normative types*, structures with `value`, `alarm` and `timeStamp`.
//!
//! Each message says in which byte order its numbers are, and each server which order it wants to
//! read. The facts come from the public specification of the protocol, version 2, checked against
//! servers of PVXS.
//!
//! Invariants:
//! - Whatever a peer sends is read to its end or refused with a [`PvaFault`]; nothing here
//!   recurses deeper than [`DEEPEST`] structures.
//! - A type has at most [`MOST_NODES`] parts, a circuit at most [`MOST_TYPES`] types, and an
//!   unfinished message at most [`LARGEST`] bytes.
//!
//! # Layout
//!
//! - [`bytes`] reads and writes numbers, sizes and texts in either byte order.
//! - [`frame`] divides a connection into messages, and joins the segments of long ones.
//! - [`types`] has the descriptions of types, [`value`] the values that have these types.
//! - [`normative`] interprets them as readings; [`message`] writes messages and reads their common
//!   parts.
//! - [`serving`] does the same for the server's side, [`served`] describes and writes its values.

pub mod bytes;
pub mod frame;
pub mod message;
pub mod normative;
pub mod served;
pub mod serving;
pub mod types;
pub mod value;

/// The reason why bytes can't be read, in words for a log line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PvaFault(pub &'static str);

/// Commands by their numbers.
pub mod command {
    /// The server's properties, and the client's name in return: the first messages of a circuit.
    pub const CONNECTION_VALIDATION: u8 = 1;
    /// Checks whether the other side is alive.
    pub const ECHO: u8 = 2;
    /// Searches for variables.
    pub const SEARCH: u8 = 3;
    /// The answer to a search.
    pub const SEARCH_RESPONSE: u8 = 4;
    /// Opens a channel.
    pub const CREATE_CHANNEL: u8 = 7;
    /// Closes a channel.
    pub const DESTROY_CHANNEL: u8 = 8;
    /// The end of the greeting.
    pub const CONNECTION_VALIDATED: u8 = 9;
    /// Reads a channel.
    pub const GET: u8 = 10;
    /// Sets a channel.
    pub const PUT: u8 = 11;
    /// Sets and reads a channel.
    pub const PUT_GET: u8 = 12;
    /// Monitors a channel.
    pub const MONITOR: u8 = 13;
    /// Reads or sets a part of an array.
    pub const ARRAY: u8 = 14;
    /// Ends a request.
    pub const DESTROY_REQUEST: u8 = 15;
    /// Has a channel processed.
    pub const PROCESS: u8 = 16;
    /// Asks for the type of a channel.
    pub const GET_FIELD: u8 = 17;
    /// Calls a procedure of a channel.
    pub const RPC: u8 = 20;
}

/// Control messages by their numbers.
pub mod control {
    /// Marks a place among the bytes that are sent.
    pub const SET_MARKER: u8 = 0;
    /// Acknowledges that place.
    pub const ACKNOWLEDGE_MARKER: u8 = 1;
    /// The byte order that the server wants to read.
    pub const SET_BYTE_ORDER: u8 = 2;
}

/// Steps of a request, which its messages name. They may be combined.
pub mod step {
    /// Begins a request; the answer is the type of its values.
    pub const INIT: u8 = 0x08;
    /// Starts the updates of a monitor.
    pub const START: u8 = 0x44;
    /// Reads the current value of the field that a setting would change.
    pub const GET: u8 = 0x40;
    /// Ends the request when this step is done.
    pub const DESTROY: u8 = 0x10;
    /// Starts or stops the updates of a monitor.
    pub const SWITCH: u8 = 0x04;
    /// Acknowledges updates of a monitor whose client counts them; with [`INIT`], asks for that.
    pub const ACKNOWLEDGE: u8 = 0x80;
}

/// The longest message that is kept, in bytes: an array of 32 000 doubles. A longer one is
/// skipped.
pub const LARGEST: usize = 256 << 10;
/// The longest message of a client that is kept, in bytes.
pub const LARGEST_OF_CLIENT: usize = 16 << 10;
/// The most bytes of the types that a client numbers.
pub const MOST_BYTES_OF_TYPES: usize = 64 << 10;
/// The longest message that is skipped, in bytes; a longer one is refused.
pub const LONGEST_SKIPPED: usize = 64 << 20;
/// The most parts of a type.
pub const MOST_NODES: u32 = 1024;
/// The most types of a circuit that the server numbers.
pub const MOST_TYPES: usize = 256;
/// The deepest nesting of structures.
pub const DEEPEST: u8 = 20;
/// The longest name of a variable that is searched for, in bytes.
pub const LONGEST_NAME: usize = crate::channel_access::LONGEST_NAME;
