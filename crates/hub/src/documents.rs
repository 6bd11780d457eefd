//! Keeps documents of accounts in memory that modules need for every stanza, such as the list of
//! blocked addresses.
//!
//! A module names such a document once ([`Hooks::document`](crate::Hooks::document)) and says how
//! its bytes are read. It is then in the memory of the account's home shard whenever a stanza for
//! the account is handled there: loaded when the first session binds, and for an account without a
//! session before a stanza is delivered. So a module reads it without waiting.
//!
//! # Invariants
//!
//! * No session is bound before the documents of its account are in memory: what it changes would
//!   replace them.
//! * Nothing is delivered to an account whose documents aren't in memory: stanzas wait for them,
//!   in order.
//! * A change is in memory at once and in the store a little later. If the store refuses it,
//!   memory is reverted.
//! * Documents of accounts without a session are bounded: in number, in bytes, in age (since
//!   others may write to the store), and in waiting stanzas.

use std::any::Any;
use std::collections::VecDeque;
use std::rc::Rc;

use rookery_fanout::{Link, Packet};
use rookery_jid::{Jid, JidRef};
use rookery_observe::{Bound, Most, Per, Unit};
use rookery_store::{Pending, StoreError, StoredDocument as Stored};
use rookery_stream::error::Condition;
use tracing::warn;

use crate::World;
use crate::at_hand::{AbsentQueue, AbsentState, AtHand, DocumentsWait, KeptDocument, MAX_ABSENT_BYTES, WAITING};
use crate::calls::AnyDocument;
use crate::event::Event;
use crate::failure::condition;
use crate::held::{Hold, Loading};
use crate::module::{Document, PREFIX, Registry, stored_name};
use crate::passage::{Notes, Traits};
use crate::session::SessionRef;
use crate::trace::Step;

impl AtHand {
    /// Reads the documents of an account.
    fn read(registry: &Registry, owner: JidRef<'_>, documents: &[Stored]) -> Self {
        let found = documents.iter().filter_map(|document| {
            let name = document.name.strip_prefix(PREFIX)?;
            let (name, value) = registry.read_document(name, &document.bytes)?;
            if value.is_none() {
                warn!(account = %owner, document = document.name, "a document in the store is damaged; it is treated as missing");
            }
            value.as_ref()?;
            Some(KeptDocument { name, now: value.clone(), stored: value, bytes: document.bytes.len() })
        });
        Self { documents: found.collect(), ..Self::default() }
    }

    /// Returns whether all documents let a session have a stanza that is for the bare JID.
    fn may_reach(&self, world: &World, link: Link, packet: &Packet) -> bool {
        self.now().all(|document| document.may_reach(world, link, packet))
    }
}

impl World {
    /// Returns a document of an account whose home this is, as
    /// [`Hooks::document`](crate::Hooks::document) reads it: while the account has a session, or
    /// while a stanza for it is handled.
    pub fn document<D: Document>(&self, account: JidRef<'_>) -> Option<Rc<D>> {
        let document: Rc<dyn Any> = self.document_any(account, D::NAME)?;
        let document = document.downcast();
        debug_assert!(document.is_ok(), "documents of the name {} are all read as one type", D::NAME);
        document.ok()
    }

    /// Changes a document of an account whose home this is; `None` removes it. Readers get the new
    /// one from now on. `then` runs when the store has answered; if the answer is an error, the
    /// change has been reverted by then.
    pub fn set_document<D: Document>(
        &mut self,
        account: JidRef<'_>,
        bytes: Option<Vec<u8>>,
        then: impl FnOnce(&mut World, Result<(), StoreError>) + 'static,
    ) {
        let name = D::NAME;
        let value = bytes.as_deref().and_then(|bytes| self.catalogue.registry.read_document(name, bytes)?.1);
        if let Some(at_hand) = self.at_hand_mut(account) {
            at_hand.set(name, value.clone(), bytes.as_ref().map_or(0, Vec::len));
        }
        let kept = self.stores.documents.put(account, &stored_name(name), bytes);
        let account = account.bare().to_jid();
        self.wait(kept, move |world, kept| {
            if let Some(at_hand) = world.at_hand_mut(account.as_ref()) {
                at_hand.settle(name, value, kept.is_ok());
            }
            then(world, kept);
        });
    }

    /// Keeps a document of an account that has no session, wherever its home is. It is in memory
    /// from its next session on.
    pub fn keep_document<D: Document>(&self, account: JidRef<'_>, bytes: Vec<u8>) -> Pending<()> {
        self.stores.documents.put(account, &stored_name(D::NAME), Some(bytes))
    }

    /// Returns whether an account whose home this is has this document in memory.
    pub(crate) fn has_document(&self, account: JidRef<'_>, name: &str) -> bool {
        self.at_hand(account).is_some_and(|at_hand| at_hand.get(name).is_some())
    }

