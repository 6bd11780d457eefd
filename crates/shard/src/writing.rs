//! From outboxes to sockets: one write per connection and tick.

use std::io::ErrorKind;

use rookery_fanout::{Link, begin_message};
use rookery_observe::{SAMPLED, StanzaStage};
use rookery_stream::error::StreamError;
use rookery_stream::websocket::framing;
use tracing::debug;

use crate::connection::{ConnectionStage, ConnectionWire, UnsentBytes};
use crate::driver::Driver;
use crate::shard::Shard;

impl<D: Driver> Shard<D> {
    /// Writes every connection that got something in this tick.
    pub(crate) fn flush(&mut self) {
        loop {
            let dirty = self.world.outboxes.take_dirty();
            if dirty.is_empty() {
                self.world.outboxes.recycle(dirty);
                self.answer_requests();
                return self.world.ask_for_acknowledgements();
            }
            let begun = self.world.counters.stages.begin();
            for &link in &dirty {
                self.flush_link(link);
            }
            _ = self.world.counters.stages.end(rookery_observe::MulticastStage::Write, begun);
            self.world.outboxes.recycle(dirty);
        }
    }

    /// Writes waiting data of one connection, as much as it accepts.
    pub(crate) fn flush_link(&mut self, link: Link) {
        self.write_waiting(link);
        self.world.outboxes.ask(link, false);
    }

    fn write_waiting(&mut self, link: Link) {
        if self.note_news(link) {
            return;
        }
        loop {
            self.write_pong(link);
            let Some(connection) = self.connections.get_mut(link) else { return };
            let is_free = connection.unsent.is_none() && connection.socket.is_some();
            if !is_free
                || !matches!(connection.stage, ConnectionStage::Bound { .. })
                || !self.world.outboxes.has_waiting(link)
            {
                return;
            }
            let mut rendered = std::mem::take(&mut self.buffers.rendered);
            rendered.clear();
            let outer = self.world.counters.path.enter(StanzaStage::Render);
            self.world.outboxes.render(link, WRITE, &mut rendered);
            self.world.counters.path.back(outer);
            self.measured.writes = self.measured.writes.wrapping_add(1);
            if self.measured.writes.is_multiple_of(SAMPLED) {
                self.world.counters.writes.of(connection.wire.transport().label()).record(rendered.len() as u64);
            }
            if connection.tls.is_some() {
                self.write_through(link, &rendered, rendered.len());
            } else {
                self.write_plain(link, &rendered);
            }
            rendered.shrink_to(4 * WRITE);
            self.buffers.rendered = rendered;
        }
    }

    /// Writes rendered stanzas without TLS: bytes that the system doesn't accept stay in the
    /// outbox.
    fn write_plain(&mut self, link: Link, rendered: &[u8]) {
        let Some(connection) = self.connections.get_mut(link) else { return };
        let Some(socket) = &connection.socket else { return };
        let outer = self.world.counters.path.enter(StanzaStage::Write);
        let sent = self.driver.send(socket, rendered);
        self.world.counters.path.back(outer);
        let sent = match sent {
            Ok(sent) => sent,
            Err(error) if error.kind() == ErrorKind::WouldBlock => 0,
            Err(error) => {
                debug!(peer = %connection.peer, %error, "a connection broke");
                return self.lost(link);
            }
        };
        debug_assert!(sent <= rendered.len(), "the system takes what it was given");
        debug_assert!(connection.unsent.is_none(), "nothing is written past what waits");
        self.world.outboxes.remove_sent(link, sent);
        if sent < rendered.len() {
            // An empty remainder only says that the connection is full.
            connection.unsent = Some(Box::default());
            self.write_interest(link);
        }
    }

    /// Writes the output of a stream's machine, in the form of the transport.
    pub(crate) fn write_raw(&mut self, link: Link, bytes: &[u8]) {
        match self.connections.get(link).map(|connection| &connection.wire) {
            Some(ConnectionWire::WebSocket(_)) => {
                let mut frames = Vec::new();
                framing::write(bytes, |message| {
                    begin_message(message.len(), &mut frames);
                    frames.extend_from_slice(message);
                });
                self.write_through(link, &frames, 0);
            }
            Some(ConnectionWire::Stream) => self.write_through(link, bytes, 0),
            Some(ConnectionWire::Bosh(_)) => self.say(link, bytes),
            None => {}
        }
    }

