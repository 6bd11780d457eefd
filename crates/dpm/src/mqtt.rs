//! MQTT 3.1.1: the packets that a client sends to a broker and gets from it.
//!
//! Only the part that a client needs for reading topics and publishing settings is supported:
//! incoming messages are of quality 0 or 1, outgoing ones of quality 1. Sections named here are
//! those of the OASIS standard of 2014.

/// A packet that a broker has sent to us.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BrokerPacket<'a> {
    /// The answer to `CONNECT` (§3.2): 0, or the reason of a refusal.
    Connected(u8),
    /// A message of a topic (§3.3).
    Publish {
        /// The name of the topic that the message was published to.
        topic: &'a str,
        /// The number for its acknowledgement; `None` at quality 0.
        id: Option<u16>,
        /// The message itself.
        payload: &'a [u8],
    },
    /// The acknowledgement of our message (§3.4).
    Published(u16),
    /// The answer to `SUBSCRIBE` (§3.9): for each topic the granted quality, or 0x80.
    Subscribed(u16, &'a [u8]),
    /// The answer to `UNSUBSCRIBE` (§3.11).
    Unsubscribed(u16),
    /// The answer to a ping (§3.13).
    Alive,
}

/// The first item in a broker's bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Begins<'a> {
    /// An incomplete packet.
    Unfinished,
    /// A packet with this number of bytes.
    Packet(BrokerPacket<'a>, usize),
    /// A message that is too long to be handled: its topic, and the number of its bytes.
    TooLong(&'a str, usize),
}

/// The broker has sent an invalid packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoPacket;

/// Parses the first packet in a broker's bytes.
///
/// # Errors
/// [`NoPacket`] if the packet is invalid, or has more than `most` bytes and is no message of a
/// topic.
pub fn first(bytes: &[u8], most: usize) -> Result<Begins<'_>, NoPacket> {
    let Some((first, rest)) = bytes.split_first() else { return Ok(Begins::Unfinished) };
    let Some((length, digits)) = remaining_length(rest)? else { return Ok(Begins::Unfinished) };
    let (head, whole) = (1 + digits, 1 + digits + length);
    let is_publish = first >> 4 == PUBLISH;
    if length > most {
        if !is_publish {
            return Err(NoPacket);
        }
        return Ok(match bytes.get(head..).and_then(text) {
            Some((topic, _)) => Begins::TooLong(topic?, whole),
            None => Begins::Unfinished,
        });
    }
    let Some(body) = bytes.get(head..whole) else { return Ok(Begins::Unfinished) };
    let packet = if is_publish { message(first & 0xf, body)? } else { answer(*first, body)? };
    Ok(Begins::Packet(packet, whole))
}

/// Reads the remaining length (§2.2.3), which has seven bits in each of at most four bytes. Also
/// returns the number of these bytes.
fn remaining_length(bytes: &[u8]) -> Result<Option<(usize, usize)>, NoPacket> {
    let mut length = 0;
    for (place, byte) in bytes.iter().take(4).enumerate() {
        length |= usize::from(byte & 0x7f) << (7 * place);
        if byte & 0x80 == 0 {
            return Ok(Some((length, place + 1)));
        }
    }
    if bytes.len() < 4 { Ok(None) } else { Err(NoPacket) }
}

/// Reads a text with its length in front (§1.5.3), and returns the bytes after it; `None` if it is
/// incomplete.
fn text(bytes: &[u8]) -> Option<(Result<&str, NoPacket>, &[u8])> {
    let (length, rest) = bytes.split_first_chunk()?;
    let (text, rest) = rest.split_at_checked(u16::from_be_bytes(*length).into())?;
    Some((std::str::from_utf8(text).map_err(|_| NoPacket), rest))
}

fn message(flags: u8, body: &[u8]) -> Result<BrokerPacket<'_>, NoPacket> {
    let (topic, rest) = text(body).ok_or(NoPacket)?;
    let topic = topic?;
    let (id, payload) = match (flags >> 1) & 3 {
        0 => (None, rest),
        1 => {
            let (id, payload) = rest.split_first_chunk().ok_or(NoPacket)?;
            (Some(number(id)?), payload)
        }
        // Quality 2 was not requested.
        _ => return Err(NoPacket),
    };
    Ok(BrokerPacket::Publish { topic, id, payload })
}

