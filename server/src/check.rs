//! `rookery check`: checks everything that a start needs, and changes nothing. A start makes the
//! same checks with the same functions, and logs the warnings that don't stop it.

mod events;
mod issuers;
mod logins;
mod outside;
mod proxies;
mod readings;
mod records;
mod report;
mod servers;
mod services;
mod stranger;
mod uploads;

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::ExitCode;

use rookery_store::sql::{Migrations, Severity};
use rookery_web::chat::package::{self, NAME, VERSION};
use rookery_web::health::{DiskFill, Space};
use rustix::fs::{Access, access};
use rustix::process::{Resource, getrlimit};
use tracing::warn;

pub use report::WARNINGS;
use report::{CheckFinding, CheckReport};

use crate::acme;
use crate::arguments::Wishes;
use crate::certificate::{self, WantedCertificate};
use crate::clock;
use crate::columns;
use crate::config::{Environment, ServerConfig, Store};
use crate::control::RunningServer;
use crate::database::{self, OpenedDatabase};
use crate::failure::CommandFailure;
use crate::folder::Folder;
use crate::interface;
use crate::listener;
use crate::loaded::ConfigSource;
use crate::logging::is_coloured;
use crate::welcome::say;

/// Checks everything and reports the findings; with `dns` also the expected records, with `outside`
/// also the view of strangers, with `live` only the running server. Returns the exit code for the
/// grade.
///
/// # Errors
///
/// [`CommandFailure::Failed`] if standard output can't be written.
pub fn run(source: &ConfigSource, wishes: Wishes) -> Result<ExitCode, CommandFailure> {
    let mut report = if wishes.live { live(source) } else { look(source) };
    if let (true, Ok(config)) = (wishes.dns, source.read()) {
        records::look(&mut report, &config);
        issuers::look(&mut report, &config);
    }
    if let (true, Ok(config)) = (wishes.outside, source.read()) {
        outside::look(&mut report, &config, &source.folder, &wishes.name_server);
        if let Some(other) = &wishes.via {
            outside::ask(&mut report, &source.folder, other);
        }
    }
    let has_colours = is_coloured(&io::stdout());
    match wishes.shown.json {
        true => drop(columns::line(&report.json(!wishes.quiet).to_string())?),
        false if wishes.live => say(&report.lines(!wishes.quiet, has_colours)),
        false => say(&report.text(!wishes.quiet, has_colours)),
    }
    Ok(report.exit_code())
}

/// Logs the problems that don't stop a start or a reload: the warnings of a check, except for those
/// that are logged elsewhere.
pub fn tell(source: &ConfigSource, config: &ServerConfig) {
    let mut report = CheckReport::default();
    check_settings(&mut report, source, config);
    for finding in report.warnings() {
        warn!(about = finding.about, "{}", finding.text);
    }
}

/// Asks the server that runs in the folder. Nothing else is checked, so that a supervisor can do
/// this every few seconds.
fn live(source: &ConfigSource) -> CheckReport {
    let mut report = CheckReport::default();
    match RunningServer::in_folder(&source.folder).and_then(|running| running.get("/readiness")) {
        Ok(found) => {
            let words = columns::cell(&found, "state");
            match found["ready"] == true {
                true => report.note(SERVER, words),
                false => report.add_blocked(SERVER, words),
            }
        }
        Err(failure) => report.add_blocked(SERVER, failure.to_string()),
    }
    report
}

fn look(source: &ConfigSource) -> CheckReport {
    let mut report = CheckReport::default();
    let config = source.read();
    match &config {
        Ok(config) => {
            check_settings(&mut report, source, config);
            servers::ask(&mut report, config);
            logins::ask(&mut report, config);
            uploads::ask(&mut report, config);
            ports(&mut report, config, &source.folder);
            readings::devices(&mut report, config);
        }
        Err(error) => {
            for line in error.to_string().lines() {
                report.fault(CONFIGURATION, line.to_owned());
            }
        }
    }
    let before = report.findings.len();
    storage(&mut report, &source.folder, config.as_ref().ok().map(|config| config.store.clone()));
    let has_database = report.findings.iter().skip(before).all(|finding| finding.severity <= Severity::Warning);
    if let Ok(config) = &config {
        cluster(&mut report, config, &source.folder, has_database);
    }
    report
}

