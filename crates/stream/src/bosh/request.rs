//! A request: a `<body/>` with the client's stanzas (XEP-0124 §6).

use std::borrow::Cow;

use rookery_xml::wrapper::Wrapper;
use rookery_xml::{Fault, Limits, Scan, Scanner, escape_attr, ns, slow};
use serde::{Deserialize, Serialize};

/// A request whose tag has been read.
#[derive(Debug)]
pub struct BoshBody {
    /// Its number (§14.1).
    pub rid: u64,
    /// The session that it belongs to.
    pub whose: Whose,
    /// The key that it shows (§15.4).
    pub key: Option<Box<str>>,
    /// The first key of a new sequence (§15.4, §15.5).
    pub newkey: Option<Box<str>>,
    /// The number of the newest response that the client has, with all before it (§9.2).
    pub ack: Option<u64>,
    /// The seconds for which the client wants to pause (§10).
    pub pause: Option<u32>,
    /// True if the session ends with it (§13).
    pub terminate: bool,
    /// The header with which the stream restarts, if it does (XEP-0206 §5).
    pub restart: Option<Box<BoshOpening>>,
    document: Box<[u8]>,
    wrapper: Wrapper,
    /// The place at which the search for the next element begins.
    at: usize,
}

/// The session that a request belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Whose {
    /// A session that the request opens (§7.1).
    New(Box<BoshOpening>),
    /// The session of this id.
    Session(u128),
    /// None: an id that was never given.
    Nobody,
}

/// The attributes of a request that opens a session or a stream (§7.1, XEP-0206 §3, §5).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BoshOpening {
    /// The domain.
    pub to: Option<String>,
    /// The address that the client claims.
    pub from: Option<String>,
    /// The language of texts for people.
    pub lang: Option<String>,
    /// The version of XMPP.
    pub version: Option<String>,
    /// The version of BOSH; a client that gives none is a legacy one (§17.1).
    pub ver: Option<String>,
    /// Seconds for which a request may wait.
    pub wait: Option<u32>,
    /// Requests that may wait at a time.
    pub hold: Option<u32>,
    /// The content type that replies must have.
    pub content: Option<String>,
    /// True if the client acknowledges replies.
    pub ack: bool,
}

impl BoshBody {
    /// Reads the tag of a request. Its content is read later, by [`BoshBody::next`]: the session
    /// decides whether it is read at all.
    ///
    /// # Errors
    /// The document isn't a `<body/>` of BOSH, or lacks an attribute that every request must have.
    pub fn read(document: Box<[u8]>, limits: &Limits) -> Result<Self, Fault> {
        let wrapper = Wrapper::read(&document, limits)?;
        let is_body = wrapper.name == "body" && wrapper.ns == ns::HTTP_BIND;
        let content = wrapper.default_ns.as_str();
        if !is_body || !matches!(content, "" | ns::HTTP_BIND | ns::CLIENT) {
            return Err(Fault::BadFormat);
        }
        let attr = |name: &str| wrapper.attr("", name);
        let boxed = |name: &str| attr(name).map(Box::from);
        let rid = attr("rid").and_then(number).filter(|rid| (1..=GREATEST).contains(rid)).ok_or(Fault::BadFormat)?;
        let ack = attr("ack").map(|ack| number(ack).ok_or(Fault::BadFormat)).transpose()?;
        let is_restart = matches!(wrapper.attr(ns::XBOSH, "restart"), Some("true" | "1"));
        let whose = match attr("sid") {
            None => Whose::New(Box::new(BoshOpening::read(&wrapper)?)),
            Some(sid) => parse_sid(sid).map_or(Whose::Nobody, Whose::Session),
        };
        Ok(Self {
            rid,
            key: boxed("key"),
            newkey: boxed("newkey"),
            ack,
            pause: seconds(attr("pause"))?,
            terminate: attr("type") == Some("terminate"),
            restart: if is_restart && attr("sid").is_some() {
                Some(Box::new(BoshOpening::read(&wrapper)?))
            } else {
                None
            },
            whose,
            at: wrapper.content,
            document,
            wrapper,
        })
    }

    /// Returns whether it only asks for waiting data: it has no element, and says nothing about the
    /// session.
    pub fn is_empty(&self) -> bool {
        !self.has_content() && self.restart.is_none() && self.pause.is_none() && !self.terminate
    }

    /// Returns whether it has content for the stream.
    pub fn has_content(&self) -> bool {
        let rest = self.rest().trim_ascii_start();
        !(self.wrapper.ends_with(rest) || self.wrapper.is_empty && rest.is_empty())
    }

    /// Returns the bytes of the whole request.
    pub fn len(&self) -> usize {
        self.document.len()
    }

    /// Returns the whole request as it came.
    pub fn document(&self) -> &[u8] {
        &self.document
    }