    /// Returns the traits of an account whose home this is: a user, or one without session.
    pub(crate) fn traits(&self, user: Option<u32>, bare: &str) -> Traits {
        let at_hand = self.at_hand_of(user, bare);
        Traits {
            documents: at_hand.is_some_and(|at_hand| !at_hand.is_empty()),
            carbons: user.is_some_and(|user| self.is_copying(user)),
        }
    }

    /// Returns the traits of the account of a session.
    pub(crate) fn traits_of_session(&self, link: Link) -> Traits {
        let user = self.session_at(link).map(|session| session.user);
        Traits { documents: self.has_documents(link), carbons: user.is_some_and(|user| self.is_copying(user)) }
    }

    /// Returns whether the account of a session has any document in memory.
    pub(crate) fn has_documents(&self, link: Link) -> bool {
        let user = self.session_at(link).and_then(|session| self.people.users.get(session.user as usize));
        user.and_then(|user| user.at_hand.as_ref()).is_some_and(|at_hand| !at_hand.is_empty())
    }

    pub(crate) fn document_any(&self, account: JidRef<'_>, name: &str) -> Option<Rc<dyn AnyDocument>> {
        self.at_hand(account)?.get(name).cloned()
    }

    pub(crate) fn at_hand_mut(&mut self, account: JidRef<'_>) -> Option<&mut AtHand> {
        let user = self.user_named(self.hash(account.bare_str()), account.bare_str());
        if let Some(user) = user.and_then(|user| self.people.users.get_mut(user as usize)) {
            return Some(user.at_hand.get_or_insert_default());
        }
        match self.people.absent.accounts.get_mut(account.bare_str()) {
            Some(AbsentState::Loaded(loaded)) => Some(&mut loaded.at_hand),
            _ => None,
        }
    }

    pub(crate) fn at_hand(&self, account: JidRef<'_>) -> Option<&AtHand> {
        self.at_hand_of(self.user_named(self.hash(account.bare_str()), account.bare_str()), account.bare_str())
    }

    fn at_hand_of(&self, user: Option<u32>, bare: &str) -> Option<&AtHand> {
        match user {
            Some(user) => self.people.users.get(user as usize)?.at_hand.as_deref(),
            None => match self.people.absent.accounts.get(bare)? {
                AbsentState::Loaded(loaded) => Some(&loaded.at_hand),
                AbsentState::Loading(_) => None,
            },
        }
    }

    /// Loads the required documents of an account whose first session binds. Until then nothing is
    /// delivered to it.
    pub(crate) fn load_documents(&mut self, session: SessionRef, account: JidRef<'_>) {
        if !self.catalogue.registry.has_documents() {
            return;
        }
        let Some(loading) = self.begin_loading(account) else { return };
        let loaded = self.stores.documents.starting(account, PREFIX);
        let account = account.bare().to_jid();
        self.wait_in_order(session, loaded, move |world, loaded| match loaded {
            Ok(documents) => {
                let at_hand = AtHand::read(&world.catalogue.registry, account.as_ref(), &documents);
                world.with_roster(Some(session), &account.clone(), at_hand, move |world, at_hand| {
                    world.have_at_hand(session, &account, at_hand);
                    world.end_loading(loading);
                });
            }
            Err(error) => {
                world.have_at_hand(session, &account, Err(error));
                world.end_loading(loading);
            }
        });
    }

    /// Withholds everything from an account that has a session until [`World::end_loading`],
    /// because its documents are about to be loaded.
    pub(crate) fn begin_loading(&mut self, account: JidRef<'_>) -> Option<Loading> {
        self.people.absent.forget(account.bare_str());
        if self.catalogue.registry.has_documents() {
            let loading = Some(DocumentsWait::default());
            self.set_at_hand(account, Some(AtHand { loading, ..AtHand::default() }));
        }
        self.hold(account).map(Loading)
    }

    /// Delivers to an account everything that has waited since [`World::begin_loading`]. Documents
    /// that aren't in memory by now are loaded by the next session.
    pub(crate) fn end_loading(&mut self, Loading(hold): Loading) {
        let is_loading = self.documents_wait(hold.account.as_ref()).is_some();
        if is_loading {
            let loading = Some(DocumentsWait { has_failed: true, ..DocumentsWait::default() });
            let account = hold.account.clone();
            self.set_at_hand(account.as_ref(), Some(AtHand { loading, ..AtHand::default() }));
        }
        self.release(hold);
    }

    /// Returns the wait for the documents of an account that has a session; `None` if they are in
    /// memory.
    pub(crate) fn documents_wait(&mut self, account: JidRef<'_>) -> Option<&mut DocumentsWait> {
        let user = self.user_named(self.hash(account.bare_str()), account.bare_str())?;
        self.people.users.get_mut(user as usize)?.at_hand.as_mut()?.loading.as_mut()
    }

