//! Nodes that don't fit together: they are refused by name at their start, and by `rookery check`.

use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rookery_needs::Redis;

use super::cluster::test::all_chat;
use super::cluster::{ClusterNodes, PATIENCE, USERS};
use super::cluster_client::ClusterClient;

rookery_needs::needing!("cli.cluster":
    two_clusters_on_one_database_are_refused_by_name,
    a_redis_that_has_lost_its_memory_keeps_nobody_out,
    nodes_serve_the_same_domains,
    nodes_with_other_settings_are_named,
    a_lease_of_an_earlier_process_delays_the_next_one_only,
    a_node_whose_clock_is_far_off_is_refused,
    a_redis_that_anyone_can_write_to_is_a_fault,
    nodes_reach_redis_by_a_socket,
    a_copy_of_the_database_is_another_one,
);

/// Replaces a text in the configuration of a node.
fn change(nodes: &ClusterNodes, node: usize, from: &str, to: &str) {
    let rig = &nodes.rigs[node];
    let config = std::fs::read_to_string(rig.path("rookery.toml")).expect("a configuration");
    assert!(config.contains(from), "{config}");
    rig.write("rookery.toml", &config.replace(from, to));
}

/// Checks that a check of a node has a line of a grade with these words, and returns its exit code.
fn check(nodes: &ClusterNodes, node: usize, grade: &str, words: &str) -> i32 {
    let checked = nodes.run(node, &["check"]);
    let is_told = |line: &str| line.starts_with(grade) && line.contains(words);
    assert!(checked.out.lines().any(is_told), "{words:?} is not in:\n{}", checked.out);
    checked.code
}

mod test {
    use super::*;

    pub fn two_clusters_on_one_database_are_refused_by_name() {
        let nodes = ClusterNodes::new(2);
        let other = Redis::start();
        change(&nodes, 1, &nodes.redis.url(), &other.url());
        let (first, port) = nodes.serve(0);
        nodes.wait_for("n1", "up");
        let mut client = ClusterClient::log_in(USERS[0], port);
        nodes.rigs[1].run(&["serve"]).expect_failure(78, "node \"n1\" runs on this database with another Redis");
        assert_eq!(check(&nodes, 1, "fault    redis", "node \"n1\" runs on this database with another Redis"), 78);
        let listed = nodes.run(1, &["node", "list"]).fine();
        assert!(listed.lines().any(|line| line.starts_with("n1") && line.contains(" elsewhere ")), "{listed}");
        assert!(!nodes.lists("n2"), "it has not joined");
        let jid = client.jid.clone();
        client.say(&jid, "untouched");
        client.wait("untouched");
        check(&nodes, 0, "ok       redis", "no node runs with another Redis");
        drop(client);
        // Once the other node has stopped, this one starts.
        assert_eq!(first.stop(), 0);
        let (second, _) = nodes.serve(1);
        assert_eq!(second.stop(), 0);
    }

    const BOTH: &str = "shards = 2\ndomains = [\"localhost\", \"other.example\"]";

    pub fn nodes_serve_the_same_domains() {
        let nodes = ClusterNodes::new(2);
        change(&nodes, 1, "shards = 2", BOTH);
        let (first, _) = nodes.serve(0);
        nodes.wait_for("n1", "up");
        nodes.rigs[1].run(&["serve"]).expect_failure(78, "node \"n1\" of this cluster serves other domains");
        assert_eq!(check(&nodes, 1, "fault    redis", "node \"n1\" of this cluster serves other domains"), 78);
        // A reload of the running nodes is enough.
        change(&nodes, 0, "shards = 2", BOTH);
        first.signal("HUP");
        let until = Instant::now() + PATIENCE;
        while !nodes.run(1, &["node", "list"]).fine().contains(" same ") {
            assert!(Instant::now() < until, "n1 says nothing of its domains");
            thread::sleep(Duration::from_millis(100));
        }
        let (second, _) = nodes.serve(1);
        assert_eq!((second.stop(), first.stop()), (0, 0));
    }

