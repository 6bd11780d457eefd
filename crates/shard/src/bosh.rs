//! A BOSH session (XEP-0124) between requests and a stream.
//!
//! In place of a socket, such a session has a [`BoshSession`], and its requests arrive in
//! envelopes, each with a waiter for the response. Everything behind it is the same as for TCP: the
//! same machine negotiates, and the same outbox waits until there is a request to respond to.
//! Responses are sent at the end of a tick, so that a reply can go out with the response to the
//! request that asked for it.
//!
//! Stanzas that went out with a response are kept, as stream management keeps them (XEP-0198),
//! until the client's next request shows that they were received: when a client is gone for good,
//! no undelivered stanza is lost.

use rookery_base::Transport;
use rookery_fanout::{Link, UnackedBounds};
use rookery_hub::Intake;
use rookery_stream::bosh::{AnswerCondition, BoshAnswer, BoshBody, BoshOpening, BoshSession, Waiter, Whose};
use rookery_stream::c2s::Facts;
use rookery_stream::error::StreamError;
use rookery_xml::{Fault, Scan, Scanner};

use crate::connection::{ConnectionStage, ConnectionWire, Negotiation, ShardConnection};
use crate::driver::Driver;
use crate::mailboxes::{BoshRequest, Envelope};
use crate::shard::Shard;
use crate::sids::SidPlace;

impl<S> ShardConnection<S> {
    /// Returns the id of the session, if it uses BOSH.
    pub(crate) fn sid(&self) -> Option<u128> {
        match &self.wire {
            ConnectionWire::Bosh(session) => Some(session.sid()),
            _ => None,
        }
    }
}

impl<D: Driver> Shard<D> {
    /// Takes a request.
    pub(crate) fn take_request(&mut self, mut posted: Box<BoshRequest>) {
        match std::mem::replace(&mut posted.request.whose, Whose::Nobody) {
            Whose::New(opening) => self.open_session(*posted, &opening),
            Whose::Nobody => posted.waiter.answer(BoshAnswer::refusal(AnswerCondition::ItemNotFound)),
            Whose::Session(sid) => match self.common.post.sids.find(sid) {
                Some(SidPlace { shard, link: Some(link), .. }) if shard == self.index() => {
                    let BoshRequest { request, waiter, is_secure, .. } = *posted;
                    self.request(link, request, waiter, is_secure);
                }
                Some(SidPlace { shard, .. }) if shard != self.index() => {
                    // The session has moved while the envelope was on its way.
                    posted.request.whose = Whose::Session(sid);
                    self.common.post.send(shard, Envelope::Bosh(posted));
                }
                _ => {
                    if let Some(nobodys) = self.pass_on(sid, *posted) {
                        nobodys.waiter.answer(BoshAnswer::refusal(AnswerCondition::ItemNotFound));
                    }
                }
            },
        }
    }

    /// Notes that a connection broke on which a request of this session waited.
    pub(crate) fn bosh_gone(&mut self, sid: u128) {
        match self.common.post.sids.find(sid) {
            Some(SidPlace { shard, link: Some(link), .. }) if shard == self.index() => {
                let now = self.timing.now_ms;
                if let Some(session) = self.session(link) {
                    session.note_gone(now);
                }
                self.watch(link);
            }
            Some(SidPlace { shard, .. }) if shard != self.index() => {
                self.common.post.send(shard, Envelope::BoshGone(sid))
            }
            _ => self.relayed_gone(sid),
        }
    }

