//! Redis or Valkey, as nodes use it: an inbox for each process, and a lease for each node.
//!
//! # Invariants
//!
//! * A process creates its own inbox, and no other process does: an append to a missing one fails
//!   (`NOMKSTREAM`).
//! * A process changes no lease that another one holds: a frozen node finds out that it was
//!   replaced.
//! * A process whose journal others have closed gets no confirmation for further writes to it.
//! * A journal expires, unless its process renews it.
//! * Keys of a cluster begin with its id, so that two clusters may share a Redis.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use redis::{FromRedisValue, RedisError, Value, cmd, pipe};
use rookery_hub::{JournalFields, JournalWrite};

use crate::courier::AppendOutcome;
use crate::reading::ClosedJournal;
use crate::source::{RedisAddresses, RedisSource, RedisWay};
use crate::wire::NodeProcess;

/// A Redis and the names of a cluster's keys in it.
#[derive(Clone)]
pub struct RedisEngine {
    source: RedisSource,
    prefix: String,
}

/// Returns the time between two renewals of a lease: three may be late before it expires.
pub(crate) fn renewed_every(lease: Duration) -> Duration {
    (lease / 4).min(Duration::from_secs(1))
}

/// A connection. Clones refer to the same one, and commands are sent at once.
#[derive(Clone)]
pub struct RedisConnection {
    connection: RedisWay,
    prefix: String,
}

/// A lease in Redis.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundLease {
    /// Its text: the process that holds it, its clock, and the homes that it uses.
    pub text: String,
    /// The time that it still lasts, in milliseconds.
    pub remaining_ms: i64,
}

impl std::fmt::Debug for RedisEngine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RedisEngine").field("prefix", &self.prefix).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for RedisConnection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection").field("prefix", &self.prefix).finish_non_exhaustive()
    }
}

/// Entries of an inbox with their positions, oldest first.
pub type InboxEntries = Vec<(String, Vec<u8>)>;

impl RedisEngine {
    /// Returns the engine at some addresses, for the cluster with this id.
    ///
    /// # Errors
    /// The error for an invalid address.
    pub fn new(addresses: &RedisAddresses, id: &str) -> Result<Self, RedisError> {
        Ok(Self { source: RedisSource::new(addresses)?, prefix: format!("rk:{id}") })
    }

    /// Connects.
    ///
    /// # Errors
    /// The error of the system or of Redis.
    pub async fn connect(&self) -> Result<RedisConnection, RedisError> {
        self.connect_with(PATIENCE).await
    }

    /// Connects in order to read large answers, for which this connection waits longer. It isn't
    /// the one that shows others whether Redis is reachable.
    ///
    /// # Errors
    /// The error of the system or of Redis.
    pub async fn connect_patiently(&self) -> Result<RedisConnection, RedisError> {
        self.connect_with(READING_PATIENCE).await
    }

    async fn connect_with(&self, patience: Duration) -> Result<RedisConnection, RedisError> {
        Ok(RedisConnection { connection: self.source.connect(patience).await?, prefix: self.prefix.clone() })
    }

    /// Returns whether a connection still leads to the primary, as far as that is known.
    ///
    /// # Errors
    /// The error of the system or of Redis.
    pub async fn is_current(&self, connection: &mut RedisConnection) -> Result<bool, RedisError> {
        self.source.is_current(&mut connection.connection).await
    }
}

impl RedisConnection {
    /// Appends an entry to the inbox of a process.
    ///
    /// # Errors
    /// The error of the system or of Redis; the entry may have been appended.
    pub async fn append(&mut self, to: NodeProcess, entry: &[u8]) -> Result<AppendOutcome, RedisError> {
        let mut append = cmd("XADD");
        append.arg(self.inbox(to)).arg("NOMKSTREAM").arg("*").arg("e").arg(entry);
        let answer: Value = append.query_async(&mut self.connection).await?;
        Ok(if answer == Value::Nil { AppendOutcome::NoInbox } else { AppendOutcome::Taken })
    }

