//! The command line.

mod examples;
mod store;
mod user;

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Parser, Subcommand};

pub use store::{Ends, ForeignDatabase, ForeignSchema, StoreCommand};
pub use user::{PasswordFrom, PasswordLength, UserCommand};

/// Rookery, a messaging server that speaks XMPP.
#[derive(Debug, Parser)]
#[command(name = "rookery", version, after_help = examples::ALL, after_long_help = examples::ALL_WITH_CODES)]
#[command(infer_subcommands = false, max_term_width = 100)]
pub struct Arguments {
    /// Configuration file; rookery.toml in the data folder is read if there is one [default:
    /// DATA/rookery.toml]
    #[arg(long, value_name = "FILE", global = true, help_heading = WHERE, display_order = LAST)]
    pub config: Option<PathBuf>,
    /// Folder for everything that the server keeps
    #[arg(long, value_name = "DIR", global = true, env = "ROOKERY_DATA_DIR", default_value = "./rookery-data")]
    #[arg(help_heading = WHERE, display_order = LAST)]
    pub data_dir: PathBuf,
    /// The command [default: serve]
    #[command(subcommand)]
    pub command: Option<ServerCommand>,
}

/// The heading of the options that every command has, behind its own.
const WHERE: &str = "Where the server is";
/// Their place in the order of options, which counts from 0.
const LAST: usize = 1000;

/// The commands.
#[derive(Debug, Subcommand)]
pub enum ServerCommand {
    /// Run the server until it is told to stop (the default)
    #[command(after_help = examples::SERVE)]
    Serve,
    /// Set up a server: configuration, administrator, DNS records, a first invitation
    #[command(after_help = examples::SETUP)]
    Setup(crate::setup::SetupWishes),
    /// Show the running server: version, domains, users online, certificates
    #[command(after_help = examples::STATUS)]
    Status {
        #[command(flatten)]
        shown: ShownAs,
    },
    /// Make the running server reload its configuration and certificates
    #[command(after_help = examples::RELOAD)]
    Reload {
        #[command(flatten)]
        shown: ShownAs,
    },
    /// Show the newest lines of the running server's log, and those that come
    #[command(after_help = examples::LOG, args_conflicts_with_subcommands = true)]
    Log {
        /// The command for the log.
        #[command(subcommand)]
        command: Option<LogCommand>,
        #[command(flatten)]
        wishes: LogWishes,
    },
    /// Show what the running server is doing, refreshed every second
    #[command(after_help = examples::TOP)]
    Top(crate::top::TopWishes),
    /// Sample where the running server spends its CPU time and draw it, or compare two profiles
    #[command(after_help = examples::PROFILE)]
    Profile(crate::profile::ProfileWishes),
    /// Say what is wrong with the running server, why it matters and what to do about it
    #[command(after_help = examples::DOCTOR)]
    Doctor {
        #[command(flatten)]
        shown: ShownAs,
    },
    /// Show what took the running server too long: work of its threads, waits, database operations,
    /// logins, streams to other servers
    #[command(after_help = examples::SLOW)]
    Slow {
        #[command(flatten)]
        shown: ShownAs,
    },
    /// Follow the stanzas of one address through the running server, with each decision and its
    /// reason ("why didn't this message arrive?")
    #[command(after_help = examples::TRACE)]
    Trace(crate::trace::TraceWishes),
    /// List sessions of the running server, or end them
    #[command(after_help = examples::SESSION)]
    Session {
        /// The command for sessions.
        #[command(subcommand)]
        command: SessionCommand,
    },
    /// Show rooms of the running server, or destroy one
    #[command(after_help = examples::ROOM)]
    Room {
        /// The command for rooms.
        #[command(subcommand)]
        command: RoomCommand,
    },
    /// Manage accounts, even while the server runs
    #[command(after_help = examples::USER)]
    User {
        /// The command for accounts.
        #[command(subcommand)]
        command: UserCommand,
    },
    /// Manage administrators of domains, even while the server runs
    #[command(after_help = examples::ADMIN)]
    Admin {
        /// The command for administrators.
        #[command(subcommand)]
        command: AdminCommand,
    },
    /// Back up everything to one file, even while the server runs: database, uploads, certificates,
    /// configuration
    #[command(after_help = examples::BACKUP)]
    Backup {
        /// The file to write, or - for standard output; it is compressed, and readable only by its
        /// owner
        #[arg(value_name = "FILE")]
        file: PathBuf,
        #[command(flatten)]
        shown: ShownAs,
    },
    /// Restore a backup into an empty data folder
    #[command(after_help = examples::RESTORE)]
    Restore {
        /// The file that `rookery backup` has written, or - for standard input
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// Put the database into this one, instead of the one that the configuration names
        #[arg(long, value_name = "URL")]
        to: Option<String>,
        /// First move the contents of the data folder into a subfolder, and empty the database of
        /// --to
        #[arg(long)]
        replace: bool,
    },
    /// Bring the database's schema up to date, or copy everything to another database
    #[command(after_help = examples::STORE)]
    Store {
        /// The command for the database.
        #[command(subcommand)]
        command: StoreCommand,
    },
    /// List the streams between servers, or test step by step whether a server can be reached
    #[command(after_help = examples::S2S)]
    S2s {
        /// "list", "close", or the domain to reach
        #[arg(value_name = "list|close|DOMAIN")]
        what: String,
        /// The domain whose streams to close
        #[arg(value_name = "DOMAIN")]
        domain: Option<String>,
        /// Connect from this domain of ours instead of the default one
        #[arg(long, value_name = "DOMAIN")]
        from: Option<String>,
        #[command(flatten)]
        shown: ShownAs,
    },
    /// List the nodes of a cluster, drain one, or remove one that won't come back
    Node {
        /// The command for nodes.
        #[command(subcommand)]
        command: NodeCommand,
    },
    /// Manage the tokens of the HTTP API, even while the server runs
    #[command(after_help = examples::TOKEN)]
    Token {
        /// The command for tokens.
        #[command(subcommand)]
        command: TokenCommand,
    },
    /// Manage the files served to browsers, even while the server runs
    #[command(after_help = examples::WEB)]
    Web {
        /// The command for the web front.
        #[command(subcommand)]
        command: WebCommand,
    },
    /// Print an example configuration, the values in force, or all limits
    #[command(after_help = examples::CONFIG)]
    Config {
        /// The command for the configuration.
        #[command(subcommand)]
        command: ConfigCommand,
    },
    /// Check configuration, certificates, ports and storage, and say what is wrong and how to fix
    /// it
    #[command(after_help = examples::CHECK)]
    Check(Wishes),
    /// Print the completion script of a shell; packages include it
    #[command(hide = true)]
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Write a manual page for each command; packages include them
    #[command(hide = true)]
    Manual {
        /// The folder to write them into
        #[arg(value_name = "DIR")]
        folder: PathBuf,
    },
    /// Measure this server, or any other XMPP server
    Bench(rookery_bench::cli::Bench),
    /// Poll each device once for all clients that ask for it (the accelerator's data pool manager)
    Dpm(Box<rookery_dpm::cli::DpmCli>),
}

