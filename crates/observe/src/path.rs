//! The stages on the path of every stanza through a shard, from the socket to the socket.

use crate::stages::Stage;

/// A stage on the path of a stanza through a shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StanzaStage {
    /// The system gives the bytes of a connection.
    Read,
    /// TLS makes them readable.
    Decrypt,
    /// They become stanzas.
    Scan,
    /// A stanza gets the address of its sender, and becomes a packet that many can share.
    Stamp,
    /// Addresses and rules lead it on.
    Route,
    /// Modules work on it.
    Modules,
    /// The home of an account hands it to sessions.
    Deliver,
    /// Letters of other shards and threads are opened.
    Letters,
    /// Waiting stanzas of a session become bytes.
    Render,
    /// TLS encrypts them.
    Encrypt,
    /// The system takes them.
    Write,
    /// Timers, answers of the store, and everything else.
    Rest,
}

impl StanzaStage {
    /// All stages, in the order of the path.
    pub const ALL: [StanzaStage; 12] = [
        Self::Read,
        Self::Decrypt,
        Self::Scan,
        Self::Stamp,
        Self::Route,
        Self::Modules,
        Self::Deliver,
        Self::Letters,
        Self::Render,
        Self::Encrypt,
        Self::Write,
        Self::Rest,
    ];

    /// Returns the word for it in tables and metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Decrypt => "decrypt",
            Self::Scan => "scan",
            Self::Stamp => "stamp",
            Self::Route => "route",
            Self::Modules => "modules",
            Self::Deliver => "deliver",
            Self::Letters => "letters",
            Self::Render => "render",
            Self::Encrypt => "encrypt",
            Self::Write => "write",
            Self::Rest => "rest",
        }
    }
}

impl Stage for StanzaStage {
    const ALL: &'static [Self] = &StanzaStage::ALL;

    fn name(self) -> &'static str {
        // The function above, which needs no trait.
        StanzaStage::name(self)
    }
}
