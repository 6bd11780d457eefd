//! Writes a room to the store whenever it changes; it is read when a user enters after it was
//! dropped from memory.

use rookery_hub::{Iq, World};
use rookery_jid::{Jid, JidRef};
use rookery_store::{Affiliated, Affiliation, RoomDocument, StoreError};
use rookery_xml::{Element, Writer};

use super::kept::FORMAT;
use super::room::Room;
use super::unsaved::{self, Unsaved, UnsavedChanges, not_kept_yet};

impl Room {
    pub(super) fn document(&self) -> RoomDocument {
        let mut document = Element::new("room", FORMAT);
        document.push_child(self.config.document().element());
        if self.is_locked {
            document.push_child(Element::new("locked", FORMAT));
        }
        document.push_child(Element::new("secret", FORMAT).with_text(&self.secret));
        let list = Element::new("hat-list", FORMAT);
        document.push_child(self.hat_list.iter().cloned().fold(list, Element::with_child));
        let hats = self.hats.iter().map(|(wearer, hats)| {
            let worn = Element::new("hats", FORMAT).with_attr("jid", wearer.as_str());
            hats.iter().cloned().fold(worn, Element::with_child)
        });
        let waiting = self.waiting.iter().map(|waiting| waiting.element(FORMAT));
        // In a part of their own: the next owner of a removed account's name must have neither its
        // hats nor its voice.
        let said = hats.chain(waiting).chain(self.voices.elements(FORMAT));
        let of_users = said.filter_map(|said| {
            let user = Jid::parse(said.attr("jid")?).ok()?;
            Some((user, Writer::write(&said).into_bytes()))
        });
        RoomDocument {
            name: self.name().to_owned(),
            is_public: self.is_listed(),
            archive_days: self.config.archive_days,
            config: Writer::write(&document).into_bytes(),
            subject: self.subject.as_ref().map(|subject| subject.bytes().to_vec()),
            vcard: self.vcard.as_ref().map(|vcard| Writer::write(vcard).into_bytes()),
            of_users: of_users.collect(),
            creator: self.creator.clone(),
        }
    }

    /// Notes a change other than to an affiliation: it is stored once the room has finished the
    /// request, so that a request with many changes causes one write.
    pub(crate) fn keep_soon(&mut self) {
        self.is_changed = true;
    }

    /// Stores the noted changes.
    pub(crate) fn keep_changes(&mut self, world: &mut World) {
        if self.is_changed {
            self.keep_document(world, None);
        }
    }

    /// Stores everything but the affiliations, if the room is persistent, and then replies to a
    /// request.
    pub(crate) fn keep_document(&mut self, world: &mut World, iq: Option<&Iq>) {
        self.is_changed = false;
        if !self.is_stored() {
            iq.into_iter().for_each(|iq| world.reply_done(iq));
            return;
        }
        let (room, iq) = (self.jid.clone(), iq.cloned());
        world.state_mut::<Unsaved>().begin(&room);
        let kept = world.stores.rooms.put(room.as_ref(), self.document());
        world.wait(kept, move |world, kept| {
            world.state_mut::<Unsaved>().end(&room, kept.is_ok(), []);
            if let Err(error) = &kept {
                world.store_failed("keeping a room", &room, error);
            }
            if let Some(iq) = iq {
                reply_to_change(world, &iq, kept);
            }
        });
    }

    /// Stores a new configuration with changes of affiliations, then calls `then`. A persistent
    /// room is written whole; one that no longer is gets removed from the store.
    pub(crate) fn keep_configured(
        &mut self,
        world: &mut World,
        stays: bool,
        changes: Vec<Affiliated>,
        then: impl FnOnce(&mut World, Result<(), StoreError>) + 'static,
    ) {
        let was_stored = self.is_stored();
        self.is_changed = false;
        self.set_stored(world, stays);
        let room = self.jid.clone();
        let rooms = world.stores.rooms.clone();
        let changes: Vec<_> = if was_stored { changes } else { self.affiliations.values().cloned().collect() };
        let users: Vec<_> = changes.iter().map(|change| change.user.clone()).collect();
        match (was_stored, self.is_stored()) {
            (false, false) => then(world, Ok(())),
            (true, false) => unsaved::remove(world, &room, then),
            (_, true) => {
                world.state_mut::<Unsaved>().begin(&room);
                let put = rooms.put(room.as_ref(), self.document());
                let affiliated = rooms.affiliate(room.as_ref(), changes);
                let answer = move |world: &mut World, kept: Result<(), StoreError>| {
                    world.state_mut::<Unsaved>().end(&room, kept.is_ok(), users);
                    if let Err(error) = &kept {
                        world.store_failed("keeping a room", &room, error);
                    }
                    then(world, kept);
                };
                // The store keeps the order: the second write is done after the first.
                world.wait(put, move |world, put| match put {
                    Ok(()) => world.wait(affiliated, move |world, kept| answer(world, kept.map(drop))),
                    Err(error) => answer(world, Err(error)),
                });
            }
        }
    }

    /// Makes the room persistent now that a message was sent in it, if its configuration says so.
    pub(crate) fn become_persistent(&mut self, world: &mut World) {
        if self.config.is_persistent && !self.is_stored() {
            self.keep_configured(world, true, Vec::new(), |_, _| {});
        }
    }

    /// Writes what the store lacks.
    pub(crate) fn save_again(&mut self, world: &mut World, lack: UnsavedChanges) {
        if lack.is_destroyed {
            unsaved::remove(world, &self.jid, |_, _| {});
        }
        if !lack.is_refused || !self.is_stored() {
            return;
        }
        let users = if lack.is_destroyed { self.affiliations.keys().cloned().collect() } else { lack.users };
        let changes: Vec<_> = users.iter().map(|user| self.affiliated_now(user.as_ref())).collect();
        self.keep_document(world, None);
        self.keep_affiliations(world, changes);
    }

    fn affiliated_now(&self, user: JidRef<'_>) -> Affiliated {
        let none = || Affiliated { user: user.to_jid(), affiliation: Affiliation::None, nick: None, reason: None };
        self.affiliations.get(user.bare_str()).cloned().unwrap_or_else(none)
    }

    /// Returns whether a user may learn what happens in the room without being there (§6.5): not if
    /// the room isn't open to all.
    pub(crate) fn is_open_to(&self, world: &World, user: &Jid) -> bool {
        let is_open = !self.config.is_members_only && self.config.password.is_empty() && self.config.is_public;
        let affiliation = self.affiliation_of(world, user.as_ref());
        affiliation != Affiliation::Outcast
            && (is_open || affiliation > Affiliation::None || self.occupant_of(user).is_some())
    }
}

/// Replies to a change once the store has accepted or refused it.
pub(crate) fn reply_to_change(world: &mut World, iq: &Iq, kept: Result<(), StoreError>) {
    match kept {
        Ok(()) => world.reply_done(iq),
        Err(error) => world.reply_error(iq, not_kept_yet(&error)),
    }
}
