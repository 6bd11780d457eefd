//! Reads the stored document of a room, and compares it with another process's copy.

use std::collections::BTreeSet;

use rookery_base::Map;
use rookery_jid::Jid;
use rookery_modkit::form::Form;
use rookery_store::{Affiliated, RoomDocument, StoredRoom};
use rookery_xml::Element;

use super::application::WaitingApplicant;
use super::config::RoomConfig;
use super::limits::RoomLimits;
use super::voices::Voices;

/// The document of a room, read.
#[derive(Debug)]
pub(crate) struct KeptRoom {
    pub config: RoomConfig,
    /// True if its owner hasn't configured it yet (§10.1).
    pub is_locked: bool,
    pub secret: String,
    pub hat_list: Vec<Element>,
    pub hats: Map<Jid, Vec<Element>>,
    pub waiting: Vec<WaitingApplicant>,
    pub voices: Voices,
}

impl KeptRoom {
    /// Reads the stored document of a room; `None` if it is damaged.
    pub(crate) fn read(kept: &RoomDocument, limits: &RoomLimits) -> Option<Self> {
        let mut document = Element::parse(&kept.config).ok().filter(|element| element.is("room", FORMAT))?;
        for (_, said) in &kept.of_users {
            document.push_child(Element::parse(said).ok()?);
        }
        let config = RoomConfig::read_stored(&Form::within(&document)?, limits)?;
        let is_locked = document.child("locked", FORMAT).is_some();
        let secret = document.child_text("secret", FORMAT)?;
        let mut hats = Map::<Jid, Vec<Element>>::default();
        for worn in document.children().filter(|child| child.is("hats", FORMAT)) {
            let worn_by = Jid::parse(worn.attr("jid")?).ok()?;
            hats.insert(worn_by, worn.children().cloned().collect());
        }
        let hat_list = document.child("hat-list", FORMAT).map(|list| list.children().cloned().collect());
        let named = |name| document.children().filter(move |child| child.is(name, FORMAT));
        let waiting = named("waiting").filter_map(WaitingApplicant::read).collect();
        let voices = named("voice").filter_map(Voices::read).collect();
        Some(Self { config, is_locked, secret, hat_list: hat_list.unwrap_or_default(), hats, waiting, voices })
    }
}

/// Returns whether two documents are of one room, and not of two that had the same name one after
/// the other. A room has one secret for its whole life, while the store forgets its creator if that
/// account is removed.
pub(super) fn is_of_same_room(one: &RoomDocument, other: &RoomDocument) -> bool {
    let secret = |kept: &RoomDocument| {
        let document = Element::parse(&kept.config).ok().filter(|element| element.is("room", FORMAT))?;
        document.child_text("secret", FORMAT)
    };
    match (secret(one), secret(other)) {
        (Some(one), Some(other)) => one == other,
        // A room that was last saved before there were secrets.
        _ => one.creator == other.creator,
    }
}

/// Takes the rights out of a room that continues from another process's copy whose accounts were
/// removed while the room had no home: the next accounts of these names must not inherit them.
/// `unsaved` are the users whose newest rights the store has not taken, and `removed` the accounts
/// that were removed lately. Rights that the store has are never older than an account.
pub(super) fn forget_removed(
    whole: &mut StoredRoom,
    stored: Option<&StoredRoom>,
    unsaved: &[Jid],
    removed: &BTreeSet<Jid>,
) {
    let has_rights: BTreeSet<_> =
        stored.into_iter().flat_map(|stored| &stored.affiliations).map(|affiliated| &affiliated.user).collect();
    let has_said: BTreeSet<_> =
        stored.into_iter().flat_map(|stored| &stored.document.of_users).map(|(user, _)| user).collect();
    let is_unsaved = |user: &Jid| stored.is_none() || unsaved.contains(user);
    whole
        .affiliations
        .retain(|Affiliated { user, .. }| has_rights.contains(user) || is_unsaved(user) && !removed.contains(user));
    whole.document.of_users.retain(|(user, _)| has_said.contains(user) || !removed.contains(user));
    let has_lost = |creator: &mut Jid| match stored {
        Some(stored) => stored.document.creator.is_none(),
        None => removed.contains(creator),
    };
    if let Some(creator) = whole.document.creator.take_if(has_lost) {
        whole.affiliations.retain(|affiliated| affiliated.user != creator);
        whole.document.of_users.retain(|(user, _)| *user != creator);
    }
}

