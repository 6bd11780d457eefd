//! A directory (LDAP, RFC 4511) that checks passwords: a user who can bind with a password is
//! authenticated.
//!
//! The name of a user's entry follows from the user's name, or the entry is searched for: under an
//! entry of our own if the directory permits no anonymous searches. Each login has a connection of
//! its own, since a bind changes the identity of the connection.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use ldap3::{
    Ldap, LdapConnAsync, LdapConnSettings, LdapResult, Scope, SearchEntry, SearchOptions, dn_escape, ldap_escape,
};
use rookery_hub::Judgement;
use rookery_jid::Jid;
use rustls::ClientConfig;
use tracing::warn;

use crate::desk::Away;
use crate::web::{Web, is_here};

/// A directory, and the way to find a user's entry in it. Each check opens a connection of its own.
pub struct LdapDirectory {
    place: DirectoryAddress,
    entry: EntryLookup,
    own: Option<OwnEntry>,
    tls: Arc<ClientConfig>,
}

/// Our own entry in a directory that may not be searched anonymously.
#[derive(Clone, PartialEq, Eq)]
pub struct OwnEntry {
    /// Its name.
    pub dn: String,
    /// The password of that entry, for a simple bind (RFC 4513 §5.1.3).
    pub password: String,
}

/// The address of a directory: `ldaps://`, or `ldap://` with StartTLS unless it is on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirectoryAddress {
    url: String,
    is_here: bool,
    starts_tls: bool,
}

/// The rule for finding a user's entry. `%u` stands for the user's name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EntryLookup {
    /// It has this name, such as `uid=%u,ou=people,dc=example,dc=org`.
    Named(String),
    /// It is found by a search, which must yield one entry.
    Searched {
        /// The entry below which to search.
        base: String,
        /// The filter (RFC 4515), such as `(uid=%u)`.
        filter: String,
    },
}

impl DirectoryAddress {
    /// Reads an address; `None` if it is invalid.
    pub fn read(text: &str) -> Option<Self> {
        let (scheme, rest) = text.split_once("://")?;
        let authority = rest.strip_suffix('/').unwrap_or(rest);
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if !port.contains(']') => (host, port),
            _ => (authority, "389"),
        };
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b".-_:".contains(&byte);
        let is_one = !host.is_empty() && host.bytes().all(is_name) && port.parse::<u16>().is_ok();
        let is_here = is_here(host);
        let starts_tls = match scheme {
            "ldaps" => false,
            "ldap" => !is_here,
            _ => return None,
        };
        is_one.then(|| Self { url: text.to_owned(), is_here, starts_tls })
    }

    /// Returns the same with or without StartTLS; only an address on this machine can be without.
    pub fn with_start_tls(self, starts_tls: bool) -> Self {
        let is_clear = self.url.starts_with("ldap://");
        Self { starts_tls: is_clear && (starts_tls || !self.is_here), ..self }
    }
}

impl fmt::Display for DirectoryAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.url)
    }
}

impl LdapDirectory {
    /// Returns a directory without connecting to it. It trusts the authorities that `web` trusts.
    pub fn new(place: DirectoryAddress, entry: EntryLookup, own: Option<OwnEntry>, web: &Web) -> Self {
        Self { place, entry, own, tls: web.tls() }
    }

    /// Asks whether a password is that of a user.
    ///
    /// # Errors
    /// The reason why the directory has said neither yes nor no, as a text for the log.
    pub async fn judge(&self, account: &Jid, password: &str) -> Result<Judgement, Away> {
        let bad = || Judgement::Bad { why: String::new() };
        // RFC 4513 §5.1.2: a bind without a password succeeds, and proves nothing.
        let Some(user) = account.local().filter(|_| !password.is_empty()) else { return Ok(bad()) };
        let mut ldap = self.connect().await?;
        let named = match &self.entry {
            EntryLookup::Named(template) => Some(template.replace(USER, &dn_escape(user))),
            EntryLookup::Searched { base, filter } => self.find(&mut ldap, base, filter, user).await?,
        };
        let Some(named) = named else { return Ok(bad()) };
        let bound = ldap.simple_bind(&named, password).await.map_err(|error| self.away(&error))?;
        // The connection isn't needed any more: a failed unbind doesn't matter.
        drop(ldap.unbind().await);
        match bound.rc {
            SUCCESS => Ok(Judgement::Good { username: None, until_s: None }),
            // RFC 4511 appendix A: the entry doesn't exist, has no password, or the password is
            // wrong.
            NO_SUCH_OBJECT | INAPPROPRIATE | INVALID_CREDENTIALS => Ok(bad()),
            _ => Err(self.away(&bound)),
        }
    }

    /// Checks whether the directory can be reached and accepts our own entry.
    ///
    /// # Errors
    /// The reason why it can't, as a text.
    pub async fn probe(&self) -> Result<(), String> {
        let mut ldap = self.connect().await?;
        match &self.entry {
            EntryLookup::Searched { base, filter } => drop(self.find(&mut ldap, base, filter, NOBODY).await?),
            EntryLookup::Named(_) => self.bind(&mut ldap).await?,
        }
        Ok(())
    }

