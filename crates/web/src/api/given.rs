//! Parameters that several operations share, or that would make the table long.

use super::field::{ApiField, ApiFieldKind};

pub(super) const AFTER: ApiField = ApiField {
    name: "after",
    kind: ApiFieldKind::Text { min: 1, max: 3071 },
    is_required: false,
    doc: "Only entries after this one: the `next` of the previous part.",
};
pub(super) const LIMIT: ApiField = ApiField {
    name: "limit",
    kind: ApiFieldKind::Number { min: 1, max: 500 },
    is_required: false,
    doc: "The maximum number of entries; 100 by default.",
};
pub(super) const ONLY: ApiField = ApiField {
    name: "only",
    kind: ApiFieldKind::Choice(&["all", "online", "disabled", "never", "administrators"]),
    is_required: false,
    doc: "Only accounts of this kind; `never` are those that were never seen. It looks at every account of the domain.",
};
pub(super) const ORDER: ApiField = ApiField {
    name: "order",
    kind: ApiFieldKind::Choice(&["name", "newest", "oldest", "youngest", "largest"]),
    is_required: false,
    doc: "By name, last seen first, longest away first, newest accounts first, or most storage first. It looks at every \
          account of the domain.",
};
pub(super) const PASSWORD: ApiField = ApiField {
    name: "password",
    kind: ApiFieldKind::Text { min: 1, max: 1023 },
    is_required: true,
    doc: "Its password, with as many characters as `min_password` of the module `register` demands, or 8 where that \
          is off. Only keys derived from it are stored.",
};
pub(super) const ROOM_NAME: ApiField = ApiField {
    name: "name",
    kind: ApiFieldKind::Text { min: 0, max: 200 },
    is_required: false,
    doc: "Its display name.",
};
pub(super) const ROOM_DESCRIPTION: ApiField = ApiField {
    name: "description",
    kind: ApiFieldKind::Text { min: 0, max: 500 },
    is_required: false,
    doc: "Its description.",
};
pub(super) const ROOM_PUBLIC: ApiField =
    ApiField { name: "public", kind: ApiFieldKind::Switch, is_required: false, doc: "True if everybody can find it." };
pub(super) const ROOM_MEMBERS_ONLY: ApiField = ApiField {
    name: "members_only",
    kind: ApiFieldKind::Switch,
    is_required: false,
    doc: "True if only members may enter.",
};
pub(super) const SUBJECT: ApiField = ApiField {
    name: "subject",
    kind: ApiFieldKind::Text { min: 1, max: 500 },
    is_required: false,
    doc: "The subject.",
};
pub(super) const BODY: ApiField =
    ApiField { name: "body", kind: ApiFieldKind::Text { min: 1, max: 10_000 }, is_required: true, doc: "The text." };
pub(super) const DAYS: ApiField = ApiField {
    name: "days",
    kind: ApiFieldKind::Number { min: 1, max: 3650 },
    is_required: false,
    doc: "Days for which the link is valid; 7 by default.",
};
pub(super) const ROOM_LOCAL: ApiField = ApiField {
    name: "room",
    kind: ApiFieldKind::Text { min: 1, max: 1023 },
    is_required: true,
    doc: "The part before the @ in its address.",
};
pub(super) const ROOM_OWNER: ApiField = ApiField {
    name: "owner",
    kind: ApiFieldKind::Text { min: 1, max: 2047 },
    is_required: true,
    doc: "The account that owns it, here or on another server.",
};
pub(super) const ROOM_PERSISTENT: ApiField = ApiField {
    name: "persistent",
    kind: ApiFieldKind::Switch,
    is_required: false,
    doc: "True if it stays when the last occupant leaves.",
};
pub(super) const AFFILIATION: &[ApiField] = &[
    ApiField {
        name: "affiliation",
        kind: ApiFieldKind::Choice(&["owner", "admin", "member", "none", "outcast"]),
        is_required: true,
        doc: "The affiliation (XEP-0045 §5.2). An outcast is kept out, and removed if inside.",
    },
    ApiField {
        name: "reason",
        kind: ApiFieldKind::Text { min: 0, max: 500 },
        is_required: false,
        doc: "The reason, which is stored, and shown to the users concerned.",
    },
];
pub(super) const CONTACT: &[ApiField] = &[
    ApiField {
        name: "name",
        kind: ApiFieldKind::Text { min: 0, max: 500 },
        is_required: false,
        doc: "The account's name for the contact; without it, the contact has none.",
    },
    ApiField {
        name: "groups",
        kind: ApiFieldKind::Texts { most: 50, max: 200 },
        is_required: false,
        doc: "The groups that the contact is in; without them, none.",
    },
    ApiField {
        name: "mutual",
        kind: ApiFieldKind::Switch,
        is_required: false,
        doc: "True makes each a contact of the other, with both presences visible and no request; only for accounts of this server.",
    },
];
pub(super) const ARCHIVE: &[ApiField] = &[
    ApiField {
        name: "after",
        kind: ApiFieldKind::Text { min: 1, max: 100 },
        is_required: false,
        doc: "Only messages after this one: the `next` of the previous part.",
    },
    LIMIT,
    ApiField {
        name: "with",
        kind: ApiFieldKind::Text { min: 1, max: 3071 },
        is_required: false,
        doc: "Only messages to or from this address; a bare one stands for all of its resources.",
    },
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::account_list::{KINDS, ORDERS};

    #[test]
    fn accounts_are_chosen_as_on_the_page() {
        let names = |field: ApiField| match field.kind {
            ApiFieldKind::Choice(names) => names.to_vec(),
            other => panic!("{other:?}"),
        };
        assert_eq!(names(ONLY), KINDS.map(|(name, _)| name));
        assert_eq!(names(ORDER), ORDERS.map(|(name, _)| name));
    }
}
