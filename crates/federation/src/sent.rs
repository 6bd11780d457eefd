//! Keeps stanzas that have left on a stream and may have to be sent again (XEP-0198).
//!
//! With acknowledgements, a stanza is kept until the other server has handled it, so that it can be
//! sent again on the next connection, or bounced to its sender. If the other server doesn't
//! acknowledge, its reply to a later ping shows the same, and a stanza without such a reply is
//! bounced (`pings`). If it doesn't reply to pings either, a stanza is dropped once the connection
//! has accepted it: no more can be known.

use std::collections::VecDeque;

use rookery_fanout::StanzaType;
use rookery_fanout::multicast::Outgoing;
use rookery_xml::{Writer, ns};

use crate::outbound::acks::REQUEST;
use crate::queue::size;
use crate::stream_id;

/// Stanzas that have been sent, in their order.
#[derive(Debug, Default)]
pub(crate) struct Sent {
    stanzas: VecDeque<Outgoing>,
    /// The number of stanzas, counted from the last, that the connection may not have taken
    /// completely.
    untaken: usize,
    acks: Option<Box<Acks>>,
}

/// The directions that a stream carries (XEP-0288).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Sharing {
    /// Ours alone.
    #[default]
    OneWay,
    /// Both, on a stream that we have opened.
    Caller,
    /// Both, on a stream that the other server has opened.
    Called,
}

/// The state of the acknowledgements of a stream.
#[derive(Debug, Default)]
struct Acks {
    /// The bytes of the unacknowledged stanzas.
    bytes: usize,
    /// The count of the last acknowledgement, modulo 2^32 (XEP-0198 §4).
    acked: u32,
    /// The id that the other server gave the stream, if it can be resumed.
    id: Option<Box<str>>,
    sharing: Sharing,
    /// The ping in place of acknowledgements; `None` if the other server has these.
    ping: Option<Ping>,
    /// The number of times that the stream was resumed without any progress.
    resumptions: u8,
    /// The time of an acknowledgement request that has no reply yet.
    asked_ms: Option<u64>,
    /// The stanzas that have left since the last request.
    since_asked: Bulk,
}

/// The pings that show which stanzas have arrived at a server without acknowledgements.
#[derive(Debug, Default)]
struct Ping {
    /// The id of the ping without a reply, and the count of the stanzas before it.
    asked: Option<(Box<str>, u32)>,
    /// The count of the last stanza whose sender would be told about its loss.
    owed: u32,
}

#[derive(Debug, Default, Clone, Copy)]
struct Bulk {
    stanzas: usize,
    bytes: usize,
}

/// A stream that has broken and can go on over another connection.
#[derive(Debug)]
pub(crate) struct Broken {
    /// The id that the other server gave it.
    pub id: Box<str>,
    pub sharing: Sharing,
    acked: u32,
    resumptions: u8,
    stanzas: VecDeque<Outgoing>,
    pub bytes: usize,
    /// The time until which it may be resumed; then its stanzas are bounced.
    pub until_ms: u64,
}

/// The other server acknowledges more stanzas than it was sent.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TooHigh {
    pub h: u32,
    pub sent: u32,
}

impl Sent {
    /// Notes that the other server acknowledges from now on; it has handled `acked` stanzas of the
    /// stream already. With an id the stream can be resumed.
    pub(crate) fn manage(&mut self, id: Option<Box<str>>, acked: u32, sharing: Sharing) {
        self.acks = Some(Box::new(Acks { id, acked, sharing, ..Acks::default() }));
    }

    /// Notes that the other server doesn't acknowledge: pings show what it has handled.
    pub(crate) fn watch(&mut self) {
        self.acks = Some(Box::new(Acks { ping: Some(Ping::default()), ..Acks::default() }));
    }

    /// Notes that the other server replies to no pings: stanzas that the connection has taken count
    /// as arrived.
    pub(crate) fn watch_no_more(&mut self) {
        let taken = self.stanzas.len() - self.untaken;
        self.stanzas.drain(..taken);
        self.acks = None;
    }

