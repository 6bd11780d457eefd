//! Checks the Redis that carries the messages between nodes, for the operator: `rookery check`.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use redis::{ErrorKind, RedisError};
use rookery_store::meta::Meta;
use rookery_store::sql::{Finding, Severity};
use tokio::runtime::Builder;

use crate::clocks::is_far_apart;
use crate::engine::{RedisConnection, RedisEngine};
use crate::failure::JoinFailure;
use crate::joining::{clocks, compare_settings};
use crate::service::{ClusterSettings, engine_of};
use crate::source::RedisAddresses;
use crate::{marks, members};

impl JoinFailure {
    /// Returns whether another start may succeed without any change.
    pub fn may_pass(&self) -> bool {
        match self {
            Self::Redis(error) => may_pass(error),
            Self::Members(crate::members::NotJoined::Store(error)) => error.is_temporary(),
            Self::Members(crate::members::NotJoined::Taken) | Self::TakenOver(_) | Self::System(_) => true,
            Self::Members(_) | Self::NameTaken(_) | Self::TooOld(_) => false,
            Self::NoCommonLetters(..) | Self::OtherRedis(_) | Self::OtherDomains(_) => false,
            Self::OtherClock(..) | Self::OtherDatabase(_) => false,
            Self::Unnoticed(_) => true,
        }
    }
}

/// Checks the Redis of a cluster, which may be in use, without changing it: whether it can be
/// reached and accepts the login, its version, its settings and its latency. If the rows of the
/// nodes in the database can be read, also checks whether this process would fit the other nodes.
pub fn check(settings: &ClusterSettings, meta: Option<&dyn Meta>) -> Vec<Finding> {
    let mut findings = Vec::new();
    let looked = match Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime.block_on(async {
            look(&settings.redis, &mut findings).await?;
            match meta {
                Some(meta) => compare(settings, meta, &mut findings).await,
                None => Ok(()),
            }
        }),
        Err(error) => Err(JoinFailure::System(error)),
    };
    if let Err(failed) = looked {
        let severity = if failed.may_pass() { Severity::Blocked } else { Severity::Fault };
        findings.push(Finding { severity, text: failed.to_string() });
    }
    findings
}

/// Adds findings, up to the first error that makes further checks pointless.
async fn look(addresses: &RedisAddresses, findings: &mut Vec<Finding>) -> Result<(), JoinFailure> {
    let mut note = |severity, text| findings.push(Finding { severity, text });
    let engine = RedisEngine::new(addresses, "")?;
    let mut connection = engine.connect().await?;
    match is_new_enough(&mut connection).await? {
        Some(version) => {
            note(Severity::Note, format!("Redis or Valkey, as Redis {version}"));
            if is_replica(&connection.information("replication").await?.unwrap_or_default()) {
                let text = "it is a replica, which can't be written to: name the primary in `redis` of [cluster]";
                note(Severity::Blocked, text.to_owned());
            }
            for (severity, text) in
                describe_persistence(&connection.information("persistence").await?.unwrap_or_default())
            {
                note(severity, text);
            }
        }
        None => note(Severity::Note, UNSEEN.to_owned()),
    }
    let (severity, text) = describe_eviction(connection.setting("maxmemory-policy").await.as_deref());
    note(severity, text);
    if let Some(text) = find_exposure(&mut connection).await {
        note(Severity::Fault, format!("{text}; a start only warns of it"));
    }
    let mut trips = Vec::with_capacity(TRIPS);
    for _ in 0..TRIPS {
        let start = Instant::now();
        connection.ping().await?;
        trips.push(start.elapsed());
    }
    trips.sort_unstable();
    let (severity, text) = describe_distance(&trips);
    note(severity, text);
    Ok(())
}

