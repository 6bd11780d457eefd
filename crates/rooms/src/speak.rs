//! Messages: to all occupants (XEP-0045 §7.4), the subject (§8.1), to one occupant (§7.5), and
//! errors that come back (§18.1).

use rookery_archive::{self as archive, stanza_id};
use rookery_fanout::{Packet, StanzaType};
use rookery_hub::{Memo, Step, World};
use rookery_jid::{Jid, JidRef};
use rookery_stream::error::{Condition, StanzaError};
use rookery_xml::{Child, Element, Stanza, Writer, ns};
use serde::{Deserialize, Serialize};

use super::past::{is_lasting, is_subject};
use super::role::{RoomRole, affiliation_name};
use super::room::Room;
use super::said;
use super::shown::is_forged;

/// A private message on its way to the home of its recipient's account, which knows the users that
/// the account has blocked, by whatever name they have in a room.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Whisper {
    packet: Packet,
    by: Jid,
    to: Vec<Jid>,
}

impl Memo for Whisper {
    const NAME: &'static str = "rooms whisper";

    /// Delivers the message to its sessions. The sender isn't told about a block, which would
    /// reveal who has a nick.
    fn open(self, world: &mut World) {
        let Self { packet, by, to } = self;
        let is_blocked = to.first().is_some_and(|to| world.conceals(to.bare(), None, by.as_ref()));
        if is_blocked && let Some(to) = to.first() {
            world.sight(&packet, to.as_ref(), Step::Stopped, || format!("{} blocks {by} (XEP-0191)", to.bare()));
        }
        for session in to.iter().filter(|_| !is_blocked) {
            world.route(&packet, session.as_ref());
        }
    }

    fn home(&self) -> Option<Jid> {
        self.to.first().cloned()
    }

    /// Makes the room send the sender an error. Its condition doesn't mean that the session is
    /// gone, since that isn't known.
    fn refused(self, world: &mut World) {
        if let Some(to) = self.to.first() {
            let error =
                StanzaError::new(Condition::ResourceConstraint).with_text("the recipient can't be reached at present");
            world.bounce(&self.packet, to.as_ref(), error);
        }
    }
}

impl Room {
    /// Takes a message to the room or to an occupant.
    pub(crate) fn message(&mut self, world: &mut World, packet: &Packet, from: &Jid, to: JidRef<'_>) {
        if packet.type_() == StanzaType::Error {
            return self.error_came_back(world, packet, from, to);
        }
        if world.is_tracing() {
            self.explain(world, packet, from, to);
        }
        let stanza = packet.stanza();
        let outcome = match (to.resource(), packet.type_()) {
            (Some(_), StanzaType::Groupchat) => Err(Condition::BadRequest.into()),
            (Some(nick), _) => self.whisper(world, packet, stanza, from, nick),
            (None, StanzaType::Groupchat) => self.speak(world, packet, from),
            (None, _) => self.other_message(world, &Element::read(&stanza), from),
        };
        match outcome {
            Ok(()) => world.sight(packet, to, Step::Goes, || "the room passes it on, in its own name".into()),
            Err(error) => world.bounce(packet, to, error),
        }
    }

    /// Records the sender's role and affiliation in traces: they decide what a message may do
    /// (§5.1.1).
    #[cold]
    fn explain(&self, world: &World, packet: &Packet, from: &Jid, to: JidRef<'_>) {
        let Some(occupant) = self.occupant_of(from).and_then(|at| self.occupants.get(at)) else {
            return world.sight(packet, to, Step::Noted, || format!("{from} is not in the room"));
        };
        let (nick, role) = (occupant.jid.resource().unwrap_or_default(), occupant.role.name());
        let affiliation = affiliation_name(self.affiliation_of(world, from.bare()));
        let (count, moderated) = (self.occupants.len(), if self.config.is_moderated { ", moderated" } else { "" });
        world.sight(packet, to, Step::Noted, || {
            format!(
                "the sender is {nick} in the room, role {role}, affiliation {affiliation}; {count} occupants{moderated}"
            )
        });
    }