fn answer(first: u8, body: &[u8]) -> Result<BrokerPacket<'_>, NoPacket> {
    match (first >> 4, body) {
        (CONNACK, [_, code]) => Ok(BrokerPacket::Connected(*code)),
        (PUBACK, [one, other]) => Ok(BrokerPacket::Published(number(&[*one, *other])?)),
        (SUBACK, [one, other, granted @ ..]) => Ok(BrokerPacket::Subscribed(number(&[*one, *other])?, granted)),
        (UNSUBACK, [one, other]) => Ok(BrokerPacket::Unsubscribed(number(&[*one, *other])?)),
        (PINGRESP, []) => Ok(BrokerPacket::Alive),
        _ => Err(NoPacket),
    }
}

/// Reads the number of a packet, which is never 0 (§2.3.1).
fn number(bytes: &[u8; 2]) -> Result<u16, NoPacket> {
    match u16::from_be_bytes(*bytes) {
        0 => Err(NoPacket),
        id => Ok(id),
    }
}

/// Appends `CONNECT` (§3.1) for a new session without a name: the broker assigns one.
pub fn connect(user: Option<&str>, password: Option<&[u8]>, keep_alive_seconds: u16, out: &mut Vec<u8>) {
    let mut body = Vec::new();
    put_bytes(b"MQTT", &mut body);
    let flags = CLEAN | if user.is_some() { USER } else { 0 } | if password.is_some() { PASSWORD } else { 0 };
    body.extend_from_slice(&[LEVEL, flags]);
    body.extend_from_slice(&keep_alive_seconds.to_be_bytes());
    put_bytes(b"", &mut body);
    for field in user.map(str::as_bytes).into_iter().chain(password) {
        put_bytes(field, &mut body);
    }
    put_packet(CONNECT << 4, &body, out);
}

/// Appends `SUBSCRIBE` (§3.8) for topics at quality 0.
pub fn subscribe<'a>(id: u16, topics: impl Iterator<Item = &'a str>, out: &mut Vec<u8>) {
    let mut body = id.to_be_bytes().to_vec();
    for topic in topics {
        put_bytes(topic.as_bytes(), &mut body);
        body.push(0);
    }
    put_packet(SUBSCRIBE << 4 | 2, &body, out);
}

/// Appends `UNSUBSCRIBE` (§3.10) for a topic.
pub fn unsubscribe(id: u16, topic: &str, out: &mut Vec<u8>) {
    let mut body = id.to_be_bytes().to_vec();
    put_bytes(topic.as_bytes(), &mut body);
    put_packet(UNSUBSCRIBE << 4 | 2, &body, out);
}

/// Appends `PUBLISH` (§3.3) at quality 1.
pub fn publish(id: u16, topic: &str, payload: &[u8], is_retained: bool, out: &mut Vec<u8>) {
    let mut body = Vec::with_capacity(topic.len() + payload.len() + 4);
    put_bytes(topic.as_bytes(), &mut body);
    body.extend_from_slice(&id.to_be_bytes());
    body.extend_from_slice(payload);
    put_packet(PUBLISH << 4 | 2 | u8::from(is_retained), &body, out);
}

/// Appends `PUBACK` (§3.4), which acknowledges a message.
pub fn acknowledge(id: u16, out: &mut Vec<u8>) {
    put_packet(PUBACK << 4, &id.to_be_bytes(), out);
}

/// Appends `PINGREQ` (§3.12).
pub fn ping(out: &mut Vec<u8>) {
    put_packet(PINGREQ << 4, &[], out);
}

/// Appends `DISCONNECT` (§3.14).
pub fn disconnect(out: &mut Vec<u8>) {
    put_packet(DISCONNECT << 4, &[], out);
}

fn put_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    // No text is longer, since the device file bounds names.
    let length = u16::try_from(bytes.len()).unwrap_or(u16::MAX);
    out.extend_from_slice(&length.to_be_bytes());
    out.extend(bytes.iter().take(length.into()));
}

fn put_packet(first: u8, body: &[u8], out: &mut Vec<u8>) {
    out.push(first);
    let mut length = body.len();
    loop {
        let digit = (length & 0x7f) as u8;
        length >>= 7;
        out.push(if length > 0 { digit | 0x80 } else { digit });
        if length == 0 {
            break;
        }
    }
    out.extend_from_slice(body);
}

/// Returns whether a text can be the topic of a device: no wildcard, no zero, not too long.
pub fn is_topic(text: &str) -> bool {
    (1..=LONGEST_TOPIC).contains(&text.len()) && !text.contains(['+', '#', '\0'])
}

