//! The commands about accounts.

use std::path::PathBuf;

use clap::Subcommand;

use super::{ForeignDatabase, ShownAs, examples};

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
        #[command(flatten)]
        shown: ShownAs,
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
        #[command(flatten)]
        shown: ShownAs,
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
        #[command(flatten)]
        length: PasswordLength,
        #[command(flatten)]
        shown: ShownAs,
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
        /// The file to write, or - for standard output; it contains everything stored for the
        /// account, including the keys of its password
        #[arg(value_name = "FILE.xml")]
        file: PathBuf,
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
    #[command(flatten)]
    pub length: PasswordLength,
}

/// The length that a new password may have.
#[derive(Debug, Clone, Copy, clap::Args)]
pub struct PasswordLength {
    /// Accept passwords that are shorter than `min_password` in [modules.register] says
    #[arg(long)]
    pub allow_short: bool,
}
