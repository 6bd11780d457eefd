//! The life of a session from binding (RFC 6120 §7) to its end.

use std::collections::VecDeque;

use rookery_fanout::{Link, Packet, StanzaType, To, Unsent};
use rookery_jid::{Jid, JidRef};
use rookery_store::{StoreError, WorkError};
use rookery_stream::error::StreamError;
use rookery_xml::Kind;
use tracing::warn;

use crate::custody::Custody;
pub use crate::event::BindError;
use crate::event::Event;
use crate::parts::User;
use crate::passage::Notes;
use crate::session::{RosterInterest, Session, SessionContact, SessionRef};
use crate::settings::Conflict;
use crate::trace::Step;
use crate::{World, delay};

impl World {
    /// Binds a resource for `account` (a bare JID whose home is this shard): the requested one, or
    /// one that the server makes. Answered with [`Event::Bound`]; after an error the link is free
    /// again.
    pub fn bind(&mut self, link: Link, account: &Jid, resource: Option<&str>) {
        self.bind_as(link, account, resource, self.catalogue.settings.conflict);
    }

    /// Binds a resource that belongs to one client. A session that already has it is an older one
    /// of the same client (XEP-0386 §3.2).
    pub fn bind_in_place(&mut self, link: Link, account: &Jid, resource: &str) {
        self.bind_as(link, account, Some(resource), Conflict::EndOlder);
    }

    fn bind_as(&mut self, link: Link, account: &Jid, resource: Option<&str>, conflict: Conflict) {
        let is_anonymous = self.is_anonymous(account.domain());
        // XEP-0175 §3: the server chooses, so that a resource identifies nobody.
        let resource = resource.filter(|_| !is_anonymous);
        let address = match self.choose_address(account, resource, conflict) {
            Ok(address) => address,
            Err(error) => return self.out.events.push_back(Event::Bound(link, Err(error))),
        };
        let is_first = self.is_without_heirs(account.as_ref());
        let session = self.open_session(link, &address);
        if is_anonymous {
            // The store has nothing about an account of one session.
            return self.bound(session, address, Ok(Vec::new()));
        }
        if is_first {
            self.load_documents(session, account.as_ref());
        }
        self.bind_behind_others(session, address, is_first);
    }

    /// Returns whether an account has no session here, or only some of an account of this name that
    /// was removed.
    fn is_without_heirs(&self, account: JidRef<'_>) -> bool {
        let user = self.user_named(self.hash(account.bare_str()), account.bare_str());
        let user = user.and_then(|user| self.people.users.get(user as usize));
        let mut links = user.into_iter().flat_map(|user| &user.links);
        links.all(|&link| self.session_at(link).is_none_or(|session| session.disinherits))
    }

    /// Binds a new session when no older one of its full JID has stanzas left to handle: others
    /// would take these for the newer one's, and their presence for the newest. The documents of
    /// the account are in memory by then, unless the session itself is loading them.
    fn bind_behind_others(&mut self, session: SessionRef, address: Jid, is_loading: bool) {
        let waits = if let Some(older) = self.older_with_stanzas(session.link, &address) {
            Some(self.waiting.successors.entry(older).or_default())
        } else if is_loading {
            None
        } else {
            self.people.returning.hurry(address.bare_str());
            match self.documents_wait(address.as_ref()) {
                Some(wait) if wait.has_failed => {
                    self.load_documents(session, address.bare());
                    None
                }
                wait => wait.map(|wait| &mut wait.sessions),
            }
        };
        let Some(waits) = waits else { return self.read_bound(session, address) };
        let (custody, settled) = Custody::apart();
        waits.push(custody);
        self.wait_in_order(session, settled, move |world, _| world.bind_behind_others(session, address, is_loading));
    }

    /// Binds a new session when its contacts are known.
    fn read_bound(&mut self, session: SessionRef, address: Jid) {
        let contacts = self.stores.rosters.contacts(address.bare());
        self.wait_in_order(session, contacts, move |world, contacts| world.bound(session, address, contacts));
    }

