//! The world of one shard, and its driver's interface.
//!
//! A driver calls [`World::bind`], [`World::stanza`], [`World::mail`], [`World::closed`] and
//! [`World::run_tasks`], in the order in which things happen; then takes the events and the mail
//! for other shards, and flushes the outboxes that have something.
//!
//! Invariants:
//! * No socket, thread or clock: time comes in with [`World::set_time`].
//! * A user's sessions, roster cache and held stanzas are touched by the user's home shard only.
//! * Everything is sent through the outboxes.

use std::any::type_name;
use std::hash::BuildHasher;
use std::sync::Arc;

use rookery_base::{AddressHash, chance};
use rookery_fanout::{Link, Outboxes, Station, View};
use rookery_jid::{Jid, JidRef};
use rookery_observe::Counters;
use rookery_store::{Background, Stores};
use rookery_stream::error::StreamError;

use crate::custody::{Custody, ReturnedMail};
pub use crate::event::Event;
use crate::module::Registry;
pub use crate::parts::Place;
use crate::parts::{Catalogue, WatchedCounts, WorldClock, WorldIdentity, WorldOut, WorldPeople};
use crate::served::ServedDomains;
use crate::session::{Session, SessionRef};
use crate::settings::{Privileges, Settings};
use crate::trace::Trace;
use crate::waiting::LaterWork;
use crate::wakeups::Wakeups;

/// Everything that one shard owns.
pub struct World {
    /// The store of accounts, rosters and messages.
    pub stores: Stores,
    /// The threads for work that takes milliseconds.
    pub background: Background,
    /// The queues of all sessions of the shard.
    pub outboxes: Outboxes,
    /// The counts of the shard.
    pub counters: Counters,
    pub(crate) clock: WorldClock,
    pub(crate) here: WorldIdentity,
    pub(crate) catalogue: Catalogue,
    pub(crate) people: WorldPeople,
    pub(crate) waiting: LaterWork,
    pub(crate) out: WorldOut,
    /// The traces that are written; mostly none.
    pub(crate) traces: Vec<Arc<Trace>>,
    pub(crate) watched: WatchedCounts,
}

impl std::fmt::Debug for World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("World")
            .field("shard", &self.here.shard)
            .field("users", &self.people.users.len())
            .finish_non_exhaustive()
    }
}

impl World {
    /// Returns a world without users.
    pub fn new(
        place: Place,
        settings: Arc<Settings>,
        registry: Registry,
        stores: Stores,
        background: Background,
        wakeups: Arc<Wakeups>,
    ) -> Self {
        let (hops, is_joining) = (place.view.hops(), place.is_joining);
        let mut world = Self {
            stores,
            background,
            outboxes: Outboxes::new(settings.outbox),
            counters: Counters::default(),
            clock: WorldClock::default(),
            here: WorldIdentity::new(place),
            catalogue: Catalogue::new(registry, settings.clone()),
            people: WorldPeople::default(),
            waiting: LaterWork::new(wakeups),
            out: WorldOut::new(hops),
            traces: Vec::new(),
            watched: WatchedCounts::default(),
        };
        world.apply(settings);
        world.begin_moves(is_joining);
        world.start_rounds();
        world
    }

    /// Replaces the settings. Sessions of a domain that is gone end with `host-gone` (RFC 6120
    /// §4.9.3.5).
    pub fn apply(&mut self, settings: Arc<Settings>) {
        self.catalogue.served = ServedDomains::new(&settings, &self.catalogue.registry);
        self.catalogue.services = self.catalogue.registry.hosts(&settings);
        self.outboxes.set_limits(settings.outbox);
        self.counters.stages.measure(settings.profile);
        let seeing = |sees: fn(&Privileges) -> bool| -> Arc<[Jid]> {
            let components = settings.components.iter().filter(|component| sees(&component.privileges));
            components.filter_map(|component| Jid::parse(&component.name).ok()).collect()
        };
        self.catalogue.onlookers = seeing(Privileges::sees_accounts);
        self.catalogue.onlookers_elsewhere = seeing(Privileges::sees_contacts);
        if self.catalogue.onlookers_elsewhere.is_empty() {
            self.out.elsewhere.clear();
        }
        self.catalogue.settings = settings;
        for link in self.people.sessions.links() {
            if let Some(address) = self.outboxes.address(link)
                && !self.is_domain(address.domain())
            {
                self.close(link, StreamError::HostGone, "this domain is no longer served here");
            }
        }
    }

