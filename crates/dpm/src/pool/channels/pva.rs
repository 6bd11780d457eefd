//! The messages of a circuit of pvAccess.
//!
//! A question takes several steps: the server first describes the type of the values, then sends
//! or takes them. The number of a monitor is its channel's.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use super::wire::{ChannelNews, Cid, CircuitWire, FoundServer, OUR_NAME, WireAnswer, WireQuestion, sample};
use crate::database::{ChannelSearch, DeviceNode, Reached, ValueShape};
use crate::pool::values::without_value;
use crate::pv_access::bytes::{ByteOrder, PvaInput, PvaOutput};
use crate::pv_access::frame::{self, PvaFrame, PvaFrames};
use crate::pv_access::message::{self, SearchAnswer};
use crate::pv_access::normative::{self, NtPlaces, NtReading, PutFault};
use crate::pv_access::types::{PvaFields, PvaType, TypeRegistry};
use crate::pv_access::value::PvaBits;
use crate::pv_access::{PvaFault, command, control, step};
use crate::show::Sample;
use crate::status::Status;
use crate::time::Moment;

/// The messages of a circuit of pvAccess.
#[derive(Debug, Default)]
pub(crate) struct PvaWire {
    frames: PvaFrames,
    registry: TypeRegistry,
    /// The byte order in which the server wants to read.
    order: ByteOrder,
    is_greeted: bool,
    channels: HashMap<Cid, PvaChannel, ahash::RandomState>,
    requests: HashMap<u32, PvaRequest, ahash::RandomState>,
}

#[derive(Debug)]
struct PvaChannel {
    shape: ValueShape,
    /// The server's number, once the channel is open.
    sid: Option<u32>,
}

/// A monitor or question that has not ended.
#[derive(Debug)]
struct PvaRequest {
    cid: Cid,
    sid: u32,
    kind: RequestKind,
    /// The type of its values, once that is known.
    of: Option<(Arc<PvaFields>, NtPlaces)>,
    reading: NtReading,
}

#[derive(Debug)]
enum RequestKind {
    /// A monitor. The flag is true if an update was skipped, so that changes may be missing.
    Monitor { is_stale: bool },
    /// The value now.
    Read,
    /// The limits for setting it.
    Bounds,
    /// A setting to these bytes.
    Put { shape: ValueShape, bytes: Vec<u8> },
}

impl RequestKind {
    fn command(&self) -> u8 {
        match self {
            Self::Monitor { .. } => command::MONITOR,
            Self::Read | Self::Bounds => command::GET,
            Self::Put { .. } => command::PUT,
        }
    }

    fn fields(&self) -> &'static [&'static str] {
        match self {
            Self::Monitor { .. } | Self::Read => &normative::FIELDS,
            Self::Bounds => &["control"],
            Self::Put { .. } => &["value"],
        }
    }
}

impl CircuitWire for PvaWire {
    const MUST_SPEAK: bool = true;
    const NAMES_PORT: bool = true;
    const SEARCH_HEAD: usize = 48;

    fn search_of(node: &DeviceNode) -> Option<&ChannelSearch> {
        if let Reached::PvAccess(search) = &node.reached { Some(search) } else { None }
    }

    fn size_of_search(name: &str) -> usize {
        message::size_of_search(name)
    }

    fn datagram(names: &[(Cid, &str)], to: SocketAddr, port: u16) -> Vec<u8> {
        let is_for_many = match to.ip() {
            IpAddr::V4(host) => host.is_multicast() || host.octets()[3] == u8::MAX,
            IpAddr::V6(host) => host.is_multicast(),
        };
        let mut datagram = Vec::new();
        message::search(names, port, !is_for_many, ByteOrder::Big, &mut datagram);
        datagram
    }

    fn servers_in(datagram: &[u8]) -> Vec<FoundServer> {
        let answers = frame::search_responses(datagram);
        answers.filter_map(|mut input| SearchAnswer::read(&mut input).ok()).flat_map(servers_of).collect()
    }

    fn search(&self, names: &[(Cid, &str)], out: &mut Vec<u8>) {
        message::search(names, 0, false, self.order, out);
    }

    /// Returns false: the server speaks first.
    fn greet(&mut self, _: &mut Vec<u8>) -> bool {
        false
    }

