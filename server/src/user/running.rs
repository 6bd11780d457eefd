//! Accounts as the running server shows and changes them.

use rookery_jid::Jid;
use serde_json::json;

use crate::arguments::ShownAs;
use crate::columns::{self, Columns, cell};
use crate::control::{RunningServer, encode};
use crate::database::OpenedDatabase;
use crate::failure::CommandFailure;
use crate::loaded::ConfigSource;
use crate::session;
use crate::welcome::say;

/// Creates an account.
///
/// # Errors
///
/// [`CommandFailure::Failed`] if the server refuses or doesn't answer. This holds for all functions
/// of this module.
pub fn add(server: RunningServer<'_>, jid: &Jid, password: &str) -> Result<(), CommandFailure> {
    let body = json!({ "name": jid.local(), "password": password });
    server.ask("POST", &format!("/domains/{}/users", encode(jid.domain())), Some(&body)).map(drop)
}

/// Sets the password of an account, whose sessions end.
pub fn set_password(server: RunningServer<'_>, jid: &Jid, password: &str) -> Result<(), CommandFailure> {
    server.ask("PATCH", &path(jid), Some(&json!({ "password": password }))).map(drop)
}

/// Disables or enables the login of an account.
pub fn set_disabled(server: RunningServer<'_>, jid: &Jid, disabled: bool) -> Result<(), CommandFailure> {
    server.ask("PATCH", &path(jid), Some(&json!({ "disabled": disabled }))).map(drop)
}

/// Removes an account.
pub fn remove(server: RunningServer<'_>, jid: &Jid) -> Result<(), CommandFailure> {
    server.ask("DELETE", &path(jid), None).map(drop)
}

/// Prints an account with its sessions.
pub fn show(
    jid: &Jid,
    source: &ConfigSource,
    open: impl FnOnce() -> Result<OpenedDatabase, CommandFailure>,
    shown: ShownAs,
) -> Result<(), CommandFailure> {
    // If the database is away, the server's message about that is better than one from an attempt
    // to open it.
    let mut found = RunningServer::in_folder(&source.folder)?.get(&path(jid))?;
    if let Some(facts) = super::listing::facts_of(jid, &open()?)? {
        for member in ["created", "bytes"] {
            found[member] = facts[member].clone();
        }
    }
    found["online"] = found["sessions"].as_array().is_some_and(|sessions| !sessions.is_empty()).into();
    if shown.json {
        return columns::line(&found.to_string()).map(drop);
    }
    for (name, member) in [
        ("account", "jid"),
        ("disabled", "disabled"),
        ("administrator", "admin"),
        ("contacts", "contacts"),
        ("created", "created"),
        ("last seen", "last_seen"),
        ("online", "online"),
        ("bytes stored", "bytes"),
    ] {
        say(&format!("{name:<13} {}\n", cell(&found, member)));
    }
    let mut sessions = Columns::new(&session::SESSION);
    for item in found["sessions"].as_array().into_iter().flatten() {
        sessions.row(session::values(item, "resource").to_vec());
    }
    say(&if sessions.is_empty() { "no session\n".to_owned() } else { sessions.to_string() });
    Ok(())
}

fn path(jid: &Jid) -> String {
    format!("/users/{}", encode(jid.bare_str()))
}
