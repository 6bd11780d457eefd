//! Brings sessions of the previous process, and everything that modules have handed on to this
//! one, back into the world.
//!
//! # Invariants
//!
//! * A session is there before any shard begins to work ([`World::go_on`] comes before
//!   [`World::proceed`], everywhere): stanzas for it find it, and its client may resume it. It
//!   isn't available, its account accepts nothing, and its backlog waits until the store has
//!   returned the account's data. The same holds for data that modules have handed on: they reserve
//!   its place at once, and ask the store in turn ([`World::in_turn`]).
//! * The store is asked for a few accounts and rooms at a time, whatever their number. If it is
//!   busy or unreachable, it is asked again, for as long as it takes: no session ends and no
//!   message is bounced because the server was stopped.
//! * A new session of the account is bound when these are available again, and is ahead of other
//!   accounts.
//! * All sessions of an account are available again before any of them ends: if two got a message
//!   to the bare JID, the one that continues has it, and the other doesn't give it back.
//! * A session that can't continue ends like any other, and its contacts are told.

use std::collections::BTreeMap;

use rookery_fanout::{Link, Packet, UnackedBounds};
use rookery_jid::{Jid, JidRef};
use rookery_store::StoreError;
use rookery_stream::error::StreamError;
use rookery_xml::Writer;
use serde_bytes::ByteBuf;
use tracing::warn;

use crate::World;
use crate::card::{CardCounts, CardShown, CardState, RECOVERED, SessionCard, renumber, share};
use crate::custody::{Custody, Ledger};
use crate::following::line_of;
use crate::managed::ManagedSession;
use crate::management::{self, bounds_of};
use crate::returning::{Back, ReturningAccount, ReturningJob};
use crate::session::{RosterInterest, SessionRef};

impl World {
    /// Takes up the sessions of another process that are at home here, each at the link that it is
    /// given, and memos that modules have [handed on](World::hand_on). They continue from
    /// [`World::proceed`] on. Their waiting is in the custody of the caller.
    pub fn go_on(&mut self, sessions: Vec<(Link, SessionCard)>, memos: Vec<(String, String, ByteBuf)>) {
        let read = sessions.into_iter().map(|(link, card)| {
            let state = card.state().inspect_err(|error| {
                warn!(session = %card.jid, %error, "a session can't be restored; what it hadn't received is delivered elsewhere");
            });
            (link, (card, state.ok()))
        });
        let (links, mut cards): (Vec<_>, Vec<_>) = read.unzip();
        for (number, unix_ms) in renumber(&mut cards, self.outboxes.pushed_total()) {
            self.clock.taken.recall(number, unix_ms);
        }
        let mut accounts = BTreeMap::<Jid, (Vec<Link>, Vec<_>)>::new();
        for (link, read) in links.into_iter().zip(cards) {
            let (links, cards) = accounts.entry(read.0.jid.to_bare()).or_default();
            links.push(link);
            cards.push(read);
        }
        for (jid, (links, mut cards)) in accounts {
            if cards.len() > 1 {
                share(&mut cards);
            }
            let sessions = links.into_iter().zip(cards).map(|(link, (card, state))| self.go_on_with(link, card, state));
            let sessions = sessions.collect();
            let (loading, custody) = (self.begin_loading(jid.as_ref()), self.custody());
            let account = ReturningAccount { jid, sessions, loading, custody, failures: 0 };
            self.people.returning.add(ReturningJob::Account(Box::new(account)));
        }
        for (home, kind, bytes) in memos {
            self.open_handed_on(home, kind, bytes);
        }
    }

    /// Opens a memo that a module has [handed on](World::hand_on). It is kept until all its
    /// consequences are done, since another stop may come before.
    fn open_handed_on(&mut self, home: String, kind: String, bytes: ByteBuf) {
        let (custody, settled) = Custody::apart();
        match self.registry().memo_kind(&kind).map(|decode| decode(&bytes)) {
            Some(Ok(memo)) => self.in_custody(Some(custody), |world| memo.open(world)),
            Some(Err(error)) => return warn!(kind, %error, "a part of the server can't be restored after the restart"),
            None => return warn!(kind, "no module recognises this after the restart"),
        }
        let memo = self.people.returning.memos.insert((home, kind, bytes));
        self.wait(settled, move |world, _| drop(world.people.returning.memos.try_remove(memo)));
    }

