//! `rookery setup DOMAIN`: from nothing to a server that can be started. It doesn't ask for
//! anything that it can find out.
//!
//! # Invariants
//!
//! - An existing configuration stays as it is, and so does a data folder whose server runs.
//! - The configuration is written last: an interrupted setup can be run again.
//! - No password is shown or stored anywhere: the administrator chooses one through a link that
//!   works once.
//!
//! # Layout
//!
//! - [`plan`] chooses the paths and free ports, and writes the configuration.
//! - [`records`] are the DNS records, compared with their current state.
//! - [`calls`] is the relay for calls.
//! - [`machine`] creates what only root can: user, unit, owners.

mod calls;
pub mod machine;
mod plan;
pub mod records;

use std::fmt::Write as _;
use std::io::IsTerminal;
use std::net::{IpAddr, SocketAddr};

use qrcode::QrCode;
use qrcode::render::unicode::Dense1x2;
use rookery_base::chance;
use rookery_jid::Jid;
use rookery_operations::invitations::{self, LinkPurpose};
use rookery_operations::{Refusal, rights, users};
use rookery_resolver::ResolverSettings;
use rookery_sasl::Credentials;
use rookery_store::wait;
use serde_json::{Value, json};

use plan::SetupPlan;

use crate::arguments::ShownAs;
use crate::clock;
use crate::columns;
use crate::config::ServerConfig;
use crate::database::OpenedDatabase;
use crate::failure::CommandFailure;
use crate::folder;
use crate::listener;
use crate::loaded::ConfigSource;
use crate::settings;
use crate::welcome::say;

/// The operator's wishes, all but the first of which can be found out or have a default.
#[derive(Debug, clap::Args)]
pub struct SetupWishes {
    /// The domain: the part of addresses after the @
    #[arg(value_name = "DOMAIN")]
    pub domain: String,
    /// The account that administers the server
    #[arg(long, value_name = "NAME", default_value = "admin")]
    pub admin: String,
    /// A public address of this machine, if it isn't one of its own (NAT); may be repeated
    #[arg(long = "address", value_name = "IP")]
    pub addresses: Vec<IpAddr>,
    /// Also talk to other servers (federation)
    #[arg(long)]
    pub federation: bool,
    /// Also make calls work: write the configuration of coturn, which relays them
    #[arg(long)]
    pub calls: bool,
    /// Ask this name server instead of the machine's own
    #[arg(long, value_name = "IP[:PORT]", value_parser = name_server)]
    pub dns: Option<SocketAddr>,
    /// Only say what would be done
    #[arg(long)]
    pub dry_run: bool,
    /// Wait until DNS has the records
    #[arg(long, conflicts_with_all = ["dry_run", "json"])]
    pub wait: bool,
    #[command(flatten)]
    pub shown: ShownAs,
}

impl SetupWishes {
    /// Returns the settings of DNS queries.
    fn resolver_settings(&self) -> ResolverSettings {
        ResolverSettings { servers: self.dns.into_iter().collect(), ..ResolverSettings::default() }
    }
}

/// Sets up a server, or prints the steps.
///
/// # Errors
///
/// [`CommandFailure::Failed`] if a server exists already, a name is wrong, or the machine refuses
/// something.
pub fn run(source: &ConfigSource, wishes: &SetupWishes) -> Result<(), CommandFailure> {
    let plan = SetupPlan::of(source, wishes)?;
    plan.refuse_what_is_there()?;
    let wanted = records::wanted_records(&plan.config, &plan.addresses, wishes.federation);
    if wishes.shown.json {
        let links = if wishes.dry_run { None } else { Some(make(&plan)?) };
        return columns::objects([object(&plan, &wanted, links.as_ref())]);
    }
    if wishes.dry_run {
        say(&plan.words("would be written"));
        say(&format!("\n{}", indent(&plan.text)));
        say(&dns_words(wishes, &plan, &wanted));
        return Ok(());
    }
    let links = make(&plan)?;
    say(&plan.words("written"));
    say(&dns_words(wishes, &plan, &wanted));
    if wishes.wait {
        records::wait_for(&wishes.resolver_settings(), &wanted, &plan.addresses)?;
    }
    say(&next_words(&plan, &links));
    Ok(())
}

