//! Parameters that several operations take, or that would make the table of them long.

use super::field::{ApiField, ApiFieldKind};

pub(super) const AFTER: ApiField = ApiField {
    name: "after",
    kind: ApiFieldKind::Text { min: 1, max: 3071 },
    is_required: false,
    doc: "Only those behind this one: the `next` of the part before.",
};
pub(super) const LIMIT: ApiField = ApiField {
    name: "limit",
    kind: ApiFieldKind::Number { min: 1, max: 500 },
    is_required: false,
    doc: "The most entries; 100 if nothing is said.",
};
pub(super) const PASSWORD: ApiField = ApiField {
    name: "password",
    kind: ApiFieldKind::Text { min: 1, max: 1023 },
    is_required: true,
    doc: "Its password. Only keys that are derived from it are kept.",
};
pub(super) const ROOM_NAME: ApiField = ApiField {
    name: "name",
    kind: ApiFieldKind::Text { min: 0, max: 200 },
    is_required: false,
    doc: "Its name for people.",
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
    doc: "Days for which the link is good; 7 if nothing is said.",
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
    doc: "The account that owns it, here or elsewhere.",
};
pub(super) const ROOM_PERSISTENT: ApiField = ApiField {
    name: "persistent",
    kind: ApiFieldKind::Switch,
    is_required: false,
    doc: "True if it stays when everybody has left.",
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
        doc: "The reason, which is kept, and told to those concerned.",
    },
];
pub(super) const CONTACT: &[ApiField] = &[
    ApiField {
        name: "name",
        kind: ApiFieldKind::Text { min: 0, max: 500 },
        is_required: false,
        doc: "The account's name for the contact; without it, there is none.",
    },
    ApiField {
        name: "groups",
        kind: ApiFieldKind::Texts { most: 50, max: 200 },
        is_required: false,
        doc: "The groups that the contact is in; without them, it is in none.",
    },
    ApiField {
        name: "mutual",
        kind: ApiFieldKind::Switch,
        is_required: false,
        doc: "True makes each a contact of the other, and both see each other's presence without being asked; for accounts of this server.",
    },
];
pub(super) const ARCHIVE: &[ApiField] = &[
    ApiField {
        name: "after",
        kind: ApiFieldKind::Text { min: 1, max: 100 },
        is_required: false,
        doc: "Only those behind this one: the `next` of the part before.",
    },
    LIMIT,
    ApiField {
        name: "with",
        kind: ApiFieldKind::Text { min: 1, max: 3071 },
        is_required: false,
        doc: "Only those to or from this address; a bare one stands for all of its resources.",
    },
];
