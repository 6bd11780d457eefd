//! Traces: show an operator the way of the stanzas of one address, with each decision and its
//! reason.
//!
//! A trace is shared by the shards of a process, which write their sightings into it, and by its
//! reader. Shards of other nodes have traces of their own for the same reader, who asks for their
//! sightings again and again. Without a trace, a stanza on its way costs the check of one length;
//! sightings are put into words only for stanzas that a trace is about.
//!
//! # Invariants
//!
//! * A trace ends: by its reader, and by its time even if the reader is gone; for a reader on
//!   another node, as soon as that one has stopped asking for a while. Its stanzas are bounded in
//!   number, and so are the sightings that wait for the reader; those beyond the bound are counted.
//! * Users' texts are only visible to a trace that asks for them, and elements named as passwords
//!   never are.
//! * The number of a stanza follows from the stanza, so that it is the same on every shard and
//!   node, for its copies, for its answer and for an error that comes back. Where equal stanzas
//!   follow each other, each that comes in counts as another one of that number.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use rookery_base::Map;
use rookery_base::lock::lock;
use rookery_jid::{Jid, JidRef};
use rookery_observe::{Bound, Most, Per, Unit};
use rookery_xml::escape_attr;
use serde::{Deserialize, Serialize};

/// The addresses whose stanzas a trace is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Subject {
    /// An account, a room or a session: its incoming and outgoing stanzas.
    Address(Jid),
    /// A domain, such as that of another server or of a component.
    Domain(String),
}

impl Subject {
    /// Reads a subject as an operator writes it.
    ///
    /// # Errors
    /// The text is not an address; the error says so in words.
    pub fn parse(text: &str) -> Result<Self, String> {
        let jid = Jid::parse(text).map_err(|error| format!("{text:?} isn't an address: {error}"))?;
        Ok(match jid.local() {
            Some(_) => Self::Address(jid),
            None => Self::Domain(jid.domain().to_owned()),
        })
    }

    /// Returns the subject as text.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Address(jid) => jid.as_str(),
            Self::Domain(domain) => domain,
        }
    }

    /// Returns whether it is a single session, and not an account or a domain with all of its
    /// sessions.
    pub fn is_session(&self) -> bool {
        matches!(self, Self::Address(own) if own.is_full())
    }

    /// Returns the last byte of the localpart with the `@` behind it, and its place.
    fn edge(&self) -> Option<(usize, [u8; 2])> {
        let Self::Address(own) = self else { return None };
        let (place, &last) = own.local()?.as_bytes().iter().enumerate().next_back()?;
        Some((place, [last, b'@']))
    }

    /// Returns whether an address belongs to the subject: an account includes its resources, a
    /// session only itself.
    pub fn has(&self, jid: JidRef<'_>) -> bool {
        match self {
            Self::Address(own) if own.resource().is_some() => own.as_ref() == jid,
            Self::Address(own) => own.as_str() == jid.bare_str(),
            Self::Domain(own) => own == jid.domain(),
        }
    }
}

/// The kinds of sightings of a stanza.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Step {
    /// It came in: from a session, another server or a component.
    Received,
    /// It waits behind others, or for the store.
    Waits,
    /// It is forwarded: to another shard, a service, another server.
    Goes,
    /// A session gets it.
    Given,
    /// It is kept: in an archive, or until its user comes.
    Kept,
    /// Something was noted about it, or done in addition.
    Noted,
    /// Its sender gets an error.
    Refused,
    /// It goes no further, and its sender isn't told.
    Stopped,
    /// It was a request, and this server replies to it.
    Answered,
    /// Something has happened to a session, and not to a stanza.
    Session,
}

impl Step {
    /// Returns the word that the command line and the API use for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Received => "received",
            Self::Waits => "waits",
            Self::Goes => "goes",
            Self::Given => "given",
            Self::Kept => "kept",
            Self::Noted => "noted",
            Self::Refused => "refused",
            Self::Stopped => "stopped",
            Self::Answered => "answered",
            Self::Session => "session",
        }
    }
}

