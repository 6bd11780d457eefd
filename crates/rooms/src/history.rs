//! The last messages of a room, for users who enter (XEP-0045 §7.2.13, §7.2.14).

use std::collections::VecDeque;

use rookery_fanout::Packet;
use rookery_hub::delay;
use rookery_jid::Jid;
use rookery_xml::Element;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// The recent messages of a room, bounded in number and in bytes by [`MOST_BYTES`].
#[derive(Debug, Default)]
pub(crate) struct RoomHistory {
    messages: VecDeque<Past>,
    bytes: usize,
}

/// A message that was sent.
#[derive(Debug)]
struct Past {
    /// The message with the stamp of its arrival (XEP-0203), as new occupants get it.
    packet: Packet,
    /// The room's id for it (XEP-0359).
    id: String,
    /// The pseudonym of its sender (XEP-0421).
    sender: String,
    unix_ms: u64,
}

/// The part of the history that a new occupant requests (§7.2.14).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct WantedHistory {
    pub chars: Option<usize>,
    pub stanzas: Option<usize>,
    /// The oldest time of a message, in milliseconds since 1970.
    pub since: Option<u64>,
}

impl WantedHistory {
    /// Reads the request for history from the `<x/>` of a presence that enters. An attribute that
    /// isn't a number or a date is ignored.
    pub(crate) fn read(x: &Element, now: u64) -> Self {
        let Some(history) = x.child("history", x.ns()) else { return Self::default() };
        let number = |name| history.attr(name).and_then(|text| text.trim().parse::<u64>().ok());
        let size = |name| number(name).map(|number| usize::try_from(number).unwrap_or(usize::MAX));
        let seconds = number("seconds").map(|seconds| now.saturating_sub(seconds.saturating_mul(1000)));
        let since = history.attr("since").and_then(moment);
        Self { chars: size("maxchars"), stanzas: size("maxstanzas"), since: seconds.max(since) }
    }
}

impl RoomHistory {
    /// Remembers a message, and forgets the oldest ones above `limit`.
    pub(crate) fn push(&mut self, room: &Jid, packet: &Packet, id: &str, sender: &str, unix_ms: u64, limit: usize) {
        if limit == 0 {
            return self.shorten(0);
        }
        let packet = packet.with_child(&delay::element(room.as_str(), unix_ms));
        self.bytes += packet.bytes().len();
        debug_assert!(packet.sender().is_some(), "an occupant has said it");
        self.messages.push_back(Past { packet, id: id.to_owned(), sender: sender.to_owned(), unix_ms });
        self.shorten(limit);
    }

    /// Returns all messages, oldest first, each with its id, the pseudonym of its sender and the
    /// time in milliseconds since 1970.
    pub(crate) fn messages(&self) -> impl Iterator<Item = (Packet, &str, &str, u64)> {
        self.messages.iter().map(|past| (past.packet.clone(), past.id.as_str(), past.sender.as_str(), past.unix_ms))
    }

    /// Restores the messages that [`RoomHistory::messages`] has returned.
    pub(crate) fn restore(&mut self, messages: Vec<(Packet, String, String, u64)>) {
        for (packet, id, sender, unix_ms) in messages {
            self.bytes += packet.bytes().len();
            self.messages.push_back(Past { packet, id, sender, unix_ms });
        }
        self.shorten(usize::MAX);
    }

    /// Returns whether it has a message with this id.
    pub(crate) fn has(&self, id: &str) -> bool {
        self.messages.iter().any(|past| past.id == id)
    }

    /// Returns the number of its messages.
    pub(crate) fn len(&self) -> usize {
        self.messages.len()
    }

    /// Forgets the oldest messages above a limit.
    pub(crate) fn shorten(&mut self, limit: usize) {
        while self.messages.len() > limit || self.bytes > MOST_BYTES {
            let Some(oldest) = self.messages.pop_front() else { return };
            debug_assert!(self.bytes >= oldest.packet.bytes().len(), "the bytes of a message were counted");
            self.bytes -= oldest.packet.bytes().len();
        }
    }

