//! Rooms: which there are, who is there, and their end.

use rookery_hub::{Domain, ErrandReply, World};
use rookery_jid::Jid;

use super::{Outcome, Refusal};
pub use crate::rooms::directory::Listed;
pub use crate::rooms::operate::{Described, Inside};
use crate::rooms::operate::{What, Work};
use crate::rooms::{Directory, NAME};

/// The host of a domain's rooms; `None` where there are none.
pub fn host(domain: &Domain) -> Option<String> {
    Some(domain.module(NAME)?.text("host").replace('@', &domain.name)).filter(|host| !host.is_empty())
}

/// Rooms of a service, `limit` at most (at least one), in the order of their localparts behind that of `after`. One more than the limit is given if there
/// are more.
pub fn list(
    world: &mut World,
    directory: &Directory,
    host: &str,
    after: Option<Jid>,
    limit: usize,
    then: impl FnOnce(&mut World, Outcome<Vec<Listed>>) + 'static,
) {
    let (listed, name) = (directory.clone(), host.to_owned());
    fill(world, directory, host, move |world, filled| {
        let after = after.as_ref().and_then(Jid::local).unwrap_or_default();
        then(world, filled.map(|()| listed.part(&name, after, limit.max(1).saturating_add(1))));
    });
}

/// What a room is, and who is there.
pub fn describe(
    world: &mut World,
    directory: &Directory,
    room: Jid,
    then: impl FnOnce(&mut World, Outcome<Described>) + 'static,
) {
    ask(world, directory, room, What::Describe, then);
}

/// Destroys a room (XEP-0045 §10.9): who is there is told so, with the reason if there is one, and all that is kept of it goes.
pub fn destroy(
    world: &mut World,
    directory: &Directory,
    room: Jid,
    reason: Option<String>,
    then: impl FnOnce(&mut World, Outcome<()>) + 'static,
) {
    ask(world, directory, room, move |reply| What::Destroy(reason, reply), then);
}

type Found<T> = Result<Option<T>, rookery_store::StoreError>;

fn ask<T: Send + 'static>(
    world: &mut World,
    directory: &Directory,
    room: Jid,
    what: impl FnOnce(ErrandReply<Found<T>>) -> What + Send + 'static,
    then: impl FnOnce(&mut World, Outcome<T>) + 'static,
) {
    let host = room.domain().to_owned();
    fill(world, directory, &host, move |world, filled| {
        if let Err(refusal) = filled {
            return then(world, Err(refusal));
        }
        let of = room.clone();
        let work = move |world: &mut World, reply: ErrandReply<Found<T>>| {
            let shard = world.shard();
            world.tell(shard, NAME, Box::new(Work { room: of, what: what(reply) }));
        };
        let home = room.clone();
        world.ask_home(home.as_ref(), work, move |world, found| {
            let missing = || Refusal::Missing(format!("there is no room {room}"));
            then(world, found.map_err(Refusal::from).and_then(|found| found.ok_or_else(missing)));
        });
    });
}

/// Goes on when it is known which rooms a service has.
fn fill(world: &mut World, directory: &Directory, host: &str, then: impl FnOnce(&mut World, Outcome<()>) + 'static) {
    if directory.is_filled(host) {
        return then(world, Ok(()));
    }
    let (directory, host) = (directory.clone(), host.to_owned());
    let list = world.stores.rooms.list(&host);
    world.wait(list, move |world, list| {
        let filled = list.map(|list| directory.fill(&host, list));
        then(world, filled.map_err(Refusal::from));
    });
}