/// One thing that was seen of a stanza.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sighting {
    /// Its place in the order of all that the trace has seen.
    pub number: u64,
    /// The time of day, in milliseconds since 1970: that of the tick in which it happened.
    pub unix_ms: u64,
    /// The shard where it happened.
    pub shard: usize,
    /// The number of the stanza; `None` if it is about a session.
    pub stanza: Option<u32>,
    /// The kind of the sighting.
    pub step: Step,
    /// The decision and its reason, in words.
    pub why: String,
    /// The sender, if there is one.
    pub from: String,
    /// The recipient.
    pub to: String,
    /// Message, presence or iq.
    pub kind: String,
    /// Its `type`, as it was written.
    pub type_: String,
    /// Its `id`; empty if it has none.
    pub id: String,
    /// Set for the first sighting of a stanza.
    pub first: Option<First>,
}

/// Returns whether such a sighting of a stanza of this type is the arrival of a stanza that isn't
/// the answer to another one.
pub(crate) fn begins(step: Step, type_: &str) -> bool {
    step == Step::Received && !is_answer(type_)
}

/// Returns whether a stanza of this type is an answer, which has the number of its request.
pub(crate) fn is_answer(type_: &str) -> bool {
    matches!(type_, "error" | "result")
}

/// The stanza itself, for its first sighting.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct First {
    /// Its length in bytes.
    pub bytes: usize,
    /// The names of its children with their namespaces and lengths, or, for a trace that may see
    /// contents, the stanza.
    pub content: String,
}

impl Sighting {
    /// Returns whether it is the arrival of a stanza that isn't the answer to another one.
    pub fn begins(&self) -> bool {
        begins(self.step, &self.type_)
    }

    /// Returns about how many bytes it takes to send to another node.
    fn bytes(&self) -> usize {
        let texts = [&self.why, &self.from, &self.to, &self.kind, &self.type_, &self.id];
        let content = self.first.as_ref().map_or(0, |first| first.content.len());
        texts.into_iter().map(String::len).sum::<usize>() + content + FIXED_BYTES
    }
}

/// The number of stanzas that a trace may have, and the detail in which it shows them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TraceExtent {
    /// True if the texts of stanzas are shown.
    pub has_contents: bool,
    /// The number of stanzas after which the trace ends, at most [`MOST_STANZAS`].
    pub most_stanzas: usize,
}

/// The stanzas that a trace has seen so far.
#[derive(Debug)]
pub struct TracedStanzas {
    known: Map<u32, EqualStanzas>,
    count: usize,
    most: usize,
    is_full: bool,
}

/// The stanzas of one number.
#[derive(Debug, Default)]
struct EqualStanzas {
    received: u32,
    /// True once there was no room for another one: its sightings can't be told from those of the
    /// ones before.
    is_over: bool,
}

/// The place of a sighting among those of its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StanzaPlace {
    /// The stanza's place among equal ones, from 1 on.
    pub which: u32,
    /// True for the first sighting of the stanza.
    pub is_first: bool,
}

impl TracedStanzas {
    /// Returns an empty list for at most this many stanzas.
    pub fn new(most: usize) -> Self {
        Self { known: Map::default(), count: 0, most, is_full: false }
    }

    /// Admits a sighting of the stanza with a number; `begins` if it is the arrival of a stanza.
    /// Returns `None` if there is no room for another stanza.
    pub fn admit(&mut self, number: u32, begins: bool) -> Option<StanzaPlace> {
        // A stanza may have waited before it is received.
        let is_first = match self.known.get(&number) {
            None => true,
            Some(known) if known.is_over => return None,
            Some(known) => begins && known.received > 0,
        };
        if is_first && self.count >= self.most {
            self.is_full = true;
            self.known.entry(number).and_modify(|known| known.is_over = true);
            return None;
        }
        let known = self.known.entry(number).or_default();
        known.received += u32::from(begins);
        self.count += usize::from(is_first);
        Some(StanzaPlace { which: known.received.max(1), is_first })
    }

    /// Returns whether there were more stanzas than it may have.
    pub fn is_full(&self) -> bool {
        self.is_full
    }
}

/// The trace of an operator: its subjects, and the sightings for its reader.
#[derive(Debug)]
pub struct Trace {
    reader: u128,
    subject: Subject,
    /// The subject as the server writes it in an attribute. While there is any trace, each stanza
    /// is compared with its subject several times on its way, so addresses that are still in a
    /// stanza are compared as bytes.
    written: Vec<u8>,
    /// The place of the last byte of the subject's localpart, and that byte with the `@` behind it:
    /// nearly all other addresses differ there, however alike they are in front. `None` for a
    /// domain.
    edge: Option<(usize, [u8; 2])>,
    /// True if the subject is plain ASCII, and no number between brackets, which has several forms.
    has_one_form: bool,
    has_contents: bool,
    /// The time at which the trace ends, by the clock of the shards.
    until_ms: AtomicU64,
    numbers: AtomicU64,
    stanzas: Mutex<TracedStanzas>,
    seen: Vec<Mutex<WaitingSightings>>,
}

