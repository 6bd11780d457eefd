//! A person with a client that acknowledges its input and resumes its session (XEP-0198), at any
//! host of a cluster that lets it in.
//!
//! # Invariants
//!
//! * Unacknowledged messages are sent again: in the resumed session, or in a new one.
//! * A host that is silent for too long counts as gone, whether it has closed the connection or
//!   not.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rookery_client::{ClientSession, EarlierSession, SessionResumption, SessionTerms};
use rookery_xml::{Element, Kind, escape_attr, ns};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, socket_with};

use super::books::{MessageBooks, OtherOutcome};
use crate::{BenchOutcome, chat};

/// The terms that all people of a run share.
#[derive(Debug)]
pub struct ClusterTerms {
    /// The addresses of the cluster's nodes, which are tried in turn.
    pub hosts: Vec<SocketAddr>,
    /// The settings of the login that all people share; only the account's name differs.
    pub session: Arc<SessionTerms>,
    /// True if connections begin with TLS; otherwise TLS, if any, begins with STARTTLS.
    pub direct_tls: bool,
    /// The number of the first one's account.
    pub first: usize,
    /// The time for which a host may be silent.
    pub patience: Duration,
    /// The room that all people are in and write to, if there is one; without it they write to each
    /// other.
    pub room: Option<String>,
}

/// The counts of interrupted sessions.
#[derive(Debug, Default)]
pub struct SessionCuts {
    /// Sessions that lost their connection.
    pub cut: usize,
    /// Sessions that continued where they had been cut (XEP-0198 §5).
    pub resumed: usize,
    /// Sessions that were begun in place of lost ones.
    pub begun_again: usize,
    /// The times from the loss of a connection until its person was connected again.
    pub away: Vec<Duration>,
    /// The last reason why a connection ended or could not be opened.
    pub last: Option<String>,
    /// The connections that were lost and the sessions that continued or began, in order.
    pub events: Vec<SessionEvent>,
}

/// An event of a person's session.
#[derive(Debug, Clone)]
pub struct SessionEvent {
    /// The time.
    pub at: Instant,
    /// The number of the person.
    pub person: usize,
    /// The index of the host.
    pub host: usize,
    /// The event: the reason for which a connection was lost, "resumed" or "begun again".
    pub event: String,
}

impl SessionCuts {
    fn note(&mut self, at: Instant, person: &ClusterPerson, event: String) {
        if self.events.len() < MOST_EVENTS {
            self.events.push(SessionEvent { at, person: person.number, host: person.host, event });
        }
    }
}

/// A person with an account.
#[derive(Debug)]
pub struct ClusterPerson {
    number: usize,
    name: String,
    domain: String,
    /// The room that the person is to be in, and whether it has been entered.
    room: Option<String>,
    is_inside: bool,
    /// The time of the next attempt to enter the room.
    enters_at: Option<Instant>,
    /// True once the person has entered the room again to see its history.
    looks_back: bool,
    /// The index of the next host to try, and the number of hosts that are skipped when a
    /// connection is lost: the people of one host then spread over all the others, as with a load
    /// balancer.
    next_host: usize,
    left_out: usize,
    /// The host of the last connection.
    host: usize,
    line: Option<PersonLine>,
    /// The time when the connection was lost, and the time of the next attempt.
    lost: Option<Instant>,
    tries_at: Instant,
    /// The id of the session, if it can be resumed.
    id: Option<String>,
    is_managed: bool,
    /// The number of the server's stanzas that were handled here, and of ours that the server has
    /// acknowledged.
    handled: u32,
    acknowledged: u32,
    /// The numbers and texts of the unacknowledged messages, oldest first.
    unacknowledged: VecDeque<(Option<usize>, String)>,
    /// The search in the archive: `Some` while it is in progress.
    search: Option<Option<String>>,
    has_searched: bool,
}

/// A connection.
#[derive(Debug)]
struct PersonLine {
    socket: TcpStream,
    session: ClientSession,
    unsent: Vec<u8>,
    since: Instant,
    is_live: bool,
    /// The time since which an acknowledgement has been awaited.
    asked: Option<Instant>,
}

