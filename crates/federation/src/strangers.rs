//! Counts the unproven streams of addresses, and the rate at which they connect.
//!
//! A server that has proven a domain is no longer counted: its limits are those of the domain.

use std::net::{IpAddr, SocketAddr};

use rookery_base::Map;
use rookery_base::bucket::Bucket;

/// Addresses that have connected recently.
#[derive(Debug, Default)]
pub(crate) struct Strangers {
    addresses: Map<IpAddr, ForeignStranger>,
    connections: u32,
}

#[derive(Debug, Default)]
struct ForeignStranger {
    /// Connections that have proven nothing.
    connections: u32,
    /// Keys that are being verified for such connections.
    questions: u32,
    /// The rate of its connections.
    calls: Bucket,
    /// The rate of its requests to verify keys.
    wishes: Bucket,
}

impl Strangers {
    /// Counts a new connection. Returns `false` if the address has too many or connects too often,
    /// or if there are too many in total.
    pub(crate) fn connect(&mut self, address: IpAddr, now_ms: u64) -> bool {
        self.clear(now_ms);
        let stranger = self.addresses.entry(address).or_default();
        if stranger.calls.level(now_ms) + CALL_MS > MOST_CALLS * CALL_MS {
            return false;
        }
        stranger.calls.put(CALL_MS, now_ms);
        self.enter(address)
    }

    /// Counts a connection that another shard has admitted. Returns `false` if the address has too
    /// many, or if there are too many in total.
    pub(crate) fn enter(&mut self, address: IpAddr) -> bool {
        let stranger = self.addresses.entry(address).or_default();
        if stranger.connections >= MOST_OF_ADDRESS || self.connections >= MOST_STRANGERS {
            return false;
        }
        stranger.connections += 1;
        self.connections += 1;
        true
    }

    /// Forgets a connection that has gone, or has proven something.
    pub(crate) fn leave(&mut self, address: IpAddr) {
        if let Some(stranger) = self.addresses.get_mut(&address) {
            stranger.connections = stranger.connections.saturating_sub(1);
            self.connections = self.connections.saturating_sub(1);
        }
    }

    /// Notes that a connection has proven something. It no longer counts as open, and counts as a
    /// tenth of a call, so that a server with many domains is admitted.
    pub(crate) fn prove(&mut self, address: IpAddr) {
        self.leave(address);
        if let Some(stranger) = self.addresses.get_mut(&address) {
            stranger.calls.give_back(CALL_MS - CALL_MS / 10);
        }
    }

    /// Counts a key to be verified, which makes this server query DNS and connect. Returns `false`
    /// if too many keys of the address are being verified, or it asks too often.
    pub(crate) fn ask(&mut self, address: IpAddr, now_ms: u64) -> bool {
        let stranger = self.addresses.entry(address).or_default();
        let is_often = stranger.wishes.level(now_ms) + WISH_MS > MOST_WISHES * WISH_MS;
        if is_often || stranger.questions >= MOST_ASKED_BY_ADDRESS {
            return false;
        }
        stranger.wishes.put(WISH_MS, now_ms);
        stranger.questions += 1;
        true
    }

    /// Notes that a key of an address was verified, or couldn't be.
    pub(crate) fn answered(&mut self, address: IpAddr) {
        if let Some(stranger) = self.addresses.get_mut(&address) {
            stranger.questions = stranger.questions.saturating_sub(1);
        }
    }

    /// Forgets addresses without connections or recent calls, if there are many.
    fn clear(&mut self, now_ms: u64) {
        if self.addresses.len() >= MOST_REMEMBERED {
            self.addresses.retain(|_, stranger| {
                let has_something = stranger.connections + stranger.questions > 0;
                has_something || stranger.calls.level(now_ms) + stranger.wishes.level(now_ms) > 0
            });
        }
        if self.addresses.len() >= MOST_REMEMBERED {
            // With so many addresses at the same time, the rate of each is meaningless.
            self.addresses.retain(|_, stranger| stranger.connections + stranger.questions > 0);
        }
    }
}

/// Returns the unit by which addresses are counted: an IPv6 stranger has a whole network of
/// addresses.
pub(crate) fn block(address: SocketAddr) -> IpAddr {
    match address.ip().to_canonical() {
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            IpAddr::from([a, b, c, d, 0, 0, 0, 0])
        }
        four => four,
    }
}

/// The most unproven connections of one address at one shard.
pub const MOST_OF_ADDRESS: u32 = 20;
/// The most unproven connections in total.
pub const MOST_STRANGERS: u32 = 500;
/// The most keys of one address that are verified at a time for unproven connections.
pub const MOST_ASKED_BY_ADDRESS: u32 = 20;
/// The connections that an address may open at once; then one per [`CALL_MS`].
pub const MOST_CALLS: u64 = 100;
/// Milliseconds per connection.
pub const CALL_MS: u64 = 50;
/// The keys that an address may have verified at once; then one per [`WISH_MS`].
pub const MOST_WISHES: u64 = 200;
/// Milliseconds per key.
pub const WISH_MS: u64 = 100;
/// The most addresses whose rates are remembered.
const MOST_REMEMBERED: usize = 10_000;

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));

    #[test]
    fn an_address_that_comes_again_and_again_has_to_wait() {
        let mut strangers = Strangers::default();
        let mut call = |now_ms| {
            let is_in = strangers.connect(ONE, now_ms);
            if is_in {
                strangers.leave(ONE);
            }
            is_in
        };
        assert_eq!((0..1000).filter(|_| call(0)).count() as u64, MOST_CALLS);
        assert!(!call(CALL_MS - 1));
        assert!(call(CALL_MS) && !call(CALL_MS));
    }

    #[test]
    fn a_server_of_many_domains_is_let_in_ten_times_as_fast() {
        let mut strangers = Strangers::default();
        let mut call = |now_ms| {
            let is_in = strangers.connect(ONE, now_ms);
            if is_in {
                strangers.prove(ONE);
            }
            is_in
        };
        assert_eq!((0..2_000).filter(|_| call(0)).count() as u64, MOST_CALLS * 10 - 9);
        assert_eq!((0..2_000).filter(|_| call(1_000)).count() as u64, 10_000 / CALL_MS);
    }

    #[test]
    fn what_is_remembered_of_addresses_is_bounded() {
        let mut strangers = Strangers::default();
        for number in 0..100_000_u32 {
            let address = IpAddr::from(number.to_be_bytes());
            assert!(strangers.connect(address, 0));
            strangers.leave(address);
            assert!(strangers.addresses.len() <= MOST_REMEMBERED);
        }
    }

    #[test]
    fn a_network_of_ipv6_is_one_address() {
        let of = |text: &str| block(SocketAddr::new(text.parse().unwrap(), 1));
        assert_eq!(of("2001:db8::1"), of("2001:db8::ffff:1"));
        assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
        assert_eq!(of("::ffff:192.0.2.1"), ONE);
    }
}
