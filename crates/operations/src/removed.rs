//! Carries out requests of the command line while a server runs: to remove an account, or to end
//! the sessions of one that got a new password. Only the server can end sessions, notify contacts
//! and forget what it has in memory.
//!
//! The command line records its request in the store; the first shard checks every second, and
//! deletes finished requests. A request identifies the account by its keys, too, and is valid for a
//! minute, so that the next account of that name isn't affected. Two commands that write at the
//! same time may overwrite each other, so the one that waits repeats its request.

use rookery_base::hex;
use rookery_hub::{Hooks, World};
use rookery_jid::{Jid, JidRef};
use rookery_sasl::Credentials;
use rookery_store::{Pending, Stores};
use sha2::{Digest, Sha256};

use crate::{sessions, users};

/// A request to the server on the same stores to remove an account.
#[derive(Debug)]
pub struct PendingRemoval {
    account: Jid,
    mark: String,
}

impl PendingRemoval {
    /// Returns the mark of an account's current state; `None` if there is no such account.
    pub fn of(stores: &Stores, account: JidRef<'_>) -> Pending<Option<Self>> {
        let (account, keys) = (account.bare().to_jid(), stores.accounts.credentials(account));
        Box::pin(async move { Ok(keys.await?.map(|keys| Self { account, mark: mark(&keys) })) })
    }

    /// Asks the server to remove the account, which takes a second or two. `unix_ms` is the
    /// current time, in milliseconds since 1970.
    pub fn ask(&self, stores: &Stores, unix_ms: u64) -> Pending<()> {
        self.note(stores, unix_ms, RemovalDeed::Remove)
    }

    fn note(&self, stores: &Stores, unix_ms: u64, deed: RemovalDeed) -> Pending<()> {
        let line = RemovalNote { unix_ms, deed, mark: self.mark.clone(), account: self.account.clone() }.line();
        stores.meta.put_entry(KEY, self.account.as_str(), line.into_bytes())
    }

    /// Returns whether that account is gone. If one of its name still exists, it is another one, or
    /// has a new password.
    pub fn is_done(&self, stores: &Stores) -> Pending<bool> {
        let (keys, wanted) = (stores.accounts.credentials(self.account.as_ref()), self.mark.clone());
        Box::pin(async move { Ok(keys.await?.is_none_or(|keys| mark(&keys) != wanted)) })
    }
}

/// An account whose sessions a server on the same stores is to end, because its password has
/// changed.
#[derive(Debug)]
pub struct SessionsEnd(PendingRemoval);

impl SessionsEnd {
    /// Returns the request for an account under its new password; `None` if there is no such
    /// account.
    pub fn of(stores: &Stores, account: JidRef<'_>) -> Pending<Option<Self>> {
        let found = PendingRemoval::of(stores, account);
        Box::pin(async move { Ok(found.await?.map(Self)) })
    }

    /// Asks the server to end the sessions, which takes a second or two. `unix_ms` is the current
    /// time, in milliseconds since 1970.
    pub fn ask(&self, stores: &Stores, unix_ms: u64) -> Pending<()> {
        self.0.note(stores, unix_ms, RemovalDeed::EndSessions)
    }

    /// Returns whether the request is gone: the server has carried it out, or another request has
    /// replaced it.
    pub fn is_taken(&self, stores: &Stores) -> Pending<bool> {
        let (notes, account) = (stores.meta.entries(KEY), self.0.account.clone());
        Box::pin(async move { Ok(notes.await?.iter().all(|(name, _)| *name != account.as_str())) })
    }
}

/// Checks for such requests every [`PERIOD_MS`].
pub(crate) fn install(hooks: &mut Hooks<'_>) {
    hooks.every(PERIOD_MS, move |world| {
        if world.shard() > 0 {
            return;
        }
        let notes = world.stores.meta.entries(KEY);
        world.wait(notes, move |world, notes| {
            // A failure of the store is reported elsewhere.
            let Ok(notes) = notes else { return };
            let notes = notes.iter().filter_map(|(_, line)| read(&String::from_utf8_lossy(line)));
            notes.for_each(|note| carry_out(world, note));
        });
    });
}

/// Carries out a request. If it is done – the account is gone, or another one has its name – or has
/// expired, it is deleted.
fn carry_out(world: &mut World, note: RemovalNote) {
    let is_fresh = note.unix_ms.saturating_add(KEPT_MS) > world.time();
    let keys = world.stores.accounts.credentials(note.account.as_ref());
    world.wait(keys, move |world, keys| match keys {
        Ok(Some(keys)) if is_fresh && mark(&keys) == note.mark && note.deed == RemovalDeed::EndSessions => {
            let account = note.account;
            sessions::password_changed(world, account.clone(), None, |world, ended| match ended {
                Ok(()) => delete_request(world, account),
                Err(refusal) => {
                    tracing::warn!(%refusal, %account, "sessions couldn't be ended; this is tried again at the next check")
                }
            });
        }
        Ok(Some(keys)) if is_fresh && mark(&keys) == note.mark => {
            users::remove(world, note.account, |_, removed| {
                if let Err(refusal) = removed {
                    tracing::warn!(%refusal, "an account couldn't be removed; this is tried again at the next check");
                }
            });
        }
        Ok(_) => delete_request(world, note.account),
        Err(_) => {}
    });
}

fn delete_request(world: &mut World, account: Jid) {
    let taken = world.stores.meta.remove_entry(KEY, account.as_str());
    // The next check finds it again.
    world.wait(taken, |_, _| {});
}

/// The kind of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RemovalDeed {
    /// To remove the account.
    Remove,
    /// To end the account's sessions, because its password has changed.
    EndSessions,
}

impl RemovalDeed {
    const ALL: [Self; 2] = [Self::Remove, Self::EndSessions];

    fn name(self) -> &'static str {
        match self {
            Self::Remove => "remove",
            Self::EndSessions => "end-sessions",
        }
    }
}

/// A request about an account.
struct RemovalNote {
    /// The time of the request, in milliseconds since 1970.
    unix_ms: u64,
    deed: RemovalDeed,
    /// The account's [`mark`].
    mark: String,
    account: Jid,
}

impl RemovalNote {
    fn line(&self) -> String {
        format!("{} {} {} {}", self.unix_ms, self.deed.name(), self.mark, self.account)
    }
}

fn read(line: &str) -> Option<RemovalNote> {
    let mut words = line.splitn(4, ' ');
    let [unix_ms, deed, mark, account] = [words.next()?, words.next()?, words.next()?, words.next()?];
    let deed = RemovalDeed::ALL.into_iter().find(|known| known.name() == deed)?;
    Some(RemovalNote {
        unix_ms: unix_ms.parse().ok()?,
        deed,
        mark: mark.to_owned(),
        account: Jid::parse(account).ok()?,
    })
}

/// Returns a mark that distinguishes an account from others of its name, by its unique salt.
fn mark(credentials: &Credentials) -> String {
    let keys = &credentials.sha256;
    let hash = Sha256::new().chain_update(&keys.salt).chain_update(&keys.stored_key).finalize();
    hex::encode(hash)
}

/// The key under which the store has the requests.
const KEY: &str = "removed";
/// The time for which a request is valid, in milliseconds.
const KEPT_MS: u64 = 60_000;
/// The time between two checks, in milliseconds.
const PERIOD_MS: u64 = 1_000;
