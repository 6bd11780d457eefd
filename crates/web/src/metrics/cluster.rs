//! The metrics of a cluster: a process without a cluster has none.

#[cfg(test)]
use rookery_observe::cluster::NodeTraffic;
use rookery_observe::cluster::{ClusterSeen, JournalSeen, NodeCount, NodeSeen};

use super::{COUNTER, GAUGE, MetricPage, label};

/// Writes this process's view of its cluster.
pub(super) fn write(page: &mut MetricPage, seen: &ClusterSeen) {
    let help = "1 while the Redis that carries letters between nodes can be reached.";
    page.one("rookery_cluster_redis_up", GAUGE, help, "", u8::from(seen.has_redis));
    let help = "Processes of other nodes that have gone since the start.";
    page.one("rookery_cluster_departures_total", COUNTER, help, "", seen.gone);
    journal(page, &seen.journal);
    let mut of_each = |name, kind, help, value: fn(&NodeSeen) -> u64, skip| {
        page.head(name, kind, help);
        for node in seen.nodes.iter().skip(skip) {
            page.line(name, &format!("{{node=\"{}\"}}", label(&node.name)), value(node));
        }
    };
    let help = "1 for a node that is alive as far as this one can see; the first is this one.";
    of_each("rookery_cluster_node_up", GAUGE, help, |node| u64::from(node.is_up), 0);
    let help = "Slots of 16384 whose home a node is: its share of accounts and rooms.";
    of_each("rookery_cluster_slots", GAUGE, help, |node| node.slots, 0);
    let help = "Bytes that wait for a node or that it has not handled; above 32 MiB, letters for it are refused.";
    of_each("rookery_cluster_waiting_bytes", GAUGE, help, |node| node.traffic.waiting_bytes, OTHERS);
    let help = "Letters for a node that were refused because it was away or too many waited.";
    of_each("rookery_cluster_refused_total", COUNTER, help, |node| node.traffic.refused, OTHERS);
    clocks(page, seen);
    counts(page, seen);
}

/// Writes how far the clocks of other nodes are apart from this one's.
fn clocks(page: &mut MetricPage, seen: &ClusterSeen) {
    let name = "rookery_cluster_clock_seconds";
    page.head(name, GAUGE, "Seconds by which the clock of a node is ahead of this one's; negative if it is behind.");
    for node in seen.nodes.iter().skip(OTHERS) {
        if let Some(clock_ms) = node.clock_ms {
            page.line(name, &format!("{{node=\"{}\"}}", label(&node.name)), clock_ms as f64 / 1000.0);
        }
    }
}

/// Writes the state of this process's journal.
fn journal(page: &mut MetricPage, seen: &JournalSeen) {
    let help =
        "1 while Redis accepts the journal, from which other nodes continue this one's sessions and rooms if it dies.";
    page.one("rookery_cluster_journal_kept", GAUGE, help, "", u8::from(seen.is_kept));
    let help = "Batches of the journal that were given to Redis.";
    page.one("rookery_cluster_journal_batches_total", COUNTER, help, "", seen.batches);
    let help = "Writes in these batches: states, counts and stanzas of sessions, and rooms.";
    page.one("rookery_cluster_journal_writes_total", COUNTER, help, "", seen.writes);
    let help = "Bytes of these writes.";
    page.one("rookery_cluster_journal_bytes_total", COUNTER, help, "", seen.bytes);
}

/// Writes the traffic with other nodes, by direction.
fn counts(page: &mut MetricPage, seen: &ClusterSeen) {
    let families: [(_, _, CountedValue); 3] = [
        (
            "rookery_cluster_letters_total",
            "Letters to and from other nodes; a stanza is one, for however many recipients of a node.",
            |count| count.letters,
        ),
        ("rookery_cluster_entries_total", "Entries of Redis that these letters were in.", |count| count.entries),
        ("rookery_cluster_bytes_total", "Bytes of these entries.", |count| count.bytes),
    ];
    for (name, help, value) in families {
        page.head(name, COUNTER, help);
        for NodeSeen { name: node, traffic, .. } in seen.nodes.iter().skip(OTHERS) {
            for (direction, count) in [("sent", &traffic.sent), ("received", &traffic.received)] {
                let labels = format!("{{node=\"{}\",direction=\"{direction}\"}}", label(node));
                page.line(name, &labels, value(count));
            }
        }
    }
}

/// A function that returns one number of a count.
type CountedValue = fn(&NodeCount) -> u64;

/// The index of the first node other than this one.
const OTHERS: usize = 1;

/// Returns a cluster with non-zero counts.
#[cfg(test)]
pub(super) fn of_two_nodes() -> ClusterSeen {
    let count = |letters| NodeCount { letters, entries: letters / 2, bytes: letters * 100 };
    let traffic = NodeTraffic { waiting_bytes: 7, sent: count(8), received: count(6), refused: 1 };
    let nodes = vec![
        NodeSeen { name: "n1".into(), is_up: true, slots: 8000, clock_ms: Some(0), traffic: NodeTraffic::default() },
        NodeSeen { name: "n2".into(), is_up: false, slots: 8384, clock_ms: Some(-2_500), traffic },
    ];
    let journal = JournalSeen { is_kept: true, batches: 4, writes: 9, bytes: 900 };
    ClusterSeen { has_redis: true, gone: 3, journal, nodes }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_nodes_have_traffic_and_all_have_slots() {
        let mut page = MetricPage::default();
        write(&mut page, &of_two_nodes());
        let lines: Vec<&str> = page.0.lines().filter(|line| !line.starts_with('#')).collect();
        for line in [
            "rookery_cluster_redis_up 1",
            "rookery_cluster_departures_total 3",
            "rookery_cluster_journal_kept 1",
            "rookery_cluster_journal_batches_total 4",
            "rookery_cluster_journal_writes_total 9",
            "rookery_cluster_journal_bytes_total 900",
            "rookery_cluster_node_up{node=\"n1\"} 1",
            "rookery_cluster_node_up{node=\"n2\"} 0",
            "rookery_cluster_slots{node=\"n1\"} 8000",
            "rookery_cluster_clock_seconds{node=\"n2\"} -2.5",
            "rookery_cluster_waiting_bytes{node=\"n2\"} 7",
            "rookery_cluster_refused_total{node=\"n2\"} 1",
            "rookery_cluster_letters_total{node=\"n2\",direction=\"sent\"} 8",
            "rookery_cluster_entries_total{node=\"n2\",direction=\"received\"} 3",
            "rookery_cluster_bytes_total{node=\"n2\",direction=\"sent\"} 800",
        ] {
            assert!(lines.contains(&line), "{line} is not in {lines:#?}");
        }
        assert_eq!(lines.len(), 2 + 4 + 2 + 2 + 1 + 1 + 1 + 6);
    }
}
