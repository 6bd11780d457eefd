//! The stages of a multicast. Each is measured once per stanza, never per recipient.

use crate::stages;

/// The times that the stages have taken, on one shard or on all.
pub type MulticastStages = stages::Stages<MulticastStage>;

/// A stage on the path of a stanza with many recipients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MulticastStage {
    /// The header is found and read.
    Decode,
    /// The check that the sender may use the service.
    Access,
    /// The check that there aren't too many recipients.
    Limits,
    /// Addresses become JIDs.
    Addresses,
    /// The check that the sender may reach others through this server.
    Relay,
    /// Recipients are sorted by next hop.
    Group,
    /// The forms of the stanza are built.
    Prebuild,
    /// Copies are routed: to sessions here, to streams elsewhere.
    Route,
    /// Rendering and writing the copies that wait for sessions.
    Write,
}

impl MulticastStage {
    /// All stages, in the order of the path.
    pub const ALL: [MulticastStage; 9] = [
        Self::Decode,
        Self::Access,
        Self::Addresses,
        Self::Limits,
        Self::Relay,
        Self::Group,
        Self::Prebuild,
        Self::Route,
        Self::Write,
    ];

    /// Returns the word for the stage in tables and metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Decode => "decode",
            Self::Access => "access",
            Self::Limits => "limits",
            Self::Addresses => "addresses",
            Self::Relay => "relay",
            Self::Group => "group",
            Self::Prebuild => "prebuild",
            Self::Route => "route",
            Self::Write => "write",
        }
    }
}

impl stages::Stage for MulticastStage {
    const ALL: &'static [Self] = &MulticastStage::ALL;

    fn name(self) -> &'static str {
        // This is the inherent function, which can be called without the trait.
        MulticastStage::name(self)
    }
}
