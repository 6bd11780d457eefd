//! The bounds on strangers' use of the web front, for the page of limits.

use rookery_hub::{Bound, Most, Per, Unit};
use rookery_observe::lines;

use crate::api::{profile, top};
use crate::control::log;
use crate::{accept, api, bosh, conduit, exchange, form, places, readings, upload};

/// All bounds of the front.
pub const BOUNDS: &[Bound] = &[
    Bound::on("connections", Per::Server, Most::Key("web.connections"), Unit::Number)
        .or("the address with the most loses its oldest one to an address with fewer; others are closed"),
    Bound::on("connections", Per::Address, Most::Key("limits.connections_per_address"), Unit::Number)
        .or("the new one is closed; a proxy's is told so (429)"),
    Bound::on(
        "connections from this machine when all places are taken",
        Per::Server,
        Most::Fixed(places::RESERVED as u64),
        Unit::Number,
    )
    .or("this machine is treated like any other"),
    Bound::on(
        "the time for TLS and the header of a proxy",
        Per::Connection,
        Most::Fixed(accept::HANDSHAKES.as_secs()),
        Unit::Seconds,
    )
    .or("the connection is closed"),
    Bound::on(
        "the time for the head of a request",
        Per::Connection,
        Most::Fixed(exchange::HEADS.as_secs()),
        Unit::Seconds,
    )
    .or("the connection is closed"),
    Bound::on("the head of a request", Per::Stanza, Most::Fixed(exchange::HEAD_BYTES as u64), Unit::Bytes)
        .or("it is refused (431), and the connection closed"),
    Bound::on(
        "the time without reading anything of an answer",
        Per::Connection,
        Most::Fixed(conduit::PATIENCE.as_secs()),
        Unit::Seconds,
    )
    .or("the connection is reset, as is one that reads less than 2 KiB/s of an answer overall"),
    Bound::on("a form, or a request to the API", Per::Stanza, Most::Fixed(form::BODY_BYTES as u64), Unit::Bytes)
        .or("it is refused (413)"),
    Bound::on("the time for one", Per::Stanza, Most::Fixed(form::PATIENCE.as_secs()), Unit::Seconds)
        .or("it is refused, and the connection closed"),
    Bound::on(
        "failed attempts at links of invitations, and at names for new accounts, within ten minutes",
        Per::Address,
        Most::Fixed(rookery_shard::guesses::MOST as u64),
        Unit::Number,
    )
    .or("further ones are refused (429) until the ten minutes are over; of IPv6, a /64 network counts as an address"),
    Bound::on("the time for a request of BOSH", Per::Stanza, Most::Fixed(bosh::BODIES.as_secs()), Unit::Seconds)
        .or("it is refused (408)"),
    Bound::on("reads of devices by the API", Per::Server, Most::Fixed(readings::MOST as u64), Unit::Number)
        .or("one more is refused (503)"),
    Bound::on("reads of devices by the API", Per::Address, Most::Fixed(readings::MOST_OF_ADDRESS as u64), Unit::Number)
        .or("one more is refused (503)"),
    Bound::on("requests of one", Per::Stanza, Most::Fixed(api::readings::MOST_REQUESTS as u64), Unit::Number)
        .or("it is refused (400)"),
    Bound::on("lines of a list of `rookery top`", Per::Stanza, Most::Fixed(top::MOST_ROWS), Unit::Number)
        .or("entries with less are left out"),
    Bound::on("backups by the API at a time", Per::Server, Most::Fixed(1), Unit::Number)
        .or("another one is refused (409) until the last byte of the first was sent; none is made if it would fill the disk (507)"),
    Bound::on("profiles at a time", Per::Server, Most::Fixed(1), Unit::Number).or("another one is refused (409)"),
    Bound::on("a profile", Per::Stanza, Most::Fixed(profile::MOST_SECONDS), Unit::Seconds).or("it is refused (400)"),
    Bound::on(
        "samples per second of CPU time",
        Per::Stanza,
        Most::Fixed(rookery_profile::sampler::MOST_RATE as u64),
        Unit::Number,
    )
    .or("it is refused (400)"),
    Bound::on(
        "different stacks of a profile",
        Per::Stanza,
        Most::Fixed(rookery_profile::sampler::MOST_STACKS as u64),
        Unit::Number,
    )
    .or("the rarest are only counted"),
    Bound::on("the silence of an upload", Per::Connection, Most::Fixed(upload::SILENCE.as_secs()), Unit::Seconds)
        .or("it is aborted, as is one with less than 2 KiB/s overall; its slot can be filled again"),
    Bound::on("lines of the log in memory", Per::Server, Most::Fixed(lines::MOST_BYTES as u64), Unit::Bytes)
        .or("the oldest are dropped; readers are told how many they have missed"),
    Bound::on("commands that follow the log", Per::Server, Most::Fixed(log::FOLLOWERS as u64), Unit::Number)
        .or("a further one is refused"),
    Bound::on(
        "the time for which a command follows",
        Per::Connection,
        Most::Fixed(log::LONGEST.as_secs()),
        Unit::Seconds,
    )
    .or("it ends"),
];
