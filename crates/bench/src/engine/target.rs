//! The server and the accounts of a load.

use std::sync::Arc;

use rookery_base::Transport;
use rookery_client::SessionTerms;

/// The terms that all clients of a load share.
#[derive(Debug)]
pub struct LoadTarget {
    /// The transport of the streams.
    pub transport: Transport,
    /// The terms of their sessions.
    pub terms: Arc<SessionTerms>,
}

impl LoadTarget {
    /// Returns the domain of the accounts.
    pub fn domain(&self) -> &str {
        &self.terms.domain
    }

    /// Returns the resource that each binds.
    pub fn resource(&self) -> &str {
        self.terms.resource.as_deref().unwrap_or_default()
    }
}