    fn next(
        &mut self,
        input: &[u8],
        now: Moment,
        out: &mut Vec<u8>,
    ) -> Result<Option<(ChannelNews, usize)>, &'static str> {
        let Some((frame, length)) = self.frames.next(input).map_err(|PvaFault(why)| why)? else { return Ok(None) };
        let news = match frame {
            PvaFrame::Part => Ok(ChannelNews::Part),
            PvaFrame::Control { command, order, value } => {
                match command {
                    control::SET_BYTE_ORDER => self.order = order,
                    control::SET_MARKER => {
                        frame::write_control(control::ACKNOWLEDGE_MARKER, value, self.order, out);
                    }
                    _ => {}
                }
                Ok(ChannelNews::Alive)
            }
            PvaFrame::Overlong { command, number } => self.overlong(command, number, now, out),
            PvaFrame::Message { command, order, payload } => {
                self.message(command, &mut PvaInput::new(&payload, order), now, out)
            }
        };
        news.map(|news| Some((news, length))).map_err(|PvaFault(why)| why)
    }

    fn create(&mut self, cid: Cid, name: &str, shape: ValueShape, out: &mut Vec<u8>) {
        self.channels.insert(cid, PvaChannel { shape, sid: None });
        message::create(cid, name, self.order, out);
    }

    fn clear(&mut self, cid: Cid, out: &mut Vec<u8>) {
        self.requests.remove(&cid);
        if let Some(sid) = self.channels.remove(&cid).and_then(|channel| channel.sid) {
            message::pair(command::DESTROY_CHANNEL, sid, cid, self.order, out);
        }
    }

    fn monitor(&mut self, cid: Cid, out: &mut Vec<u8>) {
        self.begin(cid, cid, |_| RequestKind::Monitor { is_stale: false }, out);
    }

    fn ask(&mut self, cid: Cid, number: u32, question: WireQuestion<'_>, out: &mut Vec<u8>) -> Result<(), Status> {
        let kind = |shape| match question {
            WireQuestion::Read => RequestKind::Read,
            WireQuestion::Bounds => RequestKind::Bounds,
            WireQuestion::Put(bytes) => RequestKind::Put { shape, bytes: bytes.to_vec() },
        };
        self.begin(cid, number, kind, out);
        Ok(())
    }

    fn forget(&mut self, number: u32, out: &mut Vec<u8>) {
        let Some(PvaRequest { cid, sid, .. }) = self.requests.remove(&number) else { return };
        if self.channels.get(&cid).is_some_and(|channel| channel.sid == Some(sid)) {
            message::pair(command::DESTROY_REQUEST, sid, number, self.order, out);
        }
    }

    fn echo(&mut self, out: &mut Vec<u8>) {
        message::echo(self.order, out);
    }
}

impl PvaWire {
    /// Begins a request for an open channel.
    fn begin(&mut self, cid: Cid, number: u32, kind: impl Fn(ValueShape) -> RequestKind, out: &mut Vec<u8>) {
        let Some(&PvaChannel { shape, sid: Some(sid) }) = self.channels.get(&cid) else { return };
        let kind = kind(shape);
        message::init(kind.command(), (sid, number), kind.fields(), self.order, out);
        self.requests.insert(number, PvaRequest { cid, sid, kind, of: None, reading: NtReading::new(shape) });
    }

    /// Handles a message.
    fn message(
        &mut self,
        command: u8,
        input: &mut PvaInput<'_>,
        now: Moment,
        out: &mut Vec<u8>,
    ) -> Result<ChannelNews, PvaFault> {
        Ok(match command {
            command::CONNECTION_VALIDATION => {
                let accepts_users = message::accepts_users(input)?;
                if !std::mem::replace(&mut self.is_greeted, true) {
                    message::greeting(accepts_users.then_some(OUR_NAME), self.order, out);
                }
                ChannelNews::Alive
            }
            // A server that doesn't accept our name treats us like any other client.
            command::CONNECTION_VALIDATED => message::refusal(input).map(|_| ChannelNews::Ready)?,
            command::SEARCH_RESPONSE => ChannelNews::Found(servers_of(SearchAnswer::read(input)?)),
            command::CREATE_CHANNEL => self.created(input, out)?,
            command::DESTROY_CHANNEL => {
                let (sid, cid) = (input.long()?, input.long()?);
                // We may have closed it, and opened another of its number.
                if self.channels.get(&cid).is_none_or(|channel| channel.sid != Some(sid)) {
                    return Ok(ChannelNews::Alive);
                }
                self.channels.remove(&cid);
                self.requests.remove(&cid);
                ChannelNews::Closed(cid)
            }
            command::GET | command::PUT | command::MONITOR => {
                let (number, step) = (input.long()?, input.byte()?);
                match self.requests.get(&number) {
                    Some(request) if request.kind.command() == command => {
                        self.advance(number, step, input, now, out)?
                    }
                    _ => ChannelNews::Stray,
                }
            }
            // This includes the answer to an echo.
            _ => ChannelNews::Alive,
        })
    }