    /// Returns the place up to which it was processed.
    pub(super) fn read_to(&self) -> usize {
        self.at
    }

    /// Continues at a place up to which it was processed elsewhere; `None` if there is no such
    /// place.
    pub(super) fn read_on_from(&mut self, at: usize) -> Option<()> {
        if at >= self.document.len() {
            self.skip_content();
            return Some(());
        }
        self.document.get(at..)?;
        self.at = at.max(self.at);
        Some(())
    }

    /// Forgets its elements.
    pub fn skip_content(&mut self) {
        self.at = self.document.len();
        self.wrapper.is_empty = true;
    }

    /// Returns the next element of its content, which relies on nothing but the namespace of a
    /// client's stream; `None` after the last.
    ///
    /// # Errors
    /// The next content is neither an element nor the end of the request.
    pub fn next(&mut self, scanner: &mut Scanner, limits: &Limits) -> Result<Option<Cow<'_, [u8]>>, Fault> {
        let space = self.rest().len() - self.rest().trim_ascii_start().len();
        self.at += space;
        if !self.has_content() {
            self.skip_content();
            return Ok(None);
        }
        if self.wrapper.is_empty {
            return Err(Fault::NotWellFormed);
        }
        scanner.reset();
        let start = self.at;
        let scanned = scanner.scan(self.rest(), limits);
        scanner.reset();
        let (len, is_rare) = match scanned? {
            Scan::Stanza(len) => (len, false),
            Scan::Rare(len) => (len, true),
            // The end tag of another element, or the end of the content before that of the element.
            _ => return Err(Fault::NotWellFormed),
        };
        self.at += len;
        let element = self.document.get(start..self.at).unwrap_or_default();
        if is_rare {
            return slow::canonical(element, ns::CLIENT, &self.wrapper.prefixes)
                .map(|element| Some(Cow::Owned(element)));
        }
        Ok(Some(Cow::Borrowed(element)))
    }

    fn rest(&self) -> &[u8] {
        self.document.get(self.at..).unwrap_or_default()
    }
}

impl BoshOpening {
    fn read(wrapper: &Wrapper) -> Result<Self, Fault> {
        let owned = |ns: &str, name: &str| wrapper.attr(ns, name).map(str::to_owned);
        let content = owned("", "content").filter(|content| is_content_type(content));
        Ok(Self {
            // An empty address counts as none (§17.2).
            to: owned("", "to").filter(|to| !to.is_empty()),
            from: owned("", "from"),
            lang: owned(ns::XML, "lang"),
            version: owned(ns::XBOSH, "version"),
            ver: owned("", "ver"),
            wait: seconds(wrapper.attr("", "wait"))?,
            hold: seconds(wrapper.attr("", "hold"))?,
            content,
            ack: wrapper.attr("", "ack").is_some(),
        })
    }

    /// Returns the header of the stream that it opens (RFC 6120 §4.7).
    pub fn stream_header(&self) -> Vec<u8> {
        let mut header = format!("<stream:stream xmlns='{}' xmlns:stream='{}'", ns::CLIENT, ns::STREAMS);
        let version = self.version.as_deref().unwrap_or("1.0");
        let attributes =
            [("to", self.to.as_deref()), ("from", self.from.as_deref()), ("xml:lang", self.lang.as_deref())];
        for (name, value) in attributes.into_iter().chain([("version", Some(version))]) {
            if let Some(value) = value {
                header.push_str(&format!(" {name}='{}'", escape_attr(value)));
            }
        }
        header.push('>');
        header.into_bytes()
    }
}

/// Returns the id of a session as it is written.
pub fn write_sid(sid: u128) -> String {
    format!("{sid:032x}")
}

/// Reads an id, only in the form in which it was written, so that a session has only one id.
fn parse_sid(text: &str) -> Option<u128> {
    let is_written = text.len() == 32 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    if is_written { u128::from_str_radix(text, 16).ok() } else { None }
}

/// Reads a number as the schema has it: digits, no sign.
fn number(text: &str) -> Option<u64> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

/// Reads a number of seconds or requests; an absurdly large one counts as the largest.
fn seconds(text: Option<&str>) -> Result<Option<u32>, Fault> {
    let Some(text) = text else { return Ok(None) };
    let number = number(text).ok_or(Fault::BadFormat)?;
    Ok(Some(u32::try_from(number).unwrap_or(u32::MAX)))
}

/// Returns whether a text can stand in a header of a reply.
fn is_content_type(text: &str) -> bool {
    (1..=MOST_CONTENT_TYPE).contains(&text.len()) && text.bytes().all(|byte| matches!(byte, b' '..=b'~'))
}

/// The greatest number of a request: beyond it some programs lose precision (§14.1).
const GREATEST: u64 = (1 << 53) - 1;
/// Bytes of a content type that a client wants.
const MOST_CONTENT_TYPE: usize = 100;