    /// Notes that the other server has ended the stream properly, and so has read all stanzas:
    /// those that only a ping could confirm count as arrived.
    pub(crate) fn is_read(&mut self) {
        if self.is_watched() {
            self.watch_no_more();
        }
    }

    /// Handles the reply to the ping with this id. Returns the bytes of the newly confirmed
    /// stanzas; `None` if the ping isn't of this stream.
    pub(crate) fn answered(&mut self, id: &str) -> Option<usize> {
        let acks = self.acks.as_mut()?;
        let (_, count) = acks.ping.as_mut()?.asked.take_if(|(asked, _)| **asked == *id)?;
        // Some of these stanzas may have been given up while the reply was on its way.
        let is_known = count.wrapping_sub(acks.acked).cast_signed() <= 0;
        acks.asked_ms = None;
        if is_known { Some(0) } else { self.acknowledge(count).ok() }
    }

    /// Continues a broken stream, on which this many stanzas were handled.
    pub(crate) fn resume(&mut self, broken: &Broken, handled: u32, sharing: Sharing) -> Result<(), TooHigh> {
        broken.handled_of(handled).ok_or(TooHigh { h: handled, sent: broken.sent_count() })?;
        let resumptions = if handled == broken.acked { broken.resumptions + 1 } else { 0 };
        let acks = Acks { acked: handled, id: Some(broken.id.clone()), sharing, resumptions, ..Acks::default() };
        self.acks = Some(Box::new(acks));
        Ok(())
    }

    /// Notes that the stream won't be resumed.
    pub(crate) fn is_final(&mut self) {
        if let Some(acks) = &mut self.acks {
            acks.id = None;
        }
    }

    pub(crate) fn is_managed(&self) -> bool {
        self.acks.is_some()
    }

    /// Adds a stanza that is being sent.
    pub(crate) fn push(&mut self, stanza: Outgoing) {
        if let Some(acks) = &mut self.acks {
            let bytes = size(stanza.packet());
            acks.bytes += bytes;
            acks.since_asked.stanzas += 1;
            acks.since_asked.bytes += bytes;
            let count = acks.acked.wrapping_add(self.stanzas.len() as u32 + 1);
            if let Some(ping) = acks.ping.as_mut().filter(|_| TOLD.contains(&stanza.packet().type_())) {
                ping.owed = count;
            }
        }
        self.untaken += 1;
        self.stanzas.push_back(stanza);
        self.give_up_the_first();
    }

    /// Gives up the first stanzas, as if they had arrived, if more wait for the reply to a ping
    /// than may be kept: the reply may never come, and nothing else waits for it.
    fn give_up_the_first(&mut self) {
        let Some(acks) = self.acks.as_mut().filter(|acks| acks.ping.is_some()) else { return };
        while (acks.bytes > MOST_WATCHED || self.stanzas.len() > MOST_UNACKNOWLEDGED)
            && self.stanzas.len() > self.untaken
            && let Some(first) = self.stanzas.pop_front()
        {
            acks.bytes -= size(first.packet());
            acks.acked = acks.acked.wrapping_add(1);
        }
    }

    /// Notes that the connection has taken all stanzas. Those that only a ping can confirm are kept
    /// if there is room, and if their loss would matter to a sender.
    pub(crate) fn handle_taken(&mut self, has_room: bool) {
        self.untaken = 0;
        let is_kept = self.acks.is_some() && (!self.is_watched() || has_room && self.is_worth_asking());
        if !is_kept {
            if let Some(acks) = &mut self.acks {
                acks.acked = acks.acked.wrapping_add(self.stanzas.len() as u32);
                acks.bytes = 0;
            }
            self.stanzas.clear();
            self.stanzas.shrink_to(KEPT);
        }
    }

    /// Returns whether the stream has to stay open for the stanzas sent on it.
    pub(crate) fn is_needed(&self) -> bool {
        if self.is_watched() { !self.is_taken() } else { !self.is_empty() }
    }