    /// Writes bytes, encrypted if the connection is. `covers` is the number of bytes of the outbox
    /// that they stand for.
    pub(crate) fn write_through(&mut self, link: Link, bytes: &[u8], covers: usize) {
        if bytes.is_empty() {
            return;
        }
        let Some(connection) = self.connections.get_mut(link) else { return };
        let Some(tls) = &mut connection.tls else { return self.write_wire(link, bytes, covers) };
        let mut cipher = std::mem::take(&mut self.buffers.cipher);
        cipher.clear();
        let outer = self.world.counters.path.enter(StanzaStage::Encrypt);
        let encrypted = tls.write(bytes, &mut cipher);
        self.world.counters.path.back(outer);
        if let Err(error) = encrypted {
            debug!(%error, "TLS can't write");
            self.lost(link);
        } else {
            self.write_wire(link, &cipher, covers);
        }
        cipher.shrink_to(4 * WRITE);
        self.buffers.cipher = cipher;
    }

    /// Writes bytes unchanged, after those that wait, and keeps those that the system doesn't
    /// accept. `covers` is the number of bytes of the outbox that they stand for.
    pub(crate) fn write_wire(&mut self, link: Link, bytes: &[u8], covers: usize) {
        if bytes.is_empty() {
            return;
        }
        let Some(connection) = self.connections.get_mut(link) else { return };
        let Some(socket) = &connection.socket else { return };
        if let Some(unsent) = &mut connection.unsent {
            unsent.bytes.extend_from_slice(bytes);
            unsent.covers += covers;
            let covers = unsent.covers;
            return self.world.outboxes.commit(link, covers);
        }
        let outer = self.world.counters.path.enter(StanzaStage::Write);
        let sent = self.driver.send(socket, bytes);
        self.world.counters.path.back(outer);
        match sent {
            Ok(sent) if sent >= bytes.len() => self.world.outboxes.remove_sent(link, covers),
            Ok(sent) => self.keep_unsent(link, bytes.get(sent..).unwrap_or_default(), covers),
            Err(error) if error.kind() == ErrorKind::WouldBlock => self.keep_unsent(link, bytes, covers),
            Err(error) => {
                debug!(peer = %connection.peer, %error, "a connection broke");
                self.lost(link);
            }
        }
    }

    fn keep_unsent(&mut self, link: Link, bytes: &[u8], covers: usize) {
        if let Some(connection) = self.connections.get_mut(link) {
            debug_assert!(connection.unsent.is_none(), "what waits is added to, not replaced");
            connection.unsent = Some(Box::new(UnsentBytes { bytes: bytes.to_vec(), at: 0, covers }));
            self.world.outboxes.commit(link, covers);
            self.write_interest(link);
        }
    }

    /// Updates the events that the socket is watched for.
    pub(crate) fn write_interest(&mut self, link: Link) {
        let Some(connection) = self.connections.get_mut(link) else { return };
        let wants = connection.unsent.is_some();
        if connection.wants_write != wants {
            connection.wants_write = wants;
            if let Some(socket) = &connection.socket {
                self.driver.interest(socket, link.0, !connection.paused, wants);
            }
        }
    }

    /// Continues to write to a connection that was full and takes bytes again.
    pub(crate) fn writable(&mut self, link: Link) {
        let Some(connection) = self.connections.get_mut(link) else { return };
        let (Some(socket), Some(unsent)) = (&connection.socket, &mut connection.unsent) else { return };
        let rest = unsent.bytes.get(unsent.at..).unwrap_or_default();
        if !rest.is_empty() {
            match self.driver.send(socket, rest) {
                Ok(sent) => {
                    debug_assert!(sent <= rest.len(), "the system takes what it was given");
                    unsent.at += sent;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) => {
                    debug!(peer = %connection.peer, %error, "a connection broke");
                    return self.lost(link);
                }
            }
        }
        if unsent.at < unsent.bytes.len() {
            return;
        }
        let covers = unsent.covers;
        connection.unsent = None;
        self.world.outboxes.remove_sent(link, covers);
        let is_over = |stage: &ConnectionStage| match stage {
            ConnectionStage::Away(away) => away.is_over,
            stage => matches!(stage, ConnectionStage::Lingering),
        };
        if let Some(connection) = self.connections.get(link)
            && is_over(&connection.stage)
            && let Some(socket) = &connection.socket
        {
            self.driver.shutdown(socket);
        }
        self.tell_written(link);
        self.flush_link(link);
        self.write_interest(link);
    }

