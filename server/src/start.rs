//! Opens everything that a server needs, in an order that leaves as little as possible behind if a
//! step fails.

use std::net::SocketAddr;

use rookery_base::chance;
use rookery_cluster::Joined;
use rookery_jid::Jid;
use rookery_modules::Shared;
use rookery_operations::rights::Administrators;
use rookery_operations::{Refusal, users};
use rookery_sasl::Credentials;
use rookery_shard::SystemInterface;
use rookery_store::wait;

use crate::admin;
use crate::check;
use crate::cluster;
use crate::database::OpenedDatabase;
use crate::dpm::Opened;
use crate::failure::CommandFailure;
use crate::folder::Lock;
use crate::interface;
use crate::listener::{self, BoundListener, PortKind};
use crate::loaded::{ConfigSource, Loaded};
use crate::logging;
use crate::open_files;
use crate::sockets::Inherited;
use crate::state::LastStart;
use crate::welcome::{self, FirstAdmin, FirstSecret};

/// Everything that a server needs, opened.
pub struct ServerStart {
    /// Configuration, settings, policy, certificates, and their paths.
    pub loaded: Loaded,
    /// The stores.
    pub database: OpenedDatabase,
    /// Bound sockets that already listen: connections queue in them from now on.
    pub listeners: Vec<BoundListener>,
    /// The number of shards to run, at least one: the configured number, or that of the cores.
    pub shards: usize,
    /// The interface by which they wait for their sockets, which this machine supports.
    pub interface: SystemInterface,
    /// The state that modules share across shards, for [`rookery_modules::table`].
    pub shared: Shared,
    /// This process as a node of a cluster, until it runs.
    pub joined: Option<Joined>,
    /// The service for readings of devices, until it runs.
    pub dpm: Option<Opened>,
    bound: Vec<(SocketAddr, PortKind)>,
    /// The first account, if this is the first start.
    admin: Option<FirstAdmin>,
    /// Keeps other servers out of the data folder until the process ends.
    _lock: Lock,
}

/// Opens everything.
///
/// # Errors
///
/// [`CommandFailure::Config`] if the configuration is wrong, [`CommandFailure::Unfit`] if the
/// machine or the database has to be repaired, [`CommandFailure::Blocked`] if another start may
/// succeed: the grades of a check, with the same exit codes. [`CommandFailure::Failed`] for
/// everything else that the machine refuses.
pub fn start(source: ConfigSource) -> Result<ServerStart, CommandFailure> {
    // Nothing is created for a wrong configuration.
    let config = source.read()?;
    logging::start(&config.log);
    rookery_observe::slow().set_limit_ms(config.instruments.slow_ms);
    rookery_observe::reloads().succeeded(crate::clock::now_ms());
    open_files::raise();
    let interface = interface::settle(&source, &config)?;
    let folder = source.folder.clone();
    folder.create()?;
    let lock = folder.lock()?;
    if folder.restoring().exists() {
        return Err(CommandFailure::Unfit(folder.half_restored()));
    }
    let listeners = listener::bind_all(&config, Inherited::take())?;
    let shared = Shared::default();
    let dpm = Opened::open(&config, &folder, &shared.data)?;
    let database = OpenedDatabase::open(&folder, &config.store)?;
    let loaded = Loaded::with(source, config, database.decoys()?, None)?;
    let shards = match loaded.config.shards {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        shards => shards,
    };
    let joined = cluster::join(&loaded.config, shards, &database)?;
    let mut bound: Vec<_> = listeners.iter().map(|listener| (listener.address, listener.kind)).collect();
    bound.extend(dpm.iter().flat_map(|dpm| &dpm.addresses).map(|address| (*address, PortKind::Dpm)));
    // This comes last, so that no password is generated that is never shown, and before the first
    // client is served, so that a client which connects early finds the account.
    let admin = match LastStart::read(&loaded.source.folder) {
        Some(_) => None,
        None => Some(make_admin(&loaded, &database)?),
    };
    tell_of_nobody(&loaded, &database)?;
    check::tell(&loaded.source, &loaded.config);
    Ok(ServerStart { loaded, database, listeners, shards, interface, shared, joined, dpm, bound, admin, _lock: lock })
}

