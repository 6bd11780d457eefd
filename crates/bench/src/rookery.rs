//! Runs our own server as a child process, with a data folder that lives as long as it does.

use std::env;
use std::fmt::Write;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rookery_jid::Jid;
use rookery_store::{Stores, sqlite, wait};
use tempfile::TempDir;

use crate::network::{PASSWORD, credentials};
use crate::report::{setting, target_folder};
use crate::{BenchOutcome, chat};

/// A server to be measured, ours or another.
#[derive(Debug, Clone)]
pub struct MeasuredServer {
    /// The address that clients connect to, in the clear or by STARTTLS.
    pub address: SocketAddr,
    /// The process whose CPU time and memory are measured.
    pub pid: u32,
    /// The domain of the accounts, which are those of [`chat::account`].
    pub domain: String,
    /// The password of all accounts.
    pub password: String,
}

impl MeasuredServer {
    /// Returns the server that `ROOKERY_BENCH_SERVER` (address and port) names, with
    /// `ROOKERY_BENCH_PID`, `ROOKERY_BENCH_DOMAIN` and `ROOKERY_BENCH_PASSWORD`; `None` if the
    /// first isn't set.
    ///
    /// # Errors
    /// Only some of the variables are set.
    pub fn from_environment() -> BenchOutcome<Option<MeasuredServer>> {
        let Ok(address) = env::var("ROOKERY_BENCH_SERVER") else { return Ok(None) };
        Ok(Some(MeasuredServer {
            address: address.parse()?,
            pid: env::var("ROOKERY_BENCH_PID")?.parse()?,
            domain: env::var("ROOKERY_BENCH_DOMAIN")?,
            password: env::var("ROOKERY_BENCH_PASSWORD")?,
        }))
    }
}

/// A running server; killed when dropped.
#[derive(Debug)]
pub struct Rookery {
    child: Child,
    folder: TempDir,
    /// The address and the process.
    pub server: MeasuredServer,
    /// Accounts imported per second of wall time by `rookery user import`, during the preparation.
    pub imports_per_second: f64,
}

/// The settings in which a server differs from the default.
#[derive(Debug, Clone)]
pub struct RookerySetup {
    /// The domain of the accounts.
    pub domain: String,
    /// All domains, as the configuration lists them: in quotes, with commas.
    pub domains: String,
    /// Further keys of `[listen]`.
    pub listen: String,
    /// Further tables.
    pub tables: String,
    /// Contacts of each imported account: further accounts, which know it as well.
    pub contacts: usize,
}

impl Default for RookerySetup {
    fn default() -> RookerySetup {
        let domains = format!("\"{DOMAIN}\"");
        RookerySetup { domain: DOMAIN.to_owned(), domains, listen: String::new(), tables: String::new(), contacts: 0 }
    }
}

impl Rookery {
    /// Starts a server of two shards with this number of accounts.
    ///
    /// The first [`IMPORTED`] accounts are created by `rookery user import`, which hashes each
    /// password. The others are put into the store with one common hash: a login costs the server
    /// the same, while eighteen thousand hashes would take minutes.
    ///
    /// # Errors
    /// The error of the system or the server.
    pub fn start(binary: &Path, accounts: usize) -> BenchOutcome<Rookery> {
        Rookery::start_as(binary, accounts, &RookerySetup::default())
    }

    /// Starts a server with another setup, and accounts as in [`Rookery::start`].
    ///
    /// # Errors
    /// The error of the system or the server.
    pub fn start_as(binary: &Path, accounts: usize, setup: &RookerySetup) -> BenchOutcome<Rookery> {
        let folder = tempfile::tempdir()?;
        let address = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?;
        let data = folder.path().join("data");
        fs::create_dir(&data)?;
        fs::write(data.join("rookery.toml"), config(address, setup))?;
        let started = Instant::now();
        import(binary, &data, accounts.min(IMPORTED), setup)?;
        let imports_per_second = accounts.min(IMPORTED) as f64 / started.elapsed().as_secs_f64();
        if accounts > IMPORTED {
            fill(&data, IMPORTED..accounts, &setup.domain)?;
        }
        let child = serve(binary, folder.path())?;
        let (domain, password) = (setup.domain.clone(), PASSWORD.to_owned());
        let server = MeasuredServer { address, pid: child.id(), domain, password };
        let mut rookery = Rookery { child, folder, server, imports_per_second };
        rookery.wait_until_it_listens()?;
        Ok(rookery)
    }

