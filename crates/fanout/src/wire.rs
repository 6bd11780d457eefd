//! Packets and audiences in mail between shards or nodes.
//!
//! The reader scans a packet again: the proof that its bytes are one well-formed stanza doesn't
//! travel, only the bytes do. Properties that a scan can't tell are sent along.

use rookery_xml::Kind;
use serde::de::Error as _;
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_bytes::{ByteBuf, Bytes};

use crate::{Addresses, Packet};

/// A packet as it is written: its bytes, whether its sender is of this server ([`LOCAL`]) and
/// whether it may have come before ([`AGAIN`]), and the place of a recipient's own blind address.
type Written<B> = (u8, Option<(u32, bool)>, B);

const LOCAL: u8 = 1;
const AGAIN: u8 = 2;

impl Serialize for Packet {
    /// Writes the packet.
    ///
    /// # Errors
    /// It isn't a stanza: elements of stream management belong to one stream and never travel.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.kind() == Kind::Other {
            return Err(S::Error::custom("an element that isn't a stanza stays where it is"));
        }
        let own = self.own().map(|(at, declared)| (at as u32, declared));
        let marks = if self.is_local() { LOCAL } else { 0 } | if self.is_again() { AGAIN } else { 0 };
        let written: Written<&Bytes> = (marks, own, Bytes::new(self.bytes()));
        written.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Packet {
    /// Scans a packet.
    ///
    /// # Errors
    /// The bytes aren't a stanza, or the place of the address is not between two of its elements.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let (marks, own, bytes): Written<ByteBuf> = Written::deserialize(deserializer)?;
        let packet = Packet::read(&bytes, marks & LOCAL != 0);
        let mut packet = packet.map_err(|fault| D::Error::custom(format_args!("{fault:?}")))?;
        if marks & AGAIN != 0 {
            packet = packet.again();
        }
        let Some((at, declared)) = own else { return Ok(packet) };
        let at = at as usize;
        let is_between =
            packet.bytes().get(at.saturating_sub(1)) == Some(&b'>') && packet.bytes().get(at) == Some(&b'<');
        if is_between { Ok(packet.with_own(at, declared)) } else { Err(D::Error::custom("no place for an address")) }
    }
}

impl Serialize for Addresses {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(self.packed())
    }
}

impl<'de> Deserialize<'de> for Addresses {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let packed = ByteBuf::deserialize(deserializer)?.into_vec();
        Addresses::unpack(packed).ok_or_else(|| D::Error::custom("names that end in the middle"))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rookery_xml::Writer;

    use super::*;

    fn again<T: Serialize + for<'de> Deserialize<'de>>(value: &T) -> T {
        postcard::from_bytes(&postcard::to_allocvec(value).unwrap()).unwrap()
    }

    #[test]
    fn a_packet_is_the_same_on_the_other_side() {
        let source = b"<message from='a&amp;@x/q&apos;' id=\"a&quot;1\" type='chat' xml:lang='de'><body>1 &lt; 2</body></message>";
        for local in [false, true] {
            let packet = Packet::read(source, local).unwrap();
            let read = again(&packet);
            assert_eq!(read.bytes(), packet.bytes());
            assert_eq!((read.is_local(), read.is_again()), (local, false));
            assert!(again(&packet.again()).is_again());
            assert_eq!((read.kind(), read.type_(), read.has_body()), (packet.kind(), packet.type_(), true));
            assert_eq!(read.with_to("b@x"), packet.with_to("b@x"));
        }
    }

    #[test]
    fn the_place_of_a_blind_address_travels() {
        let packet = Packet::from_bytes(
            b"<message><addresses xmlns='http://jabber.org/protocol/address'></addresses></message>",
        );
        let packet = packet.unwrap();
        let at = packet.bytes().windows(2).position(|two| two == b"</").unwrap();
        let with = packet.with_own(at, false);
        assert_eq!(again(&with).with_to("b@x"), with.with_to("b@x"));
        assert_ne!(with.with_to("b@x"), packet.with_to("b@x"));
        let within = packet.with_own(3, false);
        assert!(postcard::from_bytes::<Packet>(&postcard::to_allocvec(&within).unwrap()).is_err());
    }

    #[test]
    fn what_is_no_stanza_does_not_travel() {
        let element = Packet::element(&Writer::with_ns("r", "urn:xmpp:sm:3").finish());
        assert!(postcard::to_allocvec(&element).is_err());
        let broken: Written<&Bytes> = (LOCAL, None, Bytes::new(b"<message>"));
        assert!(postcard::from_bytes::<Packet>(&postcard::to_allocvec(&broken).unwrap()).is_err());
    }

    proptest! {
        #![proptest_config(ProptestConfig { rng_seed: proptest::test_runner::RngSeed::Fixed(1), ..ProptestConfig::default() })]

        #[test]
        fn names_are_the_same_on_the_other_side(names in prop::collection::vec((any::<u64>(), "\\PC{0,40}"), 0..20)) {
            let mut audience = Addresses::default();
            names.iter().for_each(|(hash, name)| audience.push(*hash, name));
            let read = again(&audience);
            prop_assert_eq!(read.len(), names.len());
            prop_assert!(read.iter().eq(names.iter().map(|(hash, name)| (*hash, name.as_str()))));
        }

        #[test]
        fn any_bytes_are_names_or_refused(packed: Vec<u8>) {
            if let Some(names) = Addresses::unpack(packed.clone()) {
                let mut again = Addresses::default();
                names.iter().for_each(|(hash, name)| again.push(hash, name));
                prop_assert_eq!(again.packed(), &packed);
            }
        }
    }
}
