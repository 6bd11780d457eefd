//! A BOSH client (XEP-0124), which sends requests and examines the replies.

use std::sync::{Arc, Mutex};

use base64::{Engine, engine::general_purpose::STANDARD};
use rookery_base::lock::lock;
use rookery_stream::bosh::{AnswerStatus, BoshAnswer, Waiter};
use rookery_xml::{Element, ns};

use crate::pattern;
use crate::server::{PASSWORD, Server};

/// A client. It counts its requests itself, unless the test does.
#[derive(Debug)]
pub struct Bosh {
    server: Server,
    /// The id of its session.
    pub sid: String,
    /// The number of its next request.
    pub rid: u64,
    /// Its full JID, once it is bound.
    pub jid: String,
}

/// A request in progress.
#[derive(Debug, Clone)]
pub struct BoshPending {
    server: Server,
    slot: Arc<Mutex<BoshSlot>>,
}

#[derive(Debug, Default)]
struct BoshSlot {
    answer: Option<BoshAnswer>,
    is_gone: bool,
}

struct BoshWaiting(Arc<Mutex<BoshSlot>>);

impl Waiter for BoshWaiting {
    fn answer(self: Box<Self>, answer: BoshAnswer) {
        let mut slot = lock(&self.0);
        assert!(slot.answer.is_none(), "a request is answered once");
        slot.answer = Some(answer);
    }

    fn is_gone(&self) -> bool {
        lock(&self.0).is_gone
    }
}

impl Bosh {
    /// Returns a client without a session.
    pub fn new(server: &Server) -> Self {
        Self { server: server.clone(), sid: String::new(), rid: 1_573_741_820, jid: String::new() }
    }

    /// Logs in as `user/resource` and binds. Returns the client and its waiting request.
    pub fn login(server: &Server, address: &str) -> (Self, BoshPending) {
        let (name, resource) = address.split_once('/').expect("user/resource");
        let account = server.account(name);
        let mut client = Self::new(server);
        client.open("hold='1' wait='60' ver='1.6'");
        client.authenticate(account.local().expect("a name"));
        client.bind(resource);
        let waits = client.ask("", "");
        waits.expect_nothing();
        (client, waits)
    }

    /// Opens a session by a request with these attributes, and stores the session's id. Returns the
    /// features.
    pub fn open(&mut self, attributes: &str) -> Element {
        let body = self.create(&format!("to='example.org' {attributes}")).expect();
        self.sid = body.attr("sid").unwrap_or_else(|| panic!("no session: {body:?}")).to_owned();
        body
    }

    /// Asks for a session.
    pub fn create(&mut self, attributes: &str) -> BoshPending {
        let rid = self.next_rid();
        self.server.post(&format!(
            "<body rid='{rid}' {attributes} xmpp:version='1.0' xmlns='{}' xmlns:xmpp='urn:xmpp:xbosh'/>",
            ns::HTTP_BIND
        ))
    }

    /// Logs in by PLAIN, and restarts the stream.
    pub fn authenticate(&mut self, name: &str) {
        let proof = STANDARD.encode(format!("\0{name}\0{PASSWORD}"));
        let auth = format!("<auth xmlns='{}' mechanism='PLAIN'>{proof}</auth>", ns::SASL);
        let success = self.ask("", &auth).expect();
        assert!(success.child("success", ns::SASL).is_some(), "{success:?}");
        let features = self.ask("xmpp:restart='true' to='example.org' xmlns:xmpp='urn:xmpp:xbosh'", "").expect();
        assert!(features.child("features", ns::STREAMS).is_some(), "{features:?}");
    }

    /// Binds a resource.
    pub fn bind(&mut self, resource: &str) {
        let iq = format!(
            "<iq id='b' type='set' xmlns='jabber:client'><bind xmlns='{}'><resource>{resource}</resource></bind></iq>",
            ns::BIND
        );
        let body = self.ask("", &iq).expect();
        let bind = body.child("iq", ns::CLIENT).and_then(|iq| iq.child("bind", ns::BIND));
        self.jid = bind.and_then(|bind| bind.child_text("jid", ns::BIND)).expect("a resource");
    }

    /// Sends the next request of the session.
    pub fn ask(&mut self, attributes: &str, content: &str) -> BoshPending {
        let rid = self.next_rid();
        self.ask_as(rid, attributes, content)
    }

    /// Sends a request with a certain number.
    pub fn ask_as(&self, rid: u64, attributes: &str, content: &str) -> BoshPending {
        let (sid, ns) = (&self.sid, ns::HTTP_BIND);
        self.server.post(&format!("<body rid='{rid}' sid='{sid}' {attributes} xmlns='{ns}'>{content}</body>"))
    }

    fn next_rid(&mut self) -> u64 {
        self.rid += 1;
        self.rid - 1
    }
}

impl BoshPending {
    /// Returns a request for the server, and the waiter that takes its response.
    pub(crate) fn new(server: &Server) -> (Self, Box<dyn Waiter>) {
        let slot = Arc::<Mutex<BoshSlot>>::default();
        (Self { server: server.clone(), slot: slot.clone() }, Box::new(BoshWaiting(slot)))
    }

    /// Makes the server work, and returns the response; `None` while the request waits.
    pub fn answer(&self) -> Option<BoshAnswer> {
        self.server.settle();
        lock(&self.slot).answer.clone()
    }

    /// Returns the document of the response if it has arrived, without making the server work: for
    /// tests that choose the order themselves.
    pub fn arrived_document(&self) -> Option<Arc<[u8]>> {
        lock(&self.slot).answer.as_ref().map(|answer| answer.body.clone())
    }

    /// Breaks the connection that the request waits on.
    pub fn vanish(&self) {
        lock(&self.slot).is_gone = true;
    }

    /// Returns the response, which must be there and successful.
    pub fn expect(&self) -> Element {
        let answer = self.answer().expect("an answer");
        assert_eq!(answer.status, AnswerStatus::Ok, "{answer:?}");
        let body = Element::parse(&answer.body).unwrap_or_else(|fault| panic!("no XML, {fault}: {answer:?}"));
        assert!(body.is("body", ns::HTTP_BIND), "{body:?}");
        body
    }

    /// Checks that the request still waits.
    pub fn expect_nothing(&self) {
        let answer = self.answer();
        assert!(answer.is_none(), "an answer: {}", String::from_utf8_lossy(&answer.expect("one").body));
    }

    /// Expects a response without content.
    pub fn expect_empty(&self) {
        let body = self.expect();
        assert!(body.children().next().is_none() && body.attr("type").is_none(), "{body:?}");
    }

    /// Returns a response with one element, which must match a pattern.
    pub fn expect_one(&self, wanted: &str) -> Element {
        let body = self.expect();
        let mut children = body.children();
        let found = children.next().unwrap_or_else(|| panic!("an element was expected: {wanted}")).clone();
        assert!(children.next().is_none(), "one element was expected: {body:?}");
        if let Err(difference) = pattern::matches(&pattern::element(wanted), &found) {
            panic!("expected {wanted}\n  but got {found:?}\n  {difference}");
        }
        found
    }

    /// Returns the end of the session, which must have this condition, or none if that is empty.
    pub fn expect_end(&self, condition: &str) -> Element {
        let body = self.expect();
        assert_eq!(body.attr("type"), Some("terminate"), "{body:?}");
        assert_eq!(body.attr("condition").unwrap_or_default(), condition, "{body:?}");
        body
    }
}
