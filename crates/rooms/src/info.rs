//! Service discovery of a room (XEP-0045 §6.4, §6.5), and of the nick that a user has reserved
//! there (§7.12).

use rookery_hub::{Iq, World};
use rookery_jid::Jid;
use rookery_modkit::disco::{DiscoIdentity, Info};
use rookery_modkit::form::{Field, Form};
use rookery_store::Affiliation;
use rookery_stream::error::{Condition, StanzaError};
use rookery_xml::{Element, ns};

use super::config::{HISTORY, PUBSUB, SUBJECT};
use super::items::reply_items;
use super::role::RoomRole;
use super::room::Room;

impl Room {
    /// Replies with service discovery information.
    pub(crate) fn info(&self, world: &mut World, iq: &Iq) -> Result<(), StanzaError> {
        // §17.2: a locked room doesn't exist for others.
        if self.is_locked && self.affiliation_of(world, iq.from.as_ref()) < Affiliation::Owner {
            return Err(Condition::ItemNotFound.into());
        }
        match iq.payload.attr("node").filter(|node| !node.is_empty()) {
            None => {}
            Some(RESERVED_NICK) => return self.nick_info(world, iq),
            // §17.1.1: nothing is discarded.
            Some(TRAFFIC) => return Err(Condition::ServiceUnavailable.into()),
            Some(_) => return Err(Condition::ItemNotFound.into()),
        }
        let identity = DiscoIdentity { category: "conference", type_: "text", name: Some(self.name()) };
        let mut features = self.features();
        if self.is_archived(world) {
            features.extend([ns::MAM, ns::MAM_EXTENDED, ns::FULLTEXT]);
        }
        features.sort_unstable();
        let info = Info { identity, more: &[], features, forms: vec![self.room_info(world, &iq.from)] };
        let mut reply = iq.result();
        info.write(&mut reply, None);
        world.reply(iq, reply);
        Ok(())
    }

    /// Replies with the items that belong to the room (§6.5).
    pub(crate) fn items(&self, world: &mut World, iq: &Iq) -> Result<(), StanzaError> {
        if self.is_locked && self.affiliation_of(world, iq.from.as_ref()) < Affiliation::Owner {
            return Err(Condition::ItemNotFound.into());
        }
        match iq.payload.attr("node").filter(|node| !node.is_empty()) {
            None => self.list_occupants(world, iq)?,
            Some(ns::COMMANDS) => self.list_commands(world, iq),
            Some(_) => return Err(Condition::ItemNotFound.into()),
        }
        Ok(())
    }

    /// Lists the occupants: for those inside, and for every user if any user may find the room and
    /// enter it.
    fn list_occupants(&self, world: &mut World, iq: &Iq) -> Result<(), Condition> {
        let config = &self.config;
        let is_open = config.is_public && !config.is_members_only && config.password.is_empty();
        let may_know = is_open || self.role_of(&iq.from) != RoomRole::None;
        let shown = self.occupants.iter().filter(|(_, occupant)| may_know && self.is_broadcast(occupant.role));
        let mut items: Vec<_> = shown.map(|(_, occupant)| (occupant.jid.as_str(), occupant.nick())).collect();
        items.sort_unstable();
        reply_items(world, iq, &items)
    }

    fn features(&self) -> Vec<&'static str> {
        let config = &self.config;
        let either = |is: bool, yes, no| if is { yes } else { no };
        let mut features = FEATURES.to_vec();
        features.extend([
            either(config.is_public, "muc_public", "muc_hidden"),
            either(config.is_persistent, "muc_persistent", "muc_temporary"),
            either(config.is_members_only, "muc_membersonly", "muc_open"),
            either(config.is_moderated, "muc_moderated", "muc_unmoderated"),
            either(config.is_nonanonymous, "muc_nonanonymous", "muc_semianonymous"),
            either(config.password.is_empty(), "muc_unsecured", "muc_passwordprotected"),
        ]);
        features
    }

    /// Returns the form with extended information about the room (§15.5.4). Only users who may be
    /// in the room learn what happens inside.
    fn room_info(&self, world: &World, asker: &Jid) -> Element {
        let form = Form::new("result")
            .hidden("FORM_TYPE", "http://jabber.org/protocol/muc#roominfo")
            .field(Field::text_single("muc#roominfo_description").label("Description").value(&self.config.description))
            .field(Field::boolean(SUBJECT, self.config.subject_by_all).label("Participants may change the subject"))
            .field(
                Field::text_single(HISTORY)
                    .label("Messages shown to users who enter")
                    .value(&self.config.history.to_string()),
            );
        let form = match self.config.lang.as_str() {
            "" => form,
            lang => form.field(Field::text_single("muc#roominfo_lang").label("Language").value(lang)),
        };
        let form = match self.config.pubsub.as_str() {
            "" => form,
            uri => form.field(Field::text_single(PUBSUB).label("Publish-subscribe node").value(uri)),
        };
        let form = match self.is_open_to(world, asker) {
            false => form,
            true => form
                .field(Field::text_single("muc#roominfo_subject").label("Subject").value(&self.subject_text()))
                .field(
                    Field::text_single("muc#roominfo_occupants")
                        .label("Occupants")
                        .value(&self.occupants.len().to_string()),
                ),
        };
        let hashes = self.avatar_hashes.iter().map(String::as_str);
        let form = match self.avatar_hashes.is_empty() {
            true => form,
            false => form.field(Field::text_multi("muc#roominfo_avatarhash").label("Avatar").with_values(hashes)),
        };
        form.element()
    }

    fn subject_text(&self) -> String {
        let text =
            |subject: &rookery_fanout::Packet| Element::read(&subject.stanza()).child_text("subject", ns::CLIENT);
        self.subject.as_ref().and_then(text).unwrap_or_default()
    }

    fn nick_info(&self, world: &mut World, iq: &Iq) -> Result<(), StanzaError> {
        let mut reply = iq.result();
        reply.start_ns("query", ns::DISCO_INFO).attr("node", RESERVED_NICK);
        if let Some(nick) = self.reserved_nick(&iq.from) {
            reply.start("identity").attr("category", "conference").attr("type", "text").attr("name", nick).end();
        }
        world.reply(iq, reply);
        Ok(())
    }
}

/// The features of a service and of each of its rooms.
pub(crate) const FEATURES: [&str; 15] = [
    ns::COMMANDS,
    ns::DISCO_INFO,
    ns::DISCO_ITEMS,
    ns::HATS,
    ns::MODERATE,
    ns::MUC,
    "http://jabber.org/protocol/muc#stable_id",
    ns::OCCUPANT_ID,
    ns::PING,
    ns::REGISTER,
    ns::RETRACT,
    ns::RETRACT_TOMBSTONE,
    ns::SELF_PING,
    ns::STANZA_ID,
    ns::VCARD,
];

const RESERVED_NICK: &str = "x-roomuser-item";
const TRAFFIC: &str = "http://jabber.org/protocol/muc#traffic";