/// Logs that the server has no administrator, if the first domain could have one.
fn tell_of_nobody(loaded: &Loaded, database: &OpenedDatabase) -> Result<(), CommandFailure> {
    let domains = admin::administrators(&loaded.config, database)?;
    let first = domains.into_iter().find(|at| loaded.config.domains.first().is_some_and(|own| own.name == at.domain));
    if let Some(Administrators { domain, configured, named }) = first
        && configured.is_empty()
        && named.is_empty()
    {
        tracing::warn!(domain, "the server has no administrator; `rookery admin add JID` appoints one");
    }
    Ok(())
}

impl ServerStart {
    /// Reports news to the operator on standard output, and that the server runs. Must be called
    /// once the server runs and handles signals. If the news can't be recorded, the next start
    /// reports them again.
    pub fn announce(&self) {
        let folder = &self.loaded.source.folder;
        let now = LastStart::of(&self.loaded);
        match (&self.admin, LastStart::read(folder)) {
            (Some(admin), _) => welcome::first(&self.loaded, &self.bound, admin),
            (None, before) => welcome::again(&now.changes_since(&before.unwrap_or_default()), &self.loaded),
        }
        if let Err(error) = now.write(folder) {
            tracing::warn!(%error, "the next start will repeat what this one reported");
        }
        welcome::running(&self.bound);
    }
}

/// Creates the first account, unless there are accounts already: then only the state file was lost.
fn make_admin(loaded: &Loaded, database: &OpenedDatabase) -> Result<FirstAdmin, CommandFailure> {
    let accounts = &database.stores.accounts;
    if wait(accounts.count(None))? > 0 {
        return Ok(FirstAdmin::Others);
    }
    let Some(domain) = loaded.config.domains.first() else { return Ok(FirstAdmin::Others) };
    let jid = Jid::new(Some("admin"), &domain.name, None).map_err(|error| CommandFailure::Failed(error.to_string()))?;
    let password = random_password()?;
    let credentials = Credentials::derive(&password, loaded.config.login.scram_iterations);
    let credentials = credentials.map_err(|error| CommandFailure::Failed(error.to_string()))?;
    create_admin(database, jid, credentials, || FirstSecret::keep(password, &loaded.source.folder))
}

/// Creates the account and its right. If `rookery user add` has created one of that name meanwhile,
/// that is the first account, as its creator wanted it.
fn create_admin(
    database: &OpenedDatabase,
    jid: Jid,
    credentials: Credentials,
    keep: impl FnOnce() -> Result<FirstSecret, CommandFailure>,
) -> Result<FirstAdmin, CommandFailure> {
    match wait(users::create(&database.stores, jid.as_ref(), credentials))? {
        Ok(()) => {}
        Err(Refusal::Exists(_)) => return Ok(FirstAdmin::Others),
        Err(refusal) => return Err(CommandFailure::Failed(refusal.to_string())),
    }
    wait(rookery_operations::rights::set_named(&database.stores, jid.domain(), std::slice::from_ref(&jid)))?;
    Ok(FirstAdmin::Made { jid, password: keep()? })
}

/// Returns a password of 100 bits, without characters that look alike.
fn random_password() -> Result<String, CommandFailure> {
    chance::text(20).map_err(|error| CommandFailure::Failed(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::folder::Folder;

    #[test]
    fn an_account_that_was_made_meanwhile_is_the_first_one() {
        let directory = tempfile::tempdir().expect("a directory");
        let folder = Folder::new(directory.path().to_owned());
        let database = OpenedDatabase::open(&folder, &Default::default()).expect("a database");
        let jid = Jid::parse("admin@localhost").expect("an address");
        let keys = |password: &str| Credentials::derive(password, 4096).expect("keys");
        wait(users::create(&database.stores, jid.as_ref(), keys("theirs"))).expect("kept").expect("made");
        let made = create_admin(&database, jid.clone(), keys("ours"), || panic!("there is no password to keep"));
        assert!(matches!(made, Ok(FirstAdmin::Others)));
        let kept = wait(database.stores.accounts.credentials(jid.as_ref())).expect("read").expect("an account");
        assert!(kept.verify("theirs"), "their password counts");
    }
}
