//! The strict one-pass scanner: finds the end of a stanza, proves it valid and notes the parts
//! that routing needs.
//!
//! A peer's bytes are forwarded unchanged, to other peers whose parsers would drop the connection
//! at the first fault. So everything is checked here, once, and nothing is allocated.
//!
//! # Invariants
//! - Anything that the scanner accepts, a conforming parser accepts, given the stream's default
//!   namespace. The differential test against an independent parser verifies it.
//! - A stanza that arrives in small pieces gives the same result as in one piece, and each byte is
//!   looked at a bounded number of times: between two calls the scanner remembers where it
//!   stopped, and only reads again a name or a reference, whose length is bounded.
//! - No result depends on bytes beyond the item.
//!
//! It is stricter than XML where that costs nobody anything: no raw carriage return in attributes,
//! no name above 512 bytes, no namespace above 1024, no character reference above eight digits, no
//! element with the prefix `xml`, in addition to what RFC 6120 §11.1 forbids; and no stanza in
//! which prefixes make a small one stand for a very large one ([`Fault::NamespacesTooBig`]).

use crate::fault::Fault;
use crate::lex::{self, MAX_NAME, QName, Stop};
use crate::limits::{Limits, MAX_DEPTH};
use crate::scope::{Namespace, NamespaceScope, default_may_be};
use crate::stanza::Stanza;
use crate::view::{Span, StanzaView};

/// The item at the start of the buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scan {
    /// The beginning of an item. Call again once there are more bytes.
    Partial,
    /// White space between stanzas, of this number of bytes (RFC 6120 §4.6.1).
    Space(usize),
    /// The closing tag of the stream, of this number of bytes (RFC 6120 §4.4).
    Close(usize),
    /// A whole first-level element of this number of bytes. [`Scanner::stanza`] returns a view of
    /// it.
    Stanza(usize),
    /// Like [`Stanza`](Self::Stanza), but the element uses a prefix that it doesn't declare. The
    /// stream header may declare it: [`slow::canonical`](crate::slow::canonical) rewrites such
    /// stanzas.
    Rare(usize),
}

/// Scans the items of one stream, one after the other. Holds the state of one unfinished item and
/// allocates nothing.
#[derive(Clone, Debug)]
pub struct Scanner {
    phase: ScanPhase,
    /// The place from which scanning continues.
    at: u32,
    /// Within an attribute value: everything before it has been checked. 0 otherwise.
    seen: u32,
    depth: u8,
    /// True if a prefix is declared neither by the stanza nor by XML.
    rare: bool,
    /// The element whose start tag is being read.
    tag: ScanTag,
    view: StanzaView,
    scope: NamespaceScope,
    open: [Open; MAX_DEPTH],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ScanPhase {
    /// Before the first byte of an item.
    Start,
    /// In a start tag, after its name or an attribute.
    Tag,
    /// In character data.
    Text,
    /// In a CDATA section.
    Cdata,
    /// After a whole item.
    Done,
}

/// A start tag being read.
#[derive(Clone, Copy, Debug, Default)]
struct ScanTag {
    start: u32,
    local: u32,
    end: u32,
    /// Value of its own `xmlns`.
    xmlns: Span,
}

/// An element whose end tag is awaited: its name, and how many prefixes are bound outside of it.
#[derive(Clone, Copy, Debug, Default)]
struct Open {
    start: u32,
    len: u16,
    bound: u8,
}

const _: () = assert!(MAX_NAME <= u16::MAX as usize, "the length of a name fits");
const _: () = assert!(MAX_DEPTH <= u8::MAX as usize, "a depth fits");

impl Default for Scanner {
    fn default() -> Self {
        Self::new()
    }
}

impl Scanner {
    /// Returns a scanner at the start of an item.
    pub fn new() -> Self {
        Self {
            phase: ScanPhase::Start,
            at: 0,
            seen: 0,
            depth: 0,
            rare: false,
            tag: ScanTag::default(),
            view: StanzaView::default(),
            scope: NamespaceScope::new(),
            open: [Open::default(); MAX_DEPTH],
        }
    }

    /// Forgets the current item, finished or not.
    #[inline]
    pub fn reset(&mut self) {
        self.phase = ScanPhase::Start;
    }

    /// Scans the item at the start of `buf`.
    ///
    /// After [`Scan::Partial`] call it again with the same bytes and more after them. After any
    /// other result the next call starts a new item, with a buffer from which the finished one is
    /// gone. After a fault the stream is over; the scanner needs a [`reset`](Self::reset) before
    /// other use.
    pub fn scan(&mut self, buf: &[u8], limits: &Limits) -> Result<Scan, Fault> {
        if matches!(self.phase, ScanPhase::Start | ScanPhase::Done) {
            self.begin();
        }
        // Bytes beyond the limit are not examined: an item that doesn't end before it is too big.
        let window = &buf[..buf.len().min(limits.bytes).min(u32::MAX as usize)];
        let mut at = self.at as usize;
        match self.item(window, &mut at, limits) {
            Ok(scan) => Ok(scan),
            Err(Stop::Partial) if window.len() < buf.len() => Err(Fault::TooBig),
            Err(Stop::Partial) => {
                self.at = at as u32;
                Ok(Scan::Partial)
            }
            Err(Stop::Fault(fault)) => Err(fault),
        }
    }

