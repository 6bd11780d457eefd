//! `rookery user invite` and `rookery user reset-link`: links that admit a person without a
//! password, once.

use rookery_base::date;
use rookery_jid::Jid;
use rookery_operations::Refusal;
use rookery_operations::invitations::uri;
use rookery_operations::invitations::{self, LinkPurpose};
use rookery_store::{Invitation, wait};
use rookery_stream::c2s::LoginKind;
use serde_json::json;

use crate::arguments::ShownAs;
use crate::clock;
use crate::columns;
use crate::config::ServerConfig;
use crate::control::note;
use crate::database::OpenedDatabase;
use crate::failure::CommandFailure;
use crate::loaded::ConfigSource;
use crate::settings;
use crate::welcome::say;

/// Creates an invitation to an account: with the name in `what`, or with any in the domain `what`.
///
/// # Errors
///
/// [`CommandFailure::Failed`] if the account exists, or the link couldn't be used.
pub fn invite(
    what: &Jid,
    days: u64,
    shown: ShownAs,
    config: &ServerConfig,
    source: &ConfigSource,
    database: &OpenedDatabase,
) -> Result<(), CommandFailure> {
    let local = what.local().map(str::to_owned);
    let wanted = LinkPurpose::Account { domain: what.domain().to_owned(), local, inviter: None };
    let made = make(what, wanted, days, config, database).map_err(|refusal| match refusal {
        Refusal::Exists(words) => CommandFailure::Failed(format!(
            "{words}; `rookery user reset-link {what}` makes a link to set its password"
        )),
        refusal => CommandFailure::Failed(refusal.to_string()),
    });
    let made = made?;
    note(source, &database.stores, what.domain(), &format!("made an invitation: {what}"));
    tell(&made, shown, config)
}

/// Creates a link to set the password of an account.
///
/// # Errors
///
/// [`CommandFailure::Failed`] if there is no such account, or the link couldn't be used.
pub fn reset(
    account: &Jid,
    days: u64,
    shown: ShownAs,
    config: &ServerConfig,
    source: &ConfigSource,
    database: &OpenedDatabase,
) -> Result<(), CommandFailure> {
    let made =
        make(account, LinkPurpose::Password(account.clone()), days, config, database).map_err(
            |refusal| match refusal {
                Refusal::Missing(_) => super::no_account(account),
                refusal => CommandFailure::Failed(refusal.to_string()),
            },
        );
    let made = made?;
    note(source, &database.stores, account.domain(), &format!("created a link to set a password: {account}"));
    tell(&made, shown, config)
}

fn make(
    what: &Jid,
    wanted: LinkPurpose,
    days: u64,
    config: &ServerConfig,
    database: &OpenedDatabase,
) -> Result<Invitation, Refusal> {
    let domain = what.domain();
    let served = config.domain(domain);
    if served.is_some_and(|domain| domain.login.kind() != LoginKind::Own) {
        return Err(Refusal::Off(format!(
            "there are no links for {domain}: [domain.\"{domain}\".login] says who has an account there"
        )));
    }
    if !served.and_then(|domain| domain.modules.get("register")).is_some_and(|module| module.enabled) {
        return Err(Refusal::Off(format!(
            "links need the module `register`, which the configuration switches off in {domain}"
        )));
    }
    let made = wait(invitations::make(&database.stores, wanted, days, clock::now() * 1000))??;
    let maker = rookery_web::control::own_name();
    if let Err(error) = wait(invitations::remember_maker(&database.stores, &made, &maker, clock::now() * 1000)) {
        eprintln!("rookery: the author of the link couldn't be stored: {error}");
    }
    Ok(made)
}

/// Prints the link, and when it expires.
fn tell(invitation: &Invitation, shown: ShownAs, config: &ServerConfig) -> Result<(), CommandFailure> {
    let link = uri(invitation, false);
    let page = settings::pages(config).map(|pages| invitations::page(invitation, &pages));
    if shown.json {
        let expires = date::timestamp(invitation.expires_ms);
        return columns::objects([json!({ "link": link, "page": page, "expires": expires })]);
    }
    let until = clock::date(i64::try_from(invitation.expires_ms / 1000).unwrap_or(i64::MAX));
    match page {
        Some(page) => {
            say(&format!("{page}\n"));
            eprintln!("works once, until {until}; in an XMPP client, open {link}");
        }
        None => {
            say(&format!("{link}\n"));
            eprintln!("works once, until {until}");
        }
    }
    Ok(())
}
