//! Voice in moderated rooms, across visits (XEP-0045 §5.1): who was given it need not ask again, and whose voice was taken doesn't get it back by coming
//! again. Roles that come with an affiliation are not remembered, and nobody stays a moderator by this.

use std::collections::VecDeque;

use rookery_jid::{Jid, JidRef};
use rookery_store::Affiliation;
use rookery_xml::Element;

use super::role::Role;

/// Accounts whose voice is not what their affiliation says; the newest last.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Voices(VecDeque<(Jid, Role)>);

impl Voices {
    /// Notes the role that somebody has from now on in a moderated room; whether that changes anything.
    pub(crate) fn note(&mut self, account: &Jid, affiliation: Affiliation, role: Role) -> bool {
        let before = self.of(account.as_ref());
        let is_default = role == Role::on_entry(affiliation, true);
        let now = Some(role).filter(|role| !is_default && matches!(role, Role::Visitor | Role::Participant));
        if before == now {
            return false;
        }
        self.forget(account.as_ref());
        if let Some(role) = now {
            if self.0.len() >= MOST {
                self.0.pop_front();
            }
            self.0.push_back((account.clone(), role));
        }
        true
    }

    /// The role that somebody had.
    pub(crate) fn of(&self, account: JidRef<'_>) -> Option<Role> {
        self.0.iter().find(|(known, _)| known.as_ref() == account).map(|(_, role)| *role)
    }

    /// Forgets somebody.
    pub(crate) fn forget(&mut self, account: JidRef<'_>) {
        self.0.retain(|(known, _)| known.as_ref() != account);
    }

    /// As they are kept, in the namespace of the room's document.
    pub(crate) fn elements(&self, format: &str) -> impl Iterator<Item = Element> {
        self.0.iter().map(move |(account, role)| {
            Element::new("voice", format).with_attr("jid", account.as_str()).with_attr("role", role.name())
        })
    }

    /// One of what [`Voices::elements`] has written.
    pub(crate) fn read(element: &Element) -> Option<(Jid, Role)> {
        Some((Jid::parse(element.attr("jid")?).ok()?, Role::named(element.attr("role")?)?))
    }
}

impl FromIterator<(Jid, Role)> for Voices {
    fn from_iter<T: IntoIterator<Item = (Jid, Role)>>(all: T) -> Self {
        Self(all.into_iter().take(MOST).collect())
    }
}

/// Accounts that a room remembers.
const MOST: usize = 1000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_an_affiliation_does_not_say_is_remembered() {
        let jid = |text: &str| Jid::parse(text).unwrap();
        let mut voices = Voices::default();
        let (hag, crone) = (jid("hag@x.example"), jid("crone@x.example"));
        assert!(voices.note(&hag, Affiliation::None, Role::Participant));
        assert!(!voices.note(&hag, Affiliation::None, Role::Participant));
        assert!(voices.note(&crone, Affiliation::Member, Role::Visitor));
        assert!(!voices.note(&jid("king@x.example"), Affiliation::None, Role::Moderator));
        let again: Voices = voices.elements("urn:f").filter_map(|element| Voices::read(&element)).collect();
        assert_eq!(again, voices);
        assert_eq!((again.of(hag.as_ref()), again.of(crone.as_ref())), (Some(Role::Participant), Some(Role::Visitor)));
        assert!(voices.note(&hag, Affiliation::None, Role::Visitor), "as anybody");
        assert_eq!(voices.of(hag.as_ref()), None);
        for number in 0..2 * MOST {
            voices.note(&jid(&format!("u{number}@x.example")), Affiliation::None, Role::Participant);
        }
        assert_eq!(voices.0.len(), MOST);
    }
}
