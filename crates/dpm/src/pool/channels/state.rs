//! The state of requests to servers of EPICS.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;

use indexmap::IndexSet;
use slab::Slab;

use super::wire::Cid;
use crate::acnet::DeviceItem;
use crate::database::{ChannelSearch, ValueShape};
use crate::link::{Goes, LinkNumber};
use crate::pool::keys::EntryKey;
use crate::pool::readers::PoolCounters;
use crate::pool::values::ValueEntry;
use crate::setting::{SettingOutcome, SettingTicket};
use crate::show::Sample;

/// An entry, and the serial that distinguishes it from earlier ones with its number.
pub(super) type Serial = (EntryKey, u64);

/// All current readings by a protocol of EPICS, whose circuits are `W`.
#[derive(Debug)]
pub(crate) struct Channels<W> {
    /// The nodes by number; `None` for those with other protocols.
    pub(super) nodes: Vec<Option<ChannelSearch>>,
    /// The time for a single reading, in milliseconds.
    pub(super) once: u64,
    pub(super) asked: HashMap<EntryKey, ChannelEntry, ahash::RandomState>,
    pub(super) channels: HashMap<Cid, PoolChannel, ahash::RandomState>,
    /// The channels by node and name; a variable that is read as a number and as a text has two.
    pub(super) by_variable: HashMap<Variable, Cid, ahash::RandomState>,
    pub(super) circuits: Slab<Circuit<W>>,
    pub(super) by_server: HashMap<(usize, SocketAddr), LinkNumber, ahash::RandomState>,
    /// The serial of the next circuit.
    pub(super) serial: u64,
    /// Questions that were not answered yet, by their numbers.
    pub(super) exchanges: HashMap<u32, ChannelExchange, ahash::RandomState>,
    /// The next number of a channel or question.
    pub(super) next_number: u32,
    pub(super) timers: BTreeSet<(u64, ChannelTimer)>,
    /// Entries that are to get the known value.
    pub(super) fresh: Vec<Serial>,
    /// Channels that need their next step.
    pub(super) unsettled: Vec<Cid>,
    /// Channels to search for, and the time of the next searches, in milliseconds.
    pub(super) searching: VecDeque<Cid>,
    pub(super) next_search: u64,
    /// The port to which answers to searches come, once that is known.
    pub(super) port: Option<u16>,
    pub(super) out: Vec<Goes>,
    pub(super) counters: PoolCounters,
    pub(super) done: Vec<SettingOutcome>,
}

/// A variable as it is read: its node, its name, and whether it is read as a text.
pub(super) type Variable = (usize, Arc<str>, bool);

/// An entry in the form of a request to a channel.
pub(super) type ChannelEntry = ValueEntry<Cid>;

/// A variable that is read or set.
#[derive(Debug)]
pub(super) struct PoolChannel {
    pub(super) variable: Variable,
    /// The most elements that any entry may want, and the bytes of each.
    pub(super) shape: ValueShape,
    pub(super) state: ChannelState,
    /// The newest value, of all elements.
    pub(super) latest: Option<Sample>,
    /// Entries that get its values repeatedly.
    pub(super) entries: IndexSet<EntryKey, ahash::RandomState>,
    /// Single readings that are not requested yet.
    pub(super) reads: Vec<Serial>,
    /// Settings that are not sent yet.
    pub(super) puts: VecDeque<Put>,
    /// False if its server has denied us the right to set it, which it does before the channel is
    /// open.
    pub(super) may_write: bool,
    /// Questions that are outstanding.
    pub(super) outstanding: u32,
    /// The number of searches since it was last open.
    pub(super) searches: u32,
    /// True while a timer of each kind is set.
    pub(super) is_searched: bool,
    pub(super) is_late: bool,
    pub(super) is_idle: bool,
    pub(super) is_unsettled: bool,
}

/// The progress of opening a channel.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum ChannelState {
    /// Its server isn't known.
    Searching,
    /// The server was asked to open it.
    Creating {
        /// The circuit to that server.
        link: LinkNumber,
        /// The time at which the server is given up, in milliseconds.
        until: u64,
    },
    /// The server has opened it: values can be requested.
    Open(OpenChannel),
}

