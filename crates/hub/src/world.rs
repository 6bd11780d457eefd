//! The world of one shard, and what drives it.
//!
//! A driver calls [`World::bind`], [`World::stanza`], [`World::mail`], [`World::closed`] and [`World::run_tasks`], in whatever order
//! things happen; then takes the events and the mail for other shards, and flushes the outboxes that have something.
//!
//! Invariants:
//! * No socket, thread or clock: time comes in with [`World::set_time`].
//! * A user's sessions, roster cache and held stanzas are touched by the user's home shard only.
//! * Nothing is sent but through the outboxes.

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;

use ahash::RandomState;
use rookery_fanout::audience::home;
use rookery_fanout::{Link, Outboxes, Packet, Places};
use rookery_jid::{Jid, JidRef};
use rookery_observe::Counters;
use rookery_store::{Background, Stores};
use rookery_stream::error::StreamError;
use slab::Slab;

use crate::ask::Asked;
use crate::custody::Custody;
use crate::delay::Taken;
use crate::documents::Absent;
use crate::errand::ErrandGatherings;
use crate::federation::Federation;
use crate::mail::Parcel;
use crate::management::Ended;
use crate::module::Registry;
use crate::names::Names;
use crate::question::{Gatherings, Reply};
use crate::rate::Paid;
use crate::served::Served;
use crate::service::{self, Service};
use crate::session::{Session, SessionRef, User};
use crate::settings::Settings;
use crate::state::States;
use crate::task::{Task, Wakeups};
use crate::timer::Timers;

/// Everything that one shard owns.
pub struct World {
    pub(crate) settings: Arc<Settings>,
    pub(crate) served: Served,
    pub(crate) services: HashMap<String, Service, RandomState>,
    pub(crate) federation: Option<Box<dyn Federation>>,
    pub(crate) registry: Registry,
    /// Where the accounts, rosters and messages are.
    pub stores: Stores,
    /// Where work is done that takes milliseconds.
    pub background: Background,
    /// The queues of all sessions of the shard.
    pub outboxes: Outboxes,
    /// What the shard has counted.
    pub counters: Counters,
    pub(crate) names: Names,
    pub(crate) users: Slab<User>,
    pub(crate) absent: Absent,
    pub(crate) sessions: Places<Option<Session>>,
    pub(crate) tasks: Slab<Task>,
    pub(crate) paid: Paid,
    pub(crate) timers: Timers,
    pub(crate) gatherings: Gatherings,
    pub(crate) errands: ErrandGatherings,
    pub(crate) states: States,
    pub(crate) now_ms: u64,
    /// The time from which the log may have another error of the store; `untold_errors`: the number
    /// that it lacks.
    pub(crate) next_store_error_ms: u64,
    pub(crate) untold_errors: u64,
    started_ms: Option<u64>,
    pub(crate) ended: Ended,
    /// In whose custody the world works at this moment.
    pub(crate) custody: Option<Custody>,
    pub(crate) asked: Asked,
    pub(crate) wakeups: Arc<Wakeups>,
    pub(crate) events: VecDeque<Event>,
    pub(crate) mail: Vec<Vec<Parcel>>,
    /// Tests let mail pass through its wire form.
    pub(crate) encodes_mail: bool,
    /// Stanzas of sessions that ended, while they are being sent on their way again.
    pub(crate) given_back: Option<VecDeque<(Packet, Jid, Option<u64>)>>,
    pub(crate) taken: Taken,
    is_stopping: bool,
    shard: usize,
    hashing: RandomState,
    serial: u32,
    unique: u64,
    unix_ms: u64,
}

impl std::fmt::Debug for World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("World").field("shard", &self.shard).field("users", &self.users.len()).finish_non_exhaustive()
    }
}

/// Where a world stands among its shards.
#[derive(Debug, Clone)]
pub struct Place {
    /// This shard, from zero.
    pub shard: usize,
    /// How many shards there are, at least one.
    pub shards: usize,
    /// The keys of the address hash, the same for all shards; chosen at random so that nobody can aim at one shard.
    pub keys: [u64; 4],
}

