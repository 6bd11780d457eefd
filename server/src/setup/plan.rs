//! The plan: paths, free ports, the text of the configuration.

use std::fmt::Write as _;
use std::fs;
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};

use rookery_jid::Jid;

use super::calls::CallsPlan;
use super::{SetupWishes, machine};
use crate::config::{ConfigError, ServerConfig};
use crate::failure::CommandFailure;
use crate::folder::Folder;
use crate::listener::{self, PortKind};
use crate::loaded::{ConfigSource, DATA_DIR, SERVICE_CONFIG, SERVICE_DATA};
use crate::welcome::quote;

/// Everything that is to be created, before any of it is.
pub struct SetupPlan {
    /// The administrator.
    pub admin: Jid,
    /// The path of the configuration.
    pub file: PathBuf,
    /// The data folder.
    pub folder: Folder,
    /// True if systemd is to run the server, as a user of its own.
    pub is_service: bool,
    /// The binary.
    pub program: PathBuf,
    /// The text of the configuration.
    pub text: String,
    /// The relay for calls, if there is to be one.
    pub calls: Option<CallsPlan>,
    /// The parsed configuration.
    pub config: ServerConfig,
    /// The public addresses of this machine; none if only a router knows them.
    pub addresses: Vec<IpAddr>,
    certificate: &'static str,
}

impl SetupPlan {
    /// Plans the setup.
    ///
    /// # Errors
    ///
    /// [`CommandFailure::Failed`] if a name is wrong, or a service can't run the binary at its
    /// path.
    pub fn of(source: &ConfigSource, wishes: &SetupWishes) -> Result<SetupPlan, CommandFailure> {
        let domain = domain(&wishes.domain)?;
        let admin = administrator(&wishes.admin, &domain)?;
        let program = std::env::current_exe().map_err(|error| CommandFailure::Failed(error.to_string()))?;
        let is_named = source.config.is_some() || source.folder.path() != Path::new(DATA_DIR);
        let is_service = !is_named && machine::has_services();
        let (file, folder) = match is_service {
            true => (PathBuf::from(SERVICE_CONFIG), Folder::new(SERVICE_DATA.into())),
            false => (source.config.clone().unwrap_or_else(|| source.folder.config()), source.folder.clone()),
        };
        if is_service && HIDDEN.iter().any(|hidden| program.starts_with(hidden)) {
            let program = program.display();
            return Err(CommandFailure::Failed(format!(
                "a service can't run {program}, since it sees no home folders: `install {program} /usr/local/bin/rookery`, then run \
                 `/usr/local/bin/rookery setup {domain}`"
            )));
        }
        let (challenges, https) = (is_free(80), is_free(443));
        let issues = is_public_name(&domain) && challenges == PlannedPort::Free;
        let certificate = certificate_words(&domain, challenges);
        let services = if wishes.federation { with_addresses(&domain)? } else { Vec::new() };
        let mut text = text(&domain, issues, https == PlannedPort::Free, wishes.federation, &services);
        let addresses =
            if wishes.addresses.is_empty() { machine::public_addresses() } else { wishes.addresses.clone() };
        let calls = wishes.calls.then(|| CallsPlan::of(&domain, &file, &addresses)).transpose()?;
        text.push_str(calls.as_ref().map_or("", |calls| &calls.table));
        let config = read(&text)?;
        Ok(SetupPlan { admin, file, folder, is_service, program, text, calls, config, addresses, certificate })
    }

    /// Refuses to continue if a server is set up already.
    ///
    /// # Errors
    ///
    /// [`CommandFailure::Failed`] with the remedy.
    pub fn refuse_what_is_there(&self) -> Result<(), CommandFailure> {
        let (file, domain) = (self.file.display(), self.admin.domain());
        match fs::read_to_string(&self.file) {
            Ok(text) if text.lines().all(|line| line.trim().is_empty() || line.starts_with('#')) => {}
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(CommandFailure::file(&self.file, &error)),
            Ok(_) => {
                let options = self.options();
                return Err(CommandFailure::Failed(format!(
                    "{file} already exists and is left alone: a server has been set up. `rookery check{options}` checks it; for \
                     {domain} as well, add it to `domains` there; to begin again, move the file away"
                )));
            }
        }
        match self.folder.running() {
            Some(pid) => Err(CommandFailure::Failed(format!(
                "a server (process {pid}) is already running in {}: stop it, then run this again",
                self.folder.path().display()
            ))),
            None => Ok(()),
        }
    }

