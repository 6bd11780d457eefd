//! Sessions that continue in the next process.
//!
//! When the server stops, a session whose client may resume it (XEP-0198) loses its connection as
//! if the network had failed: closing the stream properly would end the session (§5). The session
//! stays in the world until all others are gone, including those for which it turns out that there
//! is no place, and leaves as a card when the server has come to rest. The next process makes
//! sessions without connections from all cards. Then it lets them, and everything else that was
//! handed on, continue before it admits clients.

use std::net::SocketAddr;

use rookery_fanout::Link;
use rookery_hub::{Bound, Card, Custody, Most, Per, Unit};

use crate::connection::{ConnectionStage, ShardConnection};
use crate::connections::ShardConnections;
use crate::driver::Driver;
use crate::following::ConnectionGoingOn;
use crate::gathered::GatheredCards;
use crate::shard::Shard;

impl<D: Driver> Shard<D> {
    /// Closes the connection of a session that continues in another process. Returns `false` if
    /// the session has to end.
    pub(crate) fn leave_to_next(&mut self, link: Link) -> bool {
        let stage = self.connections.get(link).map(|connection| &connection.stage);
        let is_bound = matches!(stage, Some(ConnectionStage::Bound { .. }));
        let is_detached = matches!(stage, Some(ConnectionStage::Detached));
        let going_on = self.connection_that_goes_on(link);
        if !is_bound && !is_detached || !self.world.part(link) {
            return false;
        }
        if is_bound {
            self.tell_handed_on(link);
            match going_on {
                Some(ConnectionGoingOn::Line(line)) => self.driver.tell_handed_on(line),
                Some(ConnectionGoingOn::Front(memory)) => self.go_on_as_front(link, *memory),
                None => {}
            }
            self.disconnect(link);
            self.detached(link);
        }
        true
    }

    /// Lets a session whose connection is lost wait for its client, here or in the next process.
    /// Returns `false` if it has to end.
    pub(crate) fn may_wait(&mut self, link: Link) -> bool {
        match self.is_stopping() {
            true => self.timing.hands_on && self.world.part(link),
            false => self.world.detach(link),
        }
    }

    /// Returns whether a stopping shard has nothing left but sessions that continue in another
    /// process, and connections whose clients have yet to close them.
    pub fn is_resting(&self) -> bool {
        let is_alone = self.federating.as_ref().is_none_or(|federating| federating.is_empty());
        let is_over = |stage: &ConnectionStage| matches!(stage, ConnectionStage::Detached | ConnectionStage::Lingering);
        self.is_stopping()
            && !self.world.is_at_work()
            && is_alone
            && self.connections.iter().all(|(_, connection)| is_over(&connection.stage))
    }

    /// Ends the sessions that can't continue in another process, while those that can are still
    /// here to be notified. All cards of the shard may have this number of bytes.
    pub(crate) fn end_others(&mut self, most_bytes: usize) {
        let peer_of = peers(&self.connections);
        self.world.end_others(most_bytes, peer_of);
    }

    /// Gives away the cards of the sessions that continue in another process, within the limit of
    /// bytes, and forgets these sessions. All others end. If nobody waits for cards any more, all
    /// sessions end.
    pub(crate) fn hand_on(&mut self, most_bytes: usize, gathered: &GatheredCards) {
        let peer_of = peers(&self.connections);
        let cards = self.world.cards(most_bytes, peer_of);
        let are_taken = gathered.add(cards);
        self.timing.hands_on = false;
        for link in self.world.forget_carried(are_taken) {
            self.connections.remove(link);
        }
    }

    /// Takes up sessions, and everything else with its home here, of another process, without
    /// beginning to work on them.
    pub(crate) fn go_on(&mut self, cards: Vec<Card>, custody: Custody) {
        let (mut sessions, mut memos) = (Vec::new(), Vec::new());
        let (cards, elsewhere): (Vec<_>, Vec<_>) =
            cards.into_iter().partition(|card| self.world.home_of_text(card.home()) == self.index());
        self.world.send_on(&elsewhere);
        for card in cards {
            match card {
                Card::Session(card) => {
                    let peer = card.peer().unwrap_or(NOWHERE);
                    if let Some(link) = self.insert(ShardConnection::without_socket(peer)) {
                        sessions.push((link, *card));
                    }
                }
                Card::Memo(home, kind, bytes) => memos.push((home, kind, bytes)),
            }
        }
        self.world.in_custody(Some(custody), |world| world.go_on(sessions, memos));
    }
}

/// Returns the addresses of the clients that sessions wait for.
pub(crate) fn peers<S>(connections: &ShardConnections<S>) -> impl Fn(Link) -> Option<SocketAddr> {
    |link| {
        let found = connections.get(link).filter(|connection| matches!(connection.stage, ConnectionStage::Detached))?;
        Some(found.peer)
    }
}

/// Bytes of all cards of a server; sessions beyond that end as if they could not continue.
pub const MOST_BYTES: usize = 256 << 20;

/// Returns the bytes that a shard's cards may have, if there are this many shards: first the limit
/// for sessions, which holds before the others end, then the limit for all cards. The difference is
/// for rooms, and for stanzas that the continuing sessions still get.
pub(crate) fn share(shards: usize) -> (usize, usize) {
    let share = MOST_BYTES / shards.max(1);
    (share / 4 * 3, share)
}

/// The bound of cards, for the page of limits.
pub const BOUNDS: &[Bound] = &[Bound::on(
    "data for the next start: sessions with their unacknowledged stanzas, and rooms",
    Per::Server,
    Most::Fixed(MOST_BYTES as u64),
    Unit::Bytes,
)
.or("sessions without room end at the stop, as those without stream management do")];

/// The address of a client whose address is unknown.
const NOWHERE: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED), 0);