impl ClusterPerson {
    /// Returns the person with this number, without a connection.
    pub fn new(number: usize, terms: &ClusterTerms, now: Instant) -> Self {
        let domain = terms.session.domain.clone();
        let hosts = terms.hosts.len().max(2);
        Self {
            number,
            name: chat::local(terms.first + number),
            domain,
            room: terms.room.clone(),
            is_inside: false,
            enters_at: None,
            looks_back: false,
            next_host: number,
            host: 0,
            left_out: number / hosts % (hosts - 1),
            line: None,
            lost: None,
            tries_at: now,
            id: None,
            is_managed: false,
            handled: 0,
            acknowledged: 0,
            unacknowledged: VecDeque::new(),
            search: None,
            has_searched: false,
        }
    }

    /// Returns the bare JID.
    pub fn jid(&self) -> String {
        format!("{}@{}", self.name, self.domain)
    }

    /// Returns whether the person has a session with a connection.
    pub fn is_live(&self) -> bool {
        self.line.as_ref().is_some_and(|line| line.is_live)
    }

    /// Returns whether the person has a session with a connection, and is in the room if there is
    /// one.
    pub fn is_ready(&self) -> bool {
        self.is_live() && (self.room.is_none() || self.is_inside)
    }

    /// Returns the socket, to be watched for input; `None` while the person is not connected.
    pub fn socket(&self) -> Option<&TcpStream> {
        self.line.as_ref().map(|line| &line.socket)
    }

    /// Returns when the person has something to do, even if nothing comes from the server.
    pub fn due(&self) -> Option<Instant> {
        if self.line.is_none() { Some(self.tries_at) } else { self.enters_at.filter(|_| self.is_live()) }
    }

    /// Does all due work: connects, or gives up a silent host. Returns whether there is a new
    /// connection.
    pub fn tick(&mut self, terms: &ClusterTerms, now: Instant, cuts: &mut SessionCuts) -> bool {
        let patience = terms.patience;
        if let Some(line) = &self.line {
            let since = if line.is_live { line.asked } else { Some(line.since) };
            if since.is_some_and(|since| now.duration_since(since) > patience) {
                self.lose(format!("{} said nothing for {patience:?}", self.name), now, cuts);
            }
        }
        if self.is_live() && self.enters_at.take_if(|at| now >= *at).is_some() {
            self.enter(0, now);
        }
        if self.line.is_some() || now < self.tries_at {
            return false;
        }
        match self.connect(terms, now) {
            Ok(()) => true,
            Err(error) => {
                self.lose(error.to_string(), now, cuts);
                false
            }
        }
    }

    fn connect(&mut self, terms: &ClusterTerms, now: Instant) -> BenchOutcome<()> {
        let at = self.next_host % terms.hosts.len().max(1);
        (self.next_host, self.host) = (at + 1, at);
        let host = *terms.hosts.get(at).ok_or("there is no host")?;
        let socket = open(host)?;
        let mut unsent = Vec::new();
        let mut session = ClientSession::start(&terms.session, self.name.clone(), terms.direct_tls, &mut unsent)?;
        if let Some(id) = &self.id {
            session.go_on_with(EarlierSession { id: id.clone(), handled: self.handled });
        }
        self.line = Some(PersonLine { socket, session, unsent, since: now, is_live: false, asked: None });
        Ok(())
    }

    fn lose(&mut self, why: String, now: Instant, cuts: &mut SessionCuts) {
        let was_live = self.line.take().is_some_and(|line| line.is_live);
        if was_live {
            cuts.cut += 1;
            cuts.note(now, self, why.clone());
            self.next_host += self.left_out;
            self.lost = Some(now);
        }
        cuts.last = Some(why);
        self.tries_at = now + if was_live { AT_FIRST } else { BETWEEN };
    }

    /// Sends a message to a person; its number is that of the books.
    pub fn say(&mut self, number: usize, to: &str, now: Instant) {
        let type_ = if self.room.is_some() { "groupchat" } else { "chat" };
        let text = format!("<message type='{type_}' to='{to}' id='{number}'><body>{WORD}{number}</body></message>");
        self.unacknowledged.push_back((Some(number), text.clone()));
        self.write(&format!("{text}<r xmlns='{}'/>", ns::SM), now);
    }

    fn write(&mut self, text: &str, now: Instant) {
        let Some(line) = &mut self.line else { return };
        line.asked = line.asked.or_else(|| text.ends_with(REQUEST).then_some(now));
        // A failed write is noticed when the connection is read.
        _ = line.session.write(text.as_bytes(), &mut line.unsent);
        line.push();
    }

