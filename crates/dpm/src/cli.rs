//! The command line: `rookery dpm …`.

mod failure;
mod import;
mod serve;

pub use import::SqlReader;

use std::io::Read;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::{Args, Subcommand};

use crate::database;
use crate::driver::{PutService as GrpcService, SimulatorFront, Until, apply, ask, put, show_top};
use crate::simulator::Simulator;
use failure::{DpmFailure, read};
use import::{IMPORT_EXAMPLES, Import};
use serve::Serve;

/// Poll each device once for all clients that ask for it (the accelerator's data pool manager)
#[derive(Debug, Clone, Args)]
#[command(after_help = EXAMPLES)]
#[command(args_conflicts_with_subcommands = true)]
pub struct DpmCli {
    #[command(subcommand)]
    command: Option<DpmCommand>,
    #[command(flatten)]
    serve: Serve,
}

#[derive(Debug, Clone, Subcommand)]
enum DpmCommand {
    /// Simulate the front-ends of a database on the network, each device by its script
    #[command(after_help = SIMULATE_EXAMPLES)]
    Simulate(Simulate),
    /// Read devices once and print the readings; exits with 1 if one of them is an error
    #[command(after_help = GET_EXAMPLES)]
    Get(Get),
    /// Print readings of devices as they arrive
    #[command(after_help = MONITOR_EXAMPLES)]
    Monitor(Monitor),
    /// Set devices and print the status of each; exits with 1 if one of them was not set
    #[command(after_help = SET_EXAMPLES)]
    Set(SetOptions),
    /// List the devices of a database: number, name, units and description
    Devices(DevicesOptions),
    /// Watch a DPM on this machine: its counters, and where readings spend their time
    #[command(after_help = TOP_EXAMPLES)]
    Top(Top),
    /// Write and check device databases
    #[command(after_help = DATABASE_EXAMPLES)]
    Database {
        /// The command for databases.
        #[command(subcommand)]
        command: DatabaseCommand,
    },
}

#[derive(Debug, Clone, Subcommand)]
enum DatabaseCommand {
    /// Print an example database with every key explained
    Example,
    /// Print a database made of two CSV tables
    #[command(after_help = IMPORT_EXAMPLES)]
    Import(Import),
    /// Check a database: print its mistakes line by line, or a summary of it
    Check {
        /// The device database
        #[arg(value_name = "FILE.toml")]
        file: PathBuf,
    },
}

#[derive(Debug, Clone, Args)]
struct Get {
    /// DRF requests, such as M:OUTTMP or B:ARRAY[0:3]
    #[arg(value_name = "REQUEST", required = true)]
    requests: Vec<String>,
    /// Address of the DPM's port for clients
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:6802")]
    from: SocketAddr,
}

#[derive(Debug, Clone, Args)]
struct Monitor {
    #[command(flatten)]
    what: Get,
    /// Exit after this number of readings
    #[arg(long, value_name = "NUMBER")]
    count: Option<usize>,
}

#[derive(Debug, Clone, Args)]
struct SetOptions {
    /// Settings, such as M:OUTTMP=72.5, B:ARRAY[0:1]=1,2 or Z:CUBE_X.CONTROL=ON
    #[arg(value_name = "REQUEST=VALUE", required = true)]
    settings: Vec<String>,
    /// Address of the DPM: of its port for gRPC with a token [default: 127.0.0.1:50051], of its
    /// port for clients with Kerberos [default: 127.0.0.1:6802]
    #[arg(long, value_name = "ADDRESS")]
    to: Option<SocketAddr>,
    /// The file with the token (JWT) that proves who you are
    #[arg(long, value_name = "FILE", required_unless_present = "kerberos")]
    token_file: Option<PathBuf>,
    /// Prove who you are with your Kerberos ticket (run `kinit` first)
    #[arg(long, conflicts_with_all = ["token_file", "ca"])]
    kerberos: bool,
    /// The role in which to set devices, one of those that the DPM's file of roles gives you
    #[arg(long, value_name = "ROLE", requires = "kerberos")]
    role: Option<String>,
    /// The CA of the port's certificate, PEM; required unless the port is on this machine and
    /// without TLS
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// The name in that certificate
    #[arg(long, value_name = "HOST", default_value = "localhost", requires = "ca")]
    host: String,
    /// Send values as text even if they are numbers
    #[arg(long)]
    text: bool,
}