    /// Sets the clock that timers go by, which never goes back, and the time of day since 1970;
    /// both in milliseconds.
    pub fn set_time(&mut self, now_ms: u64, unix_ms: u64) {
        debug_assert!(now_ms >= self.clock.now_ms, "the clock of timers never goes back");
        self.clock.now_ms = now_ms;
        self.clock.started_ms.get_or_insert(now_ms);
        self.clock.unix_ms = unix_ms;
        self.clock.taken.note(self.outboxes.pushed_total(), unix_ms);
    }

    /// Returns the time of day, in milliseconds since 1970.
    pub fn time(&self) -> u64 {
        self.clock.unix_ms
    }

    /// Returns a time of day that isn't before that of any process that has acted for the homes of
    /// this shard, in milliseconds since 1970: clocks of nodes may differ.
    pub fn time_after_others(&self) -> u64 {
        self.clock.unix_ms.max(self.here.view.not_before_ms())
    }

    /// Stops the server: modules do their deferred work now. Its sessions end after this, except
    /// for those that continue in another process, if it hands them on.
    pub fn stop(&mut self, hands_on: bool) {
        self.clock.is_stopping = true;
        self.clock.hands_on = hands_on;
        self.call_all(|registry| &registry.rounds.stopping);
    }

    /// Returns whether the server is stopping.
    pub fn is_stopping(&self) -> bool {
        self.clock.is_stopping
    }

    /// Returns how long the shard has been running, in milliseconds, on the clock that never goes
    /// back.
    pub fn uptime_ms(&self) -> u64 {
        self.clock.now_ms.saturating_sub(self.clock.started_ms.unwrap_or(self.clock.now_ms))
    }

    /// Returns the settings in force.
    pub fn settings(&self) -> &Arc<Settings> {
        &self.catalogue.settings
    }

    /// Returns the modules of this shard.
    pub fn registry(&self) -> &Registry {
        &self.catalogue.registry
    }

    /// Takes the oldest event that the driver has to handle.
    pub fn next_event(&mut self) -> Option<Event> {
        self.out.events.pop_front()
    }

    /// Returns the shard that is home to an account, of this process or of another node.
    pub fn home_of(&self, account: JidRef<'_>) -> usize {
        self.hop(self.hash(account.bare_str()))
    }

    /// Returns the shard that is home to something other than an account, by any text that names
    /// it.
    pub fn home_of_text(&self, text: &str) -> usize {
        self.hop(self.hash(text))
    }

    /// Returns the shard of this process that stands for a text: its home, or, if that is on
    /// another node, the shard that handles everything that arrived here for it.
    pub fn stand_in_for(&self, text: &str) -> usize {
        self.here.view.own_hop(self.hash(text))
    }

    /// Returns the number of the shard's sessions.
    pub fn session_count(&self) -> usize {
        self.people.sessions.iter().flatten().count()
    }

    /// Returns the full JID of a session.
    pub fn address(&self, link: Link) -> Option<&Jid> {
        self.outboxes.address(link)
    }

    /// Returns a session by its link, if one is there.
    pub fn session_at(&self, link: Link) -> Option<&Session> {
        self.people.sessions.get(link)?.as_ref()
    }

    /// Returns the session that a reference means, if it still lives.
    pub fn session(&self, session: SessionRef) -> Option<&Session> {
        self.session_at(session.link).filter(|found| found.serial == session.serial)
    }

    /// Ends a session: its stream gets the error.
    pub fn close(&mut self, link: Link, error: StreamError, text: &'static str) {
        if let Some(session) = self.at_mut(link)
            && !session.ending
        {
            session.ending = true;
            self.sight_session(link, || format!("its stream ends with <{}/>: {text}", error.name()));
            self.out.events.push_back(Event::Close(link, error, text));
        }
    }

