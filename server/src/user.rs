//! `rookery user`: accounts, changed through the server that runs in the data folder if one does
//! ([`running`]), and in the database itself otherwise.

mod content;
mod csv;
mod import;
mod invite;
mod listing;
mod password;
mod portability;
mod running;

use rookery_base::Set;
use std::io::IsTerminal;
use std::thread;
use std::time::Duration;

use rookery_jid::Jid;
use rookery_operations::removed::{PendingRemoval, SessionsEnd};
use rookery_operations::rights;
use rookery_operations::{Refusal, users};
use rookery_sasl::Credentials;
use rookery_store::{Stores, wait};
use serde_json::json;

use content::Content;
use password::PasswordRule;

use crate::arguments::{ShownAs, UserCommand};
use crate::clock;
use crate::columns;
use crate::config::ServerConfig;
use crate::control::{RunningServer, note};
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
/// [`CommandFailure::Config`] if the configuration is wrong, otherwise [`CommandFailure::Failed`]
/// or [`CommandFailure::Told`].
pub fn run(source: &ConfigSource, command: UserCommand) -> Result<(), CommandFailure> {
    let config = source.read()?;
    let open = || OpenedDatabase::open_patiently(&source.folder, &config.store);
    match command {
        UserCommand::Add { jid, password, shown } => {
            let jid = account(&jid, &config)?;
            let database = open()?;
            let password = password::read(password, &jid, &config)?;
            add(&jid, &password, shown, &config, source, &database)
        }
        UserCommand::Passwd { jid, password } => {
            let jid = account(&jid, &config)?;
            let database = open()?;
            // If the command will fail anyway, it doesn't ask for a password.
            if !wait(database.stores.accounts.exists(jid.as_ref()))? {
                return Err(no_account(&jid));
            }
            let password = password::read(password, &jid, &config)?;
            set_password(&jid, &password, &config, source, &database)
        }
        UserCommand::Remove { jid, yes, shown } => {
            // Accounts of a domain that isn't served any more can still be removed.
            let (jid, database) = (address(&jid).map_err(CommandFailure::Failed)?, open()?);
            match yes || is_sure(&jid)? {
                true => remove(&jid, shown, &config, source, &database),
                false => Err(CommandFailure::Failed("nothing was removed".to_owned())),
            }
        }
        UserCommand::Show { jid, shown } => running::show(&account(&jid, &config)?, source, open, shown),
        UserCommand::Disable { jid } => set_disabled(&account(&jid, &config)?, true, source, &open()?),
        UserCommand::Enable { jid } => set_disabled(&account(&jid, &config)?, false, source, &open()?),
        UserCommand::List { domain, shown } => listing::list(domain.as_deref(), shown, &config, source, &open()?),
        UserCommand::Import { file: Some(file), length, shown, .. } => {
            let (content, rule) = (Content::open(&file)?, PasswordRule::new(&config, length));
            match content.is_xml() {
                true => portability::import(content, &rule, shown, &config, source, &open()?),
                false => import::run(content, &rule, shown, &config, source, &open()?),
            }
        }
        UserCommand::Import { file: None, foreign, length, shown } => {
            let rule = PasswordRule::new(&config, length);
            portability::import_database(&foreign, &rule, shown, &config, source, &open()?)
        }
        UserCommand::Invite { what, valid, shown } => {
            invite::invite(&parse_invited(&what, &config)?, valid.days, shown, &config, source, &open()?)
        }
        UserCommand::ResetLink { jid, valid, shown } => {
            invite::reset(&account(&jid, &config)?, valid.days, shown, &config, source, &open()?)
        }
        UserCommand::Export { what, file } => portability::export(&parse_exported(&what)?, &file, source, &open()?),
    }
}

fn add(
    jid: &Jid,
    password: &str,
    shown: ShownAs,
    config: &ServerConfig,
    source: &ConfigSource,
    database: &OpenedDatabase,
) -> Result<(), CommandFailure> {
    if wait(database.stores.accounts.exists(jid.as_ref()))? {
        return Err(CommandFailure::Failed(format!(
            "{jid} already exists; `rookery user passwd {jid}` sets its password"
        )));
    }
    match RunningServer::find(&source.folder) {
        // The running server also sends the account its welcome.
        Some(server) => running::add(server, jid, password)?,
        None => {
            let made = wait(users::create(&database.stores, jid.as_ref(), derive(password, config)?))?;
            made.map_err(|refusal| CommandFailure::Failed(refusal.to_string()))?;
            note(source, &database.stores, jid.domain(), &format!("created an account: {jid}"));
        }
    }
    let named = named_accounts(config, database)?;
    if shown.json {
        return columns::objects([json!({ "jid": jid.as_str(), "has_rights": named.contains(jid) })]);
    }
    say(&format!("added {jid}\n"));
    tell_rights(named.get(jid));
    Ok(())
}

