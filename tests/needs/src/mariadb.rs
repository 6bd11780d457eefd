//! Starts a MariaDB for one test.

use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::guard::{family, signal};
use super::pair::Followed;
use super::{Proxy, clock, free_port, guard, programs};

/// A database server in a temporary folder, which listens only on a Unix socket there. It ends and
/// its folder is removed when the test's process ends, however that happens.
pub struct Mariadb {
    folder: PathBuf,
    /// The process that ends it: it waits for the end of its standard input.
    guard: Child,
    port: u16,
    databases: AtomicUsize,
}

impl Mariadb {
    /// Installs MariaDB if it is missing, and starts it.
    ///
    /// # Panics
    /// If that isn't possible, with the reason.
    pub fn start() -> Mariadb {
        Mariadb::start_with(&[])
    }

    /// Starts a MariaDB with these settings, such as `--max-connections=5`.
    ///
    /// # Panics
    /// If that isn't possible, with the reason.
    pub fn start_with(settings: &[&str]) -> Mariadb {
        Mariadb::start_at(&guard::folder("maria"), 0, &["--skip-networking"], settings, None)
    }

    /// Starts a MariaDB whose clock differs from this machine's, such as by `+45d`.
    ///
    /// # Panics
    /// If that isn't possible, with the reason.
    pub fn start_at_time(clock: &str) -> Mariadb {
        Mariadb::start_at(&guard::folder("maria"), 0, &["--skip-networking"], &[], Some(clock))
    }

    /// Starts a MariaDB that also listens on a free port of the loopback interface, where it
    /// requires encryption. `certificate` and `key` are PEM.
    ///
    /// # Panics
    /// If that isn't possible, with the reason.
    pub fn start_encrypted(certificate: &str, key: &str) -> Mariadb {
        let folder = guard::folder("maria");
        let write = |name: &str, text: &str| {
            let file = folder.join(name);
            std::fs::write(&file, text).expect("a file");
            format!("--ssl-{name}={}", file.display())
        };
        let (certificate, key) = (write("cert", certificate), write("key", key));
        let port = free_port();
        let listen = ["--bind-address=127.0.0.1", &format!("--port={port}"), "--require-secure-transport=on"];
        Mariadb::start_at(&folder, port, &listen, &[&certificate, &key], None)
    }

    /// Starts a server that is a primary or a standby. The standby follows over the loopback
    /// interface.
    fn start_to_follow(folder: &Path, settings: &[&str]) -> Mariadb {
        // A server skips writes that have its own number, and a standby takes everything from the
        // log's beginning: so no two servers have the same number.
        static NUMBERS: AtomicUsize = AtomicUsize::new(1);
        let number = format!("--server-id={}", NUMBERS.fetch_add(1, Ordering::Relaxed));
        let port = free_port();
        let listen = ["--bind-address=127.0.0.1", &format!("--port={port}"), &number];
        Mariadb::start_at(folder, port, &listen, &[&SETTINGS_OF_PAIRS, settings].concat(), None)
    }

    fn start_at(folder: &Path, port: u16, listen: &[&str], settings: &[&str], clock: Option<&str>) -> Mariadb {
        // These packages contain no service that would start by itself.
        programs(&[("mariadbd", "mariadb-server-core"), ("mariadb", "mariadb-client-core")]);
        let data = format!("--datadir={}", folder.join("data").display());
        let made = Command::new("mariadb-install-db")
            .args([
                "--no-defaults",
                "--auth-root-authentication-method=normal",
                "--skip-test-db",
                "--skip-name-resolve",
            ])
            .args(["--user=root", &data])
            .args(QUICK)
            // A starting server removes everything in its folder for temporary tables, so each has
            // its own.
            .env("TMPDIR", folder)
            .output()
            .expect("mariadb-install-db");
        assert!(made.status.success(), "mariadb-install-db: {}", String::from_utf8_lossy(&made.stderr));
        let mut server = Command::new("env");
        server.args(clock.map(clock::variables).into_iter().flatten()).arg(find("mariadbd"));
        server.args(["--no-defaults", "--user=root", "--skip-name-resolve", "--max-connections=300", &data]);
        server.arg(format!("--tmpdir={}", folder.display()));
        server.arg(format!("--socket={}", folder.join(SOCKET).display()));
        server.arg(format!("--pid-file={}", folder.join("pid").display()));
        server.args(QUICK).args(listen).args(settings);
        // Nothing needs to be flushed when the test is over.
        let guard = guard::guard(folder, "KILL", &server);
        let server = Mariadb { folder: folder.to_owned(), guard, port, databases: AtomicUsize::new(0) };
        let start = Instant::now();
        while let Err(error) = server.sql("mysql", "CREATE USER IF NOT EXISTS rookery@'%'") {
            assert!(start.elapsed() < PATIENCE, "MariaDB doesn't answer: {error}; {}", server.log());
            thread::sleep(Duration::from_millis(50));
        }
        server
    }

