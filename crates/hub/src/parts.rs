//! The parts of a world: data that belongs together, so that a function's borrows show what it
//! touches.
//!
//! Everything here is plain data of one shard. The rules between the parts are in the files that
//! maintain them: [`crate::bind`] for people, [`crate::task`] and [`crate::timer`] for waiting
//! work, [`crate::post`] for outgoing mail.

use rookery_base::{AddressHash, Keyed, Map, Set};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use rookery_fanout::{Link, LinkPlaces, Packet, Station, View};
use rookery_jid::Jid;
use slab::Slab;

use crate::acting::Moves;
use crate::at_hand::{Absent, AtHand};
use crate::bridged::Bridged;
use crate::card::Card;
use crate::delay::TakenTimes;
use crate::elsewhere::ElsewhereContacts;
use crate::event::Event;
use crate::held::HeldStanzas;
use crate::journaled::ShardJournal;
use crate::mail::Parcel;
use crate::managed::EndedSessions;
use crate::module::Registry;
use crate::names::{NameId, NameTable};
use crate::rate::Paid;
use crate::remote::Federation;
use crate::returning::Returning;
use crate::served::{HostService, ServedDomains};
use crate::session::{Session, SessionContact};
use crate::settings::Settings;
use crate::state::States;

/// The place of a world among its shards.
#[derive(Debug, Clone)]
pub struct Place {
    /// This shard, from zero.
    pub shard: usize,
    /// The homes of all addresses.
    pub view: Arc<View>,
    /// True if other nodes may have the data of this one's homes.
    pub is_joining: bool,
    /// The hash by which addresses have their homes, the same for all shards of all nodes.
    pub addresses: AddressHash,
    /// The keys of the texts that nobody can guess, chosen at random for this process: two nodes
    /// produce different texts.
    pub secrets: [u64; 4],
}

impl Place {
    /// Returns a place among a number of shards, at least one, of a process without a cluster. The
    /// keys are chosen at random, so that nobody can aim at one shard.
    pub fn alone(shard: usize, shards: usize, keys: [u64; 4]) -> Self {
        Self {
            shard,
            view: View::alone(shards),
            is_joining: false,
            addresses: AddressHash::of_process(keys),
            secrets: keys,
        }
    }
}

/// Knows what time it is.
#[derive(Default)]
pub(crate) struct WorldClock {
    /// The time by which timers go, in milliseconds; it never goes back.
    pub(crate) now_ms: u64,
    /// The value of `now_ms` when the shard started.
    pub(crate) started_ms: Option<u64>,
    /// The time of day since 1970, in milliseconds.
    pub(crate) unix_ms: u64,
    pub(crate) taken: TakenTimes,
    pub(crate) is_stopping: bool,
    /// True if the server stops and its sessions continue in another process.
    pub(crate) hands_on: bool,
}

/// The identity of this shard, and the sources of its numbers and hashes.
pub(crate) struct WorldIdentity {
    pub(crate) shard: usize,
    /// The name of this shard for others.
    pub(crate) station: Station,
    pub(crate) view: Arc<View>,
    /// The homes before the last change.
    pub(crate) before: Arc<View>,
    /// The address hash, the same for all shards of all nodes.
    pub(crate) addresses: AddressHash,
    /// The hash behind texts that nobody can guess.
    pub(crate) secrets: Keyed,
    /// The last serial number that was given to a session; it tells apart the sessions of one link.
    pub(crate) serial: u32,
    /// Counts the unique texts that were given out.
    pub(crate) unique: u64,
}

impl WorldIdentity {
    pub(crate) fn new(place: Place) -> Self {
        let Place { shard, view, addresses, secrets, .. } = place;
        let station = view.station(shard).unwrap_or_default();
        let (before, secrets) = (view.clone(), Keyed::with(secrets));
        Self { shard, station, view, before, addresses, secrets, serial: 0, unique: 0 }
    }
}

/// Holds the operator's settings and the modules' declarations.
pub(crate) struct Catalogue {
    pub(crate) settings: Arc<Settings>,
    pub(crate) served: ServedDomains,
    pub(crate) services: Map<String, HostService>,
    pub(crate) registry: Registry,
    pub(crate) states: States,
    /// The components that see presence of accounts (XEP-0356 §7.1).
    pub(crate) onlookers: Arc<[Jid]>,
    /// Those of the components that also see the presence of remote contacts (XEP-0356 §7.2).
    pub(crate) onlookers_elsewhere: Arc<[Jid]>,
}

impl Catalogue {
    pub(crate) fn new(mut registry: Registry, settings: Arc<Settings>) -> Self {
        let states = std::mem::take(&mut registry.states);
        let (served, services) = (ServedDomains::default(), Map::default());
        let (onlookers, onlookers_elsewhere) = (Arc::default(), Arc::default());
        Self { settings, served, services, registry, states, onlookers, onlookers_elsewhere }
    }
}

