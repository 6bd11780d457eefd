//! BOSH sessions whose requests arrive on another node than their own.
//!
//! A session begins where its first request arrives. When its client has logged in, it goes to the
//! home of the account, as a BOSH session goes from shard to shard; the node where it began
//! remembers the way there. A request may arrive on any node: its id says where the session began
//! ([`crate::sids`]). The response goes straight to where the client waits.
//!
//! # Invariants
//!
//! * A request passes at most two nodes: the one where its session began, and the home.
//! * Data for a session goes through the shard that has sent the session there, so that nothing
//!   overtakes it.
//! * A waiting client gets one response, even if the other node never sends it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rookery_base::Transport;
use rookery_fanout::{Link, Station};
use rookery_stream::bosh::{AnswerCondition, AnswerSent, BoshAnswer, BoshBody, BoshSession, Waiter, Whose};
use rookery_stream::c2s::C2s;
use rookery_xml::Limits;
use serde_bytes::ByteBuf;
use tracing::{debug, warn};

use crate::connection::{CarriedInput, ConnectionStage, ConnectionWire, Negotiation, ShardConnection};
use crate::driver::Driver;
use crate::lines::LineFrame;
use crate::mailboxes::{BoshRequest, Envelope, MailboxKind, NodeLetter, Outlet};
use crate::relays::{RelayAsker, RelayAttach, RelayFrame, RelayRequest, RemoteAskers};
use crate::shard::Shard;
use crate::sids::{SidPlace, shard_of};

impl<D: Driver> Shard<D> {
    /// Sends a session of BOSH that has logged in to the home of its account on another node.
    pub(crate) fn move_bosh_away(&mut self, link: Link, home: Station) {
        let Some(mut connection) = self.connections.remove(link) else { return };
        let carry = connection.carry.take().map(|carry| carry.bytes).unwrap_or_default();
        self.common.gate.leave(connection.peer.ip());
        let ConnectionWire::Bosh(mut session) = connection.wire else { return };
        let sid = session.sid();
        let stream = match connection.stage {
            ConnectionStage::Negotiating(negotiation) => negotiation.machine.hand_over(),
            _ => None,
        };
        let Some(stream) = stream else {
            self.common.post.sids.forget(sid);
            return session.end(Some(AnswerCondition::InternalServerError), None);
        };
        let (session, waiters) = session.hand_over(self.timing.now_ms);
        let mut waiting = Vec::with_capacity(waiters.len());
        for (rid, waiter) in waiters {
            waiting.extend(self.keep_asked(waiter, sid, home, 0).map(|key| (rid, key)));
        }
        self.common.post.sids.moves_away(sid, self.index(), home);
        let later = stream.later();
        let attach = RelayAttach { peer: connection.peer, stream, session, carry, waiting, later };
        self.say_afar(home, RelayFrame::Attach(Box::new(attach)));
    }

    /// Passes a request on to the node that has its session, or where the session began. Returns
    /// the request if no other node can have the session.
    pub(crate) fn pass_on(&mut self, sid: u128, posted: BoshRequest) -> Option<BoshRequest> {
        let Some(to) = self.way_to(sid) else { return Some(posted) };
        let BoshRequest { request, waiter, is_secure, .. } = posted;
        if let Some(key) = self.keep_asked(waiter, sid, to, request.len()) {
            let asker = RelayAsker { station: self.world.station(), key };
            let document = ByteBuf::from(request.document());
            self.say_afar(to, RelayFrame::Request(RelayRequest { asker, sid, is_secure, document }));
        }
        None
    }

    /// Returns the shard of another node that a request goes to.
    fn way_to(&self, sid: u128) -> Option<Station> {
        let to = match self.common.post.sids.find(sid) {
            Some(SidPlace { home, .. }) => home,
            None => self.world.station_on(self.common.post.sids.node_of(sid)?, |shards| shard_of(sid, shards)),
        };
        to.filter(|to| !self.is_silent_now(to.node, to.incarnation))
    }

    /// Tells the node that has a session, or where it began, which of its requests have lost their
    /// connections.
    pub(crate) fn relayed_gone(&mut self, sid: u128) {
        let station = self.world.station();
        for (at, key) in self.bosh.relayed.forget_gone(sid) {
            self.say_afar(at, RelayFrame::Gone(RelayAsker { station, key }, sid));
        }
    }

    /// Tells the node where a session of BOSH began that it is over.
    pub(crate) fn tell_over(&mut self, link: Link) {
        let Some(sid) = self.connections.get(link).and_then(ShardConnection::sid) else { return };
        let Some(node) = self.common.post.sids.node_of(sid) else { return };
        if let Some(at) = self.world.station_on(node, |shards| shard_of(sid, shards)) {
            self.say_afar(at, RelayFrame::Over(sid));
        }
    }

