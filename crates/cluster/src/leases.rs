//! The leases by which processes know that others are alive.
//!
//! # Invariants
//!
//! * A process renews its own lease regardless of other work: it isn't considered dead because
//!   Redis has much to do, or because there are many nodes to check.
//! * A process that finds another one in its lease ends, and leaves that lease alone.

use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::{select, try_join_all};
use redis::RedisError;
use rookery_base::lock::lock;
use tokio::sync::mpsc::UnboundedSender;
use tokio::time::{MissedTickBehavior, interval};

use crate::clocks::{ahead_ms, stamp};
use crate::engine::{RedisConnection, RedisEngine, lease_prefix, renewed_every};
use crate::marks::unix_ms;
use crate::service::ServiceEvent;
use crate::table::NodeTable;
use crate::wire::NodeProcess;

/// The leases to renew and to check.
pub(crate) struct Leases {
    /// The text of this process's lease.
    text: String,
    others: Vec<NodeProcess>,
}

impl Leases {
    pub(crate) fn of(table: &NodeTable) -> Self {
        let others = table.others().into_iter().map(|(_, process)| process).collect();
        Self { text: table.lease(), others }
    }
}

/// The result of looking for the lease of a process.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LookedAtLease {
    pub process: NodeProcess,
    pub has_lease: bool,
    /// The milliseconds by which the clock of its process is ahead, if the lease shows a time.
    pub ahead_ms: Option<i64>,
}

/// The code that renews this process's lease and checks those of others, outside the loop.
pub(crate) struct LeaseKeeper {
    pub engine: RedisEngine,
    pub connection: RedisConnection,
    pub leases: Arc<Mutex<Leases>>,
}

impl LeaseKeeper {
    /// Keeps the lease until another process has it or the events aren't received any more.
    ///
    /// # Errors
    /// The error of the system or of Redis, after which the connection is unusable.
    pub(crate) async fn keep(
        self,
        me: NodeProcess,
        lease: Duration,
        events: &UnboundedSender<ServiceEvent>,
    ) -> Result<(), RedisError> {
        let (renewing, looking) = (pin!(self.renew(me, lease, events)), pin!(self.look(me, events)));
        select(renewing, looking).await.factor_first().0
    }

    /// Renews this process's lease.
    async fn renew(
        &self,
        me: NodeProcess,
        lease: Duration,
        events: &UnboundedSender<ServiceEvent>,
    ) -> Result<(), RedisError> {
        let mut connection = self.connection.clone();
        let mut turns = interval(renewed_every(lease));
        turns.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            turns.tick().await;
            let text = stamp(&lock(&self.leases).text, unix_ms(), lease);
            if !connection.renew_lease(me, &text, lease).await? {
                _ = events.send(ServiceEvent::Superseded);
                return Ok(());
            }
        }
    }

    /// Checks each second whether Redis is still the same, and the leases of others, all at once.
    async fn look(&self, me: NodeProcess, events: &UnboundedSender<ServiceEvent>) -> Result<(), RedisError> {
        let mut connection = self.connection.clone();
        let mut turns = interval(SECOND);
        turns.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            turns.tick().await;
            if !self.engine.is_current(&mut connection).await? {
                return Err(std::io::Error::other("another Redis is the primary now").into());
            }
            if !connection.has_inbox(me).await? {
                return Err(std::io::Error::other("Redis has forgotten the inbox of this node").into());
            }
            let others = lock(&self.leases).others.clone();
            let looks = others.into_iter().map(|process| {
                let mut connection = connection.clone();
                async move {
                    let found = connection.find_lease_with_age(process.node).await?;
                    let found = found.filter(|found| found.text.starts_with(&lease_prefix(process)));
                    let ahead_ms = found.as_ref().and_then(|found| ahead_ms(found, unix_ms()));
                    Ok::<_, RedisError>(LookedAtLease { process, has_lease: found.is_some(), ahead_ms })
                }
            });
            if events.send(ServiceEvent::Leases(try_join_all(looks).await?)).is_err() {
                return Ok(());
            }
        }
    }
}

/// The time between two checks of others' leases.
const SECOND: Duration = Duration::from_secs(1);
