//! Two servers that are one: nodes of a cluster on one database and one Redis.

use std::thread;
use std::time::{Duration, Instant};

use rookery_needs::{Mariadb, Postgres, Redis};

use super::cluster_client::ClusterClient;
use super::rig::{CliRig, FREE_PORTS, RigEnded, RigServer};
use super::trace::a_trace_follows_messages_to_other_nodes;

rookery_needs::needing!("cli.cluster":
    two_nodes_are_one_server,
    two_nodes_speak_with_another_server,
    redis_may_go_and_forget,
    a_node_dies_and_comes_back,
    names_are_for_one_process_each,
    a_process_that_stood_still_gives_way,
    a_check_and_a_start_say_what_is_wrong_with_redis,
    a_user_of_redis_needs_no_dangerous_commands,
);

#[test]
fn what_a_cluster_cannot_be_is_refused_by_its_key() {
    let with = |keys: &str| {
        let rig = CliRig::new();
        rig.write("rookery.toml", &format!("{FREE_PORTS}\n{keys}\n"));
        rig
    };
    let line = FREE_PORTS.lines().count() + 3;
    let redis = "redis = \"redis://127.0.0.1:1\"";
    let sqlite = with(&format!("[cluster]\nnode = \"n1\"\n{redis}"));
    sqlite.run(&["serve"]).expect_failure(78, &format!("rookery.toml:{line}: cluster.node: nodes share a database"));
    let database = "[store]\nurl = \"postgres://nobody@127.0.0.1:1/none\"";
    for (keys, expected) in [
        (format!("[cluster]\nnode = \"n1\"\n{database}"), "`node` and `redis` belong together"),
        (format!("[cluster]\nnode = \"n 1\"\n{redis}\n{database}"), "letters, digits and hyphens"),
        ("[cluster]\nnode = \"n1\"\nredis = \"redis://:x@192.0.2.1\"".into(), "need TLS"),
        ("[cluster]\nnode = \"n1\"\nredis = \"rediss://192.0.2.1\"".into(), "needs a password"),
    ] {
        with(&keys).run(&["serve"]).expect_failure(78, expected);
    }
}

/// The server with the database of a cluster.
pub enum ClusterDatabase {
    Postgres(Postgres),
    Mariadb(Mariadb),
}

impl ClusterDatabase {
    /// Returns PostgreSQL, which all but one of these tests have.
    pub fn postgres(&self) -> &Postgres {
        match self {
            ClusterDatabase::Postgres(server) => server,
            ClusterDatabase::Mariadb(_) => panic!("this cluster's database is a MariaDB"),
        }
    }

    /// Returns the address of a new database.
    fn create(&self) -> String {
        match self {
            ClusterDatabase::Postgres(server) => server.database(),
            ClusterDatabase::Mariadb(server) => server.database(),
        }
    }
}

/// The database, the Redis and the folders of two nodes.
pub struct ClusterNodes {
    pub redis: Redis,
    pub rigs: Vec<CliRig>,
    pub database: ClusterDatabase,
}

impl ClusterNodes {
    pub fn new(number: usize) -> ClusterNodes {
        ClusterNodes::with(number, |_| (String::new(), String::new()))
    }

    /// Returns nodes that stay up even if a busy machine makes them stand still for some seconds:
    /// for tests in which none dies.
    pub fn patient(number: usize) -> ClusterNodes {
        let nodes = ClusterNodes::new(number);
        for rig in &nodes.rigs {
            let config = std::fs::read_to_string(rig.path("rookery.toml")).expect("a configuration");
            rig.write("rookery.toml", &config.replace("lease_seconds = 2", "lease_seconds = 15"));
        }
        nodes
    }

    /// Returns nodes over MariaDB instead of PostgreSQL.
    pub fn over_mariadb(number: usize) -> ClusterNodes {
        let redis = Redis::start();
        let keys = format!("redis = \"{}\"", redis.url());
        let database = ClusterDatabase::Mariadb(Mariadb::start());
        ClusterNodes::over(database, redis, &keys, number, |_| (String::new(), String::new()))
    }

    /// Returns nodes with additions to their configurations, by their index: below `[listen]`, and
    /// at the end.
    pub fn with(number: usize, more: impl Fn(usize) -> (String, String)) -> ClusterNodes {
        let redis = Redis::start();
        let keys = format!("redis = \"{}\"", redis.url());
        ClusterNodes::on(redis, &keys, number, more)
    }

