//! Roles and affiliations: their names, and who may change which (XEP-0045 §5). Pure.

use rookery_store::Affiliation;
use rookery_stream::error::Condition;

/// An occupant's role during a visit (§5.1), from the least to the most.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Role {
    /// Not in the room.
    None,
    /// Listens.
    Visitor,
    /// Speaks.
    Participant,
    /// Manages voice, and kicks.
    Moderator,
}

impl Role {
    /// All that an occupant can have.
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

    /// Returns the role of this name.
    pub(crate) fn named(name: &str) -> Option<Self> {
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
    /// an affiliation is kept, except that a former admin is no moderator any more.
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

/// Returns the affiliation of this name.
pub(crate) fn affiliation_named(name: &str) -> Option<Affiliation> {
    use Affiliation::{Admin, Member, None, Outcast, Owner};
    [Outcast, None, Member, Admin, Owner].into_iter().find(|affiliation| affiliation_name(*affiliation) == name)
}

/// The rights of somebody who wants to change something: affiliation, and role if present.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Actor {
    pub affiliation: Affiliation,
    pub role: Role,
}

impl Actor {
    /// Checks whether somebody's role may be changed (§8.2 to §8.5, §9.6 to §9.8). `target` is the
    /// other's affiliation.
    ///
    /// # Errors
    /// `forbidden` where the right is lacking, `not-allowed` where the other is above such changes.
    pub(crate) fn may_change_role(self, target: Affiliation, from: Role, to: Role) -> Result<(), Condition> {
        let needs_admin = to == Role::Moderator || (from == Role::Moderator && to != Role::None);
        let may = if needs_admin { self.affiliation >= Affiliation::Admin } else { self.is_moderator() };
        match () {
            // §5.1.3, §8.4: a moderator has the right, but not over admins and owners.
            () if self.is_moderator() && to < from && target >= Affiliation::Admin && target > self.affiliation => {
                Err(Condition::NotAllowed)
            }
            () if !may => Err(Condition::Forbidden),
            // §8.2: nobody is kicked by an occupant who stands lower.
            () if to == Role::None && target > self.affiliation => Err(Condition::NotAllowed),
            // §5.1.3: a moderator is removed by an admin; an equal without affiliation is none.
            () if to == Role::None && from == Role::Moderator && self.affiliation < Affiliation::Admin => {
                Err(Condition::NotAllowed)
            }
            // §8.4, §9.7: an admin or owner has voice and is a moderator, whatever anybody wants.
            () if to != Role::None && to < from && target >= Affiliation::Admin => Err(Condition::NotAllowed),
            // §8.4: voice is not revoked from an occupant who stands as high or higher.
            () if to == Role::Visitor && from > to && target > Affiliation::None && target >= self.affiliation => {
                Err(Condition::NotAllowed)
            }
            () => Ok(()),
        }
    }

    /// Checks whether somebody's affiliation may be changed (§9.1 to §9.5, §10.3 to §10.8).
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
        self.role == Role::Moderator || self.affiliation >= Affiliation::Admin
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Affiliation::{Admin, Member, Outcast, Owner};

    const NOBODY: Affiliation = Affiliation::None;

    fn actor(affiliation: Affiliation, role: Role) -> Actor {
        Actor { affiliation, role }
    }

    #[test]
    fn the_entry_table_holds() {
        let table = [NOBODY, Member, Admin, Owner]
            .map(|affiliation| (Role::on_entry(affiliation, true).name(), Role::on_entry(affiliation, false).name()));
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
            (Role::Participant, NOBODY, Admin, Role::Moderator),
            (Role::Moderator, Admin, NOBODY, Role::Participant),
            (Role::Moderator, NOBODY, Member, Role::Moderator),
            (Role::Moderator, Owner, Admin, Role::Moderator),
            (Role::Participant, Member, NOBODY, Role::Participant),
            (Role::Participant, Member, Outcast, Role::None),
        ];
        for (role, before, now, wanted) in cases {
            assert_eq!(role.after(before, now, false), wanted, "{before:?} {now:?}");
        }
        assert_eq!(Role::Visitor.after(NOBODY, Member, true), Role::Participant);
    }

    #[test]
    fn kicks_and_voice() {
        let moderator = actor(NOBODY, Role::Moderator);
        assert_eq!(moderator.may_change_role(NOBODY, Role::Participant, Role::None), Ok(()));
        assert_eq!(moderator.may_change_role(Member, Role::Participant, Role::None), Err(Condition::NotAllowed));
        assert_eq!(moderator.may_change_role(Admin, Role::Moderator, Role::None), Err(Condition::NotAllowed));
        for (target, to, error) in [
            (Owner, Role::Participant, Condition::NotAllowed),
            (Admin, Role::Visitor, Condition::NotAllowed),
            (NOBODY, Role::Participant, Condition::Forbidden),
        ] {
            assert_eq!(moderator.may_change_role(target, Role::Moderator, to), Err(error), "{target:?} {to:?}");
        }
        assert_eq!(moderator.may_change_role(NOBODY, Role::Participant, Role::Visitor), Ok(()));
        assert_eq!(moderator.may_change_role(NOBODY, Role::Visitor, Role::Participant), Ok(()));
        assert_eq!(moderator.may_change_role(NOBODY, Role::Participant, Role::Moderator), Err(Condition::Forbidden));
        let participant = actor(Member, Role::Participant);
        assert_eq!(participant.may_change_role(NOBODY, Role::Visitor, Role::Participant), Err(Condition::Forbidden));
        assert_eq!(participant.may_change_role(NOBODY, Role::Participant, Role::None), Err(Condition::Forbidden));
        let admin = actor(Admin, Role::Moderator);
        assert_eq!(admin.may_change_role(NOBODY, Role::Participant, Role::Moderator), Ok(()));
        assert_eq!(admin.may_change_role(NOBODY, Role::Moderator, Role::Participant), Ok(()));
        assert_eq!(admin.may_change_role(Owner, Role::Moderator, Role::None), Err(Condition::NotAllowed));
        for target in [Admin, Owner] {
            let owner = actor(Owner, Role::Moderator);
            assert_eq!(owner.may_change_role(target, Role::Moderator, Role::Visitor), Err(Condition::NotAllowed));
            assert_eq!(owner.may_change_role(target, Role::Moderator, Role::Participant), Err(Condition::NotAllowed));
        }
    }

    #[test]
    fn affiliations() {
        let (admin, owner, member) =
            (actor(Admin, Role::None), actor(Owner, Role::None), actor(Member, Role::Moderator));
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
