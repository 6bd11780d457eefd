//! A client's device: a phone or a laptop that logs in, resumes its session, and records what it
//! knows of others.
//!
//! Nothing here waits: a device acts on an event and reacts to what it reads.
//!
//! # Layout
//!
//! This file: the device and its connection. `line`: the connections to the server. `channel`: TLS
//! below them. `entering`: the way to a session. `token`: logging in by a token. `hearing`: the
//! handling of stanzas. `acting`: the actions of its user. `commanding`: those of an administrator.
//! `publishing`: items that it publishes and receives. `roster`: its contacts. `seat`: its views of
//! rooms.

mod acting;
mod channel;
mod commanding;
mod entering;
mod hearing;
mod line;
mod publishing;
mod roster;
mod seat;
mod token;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use rookery_sasl::client::Exchange;
use rookery_sasl::{TokenKey, TokenMechanism};
use rookery_testkit::Server;
use rookery_testkit::websocket;
use rookery_testkit::wire::Item;
use rookery_xml::{Element, ns};

use crate::book::Book;
use crate::draw::SeededDraw;
use crate::plan::{DevicePlan, LoginWay, PlannedLogin};

use channel::DeviceChannel;
use line::DeviceLine;
use seat::RoomSeat;

pub use acting::People;
pub use publishing::NODES;
pub use roster::RosterEntry;

/// A device of one account, with all that its user would see.
pub struct UserDevice {
    /// Its place among all devices.
    pub index: usize,
    /// The data that stays the same.
    pub plan: DevicePlan,
    /// Its bare JID.
    pub bare: String,
    /// The resource of its session, or of its last one.
    pub resource: String,
    /// The resource that it requests where it may.
    own_resource: String,
    line: Option<DeviceLine>,
    /// The channel of its connection, if TLS protects that.
    channel: Option<DeviceChannel>,
    /// The randomness of its channels.
    channels: SeededDraw,
    stage: DeviceStage,
    /// Its session, by the number in the book.
    pub session: Option<usize>,
    managed: Option<ManagedState>,
    /// False if it leaves incoming data unread.
    pub reads: bool,
    /// The node that it is, or was last, connected to.
    pub node: usize,
    /// True if the server may end the BOSH session, because it may not have got a request in time
    /// (XEP-0124 §10).
    pub is_neglected: bool,
    /// True if a login of its own broke off before it knew of its session, which the server may
    /// still bind: the session that it has then gives way to that one (RFC 6120 §7.7.2.2).
    has_unheard: bool,
    /// True if the server has told its session to give way to a newer one.
    has_conflict: bool,
    /// The requests without a reply so far, with the number of deaths when each was sent.
    pub asked: BTreeMap<String, usize>,
    /// The requests that have got their reply, with the same number.
    replied: BTreeMap<String, usize>,
    /// The number of its presence, if it is available.
    pub shown: Option<u64>,
    /// The presence of others, by full JID.
    pub sight: BTreeMap<String, u64>,
    /// The number of the presence that made it available, until that presence comes back to it; the
    /// presence of others that arrives earlier belongs to the time before.
    blind: Option<u64>,
    /// Its roster, if it has requested it: items by JID.
    pub roster: Option<BTreeMap<String, RosterEntry>>,
    /// The newest version of the roster that its session got.
    version: u64,
    /// The newest version of the roster that any session of its account had got when this one
    /// began; 0 once this one got its roster.
    stale: u64,
    /// The requests for the changes since a version of the roster, with that version.
    roster_asks: BTreeMap<String, u64>,
    /// The last roster that it got, with its version, if it keeps rosters.
    known: Option<(String, BTreeMap<String, RosterEntry>)>,
    /// The number of the last item of each node, by the account and the node.
    pub news: BTreeMap<(usize, usize), usize>,
    /// Publications without an answer so far, with the numbers of their items.
    publishing: BTreeMap<String, usize>,
    /// Its places in the rooms.
    pub seats: Vec<RoomSeat>,
    /// The address whose archive it reads; `None` for its own account.
    archive: Option<String>,
    /// The content of the archive of `archive`, while it reads all of it.
    pub archived: Vec<Archived>,
    /// The last id of the page that it read last, and whether that page is the end of the archive.
    pub page: Option<(Option<String>, bool)>,
    /// Requests for upload slots, with their numbers in the book.
    uploading: BTreeMap<String, usize>,
    /// The rooms that it configures, by the request.
    opening: BTreeMap<String, usize>,
    blocking: BTreeMap<String, (usize, usize)>,
    unblocking: BTreeMap<String, usize>,
    /// Requests to remove an account, with their numbers in the book.
    removing: BTreeMap<String, usize>,
    /// The commands in progress, with the name of each and the account that it is about.
    commands: BTreeMap<String, (usize, usize)>,
    /// The token that it logs in by (XEP-0484), if it has one.
    token: Option<TokenKey>,
    /// The mechanism of the token that it has, or has requested.
    token_mechanism: TokenMechanism,
    /// The node that issued the token.
    token_node: usize,
    /// The nodes at which its logins broke off before it knew their outcome. Such a node may still
    /// issue a token afterwards, which replaces the one from another node.
    broken_off: BTreeSet<usize>,
    /// The number of messages at the time when it connected.
    connected_at: usize,
    /// The connections that it has abandoned and that the server may still believe in.
    abandoned: Vec<DeviceLine>,
    /// True if its account is gone, so that it must create the account again before it logs in.
    registers: bool,
}

