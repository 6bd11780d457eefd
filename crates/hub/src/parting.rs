//! The old home of sessions that move to another node: they come to rest, are packed as
//! [cards](crate::card), as at a stop, and are sent, with everything that modules hand on.
//!
//! # Invariants
//!
//! * A session that leaves sends nothing more before its shard adopts the new view: its client's
//!   last stanzas were routed by the old one, to homes that act, and are settled when it is
//!   packed.
//! * Nothing leaves before all others have adopted the new view ([`crate::moves`]); until then its
//!   sessions and rooms are served as ever.
//! * Others are told that everything was sent only after that, and after the data that came here
//!   for homes that are elsewhere by now.
//! * Nobody is told that a session that leaves is unavailable.
//! * The bytes on their way at a time are bounded, so that no queue fills: more follow when others
//!   have taken them, or after a moment. The message that everything was sent comes right after the
//!   last of them.

use std::net::SocketAddr;

use rookery_fanout::{Link, View};
use rookery_jid::Jid;
use rookery_stream::error::StreamError;
use serde_bytes::ByteBuf;
use tracing::warn;

use crate::World;
use crate::acting::{ArrivedCards, Moves, PartingStage, Whereabouts};
use crate::at_hand::AbsentState;
use crate::card::Card;
use crate::custody::Custody;
use crate::mail::Mail;
use crate::moves::LATE_MS;
use crate::parts::User;

impl World {
    /// Returns the sessions that leave, once it is time for them to come to rest; `None` before,
    /// and after.
    pub fn begin_parting(&mut self) -> Option<Vec<Link>> {
        let (stage, since_ms) = self.people.moves.as_ref()?.parting?;
        let since_ms = since_ms.max(self.clock.started_ms.unwrap_or(self.clock.now_ms));
        let is_late = self.clock.now_ms >= since_ms + LATE_MS;
        if stage != PartingStage::Agreeing || !(is_late || self.do_all_agree()) {
            return None;
        }
        if is_late {
            warn!("some nodes of the cluster disagree about homes; moves don't wait for them");
        }
        let now_ms = self.clock.now_ms;
        if let Some(moves) = &mut self.people.moves {
            moves.late.times += u64::from(is_late);
            moves.parting = Some((PartingStage::Freezing, now_ms));
        }
        let links = self.parting_links();
        if !links.is_empty() {
            self.after(REST_MS + 1, |_| {});
        }
        Some(links)
    }

    /// Returns the sessions whose accounts move to another node by a view. Those that can't
    /// continue there are among them: what they write by the new homes would wait for others that
    /// move, and they would not come to rest before it has arrived.
    pub fn leaving_by(&self, view: &View) -> Vec<Link> {
        if self.people.moves.is_none() {
            return Vec::new();
        }
        let leaves = |hash: u64| self.whereabouts(hash) == Whereabouts::Here && view.hop(hash) != self.shard();
        let hash_of = |user: &User| self.people.names.get(user.name).map(|(hash, _)| hash);
        let users = self.people.users.iter().filter(|(_, user)| hash_of(user).is_some_and(leaves));
        users.flat_map(|(_, user)| user.links.iter().copied()).collect()
    }

    /// Returns whether an account moves to another node by a view.
    pub fn leaves_by(&self, view: &View, account: &Jid) -> bool {
        view.hop(self.hash(account.bare_str())) != self.shard()
    }

    /// Returns whether a session leaves: this shard still acts for its account, whose home is
    /// elsewhere now.
    pub fn is_leaving(&self, link: Link) -> bool {
        self.session_at(link).is_some_and(|session| self.user_leaves(session.user))
    }

    /// Returns whether the data at the home of this name continues elsewhere: at a stop everything
    /// that is handed on, otherwise everything with its home on another node now.
    pub fn parts_with(&self, text: &str) -> bool {
        if self.hands_on() {
            return true;
        }
        let hash = self.hash(text);
        self.leaves(hash)
    }

    fn leaves(&self, hash: u64) -> bool {
        let moves = self.people.moves.as_ref();
        moves.is_some_and(|moves| moves.acting.has(View::slot(hash)) && self.hop(hash) != self.shard())
    }

    fn user_leaves(&self, user: u32) -> bool {
        let user = self.people.users.get(user as usize);
        let hash = user.and_then(|user| self.people.names.get(user.name)).map(|(hash, _)| hash);
        hash.is_some_and(|hash| self.leaves(hash))
    }

    fn parting_links(&self) -> Vec<Link> {
        let users = self.people.users.iter().filter(|(at, _)| self.user_leaves(*at as u32));
        users.flat_map(|(_, user)| user.links.iter().copied()).collect()
    }