    /// Notes how many stanzas were handled since the stream began, modulo 2^32. Returns the bytes
    /// of the newly acknowledged ones.
    pub(crate) fn acknowledge(&mut self, h: u32) -> Result<usize, TooHigh> {
        let Some(acks) = &mut self.acks else { return Ok(0) };
        let more = h.wrapping_sub(acks.acked) as usize;
        if more > self.stanzas.len() {
            return Err(TooHigh { h, sent: acks.acked.wrapping_add(self.stanzas.len() as u32) });
        }
        let done: usize = self.stanzas.drain(..more).map(|stanza| size(stanza.packet())).sum();
        if self.stanzas.is_empty() {
            // A quiet stream keeps no spare capacity.
            self.stanzas.shrink_to(if more > KEPT { KEPT } else { 0 });
        }
        self.untaken = self.untaken.min(self.stanzas.len());
        acks.bytes -= done;
        acks.acked = h;
        acks.resumptions = if more > 0 { 0 } else { acks.resumptions };
        acks.asked_ms = None;
        Ok(done)
    }

    /// Returns whether enough stanzas have left to request an acknowledgement. It doesn't hold for
    /// pings, which wait for their time because they are stanzas themselves.
    pub(crate) fn is_much(&self) -> bool {
        self.acks.as_ref().is_some_and(|acks| {
            acks.asked_ms.is_none()
                && acks.ping.is_none()
                && (acks.since_asked.stanzas >= ASKED_STANZAS || acks.since_asked.bytes >= ASKED_BYTES)
        })
    }

    /// Asks for an acknowledgement, or sends a ping in the name of a domain of ours.
    pub(crate) fn ask(&mut self, now_ms: u64, local: &str, remote: &str, out: &mut Vec<u8>) {
        let Some(acks) = &mut self.acks else { return };
        acks.asked_ms = Some(now_ms);
        acks.since_asked = Bulk::default();
        let Some(ping) = &mut acks.ping else { return out.extend_from_slice(REQUEST) };
        let id = stream_id();
        let mut request = Writer::new("iq");
        request.attr("type", "get").attr("id", &id).attr("from", local).attr("to", remote);
        request.start_ns("ping", ns::PING).end();
        out.extend_from_slice(request.finish().bytes());
        ping.asked = Some((id.into(), acks.acked.wrapping_add(self.stanzas.len() as u32)));
    }

    /// Returns whether a request is useful on a stream without other signs of life.
    pub(crate) fn is_worth_asking(&self) -> bool {
        self.acks.as_ref().is_some_and(|acks| match &acks.ping {
            None => true,
            Some(ping) => ping.owed.wrapping_sub(acks.acked).cast_signed() > 0,
        })
    }

    /// Returns whether pings are used to find out what has arrived.
    pub(crate) fn is_watched(&self) -> bool {
        self.acks.as_ref().is_some_and(|acks| acks.ping.is_some())
    }

    /// Returns the time since which an acknowledgement has been awaited.
    pub(crate) fn asked_ms(&self) -> Option<u64> {
        self.acks.as_ref().and_then(|acks| acks.asked_ms)
    }

    /// Returns whether so many stanzas are unacknowledged that no more may leave.
    pub(crate) fn is_full(&self, most_bytes: usize) -> bool {
        self.acks.as_ref().is_some_and(|acks| {
            acks.ping.is_none() && (acks.bytes >= most_bytes || self.stanzas.len() >= MOST_UNACKNOWLEDGED)
        })
    }

    /// Returns whether the connection has taken all stanzas.
    pub(crate) fn is_taken(&self) -> bool {
        self.untaken == 0
    }

    /// Returns whether no stanza may have to be sent again.
    pub(crate) fn is_empty(&self) -> bool {
        self.stanzas.is_empty()
    }

