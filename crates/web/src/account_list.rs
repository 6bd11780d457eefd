//! Lists the accounts of a domain by kind and order, for the admin page and the API.
//!
//! The store knows which accounts are disabled, but not which are online or administer the domain.
//! For those two kinds, the addresses are gathered first; then the store's list is read in batches,
//! and the accounts with these addresses are picked from it.

use std::collections::BTreeSet;

use rookery_jid::Jid;
use rookery_operations::{Gathered, Outcome, rights, sessions};
use rookery_store::{Browse, Browsed, Choice, Only, Order};

use crate::WebShared;
use crate::ask::OperationAnswer;

/// A kind of accounts that a list can be narrowed to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AccountKind {
    /// A kind that the store knows.
    Stored(Only),
    /// Accounts with a connected client.
    Online,
    /// Accounts that administer the domain.
    Administrators,
}

/// The kinds, by their names in requests.
pub(crate) const KINDS: [(&str, AccountKind); 5] = [
    ("all", AccountKind::Stored(Only::All)),
    ("online", AccountKind::Online),
    ("disabled", AccountKind::Stored(Only::Disabled)),
    ("never", AccountKind::Stored(Only::NeverSeen)),
    ("administrators", AccountKind::Administrators),
];
/// The orders, by their names in requests.
pub(crate) const ORDERS: [(&str, Order); 5] = [
    ("name", Order::Name),
    ("newest", Order::Newest),
    ("oldest", Order::Oldest),
    ("youngest", Order::Youngest),
    ("largest", Order::Largest),
];

impl WebShared {
    /// Returns the accounts of a kind, in the order and the part that `choice` asks for. Accounts
    /// that are online or administrators are only found among the first `MOST_SEARCHED` of the
    /// domain.
    ///
    /// # Errors
    /// The store or the shards don't answer in time.
    pub async fn accounts_of(&self, domain: &str, kind: AccountKind, choice: Choice) -> Outcome<Browsed> {
        let wanted = match kind {
            AccountKind::Stored(only) => {
                return self.wait(self.stores.accounts.browse(domain, Choice { only, ..choice })).await;
            }
            AccountKind::Online => self.online(domain).await?,
            AccountKind::Administrators => self.administrators_of(domain).await?,
        };
        let mut found = Vec::new();
        for part in 0..MOST_SEARCHED / PART {
            let of_part = Choice { only: Only::All, skip: part * PART, limit: PART, ..choice.clone() };
            let Browsed { accounts, .. } = self.wait(self.stores.accounts.browse(domain, of_part)).await?;
            let is_last = accounts.len() < PART;
            found.extend(accounts.into_iter().filter(|account| wanted.contains(&account.jid)));
            if is_last || found.len() == wanted.len() {
                break;
            }
        }
        Ok(part_of(found, choice.skip, choice.limit))
    }

    /// Returns the accounts of a domain that have a connected client.
    ///
    /// # Errors
    /// The shards don't answer in time.
    pub async fn online(&self, domain: &str) -> Outcome<BTreeSet<Jid>> {
        let domain = domain.to_owned();
        let work = move |world: &mut _, answer: OperationAnswer<_>| {
            sessions::online(world, domain, |_, found| answer.complete(Ok(found)));
        };
        let Gathered { items, .. } = self.ask(work).await?;
        Ok(items.into_iter().collect())
    }

    async fn administrators_of(&self, domain: &str) -> Outcome<BTreeSet<Jid>> {
        let all = self.wait(rights::administrators(&self.stores, &self.settings().hub)).await?;
        let of_domain = all.into_iter().filter(|found| found.domain == domain);
        Ok(of_domain.flat_map(|found| found.configured.into_iter().chain(found.named)).collect())
    }
}

fn part_of(found: Vec<Browse>, skip: usize, limit: usize) -> Browsed {
    Browsed { total: found.len() as u64, accounts: found.into_iter().skip(skip).take(limit).collect() }
}

/// The most accounts of a domain that are searched for those of a kind that the store doesn't know,
/// and the number of accounts that are read at a time.
pub(crate) const MOST_SEARCHED: usize = 200_000;
pub(crate) const PART: usize = 10_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_count_all_that_were_found() {
        let line = |name: &str| Browse {
            jid: Jid::parse(&format!("{name}@a.example")).expect("an address"),
            is_disabled: false,
            last_seen_ms: None,
            created_ms: None,
            bytes: 0,
        };
        let Browsed { total, accounts } = part_of(["a", "b", "c"].map(line).to_vec(), 1, 1);
        assert_eq!((total, accounts), (3, vec![line("b")]));
    }
}
