//! The state of requests to brokers.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

use indexmap::{IndexMap, IndexSet};
use slab::Slab;

use crate::acnet::DeviceItem;
use crate::database::{Broker, PropertyPlace, TopicPlace};
use crate::link::Goes;
use crate::pool::keys::EntryKey;
use crate::pool::readers::PoolCounters;
use crate::pool::values::ValueEntry;
use crate::setting::{SettingOutcome, SettingTicket};
use crate::show::Sample;

/// The number of a topic.
pub(super) type TopicKey = usize;

/// An entry, and the serial that distinguishes it from earlier ones with its number.
pub(super) type TopicSerial = (EntryKey, u64);

/// All current readings by MQTT. A broker's connection has the number of its node.
#[derive(Debug)]
pub(crate) struct Topics {
    /// The brokers by the numbers of their nodes; `None` for nodes with other protocols.
    pub(super) nodes: Vec<Option<Broker>>,
    /// The time for a single reading, in milliseconds.
    pub(super) once: u64,
    pub(super) asked: HashMap<EntryKey, TopicEntry, ahash::RandomState>,
    pub(super) topics: Slab<PoolTopic>,
    /// The topics by node and name.
    pub(super) by_name: HashMap<(usize, Arc<str>), TopicKey, ahash::RandomState>,
    /// The serial of the next topic or connection.
    pub(super) serial: u64,
    /// The sessions by the numbers of their nodes.
    pub(super) sessions: BTreeMap<usize, BrokerSession>,
    pub(super) timers: BTreeSet<(u64, TopicTimer)>,
    /// Entries that are to get the known value.
    pub(super) fresh: Vec<TopicSerial>,
    /// Topics that need their next step.
    pub(super) unsettled: Vec<TopicKey>,
    pub(super) out: Vec<Goes>,
    pub(super) counters: PoolCounters,
    pub(super) done: Vec<SettingOutcome>,
}

/// An entry in the form of a request to a topic, and the number of its view of the topic.
pub(super) type TopicEntry = ValueEntry<(TopicKey, usize)>;

/// A topic of a broker, shared by all entries that read it.
#[derive(Debug)]
pub(super) struct PoolTopic {
    pub(super) node: usize,
    pub(super) name: Arc<str>,
    /// Distinguishes it from later topics with the same number.
    pub(super) serial: u64,
    /// The ways to read its messages. A topic keeps all views that it ever had.
    pub(super) views: IndexMap<TopicView, ViewState, ahash::RandomState>,
    /// True if it was subscribed to on the current connection.
    pub(super) is_subscribed: bool,
    /// True while a timer of each kind is set.
    pub(super) is_late: bool,
    pub(super) is_idle: bool,
    pub(super) is_unsettled: bool,
}

/// A way to read the messages of a topic.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct TopicView {
    /// The part of a JSON message that is read (RFC 6901).
    pub(super) pointer: Option<Arc<str>>,
    /// The most elements that any entry may want, and the bytes of each element in our form.
    pub(super) elements: u32,
    pub(super) element: u32,
}

/// The newest value of a view, and the entries that get it.
#[derive(Debug, Default)]
pub(super) struct ViewState {
    pub(super) latest: Option<Sample>,
    pub(super) entries: IndexSet<EntryKey, ahash::RandomState>,
}

/// The connection to a broker, or an attempt to connect.
#[derive(Debug)]
pub(super) struct BrokerSession {
    /// Distinguishes it from later sessions of the same node.
    pub(super) serial: u64,
    pub(super) state: SessionState,
    /// Bytes of an unfinished packet.
    pub(super) input: Vec<u8>,
    /// The remaining bytes of a packet that is too long and is skipped.
    pub(super) skipped: usize,
    pub(super) output: Vec<u8>,
    /// Topics that are to be subscribed to.
    pub(super) wanted: Vec<TopicKey>,
    /// Topics whose subscription was sent and not granted yet, by the number of the packet.
    pub(super) granting: HashMap<u16, Vec<(TopicKey, u64)>, ahash::RandomState>,
    /// Settings that were not sent yet, and those that were not acknowledged, by their numbers.
    pub(super) waiting: VecDeque<TopicPut>,
    pub(super) puts: HashMap<u16, TopicPut, ahash::RandomState>,
    pub(super) next_id: u16,
    /// The number of attempts since it was last open.
    pub(super) attempts: u32,
    /// True if a ping has not been answered.
    pub(super) is_pinged: bool,
}

