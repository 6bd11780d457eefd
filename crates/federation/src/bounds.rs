//! The bounds of everything that other servers can fill.

use rookery_hub::{Bound, Most, Per, Unit};
use rookery_stream::tls::sessions::MOST_SERVERS;

use crate::acknowledging::ACKNOWLEDGED_MS;
use crate::arrivals::{MOST_QUESTIONS, MOST_SPEAKERS};
use crate::calling::MOST_AT_ONCE;
use crate::components::MOST_CONNECTIONS;
use crate::departures::{MOST_FOR_ONE, MOST_ROUTES, MOST_UNDER_WAY};
use crate::inbound::{MOST_PENDING, MOST_PROVEN, MOST_REQUESTS};
use crate::intake::MOST_KNOWN;
use crate::pings::{MOST_REMEMBERED, PATIENCE_MS as PING_MS};
use crate::queue::{MOST_COPIES, WHILE_CONNECTED};
use crate::resumption::{KEPT_MS, MOST_KEPT, MOST_OF_DOMAIN};
use crate::sent::{MOST_UNACKNOWLEDGED, MOST_WATCHED};
use crate::settings::{LOGIN_MS, PATIENCE_MS, QUEUE_BYTES, QUEUE_STANZAS, STANZA_BYTES};
use crate::strangers::{CALL_MS, MOST_ASKED_BY_ADDRESS, MOST_CALLS, MOST_OF_ADDRESS, MOST_STRANGERS};
use crate::writing::{MOST_WAITING, TAKEN_MS};

