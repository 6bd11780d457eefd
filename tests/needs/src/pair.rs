//! Starts a database server and a standby that follows it and takes over when it dies.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::guard::{family, signal};

/// A database server of which one can follow another.
pub trait Followed: Sized {
    /// The beginning of addresses, up to the hosts.
    const SCHEME: &'static str;

    /// Starts a primary.
    ///
    /// # Panics
    /// If that isn't possible, with the reason.
    fn lead() -> Self;

    /// Returns the folder for a standby, in which nothing is yet; a new one for `None`.
    ///
    /// # Panics
    /// If it can't be created.
    fn folder_of_standby(folder: Option<&Path>) -> PathBuf;

    /// Starts a standby of this server in a folder.
    ///
    /// # Panics
    /// If that isn't possible, with the reason.
    fn follow(&self, folder: &Path) -> Self;

    /// Returns whether a standby follows, so that it can be waited for.
    fn is_followed(&self) -> bool;

    /// Sets whether this server acknowledges writes only after its standby has them.
    ///
    /// # Panics
    /// If that isn't possible, with the reason.
    fn wait_for_standby(&self, waits: bool);

    /// Makes this standby the primary. It has everything that the primary acknowledged.
    ///
    /// # Panics
    /// If that isn't possible, with the reason.
    fn promote(&self);

    /// Ends all processes at once, as a power cut does.
    fn kill(&self);

    /// Returns the main process.
    fn process(&self) -> u32;

    /// Creates an empty database.
    ///
    /// # Panics
    /// If that isn't possible, with the reason.
    fn make_database(&self, name: &str);

    /// Returns the folder with all files of the server, which also identifies it.
    fn folder(&self) -> &Path;

    /// Returns the server of a folder as addresses name it.
    fn host(&self, folder: &Path) -> String;
}

/// A primary, and a standby that has everything that the primary acknowledges. One address names
/// both, in either role.
pub struct Pair<D> {
    /// The primary, then the standby if there is one.
    servers: Vec<D>,
    /// The folders of the servers, by the order of the hosts in addresses.
    folders: [PathBuf; 2],
    databases: AtomicUsize,
}

impl<D: Followed> Pair<D> {
    /// Installs the database server if it is missing, and starts both.
    ///
    /// # Panics
    /// If that isn't possible, with the reason.
    pub fn start() -> Pair<D> {
        let primary = D::lead();
        let folders = [primary.folder().to_owned(), D::folder_of_standby(None)];
        let mut pair = Pair { servers: vec![primary], folders, databases: AtomicUsize::new(0) };
        pair.replace();
        pair
    }

    /// Makes an empty database and returns its address, with both hosts.
    ///
    /// # Panics
    /// If that isn't possible, with the reason.
    pub fn database(&self) -> String {
        let name = format!("test{}", self.databases.fetch_add(1, Ordering::Relaxed));
        self.primary().make_database(&name);
        let hosts = self.folders.each_ref().map(|folder| self.primary().host(folder));
        self.address(&hosts, &name)
    }

    /// Returns the address of a database at these hosts.
    pub fn address(&self, hosts: &[String], name: &str) -> String {
        format!("{}{}/{name}", D::SCHEME, hosts.join(","))
    }

    /// Returns the server that accepts writes.
    pub fn primary(&self) -> &D {
        &self.servers[0]
    }

    /// Ends the primary at once, as a power cut does.
    pub fn kill(&self) {
        self.primary().kill();
    }

    /// Stops the primary in the middle of its work without ending it, as a machine that hangs does.
    pub fn freeze(&self) {
        signal("STOP", &family(self.primary().process()));
    }

    /// Promotes the standby, and removes the primary, which has died or hangs.
    ///
    /// # Panics
    /// If there is no standby, or that isn't possible, with the reason.
    pub fn promote(&mut self) {
        drop(self.take_over());
    }

    /// Promotes the standby, and returns the earlier primary, whatever has become of it.
    ///
    /// # Panics
    /// If there is no standby, or that isn't possible, with the reason.
    pub fn take_over(&mut self) -> D {
        assert!(self.servers.len() == 2, "a standby");
        let earlier = self.servers.remove(0);
        // Without a standby, the new primary must not wait for one.
        self.primary().wait_for_standby(false);
        self.primary().promote();
        earlier
    }

    /// Starts a standby, at the beginning or in place of the one that became the primary, and waits
    /// until the primary waits for it.
    ///
    /// # Panics
    /// If that isn't possible, with the reason.
    pub fn replace(&mut self) {
        assert!(self.servers.len() == 1, "no standby");
        let other = self.folders.iter().find(|folder| *folder != self.primary().folder()).expect("another folder");
        if !other.exists() {
            D::folder_of_standby(Some(other));
        }
        let standby = self.primary().follow(other);
        let start = Instant::now();
        while !self.primary().is_followed() {
            assert!(start.elapsed() < PATIENCE, "the standby doesn't follow");
            thread::sleep(Duration::from_millis(20));
        }
        self.primary().wait_for_standby(true);
        self.servers.push(standby);
    }
}

/// The time that a standby may take to follow.
const PATIENCE: Duration = Duration::from_secs(60);