    /// Ends the connection of a client whose session on another node has ended, after its last
    /// output.
    pub(crate) fn finish_line(&mut self, link: Link) {
        let Some(connection) = self.connections.get_mut(link) else { return };
        let ConnectionStage::Away(away) = &mut connection.stage else { return };
        away.is_over = true;
        self.part(link);
    }

    /// Ends TLS and the sending side of a connection after the last write, and waits for the
    /// client's end.
    fn part(&mut self, link: Link) {
        let mut farewell = Vec::new();
        if let Some(connection) = self.connections.get_mut(link)
            && let Some(tls) = &mut connection.tls
        {
            tls.close_notify(&mut farewell);
        }
        self.write_wire(link, &farewell, 0);
        if let Some(connection) = self.connections.get(link)
            && connection.unsent.is_none()
            && let Some(socket) = &connection.socket
        {
            self.driver.shutdown(socket);
        }
        self.pause(link, false);
        self.linger(link);
    }

    /// Ends a stream with an error (RFC 6120 §4.9.1.1).
    pub(crate) fn fail(&mut self, link: Link, error: &StreamError, text: Option<&str>) {
        let mut out = Vec::new();
        if matches!(
            self.connections.get(link).map(|connection| &connection.stage),
            Some(ConnectionStage::Bound { .. } | ConnectionStage::Detached)
        ) && !self.world.is_gone(link)
        {
            self.tell_ended(
                link,
                &text.map_or_else(|| error.name().to_owned(), |text| format!("{}: {text}", error.name())),
            );
        }
        match self.connections.get(link).map(|connection| &connection.stage) {
            // The machine knows whether the stream's header is out already.
            Some(ConnectionStage::Negotiating(_)) => {
                self.with_machine(link, |machine| machine.close(error, text, &mut out));
            }
            Some(ConnectionStage::Bound { .. }) => error.render(text, &mut out),
            // A stream that already ends may still wait for the store.
            Some(ConnectionStage::Detached) if self.world.is_gone(link) => return,
            Some(ConnectionStage::Detached) => return self.world.closed(link),
            // The state of its stream is only known on the other node.
            Some(ConnectionStage::Away(_)) => return self.lost(link),
            _ => return,
        }
        self.finish(link, &out);
    }

    /// Writes the end of a stream and closes our direction. The peer has a few seconds to close its
    /// own.
    pub(crate) fn finish(&mut self, link: Link, last: &[u8]) {
        if self.end_session(link, last) {
            return;
        }
        self.flush_link(link);
        let Some(connection) = self.connections.get_mut(link) else { return };
        if matches!(connection.stage, ConnectionStage::Lingering) {
            return;
        }
        if let Some(unsent) = connection.unsent.as_mut().filter(|_| connection.tls.is_none()) {
            // Without TLS the rest of a half-written stanza is still in the outbox.
            self.world.outboxes.append_rest(link, &mut unsent.bytes);
        }
        let in_world = connection.in_world;
        let handshaking = connection.tls.as_ref().is_some_and(|tls| tls.handshaking());
        connection.stage = ConnectionStage::Lingering;
        connection.carry = None;
        if !handshaking {
            self.write_raw(link, last);
            self.write_closing(link);
        }
        self.part(link);
        if in_world {
            self.world.closed(link);
        }
    }

    /// Forgets a connection whose login was given up while the world was still answering.
    pub(crate) fn forget_unless_connected(&mut self, link: Link) {
        if self.connections.get(link).is_some_and(|connection| !connection.is_connected()) {
            self.lost(link);
        }
    }
}

/// The bytes of one write, and of one run of TLS records.
const WRITE: usize = 64 * 1024;
