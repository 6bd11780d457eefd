//! Keeps the books of a load on a cluster: which messages were sent, acknowledged and received,
//! and what that proves about the server.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use serde::Serialize;

use super::room::RoomBooks;

/// A message and its fate.
#[derive(Debug)]
struct BookedMessage {
    to: usize,
    from: usize,
    said: Instant,
    acknowledged: Option<Instant>,
    /// True if it was bounced as an error, so that its sender knows.
    is_refused: bool,
    is_archived: bool,
    /// The number of its arrivals, and its id in the archive at the first of them.
    came: u32,
    stanza_id: Option<String>,
    /// The time of its first arrival, and of the first one with another id.
    arrived: Option<Instant>,
    doubled: Option<Instant>,
    /// True if it arrived after later ones of the same sender.
    is_late: bool,
}

/// A message that was lost, came twice or arrived out of order. The times are seconds since the
/// first message was sent.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MessageFault {
    /// The number in its text and id.
    pub number: usize,
    /// The numbers of the sender and of the recipient.
    pub from: usize,
    pub to: usize,
    pub said: f64,
    pub acknowledged: Option<f64>,
    /// The time of the first arrival, and of the first one with another id.
    pub arrived: Option<f64>,
    pub doubled: Option<f64>,
    /// True if it arrived after later ones of the same sender.
    pub is_late: bool,
    /// True if it was found in the recipient's archive.
    pub is_archived: bool,
}

/// All messages of a run.
#[derive(Debug, Default)]
pub struct MessageBooks {
    messages: Vec<BookedMessage>,
    /// The last message of each pair that has arrived.
    last: HashMap<(usize, usize), usize>,
    /// The people whose archives didn't reply.
    unsearched: HashSet<usize>,
    found: BookedOutcome,
    delays: Vec<Duration>,
    /// The messages of the room, if there is one: people then write to the room and not to each
    /// other.
    pub room: RoomBooks,
    is_room: bool,
    /// The stanzas that aren't messages of the load.
    pub others: OtherOutcome,
}

/// The totals of presence and requests that are sent in addition to messages. Requests of sessions
/// that could not be resumed remain without a reply.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct OtherOutcome {
    /// Presence stanzas that were sent to other people.
    pub presence: usize,
    /// Items that were published (XEP-0163), and pages of archives that were asked for (XEP-0313).
    pub publications: usize,
    pub pages: usize,
    /// Results of publications and requests, and errors.
    pub answered: usize,
    pub refused: usize,
}

/// The totals of a run. A message is in one line of each group.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct BookedOutcome {
    /// Messages that were given to a server.
    pub said: usize,
    /// Messages that it has acknowledged (XEP-0198).
    pub acknowledged: usize,
    /// Messages that have arrived.
    pub came: usize,
    /// Messages that were bounced as errors.
    pub refused: usize,
    /// Acknowledged messages that have not arrived, and are in the recipient's archive.
    pub archived_only: usize,
    /// Acknowledged messages that have not arrived, of recipients whose archive didn't reply: they
    /// may be there.
    pub unsearched: usize,
    /// Acknowledged messages that have not arrived, are in no archive and were not bounced.
    pub lost: usize,
    /// Repeated arrivals with the same archive id.
    pub again: usize,
    /// Repeated arrivals with another id, or none: clients can't tell that the message is the same.
    pub doubled: usize,
    /// Messages that arrived after later ones of the same sender.
    pub reordered: usize,
    /// Arrivals at a person whom they were not for.
    pub astray: usize,
}

impl MessageBooks {
    /// Returns the books of people who are in one room.
    pub fn of_room(occupants: usize) -> Self {
        Self { room: RoomBooks::new(occupants), is_room: true, ..Self::default() }
    }

    /// Notes that a person sends a message; returns its number.
    pub fn say(&mut self, from: usize, to: usize, now: Instant) -> usize {
        if self.is_room {
            return self.room.say(now);
        }
        let message = BookedMessage {
            to,
            from,
            said: now,
            acknowledged: None,
            is_refused: false,
            is_archived: false,
            came: 0,
            stanza_id: None,
            arrived: None,
            doubled: None,
            is_late: false,
        };
        self.messages.push(message);
        self.messages.len() - 1
    }

    /// Notes that the server has acknowledged a message.
    pub fn acknowledge(&mut self, number: usize, now: Instant) {
        if self.is_room {
            return self.room.acknowledge(number);
        }
        self.messages.get_mut(number).into_iter().for_each(|message| message.acknowledged = Some(now));
    }

    /// Notes that a message has reached a person.
    pub fn come(&mut self, number: usize, to: usize, stanza_id: Option<&str>, now: Instant) {
        let Some(message) = self.messages.get_mut(number).filter(|message| message.to == to) else {
            self.found.astray += 1;
            return;
        };
        message.came += 1;
        if message.came > 1 {
            if stanza_id.is_some() && stanza_id == message.stanza_id.as_deref() {
                self.found.again += 1;
            } else {
                self.found.doubled += 1;
                message.doubled.get_or_insert(now);
            }
            return;
        }
        message.stanza_id = stanza_id.map(str::to_owned);
        message.arrived = Some(now);
        self.delays.push(now.duration_since(message.said));
        let last = self.last.entry((message.from, to)).or_insert(number);
        message.is_late = *last > number;
        self.found.reordered += usize::from(*last > number);
        *last = number.max(*last);
    }

    /// Notes that a message was bounced as an error.
    pub fn come_back(&mut self, number: usize) {
        if self.is_room {
            return self.room.come_back(number);
        }
        self.messages.get_mut(number).into_iter().for_each(|message| message.is_refused = true);
    }