    /// Returns nodes whose configurations set a Redis by these keys.
    pub fn on(redis: Redis, keys: &str, number: usize, more: impl Fn(usize) -> (String, String)) -> ClusterNodes {
        ClusterNodes::over(ClusterDatabase::Postgres(Postgres::start()), redis, keys, number, more)
    }

    fn over(
        database: ClusterDatabase,
        redis: Redis,
        keys: &str,
        number: usize,
        more: impl Fn(usize) -> (String, String),
    ) -> ClusterNodes {
        let url = database.create();
        let rig = |at: usize| {
            let rig = CliRig::new();
            let cluster = format!("[cluster]\nnode = \"n{at}\"\n{keys}\nlease_seconds = 2");
            let store = format!("[store]\nurl = \"{url}\"\ndurability = \"trust\"\nconnections = 2");
            let (listen, more) = more(at - 1);
            let ports = listening(&listen);
            rig.write("rookery.toml", &format!("shards = 2\n{ports}{store}\n{cluster}\n{more}"));
            rig
        };
        let rigs: Vec<CliRig> = (1..=number).map(rig).collect();
        for user in USERS {
            let jid = format!("{user}@localhost");
            rigs[0].run_with(&["user", "add", &jid, "--password-stdin", "--allow-short"], "secret\n").fine();
        }
        ClusterNodes { redis, rigs, database }
    }

    pub fn serve(&self, node: usize) -> (RigServer, u16) {
        let (server, said) = self.rigs[node].serve();
        (server, port_of(&said))
    }

    /// Starts a node with additional environment variables.
    pub fn serve_in(&self, node: usize, environment: &[(&str, &str)]) -> RigServer {
        self.rigs[node].serve_in(environment).0
    }

    /// Runs a command of a node.
    pub fn run(&self, node: usize, arguments: &[&str]) -> RigEnded {
        self.rigs[node].run(arguments)
    }

    /// Waits until a node is listed in a state.
    pub fn wait_for(&self, node: &str, state: &str) {
        let until = Instant::now() + PATIENCE;
        loop {
            let listed = self.rigs[0].run(&["node", "list"]).fine();
            if listed.lines().any(|line| line.starts_with(node) && line.contains(&format!(" {state} "))) {
                return;
            }
            assert!(Instant::now() < until, "{node} is not {state}:\n{listed}");
            thread::sleep(Duration::from_millis(200));
        }
    }

    /// Checks that each of two nodes reports the sessions of both, and that the report is complete.
    pub fn tell_of_all(&self, sessions: usize) {
        let until = Instant::now() + PATIENCE;
        for node in [0, 1] {
            let ask = || -> serde_json::Value {
                serde_json::from_str(&self.run(node, &["status", "--json"]).fine()).expect("JSON")
            };
            let mut status = ask();
            // A session that has ended may still be counted.
            while status["sessions"] != sessions && Instant::now() < until {
                status = ask();
            }
            assert_eq!((&status["sessions"], &status["partial"]), (&sessions.into(), &false.into()), "{status}");
            assert_eq!(status["shards"], 4, "two of each: {status}");
            let listed = self.run(node, &["session", "list", "--json"]);
            assert_eq!((listed.out.lines().count(), listed.err.as_str()), (sessions, ""), "{listed:?}");
        }
    }

    /// Returns whether a node is listed: otherwise others have taken over its homes.
    pub fn lists(&self, node: &str) -> bool {
        self.rigs[0].run(&["node", "list"]).fine().lines().any(|line| line.starts_with(node))
    }

    /// Waits until others have taken over the homes of a node.
    pub fn wait_until_taken_over(&self, node: &str) {
        let until = Instant::now() + PATIENCE;
        while self.lists(node) {
            assert!(Instant::now() < until, "{node} still has homes");
            thread::sleep(Duration::from_millis(200));
        }
    }
}

/// Returns the beginning of a configuration with more in `[listen]`.
fn listening(more: &str) -> String {
    let ports = FREE_PORTS.replacen("[listen]\n", &format!("[listen]\n{more}"), 1);
    format!("{ports}plaintext_loopback = true\nplain_without_tls = true\n")
}

/// Returns the port for clients from a server's output.
fn port_of(said: &str) -> u16 {
    let running = said.lines().find(|line| line.contains("is running")).expect("its ports");
    let port = running.split("127.0.0.1:").nth(1).expect("the port for clients that begin in the clear");
    port.split(' ').next().and_then(|port| port.parse().ok()).expect("a number")
}

/// Enough that one node is home to all of them in only one of 32 768 runs.
pub const USERS: [&str; 16] = [
    "alice", "bob", "carol", "dave", "erin", "frank", "grace", "heidi", "ivan", "judy", "kim", "leo", "mia", "nick",
    "olga", "paul",
];

