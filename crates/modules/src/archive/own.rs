//! Stanza ids by an account's own address that others have put into a message (XEP-0359 §3, rule 2): they go, whether the archive adds one or not.
//!
//! A room's message comes here once for each of its occupants. So what was found in the last packet is kept: the next recipient is compared with
//! that, and nothing is read again.

use std::cell::RefCell;

use rookery_fanout::Packet;
use rookery_jid::{Jid, JidRef};
use rookery_xml::{Built, Child, Namespaces, Writer, ns};

use crate::payload::has;

/// Finds ids by a recipient's own address.
#[derive(Debug, Default)]
pub(super) struct OwnIds {
    last: RefCell<Option<(Packet, Vec<Jid>)>>,
}

impl OwnIds {
    /// The packet without ids by that account; `None` if it has none.
    pub(super) fn without(&self, packet: &Packet, account: JidRef<'_>) -> Option<Packet> {
        if !packet.namespaces().may_have(Namespaces::of(&[ns::STANZA_ID])) {
            return None;
        }
        let mut last = self.last.borrow_mut();
        let is_known = last.as_ref().is_some_and(|(known, _)| std::ptr::eq(known.bytes(), packet.bytes()));
        if !is_known {
            *last = Some((packet.clone(), authors(packet)));
        }
        let is_own = |jid: &Jid| jid.as_ref() == account.bare();
        let is_forged = last.as_ref().is_some_and(|(_, authors)| authors.iter().any(is_own));
        is_forged.then(|| packet.without_children(|child| author(child).is_some_and(|author| is_own(&author))))
    }
}

/// The `<stanza-id/>` of an archive.
pub(crate) fn stanza_id(by: JidRef<'_>, id: &str) -> Built {
    let mut stanza_id = Writer::with_ns("stanza-id", ns::STANZA_ID);
    stanza_id.attr("by", by.bare_str()).attr("id", id);
    stanza_id.finish()
}

/// Whose ids a packet has.
fn authors(packet: &Packet) -> Vec<Jid> {
    let mut authors = Vec::new();
    has(packet, |child| {
        authors.extend(author(&child));
        false
    });
    authors
}

fn author(child: &Child<'_>) -> Option<Jid> {
    if child.is("stanza-id", ns::STANZA_ID) { Jid::parse(&child.attr("by")?).ok() } else { None }
}