/// Checks everything that the configuration and the machine determine for as long as the server
/// runs. A start makes the same checks: it continues despite a warning, but not despite a fault.
fn check_settings(report: &mut CheckReport, source: &ConfigSource, config: &ServerConfig) {
    configuration(report, source, config);
    services::look(report, config);
    certificates(report, config, &source.folder);
    authority(report, config, &source.folder);
    chat_page(report, config, &source.folder);
    logins::look(report, config);
    uploads::look(report, config);
    events::look(report, config, &source.folder);
    proxies::look(report, config);
    servers::look(report, config, &source.folder);
    readings::look(report, config);
    warn_of_exposed(report, source, config);
    open_files(report);
    sockets(report, source, config);
}

fn configuration(report: &mut CheckReport, source: &ConfigSource, config: &ServerConfig) {
    let domains: Vec<_> = config.domains.iter().map(|domain| domain.name.as_str()).collect();
    let from = match &source.config {
        Some(file) => file.display().to_string(),
        None => format!("no file, so the defaults apply ({} would be read)", source.folder.config().display()),
    };
    let variables = Environment::of_process().names().map_or(String::new(), |names| format!("; variables: {names}"));
    report.note(CONFIGURATION, format!("{from}{variables}; domains: {}", domains.join(", ")));
    if config.login.plain_without_tls && config.login.plaintext().is_empty() {
        let text = "login.plain_without_tls has no effect, because login without encryption isn't allowed anywhere: see login.plaintext_loopback and login.plaintext_networks";
        report.warn(CONFIGURATION, text.to_owned());
    }
}

fn certificates(report: &mut CheckReport, config: &ServerConfig, folder: &Folder) {
    for wanted in certificate::wanted_certificates(config, folder) {
        match certificate::read(&wanted) {
            Ok(certificate) if wanted.own && certificate::is_due(&certificate) => due(report, &wanted),
            Ok(certificate) => usable(report, &wanted, &certificate),
            Err(_) if wanted.own => due(report, &wanted),
            Err(error) => report.fault(CERTIFICATE, error.to_string()),
        }
    }
}

/// Reports what can be checked here about the chances of getting certificates from an authority
/// (ACME).
fn authority(report: &mut CheckReport, config: &ServerConfig, folder: &Folder) {
    let acme = &config.acme;
    if !acme.enabled {
        return report.note(ACME, "off: see [tls.acme]".to_owned());
    }
    let wanted = acme::wanted_certificates(config);
    if wanted.is_empty() {
        return report
            .warn(ACME, "on, but every domain has certificate files, or none is listed in `domains`".to_owned());
    }
    for acme::WantedNames { domain, names } in &wanted {
        let state = if folder.issued_file(domain).is_file() { "there" } else { "the running server obtains it" };
        report.note(ACME, format!("{} for {}: {state}", acme.directory, names.join(", ")));
        if let Some(local) = names.iter().find(|name| !name.contains('.')) {
            report.warn(
                ACME,
                format!("{local} is a name that only this machine or network knows: no authority can reach it"),
            );
        }
    }
    if !config.listen.web.iter().any(|address| address.port() == 80) {
        let addresses: Vec<String> = config.listen.web.iter().map(ToString::to_string).collect();
        let addresses = addresses.join(", ");
        report.warn(
            ACME,
            format!(
                "the authority connects to port 80 of each name, which has to lead to {addresses} (`web` in [listen])"
            ),
        );
    }
}

fn chat_page(report: &mut CheckReport, config: &ServerConfig, folder: &Folder) {
    let is_served = !(config.listen.web.is_empty() && config.listen.web_tls.is_empty());
    let text = match (config.web.chat && is_served, package::installed_folder(folder.path()).is_some()) {
        (false, _) if !is_served => {
            "off: there is no port for browsers, see `web` and `web_tls` in [listen]".to_owned()
        }
        (false, _) => "off: see `chat` in [web]".to_owned(),
        (true, true) => format!("/chat serves {NAME} {VERSION}"),
        (true, false) => format!("/chat isn't installed: `rookery web install` downloads {NAME} {VERSION}"),
    };
    report.note(CHAT, text);
}