    fn open_session(&mut self, posted: BoshRequest, opening: &BoshOpening) {
        let BoshRequest { request, waiter, peer, is_secure, is_local } = posted;
        let Some(place) = self.may_open(peer) else {
            let condition =
                if self.timing.stopping { AnswerCondition::SystemShutdown } else { AnswerCondition::PolicyViolation };
            return waiter.answer(BoshAnswer::refusal(condition));
        };
        let facts = Facts {
            secure: is_secure,
            tls_available: false,
            transport: Transport::Bosh,
            ..self.facts_without_tls(peer, is_local)
        };
        let session = BoshSession::new(
            self.common.post.sids.new_sid((self.common.ids)()),
            &request,
            opening,
            self.common.generation.bosh,
            is_secure,
            self.timing.now_ms,
        );
        let negotiation = Negotiation { opening: Some(place), ..self.negotiation(facts) };
        let mut connection = ShardConnection::new(None, peer, 0, negotiation);
        connection.wire = ConnectionWire::Bosh(Box::new(session));
        let Some(link) = self.insert(connection) else { return };
        let now = self.timing.now_ms;
        if let Some(session) = self.session(link) {
            session.take(request, waiter, now);
        }
        self.negotiate(link, &opening.stream_header());
        self.taken(link);
    }

    /// Gives a session a request.
    pub(crate) fn request(&mut self, link: Link, request: BoshBody, waiter: Box<dyn Waiter>, is_secure: bool) {
        let now = self.timing.now_ms;
        let Some(session) = self.session(link) else {
            return waiter.answer(BoshAnswer::refusal(AnswerCondition::ItemNotFound));
        };
        if session.is_secure() && !is_secure {
            // §19.1: such a request doesn't belong to this session; nothing of the session is
            // touched.
            return waiter.answer(BoshAnswer::refusal(AnswerCondition::ItemNotFound));
        }
        session.take(request, waiter, now);
        if let Some(handled) = session.take_confirmed() {
            // The client can't have received more than it was sent.
            let _ = self.world.outboxes.acknowledge(link, handled);
        }
        self.taken(link);
    }

    /// Continues after a request was taken: it may have ended the session, or have content for the
    /// stream.
    fn taken(&mut self, link: Link) {
        let Some(session) = self.session(link) else { return };
        if session.is_over() {
            return self.lost(link);
        }
        self.bosh.answering.push(link);
        self.read_requests(link);
        self.watch(link);
    }

    /// Passes the content of the requests to the stream, as far as it accepts it now.
    pub(crate) fn read_requests(&mut self, link: Link) {
        let key = self.key_of(link);
        // The machine may be able to continue with a response that it has just got.
        self.negotiate(link, &[]);
        while self.connection_of(key).is_some() {
            let Some(connection) = self.connections.get_mut(link) else { return };
            let is_open = match &connection.stage {
                ConnectionStage::Negotiating(negotiation) => !negotiation.asked,
                ConnectionStage::Bound { .. } => true,
                ConnectionStage::Away(_) | ConnectionStage::Detached | ConnectionStage::Lingering => false,
            };
            if connection.paused || !is_open {
                return;
            }
            let is_bound = connection.is_bound();
            let ConnectionWire::Bosh(session) = &mut connection.wire else { return };
            let Some(request) = session.next_unread() else { return };
            if let Some(opening) = request.restart.take() {
                // XEP-0206 §5: the content of a request that restarts the stream is ignored.
                request.skip_content();
                self.restart(link, &opening);
            } else if !request.has_content() {
                let is_last = request.terminate;
                session.take_unread();
                self.bosh.answering.push(link);
                if is_last {
                    return self.finish(link, &[]);
                }
            } else if is_bound {
                self.elements(link);
            } else {
                self.element_before(link);
            }
        }
    }

    /// Begins the stream again.
    fn restart(&mut self, link: Link, opening: &BoshOpening) {
        let is_bound = self.connections.get(link).is_some_and(ShardConnection::is_bound);
        if is_bound {
            self.opened_again(link, 0);
        } else {
            self.negotiate(link, &opening.stream_header());
        }
    }

