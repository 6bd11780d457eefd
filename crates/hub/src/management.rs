//! Stream management (XEP-0198) and client state (XEP-0352): elements that are about the stream.
//!
//! A session that has enabled stream management survives its connection: it stays an available
//! resource, plain data with its queue, until the client comes back or the time is over. Then its
//! unacknowledged stanzas go where they would have gone without that session.
//!
//! # Invariants
//!
//! * A stanza is handled when the world has taken it, even if it still waits in the session's
//!   backlog: a session that has lost its connection finishes its backlog.
//! * An acknowledgement is true: a stanza is counted in `<a/>` only when the store has everything
//!   that it led to, on whatever shard ([`crate::custody`]). If nothing waits for the store, the
//!   reply is sent at once; otherwise requests that arrive meanwhile get one reply together. A
//!   client whose request has to wait long is told the count so far, so that a slow store doesn't
//!   make it consider its connection dead.
//! * The same holds for `<resumed/>`: the new connection waits until everything that was handled
//!   is acknowledged ([`World::is_settled`]), at most as long as a login may take. So nothing is
//!   processed twice. It has waited for the store already, since its login was looked up there
//!   after the session's writes.
//! * A `<failed/>` about a session that has ended counts what is acknowledged by then, up to the
//!   first message that was refused without the client being told. If the store hasn't answered
//!   yet, the client sends stanzas again that have been processed: twice is better than not at
//!   all.
//! * Acknowledged stanzas in a recipient's queue – unsent, or unacknowledged there – are only in
//!   memory, as with a session without stream management; messages are also in the archive.
//! * A session is resumed only by its own account: the id is looked up among the sessions of the
//!   account that has logged in.
//! * Stanzas that leave a session are counted, kept and bounded by its outbox
//!   ([`rookery_fanout::outbox::managed`]).

use rookery_base::Transport;
use rookery_fanout::{Asking, Attention, Link, Packet, TooHigh, UnackedBounds};
use rookery_jid::Jid;
use rookery_stream::c2s::{Enable, Features, failed_reply};
use rookery_stream::error::{Condition, StreamError};
use rookery_xml::{Built, Kind, Stanza, Writer, ns};

use crate::World;
use crate::card::digest;
use crate::custody::Ledger;
use crate::event::Event;
use crate::managed::ManagedSession;
use crate::session::SessionRef;
use crate::settings::Options;

/// The module whose switch and options decide about stream management.
pub const MODULE: &str = "stream_management";
/// Its option: seconds for which a session without connection can be resumed; 0 for not at all.
pub const RESUME_SECONDS: &str = "resume_seconds";
/// Its option: stanzas that may wait for one session, or for its acknowledgement.
pub const MAX_STANZAS: &str = "max_stanzas";
/// Its option: bytes of these stanzas.
pub const MAX_BYTES: &str = "max_bytes";
/// The module whose switch decides about client state indication.
pub const CLIENT_STATE: &str = "client_state";
/// The module whose switch decides about message carbons.
pub const CARBONS: &str = "carbons";

/// Milliseconds within which all nodes have noticed the death of a node, and clients that were
/// connected to another node have sent everything again.
const DOUBTED_MS: u64 = 60_000;

/// The reason why a session is not resumed (§5, §6).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotResumed {
    /// The condition of `<failed/>`.
    pub condition: Condition,
    /// The number of the client's stanzas that the session had handled, if it is known to have
    /// ended.
    pub handled: Option<u32>,
}

