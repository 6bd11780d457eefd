//! Channel Access, the protocol by which servers of EPICS offer process variables to clients.
//!
//! A client searches for the name of a variable by datagrams, or asks a name server over TCP, and
//! the server that has the variable answers. The client opens one *circuit* to each server, a
//! connection over TCP, on which each variable is a *channel*. A channel is read, set, or
//! *monitored*, in which case the server reports each change.
//!
//! Numbers are big endian. The facts come from the public specification of the protocol, version
//! 4.13, checked against servers of EPICS base and of caproto.
//!
//! # Layout
//!
//! - [`message`] parses and writes messages.
//! - [`data`] has the values in them, with alarm, time and limits; [`encode`] writes them.

pub mod data;
pub mod encode;
pub mod message;

/// Commands by their numbers.
pub mod command {
    /// The version and the priority: the first message of each side.
    pub const VERSION: u16 = 0;
    /// Monitors a channel; each update is a reply.
    pub const EVENT_ADD: u16 = 1;
    /// Stops monitoring a channel.
    pub const EVENT_CANCEL: u16 = 2;
    /// Searches for a variable.
    pub const SEARCH: u16 = 6;
    /// An error, with the header of the message that caused it.
    pub const ERROR: u16 = 11;
    /// Closes a channel.
    pub const CLEAR_CHANNEL: u16 = 12;
    /// Reads a channel.
    pub const READ_NOTIFY: u16 = 15;
    /// Opens a channel.
    pub const CREATE_CHAN: u16 = 18;
    /// Sets a channel, with a reply.
    pub const WRITE_NOTIFY: u16 = 19;
    /// The name of the client's user.
    pub const CLIENT_NAME: u16 = 20;
    /// The name of the client's host.
    pub const HOST_NAME: u16 = 21;
    /// The rights to read and set a channel.
    pub const ACCESS_RIGHTS: u16 = 22;
    /// Checks whether the other side is alive.
    pub const ECHO: u16 = 23;
    /// A channel that can't be opened.
    pub const CREATE_CH_FAIL: u16 = 26;
    /// A channel that the server closes.
    pub const SERVER_DISCONN: u16 = 27;
}

/// The minor version of the protocol, after "4.".
pub const MINOR: u16 = 13;

/// The status of success.
pub const NORMAL: u32 = 1;

/// The longest name of a variable, in bytes.
pub const LONGEST_NAME: usize = 255;