#[derive(Debug, Clone, Args)]
struct DevicesOptions {
    /// A part of the name or the description; without it, all devices are listed
    #[arg(value_name = "WORDS", default_value = "")]
    words: String,
    /// The device database [default: that of --demo]
    #[arg(long, value_name = "FILE.toml")]
    database: Option<PathBuf>,
}

#[derive(Debug, Clone, Args)]
struct Simulate {
    /// The device database [default: that of --demo]
    #[arg(long, value_name = "FILE.toml")]
    database: Option<PathBuf>,
    /// UDP address at which all of its nodes listen
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:6801")]
    listen: SocketAddr,
    /// End when standard input does
    #[arg(long, hide = true)]
    attached: bool,
}

#[derive(Debug, Clone, Args)]
struct Top {
    /// Address of its port for clients
    #[arg(value_name = "ADDRESS", default_value = "127.0.0.1:6802")]
    address: SocketAddr,
    /// Exit after this number of pages, one per second
    #[arg(long, value_name = "NUMBER")]
    pages: Option<usize>,
}

impl DpmCli {
    /// Runs the command. Exit code 1: failed; 78: the database cannot be used. `read_sql` reads
    /// tables of SQL databases.
    pub fn run(self, read_sql: &SqlReader<'_>) -> ExitCode {
        let done = match self.command {
            Some(DpmCommand::Simulate(simulate)) => simulate.run(),
            Some(DpmCommand::Get(get)) => get.run(Until::Answered),
            Some(DpmCommand::Monitor(Monitor { what, count })) => what.run(Until::Readings(count)),
            Some(DpmCommand::Set(set)) => set.run(),
            Some(DpmCommand::Devices(devices)) => devices.run(),
            Some(DpmCommand::Top(top)) => {
                show_top(top.address, top.pages).map_err(|error| DpmFailure::new(format!("{}: {error}", top.address)))
            }
            Some(DpmCommand::Database { command: DatabaseCommand::Example }) => {
                print!("{}", database::example());
                Ok(())
            }
            Some(DpmCommand::Database { command: DatabaseCommand::Import(tables) }) => tables.run(read_sql),
            Some(DpmCommand::Database { command: DatabaseCommand::Check { file } }) => check(&file),
            None => self.serve.run(),
        };
        done.map_or_else(
            |failure| {
                failure.words.lines().for_each(|line| eprintln!("rookery: {line}"));
                failure.code
            },
            |()| ExitCode::SUCCESS,
        )
    }
}

impl Get {
    /// Prints readings.
    fn run(self, until: Until) -> Result<(), DpmFailure> {
        match ask(self.from, &self.requests, until, &mut std::io::stdout().lock()) {
            Ok(true) => Ok(()),
            Ok(false) => Err(DpmFailure::new("")),
            // The reader has closed the pipe.
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
            Err(error) => Err(DpmFailure::new(format!("{}: {error}", self.from))),
        }
    }
}

impl SetOptions {
    /// Sets devices and prints the outcome.
    fn run(self) -> Result<(), DpmFailure> {
        let usual = if self.token_file.is_some() { GRPC } else { CLIENTS };
        let address = self.to.unwrap_or(usual);
        let done = match self.token_file {
            Some(file) => {
                let token = std::fs::read_to_string(&file)
                    .map_err(|error| DpmFailure::new(format!("{}: {error}", file.display())))?;
                let authority = self.ca.map(|file| (file, self.host));
                put(&GrpcService { address, authority, token: token.trim().to_owned() }, &self.settings, self.text)
            }
            None => apply(address, self.role.as_deref(), &self.settings, self.text),
        };
        let statuses = done.map_err(|error| DpmFailure::new(format!("{address}: {error}")))?;
        statuses.iter().for_each(|(request, status)| println!("{request} {status}"));
        match statuses.iter().any(|(_, status)| status.is_fatal()) {
            true => Err(DpmFailure::new("")),
            false => Ok(()),
        }
    }
}