/// The longest topic of a device, in bytes; the protocol permits 65535.
pub const LONGEST_TOPIC: usize = 1024;

const CONNECT: u8 = 1;
const CONNACK: u8 = 2;
const PUBLISH: u8 = 3;
const PUBACK: u8 = 4;
const SUBSCRIBE: u8 = 8;
const SUBACK: u8 = 9;
const UNSUBSCRIBE: u8 = 10;
const UNSUBACK: u8 = 11;
const PINGREQ: u8 = 12;
const PINGRESP: u8 = 13;
const DISCONNECT: u8 = 14;
/// The version of the protocol.
const LEVEL: u8 = 4;
/// Flags of `CONNECT`.
const CLEAN: u8 = 0x02;
const PASSWORD: u8 = 0x40;
const USER: u8 = 0x80;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn packets_are_written_as_the_standard_has_them() {
        let mut out = Vec::new();
        connect(Some("op"), Some(b"pw"), 30, &mut out);
        assert_eq!(out, b"\x10\x14\x00\x04MQTT\x04\xc2\x00\x1e\x00\x00\x00\x02op\x00\x02pw");
        out.clear();
        subscribe(10, ["a/b", "c/d"].into_iter(), &mut out);
        assert_eq!(out, b"\x82\x0e\x00\x0a\x00\x03a/b\x00\x00\x03c/d\x00");
        out.clear();
        publish(7, "a/b", b"1.5", true, &mut out);
        assert_eq!(out, b"\x33\x0a\x00\x03a/b\x00\x071.5");
        out.clear();
        publish(7, "a", &[b'x'; 200], false, &mut out);
        assert_eq!(out[..4], [0x32, 0xcd, 0x01, 0x00]);
    }

    #[test]
    fn packets_are_read_as_the_standard_has_them() {
        let read = |bytes: &'static [u8]| first(bytes, 100);
        assert_eq!(read(b"\x20\x02\x00\x05"), Ok(Begins::Packet(BrokerPacket::Connected(5), 4)));
        let message = BrokerPacket::Publish { topic: "a/b", id: Some(10), payload: b"72.5" };
        assert_eq!(read(b"\x32\x0b\x00\x03a/b\x00\x0a72.5rest"), Ok(Begins::Packet(message, 13)));
        let message = BrokerPacket::Publish { topic: "a", id: None, payload: b"" };
        assert_eq!(read(b"\x31\x03\x00\x01a"), Ok(Begins::Packet(message, 5)));
        assert_eq!(read(b"\x90\x04\x00\x0a\x00\x80"), Ok(Begins::Packet(BrokerPacket::Subscribed(10, &[0, 0x80]), 6)));
        assert_eq!(read(b"\xd0\x00"), Ok(Begins::Packet(BrokerPacket::Alive, 2)));
        // A message that is too long is reported once its topic has arrived.
        assert_eq!(read(b"\x30\xff\x7f\x00\x03a/"), Ok(Begins::Unfinished));
        assert_eq!(read(b"\x30\xff\x7f\x00\x03a/bx"), Ok(Begins::TooLong("a/b", 3 + 0x3fff)));
        for wrong in [
            &b"\x10\x00"[..],
            b"\x20\x01\x00",
            b"\x34\x05\x00\x01a\x00\x01",
            b"\x30\x02\x00\x03",
            b"\x40\x02\x00\x00",
            b"\x30\xff\xff\xff\xff\x01",
            b"\x90\xff\x7f",
            b"\x30\x03\x00\x01\xff",
            b"\x00\x00",
        ] {
            assert_eq!(first(wrong, 100), Err(NoPacket), "{wrong:x?}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..300), most in 0usize..400) {
            if let Ok(Begins::Packet(_, length)) = first(&bytes, most) {
                prop_assert!((2..=bytes.len()).contains(&length));
            }
        }

        #[test]
        fn a_part_of_a_message_is_waited_for(topic in "[a-z/]{1,200}", payload in prop::collection::vec(any::<u8>(), 0..300)) {
            let mut bytes = Vec::new();
            publish(1, &topic, &payload, false, &mut bytes);
            for end in 0..bytes.len() {
                prop_assert_eq!(first(&bytes[..end], 1000), Ok(Begins::Unfinished));
            }
            let whole = BrokerPacket::Publish { topic: &topic, id: Some(1), payload: &payload };
            prop_assert_eq!(first(&bytes, 1000), Ok(Begins::Packet(whole, bytes.len())));
        }
    }
}
