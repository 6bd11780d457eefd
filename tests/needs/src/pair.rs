//! Starts a PostgreSQL and a standby that follows it and takes over when it dies.

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::{Postgres, postgres};

/// A primary, and a standby that has everything that the primary acknowledges. One address names
/// both, in either role.
pub struct Pair {
    /// The first one is the primary.
    clusters: Vec<Postgres>,
    /// The folders of the clusters, by the order of the hosts in addresses.
    folders: [PathBuf; 2],
    databases: AtomicUsize,
}

impl Pair {
    /// Installs PostgreSQL if it is missing, and starts both.
    ///
    /// # Panics
    /// If that isn't possible, with the reason.
    pub fn start() -> Pair {
        let primary = Postgres::start_with(&SETTINGS);
        let folders = [primary.folder().to_owned(), postgres::folder()];
        let mut pair = Pair { clusters: vec![primary], folders, databases: AtomicUsize::new(0) };
        pair.replace();
        pair
    }

    /// Makes an empty database and returns its address, with both hosts.
    ///
    /// # Panics
    /// If that isn't possible, with the reason.
    pub fn database(&self) -> String {
        let name = format!("test{}", self.databases.fetch_add(1, Ordering::Relaxed));
        self.primary().psql("postgres", &format!("CREATE DATABASE {name}")).expect("a database");
        let port = self.primary().port();
        let host = |folder: &PathBuf| format!("{}:{port}", folder.display().to_string().replace('/', "%2F"));
        format!("postgres://rookery@{},{}/{name}", host(&self.folders[0]), host(&self.folders[1]))
    }

    /// Returns the one that can be written to.
    pub fn primary(&self) -> &Postgres {
        &self.clusters[0]
    }

    /// Ends the primary at once, as a power cut does.
    pub fn kill(&self) {
        self.primary().kill();
    }

    /// Promotes the standby, and removes the primary, which has died.
    ///
    /// # Panics
    /// If there is no standby, or that isn't possible, with the reason.
    pub fn promote(&mut self) {
        assert!(self.clusters.len() == 2, "a standby");
        drop(self.clusters.remove(0));
        // Without a standby, the new primary must not wait for one.
        self.set("ALTER SYSTEM RESET synchronous_standby_names");
        self.primary().promote();
    }

    /// Starts a standby, at the beginning or in place of the one that became the primary, and waits
    /// until the primary waits for it.
    ///
    /// # Panics
    /// If that isn't possible, with the reason.
    pub fn replace(&mut self) {
        assert!(self.clusters.len() == 1, "no standby");
        let other = self.folders.iter().find(|folder| *folder != self.primary().folder()).expect("another folder");
        if !other.exists() {
            postgres::folder_at(other);
        }
        let standby = Postgres::follow(other.clone(), self.primary(), &SETTINGS);
        let start = Instant::now();
        while self.primary().psql("postgres", STREAMS).as_deref() != Ok("1") {
            assert!(start.elapsed() < PATIENCE, "the standby doesn't follow");
            thread::sleep(Duration::from_millis(20));
        }
        self.set("ALTER SYSTEM SET synchronous_standby_names = '*'");
        self.clusters.push(standby);
    }

    fn set(&self, statement: &str) {
        for statement in [statement, "SELECT pg_reload_conf()"] {
            self.primary().psql("postgres", statement).expect("a setting");
        }
    }
}

/// The settings of the primary: acknowledged writes can be read on the standby.
const SETTINGS: [&str; 1] = ["synchronous_commit=remote_apply"];

const STREAMS: &str = "SELECT COUNT(*) FROM pg_stat_replication WHERE state = 'streaming'";

/// The time that a standby may take to follow.
const PATIENCE: Duration = Duration::from_secs(60);
