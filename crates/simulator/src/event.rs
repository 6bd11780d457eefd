//! Events that may happen in a simulation.
//!
//! An event has a kind and three numbers, whose meaning depends on the state at that time: "the 7th
//! device, modulo their number, writes to the 3rd account". So a schedule still has a meaning after
//! events were removed from it, and a failing one can be shortened.

use crate::draw::SeededDraw;

/// An event, as the plan draws it and the log shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SimulatedEvent {
    /// The kind.
    pub what: SimulatedEventKind,
    /// The device that acts.
    pub who: usize,
    /// An argument, whose meaning depends on the kind.
    pub a: usize,
    /// Another argument, whose meaning depends on the kind.
    pub b: usize,
}

/// The kinds of events, each with a weight by which it is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SimulatedEventKind {
    /// One shard ticks once.
    Tick,
    /// Shards, store and clients work until nothing changes any more.
    Settle,
    /// Time passes.
    Wait,
    /// A device reads some bytes.
    Read,
    /// The store carries out some operations.
    Store,
    /// A device connects, and logs in according to the answers.
    Connect,
    /// Its connection breaks; both sides know.
    Cut,
    /// It stops reading, or reads again.
    Silence,
    /// It closes its stream in good order.
    Close,
    /// It writes to an account.
    Chat,
    /// It writes to one resource.
    ChatFull,
    /// It writes several times at once.
    Burst,
    /// It changes its presence.
    Presence,
    /// It becomes unavailable and stays connected.
    Unavailable,
    /// It sends its server a small request.
    Ping,
    /// It sends another resource a request.
    Ask,
    /// It requests, approves or ends a subscription.
    Subscribe,
    /// It changes an item of its roster.
    RosterSet,
    /// It removes an item of its roster.
    RosterRemove,
    /// It asks for its roster.
    RosterGet,
    /// It switches carbons on or off.
    Carbons,
    /// It tells the server whether its user is active.
    Attention,
    /// It requests an acknowledgement.
    Acknowledge,
    /// It requests a page of its archive.
    Archive,
    /// It enters a room.
    Join,
    /// It leaves a room.
    Leave,
    /// It writes to a room.
    Groupchat,
    /// It changes its nick or its presence in a room.
    Nick,
    /// It kicks an occupant, or changes an affiliation.
    Moderate,
    /// It blocks or unblocks an account.
    Block,
    /// It publishes an item at its own account.
    Publish,
    /// It removes its account.
    Remove,
    /// It requests an upload slot for a file.
    Upload,
    /// An administrator's device begins a command.
    Command,
    /// The server's process dies and is started again.
    Kill,
    /// It stops in good order and is started again.
    Restart,
    /// The configuration is read again.
    Reload,
    /// The store gets into trouble, or out of it.
    Trouble,
    /// The time of day jumps.
    Jump,
    /// A shard is stalled, or continues.
    Stall,
    /// A device writes to a user of the peer.
    ChatAbroad,
    /// It requests or ends a subscription to a user of the peer.
    SubscribeAbroad,
    /// The peer comes, or opens a new stream.
    PeerCome,
    /// It ends its streams in good order.
    PeerGo,
    /// It loses its connections.
    PeerBreak,
    /// It reads some bytes.
    PeerRead,
    /// One of its users writes to an account.
    PeerChat,
    /// One of its users becomes available, or unavailable.
    PeerShow,
    /// One of its users requests or ends a subscription.
    PeerSubscribe,
    /// It sends something that is forbidden.
    PeerLie,
    /// A device writes to a guest.
    ChatGuest,
    /// A guest comes.
    GuestCome,
    /// It closes its stream in good order.
    GuestGo,
    /// It loses its connection.
    GuestBreak,
    /// It reads some bytes.
    GuestRead,
    /// It writes to an account.
    GuestChat,
    /// It sends a request.
    GuestAsk,
    /// The part beside the shards of a node works: letters leave or arrive, rows are read.
    Carry,
    /// A node's process dies.
    NodeKill,
    /// A node without a process is started.
    NodeJoin,
    /// A node leaves in good order.
    NodeDrain,
    /// A node pauses, or continues.
    NodePause,
    /// A node can't reach Redis, or reaches it again.
    NodeCut,
    /// Redis becomes unavailable, or available again.
    RedisAway,
    /// Redis loses all its data.
    RedisForget,
    /// A node's connection to Redis breaks before it gets an answer.
    RedisBreak,
}

