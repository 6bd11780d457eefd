//! Sessions whose clients are connected to other nodes: their connections follow them to a new
//! home.
//!
//! The driver gives the connection of such a session a number. It travels with the session, in its
//! card and in the journal: so a new home can check whether a connection that is offered to it is
//! the one that the session had last.

use rookery_fanout::Link;
use rookery_jid::JidRef;
use serde_bytes::ByteBuf;

use crate::World;
use crate::card::IdDigest;
use crate::event::Event;

/// A session, as far as the node that keeps the client's connection has to know it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FollowedSession {
    /// The digest of the id by which the client could resume the session.
    pub id: IdDigest,
    /// The seconds for which it can be resumed.
    pub seconds: u32,
    /// The number of its connection; 0 if it has none.
    pub line: u64,
    /// The number of stanzas that were sent to the client.
    pub sent: u32,
    /// The number of the client's stanzas that were taken.
    pub handled: u32,
    /// The number of these that the journal has, if that has the session.
    pub journaled: Option<u32>,
    /// True if the client says that it is inactive (XEP-0352).
    pub is_inactive: bool,
}

impl World {
    /// Returns the data about a session elsewhere; `None` for one that nobody can resume.
    pub fn followed_session(&self, link: Link) -> Option<FollowedSession> {
        let managed = self.managed_session(link)?;
        let id = **managed.id.as_ref()?;
        let (sent, _) = self.outboxes.sent_and_unacknowledged(link)?;
        Some(FollowedSession {
            id,
            seconds: managed.seconds,
            line: self.line(link),
            sent,
            handled: managed.ledger.handled(),
            journaled: self.journaled_count(link),
            is_inactive: self.outboxes.attention(link) == rookery_fanout::Attention::Inactive,
        })
    }

    /// Notes the number of the connection that a session has on another node.
    pub fn set_line(&mut self, link: Link, line: u64) {
        self.keep_line(link, line);
        self.touch(link);
    }

    /// Remembers the number of the connection that a session has on another node; 0 for none.
    pub(crate) fn keep_line(&mut self, link: Link, line: u64) {
        if self.people.journal.is_none() {
            return;
        }
        let Some((session, journal)) = self.reference(link).zip(self.people.journal.as_mut()) else { return };
        match line {
            0 => _ = journal.lines.remove(&session),
            line => _ = journal.lines.insert(session, line),
        }
    }

    /// Returns the number of the connection that a session has on another node; 0 if it has none.
    pub(crate) fn line(&self, link: Link) -> u64 {
        let Some(journal) = self.people.journal.as_ref().filter(|journal| !journal.lines.is_empty()) else { return 0 };
        self.reference(link).and_then(|session| journal.lines.get(&session)).copied().unwrap_or_default()
    }

    /// Finds the session at this full JID, if it has this id and had this connection last.
    pub fn find_followed(&self, jid: JidRef<'_>, id: &IdDigest, line: u64) -> Option<Link> {
        let user = self.user_named(self.hash(jid.bare_str()), jid.bare_str());
        let link = self.find_resource(user, jid.resource()?)?;
        let is_alive = self.session_at(link).is_some_and(|session| !session.ending && !session.gone);
        let managed = self.managed_session(link).filter(|_| is_alive && line != 0)?;
        (self.line(link) == line && managed.id.as_deref() == Some(id)).then_some(link)
    }

    /// Lets a session that has no connection continue with its previous one, over which its client
    /// was sent this number of stanzas. If `may_repeat`, the first stanzas from the client may have
    /// been here before. Returns `false`, and does nothing, if the session can't have sent that
    /// many.
    pub fn take_up(&mut self, link: Link, sent: u32, (is_inactive, may_repeat): (bool, bool)) -> bool {
        let Some(session) = self.reference(link) else { return false };
        if !self.outboxes.take_up(link, sent) {
            return false;
        }
        if self.is_recovered(link) || may_repeat {
            self.expect_repetitions(session);
        }
        if is_inactive {
            self.outboxes.set_active(link, false);
        }
        if let Some(managed) = self.managed_mut(link) {
            managed.turn = managed.turn.wrapping_add(1);
            managed.ledger.unanswered = false;
        }
        self.touch(link);
        true
    }

    /// Tells the driver that the journal has the count of a session, if the session has a
    /// connection on another node.
    pub(crate) fn tell_line(&mut self, link: Link) {
        if self.line(link) != 0 {
            self.out.events.push_back(Event::Journaled(link));
        }
    }
}

/// Adds the number of a session's connection to the data that it takes along.
pub(crate) fn note_line(luggage: &mut Vec<(String, ByteBuf)>, line: u64) {
    luggage.retain(|(name, _)| name != LINE);
    if line != 0 {
        luggage.push((LINE.to_owned(), ByteBuf::from(line.to_le_bytes())));
    }
}

/// Returns the number of the connection of a session that has taken this along.
pub(crate) fn line_of(luggage: &[(String, ByteBuf)]) -> u64 {
    let found = luggage.iter().find(|(name, _)| name == LINE);
    found.and_then(|(_, line)| line.as_slice().try_into().ok()).map_or(0, u64::from_le_bytes)
}

/// The key, among the parts of modules, of the number of a connection.
const LINE: &str = "line";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_a_connection_goes_along() {
        let mut luggage = vec![("privacy".to_owned(), ByteBuf::from([1]))];
        assert_eq!(line_of(&luggage), 0);
        for line in [7, 8, u64::MAX] {
            note_line(&mut luggage, line);
            assert_eq!((line_of(&luggage), luggage.len()), (line, 2));
        }
        note_line(&mut luggage, 0);
        assert_eq!((line_of(&luggage), luggage.len()), (0, 1));
        assert_eq!(line_of(&[(LINE.to_owned(), ByteBuf::from([1, 2]))]), 0, "damaged");
    }
}