/// Returns the accounts that have rights because of their names, whether the accounts exist or not.
fn named_accounts(config: &ServerConfig, database: &OpenedDatabase) -> Result<Set<Jid>, CommandFailure> {
    let table = rookery_modules::table(&rookery_modules::Shared::default());
    Ok(wait(rights::all_named(&database.stores, &settings::settings(config, &table, &LoginSources::default())))?)
}

/// Reports which of the new accounts have rights because of their names, since the operator may not
/// have thought of that.
fn tell_rights<'a>(made: impl IntoIterator<Item = &'a Jid>) {
    for jid in made {
        say(&format!(
            "{jid} has rights because of its name: the configuration, or a list of administrators, mentions it\n"
        ));
    }
}

/// Reports the end of an import: to people in these words, or to programs.
fn tell_import(shown: ShownAs, added: u64, left_out: u64, words: &str, told: &[Jid]) -> Result<(), CommandFailure> {
    if shown.json {
        let with_rights: Vec<_> = told.iter().map(Jid::as_str).collect();
        return columns::objects([json!({ "added": added, "left_out": left_out, "with_rights": with_rights })]);
    }
    say(words);
    tell_rights(told);
    Ok(())
}

fn domains(config: &ServerConfig) -> Vec<String> {
    config.domains.iter().map(|domain| domain.name.clone()).collect()
}

fn set_password(
    jid: &Jid,
    password: &str,
    config: &ServerConfig,
    source: &ConfigSource,
    database: &OpenedDatabase,
) -> Result<(), CommandFailure> {
    match RunningServer::find(&source.folder) {
        // The running server also ends the sessions.
        Some(server) => running::set_password(server, jid, password)?,
        None => {
            let set = wait(users::set_credentials(&database.stores, jid.as_ref(), derive(password, config)?))?;
            set.map_err(|refusal| match refusal {
                Refusal::Missing(_) => no_account(jid),
                refusal => CommandFailure::Failed(refusal.to_string()),
            })?;
            note(source, &database.stores, jid.domain(), &format!("set a password: {jid}"));
            if source.folder.running().is_some() && !end_sessions_by_server(jid, &database.stores)? {
                return Err(CommandFailure::Failed(format!(
                    "the password of {jid} is set, but the running server hasn't ended its sessions yet; if somebody else may have the old password, set it again or restart the server"
                )));
            }
        }
    }
    say(&format!("set the password of {jid}; its sessions have ended\n"));
    Ok(())
}

/// Asks a server that can't be reached by its socket to end the sessions of an account, and waits
/// until it has. Returns `false` if it doesn't do so in time.
fn end_sessions_by_server(jid: &Jid, stores: &Stores) -> Result<bool, CommandFailure> {
    let Some(end) = wait(SessionsEnd::of(stores, jid.as_ref()))? else { return Ok(true) };
    // The request is made twice, since another command's note may replace the first one.
    for _ in 0..2 {
        wait(end.ask(stores, clock::now() * 1000))?;
        let mut looks = 0;
        while !wait(end.is_taken(stores))? {
            looks += 1;
            if looks == LOOKS {
                return Ok(false);
            }
            thread::sleep(LOOK);
        }
    }
    Ok(true)
}

fn set_disabled(
    jid: &Jid,
    disabled: bool,
    source: &ConfigSource,
    database: &OpenedDatabase,
) -> Result<(), CommandFailure> {
    match RunningServer::find(&source.folder) {
        Some(server) => running::set_disabled(server, jid, disabled)?,
        None if wait(database.stores.accounts.set_disabled(jid.as_ref(), disabled))? => {
            let act = if disabled { "disabled an account" } else { "re-enabled an account" };
            note(source, &database.stores, jid.domain(), &format!("{act}: {jid}"));
        }
        None => return Err(no_account(jid)),
    }
    let words = if disabled { "can't log in any more; its sessions have ended" } else { "can log in again" };
    say(&format!("{jid} {words}\n"));
    Ok(())
}

fn remove(
    jid: &Jid,
    shown: ShownAs,
    config: &ServerConfig,
    source: &ConfigSource,
    database: &OpenedDatabase,
) -> Result<(), CommandFailure> {
    let (folder, stores) = (&source.folder, &database.stores);
    let mut is_noted = false;
    let removed = match RunningServer::find(folder) {
        // The running server also ends the sessions and notifies the contacts.
        Some(server) if config.domain(jid.domain()).is_some() => {
            let exists = wait(stores.accounts.exists(jid.as_ref()))?;
            if exists {
                running::remove(server, jid)?;
                is_noted = true;
            }
            exists
        }
        _ if folder.running().is_some() => remove_by_server(jid, stores)?,
        _ => wait(users::remove_without_server(stores, &domains(config), jid.as_ref()))?,
    };
    if !removed {
        return Err(no_account(jid));
    }
    if !is_noted {
        note(source, stores, jid.domain(), &format!("deleted an account: {jid}"));
    }
    if folder.running().is_none() {
        let files = crate::uploads::files(config, folder, stores.slots.clone())?;
        files
            .clear()
            .map_err(|error| CommandFailure::Failed(format!("the files of {jid} are still there: {error}")))?;
    }
    match shown.json {
        true => columns::objects([json!({ "jid": jid.as_str(), "removed": true })]),
        false => {
            say(&format!("removed {jid}\n"));
            Ok(())
        }
    }
}