    fn created(&mut self, input: &mut PvaInput<'_>, out: &mut Vec<u8>) -> Result<ChannelNews, PvaFault> {
        let (cid, sid, refusal) = (input.long()?, input.long()?, message::refusal(input)?);
        let wanted = self.channels.get_mut(&cid).filter(|channel| channel.sid.is_none());
        Ok(match (wanted, refusal) {
            (Some(channel), None) => {
                channel.sid = Some(sid);
                ChannelNews::Created(cid, true)
            }
            (Some(_), Some(_)) => {
                self.channels.remove(&cid);
                ChannelNews::Refused(cid)
            }
            (None, None) => {
                message::pair(command::DESTROY_CHANNEL, sid, cid, self.order, out);
                ChannelNews::Stray
            }
            (None, Some(_)) => ChannelNews::Stray,
        })
    }

    /// Handles an answer to a step of a request.
    fn advance(
        &mut self,
        number: u32,
        step: u8,
        input: &mut PvaInput<'_>,
        now: Moment,
        out: &mut Vec<u8>,
    ) -> Result<ChannelNews, PvaFault> {
        let Some(request) = self.requests.get_mut(&number) else { return Ok(ChannelNews::Stray) };
        let is_update = step & (step::INIT | step::DESTROY) == 0 && request.kind.command() == command::MONITOR;
        if !is_update && let Some(words) = message::refusal(input)? {
            let status = status(&words);
            return Ok(self.end(number, status, now, out));
        }
        if step & step::INIT != 0 {
            return self.handle_type(number, input, now, out);
        }
        let Some((of, places)) = &request.of else { return Ok(ChannelNews::Stray) };
        let order = self.order;
        Ok(match &mut request.kind {
            RequestKind::Monitor { .. } if !is_update => self.end(number, Status::NODE_DOWN, now, out),
            RequestKind::Monitor { is_stale: true } => {
                // All parts are needed again, as from the beginning.
                let (cid, sid) = (request.cid, request.sid);
                message::pair(command::DESTROY_REQUEST, sid, number, order, out);
                self.monitor(cid, out);
                ChannelNews::Alive
            }
            RequestKind::Put { shape, bytes } if step & step::GET != 0 => {
                let bits = PvaBits::read(input)?;
                request.reading.update((of, places), Some(&bits), input, &mut self.registry)?;
                let put = put((of, (*shape, bytes)), request.reading.choices(), order);
                self.put(number, put, out)
            }
            RequestKind::Put { .. } => {
                self.requests.remove(&number);
                ChannelNews::Answer(number, WireAnswer::Put(Status::SUCCESS))
            }
            RequestKind::Monitor { .. } | RequestKind::Read | RequestKind::Bounds => {
                let bits = PvaBits::read(input)?;
                request.reading.update((of, places), Some(&bits), input, &mut self.registry)?;
                self.read(number, now)
            }
        })
    }

    /// Handles the type of a request's values: takes the next step.
    fn handle_type(
        &mut self,
        number: u32,
        input: &mut PvaInput<'_>,
        now: Moment,
        out: &mut Vec<u8>,
    ) -> Result<ChannelNews, PvaFault> {
        let of = PvaType::read(input, &mut self.registry)?;
        let Some(request) = self.requests.get_mut(&number) else { return Ok(ChannelNews::Stray) };
        if request.of.is_some() {
            return Ok(ChannelNews::Stray);
        }
        let Some(PvaType::Structure(of)) = of else { return Ok(self.end(number, Status::TRUNC_REPLY, now, out)) };
        let (order, whole) = (self.order, (request.sid, number));
        let next = match &request.kind {
            RequestKind::Monitor { .. } => step::START,
            RequestKind::Read | RequestKind::Bounds => step::DESTROY,
            RequestKind::Put { shape, .. } if shape.is_text() && normative::has_choices(&of) => step::GET,
            RequestKind::Put { shape, bytes } => {
                let put = put((&of, (*shape, bytes)), &[], order);
                request.of = Some((Arc::clone(&of), NtPlaces::of(&of)));
                return Ok(self.put(number, put, out));
            }
        };
        message::step(request.kind.command(), whole, next, order, &[], out);
        request.of = Some((Arc::clone(&of), NtPlaces::of(&of)));
        Ok(ChannelNews::Alive)
    }

