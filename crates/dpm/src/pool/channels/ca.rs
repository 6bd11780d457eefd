//! The messages of a circuit of Channel Access.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use super::wire::{ChannelNews, Cid, CircuitWire, FoundServer, OUR_NAME, WireAnswer, WireQuestion, numbers, sample};
use crate::channel_access::data::{ChannelData, DataForm, Native};
use crate::channel_access::message::{self, ChannelHeader, ChannelMessage, version};
use crate::channel_access::{MINOR, NORMAL, command};
use crate::database::{ChannelSearch, DeviceNode, Reached, ValueShape};
use crate::pool::values::without_value;
use crate::show::Sample;
use crate::status::Status;
use crate::time::Moment;

/// The messages of a circuit of Channel Access.
#[derive(Debug, Default)]
pub(crate) struct CaWire {
    /// The minor version of the server's protocol.
    minor: u16,
    channels: HashMap<Cid, CaChannel, ahash::RandomState>,
    /// Questions that were not answered, by their numbers.
    questions: HashMap<u32, (Cid, CaQuestion), ahash::RandomState>,
}

#[derive(Debug)]
struct CaChannel {
    shape: ValueShape,
    /// The server's side of it, once it is open.
    open: Option<CaOpen>,
}

#[derive(Debug, Clone, Copy)]
struct CaOpen {
    /// The server's number.
    sid: u32,
    /// The most elements that it can have.
    count: u32,
    /// The type in which it is read and set.
    native: Native,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum CaQuestion {
    Read,
    Bounds,
    Put,
}

impl CircuitWire for CaWire {
    const MUST_SPEAK: bool = false;
    const NAMES_PORT: bool = false;
    const SEARCH_HEAD: usize = 16;

    fn search_of(node: &DeviceNode) -> Option<&ChannelSearch> {
        if let Reached::ChannelAccess(search) = &node.reached { Some(search) } else { None }
    }

    fn size_of_search(name: &str) -> usize {
        16 + (name.len() + 1).next_multiple_of(8)
    }

    fn datagram(names: &[(Cid, &str)], _: SocketAddr, _: u16) -> Vec<u8> {
        let mut datagram = Vec::new();
        version().write(&[], &mut datagram);
        write_searches(names, &mut datagram);
        datagram
    }

    fn servers_in(datagram: &[u8]) -> Vec<FoundServer> {
        let searches = message::messages(datagram).filter(|message| message.header.command == command::SEARCH);
        searches.filter_map(|message| server_in(&message.header)).collect()
    }

    /// Appends the searches alone: a name server got the version when its circuit was opened.
    fn search(&self, names: &[(Cid, &str)], out: &mut Vec<u8>) {
        write_searches(names, out);
    }

    fn greet(&mut self, out: &mut Vec<u8>) -> bool {
        version().write(&[], out);
        for (command, name) in [(command::HOST_NAME, OUR_NAME), (command::CLIENT_NAME, OUR_NAME)] {
            ChannelHeader { command, ..ChannelHeader::default() }.write(&message::text(name), out);
        }
        true
    }

    fn next(
        &mut self,
        input: &[u8],
        now: Moment,
        _: &mut Vec<u8>,
    ) -> Result<Option<(ChannelNews, usize)>, &'static str> {
        let next = message::next(input, LARGEST).map_err(|_| "its message is longer than what was requested")?;
        Ok(next.map(|(message, length)| (self.news(message, now), length)))
    }

    fn create(&mut self, cid: Cid, name: &str, shape: ValueShape, out: &mut Vec<u8>) {
        self.channels.insert(cid, CaChannel { shape, open: None });
        let (command, second) = (command::CREATE_CHAN, MINOR.into());
        let header = ChannelHeader { command, first: cid, second, ..ChannelHeader::default() };
        header.write(&message::text(name), out);
    }

    fn clear(&mut self, cid: Cid, out: &mut Vec<u8>) {
        let Some(CaOpen { sid, .. }) = self.channels.remove(&cid).and_then(|channel| channel.open) else { return };
        let command = command::CLEAR_CHANNEL;
        ChannelHeader { command, first: sid, second: cid, ..ChannelHeader::default() }.write(&[], out);
    }

    fn monitor(&mut self, cid: Cid, out: &mut Vec<u8>) {
        let Some((shape, open)) = self.open(cid) else { return };
        let header = ChannelHeader {
            command: command::EVENT_ADD,
            data_type: open.native.with(DataForm::Time),
            count: self.count(shape, open),
            first: open.sid,
            second: cid,
        };
        // Three unused numbers, and the mask of the changes to report.
        let mut payload = vec![0; 12];
        payload.extend_from_slice(&CHANGES.to_be_bytes());
        payload.extend_from_slice(&[0; 2]);
        header.write(&payload, out);
    }

