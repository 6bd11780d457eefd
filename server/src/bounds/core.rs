//! The bounds outside modules: streams, sessions, rosters.

use rookery_hub::{Bound, Most, Per, Unit, bridged, documents, elsewhere, hold, moves, trace};
use rookery_shard::{attempts, following, gate, handover, relays, steering, taking_up};
use rookery_xml::Limits;

/// Returns all of them, each with the part of the server that enforces it.
pub fn all() -> impl Iterator<Item = (&'static str, Bound)> {
    let of = |part, bounds: &'static [Bound]| bounds.iter().map(move |bound| (part, *bound));
    BOUNDS
        .iter()
        .copied()
        .chain(of("sessions", hold::BOUNDS))
        .chain(of("sessions", moves::BOUNDS))
        .chain(of("sessions", documents::BOUNDS))
        .chain(of("sessions", handover::BOUNDS))
        .chain(of("sessions", steering::BOUNDS))
        .chain(of("sessions", following::BOUNDS))
        .chain(of("sessions", taking_up::BOUNDS))
        .chain(of("sessions", relays::BOUNDS))
        .chain(of("federation", rookery_shard::elsewhere::BOUNDS))
        .chain(of("web", trace::BOUNDS))
        .chain(of("web", rookery_shard::traced::BOUNDS))
        .chain(of("web", rookery_observe::slow::BOUNDS))
        .chain(of("web", rookery_hub::tally::BOUNDS))
        .chain(of("web", rookery_observe::spans::BOUNDS))
        .chain(of("federation", bridged::BOUNDS))
        .chain(of("federation", elsewhere::BOUNDS))
        .chain(of("logins", attempts::BOUNDS))
        .chain(of("logins", attempts::NEWS_BOUNDS))
        .chain(of("logins", rookery_logins::desk::BOUNDS))
        .chain(of("logins", rookery_logins::remembered::BOUNDS))
        .chain(of("logins", rookery_logins::groups::BOUNDS))
        .chain(of("streams", gate::BOUNDS))
        .chain(of("web", rookery_web::bounds::BOUNDS))
        .chain(of("web", rookery_web::guests::BOUNDS))
        .chain(of("bytestreams", rookery_relay::BOUNDS))
        .chain(of("federation", rookery_federation::bounds::BOUNDS))
        .chain(of("federation", rookery_resolver::BOUNDS))
        .chain(of("store", rookery_store::sql::BOUNDS))
        .chain(of("store", rookery_store::background::BOUNDS))
}

const BOUNDS: &[(&str, Bound)] = &[
    ("streams", STANZA_BEFORE_LOGIN),
    ("streams", STANZA),
    ("streams", DEPTH),
    ("streams", ATTRIBUTES),
    ("streams", NAMESPACE),
    ("streams", NAMESPACES),
    ("streams", LOGIN_SECONDS),
    ("streams", LOGIN_FAILURES),
    ("streams", CONNECTIONS),
    ("sessions", RESOURCES),
    ("sessions", RATE_BYTES),
    ("sessions", RATE_STANZAS),
    ("sessions", LANE),
    ("sessions", OUTBOX),
    ("sessions", PACED),
    ("sessions", OUTBOXES_OF_ACCOUNT),
    ("sessions", OUTBOXES),
    ("sessions", DIRECTED),
    ("rosters", ITEMS),
    ("rosters", ROSTER),
    ("rosters", REQUESTS),
    ("rosters", REMOVALS),
    ("rosters", LAST_PRESENCE),
    ("rosters", NAME),
    ("rosters", GROUPS),
    ("rosters", GROUP),
];

const STANZA_BEFORE_LOGIN: Bound =
    Bound::on("a stanza before login", Per::Stanza, Most::Key("limits.stanza_bytes_before_login"), Unit::Bytes)
        .or("the stream ends with <policy-violation/>");

const STANZA: Bound = Bound::on("a stanza", Per::Stanza, Most::Key("limits.stanza_bytes"), Unit::Bytes)
    .or("the stream ends with <policy-violation/>");

const DEPTH: Bound = Bound::on("elements inside one another", Per::Stanza, Most::Key("limits.depth"), Unit::Number)
    .or("the stream ends with <policy-violation/>");

const ATTRIBUTES: Bound = Bound::on(
    "attributes of one element",
    Per::Stanza,
    Most::Fixed(Limits::AFTER_LOGIN.attributes as u64),
    Unit::Number,
)
.or("the stream ends with <policy-violation/>");

const NAMESPACE: Bound =
    Bound::on("the name of a namespace", Per::Stanza, Most::Fixed(rookery_xml::MAX_NAMESPACE as u64), Unit::Bytes)
        .or("the stream ends with <policy-violation/>");

