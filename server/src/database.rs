//! The database: a file in the data folder, or a database server.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use rookery_base::chance;
use rookery_cluster::Members;
use rookery_store::sql::copy::EndAddress;
use rookery_store::sql::{Patience, SqlStore};
use rookery_store::{Meta, Stores, TermsOf, mysql, postgres, sqlite, wait};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};

use crate::abort;
use crate::config::{DatabasePlace, Store};
use crate::failure::CommandFailure;
use crate::folder::Folder;

/// A store that is open for a command, with everything that is needed to close it cleanly.
pub struct OpenedDatabase {
    /// Its contents.
    pub stores: Stores,
    store: Arc<SqlStore>,
}

/// The secrets from which decoys of accounts are made, besides the configuration.
#[derive(Debug, Clone, Default)]
pub struct Decoys {
    /// The secret from which their salts are derived.
    pub secret: [u8; 32],
    /// The iteration counts of accounts, each with the number of accounts, as of the start.
    pub counts: Vec<(u32, u64)>,
}

impl OpenedDatabase {
    /// Opens the database for a server, and creates a file if there is none.
    ///
    /// # Errors
    ///
    /// The error of the store, with the remedy.
    pub fn open(folder: &Folder, store: &Store) -> Result<OpenedDatabase, CommandFailure> {
        match &store.place {
            DatabasePlace::Folder => OpenedDatabase::open_embedded(folder, &options(store)),
            DatabasePlace::Server(server) => {
                let store = with_settings(server, store)?.open()?;
                abort::means_a_fault();
                Ok(OpenedDatabase::of(store))
            }
        }
    }

    /// Opens the database for a command, which can wait longer for a busy server than the server's
    /// users can.
    ///
    /// # Errors
    ///
    /// The errors of [`OpenedDatabase::open`], and a missing data folder if the database would be
    /// in it.
    pub fn open_patiently(folder: &Folder, store: &Store) -> Result<OpenedDatabase, CommandFailure> {
        match &store.place {
            DatabasePlace::Folder => {
                folder.find()?;
                let is_new = !folder.database().exists();
                let lock_wait = sqlite::SqliteOptions::of_commands().lock_wait;
                let opened =
                    OpenedDatabase::open_embedded(folder, &sqlite::SqliteOptions { lock_wait, ..options(store) })?;
                if is_new {
                    folder.hand_over("rookery.db")?;
                }
                Ok(opened)
            }
            // A command does one thing at a time, or a few at most.
            DatabasePlace::Server(server) => {
                let address = with_settings(server, &Store { connections: 1, ..store.clone() })?;
                let name = address.to_string();
                let database = OpenedDatabase::of(address.with_patience(Patience::of_commands()).open()?);
                database.tell_waits(name);
                Ok(database)
            }
        }
    }

    /// Lets the database collect statistics about the rows that an import has written. A database
    /// that has not collected them yet doesn't know the number of rows, and may read whole tables.
    pub fn look_over(&self) {
        if let Err(error) = wait(self.stores.meta.look_over()) {
            eprintln!(
                "everything is imported, but the database couldn't analyse it, and may be slow until it does so by itself: {error}"
            );
        }
    }

    /// Returns what a cluster needs of the database.
    pub fn members(&self) -> Members {
        Members { meta: self.stores.meta.clone(), fencing: self.store.clone() }
    }

    /// Reports on standard error, once, that the command waits long for the database.
    fn tell_waits(&self, name: String) {
        let store = Arc::downgrade(&self.store);
        let waiting = move || Some(store.upgrade()?.activity().waiting);
        tell_long_wait(waiting, move |minutes| {
            eprintln!("the database {name} keeps this command waiting; it gives up after {minutes} minutes");
        });
    }

    fn open_embedded(folder: &Folder, options: &sqlite::SqliteOptions) -> Result<OpenedDatabase, CommandFailure> {
        Ok(OpenedDatabase::of(sqlite::open(&folder.database(), options)?))
    }

    fn of(store: SqlStore) -> OpenedDatabase {
        let store = Arc::new(store);
        OpenedDatabase { stores: Stores::of(store.clone()), store }
    }

