//! Clients whose sessions are on another node. This node has only their connections and TLS.
//!
//! Up to the end of its login a client is served like any other; then the state of its stream goes
//! to the shard that is home to its account, and from there on bytes travel in both directions
//! ([`crate::lines`]).

use rookery_base::Transport;
use rookery_fanout::{Link, Station};
use rookery_hub::Custody;
use rookery_stream::c2s::{C2s, HandOver};
use rookery_stream::error::StreamError;

use serde_bytes::ByteBuf;
use tracing::{debug, warn};

use crate::connection::{AwayState, ConnectionStage, ConnectionWire, Negotiation, ShardConnection};
use crate::driver::Driver;
use crate::keeping::{Attach, FrontMemory, LineMark};
use crate::lines::{LineFrame, MOST, SHARE, WINDOW};
use crate::mailboxes::MailboxKind;
use crate::shard::Shard;
use crate::steering::can_follow;

impl<D: Driver> Shard<D> {
    /// Sends a stream that has logged in to the home of its account on another node.
    pub(crate) fn move_away(&mut self, link: Link, home: usize) {
        let Some(station) = self.world.station_of(home) else { return };
        let key = self.key_of(link);
        let Some(connection) = self.connections.get_mut(link) else { return };
        let (is_websocket, kept) = match &mut connection.wire {
            ConnectionWire::Stream => (false, Vec::new()),
            ConnectionWire::WebSocket(frames) => (true, frames.take_kept()),
            ConnectionWire::Bosh(_) => return self.move_bosh_away(link, station),
        };
        let carry = connection.carry.take().map(|carry| carry.bytes).unwrap_or_default();
        if let Some(tls) = &mut connection.tls {
            tls.forget_handshake();
        }
        let peer = connection.peer;
        let stage = std::mem::replace(&mut connection.stage, ConnectionStage::Lingering);
        let ConnectionStage::Negotiating(negotiation) = stage else {
            connection.stage = stage;
            return;
        };
        let Some(stream) = negotiation.machine.hand_over() else { return self.lost(link) };
        let later = stream.later();
        let attach = Attach { peer, is_websocket, stream, carry, kept, later };
        let memory = FrontMemory::with_login(attach.clone());
        let away = AwayState { home: station, sent: 0, unwritten: 0, is_over: false, memory };
        connection.stage = ConnectionStage::Away(Box::new(away));
        self.begin_line(key, station, attach);
        self.pause(link, false);
    }

    /// Gives a home a client that has logged in.
    pub(crate) fn begin_line(&mut self, key: u64, home: Station, attach: Attach) {
        self.driver.frames.push((home, LineFrame::Attach(key, Box::new(attach))));
        self.driver.frames.push((home, LineFrame::Follow(key)));
    }

    /// Passes on a client's input.
    pub(crate) fn send_home(&mut self, link: Link, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        let key = self.key_of(link);
        let Some(away) = self.away(link).filter(|away| !away.is_over) else { return };
        away.memory.pass(bytes);
        if away.memory.awaits.is_some() {
            // These bytes go to the next home, together with those that are kept.
            return;
        }
        away.sent += bytes.len();
        let (home, is_full) = (away.home, away.sent > AHEAD);
        for some in bytes.chunks(AHEAD) {
            self.driver.frames.push((home, LineFrame::Read(key, ByteBuf::from(some))));
        }
        if is_full {
            self.pause(link, true);
        }
    }

    /// Tells the home of a client's session that its connection is gone.
    pub(crate) fn tell_lost(&mut self, link: Link) {
        let key = self.key_of(link);
        if let Some(home) = self.away(link).map(|away| away.home) {
            self.driver.frames.push((home, LineFrame::Lost(key)));
        }
    }

    /// Tells the home how many bytes the client has received, when the connection accepts bytes
    /// again.
    pub(crate) fn tell_written(&mut self, link: Link) {
        let key = self.key_of(link);
        let is_free = self.connections.get(link).is_some_and(|connection| connection.unsent.is_none());
        let Some(away) = self.away(link).filter(|away| is_free && away.unwritten >= SHARE) else { return };
        let bytes = u32::try_from(std::mem::take(&mut away.unwritten)).unwrap_or(u32::MAX);
        let home = away.home;
        self.driver.frames.push((home, LineFrame::Written(key, bytes)));
    }

