//! Rooms: their list, occupants and settings, their creation and destruction.

use rookery_hub::{Domain, World};
use rookery_jid::Jid;
pub use rookery_rooms::affiliates::{AffiliationSet, AffiliationView};
use rookery_rooms::affiliates::{ListAffiliations, SetAffiliation};
pub use rookery_rooms::arrange::WantedSettings;
use rookery_rooms::arrange::{Arrange, Arranged};
pub use rookery_rooms::directory::RoomListing;
use rookery_rooms::directory::with_list;
use rookery_rooms::operate::{Describe, Destroy, Largest};
pub use rookery_rooms::operate::{Described, OccupantView, Size};
use rookery_rooms::{Directory, NAME};
use rookery_store::StoreError;

use super::{Gathered, Outcome, Refusal};

/// Returns the host of a domain's rooms; `None` if it has none.
pub fn host(domain: &Domain) -> Option<String> {
    Some(domain.module(NAME)?.text("host").replace('@', &domain.name)).filter(|host| !host.is_empty())
}

/// Continues with rooms of a service, `limit` at most (at least one), in the order of their
/// localparts after that of `after`. If there are more, the result has one more than the limit.
pub fn list(
    world: &mut World,
    host: &str,
    after: Option<Jid>,
    limit: usize,
    then: impl FnOnce(&mut World, Outcome<Vec<RoomListing>>) + 'static,
) {
    let name = host.to_owned();
    with_list(world, host, move |world, listed| {
        let after = after.as_ref().and_then(Jid::local).unwrap_or_default();
        let part = |()| world.state::<Directory>().part(&name, after, limit.max(1).saturating_add(1));
        let part = listed.map(part).map_err(Refusal::from);
        then(world, part);
    });
}

/// Continues with the largest rooms, `most` at most: those with the most sessions first.
pub fn largest(world: &mut World, most: usize, then: impl FnOnce(&mut World, Gathered<Size>) + 'static) {
    world.put_to_all(Largest(most), move |world, found| {
        let Gathered { mut items, is_partial } = Gathered::from(found);
        items.sort_by(|a, b| b.sessions.cmp(&a.sessions).then_with(|| a.room.cmp(&b.room)));
        items.truncate(most);
        then(world, Gathered { items, is_partial });
    });
}

/// Continues with a description of a room and its occupants.
pub fn describe(world: &mut World, room: Jid, then: impl FnOnce(&mut World, Outcome<Described>) + 'static) {
    let home = world.home_of(room.as_ref());
    world.put_to(home, Describe(room.clone()), move |world, found| then(world, found_or_missing(found, &room)));
}

/// Creates a room with these settings and one owner; the settings decide whether it is persistent.
pub fn create(
    world: &mut World,
    room: Jid,
    owner: Jid,
    wanted: WantedSettings,
    then: impl FnOnce(&mut World, Outcome<()>) + 'static,
) {
    arrange(world, Arrange { room, wanted, owner: Some(owner) }, then);
}

/// Changes settings of a room (XEP-0045 §10.2) and notifies its occupants.
pub fn configure(
    world: &mut World,
    room: Jid,
    wanted: WantedSettings,
    then: impl FnOnce(&mut World, Outcome<()>) + 'static,
) {
    arrange(world, Arrange { room, wanted, owner: None }, then);
}

fn arrange(world: &mut World, asked: Arrange, then: impl FnOnce(&mut World, Outcome<()>) + 'static) {
    let (home, room) = (world.home_of(asked.room.as_ref()), asked.room.clone());
    world.put_to(home, asked, move |world, found| {
        let arranged = found_or_missing(found, &room).and_then(|arranged| match arranged {
            Arranged::Done => Ok(()),
            Arranged::TooLong => Err(Refusal::Impossible("a text of a room is too long".into())),
            Arranged::Exists => Err(Refusal::Exists(format!("{room} already exists"))),
            Arranged::Full(why) => Err(Refusal::Full(why)),
        });
        then(world, arranged);
    });
}

/// Continues with the users who have an affiliation with a room, in the order of their addresses:
/// after a given one, and up to a limit.
pub fn affiliations(
    world: &mut World,
    room: Jid,
    after: Option<Jid>,
    limit: usize,
    then: impl FnOnce(&mut World, Outcome<Vec<AffiliationView>>) + 'static,
) {
    let home = world.home_of(room.as_ref());
    let list = ListAffiliations { room: room.clone(), after, limit };
    world.put_to(home, list, move |world, found| then(world, found_or_missing(found, &room)));
}

/// Gives a user an affiliation with a room (XEP-0045 §9, §10); occupants see it.
pub fn affiliate(
    world: &mut World,
    room: Jid,
    wanted: AffiliationView,
    then: impl FnOnce(&mut World, Outcome<()>) + 'static,
) {
    let home = world.home_of(room.as_ref());
    let set = SetAffiliation { room: room.clone(), wanted };
    world.put_to(home, set, move |world, found| {
        let set = found_or_missing(found, &room).and_then(|set| match set {
            AffiliationSet::Done => Ok(()),
            AffiliationSet::Unknown => Err(Refusal::Impossible("there is no such affiliation".into())),
            AffiliationSet::NoOwner => Err(Refusal::Impossible("the room would have no owner".into())),
            AffiliationSet::Full => Err(Refusal::Full("the lists of the room are full".into())),
        });
        then(world, set);
    });
}

/// Destroys a room (XEP-0045 §10.9): occupants are told, with the reason if there is one, and all
/// its data is deleted.
pub fn destroy(
    world: &mut World,
    room: Jid,
    reason: Option<String>,
    then: impl FnOnce(&mut World, Outcome<()>) + 'static,
) {
    let home = world.home_of(room.as_ref());
    let destroy = Destroy { room: room.clone(), reason };
    world.put_to(home, destroy, move |world, found| then(world, found_or_missing(found, &room)));
}

fn found_or_missing<T>(found: Option<Result<Option<T>, StoreError>>, room: &Jid) -> Outcome<T> {
    Refusal::or_late(found)?.ok_or_else(|| Refusal::Missing(format!("there is no room {room}")))
}
