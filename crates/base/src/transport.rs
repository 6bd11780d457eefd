//! The transports that carry a client's stream.

/// The carrier of a client's stream: all code that writes to a session, counts it or reports it
/// refers to one of these.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub enum Transport {
    /// A TCP connection, whose bytes are the stream (RFC 6120). A session without a connection
    /// writes as if it had this one.
    #[default]
    Tcp,
    /// The messages of a WebSocket, each a document of its own (RFC 7395).
    WebSocket,
    /// HTTP requests and their responses (XEP-0124, XEP-0206).
    Bosh,
}

impl Transport {
    /// Returns its name, as labels of metrics and pages for administrators show it.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::WebSocket => "websocket",
            Self::Bosh => "bosh",
        }
    }

    /// Returns the transport whose [`label`](Self::label) this is; `None` for a label that this
    /// version doesn't know, such as one from a newer node.
    pub fn from_label(label: &str) -> Option<Self> {
        [Self::Tcp, Self::WebSocket, Self::Bosh].into_iter().find(|transport| transport.label() == label)
    }

    /// Returns whether stream management (XEP-0198) acknowledges and resumes its stanzas. BOSH
    /// does both by itself: its sessions outlive connections, and requests acknowledge responses.
    pub const fn is_managed(self) -> bool {
        !matches!(self, Self::Bosh)
    }

    /// Returns whether each stanza declares its namespace, because no stream header does (RFC 7395
    /// §3.3, XEP-0206 §2).
    pub const fn declares(self) -> bool {
        !matches!(self, Self::Tcp)
    }
}
