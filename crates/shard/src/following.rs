//! Lines that follow their sessions to other homes.
//!
//! A client is connected to one node, the front, and its session is at home on another. When the
//! home dies or hands the session on, the front keeps the connection, stops reading from it, and
//! asks the account's next home to continue (`taking_up`). The client notices only a pause.
//! If the home has written nothing since the client has logged in, the next home begins with it.
//!
//! # Invariants
//!
//! * The counts of XEP-0198 are the client's. The front knows how many complete stanzas its client
//!   was sent, and after which of the client's stanzas the bytes begin that it still has
//!   (`keeping`). If the line is in the middle of a stanza, this isn't known, and the line is
//!   closed.
//! * Once the front waits, it ignores everything from earlier homes.
//! * A client that comes back over another connection gets its session there, and its old
//!   connection is closed: the session knows which connection it had last.

use rookery_fanout::{Link, Station};
use rookery_hub::{Bound, FollowedSession, Most, Per, Unit};
use serde_bytes::ByteBuf;
use tracing::debug;

use crate::connection::{AwayState, ConnectionStage, ConnectionWire, Negotiation, ShardConnection};
use crate::driver::Driver;
use crate::keeping::{Attach, AwaitedHome, FrontMemory, LOOK_MS, LineMark, LineSession, MOST_KEPT};
use crate::lines::LineFrame;
use crate::shard::Shard;

impl<D: Driver> Shard<D> {
    /// Lets a client wait for another home of its session, or closes its connection if it can't
    /// continue there.
    pub(crate) fn await_home_or_end(&mut self, link: Link) {
        if !self.await_home(link) {
            debug!(link = link.0, "a connection can't go on with another home and is closed");
            self.lost(link);
        }
    }

    /// Lets a client wait for another home of its session. Returns `false` if it can't continue
    /// there.
    fn await_home(&mut self, link: Link) -> bool {
        let now_ms = self.timing.now_ms;
        let Some(away) = self.away(link).filter(|away| !away.is_over) else { return false };
        let patience_ms = away.memory.session().map(|session| (u64::from(session.seconds) * 1000).min(PATIENCE_MS));
        let until_ms = match (patience_ms, away.memory.login()) {
            (Some(patience_ms), _) => now_ms + patience_ms,
            (None, Some(login)) => *login.until_ms.get_or_insert(now_ms + PATIENCE_MS),
            (None, None) => return false,
        };
        if let Some(awaits) = &mut away.memory.awaits {
            // The front waits for its home already.
            awaits.asked = None;
            return true;
        }
        away.memory.awaits = Some(Box::new(AwaitedHome { until_ms, asked: None }));
        self.look_for_home(link);
        true
    }

    /// Returns whether a client waits for another home of its session.
    pub(crate) fn awaits_home(&mut self, link: Link) -> bool {
        self.away(link).is_some_and(|away| away.memory.awaits.is_some())
    }

    /// Schedules the next search for the home of a waiting client.
    pub(crate) fn look_for_home(&mut self, link: Link) {
        self.pause(link, true);
        let (key, now_ms) = (self.key_of(link), self.timing.now_ms);
        let (keys, due_ms) = &mut self.moves.following;
        if keys.is_empty() {
            *due_ms = now_ms + LOOK_MS;
            self.world.after(LOOK_MS, |_| {});
        }
        keys.push(key);
    }

    /// Makes the next tick check all clients that wait for homes or sessions.
    pub(crate) fn follow_soon(&mut self) {
        (self.moves.following.1, self.moves.reattaching.1) = (0, 0);
    }

    /// Checks the clients that wait for homes, if it is time. Returns `true` if any waits no
    /// longer.
    pub(crate) fn follow_on(&mut self) -> bool {
        let now_ms = self.timing.now_ms;
        let (keys, due_ms) = &mut self.moves.following;
        if keys.is_empty() || now_ms < *due_ms {
            return false;
        }
        *due_ms = now_ms + LOOK_MS;
        let keys = std::mem::take(keys);
        let before = keys.len();
        let mut waiting: Vec<u64> = keys
            .into_iter()
            .filter(|key| self.connection_of(*key).is_some_and(|link| self.awaits_home(link) && self.follow(link)))
            .collect();
        let is_less = waiting.len() < before;
        self.moves.following.0.append(&mut waiting);
        if !self.moves.following.0.is_empty() {
            self.world.after(LOOK_MS, |_| {});
        }
        is_less
    }