    /// Returns the secrets with which the server answers for accounts that don't exist as it does
    /// for others, so that nobody can tell them apart.
    ///
    /// # Errors
    ///
    /// The error of the store, or that the operating system provides no random bytes.
    pub fn decoys(&self) -> Result<Decoys, CommandFailure> {
        Ok(Decoys { secret: self.decoy_secret()?, counts: wait(self.stores.accounts.iterations())? })
    }

    /// Returns the secret for the salts: made once, then kept, since real salts don't change
    /// either.
    fn decoy_secret(&self) -> Result<[u8; 32], CommandFailure> {
        let found = wait(self.stores.meta.get(DECOY_SECRET))?;
        if let Some(secret) = found.and_then(|bytes| bytes.try_into().ok()) {
            return Ok(secret);
        }
        let secret: [u8; 32] = random()?;
        wait(self.stores.meta.put(DECOY_SECRET, secret.to_vec()))?;
        Ok(secret)
    }

    /// Executes the queued work and closes the database; a server does this last.
    pub fn close(&self) {
        self.store.close();
    }
}

/// Returns the address of the configured database.
///
/// # Errors
///
/// As [`with_settings`].
pub fn address(folder: &Folder, store: &Store) -> Result<EndAddress, CommandFailure> {
    match &store.place {
        DatabasePlace::Folder => Ok(EndAddress::Sqlite(folder.database())),
        DatabasePlace::Server(server) => with_settings(server, store),
    }
}

/// Returns the database that an operator names. The configured password and TLS of the server's own
/// database apply to it, too.
///
/// # Errors
///
/// [`CommandFailure::Failed`] if it isn't an address, and the errors of [`with_settings`].
pub fn read_address(text: &str, store: &Store) -> Result<EndAddress, CommandFailure> {
    with_settings(&EndAddress::parse(text).map_err(CommandFailure::Failed)?, store)
}

/// Adds the configured password and TLS to the address of a database server.
///
/// # Errors
///
/// [`CommandFailure::Unfit`] if a file that the configuration names can't be read, with its key.
pub fn with_settings(address: &EndAddress, store: &Store) -> Result<EndAddress, CommandFailure> {
    let Store { connections, trusts_durability, migrations, months, has_index, .. } = *store;
    let terms_of: Option<TermsOf> = if has_index { Some(rookery_archive::terms) } else { None };
    let is_encrypted = |is_local: bool| store.encrypted.unwrap_or(!is_local);
    let authorities = || authorities(store.authorities.as_deref());
    Ok(match address {
        EndAddress::Sqlite(file) => EndAddress::Sqlite(file.clone()),
        EndAddress::Postgres(options) => {
            let tls = if is_encrypted(options.address.is_local()) { Some(trusting(authorities()?)?) } else { None };
            let password = password(store.password.as_deref())?;
            let address = options.address.clone();
            let options = postgres::PostgresOptions { password, tls, ..postgres::PostgresOptions::at(address) };
            let options =
                postgres::PostgresOptions { connections, trusts_durability, migrations, months, terms_of, ..options };
            EndAddress::Postgres(Box::new(options))
        }
        EndAddress::Mysql(options) => {
            abort::means_unfit().map_err(|error| CommandFailure::Failed(error.to_string()))?;
            let roots = if is_encrypted(options.address.is_local()) { Some(authorities()?) } else { None };
            let password = password(store.password.as_deref())?;
            let options = mysql::MysqlOptions { password, roots, ..mysql::MysqlOptions::at(options.address.clone()) };
            let options =
                mysql::MysqlOptions { connections, trusts_durability, migrations, months, terms_of, ..options };
            EndAddress::Mysql(Box::new(options))
        }
    })
}

fn options(store: &Store) -> sqlite::SqliteOptions {
    let Store { cache: cache_bytes, migrations, keeps_copy, .. } = *store;
    sqlite::SqliteOptions { cache_bytes, migrations, keeps_copy, ..sqlite::SqliteOptions::default() }
}

/// Reads the password from the named file, otherwise from the service manager's credential, if
/// there is one.
fn password(named: Option<&Path>) -> Result<Option<String>, CommandFailure> {
    let credential = || Some(PathBuf::from(env::var_os("CREDENTIALS_DIRECTORY")?).join("store-password"));
    let file = named.map(Path::to_owned).or_else(|| credential().filter(|file| file.exists()));
    let Some(file) = file else { return Ok(None) };
    match fs::read_to_string(&file) {
        Ok(text) => Ok(Some(text.trim_end_matches(['\r', '\n']).to_owned())),
        Err(error) => Err(unreadable("password_file", &file, &error)),
    }
}