/// The commands for nodes.
#[derive(Debug, Subcommand)]
pub enum NodeCommand {
    /// List the nodes of the cluster and whether each is up
    List {
        #[command(flatten)]
        shown: ShownAs,
    },
    /// Hand a node's accounts and rooms over to the others, with their sessions, and stop it
    Drain {
        /// Its name [default: the node of this configuration]
        name: Option<String>,
    },
    /// Print the home node of each address: account, room or domain
    Home {
        /// The addresses; `-` reads them from standard input, one per line
        #[arg(required = true, value_name = "ADDRESS")]
        addresses: Vec<String>,
        #[command(flatten)]
        shown: ShownAs,
    },
    /// Remove a node that won't come back; the others take over its accounts and rooms
    Remove {
        /// Its name
        name: String,
    },
}

/// The options of `rookery check`.
#[derive(Debug, Clone, clap::Args)]
pub struct Wishes {
    /// Also compare DNS with the records that there should be
    #[arg(long)]
    pub dns: bool,
    /// Also look for the domains as a stranger would: through DNS, at the addresses found there
    #[arg(long)]
    pub outside: bool,
    /// Also have another server reply, which it can only do if it can reach this one
    #[arg(long, value_name = "DOMAIN", requires = "outside")]
    pub via: Option<String>,
    /// Ask this name server, such as a public one, instead of the machine's own
    #[arg(long, value_name = "ADDRESS", requires = "outside", value_parser = crate::setup::name_server)]
    pub name_server: Vec<SocketAddr>,
    /// Only ask the running server whether it is ready for clients
    #[arg(long, conflicts_with_all = ["dns", "outside"])]
    pub live: bool,
    /// Print problems only; nothing if there are none
    #[arg(long, short)]
    pub quiet: bool,
    /// The form.
    #[command(flatten)]
    pub shown: ShownAs,
}

/// The form in which something is shown.
#[derive(Debug, Clone, Copy, clap::Args)]
pub struct ShownAs {
    /// Print JSON: one object, or for a list one per line
    #[arg(long)]
    pub json: bool,
}

/// The options of `rookery log`.
#[derive(Debug, clap::Args)]
pub struct LogWishes {
    /// Keep printing new lines until the server ends, for a day at most
    #[arg(long, short)]
    pub follow: bool,
    /// Only lines of this level or a more severe one: error, warn, info, debug or trace
    #[arg(long, value_name = "LEVEL")]
    pub level: Option<String>,
    /// Only lines about this account
    #[arg(long, value_name = "JID")]
    pub account: Option<String>,
    #[command(flatten)]
    pub shown: ShownAs,
}

