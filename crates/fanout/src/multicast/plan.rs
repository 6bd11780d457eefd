//! The plan of a multicast: the forms of a stanza, and the recipients of each.

use std::ops::Range;

use rookery_base::{Keyed, Map, Set};
use rookery_jid::{Jid, JidRef};
use rookery_xml::{Writer, ns};

use super::distant::{Distant, ListedAddress, MARK, Recipient};
use super::header::{AddressType, HeaderAddress, HeaderTarget, MulticastHeader};
use crate::packet::Packet;

/// The place of an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hop {
    /// On this server.
    Here,
    /// On another server.
    Away,
    /// It is a multicast service: a stanza with a header sent to it would go round in circles.
    Nowhere,
}

/// The forms of a stanza with a header, and the recipients of each.
#[derive(Debug)]
pub struct Plan<'a> {
    /// The form that everybody sees.
    pub shown: Packet,
    /// The recipients of this server who get `shown`.
    pub to_shown: Vec<&'a HeaderTarget<'a>>,
    /// The form for blind copies.
    pub hidden: Option<Packet>,
    /// The recipients of this server who get `hidden`: plain blind copies.
    pub to_hidden: Vec<&'a HeaderTarget<'a>>,
    /// The recipients of this server who get a form of their own: blind copies whose address has
    /// more than a JID.
    pub rich: Vec<(&'a HeaderTarget<'a>, Packet)>,
    /// The recipients of other servers, by domain.
    pub distant: Vec<Distant>,
    /// The bytes that were written for this plan: a measure of the work, for tests and counters.
    pub work: usize,
}

impl<'a> Plan<'a> {
    /// Plans the delivery of a packet, whose header this is.
    pub fn new(packet: &Packet, header: &'a MulticastHeader<'a>, groups: Groups<'a>) -> Self {
        let block = PlanBlock::new(header, &groups);
        let start = header.element.content().map_or(0, |content| content.start);
        let shown = packet.with_replaced(header.element.content().unwrap_or_default(), &block.bytes);
        let end = start + block.bytes.len();
        let mut plan = Plan {
            work: shown.bytes().len(),
            shown,
            to_shown: Vec::new(),
            hidden: None,
            to_hidden: Vec::new(),
            rich: Vec::new(),
            distant: Vec::new(),
        };
        for &address in &groups.here {
            let Some(target) = &address.jid else { continue };
            match (address.type_, address.is_rich) {
                (AddressType::Bcc, true) => {
                    plan.rich.push((target, plan.shown.with_replaced(end..end, &without_mark(address))))
                }
                (AddressType::Bcc, false) => plan.to_hidden.push(target),
                _ => plan.to_shown.push(target),
            }
        }
        debug_assert!(plan.shown.bytes().len() >= end, "the block lies within the packet");
        let declared = header.element.written_name() != "addresses";
        if !plan.to_hidden.is_empty() || groups.away.iter().any(|group| group.has_plain_bcc()) {
            plan.hidden = Some(plan.shown.with_own(end, declared));
            plan.work += plan.shown.bytes().len();
        }
        plan.work += plan.rich.iter().map(|(_, packet)| packet.bytes().len()).sum::<usize>();
        let mut at = 0;
        for group in groups.away {
            plan.distant.push(plan.distant(group, start, &block.away, &mut at, end));
        }
        plan.work += plan
            .distant
            .iter()
            .flat_map(|distant| &distant.recipients)
            .map(|one| one.address.own_bytes())
            .sum::<usize>();
        plan
    }

    /// Returns the part of one domain. `at` counts the addresses of the block.
    fn distant(
        &self,
        group: PlanGroup<'_>,
        start: usize,
        block: &[Range<usize>],
        at: &mut usize,
        end: usize,
    ) -> Distant {
        let mut recipients = Vec::with_capacity(group.shown.len() + group.blind.len());
        for address in group.shown {
            debug_assert!(*at < block.len(), "each shown address has its place in the block");
            let range = block.get(*at).cloned().unwrap_or_default();
            *at += 1;
            let Some(target) = &address.jid else { continue };
            let listed =
                ListedAddress::Shown { range: range.start + start..range.end + start, name_end: address.name_end };
            recipients.push(Recipient { jid: target.as_ref().to_jid(), address: listed });
        }
        for address in group.blind {
            let Some(target) = &address.jid else { continue };
            let written = without_mark(address);
            let own = address.is_rich.then(|| self.shown.with_replaced(end..end, &written));
            let listed = ListedAddress::Blind { address: written, own };
            recipients.push(Recipient { jid: target.as_ref().to_jid(), address: listed });
        }
        let (shown, hidden) = (self.shown.clone(), self.hidden.clone());
        Distant { domain: group.domain, shown, hidden, end, wrapped: false, recipients }
    }
}

