//! Carriers of a client's stream.

use clap::ValueEnum;

/// The carrier of a client's stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum Transport {
    /// A TCP connection (RFC 6120)
    #[default]
    Tcp,
    /// A WebSocket (RFC 7395), at /xmpp-websocket
    Websocket,
    /// Requests and answers (XEP-0124), at /http-bind
    Bosh,
}

impl Transport {
    /// Returns its name on the command line and in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Websocket => "websocket",
            Self::Bosh => "bosh",
        }
    }
}
