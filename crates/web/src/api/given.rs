//! Parameters that several operations take, or that would make the table of them long.

use super::field::{Field, Kind};

pub(super) const AFTER: Field = Field {
    name: "after",
    kind: Kind::Text { min: 1, max: 3071 },
    is_required: false,
    doc: "Only those behind this one: the `next` of the part before.",
};
pub(super) const LIMIT: Field = Field {
    name: "limit",
    kind: Kind::Number { min: 1, max: 500 },
    is_required: false,
    doc: "The most entries; 100 if nothing is said.",
};
pub(super) const PASSWORD: Field = Field {
    name: "password",
    kind: Kind::Text { min: 1, max: 1023 },
    is_required: true,
    doc: "Its password. Only keys that are derived from it are kept.",
};
pub(super) const ROOM_NAME: Field =
    Field { name: "name", kind: Kind::Text { min: 0, max: 200 }, is_required: false, doc: "Its name for people." };
pub(super) const ROOM_DESCRIPTION: Field =
    Field { name: "description", kind: Kind::Text { min: 0, max: 500 }, is_required: false, doc: "Its description." };
pub(super) const ROOM_PUBLIC: Field =
    Field { name: "public", kind: Kind::Switch, is_required: false, doc: "True if everybody can find it." };
pub(super) const ROOM_MEMBERS_ONLY: Field =
    Field { name: "members_only", kind: Kind::Switch, is_required: false, doc: "True if only members may enter." };
pub(super) const SUBJECT: Field =
    Field { name: "subject", kind: Kind::Text { min: 1, max: 500 }, is_required: false, doc: "The subject." };
pub(super) const BODY: Field =
    Field { name: "body", kind: Kind::Text { min: 1, max: 10_000 }, is_required: true, doc: "The text." };
pub(super) const DAYS: Field = Field {
    name: "days",
    kind: Kind::Number { min: 1, max: 3650 },
    is_required: false,
    doc: "Days for which the link is good; 7 if nothing is said.",
};
pub(super) const ROOM_LOCAL: Field = Field {
    name: "room",
    kind: Kind::Text { min: 1, max: 1023 },
    is_required: true,
    doc: "The part before the @ in its address.",
};
pub(super) const ROOM_OWNER: Field = Field {
    name: "owner",
    kind: Kind::Text { min: 1, max: 2047 },
    is_required: true,
    doc: "The account that owns it, here or elsewhere.",
};
pub(super) const ROOM_PERSISTENT: Field = Field {
    name: "persistent",
    kind: Kind::Switch,
    is_required: false,
    doc: "True if it stays when everybody has left.",
};
