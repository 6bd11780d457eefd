//! An HTTP service that is asked whether a password is right.
//!
//! ```text
//! POST /check            {"user": "juliet", "domain": "example.org", "password": "…"}
//! 200                    yes
//! 401, 403               no
//! anything else          it can't tell at present
//! ```

use std::fmt;

use hyper::StatusCode;
use rookery_hub::Judgement;
use rookery_jid::Jid;
use serde_json::json;

use crate::desk::Away;
use crate::web::{Web, WebAddress};

/// A service that checks passwords.
pub struct PasswordCall {
    address: WebAddress,
    web: Web,
}

impl PasswordCall {
    /// Returns the service at an address.
    pub fn new(address: WebAddress, web: Web) -> Self {
        Self { address, web }
    }

    /// Asks whether a password is that of an account.
    ///
    /// # Errors
    /// The reason why the service has said neither yes nor no, as a text for the log.
    pub async fn judge(&self, account: &Jid, password: &str) -> Result<Judgement, Away> {
        let user = account.local().unwrap_or_default();
        let question = json!({ "user": user, "domain": account.domain(), "password": password });
        let answer = self.web.post(&self.address, question.to_string()).await?;
        match answer.status {
            StatusCode::OK => Ok(Judgement::Good { username: None, until_s: None }),
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Ok(Judgement::Bad { why: String::new() }),
            status => Err(format!("{}: the status {status} means neither yes nor no", self.address)),
        }
    }

    /// Checks whether the service answers, with a name that no account has.
    ///
    /// # Errors
    /// The reason why there is no valid answer, as a text.
    pub async fn probe(&self, domain: &str) -> Result<(), String> {
        let question = json!({ "user": "", "domain": domain, "password": "" });
        let answer = self.web.post(&self.address, question.to_string()).await?;
        match answer.status {
            StatusCode::OK => Err(format!("{}: it accepts an empty name and password", self.address)),
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Ok(()),
            // The service may refuse the question.
            status if status.is_client_error() && status != StatusCode::NOT_FOUND => Ok(()),
            status => Err(format!("{}: the status {status}", self.address)),
        }
    }
}

impl fmt::Display for PasswordCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.address.fmt(f)
    }
}

impl fmt::Debug for PasswordCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call").field("address", &self.address).finish_non_exhaustive()
    }
}