impl World {
    /// Handles an element of a bound stream that isn't a stanza. Known elements are about the
    /// stream, so they don't wait behind stanzas; others end the stream.
    pub(crate) fn element(&mut self, link: Link, element: Stanza<'_>) {
        match (&*element.ns(), element.name()) {
            (ns::SM, "r") if self.managed_session(link).is_some() => self.say_handled(link),
            (ns::SM, "a") if self.managed_session(link).is_some() => {
                match attribute(element, "h").and_then(|h| h.parse().ok()) {
                    Some(h) => {
                        if let Err(error) = self.acknowledge(link, h) {
                            self.end_stream(link, error, "more stanzas were acknowledged than were sent");
                        }
                    }
                    None => self.close(link, StreamError::BadFormat, "an acknowledgement needs a count"),
                }
            }
            (ns::SM, "enable") if self.managed_session(link).is_none() => {
                let enable =
                    Enable::read(attribute(element, "resume").as_deref(), attribute(element, "max").as_deref());
                let answer =
                    self.enable(link, enable, false).unwrap_or_else(|condition| failed_reply(&condition, None));
                self.outboxes.push_element(link, &Packet::element(&answer));
            }
            // §3: a second attempt gets a reply and ends the stream.
            (ns::SM, "enable") => {
                self.outboxes.push_element(link, &Packet::element(&failed_reply(&Condition::UnexpectedRequest, None)));
                self.close(link, StreamError::PolicyViolation, "stream management is enabled already");
            }
            (ns::SM, _) => {
                self.outboxes.push_element(link, &Packet::element(&failed_reply(&Condition::UnexpectedRequest, None)));
            }
            (ns::CSI, name @ ("active" | "inactive")) if self.module_of(link, CLIENT_STATE).is_some() => {
                self.outboxes.set_active(link, name == "active");
            }
            _ => {
                let text = "neither message, presence nor iq";
                self.end_stream(link, StreamError::UnsupportedStanzaType, text);
            }
        }
    }

    /// Enables stream management on a session; returns the `<enabled/>` element. If `inline`, the
    /// client gets this before everything that already waits for it (XEP-0386).
    ///
    /// # Errors
    /// The condition for `<failed/>`.
    pub fn enable(&mut self, link: Link, enable: Enable, inline: bool) -> Result<Built, Condition> {
        // BOSH has acknowledgements of its own, and a session there outlives its connections
        // anyway.
        let is_managed_otherwise = !self.outboxes.transport(link).is_managed();
        let options = self.module_of(link, MODULE).filter(|_| !is_managed_otherwise);
        let options = options.ok_or(Condition::FeatureNotImplemented)?;
        let bounds = bounds_of(options);
        let seconds = enable.max.unwrap_or(u32::MAX).min(bound(options, RESUME_SECONDS));
        let id = (enable.resume && seconds > 0).then(|| format!("{}{}", self.unique_text(), self.unique_text()));
        let mut answer = Writer::with_ns("enabled", ns::SM);
        if let Some(id) = &id {
            answer.attr("id", id).attr("resume", "true").attr("max", &seconds.to_string());
            // If a client comes back to the home of its account, each stanza is spared the way
            // between nodes.
            let steering = self.catalogue.settings.told.steering.as_ref();
            let host = steering.filter(|_| self.outboxes.transport(link) == Transport::Tcp);
            answer.opt_attr("location", host.map(|steering| steering.host.as_str()));
        }
        let session = self.at_mut(link).ok_or(Condition::UnexpectedRequest)?;
        let id = id.map(|id| Box::new(digest(&id)));
        let managed = ManagedSession { ledger: Ledger::default(), id, seconds, turn: 0, until_ms: 0 };
        session.rare().managed = Some(Box::new(managed));
        self.outboxes.manage(link, bounds, inline);
        self.touch(link);
        Ok(answer.finish())
    }

    /// Enables for a session the features that its client requested along with the binding
    /// (XEP-0386 §3.2). Returns the elements by which the client is told.
    pub fn begin_with(&mut self, link: Link, features: Features) -> Vec<Built> {
        if features.inactive && self.module_of(link, CLIENT_STATE).is_some() {
            self.outboxes.set_active(link, false);
        }
        if features.carbons
            && let Some(session) = self.reference(link).filter(|_| self.module_of(link, CARBONS).is_some())
        {
            self.set_carbons(session, true);
        }
        let enabled = features.enable.map(|enable| self.enable(link, enable, true));
        enabled.map(|enabled| enabled.unwrap_or_else(|condition| failed_reply(&condition, None))).into_iter().collect()
    }

    /// Tells a client how many of its stanzas are handled (§4): at once if the store has all that
    /// they led to, otherwise when it has.
    pub fn say_handled(&mut self, link: Link) {
        let Some((session, ledger)) = self.reference(link).zip(self.ledger(link)) else { return };
        (ledger.asked, ledger.unanswered) = (true, true);
        if self.is_settled(link) {
            return self.tell_handled(link);
        }
        self.ledger(link).into_iter().for_each(|ledger| ledger.awaits_journal |= ledger.is_settled());
        let is_watched = self.ledger(link).is_none_or(|ledger| std::mem::replace(&mut ledger.watched, true));
        if !is_watched {
            self.after(PATIENCE_MS, move |world| world.show_patience(session));
        }
    }