/// Adds findings about the other nodes, up to the first reason why this process can't join them.
async fn compare(settings: &ClusterSettings, meta: &dyn Meta, findings: &mut Vec<Finding>) -> Result<(), JoinFailure> {
    let mut note = |severity, text| findings.push(Finding { severity, text });
    let Some(key) = members::find_key(meta).await? else {
        note(Severity::Note, "no node has used the database yet".to_owned());
        return Ok(());
    };
    let mut connection = engine_of(settings, key)?.0.connect().await?;
    let mark = connection.find_mark().await?.unwrap_or_default();
    marks::expect_none_elsewhere(&mut connection, meta, mark, None).await?;
    let rows = members::all(meta).await?;
    note(Severity::Note, format!("no node runs with another Redis; nodes in the database: {}", rows.len()));
    for (name, ahead_ms) in clocks(&mut connection, &rows, &settings.node).await? {
        let failure = JoinFailure::OtherClock(name, ahead_ms);
        if is_far_apart(ahead_ms) {
            return Err(failure);
        }
        note(Severity::Warning, failure.to_string());
    }
    for (name, differences) in compare_settings(&mut connection, &rows, settings).await? {
        let text = format!(
            "node \"{name}\" has other settings in {}: compare `rookery config show` of both, then change the one that is wrong",
            differences.join(", ")
        );
        note(Severity::Warning, text);
    }
    Ok(())
}

/// Returns the version of a Redis, if nodes can use it; `None` if this user may not query it.
///
/// # Errors
/// The error of the system or of Redis, or the version if it is too old.
pub(crate) async fn is_new_enough(connection: &mut RedisConnection) -> Result<Option<String>, JoinFailure> {
    let Some(information) = connection.information("server").await? else { return Ok(None) };
    let version = member(&information, "redis_version").unwrap_or("unknown").to_owned();
    let numbers: Vec<u32> = version.split('.').map_while(|number| number.parse().ok()).collect();
    // A Redis with an unknown version is tried.
    match numbers.as_slice() {
        [major, minor, ..] if (*major, *minor) < OLDEST => Err(JoinFailure::TooOld(version)),
        _ => Ok(Some(version)),
    }
}

/// Returns whether another start may succeed after this error of Redis.
fn may_pass(error: &RedisError) -> bool {
    let is_refused = matches!(error.kind(), ErrorKind::AuthenticationFailed | ErrorKind::InvalidClientConfig);
    !is_refused && !matches!(error.code(), Some("NOAUTH" | "WRONGPASS" | "NOPERM"))
}

/// Returns a field of the output of INFO, which has lines of `name:value`.
fn member<'a>(information: &'a str, name: &str) -> Option<&'a str> {
    information.lines().find_map(|line| line.trim_end().strip_prefix(name)?.strip_prefix(':'))
}

fn is_replica(replication: &str) -> bool {
    member(replication, "role").is_some_and(|role| role == "slave" || role == "replica")
}

/// Describes the persistence of Redis. Nodes need none, but a failing disk may keep Redis from
/// accepting writes (`stop-writes-on-bgsave-error`).
fn describe_persistence(persistence: &str) -> Vec<(Severity, String)> {
    let failed = |name: &str| member(persistence, name) == Some("err");
    if failed("rdb_last_bgsave_status") || failed("aof_last_write_status") {
        let text =
            "it can't write to its disk, and may accept nothing more: make room there, or switch its persistence off";
        return vec![(Severity::Warning, text.to_owned())];
    }
    let log = if member(persistence, "aof_enabled") == Some("1") { "on" } else { "off" };
    vec![(Severity::Note, format!("persistence: its log (AOF) is {log}; none is needed"))]
}

/// Returns a warning if Redis accepts commands from other machines without a password.
pub(crate) async fn find_exposure(connection: &mut RedisConnection) -> Option<String> {
    if !connection.has_open_user().await? {
        return None;
    }
    let ports = [connection.setting("port").await?, connection.setting("tls-port").await.unwrap_or_default()];
    let addresses = connection.setting("bind").await?;
    let version = connection.information("server").await.ok()?.unwrap_or_default();
    let is_newer = member(&version, "redis_version").is_none_or(|version| !version.starts_with("6."));
    let is_protected = connection.setting("protected-mode").await.is_some_and(|mode| mode == "yes");
    let is_closed = ports.iter().all(|port| port.is_empty() || port == "0");
    let at = exposed_address(&addresses).filter(|_| !is_closed && !is_kept(&addresses, is_protected, is_newer))?;
    Some(format!(
        "the cluster's Redis requires no password, and listens at {at}: anyone who reaches it there can write as any user; \
         set `requirepass` there and the password in `redis` of [cluster], or set `bind` to 127.0.0.1"
    ))
}

