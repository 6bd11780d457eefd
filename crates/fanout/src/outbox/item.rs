//! A stanza that waits for a session, and the `to` that its copy carries: the lowest layer of an
//! outbox.

use rookery_base::Transport;
use rookery_jid::Jid;
use rookery_xml::{Kind, Namespaces, ns};

use super::framing::Framing;
use crate::packet::{Packet, StanzaType};

/// The stamp rule: which `to` a copy carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum To {
    /// The session's full JID.
    Full,
    /// The session's bare JID: the sender addressed the account, and the address is not rewritten
    /// (RFC 6121 §8.5.2.1).
    Bare,
    /// The session's bare JID, for a stanza that its giver keeps until it was sent: it is not given
    /// back when the session ends; [`Outboxes::when_drained`](super::Outboxes::when_drained) tells
    /// the giver how many were not sent.
    Kept,
    /// The session's full JID, for a copy of another recipient's stanza that means nothing to
    /// anybody but this session: it is not given back when the session ends (XEP-0280).
    Copy,
    /// No `to` at all: an element that isn't a stanza and concerns this stream alone, such as those
    /// of stream management. It is neither counted nor given back.
    Nobody,
}

/// A stanza that waits, or was sent and is not acknowledged.
#[derive(Debug, Clone)]
pub(super) struct OutboxItem {
    pub packet: Packet,
    pub to: To,
    /// See [`paced`](super::paced).
    pub paced: bool,
    /// The mark that a newer stanza must share in order to take this one's place, see
    /// [`quiet`](super::quiet); 0 for none.
    pub tag: u32,
    /// The number of copies that the shard had taken before this one.
    pub number: u64,
}

/// A stanza that was not sent to its session.
#[derive(Debug)]
pub struct Unsent {
    /// The stanza.
    pub packet: Packet,
    /// The `to` that it would have carried.
    pub to: To,
    /// The number of copies that the shard had taken before this one: see
    /// [`Outboxes::pushed_total`](super::Outboxes::pushed_total).
    pub number: u64,
}

/// Returns whether a packet is presence that states availability, which a newer one of the same
/// sender replaces entirely (RFC 6121 §4).
pub(super) fn is_state(packet: &Packet) -> bool {
    packet.kind() == Kind::Presence && matches!(packet.type_(), StanzaType::Available | StanzaType::Unavailable)
}

/// Returns whether presence reports an event in a room, and not only a state: such as that the room
/// is new and waits for its configuration (XEP-0045 §10.1, §15.6.2). No later presence repeats it.
/// Status 110 (the occupant's own presence) is no event in available presence, but it is one in
/// unavailable presence: everything that the client knew of others in the room ends with it
/// (§7.14), and nobody tells the client who leaves before it comes again.
pub(super) fn tells_event(packet: &Packet) -> bool {
    let is_gone = packet.type_() == StanzaType::Unavailable;
    packet.namespaces().may_have(Namespaces::of(&[ns::MUC_USER]))
        && packet.stanza().child("x", ns::MUC_USER).is_some_and(|user| {
            let mut statuses = user.children().filter(|child| child.name() == "status");
            statuses.any(|status| is_gone || status.attr("code").as_deref() != Some("110"))
        })
}

impl OutboxItem {
    /// Returns the stanza, for the party that gets it instead of a session that ends; `None` if
    /// other code keeps it, or if it isn't a stanza.
    #[inline]
    pub fn given_back(self) -> Option<Unsent> {
        let Self { packet, to, number, paced, .. } = self;
        let is_known_elsewhere = paced || matches!(to, To::Kept | To::Copy | To::Nobody);
        (!is_known_elsewhere).then_some(Unsent { packet, to, number })
    }

    /// Writes the item in the form of the transport.
    pub fn render(&self, address: &Jid, transport: Transport, out: &mut Vec<u8>) {
        if transport != Transport::Tcp {
            transport.begin(rendered_len(&self.packet, address, self.to), self.declares(), out);
        }
        let declaration = transport.declaration(self.declares());
        match self.to {
            To::Bare | To::Kept => self.packet.render(declaration, address.bare_str().as_bytes(), out),
            To::Nobody => out.extend_from_slice(self.packet.bytes()),
            To::Full | To::Copy => match escape_if_needed(address) {
                None => self.packet.render(declaration, address.as_str().as_bytes(), out),
                Some(text) => self.packet.render(declaration, text.as_bytes(), out),
            },
        }
    }

    /// Returns the number of bytes that [`OutboxItem::render`] writes.
    #[inline]
    pub fn wire_len(&self, address: &Jid, transport: Transport) -> usize {
        transport.wire_len(rendered_len(&self.packet, address, self.to), self.declares())
    }

    /// Returns whether its root relies on the namespace that a stream has declared: an element that
    /// isn't a stanza has its own.
    fn declares(&self) -> bool {
        self.to != To::Nobody
    }
}

/// Returns the length of a stanza on a stream.
pub(super) fn rendered_len(packet: &Packet, address: &Jid, to: To) -> usize {
    packet.addressed_len(match to {
        To::Nobody => return packet.bytes().len(),
        To::Bare | To::Kept => address.bare_str().len(),
        To::Full | To::Copy => escape_if_needed(address).map_or(address.as_str().len(), |text| text.len()),
    })
}

/// Returns the address as attribute text, where a character of the resource needs escaping: rare,
/// so it isn't kept.
fn escape_if_needed(address: &Jid) -> Option<String> {
    let resource = address.resource()?;
    if resource.bytes().any(|byte| matches!(byte, b'\'' | b'"' | b'<' | b'>' | b'&')) {
        return Some(rookery_xml::escape_attr(address.as_str()).into_owned());
    }
    None
}
