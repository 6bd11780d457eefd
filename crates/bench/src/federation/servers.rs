//! Two Rookeries that know each other's address, and trust one authority.

use std::fs;
use std::net::ToSocketAddrs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rookery_client::SessionTerms;
use rookery_sasl::Mechanism;
use rookery_sasl::client::SaltedPasswords;
use rookery_stream::tls::certificate::Authority;
use tempfile::TempDir;

use crate::BenchOutcome;
use crate::engine::LoadTarget;
use crate::engine::Transport;
use crate::port::free_port;
use crate::rookery::{MeasuredServer, Rookery, RookerySetup};

/// The two servers, with their files.
pub struct Two {
    pub one: Rookery,
    pub two: Rookery,
    binary: PathBuf,
    domains: usize,
    _files: TempDir,
}

impl Two {
    /// Starts both, with this number of accounts each; the second also serves many more domains
    /// without accounts.
    pub fn start(binary: &Path, accounts: usize, domains: usize) -> BenchOutcome<Two> {
        let files = tempfile::tempdir()?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
        let authority = Authority::new(now)?;
        let trusted = files.path().join("authority.pem");
        let pem = STANDARD.encode(authority.der());
        fs::write(&trusted, format!("-----BEGIN CERTIFICATE-----\n{pem}\n-----END CERTIFICATE-----\n"))?;
        let ports = [free_port()?, free_port()?];
        let refused = free_port()?;
        let many: Vec<String> = names(domains).collect();
        let own = [vec![ONE.to_owned()], [TWO.to_owned()].into_iter().chain(many).collect()];
        let mut started = Vec::new();
        for (at, name) in [ONE, TWO].into_iter().enumerate() {
            let (Some(own), Some(port), Some(others), Some(other)) =
                (own.get(at), ports.get(at), own.get(1 - at), ports.get(1 - at))
            else {
                continue;
            };
            let issued = authority.issue(&[name.to_owned(), "*.many.test".to_owned()], now)?;
            let (chain, key) = (files.path().join(format!("{name}.pem")), files.path().join(format!("{name}.key")));
            fs::write(&chain, &issued.chain)?;
            fs::write(&key, &issued.key)?;
            let gone = nowhere().map(|domain| (domain, refused));
            let routes = others.iter().map(|domain| (domain.clone(), *other)).chain(gone);
            let routes: Vec<String> = routes.map(|(domain, at)| format!("\"{domain} {at}\"")).collect();
            let domains: Vec<String> = own.iter().map(|domain| format!("\"{domain}\"")).collect();
            let setup = RookerySetup {
                domain: name.to_owned(),
                domains: domains.join(", "),
                listen: format!("s2s = [\"{port}\"]\ns2s_tls = []\n"),
                tables: format!(
                    "[tls]\ncertificate = {chain:?}\nkey = {key:?}\n[federation]\nenabled = true\nbytes_per_second = 0\nstanzas_per_second = 0\ntrusted = [{trusted:?}]\n\
                     allow_private_addresses = true\nroutes = [{}]\n\
                     [modules.strangers]\nreceived_per_minute = 0\nabroad_per_hour = 0\ndomain_messages_per_minute = 0\n",
                    routes.join(", ")
                ),
                contacts: 0,
            };
            started.push(Rookery::start_as(binary, accounts, &setup)?);
        }
        let (Some(two), Some(one)) = (started.pop(), started.pop()) else {
            return Err("two servers are needed".into());
        };
        Ok(Two { one, two, binary: binary.to_owned(), domains, _files: files })
    }

    /// Returns the many domains of the second server.
    pub fn many(&self) -> impl Iterator<Item = String> {
        names(self.domains)
    }

    /// Returns the domains whose server takes no connections.
    pub fn closed_domains(&self) -> impl Iterator<Item = String> {
        nowhere()
    }

    /// Kills the second server and starts it again.
    pub fn start_second_again(&mut self) -> BenchOutcome<()> {
        self.two.start_again(&self.binary)
    }

    /// Asks the first server how many streams to the many domains are ready. Those that are used in
    /// both directions are listed as two.
    pub fn ready_streams(&self) -> BenchOutcome<usize> {
        let mut command = Command::new(&self.binary);
        command.args(["s2s", "list", "--data-dir"]).arg(self.one.data());
        let listed = String::from_utf8(command.output()?.stdout)?;
        Ok(listed.lines().filter(|line| line.contains(".many.test") && line.contains("\tout\tready\t")).count())
    }
}

/// Returns the terms on which clients log in to a server.
pub fn target(server: &MeasuredServer, resource: &str) -> Arc<LoadTarget> {
    Arc::new(LoadTarget {
        transport: Transport::Tcp,
        terms: Arc::new(SessionTerms {
            domain: server.domain.clone(),
            tls: None,
            mechanism: Some(Mechanism::ScramSha1),
            password: server.password.clone(),
            resource: Some(resource.to_owned()),
            register: false,
            cache: SaltedPasswords::new(),
        }),
    })
}

/// Reads a running server: `DOMAIN=HOST:PORT=PID`, without a password.
///
/// # Errors
/// The part that can't be read.
pub fn running(text: &str) -> Result<MeasuredServer, String> {
    let mut parts = text.split('=');
    let (Some(domain), Some(address), Some(pid), None) = (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return Err("DOMAIN=HOST:PORT=PID is wanted".to_owned());
    };
    let address = address.to_socket_addrs().map_err(|error| format!("{address}: {error}"))?.next();
    Ok(MeasuredServer {
        address: address.ok_or("the host has no address")?,
        pid: pid.parse().map_err(|_| format!("{pid:?} isn't a process id"))?,
        domain: domain.to_owned(),
        password: String::new(),
    })
}

fn names(domains: usize) -> impl Iterator<Item = String> {
    (0..domains).map(|number| format!("d{number}.many.test"))
}

fn nowhere() -> impl Iterator<Item = String> {
    (0..NOWHERE).map(|number| format!("d{number}.nowhere.test"))
}

/// The number of domains whose server doesn't exist.
const NOWHERE: usize = 200;
const ONE: &str = "one.test";
const TWO: &str = "two.test";
