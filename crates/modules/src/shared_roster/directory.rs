//! The existing and the online accounts of domains with groups of all accounts. There is one
//! directory for all shards, under a lock that is taken when an account comes online or goes
//! offline, and when a roster is requested.
//!
//! In a cluster each node tells the others which accounts are online there: all of them once, and
//! then the changes. If a process has gone, so have its accounts.

use rookery_base::Map;
use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};

use rookery_base::lock::lock;
use rookery_hub::{Bound, Most, Per, Unit};
use rookery_jid::Jid;
use serde::{Deserialize, Serialize};

/// The directories of all domains; clones share the data.
#[derive(Debug, Clone, Default)]
pub struct Directories(Arc<Mutex<Map<String, AccountDirectory>>>);

/// The accounts of one domain.
#[derive(Debug, Default)]
pub(crate) struct AccountDirectory {
    all: Arc<BTreeSet<Jid>>,
    /// The accounts that are online on any node.
    online: Arc<BTreeSet<Jid>>,
    /// In a cluster, the online accounts by node.
    nodes: Option<Box<OnlineByNode>>,
    /// The time of the last listing, in milliseconds since 1970.
    pub(crate) asked_ms: Option<u64>,
    log: VecDeque<DirectoryChange>,
    /// The number of the oldest change in the log.
    first: u64,
}

/// A process of another node: its number, and the number of its processes so far.
pub(crate) type OtherProcess = (u16, u32);

/// The online accounts, by the nodes of their sessions.
#[derive(Debug, Default)]
struct OnlineByNode {
    own: BTreeSet<Jid>,
    others: Map<OtherProcess, BTreeSet<Jid>>,
    /// The processes that know the accounts online on this node.
    greeted: BTreeSet<OtherProcess>,
    /// The changes since then that are still to be sent to them.
    untold: Vec<(Jid, bool)>,
}

/// News from one node for another: its online accounts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct OnlineNews {
    /// The domain whose directory has changed.
    pub(crate) domain: String,
    /// The process where they are online.
    pub(crate) of: OtherProcess,
    /// The process that gets the news.
    pub(crate) to: OtherProcess,
    /// True if earlier news are void.
    pub(crate) is_first: bool,
    /// The accounts that came online (`true`) or went offline.
    pub(crate) changes: Vec<(Jid, bool)>,
}

/// The addition or the removal of an account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DirectoryChange {
    /// The bare JID of the account.
    pub(crate) account: Jid,
    /// True if it changes the online accounts, false if it changes the existing ones.
    pub(crate) online: bool,
}

impl Directories {
    /// Returns the domains with accounts that are, or were, online here.
    pub(crate) fn domains(&self) -> Vec<String> {
        self.lock().keys().cloned().collect()
    }

    /// Calls a function with the directory of a domain.
    pub(crate) fn with<T>(&self, domain: &str, act: impl FnOnce(&mut AccountDirectory) -> T) -> T {
        let mut all = self.lock();
        if let Some(directory) = all.get_mut(domain) {
            return act(directory);
        }
        act(all.entry(domain.to_owned()).or_default())
    }

    fn lock(&self) -> MutexGuard<'_, Map<String, AccountDirectory>> {
        lock(&self.0)
    }
}

impl AccountDirectory {
    /// Returns the existing accounts, as far as they are known.
    pub(crate) fn all(&self) -> Arc<BTreeSet<Jid>> {
        self.all.clone()
    }

    /// Returns the accounts with an available session on any node, as far as this one knows.
    pub(crate) fn online(&self) -> Arc<BTreeSet<Jid>> {
        self.online.clone()
    }

    /// Adds an account that has come online on this node. `is_node` is true if there are other
    /// nodes.
    pub(crate) fn came(&mut self, account: &Jid, is_node: bool) {
        if is_node {
            let nodes = self.nodes.get_or_insert_default();
            if nodes.own.insert(account.clone()) && !nodes.greeted.is_empty() {
                nodes.untold.push((account.clone(), true));
            }
        }
        self.is_here(account);
    }

    fn is_here(&mut self, account: &Jid) {
        if !self.online.contains(account) {
            Arc::make_mut(&mut self.online).insert(account.clone());
            self.note(account.clone(), true);
        }
        if self.asked_ms.is_some() && !self.all.contains(account) {
            Arc::make_mut(&mut self.all).insert(account.clone());
            self.note(account.clone(), false);
        }
    }

