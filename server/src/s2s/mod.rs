//! `rookery s2s`: other servers, as the running one sees them (`list`, `close`), and what happens
//! to reach one ([`reach`]).

pub mod reach;

use rookery_shard::Report;

use crate::control;
use crate::failure::Failure;
use crate::loaded::Source;
use crate::welcome::say;

/// Runs one command: `list`, `close DOMAIN`, or the name of a domain to reach.
///
/// # Errors
///
/// [`Failure::Failed`] for words that mean nothing or if no server runs, [`Failure::Told`] if the
/// domain can't be reached.
pub fn run(source: &Source, what: &str, domain: Option<&str>, from: Option<&str>) -> Result<(), Failure> {
    match (what, domain) {
        ("list", None) => say(&control::ask(&source.folder, "s2s list")?),
        ("close", Some(domain)) => {
            let domain = prepared(domain)?;
            say(&control::ask(&source.folder, &format!("s2s close {domain}"))?);
        }
        ("close", None) => return Err(Failure::Failed("name the domain: `rookery s2s close DOMAIN`".to_owned())),
        (_, Some(_)) => {
            return Err(Failure::Failed(format!("{what:?} is neither \"list\" nor \"close\", nor one domain")));
        }
        (domain, None) => return reach::run(source, &prepared(domain)?, from),
    }
    Ok(())
}

fn prepared(domain: &str) -> Result<String, Failure> {
    let prepared = rookery_jid::prepare_domain(domain);
    prepared.map(Into::into).map_err(|error| Failure::Failed(format!("{domain:?} is no domain: {error}")))
}

/// Writes streams as a table, a line each.
pub fn listed(all: &[Report]) -> String {
    if all.is_empty() {
        return "there is no stream\n".to_owned();
    }
    let mut text = "DOMAIN\tOURS\tWAY\tSTATE\tPROVEN BY\tADDRESS\tWAITING\tQUIET\tLAST TROUBLE\n".to_owned();
    for report in all {
        let address = report.address.map_or_else(|| "-".to_owned(), |address| address.to_string());
        let or_dash = |text: &str| if text.is_empty() { "-".to_owned() } else { text.to_owned() };
        let line = [
            or_dash(&report.remote),
            or_dash(&report.local),
            report.direction.name().to_owned(),
            report.state.to_owned(),
            or_dash(report.security),
            address,
            report.waiting.to_string(),
            format!("{}s", report.quiet_ms / 1000),
            or_dash(&report.trouble),
        ];
        text.push_str(&line.join("\t"));
        text.push('\n');
    }
    text
}
