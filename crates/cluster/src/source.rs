//! Finds the Redis of a cluster: at one address, through Sentinels that know the primary, or as a
//! Redis Cluster, where each key has its own primary.
//!
//! # Invariants
//!
//! * A connection is used only while it leads to the current primary, as far as that is known:
//!   after a failover everything starts again as if Redis had forgotten everything, since it may
//!   have lost the latest writes.
//! * A primary on another machine that Sentinels name is only contacted over TLS.

use std::net::IpAddr;
use std::time::Duration;

use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::cluster::{ClusterClient, ClusterConfig};
use redis::cluster_async::ClusterConnection;
use redis::cluster_routing::{RoutingInfo, SingleNodeRoutingInfo};
use redis::{
    AsyncConnectionConfig, Client, Cmd, ConnectionAddr, ConnectionInfo, ErrorKind, FromRedisValue, IntoConnectionInfo,
    Pipeline, RedisError, RedisFuture, Value, cmd,
};

/// The addresses that the operator has configured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RedisAddresses {
    /// The addresses of Redis, `redis://…` or `rediss://…`: one, or several of a Redis Cluster.
    /// With Sentinels its host is the name under which they know the primary.
    pub redis: Vec<String>,
    /// The addresses of the Sentinels, in the same form; empty without Sentinels.
    pub sentinels: Vec<String>,
}

/// The ways to Redis.
#[derive(Clone)]
pub(crate) enum RedisSource {
    One(Client),
    Sentinels { sentinels: Vec<Client>, name: String, primary: ConnectionInfo },
    Cluster(ClusterClient),
}

/// A connection made in one of these ways. Clones refer to the same one.
#[derive(Clone)]
pub(crate) enum RedisWay {
    One(MultiplexedConnection),
    /// To the primary at this place.
    Primary(MultiplexedConnection, (String, u16)),
    /// To a Redis Cluster, with its epoch when the connection was made.
    Cluster(ClusterConnection, Option<u64>),
}

impl RedisSource {
    /// Reads addresses.
    ///
    /// # Errors
    /// The error for an invalid address.
    pub fn new(addresses: &RedisAddresses) -> Result<Self, RedisError> {
        let RedisAddresses { redis, sentinels } = addresses;
        let first = redis.first().map(String::as_str).unwrap_or_default();
        if !sentinels.is_empty() {
            let primary = first.into_connection_info()?;
            let name = place(primary.addr()).0;
            let sentinels = sentinels.iter().map(|sentinel| Client::open(sentinel.as_str())).collect::<Result<_, _>>();
            return Ok(Self::Sentinels { sentinels: sentinels?, name, primary });
        }
        match redis.len() {
            0 | 1 => Ok(Self::One(Client::open(first)?)),
            _ => Ok(Self::Cluster(ClusterClient::new(redis.iter().map(String::as_str))?)),
        }
    }

    /// Connects to the current primary, which has to answer within this time.
    ///
    /// # Errors
    /// The error of the system, of Redis or of the Sentinels.
    pub async fn connect(&self, patience: Duration) -> Result<RedisWay, RedisError> {
        match self {
            Self::One(client) => Ok(RedisWay::One(open(client, patience).await?)),
            Self::Sentinels { sentinels, name, primary } => {
                let at = primary_by(sentinels, name).await?;
                let client = Client::open(primary.clone().set_addr(address_at(primary.addr(), &at)?))?;
                let mut connection = open(&client, patience).await?;
                // A former primary may not know yet that it is no longer one.
                let role: Vec<Value> = cmd("ROLE").query_async(&mut connection).await?;
                match role.first().and_then(|role| String::from_redis_value_ref(role).ok()).as_deref() {
                    Some("master") => Ok(RedisWay::Primary(connection, at)),
                    _ => Err(other(format!(
                        "the server that the Sentinels name as the primary of \"{name}\" isn't a primary"
                    ))),
                }
            }
            Self::Cluster(client) => {
                let config = ClusterConfig::new().set_connection_timeout(patience).set_response_timeout(patience);
                let mut connection = client.get_async_connection_with_config(config).await?;
                let epoch = epoch(&mut connection).await?;
                Ok(RedisWay::Cluster(connection, epoch))
            }
        }
    }

