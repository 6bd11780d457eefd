//! The room's past: its archive (XEP-0313 §5.1.2), the history for users who enter, the log.
//!
//! An archive knows who wrote each message. Users who may not see real addresses get its messages
//! without them.

use rookery_archive::{
    self as archive, ArchiveRecord, ArchiveView, NAME as ARCHIVE, NewestMessage, Retracted, stanza_id, tombstone_mark,
};
use rookery_fanout::Packet;
use rookery_hub::{Iq, World};
use rookery_modkit::payload;
use rookery_store::{Affiliation, ArchiveOf};
use rookery_stream::error::{Condition, StanzaError};
use rookery_xml::{Element, Stanza, Writer, ns};

use super::history::MOST_BYTES;
use super::role::{RoomRole, affiliation_name};
use super::room::Room;
use super::said;

impl Room {
    /// Returns whether messages go into the room's archive: if the owner wants it and the operator
    /// enables archives.
    pub(crate) fn is_archived(&self, world: &World) -> bool {
        let domain = world.domain_of(self.jid.domain());
        self.config.is_archived && domain.is_some_and(|domain| domain.module(ARCHIVE).is_some())
    }

    /// Records a message of an occupant, or of the room itself, and returns its id from now on: the
    /// archive's, if it is archived. `before` is the id that it had already, if any.
    pub(crate) fn record(
        &mut self,
        world: &mut World,
        at: Option<usize>,
        packet: &Packet,
        before: Option<String>,
    ) -> String {
        let id = before.as_deref().and_then(archive::id::read);
        let recorded = self.is_archived(world).then(|| {
            let occupant = at.and_then(|at| self.occupants.get(at));
            let with = occupant.map_or(&self.jid, |occupant| &occupant.jid).clone();
            let stanza = match occupant {
                None => packet.clone(),
                Some(occupant) => {
                    let mut who = Writer::with_ns("x", ns::MUC_USER);
                    who.start("item").attr("affiliation", affiliation_name(occupant.affiliation));
                    who.opt_attr("jid", occupant.seat().map(|seat| seat.jid.as_str()))
                        .attr("role", occupant.role.name());
                    who.end();
                    // Only those who could see the address at the time may see it later.
                    if self.config.is_nonanonymous {
                        who.start("status").attr("code", "100").end();
                    }
                    packet.with_child(&who.finish())
                }
            };
            let stanza = stanza.bytes().to_vec();
            let by = self.jid.as_ref();
            let record = ArchiveRecord {
                owner: self.jid.as_ref(),
                of: ArchiveOf::Room,
                by,
                with,
                contacts_only: false,
                stanza,
                mark: None,
                id,
            };
            archive::record(world, record)
        });
        recorded.flatten().or(before).unwrap_or_else(|| world.unique_text())
    }

    /// Adds a message to the history and the log. Every lasting message of the room passes here,
    /// with the room's id for it.
    pub(crate) fn remember(
        &mut self,
        world: &mut World,
        at: usize,
        packet: &Packet,
        stanza: Stanza<'_>,
        id: &str,
        is_subject: bool,
    ) {
        let sender = self.occupants.get(at).map(|occupant| occupant.id.clone()).unwrap_or_default();
        if let Some(retracted) = stanza.child("retract", ns::RETRACT).and_then(|retract| retract.attr("id")) {
            // XEP-0424 §4: an occupant who enters now doesn't get it any more.
            self.history.retract(&retracted, Some(&sender));
            // A tombstone names the retracting message: one without an id leaves none.
            if let Some(own) = stanza.id() {
                self.bury(world, &retracted, Some(sender.clone()), tombstone_mark(&own, world.time()));
            }
        }
        self.log_message(world, at, stanza, is_subject);
        // §7.2.13: the subject isn't part of the history.
        if !is_subject && is_lasting(stanza) {
            self.history.push(&self.jid, packet, id, &sender, world.time(), self.config.history);
        }
    }

    /// Fills the history of a loaded room from its archive, with what was said before all occupants
    /// left or the process died, and passes the room to `then`. If the room `is_recovered` from a
    /// node that has died, its last messages may be sent again.
    pub(crate) fn with_past(
        mut self,
        world: &mut World,
        is_recovered: bool,
        then: impl FnOnce(&mut World, Self) + 'static,
    ) {
        // Not every archived message belongs to the history.
        let most = self.config.history.saturating_mul(2).max(if is_recovered { MOST_RECALLED } else { 0 });
        if most == 0 || !self.is_archived(world) {
            return then(world, self);
        }
        let jid = self.jid.clone();
        archive::newest(world, &jid, (most, MOST_BYTES), move |world, messages| {
            if is_recovered {
                self.recall_ids(world, &messages);
            }
            messages.into_iter().for_each(|message| self.recall(message));
            then(world, self);
        });
    }