impl DevicesOptions {
    fn run(self) -> Result<(), DpmFailure> {
        let (database, words) = (read(self.database.as_deref())?, self.words.to_lowercase());
        for device in database.devices() {
            let is_meant = |text: &str| text.to_lowercase().contains(&words);
            if is_meant(&device.name) || is_meant(&device.description) {
                let units = device.reading.as_ref().map_or("", |reading| reading.units.as_str());
                println!("{:>8} {:<16} {units:<8} {}", device.index, device.name, device.description);
            }
        }
        Ok(())
    }
}

impl Simulate {
    fn run(self) -> Result<(), DpmFailure> {
        let simulator = Simulator::new(read(self.database.as_deref())?);
        let front = SimulatorFront::open(self.listen, simulator)
            .map_err(|error| DpmFailure::new(format!("{}: {error}", self.listen)))?;
        let address = front.address().map_err(|error| DpmFailure::new(error.to_string()))?;
        println!("{address}");
        let is_over = Arc::new(AtomicBool::new(false));
        if self.attached {
            let is_over = Arc::clone(&is_over);
            std::thread::spawn(move || {
                let _ = std::io::stdin().read_to_end(&mut Vec::new());
                is_over.store(true, Ordering::Relaxed);
            });
        }
        front.run(|| is_over.load(Ordering::Relaxed)).map_err(|error| DpmFailure::new(error.to_string()))
    }
}

/// Prints a summary of a database file.
fn check(path: &Path) -> Result<(), DpmFailure> {
    let database = read(Some(path))?;
    let (devices, nodes, records) = (database.devices().len(), database.nodes().len(), database.records().len());
    println!("{}: devices {devices}, front-ends {nodes}, recorded readings {records}", path.display());
    let is_used = |node: usize| {
        let uses = |device: &Arc<database::DeviceRecord>| device.places().any(|place| place.node == node);
        database.devices().iter().any(uses)
    };
    for (_, node) in database.nodes().iter().enumerate().filter(|(number, _)| !is_used(*number)) {
        println!("{}: no device is on {}", path.display(), node.name);
    }
    Ok(())
}

/// The usual ports of a DPM on this machine, for gRPC and for other clients.
const GRPC: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 50051);
const CLIENTS: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 6802);

const EXAMPLES: &str = "\
Examples:
  rookery dpm --demo
  rookery dpm --database devices.toml --listen 0.0.0.0:6802
  rookery dpm --database devices.toml --roles roles.toml --audit settings.log \\
    --keytab dpm.keytab --principal daeset/dpm.example.org@EXAMPLE.ORG

SIGHUP makes it reload the database, the roles, the certificate and the keys of tokens.";

const SIMULATE_EXAMPLES: &str = "\
Examples:
  rookery dpm simulate --database devices.toml --listen 127.0.0.1:6801";

const DATABASE_EXAMPLES: &str = "\
Examples:
  rookery dpm database example > devices.toml
  rookery dpm database check devices.toml

doc/device-file.md describes all keys.";

const GET_EXAMPLES: &str = "\
Examples:
  rookery dpm get M:OUTTMP 'B:ARRAY[0:3]' 'M|OUTTMP'
  rookery dpm get M:OUTTMP --from 10.0.0.5:6802";

const MONITOR_EXAMPLES: &str = "\
Examples:
  rookery dpm monitor M:OUTTMP
  rookery dpm monitor M:OUTTMP@p,200 G:COUNTR@e,2 --count 20

A request without an event is read once a second.";

const SET_EXAMPLES: &str = "\
Examples:
  rookery dpm set M:OUTTMP=72.5 Z:CUBE_X.CONTROL=ON --token-file token
  rookery dpm set 'B:ARRAY[0:1]=1,2' --token-file token \\
    --to 10.0.0.5:50051 --ca authority.pem --host dpm.example.org
  rookery dpm set Z:CUBE_X=12.5 --kerberos --role operators --to 10.0.0.5:6802

The roles of the DPM define who may set what; its log of settings has every attempt.";

const TOP_EXAMPLES: &str = "\
Examples:
  rookery dpm top
  rookery dpm top 127.0.0.1:6802 --pages 1

Stages are measured only while somebody watches.";
