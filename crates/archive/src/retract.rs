//! Retracted messages: archives keep a tombstone of them (XEP-0424 §5, XEP-0425 §4) and the
//! message that retracted them.
//!
//! In a conversation a message is named by the `id` that its sender gave it, which isn't a key of
//! an archive. So it is searched for among the newest messages of that conversation, and older ones
//! can't be retracted. In a room the id is the archive's.
//!
//! # Invariants
//!
//! * Only its author can retract a message (XEP-0424 §6): the same bare JID, in a room the same
//!   pseudonym (XEP-0421), or a moderator.
//! * Nothing waits for a retraction. A sender has few under way at a time; beyond that, messages
//!   keep their text.

use rookery_base::date;
use rookery_fanout::Packet;
use rookery_hub::World;
use rookery_jid::{Jid, JidRef};
use rookery_store::{ArchivePage, ArchiveQuery, WorkError};
use rookery_xml::{Child, Element, Namespaces, Stanza, Writer, ns};

use super::id;
use super::page::read_stored;
use super::recorder::write;

/// The retracted message, and the proof that the sender may retract it.
#[derive(Debug, Clone)]
pub enum Retracted {
    /// A message in a room.
    InRoom {
        /// The id that the room gave it.
        id: String,
        /// The pseudonym of its sender; `None` if a moderator acts.
        sender: Option<String>,
    },
    /// A message in a conversation.
    Said {
        /// The address that the conversation is with.
        with: Jid,
        /// The bare JID of its sender.
        sender: Jid,
        /// The `id` that its sender gave it.
        id: String,
    },
}

/// The accounts for which messages are being taken back in a shard, one entry for each message.
#[derive(Debug, Default)]
pub(super) struct UnderWay(Vec<Jid>);

impl UnderWay {
    /// Counts one more retraction. Returns `false` if too many are under way, for this account or
    /// in all.
    fn begin(&mut self, whose: &Jid) -> bool {
        let own = self.0.iter().filter(|other| *other == whose).count();
        let has_room = self.0.len() < MOST_UNDER_WAY && own < MOST_UNDER_WAY_OF_ONE;
        if has_room {
            self.0.push(whose.clone());
        }
        has_room
    }

    /// Counts one retraction less.
    fn end(&mut self, whose: &Jid) {
        if let Some(at) = self.0.iter().position(|other| other == whose) {
            self.0.swap_remove(at);
        }
    }
}

/// Replaces a message with a tombstone in an archive whose home this shard is. `retracted` is the
/// result of [`tombstone_mark`].
pub fn retract(world: &mut World, owner: JidRef<'_>, message: Retracted, retracted: Element) {
    let query = match &message {
        Retracted::InRoom { id: text, .. } => {
            let Some(id) = id::read(text) else { return };
            ArchiveQuery { ids: Some(vec![id]), limit: 1, max_bytes: usize::MAX, ..ArchiveQuery::default() }
        }
        Retracted::Said { with, .. } => {
            let with = Some(with.to_bare());
            ArchiveQuery { with, last: true, limit: MOST_SEARCHED, max_bytes: MOST_BYTES, ..ArchiveQuery::default() }
        }
    };
    let owner = owner.bare().to_jid();
    let whose = match &message {
        Retracted::InRoom { .. } => owner.clone(),
        Retracted::Said { sender, .. } => sender.to_bare(),
    };
    if !world.state_mut::<UnderWay>().begin(&whose) {
        return;
    }
    // The message may still wait to be written.
    write(world);
    let page = world.stores.archive.page(owner.as_ref(), query);
    world.wait(page, move |world, page| {
        let page = match page {
            Ok(Some(page)) => page,
            Ok(None) => return world.state_mut::<UnderWay>().end(&whose),
            Err(error) => {
                world.store_failed("reading an archive", &owner, &error);
                return world.state_mut::<UnderWay>().end(&whose);
            }
        };
        let found = world.background.run(owner.as_str(), move || bury(&page, &message, &retracted));
        world.wait(found, move |world, found| replace(world, owner, whose, found));
    });
}

/// Writes the tombstone that was made, if a message was found.
fn replace(world: &mut World, owner: Jid, whose: Jid, found: Result<Option<(u64, Vec<u8>)>, WorkError>) {
    let found = found.unwrap_or_else(|error| {
        world.work_failed("taking back a message", &owner, error);
        None
    });
    let Some((id, tombstone)) = found else { return world.state_mut::<UnderWay>().end(&whose) };
    let replaced = world.stores.archive.replace(owner.as_ref(), id, tombstone);
    world.wait(replaced, move |world, replaced| {
        if let Err(error) = replaced {
            world.store_failed("replacing a message in an archive", &owner, &error);
        }
        world.state_mut::<UnderWay>().end(&whose);
    });
}

/// Carries out the retraction in a message of `from`, in the archive of one of the two.
pub(super) fn carry_out(world: &mut World, owner: JidRef<'_>, with: &Jid, packet: &Packet) {
    if !packet.namespaces().may_have(RETRACTION) {
        return;
    }
    let stanza = packet.stanza();
    let retracted = stanza.child("retract", ns::RETRACT).and_then(|retract| retract.attr("id"));
    let (Some(id), Some(own), Some(sender)) = (retracted, stanza.id(), packet.sender()) else { return };
    let message = Retracted::Said { with: with.to_bare(), sender: sender.to_bare(), id: id.into_owned() };
    let mark = tombstone_mark(&own, world.time());
    retract(world, owner, message, mark);
}

/// Returns the `<retracted/>` of a tombstone, with the id of the retracting message and its time.
pub fn tombstone_mark(id: &str, unix_ms: u64) -> Element {
    Element::new("retracted", ns::RETRACT).with_attr("stamp", date::timestamp_ms(unix_ms)).with_attr("id", id)
}