    /// Recalls under which ids the archive has the messages that may be sent again.
    fn recall_ids(&self, world: &mut World, messages: &[NewestMessage]) {
        let after_ms = world.time().saturating_sub(world.longest_absence_ms());
        for message in messages.iter().filter(|message| message.unix_ms >= after_ms) {
            if let Some(mark) = said::mark(world, &self.jid, &message.packet) {
                said::recall(world, &self.jid, mark, &message.id);
            }
        }
    }

    /// Adds a message of the archive to the history, as occupants have seen it: without the real
    /// address of its sender. Messages that [`Room::remember`] leaves out, and the room's own, are
    /// left out.
    fn recall(&mut self, NewestMessage { id, unix_ms, packet }: NewestMessage) {
        let stanza = packet.stanza();
        let is_gone = stanza.child("retracted", ns::RETRACT).is_some();
        let pseudonym = stanza.child("occupant-id", ns::OCCUPANT_ID);
        let sender = pseudonym.and_then(|pseudonym| Some(pseudonym.attr("id")?.into_owned()));
        let Some(sender) = sender.filter(|_| is_lasting(stanza) && !is_subject(stanza) && !is_gone) else { return };
        let seen = packet.without_children(|child| child.is("x", ns::MUC_USER));
        let seen = seen.with_child(&stanza_id(self.jid.as_ref(), &id));
        self.history.push(&self.jid, &seen, &id, &sender, unix_ms, self.config.history);
    }

    /// Leaves a tombstone of a message in the archive (XEP-0424 §5). If `sender` is given, it must
    /// be the pseudonym of the message's sender.
    pub(crate) fn bury(&self, world: &mut World, id: &str, sender: Option<String>, retracted: Element) {
        if self.is_archived(world) {
            let message = Retracted::InRoom { id: id.to_owned(), sender };
            archive::retract(world, self.jid.as_ref(), message, retracted);
        }
    }

    /// Carries out a request for the archive: for those who are in the room, or might be.
    pub(crate) fn archive_asked(&mut self, world: &mut World, iq: &Iq) -> Result<(), StanzaError> {
        if !self.is_archived(world) {
            return Err(Condition::ServiceUnavailable.into());
        }
        let affiliation = self.affiliation_of(world, iq.from.as_ref());
        let role = self.role_of(&iq.from);
        let is_open = !self.is_locked && !self.config.is_members_only && self.config.password.is_empty();
        if affiliation == Affiliation::Outcast
            || (role == RoomRole::None && affiliation == Affiliation::None && !is_open)
        {
            return Err(Condition::Forbidden.into());
        }
        let view = match self.config.is_nonanonymous {
            _ if role == RoomRole::Moderator || affiliation >= Affiliation::Admin => ArchiveView::Room,
            true => ArchiveView::OpenRoom,
            false => ArchiveView::WithoutJids,
        };
        archive::answer(world, iq.clone(), view);
        Ok(())
    }

    /// Empties the archive: a new room of the same name must not show the messages of the old one.
    pub(crate) fn forget_past(&mut self, world: &mut World) {
        let room = self.jid.clone();
        archive::write(world);
        let purged = world.stores.archive.purge(room.as_ref());
        world.wait(purged, move |world, purged| {
            if let Err(error) = purged {
                world.store_failed("emptying the archive of a room", &room, &error);
            }
        });
    }
}

/// Returns whether a message still matters to users who enter later: it isn't a chat state, and
/// doesn't ask not to be stored (XEP-0334 §4).
pub(crate) fn is_lasting(stanza: Stanza<'_>) -> bool {
    if stanza.child("no-store", ns::HINTS).is_some() {
        return false;
    }
    stanza.has_body()
        || stanza.child("store", ns::HINTS).is_some()
        || stanza.children().any(|child| payload::is_lasting(&child))
}

/// Returns whether a message changes the subject (§8.1): it has one, and neither body nor thread.
pub(crate) fn is_subject(stanza: Stanza<'_>) -> bool {
    let in_stream = |name| stanza.child(name, ns::CLIENT).is_some();
    !stanza.has_body() && in_stream("subject") && !in_stream("thread")
}

/// The number of archived messages of a recovered room whose ids are recalled: more than a room
/// passes on while it can't leave notes.
const MOST_RECALLED: usize = 100;
