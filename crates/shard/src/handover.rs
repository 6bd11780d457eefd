//! Sessions that go on in the next process.
//!
//! When the server stops, a session whose client may come back (XEP-0198) loses its connection as
//! if the network had failed: a stream that ends with a word would end the session (§5). It stays
//! in the world until all others are gone, and leaves as a card. The next process makes a session
//! without a connection of the card before anybody is let in.

use std::net::SocketAddr;

use rookery_fanout::Link;
use rookery_hub::{Bound, Card, Custody, Most, Per, Unit};

use crate::connection::{Connection, Stage};
use crate::driver::Driver;
use crate::shard::Shard;

impl<D: Driver> Shard<D> {
    /// Closes the connection of a session that another process goes on with. Returns `false` if the
    /// session has to end.
    pub(crate) fn leave_to_next(&mut self, link: Link) -> bool {
        let stage = self.connections.get(link).map(|connection| &connection.stage);
        let is_bound = matches!(stage, Some(Stage::Bound));
        if !is_bound && !matches!(stage, Some(Stage::Detached)) || !self.world.part(link) {
            return false;
        }
        if is_bound {
            self.tell_handed_on(link);
            self.disconnect(link);
            self.detached(link);
        }
        true
    }

    /// Returns whether a shard that stops has nothing left but sessions that another process goes
    /// on with, and connections whose clients have still to close them.
    pub fn is_resting(&self) -> bool {
        let is_alone = self.federating.as_ref().is_none_or(|federating| federating.is_empty());
        let is_over = |stage: &Stage| matches!(stage, Stage::Detached | Stage::Lingering);
        self.is_stopping()
            && self.world.tasks_waiting() == 0
            && is_alone
            && self.connections.iter().all(|(_, connection)| is_over(&connection.stage))
    }

    /// Adds the cards of the sessions that another process goes on with, and forgets these. The
    /// others end.
    pub(crate) fn hand_on(&mut self, cards: &mut Vec<Vec<u8>>) {
        let connections = &self.connections;
        let peer_of = |link: Link| {
            let found = connections.get(link).filter(|connection| matches!(connection.stage, Stage::Detached))?;
            Some(found.peer)
        };
        let most = MOST_BYTES / self.common.post.shards().max(1);
        let found = self.world.cards(most, peer_of);
        cards.extend(found);
        self.timing.hands_on = false;
        for link in self.world.take_carried() {
            self.connections.remove(link);
        }
    }

    /// Goes on with sessions, and whatever else is at home here, of another process.
    pub(crate) fn go_on(&mut self, cards: Vec<Card>, custody: Custody) {
        let (mut sessions, mut letters) = (Vec::new(), Vec::new());
        for card in cards {
            match card {
                Card::Session(card) => {
                    let peer = card.peer().unwrap_or(NOWHERE);
                    if let Some(link) = self.insert(Connection::detached(peer)) {
                        sessions.push((link, *card));
                    }
                }
                Card::Letter(_, kind, bytes) => letters.push((kind, bytes)),
            }
        }
        self.world.in_custody(Some(custody), |world| {
            world.go_on(sessions);
            letters.iter().for_each(|(kind, bytes)| world.open_handed_on(kind, bytes));
        });
    }
}

/// Bytes of all cards of a server; the sessions that have no place end as if they could not go on.
pub const MOST_BYTES: usize = 256 << 20;

/// The same for the page of limits.
pub const BOUNDS: &[Bound] = &[Bound::on(
    "what waits for the next start: sessions with their unacknowledged stanzas, and rooms",
    Per::Server,
    Most::Fixed(MOST_BYTES as u64),
    Unit::Bytes,
)
.or("sessions that have no place end at the stop, as those without stream management do")];

/// The address of a client of which nothing is known.
const NOWHERE: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED), 0);