/// The commands for the log.
#[derive(Debug, Subcommand)]
pub enum LogCommand {
    /// Log more or less of a module for a while; then the configuration applies again
    Level {
        /// The module as log lines name it, such as rookery_shard or rookery_shard::negotiation
        module: String,
        /// The level: off, error, warn, info, debug or trace
        level: String,
        /// The duration, such as 90s, 10m or 2h
        #[arg(long = "for", value_name = "TIME", default_value = "10m", value_parser = crate::log::duration)]
        lasts: std::time::Duration,
    },
}

/// The commands for sessions.
#[derive(Debug, Subcommand)]
pub enum SessionCommand {
    /// List sessions with the addresses of their clients
    List {
        /// Only those of this account or domain
        #[arg(value_name = "JID|DOMAIN")]
        whose: Option<String>,
        #[command(flatten)]
        shown: ShownAs,
    },
    /// End one session, or all sessions of an account
    End {
        /// The account, such as alice@example.org, or the session, such as alice@example.org/phone
        #[arg(value_name = "JID")]
        jid: String,
        #[command(flatten)]
        shown: ShownAs,
    },
}

/// The commands for rooms.
#[derive(Debug, Subcommand)]
pub enum RoomCommand {
    /// List rooms, including hidden ones
    List {
        /// Only those of this domain
        #[arg(value_name = "DOMAIN")]
        domain: Option<String>,
        #[command(flatten)]
        shown: ShownAs,
    },
    /// Show a room and its occupants
    Show {
        /// Its address, such as garden@conference.example.org
        room: String,
        #[command(flatten)]
        shown: ShownAs,
    },
    /// Destroy a room with everything stored for it, and tell its occupants
    Destroy {
        /// Its address
        room: String,
        /// The reason, which its occupants see
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
    },
}

/// The commands for administrators.
#[derive(Debug, Subcommand)]
pub enum AdminCommand {
    /// Let an account administer a domain, and if it is the first domain, the server
    #[command(after_help = examples::ADMIN)]
    Add {
        /// The account, such as alice@example.org
        jid: String,
        /// The domain to administer [default: the account's]
        #[arg(long, value_name = "DOMAIN")]
        domain: Option<String>,
    },
    /// Take away the right of an account to administer a domain, at once
    Remove {
        /// The account
        jid: String,
        /// The domain [default: the account's]
        #[arg(long, value_name = "DOMAIN")]
        domain: Option<String>,
    },
    /// List administrators: account, domain, and whether the configuration names them
    List {
        #[command(flatten)]
        shown: ShownAs,
    },
}

/// The commands for tokens.
#[derive(Debug, Subcommand)]
pub enum TokenCommand {
    /// Create a token and show it, once
    #[command(after_help = examples::TOKEN)]
    Add {
        /// Name of the token
        name: String,
        /// Rights of the token, such as users:read; may be repeated, or be a list
        /// separated by commas
        #[arg(long = "scope", value_name = "SCOPE", required = true, value_delimiter = ',')]
        scopes: Vec<String>,
        /// Restrict it to this domain
        #[arg(long, value_name = "DOMAIN")]
        domain: Option<String>,
        #[command(flatten)]
        shown: ShownAs,
    },
    /// List the tokens, without their secrets
    List {
        #[command(flatten)]
        shown: ShownAs,
    },
    /// Revoke a token at once
    Revoke {
        /// Name of the token
        name: String,
    },
}

/// The commands for the web front.
#[derive(Debug, Subcommand)]
pub enum WebCommand {
    /// Install the files of the chat page (/chat): one version of the npm package converse.js,
    /// whose hash is checked
    #[command(after_help = examples::WEB)]
    Install {
        /// Take the package from this place instead of the npm registry
        #[arg(long, value_name = "FILE|URL")]
        from: Option<String>,
    },
}

/// The commands for the configuration.
#[derive(Debug, Subcommand)]
pub enum ConfigCommand {
    /// Print a commented configuration with every key and its default
    #[command(after_help = examples::CONFIG)]
    Example {
        /// Only the keys that most servers set, to start from
        #[arg(long)]
        short: bool,
    },
    /// Print the values in force, each with the line that sets it, or as the default
    #[command(after_help = examples::CONFIG_SHOW)]
    Show {
        /// Only the values that the file sets
        #[arg(long)]
        given: bool,
        /// Only the values that differ from the defaults
        #[arg(long)]
        changed: bool,
        #[command(flatten)]
        shown: ShownAs,
    },
    /// Compare the running server with its configuration file: what a reload or a restart would
    /// change
    #[command(after_help = examples::CONFIG_DIFF)]
    Diff {
        #[command(flatten)]
        shown: ShownAs,
    },
    /// Print every limit on what anyone can make the server keep or do, with the values in force
    Limits {
        #[command(flatten)]
        shown: ShownAs,
    },
}