    /// Creates an empty database and returns its address. The user has the rights in it that the
    /// operator guide names.
    ///
    /// # Panics
    /// If that isn't possible, with the reason.
    pub fn database(&self) -> String {
        let name = format!("test{}", self.databases.fetch_add(1, Ordering::Relaxed));
        self.make_database(&name);
        self.address(&name)
    }

    /// Returns the address of a database.
    pub fn address(&self, name: &str) -> String {
        address(&self.folder, name)
    }

    /// Returns the address of a database through a proxy to the socket.
    pub fn address_by(&self, proxy: &Proxy, name: &str) -> String {
        address(proxy.folder(), name)
    }

    /// Returns the Unix socket.
    pub fn socket(&self) -> PathBuf {
        self.folder.join(SOCKET)
    }

    /// Returns the port, 0 if it listens on none.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Runs statements as the administrator in the database with this name or address and returns
    /// their rows, a line each with tabs between columns.
    ///
    /// # Errors
    /// The error that MariaDB reports.
    pub fn sql(&self, database: &str, statements: &str) -> Result<String, String> {
        let name = database.rsplit('/').next().unwrap_or(database);
        let ran = Command::new("mariadb")
            .args(["--no-defaults", "--batch", "--skip-column-names", "--default-character-set=utf8mb4"])
            .args(["--user=root", "--database", name, "--execute", statements, "--socket"])
            .arg(self.socket())
            .output()
            .map_err(|error| error.to_string())?;
        if ran.status.success() {
            Ok(String::from_utf8_lossy(&ran.stdout).trim_end().to_owned())
        } else {
            Err(String::from_utf8_lossy(&ran.stderr).into_owned())
        }
    }

    /// Ends all connections of the server under test.
    ///
    /// # Panics
    /// If that isn't possible, with the reason.
    pub fn disconnect(&self) {
        self.sql("mysql", "KILL USER rookery@'%'").expect("nobody left");
    }

    /// Returns the process of the server.
    ///
    /// # Panics
    /// If it has ended.
    pub fn process(&self) -> u32 {
        let file = std::fs::read_to_string(self.folder.join("pid")).expect("a server that runs");
        file.trim().parse().expect("its number")
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.folder.join("log")).unwrap_or_default()
    }
}

impl Followed for Mariadb {
    const SCHEME: &'static str = "mysql://rookery@";

    fn lead() -> Mariadb {
        let primary = Mariadb::start_to_follow(&guard::folder("maria"), &[]);
        // Its standbys get this one from its log.
        let made = "CREATE USER standby@'%'; GRANT REPLICATION SLAVE ON *.* TO standby@'%'";
        primary.sql("mysql", made).expect("a user");
        primary
    }

    fn folder_of_standby(folder: Option<&Path>) -> PathBuf {
        folder.map_or_else(|| guard::folder("maria"), guard::make)
    }

    /// Starts an empty server that takes everything from the primary's log, which goes back
    /// to when the primary was empty.
    fn follow(&self, folder: &Path) -> Mariadb {
        let standby = Mariadb::start_to_follow(folder, &["--read-only=on"]);
        let follow = format!(
            "CHANGE MASTER TO master_host = '127.0.0.1', master_port = {}, master_user = 'standby', master_use_gtid = no, \
             master_connect_retry = 1, master_log_file = '{LOG}.000001', master_log_pos = 4; START REPLICA",
            self.port
        );
        standby.sql("mysql", &follow).expect("a standby");
        standby
    }

