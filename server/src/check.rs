//! `rookery check`: looks everything over that a start needs, and changes nothing.

mod proxies;
mod records;
mod servers;

use std::fmt;
use std::fs;
use std::net::{TcpListener, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use rookery_store::sqlite::Severity;
use rookery_web::chat::package::{self, NAME, VERSION};
use rookery_web::health::{Fill, Space};
use rustix::process::{Resource, getrlimit};

use crate::acme;
use crate::certificate::{self, WantedCertificate};
use crate::clock;
use crate::config::{Config, Store};
use crate::database;
use crate::dpm;
use crate::failure::Failure;
use crate::folder::Folder;
use crate::listener;
use crate::loaded::Source;
use crate::welcome::say;

/// Checks everything and says what it found, with `dns` also of the records that there should be.
///
/// # Errors
///
/// [`Failure::Told`] if the server wouldn't start.
pub fn run(source: &Source, dns: bool) -> Result<(), Failure> {
    let mut report = look(source);
    if let (true, Ok(config)) = (dns, source.read()) {
        records::look(&mut report, &config);
    }
    let mut text: String = report.lines.iter().map(|line| format!("{line}\n")).collect();
    let count = |severity| report.lines.iter().filter(|line| line.severity == severity).count();
    let (faults, warnings) = (count(Severity::Fault), count(Severity::Warning));
    text.push_str(&match (faults, warnings) {
        (0, 0) => "everything is fine\n".to_owned(),
        (0, warnings) => format!("the server will start; warnings: {warnings}\n"),
        (faults, warnings) => {
            format!("the server will not start or will fail; faults: {faults}, warnings: {warnings}\n")
        }
    });
    say(&text);
    if faults > 0 { Err(Failure::Told) } else { Ok(()) }
}

/// The findings so far.
#[derive(Default)]
struct Report {
    lines: Vec<ReportLine>,
}

struct ReportLine {
    severity: Severity,
    about: &'static str,
    text: String,
}

impl fmt::Display for ReportLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let severity = match self.severity {
            Severity::Note => "ok",
            Severity::Warning => "warning",
            Severity::Fault => "fault",
        };
        write!(f, "{severity:<8} {:<14} {}", self.about, self.text)
    }
}

impl Report {
    fn note(&mut self, about: &'static str, text: String) {
        self.lines.push(ReportLine { severity: Severity::Note, about, text });
    }

    fn warn(&mut self, about: &'static str, text: String) {
        self.lines.push(ReportLine { severity: Severity::Warning, about, text });
    }

    fn fault(&mut self, about: &'static str, text: String) {
        self.lines.push(ReportLine { severity: Severity::Fault, about, text });
    }
}

fn look(source: &Source) -> Report {
    let mut report = Report::default();
    match source.read() {
        Ok(config) => {
            configuration(&mut report, source, &config);
            certificates(&mut report, &config, &source.folder);
            authority(&mut report, &config, &source.folder);
            chat_page(&mut report, &config, &source.folder);
            proxies::look(&mut report, &config);
            servers::look(&mut report, &config, &source.folder);
            ports(&mut report, &config, &source.folder);
            devices(&mut report, &config);
        }
        Err(error) => {
            for line in error.to_string().lines() {
                report.fault(CONFIGURATION, line.to_owned());
            }
        }
    }
    storage(&mut report, &source.folder, source.read().map(|config| config.store).unwrap_or_default());
    open_files(&mut report);
    report
}

fn configuration(report: &mut Report, source: &Source, config: &Config) {
    let domains: Vec<_> = config.domains.iter().map(|domain| domain.name.as_str()).collect();
    let from = match &source.config {
        Some(file) => file.display().to_string(),
        None => format!("no file, the defaults hold ({} would be read)", source.folder.config().display()),
    };
    report.note(CONFIGURATION, format!("{from}; domains: {}", domains.join(", ")));
    if config.login.plain_without_tls && config.login.plaintext().is_empty() {
        let text = "login.plain_without_tls has no effect: login without encryption is allowed nowhere, see \
                    login.plaintext_loopback and login.plaintext_networks";
        report.warn(CONFIGURATION, text.to_owned());
    }
}

