//! `rookery admin`: lists and changes the administrators of domains, also while the server runs.
//!
//! Administrators named in the configuration are listed here, but changed there.

use rookery_jid::Jid;
use rookery_operations::rights::{self, Administrators};
use rookery_store::wait;
use serde_json::json;

use crate::arguments::{AdminCommand, ShownAs};
use crate::columns;
use crate::config::ServerConfig;
use crate::control::note;
use crate::database::OpenedDatabase;
use crate::failure::CommandFailure;
use crate::loaded::ConfigSource;
use crate::logins::LoginSources;
use crate::settings;
use crate::welcome::say;

/// Runs one command.
///
/// # Errors
///
/// [`CommandFailure::Config`] if the configuration is wrong, [`CommandFailure::Failed`] if there is
/// no such account or domain, or the store failed.
pub fn run(source: &ConfigSource, command: AdminCommand) -> Result<(), CommandFailure> {
    let config = source.read()?;
    let database = OpenedDatabase::open_patiently(&source.folder, &config.store)?;
    let domains = administrators(&config, &database)?;
    match command {
        AdminCommand::Add { jid, domain } => {
            let (jid, at) = read_administered(&jid, domain.as_deref(), &domains)?;
            // The next account of a name must not inherit rights.
            if !wait(database.stores.accounts.exists(jid.as_ref()))? {
                return Err(CommandFailure::Failed(format!(
                    "there is no account {jid}; create it with `rookery user add {jid}`"
                )));
            }
            wait(rights::appoint(&database.stores, &at.domain, &jid))?;
            note(source, &database.stores, &at.domain, &format!("made an administrator: {jid}"));
            say(&format!("{jid} now administers {}\n", at.domain));
        }
        AdminCommand::Remove { jid, domain } => {
            let (jid, at) = read_administered(&jid, domain.as_deref(), &domains)?;
            let was_named = wait(rights::dismiss(&database.stores, &at.domain, &jid))?;
            if at.configured.contains(&jid) {
                return Err(CommandFailure::Failed(format!(
                    "the configuration names {jid} as an administrator of {}: take it out of `admins` of \
                     [modules.administration]",
                    at.domain
                )));
            }
            if !was_named {
                return Err(CommandFailure::Failed(format!("{jid} doesn't administer {}", at.domain)));
            }
            note(source, &database.stores, &at.domain, &format!("removed an administrator's rights: {jid}"));
            say(&format!("{jid} no longer administers {}\n", at.domain));
        }
        AdminCommand::List { shown: ShownAs { json: true } } => {
            let all = domains.into_iter().flat_map(|Administrators { domain, configured, named }| {
                let named: Vec<_> = named.into_iter().filter(|jid| !configured.contains(jid)).collect();
                let of = |jids: Vec<Jid>, by_configuration: bool| {
                    let objects = jids.into_iter().map(
                        |jid| json!({ "jid": jid.to_string(), "domain": domain, "by_configuration": by_configuration }),
                    );
                    objects.collect::<Vec<_>>()
                };
                [of(configured, true), of(named, false)].concat()
            });
            columns::objects(all)?;
        }
        AdminCommand::List { .. } => {
            for Administrators { domain, configured, named } in domains {
                let named: Vec<_> = named.into_iter().filter(|jid| !configured.contains(jid)).collect();
                let of = |jids: Vec<Jid>, how| jids.into_iter().map(move |jid| format!("{jid}\t{domain}\t{how}\n"));
                let lines: String = of.clone()(configured, "configuration").chain(of(named, "named")).collect();
                say(&lines);
            }
        }
    }
    Ok(())
}

/// Returns the administrators of all domains that can have any.
///
/// # Errors
///
/// The error of the store.
pub fn administrators(config: &ServerConfig, database: &OpenedDatabase) -> Result<Vec<Administrators>, CommandFailure> {
    let table = rookery_modules::table(&rookery_modules::Shared::default());
    Ok(wait(rights::administrators(&database.stores, &settings::settings(config, &table, &LoginSources::default())))?)
}

/// Reads an account, and finds the domain: the named one, or the account's own.
fn read_administered<'a>(
    jid: &str,
    domain: Option<&str>,
    domains: &'a [Administrators],
) -> Result<(Jid, &'a Administrators), CommandFailure> {
    let jid = crate::user::address(jid).map_err(CommandFailure::Failed)?;
    let name = match domain {
        None => jid.domain().to_owned(),
        Some(name) => {
            let prepared = rookery_jid::prepare_domain(name);
            prepared.map_err(|error| CommandFailure::Failed(format!("{name}: {error}")))?.into_owned()
        }
    };
    let found = domains.iter().find(|at| at.domain == name);
    let at = found.ok_or_else(|| {
        let names: Vec<_> = domains.iter().map(|at| at.domain.as_str()).collect();
        CommandFailure::Failed(format!(
            "{name:?} has no administrators here; those that have are: {}",
            names.join(", ")
        ))
    })?;
    Ok((jid, at))
}
