//! A stanza in canonical form: built once, shared by all recipients.
//!
//! In canonical form, the root has no `xmlns` (the stream's default namespace applies), no `to`
//! (spliced in per session), and a `from` stamped by the server. Otherwise the bytes are the
//! sender's: stanzas leave as they were validated on the way in.

use std::borrow::Cow;
use std::ops::Range;

use rookery_jid::{Jid, JidRef};
use rookery_xml::{Built, Child, Fault, Kind, Limits, Namespaces, Outline, Stanza, Writer, escape_attr, unescape};
use triomphe::ThinArc;

/// The `type` of a stanza, by kind: RFC 6121 §4.7.1, §5.2.2, RFC 6120 §8.2.3.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StanzaType {
    /// `<message/>` without a type, of type `normal`, or of an unknown type (RFC 6121 §5.2.2).
    Normal,
    /// `<message type='chat'/>`.
    Chat,
    /// `<message type='groupchat'/>`.
    Groupchat,
    /// `<message type='headline'/>`.
    Headline,
    /// `<presence/>` without a type.
    Available,
    /// `<presence type='unavailable'/>`.
    Unavailable,
    /// `<presence type='subscribe'/>`.
    Subscribe,
    /// `<presence type='subscribed'/>`.
    Subscribed,
    /// `<presence type='unsubscribe'/>`.
    Unsubscribe,
    /// `<presence type='unsubscribed'/>`.
    Unsubscribed,
    /// `<presence type='probe'/>`.
    Probe,
    /// `<iq type='get'/>`.
    Get,
    /// `<iq type='set'/>`.
    Set,
    /// `<iq type='result'/>`.
    Result,
    /// Type `error` of any kind.
    Error,
}

impl StanzaType {
    /// Returns the type of a stanza from its `type` attribute as written. Returns `None` if the
    /// standard knows no such type: a presence or IQ that deserves `bad-request`.
    pub fn of(kind: Kind, raw: Option<&[u8]>) -> Option<Self> {
        Some(match (kind, raw) {
            (Kind::Message, Some(b"chat")) => Self::Chat,
            (Kind::Message, Some(b"groupchat")) => Self::Groupchat,
            (Kind::Message, Some(b"headline")) => Self::Headline,
            (Kind::Message, Some(b"error")) => Self::Error,
            (Kind::Message, _) => Self::Normal,
            (Kind::Presence, None) => Self::Available,
            (Kind::Presence, Some(b"unavailable")) => Self::Unavailable,
            (Kind::Presence, Some(b"subscribe")) => Self::Subscribe,
            (Kind::Presence, Some(b"subscribed")) => Self::Subscribed,
            (Kind::Presence, Some(b"unsubscribe")) => Self::Unsubscribe,
            (Kind::Presence, Some(b"unsubscribed")) => Self::Unsubscribed,
            (Kind::Presence, Some(b"probe")) => Self::Probe,
            (Kind::Presence, Some(b"error")) => Self::Error,
            (Kind::Iq, Some(b"get")) => Self::Get,
            (Kind::Iq, Some(b"set")) => Self::Set,
            (Kind::Iq, Some(b"result")) => Self::Result,
            (Kind::Iq, Some(b"error")) => Self::Error,
            _ => return None,
        })
    }
}

/// A stanza in canonical form. Cloning counts a reference.
#[derive(Debug, Clone)]
pub struct Packet(ThinArc<PacketHead, u8>);

#[derive(Debug, Clone)]
struct PacketHead {
    kind: Kind,
    type_: StanzaType,
    body: bool,
    /// True if its sender is of this server.
    local: bool,
    /// True if it may have reached its recipient before, see [`Packet::again`].
    again: bool,
    outline: Outline,
    own: Option<OwnAddress>,
    namespaces: Namespaces,
}

/// The place where each recipient's own blind address is spliced in (XEP-0033 §4.1.3).
#[derive(Debug, Clone, Copy)]
struct OwnAddress {
    at: u32,
    /// True if the element around it has another default namespace.
    declared: bool,
}

impl Packet {
    /// Returns the canonical form of a stanza that came in from a session, sent by `from`; `lang`
    /// is the stream's `xml:lang` for a stanza without its own (RFC 6120 §4.7.4).
    #[inline]
    pub fn from_session(stanza: Stanza<'_>, type_: StanzaType, from: &str, lang: Option<&str>) -> Self {
        Self::canonical(stanza, type_, Some(from), lang, true)
    }