    /// Returns whether a connection still leads to the primary; true if that can't be found out.
    ///
    /// # Errors
    /// The error of the system or of Redis.
    pub async fn is_current(&self, way: &mut RedisWay) -> Result<bool, RedisError> {
        match (self, way) {
            (Self::Sentinels { sentinels, name, .. }, RedisWay::Primary(_, at)) => {
                Ok(primary_by(sentinels, name).await.map_or(true, |now| now == *at))
            }
            (Self::Cluster(_), RedisWay::Cluster(connection, before)) => Ok(epoch(connection).await? == *before),
            _ => Ok(true),
        }
    }
}

impl RedisWay {
    /// Sends a command without a key: to any node of a Redis Cluster.
    pub async fn ask_any<T: FromRedisValue>(&mut self, command: &Cmd) -> Result<T, RedisError> {
        match self {
            Self::One(connection) | Self::Primary(connection, _) => command.query_async(connection).await,
            Self::Cluster(connection, _) => {
                let any = RoutingInfo::SingleNode(SingleNodeRoutingInfo::RandomPrimary);
                Ok(T::from_redis_value(connection.route_command(command.clone(), any).await?)?)
            }
        }
    }
}

impl ConnectionLike for RedisWay {
    fn req_packed_command<'a>(&'a mut self, cmd: &'a Cmd) -> RedisFuture<'a, Value> {
        match self {
            Self::One(connection) | Self::Primary(connection, _) => connection.req_packed_command(cmd),
            Self::Cluster(connection, _) => connection.req_packed_command(cmd),
        }
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        pipeline: &'a Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        match self {
            Self::One(connection) | Self::Primary(connection, _) => {
                connection.req_packed_commands(pipeline, offset, count)
            }
            Self::Cluster(connection, _) => connection.req_packed_commands(pipeline, offset, count),
        }
    }

    fn get_db(&self) -> i64 {
        match self {
            Self::One(connection) | Self::Primary(connection, _) => connection.get_db(),
            Self::Cluster(connection, _) => connection.get_db(),
        }
    }
}

/// Returns whether an error says that the server is not a primary, or can't act as one now.
pub(crate) fn is_demoted(error: &RedisError) -> bool {
    matches!(error.code(), Some("READONLY" | "MASTERDOWN" | "CLUSTERDOWN" | "LOADING" | "UNBLOCKED"))
}

async fn open(client: &Client, patience: Duration) -> Result<MultiplexedConnection, RedisError> {
    let config =
        AsyncConnectionConfig::new().set_connection_timeout(Some(patience)).set_response_timeout(Some(patience));
    client.get_multiplexed_async_connection_with_config(&config).await
}

/// Returns the place of the primary, from the first Sentinel that knows it.
async fn primary_by(sentinels: &[Client], name: &str) -> Result<(String, u16), RedisError> {
    let mut failed = other(format!("the Sentinels know no primary \"{name}\""));
    for sentinel in sentinels {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(SENTINEL_PATIENCE))
            .set_response_timeout(Some(SENTINEL_PATIENCE));
        let asked = async {
            let mut connection = sentinel.get_multiplexed_async_connection_with_config(&config).await?;
            let mut ask = cmd("SENTINEL");
            ask.arg("GET-MASTER-ADDR-BY-NAME").arg(name).query_async(&mut connection).await
        };
        let told: Result<Option<(String, u16)>, RedisError> = asked.await;
        match told {
            Ok(Some(at)) => return Ok(at),
            Ok(None) => {}
            Err(error) => failed = error,
        }
    }
    Err(failed)
}

