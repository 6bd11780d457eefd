//! Finds a domain's server: the order of SRV records (RFC 2782, XEP-0368), and the addresses that
//! strangers must not send us to.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use rookery_stream::tls::trust::tlsa::Associations;

/// An address to try.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    /// The place to connect to.
    pub socket: SocketAddr,
    /// True for direct TLS (`_xmpps-server`), false for STARTTLS.
    pub direct_tls: bool,
    /// The certificates expected there, if DNS names them and is trusted (RFC 7673).
    pub tlsa: Option<Arc<Associations>>,
    /// The name to ask for with TLS (SNI), if it isn't the domain (XEP-0487).
    pub sni: Option<Arc<str>>,
}

impl Address {
    /// Returns an address without further data from DNS.
    pub fn new(socket: SocketAddr, direct_tls: bool) -> Self {
        Self { socket, direct_tls, tlsa: None, sni: None }
    }
}

/// The answer of DNS about a domain: its addresses in the order of attempts.
pub type Found = Result<Vec<Address>, NotFound>;

/// The reason why a domain has no address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotFound {
    /// The domain doesn't exist, or declares that it has no server.
    NoServer,
    /// DNS gave no answer, or a broken one, which says nothing about the domain.
    NoAnswer,
}

/// A target of an SRV record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SrvTarget {
    /// The priority; lower is earlier.
    pub priority: u16,
    /// The share among targets of the same priority.
    pub weight: u16,
    /// The name of the machine, `.` or empty for none.
    pub host: String,
    /// The port of the machine.
    pub port: u16,
    /// True if it comes from `_xmpps-server`.
    pub direct_tls: bool,
    /// True if a trusted name server has validated the record.
    pub is_signed: bool,
}

impl SrvTarget {
    /// Returns a target without priority or weight.
    pub fn at(host: &str, port: u16, direct_tls: bool) -> Self {
        Self { priority: 0, weight: 0, host: host.to_owned(), port, direct_tls, is_signed: false }
    }
}

/// The next step after both SRV queries were answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TargetPlan {
    /// Try these targets, in this order.
    Targets(Vec<SrvTarget>),
    /// There are no records: try the addresses of the domain itself, port 5269 (RFC 6120 §3.2.2).
    DomainItself,
    /// The domain declares that it has no server.
    Nowhere,
}

/// Decides by the records of both names; `None` means there are none. A single `.` means that this
/// service isn't offered, and that the domain's own address isn't used either; together with other
/// records it is a mistake in the zone and ignored.
pub fn plan(
    direct: Option<Vec<SrvTarget>>,
    starttls: Option<Vec<SrvTarget>>,
    random: impl FnMut(u32) -> u32,
) -> TargetPlan {
    let has_records = direct.is_some() || starttls.is_some();
    let all = direct.into_iter().chain(starttls).flatten();
    let targets: Vec<SrvTarget> =
        all.filter(|target| !matches!(target.host.as_str(), "" | ".")).take(MOST_TARGETS).collect();
    match (targets.is_empty(), has_records) {
        (false, _) => TargetPlan::Targets(order(targets, |target| (target.priority, target.weight), random)),
        (true, true) => TargetPlan::Nowhere,
        (true, false) => TargetPlan::DomainItself,
    }
}

/// Sorts items by the priority and weight that `rank` returns: by priority, and randomly within
/// one, in proportion to the weights (RFC 2782). `random` returns a number from 0 up to its
/// argument, inclusive.
pub fn order<T>(mut all: Vec<T>, rank: impl Fn(&T) -> (u16, u16), mut random: impl FnMut(u32) -> u32) -> Vec<T> {
    // Items without weight come first, so that they have a small chance (RFC 2782, "Weight").
    all.sort_by_key(|one| {
        let (priority, weight) = rank(one);
        (priority, weight != 0)
    });
    let mut ordered = Vec::with_capacity(all.len());
    while let Some(first) = all.first() {
        let (priority, _) = rank(first);
        let equal = all.iter().map(&rank).take_while(|(of, _)| *of == priority);
        let sum: u32 = equal.map(|(_, weight)| u32::from(weight)).sum();
        let drawn = random(sum);
        let mut running = 0;
        let chosen = all.iter().position(|one| {
            running += u32::from(rank(one).1);
            running >= drawn
        });
        ordered.push(all.remove(chosen.unwrap_or(0)));
    }
    ordered
}

/// Orders the addresses of one target so that a broken family of addresses doesn't hide a working
/// one: IPv6 first, then alternating (RFC 8305 §4).
pub fn interleave(addresses: impl IntoIterator<Item = IpAddr>) -> Vec<IpAddr> {
    let (mut six, mut four) = (Vec::new(), Vec::new());
    for address in addresses {
        let family = if address.is_ipv6() { &mut six } else { &mut four };
        if family.len() < MOST_ADDRESSES {
            family.push(address);
        }
    }
    let most = six.len().max(four.len());
    let pairs = (0..most).flat_map(|index| [six.get(index), four.get(index)]);
    pairs.flatten().copied().take(MOST_ADDRESSES).collect()
}