/// A message in the archive of its account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Archived {
    /// The id that the archive assigned.
    pub id: String,
    /// The number of the message.
    pub number: usize,
}

/// The stages on the way to a session.
enum DeviceStage {
    Gone,
    Opened,
    Offered,
    /// It has requested an account, and will log in by these features of the stream.
    Registering(Box<Element>),
    Authenticating(Box<Exchange>),
    /// It has sent its token.
    Presented,
    Restarted,
    OfferedMore,
    Binding(String),
    Resuming,
    Ready,
    /// It has closed its stream, and reads until the server's end.
    Closing,
}

/// The state of stream management that a client keeps (XEP-0198).
#[derive(Debug, Default)]
struct ManagedState {
    /// The id for resuming; `None` until the server has sent it.
    id: Option<String>,
    /// True once the server has sent `<enabled/>`, after which both sides count stanzas.
    counts: bool,
    /// The number of stanzas that it has handled.
    handled: u32,
    /// The number of stanzas that it has sent.
    sent: u32,
    /// The stanzas that the server has not acknowledged, oldest first, with the number of the
    /// message if it is one.
    unacknowledged: VecDeque<(String, Option<usize>)>,
}

impl ManagedState {
    fn count_acknowledged(&self) -> u32 {
        self.sent.wrapping_sub(self.unacknowledged.len() as u32)
    }
}

impl UserDevice {
    /// Returns a device that has never connected.
    pub fn new(index: usize, plan: DevicePlan, number: usize, rooms: usize) -> Self {
        Self {
            index,
            plan,
            bare: bare(plan.account),
            resource: format!("d{number}"),
            own_resource: format!("d{number}"),
            line: None,
            channel: None,
            channels: SeededDraw::new(plan.channels),
            stage: DeviceStage::Gone,
            session: None,
            managed: None,
            reads: true,
            node: 0,
            is_neglected: false,
            has_unheard: false,
            has_conflict: false,
            asked: BTreeMap::new(),
            replied: BTreeMap::new(),
            shown: None,
            sight: BTreeMap::new(),
            blind: None,
            roster: None,
            version: 0,
            stale: 0,
            roster_asks: BTreeMap::new(),
            known: None,
            news: BTreeMap::new(),
            publishing: BTreeMap::new(),
            seats: vec![RoomSeat::default(); rooms],
            archive: None,
            archived: Vec::new(),
            page: None,
            uploading: BTreeMap::new(),
            opening: BTreeMap::new(),
            blocking: BTreeMap::new(),
            unblocking: BTreeMap::new(),
            removing: BTreeMap::new(),
            commands: BTreeMap::new(),
            token: None,
            token_mechanism: TokenMechanism::Unbound,
            token_node: 0,
            broken_off: BTreeSet::new(),
            connected_at: 0,
            abandoned: Vec::new(),
            registers: false,
        }
    }

    /// Returns its full JID.
    pub fn full(&self) -> String {
        format!("{}/{}", self.bare, self.resource)
    }

    /// Returns whether it has a session and a connection.
    pub fn is_ready(&self) -> bool {
        matches!(self.stage, DeviceStage::Ready)
    }

    /// Returns whether its session counts stanzas (XEP-0198 §4).
    pub fn is_managed(&self) -> bool {
        self.managed.as_ref().is_some_and(|managed| managed.counts)
    }

    /// Returns whether it may come back to its session if its connection breaks.
    pub fn can_resume(&self) -> bool {
        self.managed.as_ref().is_some_and(|managed| managed.id.is_some())
    }

