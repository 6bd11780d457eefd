//! The rule for new passwords, and the derivation of the keys that are stored in place of them.
//!
//! # Invariants
//!
//! * However a password is set, the same rule says how long it has to be: [`long_enough`]. Only the
//!   operator at the command line is exempt. Keys that come without their password, as in an
//!   import, can't be checked.

use std::fmt;

use rookery_hub::failure::work_condition;
use rookery_hub::{Settings, World};
use rookery_jid::{Jid, JidRef};
use rookery_sasl::{Credentials, CredentialsError};
use rookery_store::WorkError;
use rookery_store::background::WorkOutcome;
use rookery_stream::error::{Condition, StanzaError};

/// A password that is shorter than the rule of its domain demands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooShort {
    /// The fewest characters.
    pub least: u64,
    /// True if the configuration sets that number: the module `register` is on in the domain.
    pub is_configured: bool,
}

impl fmt::Display for TooShort {
    /// Writes the rule for operators, with the option that sets it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { least, is_configured } = self;
        write!(f, "the password must have at least {least} characters ")?;
        match is_configured {
            true => write!(f, "(`{OPTION}` in [modules.{MODULE}])"),
            false => write!(f, "(`{OPTION}` in [modules.{MODULE}] sets another number where that module is on)"),
        }
    }
}

impl std::error::Error for TooShort {}

/// Returns the fewest characters that a new password must have in a domain: what the module
/// `register` says, and [`LEAST`] where it is off.
pub fn least(settings: &Settings, domain: &str) -> u64 {
    configured_length(settings, domain).unwrap_or(LEAST)
}

/// Checks that a new password has as many characters as its domain requires.
///
/// # Errors
/// [`TooShort`], with the number of characters that the password must have.
pub fn long_enough(settings: &Settings, domain: &str, password: &str) -> Result<(), TooShort> {
    let configured = configured_length(settings, domain);
    let least = configured.unwrap_or(LEAST);
    match password.chars().count() as u64 >= least {
        true => Ok(()),
        false => Err(TooShort { least, is_configured: configured.is_some() }),
    }
}

fn configured_length(settings: &Settings, domain: &str) -> Option<u64> {
    let domain = settings.domains.iter().find(|found| found.name == domain)?;
    domain.module(MODULE).map(|options| options.number(OPTION))
}

/// The module that has the rule among its options.
pub const MODULE: &str = "register";
/// The option of that module with the fewest characters of a new password.
pub const OPTION: &str = "min_password";
/// The fewest characters of a new password, unless the option says otherwise.
pub const LEAST: u64 = 8;

/// The outcome of [`derive()`].
pub type Derived = Result<Credentials, CredentialsError>;

/// Derives the keys of a password for the account `whose` in the background: that takes about ten
/// milliseconds. All code that sets a password in a running server uses this, so that all accounts
/// have the same number of iterations: another number would distinguish accounts from unknown
/// names.
pub fn derive(world: &World, whose: JidRef<'_>, password: String) -> WorkOutcome<Derived> {
    let iterations = world.settings().scram_iterations;
    world.background.run(whose.bare_str(), move || Credentials::derive(&password, iterations))
}

/// Returns the keys.
///
/// # Errors
/// The error to send to the person who chose the password; failures of the server are logged.
pub fn credentials_of(
    world: &mut World,
    whose: &Jid,
    derived: Result<Derived, WorkError>,
) -> Result<Credentials, StanzaError> {
    match derived {
        Ok(Ok(credentials)) => Ok(credentials),
        Ok(Err(CredentialsError::BadPassword)) => Err(StanzaError::new(Condition::NotAcceptable)
            .with_text("the password contains characters that aren't allowed")),
        Ok(Err(error @ CredentialsError::NoRandomness)) => {
            tracing::error!(account = %whose.bare(), %error, "deriving the keys of a password failed");
            Err(Condition::InternalServerError.into())
        }
        Err(error) => {
            world.work_failed("deriving the keys of a password", whose, error);
            Err(work_condition(error).into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_password_is_told_with_its_key() {
        let told = |is_configured| TooShort { least: 12, is_configured }.to_string();
        assert_eq!(told(true), "the password must have at least 12 characters (`min_password` in [modules.register])");
        assert!(told(false).ends_with("sets another number where that module is on)"), "{}", told(false));
    }
}