/// The namespace of the document.
pub(super) const FORMAT: &str = "urn:rookery:room:0";

#[cfg(test)]
mod tests {
    use rookery_store::Affiliation;

    use super::*;

    fn document(secret: &str, creator: Option<&str>) -> RoomDocument {
        let config = format!("<room xmlns='{FORMAT}'><secret>{secret}</secret></room>").into_bytes();
        let creator = creator.map(|creator| Jid::parse(creator).expect("an address"));
        let (name, of_users) = (String::new(), Vec::new());
        RoomDocument { name, is_public: true, creator, config, archive_days: 0, subject: None, vcard: None, of_users }
    }

    #[test]
    fn a_room_outlives_the_account_of_its_creator() {
        let creator = "crone1@example.org";
        let before = document("a", Some(creator));
        assert!(is_of_same_room(&before, &document("a", None)));
        assert!(!is_of_same_room(&before, &document("b", Some(creator))), "another room of the same creator");
        let without =
            RoomDocument { config: format!("<room xmlns='{FORMAT}'/>").into_bytes(), ..document("", Some(creator)) };
        assert!(is_of_same_room(&before, &without), "a room of an early version");
    }

    fn user(name: &str) -> Jid {
        Jid::parse(&format!("{name}@example.org")).expect("an address")
    }

    fn room(creator: Option<&str>, names: &[&str]) -> StoredRoom {
        let affiliation = Affiliation::Admin;
        let affiliated = |name: &&str| Affiliated { user: user(name), affiliation, nick: None, reason: None };
        let of_users = names.iter().map(|name| (user(name), Vec::new())).collect();
        let document = RoomDocument { creator: creator.map(user), of_users, ..document("a", None) };
        StoredRoom { document, affiliations: names.iter().map(affiliated).collect() }
    }

    fn names(room: &StoredRoom) -> (Vec<&str>, Vec<&str>) {
        let with_rights = room.affiliations.iter().filter_map(|affiliated| affiliated.user.local());
        (with_rights.collect(), room.document.of_users.iter().filter_map(|(user, _)| user.local()).collect())
    }

    #[test]
    fn removed_accounts_have_no_rights_in_a_room_that_continues() {
        let mut whole = room(Some("creator"), &["creator", "new", "removed", "stays"]);
        let unsaved = [user("new"), user("creator")];
        forget_removed(&mut whole, Some(&room(None, &["stays"])), &unsaved, &BTreeSet::new());
        assert_eq!((names(&whole).0, &whole.document.creator), (vec!["new", "stays"], &None));
    }

    /// The store has forgotten what it had, and can't know the rest.
    #[test]
    fn rights_that_the_store_lacks_end_with_their_account_as_well() {
        let mut whole = room(Some("owner"), &["again", "new", "owner", "removed"]);
        let unsaved = [user("again"), user("new"), user("removed")];
        let removed = BTreeSet::from([user("again"), user("removed")]);
        forget_removed(&mut whole, Some(&room(Some("owner"), &["again", "owner"])), &unsaved, &removed);
        let left = vec!["again", "new", "owner"];
        assert_eq!(names(&whole), (left.clone(), left), "the next account of a name may have rights of its own");
    }

    #[test]
    fn removed_accounts_have_no_rights_in_a_room_that_is_not_stored() {
        let mut whole = room(Some("creator"), &["creator", "removed", "stays"]);
        forget_removed(&mut whole, None, &[], &BTreeSet::from([user("creator"), user("removed")]));
        assert_eq!((names(&whole), &whole.document.creator), ((vec!["stays"], vec!["stays"]), &None));
    }
}