    /// Creates the inbox of this process, if it is missing, and removes its predecessor's.
    ///
    /// # Errors
    /// The error of the system or of Redis.
    pub async fn create_inbox(&mut self, own: NodeProcess) -> Result<(), RedisError> {
        let before = NodeProcess { incarnation: own.incarnation.saturating_sub(1), ..own };
        let mut create = cmd("XADD");
        // The entry is trimmed at once, since a stream exists without entries as well.
        create.arg(self.inbox(own)).arg("MAXLEN").arg(0).arg("*").arg("e").arg("");
        create.query_async::<()>(&mut self.connection).await?;
        self.remove_inbox(before).await
    }

    /// Returns whether the inbox of this process is there.
    ///
    /// # Errors
    /// The error of the system or of Redis.
    pub async fn has_inbox(&mut self, own: NodeProcess) -> Result<bool, RedisError> {
        cmd("EXISTS").arg(self.inbox(own)).query_async(&mut self.connection).await
    }

    /// Removes the inbox of this process, which ends.
    ///
    /// # Errors
    /// The error of the system or of Redis.
    pub async fn remove_inbox(&mut self, own: NodeProcess) -> Result<(), RedisError> {
        cmd("UNLINK").arg(self.inbox(own)).query_async::<()>(&mut self.connection).await
    }

    /// Returns the entries after a position, at most `count`, as soon as there are any or a while
    /// has passed.
    ///
    /// # Errors
    /// The error of the system or of Redis.
    pub async fn read(&mut self, own: NodeProcess, after: &str, count: usize) -> Result<InboxEntries, RedisError> {
        let mut read = cmd("XREAD");
        read.arg("COUNT").arg(count).arg("BLOCK").arg(BLOCK_MS).arg("STREAMS").arg(self.inbox(own)).arg(after);
        let answer: Value = read.query_async(&mut self.connection).await?;
        Ok(entries(answer).unwrap_or_default())
    }

    /// Returns the existing entries after a position, at most `count`.
    ///
    /// # Errors
    /// The error of the system or of Redis.
    pub async fn read_now(&mut self, own: NodeProcess, after: &str, count: usize) -> Result<InboxEntries, RedisError> {
        let mut read = cmd("XREAD");
        read.arg("COUNT").arg(count).arg("STREAMS").arg(self.inbox(own)).arg(after);
        let answer: Value = read.query_async(&mut self.connection).await?;
        Ok(entries(answer).unwrap_or_default())
    }

    /// Removes the entries up to a position.
    ///
    /// # Errors
    /// The error of the system or of Redis.
    pub async fn trim(&mut self, own: NodeProcess, upto: &str) -> Result<(), RedisError> {
        // The entry at the position itself stays until the next time.
        let mut trim = cmd("XTRIM");
        trim.arg(self.inbox(own)).arg("MINID").arg(upto);
        trim.query_async::<()>(&mut self.connection).await
    }

    /// Takes the lease of a node, if it is free.
    ///
    /// # Errors
    /// The error of the system or of Redis.
    pub async fn take_lease(&mut self, node: u16, text: &str, lasts: Duration) -> Result<bool, RedisError> {
        let mut take = cmd("SET");
        take.arg(self.lease(node)).arg(text).arg("NX").arg("PX").arg(lasts.as_millis() as u64);
        let answer: Value = take.query_async(&mut self.connection).await?;
        Ok(answer != Value::Nil)
    }

    /// Renews the lease of a process's node, or takes it again if Redis has forgotten it. If
    /// another process holds it, returns `false` and leaves it alone.
    ///
    /// # Errors
    /// The error of the system or of Redis.
    pub async fn renew_lease(&mut self, own: NodeProcess, text: &str, lasts: Duration) -> Result<bool, RedisError> {
        let mut renew = cmd("EVAL");
        renew.arg(RENEW).arg(1).arg(self.lease(own.node)).arg(lease_prefix(own));
        renew.arg(text).arg(lasts.as_millis() as u64).query_async(&mut self.connection).await
    }

    /// Ends the lease of a process's node, unless another process holds it.
    ///
    /// # Errors
    /// The error of the system or of Redis.
    pub async fn end_lease(&mut self, own: NodeProcess) -> Result<(), RedisError> {
        let mut end = cmd("EVAL");
        end.arg(END).arg(1).arg(self.lease(own.node)).arg(lease_prefix(own));
        end.query_async::<()>(&mut self.connection).await
    }

