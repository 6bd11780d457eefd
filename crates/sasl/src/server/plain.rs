//! PLAIN (RFC 4616): `[authzid] NUL authcid NUL passwd`.

use super::{ServerContext, ServerStep};
use crate::{Failure, prep};

/// The only message there is, prepared.
pub(super) struct ServerPlain {
    pub(super) username: String,
    password: String,
    authzid: Option<String>,
}

impl ServerPlain {
    pub(super) fn into_step(self) -> ServerStep {
        ServerStep::Verify { username: self.username, password: self.password, authzid: self.authzid }
    }
}

/// Reads and prepares the message. The password can't be checked here, since that takes the account
/// and a PBKDF2.
pub(super) fn read(context: &ServerContext, message: &[u8]) -> Result<ServerPlain, Failure> {
    let text = std::str::from_utf8(message).map_err(|_| Failure::MalformedRequest)?;
    let mut parts = text.split('\0');
    let (Some(authzid), Some(authcid), Some(password), None) = (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return Err(Failure::MalformedRequest);
    };
    if authcid.is_empty() || password.is_empty() {
        return Err(Failure::MalformedRequest);
    }
    let authzid = Some(authzid).filter(|authzid| !authzid.is_empty());
    let username = context.user(authcid, authzid)?;
    let password = prep::saslprep(password).ok_or(Failure::NotAuthorized)?.into_owned();
    Ok(ServerPlain { username, password, authzid: authzid.map(str::to_owned) })
}