    /// Returns whether everything that leaves has come to rest, or has had enough time for that.
    pub fn may_pack(&mut self) -> bool {
        let Some((PartingStage::Freezing, since_ms)) = self.people.moves.as_ref().and_then(|moves| moves.parting)
        else {
            return false;
        };
        // Others wait for the contents of journals that are being read.
        let are_read = self.people.moves.as_ref().is_some_and(|moves| !moves.journals.is_empty());
        let rest_ms = if are_read { JOURNALS_MS } else { REST_MS };
        self.clock.now_ms >= since_ms + rest_ms || !are_read && self.is_at_rest()
    }

    fn is_at_rest(&mut self) -> bool {
        if !self.people.returning.is_empty() || self.has_absent_who_leave() {
            return false;
        }
        let users = self.people.users.iter().filter(|(at, _)| self.user_leaves(*at as u32));
        if users.into_iter().any(|(_, user)| user.held.is_some()) {
            return false;
        }
        let is_resting = |world: &mut Self, link: Link| {
            let is_idle = world.session_at(link).is_some_and(|session| !session.is_busy() && !session.ending);
            is_idle && world.is_detached(link) && world.is_settled(link)
        };
        let links = self.parting_links();
        links.into_iter().all(|link| is_resting(self, link))
            && self.registry().rounds.resting.all().all(|call| (call.call)(self))
    }

    /// Returns whether stanzas for accounts that leave, and have no session, wait for the store.
    /// They would come to the new homes behind later ones.
    fn has_absent_who_leave(&self) -> bool {
        let absent = &self.people.absent;
        let waits = |state: &AbsentState| matches!(state, AbsentState::Loading(_));
        let mut accounts = absent.accounts.iter().filter(|(_, state)| waits(state));
        absent.has_waiting() && accounts.any(|(account, _)| self.leaves(self.hash(account)))
    }

    /// Packs everything that leaves, and sends it on its way. Returns the links of the sessions
    /// that have left; those that can't leave end. This shard no longer acts for any of it.
    pub fn pack(&mut self, peer_of: impl Fn(Link) -> Option<SocketAddr>) -> Vec<Link> {
        let (mut carried, mut cards) = (Vec::new(), Vec::new());
        for link in self.parting_links() {
            let is_settled = self.ledger(link).is_none_or(|ledger| ledger.is_settled());
            self.people.moves.iter_mut().for_each(|moves| moves.late.times += u64::from(!is_settled));
            let card = self.card_of(link, &peer_of);
            match card.zip(self.address(link).map(|jid| self.hash(jid.bare_str()))) {
                Some((card, hash)) => {
                    cards.push((hash, card));
                    carried.push(link);
                }
                None => self.close(link, StreamError::Reset, MOVED),
            }
        }
        self.call_all(|registry| &registry.rounds.handing_on);
        for card in std::mem::take(&mut self.out.handed_on) {
            let hash = self.hash(card.home());
            match card.encode() {
                Ok(encoded) => cards.push((hash, encoded)),
                Err(error) => warn!(home = card.home(), %error, "a part of the server can't continue on another node"),
            }
        }
        cards.extend(self.take_passing());
        let (view, shard) = (self.here.view.clone(), self.shard());
        if let Some(moves) = &mut self.people.moves {
            let others = (0..rookery_fanout::view::SLOTS).filter(|slot| view.home(*slot) != shard);
            others.for_each(|slot| moves.acting.set(slot, false));
            moves.parting = Some((PartingStage::Sending, self.clock.now_ms));
            moves.leaving.extend(cards);
        }
        for &link in &carried {
            self.leave_behind(link);
        }
        self.send_leaving();
        carried
    }

    /// Takes the cards that have come and whose home is elsewhere by now, with their hashes: with
    /// those of this shard they are all that others wait for.
    fn take_passing(&mut self) -> Vec<(u64, Vec<u8>)> {
        let Some(moves) = &mut self.people.moves else { return Vec::new() };
        let ArrivedCards { living, recovered } = std::mem::take(&mut moves.arrived);
        let mut passing = Vec::new();
        let mut own = |all: Vec<Vec<u8>>| {
            let mut own = Vec::new();
            for encoded in all {
                let hash = Card::decode(&encoded).ok().map(|card| self.hash(card.home()));
                match hash.filter(|hash| self.hop(*hash) != self.shard()) {
                    Some(hash) => passing.push((hash, encoded)),
                    None => own.push(encoded),
                }
            }
            own
        };
        let own = ArrivedCards { living: own(living), recovered: own(recovered) };
        if let Some(moves) = &mut self.people.moves {
            moves.arrived = own;
        }
        passing
    }