/// Returns the authorities of a PEM file, or those that the machine trusts.
fn authorities(file: Option<&Path>) -> Result<Vec<CertificateDer<'static>>, CommandFailure> {
    // Errors of the machine's own list show when a connection is tried.
    let Some(file) = file else { return Ok(rustls_native_certs::load_native_certs().certs) };
    let wrong = |error: &dyn std::fmt::Display| unreadable("tls_authorities", file, error);
    let found = CertificateDer::pem_file_iter(file).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let found = found.map_err(|error| wrong(&error))?;
    for certificate in &found {
        RootCertStore::empty().add(certificate.clone()).map_err(|error| wrong(&error))?;
    }
    match found.is_empty() {
        true => Err(wrong(&"there is no certificate in it")),
        false => Ok(found),
    }
}

/// Returns a TLS configuration that trusts these authorities.
fn trusting(authorities: Vec<CertificateDer<'static>>) -> Result<Arc<ClientConfig>, CommandFailure> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(authorities);
    let config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::aws_lc_rs::default_provider()));
    let config =
        config.with_safe_default_protocol_versions().map_err(|error| CommandFailure::Failed(error.to_string()))?;
    Ok(Arc::new(config.with_root_certificates(roots).with_no_client_auth()))
}

fn unreadable(key: &str, file: &Path, error: &dyn std::fmt::Display) -> CommandFailure {
    CommandFailure::Unfit(format!("{key} in [store] is {}, which can't be read: {error}", file.display()))
}

/// Returns random bytes from the operating system.
///
/// # Errors
///
/// [`CommandFailure::Failed`] if it has none.
pub fn random<const N: usize>() -> Result<[u8; N], CommandFailure> {
    let mut bytes = [0; N];
    chance::fill(&mut bytes).map_err(|error| CommandFailure::Failed(error.to_string()))?;
    Ok(bytes)
}

/// Watches how long a command waits for a database, and reports a long wait with the minutes that
/// it may take. It ends with the command's work.
pub fn tell_long_wait(
    waiting: impl Fn() -> Option<Duration> + Send + 'static,
    tell: impl FnOnce(u64) + Send + 'static,
) {
    let watch = move || {
        while let Some(waited) = waiting() {
            if waited >= LONG {
                return tell(Patience::of_commands().other.as_secs() / 60);
            }
            thread::sleep(LOOK);
        }
    };
    // Without the thread there is no report, but the command works.
    drop(thread::Builder::new().name("waits".into()).spawn(watch));
}

/// Reports on standard error that a command waits for a file of SQLite.
pub fn tell_wait_for_file(most: Duration) {
    let minutes = most.as_secs() / 60;
    eprintln!(
        "another process has locked the database, and this command waits for up to {minutes} minutes; an SQL shell is the usual cause, and `fuser` shows what has the file open"
    );
}

/// The wait for the database after which the operator is informed.
const LONG: Duration = Duration::from_secs(10);

/// The time between two checks of how long the command has waited.
const LOOK: Duration = Duration::from_millis(500);

const DECOY_SECRET: &str = "decoy-secret";

#[cfg(test)]
mod tests {
    use super::*;

    /// The keys by which other servers verify this one are also derived from it (CVE-2016-1232):
    /// 256 bits that nobody else has, and the same after a restart.
    #[test]
    fn each_database_has_a_secret_of_its_own_and_keeps_it() {
        let folders = [(); 2].map(|()| tempfile::tempdir().expect("a folder"));
        let secret = |folder: &tempfile::TempDir| {
            let store = sqlite::open(&folder.path().join("database"), &sqlite::SqliteOptions::default());
            let database = OpenedDatabase::of(store.expect("a database"));
            let secret = database.decoys().expect("a secret").secret;
            database.close();
            secret
        };
        let [first, second] = [&folders[0], &folders[1]].map(secret);
        assert_ne!(first, second);
        assert_ne!(first, [0; 32]);
        assert_eq!(secret(&folders[0]), first);
    }
}
