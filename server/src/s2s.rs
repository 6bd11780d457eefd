//! `rookery s2s`: other servers, as the running one sees them (`list`, `close`), and the steps to
//! reach one ([`reach`]).

pub mod reach;

use crate::arguments::ShownAs;
use crate::columns::{self, cell};
use crate::control::{RunningServer, encode, note_partial};
use crate::failure::CommandFailure;
use crate::loaded::ConfigSource;
use crate::welcome::say;

/// Runs one command: `list`, `close DOMAIN`, or the name of a domain to reach.
///
/// # Errors
///
/// [`CommandFailure::Failed`] for unknown arguments or if no server runs, [`CommandFailure::Told`]
/// if the domain can't be reached.
pub fn run(
    source: &ConfigSource,
    what: &str,
    domain: Option<&str>,
    from: Option<&str>,
    shown: ShownAs,
) -> Result<(), CommandFailure> {
    match (what, domain) {
        ("list", None) => list(RunningServer::in_folder(&source.folder)?, shown)?,
        ("close", Some(domain)) => {
            let path = format!("/streams/{}", encode(&prepare(domain)?));
            let closed = RunningServer::in_folder(&source.folder)?.ask("DELETE", &path, None)?;
            note_partial(&closed);
            match shown.json {
                true => columns::objects([closed])?,
                false => say(&format!("streams closed: {}\n", cell(&closed, "ended"))),
            }
        }
        ("close", None) => {
            return Err(CommandFailure::Failed("name the domain: `rookery s2s close DOMAIN`".to_owned()));
        }
        (_, Some(_)) => {
            return Err(CommandFailure::Failed(format!("{what:?} is neither \"list\" nor \"close\", nor a domain")));
        }
        (domain, None) => return reach::run(source, &prepare(domain)?, from, shown),
    }
    Ok(())
}

fn prepare(domain: &str) -> Result<String, CommandFailure> {
    let prepared = rookery_jid::prepare_domain(domain);
    prepared.map(Into::into).map_err(|error| CommandFailure::Failed(format!("{domain:?} isn't a domain: {error}")))
}

/// Prints streams as a table, one per line.
fn list(server: RunningServer<'_>, shown: ShownAs) -> Result<(), CommandFailure> {
    let found = server.get("/streams")?;
    note_partial(&found);
    if shown.json {
        return columns::objects(found["items"].as_array().into_iter().flatten().cloned());
    }
    let mut text = "DOMAIN\tOURS\tWAY\tSTATE\tPROVEN BY\tADDRESS\tWAITING\tQUIET\tLAST TROUBLE\n".to_owned();
    let head = text.len();
    for stream in found["items"].as_array().into_iter().flatten() {
        let cell = |member| cell(stream, member);
        let quiet = format!("{}s", cell("quiet_seconds"));
        let members = ["remote", "local", "direction", "state", "proven_by", "address", "waiting"];
        let cells: Vec<_> = members.into_iter().map(cell).chain([quiet, cell("trouble")]).collect();
        text += &format!("{}\n", cells.join("\t"));
    }
    say(if text.len() == head { "there is no stream\n" } else { &text });
    Ok(())
}
