//! Everything that the stores in memory hold, behind one lock.

use super::archives::Archives;
use super::key::key;
use super::nodes::NodesByHost;
use super::rooms::AllRooms;
use super::roster::Versioned;
use crate::accounts::{Browse, Browsed, Choice, Only, Order};
use crate::archive::BYTES_PER_MESSAGE;
use crate::{Invitation, OfflineMessage, Slot, StoreError};
use rookery_jid::{Jid, JidRef};
use rookery_sasl::Credentials;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Holds the data of all accounts, and the data without an account.
pub(super) struct MemoryWorld {
    /// By domain and localpart, in which order lists are sorted.
    pub(super) accounts: BTreeMap<(String, String), Account>,
    pub(super) archives: Archives,
    pub(super) invitations: BTreeMap<String, Invitation>,
    pub(super) slots: BTreeMap<String, Slot>,
    pub(super) meta: BTreeMap<String, Vec<u8>>,
    pub(super) lists: BTreeMap<String, BTreeMap<String, Vec<u8>>>,
    pub(super) rooms: AllRooms,
    pub(super) last_offline_id: u64,
    /// The first version of a new account's roster, above those of all removed accounts.
    pub(super) next_roster_version: u64,
    pub(super) pubsub: NodesByHost,
}

impl Default for MemoryWorld {
    fn default() -> MemoryWorld {
        MemoryWorld {
            accounts: BTreeMap::new(),
            archives: Archives::default(),
            invitations: BTreeMap::new(),
            slots: BTreeMap::new(),
            meta: BTreeMap::new(),
            lists: BTreeMap::new(),
            last_offline_id: 0,
            next_roster_version: 1,
            pubsub: NodesByHost::default(),
            rooms: AllRooms::default(),
        }
    }
}

/// An account with the data that is removed with it.
pub(super) struct Account {
    pub(super) jid: Jid,
    pub(super) credentials: Credentials,
    pub(super) disabled: bool,
    pub(super) roster: Versioned,
    /// The offline messages with the bare JIDs of their senders.
    pub(super) offline: BTreeMap<u64, (Jid, OfflineMessage)>,
    pub(super) documents: BTreeMap<String, Vec<u8>>,
    pub(super) last_presence: Option<(u64, Vec<u8>)>,
}

impl MemoryWorld {
    pub(super) fn account(&self, account: JidRef<'_>) -> Option<&Account> {
        self.accounts.get(&key(account))
    }

    pub(super) fn account_mut(&mut self, account: JidRef<'_>) -> Option<&mut Account> {
        self.accounts.get_mut(&key(account))
    }

    pub(super) fn owner(&self, owner: JidRef<'_>) -> Result<&Account, StoreError> {
        self.account(owner).ok_or(StoreError::NoAccount)
    }

    fn line(&self, account: &Account) -> Browse {
        let last_seen_ms = account.last_presence.as_ref().map(|(unix_ms, _)| *unix_ms);
        let archive = self.archives.kept.get(&key(account.jid.as_ref()));
        let archived = archive.iter().flat_map(|archive| archive.messages.values());
        let archived = archived.map(|(_, stanza)| stanza.len() as u64 + BYTES_PER_MESSAGE).sum::<u64>();
        let files = self.slots.values().filter(|slot| slot.owner == account.jid).map(|slot| slot.size).sum::<u64>();
        let waiting = account.offline.values().map(|(_, message)| message.stanza.len() as u64).sum::<u64>();
        let (jid, bytes) = (account.jid.clone(), archived + files + waiting);
        // The world has no clock.
        Browse { jid, is_disabled: account.disabled, last_seen_ms, created_ms: None, bytes }
    }

    /// Returns a part of the accounts that match a choice.
    pub(super) fn browse(&self, domain: &str, choice: &Choice) -> Browsed {
        let of_domain =
            self.accounts.iter().filter(|((of, local), _)| of == domain && local.contains(&choice.contains));
        let chosen = of_domain.map(|(_, account)| account).filter(|account| match choice.only {
            Only::All => true,
            Only::Disabled => account.disabled,
            Only::NeverSeen => account.last_presence.is_none(),
        });
        let mut accounts: Vec<_> = chosen.map(|account| self.line(account)).collect();
        match choice.order {
            Order::Name => {}
            Order::Newest => accounts.sort_by_key(|account| Reverse(account.last_seen_ms)),
            Order::Oldest => accounts.sort_by_key(|account| account.last_seen_ms),
            Order::Youngest => accounts.sort_by_key(|account| Reverse(account.created_ms)),
            Order::Largest => accounts.sort_by_key(|account| Reverse(account.bytes)),
        }
        let total = accounts.len() as u64;
        Browsed { total, accounts: accounts.into_iter().skip(choice.skip).take(choice.limit).collect() }
    }

    pub(super) fn create(&mut self, account: JidRef<'_>, credentials: Credentials) -> bool {
        let new = self.account(account).is_none();
        if new {
            let account_row = Account {
                jid: account.bare().to_jid(),
                credentials,
                disabled: false,
                roster: Versioned::new(self.next_roster_version),
                offline: BTreeMap::new(),
                documents: BTreeMap::new(),
                last_presence: None,
            };
            self.accounts.insert(key(account), account_row);
        }
        new
    }
}
