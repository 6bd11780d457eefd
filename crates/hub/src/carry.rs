//! Sessions that outlive their process: what is done for them when the server stops, and at the
//! next start. [`crate::card`] is the form in which they travel.
//!
//! # Invariants
//!
//! * A session goes on in another process exactly if its client may come back (XEP-0198 §5) and
//!   nothing but its client waits for what lies in its outbox. Of such a session nobody hears that
//!   it is unavailable: neither at the stop nor at the start.
//! * Its card is made when nothing is under way any more: what others said last before they went
//!   is in it.
//! * A session whose time was over meanwhile, or that can't go on, ends as always: contacts hear of
//!   it, and what it did not get goes where it would have gone without it.

use std::net::SocketAddr;

use rookery_fanout::Link;
use rookery_jid::Jid;
use rookery_stream::error::StreamError;
use serde_bytes::ByteBuf;
use tracing::warn;

use crate::World;
use crate::card::{Card, Counts, SessionCard, Shown, State, renumber};
use crate::custody::Ledger;
use crate::letter::Letter;
use crate::managed::Managed;
use crate::management::{self, bounds_of};
use crate::session::SessionRef;

impl World {
    /// Returns whether the server stops and its sessions go on in another process.
    pub fn hands_on(&self) -> bool {
        self.clock.hands_on
    }

    /// Returns whether a session can go on in another process.
    pub fn is_lasting(&self, link: Link) -> bool {
        let can_return = self.managed(link).is_some_and(|managed| managed.id.is_some());
        let is_alive = self.session_at(link).is_some_and(|session| !session.ending && !session.gone);
        can_return && is_alive && self.outboxes.is_portable(link) && self.luggage(link).is_some()
    }

    /// Lets a session wait for its client in another process, since its connection is closed
    /// without a word. Returns `false` if it has to end.
    pub fn part(&mut self, link: Link) -> bool {
        let Some(session) = self.reference(link).filter(|_| self.is_lasting(link)) else { return false };
        if !self.is_detached(link) {
            let left_ms = self.managed(link).map_or(0, |managed| u64::from(managed.seconds) * 1000);
            self.outboxes.detach(link);
            self.expect_back(session, left_ms);
        }
        true
    }

    /// Returns what another process goes on with: the sessions that wait for their clients, as far
    /// as so many bytes hold them, and what modules add. The others end.
    pub fn cards(&mut self, most_bytes: usize, peer_of: impl Fn(Link) -> Option<SocketAddr>) -> Vec<Vec<u8>> {
        let (mut cards, mut bytes) = (Vec::new(), 0);
        for link in self.people.sessions.links().collect::<Vec<_>>() {
            if self.session_at(link).is_none_or(|session| session.gone) {
                continue;
            }
            match peer_of(link).and_then(|peer| self.card_of(link, peer)) {
                Some(card) if bytes + card.len() <= most_bytes => {
                    bytes += card.len();
                    cards.push(card);
                    self.out.carried.push(link);
                }
                _ => self.close(link, StreamError::SystemShutdown, "the session can't go on"),
            }
        }
        self.call_all(|registry| &registry.rounds.handing_on);
        for card in std::mem::take(&mut self.out.handed_on) {
            match card.encode() {
                Ok(encoded) if bytes + encoded.len() <= most_bytes => {
                    bytes += encoded.len();
                    cards.push(encoded);
                }
                Ok(_) => {
                    warn!(home = card.home(), "there is no place for a part of the server to go on after the restart")
                }
                Err(error) => warn!(home = card.home(), %error, "a part of the server can't go on after the restart"),
            }
        }
        cards
    }

    /// Returns the links of the sessions that have a card: they are no longer of this process.
    pub fn take_carried(&mut self) -> Vec<Link> {
        std::mem::take(&mut self.out.carried)
    }

    /// Lets a module go on in another process: the letter is opened there, at the home of a text.
    pub fn hand_on<L: Letter>(&mut self, home: &str, letter: &L) {
        debug_assert!(self.registry().letter_kind(L::NAME).is_some(), "no module declares the letter {:?}", L::NAME);
        match postcard::to_allocvec(letter) {
            Ok(bytes) => {
                self.out.handed_on.push(Card::Letter(home.to_owned(), L::NAME.to_owned(), ByteBuf::from(bytes)))
            }
            Err(error) => warn!(home, %error, "a part of the server can't go on after the restart"),
        }
    }

    fn card_of(&mut self, link: Link, peer: SocketAddr) -> Option<Vec<u8>> {
        if !self.is_detached(link) || !self.is_lasting(link) {
            return None;
        }
        let jid = self.address(link)?.clone();
        let modules = self.luggage(link)?;
        let carried = self.outboxes.carried(link)?;
        let handled = self.ledger(link)?.sure();
        let managed = self.managed(link)?;
        let until_ms = self.time() + managed.until_ms.saturating_sub(self.clock.now_ms);
        let (id, seconds) = (**managed.id.as_ref()?, managed.seconds);
        let session = self.session_at(link)?;
        let rare = session.rare.as_ref()?;
        let state = State {
            stream: Counts { id, seconds, handled, acknowledged: 0, sent: 0 },
            shown: Shown {
                presence: session.presence.clone(),
                priority: session.priority,
                reachable_since: session.reachable_since,
            },
            lang: rare.lang.as_deref().map(str::to_owned),
            interested: session.interested,
            carbons: session.carbons,
            directed: rare.directed.iter().cloned().collect(),
            peer,
            modules,
        };
        let taken = &self.clock.taken;
        let card = SessionCard::new(jid, until_ms, carried, state, |number| taken.when(number));
        let card = card.and_then(|card| Card::Session(Box::new(card)).encode());
        card.inspect_err(|error| warn!(%error, "a session can't go on after the restart")).ok()
    }

