//! Counters whose labels are known in advance start at zero. A counter that appears only with its
//! first event shows no increase at that moment, so an alert on it would miss the event.

use std::collections::BTreeMap;

use hyper::StatusCode;
use rookery_base::Transport;
use rookery_observe::{Counters, NamedHistograms};
use rookery_sasl::{Mechanism, TokenMechanism};

/// Counts by two labels.
pub type PairCounts = BTreeMap<(&'static str, &'static str), u64>;

/// Returns the logins by mechanism and outcome. Of the conditions of RFC 6120 §6.5, only that of
/// wrong passwords exists from the start.
pub fn authentications(counters: &Counters) -> PairCounts {
    let named = Mechanism::ALL.into_iter().chain([Mechanism::OAuthBearer, Mechanism::Anonymous]).map(Mechanism::name);
    let mechanisms = named.chain(TokenMechanism::ALL.map(TokenMechanism::name));
    let known = mechanisms.flat_map(|mechanism| [(mechanism, "success"), (mechanism, "not-authorized")]);
    known.map(|known| (known, 0)).chain(counters.authentications.iter()).collect()
}

/// Returns the notifications for push services by their result.
pub fn pushes(counters: &Counters) -> BTreeMap<&'static str, u64> {
    let pushes = &counters.pushes;
    [("accepted", pushes.accepted), ("refused", pushes.refused), ("failed", pushes.failed)].into()
}

/// Returns the TLS handshakes by purpose, and by whether an earlier session was resumed.
pub fn tls_sessions(counters: &Counters) -> PairCounts {
    let known =
        ["xmpp", "s2s_in", "s2s_out"].into_iter().flat_map(|protocol| [(protocol, "full"), (protocol, "resumed")]);
    known.map(|known| (known, 0)).chain(counters.sessions.iter()).collect()
}

/// Returns the durations of these handshakes.
pub fn handshakes(counters: &Counters) -> NamedHistograms {
    with_names(&["xmpp"], &counters.handshakes)
}

/// Returns the bytes of writes by transport.
pub fn writes(counters: &Counters) -> NamedHistograms {
    let transports = [Transport::Tcp, Transport::WebSocket, Transport::Bosh].map(Transport::label);
    with_names(&transports, &counters.writes)
}

/// Returns the responses of the web front by status.
pub fn responses(counted: &BTreeMap<u16, u64>) -> BTreeMap<u16, u64> {
    let known = STATUSES.map(|status| (status.as_u16(), 0));
    known.into_iter().chain(counted.iter().map(|(status, count)| (*status, *count))).collect()
}

fn with_names(names: &[&'static str], counted: &NamedHistograms) -> NamedHistograms {
    let mut all = NamedHistograms::default();
    for name in names {
        all.of(name);
    }
    all += counted;
    all
}

/// The statuses that the web front usually returns, and those that show trouble.
const STATUSES: [StatusCode; 18] = [
    StatusCode::SWITCHING_PROTOCOLS,
    StatusCode::OK,
    StatusCode::CREATED,
    StatusCode::NO_CONTENT,
    StatusCode::FOUND,
    StatusCode::SEE_OTHER,
    StatusCode::NOT_MODIFIED,
    StatusCode::TEMPORARY_REDIRECT,
    StatusCode::BAD_REQUEST,
    StatusCode::UNAUTHORIZED,
    StatusCode::FORBIDDEN,
    StatusCode::NOT_FOUND,
    StatusCode::METHOD_NOT_ALLOWED,
    StatusCode::CONFLICT,
    StatusCode::PAYLOAD_TOO_LARGE,
    StatusCode::TOO_MANY_REQUESTS,
    StatusCode::INTERNAL_SERVER_ERROR,
    StatusCode::SERVICE_UNAVAILABLE,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_counted_stands_in_the_place_of_nought() {
        let mut counters = Counters::default();
        counters.authentications.add("PLAIN", "not-authorized");
        counters.authentications.add("PLAIN", "aborted");
        let counted = authentications(&counters);
        assert_eq!(counted[&("PLAIN", "not-authorized")], 1);
        assert_eq!((counted[&("PLAIN", "success")], counted[&("PLAIN", "aborted")]), (0, 1));
        assert_eq!(counted[&("HT-SHA-256-EXPR", "success")], 0);
        counters.writes.of("tcp").record(100);
        let counts: Vec<_> = writes(&counters).iter().map(|(name, histogram)| (name, histogram.count())).collect();
        assert_eq!(counts, [("bosh", 0), ("tcp", 1), ("websocket", 0)]);
        let counted = responses(&[(200, 7), (418, 1)].into());
        assert_eq!((counted[&200], counted[&418], counted[&503]), (7, 1, 0));
    }
}