    /// Sends a message to all.
    fn speak(&mut self, world: &mut World, said: &Packet, from: &Jid) -> Result<(), StanzaError> {
        let stanza = said.stanza();
        let at = self.speaker(from)?;
        let rate = self.limits.messages;
        let is_subject = is_subject(stanza);
        let Some(occupant) = self.occupants.get_mut(at) else { return Err(Condition::NotAcceptable.into()) };
        let may = match occupant.role {
            RoomRole::Moderator => true,
            RoomRole::Participant => !is_subject || self.config.subject_by_all,
            // §7.4, §8.1.
            _ => false,
        };
        if !may {
            return Err(Condition::Forbidden.into());
        }
        if !occupant.pace.take(rate, world.time()) {
            return Err(StanzaError::new(Condition::ResourceConstraint).with_text("you are sending messages too fast"));
        }
        if is_subject && !self.may_change(world, at) {
            return Err(
                StanzaError::new(Condition::ResourceConstraint).with_text("the subject is being changed too often")
            );
        }
        if is_subject && stanza.bytes().len() > self.limits.subject {
            return Err(StanzaError::new(Condition::NotAcceptable).with_text("the subject is too long"));
        }
        let lasts = is_subject || is_lasting(stanza);
        if lasts
            && self.is_archived(world)
            && let Some(refusal) = archive::refusal(world, self.jid.as_ref(), stanza.bytes().len())
        {
            return Err(refusal);
        }
        let packet = self.reflection(stanza, at);
        let mark = said::mark(world, &self.jid, &packet).filter(|_| lasts);
        let before = said::id_before(world, &self.jid, said, mark);
        let is_known = before.is_some();
        let id = match lasts {
            true => self.record(world, Some(at), &packet, before),
            false => world.unique_text(),
        };
        if let Some(mark) = mark {
            said::note(world, &self.jid, mark, &id);
        }
        let packet = packet.with_child(&stanza_id(self.jid.as_ref(), &id));
        self.send_to_all(world, &packet);
        if is_subject {
            self.subject = Some(self.stamp(world, &packet));
            self.keep_soon();
        }
        if !(is_known && self.history.has(&id)) {
            self.remember(world, at, &packet, stanza, &id, is_subject);
        }
        if lasts {
            self.become_persistent(world);
        }
        Ok(())
    }

    /// Returns the occupant in whose name a session speaks.
    fn speaker(&self, from: &Jid) -> Result<usize, StanzaError> {
        // §17.2: a locked room doesn't exist for others, and no one else is in it.
        let stranger = if self.is_locked { Condition::ItemNotFound } else { Condition::NotAcceptable };
        self.occupant_of(from).ok_or(stranger.into())
    }

    /// Returns a message as the room sends it: from the occupant, with the sender's pseudonym
    /// (XEP-0421), and without elements that only the room may send.
    fn reflection(&self, stanza: Stanza<'_>, at: usize) -> Packet {
        let Some(occupant) = self.occupants.get(at) else {
            return Packet::from_session(stanza, StanzaType::Groupchat, self.jid.as_str(), None);
        };
        let packet = Packet::from_session(stanza, StanzaType::Groupchat, occupant.jid.as_str(), None);
        let packet = packet.without_children(|child| self.is_forged_in_message(child));
        let mut pseudonym = Writer::with_ns("occupant-id", ns::OCCUPANT_ID);
        pseudonym.attr("id", &occupant.id);
        packet.with_child(&pseudonym.finish())
    }

    /// Returns whether an element of a message is reserved for the room.
    fn is_forged_in_message(&self, child: &Child<'_>) -> bool {
        let names_room = |attr: &str| child.attr(attr).is_some_and(|jid| names(&jid, &self.jid));
        match &*child.ns() {
            ns::STANZA_ID => child.name() == "stanza-id" && names_room("by"),
            // XEP-0203 §4: a stamp seems to be the room's if it names the room or no one.
            ns::DELAY => child.attr("from").is_none() || names_room("from"),
            // XEP-0425 §5: only the room moderates.
            ns::RETRACT => child.children().any(|inner| inner.is("moderated", ns::MODERATE)),
            ns::MODERATE | ns::CARBONS | ns::MAM => true,
            _ => is_forged(child),
        }
    }