    /// Opens a connection, encrypted unless the directory is on this machine.
    pub(crate) async fn connect(&self) -> Result<Ldap, Away> {
        let settings = LdapConnSettings::new().set_starttls(self.place.starts_tls).set_config(self.tls.clone());
        let settings = settings.set_conn_timeout(LONGEST_CONNECTING);
        let opened = LdapConnAsync::with_settings(settings, &self.place.url).await;
        let (connection, ldap) = opened.map_err(|error| self.away(&error))?;
        // The task ends with the last handle; the handles see its error.
        tokio::spawn(async move { drop(connection.drive().await) });
        Ok(ldap)
    }

    /// Binds as ourselves, if a search needs that.
    pub(crate) async fn bind(&self, ldap: &mut Ldap) -> Result<(), Away> {
        let Some(OwnEntry { dn, password }) = &self.own else { return Ok(()) };
        let bound = ldap.simple_bind(dn, password).await.map_err(|error| self.away(&error))?;
        match bound.rc {
            SUCCESS => Ok(()),
            _ => Err(format!("{}: it doesn't accept our own entry {dn}: {bound}", self.place)),
        }
    }

    /// Finds the name of a user's entry; `None` if there is none, or more than one.
    async fn find(&self, ldap: &mut Ldap, base: &str, filter: &str, user: &str) -> Result<Option<String>, Away> {
        self.bind(ldap).await?;
        let filter = filter.replace(USER, &ldap_escape(user));
        // Two entries are one too many; more wouldn't matter.
        ldap.with_search_options(SearchOptions::new().sizelimit(2));
        // RFC 4511 §4.5.1.8: no attributes are requested.
        let found = ldap.search(base, Scope::Subtree, &filter, vec!["1.1"]).await;
        let (entries, outcome) = found.map(|found| (found.0, found.1)).map_err(|error| self.away(&error))?;
        match outcome.rc {
            SUCCESS | NO_SUCH_OBJECT => {}
            SIZE_LIMIT if entries.len() > 1 => {}
            _ => return Err(self.search_error(&outcome)),
        }
        let mut entries = entries.into_iter().map(SearchEntry::construct);
        match (entries.next(), entries.next()) {
            (Some(only), None) => Ok(Some(only.dn)),
            (None, _) => Ok(None),
            (Some(_), Some(_)) => {
                warn!(directory = %self.place, user, "more than one entry matches this user, so the login is refused; check the filter");
                Ok(None)
            }
        }
    }

    /// Returns why a search has no result, as a text for the log, with the remedy for a limit of
    /// the directory.
    pub(crate) fn search_error(&self, outcome: &LdapResult) -> Away {
        match outcome.rc {
            SIZE_LIMIT | ADMIN_LIMIT => format!(
                "{}: it returns fewer entries to our own entry than there are: raise its limit for us, or narrow the filter ({outcome})",
                self.place
            ),
            _ => self.away(outcome),
        }
    }

    pub(crate) fn away(&self, error: &dyn fmt::Display) -> Away {
        format!("{}: {error}", self.place)
    }
}

impl fmt::Display for LdapDirectory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.place.fmt(f)
    }
}

impl fmt::Debug for LdapDirectory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Directory").field("place", &self.place).finish_non_exhaustive()
    }
}

impl fmt::Debug for OwnEntry {
    /// Hides the password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwnEntry").field("dn", &self.dn).finish_non_exhaustive()
    }
}

/// The part of a name or a filter that stands for the user.
pub const USER: &str = "%u";
/// The name of a user that doesn't exist.
const NOBODY: &str = "rookery-check";
/// The longest that a connection may take to open; a question may have less time.
const LONGEST_CONNECTING: Duration = Duration::from_secs(30);
/// Result codes of RFC 4511 §4.1.9.
const SUCCESS: u32 = 0;
const SIZE_LIMIT: u32 = 4;
const ADMIN_LIMIT: u32 = 11;
const NO_SUCH_OBJECT: u32 = 32;
const INAPPROPRIATE: u32 = 48;
const INVALID_CREDENTIALS: u32 = 49;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_leave_this_machine_only_encrypted() {
        for (text, starts_tls) in [
            ("ldaps://ldap.example.org", Some(false)),
            ("ldap://ldap.example.org:1389", Some(true)),
            ("ldap://[2001:db8::1]", Some(true)),
            ("ldap://127.0.0.1:389/", Some(false)),
            ("ldap://localhost", Some(false)),
            ("ldapi:///", None),
            ("http://localhost", None),
            ("ldap://", None),
            ("ldap://a b", None),
            ("ldap://host:port", None),
        ] {
            assert_eq!(DirectoryAddress::read(text).map(|place| place.starts_tls), starts_tls, "{text}");
        }
        let away = DirectoryAddress::read("ldap://ldap.example.org").unwrap();
        assert!(away.with_start_tls(false).starts_tls, "nobody can switch it off for another machine");
        assert!(DirectoryAddress::read("ldap://localhost").unwrap().with_start_tls(true).starts_tls);
        assert!(!DirectoryAddress::read("ldaps://localhost").unwrap().with_start_tls(true).starts_tls);
    }

    #[test]
    fn names_stay_names() {
        let named = |user: &str| "uid=%u,dc=example".replace(USER, &dn_escape(user));
        assert_eq!(named("a,dc=b"), r"uid=a\2cdc\3db,dc=example");
        assert_eq!("(uid=%u)".replace(USER, &ldap_escape("*)(uid=admin")), r"(uid=\2a\29\28uid=admin)");
    }
}