/// What the driver has to do.
#[derive(Debug)]
pub enum Event {
    /// The answer to [`World::bind`]: the full JID, or why not.
    Bound(Link, Result<Jid, crate::bind::BindError>),
    /// End the stream of this session with an error, then call [`World::closed`].
    Close(Link, StreamError, &'static str),
    /// Read nothing from this session until [`Event::Resume`].
    Pause(Link),
    /// Read from this session again.
    Resume(Link),
    /// The connection of this session is dead though nobody has said so: let go of it.
    Lost(Link),
    /// The session is gone for good; its link may be used again.
    Released(Link),
    /// The reply to a request of a connection that has not logged in, see [`crate::Guest`].
    GuestReply(u64, rookery_xml::Built),
    /// Tell from where the client of this session connects, see [`World::with_peer`].
    Peer(Link, Reply<Option<SocketAddr>>),
    /// The answer to [`World::look_up`] or [`World::verify`].
    Login(u64, crate::LoginAnswer),
    /// End the connections that are logging in to this account, see [`World::end_logins`].
    NoLogin(Jid),
}

impl World {
    /// A world without users.
    pub fn new(
        place: Place,
        settings: Arc<Settings>,
        mut registry: Registry,
        stores: Stores,
        background: Background,
        wakeups: Arc<Wakeups>,
    ) -> Self {
        let [a, b, c, d] = place.keys;
        let mut world = Self {
            served: Served::default(),
            services: HashMap::default(),
            federation: None,
            states: std::mem::take(&mut registry.states),
            registry,
            stores,
            background,
            outboxes: Outboxes::new(settings.outbox),
            settings: settings.clone(),
            counters: Counters::default(),
            names: Names::default(),
            users: Slab::new(),
            absent: Absent::default(),
            sessions: Places::default(),
            tasks: Slab::new(),
            paid: Paid::default(),
            timers: Timers::default(),
            gatherings: Gatherings::default(),
            errands: ErrandGatherings::new(),
            now_ms: 0,
            next_store_error_ms: 0,
            untold_errors: 0,
            started_ms: None,
            ended: Ended::default(),
            custody: None,
            asked: Asked::default(),
            wakeups,
            events: VecDeque::new(),
            given_back: None,
            taken: Taken::default(),
            mail: (0..place.shards.max(1)).map(|_| Vec::new()).collect(),
            encodes_mail: false,
            is_stopping: false,
            shard: place.shard,
            hashing: RandomState::with_seeds(a, b, c, d),
            serial: 0,
            unique: 0,
            unix_ms: 0,
        };
        world.apply(settings);
        world.start_rounds();
        world
    }

    /// Replaces the settings. Sessions of a domain that is gone end with `host-gone` (RFC 6120 §4.9.3.5).
    pub fn apply(&mut self, settings: Arc<Settings>) {
        self.served = Served::new(&settings, &self.registry);
        self.services = service::hosts(&settings, &self.registry);
        self.outboxes.set_limits(settings.outbox);
        self.counters.stages.measure(settings.profile);
        self.settings = settings;
        for link in self.sessions.links() {
            if let Some(address) = self.outboxes.address(link)
                && !self.is_domain(address.domain())
            {
                self.close(link, StreamError::HostGone, "this domain is no longer served here");
            }
        }
    }

    /// Sets the clock that timers go by, which never goes back, and the time of day since 1970; both in milliseconds.
    pub fn set_time(&mut self, now_ms: u64, unix_ms: u64) {
        self.now_ms = now_ms;
        self.started_ms.get_or_insert(now_ms);
        self.unix_ms = unix_ms;
        self.taken.note(self.outboxes.pushed_total(), unix_ms);
    }

    /// The time of day, in milliseconds since 1970.
    pub fn time(&self) -> u64 {
        self.unix_ms
    }

    /// The server stops: modules do now what they have put off. Its sessions end after this.
    pub fn stop(&mut self) {
        self.is_stopping = true;
        self.call_all(|registry| &registry.rounds.stopping);
    }

    /// Whether the server stops.
    pub fn is_stopping(&self) -> bool {
        self.is_stopping
    }

    /// How long the shard has been running, in milliseconds, on the clock that never goes back.
    pub fn uptime_ms(&self) -> u64 {
        self.now_ms.saturating_sub(self.started_ms.unwrap_or(self.now_ms))
    }

    /// The settings in force.
    pub fn settings(&self) -> &Arc<Settings> {
        &self.settings
    }

    /// The modules of this shard.
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// What has to be done, oldest first.
    pub fn next_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// The shard that is home to an account.
    pub fn home_of(&self, account: JidRef<'_>) -> usize {
        home(self.hash(account.bare_str()), self.mail.len())
    }

