//! Declares the bounds of rooms. Those that aren't options are kept where their numbers are
//! defined.

use rookery_hub::{Bound, Most, Per, Unit};

use super::limits::{
    AFFILIATION_BYTES, INVITATIONS, REGISTRATIONS, REQUESTS, ROOMS_OF_ACCOUNT, ROOMS_OF_DOMAIN, SEATS_OF_ACCOUNT,
    SEATS_OF_DOMAIN,
};
use super::{actor, approve, avatar, directory, ghosts, hats, history, invite, said, voices};

/// All bounds of rooms.
pub(super) const BOUNDS: &[Bound] = &[
    actor::BOUNDS[0],
    actor::BOUNDS[1],
    Bound::on(
        "messages in rooms whose ids are noted for the time after a node's death",
        Per::Shard,
        Most::Fixed(said::MOST as u64),
        Unit::Number,
    )
    .or("the oldest are forgotten: a message that is sent again may get another id"),
    Bound::on(
        "accounts removed in the last ten minutes, whose rights in rooms of other nodes end",
        Per::Server,
        Most::Fixed(directory::MOST_LATELY as u64),
        Unit::Number,
    )
    .or("the oldest are forgotten"),
    rooms(Per::Domain, "max_rooms").or("its creator gets <resource-constraint/>").kept_in(&["rooms"]),
    rooms(Per::Account, ROOMS_OF_ACCOUNT).or("its creator gets <not-allowed/>"),
    rooms(Per::RemoteDomain, ROOMS_OF_DOMAIN).or("its creator gets <not-allowed/>"),
    Bound::on("a nickname", Per::Other("occupant"), Most::Option("nick_bytes"), Unit::Bytes)
        .or("a user who enters or registers with a longer one gets <not-acceptable/>"),
    Bound::on("occupants that enter", Per::Room, Most::Option("joins_per_second"), Unit::PerSecond)
        .or("a user who enters gets <resource-constraint/>"),
    number("occupants", Per::Room, "max_occupants")
        .or("a user who enters gets <service-unavailable/>, except for admins"),
    number("sessions in rooms", Per::Account, SEATS_OF_ACCOUNT).or("a user who enters gets <resource-constraint/>"),
    number("sessions in rooms", Per::RemoteDomain, SEATS_OF_DOMAIN).or("a user who enters gets <resource-constraint/>"),
    number("affiliations", Per::Room, "max_affiliations")
        .or("the change gets <resource-constraint/>")
        .kept_in(&["room_affiliations"]),
    bytes("affiliations with reasons and nicks", AFFILIATION_BYTES)
        .or("the change gets <resource-constraint/>")
        .kept_in(&["room_affiliations"]),
    number("rooms that know a user who registers with one more", Per::Account, REGISTRATIONS)
        .or("the request gets <resource-constraint/>"),
    fixed_bound("users who wait for approval", approve::MOST_WAITING).or("one more gets <resource-constraint/>"),
    fixed_bound("users whose voice or lack of it is remembered", voices::MOST)
        .or("the oldest are forgotten")
        .kept_in(&["room_users"]),
    fixed_bytes("hats that users wear", hats::MOST_BYTES)
        .or("the command gets <resource-constraint/>")
        .kept_in(&["room_users"]),
    fixed_bound("invitations that can be declined", invite::MOST_INVITATIONS).or("the oldest are forgotten"),
    fixed_bytes("the vCard", avatar::MOST_BYTES).or("the change gets <not-acceptable/>"),
    bytes("the subject", "subject_bytes").or("the change gets <not-acceptable/>"),
    bytes("each text of the configuration", "description_bytes").or("the change gets <not-acceptable/>"),
    number("messages for those who enter", Per::Room, "max_history").or("the oldest are forgotten"),
    fixed_bytes("messages for those who enter", history::MOST_BYTES).or("the oldest are forgotten"),
    rate("messages, five times as many at once", "messages_per_second").or("the message gets <resource-constraint/>"),
    rate("requests and presence, five times as many at once", REQUESTS).or("the stanza gets <resource-constraint/>"),
    Bound::on(
        "requests to rooms from outside, five times as many at once",
        Per::Account,
        Most::Option(REQUESTS),
        Unit::PerSecond,
    )
    .or("the request gets <resource-constraint/>"),
    Bound::on(
        "users invited or told of an affiliation in a minute, five times as many at once",
        Per::Account,
        Most::Option(INVITATIONS),
        Unit::Number,
    )
    .or("the invitation gets <resource-constraint/>; notices about affiliations aren't sent"),
    Bound::on(
        "lost servers whose users rooms look for within some seconds",
        Per::Shard,
        Most::Fixed(ghosts::MOST_DOMAINS as u64),
        Unit::Number,
    )
    .or("the users of a further one are found when somebody speaks"),
];

const fn rooms(per: Per, option: &'static str) -> Bound {
    number("rooms", per, option)
}

const fn number(resource: &'static str, per: Per, option: &'static str) -> Bound {
    Bound::on(resource, per, Most::Option(option), Unit::Number)
}

const fn bytes(resource: &'static str, option: &'static str) -> Bound {
    Bound::on(resource, Per::Room, Most::Option(option), Unit::Bytes)
}

const fn rate(resource: &'static str, option: &'static str) -> Bound {
    Bound::on(resource, Per::Other("occupant"), Most::Option(option), Unit::PerSecond)
}

const fn fixed_bound(resource: &'static str, most: usize) -> Bound {
    Bound::on(resource, Per::Room, Most::Fixed(most as u64), Unit::Number)
}

const fn fixed_bytes(resource: &'static str, most: usize) -> Bound {
    Bound::on(resource, Per::Room, Most::Fixed(most as u64), Unit::Bytes)
}