    /// Notes that a message is in its recipient's archive.
    pub fn find(&mut self, number: usize, in_archive_of: usize) {
        let found = self.messages.get_mut(number).filter(|message| message.to == in_archive_of);
        found.into_iter().for_each(|message| message.is_archived = true);
    }

    /// Notes that a person's archive didn't reply.
    pub fn give_up_search(&mut self, in_archive_of: usize) {
        self.unsearched.insert(in_archive_of);
    }

    /// Returns whether any acknowledged message for a person has neither arrived nor been bounced.
    pub fn misses(&self, to: usize) -> bool {
        self.messages.iter().any(|message| message.to == to && message.is_missing())
    }

    /// Returns whether a message that the server has acknowledged is still on its way: the wait at
    /// the end lasts until none is, or its time is over.
    pub fn miss_any(&self) -> bool {
        self.room.miss_any() || self.messages.iter().any(BookedMessage::is_missing)
    }

    /// Returns the totals.
    pub fn outcome(&self) -> BookedOutcome {
        if self.is_room {
            return self.room.outcome();
        }
        let count = |is: fn(&BookedMessage) -> bool| self.messages.iter().filter(|message| is(message)).count();
        let is_lost = |message: &&BookedMessage| message.is_missing() && !message.is_archived;
        let (unsearched, lost): (Vec<_>, Vec<_>) =
            self.messages.iter().filter(is_lost).partition(|message| self.unsearched.contains(&message.to));
        BookedOutcome {
            said: self.messages.len(),
            acknowledged: count(|message| message.acknowledged.is_some()),
            came: count(|message| message.came > 0),
            refused: count(|message| message.is_refused),
            archived_only: count(|message| message.is_missing() && message.is_archived),
            unsearched: unsearched.len(),
            lost: lost.len(),
            ..self.found.clone()
        }
    }

    /// Returns the time at which the first message between people was sent.
    pub fn start(&self) -> Option<Instant> {
        self.messages.first().map(|message| message.said)
    }

    /// Returns the first of the messages between people that were lost, came twice with another id,
    /// or arrived out of order.
    pub fn faults(&self) -> Vec<MessageFault> {
        let Some(begun) = self.start() else { return Vec::new() };
        let seconds = |at: Instant| at.duration_since(begun).as_secs_f64();
        let is_fault = |message: &BookedMessage| message.is_missing() || message.doubled.is_some() || message.is_late;
        let faults = self.messages.iter().enumerate().filter(|(_, message)| is_fault(message)).take(MOST_FAULTS);
        let fault = |(number, message): (usize, &BookedMessage)| MessageFault {
            number,
            from: message.from,
            to: message.to,
            said: seconds(message.said),
            acknowledged: message.acknowledged.map(seconds),
            arrived: message.arrived.map(seconds),
            doubled: message.doubled.map(seconds),
            is_late: message.is_late,
            is_archived: message.is_archived,
        };
        faults.map(fault).collect()
    }

    /// Returns the times from sending to arrival.
    pub fn delays(&self) -> &[Duration] {
        if self.is_room { self.room.delays() } else { &self.delays }
    }
}

impl BookedMessage {
    fn is_missing(&self) -> bool {
        self.acknowledged.is_some() && self.came == 0 && !self.is_refused
    }
}

/// Messages that are listed as lost, as having come twice, or as late.
const MOST_FAULTS: usize = 500;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_acknowledged_has_to_be_somewhere() {
        let (mut books, now) = (MessageBooks::default(), Instant::now());
        let said: Vec<_> = (0..5).map(|_| books.say(0, 1, now)).collect();
        said.iter().skip(1).for_each(|number| books.acknowledge(*number, now));
        books.come(said[1], 1, Some("a"), now);
        books.come_back(said[2]);
        books.find(said[3], 1);
        books.find(said[4], 2);
        assert!(books.misses(1) && !books.misses(0));
        let found = books.outcome();
        assert_eq!((found.said, found.acknowledged, found.came), (5, 4, 1));
        assert_eq!((found.refused, found.archived_only, found.lost, found.unsearched), (1, 1, 1, 0));
        let faults = books.faults();
        let found: Vec<_> = faults.iter().map(|fault| (fault.number, fault.is_archived, fault.acknowledged)).collect();
        assert_eq!(found, [(said[3], true, Some(0.0)), (said[4], false, Some(0.0))]);
        books.give_up_search(1);
        let found = books.outcome();
        assert_eq!((found.archived_only, found.lost, found.unsearched), (1, 0, 1));
    }

    #[test]
    fn what_comes_again_and_what_comes_late_is_counted() {
        let (mut books, now) = (MessageBooks::default(), Instant::now());
        let said: Vec<_> = (0..3).map(|_| books.say(0, 1, now)).collect();
        for (number, id) in [(0, Some("a")), (0, Some("a")), (0, Some("b")), (2, None), (1, None), (2, None)] {
            books.come(said[number], 1, id, now);
        }
        books.come(said[0], 3, None, now);
        books.come(7, 1, None, now);
        let BookedOutcome { came, again, doubled, reordered, astray, .. } = books.outcome();
        assert_eq!((came, again, doubled, reordered, astray), (3, 1, 2, 1, 2));
        let faults: Vec<_> =
            books.faults().into_iter().map(|fault| (fault.number, fault.doubled, fault.is_late)).collect();
        assert_eq!(faults, [(said[0], Some(0.0), false), (said[1], None, true), (said[2], Some(0.0), false)]);
    }
}