/// The sightings of one shard that wait for the reader.
#[derive(Debug, Default)]
struct WaitingSightings {
    waiting: VecDeque<Sighting>,
    left_out: u64,
}

impl Trace {
    /// Returns a trace that is about `subject` for this number of shards until a time on their
    /// clock. `reader` is a random number by which the shards of all nodes know the reader.
    pub fn new(reader: u128, subject: Subject, extent: TraceExtent, until_ms: u64, shards: usize) -> Self {
        let written = escape_attr(subject.as_str()).as_bytes().to_vec();
        Self {
            reader,
            has_one_form: written.is_ascii() && !written.contains(&b'[') && !written.contains(&b'&'),
            edge: subject.edge(),
            written,
            subject,
            has_contents: extent.has_contents,
            until_ms: AtomicU64::new(until_ms),
            numbers: AtomicU64::new(0),
            stanzas: Mutex::new(TracedStanzas::new(extent.most_stanzas.min(MOST_STANZAS))),
            seen: (0..shards.max(1)).map(|_| Mutex::default()).collect(),
        }
    }

    /// Returns the number of its reader.
    pub fn reader(&self) -> u128 {
        self.reader
    }

    /// Returns the addresses that the trace is about.
    pub fn subject(&self) -> &Subject {
        &self.subject
    }

    /// Returns whether it shows the texts of stanzas.
    pub fn has_contents(&self) -> bool {
        self.has_contents
    }

    /// Returns the time at which the trace ends, by the clock of the shards.
    pub fn until_ms(&self) -> u64 {
        self.until_ms.load(Ordering::Relaxed)
    }

    /// Makes the trace end at another time, by the clock of the shards.
    pub fn set_until_ms(&self, until_ms: u64) {
        self.until_ms.store(until_ms, Ordering::Relaxed);
    }

    /// Returns whether there were more stanzas than it may have.
    pub fn is_full(&self) -> bool {
        lock(&self.stanzas).is_full()
    }

    /// Takes the sightings since the last call, in order, and the number of those that found no
    /// room.
    pub fn take(&self) -> (Vec<Sighting>, u64) {
        self.take_within(usize::MAX)
    }

    /// Takes sightings as [`Trace::take`] does, but leaves those that exceed this number of bytes
    /// per shard to the next call. Takes at least one of each shard.
    pub fn take_within(&self, bytes: usize) -> (Vec<Sighting>, u64) {
        let (mut taken, mut left_out) = (Vec::new(), 0);
        for seen in &self.seen {
            let mut seen = lock(seen);
            left_out += std::mem::take(&mut seen.left_out);
            let mut used = 0;
            while let Some(sighting) = seen.waiting.pop_front_if(|it| used == 0 || used + it.bytes() <= bytes) {
                used += sighting.bytes();
                taken.push(sighting);
            }
        }
        taken.sort_by_key(|sighting| sighting.number);
        (taken, left_out)
    }

    /// Returns whether it is about a stanza between these addresses.
    #[inline]
    pub(crate) fn concerns(&self, from: Option<JidRef<'_>>, to: JidRef<'_>) -> bool {
        from.is_some_and(|from| self.has(from)) || self.has(to)
    }

    /// Returns whether an address belongs to the subject.
    #[inline]
    pub(crate) fn has(&self, address: JidRef<'_>) -> bool {
        self.may_be(address.as_str().as_bytes()) && self.subject.has(address)
    }

    /// Returns whether an address belongs to the subject, which the server has written in an
    /// attribute.
    #[inline]
    pub(crate) fn has_written(&self, address: &[u8]) -> bool {
        self.may_be(address) && self.is_subjects(address)
    }

    /// Returns false if a prepared address surely doesn't belong to the subject. A localpart
    /// contains nothing that has to be escaped, so the address may be text or an attribute.
    #[inline]
    pub(crate) fn may_be(&self, address: &[u8]) -> bool {
        let Some((place, edge)) = self.edge else { return true };
        address.get(place..).and_then(<[u8]>::first_chunk) == Some(&edge)
    }