    /// Returns the newest messages that meet all conditions, oldest first.
    pub(crate) fn newest(&self, wanted: WantedHistory) -> Vec<Packet> {
        let mut chars = wanted.chars.unwrap_or(usize::MAX);
        let mut found: Vec<_> = self
            .messages
            .iter()
            .rev()
            .take(wanted.stanzas.unwrap_or(usize::MAX))
            .take_while(|past| wanted.since.is_none_or(|since| past.unix_ms >= since))
            .take_while(|past| {
                let fits = past.packet.bytes().len() <= chars;
                chars = chars.saturating_sub(past.packet.bytes().len());
                fits
            })
            .map(|past| past.packet.clone())
            .collect();
        found.reverse();
        found
    }

    /// Removes a retracted message (XEP-0424 §4, XEP-0425 §3). If `sender` is given, it must be the
    /// message's own.
    pub(crate) fn retract(&mut self, id: &str, sender: Option<&str>) {
        let is_it = |past: &Past| past.id == id && sender.is_none_or(|sender| past.sender == sender);
        if let Some(at) = self.messages.iter().position(is_it)
            && let Some(past) = self.messages.remove(at)
        {
            debug_assert!(self.bytes >= past.packet.bytes().len(), "the bytes of a message were counted");
            self.bytes -= past.packet.bytes().len();
        }
    }
}

/// Parses a date in the format of XEP-0082 §3.2; returns milliseconds since 1970.
fn moment(text: &str) -> Option<u64> {
    let nanos = OffsetDateTime::parse(text.trim(), &Rfc3339).ok()?.unix_timestamp_nanos();
    Some(u64::try_from(nanos / 1_000_000).unwrap_or(0))
}

/// The most bytes that the messages of one room may take, whatever their number.
pub(super) const MOST_BYTES: usize = 1024 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    fn history() -> RoomHistory {
        let room = Jid::parse("coven@chat.example").unwrap();
        let mut history = RoomHistory::default();
        for n in 0..5_u64 {
            let packet = Packet::from_bytes(
                format!("<message from='coven@chat.example/hag' id='{n}'><body>{n}</body></message>").as_bytes(),
            )
            .unwrap();
            history.push(&room, &packet, &format!("s{n}"), "me", n * 1000, 4);
        }
        history
    }

    fn ids(wanted: WantedHistory) -> Vec<String> {
        history().newest(wanted).iter().map(|packet| packet.id().unwrap().into_owned()).collect()
    }

    #[test]
    fn the_history_that_meets_all_conditions_is_given() {
        assert_eq!(ids(WantedHistory::default()), ["1", "2", "3", "4"]);
        assert_eq!(ids(WantedHistory { stanzas: Some(2), ..WantedHistory::default() }), ["3", "4"]);
        assert_eq!(ids(WantedHistory { chars: Some(0), ..WantedHistory::default() }), [""; 0]);
        let one = history().newest(WantedHistory::default())[0].bytes().len();
        assert_eq!(ids(WantedHistory { chars: Some(3 * one - 1), ..WantedHistory::default() }), ["3", "4"]);
        assert_eq!(ids(WantedHistory { since: Some(2500), ..WantedHistory::default() }), ["3", "4"]);
        assert_eq!(ids(WantedHistory { since: Some(2500), stanzas: Some(1), chars: Some(10_000) }), ["4"]);
    }

    #[test]
    fn absurd_requests_for_history_are_ignored() {
        let read = |attributes: &str| {
            let x = format!("<x xmlns='http://jabber.org/protocol/muc'><history {attributes}/></x>");
            WantedHistory::read(&Element::parse(x.as_bytes()).unwrap(), 10_000_000)
        };
        assert_eq!(read("maxchars='-1' maxstanzas='many' seconds='' since='yesterday'"), WantedHistory::default());
        assert_eq!(read("seconds='99999999999999999999'"), WantedHistory::default());
        assert_eq!(read("seconds='18446744073709551615'").since, Some(0));
        assert_eq!(read("since='1970-01-01T00:00:02Z' seconds='9999'").since, Some(2000));
        assert_eq!(read("since='0001-01-01T00:00:00Z'").since, Some(0));
    }

    #[test]
    fn only_the_sender_of_a_message_can_retract_it() {
        let mut history = history();
        history.retract("s2", Some("somebody else"));
        assert_eq!(history.newest(WantedHistory::default()).len(), 4);
        history.retract("s2", Some("me"));
        history.retract("s3", None);
        assert_eq!(history.newest(WantedHistory::default()).len(), 2);
    }
}
