//! A session changes its connection (XEP-0198 §5).
//!
//! A session stays where it is: its link, and everything that refers to it, is the same before and
//! after. It is the new connection that moves to the link of the session.

use rookery_fanout::Link;
use rookery_hub::NotResumed;
use rookery_stream::error::StreamError;

use crate::connection::{ConnectionStage, ConnectionWire, ShardConnection};
use crate::driver::Driver;
use crate::shard::Shard;

impl<D: Driver> Shard<D> {
    /// Gives waiting connections their sessions, if these are settled by now. Returns `true` if
    /// there was any.
    pub(crate) fn resume_settled(&mut self) -> bool {
        if self.resumptions.is_empty() {
            return false;
        }
        let mut any = false;
        for resumption in std::mem::take(&mut self.resumptions) {
            let Some(link) = self.connection_of(resumption.connection) else { continue };
            match self.find_resumable(link, &resumption.previd) {
                Ok(session) if self.world.is_settled(session) => self.resume(link, session, resumption.h),
                Ok(_) => {
                    self.resumptions.push(resumption);
                    continue;
                }
                Err(NotResumed { condition, handled }) => {
                    let mut out = Vec::new();
                    self.with_machine(link, |machine| machine.not_resumed(&condition, handled, &mut out));
                    self.answered(link, &out);
                }
            }
            any = true;
        }
        any
    }

    /// Empties the connection of a session that the world keeps while its client is gone.
    pub(crate) fn detached(&mut self, link: Link) {
        if let Some(connection) = self.connections.get_mut(link) {
            debug_assert!(connection.in_world, "a session that is detached is in the world");
            connection.stage = ConnectionStage::Detached;
            connection.tls = None;
            connection.prefixes = None;
            connection.wire = ConnectionWire::Stream;
            connection.wants_write = false;
        }
    }

    /// Finds the session that a connection which has logged in may resume.
    pub(crate) fn find_resumable(&mut self, link: Link, previd: &str) -> Result<Link, NotResumed> {
        let account = self.with_machine(link, |machine| machine.account().cloned()).flatten();
        let unknown = || NotResumed { condition: rookery_stream::error::Condition::ItemNotFound, handled: None };
        self.world.resumable(&account.ok_or_else(unknown)?, previd)
    }

    /// Gives a session to a connection that is to continue it. Input that the connection has read
    /// ahead is kept with it.
    pub(crate) fn resume(&mut self, link: Link, session: Link, h: u32) {
        if let Err(error) = self.world.acknowledge_back(session, h) {
            return self.fail(link, &error, None);
        }
        self.end_begun_stanza(session);
        let handled = self.world.resume(session);
        let Some(jid) = self.world.address(session).cloned() else { return };
        let mut out = Vec::new();
        self.with_machine(link, |machine| machine.resumed(jid, handled, &mut out));
        self.write_raw(link, &out);
        self.take_over(link, session);
        if self.connections.get(session).is_none_or(|connection| connection.socket.is_none()) {
            // The system could not watch the connection: it is closed already.
            return;
        }
        self.is_bound(session, true);
        self.flush_link(session);
        let is_paused = self.world.is_paused(session);
        self.pause(session, is_paused);
        if !is_paused {
            self.input(session, &mut []);
        }
    }

    /// Completes the stanza that an older connection has begun to write: anything else written
    /// there has to follow a complete stanza.
    fn end_begun_stanza(&mut self, session: Link) {
        if let Some(connection) = self.connections.get_mut(session)
            && connection.tls.is_none()
            && let Some(unsent) = &mut connection.unsent
        {
            self.world.outboxes.append_rest(session, &mut unsent.bytes);
        }
    }

    /// Moves a connection to the link of a session. If the session still has an older connection,
    /// that ends with `conflict`.
    fn take_over(&mut self, link: Link, session: Link) {
        let Some(mut new) = self.connections.remove(link) else { return };
        if let Some(socket) = &new.socket {
            self.driver.remove(socket);
        }
        debug_assert!(link != session, "a connection moves to another link");
        // The new connection doesn't repeat the rest of the older connection's output.
        self.moves.known.remove(&session);
        new.in_world = true;
        new.wants_write = false;
        new.paused = false;
        new.serial = self.next_serial();
        let Some(place) = self.connections.get_mut(session) else { return };
        let old = std::mem::replace(place, new);
        if let Some(socket) = &old.socket {
            self.driver.remove(socket);
        }
        let added = self.connections.get(session).and_then(|connection| connection.socket.as_ref());
        if let Some(socket) = added
            && self.driver.add(socket, session.0).is_err()
        {
            self.lost(session);
        }
        self.write_interest(session);
        self.dismiss(old);
    }

    fn dismiss(&mut self, mut old: ShardConnection<D::Socket>) {
        if old.socket.is_none() {
            return;
        }
        old.in_world = false;
        old.paused = false;
        old.wants_write = false;
        if let Some(link) = self.insert(old) {
            self.write_interest(link);
            self.fail(link, &StreamError::Conflict, Some("the session continues over another connection"));
        }
    }
}
