//! A room: plain data, and the dispatch of stanzas to its parts.

use rookery_base::Map;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use rookery_fanout::{Packet, StanzaType};
use rookery_hub::{Iq, Roll, Settings, World};
use rookery_jid::{Jid, JidRef};
use rookery_modkit::option;
use rookery_store::{Affiliated, Affiliation, StoredRoom};
use rookery_stream::error::{Condition, StanzaError};
use rookery_xml::{Element, Kind};
use slab::Slab;

use super::application::WaitingApplicant;
use super::config::RoomConfig;
use super::directory::{Directory, RoomEntry};
use super::history::RoomHistory;
use super::kept::KeptRoom;
use super::limits::{NAME, RoomLimits};
use super::occupant::{LostSessions, Occupant, nick_key};
use super::rate::{Former, RoomBucket};
use super::refusal;
use super::role::{Actor, RoomRole};
use super::spread;
use super::unsaved::Unsaved;
use super::voices::Voices;

/// One room at its home: its occupants, its memory, and its state in the store.
#[derive(Debug)]
pub(crate) struct Room {
    pub jid: Jid,
    pub config: RoomConfig,
    /// The key for the pseudonyms of accounts (XEP-0421).
    pub secret: String,
    /// True if only its creator may enter, before it is configured (XEP-0045 §10.1).
    pub is_locked: bool,
    /// The subject with its stamp, once one was set.
    pub subject: Option<Packet>,
    /// The vCard with the avatar (XEP-0486).
    pub vcard: Option<Element>,
    /// The hashes of the vCard's photos.
    pub avatar_hashes: Vec<String>,
    /// The user who created it, against whose limit it counts.
    pub creator: Option<Jid>,
    /// The affiliations in the order of the addresses, which is also the order of lists.
    pub affiliations: BTreeMap<Jid, Affiliated>,
    /// The bytes of all affiliations, see [`bytes_of`].
    pub affiliation_bytes: usize,
    /// The accounts that have reserved a nick, by the nick's key.
    pub reserved: Map<String, Jid>,
    /// The requests for registration that wait for an admin; the newest last.
    pub waiting: Vec<WaitingApplicant>,
    /// Voice that was given or taken in a moderated room (§5.1).
    pub voices: Voices,
    /// The invitations, as invited and inviter; the newest last.
    pub invitations: VecDeque<(Jid, Jid)>,
    pub occupants: Slab<Occupant>,
    /// The occupants, by the key of the nick.
    pub nicks: Map<String, usize>,
    /// The occupants, by the full JIDs of their sessions.
    pub seats: Map<Jid, usize>,
    pub lost: LostSessions,
    /// The occupants that are moderators.
    pub moderating: BTreeSet<usize>,
    /// Sessions that see every real JID.
    pub moderators: Roll,
    /// All other sessions.
    pub others: Roll,
    pub history: RoomHistory,
    /// The hats that the room has (XEP-0317).
    pub hat_list: Vec<Element>,
    /// The hats that each account wears.
    pub hats: Map<Jid, Vec<Element>>,
    pub joins: RoomBucket,
    /// The bucket that bounds requests to register.
    pub requests: RoomBucket,
    /// The bucket that bounds messages to users who aren't in the room.
    pub courtesy: RoomBucket,
    /// The bucket that bounds changes by admins who aren't in the room.
    pub deeds: RoomBucket,
    /// The rates of accounts that have left, if they were fast.
    pub former: Former,
    pub limits: RoomLimits,
    settings: Arc<Settings>,
    /// The number of removed accounts that it has forgotten.
    removed_seen: usize,
    last_number: u64,
    /// True if it was destroyed.
    pub is_over: bool,
    /// True if the store has the room, so that changes have to be written there.
    is_stored: bool,
    /// True if something other than an affiliation is still to be written.
    pub is_changed: bool,
}

impl Room {
    /// Returns a new room, which is locked and has one owner. `None` if the host doesn't serve
    /// rooms any more.
    pub(crate) fn new(world: &mut World, jid: Jid, owner: JidRef<'_>) -> Option<Self> {
        let limits = RoomLimits::of(world.domain_of(jid.domain())?);
        let secret = format!("{}{}", world.unique_text(), world.unique_text());
        let mut room = Self::with(world, jid, RoomConfig::new(&limits), limits, secret);
        room.is_locked = true;
        let owner = owner.bare().to_jid();
        room.creator = Some(owner.clone());
        room.note_affiliation(&Affiliated { user: owner, affiliation: Affiliation::Owner, nick: None, reason: None });
        Some(room)
    }

