//! Who administers a domain.
//!
//! The administrators are those that the configuration names (option `admins` of the module `administration`) and those that administrators named themselves,
//! which the store keeps per domain. The first start of a server puts the account that it makes into that list. Where the module is off, nobody is one.

use rookery_hub::World;
use rookery_jid::{Jid, JidRef};
use rookery_store::{Pending, StoreError, Stores};

use crate::administration;
use crate::asker::condition;
use rookery_stream::error::StanzaError;

/// What somebody may do in a domain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Rights {
    /// What everybody may.
    None,
    /// What an account of the domain may.
    Account,
    /// Everything.
    Admin,
}

/// Goes on when it is known what `who` may do in a domain.
pub(crate) fn with_rights(
    world: &mut World,
    domain: &str,
    who: &Jid,
    then: impl FnOnce(&mut World, Result<Rights, StanzaError>) + 'static,
) {
    let Some(named) = configured(world, domain) else { return then(world, Ok(of_account(domain, who))) };
    if named.iter().any(|admin| admin.as_ref() == who.bare()) {
        return then(world, Ok(Rights::Admin));
    }
    let (domain, who) = (domain.to_owned(), who.clone());
    with_named(world, &domain.clone(), move |world, named| {
        let rights = named.map(|named| match named.iter().any(|admin| admin.as_ref() == who.bare()) {
            true => Rights::Admin,
            false => of_account(&domain, &who),
        });
        then(world, rights);
    });
}

/// The administrators that the configuration names, if the domain has administrators at all.
pub(crate) fn configured(world: &World, domain: &str) -> Option<Vec<Jid>> {
    let options = world.domain(domain)?.module(administration::NAME)?;
    let named = options.list(administration::ADMINS.key).iter();
    Some(named.filter_map(|text| Jid::parse(text).ok()).collect())
}

/// The administrators that administrators have named.
pub(crate) fn with_named(
    world: &mut World,
    domain: &str,
    then: impl FnOnce(&mut World, Result<Vec<Jid>, StanzaError>) + 'static,
) {
    let (named, domain) = (named(&world.stores, domain), Jid::parse(domain));
    world.wait(named, move |world, named| match named {
        Ok(bytes) => then(world, Ok(read(bytes.as_deref().unwrap_or_default()))),
        Err(error) => {
            if let Ok(domain) = domain {
                world.store_failed("reading the list of administrators", &domain, &error);
            }
            then(world, Err(condition(&error).into()));
        }
    });
}

fn named(stores: &Stores, domain: &str) -> Pending<Option<Vec<u8>>> {
    stores.meta.get(&key(domain))
}

/// Replaces the administrators that administrators of a domain have named.
pub fn set_named(stores: &Stores, domain: &str, admins: &[Jid]) -> Pending<()> {
    let lines: Vec<_> = admins.iter().map(Jid::as_str).collect();
    stores.meta.put(&key(domain), lines.join("\n").into_bytes())
}

/// Removes an account from the administrators that were named: its name must not hand the right on to whoever gets it next.
pub fn forget(stores: &Stores, account: JidRef<'_>) -> Pending<()> {
    let (account, stores) = (account.bare().to_jid(), stores.clone());
    Box::pin(async move {
        let named = named(&stores, account.domain()).await?.unwrap_or_default();
        let mut named = read(&named);
        let before = named.len();
        named.retain(|admin| *admin != account);
        match named.len() == before {
            true => Ok::<_, StoreError>(()),
            false => set_named(&stores, account.domain(), &named).await,
        }
    })
}

fn read(bytes: &[u8]) -> Vec<Jid> {
    let text = String::from_utf8_lossy(bytes);
    text.lines().filter_map(|line| Jid::parse(line).ok()).collect()
}

fn of_account(domain: &str, who: &Jid) -> Rights {
    match who.domain() == domain && who.local().is_some() {
        true => Rights::Account,
        false => Rights::None,
    }
}

/// Where the store keeps the list.
fn key(domain: &str) -> String {
    format!("admins/{domain}")
}