/// The time within which everything happens.
pub const PATIENCE: Duration = Duration::from_secs(60);

pub mod test {
    use super::*;

    /// Sends messages from every client to every other, and checks that they arrive in order.
    pub fn all_chat(clients: &mut [ClusterClient], round: &str) {
        let jids: Vec<String> = clients.iter().map(|client| client.jid.clone()).collect();
        for (at, client) in clients.iter_mut().enumerate() {
            for to in &jids {
                client.say(to, &format!("{round} from {at}, one"));
                client.say(to, &format!("{round} from {at}, two"));
            }
        }
        for client in clients.iter_mut() {
            for at in 0..jids.len() {
                for part in ["one", "two"] {
                    client.has(&format!("<body>{round} from {at}, {part}</body>"));
                }
            }
            let got = std::mem::take(&mut client.got);
            for at in 0..jids.len() {
                let place = |part| got.find(&format!("{round} from {at}, {part}")).expect("it has come");
                assert!(place("one") < place("two"), "{}: {got}", client.jid);
            }
        }
    }

    pub fn two_nodes_are_one_server() {
        let nodes = ClusterNodes::new(2);
        let ((first, port1), (second, port2)) = (nodes.serve(0), nodes.serve(1));
        nodes.wait_for("n1", "up");
        nodes.wait_for("n2", "up");
        let homes = || {
            let accounts = USERS.map(|user| format!("{user}@localhost/phone"));
            let words: Vec<_> = ["node", "home"].into_iter().chain(accounts.iter().map(String::as_str)).collect();
            nodes.run(0, &words).fine()
        };
        let listed = homes();
        let expected: Vec<_> = USERS.map(|user| format!("{user}@localhost ")).into();
        assert!(listed.lines().zip(&expected).all(|(line, account)| line.starts_with(account)), "{listed}");
        assert!(["n1", "n2"].iter().all(|node| listed.lines().any(|line| line.ends_with(node))), "{listed}");
        let ports = [port1, port2];
        let mut clients: Vec<ClusterClient> =
            USERS.iter().enumerate().map(|(at, user)| ClusterClient::log_in(user, ports[at % 2])).collect();
        all_chat(&mut clients, "first");
        // Presence between all pairs of neighbours.
        for at in 0..USERS.len() - 1 {
            let (one, other) = (format!("{}@localhost", USERS[at]), format!("{}@localhost", USERS[at + 1]));
            clients[at].send(&format!("<presence type='subscribe' to='{other}'/>"));
            clients[at + 1].wait("type='subscribe'");
            clients[at + 1].send(&format!("<presence type='subscribed' to='{one}'/>"));
            clients[at].wait(&format!("from='{other}"));
            clients[at + 1].send(&format!("<presence><status>seen by {}</status></presence>", USERS[at]));
            clients[at].wait(&format!("seen by {}", USERS[at]));
        }
        // A room with all clients in it.
        for at in 0..clients.len() {
            let nick = USERS[at];
            clients[at].send(&format!(
                "<presence to='hall@conference.localhost/{nick}'><x xmlns='http://jabber.org/protocol/muc'/></presence>"
            ));
            clients[at].wait("code='110'");
            if at == 0 {
                clients[at].send(
                    "<iq type='set' id='own' to='hall@conference.localhost'><query xmlns='http://jabber.org/protocol/muc#owner'>\
                     <x xmlns='jabber:x:data' type='submit'/></query></iq>",
                );
                clients[at].wait("id='own'");
            }
        }
        for at in 0..clients.len() {
            clients[at].send(&format!(
                "<message type='groupchat' to='hall@conference.localhost'><body>hall {at}</body></message>"
            ));
            for client in &mut clients {
                client.wait(&format!("<body>hall {at}</body>"));
            }
        }
        nodes.tell_of_all(USERS.len());
        a_trace_follows_messages_to_other_nodes(&nodes, &listed, &mut clients);
        // An account has one home, wherever its devices connect.
        let mut other = ClusterClient::log_in(USERS[0], port2);
        clients[1].send("<message type='headline' to='alice@localhost'><body>both</body></message>");
        other.wait("both");
        clients[0].wait("both");
        drop((clients, other));
        assert_eq!(second.stop(), 0);
        nodes.wait_until_taken_over("n2");
        assert!(homes().lines().all(|line| line.ends_with(" n1")));
        assert_eq!(first.stop(), 0);
    }

