//! Tests SQLite files that are full, locked, damaged, another program's or inaccessible.

use rookery_jid::Jid;
use rookery_sasl::Credentials;
use rookery_store::sql::SqlStore;
use rookery_store::sqlite::{self, Severity, SqliteOptions};
use rookery_store::{
    Accounts, Archive, ArchiveOf, ArchivedMessage, Meta, Offline, OfflineRoom, Pending, Pushed, StoreError, wait,
};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;

#[test]
fn a_full_database_keeps_what_it_has_and_recovers() {
    let place = FaultsFolder::new();
    let options = SqliteOptions { max_bytes: Some(400 << 10), ..SqliteOptions::default() };
    let store = sqlite::open(&place.file, &options).expect("a new database");
    create(&store, &owner());
    let push = |bytes: usize| store.offline_push(bytes);
    let mut kept = 0;
    let error = loop {
        match wait(push(8000)) {
            Ok(pushed) => assert_eq!(pushed, Pushed::Kept),
            Err(error) => break error,
        }
        kept += 1;
        assert!(kept < 100, "400 KiB don't take 100 × 8 kB");
    };
    assert!(matches!(error, StoreError::Full(_)) && error.is_temporary(), "{error:?}");
    assert_eq!(store.trouble(), Some(error.clone()), "probes hear of it");
    assert!(error.to_string().contains("free space") && error.to_string().contains("rookery.db"), "{error}");

    // Operations that find room are kept, although others in the batch fail.
    let oldest = wait(store.load(owner().as_ref(), 0, 1)).expect("reads go on")[0].id;
    assert_eq!(wait(Offline::remove(&store, owner().as_ref(), oldest)), Ok(1));
    let mixed = [push(64_000), push(1), push(64_000)];
    let mixed = mixed.map(wait);
    assert!(matches!(mixed, [Err(StoreError::Full(_)), Ok(Pushed::Kept), Err(StoreError::Full(_))]), "{mixed:?}");
    assert_eq!(wait(Offline::count(&store, owner().as_ref())), Ok(kept));

    let oldest = wait(store.load(owner().as_ref(), 0, 30_000)).expect("reads go on");
    assert_eq!(
        wait(Offline::remove(&store, owner().as_ref(), oldest.last().expect("messages").id)),
        Ok(oldest.len() as u64)
    );
    assert_eq!(wait(push(8000)), Ok(Pushed::Kept), "room again");
    assert_eq!(store.trouble(), None);
}

#[test]
fn an_archive_that_another_process_removes_is_begun_again() {
    let place = FaultsFolder::new();
    let store = sqlite::open(&place.file, &SqliteOptions::default()).expect("a new database");
    create(&store, &owner());
    let append = |id| {
        let message = ArchivedMessage {
            owner: owner(),
            of: ArchiveOf::Account,
            id,
            with: Jid::parse("juliet@b.example").expect("a JID"),
            contacts_only: false,
            stanza: b"<message/>".to_vec(),
            most: 0,
        };
        wait(store.append(vec![message].into())).expect("an archive");
        wait(Archive::ends(&store, owner().as_ref())).expect("an archive")
    };
    assert_eq!(append(10), Some((10, 10)));
    assert_eq!(append(20), Some((10, 20)));
    place.connect().execute_batch("DELETE FROM archives").expect("a free database");
    assert_eq!(append(30), Some((30, 30)));
}

#[test]
fn a_locked_database_is_read_and_written_again_when_free() {
    let place = FaultsFolder::new();
    let options = SqliteOptions { lock_wait: Duration::from_millis(5), ..SqliteOptions::default() };
    let store = sqlite::open(&place.file, &options).expect("a new database");
    wait(Meta::put(&store, "key", vec![1])).expect("a free database");
    let other = place.connect();
    other.execute_batch("BEGIN EXCLUSIVE").expect("a free database");
    let answers = [Meta::put(&store, "key", vec![2]), Meta::put(&store, "other", vec![2])].map(wait);
    for answer in answers {
        let error = answer.expect_err("a locked database");
        assert!(matches!(error, StoreError::Locked(_)) && error.is_temporary(), "{error:?}");
        assert!(error.to_string().contains("another process"), "{error}");
    }
    assert_eq!(wait(Meta::get(&store, "key")), Ok(Some(vec![1])));
    let warned = sqlite::check(&place.file).into_iter().map(|finding| finding.severity).max();
    assert_eq!(warned, Some(Severity::Warning));
    other.execute_batch("ROLLBACK").expect("the lock");
    assert_eq!(wait(Meta::put(&store, "key", vec![3])), Ok(()));
}

#[test]
fn data_is_there_after_opening_again() {
    let place = FaultsFolder::new();
    let store = place.open();
    create(&store, &owner());
    // Dropping the store carries out the queued operations.
    drop(store.offline_push(10));
    drop(store);
    let store = place.open();
    assert_eq!(wait(Offline::count(&store, owner().as_ref())), Ok(1));
    store.close();
    assert_eq!(wait(Offline::count(&store, owner().as_ref())), Err(StoreError::Closed));
    assert_eq!(severities(&place.file), [Severity::Note; 5]);
}