fn certificates(report: &mut Report, config: &Config, folder: &Folder) {
    for wanted in certificate::wanted(config, folder) {
        match certificate::read(&wanted) {
            Ok(certificate) if wanted.own && certificate::is_due(&certificate) => due(report, &wanted),
            Ok(certificate) => usable(report, &wanted, &certificate),
            Err(_) if wanted.own => due(report, &wanted),
            Err(error) => report.fault(CERTIFICATE, error.to_string()),
        }
    }
}

/// Reports what can be seen from here of whether an authority will give certificates out (ACME).
fn authority(report: &mut Report, config: &Config, folder: &Folder) {
    let acme = &config.acme;
    if !acme.enabled {
        return report.note(ACME, "off: see [tls.acme]".to_owned());
    }
    let wanted = acme::wanted(config);
    if wanted.is_empty() {
        return report
            .warn(ACME, "on, but every domain has files of its own, or none is named in `domains`".to_owned());
    }
    for acme::WantedNames { domain, names } in &wanted {
        let state = if folder.issued(domain).is_file() { "there" } else { "the running server gets it" };
        report.note(ACME, format!("{} for {}: {state}", acme.directory, names.join(", ")));
        if let Some(local) = names.iter().find(|name| !name.contains('.')) {
            report.warn(ACME, format!("{local} is a name of this machine or network alone: no authority can reach it"));
        }
    }
    if !config.listen.web.iter().any(|address| address.port() == 80) {
        let addresses: Vec<String> = config.listen.web.iter().map(ToString::to_string).collect();
        let addresses = addresses.join(", ");
        report.warn(
            ACME,
            format!("the authority comes to port 80 of each name; it has to be led to {addresses} (`web` in [listen])"),
        );
    }
}

fn chat_page(report: &mut Report, config: &Config, folder: &Folder) {
    let is_served = !(config.listen.web.is_empty() && config.listen.web_tls.is_empty());
    let text = match (config.web.chat && is_served, package::folder(folder.path()).is_dir()) {
        (false, _) if !is_served => "off: no port is for browsers, see `web` and `web_tls` in [listen]".to_owned(),
        (false, _) => "off: see `chat` in [web]".to_owned(),
        (true, true) => format!("/chat serves {NAME} {VERSION}"),
        (true, false) => format!("/chat is not installed: `rookery web install` gets {NAME} {VERSION}"),
    };
    report.note(CHAT, text);
}

fn due(report: &mut Report, wanted: &WantedCertificate) {
    let domains = wanted.domains.join(", ");
    report.note(
        CERTIFICATE,
        format!("the next start makes a self-signed one for {domains}; clients will ask whether to trust it"),
    );
}