    /// Sends a setting, or ends it if the variable can't have its value.
    fn put(&mut self, number: u32, put: Result<Vec<u8>, Status>, out: &mut Vec<u8>) -> ChannelNews {
        let Some(request) = self.requests.get(&number) else { return ChannelNews::Stray };
        match put {
            Ok(body) => {
                message::step(command::PUT, (request.sid, number), step::DESTROY, self.order, &body, out);
                ChannelNews::Alive
            }
            Err(status) => {
                self.forget(number, out);
                ChannelNews::Answer(number, WireAnswer::Put(status))
            }
        }
    }

    /// Returns what has been read for a monitor or question.
    fn read(&mut self, number: u32, now: Moment) -> ChannelNews {
        let Some(PvaRequest { cid, kind, reading, .. }) = self.requests.get(&number) else { return ChannelNews::Stray };
        let sample = || sample(reading.bytes(), reading.severity, Some(reading.unix_millis()), now);
        let answer = match kind {
            RequestKind::Monitor { .. } => return ChannelNews::Update(*cid, sample()),
            RequestKind::Bounds => WireAnswer::Bounds(reading.limits()),
            RequestKind::Read | RequestKind::Put { .. } => WireAnswer::Read(sample()),
        };
        self.requests.remove(&number);
        ChannelNews::Answer(number, answer)
    }

    /// Ends a request without a value.
    fn end(&mut self, number: u32, status: Status, now: Moment, out: &mut Vec<u8>) -> ChannelNews {
        let Some(PvaRequest { cid, kind, of, .. }) = self.requests.remove(&number) else { return ChannelNews::Stray };
        let failed = || -> Sample { without_value(status, now) };
        match kind {
            RequestKind::Monitor { .. } if of.is_some() => {
                // No more updates will come, so the channel has to be opened again.
                self.clear(cid, out);
                ChannelNews::Closed(cid)
            }
            RequestKind::Monitor { .. } => ChannelNews::Update(cid, failed()),
            RequestKind::Read => ChannelNews::Answer(number, WireAnswer::Read(failed())),
            RequestKind::Bounds => ChannelNews::Answer(number, WireAnswer::Bounds(None)),
            RequestKind::Put { .. } => ChannelNews::Answer(number, WireAnswer::Put(status)),
        }
    }

    /// Handles a message that is too long to be read.
    fn overlong(&mut self, command: u8, number: u32, now: Moment, out: &mut Vec<u8>) -> Result<ChannelNews, PvaFault> {
        let request = self.requests.get_mut(&number).filter(|request| request.kind.command() == command);
        Ok(match request.map(|request| (request.cid, &mut request.kind)) {
            Some((cid, RequestKind::Monitor { is_stale })) => {
                *is_stale = true;
                ChannelNews::Update(cid, without_value(Status::TRUNC_REPLY, now))
            }
            Some(_) => self.end(number, Status::TRUNC_REPLY, now, out),
            None if matches!(command, command::GET | command::PUT | command::MONITOR) => ChannelNews::Stray,
            None => return Err(PvaFault("its message is too long")),
        })
    }
}

/// Returns what sets a variable to a property's bytes.
fn put(
    (of, value): (&PvaFields, (ValueShape, &[u8])),
    choices: &[Box<[u8]>],
    order: ByteOrder,
) -> Result<Vec<u8>, Status> {
    let mut body = PvaOutput::new(order);
    let written = normative::write_put(of, value, choices, &mut body);
    written.map(|()| body.bytes).map_err(|fault| match fault {
        PutFault::Length => Status::BAD_LENGTH,
        PutFault::Range => Status::RANGE,
        PutFault::Kind => Status::SCALEFAIL,
    })
}

/// Returns the servers that an answer to a search names.
fn servers_of(answer: SearchAnswer) -> Vec<FoundServer> {
    let SearchAnswer { host, port, found } = answer;
    found.into_iter().filter(|_| port != 0).map(|cid| FoundServer { cid, host, port }).collect()
}

/// Returns the status that clients get for a refusal, for which pvAccess has only words.
fn status(words: &str) -> Status {
    let words = words.to_lowercase();
    let is_denied = ["permission", "permitted", "denied"].iter().any(|word| words.contains(word));
    if is_denied { Status::PRIV } else { Status::GENERIC_ERROR }
}
