//! Requests of owners: the configuration (XEP-0045 §10.1, §10.2) and the end of a room (§10.9).

use rookery_base::Map;
use std::collections::BTreeSet;

use rookery_hub::{Iq, World};
use rookery_jid::Jid;
use rookery_modkit::form::{Field, Form};
use rookery_store::{Affiliated, Affiliation, StoreError};
use rookery_stream::error::{Condition, StanzaError};
use rookery_xml::{Element, Writer, ns};

use super::config::{ADMINS, OWNERS, ROOMCONFIG, RoomConfig, unacceptable};
use super::keep::reply_to_change;
use super::leave::destroy_element;
use super::room::Room;
use super::spread;
use super::unsaved;

impl Room {
    /// Carries out a request in `muc#owner`.
    pub(crate) fn owner_asked(&mut self, world: &mut World, iq: &Iq) -> Result<(), StanzaError> {
        if self.affiliation_of(world, iq.from.as_ref()) != Affiliation::Owner {
            // §17.2: a locked room doesn't exist for others.
            let condition = if self.is_locked { Condition::ItemNotFound } else { Condition::Forbidden };
            return Err(condition.into());
        }
        if !iq.set {
            return self.show_form(world, iq);
        }
        if let Some(destroy) = iq.payload.child("destroy", ns::MUC_OWNER) {
            return self.destroy(world, iq, &destroy_element(destroy));
        }
        let form = Form::within(&iq.payload).ok_or(Condition::BadRequest)?;
        match form.type_() {
            "submit" => self.configure(world, iq, &form),
            // §10.1.3: cancelling the first form destroys the room; §10.2: cancelling later ones
            // changes nothing.
            "cancel" if self.is_locked => self.destroy(world, iq, &Element::new("destroy", ns::MUC_USER)),
            "cancel" => {
                world.reply_done(iq);
                Ok(())
            }
            _ => Err(Condition::BadRequest.into()),
        }
    }

    fn show_form(&mut self, world: &mut World, iq: &Iq) -> Result<(), StanzaError> {
        let of = |wanted| {
            let users = self.affiliations.values().filter(move |one| one.affiliation == wanted);
            users.map(|one| one.user.to_string()).collect::<BTreeSet<_>>()
        };
        let form = self.config.form(self.jid.as_str(), &self.limits);
        let bytes = |users: &BTreeSet<String>| users.iter().map(String::len).sum::<usize>();
        // Longer lists need `muc#admin`, which takes single changes.
        let lists = [(ADMINS, "Admins", Affiliation::Admin), (OWNERS, "Owners", Affiliation::Owner)];
        let lists = lists.map(|(var, label, affiliation)| (var, label, of(affiliation)));
        let form = lists
            .into_iter()
            .filter(|(.., users)| users.len() <= MOST_LISTED && bytes(users) <= MOST_BYTES)
            .fold(form, |form, (var, label, users)| form.field(Field::jid_multi(var).label(label).with_values(users)));
        let mut reply = iq.result();
        reply.start_ns("query", ns::MUC_OWNER).element(&form.element());
        world.reply(iq, reply);
        Ok(())
    }

    fn configure(&mut self, world: &mut World, iq: &Iq, form: &Form) -> Result<(), StanzaError> {
        if form.form_type().is_some_and(|type_| type_ != ROOMCONFIG) {
            return Err(Condition::BadRequest.into());
        }
        let new = self.config.with_submitted(form, &self.limits)?;
        let changes = self.read_lists(form)?;
        // An instant room (§10.1.2) becomes persistent once a message was sent in it.
        let is_configured = form.fields().any(|field| field.var() != "FORM_TYPE");
        let stays = new.is_persistent && (is_configured || self.is_stored());
        let (actor, iq) = (self.actor_nick(&iq.from), iq.clone());
        self.reconfigure(world, new, |room, world| {
            room.tell_absent(world, &changes, &iq.from);
            room.set_affiliations(world, changes.clone(), actor.as_deref(), |room, world| {
                room.keep_configured(world, stays, changes, move |world, kept| reply_to_change(world, &iq, kept));
            });
        });
        Ok(())
    }