    /// Lets another server connect to one node, then to the other, and lets the home of its domain
    /// connect to it.
    pub fn two_nodes_speak_with_another_server() {
        let ports: Vec<u16> = (0..3).map(|_| rookery_needs::free_port()).collect();
        let federation = |routes: &str| {
            format!(
                "[federation]\nenabled = true\npolicy = \"plain\"\nallow_private_addresses = true\nroutes = [{routes}]\n"
            )
        };
        let listens = |port: u16| format!("s2s = [\"127.0.0.1:{port}\"]\ns2s_tls = []\n");
        let to_other = federation(&format!("\"b.example 127.0.0.1:{}\"", ports[2]));
        let nodes = ClusterNodes::with(2, |at| (listens(ports[at]), to_other.clone()));
        let ((_first, port1), (_second, port2)) = (nodes.serve(0), nodes.serve(1));
        nodes.wait_for("n1", "up");
        nodes.wait_for("n2", "up");
        let other = CliRig::new();
        let called = |at: usize| {
            let routes = federation(&format!("\"localhost 127.0.0.1:{}\"", ports[at]));
            format!("domains = [\"b.example\"]\n{}{routes}", listening(&listens(ports[2])))
        };
        for node in [0, 1] {
            other.write("rookery.toml", &called(node));
            if node == 0 {
                other
                    .run_with(&["user", "add", "juliet@b.example", "--password-stdin", "--allow-short"], "secret\n")
                    .fine();
            }
            let (server, said) = other.serve();
            let mut juliet = ClusterClient::at("juliet", "b.example", port_of(&said));
            for (at, user) in USERS.iter().enumerate() {
                let mut client = ClusterClient::log_in(user, [port1, port2][at % 2]);
                client.say("juliet@b.example", &format!("from {user} {node}"));
                juliet.wait(&format!("from {user} {node}"));
                juliet.say(&client.jid, &format!("to {user} {node}"));
                client.wait(&format!("to {user} {node}"));
            }
            assert_eq!(server.stop(), 0);
        }
    }

    pub fn redis_may_go_and_forget() {
        let nodes = ClusterNodes::new(2);
        let ((_first, port1), (_second, port2)) = (nodes.serve(0), nodes.serve(1));
        let ports = [port1, port2];
        let mut clients: Vec<ClusterClient> =
            USERS.iter().enumerate().map(|(at, user)| ClusterClient::log_in(user, ports[at % 2])).collect();
        all_chat(&mut clients, "before");
        nodes.redis.command(&["FLUSHALL"]);
        all_chat(&mut clients, "emptied");
        nodes.redis.command(&["CLIENT", "KILL", "TYPE", "normal"]);
        all_chat(&mut clients, "cut");
        nodes.redis.command(&["CLIENT", "PAUSE", "4000"]);
        all_chat(&mut clients, "away");
        nodes.redis.command(&["FLUSHALL"]);
        nodes.redis.command(&["CLIENT", "KILL", "TYPE", "normal"]);
        all_chat(&mut clients, "all of it");
    }

    pub fn a_node_dies_and_comes_back() {
        let nodes = ClusterNodes::new(2);
        let ((_first, port1), (second, _)) = (nodes.serve(0), nodes.serve(1));
        let clients: Vec<ClusterClient> = USERS.iter().map(|user| ClusterClient::log_in(user, port1)).collect();
        // Clients whose homes are on the other node are disconnected when it dies.
        drop(second);
        nodes.wait_until_taken_over("n2");
        let (mut here, mut gone) = (Vec::new(), Vec::new());
        for client in clients {
            let jid = client.jid.clone();
            client.while_served().map_or_else(|| gone.push(jid), |client| here.push(client));
        }
        assert!(!gone.is_empty() && !here.is_empty(), "both nodes had accounts: {gone:?}");
        all_chat(&mut here, "without n2");
        let missed = gone[0].split('/').next().expect("an account").to_owned();
        let user = missed.split('@').next().expect("a name").to_owned();
        here[0].say(&missed, "until you are back");
        let mut back = ClusterClient::log_in(&user, port1);
        back.wait("until you are back");
        drop(back);
        let (_second, port2) = nodes.serve(1);
        here[0].say(&missed, "and home");
        let mut back = ClusterClient::log_in(&user, port2);
        back.wait("and home");
        let jid = back.jid.clone();
        here[0].say(&jid, "again");
        back.wait("again");
        // No report waits for the process that has died.
        nodes.tell_of_all(here.len() + 1);
    }