    /// Forgets a session that continues elsewhere, silently.
    fn leave_behind(&mut self, link: Link) {
        let Some(account) = self.address(link).map(|address| address.bare_str().to_owned()) else { return };
        if let Some(session) = self.at_mut(link) {
            session.presence = None;
            session.rare.iter_mut().for_each(|rare| rare.directed.clear());
        }
        self.call_of_session(|registry| &registry.sessions.presence, link);
        self.call_of_session(|registry| &registry.sessions.ended, link);
        self.remove_session(link);
        self.people.absent.forget(&account);
    }

    /// Sends some of the leaving cards to their homes, and the next ones when these have been
    /// taken.
    pub(crate) fn send_leaving(&mut self) {
        let Some(moves) = &mut self.people.moves else { return };
        if std::mem::replace(&mut moves.sending.is_under_way, true) {
            return;
        }
        self.send_some_leaving();
    }

    fn send_some_leaving(&mut self) {
        let (custody, settled) = Custody::apart();
        let (mut bytes, mut parcel) = (0, None::<(usize, Vec<ByteBuf>, usize)>);
        while bytes < AT_ONCE_BYTES
            && let Some((hash, card)) = self.people.moves.as_mut().and_then(|moves| moves.leaving.pop_front())
        {
            let home = self.hop(hash);
            if home == self.shard() {
                // Its home has come back meanwhile.
                self.people.moves.iter_mut().for_each(|moves| moves.arrived.living.push(card.clone()));
                continue;
            }
            bytes += card.len();
            let fits = parcel.as_ref().is_some_and(|(to, _, size)| *to == home && size + card.len() <= PARCEL_BYTES);
            if !fits && let Some((to, cards, _)) = parcel.take() {
                self.in_custody(Some(custody.clone()), |world| world.post(to, Mail::Cards(cards)));
            }
            let (_, cards, size) = parcel.get_or_insert_with(|| (home, Vec::new(), 0));
            *size += card.len();
            cards.push(ByteBuf::from(card));
        }
        if let Some((to, cards, _)) = parcel {
            self.in_custody(Some(custody), |world| world.post(to, Mail::Cards(cards)));
        } else {
            drop(custody);
        }
        let Some(moves) = &mut self.people.moves else { return };
        moves.sending.is_under_way = bytes > 0;
        moves.sending.number += 1;
        let sending = moves.sending.number;
        if moves.leaving.is_empty() && matches!(moves.parting, Some((PartingStage::Sending, _))) {
            moves.parting = None;
            self.say_sent();
        }
        if bytes > 0 {
            self.in_custody(None, |world| {
                world.wait(settled, move |world, _| world.sent_some_leaving(sending));
                world.after(TAKEN_MS, move |world| world.sent_some_leaving(sending));
            });
        }
    }

    /// Sends more cards when others have the last ones, or have had enough time.
    fn sent_some_leaving(&mut self, sending: u64) {
        let is_last = |moves: &Moves| moves.sending.is_under_way && moves.sending.number == sending;
        if self.people.moves.as_ref().is_some_and(|moves| is_last(moves)) {
            self.send_some_leaving();
        }
    }

    /// Takes cards that have come, or come back.
    pub(crate) fn take_cards(&mut self, cards: Vec<ByteBuf>) {
        if let Some(moves) = &mut self.people.moves {
            moves.arrived.living.extend(cards.into_iter().map(ByteBuf::into_vec));
        }
    }

    /// Sends cards to their homes, which are on other nodes.
    pub fn send_on(&mut self, cards: &[Card]) {
        if !cards.is_empty() {
            self.send_cards_again(cards.iter().filter_map(|card| card.encode().ok()).collect());
        }
    }

    /// Sends cards again that could not be delivered, or whose home is elsewhere.
    pub(crate) fn send_cards_again(&mut self, cards: Vec<Vec<u8>>) {
        for card in cards {
            let home = Card::decode(&card).map(|card| self.hash(card.home()));
            match home {
                Ok(hash) => {
                    self.people.moves.iter_mut().for_each(|moves| moves.leaving.push_back((hash, card.clone())))
                }
                Err(error) => warn!(%error, "a card from another node can't be read; the session or room in it ends"),
            }
        }
        self.send_leaving();
    }
}

/// The milliseconds that sessions have to come to rest before they leave; the second is the time
/// while journals are being read, which takes no longer than that.
const REST_MS: u64 = 5_000;
const JOURNALS_MS: u64 = 9_000;
/// Milliseconds for which cards wait for the previous ones to be taken. A node processes together
/// everything that arrives together, which may be cards and the mail that waits for all of them.
const TAKEN_MS: u64 = 200;
/// Bytes of cards on their way at a time, and in one parcel; a single card may exceed this.
const AT_ONCE_BYTES: usize = 1 << 20;
const PARCEL_BYTES: usize = 64 << 10;
/// The reason for the end of a session that can't continue on another node.
pub(crate) const MOVED: &str = "the account has its home on another node now";
