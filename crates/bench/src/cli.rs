//! The command line: `rookery bench …`.

mod list;
mod register;
mod run;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};

use crate::cluster::ClusterBench;
use crate::federation::FederationBench;
use crate::login::LoginBench;
use crate::multicast_test::MulticastTest;
use crate::watch::WatchBench;
use crate::{peers, report, scenario};

/// Measure this server, or any other XMPP server.
#[derive(Debug, Clone, Args)]
pub struct Bench {
    #[command(subcommand)]
    command: BenchCommand,
}

/// The commands of `rookery bench`.
#[derive(Debug, Clone, Subcommand)]
enum BenchCommand {
    /// List the scenarios with their flags and defaults
    List,
    /// Create the accounts that scenarios log in to
    #[command(after_help = REGISTER_EXAMPLES)]
    Register(register::Register),
    /// Repeat the six experiments of multicast_test (2007) with this server's code, in this process
    #[command(after_help = MULTICAST_EXAMPLES)]
    MulticastTest(MulticastTest),
    /// Measure the cost of messages between two servers, and of an idle stream between them
    #[command(after_help = FEDERATION_EXAMPLES)]
    Federation(FederationBench),
    /// Find the messages and sessions that a cluster of any server loses while its nodes die
    #[command(after_help = CLUSTER_EXAMPLES)]
    Cluster(ClusterBench),
    /// Measure logins with rosters, on any database
    #[command(after_help = LOGIN_EXAMPLES)]
    Login(LoginBench),
    /// Measure what `top`, `profile` and `trace` cost the server that they watch
    #[command(after_help = WATCH_EXAMPLES)]
    Watch(WatchBench),
    /// Run a scenario against a server
    #[command(after_help = RUN_EXAMPLES)]
    Run {
        /// The load.
        #[command(subcommand)]
        scenario: Box<scenario::ScenarioCommand>,
    },
    /// Compare the results of several runs
    #[command(after_help = COMPARE_EXAMPLES)]
    Compare {
        /// Files written by `run --out`; the others are compared with the first
        #[arg(value_name = "FILE.json", required = true)]
        files: Vec<PathBuf>,
        /// Write a report with plots
        #[arg(long, value_name = "FILE.html")]
        html: Option<PathBuf>,
        /// Write the figures as Markdown
        #[arg(long, value_name = "FILE.md")]
        markdown: Option<PathBuf>,
    },
    /// Run the same loads on Rookery, ejabberd and Prosody, and write a comparison
    #[command(after_help = PEERS_EXAMPLES)]
    Peers(peers::Peers),
    /// Measure the cost of users in browsers: the same load over TCP, WebSocket and BOSH, on
    /// Rookery, ejabberd and Prosody
    #[command(after_help = BROWSERS_EXAMPLES)]
    WebsocketVsBosh(peers::WebsocketVsBosh),
}

impl Bench {
    /// Runs the command. The exit code is 0 for success, and 1 for a failure or an unexpected
    /// result.
    pub fn run(self) -> ExitCode {
        let done = match self.command {
            BenchCommand::List => list::run(),
            BenchCommand::Register(register) => register.run(),
            BenchCommand::MulticastTest(test) => return test.run(),
            BenchCommand::Federation(federation) => federation.run(),
            BenchCommand::Cluster(cluster) => cluster.run(),
            BenchCommand::Login(login) => login.run(),
            BenchCommand::Watch(watch) => watch.run(),
            BenchCommand::Run { scenario } => return run::run(&scenario),
            BenchCommand::Compare { files, html, markdown } => {
                report::compare::run(&files, html.as_deref(), markdown.as_deref())
            }
            BenchCommand::Peers(peers) => peers::run(&peers),
            BenchCommand::WebsocketVsBosh(comparison) => comparison.run(),
        };
        match done {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("rookery bench: {error}");
                ExitCode::FAILURE
            }
        }
    }
}

const FEDERATION_EXAMPLES: &str = "\
Examples:
  rookery bench federation
  rookery bench federation --pairs 10 --window 1 --seconds 1 --domains 0

Both servers are this program, in temporary folders on loopback. A message between them costs CPU time on both.";

const CLUSTER_EXAMPLES: &str = "\
Examples:
  rookery bench cluster --hosts 127.0.0.1:5222,127.0.0.1:5232,127.0.0.1:5242 \\
    --seconds 60 --do './kill-one $ROUND'
  rookery bench cluster --hosts n1.example.org,n2.example.org \\
    --domain example.org --tls starttls --users 50 --out cluster.json

Exit codes:
  0    each acknowledged message arrived once and in order, or is in an archive
  1    something was lost, duplicated or reordered, or nobody could log in";

const LOGIN_EXAMPLES: &str = "\
Examples:
  rookery bench login
  rookery bench login --users 500 --at-once 100 --rounds 10
  rookery bench login --store postgres://rookery@localhost/empty

The server is this program, in a temporary folder on loopback. The database must be empty, and has the accounts afterwards.";

const WATCH_EXAMPLES: &str = "\
Examples:
  rookery bench watch
  rookery bench watch --pairs 10 --seconds 1 --rounds 1

The server is this program, in a temporary folder on loopback.";

const PEERS_EXAMPLES: &str = "\
Examples:
  rookery bench peers --quick         all loads, small, in under three minutes
  rookery bench peers --only rookery,ejabberd --scenarios multicast

Rookery is this program; ejabberd and Prosody are Debian's packages of these names. Each runs in a temporary folder \
on a free loopback port, configured by crates/bench/peers/.";

const REGISTER_EXAMPLES: &str = "\
Examples:
  rookery bench register --host 127.0.0.1:5222 --domain localhost --users 2000
  rookery bench register --users 2000 --remove
  rookery bench register --users 75000 --csv accounts.csv &&
    rookery user import accounts.csv";

const BROWSERS_EXAMPLES: &str = "\
Examples:
  rookery bench websocket-vs-bosh --users 1000 --rate 1000 --rounds 1
  rookery bench websocket-vs-bosh --only rookery --rounds 5

A client of BOSH has two connections, so the limit of open files must exceed twice the number of users, for this \
process and for the servers.";

const MULTICAST_EXAMPLES: &str = "\
Examples:
  rookery bench multicast-test
  rookery bench multicast-test --routes untrusted --address bcc --profile
  rookery bench multicast-test --routes untrusted --servers single \\
    --from 901 --repeat 5000 --flamegraph stacks.svg";

const RUN_EXAMPLES: &str = "\
Examples:
  rookery bench run chat --host 127.0.0.1:5222 --pairs 1000 --window 8
  rookery bench run max-messages --rate 21000 \\
    --server-pid $(pidof rookery) --out now.json --html now.html
  rookery bench list                       every scenario with its flags

Exit codes:
  0    everything was sent and has arrived
  1    something failed, or was lost, duplicated or reordered; see the report";

const COMPARE_EXAMPLES: &str = "\
Examples:
  rookery bench compare yesterday.json today.json --html both.html";