    fn ask(&mut self, cid: Cid, number: u32, question: WireQuestion<'_>, out: &mut Vec<u8>) -> Result<(), Status> {
        let Some((shape, open)) = self.open(cid) else { return Ok(()) };
        let (command, form, count, payload, question) = match question {
            WireQuestion::Read => {
                let count = self.count(shape, open);
                (command::READ_NOTIFY, DataForm::Time, count, Vec::new(), CaQuestion::Read)
            }
            WireQuestion::Bounds => (command::READ_NOTIFY, DataForm::Control, 1, Vec::new(), CaQuestion::Bounds),
            WireQuestion::Put(bytes) => {
                let payload = payload(bytes, shape, open.native);
                let count = u32::try_from(payload.len() / open.native.size()).unwrap_or(u32::MAX);
                if count > open.count {
                    return Err(Status::BAD_LENGTH);
                }
                (command::WRITE_NOTIFY, DataForm::Plain, count, payload, CaQuestion::Put)
            }
        };
        self.questions.insert(number, (cid, question));
        let data_type = open.native.with(form);
        ChannelHeader { command, data_type, count, first: open.sid, second: number }.write(&payload, out);
        Ok(())
    }

    fn forget(&mut self, number: u32, _: &mut Vec<u8>) {
        self.questions.remove(&number);
    }

    fn echo(&mut self, out: &mut Vec<u8>) {
        ChannelHeader { command: command::ECHO, ..ChannelHeader::default() }.write(&[], out);
    }
}

impl CaWire {
    fn open(&self, cid: Cid) -> Option<(ValueShape, CaOpen)> {
        let channel = self.channels.get(&cid)?;
        Some((channel.shape, channel.open?))
    }

    /// Returns the content of a message.
    fn news(&mut self, message: ChannelMessage<'_>, now: Moment) -> ChannelNews {
        let header = message.header;
        match header.command {
            command::VERSION => {
                self.minor = u16::try_from(header.count).unwrap_or_default();
                ChannelNews::Alive
            }
            command::SEARCH => ChannelNews::Found(server_in(&header).into_iter().collect()),
            command::CREATE_CHAN => self.created(&header),
            command::ACCESS_RIGHTS => ChannelNews::MaySet(header.first, header.second & 2 != 0),
            // The number of a monitor is the channel's.
            command::EVENT_ADD => self.update(header.second, message, now),
            command::READ_NOTIFY | command::WRITE_NOTIFY => self.answer(header.second, message, now),
            command::ERROR => self.failed(message, now),
            command::CREATE_CH_FAIL => {
                self.channels.remove(&header.first);
                ChannelNews::Refused(header.first)
            }
            command::SERVER_DISCONN => {
                self.channels.remove(&header.first);
                ChannelNews::Closed(header.first)
            }
            // This includes the answer to an echo.
            _ => ChannelNews::Alive,
        }
    }

    fn created(&mut self, header: &ChannelHeader) -> ChannelNews {
        let Some(channel) = self.channels.get_mut(&header.first).filter(|channel| channel.open.is_none()) else {
            return ChannelNews::Stray;
        };
        let theirs = Native::of(header.data_type);
        let native = match (channel.shape.is_text(), theirs) {
            (false, _) => Native::Double,
            // Texts of more than 40 bytes are arrays of characters.
            (true, Some(Native::Char)) if header.count > 1 => Native::Char,
            (true, _) => Native::Text,
        };
        channel.open = Some(CaOpen { sid: header.second, count: header.count.max(1), native });
        ChannelNews::Created(header.first, theirs != Some(Native::Text))
    }

    fn update(&self, cid: Cid, message: ChannelMessage<'_>, now: Moment) -> ChannelNews {
        let Some((shape, _)) = self.open(cid) else { return ChannelNews::Stray };
        match read(message, shape, now) {
            Some(sample) => ChannelNews::Update(cid, sample),
            // The answer to the end of a monitor has no value.
            None => ChannelNews::Alive,
        }
    }

    fn answer(&mut self, number: u32, message: ChannelMessage<'_>, now: Moment) -> ChannelNews {
        let Some((cid, question)) = self.questions.remove(&number) else { return ChannelNews::Stray };
        let Some((shape, _)) = self.open(cid) else { return ChannelNews::Stray };
        let ChannelMessage { header, payload } = message;
        let is_normal = header.first == NORMAL;
        let answer = match question {
            CaQuestion::Read => {
                let sample = read(message, shape, now);
                WireAnswer::Read(sample.unwrap_or_else(|| without_value(Status::TRUNC_REPLY, now)))
            }
            CaQuestion::Bounds => {
                let data = ChannelData::decode(header.data_type, header.count, payload).filter(|_| is_normal);
                WireAnswer::Bounds(data.and_then(|data| data.limits?.control).filter(|(low, high)| low < high))
            }
            CaQuestion::Put if is_normal => WireAnswer::Put(Status::SUCCESS),
            CaQuestion::Put => WireAnswer::Put(status(header.first)),
        };
        ChannelNews::Answer(number, answer)
    }