    /// Returns a list of all paths; `done` describes the state of the configuration.
    pub fn words(&self, done: &str) -> String {
        let mut text = format!("Rookery for {}\n\n", self.admin.domain());
        let mut row = |name: &str, value: String| {
            // Writing to a string can't fail.
            let _ = writeln!(text, "  {name:<15}{value}");
        };
        let whole = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned()).display().to_string();
        row("Configuration", format!("{} ({done})", whole(&self.file)));
        if let Some(calls) = &self.calls {
            row("Calls", format!("{} ({done})", whole(&calls.file)));
        }
        row("Data", whole(self.folder.path()));
        if self.is_service {
            row("Service", format!("{}, as the user {}", machine::unit_file(), crate::owner::USER));
        }
        row("Certificate", self.certificate.to_owned());
        row("Administrator", self.admin.to_string());
        text
    }

    /// Returns the command that starts the server.
    pub fn start_words(&self) -> String {
        match self.is_service {
            true => "systemctl enable --now rookery".to_owned(),
            false => format!("{}{}", quote(&self.program), self.options()),
        }
    }

    /// Returns the options by which other commands find the server.
    pub fn options(&self) -> String {
        let mut options = String::new();
        // Writing to a string can't fail.
        if self.folder.path() != Path::new(DATA_DIR) && !self.is_service {
            let _ = write!(options, " --data-dir {}", quote(self.folder.path()));
        }
        if self.file != self.folder.config() && !self.is_service {
            let _ = write!(options, " --config {}", quote(&self.file));
        }
        options
    }

    /// Returns the ports that have to be reachable from outside.
    pub fn ports_words(&self) -> String {
        let open = listener::wanted_addresses(&self.config).filter(|(address, _)| !address.ip().is_loopback());
        let mut ports: Vec<(u16, PortKind)> = open.map(|(address, kind)| (address.port(), kind)).collect();
        ports.sort_unstable_by_key(|(port, _)| *port);
        let words: Vec<_> = ports.iter().map(|(port, kind)| format!("{port} ({kind})")).collect();
        words.join(", ")
    }
}

/// Parses the domain.
fn domain(text: &str) -> Result<String, CommandFailure> {
    let wrong = |reason: String| CommandFailure::Failed(format!("{text:?} isn't a domain like example.org: {reason}"));
    let domain = rookery_jid::prepare_domain(text).map_err(|error| wrong(error.to_string()))?.into_owned();
    if domain.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>().is_ok() {
        return Err(wrong("it is an IP address, which you can't move to another machine".to_owned()));
    }
    match crate::acme::ascii(&domain) {
        Some(_) => Ok(domain),
        None => Err(wrong("DNS has no such names".to_owned())),
    }
}

/// Parses the administrator: a name in the domain, or an address there.
fn administrator(name: &str, domain: &str) -> Result<Jid, CommandFailure> {
    let address = if name.contains('@') { name.to_owned() } else { format!("{name}@{domain}") };
    let jid = crate::user::address(&address).map_err(CommandFailure::Failed)?;
    match jid.domain() == domain {
        true => Ok(jid),
        false => {
            Err(CommandFailure::Failed(format!("{jid} is not an address in {domain}: --admin takes a name there")))
        }
    }
}

/// The state of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PlannedPort {
    Free,
    Taken,
    Forbidden,
}

fn is_free(port: u16) -> PlannedPort {
    match listener::bind_one(SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), port), PortKind::Web) {
        Ok(_) => PlannedPort::Free,
        Err(error) if error.kind() == ErrorKind::AddrInUse => PlannedPort::Taken,
        Err(_) => PlannedPort::Forbidden,
    }
}

/// Returns whether an authority could reach a name: it isn't a local one, or one of those that are
/// reserved (RFC 2606, RFC 6762, RFC 8375).
fn is_public_name(domain: &str) -> bool {
    let last = domain.rsplit_once('.').map(|(_, last)| last);
    last.is_some_and(|last| {
        !["local", "localhost", "internal", "lan", "arpa", "test", "invalid", "example"].contains(&last)
    })
}

