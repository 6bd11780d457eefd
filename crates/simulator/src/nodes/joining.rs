//! The way of a process into its cluster, in the same steps as the server's: the database, the
//! lease, and agreement with the other nodes, which have to use the same homes.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;

use rookery_cluster::Members;
use rookery_cluster::members::{self, JoiningMember};
use rookery_cluster::service::fence_off;
use rookery_cluster::table::{NodeTable, Update};
use rookery_cluster::wire::NodeProcess;

use crate::nodes::redis::{LEASE_MS, SimRedis};

/// A process that has joined and doesn't serve clients yet.
pub(crate) struct EnteredProcess {
    pub table: NodeTable,
    /// The processes of other nodes that have no lease.
    pub away: Vec<NodeProcess>,
}

/// Joins the cluster. Returns `None` if the process ends, because the database or Redis refuses it
/// or other nodes have taken over.
pub(crate) async fn enter(
    name: String,
    shards: u16,
    members: Members,
    redis: Rc<RefCell<SimRedis>>,
    now_ms: Rc<Cell<u64>>,
) -> Option<EnteredProcess> {
    let (meta, fencing) = (&*members.meta, &*members.fencing);
    let rows = members::all(meta).await.ok()?;
    if let Some((_, row)) = rows.iter().find(|(other, _)| *other == name) {
        // An earlier process may still be running there.
        let until = now_ms.get() + LEASE_MS + GRACE_MS;
        while redis.borrow().lease(row.number).is_some() {
            if now_ms.get() >= until {
                return None;
            }
            a_while(&now_ms).await;
        }
    }
    let joined = members::join(meta, fencing, &name, JoiningMember::of_shards(shards)).await.ok()?;
    let me = NodeProcess { node: joined.row.number, incarnation: joined.row.incarnation };
    let mut table = NodeTable::joining(name, joined, rows);
    let rows = members::all(meta).await.ok()?;
    fence_off(fencing, &table.gone_processes(&rows)).await.ok()?;
    table.update(rows);
    if redis.borrow().is_away || !redis.borrow_mut().take_lease(me.node, &table.lease()) {
        return None;
    }
    redis.borrow_mut().create_inbox(me);
    let until = now_ms.get() + LEASE_MS + GRACE_MS;
    loop {
        let rows = members::all(meta).await.ok()?;
        fence_off(fencing, &table.gone_processes(&rows)).await.ok()?;
        if table.update(rows) == Update::Superseded {
            return None;
        }
        if redis.borrow().is_away || !redis.borrow_mut().renew_lease(me, &table.lease()) {
            return None;
        }
        let digest = table.digest();
        let is_behind =
            |process: NodeProcess| redis.borrow().lease(process.node).is_some_and(|text| !text.ends_with(&digest));
        if !table.others().into_iter().any(|(_, process)| is_behind(process)) || now_ms.get() >= until {
            break;
        }
        a_while(&now_ms).await;
    }
    let others = table.others().into_iter().map(|(_, process)| process);
    let away = others.filter(|process| !redis.borrow().has_lease(*process)).collect();
    Some(EnteredProcess { table, away })
}

/// Waits for [`LOOK_MS`].
async fn a_while(now_ms: &Cell<u64>) {
    let until = now_ms.get() + LOOK_MS;
    poll_fn(|_| if now_ms.get() >= until { Poll::Ready(()) } else { Poll::Pending }).await;
}

/// The time beyond a lease for which a process waits for others, in milliseconds.
const GRACE_MS: u64 = 2_000;
/// The time between two checks.
const LOOK_MS: u64 = 100;
