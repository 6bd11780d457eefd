//! Devices for clients of EPICS: the server's side of a circuit of Channel Access, read only.
//! [`pva`] is that of pvAccess, and [`GatewayWire`] has what the sockets need of either.
//!
//! A [`GatewayCircuit`] turns the bytes of a client into requests of a list, and the replies of
//! that list into bytes for the client. The name of a variable is a request in the grammar of DPM.
//! So a device that is monitored by either protocol is read once for all its readers, and the
//! bounds of lists apply to these clients, too.
//!
//! Nothing can be set: clients get read-only rights, and settings are refused.
//!
//! # Layout
//!
//! - [`pva`] is the circuit of pvAccess, `flow` the updates of a monitor that wait for its client.
//! - [`updates`] are those that circuits share.

mod flow;
pub mod pva;
pub mod updates;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::channel_access::data::Native;
use crate::channel_access::encode::{Details, Elements, SentReading, encode};
use crate::channel_access::message::{self, ChannelHeader, ChannelMessage, version};
use crate::channel_access::{LONGEST_NAME, MINOR, NORMAL, command};
use crate::database::{Database, FoundTarget, Stored};
use crate::drf::{DrfEvent, Property, PropertyField, Request, Time};
use crate::sdd::reply::Reply;
use crate::service::BroughtBy;

/// A change of the list of a circuit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListChange {
    /// Start reading this.
    Add(i64, String),
    /// Stop reading it.
    Remove(i64),
}

/// The end of a circuit whose client sends invalid messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CloseCircuit;

/// A protocol of clients of EPICS, as the sockets know it: the state of one circuit.
pub trait GatewayWire: Send + 'static {
    /// The things that all circuits share.
    type Shared: Default + Send + Sync;
    /// The name of the protocol.
    const PROTOCOL: &'static str;
    /// Its clients, in words for a log line.
    const CLIENTS: &'static str;
    /// The name of it for the service.
    const BY: BroughtBy;

    /// Returns a new circuit, whose output is our greeting.
    fn begin(shared: &Arc<Self::Shared>) -> Self;

    /// Returns the bytes for the client; the caller takes those that are sent.
    fn output(&mut self) -> &mut Vec<u8>;

    /// Takes the changes of its list since the last call.
    fn take_changes(&mut self) -> Vec<ListChange>;

    /// Handles bytes of a client.
    ///
    /// # Errors
    /// [`CloseCircuit`] for an invalid message, or one that is too large.
    fn received(&mut self, bytes: &[u8], database: &Database, port: u16) -> Result<(), CloseCircuit>;

    /// Handles a reply of its list.
    fn reply(&mut self, reply: &Reply);

    /// Adds to the output what waited until some of it was sent.
    fn flush(&mut self) {}

    /// Returns whether it takes further replies.
    fn has_room(&self) -> bool {
        true
    }

    /// Returns the answers to the searches of a datagram: `None` if there is none.
    fn search(shared: &Self::Shared, datagram: &[u8], database: &Database, port: u16) -> Option<SearchReply>;
}

/// The answers to searches of a datagram.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SearchReply {
    /// The datagram for the client.
    pub bytes: Vec<u8>,
    /// The client's port for answers, if it isn't that of the datagram.
    pub port: Option<u16>,
}

impl GatewayWire for GatewayCircuit {
    type Shared = ();
    const PROTOCOL: &'static str = "Channel Access";
    const CLIENTS: &'static str = "clients of Channel Access";
    const BY: BroughtBy = BroughtBy::ChannelAccess;

    fn begin(_: &Arc<()>) -> Self {
        Self::new()
    }

    fn output(&mut self) -> &mut Vec<u8> {
        self.output()
    }

    fn take_changes(&mut self) -> Vec<ListChange> {
        self.take_changes()
    }

    fn received(&mut self, bytes: &[u8], database: &Database, port: u16) -> Result<(), CloseCircuit> {
        self.received(bytes, database, port)
    }

    fn reply(&mut self, reply: &Reply) {
        self.reply(reply);
    }

    fn search((): &(), datagram: &[u8], database: &Database, port: u16) -> Option<SearchReply> {
        search(datagram, database, port).map(|bytes| SearchReply { bytes, port: None })
    }
}