fn certificate_words(domain: &str, challenges: PlannedPort) -> &'static str {
    match challenges {
        _ if !is_public_name(domain) => {
            "self-signed, because no authority can reach this name; clients will ask whether to trust it"
        }
        PlannedPort::Free => {
            "from Let's Encrypt, soon after DNS points here (by this you agree to its terms: see [tls.acme])"
        }
        PlannedPort::Taken => {
            "self-signed, because another program has port 80, which an authority would connect to; see [tls.acme]"
        }
        PlannedPort::Forbidden => {
            "self-signed, because this user can't open port 80, which an authority would connect to; see [tls.acme]"
        }
    }
}

/// Returns the modules that have addresses of their own by default.
fn with_addresses(domain: &str) -> Result<Vec<&'static str>, CommandFailure> {
    let config = read(&format!("domains = [{domain:?}]\n"))?;
    let domain = config.domains.first();
    let modules = domain.into_iter().flat_map(|domain| domain.modules.keys().map(move |module| (domain, *module)));
    Ok(modules.filter(|(domain, module)| domain.service(module).is_some()).map(|(_, module)| module).collect())
}

/// Returns the configuration: only what differs from the defaults.
fn text(domain: &str, issues: bool, https: bool, federation: bool, services: &[&str]) -> String {
    let mut text = format!(
        "# By `rookery setup`. `rookery config example` has every key with its default.\ndomains = [{domain:?}]\n"
    );
    if federation {
        text.push_str("federation.enabled = true\n");
    }
    let mut table = |name: &str, lines: &[String]| {
        if !lines.is_empty() {
            // Writing to a string can't fail.
            let _ = writeln!(text, "\n[{name}]\n{}", lines.join("\n"));
        }
    };
    let mut listen = Vec::new();
    if issues {
        listen.push("web = [\"[::]:80\", \"127.0.0.1:5280\"]".to_owned());
    }
    if https {
        listen.push("web_tls = [\"[::]:443\"]".to_owned());
    }
    table("listen", &listen);
    if issues {
        let services = (!services.is_empty()).then(|| format!("services = {services:?}"));
        table("tls.acme", &std::iter::once("enabled = true".to_owned()).chain(services).collect::<Vec<_>>());
    }
    text
}

/// Parses the text that was written, by the rules of every start.
fn read(text: &str) -> Result<ServerConfig, CommandFailure> {
    let modules = rookery_modules::table(&rookery_modules::Shared::default());
    let config = ServerConfig::parse(text, &modules);
    config.map_err(|wrongs| ConfigError::in_text(Path::new(SERVICE_CONFIG), text, wrongs).into())
}

/// Folders that the unit hides from the server.
const HIDDEN: [&str; 3] = ["/home", "/root", "/tmp"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_configuration_is_short_and_good_whatever_the_machine_allows() {
        for federation in [false, true] {
            let services = if federation { with_addresses("a.example").expect("modules") } else { vec![] };
            for (issues, https) in [(false, false), (false, true), (true, false), (true, true)] {
                let text = text("a.example", issues, https, federation, &services);
                assert!(text.lines().count() <= 15, "{text}");
                let config = read(&text).unwrap_or_else(|failure| panic!("{failure}:\n{text}"));
                assert_eq!(config.domains[0].name, "a.example");
                assert_eq!((config.acme.enabled, config.federation.enabled), (issues, federation));
                assert_eq!(config.acme.services.is_empty(), !(issues && federation), "{text}");
                assert_eq!(config.listen.web.iter().any(|address| address.port() == 80), issues);
                assert_eq!(config.listen.web_tls[0].port(), if https { 443 } else { 5443 });
                assert!(config.domains[0].modules["register"].enabled);
            }
        }
    }

    #[test]
    fn an_administrator_is_in_the_domain() {
        assert_eq!(administrator("Anna", "a.example").expect("a name").to_string(), "anna@a.example");
        assert_eq!(administrator("anna@a.example", "a.example").expect("one").to_string(), "anna@a.example");
        for wrong in ["anna@b.example", "a b", "", "anna@a.example/x"] {
            assert!(administrator(wrong, "a.example").is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_domain_is_a_name_of_dns() {
        assert_eq!(domain("Example.ORG").expect("a domain"), "example.org");
        assert_eq!(domain("localhost").expect("a domain"), "localhost");
        for wrong in ["192.0.2.1", "[::1]", "a b", "", "anna@example.org", "a/b"] {
            assert!(domain(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn authorities_are_asked_for_names_that_the_world_has() {
        for (name, public) in [("example.org", true), ("localhost", false), ("nas.local", false), ("a.test", false)] {
            assert_eq!(is_public_name(name), public, "{name}");
        }
    }
}
