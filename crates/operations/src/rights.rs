//! The administrators of domains, and of the server.
//!
//! Administrators are those named in the configuration (option `admins` of the module
//! `administration`) and those appointed by other administrators, which the store keeps per
//! domain. The first start of a server puts the account that it creates into that list. If the
//! module is off, there are none.
//!
//! # Invariants
//!
//! * A right belongs to an account, not to a name: a removed account loses its stored rights, at
//!   all domains.
//! * A name that has a right before its account exists, in the configuration or in such a list,
//!   and a name that looks like it, can only be assigned by operators (`with_reserved`).

use rookery_base::Set;
use rookery_hub::{Domain, OptionSpec, Options, Settings, Value, World};
use rookery_jid::{Jid, JidRef};
use rookery_store::{Pending, Stores};

use rookery_hub::failure::condition;
use rookery_modkit::option;
use rookery_stream::error::StanzaError;

use crate::lookalike;

/// The rights of a user in a domain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rights {
    /// The rights of any user.
    None,
    /// The rights of an account of the domain.
    Account,
    /// The right to everything that concerns the domain.
    Admin,
    /// The same, and everything that concerns the server as a whole, such as stopping it: for
    /// administrators who also administer the default domain.
    Server,
}

/// Continues with the rights of `who` in a domain.
pub fn with_rights(
    world: &mut World,
    domain: &str,
    who: &Jid,
    then: impl FnOnce(&mut World, Result<Rights, StanzaError>) + 'static,
) {
    let (asked, whose) = (domain.to_owned(), who.clone());
    with_admin(world, domain, who, move |world, is_admin| match is_admin {
        Ok(true) => {
            let default = world.settings().default_domain().to_owned();
            if default == asked {
                return then(world, Ok(Rights::Server));
            }
            with_admin(world, &default, &whose, |world, is_admin| {
                then(world, is_admin.map(|is_admin| if is_admin { Rights::Server } else { Rights::Admin }));
            });
        }
        Ok(false) => then(world, Ok(of_account(&asked, &whose))),
        Err(error) => then(world, Err(error)),
    });
}

/// Continues with whether `who` is among the administrators of a domain.
fn with_admin(
    world: &mut World,
    domain: &str,
    who: &Jid,
    then: impl FnOnce(&mut World, Result<bool, StanzaError>) + 'static,
) {
    let Some(configured) = configured_administrators(world, domain) else { return then(world, Ok(false)) };
    if configured.iter().any(|admin| admin.as_ref() == who.bare()) {
        return then(world, Ok(true));
    }
    let who = who.to_bare();
    with_named(world, domain, move |world, named| {
        then(world, named.map(|named| named.contains(&who)));
    });
}

/// Continues with whether only operators may assign a name: it has rights already, or looks like
/// one that has.
pub fn with_reserved(
    world: &mut World,
    account: &Jid,
    then: impl FnOnce(&mut World, Result<bool, StanzaError>) + 'static,
) {
    let account = account.to_bare();
    let all = all_named(&world.stores, world.settings());
    world.wait(all, move |world, all| match all {
        Ok(all) => then(world, Ok(all.iter().any(|named| lookalike::may_be_taken_for(&account, named)))),
        Err(error) => {
            world.store_failed("reading the lists of administrators", &account, &error);
            then(world, Err(condition(&error).into()));
        }
    });
}

/// Returns all accounts that have rights by name, whether they exist or not: those in the
/// configuration, and those named by administrators of any domain.
pub fn all_named(stores: &Stores, settings: &Settings) -> Pending<Set<Jid>> {
    let domains: Vec<String> = settings.domains.iter().map(|domain| domain.name.clone()).collect();
    let (mut all, lists): (Set<Jid>, _) = (settings.accounts_named().collect(), lists(stores, &domains));
    Box::pin(async move {
        all.extend(lists.await?.into_iter().flat_map(|(_, named)| named));
        Ok(all)
    })
}

/// The administrators of a domain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Administrators {
    /// The domain that they administer.
    pub domain: String,
    /// The administrators in the configuration.
    pub configured: Vec<Jid>,
    /// The administrators named later, by the first start, an administrator or the command line.
    pub named: Vec<Jid>,
}

/// Returns the administrators of all domains that can have any.
pub fn administrators(stores: &Stores, settings: &Settings) -> Pending<Vec<Administrators>> {
    let of = |domain: &Domain| Some((domain.name.clone(), listed_addresses(domain.module(ADMINISTRATION)?)));
    let mut configured: Vec<(String, Vec<Jid>)> = settings.domains.iter().filter_map(of).collect();
    let domains: Vec<String> = configured.iter().map(|(domain, _)| domain.clone()).collect();
    let lists = lists(stores, &domains);
    Box::pin(async move {
        let lists = lists.await?.into_iter().zip(configured.drain(..));
        Ok(lists.map(|((domain, named), (_, configured))| Administrators { domain, configured, named }).collect())
    })
}

