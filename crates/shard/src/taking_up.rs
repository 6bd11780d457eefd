//! The new home of a session whose client is still connected: to another node, or to this one.
//!
//! The session has arrived by its card or by a journal, and waits for its client. The connection is
//! given to it as with a resumption (XEP-0198 §5), except that the client isn't told: the node that
//! has the connection knows which stanzas the client was sent, and the old home may have handled
//! the first stanzas that it sends.

use std::collections::BTreeMap;

use rookery_base::Transport;
use rookery_fanout::{Link, Station};
use rookery_hub::{Bound, Most, Per, Unit};
use rookery_stream::websocket::Frames;
use rookery_xml::{Kind, Stanza};
use tracing::{debug, warn};

use crate::connection::{ConnectionStage, ConnectionWire, ShardConnection};
use crate::driver::Driver;
use crate::keeping::{HomeMemory, LOOK_MS, MOST_KEPT, Reattach, WaitingReattach};
use crate::lines::LineFrame;
use crate::shard::Shard;

/// The place of a session that a connection belongs to.
enum FoundSession {
    /// It is here, without a connection.
    Here(Link),
    /// It may still arrive.
    Later,
    /// It is not here, or has had another connection since.
    Nowhere,
}

impl<D: Driver> Shard<D> {
    /// Gives a client of another node its session, once that is here.
    pub(crate) fn reattach(&mut self, front: Station, key: u64, reattach: Reattach) {
        self.forget_reattach(front, key);
        let is_full = self.moves.reattaching.0.len() >= MOST_WAITING;
        if is_full || reattach.kept as usize > MOST_KEPT {
            return self.driver.frames.push((front, LineFrame::Close(key)));
        }
        let until_ms = self.timing.now_ms + PATIENCE_MS;
        let waiting = self.try_reattach(WaitingReattach { front, key, until_ms, reattach });
        if waiting.is_some() && self.moves.reattaching.0.is_empty() {
            self.moves.reattaching.1 = self.timing.now_ms + LOOK_MS;
            self.world.after(LOOK_MS, |_| {});
        }
        self.moves.reattaching.0.extend(waiting.map(|waiting| ((front, key), waiting)));
    }

    /// Checks the clients that wait for sessions, if it is time. Returns `true` if any waits no
    /// longer.
    pub(crate) fn look_for_sessions(&mut self) -> bool {
        let now_ms = self.timing.now_ms;
        let (waiting, due_ms) = &mut self.moves.reattaching;
        if waiting.is_empty() || now_ms < *due_ms {
            return false;
        }
        *due_ms = now_ms + LOOK_MS;
        let waiting = std::mem::take(waiting);
        let before = waiting.len();
        let waiting: BTreeMap<_, _> =
            waiting.into_iter().filter_map(|(of, waiting)| Some((of, self.try_reattach(waiting)?))).collect();
        let is_less = waiting.len() < before;
        self.moves.reattaching.0 = waiting;
        if !self.moves.reattaching.0.is_empty() {
            self.world.after(LOOK_MS, |_| {});
        }
        is_less
    }

    /// Forgets a client of another node that waits for its session.
    pub(crate) fn forget_reattach(&mut self, front: Station, key: u64) {
        self.moves.reattaching.0.remove(&(front, key));
    }

    /// Forgets all clients of a process that is gone.
    pub(crate) fn forget_reattaches(&mut self, node: u16, incarnation: u32) {
        self.moves.reattaching.0.retain(|(front, _), _| (front.node, front.incarnation) != (node, incarnation));
    }

    /// Gives a client its session. Returns it if it has still to wait.
    fn try_reattach(&mut self, waiting: WaitingReattach) -> Option<WaitingReattach> {
        let WaitingReattach { front, key, ref reattach, until_ms } = waiting;
        match self.find_session(reattach, Some((front, key))) {
            FoundSession::Later if self.timing.now_ms < until_ms => return Some(waiting),
            FoundSession::Here(session) if self.take_up_from(front, key, session, reattach) => {}
            _ => {
                debug!(%front, session = %reattach.session.jid, "a client of another node has no session here");
                self.driver.frames.push((front, LineFrame::Close(key)));
            }
        }
        None
    }