/// The links for the first people.
struct Links {
    /// Sets the administrator's password; `None` if the account existed before.
    admin: Option<String>,
    /// Creates an account.
    invitation: String,
    /// The day on which both expire.
    until: String,
}

/// Carries out a plan.
fn make(plan: &SetupPlan) -> Result<Links, CommandFailure> {
    let owner = if plan.is_service { Some(machine::user()?) } else { None };
    plan.folder.create()?;
    let lock = plan.folder.lock()?;
    let database = OpenedDatabase::open(&plan.folder, &plan.config.store)?;
    let made = let_in(plan, &database);
    database.close();
    drop(lock);
    let links = made?;
    if let Some(owner) = owner {
        owner.take(plan.folder.path())?;
        machine::install_unit(&plan.program)?;
    }
    if let Some(parent) = plan.file.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        std::fs::create_dir_all(parent).map_err(|error| CommandFailure::file(parent, &error))?;
    }
    // The configuration of a relay contains a secret.
    let mode = if plan.calls.is_some() { 0o600 } else { 0o644 };
    if let Some(calls) = &plan.calls {
        folder::write(&calls.file, &calls.text, mode)?;
    }
    folder::write(&plan.file, &plan.text, mode)?;
    if let (Some(owner), Some(_)) = (owner, &plan.calls) {
        owner.take(&plan.file)?;
    }
    Ok(links)
}

/// Creates the administrator, and the links.
fn let_in(plan: &SetupPlan, database: &OpenedDatabase) -> Result<Links, CommandFailure> {
    let (stores, admin) = (&database.stores, &plan.admin);
    // The password is never shown: the link replaces it.
    let password = chance::text(UNKNOWN_CHARS).map_err(|error| CommandFailure::Failed(error.to_string()))?;
    let credentials = Credentials::derive(&password, plan.config.login.scram_iterations);
    let credentials = credentials.map_err(|error| CommandFailure::Failed(error.to_string()))?;
    let is_new = match wait(users::create(stores, admin.as_ref(), credentials))? {
        Ok(()) => true,
        Err(Refusal::Exists(_)) => false,
        Err(refusal) => return Err(CommandFailure::Failed(refusal.to_string())),
    };
    wait(rights::appoint(stores, admin.domain(), admin))?;
    let until = clock::now() + DAYS * 24 * 60 * 60;
    Ok(Links {
        admin: if is_new { Some(link(&plan.config, database, LinkPurpose::Password(admin.clone()))?) } else { None },
        invitation: link(&plan.config, database, invited_by(admin))?,
        until: clock::date(i64::try_from(until).unwrap_or(i64::MAX)),
    })
}

fn invited_by(admin: &Jid) -> LinkPurpose {
    LinkPurpose::Account { domain: admin.domain().to_owned(), local: None, inviter: Some(admin.clone()) }
}

/// Creates a link that works once: to a web page, if browsers can reach one.
fn link(config: &ServerConfig, database: &OpenedDatabase, purpose: LinkPurpose) -> Result<String, CommandFailure> {
    let made = wait(invitations::make(&database.stores, purpose, DAYS, clock::now() * 1000))?;
    let invitation = made.map_err(|refusal| CommandFailure::Failed(refusal.to_string()))?;
    Ok(match settings::pages(config) {
        Some(pages) => invitations::page(&invitation, &pages),
        None => invitations::uri(&invitation, false),
    })
}

/// Returns the DNS records, each with its current state.
fn dns_words(wishes: &SetupWishes, plan: &SetupPlan, wanted: &[records::DnsRecord]) -> String {
    let mut text = String::from("\nDNS records to copy, and what DNS says about them now:\n\n");
    match records::look(&wishes.resolver_settings(), wanted, &plan.addresses) {
        Ok(looks) => text.push_str(&records::words(wanted, &looks)),
        Err(failure) => {
            let _ = writeln!(text, "{}\n  DNS can't be asked: {failure}", records::words(wanted, &[]));
        }
    }
    if plan.addresses.is_empty() {
        text.push_str(
            "\n  This machine has no public address of its own, so it is behind a router: forward the ports below to it.\n  \
             The records need the router's address; with --address, this command puts it into them.\n",
        );
    }
    let _ = writeln!(text, "\nPorts to open in a firewall (TCP): {}", plan.ports_words());
    text
}