    /// Asks the home of a client that waits for it. Returns whether it still waits.
    fn follow(&mut self, link: Link) -> bool {
        let now_ms = self.timing.now_ms;
        let Some(connection) = self.connections.get(link) else { return false };
        let (peer, is_websocket) = (connection.peer, matches!(connection.wire, ConnectionWire::WebSocket(_)));
        let ConnectionStage::Away(away) = &connection.stage else { return false };
        let Some(awaits) = &away.memory.awaits else { return false };
        let (asked, until_ms) = (awaits.asked, awaits.until_ms);
        let reattach = away.memory.reattach(peer, is_websocket);
        let login = away.memory.log_in_again();
        let account = match (&reattach, &login) {
            (Some(reattach), _) => Some(reattach.session.jid.to_bare()),
            (None, login) => login.as_ref().map(|(attach, _)| attach.stream.account().clone()),
        };
        let Some(account) = account.filter(|_| now_ms < until_ms) else {
            debug!(link = link.0, "a connection is closed, because no other home has taken up its session");
            self.lost(link);
            return false;
        };
        let home = self.world.home_of(account.as_ref());
        if home == self.index() {
            return match reattach {
                Some(reattach) => self.follow_here(link, &reattach),
                None => login.is_some_and(|(attach, since)| self.log_in_here(link, attach, &since)),
            };
        }
        if home < self.world.own_shards() {
            self.connections.get_mut(link).into_iter().for_each(|connection| connection.paused = false);
            self.move_to(link, home);
            return false;
        }
        let Some(station) = self.world.station_of(home).filter(|_| !self.is_silent(home)) else { return true };
        let Some(reattach) = reattach else {
            return login.is_some_and(|(attach, since)| self.log_in_there(link, station, attach, &since));
        };
        if asked == Some(station) {
            return true;
        }
        let key = self.key_of(link);
        if let Some(other) = asked {
            self.driver.frames.push((other, LineFrame::Lost(key)));
        }
        if let Some(away) = self.away(link) {
            away.home = station;
            away.memory.awaits.iter_mut().for_each(|awaits| awaits.asked = Some(station));
        }
        self.driver.frames.push((station, LineFrame::Reattach(key, Box::new(reattach))));
        true
    }

    /// Gives another home a client that has logged in, and everything that the client has sent
    /// since. Returns `false`: the client no longer waits.
    fn log_in_there(&mut self, link: Link, home: Station, attach: Attach, since: &[u8]) -> bool {
        let key = self.key_of(link);
        if let Some(away) = self.away(link) {
            (away.home, away.sent, away.unwritten) = (home, since.len(), 0);
            away.memory.awaits = None;
        }
        self.begin_line(key, home, attach);
        if !since.is_empty() {
            self.driver.frames.push((home, LineFrame::Read(key, ByteBuf::from(since))));
        }
        self.pause(link, false);
        false
    }

    /// Lets a client that has logged in continue here, with everything that it has sent since.
    /// Returns `false`: the client no longer waits.
    fn log_in_here(&mut self, link: Link, attach: Attach, since: &[u8]) -> bool {
        let stream = attach.stream();
        let Attach { peer, is_websocket, mut carry, mut kept, .. } = attach;
        if is_websocket {
            kept.extend_from_slice(since)
        } else {
            carry.extend_from_slice(since)
        }
        let Some(machine) = self.machine_of(stream, is_websocket) else {
            self.lost(link);
            return false;
        };
        let negotiation = Negotiation { machine, ..self.negotiation(self.facts_without_tls(peer, false)) };
        let Some(connection) = self.connections.get_mut(link) else { return false };
        connection.stage = ConnectionStage::Negotiating(Box::new(negotiation));
        connection.begin_with(is_websocket, carry, &kept);
        self.pause(link, false);
        self.enter_home(link);
        false
    }