    /// Shows the stanza that the last call of [`scan`](Self::scan) found at the start of the same
    /// `buf`.
    #[inline]
    pub fn stanza<'a>(&self, buf: &'a [u8]) -> Stanza<'a> {
        Stanza::new(buf, self.view)
    }

    fn begin(&mut self) {
        self.phase = ScanPhase::Start;
        self.at = 0;
        self.seen = 0;
        self.depth = 0;
        self.rare = false;
        self.view = StanzaView::default();
        self.scope.clear();
    }

    /// Continues the item. `at` is always left at a place from which it can continue once more.
    #[inline(always)]
    fn item(&mut self, buf: &[u8], at: &mut usize, limits: &Limits) -> Result<Scan, Stop> {
        if self.phase == ScanPhase::Start {
            if let Some(between) = self.first_bytes(buf)? {
                return Ok(between);
            }
            *at = self.start_tag(buf, 0, limits)?;
        }
        loop {
            match self.phase {
                ScanPhase::Tag => self.attributes(buf, at, limits)?,
                ScanPhase::Text => self.text(buf, at, limits)?,
                ScanPhase::Cdata => {
                    lex::cdata(buf, at)?;
                    self.phase = ScanPhase::Text;
                }
                ScanPhase::Start | ScanPhase::Done => {
                    return Ok(if self.rare { Scan::Rare(*at) } else { Scan::Stanza(*at) });
                }
            }
        }
    }

    /// Tells white space and the end of the stream from the start of a stanza, which is `None`.
    #[inline(always)]
    fn first_bytes(&mut self, buf: &[u8]) -> Result<Option<Scan>, Stop> {
        match buf {
            [b'<', b'/', ..] => close(buf).map(|len| Some(Scan::Close(len))),
            [b'<', b'!', ..] => Err(lex::cdata_start(buf, 0).err().unwrap_or(Fault::NotWellFormed.into())),
            [b'<', b'?', ..] => Err(Fault::RestrictedXml.into()),
            [b'<', _, ..] => Ok(None),
            [b'<'] | [] => Err(Stop::Partial),
            [b, ..] if lex::is_space(*b) => {
                let len = lex::space(buf, 0).unwrap_or(buf.len());
                Ok(Some(Scan::Space(len)))
            }
            _ => Err(Fault::NotWellFormed.into()),
        }
    }

    /// Reads character data and the markup that ends it.
    #[inline(always)]
    fn text(&mut self, buf: &[u8], at: &mut usize, limits: &Limits) -> Result<(), Stop> {
        lex::text(buf, at)?;
        match buf.get(*at + 1) {
            Some(b'/') => *at = self.end_tag(buf, *at)?,
            Some(b'!') => {
                *at = lex::cdata_start(buf, *at)?;
                self.phase = ScanPhase::Cdata;
            }
            Some(b'?') => return Err(Fault::RestrictedXml.into()),
            Some(_) => *at = self.start_tag(buf, *at, limits)?,
            None => return Err(Stop::Partial),
        }
        Ok(())
    }

    /// Reads the name of the element whose `<` is at `at`, and returns the name's end.
    #[inline(always)]
    fn start_tag(&mut self, buf: &[u8], at: usize, limits: &Limits) -> Result<usize, Stop> {
        let name = lex::qname(buf, at + 1)?;
        if usize::from(self.depth) >= limits.depth.min(MAX_DEPTH) {
            return Err(Fault::TooDeep.into());
        }
        self.tag =
            ScanTag { start: name.start as u32, local: name.local as u32, end: name.end as u32, xmlns: Span::NONE };
        self.scope.enter();
        self.phase = ScanPhase::Tag;
        Ok(name.end)
    }

    /// Reads attributes up to the end of the start tag.
    #[inline(always)]
    fn attributes(&mut self, buf: &[u8], at: &mut usize, limits: &Limits) -> Result<(), Stop> {
        loop {
            let behind = *at;
            let mut next = behind;
            while let Some(&b) = buf.get(next)
                && lex::is_space(b)
            {
                next += 1;
            }
            match buf.get(next) {
                Some(b'>') => {
                    *at = next + 1;
                    return Ok(self.tag_is_open(buf, next, limits)?);
                }
                Some(b'/') => match buf.get(next + 1) {
                    Some(b'>') => {
                        *at = next + 2;
                        return Ok(self.tag_is_empty(buf, next, limits)?);
                    }
                    Some(_) => return Err(Fault::NotWellFormed.into()),
                    None => return Err(Stop::Partial),
                },
                Some(_) if next == behind => return Err(Fault::NotWellFormed.into()),
                Some(_) => {
                    // One byte of the white space is kept: it is the proof that there was some.
                    *at = next - 1;
                    *at = self.attribute(buf, next, limits)?;
                }
                None => {
                    *at = behind.max(next.saturating_sub(1));
                    return Err(Stop::Partial);
                }
            }
        }
    }

    /// Reads the attribute whose name starts at `start`, and returns its end.
    #[inline(always)]
    fn attribute(&mut self, buf: &[u8], start: usize, limits: &Limits) -> Result<usize, Stop> {
        let name = lex::qname(buf, start)?;
        let quote = lex::equals_quote(buf, name)?;
        let mut cursor = (quote + 1).max(self.seen as usize);
        if let Err(stop) = lex::value(buf, &mut cursor, buf[quote]) {
            self.seen = cursor as u32;
            return Err(stop);
        }
        self.seen = 0;
        let value = Span { start: quote as u32 + 1, end: cursor as u32 };
        let written = &buf[name.start..name.end];
        self.scope.note_attribute(buf, name, written, value, limits)?;
        if written == b"xmlns" {
            default_may_be(value.of(buf))?;
            self.scope.note_namespace(value.of(buf))?;
            self.tag.xmlns = value;
            self.view.namespaces.note(value.of(buf));
        } else if name.local != name.start && written.starts_with(b"xmlns:") {
            self.view.namespaces.note(value.of(buf));
        }
        if self.depth == 0 {
            self.view.note_attribute(written, value);
        }
        Ok(cursor + 1)
    }

    /// Continues at the `>` of a start tag.
    #[inline(always)]
    fn tag_is_open(&mut self, buf: &[u8], at: usize, limits: &Limits) -> Result<(), Fault> {
        self.tag_ends(buf, at, limits)?;
        let len = (self.tag.end - self.tag.start) as u16;
        self.open[usize::from(self.depth)] = Open { start: self.tag.start, len, bound: self.scope.bound_outside() };
        self.depth += 1;
        self.phase = ScanPhase::Text;
        Ok(())
    }

    /// Continues at the `/>` of an element without content.
    #[inline(always)]
    fn tag_is_empty(&mut self, buf: &[u8], at: usize, limits: &Limits) -> Result<(), Fault> {
        self.tag_ends(buf, at, limits)?;
        self.scope.leave(self.scope.bound_outside());
        self.phase = ScanPhase::Text;
        if self.depth == 0 {
            self.view.end(at, at + 2);
            self.phase = ScanPhase::Done;
        }
        Ok(())
    }

    /// Resolves prefixes, now that all attributes are known.
    #[inline(always)]
    fn tag_ends(&mut self, buf: &[u8], at: usize, limits: &Limits) -> Result<(), Fault> {
        self.rare |= !self.scope.check_attributes(buf)?;
        let ScanTag { start, local, end, xmlns } = self.tag;
        let own = if local != start {
            match self.scope.resolve(buf, &buf[start as usize..local as usize - 1])? {
                Some(namespace) => namespace,
                None => {
                    self.rare = true;
                    Namespace::Inherited
                }
            }
        } else if xmlns.is_some() {
            Namespace::Declared(xmlns)
        } else {
            Namespace::Inherited
        };
        self.scope.spell_out(own, limits)?;
        match self.depth {
            0 => self.view.note_root(
                buf,
                QName { start: start as usize, local: local as usize, end: end as usize },
                own,
                at,
            ),
            1 => self.view.note_child(buf, Span { start: local, end }, own),
            _ => {}
        }
        Ok(())
    }

    /// Reads the end tag whose `<` is at `at`, and returns its end.
    #[inline(always)]
    fn end_tag(&mut self, buf: &[u8], at: usize) -> Result<usize, Stop> {
        let open = self.open[usize::from(self.depth) - 1];
        let start = open.start as usize;
        let name = buf.get(start..start + usize::from(open.len)).unwrap_or_default();
        let rest = &buf[at + 2..];
        let end = at + 2 + name.len();
        match rest.get(..name.len()) {
            Some(found) if found == name => {}
            None if name.starts_with(rest) => return Err(Stop::Partial),
            _ => return Err(Fault::NotWellFormed.into()),
        }
        let end = if buf.get(end) == Some(&b'>') { end } else { lex::bounded_space(buf, end)? };
        if buf[end] != b'>' {
            return Err(Fault::NotWellFormed.into());
        }
        self.depth -= 1;
        self.scope.leave(open.bound);
        if self.depth == 0 {
            self.view.end(at, end + 1);
            self.phase = ScanPhase::Done;
        }
        Ok(end + 1)
    }
}

/// Reads the stream's closing tag. The header determines its prefix.
fn close(buf: &[u8]) -> Result<usize, Stop> {
    let name = lex::qname(buf, 2)?;
    if buf[name.local..name.end] != *b"stream" {
        return Err(Fault::NotWellFormed.into());
    }
    let end = lex::bounded_space(buf, name.end)?;
    if buf[end] == b'>' { Ok(end + 1) } else { Err(Fault::NotWellFormed.into()) }
}

#[cfg(test)]
mod tests;