/// The state of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SessionState {
    /// There is no connection.
    New,
    /// There is no connection; the next attempt is made when its timer rings.
    Resting,
    /// The connection is being opened.
    Calling,
    /// We have identified ourselves.
    Greeting,
    /// The broker has accepted us.
    Open,
}

/// A setting.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct TopicPut {
    pub(super) ticket: SettingTicket,
    pub(super) item: DeviceItem,
    pub(super) bytes: Vec<u8>,
    pub(super) topic: Arc<str>,
    pub(super) payload: Vec<u8>,
    pub(super) is_retained: bool,
    /// The time at which it is given up, in milliseconds, once that is set.
    pub(super) until: Option<u64>,
}

/// A timed action.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum TopicTimer {
    /// An entry gets the known value.
    Entry(EntryKey, u64),
    /// Readers of a topic without messages get a status.
    Late(TopicKey, u64),
    /// An unused topic is given up.
    Idle(TopicKey, u64),
    /// Settings of a node are given up.
    Puts(usize),
    /// A connection is checked.
    Session(usize, u64),
}

impl PoolTopic {
    pub(super) fn new(node: usize, name: Arc<str>, serial: u64) -> Self {
        Self {
            node,
            name,
            serial,
            views: IndexMap::default(),
            is_subscribed: false,
            is_late: false,
            is_idle: false,
            is_unsettled: false,
        }
    }

    /// Returns whether no entry reads the topic any more.
    pub(super) fn is_unused(&self) -> bool {
        self.views.values().all(|view| view.entries.is_empty())
    }

    /// Returns whether all its views with entries have a value.
    pub(super) fn is_known(&self) -> bool {
        self.views.values().all(|view| view.entries.is_empty() || view.latest.is_some())
    }

    /// Returns the number of a view, which is created if there is none.
    pub(super) fn view(&mut self, view: TopicView) -> usize {
        let entry = self.views.entry(view);
        let number = entry.index();
        entry.or_default();
        number
    }

    /// Returns the entries of all views, or only of those without a value.
    pub(super) fn entries(&self, is_late: bool) -> Vec<EntryKey> {
        let views = self.views.values().filter(|view| !is_late || view.latest.is_none());
        views.flat_map(|view| view.entries.iter().copied()).collect()
    }
}

impl TopicView {
    pub(super) fn new(named: &TopicPlace, place: &PropertyPlace) -> Self {
        let elements = place.size / place.element.max(1);
        Self { pointer: named.pointer.clone(), elements, element: place.element }
    }

    /// Returns whether messages are read as texts.
    pub(super) fn is_text(&self) -> bool {
        self.element as usize != size_of::<f64>()
    }
}

impl BrokerSession {
    pub(super) fn new(serial: u64) -> Self {
        Self {
            serial,
            state: SessionState::New,
            input: Vec::new(),
            skipped: 0,
            output: Vec::new(),
            wanted: Vec::new(),
            granting: HashMap::default(),
            waiting: VecDeque::new(),
            puts: HashMap::default(),
            next_id: 0,
            attempts: 0,
            is_pinged: false,
        }
    }

    /// Returns whether the broker has accepted us.
    pub(super) fn is_open(&self) -> bool {
        self.state == SessionState::Open
    }

    /// Returns a number for a packet that no unanswered packet has.
    pub(super) fn id(&mut self) -> u16 {
        loop {
            self.next_id = self.next_id.wrapping_add(1).max(1);
            if !self.puts.contains_key(&self.next_id) && !self.granting.contains_key(&self.next_id) {
                return self.next_id;
            }
        }
    }
}