/// All kinds, with their usual frequencies.
pub const ALL: &[(SimulatedEventKind, u32)] = &[
    (SimulatedEventKind::Tick, 60),
    (SimulatedEventKind::Settle, 60),
    (SimulatedEventKind::Wait, 16),
    (SimulatedEventKind::Read, 30),
    (SimulatedEventKind::Store, 30),
    (SimulatedEventKind::Connect, 40),
    (SimulatedEventKind::Cut, 10),
    (SimulatedEventKind::Silence, 5),
    (SimulatedEventKind::Close, 5),
    (SimulatedEventKind::Chat, 40),
    (SimulatedEventKind::ChatFull, 15),
    (SimulatedEventKind::Burst, 5),
    (SimulatedEventKind::Presence, 15),
    (SimulatedEventKind::Unavailable, 4),
    (SimulatedEventKind::Ping, 8),
    (SimulatedEventKind::Ask, 8),
    (SimulatedEventKind::Subscribe, 25),
    (SimulatedEventKind::RosterSet, 8),
    (SimulatedEventKind::RosterRemove, 4),
    (SimulatedEventKind::RosterGet, 4),
    (SimulatedEventKind::Carbons, 4),
    (SimulatedEventKind::Attention, 5),
    (SimulatedEventKind::Acknowledge, 10),
    (SimulatedEventKind::Archive, 4),
    (SimulatedEventKind::Join, 16),
    (SimulatedEventKind::Leave, 5),
    (SimulatedEventKind::Groupchat, 20),
    (SimulatedEventKind::Nick, 8),
    (SimulatedEventKind::Moderate, 5),
    (SimulatedEventKind::Block, 5),
    (SimulatedEventKind::Publish, 8),
    (SimulatedEventKind::Remove, 1),
    (SimulatedEventKind::Upload, 2),
    (SimulatedEventKind::Command, 3),
    (SimulatedEventKind::Kill, 1),
    (SimulatedEventKind::Restart, 1),
    (SimulatedEventKind::Reload, 1),
    (SimulatedEventKind::Trouble, 4),
    (SimulatedEventKind::Jump, 1),
    (SimulatedEventKind::Stall, 2),
];

/// The kinds that need a peer, with their frequencies.
pub const ABROAD: &[(SimulatedEventKind, u32)] = &[
    (SimulatedEventKind::ChatAbroad, 40),
    (SimulatedEventKind::SubscribeAbroad, 25),
    (SimulatedEventKind::PeerCome, 20),
    (SimulatedEventKind::PeerGo, 3),
    (SimulatedEventKind::PeerBreak, 3),
    (SimulatedEventKind::PeerRead, 15),
    (SimulatedEventKind::PeerChat, 40),
    (SimulatedEventKind::PeerShow, 20),
    (SimulatedEventKind::PeerSubscribe, 20),
    (SimulatedEventKind::PeerLie, 3),
];

/// The kinds that need guests, with their frequencies.
pub const OF_GUESTS: &[(SimulatedEventKind, u32)] = &[
    (SimulatedEventKind::ChatGuest, 40),
    (SimulatedEventKind::GuestCome, 20),
    (SimulatedEventKind::GuestGo, 4),
    (SimulatedEventKind::GuestBreak, 4),
    (SimulatedEventKind::GuestRead, 15),
    (SimulatedEventKind::GuestChat, 40),
    (SimulatedEventKind::GuestAsk, 10),
];

/// The kinds that need several nodes, with their frequencies.
pub const AMONG_NODES: &[(SimulatedEventKind, u32)] = &[
    (SimulatedEventKind::Carry, 60),
    (SimulatedEventKind::NodeKill, 2),
    (SimulatedEventKind::NodeJoin, 8),
    (SimulatedEventKind::NodeDrain, 4),
    (SimulatedEventKind::NodePause, 3),
    (SimulatedEventKind::NodeCut, 3),
    (SimulatedEventKind::RedisAway, 3),
    (SimulatedEventKind::RedisForget, 2),
    (SimulatedEventKind::RedisBreak, 3),
];

impl SimulatedEventKind {
    /// Returns whether this is a fault. Without faults, everything that is sent arrives.
    pub fn is_fault(self) -> bool {
        matches!(
            self,
            Self::Cut
                | Self::Silence
                | Self::Kill
                | Self::Restart
                | Self::Reload
                | Self::Trouble
                | Self::Jump
                | Self::Stall
                | Self::PeerBreak
                | Self::PeerLie
                | Self::GuestBreak
                | Self::NodeKill
                | Self::NodePause
                | Self::NodeCut
                | Self::RedisAway
                | Self::RedisForget
                | Self::RedisBreak
        )
    }
}

impl SimulatedEvent {
    /// Draws one of these kinds, with these weights.
    pub fn draw(draw: &mut SeededDraw, kinds: &[(SimulatedEventKind, u32)], weights: &[u32]) -> Self {
        let (what, _) = kinds[draw.by_weight(weights)];
        Self { what, who: draw.below(1 << 16), a: draw.below(1 << 16), b: draw.below(1 << 16) }
    }
}
