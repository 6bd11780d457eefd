//! Acknowledgements of what is sent on a stream (XEP-0198), and the stream that it may continue.

use rookery_xml::{Element, Writer, ns};

use super::{Event, Outbound, Phase};

/// The agreement that the two have come to.
#[derive(Debug, Default)]
pub(super) struct Acks {
    /// The peer's features have them.
    pub(super) are_offered: bool,
    /// The peer has agreed to them.
    pub(super) are_on: bool,
    /// What the peer calls the stream that this one is to continue, and then this one if it can be
    /// resumed.
    pub(super) id: Option<Box<str>>,
    /// That one is lost, and so many of its stanzas were handled if the peer knows.
    lost: Option<Option<u32>>,
}

impl Outbound {
    /// The peer knows who we are. No stanza leaves before it has agreed to acknowledgements: of one
    /// that leaves earlier nobody could tell whether it has arrived.
    pub(super) fn logged_in(&mut self, out: &mut Vec<u8>) -> Option<Event> {
        match &self.acks.id {
            Some(id) if self.acks.are_offered => {
                let mut resume = Writer::with_ns("resume", ns::SM);
                resume.attr("previd", id).attr("h", "0");
                out.extend_from_slice(resume.finish().bytes());
                self.phase = Phase::Resuming;
                None
            }
            Some(_) => {
                self.acks.lost = Some(None);
                self.enable(out)
            }
            None => self.enable(out),
        }
    }

    fn enable(&mut self, out: &mut Vec<u8>) -> Option<Event> {
        self.acks.id = None;
        if !self.acks.are_offered {
            return Some(self.begin());
        }
        out.extend_from_slice(b"<enable xmlns='urn:xmpp:sm:3' resume='true'/>");
        self.phase = Phase::Enabling;
        None
    }

    fn begin(&mut self) -> Event {
        self.phase = Phase::Ready;
        self.acks.lost.map_or(Event::Ready, Event::NotResumed)
    }

    /// The answer to `<resume/>` (§5).
    pub(super) fn resumption(&mut self, name: &str, answer: &Element, out: &mut Vec<u8>) -> Option<Event> {
        let handled = answer.attr("h").and_then(|h| h.trim().parse().ok());
        match (name, handled) {
            ("resumed", Some(handled)) => {
                self.acks.are_on = true;
                self.phase = Phase::Ready;
                Some(Event::Resumed(handled))
            }
            ("failed", handled) => {
                self.acks.lost = Some(handled);
                self.enable(out)
            }
            _ => None,
        }
    }

    /// The answer to `<enable/>` (§3).
    pub(super) fn enabled(&mut self, name: &str, answer: &Element) -> Option<Event> {
        match name {
            "enabled" => {
                let may_resume = matches!(answer.attr("resume"), Some("true" | "1"));
                let id = answer.attr("id").filter(|id| may_resume && !id.is_empty() && id.len() <= MAX_ID);
                self.acks.id = id.map(Box::from);
                self.acks.are_on = true;
                Some(self.begin())
            }
            "failed" => Some(self.begin()),
            _ => None,
        }
    }

    pub(super) fn acknowledgement(&mut self, name: &str, element: &Element, out: &mut Vec<u8>) -> Option<Event> {
        match name {
            "a" => element.attr("h").and_then(|h| h.trim().parse().ok()).map(Event::Acknowledged),
            // What comes on this stream besides isn't handled.
            "r" => {
                out.extend_from_slice(b"<a xmlns='urn:xmpp:sm:3' h='0'/>");
                None
            }
            _ => None,
        }
    }
}

/// The request for an acknowledgement (§4).
pub(crate) const REQUEST: &[u8] = b"<r xmlns='urn:xmpp:sm:3'/>";
/// The most bytes of what a peer may call a stream: it is kept.
const MAX_ID: usize = 1000;