    fn is_subjects(&self, address: &[u8]) -> bool {
        match &self.subject {
            subject if subject.is_session() => address == self.written,
            Subject::Address(_) => is_or_has_resource_of(&self.written, address),
            Subject::Domain(_) => is_or_has_resource_of(&self.written, domain_on(address)),
        }
    }

    /// Returns false if an address that a client has written surely doesn't belong to the subject.
    ///
    /// Clients may write letters as references and in another case, and a domain in Unicode or with
    /// a dot at its end. But in no form has an address of plain ASCII another letter or digit in
    /// the place of its own, behind equal ones.
    pub(crate) fn may_have(&self, address: &[u8]) -> bool {
        let address = if self.is_domain() { domain_on(address) } else { address };
        let differs = |(one, other): &(&u8, &u8)| !one.eq_ignore_ascii_case(other);
        match address.iter().zip(&self.written).find(differs) {
            Some((other, _)) => !other.is_ascii_alphanumeric() || !self.has_one_form,
            None => address.len() >= self.written.len() || !self.has_one_form,
        }
    }

    fn is_domain(&self) -> bool {
        matches!(self.subject, Subject::Domain(_))
    }

    /// Admits a sighting, as [`TracedStanzas::admit`] does. Returns whether it is the first of its
    /// stanza, and `None` if there is no room for it.
    pub(crate) fn admit(&self, number: u32, begins: bool) -> Option<bool> {
        lock(&self.stanzas).admit(number, begins).map(|seen| seen.is_first)
    }

    /// Adds a sighting of a shard, and gives it its number.
    pub(crate) fn add(&self, mut sighting: Sighting) {
        let Some(seen) = self.seen.get(sighting.shard) else { return };
        let mut seen = lock(seen);
        if seen.waiting.len() >= MOST_SIGHTINGS {
            seen.left_out += 1;
            return;
        }
        sighting.number = self.numbers.fetch_add(1, Ordering::Relaxed);
        seen.waiting.push_back(sighting);
    }
}

/// Returns whether an address is this one, or has a resource of it.
fn is_or_has_resource_of(own: &[u8], address: &[u8]) -> bool {
    address.strip_prefix(own).is_some_and(|rest| rest.first().is_none_or(|&next| next == b'/'))
}

/// Returns an address from its domain on. Only a localpart ends with `@`, and a resource, which may
/// have one, begins with `/`.
fn domain_on(address: &[u8]) -> &[u8] {
    match address.iter().position(|&byte| byte == b'@' || byte == b'/') {
        Some(place) if address[place] == b'@' => &address[place + 1..],
        _ => address,
    }
}

/// Traces of a process at a time.
pub const MOST_TRACES: usize = 4;
/// Stanzas of a trace.
pub const MOST_STANZAS: usize = 10_000;
/// Seconds of a trace.
pub const MOST_SECONDS: u64 = 3600;
/// Sightings of one trace that wait on one shard for their reader.
const MOST_SIGHTINGS: usize = 2048;
/// Bytes of a sighting besides its texts, about.
const FIXED_BYTES: usize = 40;
/// Bytes of a stanza that are shown.
pub(crate) const MOST_CONTENT: usize = 4096;

/// The bounds of traces, for the page of limits.
pub const BOUNDS: &[Bound] = &[
    Bound::on("traces at a time", Per::Server, Most::Fixed(MOST_TRACES as u64), Unit::Number)
        .or("a further command is refused"),
    Bound::on("stanzas of a trace", Per::Server, Most::Fixed(MOST_STANZAS as u64), Unit::Number).or("the trace ends"),
    Bound::on(
        "sightings that wait for the reader of a trace",
        Per::Shard,
        Most::Fixed(MOST_SIGHTINGS as u64),
        Unit::Number,
    )
    .or("further ones are counted, but left out"),
];

#[cfg(test)]
mod tests {
    use rookery_xml::unescape;

    use super::*;

    fn sighting(shard: usize) -> Sighting {
        Sighting {
            number: 0,
            unix_ms: 0,
            shard,
            stanza: Some(1),
            step: Step::Noted,
            why: String::new(),
            from: String::new(),
            to: String::new(),
            kind: String::new(),
            type_: String::new(),
            id: String::new(),
            first: None,
        }
    }

