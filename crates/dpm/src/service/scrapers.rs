//! The networks that may read `/metrics` of the clients' port, besides this machine.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// A network of hosts that may read `/metrics`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScrapeNetwork {
    address: IpAddr,
    /// The number of leading bits that all of its hosts share.
    bits: u32,
}

impl ScrapeNetwork {
    /// Returns whether a host is in it.
    pub fn contains(&self, host: IpAddr) -> bool {
        let (host, own) = (number(host), number(self.address));
        match (host, own) {
            ((host, width), (own, of_own)) if width == of_own => {
                let rest = width - self.bits;
                host.checked_shr(rest).unwrap_or_default() == own.checked_shr(rest).unwrap_or_default()
            }
            _ => false,
        }
    }
}

impl FromStr for ScrapeNetwork {
    type Err = String;

    /// Reads an address, or the beginning of a network's addresses and their common bits.
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is not a network such as 10.0.0.0/8");
        let (address, bits) = text.split_once('/').map_or((text, None), |(address, bits)| (address, Some(bits)));
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let (_, width) = number(address);
        let bits = bits.map_or(Ok(width), str::parse).map_err(|_| wrong())?;
        if bits <= width { Ok(Self { address, bits }) } else { Err(wrong()) }
    }
}

impl fmt::Display for ScrapeNetwork {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", self.address, self.bits)
    }
}

/// Returns an address as a number, and how many bits it has.
fn number(address: IpAddr) -> (u128, u32) {
    match address.to_canonical() {
        IpAddr::V4(address) => (u128::from(address.to_bits()), u32::BITS),
        IpAddr::V6(address) => (address.to_bits(), u128::BITS),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_has_the_hosts_that_begin_like_it() {
        for (network, host, is_in) in [
            ("10.0.0.0/8", "10.255.0.1", true),
            ("10.0.0.0/8", "11.0.0.1", false),
            ("10.0.0.0/8", "::ffff:10.1.2.3", true),
            ("192.0.2.7", "192.0.2.7", true),
            ("192.0.2.7", "192.0.2.6", false),
            ("0.0.0.0/0", "203.0.113.9", true),
            ("0.0.0.0/0", "2001:db8::1", false),
            ("2001:db8::/32", "2001:db8:1::1", true),
            ("::/0", "2001:db8::1", true),
        ] {
            let read: ScrapeNetwork = network.parse().expect("a network");
            assert_eq!(read.contains(host.parse().expect("an address")), is_in, "{network} {host}");
        }
        for wrong in ["", "10.0.0.0/33", "10.0.0.0/x", "10.0.0", "host/8", "::/129", "10.0.0.0/-1"] {
            assert!(wrong.parse::<ScrapeNetwork>().is_err(), "{wrong}");
        }
    }
}
