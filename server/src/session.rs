//! `rookery session` and `rookery room`: sessions and rooms, as the running server sees them.

use rookery_jid::Jid;
use serde_json::{Value, json};

use crate::arguments::{RoomCommand, SessionCommand, ShownAs};
use crate::columns::{self, Columns, cell};
use crate::config::ServerConfig;
use crate::control::{RunningServer, encode};
use crate::failure::CommandFailure;
use crate::loaded::ConfigSource;
use crate::welcome::say;

/// Runs a command for sessions.
///
/// # Errors
///
/// [`CommandFailure::Config`] if the configuration is wrong, [`CommandFailure::Failed`] if no
/// server runs or it refuses.
pub fn run(source: &ConfigSource, command: SessionCommand) -> Result<(), CommandFailure> {
    let server = RunningServer::in_folder(&source.folder)?;
    match command {
        SessionCommand::List { whose, shown } => {
            let lists = match whose.as_deref().map(Jid::parse) {
                None => paths(&source.read()?, |domain| format!("/domains/{domain}/sessions?")),
                Some(Ok(jid)) if jid.is_domain() => vec![format!("/domains/{}/sessions?", encode(jid.domain()))],
                Some(Ok(jid)) => vec![format!("/users/{}/sessions", encode(jid.bare_str()))],
                Some(Err(error)) => return Err(CommandFailure::Failed(format!("that isn't an address: {error}"))),
            };
            let row = |item: &Value| values(item, "jid");
            list(server, &lists, &SESSION, row, shown)
        }
        SessionCommand::End { jid, shown } => {
            let jid = Jid::parse(&jid)
                .map_err(|error| CommandFailure::Failed(format!("{jid:?} isn't an address: {error}")))?;
            let account = format!("/users/{}/sessions", encode(jid.bare_str()));
            match jid.resource() {
                Some(resource) => {
                    server.ask("DELETE", &format!("{account}/{}", encode(resource)), None)?;
                    match shown.json {
                        true => columns::objects([json!({ "ended": 1 })])?,
                        false => say(&format!("ended the session {jid}\n")),
                    }
                }
                None => {
                    let ended = server.ask("DELETE", &account, None)?;
                    match shown.json {
                        true => columns::objects([json!({ "ended": ended["ended"] })])?,
                        false => say(&format!("sessions ended: {}\n", cell(&ended, "ended"))),
                    }
                }
            }
            Ok(())
        }
    }
}

/// The columns of sessions.
pub(crate) const SESSION: [&str; 11] = [
    "SESSION",
    "ADDRESS",
    "TRANSPORT",
    "TLS",
    "CONNECTED",
    "CLIENT",
    "WAITS UNTIL",
    "AVAILABLE",
    "PRIORITY",
    "WAITING BYTES",
    "IDLE SECONDS",
];

/// Returns the values of a session in these columns; `name` is the member that holds its name in
/// this list.
pub(crate) fn values(session: &Value, name: &str) -> [String; 11] {
    let members = [
        name,
        "address",
        "transport",
        "tls",
        "connected",
        "client",
        "waits_until",
        "available",
        "priority",
        "waiting_bytes",
        "idle_seconds",
    ];
    members.map(|member| cell(session, member))
}

/// Runs a command for rooms.
///
/// # Errors
///
/// As [`run`].
pub fn rooms(source: &ConfigSource, command: RoomCommand) -> Result<(), CommandFailure> {
    let server = RunningServer::in_folder(&source.folder)?;
    let of = |room: &str| format!("/rooms/{}", encode(room));
    match command {
        RoomCommand::List { domain, shown } => {
            let lists = match domain {
                Some(domain) => vec![format!("/domains/{}/rooms?", encode(&domain))],
                None => {
                    let config = source.read()?;
                    let has_rooms = |name: &str| {
                        config
                            .domain(name)
                            .is_some_and(|domain| domain.modules.get("rooms").is_some_and(|rooms| rooms.enabled))
                    };
                    let names = config.domains.iter().map(|domain| domain.name.as_str()).filter(|name| has_rooms(name));
                    names.map(|name| format!("/domains/{}/rooms?", encode(name))).collect()
                }
            };
            let members = ["jid", "name", "public", "persistent", "occupants", "last_message"];
            let row = |item: &Value| members.map(|member| cell(item, member));
            let names = ["ROOM", "NAME", "PUBLIC", "PERSISTENT", "OCCUPANTS", "LAST MESSAGE"];
            list(server, &lists, &names, row, shown)
        }
        RoomCommand::Show { room, shown } => {
            let found = server.get(&of(&room))?;
            if shown.json {
                return columns::line(&found.to_string()).map(drop);
            }
            for member in ["jid", "name", "public", "persistent", "members_only", "affiliations"] {
                say(&format!("{:<13} {}\n", member.replace('_', " "), cell(&found, member)));
            }
            let mut inside = Columns::new(&["OCCUPANT", "ROLE", "AFFILIATION", "SESSIONS"]);
            for occupant in found["occupants"].as_array().into_iter().flatten() {
                let sessions = occupant["sessions"].as_array().into_iter().flatten().filter_map(Value::as_str);
                let sessions = sessions.collect::<Vec<_>>().join(", ");
                let mut row = ["nick", "role", "affiliation"].map(|member| cell(occupant, member)).to_vec();
                row.push(sessions);
                inside.row(row);
            }
            say(&if inside.is_empty() { "nobody is there\n".to_owned() } else { inside.to_string() });
            Ok(())
        }
        RoomCommand::Destroy { room, reason } => {
            let query = reason.map_or_else(String::new, |reason| format!("?reason={}", encode(&reason)));
            server.ask("DELETE", &format!("{}{query}", of(&room)), None)?;
            say(&format!("destroyed {room}\n"));
            Ok(())
        }
    }
}

/// Returns the path for each domain.
fn paths(config: &ServerConfig, path: impl Fn(&str) -> String) -> Vec<String> {
    config.domains.iter().map(|domain| path(&encode(&domain.name))).collect()
}

/// Prints the entries of lists.
fn list<const N: usize>(
    server: RunningServer<'_>,
    lists: &[String],
    names: &[&str; N],
    row: impl Fn(&Value) -> [String; N],
    shown: ShownAs,
) -> Result<(), CommandFailure> {
    let mut columns = Columns::new(names);
    for path in lists {
        server.list(path, |item| {
            match shown.json {
                true => drop(columns::line(&item.to_string())?),
                false => columns.row(row(item).to_vec()),
            }
            Ok(())
        })?;
    }
    if !shown.json && !columns.is_empty() {
        say(&columns.to_string());
    }
    Ok(())
}