    fn is_followed(&self) -> bool {
        self.sql("mysql", "SHOW STATUS LIKE 'Rpl_semi_sync_master_clients'").is_ok_and(|row| row.ends_with("\t1"))
    }

    fn wait_for_standby(&self, waits: bool) {
        self.sql("mysql", &format!("SET GLOBAL rpl_semi_sync_master_enabled = {waits}")).expect("a setting");
        if waits {
            // It may still be behind. A write is acknowledged when the standby has it, with all
            // that was written before.
            let mark = "CREATE DATABASE IF NOT EXISTS marks; CREATE TABLE IF NOT EXISTS marks.marks (mark INT); \
                 INSERT INTO marks.marks VALUES (1)";
            self.sql("mysql", mark).expect("a write that the standby has");
        }
    }

    fn promote(&self) {
        self.sql("mysql", "STOP REPLICA IO_THREAD").expect("a standby");
        let start = Instant::now();
        // It has received more than it has done yet.
        while !self.sql("mysql", "SHOW REPLICA STATUS").is_ok_and(|status| status.contains(HAS_DONE_ALL)) {
            assert!(start.elapsed() < PATIENCE, "the standby isn't ready: {}", self.log());
            thread::sleep(Duration::from_millis(10));
        }
        self.sql("mysql", "STOP REPLICA; RESET REPLICA ALL; SET GLOBAL read_only = OFF").expect("a primary");
    }

    fn kill(&self) {
        signal("KILL", &family(Mariadb::process(self)));
    }

    fn process(&self) -> u32 {
        Mariadb::process(self)
    }

    fn make_database(&self, name: &str) {
        // A character set that can't hold much: the schema doesn't depend on the database's.
        let made = format!("CREATE DATABASE {name} CHARACTER SET latin1; GRANT {RIGHTS} ON {name}.* TO rookery@'%'");
        self.sql("mysql", &made).unwrap_or_else(|error| panic!("{error}; {}", self.log()));
    }

    fn folder(&self) -> &Path {
        &self.folder
    }

    fn host(&self, folder: &Path) -> String {
        folder.join(SOCKET).display().to_string().replace('/', "%2F")
    }
}

impl Drop for Mariadb {
    fn drop(&mut self) {
        guard::end(&mut self.guard);
    }
}

fn address(folder: &Path, name: &str) -> String {
    format!("mysql://rookery@{}/{name}", folder.join(SOCKET).display().to_string().replace('/', "%2F"))
}

/// Finds a program in the folders of administrators' programs, which aren't in every user's path.
fn find(program: &str) -> PathBuf {
    let administrators = Path::new("/usr/sbin").join(program);
    if administrators.is_file() { administrators } else { program.into() }
}

/// The settings that leave writing to the system, since the data is removed after the test anyway.
const QUICK: [&str; 3] =
    ["--innodb-flush-method=nosync", "--innodb-log-file-size=32M", "--innodb-buffer-pool-size=64M"];

const SOCKET: &str = "socket";

/// The settings of a primary and its standby: a write is acknowledged when the standby has received
/// it, however long that takes.
const SETTINGS_OF_PAIRS: [&str; 6] = [
    "--log-bin=log-of-writes",
    "--log-slave-updates=on",
    "--rpl-semi-sync-slave-enabled=on",
    "--rpl-semi-sync-master-wait-point=AFTER_SYNC",
    "--rpl-semi-sync-master-timeout=4294967295",
    "--slave-net-timeout=5",
];

/// The name of the log that standbys follow.
const LOG: &str = "log-of-writes";

/// The state of a standby that has done everything that it has received.
const HAS_DONE_ALL: &str = "has read all relay log";

/// The rights that a Rookery needs to create its tables itself.
const RIGHTS: &str = "SELECT, INSERT, UPDATE, DELETE, CREATE, ALTER, INDEX, REFERENCES";

/// The time that a start may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
