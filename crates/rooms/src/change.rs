//! Changes of roles and affiliations, and their presentation to occupants (XEP-0045 §8, §9, §10).

use rookery_base::Map;
use rookery_hub::{Iq, World};
use rookery_jid::Jid;
use rookery_store::{Affiliated, Affiliation, StoreError};

use super::keep::reply_to_change;
use super::occupant::{Occupant, nick_key};
use super::role::RoomRole;
use super::room::{Room, bytes_of};
use super::shown::ShownPresence;
use super::unsaved::Unsaved;

/// A removed occupant, for the notifications of the others.
type Parted = (Occupant, Vec<u16>, Option<String>, (Affiliation, RoomRole));

impl Room {
    /// Gives an occupant another role. [`RoomRole::None`] is for [`Room::kick`].
    pub(crate) fn set_role(&mut self, world: &mut World, at: usize, role: RoomRole, reason: Option<&str>) {
        self.become_role(world, at, role);
        self.announce(world, at, &ShownPresence { reason, ..ShownPresence::default() });
    }

    /// Changes affiliations of users, all at once, in memory and in the store, and shows the result
    /// to the occupants among them. `between` runs after removed occupants have been told and
    /// before the others are.
    pub(crate) fn set_affiliations(
        &mut self,
        world: &mut World,
        changes: Vec<Affiliated>,
        actor: Option<&str>,
        between: impl FnOnce(&mut Self, &mut World),
    ) {
        let mut parted = Vec::new();
        let mut changed = Vec::new();
        let mut absent = Vec::new();
        let mut inside = self.occupants_of(&changes);
        for change in &changes {
            let before = self.affiliation_of(world, change.user.as_ref());
            self.note_affiliation(change);
            let now = self.affiliation_of(world, change.user.as_ref());
            let theirs = inside.remove(&change.user).unwrap_or_default();
            if theirs.is_empty() && before != now {
                absent.push((change.user.clone(), before, now));
            }
            for at in theirs {
                match self.removal_code(now) {
                    Some(code) => parted.extend(self.expel(world, at, code, now, actor, change.reason.as_deref())),
                    None if before != now => changed.push((at, before, now, change.reason.clone())),
                    None => {}
                }
            }
        }
        between(self, world);
        self.tell_all_parted(world, parted, actor);
        for (at, before, now, reason) in changed {
            self.show_affiliation(world, at, before, now, actor, reason.as_deref());
        }
        self.tell_of_absent(world, &absent);
    }

    /// Returns the occupants that changes affect, by account.
    fn occupants_of(&self, changes: &[Affiliated]) -> Map<Jid, Vec<usize>> {
        let mut found: Map<_, _> = changes.iter().map(|change| (change.user.clone(), Vec::new())).collect();
        for (at, occupant) in &self.occupants {
            if let Some(theirs) = found.get_mut(&occupant.account) {
                theirs.push(at);
            }
        }
        found
    }

    /// Removes occupants because a moderator wants it (§8.2).
    pub(crate) fn kick(
        &mut self,
        world: &mut World,
        kicked: Vec<(usize, Option<String>)>,
        actor: Option<&str>,
        between: impl FnOnce(&mut Self, &mut World),
    ) {
        let mut parted = Vec::new();
        for (at, reason) in kicked {
            let affiliation = self.occupants.get(at).map_or(Affiliation::None, |occupant| occupant.affiliation);
            parted.extend(self.expel(world, at, KICKED, affiliation, actor, reason.as_deref()));
        }
        between(self, world);
        self.tell_all_parted(world, parted, actor);
    }

    /// Removes all occupants who aren't members from a room that has become members-only (§10.2).
    pub(crate) fn remove_strangers(&mut self, world: &mut World) {
        let strangers = self.occupants.iter().filter(|(_, occupant)| occupant.affiliation < Affiliation::Member);
        let strangers: Vec<_> = strangers.map(|(at, _)| at).collect();
        let parted: Vec<_> = strangers
            .into_iter()
            .filter_map(|at| self.expel(world, at, NOW_MEMBERS_ONLY, Affiliation::None, None, None))
            .collect();
        self.tell_all_parted(world, parted, None);
    }

    /// Replies to a request once its change is in the store, or with an error if the store refused
    /// it.
    pub(crate) fn keep_and_answer(&mut self, world: &mut World, changes: Vec<Affiliated>, iq: &Iq) {
        if !self.is_stored() || changes.is_empty() {
            return world.reply_done(iq);
        }
        let iq = iq.clone();
        self.affiliate(world, changes, move |world, kept| reply_to_change(world, &iq, kept));
    }

    /// Returns the status code with which a user who has this affiliation now is removed; `None`
    /// for one who may stay.
    fn removal_code(&self, now: Affiliation) -> Option<u16> {
        match now {
            Affiliation::Outcast => Some(BANNED),
            Affiliation::None if self.config.is_members_only => Some(NOT_A_MEMBER),
            _ => None,
        }
    }

    fn expel(
        &mut self,
        world: &mut World,
        at: usize,
        code: u16,
        now: Affiliation,
        actor: Option<&str>,
        reason: Option<&str>,
    ) -> Option<Parted> {
        let now = (now, RoomRole::None);
        let shown = ShownPresence {
            is_gone: true,
            now: Some(now),
            actor,
            reason,
            codes: vec![code],
            ..ShownPresence::default()
        };
        let occupant = self.remove(world, at, &shown)?;
        Some((occupant, vec![code], reason.map(str::to_owned), now))
    }