const NAMESPACES: Bound = Bound::on(
    "namespace prefixes in scope",
    Per::Stanza,
    Most::Fixed(Limits::AFTER_LOGIN.namespaces as u64),
    Unit::Number,
)
.or("the stream ends with <policy-violation/>");

const LOGIN_SECONDS: Bound =
    Bound::on("the time to log in", Per::Connection, Most::Key("limits.login_seconds"), Unit::Seconds)
        .or("the connection is closed");

const LOGIN_FAILURES: Bound =
    Bound::on("wrong passwords", Per::Connection, Most::Key("limits.login_failures"), Unit::Number)
        .or("the connection is closed");

const CONNECTIONS: Bound =
    Bound::on("connections", Per::Address, Most::Key("limits.connections_per_address"), Unit::Number)
        .or("the new one is closed");

const RESOURCES: Bound =
    Bound::on("connected resources", Per::Account, Most::Key("limits.resources_per_user"), Unit::Number)
        .or("the new one gets <resource-constraint/>");

const RATE_BYTES: Bound = Bound::on(
    "bytes sent, five times as many at once",
    Per::Session,
    Most::Key("limits.rate_bytes"),
    Unit::BytesPerSecond,
)
.or("its stream is read later");

const RATE_STANZAS: Bound = Bound::on(
    "stanzas sent, five times as many at once",
    Per::Session,
    Most::Key("limits.rate_stanzas"),
    Unit::PerSecond,
)
.or("its stream is read later");

const LANE: Bound = Bound::on(
    "stanzas after a request that waits for the store",
    Per::Session,
    Most::Key("limits.lane_bytes"),
    Unit::Bytes,
)
.or("its stream is read later");

const OUTBOX: Bound =
    Bound::on("data that a session hasn't read", Per::Session, Most::Key("limits.outbox_hard"), Unit::Bytes)
        .or("the session ends; its messages go to other resources or wait in the store");

const OUTBOXES: Bound =
    Bound::on("data that all sessions haven't read", Per::Shard, Most::Key("limits.outbox_total"), Unit::Bytes)
        .or("sessions of the accounts that hold most are ended");

const PACED: Bound = Bound::on(
    "data that a session hasn't read and didn't request, such as presence and news at login",
    Per::Session,
    Most::Key("limits.outbox_paced"),
    Unit::Bytes,
)
.or("available presence is left out; stanzas from the store are loaded later");

const OUTBOXES_OF_ACCOUNT: Bound =
    Bound::on("data that sessions haven't read", Per::Account, Most::Key("limits.outbox_account"), Unit::Bytes)
        .or("the session that gets one more is ended");

const DIRECTED: Bound =
    Bound::on("addresses that were sent presence", Per::Session, Most::Key("limits.directed_presence"), Unit::Number)
        .or("presence to one more gets <resource-constraint/>");

const ITEMS: Bound = Bound::on("contacts", Per::Account, Most::Key("limits.roster_items"), Unit::Number)
    .or("one more gets <resource-constraint/>")
    .kept_in(&["roster_items"]);

const ROSTER: Bound =
    Bound::on("addresses, names and groups of contacts", Per::Account, Most::Key("limits.roster_bytes"), Unit::Bytes)
        .or("a change that needs more gets <resource-constraint/>")
        .kept_in(&["roster_items"]);

const REQUESTS: Bound = Bound::on(
    "requests to see an account's presence, with at most 2 KiB of text each",
    Per::Account,
    Most::Key("limits.roster_requests"),
    Unit::Number,
)
.or("one more is dropped")
.kept_in(&["roster_items"]);

const REMOVALS: Bound = Bound::on(
    "contacts that were removed, for clients that request changes",
    Per::Account,
    Most::Fixed(rookery_store::rosters::REMEMBERED_REMOVALS as u64),
    Unit::Number,
)
.or("the oldest are forgotten; a client that asks for them gets the whole roster")
.kept_in(&["roster_removals"]);

const LAST_PRESENCE: Bound =
    Bound::on("the last presence, which contacts are shown", Per::Account, Most::Fixed(1), Unit::Number)
        .or("a newer one replaces it")
        .kept_in(&["last_presence"]);

const NAME: Bound =
    Bound::on("the name of a contact", Per::Other("contact"), Most::Key("limits.roster_name"), Unit::Bytes)
        .or("the change gets <not-acceptable/>");

const GROUPS: Bound =
    Bound::on("groups of a contact", Per::Other("contact"), Most::Key("limits.roster_groups"), Unit::Number)
        .or("the change gets <not-acceptable/>");

const GROUP: Bound =
    Bound::on("the name of a group", Per::Other("contact"), Most::Key("limits.roster_group"), Unit::Bytes)
        .or("the change gets <not-acceptable/>");
