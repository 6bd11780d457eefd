//! From a password to what is stored of it.

use rookery_hub::World;
use rookery_jid::{Jid, JidRef};
use rookery_sasl::{Credentials, CredentialsError, DEFAULT_ITERATIONS};
use rookery_store::{Pending, StoreError};
use rookery_stream::error::{Condition, StanzaError};

use crate::asker::condition;

/// What [`derive()`] answers with.
pub(crate) type Derived = Result<Credentials, CredentialsError>;

/// Derives the keys of a password for the account `whose` in the background: that takes some ten milliseconds.
pub(crate) fn derive(world: &World, whose: JidRef<'_>, password: String) -> Pending<Derived> {
    world.background.run(whose.bare_str(), move || Credentials::derive(&password, DEFAULT_ITERATIONS))
}

/// The keys, or what to tell whoever chose the password.
pub(crate) fn derived(
    world: &mut World,
    whose: &Jid,
    derived: Result<Derived, StoreError>,
) -> Result<Credentials, StanzaError> {
    match derived {
        Ok(Ok(credentials)) => Ok(credentials),
        Ok(Err(CredentialsError::BadPassword)) => {
            Err(StanzaError::new(Condition::NotAcceptable).with_text("the password has characters that none may have"))
        }
        Ok(Err(error @ CredentialsError::NoRandomness)) => {
            tracing::error!(account = %whose.bare(), %error, "deriving the keys of a password failed");
            Err(Condition::InternalServerError.into())
        }
        Err(error) => {
            world.store_failed("deriving the keys of a password", whose, &error);
            Err(condition(&error).into())
        }
    }
}