    /// Returns the lease of a node with the time that it still lasts, if it has one.
    ///
    /// # Errors
    /// The error of the system or of Redis.
    pub async fn find_lease_with_age(&mut self, node: u16) -> Result<Option<FoundLease>, RedisError> {
        let key = self.lease(node);
        let mut find = pipe();
        find.cmd("GET").arg(&key).cmd("PTTL").arg(&key);
        let (text, remaining_ms): (Option<String>, i64) = find.query_async(&mut self.connection).await?;
        Ok(text.filter(|_| remaining_ms > 0).map(|text| FoundLease { text, remaining_ms }))
    }

    /// Returns the lease of a node, if it has one.
    ///
    /// # Errors
    /// The error of the system or of Redis.
    pub async fn find_lease(&mut self, node: u16) -> Result<Option<String>, RedisError> {
        cmd("GET").arg(self.lease(node)).query_async(&mut self.connection).await
    }

    /// Returns the mark of this Redis; `new` becomes its mark if it has none.
    ///
    /// # Errors
    /// The error of the system or of Redis.
    pub async fn mark(&mut self, new: u64) -> Result<u64, RedisError> {
        cmd("SET").arg(self.mark_key()).arg(new).arg("NX").query_async::<Value>(&mut self.connection).await?;
        Ok(self.find_mark().await?.unwrap_or(new))
    }

    /// Returns the mark of this Redis, if it has one.
    ///
    /// # Errors
    /// The error of the system or of Redis.
    pub async fn find_mark(&mut self) -> Result<Option<u64>, RedisError> {
        cmd("GET").arg(self.mark_key()).query_async(&mut self.connection).await
    }

    /// Begins an era of a process's journal. Returns `false` if others have closed the journal.
    ///
    /// # Errors
    /// The error of the system or of Redis.
    pub async fn begin_journal(&mut self, own: NodeProcess, era: u64) -> Result<bool, RedisError> {
        let mut begin = cmd("EVAL");
        begin.arg(BEGIN_JOURNAL).arg(1).arg(self.journal_of(own)).arg(era).arg(KEPT_SECONDS);
        begin.query_async(&mut self.connection).await
    }

    /// Applies writes to a process's journal atomically. Returns whether they count: if another era
    /// has begun, or others have closed the journal, they don't, and expire without being read.
    ///
    /// # Errors
    /// The error of the system or of Redis; the writes may have been applied.
    pub async fn journal(&mut self, own: NodeProcess, era: u64, writes: Vec<JournalWrite>) -> Result<bool, RedisError> {
        // A script that checks the era first takes Redis three times as long.
        let mut all = pipe();
        all.atomic().cmd("GET").arg(self.journal_of(own));
        let mut set = BTreeSet::new();
        let mut writes = writes.into_iter().peekable();
        while let Some(JournalWrite { slot, field, value }) = writes.next() {
            let is_set = value.is_some();
            let mut write = cmd(if is_set { "HSET" } else { "HDEL" });
            write.arg(self.journal_slot(own, era, slot)).arg(field).arg(value);
            while let Some(next) = writes.next_if(|next| next.slot == slot && next.value.is_some() == is_set) {
                write.arg(next.field).arg(next.value);
            }
            all.add_command(write).ignore();
            set.extend(is_set.then_some(slot));
        }
        for slot in set {
            all.cmd("EXPIRE").arg(self.journal_slot(own, era, slot)).arg(KEPT_SECONDS).ignore();
        }
        let (found,): (Option<String>,) = all.query_async(&mut self.connection).await?;
        Ok(found == Some(era.to_string()))
    }

    /// Keeps an era of a process's journal from expiring.
    ///
    /// # Errors
    /// The error of the system or of Redis.
    pub async fn renew_journal(&mut self, own: NodeProcess, era: u64, slots: Vec<u16>) -> Result<(), RedisError> {
        // The state is renewed with each part.
        let parts: Vec<&[u16]> = if slots.is_empty() { vec![&[]] } else { slots.chunks(RENEWED_AT_ONCE).collect() };
        for slots in parts {
            let mut renew = cmd("EVAL");
            renew.arg(RENEW_JOURNAL).arg(1 + slots.len()).arg(self.journal_of(own));
            slots.iter().for_each(|slot| _ = renew.arg(self.journal_slot(own, era, *slot)));
            renew.arg(era).arg(KEPT_SECONDS).query_async::<()>(&mut self.connection).await?;
        }
        Ok(())
    }