    /// Returns whether the store has everything that the stanzas of a session led to, and the
    /// journal has their number. If not, the shard is woken when it should ask again.
    pub fn is_settled(&mut self, link: Link) -> bool {
        let Some((session, ledger)) = self.reference(link).zip(self.ledger(link)) else { return true };
        let is_settled = ledger.is_settled();
        if !is_settled {
            self.settle(session);
        }
        is_settled && self.has_journaled(link)
    }

    /// Waits until everything that a session has sent so far is settled, unless that wait is
    /// already under way.
    pub(crate) fn settle(&mut self, session: SessionRef) {
        if let Some(settled) = self.ledger(session.link).and_then(Ledger::close) {
            self.in_custody(None, |world| world.wait(settled, move |world, _| world.settled(session)));
        }
    }

    fn settled(&mut self, session: SessionRef) {
        if self.session(session).is_none() {
            return;
        }
        let Some(ledger) = self.ledger(session.link) else { return };
        let (was_asked, is_asked) = (ledger.settle_closed(), ledger.asked);
        self.outboxes.note(session.link);
        let is_settled = is_asked && self.is_settled(session.link);
        if was_asked || is_settled {
            self.tell_handled(session.link);
        }
    }

    /// Replies to a request that has waited for some time with the number of stanzas handled by
    /// now.
    fn show_patience(&mut self, session: SessionRef) {
        if self.session(session).is_none() {
            return;
        }
        let Some(ledger) = self.ledger(session.link) else { return };
        ledger.watched = false;
        if ledger.unanswered {
            self.tell_count(session.link);
        }
    }

    fn tell_handled(&mut self, link: Link) {
        if !self.is_stopping() && !self.has_journaled(link) {
            // The client is told when the journal has the count.
            return self.ledger(link).into_iter().for_each(|ledger| {
                (ledger.unanswered, ledger.awaits_journal) = (true, true);
            });
        }
        self.tell_count(link);
    }

    /// Tells a client the journal's count, if it waits for that.
    pub(crate) fn tell_journaled(&mut self, link: Link) {
        if self.ledger(link).is_none_or(|ledger| !ledger.awaits_journal) {
            return;
        }
        self.tell_count(link);
        let waits = !self.has_journaled(link);
        self.ledger(link).into_iter().for_each(|ledger| ledger.awaits_journal = waits);
    }

    fn tell_count(&mut self, link: Link) {
        // The client is told when it comes back.
        if self.is_detached(link) {
            return;
        }
        let is_last = self.is_stopping();
        let journaled = self.journaled_count(link).filter(|_| !is_last);
        let Some(ledger) = self.ledger(link) else { return };
        ledger.unanswered = false;
        let handled = match journaled {
            Some(count) => ledger.tell_earlier(count),
            None if is_last => ledger.tell_last(),
            None => ledger.tell(),
        };
        let mut answer = Writer::with_ns("a", ns::SM);
        answer.attr("h", &handled.to_string());
        self.outboxes.push_element(link, &Packet::element(&answer.finish()));
    }

    /// Notes that a client has handled that many stanzas (§4).
    ///
    /// # Errors
    /// They are more than it was sent (§6).
    pub fn acknowledge(&mut self, link: Link, h: u32) -> Result<(), StreamError> {
        let acknowledged = self.outboxes.acknowledge(link, h);
        self.sight_session(link, || {
            let left = self.outboxes.sent_and_unacknowledged(link).map_or(0, |(_, left)| left);
            format!("its client has acknowledged {h} stanzas in all; {left} are unacknowledged (XEP-0198)")
        });
        self.resolve_doubt(link);
        acknowledged.map_err(|TooHigh { sent }| StreamError::HandledCountTooHigh { h, sent })
    }

    /// Notes the number of stanzas that a client which resumes its session says it has
    /// handled (§5).
    ///
    /// # Errors
    /// They are more than it was sent (§6).
    pub fn acknowledge_back(&mut self, link: Link, h: u32) -> Result<(), StreamError> {
        self.recount(link, h);
        self.acknowledge(link, h)
    }

    /// Notes that a client has heard of all refusals, if it has.
    pub(crate) fn resolve_doubt(&mut self, link: Link) {
        if self.ledger(link).is_some_and(|ledger| ledger.is_doubtful()) && !self.outboxes.may_lack_errors(link) {
            self.ledger(link).into_iter().for_each(Ledger::clear);
        }
    }