    fn tell_all_parted(&mut self, world: &mut World, parted: Vec<Parted>, actor: Option<&str>) {
        for (occupant, codes, reason, now) in parted {
            let reason = reason.as_deref();
            let shown =
                ShownPresence { is_gone: true, now: Some(now), actor, reason, codes, ..ShownPresence::default() };
            self.tell_parted(world, Some(&occupant), &shown);
        }
    }

    fn show_affiliation(
        &mut self,
        world: &mut World,
        at: usize,
        before: Affiliation,
        now: Affiliation,
        actor: Option<&str>,
        reason: Option<&str>,
    ) {
        let Some(occupant) = self.occupants.get_mut(at) else { return };
        occupant.affiliation = now;
        let role = occupant.role.after(before, now, self.config.is_moderated);
        self.become_role(world, at, role);
        self.announce(world, at, &ShownPresence { actor, reason, ..ShownPresence::default() });
    }

    /// Moves an occupant's sessions to the audience that its role has. An occupant that is no
    /// longer broadcast vanishes for the others.
    fn become_role(&mut self, world: &mut World, at: usize, role: RoomRole) {
        let Some(occupant) = self.occupants.get(at) else { return };
        let (before, own) = (occupant.role, occupant.addresses());
        if self.is_broadcast(before) && !self.is_broadcast(role) {
            self.show(world, at, &ShownPresence { is_gone: true, ..ShownPresence::default() }, &own);
        }
        for session in &own {
            world.strike(self.roll(before), session.as_ref());
            world.enroll(self.roll(role), session.as_ref());
        }
        if let Some(occupant) = self.occupants.get_mut(at) {
            occupant.role = role;
            occupant.changed();
            if self.config.is_moderated && self.voices.note(&occupant.account, occupant.affiliation, role) {
                self.keep_soon();
            }
        }
        match role {
            RoomRole::Moderator => self.moderating.insert(at),
            _ => self.moderating.remove(&at),
        };
        if role == RoomRole::Moderator && before != role && !self.config.is_nonanonymous {
            self.show_real_jids(world, at);
        }
    }

    /// Shows a new moderator the real JIDs of the others (§5.1.1).
    fn show_real_jids(&mut self, world: &mut World, at: usize) {
        let mut packets = Vec::new();
        for other in self.visible().into_iter().filter(|other| *other != at) {
            packets.extend(self.presence_of(other, true));
        }
        let Some(occupant) = self.occupants.get(at) else { return };
        for session in occupant.addresses() {
            world.bundle(packets.clone(), &session);
        }
    }

    /// Notes the affiliation of a user, with the nick that it reserves. The user's pending
    /// application ends, and so does a remembered voice that differs from the new one.
    pub(crate) fn note_affiliation(&mut self, change: &Affiliated) {
        let before = self.affiliations.remove(&change.user);
        debug_assert!(
            self.affiliation_bytes >= before.as_ref().map_or(0, bytes_of),
            "the bytes of an affiliation were counted"
        );
        self.affiliation_bytes -= before.as_ref().map_or(0, bytes_of);
        self.waiting.retain(|waiting| waiting.user != change.user);
        if before.as_ref().map_or(Affiliation::None, |before| before.affiliation) != change.affiliation {
            self.voices.forget(change.user.as_ref());
        }
        if let Some(key) = before.and_then(|before| nick_key(before.nick.as_deref()?)) {
            self.reserved.remove(&key);
        }
        if change.affiliation != Affiliation::None {
            if let Some(key) = change.nick.as_deref().and_then(nick_key) {
                self.reserved.insert(key, change.user.clone());
            }
            self.affiliation_bytes += bytes_of(change);
            self.affiliations.insert(change.user.clone(), change.clone());
        }
    }

    /// Stores changes that no request waits for.
    pub(crate) fn keep_affiliations(&mut self, world: &mut World, changes: Vec<Affiliated>) {
        if self.is_stored() && !changes.is_empty() {
            self.affiliate(world, changes, |_, _| {});
        }
    }

    /// Stores changes of affiliations.
    pub(crate) fn affiliate(
        &self,
        world: &mut World,
        changes: Vec<Affiliated>,
        then: impl FnOnce(&mut World, Result<(), StoreError>) + 'static,
    ) {
        let room = self.jid.clone();
        let users: Vec<_> = changes.iter().map(|change| change.user.clone()).collect();
        world.state_mut::<Unsaved>().begin(&room);
        let kept = world.stores.rooms.affiliate(room.as_ref(), changes);
        world.wait(kept, move |world, kept| {
            world.state_mut::<Unsaved>().end(&room, kept.is_ok(), users);
            if let Err(error) = &kept {
                world.store_failed("keeping affiliations", &room, error);
            }
            then(world, kept.map(drop));
        });
    }

    /// Returns the nick by which the actor is known in the room; without one, the actor is left out
    /// (§8.2).
    pub(crate) fn actor_nick(&self, session: &Jid) -> Option<String> {
        let occupant = self.occupant_of(session).and_then(|at| self.occupants.get(at))?;
        Some(occupant.nick().to_owned())
    }
}

/// The status of a user who is banned (§15.6).
const BANNED: u16 = 301;
/// The status of an occupant that is kicked (§15.6).
const KICKED: u16 = 307;
/// The status of an occupant that is removed because of a change of affiliation (§15.6).
const NOT_A_MEMBER: u16 = 321;
/// The status of an occupant that is removed because the room is members-only now (§15.6).
const NOW_MEMBERS_ONLY: u16 = 322;