#[test]
fn only_the_owner_may_read_the_file() {
    use std::os::unix::fs::PermissionsExt;
    let place = FaultsFolder::new();
    let file = place.directory.path().join("new/rookery.db");
    let store = sqlite::open(&file, &SqliteOptions::default()).expect("a new directory and database");
    wait(Meta::put(&store, "key", vec![1])).expect("a writable database");
    let mode = |path: &Path| fs::metadata(path).expect("the file").permissions().mode() & 0o777;
    assert_eq!(mode(&file), 0o600);
    assert_eq!(mode(&file.with_extension("db-wal")), 0o600);
    assert_eq!(mode(file.parent().expect("the directory")), 0o700);
}

#[test]
fn a_newer_schema_is_refused() {
    let place = FaultsFolder::new();
    place.open().close();
    place.connect().execute_batch("PRAGMA user_version = 99").expect("a free database");
    let error = place.expect_refusal();
    assert!(matches!(error, StoreError::TooNew { found: 99, known: ..99, .. }), "{error:?}");
    assert!(error.to_string().contains("newer server"), "{error}");
}

#[test]
fn a_file_of_another_program_is_refused_and_left_alone() {
    let place = FaultsFolder::new();
    place.connect().execute_batch("CREATE TABLE songs (title TEXT)").expect("a new database");
    let before = fs::read(&place.file).expect("the file");
    let error = place.expect_refusal();
    assert!(matches!(error, StoreError::Foreign(_)), "{error:?}");
    assert_eq!(fs::read(&place.file).expect("the file"), before);
}

#[test]
fn what_is_no_database_is_refused() {
    let place = FaultsFolder::new();
    fs::write(
        &place.file,
        "a letter to a friend, long enough to be taken for the head of a database file\n".repeat(20),
    )
    .expect("a new file");
    let error = place.expect_refusal();
    assert!(matches!(error, StoreError::Corrupt(_)) && !error.is_temporary(), "{error:?}");
    assert!(error.to_string().contains("restore a backup"), "{error}");
}

#[test]
fn damage_is_found() {
    let place = FaultsFolder::new();
    let store = place.open();
    create(&store, &owner());
    (0..200).map(|_| store.offline_push(1000)).for_each(|push| drop(wait(push)));
    drop(store);
    let mut bytes = fs::read(&place.file).expect("the file");
    assert!(bytes.len() > 100_000, "the log was written back");
    bytes[40_000..60_000].fill(0xA5);
    fs::write(&place.file, bytes).expect("the file");
    assert!(severities(&place.file).contains(&Severity::Fault));
}

#[test]
fn a_directory_out_of_reach_is_named() {
    let place = FaultsFolder::new();
    fs::write(&place.file, "").expect("a new file");
    // A file can't be a directory, not even for the administrator, whom permissions don't bind.
    let below = place.file.join("rookery.db");
    let error = sqlite::open(&below, &SqliteOptions::default()).err().expect("no directory");
    assert!(matches!(&error, StoreError::Directory { path, .. } if *path == place.file), "{error:?}");
    assert!(error.to_string().contains("write permission"), "{error}");
    if Path::new("/proc/self").exists() {
        let error =
            sqlite::open(Path::new("/proc/rookery.db"), &SqliteOptions::default()).err().expect("no file there");
        assert!(matches!(error, StoreError::Directory { .. }), "{error:?}");
        assert_eq!(severities(Path::new("/proc/rookery.db"))[0], Severity::Fault);
    }
}

#[test]
fn a_check_of_nothing_says_what_will_be() {
    let place = FaultsFolder::new();
    assert_eq!(severities(&place.file), [Severity::Note; 2]);
    assert!(!place.file.exists(), "a check creates nothing");
    fs::write(&place.file, "").expect("a new file");
    assert_eq!(severities(&place.file), [Severity::Note; 4]);
    place.open().close();
}

/// A directory for one test, with the path of the database.
struct FaultsFolder {
    directory: TempDir,
    file: PathBuf,
}

impl FaultsFolder {
    fn new() -> FaultsFolder {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let file = directory.path().join("rookery.db");
        FaultsFolder { directory, file }
    }

    fn open(&self) -> SqlStore {
        sqlite::open(&self.file, &SqliteOptions::default()).expect("a database")
    }

    fn expect_refusal(&self) -> StoreError {
        assert!(severities(&self.file).contains(&Severity::Fault), "a check finds it too");
        sqlite::open(&self.file, &SqliteOptions::default()).err().expect("a database to refuse")
    }

    /// Another program's connection.
    fn connect(&self) -> rusqlite::Connection {
        rusqlite::Connection::open(&self.file).expect("a database")
    }
}

trait PushBytes {
    /// Pushes a message with this many bytes to the owner.
    fn offline_push(&self, bytes: usize) -> Pending<Pushed>;
}

impl PushBytes for SqlStore {
    fn offline_push(&self, bytes: usize) -> Pending<Pushed> {
        self.push(owner().as_ref(), owner().as_ref(), vec![b'x'; bytes], 1, OfflineRoom::UNBOUNDED)
    }
}

fn create(store: &SqlStore, account: &Jid) {
    let credentials = Credentials::derive_with("secret", 1, [[7; 16]; 3]).expect("a password");
    assert_eq!(wait(store.create(account.as_ref(), credentials)), Ok(true));
}

fn owner() -> Jid {
    Jid::parse("romeo@a.example").expect("an address")
}

fn severities(path: &Path) -> Vec<Severity> {
    sqlite::check(path).into_iter().map(|finding| finding.severity).collect()
}