/// Adds an administrator to a domain's list.
pub fn appoint(stores: &Stores, domain: &str, admin: &Jid) -> Pending<()> {
    stores.meta.put_entry(&key(domain), admin.bare_str(), Vec::new())
}

/// Removes an administrator from a domain's list. Returns `false` if it wasn't there.
pub fn dismiss(stores: &Stores, domain: &str, admin: &Jid) -> Pending<bool> {
    stores.meta.remove_entry(&key(domain), admin.bare_str())
}

/// Returns the names of all domains of this server.
pub fn domains(world: &World) -> Vec<String> {
    world.settings().domains.iter().map(|domain| domain.name.clone()).collect()
}

/// Returns the named administrators, by domain.
fn lists(stores: &Stores, domains: &[String]) -> Pending<Vec<(String, Vec<Jid>)>> {
    // All questions are queued before the first answer is awaited.
    let asked: Vec<_> = domains.iter().map(|domain| (domain.clone(), named_rights(stores, domain))).collect();
    Box::pin(async move {
        let mut lists = Vec::with_capacity(asked.len());
        for (domain, named) in asked {
            lists.push((domain, read(named.await?)));
        }
        Ok(lists)
    })
}

/// Returns the administrators in the configuration, if the domain has administrators at all.
pub fn configured_administrators(world: &World, domain: &str) -> Option<Vec<Jid>> {
    Some(listed_addresses(world.domain(domain)?.module(ADMINISTRATION)?))
}

fn listed_addresses(options: &Options) -> Vec<Jid> {
    options.list(ADMINS.key).iter().filter_map(|text| Jid::parse(text).ok()).collect()
}

/// Continues with the named administrators of a domain.
pub fn with_named(
    world: &mut World,
    domain: &str,
    then: impl FnOnce(&mut World, Result<Vec<Jid>, StanzaError>) + 'static,
) {
    let (named, domain) = (named_rights(&world.stores, domain), Jid::parse(domain));
    world.wait(named, move |world, named| match named {
        Ok(entries) => then(world, Ok(read(entries))),
        Err(error) => {
            if let Ok(domain) = domain {
                world.store_failed("reading the list of administrators", &domain, &error);
            }
            then(world, Err(condition(&error).into()));
        }
    });
}

fn named_rights(stores: &Stores, domain: &str) -> Pending<Vec<(String, Vec<u8>)>> {
    stores.meta.entries(&key(domain))
}

/// Replaces the named administrators of a domain.
pub fn set_named(stores: &Stores, domain: &str, admins: &[Jid]) -> Pending<()> {
    let mut entries: Vec<_> = admins.iter().map(|admin| (admin.to_string(), Vec::new())).collect();
    entries.sort_unstable();
    entries.dedup();
    stores.meta.set_entries(&key(domain), entries)
}

/// Removes an account from the named administrators of each of these domains: the next owner of its
/// name must not inherit the right.
pub fn forget(stores: &Stores, domains: &[String], account: JidRef<'_>) -> Pending<()> {
    let removed: Vec<_> =
        domains.iter().map(|domain| stores.meta.remove_entry(&key(domain), account.bare_str())).collect();
    Box::pin(async move {
        for removed in removed {
            removed.await?;
        }
        Ok(())
    })
}

fn read(entries: Vec<(String, Vec<u8>)>) -> Vec<Jid> {
    entries.iter().filter_map(|(name, _)| Jid::parse(name).ok()).collect()
}

fn of_account(domain: &str, who: &Jid) -> Rights {
    match who.domain() == domain && who.local().is_some() {
        true => Rights::Account,
        false => Rights::None,
    }
}

/// Returns the key under which the store has the list.
fn key(domain: &str) -> String {
    format!("admins/{domain}")
}

/// The key below `[modules]` of the module that enables administrators.
pub const ADMINISTRATION: &str = "administration";

/// Its option that names administrators.
pub const ADMINS: OptionSpec = OptionSpec {
    key: "admins",
    default: || Value::List(Vec::new()),
    doc: "administrators in addition to those named at the first start or by other administrators, e.g. [\"alice@example.org\"]",
    check: |value| option::each(value, is_account),
};

fn is_account(text: &str) -> Result<(), String> {
    match Jid::parse(text) {
        Ok(jid) if jid.local().is_some() && jid.resource().is_none() => Ok(()),
        _ => Err(format!("{text:?} isn't the address of an account; write e.g. \"alice@example.org\"")),
    }
}