    /// Returns its data folder.
    pub fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// Kills the server and starts it again, with its data.
    ///
    /// # Errors
    /// The error of the system or the server.
    pub fn start_again(&mut self, binary: &Path) -> BenchOutcome<()> {
        self.child.kill()?;
        self.child.wait()?;
        self.child = serve(binary, self.folder.path())?;
        self.server.pid = self.child.id();
        self.wait_until_it_listens()
    }

    fn wait_until_it_listens(&mut self) -> BenchOutcome<()> {
        let patience = Instant::now() + Duration::from_secs(20);
        while TcpStream::connect(self.server.address).is_err() {
            if self.child.try_wait()?.is_some() || Instant::now() > patience {
                let log = fs::read_to_string(self.folder.path().join("log"))?;
                return Err(format!("the server doesn't come up: {log}").into());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }
}

impl Drop for Rookery {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the server's executable: the one that `ROOKERY_BIN` names, otherwise the one of this
/// workspace, which is built now, with the profile and into the target folder of this benchmark.
///
/// # Errors
/// The error of cargo.
pub fn binary() -> BenchOutcome<PathBuf> {
    if let Some(binary) = env::var_os("ROOKERY_BIN") {
        return Ok(binary.into());
    }
    let target = target_folder()?;
    if let Some(cargo) = env::var_os("CARGO") {
        let mut build = Command::new(cargo);
        build.args(["build", "--release", "--package", "rookery", "--target-dir"]).arg(&target);
        if !build.status()?.success() {
            return Err("the server could not be built".into());
        }
    }
    let binary = target.join("release").join("rookery");
    if !binary.exists() {
        return Err(format!("there is no {}; set ROOKERY_BIN", binary.display()).into());
    }
    Ok(binary)
}

/// Starts a server on the data of a folder.
fn serve(binary: &Path, folder: &Path) -> BenchOutcome<Child> {
    let log = fs::File::create(folder.join("log"))?;
    let mut command = Command::new(binary);
    command.arg("serve").arg("--data-dir").arg(folder.join("data"));
    Ok(command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).spawn()?)
}

fn config(address: SocketAddr, setup: &RookerySetup) -> String {
    let RookerySetup { domains, listen, tables, .. } = setup;
    let archive = setting("ROOKERY_BENCH_ARCHIVE", 0) > 0;
    format!(
        "domains = [{domains}]\nshards = 2\n\
         [listen]\nc2s = [\"{address}\"]\nc2s_tls = []\nweb = []\nweb_tls = []\nbytestreams = []\n{listen}\
         [login]\nplaintext_loopback = true\nscram_iterations = 4096\n\
         [log]\nlevel = \"warn\"\n[modules.archive]\nenabled = {archive}\n{tables}"
    )
}

fn import(binary: &Path, data: &Path, accounts: usize, setup: &RookerySetup) -> BenchOutcome<()> {
    let domain = &setup.domain;
    let mut text = String::new();
    let name = match setup.contacts {
        0 => {
            for number in 0..accounts {
                writeln!(text, "{},{PASSWORD}", chat::account(number, domain))?;
            }
            "accounts.csv"
        }
        contacts => {
            // The contacts have the numbers after those of the accounts.
            let all = accounts + contacts;
            write!(text, "<server-data xmlns='urn:xmpp:pie:0'><host jid='{domain}'>")?;
            for number in 0..all {
                write!(text, "<user name='{}' password='{PASSWORD}'>", chat::local(number))?;
                text.push_str("<query xmlns='jabber:iq:roster'>");
                let others = if number < accounts { accounts..all } else { 0..accounts };
                for other in others {
                    write!(text, "<item jid='{}' subscription='both'/>", chat::account(other, domain))?;
                }
                text.push_str("</query></user>");
            }
            text.push_str("</host></server-data>");
            "accounts.xml"
        }
    };
    let file = data.join(name);
    fs::write(&file, text)?;
    let mut command = Command::new(binary);
    command.args(["user", "import"]).arg(&file).arg("--data-dir").arg(data).stdout(Stdio::null());
    if !command.stdin(Stdio::null()).status()?.success() {
        return Err("the accounts could not be imported".into());
    }
    Ok(())
}

fn fill(data: &Path, accounts: std::ops::Range<usize>, domain: &str) -> BenchOutcome<()> {
    let stores =
        Stores::of(std::sync::Arc::new(sqlite::open(&data.join("rookery.db"), &sqlite::SqliteOptions::default())?));
    let credentials = credentials()?;
    let mut rows = Vec::new();
    for number in accounts {
        rows.push((Jid::parse(&chat::account(number, domain))?, credentials.clone()));
    }
    wait(stores.accounts.create_many(rows))?;
    Ok(())
}

/// The number of accounts that are imported in an operator's way.
pub const IMPORTED: usize = 1000;

const DOMAIN: &str = "localhost";
