//! Events that may come next in a simulation.
//!
//! An event names its kind and three numbers, which mean something together with the state that it
//! meets: "the 7th device, modulo how many there are, writes to the 3rd account". So a schedule
//! keeps its sense when events are taken out of it, and a failing one can be made short.

use crate::draw::Draw;

/// Something that happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// The kind.
    pub what: What,
    /// The device that does it.
    pub who: usize,
    /// Says more, by kind.
    pub a: usize,
    /// Says more, by kind.
    pub b: usize,
}

/// The kinds of events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum What {
    /// One shard ticks once.
    Tick,
    /// Shards, store and clients work until nothing moves any more.
    Settle,
    /// Time passes.
    Wait,
    /// A device reads some bytes.
    Read,
    /// The store carries out some operations.
    Store,
    /// A device connects, and logs in as it is answered.
    Connect,
    /// Its connection breaks; both sides know.
    Cut,
    /// It begins to read nothing at all, or reads again.
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
    /// It asks its server for something small.
    Ping,
    /// It asks another resource for something.
    Ask,
    /// It wants, allows or ends a subscription.
    Subscribe,
    /// It changes an item of its roster.
    RosterSet,
    /// It removes one.
    RosterRemove,
    /// It asks for its roster.
    RosterGet,
    /// It switches carbons on or off.
    Carbons,
    /// It says whether somebody looks at it.
    Attention,
    /// It asks for an acknowledgement.
    Acknowledge,
    /// It asks for a page of its archive.
    Archive,
    /// It enters a room.
    Join,
    /// It leaves one.
    Leave,
    /// It writes to one.
    Groupchat,
    /// It changes its nick, or its presence there.
    Nick,
    /// It kicks somebody, or changes an affiliation.
    Moderate,
    /// It blocks or unblocks an account.
    Block,
    /// It publishes an item at its own account.
    Publish,
    /// It removes its account.
    Remove,
    /// It asks for a place for a file.
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
    /// A shard is stalled, or goes on.
    Stall,
    /// A device writes to a user of the peer.
    ChatAbroad,
    /// It wants or ends a subscription to one.
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
    /// One of its users wants or ends a subscription.
    PeerSubscribe,
    /// It says something that it may not.
    PeerLie,
    /// Beside the shards of a node something goes on: letters leave or come, rows are looked at.
    Carry,
    /// A node's process dies.
    NodeKill,
    /// One that is away is started.
    NodeJoin,
    /// One leaves in good order.
    NodeDrain,
    /// One stands still, or goes on.
    NodePause,
    /// One can't reach Redis, or reaches it again.
    NodeCut,
    /// Redis goes away, or comes back.
    RedisAway,
    /// Redis has forgotten everything.
    RedisForget,
    /// A node's connection to Redis breaks before an answer.
    RedisBreak,
}

/// All kinds, with how often each happens where nothing else is said.
pub const ALL: &[(What, u32)] = &[
    (What::Tick, 60),
    (What::Settle, 60),
    (What::Wait, 16),
    (What::Read, 30),
    (What::Store, 30),
    (What::Connect, 40),
    (What::Cut, 10),
    (What::Silence, 5),
    (What::Close, 5),
    (What::Chat, 40),
    (What::ChatFull, 15),
    (What::Burst, 5),
    (What::Presence, 15),
    (What::Unavailable, 4),
    (What::Ping, 8),
    (What::Ask, 8),
    (What::Subscribe, 25),
    (What::RosterSet, 8),
    (What::RosterRemove, 4),
    (What::RosterGet, 4),
    (What::Carbons, 4),
    (What::Attention, 5),
    (What::Acknowledge, 10),
    (What::Archive, 4),
    (What::Join, 16),
    (What::Leave, 5),
    (What::Groupchat, 20),
    (What::Nick, 8),
    (What::Moderate, 5),
    (What::Block, 5),
    (What::Publish, 8),
    (What::Remove, 1),
    (What::Upload, 2),
    (What::Command, 3),
    (What::Kill, 1),
    (What::Restart, 1),
    (What::Reload, 1),
    (What::Trouble, 4),
    (What::Jump, 1),
    (What::Stall, 2),
];

/// The kinds that need a peer, with the same.
pub const ABROAD: &[(What, u32)] = &[
    (What::ChatAbroad, 40),
    (What::SubscribeAbroad, 25),
    (What::PeerCome, 20),
    (What::PeerGo, 3),
    (What::PeerBreak, 3),
    (What::PeerRead, 15),
    (What::PeerChat, 40),
    (What::PeerShow, 20),
    (What::PeerSubscribe, 20),
    (What::PeerLie, 3),
];

/// The kinds that need several nodes, with the same.
pub const AMONG_NODES: &[(What, u32)] = &[
    (What::Carry, 60),
    (What::NodeKill, 2),
    (What::NodeJoin, 8),
    (What::NodeDrain, 4),
    (What::NodePause, 3),
    (What::NodeCut, 3),
    (What::RedisAway, 3),
    (What::RedisForget, 2),
    (What::RedisBreak, 3),
];

impl What {
    /// Returns whether it is a fault: without it, what is sent arrives.
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
                | Self::NodeKill
                | Self::NodePause
                | Self::NodeCut
                | Self::RedisAway
                | Self::RedisForget
                | Self::RedisBreak
        )
    }
}

impl Event {
    /// Draws one of these kinds, by these weights.
    pub fn draw(draw: &mut Draw, kinds: &[(What, u32)], weights: &[u32]) -> Self {
        let (what, _) = kinds[draw.weighted(weights)];
        Self { what, who: draw.below(1 << 16), a: draw.below(1 << 16), b: draw.below(1 << 16) }
    }
}
