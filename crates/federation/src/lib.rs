//! Streams between servers (RFC 6120, XEP-0178, XEP-0220), and those of components (XEP-0114),
//! without sockets, clock or DNS.
//!
//! A shard has one [`ServerStreams`]: its knowledge of the remote domains whose home it is. Bytes,
//! stanzas, DNS answers and the time go in; [`Action`]s come out. The shard has the sockets and
//! TLS, and reports the results of handshakes.
//!
//! # Invariants
//!
//! * Nothing leaves for a domain before its server has proven to be that domain's, as the policy
//!   requires.
//! * A domain is proven for a stream by this stream's own certificate, or by a key that the
//!   domain's server, found through DNS, has confirmed. No other answer counts, wherever it comes
//!   from.
//! * Stanzas of one domain of ours for one remote domain leave in the order in which they arrived.
//!   Each arrives or is bounced if the other server acknowledges (XEP-0198) or answers pings; if
//!   it does neither, one that was on its way when a connection broke may be lost.
//! * The memory and the connections that a stranger can cause are bounded, per address and in
//!   total.
//!
//! # Layout
//!
//! * [`settings`]: the operator's settings. [`dialback`]: keys and elements. [`targets`]: the
//!   servers of a domain. [`bounds`]: all bounds.
//! * `reading`: the items of a stream; `stanzas`: the checks of stanzas; [`inbound`] and
//!   [`outbound`]: streams that others open, and ours; `notes`: notes for an operator who watches.
//! * [`component`]: the stream of a component; `components` are those of a shard.
//! * `queue`: the stanzas that wait for a domain; `sent`: those that have left and may have to be
//!   sent again. [`servers`]: all of a shard's streams together; `timers` are their timed work.
//!   `route` is the way to one domain, `departures` looks for it, `associating` finds out whether
//!   DNS names the caller's certificate, `calling` limits the calls to one address, `writing` uses
//!   it, `acknowledging` learns which stanzas have arrived, `pings` do so for servers without
//!   acknowledgements, `ending` lets it rest or gives it up; `arrivals` are the streams of others,
//!   `bidi` those that also carry our stanzas; `resumption` those that have broken, `strangers`
//!   those that have proven nothing; `intake` limits the rates of domains; `renewal` ends streams
//!   whose certificate has expired, `reload` those that new settings forbid. [`report`]: an
//!   operator's view of them.

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

/// Returns an id for a stream, which can't be guessed (RFC 6120 §4.7.3). The keys of dialback
/// depend on it.
fn stream_id() -> String {
    let mut bytes = [0; 16];
    // Without randomness no login works, since the keys of TLS need it, too. Such a stream is as
    // good as closed.
    _ = rookery_base::chance::fill(&mut bytes);
    format!("{:032x}", u128::from_be_bytes(bytes))
}
