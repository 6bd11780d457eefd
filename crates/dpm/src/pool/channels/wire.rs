//! One circuit's side of a protocol of EPICS, as the front-end sees it: bytes in, bytes out.
//!
//! The front-end knows variables, their readers and their servers; a wire knows messages. Each
//! protocol implements [`CircuitWire`] once, and everything else is shared: searches, sharing of
//! monitors, time limits, and connecting again.

use std::net::{IpAddr, SocketAddr};

use crate::database::{ChannelSearch, DeviceNode, ValueShape};
use crate::show::Sample;
use crate::status::Status;
use crate::time::Moment;

/// The client's number of a channel. No other channel or question has it at the same time.
pub(crate) type Cid = u32;

/// The messages of one circuit.
pub(crate) trait CircuitWire: Default + std::fmt::Debug {
    /// True if a server ends a circuit on which the client is silent for long.
    const MUST_SPEAK: bool;
    /// True if searches name the port for their answers.
    const NAMES_PORT: bool;
    /// The bytes of a search without names.
    const SEARCH_HEAD: usize;

    /// Returns the addresses at which a node's variables are searched for, if the node is reached
    /// by this protocol.
    fn search_of(node: &DeviceNode) -> Option<&ChannelSearch>;

    /// Returns the bytes that a search needs for a name.
    fn size_of_search(name: &str) -> usize;

    /// Returns a datagram that searches for names at an address. The answers go to our `port`.
    fn datagram(names: &[(Cid, &str)], to: SocketAddr, port: u16) -> Vec<u8>;

    /// Returns the servers that a datagram names.
    fn servers_in(datagram: &[u8]) -> Vec<FoundServer>;

    /// Appends a search for names on a circuit to a name server.
    fn search(&self, names: &[(Cid, &str)], out: &mut Vec<u8>);

    /// Appends the greeting of a circuit whose connection has opened. Returns whether channels can
    /// be created at once, or else when [`ChannelNews::Ready`] is reported.
    fn greet(&mut self, out: &mut Vec<u8>) -> bool;

    /// Takes the next message, or a part of one, out of a circuit's input: returns what it says
    /// with the number of its bytes, or `None` while more bytes are needed.
    ///
    /// # Errors
    /// The reason why the circuit can't be read any further.
    fn next(
        &mut self,
        input: &[u8],
        now: Moment,
        out: &mut Vec<u8>,
    ) -> Result<Option<(ChannelNews, usize)>, &'static str>;

    /// Appends a request for a channel to a variable that is read in this shape.
    fn create(&mut self, cid: Cid, name: &str, shape: ValueShape, out: &mut Vec<u8>);

    /// Closes a channel, or gives up its creation.
    fn clear(&mut self, cid: Cid, out: &mut Vec<u8>);

    /// Monitors a channel.
    fn monitor(&mut self, cid: Cid, out: &mut Vec<u8>);

    /// Asks a question of a number about a channel.
    ///
    /// # Errors
    /// The status of a setting that the server would refuse; it isn't sent.
    fn ask(&mut self, cid: Cid, number: u32, question: WireQuestion<'_>, out: &mut Vec<u8>) -> Result<(), Status>;

    /// Gives up a question.
    fn forget(&mut self, number: u32, out: &mut Vec<u8>);

    /// Appends an echo request.
    fn echo(&mut self, out: &mut Vec<u8>);
}

/// A question about a channel.
#[derive(Debug, Clone, Copy)]
pub(crate) enum WireQuestion<'a> {
    /// The value now.
    Read,
    /// The limits for setting it.
    Bounds,
    /// A setting to a property's bytes.
    Put(&'a [u8]),
}

/// A server that has been found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FoundServer {
    pub(crate) cid: Cid,
    /// Its host; `None` if that is the one from which the answer comes.
    pub(crate) host: Option<IpAddr>,
    pub(crate) port: u16,
}

/// The content of a message.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ChannelNews {
    /// A part of a message that is incomplete so far.
    Part,
    /// Nothing of interest. Any message is a sign of life.
    Alive,
    /// A message that nobody asked for.
    Stray,
    /// Channels can be created, and names searched for.
    Ready,
    /// Servers have variables.
    Found(Vec<FoundServer>),
    /// A channel is open. The flag is true if its server may limit its values.
    Created(Cid, bool),
    /// The right to set a channel; false if its server denies it.
    MaySet(Cid, bool),
    /// A channel can't be created.
    Refused(Cid),
    /// A channel was closed by its server.
    Closed(Cid),
    /// A monitored channel has a new value.
    Update(Cid, Sample),
    /// The answer to a question.
    Answer(u32, WireAnswer),
}

/// The answer to a question.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum WireAnswer {
    /// The value.
    Read(Sample),
    /// The limits, if there are any.
    Bounds(Option<(f64, f64)>),
    /// The result of a setting.
    Put(Status),
}

/// Returns the sample of a value that its server has sent, from its bytes in the device's form, the
/// severity of its alarm, and its time. There are no bytes if the value doesn't fit the device.
pub(crate) fn sample(bytes: Option<Vec<u8>>, severity: i64, unix_millis: Option<i64>, now: Moment) -> Sample {
    let timestamp = unix_millis.filter(|millis| *millis > NEVER).unwrap_or(now.unix_millis);
    let status = match bytes {
        _ if severity >= INVALID => Status::INVDATA,
        Some(_) => Status::SUCCESS,
        None => Status::TRUNC_REPLY,
    };
    let bytes = bytes.filter(|_| status == Status::SUCCESS).unwrap_or_default().into();
    Sample { status, bytes, timestamp, cycle: 0 }
}

/// Returns the numbers of a property's bytes.
pub(crate) fn numbers(bytes: &[u8]) -> impl Iterator<Item = f64> + '_ {
    bytes.chunks_exact(8).filter_map(|bytes| bytes.first_chunk()).map(|bytes| f64::from_le_bytes(*bytes))
}

/// The name of our user and host, for servers that let only some users or hosts set.
pub(crate) const OUR_NAME: &str = "rookery";
/// The severity of an invalid value.
const INVALID: i64 = 3;
/// The time in 1990 of a variable that its server has never read, in milliseconds since 1970.
const NEVER: i64 = 631_152_000_000 + 86_400_000;