fn due(report: &mut CheckReport, wanted: &WantedCertificate) {
    let domains = wanted.domains.join(", ");
    report.note(
        CERTIFICATE,
        format!("the next start creates a self-signed one for {domains}; clients will ask whether to trust it"),
    );
}

fn usable(report: &mut CheckReport, wanted: &WantedCertificate, certificate: &certificate::ServerCertificate) {
    let (file, seen) = (wanted.certificate.display(), &certificate.inspection);
    let until = clock::date(seen.not_after);
    let mend = "renew it, then reload the server";
    match clock::days_until(seen.not_after) {
        ..0 => report.warn(CERTIFICATE, format!("{file} has expired on {until}: clients refuse to connect; {mend}")),
        days if certificate::ends_soon(seen) => {
            report.warn(CERTIFICATE, format!("{file} expires in {days} days, on {until}; {mend}"));
        }
        _ => report.note(CERTIFICATE, format!("{file} for {}, until {until}", wanted.domains.join(", "))),
    }
    if seen.not_before > clock::now() as i64 {
        let from = clock::date(seen.not_before);
        report.warn(CERTIFICATE, format!("{file} is valid only from {from} on; check this machine's clock"));
    }
    for domain in wanted.domains.iter().filter(|domain| !seen.covers(domain)) {
        let names = seen.names.join(", ");
        report.warn(CERTIFICATE, format!("{file} is for {names}, not for {domain}; give [domain.{domain:?}] its own"));
    }
    if seen.self_signed && !wanted.own {
        report.warn(CERTIFICATE, format!("{file} is self-signed; clients will ask whether to trust it"));
    }
    let readable = fs::metadata(&wanted.key).is_ok_and(|key| key.permissions().mode() & 0o004 != 0);
    if readable {
        let key = wanted.key.display();
        report
            .warn(CERTIFICATE, format!("everybody on this machine can read the private key {key}; `chmod o-r {key}`"));
    }
}

fn ports(report: &mut CheckReport, config: &ServerConfig, folder: &Folder) {
    if let Some(pid) = folder.running() {
        report.note(PORTS, format!("the server is running (process {pid}), so they were not tried"));
        return;
    }
    for (address, kind) in listener::wanted_addresses(config) {
        match listener::bind_one(address, kind) {
            Ok(listener) => report.note(PORTS, format!("{} is free ({kind})", listener.address)),
            Err(error) => port(report, &error, listener::explain_bind(address, &error)),
        }
    }
    readings::ports(report, config);
}

/// Reports an address that can't be used.
fn port(report: &mut CheckReport, error: &io::Error, text: String) {
    match listener::may_pass(error) {
        true => report.add_blocked(PORTS, text),
        false => report.fault(PORTS, text),
    }
}

/// Reports on the Redis of a cluster and, if the database can be read, on the other nodes.
fn cluster(report: &mut CheckReport, config: &ServerConfig, folder: &Folder, has_database: bool) {
    let Some(settings) = crate::cluster::settings(config) else { return };
    // A check changes nothing, so a database whose schema the next start would change isn't read.
    let store = Store { migrations: Migrations::Never, ..config.store.clone() };
    let database = has_database.then(|| OpenedDatabase::open_patiently(folder, &store).ok()).flatten();
    let found = rookery_cluster::check(&settings, database.as_ref().map(|database| &*database.stores.meta));
    report.findings.extend(found.into_iter().map(|found| CheckFinding {
        severity: found.severity,
        about: REDIS,
        text: found.text,
    }));
    if let Some(database) = database {
        database.close();
    }
}