    /// Returns a room from the store, which was read when `removed_seen` accounts had been removed.
    /// `None` if it can't be read, or its host doesn't serve rooms any more.
    pub(crate) fn from_stored(
        world: &mut World,
        jid: &Jid,
        (stored, removed_seen): (&StoredRoom, usize),
    ) -> Option<Self> {
        let limits = RoomLimits::of(world.domain_of(jid.domain())?);
        let document = &stored.document;
        let KeptRoom { config, is_locked, secret, hat_list, hats, waiting, voices } =
            KeptRoom::read(document, &limits)?;
        let mut room = Self::with(world, jid.clone(), config, limits, secret);
        room.subject = document.subject.as_deref().and_then(|bytes| Packet::from_bytes(bytes).ok());
        room.set_vcard(document.vcard.as_deref().and_then(|bytes| Element::parse(bytes).ok()));
        (room.hat_list, room.hats) = (hat_list, hats);
        stored.affiliations.iter().for_each(|affiliated| room.note_affiliation(affiliated));
        // A user who has got an affiliation meanwhile doesn't wait any more.
        let waiting = waiting.into_iter().filter(|waiting| !room.affiliations.contains_key(&waiting.user));
        (room.waiting, room.voices, room.creator) = (waiting.collect(), voices, document.creator.clone());
        (room.is_locked, room.removed_seen) = (is_locked, removed_seen);
        room.is_stored = true;
        Some(room)
    }

    fn with(world: &World, jid: Jid, config: RoomConfig, limits: RoomLimits, secret: String) -> Self {
        Self {
            jid,
            config,
            secret,
            is_locked: false,
            subject: None,
            vcard: None,
            avatar_hashes: Vec::new(),
            creator: None,
            affiliations: BTreeMap::new(),
            affiliation_bytes: 0,
            reserved: Map::default(),
            waiting: Vec::new(),
            voices: Voices::default(),
            invitations: VecDeque::new(),
            occupants: Slab::new(),
            nicks: Map::default(),
            seats: Map::default(),
            lost: LostSessions::default(),
            moderating: BTreeSet::new(),
            moderators: Roll::default(),
            others: Roll::default(),
            history: RoomHistory::default(),
            hat_list: Vec::new(),
            hats: Map::default(),
            joins: RoomBucket::default(),
            requests: RoomBucket::default(),
            courtesy: RoomBucket::default(),
            deeds: RoomBucket::default(),
            former: Former::default(),
            limits,
            settings: world.settings().clone(),
            removed_seen: world.state::<Directory>().removed_count(),
            last_number: 0,
            is_over: false,
            is_stored: false,
            is_changed: false,
        }
    }

    /// Returns whether the room can be dropped without a loss: it is destroyed, empty and
    /// temporary, or empty and in the store.
    pub(crate) fn is_idle(&self, world: &World) -> bool {
        self.is_over || self.occupants.is_empty() && !world.state::<Unsaved>().has(&self.jid)
    }

    /// Returns whether the store has it, so that it can be loaded again.
    pub(crate) fn is_stored(&self) -> bool {
        self.is_stored && !self.is_over
    }

    /// Notes whether the store has it from now on.
    pub(crate) fn set_stored(&mut self, world: &mut World, is_stored: bool) {
        self.is_stored = is_stored;
        let (name, creator) = (self.name().to_owned(), self.creator.clone());
        spread::set(world, self.jid.as_ref(), RoomEntry { name, is_public: self.is_listed(), is_stored, creator });
    }

    /// Returns whether lists of rooms show it: a public room, but not before its owner has
    /// configured it, since until then it doesn't exist for others (§10.1).
    pub(crate) fn is_listed(&self) -> bool {
        self.config.is_public && !self.is_locked
    }

    /// Takes a stanza for the room or for an occupant.
    pub(crate) fn receive(&mut self, world: &mut World, packet: &Packet, to: JidRef<'_>) {
        if self.is_over {
            return refusal::of_absent(world, packet, to);
        }
        self.heed_settings(world);
        self.forget_removed(world);
        let Some(from) = packet.sender() else { return };
        if packet.kind() != Kind::Message {
            world.note_home(self.jid.as_str(), true);
        }
        match packet.kind() {
            Kind::Presence => self.presence(world, packet, &from, to),
            Kind::Message => self.message(world, packet, &from, to),
            _ => self.iq(world, packet, &from, to),
        }
        self.keep_changes(world);
    }