    /// Returns the bytes of the unacknowledged stanzas.
    pub(crate) fn bytes(&self) -> usize {
        self.acks.as_ref().map_or(0, |acks| acks.bytes)
    }

    /// Handles the loss of the connection. Unacknowledged stanzas wait for another one if the
    /// stream can be resumed; otherwise they are bounced.
    pub(crate) fn breaks(self, until_ms: u64) -> Result<Broken, VecDeque<Outgoing>> {
        let Self { stanzas, acks, .. } = self;
        match acks.map(|acks| *acks) {
            // The server that has opened a bidirectional stream resumes the other direction with
            // it.
            Some(Acks { id: Some(id), sharing, acked, bytes, resumptions, .. })
                if (!stanzas.is_empty() || sharing == Sharing::Caller) && resumptions < MOST_RESUMPTIONS =>
            {
                Ok(Broken { id, sharing, acked, resumptions, stanzas, bytes, until_ms })
            }
            _ => Err(stanzas),
        }
    }

    /// Returns the remaining stanzas of a stream that is given up. The first part has those that
    /// the connection has not taken, if no others can be lost: the stream ends in good order, or
    /// the other server doesn't acknowledge. Otherwise the second part has all.
    pub(crate) fn give_up(mut self, in_good_order: bool) -> (VecDeque<Outgoing>, VecDeque<Outgoing>) {
        if !in_good_order && self.is_managed() {
            return (VecDeque::new(), self.stanzas);
        }
        let taken = self.stanzas.len() - self.untaken;
        (self.stanzas.split_off(taken), VecDeque::new())
    }
}

impl Broken {
    /// Ends the record of a stream that can't be resumed, and returns its stanzas. If the number of
    /// handled ones is known, the others are in the first part, and may be sent again; otherwise
    /// all are in the second part, and have to be bounced.
    pub(crate) fn give_up(mut self, handled: Option<u32>) -> (VecDeque<Outgoing>, VecDeque<Outgoing>) {
        match handled.and_then(|handled| self.handled_of(handled)) {
            Some(known) => (self.stanzas.split_off(known), VecDeque::new()),
            None => (VecDeque::new(), self.stanzas),
        }
    }

    /// Returns the number of handled stanzas; `None` if more are acknowledged than were sent.
    fn handled_of(&self, handled: u32) -> Option<usize> {
        let known = handled.wrapping_sub(self.acked) as usize;
        (known <= self.stanzas.len()).then_some(known)
    }

    /// Returns the number of stanzas sent since acknowledgements began, modulo 2^32.
    fn sent_count(&self) -> u32 {
        self.acked.wrapping_add(self.stanzas.len() as u32)
    }

    pub(crate) fn len(&self) -> usize {
        self.stanzas.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.stanzas.is_empty()
    }
}