    /// Adds the requests for acknowledgements, and sets the timeouts for replies, of sessions that
    /// were flushed.
    pub fn ask_for_acknowledgements(&mut self) {
        for asking in self.outboxes.take_asking() {
            let (Asking::Later(link) | Asking::Asked(link, _)) = asking;
            let Some(session) = self.reference(link) else { continue };
            match asking {
                Asking::Later(_) => drop(self.after(QUIET_MS, move |world| {
                    if world.session(session).is_some() {
                        world.outboxes.ask(link, true);
                    }
                })),
                Asking::Asked(_, question) => self.expect_answer(session, question),
            }
        }
    }

    /// Waits for the reply of a client: without one its connection is lost, whatever the system
    /// believes.
    fn expect_answer(&mut self, session: SessionRef, question: u16) {
        self.after(ANSWER_MS, move |world| {
            if world.session(session).is_some() && world.outboxes.is_open(session.link, question) {
                world.out.events.push_back(Event::Lost(session.link));
            }
        });
    }

    /// Lets a session whose connection was lost without a closing tag wait for its client, if it
    /// may. Returns `false` if it has to end: see [`World::closed`].
    pub fn detach(&mut self, link: Link) -> bool {
        let Some(session) = self.reference(link) else { return false };
        let Some(found) = self.at_mut(link).filter(|session| !session.ending) else { return false };
        let managed = found.rare.as_mut().and_then(|rare| rare.managed.as_mut());
        let Some(managed) = managed.filter(|managed| managed.id.is_some()) else { return false };
        let left_ms = u64::from(managed.seconds) * 1000;
        self.sight_session(link, || {
            let left = self.outboxes.sent_and_unacknowledged(link).map_or(0, |(_, left)| left);
            format!(
                "its connection was lost; it waits {} s for its client, with {left} unacknowledged stanzas (XEP-0198)",
                left_ms / 1000
            )
        });
        self.outboxes.detach(link);
        self.expect_repetitions_later(session);
        if let Some(packet) = self.outboxes.newest_urgent(link) {
            self.call_unattended(&packet, link);
        }
        self.expect_back(session, left_ms);
        self.touch(link);
        true
    }

    /// Lets a session without a connection wait for its client for this number of milliseconds;
    /// then it ends.
    pub(crate) fn expect_back(&mut self, session: SessionRef, left_ms: u64) {
        let until_ms = self.clock.now_ms + left_ms;
        let managed = self.session_mut(session).and_then(|found| found.rare.as_mut()?.managed.as_mut());
        let Some(managed) = managed else { return };
        managed.turn = managed.turn.wrapping_add(1);
        managed.until_ms = until_ms;
        let turn = managed.turn;
        self.after(left_ms, move |world| {
            let is_same =
                |world: &World| world.managed_session(session.link).is_some_and(|managed| managed.turn == turn);
            if world.session(session).is_some_and(|session| !session.ending) && is_same(world) {
                world.closed(session.link);
            }
        });
    }

    /// Returns whether a session has no connection and waits for its client.
    pub fn is_detached(&self, link: Link) -> bool {
        self.outboxes.attention(link) == Attention::Detached
    }

    /// Returns for how long a session has waited for its client, and for how long it still will, in
    /// milliseconds; `None` if it has a connection.
    pub fn absence(&self, link: Link) -> Option<(u64, u64)> {
        let managed = self.managed_session(link).filter(|_| self.is_detached(link))?;
        let left_ms = managed.until_ms.saturating_sub(self.clock.now_ms);
        Some(((u64::from(managed.seconds) * 1000).saturating_sub(left_ms), left_ms))
    }

    /// Returns the longest time, in milliseconds, for which a client of any domain may stay away
    /// and then send unacknowledged stanzas again.
    pub fn longest_absence_ms(&self) -> u64 {
        let domains = self.catalogue.settings.domains.iter();
        let seconds = domains.filter_map(|domain| Some(bound(domain.module(MODULE)?, RESUME_SECONDS)));
        u64::from(seconds.max().unwrap_or(0)) * 1000 + DOUBTED_MS
    }