/// Returns whether an address is public. A stranger controls the addresses of its domain, and could
/// make us connect to services of this machine or of a private network that outsiders can't reach.
pub fn is_public(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    let is_shared = a == 100 && (64..128).contains(&b);
    let is_protocol = (a, b, c) == (192, 0, 0);
    let is_benchmark = a == 198 && (b == 18 || b == 19);
    !(address.is_private()
        || address.is_loopback()
        || address.is_link_local()
        || address.is_broadcast()
        || address.is_documentation()
        || address.is_multicast()
        || a == 0
        || a >= 240
        || is_shared
        || is_protocol
        || is_benchmark)
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let segments = address.segments();
    let [first, second, ..] = segments;
    // Addresses that embed an IPv4 address lead to that one: NAT64 and 6to4.
    if (first, second) == (0x64, 0xff9b) {
        return false;
    }
    if first == 0x2002 {
        let [_, high, low, ..] = segments;
        let [a, b] = high.to_be_bytes();
        let [c, d] = low.to_be_bytes();
        return is_public_v4(Ipv4Addr::new(a, b, c, d));
    }
    let is_global = first & 0xe000 == 0x2000;
    is_global && (first, second) != (0x2001, 0xdb8) && !(first == 0x2001 && second < 0x200)
}

/// The most targets of a domain that are used.
const MOST_TARGETS: usize = 20;
/// The most addresses of a target that are tried.
const MOST_ADDRESSES: usize = 10;
/// The port of servers (RFC 6120 §14.7).
pub const PORT: u16 = 5269;

#[cfg(test)]
mod tests {
    use super::*;

    fn target(priority: u16, weight: u16, host: &str) -> SrvTarget {
        SrvTarget { priority, weight, ..SrvTarget::at(host, 5269, false) }
    }

    fn hosts(plan: TargetPlan) -> Vec<String> {
        let TargetPlan::Targets(targets) = plan else { panic!("{plan:?}") };
        targets.into_iter().map(|target| target.host).collect()
    }

    /// XEP-0368 §3, RFC 2782: records that are missing, refused or present, in all nine
    /// combinations.
    #[test]
    fn a_dot_is_no_server_and_no_records_are_none_at_all() {
        let (none, dot, some) = (None, Some(vec![target(0, 0, ".")]), Some(vec![target(0, 0, "a.example")]));
        let first = |most: u32| most;
        let of = |direct: &Option<Vec<SrvTarget>>, starttls: &Option<Vec<SrvTarget>>| {
            plan(direct.clone(), starttls.clone(), first)
        };
        assert_eq!(of(&none, &none), TargetPlan::DomainItself);
        for (direct, starttls) in [(&none, &dot), (&dot, &none), (&dot, &dot)] {
            assert_eq!(of(direct, starttls), TargetPlan::Nowhere);
        }
        for (direct, starttls) in [(&some, &none), (&some, &dot), (&none, &some), (&dot, &some)] {
            assert_eq!(hosts(of(direct, starttls)), ["a.example"]);
        }
        assert_eq!(hosts(of(&some, &some)), ["a.example", "a.example"]);
    }

    #[test]
    fn priorities_come_first_and_weights_decide_within_them() {
        let targets = vec![target(10, 60, "c"), target(5, 0, "a"), target(10, 20, "b"), target(10, 0, "z")];
        let all = |draw: fn(u32) -> u32| hosts(plan(None, Some(targets.clone()), draw));
        assert_eq!(all(|_| 0), ["a", "z", "c", "b"]);
        assert_eq!(all(|most| most), ["a", "b", "c", "z"]);
    }

    #[test]
    fn families_alternate() {
        let addresses = ["192.0.2.1", "192.0.2.2", "2001:db8::1"].map(|text| text.parse().unwrap());
        let ordered: Vec<String> = interleave(addresses).iter().map(ToString::to_string).collect();
        assert_eq!(ordered, ["2001:db8::1", "192.0.2.1", "192.0.2.2"]);
        let many = (0..100).map(|last| IpAddr::V6(Ipv6Addr::from(last)));
        let four = IpAddr::from([192, 0, 2, 1]);
        assert_eq!(interleave(many.chain([four]))[1], four, "however many there are of the other family");
    }

    #[test]
    fn nobody_sends_us_to_private_addresses() {
        let private = [
            "127.0.0.1",
            "10.1.2.3",
            "172.16.0.1",
            "192.168.1.1",
            "169.254.1.1",
            "100.64.0.1",
            "0.0.0.0",
            "224.0.0.1",
            "255.255.255.255",
            "::1",
            "::",
            "fe80::1",
            "fc00::1",
            "ff02::1",
            "::ffff:10.0.0.1",
            "::ffff:127.0.0.1",
            "64:ff9b::a00:1",
            "2002:a00:1::",
            "192.0.0.8",
            "198.18.0.1",
            "2001::1",
        ];
        for address in private {
            assert!(!is_public(address.parse().unwrap()), "{address}");
        }
        for address in ["1.1.1.1", "100.128.0.1", "172.32.0.1", "2606:4700::1111", "2002:101:101::"] {
            assert!(is_public(address.parse().unwrap()), "{address}");
        }
    }
}