    /// The shard that is home to what is no account, by any text that names it.
    pub fn home_of_text(&self, text: &str) -> usize {
        home(self.hash(text), self.mail.len())
    }

    /// How many sessions the shard has.
    pub fn session_count(&self) -> usize {
        self.sessions.iter().flatten().count()
    }

    /// Returns the full JID of a session.
    pub fn address(&self, link: Link) -> Option<&Jid> {
        self.outboxes.address(link)
    }

    /// A session by its link, if one is there.
    pub fn session_at(&self, link: Link) -> Option<&Session> {
        self.sessions.get(link)?.as_ref()
    }

    /// The session that a reference means, if it still lives.
    pub fn session(&self, session: SessionRef) -> Option<&Session> {
        self.session_at(session.link).filter(|found| found.serial == session.serial)
    }

    /// Ends a session: its stream gets the error.
    pub fn close(&mut self, link: Link, error: StreamError, text: &'static str) {
        if let Some(session) = self.at_mut(link)
            && !session.ending
        {
            session.ending = true;
            self.events.push_back(Event::Close(link, error, text));
        }
    }

    /// The links of an account's sessions on this shard, if this is its home; newest last, without those that are ending.
    pub fn links_of(&self, account: JidRef<'_>) -> Vec<Link> {
        let hash = self.hash(account.bare_str());
        let user = self.user_named(hash, account.bare_str()).and_then(|user| self.users.get(user as usize));
        let links = user.map(|user| user.links.as_slice()).unwrap_or_default();
        links.iter().copied().filter(|&link| self.session_at(link).is_some_and(|session| !session.ending)).collect()
    }

    /// The accounts of a domain that have sessions on this shard, with those sessions; without those that are ending.
    pub fn present<'w>(&'w self, domain: &'w str) -> impl Iterator<Item = (&'w str, Vec<Link>)> {
        let named = self.users.iter().filter_map(|(_, user)| Some((self.names.get(user.name)?.1, user)));
        let of_domain = named.filter(move |(bare, _)| bare.split_once('@').is_some_and(|(_, found)| found == domain));
        let present = of_domain.map(|(bare, user)| {
            let links = user.links.iter().copied();
            (
                bare,
                links.filter(|&link| self.session_at(link).is_some_and(|session| !session.ending)).collect::<Vec<_>>(),
            )
        });
        present.filter(|(_, links)| !links.is_empty())
    }

    /// A text that this server has never given out before and that nobody can guess without its keys: 16 letters and digits.
    pub fn unique_text(&mut self) -> String {
        self.unique += 1;
        let mut bits = self.hashing.hash_one((self.shard, self.unique, self.unix_ms, "unique"));
        let mut more = self.hashing.hash_one((bits, self.unique));
        let mut text = String::with_capacity(16);
        for at in 0..16 {
            let source = if at < 8 { &mut bits } else { &mut more };
            text.push(char::from(LETTERS.get((*source & 31) as usize).copied().unwrap_or(b'x')));
            *source >>= 5;
        }
        text
    }

    pub(crate) fn hash(&self, bare: &str) -> u64 {
        self.hashing.hash_one(bare)
    }

    /// Which shard this is.
    pub fn shard(&self) -> usize {
        self.shard
    }

    /// How many shards there are.
    pub fn shards(&self) -> usize {
        self.mail.len()
    }

    pub(crate) fn next_serial(&mut self) -> u32 {
        self.serial = self.serial.wrapping_add(1);
        self.serial
    }

    pub(crate) fn at_mut(&mut self, link: Link) -> Option<&mut Session> {
        self.sessions.get_mut(link)?.as_mut()
    }

    pub(crate) fn session_mut(&mut self, session: SessionRef) -> Option<&mut Session> {
        self.at_mut(session.link).filter(|found| found.serial == session.serial)
    }

    /// What tells the session of a link from those that the link has later.
    pub fn reference(&self, link: Link) -> Option<SessionRef> {
        self.session_at(link).map(|session| SessionRef { link, serial: session.serial })
    }

    /// The index of the user with this bare JID, if any session of it is here.
    pub(crate) fn user_named(&self, hash: u64, bare: &str) -> Option<u32> {
        self.names.user(self.names.find(hash, bare)?)
    }
}

const LETTERS: &[u8; 32] = b"abcdefghijkmnpqrstuvwxyz23456789";