/// A client's circuit.
#[derive(Debug, Default)]
pub struct GatewayCircuit {
    input: Vec<u8>,
    output: Vec<u8>,
    changes: Vec<ListChange>,
    /// The channels, by the server's numbers.
    channels: HashMap<u32, Channel, ahash::RandomState>,
    next_channel: u32,
    /// The purpose of each of the list's requests, by its number.
    asked: BTreeMap<i64, GatewayRequest>,
    /// The requests of monitors, by the client's numbers.
    monitors: HashMap<(u32, u32), i64, ahash::RandomState>,
    next_request: i64,
}

/// A variable that a client has opened.
#[derive(Debug)]
struct Channel {
    request: Request,
    count: u32,
    details: Details,
}

/// An awaited answer to a client.
#[derive(Debug, Clone, Copy)]
struct GatewayRequest {
    channel: u32,
    command: u16,
    data_type: u16,
    count: u32,
    /// The client's number of the request.
    number: u32,
}

impl GatewayCircuit {
    /// Returns a new circuit, whose output begins with our version.
    pub fn new() -> Self {
        let mut circuit = Self { next_channel: 1, next_request: 1, ..Self::default() };
        version().write(&[], &mut circuit.output);
        circuit
    }

    /// Returns the bytes for the client; the caller clears them.
    pub fn output(&mut self) -> &mut Vec<u8> {
        &mut self.output
    }

    /// Takes the changes of its list since the last call.
    pub fn take_changes(&mut self) -> Vec<ListChange> {
        std::mem::take(&mut self.changes)
    }

    /// Handles bytes of a client.
    ///
    /// # Errors
    /// [`CloseCircuit`] for an invalid message, or one that is too large.
    pub fn received(&mut self, bytes: &[u8], database: &Database, port: u16) -> Result<(), CloseCircuit> {
        let mut input = std::mem::take(&mut self.input);
        input.extend_from_slice(bytes);
        let mut rest = &*input;
        while let Some((message, length)) = message::next(rest, LARGEST).map_err(|_| CloseCircuit)? {
            self.take(message, database, port)?;
            rest = &rest[length..];
        }
        self.input = rest.to_vec();
        Ok(())
    }

    fn take(&mut self, message: ChannelMessage<'_>, database: &Database, port: u16) -> Result<(), CloseCircuit> {
        let header = message.header;
        match header.command {
            command::SEARCH => {
                if let Some(answer) = search_answer(message, database, port) {
                    self.output.extend(answer);
                }
            }
            command::CREATE_CHAN => self.create(message, database)?,
            command::EVENT_ADD => self.ask(&header, command::EVENT_ADD)?,
            command::READ_NOTIFY => self.ask(&header, command::READ_NOTIFY)?,
            command::EVENT_CANCEL => self.cancel(&header),
            command::WRITE_NOTIFY => {
                ChannelHeader { first: NO_WRITE_ACCESS, ..header }.write(&[], &mut self.output);
            }
            command::CLEAR_CHANNEL => self.clear(&header),
            command::ECHO => {
                ChannelHeader { command: command::ECHO, ..ChannelHeader::default() }.write(&[], &mut self.output)
            }
            // Names of user and host, and messages that need no answer.
            _ => {}
        }
        Ok(())
    }

    /// Opens a channel, if the device exists.
    fn create(&mut self, message: ChannelMessage<'_>, database: &Database) -> Result<(), CloseCircuit> {
        let cid = message.header.first;
        if self.channels.len() >= MOST_CHANNELS {
            return Err(CloseCircuit);
        }
        let Some((request, target)) = name(message.payload).and_then(|name| variable(name, database)) else {
            let header = ChannelHeader { command: command::CREATE_CH_FAIL, first: cid, ..ChannelHeader::default() };
            header.write(&[], &mut self.output);
            return Ok(());
        };
        let (native, count) = shape(&target);
        let (details, _) = limits_of(&target);
        let sid = self.next_channel;
        self.next_channel = sid.checked_add(1).ok_or(CloseCircuit)?;
        self.channels.insert(sid, Channel { request, count, details });
        let rights = ChannelHeader {
            command: command::ACCESS_RIGHTS,
            first: cid,
            second: READ_ONLY,
            ..ChannelHeader::default()
        };
        rights.write(&[], &mut self.output);
        let data_type = native as u16;
        ChannelHeader { command: command::CREATE_CHAN, data_type, count, first: cid, second: sid }
            .write(&[], &mut self.output);
        Ok(())
    }

