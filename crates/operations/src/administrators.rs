//! The administrators of domains, who alone may use XEP-0133 (see [`crate::rights`]).

use rookery_hub::World;
use rookery_jid::Jid;

use crate::rights::{Rights, with_rights};

/// Finds the domains that an account administers, in the order of the configuration; none if the
/// account is disabled or was removed. The answer may be out of date a moment later: code that acts
/// for an account asks each time.
pub fn domains_of(world: &mut World, account: Jid, then: impl FnOnce(&mut World, Vec<String>) + 'static) {
    let credentials = world.stores.accounts.exists(account.as_ref());
    let disabled = world.stores.accounts.is_disabled(account.as_ref());
    world.wait(credentials, move |world, exists| {
        world.wait(disabled, move |world, disabled| {
            // If the store fails, no one is an administrator.
            if exists != Ok(true) || disabled != Ok(false) {
                return then(world, Vec::new());
            }
            let domains: Vec<_> = world.settings().domains.iter().map(|domain| domain.name.clone()).collect();
            next(world, account, domains.into_iter(), Vec::new(), Box::new(then));
        });
    });
}

type Then = Box<dyn FnOnce(&mut World, Vec<String>)>;

fn next(world: &mut World, account: Jid, mut domains: std::vec::IntoIter<String>, mut found: Vec<String>, then: Then) {
    let Some(domain) = domains.next() else { return then(world, found) };
    with_rights(world, &domain.clone(), &account.clone(), move |world, rights| {
        if rights.is_ok_and(|rights| rights >= Rights::Admin) {
            found.push(domain);
        }
        next(world, account, domains, found, then);
    });
}