    pub fn names_are_for_one_process_each() {
        let nodes = ClusterNodes::new(2);
        let (_first, _) = nodes.serve(0);
        let other = CliRig::new();
        let keys = std::fs::read_to_string(nodes.rigs[0].path("rookery.toml")).expect("a configuration");
        other.write("rookery.toml", &keys);
        other.run(&["serve"]).expect_failure(78, "another process runs as node \"n1\"");
        nodes.rigs[0].run(&["node", "remove", "n1"]).expect_failure(1, "is up");
        nodes.rigs[0].run(&["node", "remove", "n7"]).expect_failure(1, "no node \"n7\"");
    }

    pub fn a_process_that_stood_still_gives_way() {
        let nodes = ClusterNodes::new(2);
        let ((_first, port1), (frozen, _)) = (nodes.serve(0), nodes.serve(1));
        frozen.signal("STOP");
        nodes.wait_until_taken_over("n2");
        // The other node is home to its accounts now.
        let mut clients: Vec<ClusterClient> = USERS.iter().map(|user| ClusterClient::log_in(user, port1)).collect();
        all_chat(&mut clients, "while it stands still");
        frozen.signal("CONT");
        let (code, log) = frozen.wait();
        assert!(log.contains("other nodes have taken over from this process"), "{log}");
        assert_eq!(code, Some(75), "a supervisor should start it again");
        all_chat(&mut clients, "when it has gone");
        let (_second, port2) = nodes.serve(1);
        nodes.wait_for("n2", "up");
        let mut clients: Vec<ClusterClient> = USERS.iter().map(|user| ClusterClient::log_in(user, port2)).collect();
        all_chat(&mut clients, "when it is back");
    }

    pub fn a_user_of_redis_needs_no_dangerous_commands() {
        let nodes = ClusterNodes::new(1);
        let (rig, redis) = (&nodes.rigs[0], &nodes.redis);
        redis.command(&["ACL", "SETUSER", "node", "on", ">secret", "~rk:*", "&*", "+@all", "-@dangerous"]);
        let config = std::fs::read_to_string(rig.path("rookery.toml")).expect("the configuration");
        rig.write(
            "rookery.toml",
            &config.replace(&redis.url(), &redis.url().replace("redis://", "redis://node:secret@")),
        );
        let checked = rig.run(&["check"]);
        for words in ["INFO", "maxmemory-policy can't be seen by this user", "a round trip takes"] {
            let is_told = |line: &&str| line.starts_with("ok       redis") && line.contains(words);
            assert!(checked.out.lines().any(|line| is_told(&line)), "{words:?} is not in:\n{}", checked.out);
        }
        let (first, port) = nodes.serve(0);
        ClusterClient::log_in(USERS[0], port);
        assert_eq!(first.stop(), 0);
    }

    pub fn a_check_and_a_start_say_what_is_wrong_with_redis() {
        let nodes = ClusterNodes::new(1);
        let (rig, redis) = (&nodes.rigs[0], &nodes.redis);
        let check = || rig.run(&["check"]);
        let is_told = |words: &str| {
            let checked = check();
            assert!(checked.out.contains(words), "{words:?} is not in:\n{}", checked.out);
            checked.code
        };
        is_told("ok       redis          maxmemory-policy noeviction");
        is_told("ok       redis          a round trip takes ");
        redis.command(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]);
        assert_eq!(is_told("warning  redis          maxmemory-policy allkeys-lru"), 3);
        redis.command(&["REPLICAOF", "127.0.0.1", "1"]);
        assert_eq!(is_told("blocked  redis          it is a replica"), 75);
        rig.run(&["serve"]).expect_failure(75, "read only replica");
        redis.command(&["REPLICAOF", "NO", "ONE"]);
        // A password that isn't in the configuration.
        redis.command(&["CONFIG", "SET", "requirepass", "secret"]);
        assert_eq!(is_told("fault    redis          the cluster's Redis can't be used"), 78);
        rig.run(&["serve"]).expect_failure(78, "the cluster's Redis can't be used");
        let config = std::fs::read_to_string(rig.path("rookery.toml")).expect("the configuration");
        let with = |address: &str| rig.write("rookery.toml", &config.replace(&redis.url(), address));
        with(&redis.url().replace("redis://", "redis://:wrong@"));
        assert_eq!(is_told("fault    redis          the cluster's Redis can't be used"), 78);
        with("redis://127.0.0.1:1");
        assert_eq!(is_told("blocked  redis          the cluster's Redis can't be used"), 75);
        rig.run(&["serve"]).expect_failure(75, "the cluster's Redis can't be used");
    }
}
