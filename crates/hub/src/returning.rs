//! The sessions and memos of the previous process that have yet to continue: `going_on` works on
//! them. They are kept separate, so that the world can hold them.

use std::collections::VecDeque;

use rookery_base::Map;
use rookery_jid::Jid;
use serde_bytes::ByteBuf;
use slab::Slab;

use crate::World;
use crate::card::{Card, CardShown};
use crate::custody::Custody;
use crate::held::Loading;
use crate::session::SessionRef;

/// The accounts and memos of the previous process that have yet to continue.
#[derive(Default)]
pub(crate) struct Returning {
    pub(crate) jobs: Slab<ReturningJob>,
    /// The jobs that nobody is working on.
    pub(crate) waiting: VecDeque<usize>,
    /// The number of jobs that are being worked on.
    pub(crate) under_way: usize,
    pub(crate) sessions: Map<SessionRef, Back>,
    /// Work that was begun and is not done.
    pub(crate) works: usize,
    /// Memos whose outcome is open: the text that each one's home is found by, kind and bytes.
    pub(crate) memos: Slab<(String, String, ByteBuf)>,
    /// Accounts that are to ask for the presence of their contacts elsewhere.
    pub(crate) to_ask: VecDeque<Jid>,
}

/// Work that continues when its turn has come.
pub(crate) enum ReturningJob {
    Account(Box<ReturningAccount>),
    /// Work of a module, until it is begun.
    Work(Option<ReturningWork>, Option<Custody>),
}

/// The beginning of a module's work.
pub(crate) type ReturningWork = Box<dyn FnOnce(&mut World)>;

/// An account with sessions that continue.
#[derive(Debug)]
pub(crate) struct ReturningAccount {
    pub(crate) jid: Jid,
    pub(crate) sessions: Vec<SessionRef>,
    pub(crate) loading: Option<Loading>,
    pub(crate) custody: Option<Custody>,
    /// The number of times that the store has failed.
    pub(crate) failures: u32,
}

/// A session that exists again but is not available yet.
#[derive(Debug)]
pub(crate) struct Back {
    pub(crate) shown: CardShown,
    /// The time of day until which it can be resumed, in milliseconds since 1970.
    pub(crate) until_ms: u64,
    pub(crate) modules: Vec<(String, ByteBuf)>,
    pub(crate) is_uncalled: bool,
    /// True if the session can't continue.
    pub(crate) ends: bool,
}

impl Back {
    /// Returns whether messages to the bare JID went to this resource, and will again (RFC 6121
    /// §8.5.2.1.1).
    pub(crate) fn takes_messages(&self) -> bool {
        !self.ends && self.shown.presence.is_some() && self.shown.priority >= 0
    }
}

impl Returning {
    /// Returns the state that a session is to get back.
    pub(crate) fn session(&self, session: SessionRef) -> Option<&Back> {
        self.sessions.get(&session)
    }

    /// Returns the memos whose outcome is open.
    pub(crate) fn memos(&self) -> Vec<Card> {
        let memos = self.memos.iter();
        memos.map(|(_, (home, kind, bytes))| Card::Memo(home.clone(), kind.clone(), bytes.clone())).collect()
    }

    /// Returns whether nothing has yet to continue.
    pub(crate) fn is_empty(&self) -> bool {
        self.jobs.is_empty() && self.memos.is_empty()
    }

    /// Returns the number of continuations that wait for the end of something, and not for the
    /// store.
    pub(crate) fn watchers(&self) -> usize {
        self.works + self.memos.len()
    }

    pub(crate) fn add(&mut self, job: ReturningJob) {
        let job = self.jobs.insert(job);
        self.waiting.push_back(job);
    }

    /// Lets an account continue next, if somebody waits for it.
    pub(crate) fn hurry(&mut self, account: &str) {
        let jobs = &self.jobs;
        let is_its = |job: &usize| matches!(jobs.get(*job), Some(ReturningJob::Account(waiting)) if waiting.jid.as_str() == account);
        if let Some(job) = self.waiting.iter().position(is_its).and_then(|at| self.waiting.remove(at)) {
            self.waiting.push_front(job);
        }
    }

    pub(crate) fn account(&self, job: usize) -> Option<&ReturningAccount> {
        match self.jobs.get(job)? {
            ReturningJob::Account(account) => Some(account),
            ReturningJob::Work(..) => None,
        }
    }
}