    /// Returns the links of an account's sessions on this shard, if this is its home; newest last,
    /// except those that are ending.
    pub fn links_of(&self, account: JidRef<'_>) -> Vec<Link> {
        let hash = self.hash(account.bare_str());
        let user = self.user_named(hash, account.bare_str()).and_then(|user| self.people.users.get(user as usize));
        let links = user.map(|user| user.links.as_slice()).unwrap_or_default();
        links.iter().copied().filter(|&link| self.session_at(link).is_some_and(|session| !session.ending)).collect()
    }

    /// Returns the links of an account's sessions that others have seen become available and not
    /// become unavailable, if this is its home: including those that are ending.
    pub fn links_shown(&self, account: JidRef<'_>) -> Vec<Link> {
        let hash = self.hash(account.bare_str());
        let user = self.user_named(hash, account.bare_str()).and_then(|user| self.people.users.get(user as usize));
        let links = user.map(|user| user.links.as_slice()).unwrap_or_default();
        let is_shown = |link: &Link| self.session_at(*link).is_some_and(|session| session.presence.is_some());
        links.iter().copied().filter(is_shown).collect()
    }

    /// Returns the accounts of a domain that have sessions on this shard, with those sessions,
    /// except those that are ending.
    pub fn present<'w>(&'w self, domain: &'w str) -> impl Iterator<Item = (&'w str, Vec<Link>)> {
        let named = self.people.users.iter().filter_map(|(_, user)| Some((self.people.names.get(user.name)?.1, user)));
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

    /// Returns a text that this server has never given out before and that nobody can guess without
    /// its keys: 16 letters and digits.
    pub fn unique_text(&mut self) -> String {
        self.here.unique += 1;
        let mut bits = self.here.secrets.hash_one((self.here.shard, self.here.unique, self.clock.unix_ms, "unique"));
        let mut more = self.here.secrets.hash_one((bits, self.here.unique));
        let mut text = String::with_capacity(16);
        for at in 0..16 {
            let source = if at < 8 { &mut bits } else { &mut more };
            text.push(chance::letter((*source & 31) as u8));
            *source >>= 5;
        }
        text
    }

    /// Returns the value of this type that a module has declared, see
    /// [`Hooks::state`](crate::Hooks::state).
    ///
    /// # Panics
    /// No module declares the type: a mistake in the module that asks, whatever peers send.
    #[track_caller]
    pub fn state<T: 'static>(&self) -> &T {
        self.catalogue.states.get().unwrap_or_else(|| panic_undeclared::<T>())
    }

    /// Returns the value of this type for a change.
    ///
    /// # Panics
    /// As [`World::state`].
    #[track_caller]
    pub fn state_mut<T: 'static>(&mut self) -> &mut T {
        self.catalogue.states.get_mut().unwrap_or_else(|| panic_undeclared::<T>())
    }

    /// Returns a share in the custody of the current work, for work that is deferred without
    /// [`World::wait`]; `None` if nobody waits for it.
    pub fn custody(&self) -> Option<Custody> {
        self.waiting.custody.clone()
    }

    /// Runs work in a custody that was kept for it; with `None`, in nobody's custody, for work that
    /// isn't to delay an acknowledgement.
    pub fn in_custody<T>(&mut self, custody: Option<Custody>, work: impl FnOnce(&mut Self) -> T) -> T {
        let (outer, pushed) = (std::mem::replace(&mut self.waiting.custody, custody), self.outboxes.noted_pushes());
        let done = work(self);
        let own = std::mem::replace(&mut self.waiting.custody, outer);
        if self.outboxes.noted_pushes() != pushed {
            self.keep_until_journaled(own);
        }
        done
    }

    /// Returns the hash of a text that is the same on all nodes of a cluster, and known to nobody
    /// else.
    pub fn common_hash(&self, text: &str) -> u64 {
        self.here.addresses.of(text)
    }

    pub(crate) fn hash(&self, bare: &str) -> u64 {
        self.here.addresses.of(bare)
    }

    pub(crate) fn hop(&self, hash: u64) -> usize {
        self.here.view.hop(hash)
    }

    /// Returns the number of this shard.
    pub fn shard(&self) -> usize {
        self.here.shard
    }

    /// Returns the number of shards that mail reaches: those of this process, then those of other
    /// nodes.
    pub fn shards(&self) -> usize {
        self.out.mail.len()
    }

    /// Returns the number of shards of this process.
    pub fn own_shards(&self) -> usize {
        self.here.view.own()
    }

    /// Returns one shard of each other node.
    pub fn other_nodes(&self) -> Vec<usize> {
        self.here.view.others().collect()
    }

    /// Returns whether the cluster has nodes besides this one at the moment.
    pub fn has_other_nodes(&self) -> bool {
        self.here.view.present().nth(1).is_some()
    }

    /// Returns the version of the letters that another process understands, by one of its shards.
    pub fn letters_of(&self, shard: usize) -> u16 {
        self.here.view.letters(shard)
    }

    /// Returns a shard of another node, which `shard` picks for the number of shards there; `None`
    /// if the node is not in the cluster now.
    pub fn station_on(&self, node: u16, shard: impl FnOnce(usize) -> usize) -> Option<Station> {
        let member = self.here.view.present().find(|member| member.node == node)?;
        let shard = u16::try_from(shard(usize::from(member.shards))).ok()?;
        Some(Station { node, incarnation: member.incarnation, shard })
    }

    /// Returns the hash by which addresses have their homes.
    pub fn addresses(&self) -> &AddressHash {
        &self.here.addresses
    }

    /// Returns the name of this shard for other processes, which number the shards differently.
    pub fn station(&self) -> Station {
        self.here.station
    }

    /// Returns this process's number for a shard; `None` if the process of the shard is gone.
    pub fn shard_of(&self, station: Station) -> Option<usize> {
        self.here.view.hop_to(station)
    }

    /// Returns the name of a shard for other processes, by this process's number for it.
    pub fn station_of(&self, shard: usize) -> Option<Station> {
        self.here.view.station(shard)
    }

    /// Returns the name of the node of a shard; `None` if this process is no node of a cluster, or
    /// there is no such shard.
    pub fn node_name(&self, shard: usize) -> Option<&str> {
        self.here.view.node_name(shard)
    }

    /// Uses other homes from now on. Data whose home is on another node now leaves when all have
    /// adopted them, see [`World::begin_parting`]. Mail of this shard that gone processes had not
    /// handled, and its share in custody, goes to the new homes first: it is older than anything
    /// else for these.
    pub fn set_view(&mut self, view: Arc<View>, returned: Vec<ReturnedMail>) {
        self.out.mail.resize_with(view.hops().max(self.out.mail.len()), Vec::new);
        let before = std::mem::replace(&mut self.here.view, view);
        self.here.before = before.clone();
        self.send_returned(returned);
        // Another home may have changed data in the store that is cached here.
        self.people.absent.forget_loaded();
        self.change_homes(&before);
        self.attach_again();
        self.call_all(|registry| &registry.rounds.moved);
    }

    pub(crate) fn next_serial(&mut self) -> u32 {
        self.here.serial = self.here.serial.wrapping_add(1);
        self.here.serial
    }

    pub(crate) fn at_mut(&mut self, link: Link) -> Option<&mut Session> {
        self.people.sessions.get_mut(link)?.as_mut()
    }

    pub(crate) fn session_mut(&mut self, session: SessionRef) -> Option<&mut Session> {
        self.at_mut(session.link).filter(|found| found.serial == session.serial)
    }

    /// Returns the reference that distinguishes the session of a link from later ones.
    pub fn reference(&self, link: Link) -> Option<SessionRef> {
        self.session_at(link).map(|session| SessionRef { link, serial: session.serial })
    }

    /// Returns the index of the user with this bare JID, if any session of it is here.
    pub(crate) fn user_named(&self, hash: u64, bare: &str) -> Option<u32> {
        self.people.names.user(self.people.names.find(hash, bare)?)
    }
}

#[track_caller]
fn panic_undeclared<T>() -> ! {
    panic!("no module declares the state {}", type_name::<T>())
}
