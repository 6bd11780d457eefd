//! Removes old messages periodically, and archives without an owner at once, in small steps with
//! pauses, so that the store has time for other work.

use rookery_hub::World;
use rookery_jid::Jid;
use rookery_store::{Expiry, Retention};
use tracing::warn;

use super::id;
use super::options::{EXPIRE_DAYS, NAME, ROOM_EXPIRE_DAYS};

/// The sweeps that are under way in a shard.
#[derive(Debug, Default)]
pub(super) struct Sweeps {
    is_running: bool,
    is_clearing: bool,
}

/// Begins a round through all archives, unless one is under way. One shard does it for all.
pub(super) fn begin(world: &mut World) {
    if world.shard() == 0 && !std::mem::replace(&mut world.state_mut::<Sweeps>().is_running, true) {
        clear(world);
        months(world);
    }
}

/// Removes whole months where archives are partitioned, and then single messages.
fn months(world: &mut World) {
    let kept = world.stores.archive.months(retention(world));
    world.wait(kept, |world, kept| {
        if let Err(error) = kept {
            warn!(%error, "old months of archives couldn't be removed; this is tried again in the next round");
        }
        step(world, 0);
    });
}

/// Begins to remove the rest of archives whose owners are gone, unless that is under way.
pub(super) fn clear(world: &mut World) {
    if !std::mem::replace(&mut world.state_mut::<Sweeps>().is_clearing, true) {
        clear_step(world);
    }
}

fn clear_step(world: &mut World) {
    let cleared = world.stores.archive.clear(STEP);
    world.wait(cleared, |world, cleared| match cleared {
        Ok(true) => drop(world.after(SHORT_PAUSE_MS, clear_step)),
        Ok(false) => world.state_mut::<Sweeps>().is_clearing = false,
        Err(error) => {
            warn!(%error, "messages of a removed archive couldn't be deleted; this is tried again in the next round");
            world.state_mut::<Sweeps>().is_clearing = false;
        }
    });
}

fn step(world: &mut World, after: u64) {
    let swept = world.stores.archive.sweep(after, retention(world), STEP);
    world.wait(swept, |world, swept| match swept.map(|swept| swept.next) {
        Ok(Some(next)) => drop(world.after(PAUSE_MS, move |world| step(world, next))),
        Ok(None) => world.state_mut::<Sweeps>().is_running = false,
        Err(error) => {
            warn!(%error, "old archived messages couldn't be removed; this is tried again in the next round");
            world.state_mut::<Sweeps>().is_running = false;
        }
    });
}

/// Removes messages older than some days from the archive of an owner whose retention the store
/// doesn't know, a few at a time.
pub fn expire(world: &mut World, owner: Jid, days: u64) {
    let before = id::at(world.time().saturating_sub(days.saturating_mul(DAY_MS)));
    let removed = world.stores.archive.expire(owner.as_ref(), before, STEP);
    world.wait(removed, move |world, removed| match removed {
        Ok(removed) if removed >= STEP as u64 => drop(world.after(PAUSE_MS, move |world| expire(world, owner, days))),
        Ok(_) => {}
        Err(error) => {
            warn!(%error, %owner, "old archived messages couldn't be removed; this is tried again in the next round")
        }
    });
}

/// Returns the messages that may be removed. The archives of a service follow its domain's setting
/// for rooms.
fn retention(world: &World) -> Retention {
    let now = world.time();
    let before = |days: u64| (days > 0).then(|| id::at(now.saturating_sub(days.saturating_mul(DAY_MS))));
    let mut domains = Vec::new();
    for domain in &world.settings().domains {
        let Some(options) = domain.module(NAME) else { continue };
        let days = options.number(EXPIRE_DAYS.key);
        let of_rooms = Some(options.number(ROOM_EXPIRE_DAYS.key)).filter(|days| *days > 0).unwrap_or(days);
        let hosts = world.services_of(&domain.name).into_iter().map(|service| (service.host, of_rooms));
        let all = hosts.chain([(domain.name.clone(), days)]);
        domains.extend(all.filter_map(|(domain, days)| Some(Expiry { domain, before: before(days)? })));
    }
    Retention { domains, now: id::at(now), day: id::at(DAY_MS) }
}

/// The time between two rounds, in milliseconds.
pub const PERIOD_MS: u64 = 60 * 60 * 1000;
/// The most messages removed in one step.
const STEP: usize = 500;
/// The pause between two steps, in milliseconds.
const PAUSE_MS: u64 = 200;
/// The same while an archive without an owner is removed: up to 10 000 messages a second.
const SHORT_PAUSE_MS: u64 = 50;
const DAY_MS: u64 = 24 * 60 * 60 * 1000;
