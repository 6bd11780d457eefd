//! IP address ranges, as operators write them.

use std::net::{IpAddr, Ipv4Addr};
use std::str::FromStr;

/// An address range: `10.0.0.0/8`, `fd00::/8`, or a single address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network {
    address: u128,
    bits: u32,
}

impl Network {
    /// Returns whether an address lies in the range. IPv4 addresses that came in over IPv6 count as
    /// IPv4.
    pub fn contains(&self, address: IpAddr) -> bool {
        let shift = 128 - self.bits;
        // A shift by all 128 bits would overflow: every address matches then.
        shift == 128 || bits_of(address) >> shift == self.address >> shift
    }
}

impl FromStr for Network {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected = || format!("'{text}' isn't an address range; write one as 10.0.0.0/8 or fd00::/8");
        let (address, bits) = text.split_once('/').map_or((text, None), |(address, bits)| (address, Some(bits)));
        let address: IpAddr = address.trim().parse().map_err(|_| expected())?;
        let width = if address.is_ipv4() { 32 } else { 128 };
        let bits: u32 = match bits {
            None => width,
            Some(bits) => bits.trim().parse().map_err(|_| expected())?,
        };
        if bits > width {
            return Err(expected());
        }
        Ok(Self { address: bits_of(address), bits: bits + 128 - width })
    }
}

/// Returns the range that counts as one place from which somebody connects: an IPv4 address, or the
/// first 64 bits of an IPv6 address, which one customer has alone (RFC 6177 §2).
pub fn household(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => IpAddr::V6((v6.to_bits() >> 64 << 64).into()),
        v4 => v4,
    }
}

fn bits_of(address: IpAddr) -> u128 {
    let v6 = match address.to_canonical() {
        IpAddr::V4(v4) => Ipv4Addr::to_ipv6_mapped(&v4),
        IpAddr::V6(v6) => v6,
    };
    v6.to_bits()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_and_households_hold_what_they_say() {
        let contains =
            |range: &str, address: &str| Network::from_str(range).unwrap().contains(address.parse().unwrap());
        assert!(contains("127.0.0.0/8", "127.3.2.1"));
        assert!(contains("127.0.0.0/8", "::ffff:127.0.0.1"));
        assert!(!contains("127.0.0.0/8", "128.0.0.1"));
        assert!(contains("::1", "::1"));
        assert!(!contains("::1", "::2"));
        assert!(contains("0.0.0.0/0", "9.9.9.9") && !contains("0.0.0.0/0", "fd00::1"));
        assert!(contains("::/0", "fd00::1") && contains("::/0", "9.9.9.9"));
        let of = |text: &str| household(text.parse().unwrap()).to_string();
        assert_eq!(of("2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::");
        assert_eq!((of("192.0.2.7"), of("::ffff:192.0.2.7")), ("192.0.2.7".into(), "192.0.2.7".into()));
        for wrong in ["10.0.0.0/33", "10.0.0/8", "x", "::/129", "1.2.3.4/"] {
            assert!(Network::from_str(wrong).is_err(), "{wrong}");
        }
    }
}