    /// Handles the input of a ready socket.
    pub fn ready(&mut self, books: &mut MessageBooks, buffer: &mut [u8], now: Instant, cuts: &mut SessionCuts) {
        // Sockets report readiness only once.
        loop {
            match self.read(books, buffer, now, cuts) {
                Ok(true) => {}
                Ok(false) => return,
                Err(error) => return self.lose(format!("{}: {error}", self.name), now, cuts),
            }
        }
    }

    /// Reads once. Returns whether there may be more.
    fn read(
        &mut self,
        books: &mut MessageBooks,
        buffer: &mut [u8],
        now: Instant,
        cuts: &mut SessionCuts,
    ) -> BenchOutcome<bool> {
        let Some(line) = &mut self.line else { return Ok(false) };
        line.push();
        let len = match line.socket.read(buffer) {
            Ok(0) => return Err("the server closed the connection".into()),
            Ok(len) => len,
            Err(error) if error.kind() == ErrorKind::Interrupted => return Ok(true),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
            Err(error) => return Err(error.into()),
        };
        let mut came = Vec::new();
        let wire = buffer.get_mut(..len).unwrap_or_default();
        let read = line.session.read(wire, &mut line.unsent, &mut |stanza| {
            came.push((stanza.kind(), Element::read(&stanza)));
        });
        let is_new = line.session.is_bound() && !line.is_live;
        if is_new {
            line.is_live = true;
            self.begin(books, now, cuts);
        }
        for (kind, element) in came {
            self.take(kind, &element, books, now)?;
        }
        if let Some(line) = &mut self.line {
            line.push();
        }
        read?;
        Ok(true)
    }

    /// Continues the session, or begins a new one.
    fn begin(&mut self, books: &mut MessageBooks, now: Instant, cuts: &mut SessionCuts) {
        let resumption = self.line.as_ref().and_then(|line| line.session.resumption());
        if let Some(lost) = self.lost.take() {
            cuts.away.push(now.duration_since(lost));
            let is_resumed = matches!(resumption, Some(SessionResumption::GoesOn(_)));
            *(if is_resumed { &mut cuts.resumed } else { &mut cuts.begun_again }) += 1;
            cuts.note(now, self, if is_resumed { "resumed" } else { "begun again" }.to_owned());
        }
        if let Some(SessionResumption::GoesOn(handled) | SessionResumption::Over(handled)) = resumption {
            self.acknowledge(handled, books, now);
        }
        let again: String = match resumption {
            Some(SessionResumption::GoesOn(_)) => self.unacknowledged.iter().map(|(_, text)| text.as_str()).collect(),
            _ => {
                (self.id, self.is_managed, self.handled, self.acknowledged) = (None, false, 0, 0);
                self.unacknowledged.retain(|(number, _)| number.is_some());
                self.is_inside = false;
                self.enters(0).into_iter().for_each(|text| self.unacknowledged.push_front((None, text)));
                self.unacknowledged.push_front((None, "<presence/>".to_owned()));
                let all = self.unacknowledged.iter().map(|(_, text)| text.as_str()).collect::<String>();
                format!("<enable xmlns='{}' resume='true'/>{all}", ns::SM)
            }
        };
        self.write(&format!("{again}<r xmlns='{}'/>", ns::SM), now);
    }

    /// Returns the presence that enters the room, if there is one. `history` is the number of past
    /// messages that it asks for.
    fn enters(&self, history: usize) -> Option<String> {
        let (room, name) = (self.room.as_ref()?, &self.name);
        let x = format!("<x xmlns='{}'><history maxstanzas='{history}'/></x>", ns::MUC);
        Some(format!("<presence to='{room}/{name}'>{x}</presence>"))
    }

    fn enter(&mut self, history: usize, now: Instant) {
        if let Some(enters) = self.enters(history) {
            self.send(enters, now);
        }
    }

    /// Sends a stanza that isn't a message of the load.
    fn send(&mut self, text: String, now: Instant) {
        self.write(&text, now);
        self.unacknowledged.push_back((None, text));
    }

