//! Creates the login sources that the configuration names. If the settings of a source don't
//! change, it survives a reload, together with everything that it has cached.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rookery_hub::{LoginBy, Source};
use rookery_logins::{
    Believed, DeskTerms, EntryLookup, Issuer, IssuerClient, LdapDirectory, Outside, OwnEntry, PasswordCall, Passwords,
    Web, groups,
};

use crate::config::{ConfigError, DirectoryGroups, DomainLogin, ServerConfig};
use crate::failure::CommandFailure;

/// The sources of all domains that have one.
#[derive(Debug, Clone, Default)]
pub struct LoginSources(BTreeMap<String, (DomainLogin, Arc<dyn Source>)>);

impl LoginSources {
    /// Starts the sources of a configuration, except those that are already running.
    ///
    /// # Errors
    /// [`CommandFailure::Config`] for a file that can't be used, [`CommandFailure::Failed`] if the
    /// operating system refuses a thread.
    pub fn start(config: &ServerConfig, old: Option<&LoginSources>) -> Result<LoginSources, CommandFailure> {
        let mut sources = BTreeMap::new();
        for domain in &config.domains {
            let login = &domain.login;
            if !login.asks() {
                continue;
            }
            let kept = old.and_then(|old| old.0.get(&domain.name)).filter(|(settings, _)| settings == login);
            let source = match kept {
                Some((_, source)) => source.clone(),
                None => Arc::new(source(&domain.name, login)?),
            };
            sources.insert(domain.name.clone(), (login.clone(), source));
        }
        Ok(LoginSources(sources))
    }

    /// Returns the method by which clients log in to a domain.
    pub fn of(&self, domain: &str, login: &DomainLogin) -> LoginBy {
        match self.0.get(domain) {
            _ if login.anonymous => LoginBy::Anonymous,
            Some((_, source)) => LoginBy::Source(source.clone()),
            None => LoginBy::Own,
        }
    }
}

fn source(domain: &str, login: &DomainLogin) -> Result<Outside, CommandFailure> {
    let failed = |error: std::io::Error| CommandFailure::Failed(format!("nobody can be asked about logins: {error}"));
    let web = web(login)?;
    let terms = DeskTerms { patience: Duration::from_secs(login.seconds), at_once: login.at_once };
    let mut source = Outside::new(login.create, Duration::from_secs(login.cache_seconds)).map_err(failed)?;
    if let Some(passwords) = passwords(login, &web)? {
        source = source.with_passwords(passwords, &terms).map_err(failed)?;
    }
    if let Some(wanted) = groups(domain, &login.groups) {
        source = source.with_groups(wanted);
    }
    if let Some(issuer) = issuer(domain, login, &web)? {
        source = source.with_issuer(issuer, &terms).map_err(failed)?;
    }
    Ok(source)
}

/// Returns an HTTP client that trusts the certificates of a domain's table.
///
/// # Errors
/// The file can't be used.
pub fn web(login: &DomainLogin) -> Result<Web, ConfigError> {
    Web::trusting(login.trusted.as_deref()).map_err(ConfigError::because)
}

/// Returns the source that checks the passwords of a domain, if that isn't the store.
///
/// # Errors
/// A file with a password can't be used.
pub fn passwords(login: &DomainLogin, web: &Web) -> Result<Option<Passwords>, ConfigError> {
    if let Some(url) = &login.url {
        return Ok(Some(Passwords::Call(PasswordCall::new(url.clone(), web.clone()))));
    }
    let Some(place) = &login.ldap else { return Ok(None) };
    let place = match login.start_tls {
        Some(start_tls) => place.clone().with_start_tls(start_tls),
        None => place.clone(),
    };
    let entry = match (&login.dn, &login.base) {
        (Some(template), _) => EntryLookup::Named(template.clone()),
        (None, base) => EntryLookup::Searched { base: base.clone().unwrap_or_default(), filter: login.filter.clone() },
    };
    let directory = LdapDirectory::new(place, entry, own_entry(login)?, web);
    Ok(Some(Passwords::Directory(Arc::new(directory))))
}

/// Returns the server's own entry in a directory, if it has one.
fn own_entry(login: &DomainLogin) -> Result<Option<OwnEntry>, ConfigError> {
    let Some((dn, file)) = login.bind_dn.as_ref().zip(login.bind_password_file.as_ref()) else { return Ok(None) };
    Ok(Some(OwnEntry { dn: dn.clone(), password: secret(file)? }))
}

/// Reads a file with a secret.
fn secret(file: &Path) -> Result<String, ConfigError> {
    let told = |why: String| ConfigError::because(format!("{}: {why}", file.display()));
    let text = std::fs::read_to_string(file).map_err(|error| told(error.to_string()))?;
    match text.trim_end_matches(['\r', '\n']) {
        "" => Err(told("there is nothing in it".to_owned())),
        secret => Ok(secret.to_owned()),
    }
}

/// Returns the groups of a directory that become groups of contacts, if that is configured.
fn groups(domain: &str, groups: &DirectoryGroups) -> Option<groups::WantedGroups> {
    let DirectoryGroups { base, filter, name, members, user, seconds } = groups.clone();
    let every = Duration::from_secs(seconds);
    Some(groups::WantedGroups { domain: domain.to_owned(), base: base?, filter, name, members, user, every })
}

/// Returns the issuer whose tokens a domain accepts, if there is one.
///
/// # Errors
/// The file with our secret can't be used.
pub fn issuer(domain: &str, login: &DomainLogin, web: &Web) -> Result<Option<Issuer>, ConfigError> {
    let Some(issuer) = login.issuer.clone() else { return Ok(None) };
    let (audience, claim) = (login.audience.clone(), login.claim.clone());
    let believed = Believed { issuer, audience, claim, domain: domain.to_owned() };
    let issuer = Issuer::new(believed, login.scope.clone(), web.clone());
    let secret = login.client_secret_file.as_deref().map(secret).transpose()?;
    let client = login.client_id.clone().map(|id| IssuerClient { id, secret });
    let issuer = issuer.map(|issuer| issuer.with_sessions_that_end(Duration::from_secs(login.session_seconds)));
    Ok(issuer.map(|issuer| match client {
        Some(client) => issuer.with_client(client),
        None => issuer,
    }))
}
