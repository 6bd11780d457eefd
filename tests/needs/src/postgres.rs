//! Starts a PostgreSQL for one test.

use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::guard::{family, signal};
use super::pair::Followed;
use super::{Proxy, clock, free_port, guard, servers};

/// A database cluster in a temporary folder, which listens only on a Unix socket there. It ends and
/// its folder is removed when the test's process ends, however that happens.
pub struct Postgres {
    folder: PathBuf,
    /// The process that ends it: it waits for the end of its standard input.
    guard: Child,
    port: u16,
    databases: AtomicUsize,
}

impl Postgres {
    /// Installs PostgreSQL if it is missing, creates a cluster and starts it.
    ///
    /// # Panics
    /// If that isn't possible, with the reason.
    pub fn start() -> Postgres {
        Postgres::start_with(&[])
    }

    /// Starts a PostgreSQL with these settings, such as `max_connections=5`.
    ///
    /// # Panics
    /// If that isn't possible, with the reason.
    pub fn start_with(settings: &[&str]) -> Postgres {
        Postgres::start_at(PORT, settings, None)
    }

    /// Starts a PostgreSQL whose clock differs from this machine's, such as by `+45d`.
    ///
    /// # Panics
    /// If that isn't possible, with the reason.
    pub fn start_at_time(clock: &str) -> Postgres {
        Postgres::start_at(PORT, &[], Some(clock))
    }

    /// Starts a PostgreSQL that also listens on a free port of the loopback interface, where it
    /// requires encryption and a password. `certificate` and `key` are PEM.
    ///
    /// # Panics
    /// If that isn't possible, with the reason.
    pub fn start_encrypted(certificate: &str, key: &str) -> Postgres {
        let cluster = Postgres::start_at(free_port(), &["listen_addresses=127.0.0.1"], None);
        cluster.write("data/server.crt", certificate);
        cluster.write("data/server.key", key);
        cluster.write("data/pg_hba.conf", "local all all trust\nhostssl all all 127.0.0.1/32 scram-sha-256\n");
        for statement in ["ALTER SYSTEM SET ssl = on", "SELECT pg_reload_conf()"] {
            cluster.psql("postgres", statement).expect("a setting");
        }
        cluster
    }

