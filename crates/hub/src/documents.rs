//! What modules need of an account with every stanza, such as whom it blocks: documents of the store that are kept at hand.
//!
//! A module names such a document once ([`Hooks::document`](crate::Hooks::document)) and says how its bytes are read. It is in the memory of the
//! account's home shard, then, whenever a stanza for the account is handled there: loaded when the first session binds, and for an account without
//! session before a stanza is delivered. So a module reads it without waiting.
//!
//! # Invariants
//!
//! * Nothing is delivered to an account whose documents are not at hand: stanzas wait for them, in their order.
//! * A change is in memory at once and in the store a little later. If the store refuses it, memory goes back.
//! * What accounts without session take is bounded: in number, in age, since others may write to the store, and in stanzas that wait.

use std::any::Any;
use std::collections::{HashMap, VecDeque};
use std::rc::Rc;

use ahash::RandomState;
use rookery_fanout::Packet;
use rookery_jid::{Jid, JidRef};
use rookery_store::{Document, StoreError};
use rookery_stream::error::Condition;
use tracing::warn;

use crate::World;
use crate::module::Registry;
use crate::session::SessionRef;
use crate::world::Event;

/// Reads the bytes of a document; `None` if they are not what the module writes.
pub(crate) type Read = Box<dyn Fn(&[u8]) -> Option<Rc<dyn Any>>>;

/// The documents of one account.
#[derive(Default)]
pub(crate) struct AtHand {
    by_name: Vec<(&'static str, Rc<dyn Any>)>,
    /// The store has not told yet what there is.
    is_loading: bool,
}

/// Accounts without session that somebody writes to.
#[derive(Default)]
pub(crate) struct Absent {
    accounts: HashMap<Box<str>, State, RandomState>,
    /// Those that are loaded, with the time when they were, oldest first.
    loaded: VecDeque<(Box<str>, u64)>,
    /// Stanzas that wait for any of them.
    waiting: usize,
}

enum State {
    Loading(VecDeque<(Packet, Jid)>),
    Loaded(u64, AtHand),
}

impl AtHand {
    fn read(registry: &Registry, owner: JidRef<'_>, documents: &[Document]) -> Self {
        let found = documents.iter().filter_map(|document| {
            let (name, read) = registry.document(document.name.strip_prefix(PREFIX)?)?;
            let value = read(&document.bytes);
            if value.is_none() {
                warn!(account = %owner, document = document.name, "a document in the store is damaged; it counts as missing");
            }
            Some((name, value?))
        });
        Self { by_name: found.collect(), is_loading: false }
    }

    fn get(&self, name: &str) -> Option<&Rc<dyn Any>> {
        self.by_name.iter().find(|(found, _)| *found == name).map(|(_, value)| value)
    }

    /// Sets or removes; the value before.
    fn set(&mut self, name: &'static str, value: Option<Rc<dyn Any>>) -> Option<Rc<dyn Any>> {
        let at = self.by_name.iter().position(|(found, _)| *found == name);
        let before = at.map(|at| self.by_name.swap_remove(at).1);
        self.by_name.extend(value.map(|value| (name, value)));
        before
    }
}

impl std::fmt::Debug for AtHand {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.by_name.iter().map(|(name, _)| name)).finish()
    }
}

