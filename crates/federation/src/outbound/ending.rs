//! The end of a stream of ours: by us, by the peer, with an error or without one.

use rookery_stream::error::StreamError;
use rookery_xml::{Element, ns};

use super::{Outbound, OutboundEvent, OutboundPhase};
use crate::reading::STREAM_END;

impl Outbound {
    /// Returns why the stream ended, in words for the operator's log.
    pub fn cause(&self) -> &str {
        self.cause.as_deref().unwrap_or("the other server has closed the stream")
    }

    /// Returns whether the stream has ended with an error, the peer's or ours.
    pub fn has_failed(&self) -> bool {
        self.phase == OutboundPhase::Ended && self.cause.is_some()
    }

    /// Ends the stream with an error, or without one if it is idle.
    pub fn close(&mut self, error: Option<&StreamError>, out: &mut Vec<u8>) {
        match (self.phase, error) {
            (OutboundPhase::Ended, _) => {}
            (OutboundPhase::Closed | OutboundPhase::Tls, _) => self.phase = OutboundPhase::Ended,
            (_, Some(error)) => {
                self.say_last(|out| error.render(None, out), out);
                self.phase = OutboundPhase::Ended;
            }
            (_, None) => _ = self.end(out),
        }
    }

    /// Ends our direction because the stream is idle. Stanzas of the peer still count until it has
    /// ended its own (RFC 6120 §4.4).
    pub(crate) fn finish(&mut self, out: &mut Vec<u8>) {
        self.say_last(|out| out.extend_from_slice(STREAM_END), out);
        self.is_closing = true;
    }

    /// Writes the end of our direction, once, after the last acknowledgement.
    fn say_last(&mut self, end: impl FnOnce(&mut Vec<u8>), out: &mut Vec<u8>) {
        if !self.is_closing {
            self.acknowledge(out);
            end(out);
        }
    }

    /// Handles a stream error of the peer, which ends the stream.
    pub(super) fn handle_error(&mut self, error: &Element, out: &mut Vec<u8>) -> OutboundEvent {
        self.was_told_off = true;
        let condition = error.children().find(|child| child.ns() == ns::STREAM_ERRORS && child.name() != "text");
        let condition = condition.map_or("no condition", Element::name);
        let text = error.child_text("text", ns::STREAM_ERRORS).unwrap_or_default();
        let text: String = text.chars().filter(|char| !char.is_control()).take(MAX_TEXT).collect();
        self.end_because(&format!("it says {condition}: {text}"), out)
    }

    pub(super) fn fail(&mut self, error: &StreamError, text: &str, out: &mut Vec<u8>) -> OutboundEvent {
        self.say_last(|out| error.render(Some(text), out), out);
        self.fail_silently(text)
    }

    pub(super) fn fail_silently(&mut self, cause: &str) -> OutboundEvent {
        self.phase = OutboundPhase::Ended;
        self.cause.get_or_insert_with(|| cause.to_owned());
        OutboundEvent::End
    }

    pub(super) fn end_because(&mut self, cause: &str, out: &mut Vec<u8>) -> OutboundEvent {
        self.say_last(|out| out.extend_from_slice(STREAM_END), out);
        self.fail_silently(cause)
    }

    pub(super) fn end(&mut self, out: &mut Vec<u8>) -> OutboundEvent {
        self.say_last(|out| out.extend_from_slice(STREAM_END), out);
        self.phase = OutboundPhase::Ended;
        OutboundEvent::End
    }
}

/// The most characters of a peer's explanation in a log line.
const MAX_TEXT: usize = 200;