/// The server's side of a channel.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct OpenChannel {
    pub(super) link: LinkNumber,
    pub(super) is_monitored: bool,
    pub(super) bounds: ChannelBounds,
}

/// The values that a server permits for a channel.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum ChannelBounds {
    /// They were not requested.
    Unknown,
    /// They were requested.
    Asked,
    /// They are these; `None` if there are no limits.
    Known(Option<(f64, f64)>),
}

/// A setting.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Put {
    pub(super) ticket: SettingTicket,
    pub(super) item: DeviceItem,
    pub(super) bytes: Vec<u8>,
    /// The time at which it is given up, in milliseconds, once that is set.
    pub(super) until: Option<u64>,
}

/// A question that was sent.
#[derive(Debug)]
pub(super) struct ChannelExchange {
    pub(super) channel: Cid,
    pub(super) link: LinkNumber,
    pub(super) question: ChannelQuestion,
}

/// The kind of a question.
#[derive(Debug)]
pub(super) enum ChannelQuestion {
    /// The value now, for entries that are read once.
    Read(Vec<Serial>),
    /// The limits for setting it.
    Bounds,
    /// A setting.
    Put(Put),
}

/// A connection to a server.
#[derive(Debug)]
pub(super) struct Circuit<W> {
    pub(super) node: usize,
    pub(super) server: SocketAddr,
    /// Distinguishes it from a later one with the same number.
    pub(super) serial: u64,
    pub(super) wire: W,
    /// True if its connection is open.
    pub(super) is_up: bool,
    /// True if channels can be created.
    pub(super) is_ready: bool,
    /// Bytes of an unfinished message.
    pub(super) input: Vec<u8>,
    pub(super) output: Vec<u8>,
    pub(super) channels: IndexSet<Cid, ahash::RandomState>,
    /// True if it is the circuit to a name server, on which names are searched for.
    pub(super) has_names: bool,
    /// The time of the last message, in milliseconds, of our last one, and of the unanswered echo.
    pub(super) heard_at: u64,
    pub(super) said_at: u64,
    pub(super) echo_at: Option<u64>,
}

/// A timed action.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ChannelTimer {
    /// An entry gets the known value.
    Entry(EntryKey, u64),
    /// A channel is searched for, or its server is given up because it doesn't open the channel.
    Search(Cid),
    /// Readers of a channel that isn't open get a status.
    Late(Cid),
    /// An unused channel is closed.
    Idle(Cid),
    /// Settings of a channel that were not sent are given up.
    Puts(Cid),
    /// A question is given up.
    Exchange(u32),
    /// A circuit is checked.
    Circuit(LinkNumber, u64),
}

impl PoolChannel {
    pub(super) fn new(variable: Variable, shape: ValueShape) -> Self {
        Self {
            variable,
            shape,
            state: ChannelState::Searching,
            latest: None,
            entries: IndexSet::default(),
            reads: Vec::new(),
            puts: VecDeque::new(),
            may_write: true,
            outstanding: 0,
            searches: 0,
            is_searched: false,
            is_late: false,
            is_idle: false,
            is_unsettled: false,
        }
    }

    /// Returns the number of the node that the variable belongs to.
    pub(super) fn node(&self) -> usize {
        self.variable.0
    }

    /// Returns whether it is unused.
    pub(super) fn is_unused(&self) -> bool {
        self.entries.is_empty() && self.reads.is_empty() && self.puts.is_empty() && self.outstanding == 0
    }

    /// Returns the server's side of it, if it is open.
    pub(super) fn open(&self) -> Option<OpenChannel> {
        match self.state {
            ChannelState::Open(open) => Some(open),
            _ => None,
        }
    }

    /// Returns the server's side of it for changes.
    pub(super) fn open_mut(&mut self) -> Option<&mut OpenChannel> {
        match &mut self.state {
            ChannelState::Open(open) => Some(open),
            _ => None,
        }
    }
}