/// Holds the users who are online, and the known data of those who are offline.
#[derive(Default)]
pub(crate) struct WorldPeople {
    pub(crate) names: NameTable,
    pub(crate) users: Slab<User>,
    pub(crate) sessions: LinkPlaces<Option<Session>>,
    pub(crate) absent: Absent,
    pub(crate) ended: EndedSessions,
    pub(crate) paid: Paid,
    pub(crate) returning: Returning,
    /// The homes that move; `None` without a cluster.
    pub(crate) moves: Option<Box<Moves>>,
    /// The data that others need if this process dies; `None` without a cluster.
    pub(crate) journal: Option<Box<ShardJournal>>,
}

/// An account with at least one session.
#[derive(Debug)]
pub struct User {
    pub(crate) name: NameId,
    /// Its sessions, oldest first.
    pub(crate) links: Vec<Link>,
    /// Contacts with a subscription, sorted: see [`SessionContact`].
    pub(crate) contacts: Box<[SessionContact]>,
    /// Stanzas that wait until those from the store have been delivered.
    pub(crate) held: Option<Box<HeldStanzas>>,
    /// The documents that modules need of the account, if there are any.
    pub(crate) at_hand: Option<Box<AtHand>>,
}

impl User {
    /// Returns the subscription with a contact, if there is one.
    pub(crate) fn contact(&self, name: NameId) -> Option<SessionContact> {
        let at = self.contacts.partition_point(|contact| contact.name() < name);
        self.contacts.get(at).copied().filter(|contact| contact.name() == name)
    }
}

/// The components that are connected, as far as a shard has to know.
#[derive(Debug, Default)]
pub(crate) struct Attached {
    /// Those that are connected here.
    pub(crate) here: Set<Box<str>>,
    /// The components whose home is here, with the shards of other processes to which they are
    /// connected.
    pub(crate) elsewhere: Map<Box<str>, Vec<Station>>,
}

/// Holds everything that leaves the world other than by the outboxes.
pub(crate) struct WorldOut {
    pub(crate) events: VecDeque<Event>,
    /// Mail for each hop.
    pub(crate) mail: Vec<Vec<Parcel>>,
    /// True in tests in which mail passes through its wire form.
    pub(crate) encodes_mail: bool,
    pub(crate) federation: Option<Box<dyn Federation>>,
    /// The components that are connected.
    pub(crate) attached: Attached,
    /// The recipients to whom users of components have shown themselves.
    pub(crate) bridged: Bridged,
    /// The presence of contacts elsewhere, for components.
    pub(crate) elsewhere: ElsewhereContacts,
    /// Stanzas of sessions that have ended, while they are being routed again.
    pub(crate) given_back: Option<VecDeque<(Packet, Jid, Option<u64>)>>,
    /// The sessions that have cards.
    pub(crate) carried: Vec<Link>,
    /// The parts of modules that continue in another process.
    pub(crate) handed_on: Vec<Card>,
    /// The time from which the log may have another error of the store.
    pub(crate) next_store_error_ms: u64,
    /// The number of errors of the store that the log lacks.
    pub(crate) untold_errors: u64,
}

impl WorldOut {
    pub(crate) fn new(hops: usize) -> Self {
        Self {
            events: VecDeque::new(),
            mail: (0..hops.max(1)).map(|_| Vec::new()).collect(),
            encodes_mail: false,
            federation: None,
            attached: Attached::default(),
            bridged: Bridged::default(),
            elsewhere: ElsewhereContacts::default(),
            given_back: None,
            carried: Vec::new(),
            handed_on: Vec::new(),
            next_store_error_ms: 0,
            untold_errors: 0,
        }
    }
}

/// The counts that are taken only while somebody watches.
#[derive(Debug, Default)]
pub(crate) struct WatchedCounts {
    pub(crate) modules: ModuleTally,
    pub(crate) senders: SenderTally,
}

/// Watches the calls of modules.
#[derive(Debug, Default)]
pub(crate) struct ModuleTally {
    /// The time until which calls are watched, on the clock that never goes back.
    pub(crate) until_ms: u64,
    pub(crate) turn: u64,
    pub(crate) depth: u32,
    pub(crate) is_timed: bool,
    /// The time that inner calls have taken within the current one.
    pub(crate) inner: Duration,
    /// The bytes that they have allocated.
    pub(crate) inner_bytes: u64,
}

/// Counts what sessions send, while somebody watches.
#[derive(Debug, Default)]
pub(crate) struct SenderTally {
    /// The time until which it counts, on the clock that never goes back.
    pub(crate) until_ms: u64,
    /// The stanzas of each session, and their bytes.
    pub(crate) sent: Map<Link, (u64, u64)>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_idle_user_is_small() {
        assert!(size_of::<User>() <= 64, "{}", size_of::<User>());
    }
}