    /// Gives the next element to the machine of a stream that is not bound.
    fn element_before(&mut self, link: Link) {
        let limits = self.common.generation.policy.limits_before;
        let mut scanner = self.buffers.scanner.take().unwrap_or_default();
        let next = match self.session(link).and_then(BoshSession::next_unread) {
            // All elements of a request together have the limit of one element.
            Some(request) if request.len() > limits.bytes + ENVELOPE => Err(Fault::TooBig),
            Some(request) => {
                request.next(&mut scanner, &limits).map(|element| element.map(|element| element.into_owned()))
            }
            None => Ok(None),
        };
        self.buffers.scanner = Some(scanner);
        match next {
            Ok(Some(element)) => self.negotiate(link, &element),
            Ok(None) => {}
            Err(fault) => self.unreadable(link, fault),
        }
    }

    /// Hands the elements of a request to the world.
    fn elements(&mut self, link: Link) {
        let limits = self.common.generation.limits;
        let Some(mut request) = self.session(link).and_then(BoshSession::take_unread) else { return };
        let mut scanner = self.buffers.scanner.take().unwrap_or_default();
        let mut outcome = Ok(());
        while let Some(element) = request.next(&mut scanner, &limits).transpose() {
            let intake = element.and_then(|element| self.one(link, &element, &mut scanner));
            match intake {
                Ok(_) if !self.world.takes_from(link) => request.skip_content(),
                Ok(Intake::Full) => {
                    self.pause(link, true);
                    break;
                }
                Ok(_) => {}
                Err(fault) => {
                    outcome = Err(fault);
                    break;
                }
            }
        }
        self.buffers.scanner = Some(scanner);
        if let Some(session) = self.session(link) {
            session.keep_unread(request);
        }
        if let Err(fault) = outcome {
            self.unreadable(link, fault);
        }
    }

    fn one(&mut self, link: Link, element: &[u8], scanner: &mut Scanner) -> Result<Intake, Fault> {
        let scanned = scanner.scan(element, &self.common.generation.limits)?;
        let intake = match scanned {
            Scan::Stanza(len) if len == element.len() => self.world.stanza(link, scanner.stanza(element)),
            _ => return Err(Fault::NotWellFormed),
        };
        scanner.reset();
        Ok(intake)
    }

    /// Ends a session whose request is not valid XML (§6), or too large.
    fn unreadable(&mut self, link: Link, fault: Fault) {
        let error = StreamError::from(fault);
        if error == StreamError::PolicyViolation {
            return self.fail(link, &error, Some(fault.text()));
        }
        if let Some(session) = self.session(link) {
            session.end_unreadable();
        }
        self.lost(link);
    }

    /// Passes on the output of a stream's machine.
    pub(crate) fn say(&mut self, link: Link, stream: &[u8]) {
        if let Some(session) = self.session(link) {
            session.say(stream);
        }
        self.bosh.answering.push(link);
    }

    /// Notes that something waits in the outbox of a BOSH session. Returns `false` if the session
    /// doesn't use BOSH.
    pub(crate) fn note_news(&mut self, link: Link) -> bool {
        let Some(session) = self.session(link) else { return false };
        session.has_news = true;
        self.bosh.answering.push(link);
        true
    }

    /// Responds to the requests that need not wait any longer, at the end of a tick.
    pub(crate) fn answer_requests(&mut self) {
        let mut answering = std::mem::take(&mut self.bosh.answering);
        for link in answering.drain(..) {
            self.answer(link);
            let (sent, now) = (self.sent_stanzas(link), self.timing.now_ms);
            if let Some(session) = self.session(link) {
                session.release(sent, now);
            }
            self.watch(link);
        }
        self.bosh.answering = answering;
    }

