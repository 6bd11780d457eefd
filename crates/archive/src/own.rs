//! Removes claims that others have put into a message on behalf of the account that gets it:
//! stanza ids (XEP-0359 §3, rule 2), which are removed whether the archive adds one or not, and
//! delay stamps by the account or its server (XEP-0203 §5), which only these may add.
//!
//! A room's message is checked once for each of its occupants. So the result for the last packet
//! is kept: the next recipient is compared with that, and nothing is read again.

use rookery_fanout::Packet;
use rookery_hub::World;
use rookery_jid::{Jid, JidRef};
use rookery_modkit::payload::has;
use rookery_xml::{Built, Child, Namespaces, ns};

/// The last packet that was checked, and the claims in it.
#[derive(Debug, Default)]
pub(super) struct LastClaims(Option<(Packet, Vec<Claim>)>);

/// The address that an element of a message names as its author.
#[derive(Debug, PartialEq, Eq)]
enum Claim {
    /// A stanza id.
    Id(Jid),
    /// A delay stamp.
    Delay(Jid),
}

impl Claim {
    fn read(child: &Child<'_>) -> Option<Self> {
        let author = |name| Jid::parse(&child.attr(name)?).ok();
        if child.is("stanza-id", ns::STANZA_ID) {
            return author("by").map(Self::Id);
        }
        if child.is("delay", ns::DELAY) { author("from").map(Self::Delay) } else { None }
    }

    fn is_in_name_of(&self, account: JidRef<'_>) -> bool {
        match self {
            Self::Id(by) => by.as_ref() == account.bare(),
            Self::Delay(from) => from.bare() == account.bare() || from.as_str() == account.domain(),
        }
    }
}

/// Returns the packet without the claims on behalf of that account; `None` if it has none.
pub(super) fn without(world: &mut World, packet: &Packet, account: JidRef<'_>) -> Option<Packet> {
    if !packet.namespaces().may_have(NAMESPACES) {
        return None;
    }
    let LastClaims(last) = world.state_mut();
    let is_known = last.as_ref().is_some_and(|(known, _)| std::ptr::eq(known.bytes(), packet.bytes()));
    if !is_known {
        *last = Some((packet.clone(), claims(packet)));
    }
    // The account's own resources and its server may make them.
    let is_trusted = packet.sender().is_some_and(|sender| {
        sender.bare() == account.bare() || (sender.local().is_none() && sender.domain() == account.domain())
    });
    let is_forged = |claim: &Claim| claim.is_in_name_of(account) && !(is_trusted && matches!(claim, Claim::Delay(_)));
    let has_any = last.as_ref().is_some_and(|(_, claims)| claims.iter().any(is_forged));
    has_any.then(|| packet.without_children(|child| Claim::read(child).is_some_and(|claim| is_forged(&claim))))
}

/// Returns the `<stanza-id/>` of an archive.
pub fn stanza_id(by: JidRef<'_>, id: &str) -> Built {
    Built::leaf("stanza-id", ns::STANZA_ID, &[("by", by.bare_str()), ("id", id)])
}

/// Returns the claims that a packet makes on behalf of others.
fn claims(packet: &Packet) -> Vec<Claim> {
    let mut claims = Vec::new();
    has(packet, |child| {
        claims.extend(Claim::read(&child));
        false
    });
    claims
}

const NAMESPACES: Namespaces = Namespaces::of(&[ns::STANZA_ID, ns::DELAY]);