/// Returns the address of a primary at a place, in the form that the operator configured.
fn address_at(given: &ConnectionAddr, (host, port): &(String, u16)) -> Result<ConnectionAddr, RedisError> {
    match given {
        ConnectionAddr::TcpTls { insecure, tls_params, .. } => {
            let (insecure, tls_params) = (*insecure, tls_params.clone());
            Ok(ConnectionAddr::TcpTls { host: host.clone(), port: *port, insecure, tls_params })
        }
        _ if is_here(host) => Ok(ConnectionAddr::Tcp(host.clone(), *port)),
        _ => {
            let text = "the Sentinels name a primary on another machine, which needs TLS: \"rediss://…\" in `redis`";
            Err(RedisError::from((ErrorKind::InvalidClientConfig, text)))
        }
    }
}

fn is_here(host: &str) -> bool {
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

fn place(address: &ConnectionAddr) -> (String, u16) {
    match address {
        ConnectionAddr::Tcp(host, port) | ConnectionAddr::TcpTls { host, port, .. } => (host.clone(), *port),
        _ => (String::new(), 0),
    }
}

/// Returns the epoch of a Redis Cluster, which changes with each failover; `None` if this user may
/// not query it.
async fn epoch(connection: &mut ClusterConnection) -> Result<Option<u64>, RedisError> {
    let mut ask = cmd("CLUSTER");
    ask.arg("INFO");
    let any = RoutingInfo::SingleNode(SingleNodeRoutingInfo::RandomPrimary);
    match connection.route_command(ask, any).await {
        Ok(told) => {
            let told = String::from_redis_value(told)?;
            let mut epochs = told.lines().filter_map(|line| line.trim_end().strip_prefix("cluster_current_epoch:"));
            Ok(epochs.next().and_then(|epoch| epoch.parse().ok()))
        }
        Err(error) if error.code() == Some("NOPERM") => Ok(None),
        Err(error) => Err(error),
    }
}

fn other(text: String) -> RedisError {
    std::io::Error::other(text).into()
}

/// The time within which one of several Sentinels has to answer.
const SENTINEL_PATIENCE: Duration = Duration::from_millis(500);

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(redis: &[&str], sentinels: &[&str]) -> RedisAddresses {
        let owned = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect();
        RedisAddresses { redis: owned(redis), sentinels: owned(sentinels) }
    }

    #[test]
    fn addresses_say_by_which_way_redis_is_found() {
        let is_one = |source: Result<RedisSource, RedisError>| matches!(source, Ok(RedisSource::One(_)));
        assert!(is_one(RedisSource::new(&addresses(&["redis://127.0.0.1:6379"], &[]))));
        let several = addresses(&["redis://127.0.0.1:7001", "redis://127.0.0.1:7002"], &[]);
        assert!(matches!(RedisSource::new(&several), Ok(RedisSource::Cluster(_))));
        let named = RedisSource::new(&addresses(&["rediss://:secret@letters"], &["redis://127.0.0.1:26379"]));
        let Ok(RedisSource::Sentinels { name, primary, .. }) = named else { panic!("Sentinels") };
        assert_eq!((name.as_str(), primary.redis_settings().password()), ("letters", Some("secret")));
    }

    #[test]
    fn a_primary_elsewhere_is_reached_over_tls_alone() {
        let given = |text: &str| text.into_connection_info().expect("an address").addr().clone();
        let (here, elsewhere) = (("127.0.0.1".to_owned(), 1), ("192.0.2.1".to_owned(), 1));
        assert!(address_at(&given("redis://letters"), &here).is_ok());
        assert!(address_at(&given("redis://letters"), &elsewhere).is_err());
        assert!(matches!(
            address_at(&given("rediss://letters"), &elsewhere),
            Ok(ConnectionAddr::TcpTls { port: 1, .. })
        ));
    }
}