    /// Records that its session can't be resumed.
    fn cannot_resume(&self, book: &mut Book) {
        let Some(session) = self.session else { return };
        let account = self.plan.account;
        let may_end = book.removed.contains(&account) || book.dismissed.contains(&account) || book.store_failed;
        if book.now_ms < book.sessions[session].goes_on_ms && book.losses() == 0 && !may_end {
            let name = self.full();
            book.break_rule(format!("the session of {name} was in the journal of its node, and doesn't go on"));
        }
        // The messages that it did not get are in its archive, or stored for its next session.
        book.sessions[session].is_leaky |= book.node_deaths > 0;
    }

    /// Records its address. Rooms reply to a session at another address, if at all, there.
    fn set_resource(&mut self, resource: &str) {
        if self.resource != resource {
            self.seats.iter_mut().for_each(RoomSeat::forget_earlier);
            self.resource = resource.to_owned();
        }
    }

    fn is_closing(&self) -> bool {
        matches!(self.stage, DeviceStage::Closing)
    }

    /// Returns whether it considers itself in a room.
    pub fn is_in_room(&self, room: usize) -> bool {
        self.seats[room].nick.is_some()
    }

    /// Returns whether it has a connection.
    pub fn is_connected(&self) -> bool {
        self.line.is_some()
    }

    /// Returns whether there is something for it to read.
    pub fn has_news(&self) -> bool {
        self.reads && self.line.as_ref().is_some_and(DeviceLine::has_news)
    }

    /// Connects to a node, unless it is connected.
    pub fn connect(&mut self, node: usize, server: &Server, book: &mut Book) {
        if self.line.is_some() {
            return;
        }
        (self.node, self.connected_at) = (node, book.messages.len());
        let shard = self.index % server.shards();
        let line = match self.plan.way {
            LoginWay::Tcp => DeviceLine::Wire(Box::new(server.connect().wire)),
            LoginWay::Secured => DeviceLine::Wire(Box::new(self.open_channel(server, shard))),
            LoginWay::WebSocket => DeviceLine::Wire(Box::new(server.connect_websocket(shard).wire)),
            LoginWay::Proxied => DeviceLine::Wire(Box::new(server.connect_proxied_websocket(shard).wire)),
            LoginWay::Bosh => DeviceLine::bosh(server, 1_000_000 * (1 + book.presence())),
        };
        line.set_width(self.plan.window, self.plan.most);
        self.line = Some(line);
        (self.reads, self.is_neglected, self.has_conflict) = (true, false, false);
        self.begin(book);
    }

    /// Loses its connection, which `both` sides notice, or only the device.
    pub fn cut(&mut self, both: bool, book: &mut Book) {
        // A BOSH session outlives its connections.
        if both && self.line.as_mut().is_some_and(DeviceLine::repeat) {
            return book.note(format_args!("{} repeats its requests", self.full()));
        }
        if both {
            return self.cut_off(book);
        }
        let Some(line) = self.line.take() else { return };
        line.shut_down();
        self.lose(book);
    }

    /// Gives its connection up in such a way that the server notices.
    fn cut_off(&mut self, book: &mut Book) {
        if let Some(line) = self.line.take() {
            line.reset();
            self.lose(book);
        }
    }

    /// Changes to another network: its old connection stays open, and the server isn't told.
    pub fn walk_away(&mut self, book: &mut Book) {
        if let Some(line) = self.line.take() {
            self.abandoned.push(line);
            self.lose(book);
        }
    }

    /// Resets the connections that it has abandoned, as the server's system does in the end, which
    /// probes silent ones.
    pub fn reset_abandoned(&mut self) {
        self.abandoned.drain(..).for_each(|line| line.reset());
    }

    /// Closes its stream in good order (RFC 6120 §4.4).
    pub fn close(&mut self, book: &mut Book) {
        if self.is_ready() {
            if let Some(session) = self.session {
                let session = &mut book.sessions[session];
                // It may have gone on without the client's noticing that its home had died.
                (session.was_cut, session.goes_on_ms) = (true, 0);
            }
            if let Some(handled) = self.managed.as_ref().map(|managed| managed.handled) {
                self.write(&format!("<a xmlns='urn:xmpp:sm:3' h='{handled}'/>"), book);
            }
            self.write(if self.plan.way.is_websocket() { websocket::CLOSE_STREAM } else { "</stream:stream>" }, book);
            self.stage = DeviceStage::Closing;
        } else {
            self.cut_off(book);
            self.end_session(book);
        }
    }