    /// Sends a stanza that isn't a message of the load: in turn, presence to another person, an
    /// item to publish, and a request for a page of the archive.
    pub fn send_other(&mut self, number: usize, to: &str, others: &mut OtherOutcome, now: Instant) {
        let text = match number % 3 {
            0 => format!("<presence to='{to}'><status>{number}</status></presence>"),
            1 => format!(
                "<iq type='set' id='{OTHER}{number}'><pubsub xmlns='{}'><publish node='{NODE}'><item id='current'>\
                 <tune xmlns='{NODE}'><title>{number}</title></tune></item></publish></pubsub></iq>",
                ns::PUBSUB
            ),
            _ => format!(
                "<iq type='set' id='{OTHER}{number}'><query xmlns='{}'><set xmlns='{}'><max>{OTHER_PAGE}</max><before/>\
                 </set></query></iq>",
                ns::MAM,
                ns::RSM
            ),
        };
        *[&mut others.presence, &mut others.publications, &mut others.pages][number % 3] += 1;
        self.send(text, now);
    }

    /// Leaves the room, and enters it again to get `history` past messages.
    pub fn look_back(&mut self, history: usize, now: Instant) {
        let Some(room) = &self.room else { return };
        let leaves = format!("<presence type='unavailable' to='{room}/{}'/>", self.name);
        (self.is_inside, self.looks_back) = (false, true);
        self.send(leaves, now);
        self.enter(history, now);
    }

    fn acknowledge(&mut self, h: u32, books: &mut MessageBooks, now: Instant) {
        while self.acknowledged != h
            && let Some((number, _)) = self.unacknowledged.pop_front()
        {
            self.acknowledged = self.acknowledged.wrapping_add(1);
            number.into_iter().for_each(|number| books.acknowledge(number, now));
        }
    }

    fn take(&mut self, kind: Kind, element: &Element, books: &mut MessageBooks, now: Instant) -> BenchOutcome<()> {
        if element.ns() == ns::SM {
            match element.name() {
                "enabled" => {
                    self.is_managed = true;
                    self.id = element.attr("id").filter(|_| element.attr("resume").is_some()).map(str::to_owned);
                }
                "r" => self.write(&format!("<a xmlns='{}' h='{}'/>", ns::SM, self.handled), now),
                "a" => {
                    self.line.iter_mut().for_each(|line| line.asked = None);
                    let h =
                        element.attr("h").and_then(|h| h.parse().ok()).ok_or("an acknowledgement without a number")?;
                    self.acknowledge(h, books, now);
                }
                _ => return Err(format!("stream management failed: {element:?}").into()),
            }
            return Ok(());
        }
        self.handled = self.handled.wrapping_add(u32::from(self.is_managed && kind != Kind::Other));
        match element.name() {
            "message" => self.take_message(element, books, now),
            "iq" => self.take_answer(element, books, now),
            "presence" => self.take_presence(element, books, now),
            _ => {}
        }
        Ok(())
    }

    fn take_message(&mut self, message: &Element, books: &mut MessageBooks, now: Instant) {
        if let Some(result) = message.child("result", ns::MAM) {
            let forwarded = result.child("forwarded", ns::FORWARD);
            let inner = forwarded.and_then(|forwarded| forwarded.child("message", ns::CLIENT));
            if let Some(number) = inner.and_then(number_of) {
                books.find(number, self.number);
            }
            return;
        }
        let Some(number) = number_of(message) else { return };
        if message.attr("type") == Some("error") {
            return books.come_back(number);
        }
        if let Some(room) = &self.room {
            let ids = message.children().filter(|child| child.is("stanza-id", ns::STANZA_ID));
            let id = ids.filter(|id| id.attr("by") == Some(room.as_str())).find_map(|id| id.attr("id"));
            return match message.child("delay", ns::DELAY) {
                Some(_) if self.looks_back => books.room.recall(number),
                _ => books.room.hear(number, self.number, id, now),
            };
        }
        let own = self.jid();
        let ids = message.children().filter(|child| child.is("stanza-id", ns::STANZA_ID));
        let id = ids.filter(|id| id.attr("by") == Some(own.as_str())).find_map(|id| id.attr("id"));
        books.come(number, self.number, id, now);
    }