    /// Loads the required documents of an account, from which stanzas are withheld until then.
    pub(crate) fn load_at_hand(
        &mut self,
        account: &Jid,
        then: impl FnOnce(&mut World, Result<(), StoreError>) + 'static,
    ) {
        if !self.catalogue.registry.has_documents() {
            return then(self, Ok(()));
        }
        let loaded = self.stores.documents.starting(account.as_ref(), PREFIX);
        let account = account.clone();
        self.wait(loaded, move |world, loaded| match loaded {
            Ok(documents) => {
                let at_hand = AtHand::read(&world.catalogue.registry, account.as_ref(), &documents);
                world.with_roster(None, &account.clone(), at_hand, move |world, at_hand| {
                    let loaded = at_hand.map(|at_hand| {
                        world.set_at_hand(account.as_ref(), Some(at_hand).filter(|found| !found.is_empty()));
                    });
                    then(world, loaded);
                });
            }
            Err(error) => then(world, Err(error)),
        });
    }

    fn have_at_hand(&mut self, session: SessionRef, account: &Jid, at_hand: Result<AtHand, StoreError>) {
        match at_hand {
            Ok(at_hand) => self.set_at_hand(account.as_ref(), Some(at_hand).filter(|found| !found.is_empty())),
            Err(error) => {
                if self.session(session).is_some() {
                    self.forget(session.link);
                    self.out.events.push_back(Event::Bound(session.link, Err(crate::BindError::of(&error))));
                }
                self.refuse_without_documents(account, &error);
            }
        }
    }

    fn set_at_hand(&mut self, account: JidRef<'_>, at_hand: Option<AtHand>) {
        let user = self.user_named(self.hash(account.bare_str()), account.bare_str());
        if let Some(user) = user.and_then(|user| self.people.users.get_mut(user as usize)) {
            user.at_hand = at_hand.map(Box::new);
        }
    }

    /// Lets a stanza wait behind others for the documents of an account without a session. Returns
    /// `false` if none wait. The account may have a session by now.
    pub(crate) fn is_behind_others(&mut self, packet: &Packet, to: JidRef<'_>, notes: &Notes) -> bool {
        if !self.people.absent.has_waiting() {
            return false;
        }
        let custody = self.custody();
        let Some(AbsentState::Loading(queue)) = self.people.absent.accounts.get_mut(to.bare_str()) else {
            return false;
        };
        if self.people.absent.waiting.take(packet) {
            queue.push_back((packet.clone(), to.to_jid(), notes.clone(), custody));
            self.sight(packet, to, Step::Waits, || {
                "after others for the account, until the store has answered for these".into()
            });
        } else {
            self.bounce(packet, to, Condition::ResourceConstraint.into());
        }
        true
    }

    /// Returns whether the documents of an account without a session are in memory. If not, they
    /// are loaded, and the stanza is delivered then.
    pub(crate) fn has_documents_of(
        &mut self,
        user: Option<u32>,
        packet: &Packet,
        to: JidRef<'_>,
        notes: &Notes,
    ) -> bool {
        if user.is_some() || !self.catalogue.registry.has_documents() {
            return true;
        }
        let now = self.time();
        self.people.absent.forget_old(now);
        if self.people.absent.accounts.contains_key(to.bare_str()) {
            return true;
        }
        if self.people.absent.waiting.take(packet) {
            self.sight(packet, to, Step::Waits, || {
                "until the store has returned the account's documents for modules, such as its block list".into()
            });
            self.load_absent(packet, to, notes);
        } else {
            self.bounce(packet, to, Condition::ResourceConstraint.into());
        }
        false
    }

    fn load_absent(&mut self, packet: &Packet, to: JidRef<'_>, notes: &Notes) {
        let queue = VecDeque::from([(packet.clone(), to.to_jid(), notes.clone(), self.custody())]);
        self.people.absent.accounts.insert(to.bare_str().into(), AbsentState::Loading(queue));
        let loaded = self.stores.documents.starting(to, PREFIX);
        let account = to.bare().to_jid();
        self.wait(loaded, move |world, loaded| match loaded {
            Ok(documents) => {
                let at_hand = AtHand::read(&world.catalogue.registry, account.as_ref(), &documents);
                world.with_roster(None, &account.clone(), at_hand, move |world, at_hand| {
                    world.absent_loaded(&account, at_hand);
                });
            }
            Err(error) => world.absent_loaded(&account, Err(error)),
        });
    }

    /// Takes the stanzas that wait for an account without a session, so that further ones don't.
    fn take_waiting(&mut self, account: &Jid) -> Option<AbsentQueue> {
        let Some(AbsentState::Loading(queue)) = self.people.absent.accounts.remove(account.as_str()) else {
            return None;
        };
        queue.iter().for_each(|(packet, ..)| self.people.absent.waiting.give_back(packet));
        Some(queue)
    }