    /// Finds the connection of a client for which a home was asked to continue.
    pub(crate) fn asked_line_of(&mut self, home: Station, key: u64) -> Option<Link> {
        let link = self.connection_of(key)?;
        let awaits = self.away(link)?.memory.awaits.as_ref()?;
        (awaits.asked == Some(home)).then_some(link)
    }

    /// Continues with a client that has a home again.
    pub(crate) fn has_home_again(&mut self, link: Link) {
        let Some(away) = self.away(link) else { return };
        (away.sent, away.unwritten) = (0, 0);
        let kept = away.memory.begin_again();
        self.send_home(link, &kept);
        self.pause(link, false);
    }

    /// Gives sessions the numbers of their lines, for the journal.
    pub(crate) fn number_lines(&mut self) {
        for (at, link) in self.driver.news() {
            let link = Link(link);
            let Some(line) = self.driver.memory(at).map(|(memory, _)| memory.line) else { continue };
            let is_bound = self.connections.get(link).is_some_and(|connection| connection.is_bound());
            if is_bound && self.world.followed_session(link).is_some_and(|session| session.line != line) {
                self.world.set_line(link, line);
            }
        }
    }

    /// Sends fronts the data that they need in case this home is gone.
    pub(crate) fn mark_lines(&mut self) {
        for (at, link) in self.driver.news() {
            self.mark_line(at, Link(link), false);
        }
        self.driver.forget_news();
    }

    /// Tells the front of a line its position; if `is_last`, even if it has hardly changed. Returns
    /// whether the line can continue elsewhere from there.
    fn mark_line(&mut self, at: usize, link: Link, is_last: bool) -> bool {
        let Some(connection) = self.connections.get(link) else { return false };
        let ConnectionStage::Bound { since_s, until_s } = connection.stage else { return false };
        let rest = match &connection.wire {
            ConnectionWire::Stream => Some(connection.carry.as_ref().map_or(0, |carry| carry.bytes.len())),
            ConnectionWire::WebSocket(frames) => frames.is_between_messages().then(|| frames.kept_bytes()),
            ConnectionWire::Bosh(_) => return false,
        };
        let is_whole = connection.unsent.as_ref().is_none_or(|unsent| unsent.at >= unsent.bytes.len())
            && !self.world.outboxes.is_begun(link);
        let knows_more = self.moves.known.contains_key(&link);
        let Some(session) = self.world.followed_session(link) else { return false };
        let Some((memory, read)) = self.driver.memory(at) else { return false };
        if session.line != memory.line {
            return false;
        }
        if let Some(rest) = rest.filter(|_| !knows_more) {
            memory.reach(read.saturating_sub(rest as u64), session.handled);
        }
        session.journaled.into_iter().for_each(|journaled| memory.settle(journaled));
        let now = Some((session.id, session.is_inactive));
        let is_new = std::mem::replace(&mut memory.told, now) != now;
        let (is_due, safe, line) = (memory.news(is_last).is_some(), memory.news(true), memory.line);
        if is_new && let Some(jid) = self.world.address(link).cloned() {
            let (id, seconds, is_inactive) = (session.id, session.seconds, session.is_inactive);
            let prefixes = connection.prefixes.as_deref().unwrap_or_default().to_vec();
            let told = LineSession { jid, id, line, seconds, is_inactive, since_s, until_s, prefixes };
            self.driver.tell_session(at, told);
        }
        let mark = LineMark { sent: session.sent, safe };
        if is_whole
            && self.driver.tell_whole(at, mark, is_due || is_last)
            && let Some((memory, _)) = self.driver.memory(at)
        {
            memory.told_safe(safe);
        }
        is_whole
    }

    /// Returns the way in which the connection of a leaving session continues; `None` if it is to
    /// be closed.
    pub(crate) fn connection_that_goes_on(&mut self, link: Link) -> Option<ConnectionGoingOn> {
        let socket = self.connections.get(link)?.socket.as_ref()?;
        let Some(at) = self.driver.place(socket) else {
            return self.memory_as_front(link).map(|memory| ConnectionGoingOn::Front(Box::new(memory)));
        };
        let mut rest = Vec::new();
        self.world.outboxes.append_rest(link, &mut rest);
        if self.driver.write_rest(at, &rest) {
            self.world.outboxes.remove_sent(link, rest.len());
        }
        self.mark_line(at, link, true).then_some(ConnectionGoingOn::Line(at))
    }

