//! Addresses and networks of the Internet, as rate limits count them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// A network in CIDR notation (RFC 4632 §3.1, RFC 4291 §2.3): all addresses that begin with the same bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Network {
    first: IpAddr,
    bits: u8,
}

impl Network {
    /// The network of one party: a single IPv4 address, but a /64 of IPv6, since every household has as many addresses as it likes.
    pub fn of_party(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(_) => Self::new(address.to_canonical(), 32),
            IpAddr::V6(_) => Self::new(address, 64),
        }
    }

    /// Whether an address is in the network. IPv4 addresses that come written as IPv6 (`::ffff:…`) count as IPv4.
    pub fn contains(&self, address: IpAddr) -> bool {
        Self::new(address.to_canonical(), self.bits).first == self.first
    }

    /// The network of `bits` bits that an address is in; `bits` is no more than the address has.
    fn new(address: IpAddr, bits: u8) -> Self {
        let first = match address {
            IpAddr::V4(v4) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(bits.min(32))).unwrap_or(0);
                IpAddr::V4(Ipv4Addr::from_bits(v4.to_bits() & mask))
            }
            IpAddr::V6(v6) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(bits.min(128))).unwrap_or(0);
                IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() & mask))
            }
        };
        Self { first, bits }
    }
}

impl FromStr for Network {
    type Err = String;

    /// Reads `192.0.2.0/24`, `2001:db8::/32`, or a single address.
    fn from_str(text: &str) -> Result<Self, String> {
        let (address, bits) = text.split_once('/').map_or((text, None), |(address, bits)| (address, Some(bits)));
        let wrong =
            || format!("{text:?} is neither an address nor a network such as \"192.0.2.0/24\" or \"2001:db8::/32\"");
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let bits = bits.map_or(Ok(most), |bits| bits.parse().map_err(|_| wrong()))?;
        if bits > most {
            return Err(format!("{text:?} has a prefix of more than {most} bits"));
        }
        let network = Self::new(address, bits);
        if network.first != address {
            return Err(format!("{text:?} has bits behind its prefix; write \"{}/{bits}\"", network.first));
        }
        Ok(network)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holds(network: &str, address: &str) -> bool {
        network.parse::<Network>().unwrap().contains(address.parse().unwrap())
    }

    #[test]
    fn networks_hold_their_addresses() {
        assert!(holds("127.0.0.0/8", "127.255.0.1"));
        assert!(!holds("127.0.0.0/8", "128.0.0.1"));
        assert!(holds("127.0.0.0/8", "::ffff:127.0.0.1"));
        assert!(holds("::1", "::1"));
        assert!(!holds("::1", "::2"));
        assert!(holds("2001:db8::/33", "2001:db8:7fff::1"));
        assert!(!holds("2001:db8::/33", "2001:db8:8000::1"));
        assert!(holds("0.0.0.0/0", "203.0.113.9"));
        assert!(!holds("0.0.0.0/0", "2001:db8::1"));
        assert!(holds("::/0", "2001:db8::1"));
        assert!(!holds("::/0", "203.0.113.9"));
    }

    #[test]
    fn what_is_no_network_is_refused() {
        for bad in ["", "home", "1.2.3.4/", "1.2.3.4/33", "::/129", "1.2.3.4/-1", "10.0.0.1/8", "1.2.3", "::/x"] {
            assert!(bad.parse::<Network>().is_err(), "{bad:?}");
        }
        assert!("10.0.0.1/8".parse::<Network>().unwrap_err().contains("10.0.0.0/8"));
    }

    #[test]
    fn a_household_is_one_party() {
        let party = |text: &str| Network::of_party(text.parse().unwrap());
        assert_eq!(party("2001:db8::1"), party("2001:db8::ffff:1"));
        assert_ne!(party("2001:db8::1"), party("2001:db8:0:1::1"));
        assert_ne!(party("192.0.2.1"), party("192.0.2.2"));
        assert_eq!(party("192.0.2.1"), party("::ffff:192.0.2.1"));
    }
}