    /// Stops reading incoming data, or starts again. A server considers a client that is silent for
    /// long to be lost.
    pub fn fall_silent(&mut self, book: &mut Book) {
        self.reads = !self.reads;
        self.is_neglected = true;
        if let Some(session) = self.session {
            book.sessions[session].was_cut = true;
        }
    }

    /// Reads and writes as fast as possible from now on.
    pub fn widen(&mut self) {
        (self.plan.window, self.plan.most) = (1 << 20, usize::MAX);
        if let Some(line) = &self.line {
            line.set_width(self.plan.window, self.plan.most);
        }
    }

    /// Makes the device active and able to receive messages.
    pub fn come_back(&mut self, book: &mut Book) {
        if !self.is_ready() {
            return;
        }
        self.write("<active xmlns='urn:xmpp:csi:0'/>", book);
        if self.shown.is_none() || self.plan.priority < 0 {
            self.plan.priority = 0;
            self.show(book);
        }
    }

    /// Drops its session, as a client does that is started again.
    pub fn forget(&mut self, book: &mut Book) {
        self.end_session(book);
        self.known = None;
    }

    /// Handles the death of the server's process, which takes all its memory along.
    pub fn bereave(&mut self, book: &mut Book) {
        self.line = None;
        self.lose(book);
    }

    fn lose(&mut self, book: &mut Book) {
        if matches!(self.stage, DeviceStage::Authenticating(_) | DeviceStage::Presented) {
            self.broken_off.insert(self.node);
        }
        self.lose_unheard_session(book);
        self.stage = DeviceStage::Gone;
        book.note(format_args!("{} has no connection", self.full()));
        if let Some(session) = self.session {
            book.sessions[session].was_cut = true;
        }
        if self.managed.as_ref().is_none_or(|managed| managed.id.is_none()) {
            self.end_session(book);
        }
    }

    /// Records the end of a session that the server may have begun although the client never heard
    /// of it: without stream management, whatever was sent to its full JID meanwhile is lost with
    /// the connection, and no journal has a session that can't be resumed.
    fn lose_unheard_session(&mut self, book: &mut Book) {
        let counts = match self.stage {
            DeviceStage::Binding(_) => false,
            DeviceStage::Authenticating(_) | DeviceStage::Presented if self.plan.login == PlannedLogin::Bind2 => {
                self.plan.is_managed
            }
            _ => return,
        };
        self.has_unheard = true;
        let session = book.open(self.index, self.plan.account, counts);
        let session = &mut book.sessions[session];
        (session.is_over, session.was_cut) = (true, true);
        session.from = self.connected_at;
        session.is_leaky = !counts || !self.plan.resumes && book.node_deaths > 0;
    }

    /// Records that the occupants of the rooms that it is in, or enters, change.
    fn stir_rooms(&self, book: &mut Book) {
        let seats = self.seats.iter().enumerate();
        seats
            .filter(|(_, seat)| seat.nick.is_some() || !seat.entering.is_empty())
            .for_each(|(room, _)| book.stir(room));
    }

    fn end_session(&mut self, book: &mut Book) {
        self.stir_rooms(book);
        let seats = self.seats.iter().enumerate();
        seats.filter_map(|(room, seat)| Some((room, seat.nick.as_ref()?))).for_each(|(room, nick)| {
            book.leave_ghost(self.index, room, nick);
        });
        if let Some(session) = self.session.take() {
            book.sessions[session].is_over = true;
            // With stream management, stanzas for the session are counted; without it, it is
            // unknown which of them arrived. A dead node's journal lacks sessions that can't be
            // resumed.
            book.sessions[session].was_cut = true;
            let counts = self.managed.as_ref().is_some_and(|managed| managed.counts);
            book.sessions[session].is_leaky |= !counts || !self.plan.resumes && book.node_deaths > 0;
        }
        self.managed = None;
        self.asked.clear();
        self.replied.clear();
        self.uploading.clear();
        self.opening.clear();
        self.blocking.clear();
        self.unblocking.clear();
        self.publishing.clear();
        self.removing.clear();
        self.commands.clear();
        self.news.clear();
        self.shown = None;
        self.sight.clear();
        self.roster = None;
        self.version = 0;
        self.roster_asks.clear();
        self.seats.iter_mut().for_each(RoomSeat::outlive_session);
    }

