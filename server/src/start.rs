//! Opening everything that a server needs, in the order in which a failure leaves least behind.

use std::net::SocketAddr;

use rookery_jid::Jid;
use rookery_modules::Shared;
use rookery_modules::operations::users;
use rookery_sasl::Credentials;
use rookery_store::wait;

use crate::database::{self, Database};
use crate::dpm::Opened;
use crate::failure::Failure;
use crate::folder::Lock;
use crate::listener::{self, Kind, Listener};
use crate::loaded::{Loaded, Source};
use crate::logging;
use crate::state::State;
use crate::welcome::{self, Admin};

/// Everything that the server runs on, opened.
pub struct Start {
    /// Configuration, settings, policy, certificates, and where they came from.
    pub loaded: Loaded,
    /// The stores.
    pub database: Database,
    /// Bound sockets, listening already: connections wait in them from now on.
    pub listeners: Vec<Listener>,
    /// How many shards to run, at least one: the configured number, or that of the cores.
    pub shards: usize,
    /// What the modules of all shards have in common, for [`rookery_modules::table`].
    pub shared: Shared,
    /// What serves readings of devices, until it runs.
    pub dpm: Option<Opened>,
    bound: Vec<(SocketAddr, Kind)>,
    /// Keeps other servers out of the data folder until the process ends.
    _lock: Lock,
}

/// Opens everything.
///
/// # Errors
///
/// [`Failure::Config`] if the configuration is wrong, [`Failure::Failed`] for whatever the machine refuses.
pub fn start(source: Source) -> Result<Start, Failure> {
    // Nothing is made for a configuration that is wrong.
    let config = source.read()?;
    logging::start(&config.log);
    let folder = source.folder.clone();
    folder.create()?;
    let lock = folder.lock()?;
    let listeners = listener::bind_all(&config.listen)?;
    let shared = Shared::default();
    let dpm = Opened::open(&config, &folder, &shared.data)?;
    let database = Database::open(&folder)?;
    let secret = database.decoy_secret()?;
    let loaded = Loaded::with(source, config, secret)?;
    let shards = match loaded.config.shards {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        shards => shards,
    };
    let mut bound: Vec<_> = listeners.iter().map(|listener| (listener.address, listener.kind)).collect();
    bound.extend(dpm.iter().flat_map(|dpm| &dpm.addresses).map(|address| (*address, Kind::Dpm)));
    Ok(Start { loaded, database, listeners, shards, shared, dpm, bound, _lock: lock })
}

impl Start {
    /// Tells on standard output what the operator doesn't know yet, and that the server runs; to be called when it does, signals
    /// included. A first start makes the first account here, so that no password is made that nobody gets to see.
    ///
    /// # Errors
    ///
    /// [`Failure::Failed`] if the account or what is remembered for the next start can't be written.
    pub fn announce(&self) -> Result<(), Failure> {
        let folder = &self.loaded.source.folder;
        let now = State::of(&self.loaded);
        match State::read(folder) {
            Some(before) => welcome::again(&now.changes_since(&before), &self.loaded),
            None => welcome::first(&self.loaded, &self.bound, &make_admin(&self.loaded, &self.database)?),
        }
        now.write(folder)?;
        welcome::running(&self.bound);
        Ok(())
    }
}

/// Makes the first account, unless there are accounts already: somebody lost the state file, not the users.
fn make_admin(loaded: &Loaded, database: &Database) -> Result<Admin, Failure> {
    let accounts = &database.stores.accounts;
    if wait(accounts.count(None))? > 0 {
        return Ok(Admin::Others);
    }
    let Some(domain) = loaded.config.domains.first() else { return Ok(Admin::Others) };
    let jid = Jid::new(Some("admin"), &domain.name, None).map_err(|error| Failure::Failed(error.to_string()))?;
    let password = random_password()?;
    let credentials = Credentials::derive(&password, loaded.config.login.scram_iterations);
    let credentials = credentials.map_err(|error| Failure::Failed(error.to_string()))?;
    let made = wait(users::create(&database.stores, jid.as_ref(), credentials))?;
    made.map_err(|refusal| Failure::Failed(refusal.to_string()))?;
    wait(rookery_modules::rights::set_named(&database.stores, jid.domain(), std::slice::from_ref(&jid)))?;
    Ok(Admin::Made { jid, password })
}

/// A password of 100 bits, without letters that are taken for others.
fn random_password() -> Result<String, Failure> {
    let bytes: [u8; 20] = database::random()?;
    let letters = bytes.iter().filter_map(|byte| ALPHABET.get(usize::from(byte & 31)));
    Ok(letters.map(|letter| char::from(*letter)).collect())
}

const ALPHABET: &[u8; 32] = b"abcdefghjkmnpqrstuvwxyz123456789";