    pub(crate) fn away(&mut self, link: Link) -> Option<&mut AwayState> {
        match &mut self.connections.get_mut(link)?.stage {
            ConnectionStage::Away(away) => Some(away),
            _ => None,
        }
    }

    /// Reads letters of a shard of another node. Frames of lines are in nobody's custody, since the
    /// custody of the client's session covers their contents.
    pub(crate) fn letters_from_afar(
        &mut self,
        from: Station,
        letters: Vec<(MailboxKind, Vec<u8>)>,
        custody: Option<Custody>,
    ) {
        for (kind, bytes) in letters {
            match kind {
                MailboxKind::Mail => {
                    if let Err(error) = self.world.mail_from_afar(&bytes, custody.clone()) {
                        warn!(%from, %error, "mail from another node can't be read and is dropped");
                    }
                }
                MailboxKind::Line => match LineFrame::read(&bytes) {
                    Ok(frame) => self.frame(from, frame),
                    Err(error) => warn!(%from, %error, "a frame from another node can't be read and is dropped"),
                },
            }
        }
    }

    fn frame(&mut self, from: Station, frame: LineFrame) {
        match frame {
            LineFrame::Attach(key, attach) => self.attach(from, key, *attach),
            LineFrame::Read(key, bytes) => self.driver.arrived(from, key, &bytes),
            LineFrame::Written(key, bytes) => self.driver.note_written(from, key, bytes as usize),
            LineFrame::Lost(key) => {
                self.driver.lost(from, key);
                self.forget_reattach(from, key);
            }
            LineFrame::Write(key, bytes) => self.write_away(from, key, &bytes, None),
            LineFrame::Whole(key, bytes, mark) => self.write_away(from, key, &bytes, Some(mark)),
            LineFrame::Taken(key, bytes) => {
                let Some(link) = self.line_of(from, key) else { return };
                let Some(away) = self.away(link) else { return };
                away.sent = away.sent.saturating_sub(bytes as usize);
                if away.sent <= AHEAD {
                    self.pause(link, false);
                }
            }
            LineFrame::Finish(key) => {
                if let Some(link) = self.line_of(from, key) {
                    self.finish_line(link);
                }
            }
            LineFrame::Close(key) => {
                if let Some(link) = self.asked_line_of(from, key) {
                    self.lost(link);
                } else if let Some(link) = self.line_of(from, key) {
                    // It may have learned later than this node that it is the home, or earlier that
                    // it isn't any more.
                    let logs_in = self.away(link).is_some_and(|away| away.memory.login().is_some());
                    if logs_in { self.await_home_or_end(link) } else { self.lost(link) }
                }
            }
            LineFrame::Bosh(frame) => self.relay_frame(from, *frame),
            LineFrame::Follow(key) => {
                let number = (self.common.ids)() as u64 | 1;
                self.driver.follow(from, key, number);
            }
            LineFrame::Session(key, session) => {
                let away = self.line_of(from, key).and_then(|link| self.away(link));
                away.into_iter().for_each(|away| away.memory.note_session((*session).clone()));
            }
            LineFrame::HandedOn(key) => {
                if let Some(link) = self.line_of(from, key) {
                    self.await_home_or_end(link);
                }
            }
            LineFrame::Reattach(key, reattach) => self.reattach(from, key, *reattach),
            LineFrame::Reattached(key) => {
                if let Some(link) = self.asked_line_of(from, key) {
                    self.has_home_again(link);
                }
            }
        }
    }

    /// Writes data from the home of a client.
    fn write_away(&mut self, from: Station, key: u64, bytes: &[u8], mark: Option<LineMark>) {
        let Some(link) = self.line_of(from, key) else { return };
        let Some(away) = self.away(link) else { return };
        match mark {
            Some(mark) => away.memory.mark(mark),
            None => away.memory.begin_stanza(),
        }
        away.unwritten += bytes.len();
        if away.unwritten > MOST {
            warn!(%from, "another node sent more for a client than there is room for; the client is disconnected");
            return self.lost(link);
        }
        self.write_through(link, bytes, 0);
        self.tell_written(link);
    }