    /// Handles the end of a process of another node: its sessions have ended, and nobody waits for
    /// it any longer.
    pub(crate) fn relays_departed(&mut self, node: u16, incarnation: u32) {
        self.common.post.askers.depart(node, incarnation);
        for waiter in self.bosh.relayed.take_all_at(node, incarnation) {
            waiter.answer(BoshAnswer::refusal(AnswerCondition::RemoteConnectionFailed));
        }
        for sid in self.common.post.sids.depart(self.index(), node, incarnation) {
            self.refuse_all(sid);
            // The session's requests may have come in on any node.
            for hop in self.world.other_nodes() {
                let Some(first) = self.world.station_of(hop) else { continue };
                let at = self.world.station_on(first.node, |shards| shard_of(sid, shards));
                if let Some(at) = at.filter(|at| at.incarnation == first.incarnation) {
                    self.say_afar(at, RelayFrame::Over(sid));
                }
            }
        }
    }

    /// Responds to clients that have waited for other nodes for too long.
    pub(crate) fn give_up_relayed(&mut self) {
        for waiter in self.bosh.relayed.take_late(self.timing.now_ms) {
            waiter.answer(BoshAnswer::refusal(AnswerCondition::RemoteConnectionFailed));
        }
    }

    fn refuse_all(&mut self, sid: u128) {
        for waiter in self.bosh.relayed.take_all(sid) {
            waiter.answer(BoshAnswer::refusal(AnswerCondition::RemoteConnectionFailed));
        }
    }

    /// Keeps the waiter for a response of another node; `None` if the waiter got a response here,
    /// since too many wait.
    fn keep_asked(&mut self, waiter: Box<dyn Waiter>, sid: u128, at: Station, bytes: usize) -> Option<u64> {
        let now_ms = self.timing.now_ms;
        let until_ms = now_ms + u64::from(self.common.generation.bosh.wait) * 1000 + GRACE_MS;
        match self.bosh.relayed.keep(waiter, (sid, at), bytes, (now_ms, until_ms)) {
            Ok(key) => Some(key),
            Err(waiter) => {
                warn!("too much BOSH data is on its way to other nodes; a session is ended");
                waiter.answer(BoshAnswer::refusal(AnswerCondition::RemoteConnectionFailed));
                None
            }
        }
    }

    fn say_afar(&mut self, to: Station, frame: RelayFrame) {
        self.driver.frames.push((to, LineFrame::Bosh(Box::new(frame))));
    }

    /// Handles the message of another node about a session of BOSH.
    pub(crate) fn relay_frame(&mut self, from: Station, frame: RelayFrame) {
        match frame {
            RelayFrame::Attach(attach) => self.attach_bosh(from, *attach),
            RelayFrame::Request(request) => self.relayed_request(from, request),
            RelayFrame::Gone(asker, sid) => {
                self.common.post.askers.note_gone(asker);
                match self.way_to(sid) {
                    Some(home) => self.say_afar(home, RelayFrame::Gone(asker, sid)),
                    None => self.bosh_gone(sid),
                }
            }
            RelayFrame::Answer(key, answer) => {
                if let Some(waiter) = self.bosh.relayed.take(key) {
                    waiter.answer(answer.into());
                }
            }
            RelayFrame::Over(sid) => match self.common.post.sids.find(sid) {
                Some(SidPlace { home: Some(_), shard, .. }) if shard != self.index() => {
                    self.redirect(from, shard, RelayFrame::Over(sid));
                }
                Some(SidPlace { home: None, .. }) => {}
                found => {
                    if found.is_some() {
                        self.common.post.sids.forget(sid);
                    }
                    self.refuse_all(sid);
                }
            },
        }
    }

    /// Passes the message of another node to another shard of this one.
    fn redirect(&self, from: Station, shard: usize, frame: RelayFrame) {
        match postcard::to_allocvec(&LineFrame::Bosh(Box::new(frame))) {
            Ok(bytes) => self.common.post.send(shard, Envelope::Afar(from, vec![(MailboxKind::Line, bytes)], None)),
            Err(error) => warn!(%from, %error, "a frame of another node can't be passed on and is dropped"),
        }
    }

