//! The stages on the path of every stanza through a shard, from the socket to the socket.

use crate::stages::Stage;

/// A stage on the path of a stanza through a shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StanzaStage {
    /// The bytes of a connection are read from the operating system.
    Read,
    /// TLS decrypts them.
    Decrypt,
    /// The decrypted bytes are split into stanzas.
    Scan,
    /// A stanza gets the address of its sender, and becomes a packet that many recipients can
    /// share.
    Stamp,
    /// The address of the stanza and the rules determine its next step.
    Route,
    /// Modules handle it.
    Modules,
    /// The home of an account delivers it to sessions.
    Deliver,
    /// Letters of other shards and threads are handled.
    Letters,
    /// Stanzas that wait for a session are rendered to bytes.
    Render,
    /// TLS encrypts these bytes.
    Encrypt,
    /// The bytes are passed to the operating system.
    Write,
    /// Timers, responses of the store, and everything else.
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

    /// Returns the word for the stage in tables and metrics.
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
        // This is the inherent function, which can be called without the trait.
        StanzaStage::name(self)
    }
}