/// Looks at the data folder and the database, which isn't known without a configuration.
fn storage(report: &mut CheckReport, folder: &Folder, store: Option<Store>) {
    let path = folder.path();
    if fs::metadata(path).is_ok_and(|found| !found.is_dir()) {
        let path = path.display();
        report.fault(STORAGE, format!("{path} is a file, not a folder; name another data folder with --data-dir"));
        return;
    }
    if folder.restoring().exists() {
        report.fault(STORAGE, folder.half_restored());
    }
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    // Before the first start, the nearest existing folder above must be writable.
    let Some(there) = absolute.ancestors().find(|path| path.is_dir()) else { return };
    if let Err(error) = access(there, Access::WRITE_OK | Access::EXEC_OK) {
        let there = there.display();
        report.fault(
            STORAGE,
            format!("the server can't write to {there}: {error}; give the folder to the server's user"),
        );
    }
    room(report, there);
    let Some(store) = store else {
        return report.note(STORAGE, "the database wasn't checked, because the configuration can't be read".to_owned());
    };
    let database = match database::address(folder, &store) {
        Ok(database) => database,
        Err(error) => return report.fault(STORAGE, error.to_string()),
    };
    let found = database.check().into_iter();
    report.findings.extend(found.map(|found| CheckFinding {
        severity: found.severity,
        about: STORAGE,
        text: found.text,
    }));
}

/// Warns about files that others can read.
fn warn_of_exposed(report: &mut CheckReport, source: &ConfigSource, config: &ServerConfig) {
    let path = source.folder.path();
    if let Ok(found) = fs::metadata(path)
        && found.permissions().mode() & 0o007 != 0
    {
        let path = path.display();
        report.warn(STORAGE, format!("everybody on this machine can look into {path}; `chmod 700 {path}`"));
    }
    if database::address(&source.folder, &config.store).is_ok_and(|database| database.is_exposed()) {
        report.warn(STORAGE, "tls is \"off\" under [store]: everything is sent to the database unencrypted".to_owned());
    }
}

/// Reports on the free space of a folder's disk, which a running server watches.
fn room(report: &mut CheckReport, folder: &Path) {
    let Ok(space) = Space::of(folder) else { return };
    match space.fill() {
        DiskFill::Fine => report.note(STORAGE, format!("the disk has {space}")),
        DiskFill::Low => {
            report.warn(STORAGE, format!("the disk is nearly full ({space}): make room, or move the data folder"))
        }
        DiskFill::Full => {
            report.warn(
                STORAGE,
                format!("the disk is full ({space}): nothing can be stored; make room, or move the data folder"),
            );
        }
    }
}

/// Reports on the limit of open files, of which each connection is one.
fn open_files(report: &mut CheckReport) {
    // The server raises its own limit to the maximum.
    match getrlimit(Resource::Nofile).maximum {
        Some(files) if files < FEW_FILES => report.warn(
            OPEN_FILES,
            format!("the limit of {files} allows few connections; raise it: LimitNOFILE= of systemd, or `ulimit -n`"),
        ),
        Some(files) => report.note(OPEN_FILES, format!("up to {files}, about as many connections")),
        None => report.note(OPEN_FILES, "no limit".to_owned()),
    }
}

/// Reports on the interface by which shards wait for their sockets.
fn sockets(report: &mut CheckReport, source: &ConfigSource, config: &ServerConfig) {
    match interface::settle(source, config) {
        Ok(interface) => report.note(SOCKETS, format!("by {}: see `io`", interface.name())),
        Err(error) => report.fault(SOCKETS, error.to_string()),
    }
}

const CONFIGURATION: &str = "configuration";
const CERTIFICATE: &str = "certificate";
const SERVER: &str = "server";
const PORTS: &str = "ports";
const REDIS: &str = "redis";
const STORAGE: &str = "storage";
const ACME: &str = "authority";
const CHAT: &str = "chat page";
const MODULES: &str = "modules";
const EVENTS: &str = "events";
const UPLOADS: &str = "uploads";
const PROXIES: &str = "proxies";
const OPEN_FILES: &str = "open files";
const SOCKETS: &str = "sockets";

/// The limit below which a server for more than a household runs out of files.
const FEW_FILES: u64 = 4096;
