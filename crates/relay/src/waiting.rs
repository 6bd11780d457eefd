//! Connections that have named their stream and wait, for a second connection and for the requester
//! to activate the stream.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rookery_base::lock::lock;
use rookery_hub::{Bound, Most, Per, Unit};
use rookery_modules::bytestreams::RelayTerms;
use tokio::net::TcpStream;

use crate::accept::HANDSHAKE;
use crate::socks::SocksToken;

/// All waiting connections, with the counts of connections and of streams.
#[derive(Debug, Default)]
pub struct WaitingStreams {
    connections: Mutex<HashMap<SocksToken, Vec<WaitingConnection>>>,
    counts: Arc<Mutex<WaitingCounts>>,
}

#[derive(Debug, Default)]
struct WaitingCounts {
    /// The connections that wait or haven't named their stream yet.
    waiting: usize,
    by_network: HashMap<IpAddr, usize>,
    /// The streams by the domain of their requester, and by the requester.
    streams: HashMap<String, usize>,
    by_requester: HashMap<String, usize>,
}

#[derive(Debug)]
struct WaitingConnection {
    socket: TcpStream,
    since: Instant,
    place: WaitingPlace,
}

/// The bounds of the resources that strangers can take here.
pub const BOUNDS: &[Bound] = &[
    Bound::on("connections that wait to be joined", Per::Server, Most::Fixed(MOST as u64), Unit::Number)
        .or("the address with the most of them loses its oldest to others"),
    Bound::on("connections that wait to be joined", Per::Address, Most::Fixed(MOST_OF_NETWORK as u64), Unit::Number)
        .or("the new one is closed"),
    Bound::on(
        "the time to name the stream that a connection is for",
        Per::Connection,
        Most::Fixed(HANDSHAKE.as_secs()),
        Unit::Seconds,
    )
    .or("the connection is closed"),
    Bound::on("the time to wait to be joined", Per::Connection, Most::Fixed(PATIENCE.as_secs()), Unit::Seconds)
        .or("the connection is closed"),
];

/// The connections that were found to wait with a token.
#[derive(Debug)]
pub enum WaitingPair {
    /// Both connections, which no longer wait, and the place of their stream.
    Both(TcpStream, TcpStream, WaitingPlace),
    /// Only one connection, which continues to wait.
    OneOnly,
    /// Two connections, which continue to wait: the domain or the requester has reached its limit
    /// of streams.
    TooMany,
    /// No connection waits with this token, or it can't be a token.
    None,
}

/// A place for a connection or a stream, which is counted until it is dropped.
#[derive(Debug)]
pub struct WaitingPlace {
    counts: Arc<Mutex<WaitingCounts>>,
    of: WaitingOf,
}

#[derive(Debug)]
enum WaitingOf {
    Waiting(IpAddr),
    Stream { domain: String, requester: String },
}

impl WaitingStreams {
    /// Returns a place for a connection from this network, if there is one.
    pub fn place(&self, network: IpAddr) -> Option<WaitingPlace> {
        let mut counts = lock(&self.counts);
        let of_network = counts.by_network.get(&network).copied().unwrap_or_default();
        if of_network >= MOST_OF_NETWORK {
            return None;
        }
        if counts.waiting >= MOST {
            let (busiest, count) = counts.by_network.iter().max_by_key(|(_, count)| **count)?;
            let (busiest, count) = (*busiest, *count);
            drop(counts);
            if count <= of_network + 1 || !self.close_oldest(busiest) {
                return None;
            }
            counts = lock(&self.counts);
        }
        counts.waiting += 1;
        counts.by_network.insert(network, of_network + 1);
        Some(WaitingPlace { counts: self.counts.clone(), of: WaitingOf::Waiting(network) })
    }

    /// Closes the connection of a network that has waited longest: this network has the most
    /// connections, and there is no place for others. Returns false if none of its connections has
    /// named its stream yet.
    fn close_oldest(&self, network: IpAddr) -> bool {
        let mut connections = lock(&self.connections);
        let is_of =
            |connection: &&WaitingConnection| matches!(connection.place.of, WaitingOf::Waiting(of) if of == network);
        let of_network =
            connections.iter().flat_map(|(token, pair)| pair.iter().filter(is_of).map(move |one| (one.since, *token)));
        let Some((since, token)) = of_network.min() else { return false };
        let Some(pair) = connections.get_mut(&token) else { return false };
        pair.retain(|connection| connection.since != since);
        if pair.is_empty() {
            connections.remove(&token);
        }
        true
    }

    /// Returns whether another connection may wait with this token.
    pub fn has_room(&self, token: &SocksToken) -> bool {
        lock(&self.connections).get(token).is_none_or(|connections| connections.len() < 2)
    }

    /// Adds a waiting connection. If two already wait with that token, it is closed.
    pub fn put(&self, token: SocksToken, socket: TcpStream, place: WaitingPlace) {
        let mut connections = lock(&self.connections);
        let pair = connections.entry(token).or_default();
        if pair.len() < 2 {
            pair.push(WaitingConnection { socket, since: Instant::now(), place });
        }
    }

