//! Certificates: the operator's own, those from an ACME authority (see [`acme`]), and the
//! self-signed one for domains that have no other.
//!
//! # Invariants
//!
//! - Files that the operator named are read, never written.
//! - The self-signed certificate covers exactly the domains that have no other, and is created
//!   again when these change.

use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use rookery_stream::tls::Identity;
use rookery_stream::tls::certificate::{Inspection, inspect, self_signed};

use crate::acme;
use crate::clock;
use crate::config::{ConfigError, ServerConfig};
use crate::failure::CommandFailure;
use crate::folder::{self, Folder};

/// A certificate that the server shows, and its domains.
#[derive(Debug)]
pub struct ServerCertificate {
    /// Chain, key and domains.
    pub identity: Identity,
    /// The domains it is shown for.
    pub domains: Vec<String>,
    /// The file that the chain was read from, for messages to the operator.
    pub file: PathBuf,
    /// The facts about the certificate that matter here.
    pub inspection: Inspection,
    /// True if it is the self-signed one that the server creates.
    pub own: bool,
    /// True if it was just created.
    pub made: bool,
}

/// The files of one certificate, and the domains to show it for.
#[derive(Debug, PartialEq, Eq)]
pub struct WantedCertificate {
    /// The chain.
    pub certificate: PathBuf,
    /// The file of the private key, PEM.
    pub key: PathBuf,
    /// The domains, prepared.
    pub domains: Vec<String>,
    /// The addresses of their services: it is shown for those that it contains.
    pub services: Vec<String>,
    /// True if it is the self-signed one.
    pub own: bool,
}

/// Returns the certificates in a configuration, that of the default domain first.
pub fn wanted_certificates(config: &ServerConfig, folder: &Folder) -> Vec<WantedCertificate> {
    let mut all: Vec<WantedCertificate> = Vec::new();
    for domain in &config.domains {
        let (certificate, key, own) = match config.files_of(domain) {
            Some((certificate, key)) => (certificate.to_owned(), key.to_owned(), false),
            None => match acme::issued_file(config, folder, domain) {
                Some(file) => (file.clone(), file, false),
                None => (folder.certificate(), folder.key(), true),
            },
        };
        match all.iter_mut().find(|wanted| wanted.certificate == certificate && wanted.key == key) {
            Some(wanted) => {
                wanted.domains.push(domain.name.clone());
                wanted.services.extend(domain.services());
            }
            None => {
                let (domains, services) = (vec![domain.name.clone()], domain.services().collect());
                all.push(WantedCertificate { certificate, key, domains, services, own });
            }
        }
    }
    all
}

/// Reads every certificate in a configuration; creates the self-signed one if it is due.
///
/// # Errors
///
/// [`CommandFailure::Config`] for files of the operator that can't be used,
/// [`CommandFailure::Failed`] if the self-signed one can't be written.
pub fn load(config: &ServerConfig, folder: &Folder) -> Result<Vec<ServerCertificate>, CommandFailure> {
    wanted_certificates(config, folder).into_iter().map(|wanted| read_or_make(wanted, folder)).collect()
}

/// Reads one certificate.
///
/// # Errors
///
/// The file that is wrong, and the reason.
pub fn read(wanted: &WantedCertificate) -> Result<ServerCertificate, ConfigError> {
    let because = |error: String| ConfigError::because(format!("the certificate can't be used: {error}"));
    let named = |error: &dyn std::fmt::Display| because(format!("{}: {error}", wanted.certificate.display()));
    let seen = fs::read(&wanted.certificate).ok().and_then(|pem| inspect(&pem).ok());
    let is_named = |service: &&String| seen.as_ref().is_some_and(|seen| seen.covers(service));
    let names: Vec<String> = wanted.domains.iter().chain(wanted.services.iter().filter(is_named)).cloned().collect();
    let identity = Identity::load(&names, &wanted.certificate, &wanted.key, |path| std::fs::read(path));
    let identity = identity.map_err(|error| because(error.to_string()))?;
    let pem = fs::read(&wanted.certificate).map_err(|error| named(&error))?;
    Ok(ServerCertificate {
        identity,
        domains: wanted.domains.clone(),
        file: wanted.certificate.clone(),
        inspection: inspect(&pem).map_err(|error| named(&error))?,
        own: wanted.own,
        made: false,
    })
}

/// Returns whether the self-signed certificate has to be created again: it is missing, is for other
/// domains, or expires soon.
pub fn is_due(certificate: &ServerCertificate) -> bool {
    let names = &certificate.inspection.names;
    let covered = certificate.domains.iter().all(|domain| certificate.inspection.covers(domain));
    !covered || names.len() != certificate.domains.len() || ends_soon(&certificate.inspection)
}

/// Returns whether a certificate expires within a month, or has expired.
pub fn ends_soon(inspection: &Inspection) -> bool {
    clock::days_until(inspection.not_after) < WARN_DAYS
}

fn read_or_make(wanted: WantedCertificate, folder: &Folder) -> Result<ServerCertificate, CommandFailure> {
    if !wanted.own {
        return Ok(read(&wanted)?);
    }
    match read(&wanted) {
        Ok(certificate) if !is_due(&certificate) => Ok(certificate),
        _ => {
            make(&wanted, folder)?;
            Ok(ServerCertificate { made: true, ..read(&wanted)? })
        }
    }
}

fn make(wanted: &WantedCertificate, folder: &Folder) -> Result<(), CommandFailure> {
    let made = self_signed(&wanted.domains, clock::now()).map_err(|error| {
        CommandFailure::Failed(format!("no certificate can be created for {}: {error}", wanted.domains.join(", ")))
    })?;
    let place = folder.certificate();
    let certs = place.parent().unwrap_or(Path::new("."));
    let created = fs::DirBuilder::new().recursive(true).mode(0o700).create(certs);
    created.map_err(|error| CommandFailure::file(certs, &error))?;
    // The key is written first: a certificate without its key would look finished, while a key
    // without its certificate doesn't.
    folder::write(&folder.key(), &made.key, 0o600)?;
    folder::write(&place, &made.certificate, 0o600)
}

/// The days before its expiry, a month, at which authorities expect a certificate to have been
/// renewed.
const WARN_DAYS: i64 = 30;