/// Returns the newest message of a page that is being retracted, with the parts of it that stay.
fn bury(page: &ArchivePage, message: &Retracted, retracted: &Element) -> Option<(u64, Vec<u8>)> {
    page.messages.iter().rev().find_map(|(id, bytes)| {
        let stanza = read_stored(bytes).filter(|stanza| is_it(stanza, message))?;
        Some((*id, tombstone(&stanza, retracted)))
    })
}

fn is_it(stanza: &Stanza<'_>, message: &Retracted) -> bool {
    // Neither tombstones nor retractions can be retracted.
    if stanza.children().any(|child| child.ns() == ns::RETRACT) {
        return false;
    }
    match message {
        Retracted::InRoom { sender: None, .. } => true,
        Retracted::InRoom { sender: Some(sender), .. } => stanza
            .child("occupant-id", ns::OCCUPANT_ID)
            .and_then(|pseudonym| pseudonym.attr("id"))
            .is_some_and(|pseudonym| pseudonym == sender.as_str()),
        Retracted::Said { sender, id, .. } => {
            let from = stanza.from().and_then(|from| Jid::parse(&from).ok());
            stanza.id().is_some_and(|found| found == id.as_str())
                && from.is_some_and(|from| from.bare() == sender.as_ref())
        }
    }
}

/// Returns the part that stays in the archive: sender and recipient, without content.
fn tombstone(stanza: &Stanza<'_>, retracted: &Element) -> Vec<u8> {
    let mut tombstone = Writer::new("message");
    tombstone.opt_attr("type", stanza.type_().as_deref()).opt_attr("from", stanza.from().as_deref());
    tombstone.opt_attr("to", stanza.to().as_deref()).opt_attr("id", stanza.id().as_deref());
    for child in stanza.children().filter(tells_who) {
        tombstone.copy(&child);
    }
    tombstone.element(retracted);
    tombstone.finish().bytes().to_vec()
}

/// Returns whether an element is the pseudonym of an occupant, or data that the room adds for
/// privileged readers.
fn tells_who(child: &Child<'_>) -> bool {
    child.is("occupant-id", ns::OCCUPANT_ID) || child.is("x", ns::MUC_USER)
}

const RETRACTION: Namespaces = Namespaces::of(&[ns::RETRACT]);
/// The most retractions under way at a time, in one shard.
const MOST_UNDER_WAY: usize = 64;
/// The most retractions of one account under way at a time, in one shard.
const MOST_UNDER_WAY_OF_ONE: usize = 16;
/// The number of newest messages of a conversation among which a retracted one is looked for.
const MOST_SEARCHED: usize = 500;
/// The most bytes that are read from the store for that search.
const MOST_BYTES: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn bury_one(message: &Retracted, stanza: &str) -> Option<String> {
        let page = ArchivePage { messages: vec![(7, stanza.as_bytes().to_vec())], ..ArchivePage::default() };
        let mark = tombstone_mark("r1", 1_000);
        bury(&page, message, &mark).map(|(_, bytes)| String::from_utf8(bytes).unwrap())
    }

    #[test]
    fn few_messages_are_being_taken_back_at_a_time() {
        let mut under_way = UnderWay::default();
        let jid = |number: usize| Jid::parse(&format!("u{number}@x")).unwrap();
        for number in 0..MOST_UNDER_WAY / MOST_UNDER_WAY_OF_ONE {
            (0..MOST_UNDER_WAY_OF_ONE).for_each(|_| assert!(under_way.begin(&jid(number))));
            assert!(!under_way.begin(&jid(number)), "of one account");
        }
        let other = jid(MOST_UNDER_WAY);
        assert!(!under_way.begin(&other), "of all");
        under_way.end(&jid(0));
        assert!(under_way.begin(&other));
    }

    #[test]
    fn only_a_message_of_the_same_sender_is_buried() {
        let jid = |text| Jid::parse(text).unwrap();
        let message = Retracted::Said { with: jid("lord@c.example"), sender: jid("romeo@m.example"), id: "w1".into() };
        let said = |from, id, rest| {
            format!("<message from='{from}' to='lord@c.example' type='chat' id='{id}'><body>hi</body>{rest}</message>")
        };
        let tombstone = bury_one(&message, &said("romeo@m.example/orchard", "w1", "<x xmlns='urn:secret'/>")).unwrap();
        assert!(
            tombstone.contains("<retracted xmlns='urn:xmpp:message-retract:1' stamp='1970-01-01T00:00:01"),
            "{tombstone}"
        );
        assert!(!tombstone.contains("hi") && !tombstone.contains("secret"), "{tombstone}");
        for (from, id, rest) in [
            ("lord@c.example/chamber", "w1", ""),
            ("romeo@m.example", "w2", ""),
            ("romeo@m.example", "w1", "<retract xmlns='urn:xmpp:message-retract:1' id='w0'/>"),
        ] {
            assert_eq!(bury_one(&message, &said(from, id, rest)), None, "{from} {id} {rest}");
        }
    }

    #[test]
    fn an_occupant_takes_back_its_own_and_a_moderator_anything() {
        let by = |sender: Option<&str>| Retracted::InRoom { id: id::text(7), sender: sender.map(str::to_owned) };
        let said = "<message from='r@c.example/nick' type='groupchat' id='w1'><body>hi</body>\
                    <occupant-id xmlns='urn:xmpp:occupant-id:0' id='me'/></message>";
        let kept = bury_one(&by(Some("me")), said).unwrap();
        assert!(kept.contains("id='me'") && !kept.contains("hi"), "{kept}");
        assert!(bury_one(&by(None), said).is_some());
        assert_eq!(bury_one(&by(Some("other")), said), None);
    }
}