/// Asks for confirmation that an account is to be removed, if there is a terminal; a script isn't
/// asked.
fn is_sure(jid: &Jid) -> Result<bool, CommandFailure> {
    if !(std::io::stdin().is_terminal() && std::io::stderr().is_terminal()) {
        return Ok(true);
    }
    eprint!("Remove {jid} with everything that belongs to it? Type yes: ");
    Ok(password::from_stdin()?.trim() == "yes")
}

/// Asks the running server to remove an account, and waits for it. Returns `false` if there is
/// none.
fn remove_by_server(jid: &Jid, stores: &Stores) -> Result<bool, CommandFailure> {
    let Some(removal) = wait(PendingRemoval::of(stores, jid.as_ref()))? else { return Ok(false) };
    for look in 0..LOOKS {
        // The request is repeated, since another command's note may have replaced this one.
        if look % LOOKS_PER_NOTE == 0 {
            wait(removal.ask(stores, clock::now() * 1000))?;
        }
        thread::sleep(LOOK);
        if wait(removal.is_done(stores))? {
            return match wait(stores.accounts.exists(jid.as_ref()))? {
                false => Ok(true),
                true => Err(CommandFailure::Failed(format!(
                    "{jid} has just got a new password, or is a different account now; check it and try again"
                ))),
            };
        }
    }
    Err(CommandFailure::Failed(format!(
        "the running server hasn't removed {jid} yet; try again when it is less busy, or stopped"
    )))
}

/// Reads an account or a domain.
fn parse_exported(text: &str) -> Result<Jid, CommandFailure> {
    match Jid::parse(text) {
        Ok(jid) if jid.resource().is_none() => Ok(jid),
        _ => Err(CommandFailure::Failed(format!(
            "{text:?} is neither an account such as alice@example.org nor a domain"
        ))),
    }
}

/// Parses a domain of this server, or the address that a new account is to have.
fn parse_invited(text: &str, config: &ServerConfig) -> Result<Jid, CommandFailure> {
    match Jid::parse(text) {
        Ok(jid) if jid.is_domain() => on_this_server(jid, config).map_err(CommandFailure::Failed),
        _ => account(text, config),
    }
}

/// Returns the credentials that are stored for a password.
fn derive(password: &str, config: &ServerConfig) -> Result<Credentials, CommandFailure> {
    let derived = Credentials::derive(password, config.login.scram_iterations);
    derived.map_err(|error| CommandFailure::Failed(error.to_string()))
}

/// Parses the address of an account in a domain that is served here.
fn account(text: &str, config: &ServerConfig) -> Result<Jid, CommandFailure> {
    parse_served(text, config).map_err(CommandFailure::Failed)
}

/// Parses such an address; the error explains the failure.
fn parse_served(text: &str, config: &ServerConfig) -> Result<Jid, String> {
    on_this_server(address(text)?, config)
}

/// Returns the address if its domain is served here.
fn on_this_server(jid: Jid, config: &ServerConfig) -> Result<Jid, String> {
    if config.domain(jid.domain()).is_none() {
        let domains: Vec<_> = config.domains.iter().map(|domain| domain.name.as_str()).collect();
        return Err(format!(
            "{:?} isn't a domain of this server; its domains are: {}",
            jid.domain(),
            domains.join(", ")
        ));
    }
    Ok(jid)
}

/// Parses an address that an account can have: `local@domain`.
///
/// # Errors
///
/// A message that explains the failure.
pub fn address(text: &str) -> Result<Jid, String> {
    let jid = Jid::parse(text).map_err(|error| format!("{text:?} is not an address: {error}"))?;
    match (jid.local(), jid.resource()) {
        (None, _) => Err(format!("{text:?} has no name before an @; an account is written as alice@example.org")),
        (_, Some(_)) => Err(format!("{text:?} has a resource; write an account without one, as {}", jid.bare_str())),
        _ => Ok(jid),
    }
}

fn no_account(jid: &Jid) -> CommandFailure {
    CommandFailure::Failed(format!("there is no account {jid}; `rookery user list` shows them all"))
}

/// The pause between two looks at whether a server has removed an account, the number of looks, and
/// the number after which it is asked again.
const LOOK: Duration = Duration::from_millis(50);
const LOOKS: u32 = 600;
const LOOKS_PER_NOTE: u32 = 60;