/// Returns whether the protected mode refuses other machines. Redis 6 ignores it if it is told
/// where to listen.
fn is_kept(addresses: &str, is_protected: bool, is_newer: bool) -> bool {
    is_protected && (is_newer || addresses.is_empty())
}

/// Returns the first address of the setting `bind` that other machines may reach.
fn exposed_address(addresses: &str) -> Option<&str> {
    if addresses.is_empty() {
        return Some("all addresses");
    }
    let is_local = |address: &str| {
        // A hyphen in front means that the address needn't exist.
        let address = address.strip_prefix('-').unwrap_or(address);
        address == "localhost" || address.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
    };
    addresses.split_whitespace().find(|address| !is_local(address))
}

/// Describes the eviction policy of Redis.
fn describe_eviction(policy: Option<&str>) -> (Severity, String) {
    match policy {
        Some("noeviction") => (Severity::Note, "maxmemory-policy noeviction".to_owned()),
        Some(policy) => {
            let mend = "it may discard letters when its memory is full; set it to noeviction";
            (Severity::Warning, format!("maxmemory-policy {policy}: {mend}"))
        }
        None => (Severity::Note, "maxmemory-policy can't be seen by this user; it has to be noeviction".to_owned()),
    }
}

/// Reports sorted round-trip times.
fn describe_distance(trips: &[Duration]) -> (Severity, String) {
    let at = |percent: usize| trips.get(trips.len() * percent / 100).copied().unwrap_or_default();
    let ms = |trip: Duration| trip.as_secs_f64() * 1000.0;
    let text =
        format!("a round trip takes {:.2} ms (half of {}), {:.2} ms (90 %)", ms(at(50)), trips.len(), ms(at(90)));
    match at(50) > FAR {
        true => {
            (Severity::Warning, format!("{text}: all traffic between nodes waits for that; use a Redis that is closer"))
        }
        false => (Severity::Note, text),
    }
}

/// The finding if INFO, which is one of the commands in `@dangerous`, isn't allowed.
const UNSEEN: &str = "its version and its state can't be seen by this user, who may not use INFO (`ACL SETUSER … +info` \
                      allows it); it has to be 6.2 or later, or Valkey, and no replica";
/// The oldest version that nodes can use: it has the commands that inboxes need,
/// `XADD … NOMKSTREAM` and `XTRIM … MINID`.
const OLDEST: (u32, u32) = (6, 2);
/// The number of round trips that are timed.
const TRIPS: usize = 50;
/// The round-trip time above which users notice.
const FAR: Duration = Duration::from_millis(20);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_of_redis_are_judged() {
        assert_eq!(
            member("# Server\r\nredis_version:7.0.15\r\nredis_mode:standalone\r\n", "redis_version"),
            Some("7.0.15")
        );
        assert!(is_replica("role:slave\r\nmaster_host:a\r\n") && !is_replica("role:master\r\n"));
        assert_eq!(describe_persistence("aof_enabled:0\r\nrdb_last_bgsave_status:err\r\n")[0].0, Severity::Warning);
        assert_eq!(describe_persistence("aof_enabled:1\r\nrdb_last_bgsave_status:ok\r\n")[0].0, Severity::Note);
        assert_eq!(exposed_address("127.0.0.1 -::1 localhost"), None);
        assert_eq!(exposed_address("127.0.0.1 192.0.2.1"), Some("192.0.2.1"));
        assert_eq!((exposed_address("* -::*"), exposed_address("")), (Some("*"), Some("all addresses")));
        assert!(is_kept("*", true, true) && is_kept("", true, false), "the defaults");
        assert!(!is_kept("*", true, false) && !is_kept("*", false, true));
        assert_eq!(describe_eviction(Some("allkeys-lru")).0, Severity::Warning);
        assert_eq!(
            (describe_eviction(Some("noeviction")).0, describe_eviction(None).0),
            (Severity::Note, Severity::Note)
        );
        assert_eq!(describe_distance(&[Duration::from_millis(1); 50]).0, Severity::Note);
        assert_eq!(describe_distance(&[Duration::from_millis(30); 50]).0, Severity::Warning);
    }
}