    /// Runs work for a part of another process when its turn has come, after earlier parts. All
    /// its consequences belong to it.
    pub fn in_turn(&mut self, work: impl FnOnce(&mut World) + 'static) {
        let custody = self.custody();
        self.people.returning.add(ReturningJob::Work(Some(Box::new(work)), custody));
    }

    /// Returns whether a session with this full JID continues and has shown itself at a place, as
    /// far as this shard, which is its home, knows. A session that ends reports its end itself to
    /// those whom it knows; another session may have taken its address since.
    pub fn goes_on(&self, session: JidRef<'_>, place: JidRef<'_>) -> bool {
        let user = self.user_named(self.hash(session.bare_str()), session.bare_str());
        let found = session.resource().and_then(|resource| self.find_resource(user, resource));
        let Some((link, reference)) = found.and_then(|link| Some((link, self.reference(link)?))) else { return false };
        let ends = self.people.returning.session(reference).is_some_and(|back| back.ends);
        !ends && self.has_shown_itself(link, place)
    }

    fn go_on_with(&mut self, link: Link, mut card: SessionCard, state: Option<CardState>) -> SessionRef {
        let is_taken = card.jid.resource().is_some_and(|resource| {
            let user = self.user_named(self.hash(card.jid.bare_str()), card.jid.bare_str());
            self.find_resource(user, resource).is_some()
        });
        let session = self.open_session(link, &card.jid);
        let bounds = self.module_of(link, management::MODULE).map(bounds_of);
        let ends = is_taken || state.is_none() || bounds.is_none() || card.jid.resource().is_none();
        let sent = state.as_ref().map_or((0, 0), |state| (state.stream.acknowledged, state.stream.sent));
        let carried = card.take_stanzas(sent.0, sent.1);
        self.outboxes.carry_on(link, carried, bounds.unwrap_or(UnackedBounds { stanzas: 0, bytes: 0 }));
        if state.as_ref().is_some_and(|state| state.modules.iter().any(|(name, _)| name == RECOVERED)) {
            self.set_recovered(session);
        }
        let back = match state {
            Some(state) => self.set_state(link, card.until_ms, state, ends),
            // Others may have seen the session, whatever its state was.
            None => Back {
                shown: CardShown { presence: plain_presence(&card.jid), priority: -1, reachable_since: 0 },
                until_ms: 0,
                modules: Vec::new(),
                is_uncalled: false,
                ends,
            },
        };
        self.people.returning.sessions.insert(session, back);
        self.hold_backlog(session);
        session
    }

    fn set_state(&mut self, link: Link, until_ms: u64, state: CardState, ends: bool) -> Back {
        let CardState { stream, shown, lang, interested, carbons, directed, modules, is_uncalled, .. } = state;
        if let Some(found) = self.at_mut(link) {
            found.interest = if interested { RosterInterest::Follows } else { RosterInterest::Unasked };
            found.carbons = carbons;
            let rare = found.rare();
            rare.lang = lang.map(String::into_boxed_str);
            rare.directed = directed.into_iter().collect();
            let CardCounts { id, seconds, handled, doubtful, .. } = stream;
            let (ledger, id) = (Ledger::continue_from(handled, doubtful), (!ends).then(|| Box::new(id)));
            let managed = ManagedSession { ledger, id, seconds, turn: 0, until_ms: 0 };
            rare.managed = Some(Box::new(managed));
        }
        self.keep_line(link, line_of(&modules));
        Back { shown, until_ms, modules, is_uncalled, ends }
    }

    /// Begins to work on the sessions and memos that [`World::go_on`] has taken up, and on the next
    /// whenever one is done.
    pub fn proceed(&mut self) {
        while self.people.returning.under_way < AT_ONCE
            && let Some(job) = self.people.returning.waiting.pop_front()
        {
            self.people.returning.under_way += 1;
            let work = match self.people.returning.jobs.get_mut(job) {
                Some(ReturningJob::Work(work, custody)) => work.take().map(|work| (work, custody.take())),
                _ => None,
            };
            match work {
                Some((work, custody)) => self.in_custody(custody, |world| {
                    let (own, done) = Custody::apart();
                    world.people.returning.works += 1;
                    world.in_custody(Some(own), work);
                    world.wait(done, move |world, _| world.has_returned(job));
                }),
                None => self.look_up_returning(job),
            }
        }
    }