    /// Removes an account that isn't online on this node any more.
    pub(crate) fn remove_online(&mut self, account: &Jid) {
        if let Some(nodes) = &mut self.nodes
            && nodes.own.remove(account)
            && !nodes.greeted.is_empty()
        {
            nodes.untold.push((account.clone(), false));
        }
        self.is_gone(account);
    }

    fn is_gone(&mut self, account: &Jid) {
        if self.nodes.as_ref().is_some_and(|nodes| nodes.has(account)) {
            return;
        }
        if self.online.contains(account) {
            Arc::make_mut(&mut self.online).remove(account);
            self.note(account.clone(), true);
        }
    }

    /// Removes an account that doesn't exist any more.
    pub(crate) fn remove_account(&mut self, account: &Jid) {
        if let Some(nodes) = &mut self.nodes {
            for there in nodes.others.values_mut() {
                there.remove(account);
            }
        }
        self.remove_online(account);
        if self.all.contains(account) {
            Arc::make_mut(&mut self.all).remove(account);
            self.note(account.clone(), false);
        }
    }

    /// Drops accounts that aren't on this node any more, by the current homes.
    pub(crate) fn keep_own(&mut self, is_home: impl Fn(&Jid) -> bool) {
        let own = self.nodes.iter().flat_map(|nodes| &nodes.own);
        let gone: Vec<Jid> = own.filter(|account| !is_home(account)).cloned().collect();
        gone.iter().for_each(|account| self.remove_online(account));
    }

    /// Applies news from another process.
    pub(crate) fn apply_news(&mut self, news: OnlineNews) {
        let OnlineNews { of, is_first, changes, .. } = news;
        let there = self.nodes.get_or_insert_default().others.entry(of).or_default();
        let before = if is_first { std::mem::take(there) } else { BTreeSet::new() };
        let mut gone: Vec<Jid> = before.into_iter().collect();
        let mut came = Vec::new();
        for (account, is_here) in changes {
            if is_here && there.len() < MAX_THERE && there.insert(account.clone()) {
                came.push(account);
            } else if !is_here && there.remove(&account) {
                gone.push(account);
            }
        }
        came.iter().for_each(|account| self.is_here(account));
        gone.iter().for_each(|account| self.is_gone(account));
    }

    /// Forgets the processes that aren't among these any more, and their accounts.
    pub(crate) fn keep_processes(&mut self, present: &[OtherProcess]) {
        let Some(nodes) = &mut self.nodes else { return };
        nodes.greeted.retain(|process| present.contains(process));
        let is_gone = |process: &OtherProcess| !present.contains(process);
        let gone: Vec<OtherProcess> = nodes.others.keys().copied().filter(is_gone).collect();
        for process in gone {
            let there = self.nodes.as_mut().and_then(|nodes| nodes.others.remove(&process)).unwrap_or_default();
            there.iter().for_each(|account| self.is_gone(account));
        }
    }

    /// Makes a process get the whole list again, because it didn't receive the last message.
    pub(crate) fn greet_again(&mut self, process: OtherProcess) {
        if let Some(nodes) = &mut self.nodes {
            nodes.greeted.remove(&process);
        }
    }

    /// Returns this process's news for these processes of other nodes.
    pub(crate) fn news(&mut self, domain: &str, own: OtherProcess, present: &[OtherProcess]) -> Vec<OnlineNews> {
        let Some(nodes) = &mut self.nodes else { return Vec::new() };
        let untold = std::mem::take(&mut nodes.untold);
        let all: Vec<(Jid, bool)> = nodes.own.iter().map(|account| (account.clone(), true)).collect();
        let mut news = Vec::new();
        for to in present {
            let is_first = nodes.greeted.insert(*to);
            let changes = if is_first { &all } else { &untold };
            let mut parts = changes.chunks(MAX_TOLD);
            let first = parts.next().filter(|_| !changes.is_empty()).unwrap_or_default();
            let news_of = |is_first: bool, changes: &[(Jid, bool)]| OnlineNews {
                domain: domain.to_owned(),
                of: own,
                to: *to,
                is_first,
                changes: changes.to_vec(),
            };
            if is_first || !first.is_empty() {
                news.push(news_of(is_first, first));
            }
            news.extend(parts.map(|part| news_of(false, part)));
        }
        news
    }