    /// Handles an error. Its payload has the message that it is about.
    fn failed(&mut self, message: ChannelMessage<'_>, now: Moment) -> ChannelNews {
        let error = message.header.second;
        let head = without_size(message.payload);
        let Some(about) = message::messages(&head).next().map(|about| about.header) else {
            return ChannelNews::Stray;
        };
        let header = ChannelHeader { first: error, count: 0, ..about };
        let failed = ChannelMessage { header, payload: &[] };
        match about.command {
            command::READ_NOTIFY | command::WRITE_NOTIFY => self.answer(about.second, failed, now),
            command::EVENT_ADD => self.update(about.second, failed, now),
            _ => ChannelNews::Stray,
        }
    }

    /// Returns the number of elements to request: the most that any entry wants or, if that covers
    /// all, 0 for the current number each time.
    fn count(&self, shape: ValueShape, open: CaOpen) -> u32 {
        let most = if open.native == Native::Char { shape.element } else { shape.elements };
        match open.count {
            1 => 1,
            all if all <= most && self.minor >= VARYING => 0,
            all => all.min(most),
        }
    }
}

/// Returns the sample in an answer.
fn read(message: ChannelMessage<'_>, shape: ValueShape, now: Moment) -> Option<Sample> {
    let ChannelMessage { header, payload } = message;
    if header.first != NORMAL {
        return Some(without_value(status(header.first), now));
    }
    if payload.is_empty() {
        return None;
    }
    let Some(data) = ChannelData::decode(header.data_type, header.count, payload) else {
        return Some(without_value(Status::TRUNC_REPLY, now));
    };
    let many = shape.elements as usize;
    let bytes = match (shape.is_text(), data.native) {
        (true, Native::Text) => Some(data.texts().take(many).flat_map(|text| shape.fill(text)).collect()),
        (true, Native::Char) => Some(shape.fill(data.characters())),
        (false, native) if native != Native::Text => {
            Some(data.numbers().take(many).flat_map(f64::to_le_bytes).collect())
        }
        _ => None,
    };
    Some(sample(bytes, data.severity.into(), data.unix_millis, now))
}

/// Returns the payload that sets a channel to a property's bytes.
fn payload(bytes: &[u8], shape: ValueShape, native: Native) -> Vec<u8> {
    match native {
        Native::Double => numbers(bytes).flat_map(f64::to_be_bytes).collect(),
        Native::Char => bytes.iter().copied().take_while(|byte| *byte != 0).chain([0]).collect(),
        _ => bytes.chunks(shape.element.max(1) as usize).flat_map(text).collect(),
    }
}

/// Returns the text of an element in Channel Access's form, followed by a zero.
fn text(element: &[u8]) -> Vec<u8> {
    let mut bytes: Vec<u8> = element.iter().copied().take(Native::Text.size() - 1).collect();
    bytes.resize(Native::Text.size(), 0);
    bytes
}

fn write_searches(names: &[(Cid, &str)], out: &mut Vec<u8>) {
    for (cid, name) in names {
        let (command, count) = (command::SEARCH, MINOR.into());
        ChannelHeader { command, data_type: NO_REPLY, count, first: *cid, second: *cid }
            .write(&message::text(name), out);
    }
}

/// Returns the server that an answer to a search names: the port, the host, and the channel.
fn server_in(header: &ChannelHeader) -> Option<FoundServer> {
    let ChannelHeader { data_type: port, first: host, second: cid, .. } = *header;
    let host = Some(Ipv4Addr::from_bits(host)).filter(|host| !host.is_broadcast() && !host.is_unspecified());
    (port != 0).then_some(FoundServer { cid, host: host.map(IpAddr::V4), port })
}

/// Returns the head of the message that an error is about, with a size of zero.
fn without_size(payload: &[u8]) -> Vec<u8> {
    let mut head: Vec<u8> = payload.iter().copied().take(16).collect();
    if let Some(size) = head.get_mut(2..4) {
        size.fill(0);
    }
    head
}

/// Returns the status that clients get for a status of Channel Access, whose number is above three
/// bits of severity.
fn status(code: u32) -> Status {
    match code >> 3 {
        10 => Status::UTIME,
        14 | 50 => Status::SCALEFAIL,
        22 => Status::BAD_LENGTH,
        24 => Status::NODE_DOWN,
        46 | 47 => Status::PRIV,
        _ => Status::GENERIC_ERROR,
    }
}

/// The largest requested payload: all elements of the largest property, with their details.
pub(crate) const LARGEST: usize = (8 << 10) + 512;
/// Servers without the variable stay silent.
const NO_REPLY: u16 = 5;
/// The changes that servers report: values and alarms.
const CHANGES: u16 = 1 | 4;
/// The first version in which arrays may have a varying length.
const VARYING: u16 = 13;
