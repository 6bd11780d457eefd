//! The commands about the database: migrations, copies, and other servers' databases.

use clap::Subcommand;

use super::{ShownAs, examples};

/// The commands for the database.
#[derive(Debug, Subcommand)]
pub enum StoreCommand {
    /// Copy everything to an empty database and compare the two; resumes a copy that was
    /// interrupted
    #[command(after_help = examples::STORE)]
    Copy {
        #[command(flatten)]
        ends: Ends,
        /// Copy even if a server is using the source; the copy reflects the moment when it
        /// began
        #[arg(long)]
        live: bool,
    },
    /// Compare two databases: the number of rows in each table, and the SHA-256 over all of them
    #[command(after_help = examples::STORE)]
    Verify {
        #[command(flatten)]
        ends: Ends,
        #[command(flatten)]
        shown: ShownAs,
    },
    /// Bring the database's schema up to date, as a start does unless `migrate` in `[store]` is
    /// "never"
    #[command(after_help = examples::MIGRATE)]
    Migrate {
        /// Only print the steps that would be taken
        #[arg(long)]
        dry_run: bool,
        /// Only print the SQL statements that would be run
        #[arg(long)]
        sql: bool,
        #[command(flatten)]
        shown: ShownAs,
    },
}

/// Two databases.
#[derive(Debug, clap::Args)]
pub struct Ends {
    /// The database to copy from, such as sqlite:rookery-data/rookery.db [default: this server's]
    #[arg(long, value_name = "URL")]
    pub from: Option<String>,
    /// The other database
    #[arg(long, value_name = "URL")]
    pub to: String,
}

/// The database of another server.
#[derive(Debug, clap::Args)]
pub struct ForeignDatabase {
    /// Import the accounts of another server from its database: sqlite:FILE, the name of a file,
    /// postgres://USER@HOST/DATABASE or mysql://USER@HOST/DATABASE
    #[arg(long, value_name = "URL|FILE", requires = "schema")]
    pub from: Option<String>,
    /// The server that the database belongs to
    #[arg(long, value_enum, requires = "from")]
    pub schema: Option<ForeignSchema>,
    /// Import only this domain; required if the database doesn't say which domain it is for
    #[arg(long, value_name = "DOMAIN", requires = "from")]
    pub domain: Option<String>,
}

/// The servers whose databases are known.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub enum ForeignSchema {
    /// The tables of ejabberd, of the old or the new schema
    Ejabberd,
    /// The tables of MongooseIM
    Mongooseim,
    /// The tables of Prosody's mod_storage_sql
    Prosody,
}
