//! `rookery user invite` and `rookery user reset-link`: links that let somebody in without a password, once.

use rookery_jid::Jid;
use rookery_modules::register::invite::{DAY_MS, MAX_OPEN, token, uri};
use rookery_store::{Invitation, Purpose, wait};

use crate::clock;
use crate::config::Config;
use crate::database::Database;
use crate::failure::Failure;
use crate::welcome::say;

/// Makes an invitation to create an account: with the name of `what`, or with any in the domain that `what` is.
///
/// # Errors
///
/// [`Failure::Failed`] if there is such an account, or nobody could register.
pub fn invite(what: &Jid, days: u64, config: &Config, database: &Database) -> Result<(), Failure> {
    if what.local().is_some() && wait(database.stores.accounts.exists(what.as_ref()))? {
        return Err(Failure::Failed(format!(
            "{what} exists already; `rookery user reset-link {what}` makes a link to set its password"
        )));
    }
    let purpose = Purpose::Account(what.local().map(str::to_owned));
    make(what.domain(), purpose, None, days, config, database)
}

/// Makes a link to set the password of an account.
///
/// # Errors
///
/// [`Failure::Failed`] if there is no such account, or nobody could use the link.
pub fn reset(account: &Jid, days: u64, config: &Config, database: &Database) -> Result<(), Failure> {
    if !wait(database.stores.accounts.exists(account.as_ref()))? {
        return Err(super::no_account(account));
    }
    make(account.domain(), Purpose::Password, Some(account.clone()), days, config, database)
}

fn make(
    domain: &str,
    purpose: Purpose,
    owner: Option<Jid>,
    days: u64,
    config: &Config,
    database: &Database,
) -> Result<(), Failure> {
    let is_on =
        config.domain(domain).and_then(|domain| domain.modules.get("register")).is_some_and(|module| module.enabled);
    if !is_on {
        return Err(Failure::Failed(format!(
            "links need the module `register` in {domain}: set `enabled = true` below [modules.register], and `allow_creation = false` to \
             keep others out"
        )));
    }
    let token = token().map_err(|error| Failure::Failed(error.to_string()))?;
    let now_ms = clock::now() * 1000;
    let expires_ms = now_ms.saturating_add(days.saturating_mul(DAY_MS));
    let invitation = Invitation { token, domain: domain.to_owned(), purpose, owner, expires_ms };
    if !wait(database.stores.invitations.put(invitation.clone(), now_ms, MAX_OPEN))? {
        return Err(Failure::Failed(
            "too many links for this account are open; wait until some are used or expire".into(),
        ));
    }
    say(&format!("{}\n", uri(&invitation, false)));
    eprintln!("good once, until {}", clock::date(i64::try_from(expires_ms / 1000).unwrap_or(i64::MAX)));
    Ok(())
}
