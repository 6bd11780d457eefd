//! The reasons why a process can't join its cluster, with what an operator can do.

use redis::RedisError;

use crate::members::{LetterVersions, NotJoined};

/// The reason why a process can't join.
#[derive(Debug)]
pub enum JoinFailure {
    /// An error of the database, or of its content.
    Members(NotJoined),
    /// Redis is unreachable.
    Redis(RedisError),
    /// Redis is too old: its version.
    TooOld(String),
    /// A process already has this name.
    NameTaken(String),
    /// Others took over from this process while it joined.
    TakenOver(String),
    /// A node that lives uses another Redis: its name.
    OtherRedis(String),
    /// The clock of a node is too far from this machine's: its name, and the milliseconds by which
    /// it is ahead.
    OtherClock(String, i64),
    /// A node that lives uses this Redis and gives no signs in this database: its name.
    OtherDatabase(String),
    /// A node that lives hasn't adopted the homes that this process would have: its name.
    Unnoticed(String),
    /// A node that lives serves other domains: its name.
    OtherDomains(String),
    /// A node can't read the letters of this process: its name, and the versions it can read.
    NoCommonLetters(String, LetterVersions),
    /// A thread or a runtime can't be started.
    System(std::io::Error),
}

impl std::fmt::Display for JoinFailure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Members(NotJoined::Store(error)) => write!(f, "the database refuses to let this node join: {error}"),
            Self::Members(NotJoined::Taken) => {
                f.write_str("another process is joining the cluster under the same node name at this moment")
            }
            Self::Members(NotJoined::Unreadable(name)) => {
                write!(f, "the database has an entry \"{name}\" of the cluster that this version can't read")
            }
            Self::Members(NotJoined::Chance) => f.write_str("the operating system provides no random bytes"),
            Self::Redis(error) => write!(f, "the cluster's Redis can't be used: {error}"),
            Self::TooOld(version) => {
                write!(f, "the cluster's Redis is of version {version}: 6.2 or later is needed, or Valkey")
            }
            Self::NameTaken(name) => {
                write!(f, "another process runs as node \"{name}\" of this cluster: give each node a name of its own")
            }
            Self::TakenOver(name) => write!(
                f,
                "others have taken over from node \"{name}\" while it joined: it was silent for longer than its lease, \
                 or `rookery node remove` has removed it; start it again"
            ),
            Self::OtherRedis(name) => write!(
                f,
                "node \"{name}\" runs on this database with another Redis than this one: each would take over from the \
                 other; set `redis` of [cluster] to the same Redis on all nodes, or give this cluster a database of its own"
            ),
            Self::OtherClock(name, ahead_ms) => {
                let direction = if *ahead_ms > 0 { "ahead of" } else { "behind" };
                write!(
                    f,
                    "the clock of node \"{name}\" of this cluster is {} seconds {direction} this machine's: the order of \
                     archives would be lost; have both use the same source of time (NTP)",
                    (ahead_ms.unsigned_abs() + 500) / 1000
                )
            }
            Self::OtherDatabase(name) => write!(
                f,
                "node \"{name}\" runs with this Redis on another database than this one, which may be a copy of it: accounts \
                 would have two homes; set `url` of [store] to the same database on all nodes, or use another Redis for \
                 the copy, and remove the nodes in it (`rookery node remove {name}`)"
            ),
            Self::Unnoticed(name) => write!(
                f,
                "node \"{name}\" runs and hasn't noticed this one: accounts would have two homes; find out from its \
                 log why it can't read the database, or stop it, and start this one again"
            ),
            Self::OtherDomains(name) => write!(
                f,
                "node \"{name}\" of this cluster serves other domains than this configuration names: clients of one node \
                 have accounts on the other; set `domains` to the same on all nodes, and reload those that run"
            ),
            Self::NoCommonLetters(name, theirs) if theirs.newest < LetterVersions::OWN.oldest => write!(
                f,
                "node \"{name}\" of this cluster runs a version that is too old: it understands letters of version \
                 {theirs}, and this one {}; upgrade that node first, by way of a release between the two, or remove it \
                 (`rookery node remove {name}`)",
                LetterVersions::OWN
            ),
            Self::NoCommonLetters(name, theirs) => write!(
                f,
                "node \"{name}\" of this cluster runs a version that is too new for this one: it understands letters of \
                 version {theirs}, and this one {}; upgrade this one, by way of a release between the two",
                LetterVersions::OWN
            ),
            Self::System(error) => write!(f, "the thread of the cluster can't be started: {error}"),
        }
    }
}

impl From<NotJoined> for JoinFailure {
    fn from(error: NotJoined) -> Self {
        Self::Members(error)
    }
}

impl From<RedisError> for JoinFailure {
    fn from(error: RedisError) -> Self {
        Self::Redis(error)
    }
}
