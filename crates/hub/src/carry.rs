//! Prepares sessions to outlive their process when the server stops. `going_on` handles the next
//! start, [`crate::card`] has the format in which they travel.
//!
//! # Invariants
//!
//! * A session continues in another process if and only if its client may resume it (XEP-0198 §5)
//!   and nobody but the client waits for the contents of its outbox. Nobody is told that such a
//!   session is unavailable, neither at the stop nor at the start.
//! * The others end first, while those that continue are still there to be notified. Cards are made
//!   when nothing is under way any more, so they include the last stanzas of the others.
//! * A session with a card is in one process at a time. This process forgets it at the moment when
//!   the card is given away: nobody gets its messages here, and later stanzas don't find it.
//! * A session that has expired meanwhile, or can't continue, ends as always: contacts are
//!   notified, and its undelivered stanzas go where they would have gone without it.

use std::net::SocketAddr;

use rookery_fanout::Link;
use rookery_stream::error::StreamError;
use serde_bytes::ByteBuf;
use tracing::warn;

use crate::World;
use crate::card::{Card, CardCounts, CardShown, CardState, RECOVERED, SessionCard};
use crate::following::note_line;
use crate::memo::Memo;
use crate::session::RosterInterest;

impl World {
    /// Returns whether the server stops and its sessions continue in another process.
    pub fn hands_on(&self) -> bool {
        self.clock.hands_on
    }

    /// Returns whether a session can continue in another process.
    pub fn is_lasting(&self, link: Link) -> bool {
        let can_return = self.managed_session(link).is_some_and(|managed| managed.id.is_some());
        let is_alive = self.session_at(link).is_some_and(|session| !session.ending && !session.gone);
        can_return && is_alive && self.outboxes.is_portable(link) && self.luggage(link).is_some()
    }

    /// Lets a session wait for its client in another process after its connection has been closed
    /// without a stream error. Returns `false` if it has to end.
    pub fn part(&mut self, link: Link) -> bool {
        let Some(session) = self.reference(link).filter(|_| self.is_lasting(link)) else { return false };
        if !self.is_detached(link) {
            let left_ms = self.managed_session(link).map_or(0, |managed| u64::from(managed.seconds) * 1000);
            self.outboxes.detach(link);
            self.expect_repetitions_later(session);
            self.expect_back(session, left_ms);
            if let Some(found) = self.session_mut(session) {
                found.is_uncalled = true;
            }
        }
        true
    }

    /// Ends the sessions that can't continue in another process, because something in them can't
    /// travel or their cards would exceed the limit of bytes.
    pub fn end_others(&mut self, most_bytes: usize, peer_of: impl Fn(Link) -> Option<SocketAddr>) {
        let mut bytes = 0;
        for link in self.people.sessions.links().collect::<Vec<_>>() {
            match self.card_of(link, &peer_of) {
                Some(card) if bytes + card.len() <= most_bytes => bytes += card.len(),
                _ => self.close(link, StreamError::SystemShutdown, CANNOT_GO_ON),
            }
        }
    }

    /// Returns everything that continues in another process: the sessions that wait for their
    /// clients, within the limit of bytes, the data of modules, and the parts of the previous
    /// process that have yet to continue here. The sessions stay until [`World::forget_carried`].
    pub fn cards(&mut self, most_bytes: usize, peer_of: impl Fn(Link) -> Option<SocketAddr>) -> Vec<Vec<u8>> {
        let (mut cards, mut bytes) = (Vec::new(), 0);
        for link in self.people.sessions.links().collect::<Vec<_>>() {
            if let Some(card) = self.card_of(link, &peer_of).filter(|card| bytes + card.len() <= most_bytes) {
                bytes += card.len();
                cards.push(card);
                self.out.carried.push(link);
            }
        }
        self.call_all(|registry| &registry.rounds.handing_on);
        let memos = self.people.returning.memos();
        for card in std::mem::take(&mut self.out.handed_on).into_iter().chain(memos) {
            match card.encode() {
                Ok(encoded) if bytes + encoded.len() <= most_bytes => {
                    bytes += encoded.len();
                    cards.push(encoded);
                }
                Ok(_) => {
                    warn!(
                        home = card.home(),
                        "a part of the server can't be saved for the restart: there is no space for it"
                    )
                }
                Err(error) => {
                    warn!(home = card.home(), %error, "a part of the server can't be restored after the restart")
                }
            }
        }
        cards
    }

