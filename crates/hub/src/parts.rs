//! The parts of a world: what belongs together, so that a function shows by its borrows what it touches.
//!
//! Everything here is plain data of one shard. The rules that hold between the parts are in the files that keep them:
//! [`crate::bind`] for people, [`crate::task`] and [`crate::timer`] for what waits, [`crate::mail`] for what goes out.

use rookery_base::{Keyed, Map};
use std::collections::VecDeque;
use std::sync::Arc;

use rookery_fanout::{Packet, Places};
use rookery_jid::Jid;
use slab::Slab;

use crate::ask::Asked;
use crate::custody::Custody;
use crate::delay::Taken;
use crate::documents::Absent;
use crate::federation::Federation;
use crate::mail::Parcel;
use crate::management::Ended;
use crate::module::Registry;
use crate::names::Names;
use crate::question::Gatherings;
use crate::rate::Paid;
use crate::served::Served;
use crate::service::Service;
use crate::session::{Session, User};
use crate::settings::Settings;
use crate::state::States;
use crate::task::{Task, Wakeups};
use crate::timer::Timers;
use crate::world::{Event, Place};

/// Knows what time it is.
#[derive(Default)]
pub(crate) struct Clock {
    /// The time by which timers go, in milliseconds; it never goes back.
    pub(crate) now_ms: u64,
    /// The same when the shard started.
    pub(crate) started_ms: Option<u64>,
    /// The time of day since 1970, in milliseconds.
    pub(crate) unix_ms: u64,
    pub(crate) taken: Taken,
    pub(crate) is_stopping: bool,
}

/// Which shard this is, and what it draws from.
pub(crate) struct Here {
    pub(crate) shard: usize,
    /// The address hash, the same for all shards.
    pub(crate) hashing: Keyed,
    /// The last number that tells apart the sessions that a link has had.
    pub(crate) serial: u32,
    /// Counts the unique texts that were given out.
    pub(crate) unique: u64,
}

impl Here {
    pub(crate) fn new(place: &Place) -> Self {
        let [a, b, c, d] = place.keys;
        Self { shard: place.shard, hashing: Keyed::with([a, b, c, d]), serial: 0, unique: 0 }
    }
}

/// Holds what the operator decides and what the modules declare.
pub(crate) struct Catalogue {
    pub(crate) settings: Arc<Settings>,
    pub(crate) served: Served,
    pub(crate) services: Map<String, Service>,
    pub(crate) registry: Registry,
    pub(crate) states: States,
}

impl Catalogue {
    pub(crate) fn new(mut registry: Registry, settings: Arc<Settings>) -> Self {
        let states = std::mem::take(&mut registry.states);
        Self { settings, served: Served::default(), services: Map::default(), registry, states }
    }
}

/// Holds the users who are here, and what is known of those who are away.
#[derive(Default)]
pub(crate) struct People {
    pub(crate) names: Names,
    pub(crate) users: Slab<User>,
    pub(crate) sessions: Places<Option<Session>>,
    pub(crate) absent: Absent,
    pub(crate) ended: Ended,
    pub(crate) paid: Paid,
}

/// Holds what goes on later.
pub(crate) struct Waiting {
    pub(crate) tasks: Slab<Task>,
    pub(crate) timers: Timers,
    pub(crate) gatherings: Gatherings,
    pub(crate) asked: Asked,
    pub(crate) wakeups: Arc<Wakeups>,
    /// In whose custody the world works at this moment.
    pub(crate) custody: Option<Custody>,
}

impl Waiting {
    pub(crate) fn new(wakeups: Arc<Wakeups>) -> Self {
        Self {
            tasks: Slab::new(),
            timers: Timers::default(),
            gatherings: Gatherings::default(),
            asked: Asked::default(),
            wakeups,
            custody: None,
        }
    }
}

/// Holds what leaves the world by another way than the outboxes.
pub(crate) struct Out {
    pub(crate) events: VecDeque<Event>,
    /// Mail for each shard.
    pub(crate) mail: Vec<Vec<Parcel>>,
    /// Tests let mail pass through its wire form.
    pub(crate) encodes_mail: bool,
    pub(crate) federation: Option<Box<dyn Federation>>,
    /// Stanzas of sessions that ended, while they are being sent on their way again.
    pub(crate) given_back: Option<VecDeque<(Packet, Jid, Option<u64>)>>,
    /// The time from which the log may have another error of the store.
    pub(crate) next_store_error_ms: u64,
    /// The number of errors of the store that the log lacks.
    pub(crate) untold_errors: u64,
}

impl Out {
    pub(crate) fn new(shards: usize) -> Self {
        Self {
            events: VecDeque::new(),
            mail: (0..shards.max(1)).map(|_| Vec::new()).collect(),
            encodes_mail: false,
            federation: None,
            given_back: None,
            next_store_error_ms: 0,
            untold_errors: 0,
        }
    }
}