    pub fn nodes_with_other_settings_are_named() {
        let nodes = ClusterNodes::with(2, |at| (String::new(), format!("[limits]\nresources_per_user = {}\n", 7 + at)));
        let (first, _) = nodes.serve(0);
        nodes.wait_for("n1", "up");
        check(&nodes, 1, "warning  redis", "node \"n1\" has other settings in limits");
        let (second, _) = nodes.serve(1);
        nodes.wait_for("n2", "up");
        let listed = nodes.run(1, &["node", "list"]).fine();
        let states = |node: &str, word: &str| {
            listed.lines().any(|line| line.starts_with(node) && line.contains(&format!(" {word} ")))
        };
        assert!(states("n1", "other") && states("n2", "same"), "{listed}");
        // Each reads the other's row within a second.
        thread::sleep(Duration::from_secs(3));
        for (log, other) in [(second.log(), "n1"), (first.log(), "n2")] {
            let warnings = log.lines().filter(|line| line.contains("has other settings"));
            let warnings: Vec<_> = warnings.filter(|line| line.contains(other) && line.contains("limits")).collect();
            assert!((1..=2).contains(&warnings.len()), "at its start, and once a minute: {log}");
        }
    }

    /// Gives a node that has stopped a lease with a clock that differs by so many milliseconds.
    fn set_clock(nodes: &ClusterNodes, ahead_ms: i64) {
        set_lease(nodes, ahead_ms, Duration::from_secs(60));
    }

    /// Gives the first process of the first node a lease with a clock that differs by so many
    /// milliseconds.
    fn set_lease(nodes: &ClusterNodes, ahead_ms: i64, lasts: Duration) {
        let found = nodes.redis.command(&["KEYS", "rk:*:mark"]);
        let prefix = found.lines().find_map(|line| line.trim_end().strip_suffix(":mark")).expect("a mark");
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a time").as_millis() as u64;
        let (now, lasts) = (now.saturating_add_signed(ahead_ms), lasts.as_millis().to_string());
        let lease = format!("1:{now}:{lasts}:0000000000000000");
        nodes.redis.command(&["SET", &format!("{prefix}:lease:{{1}}"), &lease, "PX", &lasts]);
    }

    pub fn a_lease_of_an_earlier_process_delays_the_next_one_only() {
        let nodes = ClusterNodes::new(2);
        let ((first, _), (second, _)) = (nodes.serve(0), nodes.serve(1));
        nodes.wait_for("n1", "up");
        nodes.wait_for("n2", "up");
        first.signal("KILL");
        // The command asks the first node's database, not its process.
        nodes.wait_until_taken_over("n1");
        // A process that stood still renews its lease once when it wakes, before it has read that
        // others have its homes.
        set_lease(&nodes, 0, Duration::from_secs(2));
        let (again, _) = nodes.serve(0);
        nodes.wait_for("n1", "up");
        assert_eq!((again.stop(), second.stop()), (0, 0));
    }

    pub fn a_node_whose_clock_is_far_off_is_refused() {
        let nodes = ClusterNodes::new(2);
        let (first, _) = nodes.serve(0);
        nodes.wait_for("n1", "up");
        assert_eq!(first.stop(), 0);
        set_clock(&nodes, -90_000);
        let words = "seconds behind this machine's";
        assert_eq!(check(&nodes, 1, "fault    redis", words), 78);
        nodes.rigs[1].run(&["serve"]).expect_failure(78, words);
        set_clock(&nodes, 20_000);
        check(&nodes, 1, "warning  redis", "the clock of node \"n1\" of this cluster is 20 seconds ahead");
        set_clock(&nodes, 0);
        let same = nodes.run(1, &["check"]);
        assert!(!same.out.contains("the clock of node"), "{}", same.out);
    }

