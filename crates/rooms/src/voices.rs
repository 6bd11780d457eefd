//! Remembers voice in moderated rooms between visits (XEP-0045 §5.1): a user who was granted voice
//! needn't ask again, and one whose voice was revoked doesn't regain it by re-entering. Roles that
//! follow from an affiliation aren't remembered, and moderators don't stay moderators this way.

use rookery_base::Map;
use std::collections::BTreeMap;

use rookery_jid::{Jid, JidRef};
use rookery_store::Affiliation;
use rookery_xml::Element;

use super::role::RoomRole;

/// The accounts whose voice differs from that of their affiliation.
#[derive(Debug, Clone, Default)]
pub(crate) struct Voices {
    roles: Map<Jid, (u64, RoomRole)>,
    /// The accounts, oldest entry first.
    order: BTreeMap<u64, Jid>,
    last: u64,
    bytes: usize,
}

impl Voices {
    /// Notes a user's role in a moderated room from now on; returns whether anything has changed.
    pub(crate) fn note(&mut self, account: &Jid, affiliation: Affiliation, role: RoomRole) -> bool {
        let before = self.of(account.as_ref());
        let is_default = role == RoomRole::on_entry(affiliation, true);
        let now = Some(role).filter(|role| !is_default && matches!(role, RoomRole::Visitor | RoomRole::Participant));
        if before == now {
            return false;
        }
        self.forget(account.as_ref());
        if let Some(role) = now {
            self.remember(account.clone(), role);
        }
        true
    }

    /// Remembers a role, and forgets the oldest ones above [`MOST`] and [`MOST_BYTES`].
    fn remember(&mut self, account: Jid, role: RoomRole) {
        self.last += 1;
        self.bytes += account.as_str().len();
        self.order.insert(self.last, account.clone());
        self.roles.insert(account, (self.last, role));
        debug_assert!(self.order.len() == self.roles.len(), "each role has one place");
        while self.roles.len() > MOST || self.bytes > MOST_BYTES {
            let Some((_, oldest)) = self.order.pop_first() else { return };
            debug_assert!(self.bytes >= oldest.as_str().len(), "an account that is remembered was counted");
            self.bytes -= oldest.as_str().len();
            self.roles.remove(&oldest);
        }
    }

    /// Returns the remembered role of an account.
    pub(crate) fn of(&self, account: JidRef<'_>) -> Option<RoomRole> {
        self.roles.get(account.as_str()).map(|(_, role)| *role)
    }

    /// Forgets an account.
    pub(crate) fn forget(&mut self, account: JidRef<'_>) {
        let Some((place, _)) = self.roles.remove(account.as_str()) else { return };
        let in_order = self.order.remove(&place);
        debug_assert!(in_order.is_some_and(|found| found.as_ref() == account), "each role has its place");
        self.bytes -= account.as_str().len();
    }

    /// Returns the voices in their stored form, in the namespace of the room's document.
    pub(crate) fn elements(&self, format: &str) -> impl Iterator<Item = Element> {
        let in_order = self.order.values().filter_map(|account| Some((account, self.roles.get(account)?.1)));
        in_order.map(move |(account, role)| {
            Element::new("voice", format).with_attr("jid", account.as_str()).with_attr("role", role.name())
        })
    }

    /// Reads an element that [`Voices::elements`] has written.
    pub(crate) fn read(element: &Element) -> Option<(Jid, RoomRole)> {
        Some((Jid::parse(element.attr("jid")?).ok()?, RoomRole::from_name(element.attr("role")?)?))
    }
}

impl FromIterator<(Jid, RoomRole)> for Voices {
    fn from_iter<T: IntoIterator<Item = (Jid, RoomRole)>>(all: T) -> Self {
        let mut voices = Self::default();
        for (account, role) in all {
            voices.forget(account.as_ref());
            voices.remember(account, role);
        }
        voices
    }
}

/// The most accounts that a room remembers.
pub(super) const MOST: usize = 1000;
/// The most bytes of their addresses.
const MOST_BYTES: usize = 128 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_an_affiliation_does_not_say_is_remembered() {
        let jid = |text: &str| Jid::parse(text).unwrap();
        let mut voices = Voices::default();
        let (hag, crone) = (jid("hag@x.example"), jid("crone@x.example"));
        assert!(voices.note(&hag, Affiliation::None, RoomRole::Participant));
        assert!(!voices.note(&hag, Affiliation::None, RoomRole::Participant));
        assert!(voices.note(&crone, Affiliation::Member, RoomRole::Visitor));
        assert!(!voices.note(&jid("king@x.example"), Affiliation::None, RoomRole::Moderator));
        let again: Voices = voices.elements("urn:f").filter_map(|element| Voices::read(&element)).collect();
        assert_eq!(again.roles.len(), 2);
        assert_eq!(
            (again.of(hag.as_ref()), again.of(crone.as_ref())),
            (Some(RoomRole::Participant), Some(RoomRole::Visitor))
        );
        assert!(voices.note(&hag, Affiliation::None, RoomRole::Visitor), "as anybody");
        assert_eq!(voices.of(hag.as_ref()), None);
        for number in 0..2 * MOST {
            voices.note(&jid(&format!("u{number}@x.example")), Affiliation::None, RoomRole::Participant);
        }
        assert_eq!((voices.roles.len(), voices.order.len()), (MOST, MOST));
        let bytes: usize = voices.roles.keys().map(|account| account.as_str().len()).sum();
        assert_eq!(voices.bytes, bytes);
        let last = format!("u{}@x.example", 2 * MOST - 1);
        assert_eq!(voices.of(jid(&last).as_ref()), Some(RoomRole::Participant), "the oldest are forgotten");
        let long = |number: usize| jid(&format!("{}{number:04}@x.example", "u".repeat(900)));
        assert!((0..MOST).all(|number| voices.note(&long(number), Affiliation::None, RoomRole::Participant)));
        assert!(voices.bytes <= MOST_BYTES && voices.of(long(MOST - 1).as_ref()).is_some());
    }
}