    /// Adds a read or a monitor to the list.
    fn ask(&mut self, header: &ChannelHeader, command: u16) -> Result<(), CloseCircuit> {
        let ChannelHeader { data_type, count, first: sid, second: number, .. } = *header;
        let Some(channel) = self.channels.get(&sid) else { return Err(CloseCircuit) };
        if self.asked.len() >= MOST_ASKED || count > MOST_ELEMENTS {
            return Err(CloseCircuit);
        }
        let is_monitor = command == command::EVENT_ADD;
        let event = if is_monitor { event_of_monitor(&channel.request) } else { DrfEvent::Immediate };
        let request = Request { event, ..channel.request.clone() };
        let reference = self.next_request;
        self.next_request += 1;
        self.asked.insert(reference, GatewayRequest { channel: sid, command, data_type, count, number });
        if is_monitor && let Some(older) = self.monitors.insert((sid, number), reference) {
            self.forget(older);
        }
        self.changes.push(ListChange::Add(reference, request.to_string()));
        Ok(())
    }

    fn forget(&mut self, reference: i64) {
        if self.asked.remove(&reference).is_some() {
            self.changes.push(ListChange::Remove(reference));
        }
    }

    /// Ends a monitor. The last answer to it has no value.
    fn cancel(&mut self, header: &ChannelHeader) {
        if let Some(reference) = self.monitors.remove(&(header.first, header.second)) {
            self.forget(reference);
            ChannelHeader { command: command::EVENT_ADD, count: 0, ..*header }.write(&[], &mut self.output);
        }
    }

    /// Closes a channel.
    fn clear(&mut self, header: &ChannelHeader) {
        let sid = header.first;
        if self.channels.remove(&sid).is_none() {
            return;
        }
        let of_it = self.asked.iter().filter(|(_, asked)| asked.channel == sid).map(|(reference, _)| *reference);
        for reference in of_it.collect::<Vec<_>>() {
            self.forget(reference);
        }
        self.monitors.retain(|(channel, _), _| *channel != sid);
        let header = ChannelHeader {
            command: command::CLEAR_CHANNEL,
            first: sid,
            second: header.second,
            ..ChannelHeader::default()
        };
        header.write(&[], &mut self.output);
    }

    /// Handles a reply of its list.
    pub fn reply(&mut self, reply: &Reply) {
        let Some((reference, reading)) = reading(reply) else { return };
        let Some(asked) = self.asked.get(&reference).copied() else { return };
        if asked.command == command::READ_NOTIFY {
            self.forget(reference);
        }
        let Some(channel) = self.channels.get(&asked.channel) else { return };
        // A client that asks for 0 elements wants all.
        let many = if asked.count == 0 { reading.elements.len().max(1) } else { asked.count as usize };
        let many = many.min(channel.count.max(1) as usize);
        let payload = encode(asked.data_type, many, &reading, &channel.details);
        let first = if payload.is_some() { NORMAL } else { NO_CONVERSION };
        let count = if payload.is_some() { many as u32 } else { 0 };
        let GatewayRequest { command, data_type, number, .. } = asked;
        let header = ChannelHeader { command, data_type, count, first, second: number };
        header.write(&payload.unwrap_or_default(), &mut self.output);
    }
}

/// Returns the answers to the searches of a datagram: `None` if there is none.
pub fn search(datagram: &[u8], database: &Database, port: u16) -> Option<Vec<u8>> {
    let mut answers = Vec::new();
    version().write(&[], &mut answers);
    let head = answers.len();
    for message in message::messages(datagram).filter(|message| message.header.command == command::SEARCH) {
        answers.extend(search_answer(message, database, port).unwrap_or_default());
    }
    (answers.len() > head).then_some(answers)
}

/// Returns the answer to a search if the device exists: the port on this host.
fn search_answer(message: ChannelMessage<'_>, database: &Database, port: u16) -> Option<Vec<u8>> {
    variable(name(message.payload)?, database)?;
    let mut answer = Vec::new();
    let (first, second) = (u32::MAX, message.header.second);
    let header = ChannelHeader { command: command::SEARCH, data_type: port, count: 0, first, second };
    let mut payload = MINOR.to_be_bytes().to_vec();
    payload.resize(8, 0);
    header.write(&payload, &mut answer);
    Some(answer)
}