    /// Returns a session with this full JID that is older than that of the link and has stanzas
    /// that wait for the store. It may have lost its connection.
    fn older_with_stanzas(&self, newer: Link, address: &Jid) -> Option<SessionRef> {
        let user = self.people.users.get(self.session_at(newer)?.user as usize)?;
        let has_stanzas = |session: &Session| session.rare.as_ref().is_some_and(|rare| !rare.backlog.queue.is_empty());
        // They are in the order of their beginnings.
        let mut older = user.links.iter().copied().take_while(|&link| link != newer);
        let found = older.find(|&link| {
            self.outboxes.address(link) == Some(address) && self.session_at(link).is_some_and(has_stanzas)
        });
        self.reference(found?)
    }

    /// Lets newer sessions of its full JID begin, which have waited for a session.
    fn make_way(&mut self, session: SessionRef) {
        if !self.waiting.successors.is_empty() {
            self.waiting.successors.remove(&session);
        }
    }

    /// Sets the language of a session's stanzas that name none: its stream's `xml:lang` (RFC 6120
    /// §4.7.4).
    pub fn set_lang(&mut self, link: Link, lang: &str) {
        if let Some(session) = self.at_mut(link) {
            session.rare().lang = Some(lang.into());
        }
    }

    /// Returns whether the world knows that the connection of a session is gone; see
    /// [`World::closed`].
    pub fn is_gone(&self, link: Link) -> bool {
        self.session_at(link).is_some_and(|session| session.gone)
    }

    /// Notes that the connection of a session is gone. Its remaining stanzas are processed
    /// first, then it ends; see [`Event::Released`].
    pub fn closed(&mut self, link: Link) {
        let Some(session) = self.at_mut(link) else {
            return self.out.events.push_back(Event::Released(link));
        };
        debug_assert!(!session.gone, "a connection is lost once");
        session.ending = true;
        session.gone = true;
        let is_busy = session.is_busy();
        self.resolve_doubt(link);
        // This happens at once, even if the session has to wait, since stanzas that come now are
        // newer.
        self.give_back(link);
        if !is_busy {
            self.end(link);
        }
    }

    fn choose_address(&mut self, account: &Jid, resource: Option<&str>, conflict: Conflict) -> Result<Jid, BindError> {
        let address = match resource {
            Some(resource) => account.with_resource(resource),
            None => account.with_resource(&self.unique_text()),
        }
        .map_err(|_| BindError::Malformed)?;
        let links = self.links_of(account.as_ref());
        let taken = links.iter().copied().find(|&link| self.outboxes.address(link) == Some(&address));
        match taken {
            Some(older) if conflict == Conflict::RefuseNewer && !self.is_detached(older) => {
                return Err(BindError::Conflict);
            }
            Some(older) => self.close(older, StreamError::Conflict, "the resource was bound by a newer session"),
            None if links.len() >= self.catalogue.settings.max_resources => match self.oldest_detached(&links) {
                Some(oldest) => self.close(oldest, StreamError::Conflict, "newer sessions need its place"),
                None => return Err(BindError::TooMany),
            },
            None => {}
        }
        Ok(address)
    }

    pub(crate) fn open_session(&mut self, link: Link, address: &Jid) -> SessionRef {
        let bare = address.bare_str();
        let hash = self.hash(bare);
        let user = match self.user_named(hash, bare) {
            Some(user) => user,
            None => {
                let name = self.people.names.intern(hash, bare);
                let user = self.people.users.insert(User {
                    name,
                    links: Vec::with_capacity(1),
                    contacts: Box::default(),
                    held: None,
                    at_hand: None,
                });
                self.people.names.set_user(name, Some(user as u32));
                user as u32
            }
        };
        if let Some(user) = self.people.users.get_mut(user as usize) {
            debug_assert!(!user.links.contains(&link), "a link has one session");
            user.links.push(link);
        }
        let serial = self.next_serial();
        let session = Session {
            serial,
            user,
            reachable_since: 0,
            priority: 0,
            ending: false,
            gone: false,
            disinherits: false,
            interest: RosterInterest::Unasked,
            carbons: false,
            is_uncalled: false,
            presence: None,
            rare: None,
        };
        self.outboxes.open(link, address.clone());
        self.people.paid.open(link, self.clock.now_ms * 1000);
        if let Some(place) = self.people.sessions.open(link) {
            debug_assert!(place.is_none(), "an earlier session of the link was forgotten");
            *place = Some(session);
        }
        self.assert_whole(link);
        SessionRef { link, serial }
    }

