//! The multicast group that receives requests to all nodes of ACNET.

use std::io;
use std::net::{Ipv4Addr, UdpSocket};
use std::str::FromStr;

/// A group, and the network on which it is joined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MulticastGroup {
    /// The group's address; that of ACNET is [`USUAL`](Self::USUAL).
    pub group: Ipv4Addr,
    /// Our address on that network; the system chooses one if it is 0.0.0.0.
    pub interface: Ipv4Addr,
}

impl MulticastGroup {
    /// The group of ACNET, on the network that the system chooses.
    pub const USUAL: Self = Self { group: Ipv4Addr::new(239, 128, 4, 1), interface: Ipv4Addr::UNSPECIFIED };

    /// Joins the group. The socket must not be bound to a specific address, since the system would
    /// then deliver no datagrams for the group to it.
    pub(super) fn join(self, socket: &UdpSocket) -> io::Result<()> {
        if !socket.local_addr()?.ip().is_unspecified() {
            let words = "requests to all nodes arrive only if the address for front-ends is 0.0.0.0";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, words));
        }
        socket.join_multicast_v4(&self.group, &self.interface)
    }
}

impl FromStr for MulticastGroup {
    type Err = &'static str;

    /// Reads `239.128.4.1`, or `239.128.4.1@10.0.0.5` with our address on the network.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (group, interface) = text.split_once('@').unwrap_or((text, "0.0.0.0"));
        let read = |text: &str| text.parse::<Ipv4Addr>().map_err(|_| EXPECTED);
        let (group, interface) = (read(group)?, read(interface)?);
        if group.is_multicast() && !interface.is_multicast() { Ok(Self { group, interface }) } else { Err(EXPECTED) }
    }
}

impl std::fmt::Display for MulticastGroup {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { group, interface } = self;
        if interface.is_unspecified() { write!(formatter, "{group}") } else { write!(formatter, "{group}@{interface}") }
    }
}

const EXPECTED: &str =
    "a multicast group such as 239.128.4.1, or with our address on its network, 239.128.4.1@10.0.0.5";

#[cfg(test)]
mod tests {
    use super::MulticastGroup;

    #[test]
    fn groups_are_read_and_written() {
        assert_eq!("239.128.4.1".parse(), Ok(MulticastGroup::USUAL));
        for text in ["239.128.4.1", "239.128.4.1@10.0.0.5"] {
            assert_eq!(text.parse::<MulticastGroup>().expect(text).to_string(), text);
        }
        for wrong in ["", "10.0.0.5", "239.128.4.1:6801", "239.128.4.1@", "239.128.4.1@239.128.4.1", "ff02::1"] {
            assert!(wrong.parse::<MulticastGroup>().is_err(), "{wrong}");
        }
    }
}
