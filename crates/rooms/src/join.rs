//! Entering a room (XEP-0045 §7.2), and other available presence.

use rookery_fanout::Packet;
use rookery_hub::{World, delay};
use rookery_jid::{Jid, JidRef};
use rookery_store::Affiliation;
use rookery_stream::error::{Condition, StanzaError};
use rookery_xml::{Element, Writer, ns};

use super::directory::Directory;
use super::history::WantedHistory;
use super::occupant::{Occupant, OccupantSeat, nick_key, occupant_id};
use super::rate::RoomBucket;
use super::refusal::{not_in_the_room, refuse, request};
use super::role::RoomRole;
use super::room::Room;
use super::shown::{ShownPresence, is_forged, presence};

impl Room {
    /// Takes available presence: the user enters, or the occupant changes presence or nick.
    pub(crate) fn available(&mut self, world: &mut World, packet: &Packet, from: &Jid, to: JidRef<'_>) {
        let Some(key) = to.resource().and_then(nick_key) else {
            // §7.2.1: no nick, or an invisible one.
            return refuse(world, packet, to, Condition::JidMalformed.into());
        };
        let request = request(packet);
        let outcome = match (self.occupant_of(from), request) {
            (Some(at), request) => {
                let again = if request.is_some() { self.occupants.len() + self.history.len() } else { 0 };
                let outcome = match self.is_nick(at, to) {
                    true => self.shows(world, at, packet, from, again),
                    false => self.change_nick(world, at, packet, (from, to, &key), again),
                };
                outcome.map(|()| self.tell_all_again(world, at, packet, from, request))
            }
            (None, Some(request)) => self.enter(world, packet, from, to, &key, &request),
            (None, None) => {
                not_in_the_room(world, from, to);
                Ok(())
            }
        };
        if let Err(error) = outcome {
            refuse(world, packet, to, error);
        }
    }

    /// Takes an occupant's presence, after which the occupant gets `again` stanzas of the past.
    fn shows(
        &mut self,
        world: &mut World,
        at: usize,
        packet: &Packet,
        from: &Jid,
        again: usize,
    ) -> Result<(), StanzaError> {
        self.may_stir(world, at, self.hearers(at) + again)?;
        self.update(world, at, packet, from);
        Ok(())
    }

    /// Sends everything again to a client that enters twice, under whatever nick: it has lost its
    /// state (§17.3), as one has whose session ended before the room knew of it.
    fn tell_all_again(&mut self, world: &mut World, at: usize, packet: &Packet, from: &Jid, request: Option<Element>) {
        let Some(request) = request else { return };
        self.welcome(world, at, from, packet.id().as_deref(), &[], WantedHistory::read(&request, world.time()));
    }

    /// Returns the number of sessions that may get an occupant's presence.
    pub(super) fn hearers(&self, at: usize) -> usize {
        let is_broadcast = self.occupants.get(at).is_some_and(|occupant| self.is_broadcast(occupant.role));
        if is_broadcast { self.occupants.len() } else { 0 }
    }

    /// Returns whether an address is that of an occupant, character by character.
    fn is_nick(&self, at: usize, to: JidRef<'_>) -> bool {
        self.occupants.get(at).is_some_and(|occupant| occupant.jid.as_ref() == to)
    }

    fn enter(
        &mut self,
        world: &mut World,
        packet: &Packet,
        from: &Jid,
        to: JidRef<'_>,
        key: &str,
        request: &Element,
    ) -> Result<(), StanzaError> {
        let is_new = self.is_locked && self.occupants.is_empty();
        let affiliation = self.affiliation_of(world, from.as_ref());
        self.may_enter(world, from, affiliation, request)?;
        self.may_have_nick(to, from, key)?;
        let is_here = world.is_here(from.domain());
        if !world.state::<Directory>().holdings.take_seat(from.as_ref(), is_here, &self.limits) {
            let error = StanzaError::new(Condition::ResourceConstraint);
            return Err(error.with_text("you are already in as many rooms as you may enter"));
        }
        let paces = match self.nicks.get(key).copied() {
            Some(at) => self.may_stir(world, at, 2 * self.occupants.len()).map(|()| Default::default()),
            None => self.may_come(world, &from.to_bare()),
        };
        let paces = paces.inspect_err(|_| world.state::<Directory>().holdings.leave_seat(from.as_ref(), is_here))?;
        let seat = OccupantSeat { jid: from.clone(), presence: reflect(packet), number: self.next_number() };
        world.enroll(self.roll_for(from.bare(), affiliation, key), from.as_ref());
        let at = match self.nicks.get(key).copied() {
            Some(at) => self.join_nick(world, at, seat),
            None => self.add(world, seat, to.to_jid(), key, affiliation, paces),
        };
        self.seats.insert(from.clone(), at);
        let mut codes = Vec::new();
        codes.extend(self.config.is_nonanonymous.then_some(100));
        codes.extend(self.config.is_logged.then_some(170));
        codes.extend(is_new.then_some(201));
        // A shared nick stays as the first session wrote it.
        let is_rewritten = self.occupants.get(at).is_some_and(|occupant| Some(occupant.nick()) != to.resource());
        codes.extend(is_rewritten.then_some(210));
        self.welcome(world, at, from, packet.id().as_deref(), &codes, WantedHistory::read(request, world.time()));
        Ok(())
    }