fn usable(report: &mut Report, wanted: &WantedCertificate, certificate: &certificate::Certificate) {
    let (file, seen) = (wanted.certificate.display(), &certificate.inspection);
    let until = clock::date(seen.not_after);
    let mend = "renew it, then reload the server";
    match clock::days_until(seen.not_after) {
        ..0 => report.fault(CERTIFICATE, format!("{file} has expired on {until}: clients refuse to connect; {mend}")),
        days if certificate::ends_soon(seen) => {
            report.warn(CERTIFICATE, format!("{file} expires in {days} days, on {until}; {mend}"));
        }
        _ => report.note(CERTIFICATE, format!("{file} for {}, until {until}", wanted.domains.join(", "))),
    }
    if seen.not_before > clock::now() as i64 {
        let from = clock::date(seen.not_before);
        report.fault(CERTIFICATE, format!("{file} is valid only from {from} on; is this machine's clock right?"));
    }
    for domain in wanted.domains.iter().filter(|domain| !seen.covers(domain)) {
        let names = seen.names.join(", ");
        report.fault(CERTIFICATE, format!("{file} is for {names}, not for {domain}; give [domain.{domain:?}] its own"));
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

fn ports(report: &mut Report, config: &Config, folder: &Folder) {
    if let Some(pid) = folder.running() {
        report.note(PORTS, format!("the server is running (process {pid}), so they were not tried"));
        return;
    }
    for (address, kind) in listener::wanted(config) {
        match listener::bind_one(address, kind) {
            Ok(listener) => report.note(PORTS, format!("{} is free ({kind})", listener.address)),
            Err(error) => report.fault(PORTS, listener::refused(address, &error)),
        }
    }
    if config.dpm.enabled {
        let front_ends = dpm::front_ends(&config.dpm);
        for address in &config.dpm.listen {
            match TcpListener::bind(address) {
                Ok(_) => report.note(PORTS, format!("{address} is free (DPM)")),
                Err(error) => report.fault(PORTS, dpm::refused(*address, "listen", &error)),
            }
        }
        match UdpSocket::bind(front_ends) {
            Ok(_) => report.note(PORTS, format!("{front_ends} is free (front-ends)")),
            Err(error) => report.fault(PORTS, dpm::refused(front_ends, "front_ends", &error)),
        }
        match config.dpm.grpc.map(|grpc| (grpc, TcpListener::bind(grpc))) {
            Some((grpc, Err(error))) => report.fault(PORTS, format!("dpm.grpc: {grpc} can't be listened on: {error}")),
            Some((grpc, Ok(_))) => report.note(PORTS, format!("{grpc} (gRPC) is free")),
            None => {}
        }
    }
}

/// Reports on the device database.
fn devices(report: &mut Report, config: &Config) {
    if !config.dpm.enabled {
        return;
    }
    match dpm::database(&config.dpm) {
        Ok(database) => {
            let (devices, nodes) = (database.devices().len(), database.nodes().len());
            report.note(DEVICES, format!("{devices} on {nodes} front-ends"));
        }
        Err(error) => report.fault(DEVICES, error.to_string()),
    }
}

fn storage(report: &mut Report, folder: &Folder, store: Store) {
    let path = folder.path();
    if fs::metadata(path).is_ok_and(|found| !found.is_dir()) {
        let path = path.display();
        report.fault(STORAGE, format!("{path} is a file, not a folder; name another data folder with --data-dir"));
        return;
    }
    if let Ok(found) = fs::metadata(path)
        && found.permissions().mode() & 0o007 != 0
    {
        let path = path.display();
        report.warn(STORAGE, format!("everybody on this machine can look into {path}; `chmod 700 {path}`"));
    }
    room(report, path);
    let database = match database::address(folder, &store) {
        Ok(database) => database,
        Err(error) => return report.fault(STORAGE, error.to_string()),
    };
    if database.is_exposed() {
        report.warn(STORAGE, "tls is \"off\" under [store]: all is sent to the database in the clear".to_owned());
    }
    let findings = database.check();
    for finding in findings {
        report.lines.push(ReportLine { severity: finding.severity, about: STORAGE, text: finding.text });
    }
}

/// Reports on the room that the disk has; before the first start, that of the folder above.
fn room(report: &mut Report, folder: &Path) {
    let absolute = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
    let Some(Ok(space)) = absolute.ancestors().find(|path| path.is_dir()).map(Space::of) else { return };
    match space.fill() {
        Fill::Fine => report.note(STORAGE, format!("the disk has {space}")),
        Fill::Low => {
            report.warn(STORAGE, format!("the disk is nearly full ({space}): make room, or move the data folder"))
        }
        Fill::Full => {
            report.fault(
                STORAGE,
                format!("the disk is full ({space}): nothing can be stored; make room, or move the data folder"),
            );
        }
    }
}

/// Reports on the limit of open files: a connection is one.
fn open_files(report: &mut Report) {
    // The server raises its own to what it may have.
    match getrlimit(Resource::Nofile).maximum {
        Some(files) if files < FEW_FILES => report.warn(
            OPEN_FILES,
            format!("the limit of {files} allows few connections; raise it: LimitNOFILE= of systemd, or `ulimit -n`"),
        ),
        Some(files) => report.note(OPEN_FILES, format!("up to {files}, about as many connections")),
        None => report.note(OPEN_FILES, "no limit".to_owned()),
    }
}

const CONFIGURATION: &str = "configuration";
const CERTIFICATE: &str = "certificate";
const PORTS: &str = "ports";
const DEVICES: &str = "devices";
const STORAGE: &str = "storage";
const ACME: &str = "authority";
const CHAT: &str = "chat page";
const PROXIES: &str = "proxies";
const OPEN_FILES: &str = "open files";

/// Below it, a server for more than a household runs out.
const FEW_FILES: u64 = 4096;