    /// Returns the memory with which this node continues as the front of a session that leaves;
    /// `None` if it can't. Any partly sent stanza has been sent completely by then.
    fn memory_as_front(&mut self, link: Link) -> Option<FrontMemory> {
        if !self.moves.stays || self.timing.stopping || self.timing.shut {
            return None;
        }
        let connection = self.connections.get_mut(link)?;
        let ConnectionStage::Bound { since_s, until_s } = connection.stage else { return None };
        let (is_between, most) = match &connection.wire {
            ConnectionWire::Stream => (true, connection.carry.as_ref().map_or(0, |carry| carry.bytes.len())),
            ConnectionWire::WebSocket(frames) => (frames.is_between_messages(), frames.kept_bytes()),
            ConnectionWire::Bosh(_) => (false, 0),
        };
        if !is_between || most > MOST_KEPT || !self.world.is_lasting(link) {
            return None;
        }
        if let Some(unsent) = &mut connection.unsent {
            let before = unsent.bytes.len();
            let mut left = std::mem::take(&mut unsent.covers);
            if connection.tls.is_none() {
                self.world.outboxes.append_rest(link, &mut unsent.bytes);
                left += unsent.bytes.len() - before;
            }
            self.world.outboxes.remove_sent(link, left);
        }
        let kept = match &mut connection.wire {
            ConnectionWire::WebSocket(frames) => frames.take_kept(),
            _ => connection.carry.take().map(|carry| carry.bytes).unwrap_or_default(),
        };
        let prefixes = connection.prefixes.as_deref().unwrap_or_default().to_vec();
        let line = (self.common.ids)() as u64 | 1;
        self.world.set_line(link, line);
        let (jid, session) = self.world.address(link).cloned().zip(self.world.followed_session(link))?;
        let FollowedSession { id, seconds, is_inactive, sent, handled, .. } = session;
        let told = LineSession { jid, id, line, seconds, is_inactive, since_s, until_s, prefixes };
        Some(FrontMemory::standing(told, sent, handled, kept))
    }

    /// Lets the connection of a session that has left here wait for its new home.
    pub(crate) fn go_on_as_front(&mut self, link: Link, mut memory: FrontMemory) {
        let Some(connection) = self.connections.get_mut(link) else { return };
        let mut front = ShardConnection::without_socket(connection.peer);
        front.in_world = false;
        front.socket = connection.socket.take();
        front.tls = connection.tls.take();
        front.wire = std::mem::take(&mut connection.wire);
        front.unsent = connection.unsent.take();
        front.socket.iter().for_each(|socket| self.driver.remove(socket));
        let (seconds, home) = (memory.session().map_or(0, |session| session.seconds), self.world.station());
        let until_ms = self.timing.now_ms + (u64::from(seconds) * 1000).min(PATIENCE_MS);
        memory.awaits = Some(Box::new(AwaitedHome { until_ms, asked: None }));
        front.stage =
            ConnectionStage::Away(Box::new(AwayState { home, sent: 0, unwritten: 0, is_over: false, memory }));
        if let Some(link) = self.insert(front) {
            self.write_interest(link);
            self.look_for_home(link);
        }
    }
}

/// The connection of a session that leaves for another home.
pub(crate) enum ConnectionGoingOn {
    /// It is a line, at this place.
    Line(usize),
    /// It is a connection to this node, which is its front from now on.
    Front(Box<FrontMemory>),
}

/// The longest time for which a client waits for another home.
const PATIENCE_MS: u64 = 60_000;
/// The bounds of this memory.
pub const BOUNDS: &[Bound] = &[
    Bound::on(
        "what a client has sent to a session on another node and that isn't safe yet",
        Per::Connection,
        Most::Fixed(MOST_KEPT as u64),
        Unit::Bytes,
    )
    .or("until all of it is safe, the connection is closed if that node dies"),
    Bound::on(
        "the time for which a connection waits for the new home of its session",
        Per::Connection,
        Most::Fixed(PATIENCE_MS / 1000),
        Unit::Seconds,
    )
    .or("it is closed; its client may resume the session"),
];