    /// Returns the roll that a session will be on: that of its role, which a shared nick has
    /// already.
    fn roll_for(&mut self, account: JidRef<'_>, affiliation: Affiliation, key: &str) -> &mut rookery_hub::Roll {
        let shared = self.nicks.get(key).and_then(|&at| self.occupants.get(at)).map(|occupant| occupant.role);
        let role = shared.unwrap_or_else(|| self.role_on_entry(account, affiliation));
        self.roll(role)
    }

    /// Returns the role on entry (§5.1): in a moderated room the voice of the last visit counts.
    fn role_on_entry(&self, account: JidRef<'_>, affiliation: Affiliation) -> RoomRole {
        let is_moderated = self.config.is_moderated;
        let voice = self.voices.of(account).filter(|_| is_moderated && affiliation < Affiliation::Admin);
        voice.unwrap_or_else(|| RoomRole::on_entry(affiliation, is_moderated))
    }

    /// Checks whether a user may enter (§7.2.15), in the order that reveals least to a stranger.
    fn may_enter(
        &mut self,
        world: &World,
        from: &Jid,
        affiliation: Affiliation,
        request: &Element,
    ) -> Result<(), StanzaError> {
        let is_full = self.occupants.len() >= self.config.max_occupants.min(self.limits.occupants);
        let password = request.child_text("password", ns::MUC).unwrap_or_default();
        match () {
            () if from.resource().is_none() => Err(Condition::JidMalformed.into()),
            // §7.2.8.
            () if affiliation == Affiliation::Outcast => Err(Condition::Forbidden.into()),
            // §7.2.11.
            () if self.is_locked && affiliation < Affiliation::Owner => Err(Condition::ItemNotFound.into()),
            // §7.2.7.
            () if self.config.is_members_only && affiliation < Affiliation::Member => {
                Err(Condition::RegistrationRequired.into())
            }
            // §7.2.6.
            () if !self.config.password.is_empty() && !is_same(&password, &self.config.password) && !self.is_locked => {
                Err(Condition::NotAuthorized.into())
            }
            // §7.2.10: owners and admins get in.
            () if is_full && affiliation < Affiliation::Admin => {
                Err(StanzaError::new(Condition::ServiceUnavailable).with_type(rookery_stream::error::ErrorType::Wait))
            }
            () if !self.joins.take(self.limits.joins, world.time()) => Err(Condition::ResourceConstraint.into()),
            () => Ok(()),
        }
    }

    /// Checks whether a user may have a nick (§7.2.9): it belongs to the occupant that has it, and
    /// to the account that reserved it.
    pub(crate) fn may_have_nick(&self, to: JidRef<'_>, from: &Jid, key: &str) -> Result<(), StanzaError> {
        let nick = to.resource().unwrap_or_default();
        if nick.len() > self.limits.nick {
            return Err(StanzaError::new(Condition::NotAcceptable).with_text("the nick is too long"));
        }
        let holder = self.nicks.get(key).and_then(|&at| self.occupants.get(at));
        let is_shared = holder.is_some_and(|occupant| occupant.account.as_ref() == from.bare());
        if holder.is_some() && (!is_shared || holder.is_some_and(|occupant| occupant.seats.len() >= MOST_SEATS)) {
            return Err(Condition::Conflict.into());
        }
        match self.reserved_by(key) {
            Some(owner) if owner.as_ref() != from.bare() => Err(Condition::Conflict.into()),
            _ => Ok(()),
        }
    }

    /// Returns the account that reserved a nick (§7.10).
    pub(crate) fn reserved_by(&self, key: &str) -> Option<&Jid> {
        self.reserved.get(key)
    }

    /// Adds an occupant with a new nick.
    fn add(
        &mut self,
        world: &mut World,
        seat: OccupantSeat,
        jid: Jid,
        key: &str,
        affiliation: Affiliation,
        (pace, stir): (RoomBucket, RoomBucket),
    ) -> usize {
        let account = seat.jid.to_bare();
        let occupant = Occupant {
            id: occupant_id(&self.secret, &account),
            role: self.role_on_entry(account.as_ref(), affiliation),
            jid,
            account,
            affiliation,
            seats: vec![seat],
            open: None,
            veiled: None,
            pace,
            stir,
        };
        let at = self.occupants.insert(occupant);
        self.nicks.insert(key.to_owned(), at);
        if self.occupants.get(at).is_some_and(|occupant| occupant.role == RoomRole::Moderator) {
            self.moderating.insert(at);
        }
        self.log_coming(world, at);
        self.announce(world, at, &ShownPresence::default());
        at
    }

    /// Adds one more session behind a nick.
    fn join_nick(&mut self, world: &mut World, at: usize, seat: OccupantSeat) -> usize {
        if let Some(occupant) = self.occupants.get_mut(at) {
            occupant.seats.push(seat);
            occupant.changed();
        }
        self.announce(world, at, &ShownPresence::default());
        at
    }