    fn bound(
        &mut self,
        session: SessionRef,
        address: Jid,
        contacts: Result<Vec<(Jid, rookery_store::Subscription)>, StoreError>,
    ) {
        let Some(user) = self.session(session).map(|found| found.user) else { return };
        match contacts {
            Ok(contacts) => {
                self.set_contacts(user, &contacts);
                self.counters.bound += 1;
                self.out.events.push_back(Event::Bound(session.link, Ok(address)));
            }
            Err(error) => {
                self.store_failed("binding a resource", &address, &error);
                self.forget(session.link);
                self.out.events.push_back(Event::Bound(session.link, Err(BindError::of(&error))));
            }
        }
    }

    /// Replaces the shard's knowledge of a user's subscriptions.
    pub(crate) fn set_contacts(&mut self, user: u32, contacts: &[(Jid, rookery_store::Subscription)]) {
        let mut cached: Vec<SessionContact> = Vec::with_capacity(contacts.len());
        for (jid, subscription) in contacts {
            let hash = self.hash(jid.bare_str());
            let name = self.people.names.intern(hash, jid.bare_str());
            cached.push(SessionContact::new(name, subscription.to(), subscription.from()));
        }
        cached.sort_unstable();
        let Some(user) = self.people.users.get_mut(user as usize) else { return };
        let old = std::mem::replace(&mut user.contacts, cached.into_boxed_slice());
        for contact in old {
            self.people.names.release(contact.name());
        }
    }

    /// Updates one subscription of a user who is online.
    pub(crate) fn set_contact(&mut self, owner: JidRef<'_>, contact: &Jid, to: bool, from: bool) {
        let hash = self.hash(owner.bare_str());
        let Some(at) = self.user_named(hash, owner.bare_str()) else { return };
        let name = self.people.names.intern(self.hash(contact.bare_str()), contact.bare_str());
        let Some(user) = self.people.users.get_mut(at as usize) else { return };
        let mut contacts = std::mem::take(&mut user.contacts).into_vec();
        let known = contacts.iter().position(|contact| contact.name() == name);
        let had = known.map(|at| contacts.remove(at)).is_some();
        if to || from {
            let new = SessionContact::new(name, to, from);
            let at = contacts.partition_point(|contact| *contact < new);
            contacts.insert(at, new);
        }
        user.contacts = contacts.into_boxed_slice();
        // The cache holds one reference per contact, and this call has taken one.
        debug_assert!(user.contacts.is_sorted_by_key(|contact| contact.name()), "contacts are found by their order");
        let references = usize::from(had) + 1 - usize::from(to || from);
        for _ in 0..references {
            self.people.names.release(name);
        }
    }

    /// Notes that a continuation of the session is done, and processes the stanzas that waited
    /// behind it.
    pub(crate) fn backlog_done(&mut self, session: SessionRef) {
        if let Some(found) = self.session_mut(session) {
            let backlog = &mut found.rare().backlog;
            debug_assert!(backlog.waiting > 0, "a continuation of the backlog is done once");
            backlog.waiting = backlog.waiting.saturating_sub(1);
        }
        let mut scanner = rookery_xml::Scanner::new();
        loop {
            let Some(found) = self.session_mut(session) else { return };
            let backlog = &mut found.rare().backlog;
            if backlog.waiting > 0 {
                return;
            }
            let Some((bytes, custody)) = backlog.queue.pop_front() else { break };
            debug_assert!(backlog.bytes >= bytes.len(), "a backlog counts what waits in it");
            backlog.bytes -= bytes.len();
            scanner.reset();
            let limits = rookery_xml::Limits { bytes: bytes.len() + 1, ..rookery_xml::Limits::AFTER_LOGIN };
            match scanner.scan(&bytes, &limits) {
                Ok(rookery_xml::Scan::Stanza(_)) => {
                    self.in_custody(custody, |world| world.handle(session.link, scanner.stanza(&bytes)));
                }
                other => warn!(?other, "a stanza was altered while it waited in a backlog"),
            }
        }
        self.backlog_empty(session);
    }