    /// Writes a file that only the server reads.
    fn write(&self, name: &str, text: &str) {
        let file = self.folder.join(name);
        std::fs::write(&file, text).expect("a file");
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).expect("a private file");
        if let Some((user, group)) = user().expect("the list of users") {
            chown(&file, Some(user), Some(group)).expect("a file of PostgreSQL's user");
        }
    }

    fn start_at(port: u16, settings: &[&str], clock: Option<&str>) -> Postgres {
        let programs = programs();
        let folder = folder();
        let data = folder.join("data");
        let made = unprivileged_command(&programs.join("initdb"))
            .args(["--no-sync", "--auth=trust", "--username=rookery", "--encoding=UTF8", "--locale=C.UTF-8", "-D"])
            .arg(&data)
            .output()
            .expect("initdb");
        assert!(made.status.success(), "initdb: {}", String::from_utf8_lossy(&made.stderr));
        Postgres::serve(folder, port, settings, clock)
    }

    /// Starts the server of a cluster's folder, and waits until it accepts connections.
    fn serve(folder: PathBuf, port: u16, settings: &[&str], clock: Option<&str>) -> Postgres {
        let guard = start(&folder, port, settings, clock);
        let cluster = Postgres { folder, guard, port, databases: AtomicUsize::new(0) };
        let start = Instant::now();
        while let Err(error) = cluster.psql("postgres", "SELECT 1") {
            assert!(start.elapsed() < PATIENCE, "PostgreSQL doesn't answer: {error}; {}", cluster.log());
            thread::sleep(Duration::from_millis(50));
        }
        cluster
    }

    /// Creates an empty database and returns its address.
    ///
    /// # Panics
    /// If that isn't possible, with the reason.
    pub fn database(&self) -> String {
        self.database_with("")
    }

    /// Creates an empty database with options of `CREATE DATABASE` and returns its address.
    ///
    /// # Panics
    /// If that isn't possible, with the reason.
    pub fn database_with(&self, options: &str) -> String {
        let name = format!("test{}", self.databases.fetch_add(1, Ordering::Relaxed));
        let made = self.psql("postgres", &format!("CREATE DATABASE {name} {options}"));
        made.unwrap_or_else(|error| panic!("{error}; {}", self.log()));
        self.address(&name)
    }

    /// Returns the address of a database.
    pub fn address(&self, name: &str) -> String {
        format!("postgres://rookery@{}:{}/{name}", self.folder.display().to_string().replace('/', "%2F"), self.port)
    }

    /// Returns the Unix socket.
    pub fn socket(&self) -> PathBuf {
        self.folder.join(format!(".s.PGSQL.{}", self.port))
    }

    /// Returns the address of a database through a proxy to the socket.
    pub fn address_by(&self, proxy: &Proxy, name: &str) -> String {
        let folder = proxy.folder().display().to_string().replace('/', "%2F");
        format!("postgres://rookery@{folder}:{}/{name}", self.port)
    }

    /// Returns the port, which also is part of the Unix socket's name.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Runs statements in the database with this name or address and returns their rows, a line
    /// each.
    ///
    /// # Errors
    /// The error that PostgreSQL reports.
    pub fn psql(&self, database: &str, statements: &str) -> Result<String, String> {
        let name = database.rsplit('/').next().unwrap_or(database);
        let ran = Command::new(programs().join("psql"))
            .args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-U", "rookery", "-d", name, "-c", statements])
            .args(["-p", &self.port.to_string(), "-h"])
            .arg(&self.folder)
            .output()
            .map_err(|error| error.to_string())?;
        if ran.status.success() {
            Ok(String::from_utf8_lossy(&ran.stdout).trim_end().to_owned())
        } else {
            Err(String::from_utf8_lossy(&ran.stderr).into_owned())
        }
    }

    /// Returns the folder of the Unix socket.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the process of the server.
    ///
    /// # Panics
    /// If it has ended.
    pub fn process(&self) -> u32 {
        let file = std::fs::read_to_string(self.folder.join("data/postmaster.pid")).expect("a server that runs");
        file.lines().next().and_then(|line| line.trim().parse().ok()).expect("its number")
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.folder.join("log")).unwrap_or_default()
    }

    /// Starts a PgBouncer that pools connections by "transaction" or "session". It listens in the
    /// cluster's folder, which must exist until it ends.
    ///
    /// # Panics
    /// If that isn't possible, with the reason.
    pub fn pool(&self, mode: &str) -> Pool {
        servers(&[("pgbouncer", "pgbouncer")]);
        let port = free_port();
        let folder = self.folder.display();
        self.write("pgbouncer.users", "\"rookery\" \"\"\n");
        self.write(
            "pgbouncer.ini",
            &format!(
                "[databases]\n* = host={folder} port={}\n[pgbouncer]\nlisten_addr =\nlisten_port = {port}\n\
                 unix_socket_dir = {folder}\nauth_type = trust\nauth_file = {folder}/pgbouncer.users\n\
                 pool_mode = {mode}\ndefault_pool_size = 20\nserver_round_robin = 1\n",
                self.port
            ),
        );
        let program = Path::new("/usr/sbin/pgbouncer");
        let server = unprivileged_command(program);
        let mut command = Command::new("sh");
        command.args(["-c", GUARD_OF_POOL, "sh"]).arg(&self.folder).arg(server.get_program()).args(server.get_args());
        command.arg(self.folder.join("pgbouncer.ini"));
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let pool = Pool { guard: command.spawn().expect("a shell"), port };
        let (socket, start) = (self.folder.join(format!(".s.PGSQL.{port}")), Instant::now());
        // The socket's file exists before PgBouncer listens on it.
        while UnixStream::connect(&socket).is_err() {
            assert!(start.elapsed() < PATIENCE, "PgBouncer doesn't listen: {}", self.log());
            thread::sleep(Duration::from_millis(20));
        }
        pool
    }
}

impl Followed for Postgres {
    const SCHEME: &'static str = "postgres://rookery@";

    fn lead() -> Postgres {
        Postgres::start_with(&SETTINGS_OF_PAIRS)
    }

    fn folder_of_standby(folder: Option<&Path>) -> PathBuf {
        let folder = folder.map_or_else(|| guard::folder("pg"), guard::make);
        own(&folder);
        folder
    }

    /// Copies the cluster, and starts the copy as a standby.
    fn follow(&self, folder: &Path) -> Postgres {
        let copied = unprivileged_command(&programs().join("pg_basebackup"))
            .args(["--checkpoint=fast", "--no-sync", "--wal-method=stream", "--write-recovery-conf", "-U", "rookery"])
            .args(["-p", &self.port.to_string(), "-h"])
            .arg(&self.folder)
            .arg("-D")
            .arg(folder.join("data"))
            .output()
            .expect("pg_basebackup");
        assert!(copied.status.success(), "pg_basebackup: {}", String::from_utf8_lossy(&copied.stderr));
        Postgres::serve(folder.to_owned(), self.port, &SETTINGS_OF_PAIRS, None)
    }

    fn is_followed(&self) -> bool {
        let streams = "SELECT COUNT(*) FROM pg_stat_replication WHERE state = 'streaming'";
        self.psql("postgres", streams).as_deref() == Ok("1")
    }

