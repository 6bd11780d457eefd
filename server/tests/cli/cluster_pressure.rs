//! Nodes under a load that their Redis doesn't carry: what waits is bounded, and senders learn it.

use std::process::Command;

use rookery_needs::Redis;

use super::cluster::{ClusterNodes, USERS};
use super::cluster_client::ClusterClient;

rookery_needs::needing!("cli.cluster": a_redis_that_stands_still_takes_bounded_memory);

mod test {
    use super::*;

    /// Writes several times as much to accounts of another node as may wait for it, while Redis
    /// stands still: senders get errors for the rest, and the node's memory is bounded.
    pub fn a_redis_that_stands_still_takes_bounded_memory() {
        let nodes = ClusterNodes::new(2);
        let ((first, port), _second) = (nodes.serve(0), nodes.serve(1));
        ["n1", "n2"].iter().for_each(|node| nodes.wait_for(node, "up"));
        let home = |user: &str| {
            let told = nodes.run(0, &["node", "home", &format!("{user}@localhost")]).fine();
            told.split_whitespace().last().expect("a node").to_owned()
        };
        let (here, there): (Vec<&str>, Vec<&str>) = USERS.iter().copied().partition(|user| home(user) == "n1");
        let mut sender = ClusterClient::log_in(here.first().expect("an account of n1"), port);
        let process = process_of(&nodes.redis);
        let before = resident(first.pid());
        signal(&process, "STOP");
        let (body, mut most) = ("x".repeat(LENGTH), before);
        for round in 0..ROUNDS {
            let ids = round * AT_ONCE..(round + 1) * AT_ONCE;
            let text = ids.map(|id| {
                let to = there[id % there.len()];
                format!("<message type='chat' id='m{id}-' to='{to}@localhost'><body>{body}</body></message>")
            });
            sender.write(&text.collect::<String>());
            while has_more(&mut sender) {}
            most = most.max(resident(first.pid()));
        }
        signal(&process, "CONT");
        let grown = (most - before) >> 20;
        println!("{grown} MiB more while {} MiB were written", (ROUNDS * AT_ONCE * LENGTH) >> 20);
        assert!(grown < MOST_MIB, "{grown} MiB");
        assert!(sender.got.contains("remote-server-timeout"), "senders learn what can't wait");
        let jid = sender.jid.clone();
        sender.say(&jid, "and it goes on");
        sender.wait("and it goes on");
    }

    /// Reads some of a client's input. Returns whether there was any.
    fn has_more(client: &mut ClusterClient) -> bool {
        let before = client.got.len();
        assert!(client.exchange(""), "{} is connected", client.jid);
        client.got.len() > before
    }

    /// Returns the number of the process of a Redis.
    fn process_of(redis: &Redis) -> String {
        let told = redis.command(&["INFO", "server"]);
        told.lines().find_map(|line| line.strip_prefix("process_id:")).expect("a process").trim().to_owned()
    }

    fn signal(process: &str, name: &str) {
        assert!(Command::new("kill").args([&format!("-{name}"), process]).status().expect("kill").success());
    }

    /// Returns the bytes of memory that a process occupies.
    fn resident(pid: u32) -> usize {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("a process");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("its memory");
        line.trim().trim_end_matches(" kB").parse::<usize>().expect("a number") << 10
    }

    const LENGTH: usize = 64 << 10;
    const AT_ONCE: usize = 40;
    const ROUNDS: usize = 80;
    /// 32 MiB may wait for a node and as much for the database; the rest is for connections and for
    /// memory that the process keeps.
    const MOST_MIB: usize = 96;
}
