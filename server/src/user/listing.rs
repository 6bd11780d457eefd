//! `rookery user list`: the accounts of domains, by name for people, with all that the server knows
//! of each for programs.

use rookery_base::{Set, date};
use rookery_jid::Jid;
use rookery_store::{Browse, Browsed, Choice, wait};
use serde_json::{Value, json};

use crate::arguments::ShownAs;
use crate::columns;
use crate::config::ServerConfig;
use crate::control::{RunningServer, encode};
use crate::database::OpenedDatabase;
use crate::failure::CommandFailure;
use crate::loaded::ConfigSource;

/// Prints the accounts of a domain, or of all.
///
/// # Errors
///
/// [`CommandFailure::Failed`] if the domain isn't served and has no accounts, or if the store, the
/// running server or standard output failed.
pub fn list(
    domain: Option<&str>,
    shown: ShownAs,
    config: &ServerConfig,
    source: &ConfigSource,
    database: &OpenedDatabase,
) -> Result<(), CommandFailure> {
    let domains: Vec<String> = match domain {
        None => config.domains.iter().map(|domain| domain.name.clone()).collect(),
        Some(domain) => {
            let prepared = rookery_jid::prepare_domain(domain);
            vec![prepared.map_err(|error| CommandFailure::Failed(format!("{domain}: {error}")))?.into_owned()]
        }
    };
    let mut count = 0;
    for domain in domains {
        let listed = match shown.json {
            true => objects(&domain, config, source, database)?,
            false => names(&domain, database)?,
        };
        // `| head` has seen enough.
        let Some(listed) = listed else { return Ok(()) };
        count += listed;
    }
    match domain {
        // Accounts of a domain that isn't served any more are listed all the same.
        Some(name) if count == 0 && config.domain(name).is_none() => {
            Err(CommandFailure::Failed(format!("{name} isn't a domain of this server, and it has no accounts here")))
        }
        _ => Ok(()),
    }
}

/// Prints names, and returns their number; `None` if nobody reads any more.
fn names(domain: &str, database: &OpenedDatabase) -> Result<Option<usize>, CommandFailure> {
    let (mut count, mut after): (usize, Option<Jid>) = (0, None);
    loop {
        let page = wait(database.stores.accounts.list(domain, after.as_ref().map(Jid::as_ref), PAGE))?;
        for jid in &page {
            if !columns::line(jid.as_str())? {
                return Ok(None);
            }
        }
        count += page.len();
        after = page.last().cloned();
        if page.len() < PAGE {
            return Ok(Some(count));
        }
    }
}

/// Prints objects, and returns their number; `None` if nobody reads any more.
fn objects(
    domain: &str,
    config: &ServerConfig,
    source: &ConfigSource,
    database: &OpenedDatabase,
) -> Result<Option<usize>, CommandFailure> {
    let online = online(domain, config, source)?;
    let mut count = 0;
    loop {
        let choice = Choice { skip: count, limit: PART, ..Choice::default() };
        let Browsed { accounts, .. } = wait(database.stores.accounts.browse(domain, choice))?;
        for account in &accounts {
            let mut object = facts(account);
            object["online"] = online.as_ref().map(|online| online.contains(&account.jid)).into();
            if !columns::line(&object.to_string())? {
                return Ok(None);
            }
        }
        count += accounts.len();
        if accounts.len() < PART {
            return Ok(Some(count));
        }
    }
}

/// Returns the accounts of a domain that have sessions; `None` if the server that runs can't be
/// asked.
fn online(domain: &str, config: &ServerConfig, source: &ConfigSource) -> Result<Option<Set<Jid>>, CommandFailure> {
    let mut online = Set::default();
    match RunningServer::find(&source.folder) {
        Some(server) if config.domain(domain).is_some() => {
            server.list(&format!("/domains/{}/sessions?", encode(domain)), |session| {
                online.extend(session["user"].as_str().and_then(|user| Jid::parse(user).ok()));
                Ok(())
            })?;
        }
        None if source.folder.running().is_some() => return Ok(None),
        _ => {}
    }
    Ok(Some(online))
}

/// Returns what the database knows of an account.
fn facts(account: &Browse) -> Value {
    json!({
        "jid": account.jid.as_str(),
        "disabled": account.is_disabled,
        "created": account.created_ms.map(date::timestamp),
        "last_seen": account.last_seen_ms.map(date::timestamp),
        "bytes": account.bytes,
    })
}

/// Returns what the database knows of one account; `None` if there is no such account.
///
/// # Errors
///
/// The error of the store.
pub fn facts_of(jid: &Jid, database: &OpenedDatabase) -> Result<Option<Value>, CommandFailure> {
    let contains = jid.local().unwrap_or_default().to_owned();
    let mut skip = 0;
    loop {
        let choice = Choice { contains: contains.clone(), skip, limit: PART, ..Choice::default() };
        let Browsed { accounts, .. } = wait(database.stores.accounts.browse(jid.domain(), choice))?;
        if let Some(account) = accounts.iter().find(|account| account.jid == *jid) {
            return Ok(Some(facts(account)));
        }
        skip += accounts.len();
        if accounts.len() < PART {
            return Ok(None);
        }
    }
}

/// The number of accounts whose names are read at a time.
const PAGE: usize = 1000;
/// The number of accounts whose facts are read at a time: many, since the store looks at all
/// accounts of the domain for each part.
const PART: usize = 10_000;
