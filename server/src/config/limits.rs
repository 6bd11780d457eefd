//! The values of `[limits]`. The defaults are those of the parts that enforce them.

use rookery_fanout::OutboxLimits;
use rookery_hub::{Conflict, RosterLimits};
use rookery_xml::Limits as StanzaLimits;

/// The limits for what one client may send, and for what may wait for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientLimits {
    /// The limits of one stanza before login.
    pub before_login: StanzaLimits,
    /// The limits of one stanza after login.
    pub after_login: StanzaLimits,
    /// Connected resources of one account.
    pub resources_per_user: usize,
    /// The treatment of two clients that request the same resource.
    pub conflict: Conflict,
    /// The limits of output that waits for a slow reader, in bytes.
    pub outbox: OutboxLimits,
    /// Bytes that one client may have sent ahead of a request that isn't answered yet.
    pub backlog_bytes: usize,
    /// Bytes that one client may send per second; 0 means no limit.
    pub rate_bytes: usize,
    /// Stanzas that one client may send per second; 0 means no limit.
    pub rate_stanzas: u64,
    /// Addresses to which one session may have sent directed presence.
    pub directed_presence: usize,
    /// The most items of a roster, and the most bytes of them and of their parts.
    pub roster: RosterLimits,
    /// Seconds that a connection may take until it has bound a resource.
    pub login_seconds: u32,
    /// Failed logins after which a connection is closed.
    pub login_failures: u32,
    /// Connections from one address that isn't loopback; 0 means no limit.
    pub connections_per_address: u32,
}

impl Default for ClientLimits {
    fn default() -> ClientLimits {
        let hub = rookery_hub::Settings::default();
        ClientLimits {
            before_login: StanzaLimits::BEFORE_LOGIN,
            after_login: StanzaLimits::AFTER_LOGIN,
            resources_per_user: hub.max_resources,
            conflict: hub.conflict,
            outbox: OutboxLimits::default(),
            backlog_bytes: hub.backlog_bytes,
            rate_bytes: hub.rate.bytes as usize,
            rate_stanzas: hub.rate.stanzas,
            directed_presence: hub.max_directed,
            roster: RosterLimits::default(),
            login_seconds: 60,
            login_failures: 5,
            connections_per_address: 1000,
        }
    }
}