    /// Returns both connections of a token for a stream of this domain and requester, if the limits
    /// of `terms` allow it.
    pub fn take(&self, token: &[u8], domain: &str, requester: &str, terms: &RelayTerms) -> WaitingPair {
        let mut connections = lock(&self.connections);
        let Ok(token) = SocksToken::try_from(token) else { return WaitingPair::None };
        match connections.get(&token).map(Vec::len) {
            None | Some(0) => return WaitingPair::None,
            Some(1) => return WaitingPair::OneOnly,
            Some(_) => {}
        }
        let Some(place) = self.stream(domain, requester, terms) else { return WaitingPair::TooMany };
        let mut pair = connections.remove(&token).unwrap_or_default().into_iter().map(|connection| connection.socket);
        match (pair.next(), pair.next()) {
            (Some(one), Some(other)) => WaitingPair::Both(one, other, place),
            _ => WaitingPair::None,
        }
    }

    /// Closes connections that have waited too long.
    pub fn sweep(&self) {
        lock(&self.connections).retain(|_, pair| {
            pair.retain(|connection| connection.since.elapsed() < PATIENCE);
            !pair.is_empty()
        });
    }

    fn stream(&self, domain: &str, requester: &str, terms: &RelayTerms) -> Option<WaitingPlace> {
        let mut counts = lock(&self.counts);
        let of = |counts: &HashMap<String, usize>, key: &str| counts.get(key).copied().unwrap_or_default();
        let (of_domain, of_requester) = (of(&counts.streams, domain), of(&counts.by_requester, requester));
        if of_domain >= terms.streams || of_requester >= terms.streams_per_user {
            return None;
        }
        let (domain, requester) = (domain.to_owned(), requester.to_owned());
        counts.streams.insert(domain.clone(), of_domain + 1);
        counts.by_requester.insert(requester.clone(), of_requester + 1);
        Some(WaitingPlace { counts: self.counts.clone(), of: WaitingOf::Stream { domain, requester } })
    }
}

impl Drop for WaitingPlace {
    fn drop(&mut self) {
        let mut counts = lock(&self.counts);
        match &self.of {
            WaitingOf::Waiting(network) => {
                counts.waiting = counts.waiting.saturating_sub(1);
                less(&mut counts.by_network, network);
            }
            WaitingOf::Stream { domain, requester } => {
                less(&mut counts.streams, domain);
                less(&mut counts.by_requester, requester);
            }
        }
    }
}

/// Decrements a count, and removes it once it is zero.
fn less<K: std::hash::Hash + Eq>(counts: &mut HashMap<K, usize>, key: &K) {
    if let Some(count) = counts.get_mut(key) {
        *count = count.saturating_sub(1);
        if *count == 0 {
            counts.remove(key);
        }
    }
}

/// The most connections that may wait.
const MOST: usize = 2000;
/// The most connections of one network that may wait.
const MOST_OF_NETWORK: usize = 50;
/// The longest time that a connection may wait: a person has to accept before the second one comes.
const PATIENCE: Duration = Duration::from_secs(180);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_has_its_share_and_gets_it_back() {
        let waiting = WaitingStreams::default();
        let (one, other) = (IpAddr::from([192, 0, 2, 1]), IpAddr::from([192, 0, 2, 2]));
        let mut places: Vec<_> = (0..MOST_OF_NETWORK).map(|_| waiting.place(one).unwrap()).collect();
        assert!(waiting.place(one).is_none() && waiting.place(other).is_some());
        places.pop();
        assert!(waiting.place(one).is_some());
        drop(places);
        let counts = lock(&waiting.counts);
        assert_eq!((counts.waiting, counts.by_network.len()), (0, 0), "nothing is kept of who has gone");
    }

    #[test]
    fn a_domain_and_a_requester_have_so_many_streams() {
        let waiting = WaitingStreams::default();
        let terms =
            |streams, streams_per_user| RelayTerms { streams, streams_per_user, rate_bytes: 0, idle_seconds: 1 };
        let first = waiting.stream("a.example", "romeo@a.example", &terms(1, 9)).unwrap();
        assert!(waiting.stream("a.example", "juliet@a.example", &terms(1, 9)).is_none(), "the domain has one");
        assert!(waiting.stream("b.example", "romeo@a.example", &terms(1, 1)).is_none(), "the requester has one");
        let other = waiting.stream("b.example", "juliet@a.example", &terms(1, 1)).unwrap();
        drop(first);
        assert!(waiting.stream("a.example", "romeo@a.example", &terms(1, 1)).is_some());
        assert!(waiting.stream("a.example", "romeo@a.example", &terms(0, 1)).is_none());
        drop(other);
        let counts = lock(&waiting.counts);
        assert!(counts.streams.is_empty() && counts.by_requester.is_empty(), "nothing is kept of who has none");
    }
}
