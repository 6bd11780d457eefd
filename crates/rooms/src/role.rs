//! Roles and affiliations: their names, and the rules for changing them (XEP-0045 §5), as pure
//! functions.

use rookery_store::Affiliation;
use rookery_stream::error::Condition;

/// An occupant's role during a visit (§5.1), from the least to the most.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum RoomRole {
    /// The role of those who aren't in the room.
    None,
    /// Listens.
    Visitor,
    /// Speaks.
    Participant,
    /// Manages voice, and kicks.
    Moderator,
}

impl RoomRole {
    /// All roles of an occupant that is present.
    pub(crate) const PRESENT: [Self; 3] = [Self::Moderator, Self::Participant, Self::Visitor];

    /// Returns the name of a role in stanzas.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Visitor => "visitor",
            Self::Participant => "participant",
            Self::Moderator => "moderator",
        }
    }

    /// Returns the role that an attribute `role` names; `None` for an unknown word.
    pub(crate) fn from_name(name: &str) -> Option<Self> {
        [Self::None, Self::Visitor, Self::Participant, Self::Moderator].into_iter().find(|role| role.name() == name)
    }

    /// Returns the role on entering (§5.1.2).
    pub(crate) fn on_entry(affiliation: Affiliation, is_moderated: bool) -> Self {
        match affiliation {
            Affiliation::Owner | Affiliation::Admin => Self::Moderator,
            Affiliation::None if is_moderated => Self::Visitor,
            Affiliation::Outcast => Self::None,
            _ => Self::Participant,
        }
    }

    /// Returns the role of an occupant whose affiliation has changed (§5.1.3): what was gained with
    /// an affiliation is kept, except that a former admin isn't a moderator any more.
    pub(crate) fn after(self, before: Affiliation, now: Affiliation, is_moderated: bool) -> Self {
        let default = Self::on_entry(now, is_moderated);
        match () {
            () if now == Affiliation::Outcast => Self::None,
            () if before >= Affiliation::Admin && now < Affiliation::Admin => default,
            () => self.max(default),
        }
    }
}

/// Returns the name of an affiliation in stanzas.
pub(crate) fn affiliation_name(affiliation: Affiliation) -> &'static str {
    match affiliation {
        Affiliation::Outcast => "outcast",
        Affiliation::None => "none",
        Affiliation::Member => "member",
        Affiliation::Admin => "admin",
        Affiliation::Owner => "owner",
    }
}

/// Returns the affiliation that an attribute `affiliation` names; `None` for an unknown word.
pub(crate) fn affiliation_named(name: &str) -> Option<Affiliation> {
    use Affiliation::{Admin, Member, None, Outcast, Owner};
    [Outcast, None, Member, Admin, Owner].into_iter().find(|affiliation| affiliation_name(*affiliation) == name)
}

/// The rights of a user who wants to change something: affiliation, and role if present.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Actor {
    pub affiliation: Affiliation,
    pub role: RoomRole,
}

impl Actor {
    /// Checks whether a role may be changed (§8.2 to §8.5, §9.6 to §9.8). `target` is the
    /// other's affiliation.
    ///
    /// # Errors
    /// `forbidden` if the right is lacking, `not-allowed` if the other's rank rules it out.
    pub(crate) fn may_change_role(self, target: Affiliation, from: RoomRole, to: RoomRole) -> Result<(), Condition> {
        let needs_admin = to == RoomRole::Moderator || (from == RoomRole::Moderator && to != RoomRole::None);
        let may = if needs_admin { self.affiliation >= Affiliation::Admin } else { self.is_moderator() };
        match () {
            // §5.1.3, §8.4: a moderator has the right, but not over admins and owners.
            () if self.is_moderator() && to < from && target >= Affiliation::Admin && target > self.affiliation => {
                Err(Condition::NotAllowed)
            }
            () if !may => Err(Condition::Forbidden),
            // §8.2: an occupant can't kick anyone who stands higher.
            () if to == RoomRole::None && target > self.affiliation => Err(Condition::NotAllowed),
            // §5.1.3: a moderator is removed by an admin; an equal without affiliation isn't one.
            () if to == RoomRole::None && from == RoomRole::Moderator && self.affiliation < Affiliation::Admin => {
                Err(Condition::NotAllowed)
            }
            // §8.4, §9.7: an admin or owner always has voice and is a moderator.
            () if to != RoomRole::None && to < from && target >= Affiliation::Admin => Err(Condition::NotAllowed),
            // §8.4: voice is not revoked from an occupant who stands as high or higher.
            () if to == RoomRole::Visitor && from > to && target > Affiliation::None && target >= self.affiliation => {
                Err(Condition::NotAllowed)
            }
            () => Ok(()),
        }
    }

    /// Checks whether an affiliation may be changed (§9.1 to §9.5, §10.3 to §10.8).
    ///
    /// # Errors
    /// `forbidden` where the right is lacking, `not-allowed` where the other stands higher.
    pub(crate) fn may_change_affiliation(self, from: Affiliation, to: Affiliation) -> Result<(), Condition> {
        match self.affiliation {
            Affiliation::Owner => Ok(()),
            Affiliation::Admin if from < Affiliation::Admin && to < Affiliation::Admin => Ok(()),
            // §9.1: "if an admin attempts to ban an owner".
            Affiliation::Admin if to == Affiliation::Outcast => Err(Condition::NotAllowed),
            _ => Err(Condition::Forbidden),
        }
    }

