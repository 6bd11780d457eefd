//! Streams between servers (RFC 6120, XEP-0178, XEP-0220), and those of components (XEP-0114),
//! without sockets, clock or DNS.
//!
//! A shard has one [`ServerStreams`]: what it knows of those remote domains whose home it is.
//! Bytes, stanzas, answers of DNS and the time go in; [`Action`]s come out. The shard has the
//! sockets and TLS, and tells what the handshakes have shown.
//!
//! # Invariants
//!
//! * Nothing leaves for a domain before its server has proven to be that domain's, as the policy
//!   wants it.
//! * A domain is proven for a stream by this stream's own certificate, or by a key that the
//!   domain's server, found through DNS, has confirmed. No other answer counts, wherever it comes
//!   from.
//! * Stanzas of one domain of ours for one remote domain leave in the order in which they came.
//!   Each arrives or comes back as an error where the other server acknowledges (XEP-0198) or
//!   answers pings; where it does neither, one that was on its way when a connection broke may be
//!   lost.
//! * What a stranger can make us remember or connect to is bounded, for each address and in all.
//!
//! # Layout
//!
//! * [`settings`]: what the operator decides. [`dialback`]: keys and elements. [`targets`]: where a
//!   domain's server is. [`bounds`]: how much of everything.
//! * `reading`: the items of a stream; `stanzas`: which of them count; [`inbound`] and
//!   [`outbound`]: streams that others open, and ours; `notes`: what an operator who looks on is
//!   told.
//! * [`component`]: the stream of a component; `components` are those of a shard.
//! * `queue`: what waits for a domain; `sent`: what has left and may have to leave again.
//!   [`servers`]: all of a shard's streams together; `timers` are what they do by the clock.
//!   `route` is the way to one domain, `departures` looks for it, `associating` finds out whether
//!   DNS names the certificate of who calls, `calling` lets few call one
//!   address at a time, `writing` uses it, `acknowledging` hears what has arrived, `pings` find it
//!   out where nobody says so, `ending` lets it rest or gives it up; `arrivals` are the streams of
//!   others, `bidi` those that carry our stanzas, too; `resumption` those that have broken,
//!   `strangers` those who have proven nothing; `intake` is how fast domains may send; `renewal`
//!   ends streams whose certificate has expired, `reload` those that other settings forbid.
//!   [`report`]: what an operator sees of them.

#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_types))]

mod acknowledging;
mod arrivals;
mod associating;
mod bidi;
pub mod bounds;
mod calling;
pub mod component;
mod components;
mod departures;
pub mod dialback;
mod ending;
pub mod inbound;
mod intake;
mod notes;
pub mod outbound;
mod pings;
mod queue;
mod reading;
mod reload;
mod renewal;
pub mod report;
mod resumption;
mod route;
mod sent;
pub mod servers;
pub mod settings;
mod stanzas;
mod strangers;
pub mod targets;
mod timers;
mod writing;

pub use dialback::Secret;
pub use servers::{Action, Arrival, ConnectionKey, Home, ServerStreams};
pub use settings::{
    ComponentSecret, ComponentTerms, FederationSettings, Objection, Own, Pattern, PeerPolicy, Rule, Rules,
};
pub use targets::{Address, Found, NotFound};

/// Returns an id for a stream, which nobody can guess (RFC 6120 §4.7.3). The keys of dialback
/// depend on it.
fn stream_id() -> String {
    let mut bytes = [0; 16];
    // Without chance nobody logs in anywhere: the keys of TLS need it, too. Such a stream is as
    // good as closed.
    _ = rookery_base::chance::fill(&mut bytes);
    format!("{:032x}", u128::from_be_bytes(bytes))
}