    /// Takes a request that came in on another node.
    fn relayed_request(&mut self, from: Station, relayed: RelayRequest) {
        let place = self.common.post.sids.find(relayed.sid);
        match place {
            Some(SidPlace { shard, .. }) if shard != self.index() => {
                return self.redirect(from, shard, RelayFrame::Request(relayed));
            }
            Some(SidPlace { home: Some(home), .. }) => return self.say_afar(home, RelayFrame::Request(relayed)),
            _ => {}
        }
        let RelayRequest { asker, sid, is_secure, document } = relayed;
        let waiter = self.remote_waiter(asker);
        let refuse = |waiter: Box<dyn Waiter>, condition| waiter.answer(BoshAnswer::refusal(condition));
        let Some(link) = place.and_then(|place| place.link) else {
            return refuse(waiter, AnswerCondition::ItemNotFound);
        };
        match BoshBody::read(document.into_vec().into_boxed_slice(), &Limits::AFTER_LOGIN) {
            Ok(request) if request.whose == Whose::Session(sid) => self.request(link, request, waiter, is_secure),
            _ => refuse(waiter, AnswerCondition::BadRequest),
        }
    }

    /// Gives a session that began on another node a place here.
    fn attach_bosh(&mut self, from: Station, attach: RelayAttach) {
        let RelayAttach { peer, stream, session, carry, waiting, later } = attach;
        let stream = stream.with_later(later);
        let account = stream.account().clone();
        let is_home = self.world.home_of(account.as_ref()) == self.index() && !self.timing.stopping;
        let sid = session.sid();
        let (ids, policy) = (self.common.ids.clone(), self.common.generation.policy.clone());
        let machine = C2s::taken_over(policy, stream, Transport::Bosh, Box::new(move || ids()));
        let waiter = |rid: u64| {
            let (_, key) = waiting.iter().find(|(waits, _)| *waits == rid)?;
            Some(self.remote_waiter(RelayAsker { station: from, key: *key }))
        };
        let session = machine
            .filter(|_| is_home && self.common.post.sids.find(sid).is_none())
            .and_then(|machine| Some((machine, BoshSession::taken_over(session, waiter, self.timing.now_ms)?)));
        let Some((machine, session)) = session else {
            debug!(%from, account = account.as_str(), "a session of BOSH of another node is not at home here");
            return self.say_afar(from, RelayFrame::Over(sid));
        };
        // Its own node has admitted it.
        self.common.gate.enter(peer.ip(), 0);
        let negotiation = Negotiation { machine, ..self.negotiation(self.facts_without_tls(peer, false)) };
        let mut connection = ShardConnection::new(None, peer, 0, negotiation);
        connection.wire = ConnectionWire::Bosh(Box::new(session));
        if !carry.is_empty() {
            connection.carry = Some(Box::new(CarriedInput { bytes: carry, scanner: Box::default() }));
        }
        if let Some(link) = self.insert(connection) {
            self.enter_home(link);
        }
    }

    /// Returns a waiter that passes the response on to another node.
    fn remote_waiter(&self, asker: RelayAsker) -> Box<dyn Waiter> {
        let gone = self.common.post.askers.meet(asker);
        let (askers, outlet) = (self.common.post.askers.clone(), self.common.post.outlet());
        Box::new(RemoteWaiter { asker, gone, askers, outlet, from: self.index(), is_answered: false })
    }
}

/// A waiter on another node.
struct RemoteWaiter {
    asker: RelayAsker,
    gone: Arc<AtomicBool>,
    askers: Arc<RemoteAskers>,
    outlet: Option<Arc<dyn Outlet>>,
    from: usize,
    is_answered: bool,
}

impl RemoteWaiter {
    fn pass_on(&mut self, answer: &BoshAnswer) {
        self.is_answered = true;
        let frame = RelayFrame::Answer(self.asker.key, AnswerSent::from(answer));
        let bytes = postcard::to_allocvec(&LineFrame::Bosh(Box::new(frame)));
        if let (Some(outlet), Ok(bytes)) = (&self.outlet, bytes) {
            let to = self.asker.station;
            outlet.post(
                self.from,
                vec![NodeLetter { to, kind: MailboxKind::Line, bytes, custody: None, until_read: false }],
            );
        }
    }
}

impl Waiter for RemoteWaiter {
    fn answer(mut self: Box<Self>, answer: BoshAnswer) {
        self.pass_on(&answer);
    }

    fn is_gone(&self) -> bool {
        self.gone.load(Ordering::SeqCst)
    }
}

impl Drop for RemoteWaiter {
    fn drop(&mut self) {
        self.askers.forget(self.asker);
        if !self.is_answered && !self.is_gone() {
            // The same happens when a shard is gone.
            self.pass_on(&BoshAnswer::refusal(AnswerCondition::InternalServerError));
        }
    }
}

/// The time beyond the longest wait of a request within which its response has to be here.
const GRACE_MS: u64 = 30_000;