    /// Goes on with a session whose backlog has run empty: reads again, or ends it.
    fn backlog_empty(&mut self, session: SessionRef) {
        let Some(found) = self.session_mut(session) else { return };
        debug_assert!(!found.is_busy(), "a backlog that is idle waits for nothing");
        let (ending, gone) = (found.ending, found.gone);
        if let Some(rare) = &mut found.rare {
            let paused = !rare.backlog.throttled && std::mem::take(&mut rare.backlog.paused);
            rare.backlog.queue = VecDeque::new();
            if !rare.is_needed() {
                found.rare = None;
            }
            if paused && !ending {
                self.out.events.push_back(Event::Resume(session.link));
            }
        }
        self.make_way(session);
        if gone {
            self.end(session.link);
        }
    }

    /// Ends a session: its presence, its undelivered stanzas, its memory.
    fn end(&mut self, link: Link) {
        self.become_unavailable(link, None);
        self.call_of_session(|registry| &registry.sessions.ended, link);
        self.remember_handled(link);
        self.forget(link);
        self.out.events.push_back(Event::Released(link));
    }

    /// Takes a session out of the world. Its undelivered stanzas go where they would have gone
    /// without it.
    pub(crate) fn forget(&mut self, link: Link) {
        self.give_back(link);
        self.remove_session(link);
    }

    /// Takes a session out of the world with all that waits for it.
    pub(crate) fn remove_session(&mut self, link: Link) {
        self.forget_recovered(link);
        self.keep_line(link, 0);
        self.outboxes.close(link);
        // Its link may belong to another session soon.
        self.watched.senders.sent.remove(&link);
        let Some(session) = self.people.sessions.get_mut(link).and_then(Option::take) else { return };
        self.make_way(SessionRef { link, serial: session.serial });
        if let Some(user) = self.people.users.get_mut(session.user as usize) {
            debug_assert!(user.links.contains(&link), "a user knows its sessions");
            user.links.retain(|&other| other != link);
            if session.disinherits {
                user.at_hand = None;
            }
            if user.links.is_empty() {
                self.forget_user(session.user);
            }
        }
    }

    /// Routes the stanzas in the outbox of a session that is ending again, in their order. This may
    /// overflow another session's outbox, whose stanzas then follow behind these, so that a chain
    /// of such sessions doesn't deepen the stack.
    pub(crate) fn give_back(&mut self, link: Link) {
        let Some(address) = self.outboxes.address(link).cloned() else { return };
        let mut unsent = self.outboxes.abandon(link);
        if self.session_at(link).is_some_and(|session| session.disinherits) {
            unsent.retain(|unsent| unsent.packet.kind() != Kind::Message);
        }
        unsent.retain(|unsent| unsent.to != To::Bare || !self.others_have(link, unsent));
        // A request that the server made to this session on its account's behalf, such as a roster
        // push, is older than the data that the next session of the same resource gets.
        unsent.retain(|unsent| !is_push(&unsent.packet));
        let taken = &self.clock.taken;
        let unsent = unsent.into_iter().map(|unsent| (taken.when(unsent.number), unsent));
        let unsent = unsent.map(|(when, unsent)| match unsent.to {
            To::Full | To::Copy => (unsent.packet, address.clone(), when),
            To::Bare | To::Kept | To::Nobody => (unsent.packet, address.to_bare(), when),
        });
        let is_outermost = self.out.given_back.is_none();
        self.out.given_back.get_or_insert_default().extend(unsent);
        if !is_outermost {
            return;
        }
        while let Some((packet, to, when)) = self.out.given_back.as_mut().and_then(VecDeque::pop_front) {
            self.not_delivered(&packet, to.as_ref(), when);
        }
        self.out.given_back = None;
    }

    /// Returns whether another resource of the account got its own copy of a stanza that this one
    /// got for the bare JID (RFC 6121 §8.5.2.1.1). A resource that did not get its copy either, and
    /// no longer accepts messages, gives the stanza back when it ends.
    fn others_have(&self, link: Link, unsent: &Unsent) -> bool {
        let user = self.session_at(link).and_then(|session| self.people.users.get(session.user as usize));
        let mut others = user.into_iter().flat_map(|user| &user.links).filter(|&&other| other != link);
        others.any(|&other| {
            self.reachable_since(other).is_some_and(|since| since <= unsent.number)
                || self.session_at(other).is_some() && self.outboxes.holds(other, &unsent.packet)
        })
    }

