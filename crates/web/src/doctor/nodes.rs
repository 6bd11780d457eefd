//! Assesses the cluster as this process sees it: the nodes, Redis, and the journal from which
//! others restore the sessions and rooms of this node if it dies.

use rookery_observe::cluster::ClusterSeen;

use super::finding::{DoctorFact, DoctorFinding, Grade};
use crate::health::ShownBytes;

/// Returns the findings about the cluster.
pub(crate) fn nodes(seen: &ClusterSeen) -> Vec<DoctorFinding> {
    let mut findings: Vec<_> = match seen.has_redis {
        false => vec![redis_away()],
        true if !seen.journal.is_kept => vec![journal_away()],
        true => Vec::new(),
    };
    // The first is this one.
    let others = || seen.nodes.iter().skip(1);
    findings.extend(others().filter(|node| !node.is_up).map(|node| node_silent(&node.name)));
    let crowded = others().filter(|node| node.is_up && node.traffic.waiting_bytes > WAITING_BYTES);
    findings.extend(crowded.map(|node| node_slow(&node.name, node.traffic.waiting_bytes)));
    let apart = |ms: &i64| ms.unsigned_abs() > CLOCKS_MS;
    let clocks = others().filter_map(|node| Some((&node.name, node.clock_ms.filter(apart)?)));
    findings.extend(clocks.map(|(name, ms)| clock_apart(name, ms)));
    if findings.is_empty() {
        let what =
            format!("The cluster has {} nodes; all of them are up, and Redis accepts the journal.", seen.nodes.len());
        findings.push(DoctorFinding::fine(CLUSTER, what));
    }
    findings
}

fn redis_away() -> DoctorFinding {
    let what = "The Redis of the cluster can't be reached: messages for accounts of other nodes wait.".into();
    let why = "After half a minute senders get errors, and if a node dies meanwhile, its sessions end.";
    let remedy =
        "Check that it is running and accepts connections; the log says what happens. This server keeps trying.";
    DoctorFinding::wrong(Grade::Urgent, CLUSTER, what, why, remedy).of(DoctorFact::RedisAway)
}

fn journal_away() -> DoctorFinding {
    let what = "Redis doesn't accept the journal of this node.".into();
    let why = "If this node dies now, its sessions end instead of being resumed at other nodes.";
    let remedy = "It is written again in full within seconds. If this continues, check whether Redis is full (maxmemory) or read-only.";
    DoctorFinding::wrong(Grade::Warning, CLUSTER, what, why, remedy).of(DoctorFact::JournalAway)
}

fn node_silent(name: &str) -> DoctorFinding {
    let what = format!("Node {name} is silent.");
    let why = "If it stays silent, the other nodes take over its accounts and rooms.";
    let remedy = "Start it again, or remove it with `rookery node remove` if it won't come back.";
    DoctorFinding::wrong(Grade::Urgent, CLUSTER, what, why, remedy).of(DoctorFact::NodeSilent(name.to_owned()))
}

fn node_slow(name: &str, bytes: u64) -> DoctorFinding {
    let what = format!("{} wait for node {name}.", ShownBytes(bytes));
    let why = "Messages for its users are late, and beyond 32 MiB senders get errors.";
    let remedy = "Look at the load of that node and of Redis, and at the network between them.";
    let fact = DoctorFact::NodeSlow(name.to_owned(), bytes);
    DoctorFinding::wrong(Grade::Warning, CLUSTER, what, why, remedy).of(fact)
}

fn clock_apart(name: &str, ms: i64) -> DoctorFinding {
    let seconds = ms.unsigned_abs() / 1000;
    let what = format!("The clocks of node {name} and of this one are {seconds} s apart.");
    let why = "Archives of accounts that move between them get wrong times.";
    let remedy = "Have both machines use the same source of time, such as NTP.";
    let fact = DoctorFact::ClockApart(name.to_owned(), seconds);
    DoctorFinding::wrong(Grade::Warning, CLUSTER, what, why, remedy).of(fact)
}

const CLUSTER: &str = "cluster";
/// The waiting bytes for a node that are reported: more than a busy second causes.
const WAITING_BYTES: u64 = 4 << 20;
/// The difference of clocks that is reported, in milliseconds: longer than a letter takes.
const CLOCKS_MS: u64 = 2000;

#[cfg(test)]
mod tests {
    use rookery_observe::cluster::{JournalSeen, NodeSeen};

    use super::*;

    fn healthy_cluster() -> ClusterSeen {
        let node = |name: &str| NodeSeen { name: name.into(), is_up: true, ..NodeSeen::default() };
        let journal = JournalSeen { is_kept: true, ..JournalSeen::default() };
        ClusterSeen { has_redis: true, gone: 0, journal, nodes: vec![node("n1"), node("n2"), node("n3")] }
    }

    #[test]
    fn a_cluster_is_assessed() {
        type Change = fn(&mut ClusterSeen);
        let cases: [(Change, Grade, &str); 6] = [
            (|_| {}, Grade::Fine, "The cluster has 3 nodes"),
            (|seen| seen.has_redis = false, Grade::Urgent, "can't be reached"),
            (|seen| seen.journal.is_kept = false, Grade::Warning, "doesn't accept the journal"),
            (|seen| seen.nodes[2].is_up = false, Grade::Urgent, "Node n3 is silent."),
            (|seen| seen.nodes[1].traffic.waiting_bytes = 8 << 20, Grade::Warning, "wait for node n2."),
            (|seen| seen.nodes[1].clock_ms = Some(-3200), Grade::Warning, "node n2 and of this one are 3 s apart"),
        ];
        for (change, grade, words) in cases {
            let mut seen = healthy_cluster();
            change(&mut seen);
            let found = nodes(&seen);
            assert_eq!((found.len(), found[0].grade), (1, grade), "{found:?}");
            assert!(found[0].what.contains(words), "{found:?}");
        }
    }
}