    /// Counts occupants that enter and leave.
    fn take_presence(&mut self, presence: &Element, books: &mut MessageBooks, now: Instant) {
        let Some(room) = self.room.clone() else { return };
        let Some(nick) = presence.attr("from").and_then(|from| from.strip_prefix(room.as_str())?.strip_prefix('/'))
        else {
            return;
        };
        let is_own = nick == self.name;
        match presence.attr("type") {
            // The room isn't open yet: the person tries again later.
            Some("error") if is_own => self.enters_at = Some(now + BETWEEN),
            Some("unavailable") if is_own && !self.is_inside => {}
            Some("unavailable") => books.room.note_occupant(false),
            None if is_own => {
                self.is_inside = true;
                let x = presence.child("x", ns::MUC_USER);
                if x.is_some_and(|x| x.children().any(|status| status.attr("code") == Some("201"))) {
                    // The first occupant has created the room, and opens it with its default
                    // configuration.
                    let x = format!("<x xmlns='{}' type='submit'/>", ns::DATA_FORMS);
                    let query = format!("<query xmlns='{}'>{x}</query>", ns::MUC_OWNER);
                    self.send(format!("<iq type='set' to='{room}' id='open'>{query}</iq>"), now);
                }
            }
            None => books.room.note_occupant(true),
            Some(_) => {}
        }
    }

    /// Starts to search the person's archive for missing messages, unless that was done.
    pub fn search(&mut self, now: Instant) {
        if !self.has_searched && self.search.is_none() && self.is_live() {
            self.search = Some(None);
            self.ask_archive(now);
        }
    }

    /// Returns whether the archive was searched, or can't be.
    pub fn has_searched(&self) -> bool {
        self.has_searched
    }

    fn ask_archive(&mut self, now: Instant) {
        let Some(after) = &self.search else { return };
        let after = after.as_ref().map_or_else(String::new, |id| format!("<after>{}</after>", escape_attr(id)));
        let query = format!(
            "<iq type='set' id='{SEARCH}'><query xmlns='{}'><set xmlns='{}'><max>{PAGE}</max>{after}</set></query></iq>",
            ns::MAM,
            ns::RSM
        );
        self.unacknowledged.push_back((None, query.clone()));
        self.write(&query, now);
    }

    fn take_answer(&mut self, iq: &Element, books: &mut MessageBooks, now: Instant) {
        if iq.attr("id").is_some_and(|id| id.starts_with(OTHER)) {
            let is_error = iq.attr("type") == Some("error");
            *(if is_error { &mut books.others.refused } else { &mut books.others.answered }) += 1;
            return;
        }
        if iq.attr("id") != Some(SEARCH) || self.search.is_none() {
            return;
        }
        let fin = iq.child("fin", ns::MAM);
        let last = fin.and_then(|fin| fin.child("set", ns::RSM)?.child_text("last", ns::RSM));
        match last.filter(|_| fin.is_some_and(|fin| fin.attr("complete") != Some("true"))) {
            Some(last) => {
                self.search = Some(Some(last));
                self.ask_archive(now);
            }
            None => (self.search, self.has_searched) = (None, true),
        }
    }
}

impl PersonLine {
    /// Writes waiting bytes, as far as the socket takes them.
    fn push(&mut self) {
        if let Ok(sent) = self.socket.write(&self.unsent) {
            self.unsent.drain(..sent);
        }
    }
}

/// Returns the number of a message of the load.
fn number_of(message: &Element) -> Option<usize> {
    message.child_text("body", ns::CLIENT)?.strip_prefix(WORD)?.parse().ok()
}

/// Begins to connect.
fn open(host: SocketAddr) -> BenchOutcome<TcpStream> {
    let family = if host.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, None)?;
    match connect(&socket, &host) {
        Ok(()) | Err(Errno::INPROGRESS) => {}
        Err(error) => return Err(format!("{host}: {error}").into()),
    }
    let socket = TcpStream::from(socket);
    socket.set_nodelay(true)?;
    Ok(socket)
}

/// Events of sessions that are listed.
const MOST_EVENTS: usize = 100_000;
/// Begins the body of a message of the load; its number follows.
const WORD: &str = "message ";
/// The end of a request for an acknowledgement.
const REQUEST: &str = "sm:3'/>";
const SEARCH: &str = "search";
/// Begins the ids of requests that are sent in addition to messages.
const OTHER: &str = "other-";
/// The node of the published items (XEP-0118).
const NODE: &str = "http://jabber.org/protocol/tune";
/// The number of messages in the pages of an archive that are read in addition.
const OTHER_PAGE: usize = 20;
/// The number of messages in a page of an archive.
const PAGE: usize = 250;
/// The time until a lost connection is opened again, and between attempts.
const AT_FIRST: Duration = Duration::from_millis(50);
const BETWEEN: Duration = Duration::from_millis(250);