    /// Returns the number in the order of stanzas from which a session has accepted messages to the
    /// bare JID; `None` if it doesn't accept any. One that returns from another process, and isn't
    /// available again yet, has got its stanzas there.
    fn reachable_since(&self, link: Link) -> Option<u64> {
        let found = self.session_at(link)?;
        match self.people.returning.session(SessionRef { link, serial: found.serial }) {
            Some(back) => (back.takes_messages() && !found.ending).then_some(back.shown.reachable_since),
            None => found.takes_messages().then_some(found.reachable_since),
        }
    }

    fn forget_user(&mut self, at: u32) {
        let Some(user) = self.people.users.try_remove(at as usize) else { return };
        debug_assert!(user.links.is_empty(), "a user with a session stays");
        if self.catalogue.registry.has_documents()
            && let Some(account) = self.people.names.get(user.name).map(|(_, account)| account.to_owned())
        {
            self.keep_absent(&account, user.at_hand.map(|at_hand| *at_hand).unwrap_or_default());
        }
        self.people.names.set_user(user.name, None);
        self.people.names.release(user.name);
        for contact in user.contacts {
            self.people.names.release(contact.name());
        }
        for waiting in user.held.into_iter().flat_map(|held| held.queue) {
            let hash = self.hash(waiting.to.bare_str());
            self.deliver_held(hash, waiting);
        }
    }

    /// Deals with a stanza in the outbox of a session that has ended: messages go where they would
    /// have gone without that session, and requests get a reply (RFC 6121 §8.5.3.2); other stanzas
    /// concerned nobody else. A stanza that arrived some time ago gets a delay stamp (XEP-0198 §4,
    /// XEP-0203).
    pub(crate) fn not_delivered(&mut self, packet: &Packet, to: JidRef<'_>, when: Option<u64>) {
        let hash = self.hash(to.bare_str());
        let is_message = packet.kind() == Kind::Message;
        let came_ms = when.filter(|when| is_message && when + LATE_MS <= self.time());
        let notes = Notes { has_passed: true, came_ms, ..Notes::default() };
        self.sight(packet, to, Step::Noted, || {
            "a session ended before it had got it: it goes where it would have gone without that one".into()
        });
        match came_ms {
            _ if packet.kind() == Kind::Presence => {}
            Some(when) => {
                self.deliver(hash, &packet.with_child(&delay::element(to.domain(), when)), to, notes);
            }
            None => self.deliver(hash, packet, to, notes),
        }
    }

    /// Counts a failure of the store that an operator has to know of, and logs it, at most once a
    /// second, since a full disk makes every stanza fail.
    pub fn store_failed(&mut self, doing: &str, whose: &Jid, error: &StoreError) {
        self.counters.store_errors += 1;
        self.log_failure(doing, whose, error);
    }

    /// Logs that background work has no outcome, as [`World::store_failed`] does.
    pub fn work_failed(&mut self, doing: &str, whose: &Jid, error: WorkError) {
        self.log_failure(doing, whose, &error);
    }

    fn log_failure(&mut self, doing: &str, whose: &Jid, error: &dyn std::error::Error) {
        self.out.untold_errors += 1;
        if self.clock.now_ms >= self.out.next_store_error_ms {
            self.out.next_store_error_ms = self.clock.now_ms + STORE_ERROR_MS;
            let errors = std::mem::take(&mut self.out.untold_errors);
            warn!(account = %whose.bare(), %error, errors, "{doing} failed");
        }
    }
}

/// Returns whether a packet is a push of the server (RFC 6121 §2.1.6, XEP-0191 §3.3): a request
/// without a sender, for which a missing reply needn't be reported.
fn is_push(packet: &Packet) -> bool {
    packet.type_() == StanzaType::Set && packet.sender().is_none()
}

/// Milliseconds between two lines of the log about errors of the store and of background work.
const STORE_ERROR_MS: u64 = 1_000;
/// Milliseconds after which a stanza that is routed again gets a stamp of the time when it came.
const LATE_MS: u64 = 5_000;
