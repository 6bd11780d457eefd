//! The operator's choices about settings, and the authority made of them.

use std::path::PathBuf;

use clap::Args;

use super::{AuditFile, IssuerKeys, Kerberos, Roles, SettingAuthority};

/// The files and names that decide who may set devices. Without a keytab or tokens nobody may.
#[derive(Debug, Clone, Default, Args)]
pub struct AccessFiles {
    /// The service's key in Kerberos, with which clients prove who they are to set devices; without
    /// it or --tokens, nothing can be set
    #[arg(long, value_name = "FILE", requires = "principal")]
    pub keytab: Option<PathBuf>,
    /// The service's name in Kerberos, such as daeset/dpm.example.org@EXAMPLE.ORG
    #[arg(long, value_name = "NAME", requires = "keytab")]
    pub principal: Option<String>,
    /// The keys of an issuer of tokens (a JWK set), with whose tokens clients of gRPC prove who
    /// they are to set devices
    #[arg(long, value_name = "FILE.json", requires = "token_issuer")]
    pub tokens: Option<PathBuf>,
    /// The issuer of tokens, as named in them (`iss`)
    #[arg(long, value_name = "NAME", requires = "tokens")]
    pub token_issuer: Option<String>,
    /// The audience that tokens must name (`aud`) [default: any]
    #[arg(long, value_name = "NAME", requires = "tokens")]
    pub token_audience: Option<String>,
    /// The Kerberos realm of the users that tokens name [default: the issuer]
    #[arg(long, value_name = "REALM", requires = "tokens")]
    pub token_realm: Option<String>,
    /// The roles, which define who may set which devices
    #[arg(long, value_name = "FILE.toml")]
    pub roles: Option<PathBuf>,
    /// Append a line to this file for each attempted setting
    #[arg(long, value_name = "FILE")]
    pub audit: Option<PathBuf>,
}

impl AccessFiles {
    /// Returns whether anything is configured that settings need.
    pub fn wants_settings(&self) -> bool {
        self.keytab.is_some() || self.principal.is_some() || self.tokens.is_some() || self.roles.is_some()
    }

    /// Opens the configured files. If something needed for settings is missing, settings are
    /// refused with an explanation, but readings are still served.
    ///
    /// Fails for a file of roles that cannot be read and a log that cannot be written: an operator
    /// who names those relies on them.
    pub fn open(&self) -> Result<(SettingAuthority, Vec<String>), String> {
        let mut words = Vec::new();
        let mut authority = SettingAuthority { roles: self.roles()?, ..SettingAuthority::default() };
        match (&self.keytab, &self.principal) {
            (Some(keytab), Some(principal)) => match Kerberos::open(keytab, principal) {
                Ok(kerberos) => authority.acceptor = Some(Box::new(kerberos)),
                Err(why) => words.push(format!("Settings are refused: {why}.")),
            },
            _ if self.tokens.is_some() => {}
            _ => words.push("Settings are refused: there is no --keytab with the key of a --principal.".to_owned()),
        }
        if (authority.acceptor.is_some() || self.tokens.is_some()) && authority.roles.is_empty() {
            words.push("Settings are refused: no --roles say who may set what.".to_owned());
        }
        if let Some(path) = &self.audit {
            let log = AuditFile::open(path.clone());
            let log = log.map_err(|error| format!("the audit log {}: {error}", path.display()))?;
            authority.audit = Some(Box::new(log));
        }
        Ok((authority, words))
    }

    /// Returns the keys of tokens as they are in the file now; `None` if no keys or no issuer are
    /// configured.
    ///
    /// # Errors
    /// A text with the name of the file that can't be read, and the reason.
    pub fn tokens(&self) -> Result<Option<IssuerKeys>, String> {
        let (Some(path), Some(issuer)) = (&self.tokens, &self.token_issuer) else { return Ok(None) };
        let wrong = |words: String| format!("{}: {words}", path.display());
        let text = std::fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
        let tokens = IssuerKeys::read(&text, issuer, self.token_audience.as_deref(), self.token_realm.as_deref());
        tokens.map(Some).map_err(wrong)
    }

    /// Returns the roles as they are in the file now; without a file, nothing may be set.
    ///
    /// # Errors
    /// A text with the name of the file that can't be read, and the reason or the mistake.
    pub fn roles(&self) -> Result<Roles, String> {
        let Some(path) = &self.roles else { return Ok(Roles::default()) };
        let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
        Roles::read(&text).map_err(|mistake| format!("{}: {mistake}", path.display()))
    }
}