    /// Ends the work on an account or a memo for good.
    fn has_returned(&mut self, job: usize) {
        let returning = &mut self.people.returning;
        if let Some(ReturningJob::Work(..)) = returning.jobs.try_remove(job) {
            returning.works = returning.works.saturating_sub(1);
        }
        debug_assert!(returning.under_way > 0, "somebody was at work on it");
        returning.under_way = returning.under_way.saturating_sub(1);
        if returning.jobs.is_empty() {
            // Some of this work may be about accounts that are available only now.
            self.open_kept();
        }
        self.proceed();
    }

    /// Runs a step of an account that continues, when the store has answered.
    fn step<T: 'static>(
        &mut self,
        job: usize,
        pending: rookery_store::Pending<T>,
        then: impl FnOnce(&mut World, usize, T) + 'static,
    ) {
        let custody = self.people.returning.account(job).and_then(|account| account.custody.clone());
        self.in_custody(custody, |world| {
            world.wait(pending, move |world, answer| match answer {
                Ok(answer) => then(world, job, answer),
                Err(error) => world.ask_again(job, &error),
            });
        });
    }

    fn look_up_returning(&mut self, job: usize) {
        let Some(account) = self.people.returning.account(job) else { return };
        let known = self.stores.accounts.for_login(account.jid.as_ref());
        self.step(job, known, |world, job, known| match known {
            // An account of that name may be another one by now.
            None => world.end_returning(job, true),
            Some((_, is_disabled)) => {
                if is_disabled {
                    world.let_end(job);
                }
                world.read_contacts(job);
            }
        });
    }

    fn read_contacts(&mut self, job: usize) {
        let Some(account) = self.people.returning.account(job) else { return };
        let contacts = self.stores.rosters.contacts(account.jid.as_ref());
        self.step(job, contacts, |world, job, contacts| {
            let sessions = world.sessions_of(job);
            if let Some(user) = sessions.iter().find_map(|&session| Some(world.session(session)?.user)) {
                world.set_contacts(user, &contacts);
            }
            world.read_documents(job);
        });
    }

    fn read_documents(&mut self, job: usize) {
        let Some(account) = self.people.returning.account(job) else { return };
        let (jid, custody) = (account.jid.clone(), account.custody.clone());
        self.in_custody(custody, |world| {
            world.load_at_hand(&jid, move |world, loaded| match loaded {
                Ok(()) => world.are_here_again(job),
                Err(error) => world.ask_again(job, &error),
            });
        });
    }

    /// Asks the store again later: for as long as it is only unreachable, and a few times after
    /// other errors.
    fn ask_again(&mut self, job: usize, error: &StoreError) {
        let Some(ReturningJob::Account(account)) = self.people.returning.jobs.get_mut(job) else { return };
        let (jid, custody) = (account.jid.clone(), account.custody.clone());
        let (failures, delay_ms) = (account.failures, AGAIN_MS << account.failures.min(MOST_DOUBLINGS));
        account.failures += 1;
        self.store_failed("going on with sessions", &jid, error);
        if !error.is_temporary() && failures >= MOST_DOUBLINGS {
            return self.end_returning(job, false);
        }
        self.after(delay_ms, move |world| world.in_custody(custody, |world| world.look_up_returning(job)));
    }

    fn sessions_of(&self, job: usize) -> Vec<SessionRef> {
        self.people.returning.account(job).map(|account| account.sessions.clone()).unwrap_or_default()
    }

    /// Lets all sessions of an account end when they are here again.
    fn let_end(&mut self, job: usize) {
        for session in self.sessions_of(job) {
            self.people.returning.sessions.get_mut(&session).into_iter().for_each(|back| back.ends = true);
        }
    }

    /// Ends the sessions of an account that don't continue. If `disinherits`, nobody gets their
    /// undelivered stanzas.
    fn end_returning(&mut self, job: usize, disinherits: bool) {
        self.let_end(job);
        for session in self.sessions_of(job).into_iter().filter(|_| disinherits) {
            self.session_mut(session).into_iter().for_each(|found| found.disinherits = true);
        }
        self.are_here_again(job);
    }

    /// Makes the sessions of an account as available as they were; then those end that can't
    /// continue.
    fn are_here_again(&mut self, job: usize) {
        let sessions = self.sessions_of(job);
        let back = &mut self.people.returning.sessions;
        let back: Vec<_> = sessions.iter().filter_map(|&session| Some((session, back.remove(&session)?))).collect();
        let ending: Vec<_> = back.iter().filter(|(_, back)| back.ends).map(|(session, _)| *session).collect();
        for (session, back) in back {
            self.is_here_again(session, back);
        }
        self.end_those(&ending);
        if let Some(ReturningJob::Account(account)) = self.people.returning.jobs.get_mut(job) {
            let (jid, loading) = (account.jid.clone(), account.loading.take());
            if let Some(loading) = loading {
                self.end_loading(loading);
            }
            self.ask_later(jid);
        }
        sessions.into_iter().for_each(|session| self.backlog_done(session));
        self.has_returned(job);
    }

    /// Makes a session as available as it was. Nobody is notified: others never saw it go, and if
    /// it ends now they are told of that.
    fn is_here_again(&mut self, session: SessionRef, back: Back) {
        let Some(found) = self.session_mut(session) else { return };
        let Back { shown: CardShown { presence, priority, reachable_since }, until_ms, modules, is_uncalled, ends } =
            back;
        (found.presence, found.priority, found.reachable_since) = (presence, priority, reachable_since);
        let is_over = found.ending || ends;
        self.unpack(session.link, &modules);
        let managed = self.managed_session(session.link);
        let promised_ms = managed.map_or(0, |managed| u64::from(managed.seconds) * 1000);
        // Its client may have come already, and gone again.
        let has_returned = !self.is_detached(session.link) || managed.is_some_and(|managed| managed.until_ms > 0);
        if is_over || has_returned {
            return;
        }
        // A session whose time is over also gets a moment: by then the sessions of other accounts
        // are here, which may be told of its end.
        let left_ms = until_ms.saturating_sub(self.time()).max(MOMENT_MS);
        self.expect_back(session, left_ms.min(promised_ms.max(MOMENT_MS)));
        self.touch(session.link);
        if is_uncalled && let Some(packet) = self.outboxes.newest_urgent(session.link) {
            self.call_unattended(&packet, session.link);
        }
    }

    /// Ends sessions of an account. A stanza that several of them have is given back by the last
    /// one.
    fn end_those(&mut self, sessions: &[SessionRef]) {
        let is_there = |session: &SessionRef| self.session(*session).is_some_and(|found| !found.gone);
        let there = sessions.iter().copied().filter(is_there);
        let (detached, connected): (Vec<_>, Vec<_>) = there.partition(|session| self.is_detached(session.link));
        // Their clients came back before the store had answered that the sessions can't continue.
        for session in connected {
            self.close(session.link, StreamError::Reset, "the session can't go on after a restart");
        }
        for &session in &detached {
            self.session_mut(session).into_iter().for_each(|found| found.ending = true);
        }
        detached.into_iter().for_each(|session| self.closed(session.link));
    }

    /// Lets an account probe its contacts elsewhere for changes that happened while there was no
    /// server. Accounts do so one after the other.
    fn ask_later(&mut self, account: Jid) {
        if !self.federates() {
            return;
        }
        let to_ask = &mut self.people.returning.to_ask;
        to_ask.push_back(account);
        if to_ask.len() == 1 {
            self.after(ASK_MS, World::ask_some);
        }
    }

    fn ask_some(&mut self) {
        let mut asked = 0;
        while asked < ASK_AT_ONCE
            && let Some(account) = self.people.returning.to_ask.pop_front()
        {
            asked += 1 + self.probe_elsewhere(&account);
        }
        if !self.people.returning.to_ask.is_empty() {
            self.after(ASK_MS, World::ask_some);
        }
    }
}

/// Returns available presence of which only the sender is known.
fn plain_presence(jid: &Jid) -> Option<Packet> {
    let mut presence = Writer::new("presence");
    presence.attr("from", jid.as_str());
    Packet::from_built(&presence.finish()).ok()
}

/// Accounts and memos of a shard that are being worked on at a time. All shards together stay
/// far below the limit of operations that may wait for the store.
const AT_ONCE: usize = 128;
/// Milliseconds until a failed store is asked again; they double a number of times.
const AGAIN_MS: u64 = 1000;
const MOST_DOUBLINGS: u32 = 4;
/// The shortest time for which a session waits for its client after a start, in milliseconds.
const MOMENT_MS: u64 = 1000;
/// Accounts of a shard that probe at a time, contacts that they probe at a time, and milliseconds
/// until the next.
const ASK_AT_ONCE: usize = 500;
const ASK_MS: u64 = 1000;