    /// Delivers stanzas that have waited for an account with this hash.
    pub(crate) fn deliver_waiting(&mut self, hash: u64, queue: AbsentQueue) {
        for (packet, to, notes, custody) in queue {
            self.in_custody(custody, |world| world.deliver(hash, &packet, to.as_ref(), notes));
        }
    }

    /// Makes stanzas for an account without a session wait behind one for which the store is asked,
    /// until [`World::deliver_first`]: also when the account has a session in the meantime.
    pub fn hold_absent(&mut self, account: JidRef<'_>) -> Hold {
        let absent = &mut self.people.absent;
        absent.forget(account.bare_str());
        absent.accounts.entry(account.bare_str().into()).or_insert_with(|| AbsentState::Loading(VecDeque::new()));
        absent.holds += 1;
        Hold { account: account.bare().to_jid(), serial: None }
    }

    /// Ends a claim of [`World::hold_absent`]. Returns the stanzas that have waited.
    pub(crate) fn end_absence(&mut self, account: &Jid) -> AbsentQueue {
        debug_assert!(self.people.absent.holds > 0, "a claim is given back once");
        self.people.absent.holds = self.people.absent.holds.saturating_sub(1);
        self.take_waiting(account).unwrap_or_default()
    }

    fn absent_loaded(&mut self, account: &Jid, at_hand: Result<AtHand, StoreError>) {
        let Some(queue) = self.take_waiting(account) else { return };
        let hash = self.hash(account.as_str());
        match at_hand {
            Ok(at_hand) => {
                // A session that has bound meanwhile has loaded them itself.
                if self.user_named(hash, account.as_str()).is_none() {
                    self.keep_absent(account.as_str(), at_hand);
                }
                self.deliver_waiting(hash, queue);
            }
            Err(error) => {
                self.store_failed("loading what modules need of the account", account, &error);
                let refusal = condition(&error);
                for (packet, to, _, custody) in queue {
                    self.in_custody(custody, |world| world.bounce(&packet, to.as_ref(), refusal.clone().into()));
                }
            }
        }
    }

    /// Returns whether modules decide for each session of an account which stanzas for the bare
    /// JID it gets; see [`Document::may_reach`].
    pub fn is_screened(&self, account: JidRef<'_>) -> bool {
        self.at_hand(account).is_some_and(|at_hand| at_hand.is_screened)
    }

    /// Sets what [`World::is_screened`] returns for an account with documents in memory, until the
    /// account's last session ends.
    pub fn set_screened(&mut self, account: JidRef<'_>, is_screened: bool) {
        if self.is_screened(account) != is_screened
            && let Some(at_hand) = self.at_hand_mut(account)
        {
            at_hand.is_screened = is_screened;
        }
    }

    /// Returns whether a session may have a stanza that is for the bare JID of its account.
    pub(crate) fn may_reach(&self, user: u32, link: Link, packet: &Packet) -> bool {
        let at_hand = self.people.users.get(user as usize).and_then(|user| user.at_hand.as_ref());
        !at_hand.is_some_and(|at_hand| at_hand.is_screened)
            || at_hand.is_none_or(|at_hand| at_hand.may_reach(self, link, packet))
    }

    /// Keeps the documents of an account whose last session has ended: stanzas that it did not get
    /// may still be on their way.
    pub(crate) fn keep_absent(&mut self, account: &str, mut at_hand: AtHand) {
        at_hand.is_screened = false;
        if at_hand.loading.is_none() {
            let now = self.time();
            self.people.absent.keep(account, now, at_hand);
            self.people.absent.forget_old(now);
        }
    }

    /// Forgets the documents of a removed account. Its last sessions may not have ended yet.
    pub(crate) fn forget_documents(&mut self, account: JidRef<'_>) {
        self.people.absent.forget(account.bare_str());
        self.set_at_hand(account, None);
    }
}

/// The bounds of accounts without a session, for the page of limits.
pub const BOUNDS: &[Bound] = &[
    Bound::on(
        "stanzas for absent users that wait for the store",
        Per::Shard,
        Most::Fixed(WAITING.number as u64),
        Unit::Number,
    )
    .or("the sender gets <resource-constraint/>; one sender has a quarter at most"),
    Bound::on(
        "stanzas for absent users that wait for the store",
        Per::Shard,
        Most::Fixed(WAITING.bytes as u64),
        Unit::Bytes,
    )
    .or("the sender gets <resource-constraint/>; one sender has a quarter at most"),
    Bound::on("documents of absent users in memory", Per::Shard, Most::Fixed(MAX_ABSENT_BYTES as u64), Unit::Bytes)
        .or("the oldest are read from the store again when needed"),
];
