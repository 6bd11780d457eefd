//! Times by stage that a reading takes from its datagram to its readers: the table that eprof
//! produced for the Erlang daemon, always compiled in.

use rookery_observe::stages;

pub use stages::Begun;

/// The times that all stages have taken while they were measured.
pub type ReadingStages = stages::Stages<ReadingStage>;

/// A stage on a reading's way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadingStage {
    /// A datagram is received and split into packets.
    Datagram,
    /// The request that a reply answers is found by its id.
    LookUp,
    /// A reply is split into the values that were read; once for each of them.
    Split,
    /// Bytes become engineering values.
    Scale,
    /// Values become a message.
    Encode,
    /// The readers of a message get references to it; once for each reading.
    Queue,
    /// A client's waiting output is rendered and written; once for each write.
    Send,
}

impl ReadingStage {
    /// All of them, in their order.
    pub const ALL: [Self; 7] =
        [Self::Datagram, Self::LookUp, Self::Split, Self::Scale, Self::Encode, Self::Queue, Self::Send];

    /// Returns the name of the stage in the table that is shown.
    pub fn name(self) -> &'static str {
        match self {
            Self::Datagram => "datagram in",
            Self::LookUp => "id look-up",
            Self::Split => "split",
            Self::Scale => "scale",
            Self::Encode => "encode",
            Self::Queue => "queue",
            Self::Send => "send",
        }
    }
}

impl stages::Stage for ReadingStage {
    const ALL: &'static [Self] = &ReadingStage::ALL;

    fn name(self) -> &'static str {
        // This calls the function above, not the trait's.
        ReadingStage::name(self)
    }
}
