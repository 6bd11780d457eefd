//! Accounts that were removed beside the server, by the command line: their sessions have to end.
//!
//! Whoever removes an account in the database of a running server notes it there; the first shard looks every few seconds, and the home of the account
//! ends its sessions. A note is kept for a minute: a server that did not run then has no sessions to end.

use std::cell::Cell;

use rookery_hub::{Hooks, World};
use rookery_jid::{Jid, JidRef};
use rookery_store::{Pending, Stores};
use rookery_stream::error::StreamError;

/// Notes that an account was removed. `unix_ms`: now, milliseconds since 1970.
pub fn note(stores: &Stores, account: JidRef<'_>, unix_ms: u64) -> Pending<()> {
    let (account, stores) = (account.bare().to_jid(), stores.clone());
    Box::pin(async move {
        let before = stores.meta.get(KEY).await?.unwrap_or_default();
        let before = String::from_utf8_lossy(&before).into_owned();
        let recent = read(&before).filter(|(at, _)| at.saturating_add(KEPT_MS) > unix_ms);
        let mut lines: Vec<_> = recent.map(|(at, account)| format!("{at} {account}")).collect();
        lines.push(format!("{unix_ms} {account}"));
        stores.meta.put(KEY, lines.join("\n").into_bytes()).await
    })
}

/// Looks for such notes again and again.
pub(super) fn install(hooks: &mut Hooks<'_>) {
    let seen = std::rc::Rc::new(Cell::new(0));
    hooks.every(PERIOD_MS, move |world| {
        if world.shard() > 0 {
            return;
        }
        let seen = seen.clone();
        let notes = world.stores.meta.get(KEY);
        world.wait(notes, move |world, notes| {
            // A store that fails is told of by those who need it more.
            let Ok(Some(notes)) = notes else { return };
            let since = seen.get().max(world.time().saturating_sub(KEPT_MS));
            for (at, account) in read(&String::from_utf8_lossy(&notes)).filter(|(at, _)| *at > since) {
                seen.set(seen.get().max(at));
                end_sessions(world, account);
            }
        });
    });
}

fn end_sessions(world: &mut World, account: Jid) {
    let home = world.home_of(account.as_ref());
    world.run_at(home, move |world| {
        for link in world.links_of(account.as_ref()) {
            world.close(link, StreamError::NotAuthorized, "the account was removed");
        }
    });
}

fn read(text: &str) -> impl Iterator<Item = (u64, Jid)> {
    text.lines().filter_map(|line| {
        let (at, account) = line.split_once(' ')?;
        Some((at.parse().ok()?, Jid::parse(account).ok()?))
    })
}

/// Where the store keeps the notes.
const KEY: &str = "removed";
/// How long one is kept, milliseconds.
const KEPT_MS: u64 = 60_000;
/// How often somebody looks, milliseconds.
const PERIOD_MS: u64 = 3_000;