/// All bounds. "Per shard" refers to the shard where streams come in, or the remote domain's home.
pub const BOUNDS: &[Bound] = &[
    Bound::on("a stanza from another server", Per::Stanza, Most::Fixed(STANZA_BYTES as u64), Unit::Bytes)
        .or("the stream ends with <policy-violation/>"),
    Bound::on(
        "the time for a server to prove its domain",
        Per::Connection,
        Most::Fixed(LOGIN_MS / 1000),
        Unit::Seconds,
    )
    .or("the connection is closed"),
    Bound::on(
        "connections of servers that have proven nothing",
        Per::Address,
        Most::Fixed(MOST_OF_ADDRESS as u64),
        Unit::Number,
    )
    .or("the new one is closed"),
    Bound::on(
        "connections of servers that have proven nothing",
        Per::Shard,
        Most::Fixed(MOST_STRANGERS as u64),
        Unit::Number,
    )
    .or("the new one is closed"),
    Bound::on("connections of servers in a burst", Per::Address, Most::Fixed(MOST_CALLS), Unit::Number)
        .or("the new one is closed"),
    Bound::on("connections of servers after a burst", Per::Address, Most::Fixed(1000 / CALL_MS), Unit::PerSecond)
        .or("the new one is closed"),
    Bound::on(
        "keys of unproven servers that are verified at a time",
        Per::Address,
        Most::Fixed(MOST_ASKED_BY_ADDRESS as u64),
        Unit::Number,
    )
    .or("one more gets <resource-constraint/>"),
    Bound::on("requests of dialback", Per::Connection, Most::Fixed(MOST_REQUESTS as u64), Unit::Number)
        .or("the stream ends with <policy-violation/>"),
    Bound::on("keys that are verified at a time", Per::Connection, Most::Fixed(MOST_PENDING as u64), Unit::Number)
        .or("one more gets <resource-constraint/>"),
    Bound::on("domains that one stream speaks for", Per::Connection, Most::Fixed(MOST_PROVEN as u64), Unit::Number)
        .or("one more gets <resource-constraint/>"),
    Bound::on(
        "keys that wait for the answer of a domain's server",
        Per::Other("pair of domains"),
        Most::Fixed(MOST_QUESTIONS as u64),
        Unit::Number,
    )
    .or("one more gets <resource-constraint/>"),
    Bound::on(
        "stanzas that wait for a connection; one sender may have a quarter",
        Per::Other("pair of domains"),
        Most::Fixed(QUEUE_STANZAS as u64),
        Unit::Number,
    )
    .or("one more gets <resource-constraint/>"),
    Bound::on(
        "stanzas that wait for a connection; one sender may have a quarter",
        Per::Other("pair of domains"),
        Most::Fixed(QUEUE_BYTES as u64),
        Unit::Bytes,
    )
    .or("one more gets <resource-constraint/>"),
    Bound::on(
        "further copies of stanzas that wait for a connection",
        Per::Other("pair of domains"),
        Most::Fixed(MOST_COPIES as u64),
        Unit::Number,
    )
    .or("one more gets <resource-constraint/>"),
    Bound::on(
        "stanzas that another server hasn't read",
        Per::Other("pair of domains"),
        Most::Fixed((QUEUE_BYTES * WHILE_CONNECTED) as u64),
        Unit::Bytes,
    )
    .or("one more gets <resource-constraint/>"),
    Bound::on("stanzas that wait for other servers", Per::Shard, Most::Fixed(MOST_WAITING as u64), Unit::Bytes)
        .or("one more gets <resource-constraint/>"),
    Bound::on("the time for a server to read 64 KiB", Per::Connection, Most::Fixed(TAKEN_MS / 1000), Unit::Seconds)
        .or("the stream ends, and what waits gets <remote-server-timeout/>"),
    Bound::on(
        "the time for a server to acknowledge stanzas",
        Per::Connection,
        Most::Fixed(ACKNOWLEDGED_MS / 1000),
        Unit::Seconds,
    )
    .or("the stream is resumed over another connection"),
    Bound::on(
        "stanzas that another server hasn't acknowledged",
        Per::Other("pair of domains"),
        Most::Fixed(MOST_UNACKNOWLEDGED as u64),
        Unit::Number,
    )
    .or("the next ones wait"),
    Bound::on(
        "stanzas that another server hasn't acknowledged",
        Per::Other("pair of domains"),
        Most::Fixed(QUEUE_BYTES as u64),
        Unit::Bytes,
    )
    .or("the next ones wait"),
    Bound::on("the time to resume a stream of a server", Per::Connection, Most::Fixed(KEPT_MS / 1000), Unit::Seconds)
        .or("it is forgotten, and its server is told"),
    Bound::on(
        "broken streams that may be resumed",
        Per::Other("remote domain"),
        Most::Fixed(MOST_OF_DOMAIN as u64),
        Unit::Number,
    )
    .or("the oldest is forgotten"),
    Bound::on("broken streams that may be resumed", Per::Shard, Most::Fixed(MOST_KEPT as u64), Unit::Number)
        .or("further ones can't be"),
    Bound::on(
        "the time that a stanza waits for a connection",
        Per::Stanza,
        Most::Fixed(PATIENCE_MS / 1000),
        Unit::Seconds,
    )
    .or("it gets <remote-server-timeout/>"),
    Bound::on(
        "remote domains that are looked for at a time",
        Per::Shard,
        Most::Fixed(MOST_UNDER_WAY as u64),
        Unit::Number,
    )
    .or("a stanza for one more gets <resource-constraint/>"),
    Bound::on(
        "connections to other servers that are being made",
        Per::Address,
        Most::Fixed(MOST_AT_ONCE as u64),
        Unit::Number,
    )
    .or("the next ones wait"),
    Bound::on("connections", Per::Other("component"), Most::Fixed(MOST_CONNECTIONS as u64), Unit::Number)
        .or("one more ends with <resource-constraint/>"),
    Bound::on(
        "stanzas that a component hasn't read",
        Per::Connection,
        Most::Fixed((QUEUE_BYTES * WHILE_CONNECTED) as u64),
        Unit::Bytes,
    )
    .or("one more gets <resource-constraint/>"),
    Bound::on(
        "remote domains that are looked for at a time for one sender",
        Per::Shard,
        Most::Fixed(MOST_FOR_ONE as u64),
        Unit::Number,
    )
    .or("a stanza for one more gets <resource-constraint/>"),
    Bound::on(
        "streams that speak for a domain",
        Per::Other("pair of domains"),
        Most::Fixed(MOST_SPEAKERS as u64),
        Unit::Number,
    )
    .or("one more gets <resource-constraint/>"),
    Bound::on("bytes", Per::Other("remote domain"), Most::Key("federation.bytes_per_second"), Unit::BytesPerSecond)
        .or("its streams are read later"),
    Bound::on("stanzas", Per::Other("remote domain"), Most::Key("federation.stanzas_per_second"), Unit::PerSecond)
        .or("its streams are read later"),
    Bound::on(
        "stanzas from a domain that nobody here has written to",
        Per::Other("remote domain"),
        Most::Key("federation.newcomer_stanzas_per_second"),
        Unit::PerSecond,
    )
    .or("its streams are read later"),
    Bound::on("remote domains whose rate is remembered", Per::Shard, Most::Fixed(MOST_KNOWN as u64), Unit::Number)
        .or("those within their rate are forgotten"),
    Bound::on(
        "remote domains that are not asked for both directions",
        Per::Shard,
        Most::Fixed(MOST_REMEMBERED as u64),
        Unit::Number,
    )
    .or("all are asked again"),
    Bound::on(
        "stanzas that wait for the answer to a ping",
        Per::Other("pair of domains"),
        Most::Fixed(MOST_WATCHED as u64),
        Unit::Bytes,
    )
    .or("the first ones count as arrived"),
    Bound::on("the time for a server to answer a ping", Per::Connection, Most::Fixed(PING_MS / 1000), Unit::Seconds)
        .or("it isn't pinged for a day"),
    Bound::on("remote domains that are not pinged", Per::Shard, Most::Fixed(MOST_REMEMBERED as u64), Unit::Number)
        .or("all are pinged again"),
    Bound::on("pairs of domains that are remembered", Per::Shard, Most::Fixed(MOST_ROUTES as u64), Unit::Number)
        .or("a stanza for one more gets <resource-constraint/>"),
    Bound::on(
        "servers whose TLS session is kept, to resume it",
        Per::Other("certificate"),
        Most::Fixed(MOST_SERVERS as u64),
        Unit::Number,
    )
    .or("that of the oldest is forgotten"),
];