    /// Sends everything that a session gets on entering, in the order of §7.1.
    fn welcome(
        &mut self,
        world: &mut World,
        at: usize,
        session: &Jid,
        id: Option<&str>,
        codes: &[u16],
        wanted: WantedHistory,
    ) {
        let sees_all = self.sees_all(at);
        let mut packets = Vec::new();
        for other in self.visible().into_iter().filter(|other| *other != at) {
            packets.extend(self.presence_of(other, sees_all));
        }
        let shown = ShownPresence { codes: codes.to_vec(), id, ..ShownPresence::default() };
        packets.extend(self.own_presence(at, session, &shown));
        packets.extend(self.history.newest(wanted));
        packets.extend(self.subject_now());
        world.bundle(packets, session);
    }

    /// Returns whether an occupant sees real JIDs (§5.1.1, `muc#roomconfig_whois`).
    pub(crate) fn sees_all(&self, at: usize) -> bool {
        self.config.is_nonanonymous
            || self.occupants.get(at).is_some_and(|occupant| occupant.role == RoomRole::Moderator)
    }

    /// Returns the presence of an occupant as others see it.
    pub(crate) fn presence_of(&mut self, at: usize, open: bool) -> Option<Packet> {
        let occupant = self.occupants.get(at)?;
        let ready = if open { &occupant.open } else { &occupant.veiled };
        if let Some(ready) = ready {
            return Some(ready.clone());
        }
        let jid = occupant.seat().map(|seat| &seat.jid).filter(|_| open);
        let packet = presence(occupant, self.hats_of(&occupant.account), jid, &ShownPresence::default())?;
        let occupant = self.occupants.get_mut(at)?;
        *(if open { &mut occupant.open } else { &mut occupant.veiled }) = Some(packet.clone());
        Some(packet)
    }

    /// Returns the presence of an occupant as its own sessions get it: with code 110 (§7.2.3).
    pub(crate) fn own_presence(&self, at: usize, session: &Jid, shown: &ShownPresence<'_>) -> Option<Packet> {
        let occupant = self.occupants.get(at)?;
        presence(occupant, self.hats_of(&occupant.account), Some(session), &shown.with_code(110))
    }

    pub(crate) fn hats_of(&self, account: &Jid) -> &[Element] {
        self.hats.get(account).map(Vec::as_slice).unwrap_or_default()
    }

    /// Shows an occupant to all others, as its role allows, and to its own sessions.
    pub(crate) fn announce(&mut self, world: &mut World, at: usize, shown: &ShownPresence<'_>) {
        let Some(occupant) = self.occupants.get(at) else { return };
        let own = occupant.addresses();
        if self.is_broadcast(occupant.role) {
            self.show(world, at, shown, &own);
        }
        for session in own.iter().filter(|session| self.seats.contains_key(*session)) {
            if let Some(packet) = self.own_presence(at, session, shown) {
                world.route(&packet, session.as_ref());
            }
        }
    }

    /// Shows an occupant: one packet for those who see real JIDs, one for the others.
    pub(crate) fn show(&mut self, world: &mut World, at: usize, shown: &ShownPresence<'_>, except: &[Jid]) {
        let form = |room: &mut Self, open: bool| {
            if shown.is_plain() {
                return room.presence_of(at, open);
            }
            let occupant = room.occupants.get(at)?;
            let jid = occupant.seat().map(|seat| &seat.jid).filter(|_| open);
            presence(occupant, room.hats_of(&occupant.account), jid, shown)
        };
        if let Some(packet) = form(self, true).filter(|_| !self.moderators.is_empty()) {
            world.fan_out_roll(&packet, &self.moderators, except);
        }
        if let Some(packet) = form(self, self.config.is_nonanonymous).filter(|_| !self.others.is_empty()) {
            world.fan_out_roll(&packet, &self.others, except);
        }
    }

    /// Returns the current subject (§7.2.15), which is empty if none was ever set.
    fn subject_now(&self) -> Option<Packet> {
        self.subject.clone().or_else(|| {
            let mut message = Writer::new("message");
            message.attr("type", "groupchat").attr("from", self.jid.as_str());
            message.start("subject").end();
            Packet::from_built(&message.finish()).ok()
        })
    }

    /// Returns a stored stanza with the time stamp that it needs to be sent later.
    pub(crate) fn stamp(&self, world: &World, packet: &Packet) -> Packet {
        packet.with_child(&delay::element(self.jid.as_str(), world.time()))
    }
}

/// Returns a presence reduced to what other occupants may see.
pub(crate) fn reflect(packet: &Packet) -> Packet {
    packet.without_children(is_forged)
}

/// Compares in constant time, so that the time doesn't reveal how much is right.
fn is_same(given: &str, wanted: &str) -> bool {
    let differing = given.bytes().zip(wanted.bytes()).fold(0, |all, (a, b)| all | (a ^ b));
    given.len() == wanted.len() && differing == 0
}

/// The most sessions that may share a nick.
const MOST_SEATS: usize = 32;