    fn wait_for_standby(&self, waits: bool) {
        let set = if waits {
            "ALTER SYSTEM SET synchronous_standby_names = '*'"
        } else {
            "ALTER SYSTEM RESET synchronous_standby_names"
        };
        for statement in [set, "SELECT pg_reload_conf()"] {
            self.psql("postgres", statement).expect("a setting");
        }
    }

    fn promote(&self) {
        let promoted = unprivileged_command(&programs().join("pg_ctl"))
            .args(["promote", "--wait", "-D"])
            .arg(self.folder.join("data"))
            .output()
            .expect("pg_ctl");
        let told = String::from_utf8_lossy(&promoted.stderr);
        assert!(promoted.status.success(), "pg_ctl promote: {told}; {}", self.log());
    }

    fn kill(&self) {
        let notes = std::fs::read_to_string(self.folder.join("data/postmaster.pid")).unwrap_or_default();
        signal("KILL", &family(Postgres::process(self)));
        // Shared memory, which only the next start of the same server would free.
        if let Some(memory) = notes.lines().nth(6).and_then(|line| line.split_whitespace().nth(1)) {
            drop(Command::new("ipcrm").args(["-m", memory]).output());
        }
    }

    fn process(&self) -> u32 {
        Postgres::process(self)
    }

    fn make_database(&self, name: &str) {
        self.psql("postgres", &format!("CREATE DATABASE {name}")).expect("a database");
    }

    fn folder(&self) -> &Path {
        &self.folder
    }

    fn host(&self, folder: &Path) -> String {
        format!("{}:{}", folder.display().to_string().replace('/', "%2F"), self.port)
    }
}

/// A PgBouncer in front of a cluster.
pub struct Pool {
    guard: Child,
    port: u16,
}

impl Pool {
    /// Returns the port in the name of its Unix socket.
    pub fn port(&self) -> u16 {
        self.port
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        guard::end(&mut self.guard);
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        guard::end(&mut self.guard);
    }
}

/// Installs PostgreSQL if it is missing, and returns the folder of its programs: Debian keeps a
/// server's programs outside the path, by version.
fn programs() -> PathBuf {
    newest().unwrap_or_else(|| {
        servers(&[("initdb", "postgresql")]);
        newest().expect("the programs of PostgreSQL")
    })
}

fn newest() -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").ok()?;
    let folders = versions.filter_map(|version| Some(version.ok()?.path().join("bin")));
    folders.filter(|folder| folder.join("initdb").is_file() && folder.join("psql").is_file()).max()
}

/// Creates a folder to which the server's user may write: it refuses to run as root.
fn folder() -> PathBuf {
    Postgres::folder_of_standby(None)
}

fn own(folder: &Path) {
    if let Some((user, group)) = user().expect("the list of users") {
        chown(folder, Some(user), Some(group)).expect("a folder of PostgreSQL's user");
    }
}

/// Returns the user and the group to run the server as if the test runs as root, which the server
/// refuses.
fn user() -> io::Result<Option<(u32, u32)>> {
    if std::fs::metadata("/proc/self")?.uid() != 0 {
        return Ok(None);
    }
    let users = std::fs::read_to_string("/etc/passwd")?;
    let of = |name: &str| {
        let mut fields = users.lines().find(|line| line.starts_with(name))?.split(':').skip(2);
        Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
    };
    Ok(of("postgres:").or_else(|| of("nobody:")))
}

fn unprivileged_command(program: &Path) -> Command {
    match user().expect("the list of users") {
        Some((user, group)) => {
            let mut command = Command::new("setpriv");
            command.args([format!("--reuid={user}"), format!("--regid={group}"), "--clear-groups".into(), "--".into()]);
            command.arg(program);
            command
        }
        None => Command::new(program),
    }
}

fn start(folder: &Path, port: u16, settings: &[&str], clock: Option<&str>) -> Child {
    let mut server = unprivileged_command(Path::new("env"));
    server.args(clock.map(clock::variables).into_iter().flatten()).arg(programs().join("postgres"));
    server.arg("-D").arg(folder.join("data")).arg("-k").arg(folder).args(["-p", &port.to_string()]);
    // The data is removed after the test anyway, so it needn't survive a power cut.
    for setting in
        ["listen_addresses=", "max_connections=300", "fsync=off", "shared_buffers=64MB"].iter().chain(settings)
    {
        server.args(["-c", setting]);
    }
    guard::guard(folder, "QUIT", &server)
}

const GUARD_OF_POOL: &str =
    "folder=$1; shift; \"$@\" >$folder/pool 2>&1 & server=$!; read -r _; kill -KILL $server; wait $server";

/// The settings of a primary and its standby: acknowledged writes can be read on the standby.
const SETTINGS_OF_PAIRS: [&str; 1] = ["synchronous_commit=remote_apply"];

/// The port in the name of a Unix socket.
const PORT: u16 = 5432;

/// The time that a start may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