    /// Applies another configuration, and tells the occupants. `between` runs before they are told.
    pub(crate) fn reconfigure(
        &mut self,
        world: &mut World,
        new: RoomConfig,
        between: impl FnOnce(&mut Self, &mut World),
    ) {
        let old = std::mem::replace(&mut self.config, new);
        let was_locked = std::mem::replace(&mut self.is_locked, false);
        self.history.shorten(self.config.history);
        self.occupants.iter_mut().for_each(|(_, occupant)| occupant.changed());
        between(self, world);
        if !was_locked {
            self.tell_changes(world, &old);
        }
        if self.config.is_members_only && !old.is_members_only {
            self.remove_strangers(world);
        }
    }

    /// Returns the affiliations gained and lost by the full lists in a form.
    fn read_lists(&self, form: &Form) -> Result<Vec<Affiliated>, StanzaError> {
        let mut now = Map::default();
        for (var, affiliation) in [(ADMINS, Affiliation::Admin), (OWNERS, Affiliation::Owner)] {
            if !form.has(var) {
                continue;
            }
            let users = form.values(var).filter(|text| !text.trim().is_empty());
            let users: Vec<_> =
                users.map(|text| Jid::parse(text.trim())).collect::<Result<_, _>>().map_err(|_| unacceptable(var))?;
            let users: BTreeSet<_> = users.iter().map(Jid::to_bare).collect();
            let gone =
                self.affiliations.values().filter(|one| one.affiliation == affiliation && !users.contains(&one.user));
            for one in gone {
                now.entry(one.user.clone()).or_insert(Affiliation::None);
            }
            let new = users.into_iter().filter(|user| self.kept_affiliation(user.as_ref()) != affiliation);
            now.extend(new.map(|user| (user, affiliation)));
        }
        self.leaves_an_owner(&now)?;
        let nick = |user: &Jid| self.affiliations.get(user).and_then(|before| before.nick.clone());
        let kept = |affiliation| affiliation > Affiliation::None;
        let changes = now.into_iter().map(|(user, affiliation)| {
            let nick = nick(&user).filter(|_| kept(affiliation));
            Affiliated { user, affiliation, nick, reason: None }
        });
        let changes: Vec<_> = changes.collect();
        self.has_place_for(&changes)?;
        Ok(changes)
    }

    /// Tells the occupants of the changes, by the codes of §10.2.1.
    fn tell_changes(&self, world: &mut World, old: &RoomConfig) {
        let new = &self.config;
        let mut codes = Vec::new();
        if new.is_logged != old.is_logged {
            codes.push(if new.is_logged { "170" } else { "171" });
        }
        if new.is_nonanonymous != old.is_nonanonymous {
            codes.push(if new.is_nonanonymous { "172" } else { "173" });
        }
        let same = RoomConfig { is_logged: new.is_logged, is_nonanonymous: new.is_nonanonymous, ..old.clone() };
        if same != *new {
            codes.push("104");
        }
        if !codes.is_empty() {
            self.tell_codes(world, &codes);
        }
    }

    /// Sends a message from the room with status codes.
    pub(crate) fn tell_codes(&self, world: &mut World, codes: &[&str]) {
        let mut message = Writer::new("message");
        message.attr("type", "groupchat").attr("id", &world.unique_text()).attr("from", self.jid.as_str());
        message.start_ns("x", ns::MUC_USER);
        for code in codes {
            message.start("status").attr("code", code).end();
        }
        if let Ok(packet) = rookery_fanout::Packet::from_built(&message.finish()) {
            self.send_to_all(world, &packet);
        }
    }

    /// Destroys the room for its owner (§10.9).
    fn destroy(&mut self, world: &mut World, iq: &Iq, destroy: &Element) -> Result<(), StanzaError> {
        let iq = iq.clone();
        self.destroy_with(world, destroy, move |world, removed| reply_to_change(world, &iq, removed));
        Ok(())
    }

    /// Destroys the room, for an owner or anyone else; calls `then` when the store has forgotten
    /// it, or failed to.
    pub(crate) fn destroy_with(
        &mut self,
        world: &mut World,
        destroy: &Element,
        then: impl FnOnce(&mut World, Result<(), StoreError>) + 'static,
    ) {
        self.remove_all(world, Vec::new(), Some(destroy));
        let was_stored = self.is_stored();
        self.forget_past(world);
        self.is_over = true;
        spread::remove(world, self.jid.as_ref());
        if !was_stored {
            return then(world, Ok(()));
        }
        unsaved::remove(world, &self.jid, then);
    }
}

/// The most users of a list in the form.
const MOST_LISTED: usize = 1000;
/// The most bytes of such a list, so that the form fits one stanza.
const MOST_BYTES: usize = 64 * 1024;