impl World {
    /// A document of an account whose home this is, as [`Hooks::document`](crate::Hooks::document) reads it: while the account has a session, or while a
    /// stanza for it is handled.
    pub fn document<T: 'static>(&self, account: JidRef<'_>, name: &str) -> Option<Rc<T>> {
        self.at_hand(account)?.get(name)?.clone().downcast().ok()
    }

    /// Changes a document of an account whose home this is; `None` removes it. Whoever reads it from now on gets the new one. `then` runs when the store has
    /// answered; if that is an error, the change is taken back before.
    pub fn set_document(
        &mut self,
        account: JidRef<'_>,
        name: &'static str,
        bytes: Option<Vec<u8>>,
        then: impl FnOnce(&mut World, Result<(), StoreError>) + 'static,
    ) {
        let registry = self.registry.clone();
        let value = bytes.as_deref().and_then(|bytes| registry.document(name)?.1(bytes));
        let before = self.replace_document(account, name, value.clone());
        let kept = self.stores.documents.put(account, &format!("{PREFIX}{name}"), bytes);
        let account = account.bare().to_jid();
        self.wait(kept, move |world, kept| {
            let now = world.at_hand(account.as_ref()).and_then(|at_hand| at_hand.get(name));
            let is_unchanged = match (now, &value) {
                (Some(now), Some(value)) => Rc::ptr_eq(now, value),
                (now, value) => now.is_none() && value.is_none(),
            };
            if kept.is_err() && is_unchanged {
                world.replace_document(account.as_ref(), name, before);
            }
            then(world, kept);
        });
    }

    fn replace_document(
        &mut self,
        account: JidRef<'_>,
        name: &'static str,
        value: Option<Rc<dyn Any>>,
    ) -> Option<Rc<dyn Any>> {
        let user = self.user_named(self.hash(account.bare_str()), account.bare_str());
        if let Some(user) = user.and_then(|user| self.users.get_mut(user as usize)) {
            return user.at_hand.get_or_insert_default().set(name, value);
        }
        match self.absent.accounts.get_mut(account.bare_str()) {
            Some(State::Loaded(_, at_hand)) => at_hand.set(name, value),
            _ => None,
        }
    }

    fn at_hand(&self, account: JidRef<'_>) -> Option<&AtHand> {
        match self.user_named(self.hash(account.bare_str()), account.bare_str()) {
            Some(user) => self.users.get(user as usize)?.at_hand.as_deref(),
            None => match self.absent.accounts.get(account.bare_str())? {
                State::Loaded(_, at_hand) => Some(at_hand),
                State::Loading(_) => None,
            },
        }
    }

    /// Loads what is needed of an account whose first session binds. Until then nothing is delivered to it.
    pub(crate) fn load_documents(&mut self, session: SessionRef, account: JidRef<'_>) {
        if !self.registry.has_documents() {
            return;
        }
        if let Some(State::Loaded(..)) = self.absent.accounts.get(account.bare_str()) {
            self.absent.accounts.remove(account.bare_str());
        }
        self.set_at_hand(account, Some(AtHand { is_loading: true, ..AtHand::default() }));
        let Some(hold) = self.hold(account) else { return };
        let loaded = self.stores.documents.starting(account, PREFIX);
        let account = account.bare().to_jid();
        self.wait_in_lane(session, loaded, move |world, loaded| {
            match loaded {
                Ok(documents) => {
                    let at_hand = AtHand::read(&world.registry, account.as_ref(), &documents);
                    world.set_at_hand(account.as_ref(), Some(at_hand).filter(|found| !found.by_name.is_empty()));
                }
                Err(error) => {
                    world.store_failed("loading what modules need of the account", &account, &error);
                    world.forget(session.link);
                    world.events.push_back(Event::Bound(session.link, Err(crate::BindError::Store)));
                }
            }
            world.release(hold);
        });
    }

    fn set_at_hand(&mut self, account: JidRef<'_>, at_hand: Option<AtHand>) {
        let user = self.user_named(self.hash(account.bare_str()), account.bare_str());
        if let Some(user) = user.and_then(|user| self.users.get_mut(user as usize)) {
            user.at_hand = at_hand.map(Box::new);
        }
    }

    /// Whether the documents of an account without session are at hand. If not, they are loaded and the stanza is delivered then.
    pub(crate) fn has_documents_of(&mut self, hash: u64, packet: &Packet, to: JidRef<'_>) -> bool {
        if !self.registry.has_documents() || self.user_named(hash, to.bare_str()).is_some() {
            return true;
        }
        self.forget_absent();
        match self.absent.accounts.get_mut(to.bare_str()) {
            Some(State::Loaded(..)) => return true,
            _ if self.absent.waiting >= MAX_WAITING => self.bounce(packet, to, Condition::ResourceConstraint.into()),
            Some(State::Loading(queue)) => {
                queue.push_back((packet.clone(), to.to_jid()));
                self.absent.waiting += 1;
            }
            None => self.load_absent(packet, to),
        }
        false
    }

    fn load_absent(&mut self, packet: &Packet, to: JidRef<'_>) {
        self.absent.waiting += 1;
        let queue = VecDeque::from([(packet.clone(), to.to_jid())]);
        self.absent.accounts.insert(to.bare_str().into(), State::Loading(queue));
        let loaded = self.stores.documents.starting(to, PREFIX);
        let account = to.bare().to_jid();
        self.wait(loaded, move |world, loaded| world.absent_loaded(&account, loaded));
    }

    fn absent_loaded(&mut self, account: &Jid, loaded: Result<Vec<Document>, StoreError>) {
        let Some(State::Loading(queue)) = self.absent.accounts.remove(account.as_str()) else { return };
        self.absent.waiting -= queue.len();
        let hash = self.hash(account.as_str());
        match loaded {
            Ok(documents) => {
                // Who has come meanwhile has loaded them for itself.
                if self.user_named(hash, account.as_str()).is_none() {
                    let at_hand = AtHand::read(&self.registry, account.as_ref(), &documents);
                    self.keep_absent(account.as_str(), at_hand);
                }
                for (packet, to) in queue {
                    self.deliver(hash, &packet, to.as_ref());
                }
            }
            Err(error) => {
                self.store_failed("loading what modules need of the account", account, &error);
                let refusal = match error.is_temporary() {
                    true => Condition::ResourceConstraint,
                    false => Condition::InternalServerError,
                };
                for (packet, to) in queue {
                    self.bounce(&packet, to.as_ref(), refusal.clone().into());
                }
            }
        }
    }

    /// Goes on keeping the documents of an account whose last session has ended: stanzas that it did not get may still be on their way.
    pub(crate) fn keep_absent(&mut self, account: &str, at_hand: AtHand) {
        if !at_hand.is_loading {
            self.absent.accounts.insert(account.into(), State::Loaded(self.time(), at_hand));
            self.absent.loaded.push_back((account.into(), self.time()));
            self.forget_absent();
        }
    }

    /// Forgets absent accounts that were loaded too long ago, and the oldest of too many.
    fn forget_absent(&mut self) {
        let now = self.time();
        while let Some((account, at)) = self.absent.loaded.front() {
            let (account, at) = (account.clone(), *at);
            if self.absent.loaded.len() <= MAX_ABSENT && now.saturating_sub(at) < MAX_AGE_MS {
                return;
            }
            self.absent.loaded.pop_front();
            if let Some(State::Loaded(time, _)) = self.absent.accounts.get(&account)
                && *time == at
            {
                self.absent.accounts.remove(&account);
            }
        }
    }
}

/// What the names of documents that are kept at hand begin with in the store.
const PREFIX: &str = "at-hand/";
/// Accounts without session whose documents a shard keeps at hand.
const MAX_ABSENT: usize = 10_000;
/// How long it keeps those, milliseconds.
const MAX_AGE_MS: u64 = 60_000;
/// Stanzas for accounts without session that may wait for the store, in one shard.
const MAX_WAITING: usize = 10_000;