    fn presence(&mut self, world: &mut World, packet: &Packet, from: &Jid, to: JidRef<'_>) {
        match packet.type_() {
            StanzaType::Available => self.available(world, packet, from, to),
            StanzaType::Unavailable => self.leave(world, packet, from),
            // §18.1: an occupant that replies to presence with an error is not there any more.
            StanzaType::Error => self.lose(world, from, false),
            // §17.3: no other presence enters or leaves.
            _ => {}
        }
    }

    fn iq(&mut self, world: &mut World, packet: &Packet, from: &Jid, to: JidRef<'_>) {
        if to.resource().is_some() {
            return self.relay(world, packet, from, to);
        }
        if !matches!(packet.type_(), StanzaType::Get | StanzaType::Set) {
            return;
        }
        match Iq::read(packet.stanza(), from.clone(), to.to_jid(), None) {
            Some(iq) => self.asked(world, &iq),
            None => world.bounce(packet, to, Condition::BadRequest.into()),
        }
    }

    /// Forgets accounts that were removed: the next account of such a name must not inherit its
    /// rights. The store has forgotten them already.
    pub(crate) fn forget_removed(&mut self, world: &mut World) {
        let directory = world.state::<Directory>();
        let count = directory.removed_count();
        if count == self.removed_seen {
            return;
        }
        let users = directory.removed_since(self.removed_seen, |user| self.knows(user));
        self.removed_seen = count;
        for user in &users {
            self.hats.remove(user);
            self.voices.forget(user.as_ref());
            self.waiting.retain(|waiting| waiting.user != *user);
            self.creator.take_if(|creator| creator == user);
            if self.affiliations.contains_key(user) {
                let none = Affiliated { user: user.clone(), affiliation: Affiliation::None, nick: None, reason: None };
                self.set_affiliations(world, vec![none.clone()], None, |_, _| {});
                self.keep_affiliations(world, vec![none]);
            }
        }
        // Data written meanwhile may have reached the store after it had forgotten them.
        if !users.is_empty() {
            self.set_stored(world, self.is_stored);
            self.keep_soon();
        }
    }

    /// Returns whether the room has any data about an account.
    fn knows(&self, user: &Jid) -> bool {
        self.affiliations.contains_key(user)
            || self.hats.contains_key(user)
            || self.voices.of(user.as_ref()).is_some()
            || self.waiting.iter().any(|waiting| waiting.user == *user)
            || self.creator.as_ref() == Some(user)
    }

    /// Returns whether accounts were removed since the room last forgot any.
    pub(crate) fn has_removed(&self, directory: &Directory) -> bool {
        self.removed_seen < directory.removed_count()
    }

    /// Applies changed settings of the operator.
    fn heed_settings(&mut self, world: &World) {
        if !Arc::ptr_eq(&self.settings, world.settings()) {
            self.settings = world.settings().clone();
            if let Some(domain) = world.domain_of(self.jid.domain()) {
                self.limits = RoomLimits::of(domain);
                self.config.is_logged &= self.limits.logs.is_some();
            }
        }
    }

    /// Returns its name for display.
    pub(crate) fn name(&self) -> &str {
        match self.config.name.as_str() {
            "" => self.jid.local().unwrap_or_default(),
            name => name,
        }
    }

    /// Returns the occupant that a session is.
    pub(crate) fn occupant_of(&self, session: &Jid) -> Option<usize> {
        self.seats.get(session).copied()
    }

    /// Returns the occupant with a nick, by its key.
    pub(crate) fn occupant_named(&self, nick: &str) -> Option<usize> {
        self.nicks.get(&nick_key(nick)?).copied()
    }

    /// Returns the affiliation of a user.
    pub(crate) fn affiliation_of(&self, world: &World, user: JidRef<'_>) -> Affiliation {
        if Self::is_operator(world, self.jid.domain(), user) {
            return Affiliation::Owner;
        }
        self.kept_affiliation(user)
    }