    #[test]
    fn an_account_has_its_resources_and_a_session_only_itself() {
        let jid = |text: &str| Jid::parse(text).unwrap();
        let (account, session) = (Subject::parse("a@x").unwrap(), Subject::parse("a@x/r").unwrap());
        let domain = Subject::parse("X").unwrap();
        for (text, has) in
            [("a@x", [true, false, true]), ("a@x/r", [true, true, true]), ("b@x/r", [false, false, true])]
        {
            assert_eq!([&account, &session, &domain].map(|subject| subject.has(jid(text).as_ref())), has, "{text}");
        }
        assert!(Subject::parse("a@").is_err());
    }

    #[test]
    fn written_addresses_are_compared_like_parsed_ones() {
        let subjects = ["a@x", "a@x/r", "x", "a@x/r&r", "[::1]", "münchen.example", "a@münchen.example"];
        let addresses = [
            "a@x",
            "A@X",
            "a@x.",
            "a@xy",
            "ab@x",
            "b@x",
            "a@x/r",
            "a@x/R",
            "a@x/r2",
            "x",
            "X",
            "x/a@x",
            "y/a@x",
            "b@x/r",
            "y",
            "a@y",
            "y/x",
            "a@x/r&amp;r",
            "&#97;@x",
            "a@[::1]",
            "a@[0:0:0:0:0:0:0:1]",
            "münchen.example/r",
            "a@xn--mnchen-3ya.example",
            "a@MÜNCHEN.example/r",
        ];
        let extent = TraceExtent { has_contents: false, most_stanzas: 2 };
        for subject in subjects {
            let trace = Trace::new(7, Subject::parse(subject).unwrap(), extent, 0, 1);
            for address in addresses {
                let Ok(jid) = Jid::parse(&unescape(address.as_bytes())) else { continue };
                let (has, written) = (trace.subject.has(jid.as_ref()), escape_attr(jid.as_str()).into_owned());
                assert_eq!(trace.has_written(written.as_bytes()), has, "{subject} {written}");
                assert!(!has || trace.may_have(address.as_bytes()), "{subject} {address}");
            }
            assert!(!trace.may_have(b"somebody@else.example/r") || !subject.is_ascii() || subject.contains(['[', '&']));
            assert!(!trace.has_written(b""), "a stanza without a sender");
        }
    }

    #[test]
    fn equal_stanzas_count_as_often_as_they_come_in() {
        let mut stanzas = TracedStanzas::new(2);
        let [waits, comes] = [false, true];
        let mut admit = |begins| stanzas.admit(7, begins).map(|seen| (seen.which, seen.is_first));
        assert_eq!((admit(waits), admit(comes), admit(waits)), (Some((1, true)), Some((1, false)), Some((1, false))));
        assert_eq!((admit(comes), admit(waits)), (Some((2, true)), Some((2, false))));
        assert_eq!((admit(comes), admit(waits)), (None, None), "there is no room for a third one");
        assert!(stanzas.is_full());
    }

    #[test]
    fn stanzas_and_sightings_are_bounded() {
        let extent = TraceExtent { has_contents: false, most_stanzas: 2 };
        let trace = Trace::new(7, Subject::parse("a@x").unwrap(), extent, 0, 2);
        let admit = |number| trace.admit(number, false);
        assert_eq!([admit(1), admit(2), admit(1)], [Some(true), Some(true), Some(false)]);
        assert!(!trace.is_full());
        assert_eq!(admit(3), None);
        assert!(trace.is_full());
        for _ in 0..MOST_SIGHTINGS + 3 {
            trace.add(sighting(1));
        }
        trace.add(sighting(0));
        trace.add(sighting(2));
        let (taken, left_out) = trace.take();
        assert_eq!((taken.len(), left_out), (MOST_SIGHTINGS + 1, 3));
        assert!(taken.is_sorted_by_key(|sighting| sighting.number), "shards are in one order");
        assert_eq!(trace.take(), (Vec::new(), 0));
        (0..5).for_each(|_| trace.add(sighting(0)));
        let bytes = sighting(0).bytes();
        assert_eq!([3 * bytes - 1, 1, bytes].map(|bytes| trace.take_within(bytes).0.len()), [2, 1, 1]);
    }
}