/// Returns what was set up, or would be if there are no links, for programs.
fn object(plan: &SetupPlan, wanted: &[records::DnsRecord], links: Option<&Links>) -> Value {
    let ports = listener::wanted_addresses(&plan.config).filter(|(address, _)| !address.ip().is_loopback());
    let ports: std::collections::BTreeSet<u16> = ports.map(|(address, _)| address.port()).collect();
    json!({
        "domain": plan.admin.domain(),
        "written": links.is_some(),
        "configuration": plan.file.display().to_string(),
        "data": plan.folder.path().display().to_string(),
        "administrator": plan.admin.as_str(),
        "administrator_link": links.and_then(|links| links.admin.clone()),
        "invitation": links.map(|links| links.invitation.clone()),
        "links_end": links.map(|links| links.until.clone()),
        "records": wanted.iter().map(records::in_one_line).collect::<Vec<_>>(),
        "ports": ports,
        "start": plan.start_words(),
    })
}

/// Returns the next steps, with the links.
fn next_words(plan: &SetupPlan, links: &Links) -> String {
    let mut text = format!("\nNext:\n\n  {}\n\n", plan.start_words());
    let until = &links.until;
    let admin = &plan.admin;
    let _ = match &links.admin {
        Some(link) => writeln!(text, "Choose the password of {admin}, who administers the server:\n\n  {link}\n"),
        None => writeln!(text, "{admin}, whose account already exists, administers the server.\n"),
    };
    let _ = writeln!(text, "Invite somebody, who can scan this with a phone:\n\n  {}\n", links.invitation);
    if let Some(code) = code(&links.invitation, std::io::stdout().is_terminal()) {
        let _ = writeln!(text, "{code}");
    }
    if let Some(calls) = &plan.calls {
        let _ = writeln!(text, "{}", calls.words());
    }
    let options = plan.options();
    let _ = writeln!(
        text,
        "Each link works once, until {until}. `rookery user invite {}{options}` makes more.",
        admin.domain()
    );
    text
}

/// Returns a QR code for a terminal; if that has colours, dark on light regardless of its theme.
fn code(text: &str, has_colours: bool) -> Option<String> {
    let code = QrCode::new(text).ok()?;
    let drawn = code.render::<Dense1x2>().dark_color(Dense1x2::Light).light_color(Dense1x2::Dark).build();
    let (begin, end) = if has_colours { ("\x1b[97;40m", "\x1b[0m") } else { ("", "") };
    Some(drawn.lines().map(|line| format!("  {begin}{line}{end}\n")).collect())
}

fn indent(text: &str) -> String {
    text.lines().map(|line| format!("    {line}").trim_end().to_owned() + "\n").collect()
}

pub fn name_server(text: &str) -> Result<SocketAddr, String> {
    let with_port = text.parse().or_else(|_| text.parse().map(|ip: IpAddr| SocketAddr::new(ip, 53)));
    with_port.map_err(|_| "expected an address such as 9.9.9.9 or 127.0.0.1:5353".to_owned())
}

/// Days until the links expire.
const DAYS: u64 = 7;
/// The characters of a password that is never shown.
const UNKNOWN_CHARS: usize = 40;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_is_light_where_paper_would_be() {
        let drawn = code("https://example.org/invite/x", false).expect("a code");
        let lines: Vec<&str> = drawn.lines().map(|line| line.trim_start_matches("  ")).collect();
        // The quiet zone above the code is as high as the one at each side is wide.
        assert!(lines[0].chars().all(|c| c == '█'), "{drawn}");
        // The last row of characters may show only one row of the code.
        let whole = lines.iter().take(lines.len() - 1);
        assert!(whole.clone().count() > 10, "{drawn}");
        assert!(whole.clone().all(|line| line.starts_with("████") && line.ends_with("████")), "{drawn}");
        assert!(code("x", true).expect("a code").lines().all(|line| line.ends_with("\x1b[0m")));
    }

    #[test]
    fn name_servers_have_the_port_of_dns_unless_they_say_another() {
        assert_eq!(name_server("9.9.9.9"), Ok("9.9.9.9:53".parse().unwrap()));
        assert_eq!(name_server("::1"), Ok("[::1]:53".parse().unwrap()));
        assert_eq!(name_server("127.0.0.1:5353"), Ok("127.0.0.1:5353".parse().unwrap()));
        assert!(name_server("dns.example").is_err());
    }
}