/// Returns the recipients of one remote domain on the trusted route: all of them blind, and the
/// stanza has no header.
pub fn bcc(domain: String, packet: &Packet, recipients: impl IntoIterator<Item = Jid>) -> Distant {
    // An empty text makes `<presence/>` into a start tag and an end tag, between which a header
    // fits.
    let shown = packet.with_end_tag();
    let end = shown.content_end();
    let recipients = recipients.into_iter().map(|jid| {
        let mut address = Writer::with_ns("addresses", ns::ADDRESS);
        address.start("address").attr("type", "bcc").attr("jid", jid.as_str());
        let address = address.finish();
        let inner = address.bytes().iter().position(|&byte| byte == b'>').map_or(0, |at| at + 1);
        let len = address.bytes().len() - b"</addresses>".len();
        let address = address.bytes().get(inner..len).unwrap_or_default().into();
        Recipient { jid, address: ListedAddress::Blind { address, own: None } }
    });
    Distant { domain, recipients: recipients.collect(), shown, hidden: None, end, wrapped: true }
}

/// The recipients of a header by next hop, each once.
#[derive(Debug)]
pub struct Groups<'a> {
    here: Vec<&'a HeaderAddress<'a>>,
    away: Vec<PlanGroup<'a>>,
}

#[derive(Debug)]
struct PlanGroup<'a> {
    domain: String,
    shown: Vec<&'a HeaderAddress<'a>>,
    blind: Vec<&'a HeaderAddress<'a>>,
}

impl PlanGroup<'_> {
    fn has_plain_bcc(&self) -> bool {
        self.blind.iter().any(|address| !address.is_rich)
    }
}

impl<'a> Groups<'a> {
    /// Sorts the recipients. `hop` tells where an address is.
    pub fn new(header: &'a MulticastHeader<'a>, hop: impl Fn(JidRef<'_>) -> Hop) -> Self {
        let mut groups = Self { here: Vec::new(), away: Vec::new() };
        // Peers choose the keys: both tables are keyed at random.
        let mut seen = Set::with_capacity_and_hasher(header.addresses.len(), Keyed::default());
        let mut domains = Map::default();
        // A recipient who is listed twice gets one copy, a visible one if possible.
        let wanted = || header.addresses.iter().filter(|address| address.is_wanted());
        let visible = wanted().filter(|address| address.type_ != AddressType::Bcc);
        for address in visible.chain(wanted().filter(|address| address.type_ == AddressType::Bcc)) {
            let Some(jid) = address.jid.as_ref().map(HeaderTarget::as_ref) else { continue };
            if !seen.insert(jid.as_str()) {
                continue;
            }
            match hop(jid) {
                Hop::Here => {
                    groups.here.push(address);
                    continue;
                }
                Hop::Nowhere => continue,
                Hop::Away => {}
            }
            let at = *domains.entry(jid.domain()).or_insert_with(|| {
                groups.away.push(PlanGroup { domain: jid.domain().to_owned(), shown: Vec::new(), blind: Vec::new() });
                groups.away.len() - 1
            });
            if let Some(group) = groups.away.get_mut(at) {
                if address.type_ == AddressType::Bcc { group.blind.push(address) } else { group.shown.push(address) }
            }
        }
        groups
    }
}

/// The addresses that everybody sees: information, those delivered to before, then the recipients
/// by hop, marked.
struct PlanBlock {
    bytes: Vec<u8>,
    /// The places of the addresses of other servers' recipients, hop by hop.
    away: Vec<Range<usize>>,
}

impl PlanBlock {
    fn new(header: &MulticastHeader<'_>, groups: &Groups<'_>) -> Self {
        let mut block = Self { bytes: Vec::with_capacity(header.element.bytes().len() * 3 / 2), away: Vec::new() };
        for address in &header.addresses {
            let was_delivered = address.delivered && address.type_ != AddressType::Bcc;
            if was_delivered || !address.type_.is_recipient() {
                block.bytes.extend_from_slice(address.bytes);
            }
        }
        for address in groups.here.iter().filter(|address| address.type_ != AddressType::Bcc) {
            push_marked(&mut block.bytes, address);
        }
        for address in groups.away.iter().flat_map(|group| &group.shown) {
            let start = block.bytes.len();
            push_marked(&mut block.bytes, address);
            block.away.push(start..block.bytes.len());
        }
        block
    }
}

/// Appends an address with `delivered='true'`, otherwise as written.
fn push_marked(out: &mut Vec<u8>, address: &HeaderAddress<'_>) {
    let (bytes, name) = (address.bytes, address.name_end);
    let cut = address.mark.clone().unwrap_or(name..name);
    for part in [bytes.get(..name), Some(MARK), bytes.get(name..cut.start), bytes.get(cut.end..)] {
        out.extend_from_slice(part.unwrap_or_default());
    }
}

/// Returns an address without mark, otherwise as written.
fn without_mark(address: &HeaderAddress<'_>) -> Box<[u8]> {
    let bytes = address.bytes;
    match &address.mark {
        None => bytes.into(),
        Some(mark) => {
            [bytes.get(..mark.start), bytes.get(mark.end..)].into_iter().flatten().flatten().copied().collect()
        }
    }
}