    /// Finds the session of a connection. `by`: the front that has it, if that is another node.
    fn find_session(&mut self, reattach: &Reattach, by: Option<(Station, u64)>) -> FoundSession {
        let session = &reattach.session;
        let account = session.jid.to_bare();
        let leaves = self.moves.coming.as_ref().is_some_and(|view| self.world.leaves_by(view, &account));
        let is_elsewhere = leaves || self.world.home_of(account.as_ref()) != self.index();
        if self.timing.stopping || is_elsewhere || self.world.is_expected(account.as_str()) {
            return FoundSession::Later;
        }
        let Some(link) = self.world.find_followed(session.jid.as_ref(), &session.id, session.line) else {
            return FoundSession::Nowhere;
        };
        if !self.world.is_detached(link) {
            let socket = self.connections.get(link).and_then(|connection| connection.socket.as_ref());
            match socket.zip(by) {
                // This home was silent for a while, but still has the line.
                Some((socket, (front, key))) if self.driver.is_line(socket, front, key) => {
                    self.driver.lost(front, key);
                    self.lost(link);
                    self.driver.sweep();
                }
                _ => return FoundSession::Nowhere,
            }
        }
        let is_place = |stage: &ConnectionStage| matches!(stage, ConnectionStage::Detached);
        match self.connections.get(link) {
            Some(place) if is_place(&place.stage) && self.world.is_settled(link) => FoundSession::Here(link),
            Some(place) if is_place(&place.stage) => FoundSession::Later,
            _ => FoundSession::Nowhere,
        }
    }

    /// Lets a session continue with a connection. Returns the number of the following stanzas on
    /// the connection that were handled already. Returns `None`, and does nothing, if the two don't
    /// match.
    fn take_up(&mut self, session: Link, reattach: &Reattach) -> Option<u32> {
        let handled = self.world.followed_session(session)?.handled;
        let known = handled.wrapping_sub(reattach.handled);
        // Each of these stanzas has some bytes, so there can't be more of them than bytes that were
        // kept. If bytes were kept, the old home may have taken more than it has counted, because
        // it waited for the store for too long.
        let client = (reattach.session.is_inactive, reattach.kept > 0);
        if known > reattach.kept || !self.world.take_up(session, reattach.sent, client) {
            warn!(session = %reattach.session.jid, "a connection no longer matches its session and is closed");
            return None;
        }
        Some(known)
    }

    /// Gives a session the client of another node.
    fn take_up_from(&mut self, front: Station, key: u64, session: Link, reattach: &Reattach) -> bool {
        let Some(socket) = self.driver.open(front, key, 0) else { return false };
        let Some(known) = self.take_up(session, reattach) else {
            // The front is told once.
            self.driver.lost(front, key);
            return false;
        };
        self.driver.remember(
            front,
            key,
            HomeMemory::again(&reattach.session, reattach.handled),
            reattach.kept as usize,
        );
        // The client counts on the node of its connection.
        self.driver.frames.push((front, LineFrame::Reattached(key)));
        let mut connection = ShardConnection::without_socket(reattach.peer);
        connection.socket = Some(socket);
        if reattach.is_websocket {
            connection.wire = ConnectionWire::WebSocket(Frames::default());
        }
        self.put_up(session, connection, reattach, known);
        self.end_known(session);
        true
    }