    /// Returns the canonical form of a stanza of another server, whose stream has proven the domain
    /// of `from`: the address has been prepared and checked. `lang` is the stream's.
    #[inline]
    pub fn from_server(stanza: Stanza<'_>, type_: StanzaType, from: &str, lang: Option<&str>) -> Self {
        Self::canonical(stanza, type_, Some(from), lang, false)
    }

    /// Returns the canonical form of a stanza that this server wrote, for one of its own addresses.
    /// Its `from` stays.
    ///
    /// # Errors
    /// As [`Packet::from_bytes`]; the writer makes no such stanza.
    pub fn from_built(built: &Built) -> Result<Self, Fault> {
        Self::read(built.bytes(), true)
    }

    /// Returns the canonical form of one whole stanza from its bytes, as [`Packet::from_built`]
    /// does; for stanzas from the store.
    ///
    /// # Errors
    /// The fault of the scanner if the bytes aren't a stanza, as in a damaged store.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, Fault> {
        Self::read(bytes, false)
    }

    pub(crate) fn read(bytes: &[u8], local: bool) -> Result<Self, Fault> {
        let limits = Limits { bytes: usize::MAX, ..Limits::AFTER_LOGIN };
        let stanza = Stanza::parse(bytes, &limits)?;
        let type_ = stanza.raw_type().map(|raw| raw.bytes);
        let type_ = StanzaType::of(stanza.kind(), type_).ok_or(Fault::NotWellFormed)?;
        Ok(Self::canonical(stanza, type_, stanza.from().as_deref(), None, local))
    }

    /// Returns an element that isn't a stanza, such as those of stream management (XEP-0198): it
    /// has neither sender nor recipient.
    pub fn element(built: &Built) -> Self {
        let head = PacketHead {
            kind: Kind::Other,
            type_: StanzaType::Normal,
            body: false,
            local: false,
            again: false,
            outline: Outline::of(built),
            own: None,
            namespaces: Namespaces::in_bytes(built.bytes()),
        };
        Self(ThinArc::from_header_and_slice(head, built.bytes()))
    }

    fn canonical(stanza: Stanza<'_>, type_: StanzaType, from: Option<&str>, lang: Option<&str>, local: bool) -> Self {
        let built = stanza.canonical(from, lang);
        let head = PacketHead {
            kind: stanza.kind(),
            type_,
            body: stanza.has_body(),
            local,
            again: false,
            outline: Outline::of(&built),
            own: None,
            namespaces: stanza.namespaces(),
        };
        Self(ThinArc::from_header_and_slice(head, built.bytes()))
    }

    /// Returns a view of the stanza. It was scanned when the packet was made; that isn't done
    /// again.
    #[inline]
    pub fn stanza(&self) -> Stanza<'_> {
        let head = &self.0.header.header;
        head.outline.stanza(self.bytes(), head.kind, head.body, head.namespaces)
    }

    /// Returns the kind of the stanza: message, presence or iq.
    #[inline]
    pub fn kind(&self) -> Kind {
        self.0.header.header.kind
    }

    /// Returns its `type`, as the kind of stanza defines it.
    #[inline]
    pub fn type_(&self) -> StanzaType {
        self.0.header.header.type_
    }

    /// Returns whether the stanza is a message with a `<body/>`.
    #[inline]
    pub fn has_body(&self) -> bool {
        self.0.header.header.body
    }

    /// Returns the same stanza with the mark that it may have reached its recipient before: it went
    /// to a node that has died, and nobody knows how far that node had processed it.
    #[must_use]
    pub fn again(&self) -> Self {
        let mut head = self.0.header.header.clone();
        head.again = true;
        Self(ThinArc::from_header_and_slice(head, self.bytes()))
    }

    /// Returns the same stanza without the mark of [`Packet::again`], for readers that don't know
    /// it.
    #[must_use]
    pub fn once(&self) -> Self {
        let mut head = self.0.header.header.clone();
        head.again = false;
        Self(ThinArc::from_header_and_slice(head, self.bytes()))
    }

    /// Returns whether the stanza may have reached its recipient before.
    #[inline]
    pub fn is_again(&self) -> bool {
        self.0.header.header.again
    }

    /// Returns whether its sender is known to be of this server, which stamped or wrote the stanza.
    /// For a packet from the store this isn't known.
    #[inline]
    pub fn is_local(&self) -> bool {
        self.0.header.header.local
    }

    /// Returns the namespaces that the stanza may name.
    #[inline]
    pub fn namespaces(&self) -> Namespaces {
        self.0.header.header.namespaces
    }

    /// Returns the canonical bytes, without `to`.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.0.slice
    }

    /// Returns the bytes up to the point where ` to='…'` belongs, and those after it.
    pub fn split_at_to(&self) -> (&[u8], &[u8]) {
        self.bytes().split_at_checked(self.0.header.header.outline.name_end()).unwrap_or((self.bytes(), &[]))
    }

    /// Returns the sender's address as written in the attribute (still escaped); empty if there is
    /// none.
    #[inline]
    pub fn from_escaped(&self) -> &[u8] {
        self.0.header.header.outline.from(self.bytes())
    }

    /// Returns the sender, if there is one; the server stamped it, so it is valid.
    #[inline]
    pub fn sender(&self) -> Option<Jid> {
        Jid::parse(&unescape(self.from_escaped())).ok()
    }

    /// Returns the sender if its address is plain ASCII, as nearly all are, without an allocation.
    /// `None` doesn't mean that there is no sender.
    #[inline]
    pub fn plain_sender(&self) -> Option<JidRef<'_>> {
        let text = std::str::from_utf8(self.from_escaped()).ok().filter(|text| !text.contains('&'))?;
        JidRef::parse_prepared(text)
    }

    /// Returns the `id` attribute, unescaped; `None` if the stanza has none, which only requests
    /// and replies must have (RFC 6120 §8.1.3).
    #[inline]
    pub fn id(&self) -> Option<Cow<'_, str>> {
        self.0.header.header.outline.id(self.bytes()).map(unescape)
    }

    /// Returns the stanza with ` to='…'` spliced in, as a store keeps it. `to` is escaped here.
    #[inline]
    pub fn with_to(&self, to: &str) -> Vec<u8> {
        let to = escape_attr(to);
        let mut out = Vec::with_capacity(self.addressed_len(to.len()));
        self.render(b"", to.as_bytes(), &mut out);
        out
    }

    /// Appends the stanza for a recipient, whose address is attribute text. `declaration`: a
    /// further attribute with the space before it.
    pub(crate) fn render(&self, declaration: &[u8], to: &[u8], out: &mut Vec<u8>) {
        let (name, rest) = self.split_at_to();
        for part in [name, declaration, TO, to, b"'"] {
            out.extend_from_slice(part);
        }
        match self.around_own() {
            None => out.extend_from_slice(rest),
            Some((before, opening, after)) => {
                for part in [before, opening, to, OWN_END, after] {
                    out.extend_from_slice(part);
                }
            }
        }
    }

    /// Writes the stanza as a child of another, as its recipient gets it (XEP-0297 §3.1).
    pub fn forward(&self, to: &str, writer: &mut Writer) {
        let own = self.0.header.header.own.map(|own| {
            let address = [own.opening(), escape_attr(to).as_bytes(), OWN_END].concat();
            self.with_replaced(own.at as usize..own.at as usize, &address)
        });
        writer.stanza_to(&own.as_ref().unwrap_or(self).stanza(), to);
    }

    /// Returns the length of [`Packet::render`] for an address of that length.
    #[inline]
    pub(crate) fn addressed_len(&self, to: usize) -> usize {
        let own = self.0.header.header.own.map_or(0, |own| own.opening().len() + to + OWN_END.len());
        self.bytes().len() + TO.len() + to + 1 + own
    }

    /// Returns, for a stanza into which the recipient's own blind address is spliced, the bytes
    /// between `to` and the address, the beginning of the address, and the rest.
    #[inline]
    pub(crate) fn around_own(&self) -> Option<(&[u8], &'static [u8], &[u8])> {
        let own = self.0.header.header.own?;
        let at = (own.at as usize).checked_sub(self.0.header.header.outline.name_end())?;
        let (before, after) = self.split_at_to().1.split_at_checked(at)?;
        Some((before, own.opening(), after))
    }

    /// Returns the same stanza with a part after its start tag replaced by bytes that are valid
    /// there.
    pub(crate) fn with_replaced(&self, range: Range<usize>, by: &[u8]) -> Self {
        let bytes = self.bytes();
        let (before, after) =
            (bytes.get(..range.start).unwrap_or_default(), bytes.get(range.end..).unwrap_or_default());
        let mut head = self.0.header.header.clone();
        head.namespaces = head.namespaces | Namespaces::in_bytes(by);
        Self(ThinArc::from_header_and_slice(head, &[before, by, after].concat()))
    }

    /// Returns the same stanza with an end tag, if it has none.
    #[inline]
    pub(crate) fn with_end_tag(&self) -> Self {
        let Some(head) = self.bytes().strip_suffix(b"/>") else { return self.clone() };
        let name = self.split_at_to().0.get(1..).unwrap_or_default();
        let by = [b"></", name, b">"].concat();
        self.with_replaced(head.len()..self.bytes().len(), &by)
    }

    /// Returns the place where the end tag begins.
    #[inline]
    pub(crate) fn content_end(&self) -> usize {
        self.bytes().iter().rposition(|&byte| byte == b'<').unwrap_or_default()
    }

    /// Returns the same stanza, with each recipient's own blind address at that place. `declared`:
    /// the address has to name its namespace.
    pub(crate) fn with_own(&self, at: usize, declared: bool) -> Self {
        let mut head = self.0.header.header.clone();
        head.own = Some(OwnAddress { at: at as u32, declared });
        Self(ThinArc::from_header_and_slice(head, self.bytes()))
    }

    /// Returns the place where each recipient's own blind address is spliced in, as
    /// [`Packet::with_own`] set it.
    #[inline]
    pub(crate) fn own(&self) -> Option<(usize, bool)> {
        self.0.header.header.own.map(|own| (own.at as usize, own.declared))
    }

    /// Returns the same stanza with one more child element, the last.
    #[must_use]
    pub fn with_child(&self, child: &Built) -> Self {
        let opened = self.with_end_tag();
        let end = opened.content_end();
        opened.with_replaced(end..end, child.bytes())
    }

    /// Returns the same stanza without the children that `drop` names; the packet itself if there
    /// are none.
    #[must_use]
    pub fn without_children(&self, mut drop: impl FnMut(&Child<'_>) -> bool) -> Self {
        let stanza = self.stanza();
        if !stanza.children().any(|child| drop(&child)) {
            return self.clone();
        }
        match Self::read(stanza.without_children(drop).bytes(), self.is_local()) {
            Ok(packet) if self.is_again() => packet.again(),
            Ok(packet) => packet,
            Err(_) => self.clone(),
        }
    }
}