    /// Sends a private message.
    fn whisper(
        &mut self,
        world: &mut World,
        packet: &Packet,
        stanza: Stanza<'_>,
        from: &Jid,
        nick: &str,
    ) -> Result<(), StanzaError> {
        let at = self.speaker(from)?;
        let rate = self.limits.messages;
        let Some(sender) = self.occupants.get_mut(at) else { return Err(Condition::NotAcceptable.into()) };
        if self.config.private_messages == RoomRole::None || sender.role < self.config.private_messages {
            return Err(Condition::Forbidden.into());
        }
        if !sender.pace.take(rate, world.time()) {
            return Err(StanzaError::new(Condition::ResourceConstraint).with_text("you are sending messages too fast"));
        }
        let to = self.occupant_named(nick).ok_or(Condition::ItemNotFound)?;
        self.pass_on(world, packet.type_(), stanza, at, to);
        Ok(())
    }

    /// Delivers a message of one occupant to all sessions of another.
    fn pass_on(&self, world: &mut World, type_: StanzaType, stanza: Stanza<'_>, from: usize, to: usize) {
        let (Some(sender), Some(target)) = (self.occupants.get(from), self.occupants.get(to)) else { return };
        let packet = Packet::from_session(stanza, type_, sender.jid.as_str(), None);
        let packet = packet.without_children(|child| self.is_forged_in_message(child));
        let mut pseudonym = Writer::with_ns("occupant-id", ns::OCCUPANT_ID);
        pseudonym.attr("id", &sender.id);
        let mark = Writer::with_ns("x", ns::MUC_USER).finish();
        let packet = packet.with_child(&mark).with_child(&pseudonym.finish());
        let whisper = Whisper { packet, by: sender.account.clone(), to: target.addresses() };
        match world.is_here(target.account.domain()) {
            true => world.send_memo_home(target.account.as_ref(), whisper),
            false => whisper.open(world),
        }
    }

    /// Takes an error for a stanza that the room sent: the session is gone, or the message was a
    /// private one.
    fn error_came_back(&mut self, world: &mut World, packet: &Packet, from: &Jid, to: JidRef<'_>) {
        let Some(at) = self.occupant_of(from) else { return };
        let stanza = packet.stanza();
        let error = stanza.child("error", ns::CLIENT).map(|error| error.element());
        let condition = error.iter().flat_map(Element::children).find(|child| child.ns() == ns::STANZA_ERRORS);
        let is_gone = condition.is_none_or(|condition| GONE.contains(&condition.name()));
        let target = to.resource().and_then(|nick| self.occupant_named(nick)).filter(|_| !is_gone);
        match target {
            Some(to) => self.pass_on(world, StanzaType::Error, stanza, at, to),
            None if is_gone => {
                // Only this server's own errors tell that another server is unreachable.
                let is_cut_off = packet.is_local()
                    && !world.is_here(from.domain())
                    && condition.is_some_and(|condition| UNREACHABLE.contains(&condition.name()));
                self.lose(world, from, is_cut_off);
            }
            None => {}
        }
    }
}

/// Returns whether a text is the room's address, or the beginning of an occupant's.
fn names(text: &str, room: &Jid) -> bool {
    match Jid::parse(text) {
        Ok(jid) => jid.bare_str() == room.as_str() || jid.as_str() == room.domain(),
        Err(_) => false,
    }
}

/// Those of [`GONE`] that say it of a whole server.
const UNREACHABLE: [&str; 2] = ["remote-server-not-found", "remote-server-timeout"];

/// Errors that show that the session has ended (§18.1.1, and the errors that servers send when a
/// client has gone).
const GONE: [&str; 8] = [
    "gone",
    "item-not-found",
    "recipient-unavailable",
    "redirect",
    "remote-server-not-found",
    "remote-server-timeout",
    "service-unavailable",
    "jid-malformed",
];