    /// Finds the session of an account that has this id, connected or not.
    ///
    /// # Errors
    /// There is none, or none can be resumed.
    pub fn resumable(&self, account: &Jid, id: &str) -> Result<Link, NotResumed> {
        let options = self.domain(account.domain()).and_then(|domain| domain.module(MODULE));
        if options.is_none_or(|options| options.number(RESUME_SECONDS) == 0) {
            return Err(NotResumed { condition: Condition::FeatureNotImplemented, handled: None });
        }
        let wanted = digest(id);
        let has_id =
            |&link: &Link| self.managed_session(link).is_some_and(|managed| managed.id.as_deref() == Some(&wanted));
        let found = self.links_of(account.as_ref()).into_iter().find(has_id);
        found.ok_or_else(|| NotResumed {
            condition: Condition::ItemNotFound,
            handled: self.people.ended.handled_of(account, id),
        })
    }

    /// Lets a new connection take over a session that [`World::resumable`] has found and that [is
    /// settled](World::is_settled). Returns how many stanzas of the client are handled. Stanzas
    /// that the client hasn't acknowledged are sent to it again, then newer ones. The client
    /// counts as active (XEP-0352 §5.2).
    pub fn resume(&mut self, link: Link) -> u32 {
        // The older connection may still be there.
        self.outboxes.detach(link);
        self.outboxes.resume(link);
        self.keep_line(link, 0);
        self.touch(link);
        self.managed_mut(link).map_or(0, |managed| {
            managed.turn = managed.turn.wrapping_add(1);
            managed.ledger.unanswered = false;
            managed.ledger.tell()
        })
    }

    /// Returns whether reading from a session has to wait until [`Event::Resume`].
    pub fn is_paused(&self, link: Link) -> bool {
        let rare = self.session_at(link).and_then(|session| session.rare.as_ref());
        rare.is_some_and(|rare| rare.backlog.paused)
    }

    /// Remembers the count of a session when it ends.
    pub(crate) fn remember_handled(&mut self, link: Link) {
        let Some(address) = self.outboxes.address(link).map(Jid::to_bare) else { return };
        let rare = self.at_mut(link).and_then(|session| session.rare.as_mut());
        if let Some(managed) = rare.and_then(|rare| rare.managed.take())
            && let Some(id) = managed.id
        {
            self.people.ended.push(id, address, managed.ledger.end_untold());
        }
    }

    /// Returns the oldest session of an account that has no connection, if there is one.
    pub(crate) fn oldest_detached(&self, links: &[Link]) -> Option<Link> {
        links.iter().copied().find(|&link| self.is_detached(link))
    }

    pub(crate) fn managed_session(&self, link: Link) -> Option<&ManagedSession> {
        self.session_at(link)?.rare.as_ref()?.managed.as_deref()
    }

    pub(crate) fn managed_mut(&mut self, link: Link) -> Option<&mut ManagedSession> {
        self.at_mut(link)?.rare.as_mut()?.managed.as_deref_mut()
    }

    pub(crate) fn ledger(&mut self, link: Link) -> Option<&mut Ledger> {
        Some(&mut self.managed_mut(link)?.ledger)
    }

    pub(crate) fn module_of(&self, link: Link, name: &str) -> Option<&Options> {
        self.domain(self.outboxes.address(link)?.domain())?.module(name)
    }
}

/// Returns the bounds of sessions with stream management.
pub(crate) fn bounds_of(options: &Options) -> UnackedBounds {
    UnackedBounds { stanzas: bound(options, MAX_STANZAS), bytes: bound(options, MAX_BYTES) }
}

fn bound(options: &Options, key: &str) -> u32 {
    u32::try_from(options.number(key)).unwrap_or(u32::MAX)
}

/// Returns an attribute of an element that isn't a stanza.
fn attribute(element: Stanza<'_>, name: &str) -> Option<String> {
    debug_assert_eq!(element.kind(), Kind::Other);
    rookery_xml::Element::read(&element).attr(name).map(str::to_owned)
}

/// The silence on a stream after which an acknowledgement of the last stanzas is requested: longer
/// than a burst, and shorter than a phone's radio stays awake.
const QUIET_MS: u64 = 2_000;
/// The time after which a client's request gets a reply although the store is slow: shorter than
/// the time after which clients give a connection up.
const PATIENCE_MS: u64 = 2_000;
/// The time within which a client has to reply to a request for an acknowledgement.
const ANSWER_MS: u64 = 120_000;