    /// Forgets the sessions that have [cards](World::cards), which no longer belong to this
    /// process, unless nobody has taken the cards. All others end. Returns the links of the
    /// forgotten sessions.
    pub fn forget_carried(&mut self, are_taken: bool) -> Vec<Link> {
        let mut carried = std::mem::take(&mut self.out.carried);
        carried.retain(|_| are_taken);
        for &link in &carried {
            self.remove_session(link);
        }
        for link in self.people.sessions.links().collect::<Vec<_>>() {
            self.close(link, StreamError::SystemShutdown, CANNOT_GO_ON);
        }
        carried
    }

    /// Hands a module's data on to another process. The memo is opened there, at the home of a
    /// text, before anything continues. It may reserve its place then, and does the rest in
    /// [`World::in_turn`].
    pub fn hand_on<L: Memo>(&mut self, home: &str, memo: &L) {
        debug_assert!(self.registry().memo_kind(L::NAME).is_some(), "no module declares the memo {:?}", L::NAME);
        match postcard::to_allocvec(memo) {
            Ok(bytes) => self.out.handed_on.push(Card::Memo(home.to_owned(), L::NAME.to_owned(), ByteBuf::from(bytes))),
            Err(error) => warn!(home, %error, "a part of the server can't be restored after the restart"),
        }
    }

    pub(crate) fn card_of(&mut self, link: Link, peer_of: impl Fn(Link) -> Option<SocketAddr>) -> Option<Vec<u8>> {
        if !self.is_detached(link) || !self.is_lasting(link) {
            return None;
        }
        let peer = peer_of(link)?;
        let jid = self.address(link)?.clone();
        let carried = self.outboxes.carried_stanzas(link)?;
        let (until_ms, mut state) = self.state_of(link, peer)?;
        let is_settled = self.ledger(link).is_none_or(|ledger| ledger.handled() == ledger.sure());
        if !is_settled && !state.modules.iter().any(|(name, _)| name == RECOVERED) {
            // Its client sends its stanzas again, as after a death.
            state.modules.push((RECOVERED.to_owned(), ByteBuf::new()));
        }
        let taken = &self.clock.taken;
        let card = SessionCard::new(jid, until_ms, carried, state, |number| taken.when(number));
        let card = card.and_then(|card| Card::Session(Box::new(card)).encode());
        card.inspect_err(|error| warn!(%error, "a session can't be restored after the restart")).ok()
    }

    /// Returns the state of a session, and the time of day until which it can be resumed;
    /// `u64::MAX` while it has a connection.
    pub(crate) fn state_of(&mut self, link: Link, peer: SocketAddr) -> Option<(u64, CardState)> {
        let ledger = self.ledger(link)?;
        let (handled, doubtful) = (ledger.sure(), ledger.doubt());
        let managed = self.managed_session(link)?;
        let (id, seconds) = (**managed.id.as_ref()?, managed.seconds);
        let stream = CardCounts { id, seconds, handled, doubtful, acknowledged: 0, sent: 0 };
        let session = self.session_at(link)?;
        let rare = session.rare.as_ref()?;
        // It may be about to continue here from the previous process.
        let back = self.people.returning.session(self.reference(link)?);
        let (shown, until_ms, mut modules, is_uncalled) = match back {
            Some(back) => (back.shown.clone(), back.until_ms, back.modules.clone(), back.is_uncalled),
            None => {
                let shown = CardShown {
                    presence: session.presence.clone(),
                    priority: session.priority,
                    reachable_since: session.reachable_since,
                };
                let left_ms = managed.until_ms.saturating_sub(self.clock.now_ms);
                let until_ms = if self.is_detached(link) { self.time() + left_ms } else { u64::MAX };
                let mut luggage = self.luggage(link)?;
                luggage.extend(self.is_recovered(link).then(|| (RECOVERED.to_owned(), ByteBuf::new())));
                (shown, until_ms, luggage, session.is_uncalled)
            }
        };
        note_line(&mut modules, self.line(link));
        let state = CardState {
            stream,
            shown,
            lang: rare.lang.as_deref().map(str::to_owned),
            interested: session.interest == RosterInterest::Follows,
            carbons: session.carbons,
            directed: rare.directed.iter().cloned().collect(),
            peer,
            modules,
            is_uncalled,
        };
        Some((until_ms, state))
    }
}

/// The reason that is given for the end of a session without a card.
const CANNOT_GO_ON: &str = "the session can't go on";
