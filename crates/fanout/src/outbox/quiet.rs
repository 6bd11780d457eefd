//! Stanzas that may wait for an inactive client (XEP-0352 §3.2), and those that replace an older
//! one.
//!
//! A stanza is urgent unless it is known not to be: a stanza that a user wants to be told about
//! must never wait, nor one that a client has asked for.

use std::hash::{BuildHasher, Hasher};

use rookery_base::Keyed;
use rookery_xml::{Child, Kind, ns};

use super::item::{is_state, tells_event};
use crate::packet::{Packet, StanzaType};

/// The time for which a stanza may wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Urgency {
    /// No time: it is sent at once, with everything that waits before it.
    Now,
    /// The time until another stanza is sent.
    Later,
    /// The time until another stanza is sent; and it makes an older one of the same sender with the
    /// same tag (never 0) obsolete.
    Latest(u32),
}

/// Returns the urgency of a stanza.
///
/// * Presence that states availability may wait; a newer one of the same sender makes it obsolete,
///   unless it also reports an event in a room. Subscriptions go at once.
/// * Notifications of pubsub events (XEP-0060 §7.1) may wait; a newer one for the same node and
///   items makes an older one obsolete.
/// * Messages with nothing but chat states (XEP-0085), receipts or markers may wait.
/// * All else goes at once: messages with a body, encrypted ones, errors, calls (XEP-0353), IQs.
pub fn urgency(packet: &Packet) -> Urgency {
    if is_state(packet) {
        return if tells_event(packet) { Urgency::Later } else { Urgency::Latest(tag(b"presence")) };
    }
    if packet.kind() != Kind::Message || packet.has_body() || packet.type_() == StanzaType::Error {
        return Urgency::Now;
    }
    let stanza = packet.stanza();
    if let Some(event) = stanza.child("event", ns::PUBSUB_EVENT) {
        return Urgency::Latest(tag_of_event(&event));
    }
    if stanza.children().all(|child| may_wait(&child)) { Urgency::Later } else { Urgency::Now }
}

fn may_wait(child: &Child<'_>) -> bool {
    match &*child.ns() {
        ns::CHAT_STATES | ns::RECEIPTS | ns::MARKERS | ns::HINTS | ns::DELAY | ns::STANZA_ID => true,
        ns::CLIENT => child.name() == "thread",
        ns::CARBONS => child.children().all(|forwarded| copies_what_may_wait(&forwarded)),
        _ => false,
    }
}

/// Returns whether a message that was copied (XEP-0280) may wait, and so its copy.
fn copies_what_may_wait(forwarded: &Child<'_>) -> bool {
    let is_message = |child: &Child<'_>| child.name() == "message" && ns::is_content(&child.ns());
    forwarded.is("forwarded", ns::FORWARD)
        && forwarded.children().filter(is_message).all(|message| {
            message.attr("type").as_deref() != Some("error") && message.children().all(|child| may_wait(&child))
        })
}

/// Returns a tag for an event: its action, node and items.
fn tag_of_event(event: &Child<'_>) -> u32 {
    let mut text = Vec::new();
    for action in event.children() {
        text.extend_from_slice(action.name().as_bytes());
        text.extend_from_slice(action.attr("node").unwrap_or_default().as_bytes());
        for item in action.children() {
            text.push(0);
            text.extend_from_slice(item.name().as_bytes());
            text.extend_from_slice(item.attr("id").unwrap_or_default().as_bytes());
        }
    }
    tag(&text)
}

/// Returns a number for a text, never 0. It is only compared between stanzas of one sender, so a
/// sender that finds two texts with the same number harms only itself.
fn tag(text: &[u8]) -> u32 {
    let mut hasher = Keyed::with([1, 2, 3, 4]).build_hasher();
    hasher.write(text);
    (hasher.finish() as u32).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(stanza: &str) -> Urgency {
        urgency(&Packet::from_bytes(stanza.as_bytes()).unwrap())
    }

    #[test]
    fn what_a_user_wants_to_be_told_of_goes_at_once() {
        for stanza in [
            "<message from='a@x/r'><body>hi</body></message>",
            "<message from='a@x/r' type='groupchat'><body>hi</body></message>",
            "<message from='a@x/r'><encrypted xmlns='eu.siacs.conversations.axolotl'/></message>",
            "<message from='a@x/r'><propose xmlns='urn:xmpp:jingle-message:0' id='1'/></message>",
            "<message from='a@x/r' type='error'><active xmlns='http://jabber.org/protocol/chatstates'/></message>",
            "<message from='a@x/r'><subject>hi</subject></message>",
            "<iq from='a@x/r' type='result' id='1'/>",
            "<presence from='a@x' type='subscribe'/>",
        ] {
            assert_eq!(of(stanza), Urgency::Now, "{stanza}");
        }
    }

    #[test]
    fn states_wait_and_newer_ones_replace_older_ones() {
        let presence = of("<presence from='a@x/r'/>");
        assert!(matches!(presence, Urgency::Latest(_)));
        assert_eq!(of("<presence from='a@x/r' type='unavailable'/>"), presence);
        let occupant = |code: u16| {
            let status = format!("<x xmlns='http://jabber.org/protocol/muc#user'><status code='{code}'/></x>");
            of(&format!("<presence from='r@x/nick'>{status}</presence>"))
        };
        assert_eq!(occupant(110), presence);
        assert_eq!(occupant(201), Urgency::Later, "nothing says again that a room is new");
        let own = "<x xmlns='http://jabber.org/protocol/muc#user'><status code='110'/></x>";
        let gone = of(&format!("<presence from='r@x/nick' type='unavailable'>{own}</presence>"));
        assert_eq!(gone, Urgency::Later, "what the client knows of others in the room ends with it");
        let composing = "<message from='a@x/r'><composing xmlns='http://jabber.org/protocol/chatstates'/><thread>1</thread></message>";
        assert_eq!(of(composing), Urgency::Later);
        let copy = |content: &str| {
            of(&format!(
                "<message from='a@x'><sent xmlns='urn:xmpp:carbons:2'><forwarded xmlns='urn:xmpp:forward:0'>\
                 <message xmlns='jabber:client' to='b@x' from='a@x/r'>{content}</message></forwarded></sent></message>"
            ))
        };
        assert_eq!(copy("<composing xmlns='http://jabber.org/protocol/chatstates'/>"), Urgency::Later);
        assert_eq!(copy("<body>hi</body>"), Urgency::Now);
        let event = |node: &str, item: &str| {
            of(&format!(
                "<message from='a@x'><event xmlns='http://jabber.org/protocol/pubsub#event'><items node='{node}'>\
                 <item id='{item}'/></items></event></message>"
            ))
        };
        assert_eq!(event("mood", "current"), event("mood", "current"));
        assert_ne!(event("mood", "current"), event("tune", "current"));
        assert_ne!(
            event("urn:xmpp:bookmarks:1", "a@x"),
            event("urn:xmpp:bookmarks:1", "b@x"),
            "two bookmarks are two things"
        );
    }
}
