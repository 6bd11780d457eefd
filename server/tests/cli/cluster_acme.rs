//! Certificates that an authority issues by ACME to the nodes of a cluster: Pebble, which is made
//! for such tests, reaches whichever node a balancer chooses.

use std::fs::File;
use std::io::copy;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rookery_needs::free_port;

use super::cluster::{ClusterNodes, PATIENCE};

rookery_needs::needing!("cli.cluster": one_node_orders_a_certificate_and_all_show_it);

/// An authority on this machine, and the names that it resolves.
struct Pebble {
    folder: tempfile::TempDir,
    port: u16,
    processes: Vec<Child>,
}

impl Pebble {
    /// Starts one that connects to a port for HTTP, regardless of the domain.
    fn start(http: u16) -> Pebble {
        let [port, management, names, other] = [(); 4].map(|()| free_port());
        let mut pebble = Pebble { folder: tempfile::tempdir().expect("a folder"), port, processes: Vec::new() };
        let made = pebble.command(
            "openssl",
            &[
                "req",
                "-x509",
                "-newkey",
                "ec",
                "-pkeyopt",
                "ec_paramgen_curve:P-256",
                "-nodes",
                "-keyout",
                "authority.key",
                "-out",
                "authority.pem",
                "-days",
                "2",
                "-subj",
                "/CN=localhost",
                "-addext",
                "subjectAltName=DNS:localhost",
                "-addext",
                "basicConstraints=critical,CA:FALSE",
            ],
        );
        assert!({ made }.stdout(Stdio::null()).stderr(Stdio::null()).status().expect("openssl").success());
        let config = serde_json::json!({"pebble": {
            "listenAddress": format!("127.0.0.1:{port}"),
            "managementListenAddress": format!("127.0.0.1:{management}"),
            "certificate": "authority.pem",
            "privateKey": "authority.key",
            "httpPort": http,
            "tlsPort": 1,
            "certificateValidityPeriod": 86400,
        }});
        std::fs::write(pebble.path("pebble.json"), config.to_string()).expect("a written file");
        let (names, other) = (format!("127.0.0.1:{names}"), format!("127.0.0.1:{other}"));
        let finds = ["-defaultIPv4", "127.0.0.1", "-defaultIPv6", "", "-dns01", &names, "-http01", "", "-https01", ""];
        pebble.run("pebble-challtestsrv", &[&finds[..], &["-tlsalpn01", "", "-management", &other]].concat());
        pebble.run("pebble", &["-config", "pebble.json", "-dnsserver", &names]);
        let until = Instant::now() + PATIENCE;
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(Instant::now() < until, "{}", pebble.log());
            thread::sleep(Duration::from_millis(50));
        }
        pebble
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn command(&self, program: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(program);
        // Without these it would wait, and refuse requests, at random.
        command.env("PEBBLE_VA_NOSLEEP", "1").env("PEBBLE_WFE_NONCEREJECT", "0");
        command.args(arguments).current_dir(self.folder.path()).stdin(Stdio::null());
        command
    }

    fn run(&mut self, program: &str, arguments: &[&str]) {
        let log = File::options().create(true).append(true).open(self.path("log")).expect("a log");
        let again = log.try_clone().expect("the same");
        let child = self.command(program, arguments).stdout(log).stderr(again).spawn().expect("a process");
        self.processes.push(child);
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.path("log")).unwrap_or_default()
    }

    /// Returns how often this path was requested.
    fn requests_for(&self, path: &str) -> usize {
        self.log().lines().filter(|line| line.contains(&format!("POST {path} "))).count()
    }
}

