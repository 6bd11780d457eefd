//! The command line.

mod examples;
mod store;

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Parser, Subcommand};

pub use store::{Ends, ForeignDatabase, ForeignSchema, StoreCommand};

/// Rookery, a messaging server that speaks XMPP.
#[derive(Debug, Parser)]
#[command(name = "rookery", version, after_help = examples::ALL, after_long_help = examples::ALL_WITH_CODES)]
#[command(infer_subcommands = false, max_term_width = 100)]
pub struct Arguments {
    /// Configuration file; rookery.toml in the data folder is read if there is one [default:
    /// DATA/rookery.toml]
    #[arg(long, value_name = "FILE", global = true)]
    pub config: Option<PathBuf>,
    /// Folder for everything that the server keeps
    #[arg(long, value_name = "DIR", global = true, env = "ROOKERY_DATA_DIR", default_value = "./rookery-data")]
    pub data_dir: PathBuf,
    /// The command; `serve` if there is none
    #[command(subcommand)]
    pub command: Option<ServerCommand>,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum ServerCommand {
    /// Run the server until it is told to stop (the default)
    #[command(after_help = examples::SERVE)]
    Serve,
    /// Set a server up: configuration, administrator, records of DNS, the first invitation
    #[command(after_help = examples::SETUP)]
    Setup(crate::setup::SetupWishes),
    /// Show the running server: version, domains, who is there, certificates
    #[command(after_help = examples::STATUS)]
    Status {
        #[command(flatten)]
        shown: ShownAs,
    },
    /// Have the running server read its configuration and certificates again
    #[command(after_help = examples::RELOAD)]
    Reload,
    /// Show the newest lines of the running server's log, and those that come
    #[command(after_help = examples::LOG, args_conflicts_with_subcommands = true)]
    Log {
        /// The command for the log.
        #[command(subcommand)]
        command: Option<LogCommand>,
        #[command(flatten)]
        wishes: LogWishes,
    },
    /// Show what the running server does, again each second
    #[command(after_help = examples::TOP)]
    Top(crate::top::TopWishes),
    /// Sample where the CPU time of the running server goes, and draw it; or compare two profiles
    #[command(after_help = examples::PROFILE)]
    Profile(crate::profile::ProfileWishes),
    /// Say what is wrong with the running server, in sentences with numbers: why it matters and
    /// what to do
    #[command(after_help = examples::DOCTOR)]
    Doctor {
        #[command(flatten)]
        shown: ShownAs,
    },
    /// Show what has taken the running server longer than it should: work of its threads, waits,
    /// operations of the database, logins, streams to other servers
    #[command(after_help = examples::SLOW)]
    Slow {
        #[command(flatten)]
        shown: ShownAs,
    },
    /// Show the way of the stanzas of one address through the running server, with what was decided
    /// about each and why: "why did this message not arrive?"
    #[command(after_help = examples::TRACE)]
    Trace(crate::trace::TraceWishes),
    /// Look at sessions of the running server, or end them
    #[command(after_help = examples::SESSION)]
    Session {
        /// The command for sessions.
        #[command(subcommand)]
        command: SessionCommand,
    },
    /// Look at rooms of the running server, or destroy one
    #[command(after_help = examples::ROOM)]
    Room {
        /// The command for rooms.
        #[command(subcommand)]
        command: RoomCommand,
    },
    /// Manage accounts, also while the server runs
    #[command(after_help = examples::USER)]
    User {
        /// The command for accounts.
        #[command(subcommand)]
        command: UserCommand,
    },
    /// Manage who administers the domains, also while the server runs
    #[command(after_help = examples::ADMIN)]
    Admin {
        /// The command for administrators.
        #[command(subcommand)]
        command: AdminCommand,
    },
    /// Write everything that the server has to one file, also while it runs: database, uploads,
    /// certificates, configuration
    #[command(after_help = examples::BACKUP)]
    Backup {
        /// The file to write; it is compressed, and its owner alone can read it
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
    /// Put a backup into an empty data folder
    #[command(after_help = examples::RESTORE)]
    Restore {
        /// The file that `rookery backup` has written
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// Put the database into this one
        #[arg(long, value_name = "URL")]
        to: Option<String>,
        /// Move what is in the data folder into a folder below it first, and remove what is in the
        /// database of --to
        #[arg(long)]
        replace: bool,
    },
    /// Bring the database up to date, or copy it to another one
    #[command(after_help = examples::STORE)]
    Store {
        /// The command for the database.
        #[command(subcommand)]
        command: StoreCommand,
    },
    /// Look at other servers: the streams that there are, or what happens to reach one
    #[command(after_help = examples::S2S)]
    S2s {
        /// "list", "close", or the domain to reach
        #[arg(value_name = "list|close|DOMAIN")]
        what: String,
        /// The domain whose streams are to be closed
        #[arg(value_name = "DOMAIN")]
        domain: Option<String>,
        /// Reach it in the name of this domain of ours, not of the default one
        #[arg(long, value_name = "DOMAIN")]
        from: Option<String>,
        #[command(flatten)]
        shown: ShownAs,
    },
    /// Look at the nodes of a cluster, or remove one that is away for good
    Node {
        /// The command for nodes.
        #[command(subcommand)]
        command: NodeCommand,
    },
    /// Manage the tokens with which programs use the HTTP API, also while the server runs
    #[command(after_help = examples::TOKEN)]
    Token {
        /// The command for tokens.
        #[command(subcommand)]
        command: TokenCommand,
    },
    /// Manage what browsers are served, also while the server runs
    #[command(after_help = examples::WEB)]
    Web {
        /// The command for the web front.
        #[command(subcommand)]
        command: WebCommand,
    },
    /// Show configuration
    #[command(after_help = examples::CONFIG)]
    Config {
        /// The command for the configuration.
        #[command(subcommand)]
        command: ConfigCommand,
    },
    /// Look over configuration, certificates, ports and storage, and say what is wrong and how to
    /// mend it
    #[command(after_help = examples::CHECK)]
    Check(Wishes),
    /// Print what lets a shell complete commands; packages have it
    #[command(hide = true)]
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Write a manual page for each command; packages have them
    #[command(hide = true)]
    Manual {
        /// The folder to write them into
        #[arg(value_name = "DIR")]
        folder: PathBuf,
    },
    /// Measure this server, or any other that speaks XMPP
    Bench(rookery_bench::cli::Bench),
    /// Poll each device once and serve everyone who asks for it (the accelerator's data pool
    /// manager)
    Dpm(Box<rookery_dpm::cli::DpmCli>),
}

/// The commands for nodes.
#[derive(Debug, Subcommand)]
pub enum NodeCommand {
    /// List the nodes of the cluster, and whether they are up
    List {
        #[command(flatten)]
        shown: ShownAs,
    },
    /// Let a node hand its accounts and rooms on to the others, with all who are there, and end
    Drain {
        /// Its name, unless it is the node that the configuration is for
        name: Option<String>,
    },
    /// Print at which nodes addresses are at home: accounts, rooms, domains
    Home {
        /// Their addresses; `-`: one in each line of the standard input
        #[arg(required = true, value_name = "ADDRESS")]
        addresses: Vec<String>,
        #[command(flatten)]
        shown: ShownAs,
    },
    /// Remove a node that is away for good: the others take its accounts and rooms
    Remove {
        /// Its name
        name: String,
    },
}

/// The wishes of somebody who checks.
#[derive(Debug, Clone, clap::Args)]
pub struct Wishes {
    /// Compare DNS with the records that there should be, too
    #[arg(long)]
    pub dns: bool,
    /// Look for the domains as a stranger does, too: by their names in DNS, at the addresses that
    /// these lead to
    #[arg(long)]
    pub outside: bool,
    /// Have another server answer, too: to do so, it has to find the way here
    #[arg(long, value_name = "DOMAIN", requires = "outside")]
    pub via: Option<String>,
    /// Ask this name server, such as a public one, in the place of those that are known here
    #[arg(long, value_name = "ADDRESS", requires = "outside", value_parser = crate::setup::name_server)]
    pub name_server: Vec<SocketAddr>,
    /// Only ask the running server whether it is ready for clients
    #[arg(long, conflicts_with_all = ["dns", "outside"])]
    pub live: bool,
    /// Print only what isn't fine; nothing if all is
    #[arg(long, short)]
    pub quiet: bool,
    /// The form.
    #[command(flatten)]
    pub shown: ShownAs,
}

/// The form in which something is shown.
#[derive(Debug, Clone, Copy, clap::Args)]
pub struct ShownAs {
    /// Print JSON: an object, or for a list one on each line
    #[arg(long)]
    pub json: bool,
}

/// The wishes of somebody who reads the log.
#[derive(Debug, clap::Args)]
pub struct LogWishes {
    /// Go on with the lines that come, until the server ends, for a day at most
    #[arg(long, short)]
    pub follow: bool,
    /// Only lines of this level and graver ones: error, warn, info, debug or trace
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
    /// Log more of a module, or less, for a while: then the configuration counts again
    Level {
        /// The module as lines name it, such as rookery_shard or rookery_shard::negotiation
        module: String,
        /// The level: off, error, warn, info, debug or trace
        level: String,
        /// The time for it, such as 90s, 10m or 2h
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
    /// End the sessions of an account, or one of them
    End {
        /// The account, such as alice@example.org, or the session, such as alice@example.org/phone
        #[arg(value_name = "JID")]
        jid: String,
    },
}

/// The commands for rooms.
#[derive(Debug, Subcommand)]
pub enum RoomCommand {
    /// List rooms, hidden ones as well
    List {
        /// Only those of this domain
        #[arg(value_name = "DOMAIN")]
        domain: Option<String>,
        #[command(flatten)]
        shown: ShownAs,
    },
    /// Show a room and who is there
    Show {
        /// Its address, such as garden@conference.example.org
        room: String,
        #[command(flatten)]
        shown: ShownAs,
    },
    /// Destroy a room with everything that is kept of it; its occupants are told
    Destroy {
        /// Its address
        room: String,
        /// The reason that its occupants are told
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
    },
}

/// The commands for accounts.
#[derive(Debug, Subcommand)]
pub enum UserCommand {
    /// Add an account
    #[command(after_help = examples::ADD)]
    Add {
        /// Its address, such as alice@example.org
        jid: String,
        #[command(flatten)]
        password: PasswordFrom,
    },
    /// Set the password of an account
    #[command(after_help = examples::PASSWD)]
    Passwd {
        /// Its address
        jid: String,
        #[command(flatten)]
        password: PasswordFrom,
    },
    /// Remove an account with everything that is kept for it
    #[command(after_help = examples::REMOVE)]
    Remove {
        /// Its address
        jid: String,
        /// Don't ask, at a terminal
        #[arg(long)]
        yes: bool,
    },
    /// Show an account of the running server: its rights, its sessions, when it was last here
    Show {
        /// Its address
        jid: String,
        #[command(flatten)]
        shown: ShownAs,
    },
    /// Keep an account from logging in, and end its sessions
    Disable {
        /// Its address
        jid: String,
    },
    /// Let an account log in again
    Enable {
        /// Its address
        jid: String,
    },
    /// List the accounts, one a line
    #[command(after_help = examples::LIST)]
    List {
        /// Only those of this domain
        #[arg(value_name = "DOMAIN")]
        domain: Option<String>,
        #[command(flatten)]
        shown: ShownAs,
    },
    /// Add the accounts of a file: `jid,password` lines, or an export of this or another server
    /// (XEP-0227); says what is wrong in it and adds the rest
    #[command(after_help = examples::IMPORT)]
    Import {
        /// The file, or - for standard input: XML, or lines of UTF-8 whose fields may be quoted and
        /// of which a first `jid,password` is skipped
        #[arg(value_name = "FILE", required_unless_present = "from", conflicts_with = "from")]
        file: Option<PathBuf>,
        #[command(flatten)]
        foreign: ForeignDatabase,
    },
    /// Make a link with which somebody can create an account, once
    #[command(after_help = examples::INVITE)]
    Invite {
        /// The domain, or the address that the account is to have
        #[arg(value_name = "DOMAIN|JID")]
        what: String,
        #[command(flatten)]
        valid: Valid,
        #[command(flatten)]
        shown: ShownAs,
    },
    /// Make a link with which the password of an account can be set, once
    #[command(after_help = examples::INVITE)]
    ResetLink {
        /// Its address
        jid: String,
        #[command(flatten)]
        valid: Valid,
        #[command(flatten)]
        shown: ShownAs,
    },
    /// Write an account, or all of a domain, to a file that this and other servers can import
    /// (XEP-0227)
    #[command(after_help = examples::EXPORT)]
    Export {
        /// The account, such as alice@example.org, or a domain
        #[arg(value_name = "JID")]
        what: String,
        /// The file to make, or - for standard output; it holds all that is kept for the account,
        /// the keys of its password included
        #[arg(value_name = "FILE.xml")]
        file: PathBuf,
    },
}

/// The commands for administrators.
#[derive(Debug, Subcommand)]
pub enum AdminCommand {
    /// Let an account administer a domain, and with the first domain the server
    #[command(after_help = examples::ADMIN)]
    Add {
        /// The account, such as alice@example.org
        jid: String,
        /// The domain to administer [default: the account's]
        #[arg(long, value_name = "DOMAIN")]
        domain: Option<String>,
    },
    /// Take that right away, from now on
    Remove {
        /// The account
        jid: String,
        /// The domain [default: the account's]
        #[arg(long, value_name = "DOMAIN")]
        domain: Option<String>,
    },
    /// List account, domain, and whether the configuration names it
    List {
        #[command(flatten)]
        shown: ShownAs,
    },
}

/// The commands for tokens.
#[derive(Debug, Subcommand)]
pub enum TokenCommand {
    /// Make a token and show it, once
    #[command(after_help = examples::TOKEN)]
    Add {
        /// Name of the token
        name: String,
        /// Rights of the token, such as users:read; may be given several times, or as a list with
        /// commas
        #[arg(long = "scope", value_name = "SCOPE", required = true, value_delimiter = ',')]
        scopes: Vec<String>,
        /// Let it be good for this domain only
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
    /// Revoke a token, from now on
    Revoke {
        /// Name of the token
        name: String,
    },
}

/// The commands for the web front.
#[derive(Debug, Subcommand)]
pub enum WebCommand {
    /// Get the files of the chat page (/chat): one version of the npm package converse.js, whose
    /// hash is checked
    #[command(after_help = examples::WEB)]
    Install {
        /// Take the package from there, and not from the registry of npm
        #[arg(long, value_name = "FILE|URL")]
        from: Option<String>,
    },
}

/// The time for which a link is good.
#[derive(Debug, Clone, Copy, clap::Args)]
pub struct Valid {
    /// Days until the link expires
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u64).range(1..=3650))]
    pub days: u64,
}

/// The source of a password.
#[derive(Debug, Clone, Copy, clap::Args)]
pub struct PasswordFrom {
    /// Read the password from the first line of standard input instead of asking at the terminal
    #[arg(long)]
    pub password_stdin: bool,
}

/// The commands for the configuration.
#[derive(Debug, Subcommand)]
pub enum ConfigCommand {
    /// Print a commented configuration with every key and its default
    #[command(after_help = examples::CONFIG)]
    Example {
        /// Only what most servers set, for a file to begin with
        #[arg(long)]
        short: bool,
    },
    /// Print the values in force, each with the line that gives it, or that it is the default
    #[command(after_help = examples::CONFIG_SHOW)]
    Show {
        /// Only the values that the file gives
        #[arg(long)]
        given: bool,
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
    /// Print every bound on what anybody can make the server keep or do, with the values in force
    Limits {
        #[command(flatten)]
        shown: ShownAs,
    },
}