    /// Goes on with the sessions of another process that are at home here, each at the link that it
    /// is given. What it waits for is in the custody of the caller.
    pub fn go_on(&mut self, cards: Vec<(Link, SessionCard)>) {
        let (mut links, mut read, mut unread) = (Vec::new(), Vec::new(), Vec::new());
        for (link, card) in cards {
            match card.state() {
                Ok(state) if self.can_go_on(&card.jid) => {
                    links.push(link);
                    read.push((card, state));
                }
                Ok(_) => unread.push((link, card)),
                Err(error) => {
                    warn!(session = %card.jid, %error, "a session can't go on; what it had not got is delivered elsewhere");
                    unread.push((link, card));
                }
            }
        }
        for (number, unix_ms) in renumber(&mut read, self.outboxes.pushed_total()) {
            self.clock.taken.recall(number, unix_ms);
        }
        for (link, (card, state)) in links.into_iter().zip(read) {
            self.go_on_with(link, card, state);
        }
        for (link, card) in unread {
            self.give_up(card);
            self.out.events.push_back(crate::Event::Released(link));
        }
    }

    /// Opens a letter that a module has [handed on](World::hand_on).
    pub fn open_handed_on(&mut self, kind: &str, bytes: &[u8]) {
        let Some(decode) = self.registry().letter_kind(kind) else {
            return warn!(kind, "no module goes on with this after the restart");
        };
        match decode(bytes) {
            Ok(letter) => letter.open(self),
            Err(error) => warn!(kind, %error, "a part of the server can't go on after the restart"),
        }
    }

    fn can_go_on(&self, jid: &Jid) -> bool {
        jid.resource().is_some()
            && self.domain(jid.domain()).is_some_and(|domain| domain.module(management::MODULE).is_some())
    }

    fn go_on_with(&mut self, link: Link, mut card: SessionCard, state: State) {
        let is_first = self.links_of(card.jid.as_ref()).is_empty();
        let session = self.open_session(link, &card.jid);
        let bounds = self.module_of(link, management::MODULE).map(bounds_of);
        let Counts { id, seconds, handled, acknowledged, sent } = state.stream;
        let carried = card.carried(acknowledged, sent);
        self.outboxes.carry_on(link, carried, bounds.unwrap_or(rookery_fanout::Bounds { stanzas: 0, bytes: 0 }));
        if let Some(found) = self.at_mut(link) {
            (found.interested, found.carbons) = (state.interested, state.carbons);
            let rare = found.rare();
            rare.lang = state.lang.map(String::into_boxed_str);
            rare.directed = state.directed.into_iter().collect();
            let (ledger, id) = (Ledger::after(handled), Some(Box::new(id)));
            rare.managed = Some(Box::new(Managed { ledger, id, seconds, turn: 0, until_ms: 0 }));
        }
        let account = card.jid.to_bare();
        if is_first {
            self.load_documents(session, account.as_ref());
        }
        let shown = state.shown;
        let (until_ms, modules) = (card.until_ms, state.modules);
        let known = self.stores.accounts.for_login(account.as_ref());
        self.wait_in_lane(session, known, move |world, known| {
            match known {
                Ok(Some((_, is_disabled))) if !is_disabled => {}
                Ok(known) => {
                    // An account of that name may be another one by now.
                    world.session_mut(session).into_iter().for_each(|found| found.disinherits = known.is_none());
                    return world.give_up_session(session);
                }
                Err(error) => {
                    world.store_failed("going on with a session", &account, &error);
                    return world.give_up_session(session);
                }
            }
            let contacts = world.stores.rosters.contacts(account.as_ref());
            world.wait_in_lane(session, contacts, move |world, contacts| match contacts {
                Ok(contacts) => {
                    let Some(user) = world.session(session).map(|found| found.user) else { return };
                    world.set_contacts(user, &contacts);
                    world.is_here_again(session, shown, &modules, until_ms);
                }
                Err(error) => {
                    world.store_failed("going on with a session", &account, &error);
                    world.give_up_session(session);
                }
            });
        });
    }

    /// Makes a session as available as it was. Nobody hears of it: for others it never went.
    fn is_here_again(&mut self, session: SessionRef, shown: Shown, modules: &[(String, ByteBuf)], until_ms: u64) {
        let Some(found) = self.session_mut(session) else { return };
        let Shown { presence, priority, reachable_since } = shown;
        (found.presence, found.priority, found.reachable_since) = (presence, priority, reachable_since);
        self.unpack(session.link, modules);
        // One whose time was over meanwhile has a moment too: until then all others are here, who
        // may get what it did not.
        let left_ms = until_ms.saturating_sub(self.time()).max(MOMENT_MS);
        let promised_ms = self.managed(session.link).map_or(0, |managed| u64::from(managed.seconds) * 1000);
        self.expect_back(session, left_ms.min(promised_ms.max(MOMENT_MS)));
    }

    fn give_up_session(&mut self, session: SessionRef) {
        if self.session(session).is_some_and(|found| !found.gone) {
            self.closed(session.link);
        }
    }

    /// Sends the stanzas of a session that can't go on where those of an ended session go.
    fn give_up(&mut self, mut card: SessionCard) {
        let jid = card.jid.clone();
        for stanza in std::mem::take(&mut card.stanzas) {
            let came_ms = stanza.came_ms;
            if let Some((packet, to)) = stanza.given_back(&jid) {
                self.not_delivered(&packet, to.as_ref(), came_ms);
            }
        }
    }
}

/// The shortest time for which a session waits for its client after a start, in milliseconds.
const MOMENT_MS: u64 = 1000;