impl Drop for Pebble {
    fn drop(&mut self) {
        for process in &mut self.processes {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

/// Forwards connections to these ports in turn, and counts those of each.
fn balance(port: u16, to: [u16; 2]) -> Arc<[AtomicUsize; 2]> {
    let given = Arc::<[AtomicUsize; 2]>::default();
    let listener = TcpListener::bind(("127.0.0.1", port)).expect("a port");
    let counts = given.clone();
    thread::spawn(move || {
        for (turn, client) in listener.incoming().map_while(Result::ok).enumerate() {
            let (at, counts) = (turn % 2, counts.clone());
            thread::spawn(move || {
                // The node may still be starting.
                let until = Instant::now() + Duration::from_secs(8);
                let node = loop {
                    match TcpStream::connect(("127.0.0.1", to[at])) {
                        Ok(node) => break node,
                        Err(_) if Instant::now() < until => thread::sleep(Duration::from_millis(50)),
                        Err(_) => return,
                    }
                };
                counts[at].fetch_add(1, Ordering::Relaxed);
                let (mut from, mut into) = (client.try_clone().expect("the same"), node.try_clone().expect("the same"));
                let up = thread::spawn(move || {
                    _ = copy(&mut from, &mut into);
                    _ = into.shutdown(Shutdown::Write);
                });
                _ = copy(&mut &node, &mut &client);
                _ = client.shutdown(Shutdown::Write);
                _ = up.join();
            });
        }
    });
    given
}

/// Returns the issuer and serial number of the certificate that a port presents for a domain.
fn presented_certificate(port: u16, domain: &str, folder: &Path) -> String {
    let client = Command::new("openssl")
        .args(["s_client", "-connect", &format!("127.0.0.1:{port}"), "-servername", domain])
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .expect("openssl");
    let file = folder.join(format!("shown-{port}.pem"));
    std::fs::write(&file, client.stdout).expect("a written file");
    let read = Command::new("openssl")
        .args(["x509", "-noout", "-issuer", "-serial", "-in"])
        .arg(&file)
        .output()
        .expect("openssl");
    String::from_utf8_lossy(&read.stdout).into_owned()
}

mod test {
    use super::*;

    pub fn one_node_orders_a_certificate_and_all_show_it() {
        rookery_needs::programs(&[("openssl", "openssl"), ("pebble", "pebble")]);
        let nodes = ClusterNodes::new(2);
        let [http, first, second, first_tls, second_tls] = [(); 5].map(|()| free_port());
        let given = balance(http, [first, second]);
        let pebble = Pebble::start(http);
        let (directory, trusted) = (format!("https://localhost:{}/dir", pebble.port), pebble.path("authority.pem"));
        let serve = |node: usize, web: u16, tls: u16| {
            let (web, tls) = (format!("127.0.0.1:{web}"), format!("127.0.0.1:{tls}"));
            let environment = [
                ("ROOKERY__DOMAINS", "localhost,one.example"),
                ("ROOKERY__LISTEN__WEB", &*web),
                ("ROOKERY__LISTEN__WEB_TLS", &*tls),
                ("ROOKERY__TLS__ACME__ENABLED", "true"),
                ("ROOKERY__TLS__ACME__SERVICES", "[]"),
                ("ROOKERY__TLS__ACME__DOMAINS", "one.example"),
                ("ROOKERY__TLS__ACME__DIRECTORY", &*directory),
                ("ROOKERY__TLS__ACME__CONTACT", "mailto:admin@one.example"),
                ("ROOKERY__TLS__ACME__TRUSTED", trusted.to_str().expect("a path")),
            ];
            nodes.serve_in(node, &environment)
        };
        // Both request it at the same moment.
        let (_one, _other) = thread::scope(|scope| {
            let other = scope.spawn(|| serve(1, second, second_tls));
            (serve(0, first, first_tls), other.join().expect("it starts"))
        });
        let until = Instant::now() + 2 * PATIENCE;
        let (folder, domain) = (pebble.folder.path(), "one.example");
        let both = || [first_tls, second_tls].map(|port| presented_certificate(port, domain, folder));
        let mut seen = both();
        while !seen.iter().all(|shown| shown.contains("Pebble")) {
            assert!(Instant::now() < until, "{seen:?}\n{}", pebble.log());
            thread::sleep(Duration::from_millis(500));
            seen = both();
        }
        assert_eq!(seen[0], seen[1], "it is the same one");
        assert_eq!(pebble.requests_for("/order-plz"), 1, "{}", pebble.log());
        let asked: Vec<usize> = given.iter().map(|count| count.load(Ordering::Relaxed)).collect();
        assert!(asked.iter().all(|count| *count > 0), "both nodes were asked for the proof: {asked:?}");
    }
}
