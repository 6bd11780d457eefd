//! A scripted client, which sends what the test says and checks what it receives.
//!
//! Before the client examines its input, the server works until nothing changes any more. A stanza
//! that isn't there then will never arrive, so a test can assert silence without waiting.

use rookery_base::Transport;
use rookery_jid::Jid;
use rookery_xml::{Element, Writer, ns};

use crate::net::PeerEnd;
use crate::pattern;
use crate::server::Server;
use crate::websocket;
use crate::wire::{Item, Wire};

/// A scripted client with one connection.
#[derive(Debug)]
pub struct Client {
    server: Server,
    /// Its connection.
    pub wire: Wire,
    /// The name that dialogues use for it: the local part of its address, unless the test says
    /// otherwise.
    pub name: String,
    /// Its full JID, once it is bound.
    pub jid: Option<Jid>,
    /// The last stream features that it was offered.
    pub features: Option<Element>,
    /// The traffic of the stream, for the message of a test that fails.
    story: Vec<String>,
}

impl Client {
    pub(crate) fn new(server: &Server, peer: PeerEnd) -> Self {
        let (server, wire) = (server.clone(), Wire::new(peer));
        Self { server, wire, name: "client".into(), jid: None, features: None, story: Vec::new() }
    }

    /// Returns this client under another name in dialogues.
    #[must_use]
    pub fn with_name(mut self, name: &str) -> Self {
        self.name = name.into();
        self
    }

    pub(crate) fn server(&self) -> &Server {
        &self.server
    }

    /// Returns its full JID.
    pub fn full(&self) -> &str {
        self.jid.as_ref().map(Jid::as_str).expect("bound")
    }

    /// Returns its bare JID.
    pub fn bare(&self) -> &str {
        self.jid.as_ref().map(Jid::bare_str).expect("bound")
    }

    /// Sends text. The server doesn't work until the test examines the result.
    pub fn send(&mut self, xml: &str) {
        self.tell("C", &|| xml.to_owned());
        self.wire.send(xml.as_bytes());
    }

    /// Sends bytes unchanged, whatever the transport does with text.
    pub fn send_bytes(&mut self, bytes: &[u8]) {
        self.wire.send_bytes(bytes);
    }

    /// Makes the server work, and reads until nothing arrives any more.
    pub fn pump(&mut self) {
        self.server.settle();
        while self.wire.receive() {
            self.server.settle();
        }
    }

    /// Returns the next item from the server, if there is any.
    pub fn take(&mut self) -> Option<Item> {
        if self.wire.peek().is_none() {
            self.pump();
        }
        let item = self.wire.take();
        self.tell("S", &|| match &item {
            None => "(nothing)".into(),
            Some(Item::Header(_)) => "<stream:stream ...>".into(),
            Some(Item::End) => "</stream:stream>".into(),
            Some(Item::Element(element)) => xml(element),
        });
        item
    }

    /// Returns the next element.
    pub fn expect_element(&mut self) -> Element {
        match self.take() {
            Some(Item::Element(element)) => element,
            other => self.fail(&format!("an element was expected, not {other:?}")),
        }
    }

    /// Returns the next element, which must match a pattern (see [`pattern`]).
    pub fn expect(&mut self, pattern: &str) -> Element {
        let wanted = pattern::element(pattern);
        let found = match self.take() {
            Some(Item::Element(element)) => element,
            other => self.fail(&format!("expected {pattern}\n  but got {other:?}")),
        };
        if let Err(difference) = pattern::matches(&wanted, &found) {
            self.fail(&format!("expected {pattern}\n  but got  {}\n  {difference}", xml(&found)));
        }
        found
    }

    /// Expects the next elements to match these patterns, in any order.
    pub fn expect_in_any_order(&mut self, patterns: &[&str]) {
        let mut open: Vec<_> = patterns.iter().map(|pattern| pattern::element(pattern)).collect();
        while !open.is_empty() {
            let found = self.expect_element();
            let at = open.iter().position(|pattern| pattern::matches(pattern, &found).is_ok());
            match at {
                Some(at) => drop(open.remove(at)),
                None => self.fail(&format!("expected one of {patterns:?}\n  but got  {}", xml(&found))),
            }
        }
    }

    /// Returns the next element, which must be a message with this body from that sender.
    pub fn expect_message(&mut self, from: &str, body: &str) -> Element {
        let found = self.expect_element();
        let is_it = found.is("message", ns::CLIENT)
            && found.attr("from") == Some(from)
            && found.child_text("body", ns::CLIENT).as_deref() == Some(body);
        if !is_it {
            self.fail(&format!("expected '{body}' from {from}\n  but got  {}", xml(&found)));
        }
        found
    }

    /// Expects the copy of its own presence that a resource gets (RFC 6121 §4.2.2).
    pub fn expect_presence_of_itself(&mut self) {
        let found = self.expect_element();
        if !(found.is("presence", ns::CLIENT) && found.attr("from") == Some(self.full())) {
            self.fail(&format!("expected its own presence\n  but got  {}", xml(&found)));
        }
    }

    /// Checks that nothing arrives.
    pub fn expect_nothing(&mut self) {
        if let Some(item) = self.take() {
            self.fail(&format!("silence was expected, not {item:?}"));
        }
        if !self.wire.rest().is_empty() {
            self.fail(&format!("silence was expected, not a part: {}", String::from_utf8_lossy(self.wire.rest())));
        }
    }