    pub fn a_redis_that_anyone_can_write_to_is_a_fault() {
        let nodes = ClusterNodes::new(1);
        check(&nodes, 0, "ok       redis", "a round trip takes");
        // An address that this machine doesn't have.
        nodes.redis.command(&["CONFIG", "SET", "bind", "127.0.0.1 -192.0.2.1"]);
        let closed = nodes.run(0, &["check"]);
        assert!(!closed.out.contains("requires no password"), "the protected mode refuses others: {}", closed.out);
        nodes.redis.command(&["CONFIG", "SET", "protected-mode", "no"]);
        let words =
            "requires no password, and listens at -192.0.2.1: anyone who reaches it there can write as any user";
        assert_eq!(check(&nodes, 0, "fault    redis", words), 78);
        let (first, _) = nodes.serve(0);
        assert!(first.log().contains(words));
        nodes.redis.command(&["CONFIG", "SET", "requirepass", "secret"]);
        let url = nodes.redis.url();
        change(&nodes, 0, &url, &url.replace("redis://", "redis://:secret@"));
        let safe = nodes.run(0, &["check"]);
        assert!(!safe.out.contains("requires no password") && safe.out.contains("a round trip takes"), "{}", safe.out);
    }

    pub fn nodes_reach_redis_by_a_socket() {
        let nodes = ClusterNodes::new(2);
        change(&nodes, 0, &nodes.redis.url(), &nodes.redis.socket_url());
        check(&nodes, 0, "ok       redis", "a round trip takes");
        let ((first, port1), (second, port2)) = (nodes.serve(0), nodes.serve(1));
        nodes.wait_for("n1", "up");
        nodes.wait_for("n2", "up");
        let mut clients: Vec<ClusterClient> =
            USERS.iter().enumerate().map(|(at, user)| ClusterClient::log_in(user, [port1, port2][at % 2])).collect();
        all_chat(&mut clients, "by a socket and by a port");
        drop(clients);
        assert_eq!((second.stop(), first.stop()), (0, 0));
    }

    /// Points one node at a copy of the database, as a restore under another name would, while the
    /// cluster runs.
    pub fn a_copy_of_the_database_is_another_one() {
        let nodes = ClusterNodes::new(2);
        let (first, _) = nodes.serve(0);
        nodes.wait_for("n1", "up");
        assert_eq!(first.stop(), 0);
        let config = std::fs::read_to_string(nodes.rigs[1].path("rookery.toml")).expect("a configuration");
        let url = config.split("url = \"").nth(1).and_then(|rest| rest.split('"').next()).expect("a database");
        let name = url.rsplit('/').next().expect("a name");
        let postgres = nodes.database.postgres();
        postgres.psql("postgres", &format!("CREATE DATABASE copied TEMPLATE \"{name}\"")).expect("a copy");
        change(&nodes, 1, url, &postgres.address("copied"));
        let (first, port) = nodes.serve(0);
        nodes.wait_for("n1", "up");
        let mut client = ClusterClient::log_in(USERS[0], port);
        nodes.rigs[1].run(&["serve"]).expect_failure(78, "node \"n1\" runs with this Redis on another database");
        let jid = client.jid.clone();
        client.say(&jid, "untouched");
        client.wait("untouched");
        drop(client);
        assert_eq!(first.stop(), 0);
    }

    pub fn a_redis_that_has_lost_its_memory_keeps_nobody_out() {
        let nodes = ClusterNodes::new(3);
        let ((first, _), (second, _)) = (nodes.serve(0), nodes.serve(1));
        nodes.wait_for("n1", "up");
        nodes.redis.command(&["FLUSHALL"]);
        // The nodes that run mark it again.
        let (third, _) = nodes.serve(2);
        nodes.wait_for("n3", "up");
        // All lose their power.
        drop((first, second, third));
        nodes.redis.command(&["FLUSHALL"]);
        let (first, port) = nodes.serve(0);
        // Logins wait for those that have died.
        nodes.wait_until_taken_over("n2");
        nodes.wait_until_taken_over("n3");
        drop(ClusterClient::log_in(USERS[0], port));
        assert_eq!(first.stop(), 0);
    }
}
