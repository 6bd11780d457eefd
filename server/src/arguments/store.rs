//! The commands about the database: migrations, copies, and other servers' databases.

use clap::Subcommand;

use super::{ShownAs, examples};

/// The commands for the database.
#[derive(Debug, Subcommand)]
pub enum StoreCommand {
    /// Copy everything to a database in which nothing is, and compare the two; goes on where the
    /// same copy was interrupted
    #[command(after_help = examples::STORE)]
    Copy {
        #[command(flatten)]
        ends: Ends,
        /// Copy although a server runs on the source: the copy is of the moment when it begins
        #[arg(long)]
        live: bool,
    },
    /// Compare two databases: how many rows each table has, and the SHA-256 over all of them
    #[command(after_help = examples::STORE)]
    Verify {
        #[command(flatten)]
        ends: Ends,
        #[command(flatten)]
        shown: ShownAs,
    },
    /// Bring the schema of the database up to date, as a start does unless `migrate` in `[store]`
    /// is "never"
    #[command(after_help = examples::MIGRATE)]
    Migrate {
        /// Only say which steps there are to take
        #[arg(long)]
        dry_run: bool,
        /// Only print the statements that would be run
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
    /// Import the accounts of another server from its database: sqlite:FILE, the name of a file, or
    /// postgres://USER@HOST/DATABASE
    #[arg(long, value_name = "URL|FILE", requires = "schema")]
    pub from: Option<String>,
    /// The server whose database it is
    #[arg(long, value_enum, requires = "from")]
    pub schema: Option<ForeignSchema>,
    /// Import this domain alone; needed where the database is of one domain and doesn't say of
    /// which
    #[arg(long, value_name = "DOMAIN", requires = "from")]
    pub domain: Option<String>,
}

/// The servers whose databases are known.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub enum ForeignSchema {
    /// The tables of ejabberd, older or newer
    Ejabberd,
    /// The tables of MongooseIM
    Mongooseim,
    /// The tables of Prosody's mod_storage_sql
    Prosody,
}