    /// Returns all available elements.
    pub fn all(&mut self) -> Vec<Element> {
        let mut all = Vec::new();
        self.pump();
        while let Some(item) = self.wire.take() {
            match item {
                Item::Element(element) => all.push(element),
                other => self.fail(&format!("an element was expected, not {other:?}")),
            }
        }
        all
    }

    /// Returns the bodies of all available messages, in their order.
    pub fn bodies(&mut self) -> Vec<String> {
        let all = self.all();
        all.iter().filter_map(|element| element.child_text("body", ns::CLIENT)).collect()
    }

    /// Returns the bodies of all messages read so far, without making the server work.
    pub fn unsettled_bodies(&mut self) -> Vec<String> {
        let items = std::iter::from_fn(|| self.wire.take());
        let elements = items.filter_map(|item| if let Item::Element(element) = item { Some(element) } else { None });
        elements.filter_map(|element| element.child_text("body", ns::CLIENT)).collect()
    }

    /// Returns the elements up to the end of the stream, which must have arrived.
    pub fn all_to_the_end(&mut self) -> Vec<Element> {
        let mut all = Vec::new();
        loop {
            match self.take() {
                Some(Item::Element(element)) => all.push(element),
                Some(Item::End) => return all,
                other => self.fail(&format!("the end of the stream was expected, not {other:?}")),
            }
        }
    }

    /// Returns the bodies of all messages up to the end of the stream.
    pub fn bodies_to_the_end(&mut self) -> Vec<String> {
        let all = self.all_to_the_end();
        all.iter().filter_map(|element| element.child_text("body", ns::CLIENT)).collect()
    }

    /// Expects a stream error with this condition, the end of the stream, and the end of the
    /// server's direction (RFC 6120 §4.9.1.1).
    pub fn expect_stream_error(&mut self, condition: &str) {
        self.expect(&format!(
            "<stream:error><{condition} xmlns='urn:ietf:params:xml:ns:xmpp-streams'/></stream:error>"
        ));
        self.expect_end();
    }

    /// Expects the end of the stream, and of the server's direction.
    pub fn expect_end(&mut self) {
        match self.take() {
            Some(Item::End) => {}
            other => self.fail(&format!("the end of the stream was expected, not {other:?}")),
        }
        self.expect_closed();
    }

    /// Expects the end of the server's direction.
    pub fn expect_closed(&mut self) {
        self.expect_nothing();
        if !self.wire.peer.is_at_end() {
            self.fail("the server did not close the connection");
        }
    }

    /// Returns whether the connection is still open, as far as the client can see.
    pub fn is_open(&mut self) -> bool {
        self.pump();
        !self.wire.peer.is_at_end()
    }

    /// Sends an iq and returns the reply, which is the next element.
    pub fn ask(&mut self, iq: &str) -> Element {
        self.send(iq);
        self.expect_element()
    }

    /// Checks that the stream works: the client pings its own server, and the reply is the next
    /// element that arrives (XEP-0199).
    pub fn expect_alive(&mut self) {
        let domain = self.jid.as_ref().expect("bound").domain().to_owned();
        self.send(&format!("<iq type='get' id='alive' to='{domain}'><ping xmlns='urn:xmpp:ping'/></iq>"));
        self.expect(&format!("<iq type='result' id='alive' from='{domain}'/>"));
        self.expect_nothing();
    }

    /// Sets whether it reads arriving data. While it doesn't, the server fills the connection's
    /// window and then has to wait.
    pub fn set_reading(&mut self, reads: bool) {
        self.wire.appetite = if reads { usize::MAX } else { 0 };
    }

    /// Closes the stream and the connection (RFC 6120 §4.4).
    pub fn close(&mut self) {
        self.send(if self.wire.transport == Transport::WebSocket {
            websocket::CLOSE_STREAM
        } else {
            "</stream:stream>"
        });
        loop {
            match self.take() {
                Some(Item::End) => break,
                Some(_) => {}
                None => self.fail("the server did not close the stream"),
            }
        }
        self.wire.peer.shutdown();
        self.pump();
    }

    /// Disappears without a word, as when a network breaks.
    pub fn vanish(&mut self) {
        self.wire.peer.reset();
        self.server.settle();
    }

    pub(crate) fn fail(&self, what: &str) -> ! {
        let from = self.story.len().saturating_sub(TOLD);
        panic!("{} {what}\nthe story so far:\n{}", self.name, self.story[from..].join("\n"));
    }

    fn tell(&mut self, who: &str, what: &dyn Fn() -> String) {
        let mut text = what();
        if text.len() > LONGEST {
            text = format!("{}... ({} bytes)", text.chars().take(LONGEST).collect::<String>(), text.len());
        }
        self.story.push(format!("  {who}: {text}"));
    }
}

/// Makes two available clients see each other's presence (RFC 6121 §3); both have got all stanzas
/// afterwards.
pub fn befriend(one: &mut Client, other: &mut Client) {
    let (a, b) = (one.bare().to_owned(), other.bare().to_owned());
    one.send(&format!("<presence type='subscribe' to='{b}'/>"));
    other.pump();
    other.send(&format!("<presence type='subscribed' to='{a}'/><presence type='subscribe' to='{a}'/>"));
    one.pump();
    one.send(&format!("<presence type='subscribed' to='{b}'/>"));
    one.all();
    other.all();
}

/// Returns an element as text.
pub fn xml(element: &Element) -> String {
    String::from_utf8_lossy(Writer::write(element).bytes()).into_owned()
}

/// The lines of the story that a failing test shows.
const TOLD: usize = 30;
/// The most bytes of a line.
const LONGEST: usize = 600;