    fn is_moderator(self) -> bool {
        self.role == RoomRole::Moderator || self.affiliation >= Affiliation::Admin
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Affiliation::{Admin, Member, Outcast, Owner};

    const NOBODY: Affiliation = Affiliation::None;

    fn actor(affiliation: Affiliation, role: RoomRole) -> Actor {
        Actor { affiliation, role }
    }

    #[test]
    fn the_entry_table_holds() {
        let table = [NOBODY, Member, Admin, Owner].map(|affiliation| {
            (RoomRole::on_entry(affiliation, true).name(), RoomRole::on_entry(affiliation, false).name())
        });
        let wanted = [
            ("visitor", "participant"),
            ("participant", "participant"),
            ("moderator", "moderator"),
            ("moderator", "moderator"),
        ];
        assert_eq!(table, wanted);
    }

    #[test]
    fn roles_follow_affiliations() {
        let cases = [
            (RoomRole::Participant, NOBODY, Admin, RoomRole::Moderator),
            (RoomRole::Moderator, Admin, NOBODY, RoomRole::Participant),
            (RoomRole::Moderator, NOBODY, Member, RoomRole::Moderator),
            (RoomRole::Moderator, Owner, Admin, RoomRole::Moderator),
            (RoomRole::Participant, Member, NOBODY, RoomRole::Participant),
            (RoomRole::Participant, Member, Outcast, RoomRole::None),
        ];
        for (role, before, now, wanted) in cases {
            assert_eq!(role.after(before, now, false), wanted, "{before:?} {now:?}");
        }
        assert_eq!(RoomRole::Visitor.after(NOBODY, Member, true), RoomRole::Participant);
    }

    #[test]
    fn kicks_and_voice_follow_the_ranks_of_both() {
        let moderator = actor(NOBODY, RoomRole::Moderator);
        assert_eq!(moderator.may_change_role(NOBODY, RoomRole::Participant, RoomRole::None), Ok(()));
        assert_eq!(
            moderator.may_change_role(Member, RoomRole::Participant, RoomRole::None),
            Err(Condition::NotAllowed)
        );
        assert_eq!(moderator.may_change_role(Admin, RoomRole::Moderator, RoomRole::None), Err(Condition::NotAllowed));
        for (target, to, error) in [
            (Owner, RoomRole::Participant, Condition::NotAllowed),
            (Admin, RoomRole::Visitor, Condition::NotAllowed),
            (NOBODY, RoomRole::Participant, Condition::Forbidden),
        ] {
            assert_eq!(moderator.may_change_role(target, RoomRole::Moderator, to), Err(error), "{target:?} {to:?}");
        }
        assert_eq!(moderator.may_change_role(NOBODY, RoomRole::Participant, RoomRole::Visitor), Ok(()));
        assert_eq!(moderator.may_change_role(NOBODY, RoomRole::Visitor, RoomRole::Participant), Ok(()));
        assert_eq!(
            moderator.may_change_role(NOBODY, RoomRole::Participant, RoomRole::Moderator),
            Err(Condition::Forbidden)
        );
        let participant = actor(Member, RoomRole::Participant);
        assert_eq!(
            participant.may_change_role(NOBODY, RoomRole::Visitor, RoomRole::Participant),
            Err(Condition::Forbidden)
        );
        assert_eq!(
            participant.may_change_role(NOBODY, RoomRole::Participant, RoomRole::None),
            Err(Condition::Forbidden)
        );
        let admin = actor(Admin, RoomRole::Moderator);
        assert_eq!(admin.may_change_role(NOBODY, RoomRole::Participant, RoomRole::Moderator), Ok(()));
        assert_eq!(admin.may_change_role(NOBODY, RoomRole::Moderator, RoomRole::Participant), Ok(()));
        assert_eq!(admin.may_change_role(Owner, RoomRole::Moderator, RoomRole::None), Err(Condition::NotAllowed));
        for target in [Admin, Owner] {
            let owner = actor(Owner, RoomRole::Moderator);
            assert_eq!(
                owner.may_change_role(target, RoomRole::Moderator, RoomRole::Visitor),
                Err(Condition::NotAllowed)
            );
            assert_eq!(
                owner.may_change_role(target, RoomRole::Moderator, RoomRole::Participant),
                Err(Condition::NotAllowed)
            );
        }
    }

    #[test]
    fn affiliations_are_changed_by_those_who_stand_higher() {
        let (admin, owner, member) =
            (actor(Admin, RoomRole::None), actor(Owner, RoomRole::None), actor(Member, RoomRole::Moderator));
        for (from, to) in [(NOBODY, Outcast), (Outcast, NOBODY), (NOBODY, Member), (Member, NOBODY)] {
            assert_eq!(admin.may_change_affiliation(from, to), Ok(()));
            assert_eq!(owner.may_change_affiliation(from, to), Ok(()));
            assert_eq!(member.may_change_affiliation(from, to), Err(Condition::Forbidden));
        }
        assert_eq!(admin.may_change_affiliation(Owner, Outcast), Err(Condition::NotAllowed));
        assert_eq!(admin.may_change_affiliation(NOBODY, Admin), Err(Condition::Forbidden));
        assert_eq!(admin.may_change_affiliation(Owner, Admin), Err(Condition::Forbidden));
        assert_eq!(owner.may_change_affiliation(Owner, NOBODY), Ok(()));
    }
}
