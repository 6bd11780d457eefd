//! The Redis of a cluster beyond one address: Sentinels that name the primary, and a Redis Cluster.

use std::thread;
use std::time::{Duration, Instant};

use rookery_needs::Redis;

use super::cluster::test::all_chat;
use super::cluster::{ClusterNodes, PATIENCE, USERS};
use super::cluster_client::ClusterClient;

rookery_needs::needing!("cli.cluster":
    sentinels_name_the_primary_that_takes_over,
    a_redis_cluster_may_lose_a_primary,
);

mod test {
    use super::*;

    /// Sends messages between all clients, through two nodes, while a Redis dies and another takes
    /// over.
    fn chat_while_it_dies(nodes: &ClusterNodes, dies: Redis, has_taken_over: impl Fn() -> bool) {
        let ((first, port1), (second, port2)) = (nodes.serve(0), nodes.serve(1));
        nodes.wait_for("n1", "up");
        nodes.wait_for("n2", "up");
        let mut clients: Vec<ClusterClient> =
            USERS.iter().enumerate().map(|(at, user)| ClusterClient::log_in(user, [port1, port2][at % 2])).collect();
        all_chat(&mut clients, "before");
        thread::scope(|scope| {
            scope.spawn(|| {
                // While messages are under way.
                thread::sleep(Duration::from_millis(200));
                drop(dies);
            });
            let until = Instant::now() + PATIENCE;
            let mut round = 0;
            while round < ROUNDS || !has_taken_over() {
                assert!(Instant::now() < until, "none has taken over");
                all_chat(&mut clients, &format!("round {round}"));
                round += 1;
            }
        });
        all_chat(&mut clients, "after");
        nodes.wait_for("n1", "up");
        nodes.wait_for("n2", "up");
        let checked = nodes.run(0, &["check"]);
        assert!(checked.out.contains("a round trip takes"), "{}", checked.out);
        drop(clients);
        assert_eq!((second.stop(), first.stop()), (0, 0));
    }

    pub fn sentinels_name_the_primary_that_takes_over() {
        let primary = Redis::start();
        let replica = primary.replica();
        let sentinel = primary.sentinel("letters");
        let keys =
            format!("redis = \"redis://letters\"\nsentinels = [\"{}\", \"redis://127.0.0.1:1\"]", sentinel.url());
        let nodes = ClusterNodes::on(replica, &keys, 2, |_| Default::default());
        chat_while_it_dies(&nodes, primary, || nodes.redis.command(&["ROLE"]).contains("master"));
    }

    pub fn a_redis_cluster_may_lose_a_primary() {
        let mut all = Redis::cluster();
        let urls: Vec<String> = all.iter().map(|redis| format!("\"{}\"", redis.url())).collect();
        let (dies, stays) = (all.remove(0), all.remove(0));
        let keys = format!("redis = [{}]", urls.join(", "));
        let nodes = ClusterNodes::on(stays, &keys, 2, |_| Default::default());
        let is_primary = |redis: &&Redis| redis.command(&["ROLE"]).contains("master");
        chat_while_it_dies(&nodes, dies, || all.iter().filter(is_primary).count() == 2);
    }

    /// The least number of rounds.
    const ROUNDS: usize = 10;
}