    /// Replaces the existing accounts.
    pub(crate) fn set_all(&mut self, mut accounts: BTreeSet<Jid>) {
        // An account may have come online since the store was asked.
        accounts.extend(self.online.iter().cloned());
        let changed: Vec<Jid> = self.all.symmetric_difference(&accounts).cloned().collect();
        self.all = Arc::new(accounts);
        changed.into_iter().for_each(|account| self.note(account, false));
    }

    /// Returns the changes from a number on, and the number after the last.
    pub(crate) fn since(&self, number: u64) -> (Vec<DirectoryChange>, u64) {
        let skipped = number.saturating_sub(self.first) as usize;
        (self.log.iter().skip(skipped).cloned().collect(), self.first + self.log.len() as u64)
    }

    fn note(&mut self, account: Jid, online: bool) {
        self.log.push_back(DirectoryChange { account, online });
        if self.log.len() > MAX_LOG {
            self.log.pop_front();
            self.first += 1;
        }
    }
}

impl OnlineByNode {
    fn has(&self, account: &Jid) -> bool {
        self.own.contains(account) || self.others.values().any(|there| there.contains(account))
    }
}

/// The bounds of news between nodes.
pub(crate) const BOUNDS: &[Bound] = &[Bound::on(
    "accounts of a domain that another node has reported as online, if a group contains these",
    Per::Domain,
    Most::Fixed(MAX_THERE as u64),
    Unit::Number,
)
.or("one more isn't in the group on other nodes")];
/// The most accounts in one memo between nodes.
const MAX_TOLD: usize = 2_000;
/// The most accounts that another node may report as online.
const MAX_THERE: usize = 1_000_000;
/// The most changes that are remembered for shards that haven't read them yet.
const MAX_LOG: usize = 100_000;

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: OtherProcess = (1, 1);
    const OTHER: OtherProcess = (2, 1);

    fn jid(name: &str) -> Jid {
        Jid::parse(&format!("{name}@x")).expect("an address")
    }

    fn online(directory: &AccountDirectory) -> Vec<String> {
        directory.online().iter().map(|account| account.local().unwrap_or_default().to_owned()).collect()
    }

    /// Passes the news of one node to another.
    fn tell(from: &mut AccountDirectory, to: &mut AccountDirectory) -> usize {
        let news = from.news("x", ONE, &[OTHER]);
        let count = news.len();
        news.into_iter().for_each(|news| to.apply_news(news));
        count
    }

    #[test]
    fn each_node_knows_the_accounts_on_the_others() {
        let (mut one, mut other) = (AccountDirectory::default(), AccountDirectory::default());
        one.came(&jid("alice"), true);
        other.came(&jid("bob"), true);
        assert_eq!((tell(&mut one, &mut other), tell(&mut one, &mut other)), (1, 0), "once");
        assert_eq!(online(&other), ["alice", "bob"]);
        one.came(&jid("carol"), true);
        one.remove_online(&jid("alice"));
        tell(&mut one, &mut other);
        assert_eq!(online(&other), ["bob", "carol"]);
        // An account whose home moves is on both nodes for a while.
        other.came(&jid("carol"), true);
        one.remove_online(&jid("carol"));
        tell(&mut one, &mut other);
        assert_eq!(online(&other), ["bob", "carol"]);
        other.keep_own(|account| *account != jid("carol"));
        assert_eq!(online(&other), ["bob"]);
    }

    #[test]
    fn the_accounts_of_a_process_go_with_it() {
        let (mut one, mut other) = (AccountDirectory::default(), AccountDirectory::default());
        one.came(&jid("alice"), true);
        tell(&mut one, &mut other);
        other.keep_processes(&[(1, 2)]);
        assert_eq!(online(&other), [""; 0]);
        let (changes, _) = other.since(0);
        assert_eq!(changes.iter().filter(|change| change.online).count(), 2, "clients hear that she came and went");
        one.greet_again(OTHER);
        tell(&mut one, &mut other);
        assert_eq!(online(&other), ["alice"], "it was silent, and is there");
    }

    #[test]
    fn many_accounts_are_sent_in_several_memos() {
        let (mut one, mut other) = (AccountDirectory::default(), AccountDirectory::default());
        (0..MAX_TOLD + 1).for_each(|number| one.came(&jid(&format!("user{number}")), true));
        assert_eq!(tell(&mut one, &mut other), 2);
        assert_eq!(other.online().len(), MAX_TOLD + 1);
        assert!(AccountDirectory::default().news("x", ONE, &[OTHER]).is_empty(), "a process alone tells nothing");
    }
}
