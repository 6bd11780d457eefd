//! Derives the stored keys of a password.

use rookery_hub::World;
use rookery_hub::failure::work_condition;
use rookery_jid::{Jid, JidRef};
use rookery_sasl::{Credentials, CredentialsError};
use rookery_store::WorkError;
use rookery_store::background::WorkOutcome;
use rookery_stream::error::{Condition, StanzaError};

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
/// The error for the person who chose the password.
pub fn derived(
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