/// Returns the name in a payload.
fn name(payload: &[u8]) -> Option<&str> {
    let bytes = payload.split(|byte| *byte == 0).next()?;
    std::str::from_utf8(bytes).ok().filter(|name| (1..=LONGEST_NAME).contains(&name.len()))
}

/// Returns the request in a name, and its target: numbers or texts of a reading or setting. A
/// device that is itself a variable of that name is not served, since a search of ours would then
/// find this server.
fn variable(name: &str, database: &Database) -> Option<(Request, FoundTarget)> {
    let request = Request::parse(name).ok().filter(|request| request.model.is_none())?;
    let is_value = matches!(request.property, Property::Reading | Property::Setting)
        && matches!(request.field, PropertyField::Scaled | PropertyField::Primary);
    let target = database.find(&request).ok().filter(|_| is_value)?;
    let own = target.device.place(request.property).and_then(|place| place.variable.as_deref());
    (own != Some(name) && matches!(target.stored, Stored::FrontEnd(_))).then_some((request, target))
}

/// Returns the event of a monitor: that in the name of its variable, or each change.
fn event_of_monitor(request: &Request) -> DrfEvent {
    match &request.event {
        DrfEvent::Default | DrfEvent::Immediate | DrfEvent::Never => {
            DrfEvent::OnChange { period: Time::Micros(PERIOD), at_once: true }
        }
        event => event.clone(),
    }
}

/// Returns the constant details of a request's target, and whether it has limits.
fn limits_of(target: &FoundTarget) -> (Details, bool) {
    let limits = target.device.setting.as_ref().map(|setting| setting.limits.clone()).unwrap_or_default();
    let units = target.device.info(target.form).units.unwrap_or_default();
    let control = (limits.min.unwrap_or_default(), limits.max.unwrap_or_default());
    (Details { units, control }, limits.min.is_some() || limits.max.is_some())
}

/// Returns the type and the number of elements of a request's target.
fn shape(target: &FoundTarget) -> (Native, u32) {
    let value = target.device.value(target.form.property);
    let is_text = value.is_some_and(|value| value.scaling.text().is_some());
    let length = if let Stored::FrontEnd(wanted) = &target.stored { wanted.length } else { 0 };
    let count = value.map_or(1, |value| length / value.place.element.max(1)).max(1);
    (if is_text { Native::Text } else { Native::Double }, count)
}

/// Returns the number of a reply's request, and its value for clients of EPICS: a failure is an
/// invalid value.
fn reading(reply: &Reply) -> Option<(i64, SentReading)> {
    let well = |elements, unix_millis| SentReading { elements, alarm: (0, 0), unix_millis };
    Some(match reply {
        Reply::Scalar(reply) => (reply.ref_id, well(Elements::Numbers(vec![reply.data]), reply.timestamp)),
        Reply::ScalarArray(reply) => (reply.ref_id, well(Elements::Numbers(reply.data.clone()), reply.timestamp)),
        Reply::Text(reply) => (reply.ref_id, well(Elements::Texts(vec![reply.data.clone()]), reply.timestamp)),
        Reply::TextArray(reply) => (reply.ref_id, well(Elements::Texts(reply.data.clone()), reply.timestamp)),
        Reply::Status(reply) => {
            let elements = Elements::Numbers(Vec::new());
            (reply.ref_id, SentReading { elements, alarm: BROKEN, unix_millis: reply.timestamp })
        }
        _ => return None,
    })
}

/// The largest payload of a client, in bytes.
pub(crate) const LARGEST: usize = 16 << 10;
/// The most channels of a circuit, and the most reads and monitors on it.
pub(crate) const MOST_CHANNELS: usize = 20_000;
pub(crate) const MOST_ASKED: usize = 20_000;
/// The most elements that a client may request.
const MOST_ELEMENTS: u32 = 8192;
/// The shortest time between two updates of a device without an event of its own, in microseconds.
const PERIOD: u64 = 100_000;
/// The rights of each channel: it can be read.
const READ_ONLY: u32 = 1;
/// Statuses: a setting that is not permitted, and a type that a value can't have.
const NO_WRITE_ACCESS: u32 = 47 << 3;
const NO_CONVERSION: u32 = 50 << 3;
/// The alarm for a value that could not be read: communication, and invalid.
const BROKEN: (u16, u16) = (9, 3);