    /// Finds the connection of a line that a home names.
    fn line_of(&mut self, home: Station, key: u64) -> Option<Link> {
        let link = self.connection_of(key)?;
        self.away(link).is_some_and(|away| away.home == home && away.memory.awaits.is_none()).then_some(link)
    }

    /// Returns the machine of a stream that has logged in elsewhere; `None` if its host isn't
    /// served here.
    pub(crate) fn machine_of(&self, stream: HandOver, is_websocket: bool) -> Option<C2s> {
        let transport = if is_websocket { Transport::WebSocket } else { Transport::Tcp };
        let ids = self.common.ids.clone();
        C2s::taken_over(self.common.generation.policy.clone(), stream, transport, Box::new(move || ids()))
    }

    /// Gives a client of another node a connection of its own here.
    fn attach(&mut self, front: Station, key: u64, attach: Attach) {
        let stream = attach.stream();
        let Attach { peer, is_websocket, carry, kept, .. } = attach;
        let transport = if is_websocket { Transport::WebSocket } else { Transport::Tcp };
        let (account, is_secure) = (stream.account().clone(), stream.is_secure());
        let is_home = self.world.home_of(account.as_ref()) == self.index() && !self.timing.stopping;
        let Some(machine) = self.machine_of(stream, is_websocket).filter(|_| is_home) else {
            debug!(%front, account = account.as_str(), "a client of another node is not at home here");
            return self.driver.frames.push((front, LineFrame::Close(key)));
        };
        self.end_earlier_line(front, key);
        let Some(socket) = self.driver.open(front, key, carry.len() + kept.len()) else { return };
        // The client counts on the node of its connection.
        let negotiation = Negotiation { machine, ..self.negotiation(self.facts_without_tls(peer, false)) };
        let mut connection = ShardConnection::new(Some(socket), peer, 0, negotiation);
        connection.begin_with(is_websocket, carry, &kept);
        let Some(link) = self.insert(connection) else { return };
        if can_follow(transport, is_secure)
            && let Some(steering) =
                self.common.generation.settings.told.steering.as_ref().filter(|steering| steering.logins)
            && self.moves.steered.is_due(&account, self.timing.now_ms)
        {
            debug!(%front, account = account.as_str(), "a client is sent to the node that is home to its account");
            return self.fail(link, &StreamError::SeeOtherHost(steering.host.as_str().into()), None);
        }
        self.enter_home(link);
    }

    /// Ends the line that a client has here already: its front has believed this home to be gone,
    /// which was only silent, and has ignored since what came from here.
    fn end_earlier_line(&mut self, front: Station, key: u64) {
        let Some(link) = self.driver.link_of(front, key) else { return };
        self.driver.lost(front, key);
        self.lost(Link(link));
        self.driver.sweep();
    }

    /// Notes that a process of another node is gone: sessions of its clients lose their
    /// connections, and clients of its sessions wait for another home, or are disconnected so that
    /// they come again.
    pub(crate) fn departed(&mut self, node: u16, incarnation: u32) {
        self.silent(node, incarnation);
        self.driver.departed(node, incarnation);
        self.relays_departed(node, incarnation);
        self.forget_reattaches(node, incarnation);
        let is_of = |stage: &ConnectionStage| matches!(stage, ConnectionStage::Away(away) if (away.home.node, away.home.incarnation) == (node, incarnation));
        let found = self.connections.iter().filter(|(_, connection)| is_of(&connection.stage));
        let links: Vec<Link> = found.map(|(link, _)| link).collect();
        links.into_iter().for_each(|link| self.await_home_or_end(link));
    }
}

/// The bytes of a client that may be on their way before reading from it pauses. One frame has at
/// most as many.
const AHEAD: usize = WINDOW / 2;