    /// Returns whether the operator has named a user as an admin of all rooms of a service.
    pub(crate) fn is_operator(world: &World, host: &str, user: JidRef<'_>) -> bool {
        let options = world.domain_of(host).and_then(|domain| domain.module(NAME));
        options.is_some_and(|options| options.list("admins").iter().any(|admin| admin == user.bare_str()))
    }

    /// Checks that the room has a place for affiliations. A list that doesn't grow always has one,
    /// so that owners can mend a full one.
    ///
    /// # Errors
    /// `resource-constraint` if there are too many, or they are too long.
    pub(crate) fn has_place_for(&self, changes: &[Affiliated]) -> Result<(), StanzaError> {
        let (mut more, mut bytes, mut fewer_bytes) = (0, 0, 0);
        for change in changes {
            let old = self.affiliations.get(&change.user);
            if change.affiliation != Affiliation::None {
                more += usize::from(old.is_none());
                bytes += bytes_of(change);
            }
            fewer_bytes += old.map_or(0, bytes_of);
        }
        let has_too_many = more > 0 && self.affiliations.len() + more > self.limits.affiliations;
        let is_too_long =
            bytes > fewer_bytes && self.affiliation_bytes + bytes - fewer_bytes > self.limits.affiliation_bytes;
        match has_too_many || is_too_long {
            true => Err(StanzaError::new(Condition::ResourceConstraint).with_text("the lists of the room are full")),
            false => Ok(()),
        }
    }

    /// Returns the stored affiliation of a user, without regard to the operator's admins.
    pub(crate) fn kept_affiliation(&self, user: JidRef<'_>) -> Affiliation {
        self.affiliations.get(user.bare_str()).map_or(Affiliation::None, |found| found.affiliation)
    }

    /// Returns the role of a session; [`RoomRole::None`] if it isn't in the room.
    pub(crate) fn role_of(&self, session: &Jid) -> RoomRole {
        let occupant = self.occupant_of(session).and_then(|at| self.occupants.get(at));
        occupant.map_or(RoomRole::None, |occupant| occupant.role)
    }

    /// Returns the rights with which a session changes something.
    pub(crate) fn actor(&self, world: &World, session: &Jid) -> Actor {
        Actor { affiliation: self.affiliation_of(world, session.as_ref()), role: self.role_of(session) }
    }

    /// Returns the last number that a seat was given.
    pub(crate) fn last_number(&self) -> u64 {
        self.last_number
    }

    /// Continues after a number that a seat was given.
    pub(crate) fn set_last_number(&mut self, number: u64) {
        self.last_number = number;
    }

    /// Returns a number that no other seat has had.
    pub(crate) fn next_number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

    /// Returns whether the presence of a role is broadcast.
    pub(crate) fn is_broadcast(&self, role: RoomRole) -> bool {
        self.config.broadcast.contains(&role)
    }

    /// Returns the occupants whose presence is broadcast. If only moderators' is, a room of ten
    /// thousand isn't scanned.
    pub(crate) fn visible(&self) -> Vec<usize> {
        match self.config.broadcast.as_slice() {
            [] => Vec::new(),
            [RoomRole::Moderator] => self.moderating.iter().copied().collect(),
            _ => {
                let shown = self.occupants.iter().filter(|(_, occupant)| self.is_broadcast(occupant.role));
                shown.map(|(at, _)| at).collect()
            }
        }
    }

    /// Returns the audience that a session belongs to.
    pub(crate) fn roll(&mut self, role: RoomRole) -> &mut Roll {
        if role == RoomRole::Moderator { &mut self.moderators } else { &mut self.others }
    }

    /// Sends a packet to all sessions in the room.
    pub(crate) fn send_to_all(&self, world: &mut World, packet: &Packet) {
        world.fan_out_roll(packet, &self.moderators, &[]);
        world.fan_out_roll(packet, &self.others, &[]);
    }

    /// Returns whether a user may create rooms.
    pub(crate) fn may_create(world: &World, host: &str, user: &Jid) -> bool {
        let options = world.domain_of(host).and_then(|domain| domain.module(NAME));
        options.is_some_and(|options| option::may_use(world, options.list("create"), user))
    }
}

/// Returns the approximate bytes of a user's affiliation, in memory and in the store.
pub(crate) fn bytes_of(affiliated: &Affiliated) -> usize {
    let texts = affiliated.nick.iter().chain(&affiliated.reason).map(String::len);
    affiliated.user.as_str().len() + texts.sum::<usize>()
}
