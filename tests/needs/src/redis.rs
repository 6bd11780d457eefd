//! Starts a Redis for one test.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::thread;
use std::time::{Duration, Instant};

use super::{free_port, guard, servers};

/// A Redis on a free port of the loopback interface, which keeps nothing on disk. It ends and its
/// folder is removed when the test's process ends, however that happens.
pub struct Redis {
    folder: PathBuf,
    /// The process that ends it: it waits for the end of its standard input.
    guard: Child,
    port: u16,
}

impl Redis {
    /// Installs Redis if it is missing, and starts it.
    ///
    /// # Panics
    /// If that isn't possible, with the reason.
    pub fn start() -> Redis {
        Redis::launch("")
    }

    /// Starts a replica of this Redis and returns it.
    ///
    /// # Panics
    /// If that isn't possible, with the reason.
    pub fn replica(&self) -> Redis {
        let replica = Redis::launch(&format!("replicaof 127.0.0.1 {}\n", self.port));
        replica
            .wait_until("its primary", || replica.command(&["INFO", "replication"]).contains("master_link_status:up"));
        replica
    }

    /// Starts a Sentinel that watches this Redis under a name, and promotes a replica when the
    /// primary is gone for half a second.
    ///
    /// # Panics
    /// If that isn't possible, with the reason.
    pub fn sentinel(&self, name: &str) -> Redis {
        let config = format!(
            "sentinel monitor {name} 127.0.0.1 {} 1\nsentinel down-after-milliseconds {name} 500\n\
             sentinel failover-timeout {name} 5000\n",
            self.port
        );
        let sentinel = Redis::run(&config, &["--sentinel"]);
        // The Sentinel discovers the replicas by itself.
        let knows = || sentinel.command(&["SENTINEL", "REPLICAS", name]).contains("slave-priority");
        sentinel.wait_until("replicas", knows);
        sentinel
    }

    /// Starts a Redis Cluster of three primaries with a replica each, and returns the primaries
    /// first.
    ///
    /// # Panics
    /// If that isn't possible, with the reason.
    pub fn cluster() -> Vec<Redis> {
        // The port of the cluster's bus is reserved too, instead of the default, which is 10 000
        // higher.
        let node = || {
            let bus = free_port();
            Redis::launch(&format!(
                "cluster-enabled yes\ncluster-node-timeout 1000\ncluster-require-full-coverage no\ncluster-port {bus}\n\
                 cluster-replica-validity-factor 0\n"
            ))
        };
        let nodes: Vec<Redis> = (0..6).map(|_| node()).collect();
        let mut make = Command::new("redis-cli");
        make.args(["--cluster", "create"]).args(nodes.iter().map(|node| format!("127.0.0.1:{}", node.port)));
        let made = make.args(["--cluster-replicas", "1", "--cluster-yes"]).output().expect("redis-cli runs");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stdout));
        for node in &nodes {
            node.wait_until("the cluster", || node.command(&["CLUSTER", "INFO"]).contains("cluster_state:ok"));
            let is_linked = |told: &str| told.contains("role:master") || told.contains("master_link_status:up");
            node.wait_until("its primary", || is_linked(&node.command(&["INFO", "replication"])));
        }
        nodes
    }

    /// Starts a Redis with further lines of its configuration.
    fn launch(more: &str) -> Redis {
        Redis::run(&format!("save \"\"\nappendonly no\nunixsocket redis.sock\n{more}"), &[])
    }

    fn run(config: &str, arguments: &[&str]) -> Redis {
        servers(&[("redis-server", "redis-server")]);
        let folder = guard::folder("redis");
        let port = free_port();
        let file = folder.join("redis.conf");
        let at = folder.display();
        let config = format!("bind 127.0.0.1\nport {port}\ndir {at}\nunixsocket {at}/{SOCKET}\n{config}");
        std::fs::write(&file, config).expect("a configuration");
        let mut server = Command::new("redis-server");
        server.arg(&file).args(arguments);
        let redis = Redis { guard: guard::guard(&folder, "KILL", &server), folder, port };
        redis.wait_until("an answer", || redis.try_command(&["PING"]).is_some());
        redis
    }

    fn wait_until(&self, what: &str, is_there: impl Fn() -> bool) {
        let until = Instant::now() + PATIENCE;
        while !is_there() {
            assert!(Instant::now() < until, "Redis on port {} is still without {what}", self.port);
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// Returns the server's address.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Returns the server's address as a socket on this machine.
    pub fn socket_url(&self) -> String {
        format!("unix://{}", self.folder.join(SOCKET).display())
    }

    /// Returns the path of the server's socket.
    pub fn socket(&self) -> PathBuf {
        self.folder.join(SOCKET)
    }

    /// Runs a command, and returns the beginning of the reply.
    ///
    /// # Panics
    /// If Redis does not answer.
    pub fn command(&self, words: &[&str]) -> String {
        self.try_command(words).expect("an answer of Redis")
    }

    fn try_command(&self, words: &[&str]) -> Option<String> {
        let mut connection = TcpStream::connect(("127.0.0.1", self.port)).ok()?;
        connection.set_read_timeout(Some(PATIENCE)).ok()?;
        let mut command = format!("*{}\r\n", words.len());
        words.iter().for_each(|word| command.push_str(&format!("${}\r\n{word}\r\n", word.len())));
        connection.write_all(command.as_bytes()).ok()?;
        let mut answer = vec![0; 16 * 1024];
        let len = connection.read(&mut answer).ok().filter(|len| *len > 0)?;
        answer.truncate(len);
        String::from_utf8(answer).ok()
    }
}

/// The name of the socket in the server's folder.
const SOCKET: &str = "redis.sock";

impl Drop for Redis {
    fn drop(&mut self) {
        guard::end(&mut self.guard);
        drop(std::fs::remove_dir_all(&self.folder));
    }
}

/// The time within which it must reply.
const PATIENCE: Duration = Duration::from_secs(20);
