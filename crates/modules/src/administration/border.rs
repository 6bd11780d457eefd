//! The domains that users of a domain may not communicate with: the blacklist, and the whitelist,
//! which excludes all others once it has entries (XEP-0133 §4.11, §4.12). Both apply to stanzas to
//! and from other servers; to shut out a user of this server, disable the account instead.
//!
//! # Invariants
//!
//! * An entry is a domain, an account or a full JID, and means exactly that; a whitelist entry for
//!   a domain covers all of its addresses.
//! * Stanzas from excluded addresses are dropped silently. A user who writes to one gets
//!   `not-allowed`.
//! * The lists are in the store; all shards look at one copy in memory, which is read when the
//!   server starts and again every minute.

use rookery_base::{Map, Set};
use std::sync::{Arc, RwLock};

use rookery_base::lock::{read, write};
use rookery_hub::{Hooks, World};
use rookery_jid::{Jid, JidRef};
use rookery_modkit::form::Field;
use rookery_operations::rights::Rights;
use rookery_store::StoreError;

use super::{NAME, form, note};
use crate::commands::order::{AdHocCommand, CommandOrder};

pub(crate) const COMMANDS: &[AdHocCommand] = &[
    AdHocCommand {
        node: "http://jabber.org/protocol/admin#edit-blacklist",
        name: "Edit the blacklist",
        module: NAME,
        may: Rights::Admin,
        switch: None,
        stages: &[|world, order| ask(world, order, BorderWhich::Black)],
        run: |world, order| set(world, order, BorderWhich::Black),
    },
    AdHocCommand {
        node: "http://jabber.org/protocol/admin#edit-whitelist",
        name: "Edit the whitelist",
        module: NAME,
        may: Rights::Admin,
        switch: None,
        stages: &[|world, order| ask(world, order, BorderWhich::White)],
        run: |world, order| set(world, order, BorderWhich::White),
    },
];

/// The lists of all domains. Clones share the data; a look-up takes a lock that is never held for
/// long.
#[derive(Debug, Clone, Default)]
pub struct Borders(Arc<RwLock<Map<String, BorderLists>>>);

/// The lists of a domain.
#[derive(Debug, Default)]
struct BorderLists {
    black: Set<String>,
    white: Set<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BorderWhich {
    Black,
    White,
}

impl BorderWhich {
    fn name(self) -> &'static str {
        match self {
            BorderWhich::Black => "blacklist",
            BorderWhich::White => "whitelist",
        }
    }

    /// Returns the key under which the store keeps the list of a domain.
    fn key(self, domain: &str) -> String {
        format!("{}/{domain}", self.name())
    }
}

impl BorderLists {
    fn lets_pass(&self, remote: JidRef<'_>) -> bool {
        let names = [remote.as_str(), remote.bare_str(), remote.domain()];
        let has = |list: &Set<String>| names.iter().any(|name| list.contains(*name));
        !has(&self.black) && (self.white.is_empty() || has(&self.white))
    }
}

impl Borders {
    fn lets_pass(&self, remote: JidRef<'_>, domain: &str) -> bool {
        let lists = read(&self.0);
        lists.get(domain).is_none_or(|lists| lists.lets_pass(remote))
    }

    fn set(&self, domain: &str, which: BorderWhich, list: Set<String>) {
        let mut all = write(&self.0);
        let lists = all.entry(domain.to_owned()).or_default();
        match which {
            BorderWhich::Black => lists.black = list,
            BorderWhich::White => lists.white = list,
        }
        if lists.black.is_empty() && lists.white.is_empty() {
            all.remove(domain);
        }
    }
}

/// Enforces the borders of the domains.
pub(super) fn install(hooks: &mut Hooks<'_>) {
    hooks.starting(load);
    hooks.every(PERIOD_MS, load);
    hooks.border(|world, remote, domain| world.state::<Borders>().lets_pass(remote, domain));
}

/// Reads the lists of all domains, on the first shard.
fn load(world: &mut World) {
    if world.shard() > 0 {
        return;
    }
    let domains: Vec<_> = world.settings().domains.iter().map(|domain| domain.name.clone()).collect();
    for (domain, which) in
        domains.iter().flat_map(|domain| [(domain, BorderWhich::Black), (domain, BorderWhich::White)])
    {
        let kept = world.stores.meta.entries(&which.key(domain));
        let domain = domain.clone();
        world.wait(kept, move |world, kept| match kept {
            Ok(entries) => world.state::<Borders>().set(&domain, which, names(entries).collect()),
            Err(error) => tracing::error!(%error, %domain, "the {} can't be read", which.name()),
        });
    }
}

fn names(entries: Vec<(String, Vec<u8>)>) -> impl Iterator<Item = String> {
    entries.into_iter().map(|(name, _)| name)
}

fn ask(world: &mut World, order: CommandOrder, which: BorderWhich) {
    let kept = world.stores.meta.entries(&which.key(order.domain()));
    world.wait(kept, move |world, kept| match kept {
        Ok(entries) => {
            let entries: Vec<_> = names(entries).collect();
            let (title, whom) = match which {
                BorderWhich::Black => ("Editing the Blacklist", "disallowed"),
                BorderWhich::White => ("Editing the Whitelist", "allowed exclusively"),
            };
            let instructions =
                format!("Fill out this form to edit the list of entities with whom communications are {whom}.");
            let field = Field::text_multi(&var(which)).label(&format!("The {}", which.name())).with_values(entries);
            order.ask(world, form(title, &instructions).field(field));
        }
        Err(error) => order.store_failed(world, "reading a list of domains", &error),
    });
}

fn set(world: &mut World, order: CommandOrder, which: BorderWhich) {
    let mut list = Set::default();
    for text in order.values(&var(which)) {
        match Jid::parse(&text) {
            Ok(jid) if world.is_here(jid.domain()) => {
                return order.fail(world, format!("{text} is on this server; its accounts can be disabled"));
            }
            Ok(jid) => list.insert(jid.to_string()),
            Err(error) => return order.fail(world, format!("{text}: {error}")),
        };
    }
    if list.len() > MAX_ENTRIES {
        return order.fail(world, format!("at most {MAX_ENTRIES} entries can be listed"));
    }
    let domain = order.domain().to_owned();
    let entries = list.iter().map(|name| (name.clone(), Vec::new())).collect();
    let kept = world.stores.meta.set_entries(&which.key(&domain), entries);
    world.wait(kept, move |world, kept: Result<(), StoreError>| match kept {
        Ok(()) => {
            note(world, &order, &format!("changed the {}", which.name()), &format!("{} entries", list.len()));
            world.state::<Borders>().set(&domain, which, list);
            order.succeed(world, &format!("the {} was changed", which.name()));
        }
        Err(error) => order.store_failed(world, "keeping a list of domains", &error),
    });
}

fn var(which: BorderWhich) -> String {
    format!("{}jids", which.name())
}

/// The most entries of one list.
const MAX_ENTRIES: usize = 5000;
/// The time between two reads of the lists, in milliseconds: another program may have changed them.
const PERIOD_MS: u64 = 60_000;