    /// Closes the journal of a process. Returns its state.
    ///
    /// # Errors
    /// The error of the system or of Redis.
    pub async fn close_journal(&mut self, of: NodeProcess) -> Result<ClosedJournal, RedisError> {
        let mut close = cmd("EVAL");
        close.arg(CLOSE_JOURNAL).arg(1).arg(self.journal_of(of)).arg(CLOSED_SECONDS);
        let era: Option<String> = close.query_async(&mut self.connection).await?;
        Ok(match era.as_deref().map(str::parse) {
            None => ClosedJournal::Missing,
            Some(Ok(era)) => ClosedJournal::Era(era),
            Some(Err(_)) => ClosedJournal::Ended,
        })
    }

    /// Ends the journal of this process, so that nobody reads it.
    ///
    /// # Errors
    /// The error of the system or of Redis.
    pub async fn end_journal(&mut self, own: NodeProcess) -> Result<(), RedisError> {
        let mut end = cmd("SET");
        end.arg(self.journal_of(own)).arg(CLOSED).arg("EX").arg(CLOSED_SECONDS);
        end.query_async::<()>(&mut self.connection).await
    }

    /// Reads the data of some slots from an era of a process's journal, which is closed.
    ///
    /// # Errors
    /// The error of the system or of Redis.
    pub async fn read_journal(
        &mut self,
        of: NodeProcess,
        era: u64,
        slots: &[u16],
    ) -> Result<JournalFields, RedisError> {
        let mut read = pipe();
        slots.iter().for_each(|slot| _ = read.cmd("HGETALL").arg(self.journal_slot(of, era, *slot)));
        let found: Vec<BTreeMap<Vec<u8>, Vec<u8>>> = read.query_async(&mut self.connection).await?;
        Ok(found.into_iter().flatten().collect())
    }

    /// Removes an era of a process's journal that is not read any more.
    pub async fn forget_journal(&mut self, own: NodeProcess, era: u64, slots: Vec<u16>) {
        if slots.is_empty() {
            return;
        }
        let mut forget = cmd("UNLINK");
        for slot in slots {
            forget.arg(self.journal_slot(own, era, slot));
        }
        // If this fails, the only harm is wasted memory.
        _ = forget.query_async::<()>(&mut self.connection).await;
    }

    /// Returns a section of the output of INFO; `None` if this user may not see it.
    ///
    /// # Errors
    /// The error of the system or of Redis.
    pub async fn information(&mut self, section: &str) -> Result<Option<String>, RedisError> {
        match self.connection.ask_any(cmd("INFO").arg(section)).await {
            Err(error) if error.code() == Some("NOPERM") => Ok(None),
            told => told.map(Some),
        }
    }

    /// Pings Redis.
    ///
    /// # Errors
    /// The error of the system or of Redis.
    pub async fn ping(&mut self) -> Result<(), RedisError> {
        self.connection.ask_any::<()>(&cmd("PING")).await
    }

    /// Returns the value of a setting; `None` if this user may not see it.
    pub async fn setting(&mut self, name: &str) -> Option<String> {
        let answer: Vec<String> = self.connection.ask_any(cmd("CONFIG").arg("GET").arg(name)).await.ok()?;
        answer.into_iter().nth(1)
    }

    /// Returns whether connections are accepted without a password; `None` if this user may not see
    /// that.
    pub async fn has_open_user(&mut self) -> Option<bool> {
        let user: Value = self.connection.ask_any(cmd("ACL").arg("GETUSER").arg("default")).await.ok()?;
        let members: Vec<(Value, Value)> = match user {
            Value::Map(members) => members,
            Value::Array(parts) => {
                let mut parts = parts.into_iter();
                std::iter::from_fn(|| Some((parts.next()?, parts.next()?))).collect()
            }
            _ => return None,
        };
        let is_flags = |name: &Value| String::from_redis_value_ref(name).is_ok_and(|name| name == "flags");
        let flags = members.into_iter().find(|(name, _)| is_flags(name))?.1;
        let flags = Vec::<String>::from_redis_value(flags).ok()?;
        let has = |flag: &str| flags.iter().any(|found| found == flag);
        Some(has("on") && has("nopass"))
    }

    fn inbox(&self, of: NodeProcess) -> String {
        format!("{}:in:{{{of}}}", self.prefix)
    }