impl OwnAddress {
    fn opening(self) -> &'static [u8] {
        if self.declared { OWN_DECLARED } else { OWN }
    }
}

/// The bytes before the address in a rendered stanza.
pub(crate) const TO: &[u8] = b" to='";
/// The bytes after a recipient's own blind address.
pub(crate) const OWN_END: &[u8] = b"'/>";
const OWN: &[u8] = b"<address type='bcc' jid='";
const OWN_DECLARED: &[u8] = b"<address xmlns='http://jabber.org/protocol/address' type='bcc' jid='";

#[cfg(test)]
mod tests {
    use super::*;

    fn scan(bytes: &[u8], with: impl FnOnce(Stanza<'_>) -> Packet) -> Packet {
        with(Stanza::parse(bytes, &Limits::AFTER_LOGIN).unwrap())
    }

    #[test]
    fn the_canonical_form_has_the_stamp_and_neither_to_nor_xmlns() {
        let source =
            b"<message to='b@x/r' xmlns='jabber:client' id=\"a1\" from='evil@x' type='chat'><body>hi</body></message>";
        let packet = scan(source, |stanza| Packet::from_session(stanza, StanzaType::Chat, "a@x/q", Some("de")));
        assert_eq!(
            std::str::from_utf8(packet.bytes()).unwrap(),
            "<message from='a@x/q' xml:lang='de' id=\"a1\" type='chat'><body>hi</body></message>"
        );
        assert_eq!(packet.from_escaped(), b"a@x/q");
        assert_eq!(packet.id().as_deref(), Some("a1"));
        assert!(packet.has_body());
        assert_eq!(
            packet.with_to("b@x"),
            b"<message to='b@x' from='a@x/q' xml:lang='de' id=\"a1\" type='chat'><body>hi</body></message>"
        );
    }

    #[test]
    fn an_own_language_is_kept_and_the_prefix_of_the_root_dropped_from_nothing_else() {
        let packet = scan(b"<presence xml:lang='en' to='b@x'/>", |stanza| {
            Packet::from_session(stanza, StanzaType::Available, "a@x/q", Some("de"))
        });
        assert_eq!(packet.bytes(), b"<presence from='a@x/q' xml:lang='en'/>");
    }

    #[test]
    fn a_child_is_added_behind_the_others() {
        let mut delay = rookery_xml::Writer::with_ns("delay", "urn:xmpp:delay");
        delay.attr("stamp", "now");
        let delay = delay.finish();
        let packet =
            Packet::from_bytes(b"<message from='a@x'><body>1 &lt; 2</body></message >").unwrap().with_child(&delay);
        let text = String::from_utf8_lossy(packet.bytes()).into_owned();
        assert!(text.starts_with("<message from='a@x'><body>1 &lt; 2</body><delay xmlns="), "{text}");
        assert!(Packet::from_bytes(packet.bytes()).is_ok(), "{text}");
        let packet = Packet::from_bytes(b"<presence from='a@x' />").unwrap().with_child(&delay);
        assert!(Packet::from_bytes(packet.bytes()).is_ok(), "{:?}", String::from_utf8_lossy(packet.bytes()));
    }

    #[test]
    fn a_packet_shows_its_stanza_as_a_scan_does_whatever_was_added() {
        let mark = Writer::with_ns("private", rookery_xml::ns::CARBONS).finish();
        let first = Packet::from_bytes(b"<message from='a@x' id='1' type='chat' xml:lang='de' />").unwrap();
        for packet in [first.clone(), first.with_child(&mark), first.with_child(&mark).with_child(&mark)] {
            let (shown, scanned) = (packet.stanza(), Stanza::parse(packet.bytes(), &Limits::AFTER_LOGIN).unwrap());
            assert_eq!(shown.bytes(), scanned.bytes());
            assert_eq!((shown.head(), shown.insert_point()), (scanned.head(), scanned.insert_point()));
            assert_eq!((shown.type_(), shown.lang(), shown.ns()), (scanned.type_(), scanned.lang(), scanned.ns()));
            let children = |stanza: Stanza<'_>| stanza.children().map(|child| child.range()).collect::<Vec<_>>();
            assert_eq!(children(shown), children(scanned));
            assert!(packet.namespaces().may_have(scanned.namespaces()) || packet.bytes() == first.bytes());
        }
    }

    #[test]
    fn a_forwarded_copy_has_the_address_of_its_recipient() {
        let packet = Packet::from_bytes(b"<message from='a@x'><addresses/><body>hi</body></message>").unwrap();
        let place = packet.bytes().windows(2).position(|bytes| bytes == b"/>").unwrap();
        let opened = packet.with_replaced(place..place + 2, b"></addresses>");
        let mut copy = Writer::new("message");
        opened.with_own(place + 1, true).forward("b@x/'", &mut copy);
        assert_eq!(
            String::from_utf8_lossy(copy.finish().bytes()),
            "<message><message to='b@x/&apos;' from='a@x'><addresses><address \
             xmlns='http://jabber.org/protocol/address' type='bcc' jid='b@x/&apos;'/></addresses>\
             <body>hi</body></message></message>"
        );
    }

    #[test]
    fn children_are_taken_away() {
        let packet = Packet::from_bytes(b"<message from='a@x'><x/>a<body>hi</body><x><x/></x></message>").unwrap();
        let without = packet.without_children(|child| child.name() == "x");
        assert_eq!(without.bytes(), b"<message from='a@x'>a<body>hi</body></message>");
        assert!(without.has_body());
        let without = without.without_children(|child| child.name() == "body");
        assert!(!without.has_body());
        assert!(std::ptr::eq(without.without_children(|_| true).bytes(), without.bytes()));
    }

    #[test]
    fn a_stored_stanza_keeps_its_sender() {
        let packet = Packet::from_bytes(b"<message from='a@x/q' to='b@x' id='7'/>").unwrap();
        assert_eq!(packet.bytes(), b"<message from='a@x/q' id='7'/>");
        assert_eq!(packet.from_escaped(), b"a@x/q");
        assert_eq!(packet.id().as_deref(), Some("7"));
        assert!(Packet::from_bytes(b"<message>").is_err());
        assert!(Packet::from_bytes(b"<iq type='odd'/>").is_err());
    }
}