    /// Reads up to `most` bytes, and reacts. Returns whether there was anything.
    pub fn read(&mut self, most: usize, book: &mut Book) -> bool {
        if !self.reads {
            return false;
        }
        let Some(line) = self.line.as_mut().filter(|line| line.has_news()) else { return false };
        let any = line.receive(most);
        if any {
            let text = line.take_said();
            let (bare, resource) = (&self.bare, &self.resource);
            book.note(format_args!("{bare}/{resource} S: {}", String::from_utf8_lossy(&text)));
        }
        while let Some(item) = self.line.as_mut().and_then(DeviceLine::take) {
            self.take(item, book);
        }
        let is_over = self.line.as_ref().is_some_and(DeviceLine::is_at_end);
        if is_over {
            self.line = None;
            self.lose(book);
        }
        any || is_over
    }

    fn take(&mut self, item: Item, book: &mut Book) {
        match item {
            Item::Header(_) => self.header(),
            Item::End => {
                let session = self.session.filter(|_| self.plan.way == LoginWay::Bosh && self.is_ready());
                let account = self.plan.account;
                let is_dismissed = book.removed.contains(&account) || book.dismissed.contains(&account);
                let may_end = book.store_failed || book.is_stopping || book.do_homes_move;
                let gives_way = self.has_conflict && self.has_unheard;
                let may_end = may_end || self.is_neglected || is_dismissed || gives_way;
                if session.is_some_and(|session| !book.sessions[session].was_cut) && !may_end {
                    let name = self.full();
                    book.break_rule(format!("the session of {name} was ended, which asks in time (XEP-0124 §10)"));
                }
                // The server ends the stream, and with it the session (XEP-0198 §5).
                self.line.take().into_iter().for_each(|line| line.shut_down());
                self.stage = DeviceStage::Gone;
                book.note(format_args!("{}'s stream was ended", self.full()));
                self.end_session(book);
            }
            Item::Element(element) if matches!(self.stage, DeviceStage::Ready | DeviceStage::Closing) => {
                self.hear(&element, book)
            }
            Item::Element(element) => self.enter(&element, book),
        }
    }

    /// Writes bytes to the connection.
    fn write(&mut self, xml: &str, book: &mut Book) {
        let Some(line) = self.line.as_mut().filter(|_| !matches!(self.stage, DeviceStage::Closing)) else { return };
        book.note(format_args!("{}/{} C: {xml}", self.bare, self.resource));
        line.send(&match self.plan.way {
            LoginWay::Tcp | LoginWay::Secured => Cow::Borrowed(xml),
            LoginWay::WebSocket | LoginWay::Proxied | LoginWay::Bosh => alone(xml),
        });
    }

    /// Sends a stanza; if it is a message, `number` is its number.
    fn say(&mut self, xml: String, number: Option<usize>, book: &mut Book) {
        if self.is_closing() {
            return;
        }
        self.write(&xml, book);
        if let Some(managed) = &mut self.managed {
            managed.sent = managed.sent.wrapping_add(1);
            managed.unacknowledged.push_back((xml, number));
        }
    }
}

/// Returns an element with its own namespace declaration, since over a WebSocket no stream header
/// declares it (RFC 7395 §3.3.3).
fn alone(xml: &str) -> Cow<'_, str> {
    let name = ["<message", "<presence", "<iq"].into_iter().find(|name| xml.starts_with(*name));
    name.map_or(Cow::Borrowed(xml), |name| format!("{name} xmlns='{}'{}", ns::CLIENT, &xml[name.len()..]).into())
}

/// Returns the bare JID of an account.
pub fn bare(account: usize) -> String {
    format!("u{account}@{DOMAIN}")
}

/// Returns the account of an address on this server.
pub fn account_of(jid: &str) -> Option<usize> {
    jid.strip_prefix('u')?.split_once('@').filter(|(_, rest)| rest.starts_with(DOMAIN))?.0.parse().ok()
}

/// Returns the bare JID of a room.
pub fn room(number: usize) -> String {
    format!("r{number}@{ROOMS}")
}

/// Returns the room and the nick of an address.
pub fn room_of(jid: &str) -> Option<(usize, &str)> {
    let (room, rest) = jid.strip_prefix('r')?.split_once('@')?;
    let nick = rest.strip_prefix(ROOMS)?.trim_start_matches('/');
    Some((room.parse().ok()?, nick))
}

/// The server's domain.
pub const DOMAIN: &str = "example.org";
/// The address of its service for files.
pub const UPLOADS: &str = "upload.example.org";
/// The domain of its rooms.
pub const ROOMS: &str = "conference.example.org";