    /// Sends waiting stanzas as a response, if there are any.
    fn answer(&mut self, link: Link) {
        let now = self.timing.now_ms;
        let Some(connection) = self.connections.get_mut(link) else { return };
        let is_bound = connection.is_bound();
        let ConnectionWire::Bosh(session) = &mut connection.wire else { return };
        let mut rendered = std::mem::take(&mut self.buffers.rendered);
        while session.is_awaited(now) {
            let has_stanzas = is_bound && session.has_news && self.world.outboxes.has_waiting(link);
            if !has_stanzas && !session.has_said() {
                break;
            }
            rendered.clear();
            if has_stanzas {
                self.world.outboxes.render(link, MOST_STANZAS, &mut rendered);
                self.world.outboxes.remove_sent(link, rendered.len());
            }
            session.has_news = is_bound && self.world.outboxes.has_waiting(link);
            let sent = self.world.outboxes.sent_and_unacknowledged(link).map_or(0, |(sent, _)| sent);
            session.answer(&rendered, sent, now);
        }
        rendered.shrink_to(4 * MOST_STANZAS);
        self.buffers.rendered = rendered;
    }

    /// Returns the number of stanzas that a session has been sent.
    fn sent_stanzas(&self, link: Link) -> u32 {
        self.world.outboxes.sent_and_unacknowledged(link).map_or(0, |(sent, _)| sent)
    }

    /// Counts the stanzas for a session from now on, since it is bound.
    pub(crate) fn count_what_is_sent(&mut self, link: Link) {
        let bytes = u32::try_from(self.world.outboxes.limits().hard).unwrap_or(u32::MAX);
        self.world.outboxes.manage(link, UnackedBounds { stanzas: MOST_UNCONFIRMED, bytes }, true);
    }

    /// Ends a stream over BOSH. Returns `false` if the stream doesn't use BOSH.
    pub(crate) fn end_session(&mut self, link: Link, last: &[u8]) -> bool {
        let Some(session) = self.session(link) else { return false };
        session.has_news = true;
        self.answer(link);
        let (now, stopping) = (self.timing.now_ms, self.timing.stopping);
        let Some(connection) = self.connections.get_mut(link) else { return true };
        if matches!(connection.stage, ConnectionStage::Lingering) {
            return true;
        }
        let was_in_world = connection.in_world;
        connection.stage = ConnectionStage::Lingering;
        connection.carry = None;
        let ConnectionWire::Bosh(session) = &mut connection.wire else { return true };
        session.close(last, now);
        let is_over = session.is_over();
        if was_in_world {
            self.world.closed(link);
        }
        if is_over || stopping {
            self.lost(link);
        } else {
            self.watch(link);
        }
        true
    }

    /// Notes the place of a session whose connection has got a link here.
    pub(crate) fn bosh_placed(&mut self, link: Link) {
        let index = self.index();
        let Some(session) = self.session(link) else { return };
        session.looked_at_ms = None;
        let sid = session.sid();
        self.common.post.sids.place(sid, index, link);
        self.bosh.answering.push(link);
        self.watch(link);
    }

    /// Sets the timer of a session. While the session is busy the timer is only moved when it
    /// fires, so there is about one of them for each session.
    fn watch(&mut self, link: Link) {
        let Some(session) = self.session(link) else { return };
        let due = session.due();
        if session.looked_at_ms.is_none_or(|looked_at| due < looked_at) {
            session.looked_at_ms = Some(due);
            self.look_at(link, due);
        }
    }

    /// Checks a session when its timer fires.
    pub(crate) fn look_at_bosh(&mut self, link: Link, due_ms: u64) {
        let now = self.timing.now_ms;
        let sent = self.sent_stanzas(link);
        let Some(session) = self.session(link).filter(|session| session.looked_at_ms == Some(due_ms)) else { return };
        session.looked_at_ms = None;
        if session.look(sent, now) {
            return self.lost(link);
        }
        self.watch(link);
    }

    fn session(&mut self, link: Link) -> Option<&mut BoshSession> {
        match &mut self.connections.get_mut(link)?.wire {
            ConnectionWire::Bosh(session) => Some(session),
            _ => None,
        }
    }
}

/// Bytes of stanzas in one response, unless a single stanza has more.
const MOST_STANZAS: usize = 64 * 1024;
/// Stanzas that may wait, or were sent and aren't known to have arrived.
const MOST_UNCONFIRMED: u32 = 10_000;
/// Bytes of a request besides its elements.
const ENVELOPE: usize = 4096;