/// The number of stanzas after which an acknowledgement is requested.
const ASKED_STANZAS: usize = 100;
/// The bytes after which it is requested.
const ASKED_BYTES: usize = 64 * 1024;
/// The most stanzas that may be unacknowledged on one stream.
pub const MOST_UNACKNOWLEDGED: usize = 10_000;
/// The most bytes of stanzas that may wait for the reply to a ping on one stream.
pub const MOST_WATCHED: usize = 256 * 1024;
/// The types of stanzas whose senders are told about a loss.
const TOLD: [StanzaType; 7] = [
    StanzaType::Normal,
    StanzaType::Chat,
    StanzaType::Groupchat,
    StanzaType::Subscribe,
    StanzaType::Subscribed,
    StanzaType::Unsubscribe,
    StanzaType::Unsubscribed,
];
/// The most times that a stream is resumed without progress.
const MOST_RESUMPTIONS: u8 = 10;
/// The capacity that is kept when no stanzas wait.
const KEPT: usize = 8;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rookery_fanout::Packet;
    use rookery_jid::Jid;

    use super::*;

    fn stanza(id: u32) -> Outgoing {
        let text = format!("<message from='a@a.example' id='{id}'/>");
        Outgoing::plain(Jid::parse("b@b.example").unwrap(), Packet::from_bytes(text.as_bytes()).unwrap())
    }

    fn ids(stanzas: &VecDeque<Outgoing>) -> Vec<u32> {
        stanzas.iter().map(|stanza| stanza.packet().id().unwrap().parse().unwrap()).collect()
    }

    impl Sent {
        fn manage_as(&mut self, id: &str) {
            self.acks.as_mut().unwrap().id = Some(id.into());
        }
    }

    fn with(number: u32) -> Sent {
        let mut sent = Sent::default();
        sent.manage(None, 0, Sharing::OneWay);
        (0..number).for_each(|id| sent.push(stanza(id)));
        sent
    }

    #[test]
    fn without_acknowledgements_nobody_knows_more_than_the_connection() {
        let mut sent = Sent::default();
        sent.push(stanza(0));
        sent.handle_taken(true);
        sent.push(stanza(1));
        assert!(!sent.is_much() && !sent.is_full(0) && sent.bytes() == 0);
        assert_eq!(ids(&sent.breaks(0).unwrap_err()), [1]);
    }

    #[test]
    fn what_is_acknowledged_is_done_with_and_no_more_than_that_was_sent() {
        let mut sent = with(10);
        sent.handle_taken(true);
        let all = sent.bytes();
        assert!(sent.acknowledge(4).unwrap() > 0 && sent.bytes() < all);
        assert_eq!(sent.acknowledge(11), Err(TooHigh { h: 11, sent: 10 }));
        assert_eq!(sent.acknowledge(3), Err(TooHigh { h: 3, sent: 10 }), "it goes back by no step");
        sent.manage_as("id");
        let (rest, _) = sent.breaks(0).unwrap().give_up(Some(7));
        assert_eq!(ids(&rest), [7, 8, 9]);
    }

    #[test]
    fn what_nobody_knows_comes_back() {
        let mut sent = with(3);
        sent.handle_taken(true);
        sent.manage_as("id");
        let (again, back) = sent.breaks(0).unwrap().give_up(None);
        assert_eq!((ids(&again), ids(&back)), (vec![], vec![0, 1, 2]));
        // The other server forgets streams: none can be resumed.
        assert_eq!(ids(&with(2).breaks(0).unwrap_err()), [0, 1]);
    }

    #[test]
    fn a_stream_that_was_closed_in_good_order_has_delivered_what_the_connection_has_taken() {
        let mut sent = with(3);
        sent.handle_taken(true);
        sent.push(stanza(3));
        assert_eq!(ids(&sent.give_up(true).0), [3]);
    }

    proptest! {
        /// However often streams break, and however many of their stanzas were handled, each stanza
        /// is sent again or is known to be handled.
        #[test]
        fn nothing_is_left_out_and_nothing_doubled(lives in prop::collection::vec((0..20_u32, 0..20_u32, 0..20_u32), 1..10)) {
            let (mut next, mut handled, mut total) = (0, 0, Vec::new());
            let mut sent = with(0);
            sent.manage_as("id");
            for (number, acked, arrives) in lives {
                for _ in 0..number {
                    sent.push(stanza(next));
                    next += 1;
                }
                let open = sent.stanzas.len() as u32;
                handled += acked.min(open);
                prop_assert!(sent.acknowledge(handled).is_ok());
                let Ok(broken) = std::mem::take(&mut sent).breaks(0) else {
                    sent = with(0);
                    sent.manage_as("id");
                    handled = 0;
                    continue;
                };
                handled += arrives.min(broken.len() as u32);
                sent = Sent::default();
                sent.resume(&broken, handled, Sharing::OneWay).unwrap();
                let (again, _) = broken.give_up(Some(handled));
                total.clear();
                total.extend(ids(&again));
                prop_assert_eq!(total.to_vec(), (next - again.len() as u32..next).collect::<Vec<_>>());
                again.into_iter().for_each(|stanza| sent.push(stanza));
            }
        }
    }
}
