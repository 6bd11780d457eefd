//! Keeps the books of a load on a cluster: which messages were sent, acknowledged and received,
//! and what that proves about the server.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use serde::Serialize;

use super::room::RoomBooks;

/// A message and its fate.
#[derive(Debug)]
struct BookedMessage {
    to: usize,
    from: usize,
    said: Instant,
    is_acknowledged: bool,
    /// True if it was bounced as an error, so that its sender knows.
    is_refused: bool,
    is_archived: bool,
    /// The number of its arrivals, and its id in the archive at the first of them.
    came: u32,
    stanza_id: Option<String>,
}

/// All messages of a run.
#[derive(Debug, Default)]
pub struct MessageBooks {
    messages: Vec<BookedMessage>,
    /// The last message of each pair that has arrived.
    last: HashMap<(usize, usize), usize>,
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
            is_acknowledged: false,
            is_refused: false,
            is_archived: false,
            came: 0,
            stanza_id: None,
        };
        self.messages.push(message);
        self.messages.len() - 1
    }

    /// Notes that the server has acknowledged a message.
    pub fn acknowledge(&mut self, number: usize) {
        if self.is_room {
            return self.room.acknowledge(number);
        }
        self.messages.get_mut(number).into_iter().for_each(|message| message.is_acknowledged = true);
    }

    /// Notes that a message has reached a person.
    pub fn come(&mut self, number: usize, to: usize, stanza_id: Option<&str>, now: Instant) {
        let Some(message) = self.messages.get_mut(number).filter(|message| message.to == to) else {
            self.found.astray += 1;
            return;
        };
        message.came += 1;
        if message.came > 1 {
            let is_same = stanza_id.is_some() && stanza_id == message.stanza_id.as_deref();
            *(if is_same { &mut self.found.again } else { &mut self.found.doubled }) += 1;
            return;
        }
        message.stanza_id = stanza_id.map(str::to_owned);
        self.delays.push(now.duration_since(message.said));
        let last = self.last.entry((message.from, to)).or_insert(number);
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
        BookedOutcome {
            said: self.messages.len(),
            acknowledged: count(|message| message.is_acknowledged),
            came: count(|message| message.came > 0),
            refused: count(|message| message.is_refused),
            archived_only: count(|message| message.is_missing() && message.is_archived),
            lost: count(|message| message.is_missing() && !message.is_archived),
            ..self.found.clone()
        }
    }

    /// Returns the times from sending to arrival.
    pub fn delays(&self) -> &[Duration] {
        if self.is_room { self.room.delays() } else { &self.delays }
    }
}

impl BookedMessage {
    fn is_missing(&self) -> bool {
        self.is_acknowledged && self.came == 0 && !self.is_refused
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_acknowledged_has_to_be_somewhere() {
        let (mut books, now) = (MessageBooks::default(), Instant::now());
        let said: Vec<_> = (0..5).map(|_| books.say(0, 1, now)).collect();
        said.iter().skip(1).for_each(|number| books.acknowledge(*number));
        books.come(said[1], 1, Some("a"), now);
        books.come_back(said[2]);
        books.find(said[3], 1);
        books.find(said[4], 2);
        assert!(books.misses(1) && !books.misses(0));
        let found = books.outcome();
        assert_eq!((found.said, found.acknowledged, found.came), (5, 4, 1));
        assert_eq!((found.refused, found.archived_only, found.lost), (1, 1, 1));
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
    }
}