    /// Gives a session its client if the client has been connected to this shard all the time.
    /// Returns whether it still waits.
    pub(crate) fn follow_here(&mut self, link: Link, reattach: &Reattach) -> bool {
        let session = match self.find_session(reattach, None) {
            FoundSession::Later => return true,
            FoundSession::Here(session) => Some(session),
            FoundSession::Nowhere => None,
        };
        let Some((session, known)) = session.and_then(|session| Some((session, self.take_up(session, reattach)?)))
        else {
            debug!(session = %reattach.session.jid, "a client of this node has no session here");
            self.lost(link);
            return false;
        };
        let Some(mut connection) = self.connections.remove(link) else { return false };
        connection.socket.iter().for_each(|socket| self.driver.remove(socket));
        let mut kept = match std::mem::replace(&mut connection.stage, ConnectionStage::Detached) {
            ConnectionStage::Away(mut away) => away.memory.begin_again(),
            _ => Vec::new(),
        };
        self.put_up(session, connection, reattach, known);
        self.input(session, &mut kept);
        self.end_known(session);
        false
    }

    /// Puts a connection in place of a session, which continues.
    fn put_up(&mut self, session: Link, mut connection: ShardConnection<D::Socket>, reattach: &Reattach, known: u32) {
        let (since_s, until_s) = (reattach.session.since_s, reattach.session.until_s);
        connection.stage = ConnectionStage::Bound { since_s, until_s };
        connection.in_world = true;
        connection.carry = None;
        (connection.paused, connection.wants_write) = (false, false);
        connection.serial = self.next_serial();
        let prefixes = &reattach.session.prefixes;
        connection.prefixes = Some(prefixes.clone().into_boxed_slice()).filter(|prefixes| !prefixes.is_empty());
        let transport = connection.wire.transport();
        debug_assert!(transport != Transport::Bosh, "a session of BOSH has no line");
        let Some(place) = self.connections.get_mut(session) else { return };
        *place = connection;
        self.world.outboxes.set_transport(session, transport);
        if known > 0 {
            self.moves.known.insert(session, known);
        }
        if let Some(until_s) = until_s {
            let first = self.timing.proofs_until_s.map_or(until_s, |first| first.min(until_s));
            self.timing.proofs_until_s = Some(first);
        }
        let socket = self.connections.get(session).and_then(|connection| connection.socket.as_ref());
        if let Some(socket) = socket
            && self.driver.add(socket, session.0).is_err()
        {
            return self.lost(session);
        }
        self.write_interest(session);
        self.tell_begun(session, None, true);
        // A client that has asked for an acknowledgement may have got none.
        self.world.say_handled(session);
        self.flush_link(session);
        if self.world.is_paused(session) {
            self.pause(session, true);
        }
    }

    /// Returns whether a stanza of a session was handled by an earlier home.
    #[cold]
    pub(crate) fn is_known(&mut self, link: Link, stanza: Stanza<'_>) -> bool {
        let Some(left) = self.moves.known.get_mut(&link).filter(|_| stanza.kind() != Kind::Other) else {
            return false;
        };
        *left = left.saturating_sub(1);
        if *left == 0 {
            self.moves.known.remove(&link);
        }
        true
    }

    /// Closes a connection on which fewer stanzas have come than were handled, since it doesn't
    /// match its session.
    #[cold]
    pub(crate) fn end_known(&mut self, link: Link) {
        if !self.moves.known.contains_key(&link) {
            return;
        }
        let socket = self.connections.get(link).and_then(|connection| connection.socket.as_ref());
        if !socket.is_some_and(|socket| self.driver.has_known(socket)) {
            warn!("a connection no longer matches its session and is closed");
            self.lost(link);
        }
    }
}

/// The time for which the client of another node waits here for its session, in milliseconds.
const PATIENCE_MS: u64 = 30_000;
/// Clients that wait for their sessions.
const MOST_WAITING: usize = 20_000;
/// The bounds of these waits.
pub const BOUNDS: &[Bound] = &[Bound::on(
    "connections of other nodes that wait for their sessions to come here",
    Per::Shard,
    Most::Fixed(MOST_WAITING as u64),
    Unit::Number,
)
.or("one more is closed; its client may resume the session")];
