//! The values of `[domain."NAME".login]`: how clients log in to the accounts of one domain.

use std::path::PathBuf;

use rookery_logins::DirectoryAddress;
use rookery_logins::web::WebAddress;
use rookery_modules::logins::{self, place};
use rookery_stream::c2s::LoginKind;

use super::Modules;

/// The logins of a domain. By default they use passwords whose keys are in the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DomainLogin {
    /// True if every client gets an account for one session.
    pub anonymous: bool,
    /// The address of a service that checks passwords.
    pub url: Option<WebAddress>,
    /// The directory that checks passwords.
    pub ldap: Option<DirectoryAddress>,
    /// True if the connection to it begins TLS by StartTLS; `None` if that isn't configured.
    pub start_tls: Option<bool>,
    /// The name of a user's entry.
    pub dn: Option<String>,
    /// The entry below which users are searched for if their entries have no fixed name.
    pub base: Option<String>,
    /// The filter of that search.
    pub filter: String,
    /// The name of the server's own entry.
    pub bind_dn: Option<String>,
    /// The file with the password of that entry; a relative path begins at the configuration's
    /// folder.
    pub bind_password_file: Option<PathBuf>,
    /// Its groups that become groups of contacts.
    pub groups: DirectoryGroups,
    /// The seconds for which an accepted password is cached.
    pub cache_seconds: u64,
    /// An issuer of tokens.
    pub issuer: Option<String>,
    /// The audiences that its tokens may have.
    pub audience: Vec<String>,
    /// The claim with the user's name.
    pub claim: String,
    /// The scope that clients should request.
    pub scope: Option<String>,
    /// The seconds for which a session continues after its token has expired.
    pub session_seconds: u64,
    /// The admin page's client id at the issuer.
    pub client_id: Option<String>,
    /// The file with the secret of that client; a relative path begins at the configuration's
    /// folder.
    pub client_secret_file: Option<PathBuf>,
    /// A PEM file of authorities to trust for all of these, besides those of the machine.
    pub trusted: Option<PathBuf>,
    /// True if an account is created for a user who has none.
    pub create: bool,
    /// The time limit for an answer, in seconds.
    pub seconds: u64,
    /// The most queries at a time.
    pub at_once: usize,
}

/// The part of a directory with groups of contacts: where the groups are, and how members are
/// named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirectoryGroups {
    /// The entry below which they are; without one there are no groups.
    pub base: Option<String>,
    /// The filter for them.
    pub filter: String,
    /// The attribute with a group's name.
    pub name: String,
    /// The attribute with its members.
    pub members: String,
    /// The attribute of a member's entry that has the user's name.
    pub user: String,
    /// Seconds between two readings.
    pub seconds: u64,
}

impl Default for DirectoryGroups {
    fn default() -> Self {
        let [filter, name] = ["(objectClass=groupOfNames)", "cn"].map(str::to_owned);
        let [members, user] = ["member", "uid"].map(str::to_owned);
        Self { base: None, filter, name, members, user, seconds: 600 }
    }
}

impl Default for DomainLogin {
    fn default() -> Self {
        Self {
            anonymous: false,
            url: None,
            ldap: None,
            start_tls: None,
            dn: None,
            base: None,
            filter: "(uid=%u)".to_owned(),
            bind_dn: None,
            bind_password_file: None,
            groups: DirectoryGroups::default(),
            cache_seconds: 0,
            issuer: None,
            audience: Vec::new(),
            claim: "preferred_username".to_owned(),
            scope: None,
            session_seconds: 86_400,
            client_id: None,
            client_secret_file: None,
            trusted: None,
            create: true,
            seconds: 5,
            at_once: 16,
        }
    }
}

impl DomainLogin {
    /// Returns whether another system is asked.
    pub fn asks(&self) -> bool {
        self.url.is_some() || self.ldap.is_some() || self.issuer.is_some()
    }

    /// Returns the way in which clients log in, in the terms of their streams.
    pub fn kind(&self) -> LoginKind {
        let (passwords, tokens) = (self.url.is_some() || self.ldap.is_some(), self.issuer.is_some());
        match (self.anonymous, passwords || tokens) {
            (true, _) => LoginKind::Anonymous,
            (false, true) => LoginKind::Source { passwords, tokens },
            (false, false) => LoginKind::Own,
        }
    }

    /// Switches off the modules that such a domain has only if its own tables configure them.
    pub fn restrict(&self, modules: &mut Modules) {
        for (name, module) in modules {
            module.enabled &= place(self.kind(), name) == logins::LoginPlace::Usual;
        }
    }

    /// Returns a mistake that concerns the whole table, as the key to which it is reported and its
    /// text.
    pub fn wrong(&self) -> Option<(&'static str, &'static str)> {
        let names_one = self.dn.is_some() != self.base.is_some();
        let is_of_directory = *self
            != Self {
                start_tls: None,
                dn: None,
                base: None,
                filter: Self::default().filter,
                bind_dn: None,
                bind_password_file: None,
                groups: DirectoryGroups::default(),
                ..self.clone()
            };
        Some(if self.anonymous && self.asks() {
            ("anonymous", "everybody is let in without being checked, so remove `url`, `ldap` and `issuer`")
        } else if self.url.is_some() && self.ldap.is_some() {
            ("ldap", "passwords can be checked in one place only: give either `url` or `ldap`")
        } else if self.issuer.is_some() && self.audience.is_empty() {
            let what = "set `audience` to the issuer's name for this server: without it, tokens made for any other service would open accounts here";
            ("issuer", what)
        } else if self.ldap.is_some() && !names_one {
            ("ldap", "say where the users are: `dn` is the name of an entry with `%u` in it, or `base` where to search")
        } else if self.ldap.is_none() && is_of_directory {
            ("", "this key is for a directory: give `ldap` its address")
        } else if self.bind_dn.is_some() != self.bind_password_file.is_some() {
            ("bind_dn", "`bind_dn` and `bind_password_file` belong together")
        } else if self.dn.is_some() && self.bind_dn.is_some() && self.groups.base.is_none() {
            ("bind_dn", "this key is for searches: with `dn` and without `groups_base`, there are none")
        } else if self.client_id.is_some() && self.issuer.is_none() {
            ("client_id", "this key is for an issuer: give `issuer` its address")
        } else if self.client_secret_file.is_some() && self.client_id.is_none() {
            ("client_secret_file", "it goes with a `client_id`")
        } else if self.kind() == LoginKind::Own && *self != Self::default() {
            ("", "nothing here checks logins: give `url`, `ldap` or `issuer`, or set `anonymous = true`")
        } else {
            return None;
        })
    }

    /// Returns a module that must be off here but is on, with the reason.
    pub fn misplaced_module(&self, modules: &Modules) -> Option<(&'static str, &'static str)> {
        let mut on = modules.iter().filter(|(_, module)| module.enabled).map(|(name, _)| *name);
        let name = on.find(|name| place(self.kind(), name) == logins::LoginPlace::Never)?;
        let why = match self.kind() {
            LoginKind::Anonymous => "accounts of this domain last for one session, so it has nothing to store",
            _ => "accounts of this domain are managed elsewhere, and so are their passwords",
        };
        Some((name, why))
    }
}
