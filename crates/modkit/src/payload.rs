//! Payloads of messages: which of them are meaningful later, and to a person's other devices.
//!
//! Receipts, markers, reactions, retractions, invitations, encrypted messages and calls have no
//! body and are nevertheless part of a conversation (XEP-0280 §6.1, XEP-0313 §5.1.1). Everything
//! else without a body is transient, or for programs.

use rookery_fanout::Packet;
use rookery_xml::{Child, ns};

/// Returns whether a message has a child for which `is_it` returns true.
pub fn has(packet: &Packet, is_it: impl FnMut(Child<'_>) -> bool) -> bool {
    packet.stanza().children().any(is_it)
}

/// Returns whether a child makes a message part of a conversation, even without a body.
pub fn is_lasting(child: &Child<'_>) -> bool {
    match &*child.ns() {
        ns::RECEIPTS => child.name() == "received",
        ns::MARKERS => child.name() != "markable",
        ns::MUC_USER => is_invitation(child),
        namespace => LASTING.contains(&namespace),
    }
}

/// Returns whether a child is one that instant messaging clients send each other (XEP-0280 §6.1).
pub fn is_of_instant_messaging(child: &Child<'_>) -> bool {
    child.ns() == ns::CHAT_STATES || child.ns() == ns::RECEIPTS || child.ns() == ns::MARKERS || is_lasting(child)
}

/// Returns whether a child is an invitation to a room, direct (XEP-0249) or mediated (XEP-0045
/// §7.8.2), or says that one was declined.
pub fn is_invitation(child: &Child<'_>) -> bool {
    let is_mediated = |inner: Child<'_>| matches!(inner.name(), "invite" | "decline") && inner.ns() == ns::MUC_USER;
    child.is("x", ns::CONFERENCE) || (child.is("x", ns::MUC_USER) && child.children().any(is_mediated))
}

const LASTING: [&str; 13] = [
    ns::ENCRYPTED,
    ns::OOB,
    ns::CONFERENCE,
    ns::CORRECT,
    ns::JINGLE_MESSAGE,
    ns::OPENPGP,
    ns::OMEMO,
    ns::OMEMO_AXOLOTL,
    ns::RETRACT,
    ns::RETRACT_0,
    ns::REACTIONS,
    ns::FILE_SHARING,
    ns::CALL_INVITES,
];