    fn journal_of(&self, of: NodeProcess) -> String {
        format!("{}:journal:{{{of}}}", self.prefix)
    }

    fn journal_slot(&self, of: NodeProcess, era: u64, slot: u16) -> String {
        format!("{}:journal:{{{of}}}:{era}:{slot}", self.prefix)
    }

    fn mark_key(&self) -> String {
        format!("{}:mark", self.prefix)
    }

    fn lease(&self, node: u16) -> String {
        format!("{}:lease:{{{node}}}", self.prefix)
    }
}

/// Returns the beginning of the text of a process's lease.
pub(crate) fn lease_prefix(own: NodeProcess) -> String {
    format!("{}:", own.incarnation)
}

/// Reads the answer to XREAD of one stream; `None` if it is empty.
fn entries(answer: Value) -> Option<InboxEntries> {
    let stream = match answer {
        Value::Array(streams) => match streams.into_iter().next()? {
            Value::Array(named) => named.into_iter().nth(1)?,
            _ => return None,
        },
        Value::Map(streams) => streams.into_iter().next()?.1,
        _ => return None,
    };
    let Value::Array(found) = stream else { return None };
    let entry = |entry: Value| {
        let Value::Array(parts) = entry else { return None };
        let mut parts = parts.into_iter();
        let position = match parts.next()? {
            Value::BulkString(bytes) => String::from_utf8(bytes).ok()?,
            _ => return None,
        };
        let fields = match parts.next()? {
            Value::Array(fields) => fields,
            _ => return None,
        };
        let Value::BulkString(bytes) = fields.into_iter().nth(1)? else { return None };
        Some((position, bytes))
    };
    Some(found.into_iter().filter_map(entry).collect())
}

/// The script that renews a lease. Arguments: the key; the beginning of our lease, its text, its
/// duration in milliseconds.
const RENEW: &str = "\
    local found = redis.call('GET', KEYS[1]) \
    if found and string.sub(found, 1, #ARGV[1]) ~= ARGV[1] then return 0 end \
    redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3]) \
    return 1";

/// The script that ends a lease. Arguments: the key; the beginning of our lease.
const END: &str = "\
    local found = redis.call('GET', KEYS[1]) \
    if found and string.sub(found, 1, #ARGV[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end \
    return 0";

/// The script that begins an era of a journal, unless the journal is closed. Arguments: the key;
/// the era, the seconds for which it is kept.
const BEGIN_JOURNAL: &str = "\
    local found = redis.call('GET', KEYS[1]) \
    if found and string.sub(found, 1, 1) == 'x' then return 0 end \
    redis.call('SET', KEYS[1], ARGV[1], 'EX', ARGV[2]) \
    return 1";

/// The script that keeps a journal from expiring, if it has this era. Arguments: the keys of the
/// state and of slots; the era, the seconds for which they are kept.
const RENEW_JOURNAL: &str = "\
    if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end \
    for at = 1, #KEYS do redis.call('EXPIRE', KEYS[at], ARGV[2]) end \
    return 1";

/// The script that closes a journal. Arguments: the key; the seconds within which its process ends.
const CLOSE_JOURNAL: &str = "\
    local found = redis.call('GET', KEYS[1]) \
    if not found then return false end \
    if string.sub(found, 1, 1) == 'x' then return string.sub(found, 2) end \
    redis.call('SET', KEYS[1], 'x' .. found, 'EX', ARGV[1]) \
    return found";

/// The state of a journal that has ended; in a closed one, the era follows.
const CLOSED: &str = "x";
/// The time for which that state is kept; its process ends within it.
const CLOSED_SECONDS: u64 = 3600;
/// The time for which a journal is kept without being renewed: longer than any node is dead before
/// others take over.
const KEPT_SECONDS: u64 = 24 * 3600;
/// The number of slots that are renewed at once.
const RENEWED_AT_ONCE: usize = 512;
/// The time within which Redis has to answer before it counts as unreachable.
const PATIENCE: Duration = Duration::from_secs(3);
/// The time within which it has to answer with a part of an inbox: a mebibyte at half a megabit per
/// second.
const READING_PATIENCE: Duration = Duration::from_secs(20);
/// The time for which one call waits for an entry in an empty inbox, in milliseconds.
const BLOCK_MS: u64 = 1_000;
/// The position before all entries.
pub const START: &str = "0";
