//! All that servers of Channel Access are asked.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;

use indexmap::IndexSet;
use slab::Slab;

use crate::acnet::DeviceItem;
use crate::channel_access::data::Native;
use crate::database::ChannelSearch;
use crate::link::{Goes, LinkNumber};
use crate::pool::keys::EntryKey;
use crate::pool::readers::PoolCounters;
use crate::pool::values::ValueEntry;
use crate::setting::{SettingOutcome, SettingTicket};
use crate::show::Sample;

/// The client's number of a channel; none is given twice while the other is in use.
pub(super) type Cid = u32;

/// An entry, and the serial that tells it from others that had its number before.
pub(super) type Serial = (EntryKey, u64);

/// All that is being read by Channel Access.
#[derive(Debug)]
pub(crate) struct Channels {
    /// By number; `None` for nodes that are reached otherwise.
    pub(super) nodes: Vec<Option<ChannelSearch>>,
    /// The time that something to be read once may take, in milliseconds.
    pub(super) once: u64,
    pub(super) asked: HashMap<EntryKey, ChannelEntry, ahash::RandomState>,
    pub(super) channels: HashMap<Cid, PoolChannel, ahash::RandomState>,
    /// By node and name, numbers and texts apart.
    pub(super) by_variable: HashMap<Variable, Cid, ahash::RandomState>,
    pub(super) next_cid: Cid,
    pub(super) circuits: Slab<Circuit>,
    pub(super) by_server: HashMap<(usize, SocketAddr), LinkNumber, ahash::RandomState>,
    /// The serial of the next circuit.
    pub(super) serial: u64,
    /// Questions that were not answered yet, by their numbers.
    pub(super) exchanges: HashMap<u32, ChannelExchange, ahash::RandomState>,
    pub(super) next_exchange: u32,
    pub(super) timers: BTreeSet<(u64, ChannelTimer)>,
    /// Entries that are to get what is known already.
    pub(super) fresh: Vec<Serial>,
    /// Channels at which something is to be done.
    pub(super) unsettled: Vec<Cid>,
    /// Channels that are to be searched for, and when the next ones may be, in milliseconds.
    pub(super) searching: VecDeque<Cid>,
    pub(super) next_search: u64,
    pub(super) out: Vec<Goes>,
    pub(super) counters: PoolCounters,
    pub(super) done: Vec<SettingOutcome>,
}

/// A variable as it is read: its node, its name, and whether it is read as a text.
pub(super) type Variable = (usize, Arc<str>, bool);

/// An entry as it is asked for.
pub(super) type ChannelEntry = ValueEntry<Cid>;

/// A variable that is read or set.
#[derive(Debug)]
pub(super) struct PoolChannel {
    pub(super) variable: Variable,
    /// The number of elements that anybody may want of it, and the bytes that each has here.
    pub(super) elements: u32,
    pub(super) element: usize,
    pub(super) state: ChannelState,
    /// The newest value, of all elements.
    pub(super) latest: Option<Sample>,
    /// Entries that get it again and again.
    pub(super) entries: IndexSet<EntryKey, ahash::RandomState>,
    /// Entries that are read once and were not asked for yet.
    pub(super) reads: Vec<Serial>,
    /// Settings that were not sent yet.
    pub(super) puts: VecDeque<Put>,
    /// True unless its server has said that we may not set it, which it says before it is open.
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

/// The state of a channel.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum ChannelState {
    /// Nobody has said where it is.
    Searching,
    /// The server was asked to make it.
    Creating {
        /// The circuit to that server.
        link: LinkNumber,
        /// The time at which the server is given up, in milliseconds.
        until: u64,
    },
    /// It is there.
    Open(OpenChannel),
}

/// A channel as its server has it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct OpenChannel {
    pub(super) link: LinkNumber,
    /// The server's number.
    pub(super) sid: u32,
    /// The most elements that it can have.
    pub(super) count: u32,
    /// The type as which it is read and set.
    pub(super) native: Native,
    pub(super) is_monitored: bool,
    pub(super) bounds: ChannelBounds,
}

/// The values to which the server lets a channel be set.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum ChannelBounds {
    /// Nobody asked.
    Unknown,
    /// The server was asked.
    Asked,
    /// It said: between these, or none.
    Known(Option<(f64, f64)>),
}

/// A setting.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Put {
    pub(super) ticket: SettingTicket,
    pub(super) item: DeviceItem,
    pub(super) bytes: Vec<u8>,
    /// The time at which it is given up, in milliseconds, once it is known.
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
    /// Between which values it can be set.
    Bounds,
    /// To be set.
    Put(Put),
}

/// A connection to a server.
#[derive(Debug)]
pub(super) struct Circuit {
    pub(super) node: usize,
    pub(super) server: SocketAddr,
    /// Tells it from another one that has the same number later.
    pub(super) serial: u64,
    pub(super) is_up: bool,
    /// The version that the server speaks, behind the 4 and the point.
    pub(super) minor: u16,
    /// Bytes that make no whole message yet.
    pub(super) input: Vec<u8>,
    pub(super) output: Vec<u8>,
    pub(super) channels: IndexSet<Cid, ahash::RandomState>,
    /// True if names are asked for here.
    pub(super) has_names: bool,
    /// The time when something came, in milliseconds, and when it was asked whether it is there.
    pub(super) heard_at: u64,
    pub(super) echo_at: Option<u64>,
}

/// Something that is due at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ChannelTimer {
    /// An entry gets what is known.
    Entry(EntryKey, u64),
    /// A channel is searched for, or given up by the server that doesn't make it.
    Search(Cid),
    /// Readers of a channel that isn't open are told.
    Late(Cid),
    /// A channel that nobody wants any more is closed.
    Idle(Cid),
    /// Settings of a channel that were not sent are given up.
    Puts(Cid),
    /// A question is given up.
    Exchange(u32),
    /// A circuit is looked after.
    Circuit(LinkNumber, u64),
}

impl PoolChannel {
    pub(super) fn new(variable: Variable, elements: u32, element: usize) -> Self {
        Self {
            variable,
            elements,
            element,
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

    /// Returns its node.
    pub(super) fn node(&self) -> usize {
        self.variable.0
    }

    /// Returns whether it is read as a text.
    pub(super) fn is_text(&self) -> bool {
        self.variable.2
    }

    /// Returns whether nobody wants anything of it.
    pub(super) fn is_unused(&self) -> bool {
        self.entries.is_empty() && self.reads.is_empty() && self.puts.is_empty() && self.outstanding == 0
    }

    /// Returns it as its server has it, if it is open.
    pub(super) fn open(&self) -> Option<OpenChannel> {
        match self.state {
            ChannelState::Open(open) => Some(open),
            _ => None,
        }
    }

    /// Returns it as its server has it, to be changed.
    pub(super) fn open_mut(&mut self) -> Option<&mut OpenChannel> {
        match &mut self.state {
            ChannelState::Open(open) => Some(open),
            _ => None,
        }
    }
}
