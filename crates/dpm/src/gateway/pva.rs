//! The server's side of a circuit of pvAccess, read only.
//!
//! A circuit turns the bytes of a client into requests of a list, and the replies of that list into
//! bytes, as that of Channel Access does. Updates are built once for all circuits. Of a monitor
//! whose client is slow only the newest update waits.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

use super::flow::MonitorFlow;
use super::updates::{SharedUpdates, UpdateKey};
use super::{
    CloseCircuit, GatewayWire, ListChange, MOST_ASKED, MOST_CHANNELS, SearchReply, event_of_monitor, limits_of,
    reading, shape, variable,
};
use crate::channel_access::data::Native;
use crate::channel_access::encode::Details;
use crate::database::Database;
use crate::drf::{DrfEvent, Request};
use crate::pv_access::bytes::{ByteOrder, PvaInput, PvaOutput};
use crate::pv_access::frame::{self, PvaFrame, PvaFrames};
use crate::pv_access::served::{ServedForm, ServedKind, ServedReading};
use crate::pv_access::serving::{self, SearchQuestion};
use crate::pv_access::types::TypeRegistry;
use crate::pv_access::{LONGEST_NAME, PvaFault, command, control, step};
use crate::sdd::reply::Reply;
use crate::service::BroughtBy;
use crate::status::Status;

/// A client's circuit.
#[derive(Debug)]
pub struct PvaGatewayCircuit {
    frames: PvaFrames,
    registry: TypeRegistry,
    input: Vec<u8>,
    output: Vec<u8>,
    changes: Vec<ListChange>,
    /// The channels, by our numbers.
    channels: HashMap<u32, PvaGatewayChannel, ahash::RandomState>,
    next_channel: u32,
    /// The requests, by the client's numbers.
    requests: HashMap<u32, PvaGatewayRequest, ahash::RandomState>,
    /// The requests of each channel, so that closing it costs no look at all others.
    of_channels: BTreeSet<(u32, u32)>,
    /// The client's numbers of the requests that are in the list, by those of the list.
    asked: HashMap<i64, u32, ahash::RandomState>,
    next_asked: i64,
    /// The monitors whose updates may be sent.
    ready: VecDeque<u32>,
    /// The bytes of the updates that wait.
    waiting: usize,
    shared: Arc<SharedUpdates>,
}

/// A variable that a client has opened.
#[derive(Debug)]
struct PvaGatewayChannel {
    request: Request,
    form: ServedForm,
    details: Details,
}

/// A request of a client for values of a channel.
#[derive(Debug)]
struct PvaGatewayRequest {
    sid: u32,
    key: UpdateKey,
    of: RequestKind,
}

#[derive(Debug)]
enum RequestKind {
    /// Single values: the number in the list and the client's step, while one is awaited.
    Get(Option<(i64, u8)>),
    Monitor(MonitorFlow),
}

impl From<PvaFault> for CloseCircuit {
    fn from(_: PvaFault) -> Self {
        Self
    }
}

impl GatewayWire for PvaGatewayCircuit {
    type Shared = SharedUpdates;
    const PROTOCOL: &'static str = "pvAccess";
    const CLIENTS: &'static str = "clients of pvAccess";
    const BY: BroughtBy = BroughtBy::PvAccess;

    fn begin(shared: &Arc<SharedUpdates>) -> Self {
        let mut output = Vec::new();
        serving::greeting(&mut output);
        Self {
            frames: PvaFrames::of_client(),
            registry: TypeRegistry::of_client(),
            input: Vec::new(),
            output,
            changes: Vec::new(),
            channels: HashMap::default(),
            next_channel: 1,
            requests: HashMap::default(),
            of_channels: BTreeSet::new(),
            asked: HashMap::default(),
            next_asked: 1,
            ready: VecDeque::new(),
            waiting: 0,
            shared: Arc::clone(shared),
        }
    }

    fn output(&mut self) -> &mut Vec<u8> {
        &mut self.output
    }

    fn take_changes(&mut self) -> Vec<ListChange> {
        std::mem::take(&mut self.changes)
    }

    fn received(&mut self, bytes: &[u8], database: &Database, port: u16) -> Result<(), CloseCircuit> {
        let mut input = std::mem::take(&mut self.input);
        input.extend_from_slice(bytes);
        let mut rest = &*input;
        while let Some((frame, length)) = self.frames.next(rest)? {
            self.take(frame, database, port)?;
            rest = &rest[length..];
        }
        self.input = rest.to_vec();
        Ok(())
    }

    fn reply(&mut self, reply: &Reply) {
        let Some((reference, read)) = reading(reply) else { return };
        let fault = if let Reply::Status(failed) = reply { Some(Status(failed.status).to_string()) } else { None };
        let read = ServedReading { elements: read.elements, fault, unix_millis: read.unix_millis };
        let Some(number) = self.asked.get(&reference).copied() else { return };
        let Some(request) = self.requests.get_mut(&number) else { return };
        let Some(channel) = self.channels.get(&request.sid) else { return };
        match &mut request.of {
            RequestKind::Get(asked) => {
                let step = asked.take().map_or(0, |(_, step)| step);
                let value = self.shared.encode(&request.key, &read, &channel.details);
                serving::give(number, step, &value, &mut self.output);
                self.forget(reference);
                if step & step::DESTROY != 0 {
                    self.end(number);
                }
            }
            RequestKind::Monitor(flow) => {
                let all = if flow.is_first { u64::MAX } else { request.key.form.changing() };
                let selected = request.key.selected & all;
                let key = UpdateKey { selected, ..request.key.clone() };
                let update = self.shared.encode(&key, &read, &channel.details);
                self.waiting -= flow.waiting_bytes();
                flow.put(update);
                self.waiting += flow.waiting_bytes();
                self.enqueue(number);
                self.flush();
            }
        }
    }

    fn flush(&mut self) {
        while self.output.len() < ENOUGH_OUTPUT
            && let Some(number) = self.ready.pop_front()
        {
            let Some(request) = self.requests.get_mut(&number) else { continue };
            let RequestKind::Monitor(flow) = &mut request.of else { continue };
            flow.is_queued = false;
            if let Some((update, is_overrun)) = flow.take() {
                self.waiting -= update.len();
                let left_out = if is_overrun { request.key.selected & request.key.form.changing() } else { 0 };
                serving::write_update(number, &update, left_out, &mut self.output);
            }
            self.enqueue(number);
        }
    }

    fn has_room(&self) -> bool {
        self.waiting < MOST_WAITING
    }

    fn search(shared: &SharedUpdates, datagram: &[u8], database: &Database, port: u16) -> Option<SearchReply> {
        let (mut bytes, mut to) = (Vec::new(), None);
        for mut input in frame::searches(datagram) {
            let Ok(question) = SearchQuestion::read(&mut input) else { break };
            to = to.or(Some(question.port));
            answer(shared, &question, database, port, &mut bytes);
        }
        // Port 0 stands for that of the sender.
        (!bytes.is_empty()).then_some(SearchReply { bytes, port: to.filter(|port| *port != 0) })
    }
}

impl PvaGatewayCircuit {
    fn take(&mut self, frame: PvaFrame<'_>, database: &Database, port: u16) -> Result<(), CloseCircuit> {
        match frame {
            PvaFrame::Message { command, order, payload } => self.message(command, order, &payload, database, port),
            PvaFrame::Control { command: control::SET_MARKER, value, .. } => {
                let command = control::ACKNOWLEDGE_MARKER;
                frame::write_control_of_server(command, value, serving::ORDER, &mut self.output);
                Ok(())
            }
            PvaFrame::Control { .. } | PvaFrame::Part => Ok(()),
            PvaFrame::Overlong { .. } => Err(CloseCircuit),
        }
    }

    fn message(
        &mut self,
        command: u8,
        order: ByteOrder,
        payload: &[u8],
        database: &Database,
        port: u16,
    ) -> Result<(), CloseCircuit> {
        let mut input = PvaInput::new(payload, order);
        match command {
            command::CONNECTION_VALIDATION => {
                let is_known = serving::is_method_known(&mut input)?;
                serving::end_greeting((!is_known).then_some("unknown method"), &mut self.output);
            }
            command::ECHO => {
                let mut echo = PvaOutput::new(serving::ORDER);
                echo.bytes.extend_from_slice(payload);
                frame::write_of_server(command::ECHO, &echo, &mut self.output);
            }
            command::SEARCH => {
                let question = SearchQuestion::read(&mut input)?;
                answer(&self.shared, &question, database, port, &mut self.output);
            }
            command::CREATE_CHANNEL => self.create(&mut input, database)?,
            command::DESTROY_CHANNEL => self.destroy(input.long()?, input.long()?),
            command::GET => self.get(&mut input)?,
            command::MONITOR => self.monitor(&mut input)?,
            command::GET_FIELD => self.tell_type(&mut input)?,
            command::DESTROY_REQUEST => {
                let _sid = input.long()?;
                self.end(input.long()?);
            }
            command::PUT | command::PUT_GET | command::ARRAY | command::PROCESS | command::RPC => {
                let (_sid, number, step) = (input.long()?, input.long()?, input.byte()?);
                // The end of a request that never began needs no answer.
                if step & !step::DESTROY != 0 || step == 0 {
                    serving::refuse(command, number, step, READ_ONLY, &mut self.output);
                }
            }
            // Further ways to name users, and messages that need no answer.
            _ => {}
        }
        Ok(())
    }

    /// Opens channels, as far as the devices exist.
    fn create(&mut self, input: &mut PvaInput<'_>, database: &Database) -> Result<(), CloseCircuit> {
        for _ in 0..input.word()? {
            let (cid, name) = (input.long()?, input.text()?);
            if self.channels.len() >= MOST_CHANNELS {
                return Err(CloseCircuit);
            }
            let Some((request, target)) = name_of(name).and_then(|name| variable(name, database)) else {
                serving::answer_create(cid, Err("no such variable"), &mut self.output);
                continue;
            };
            let (native, count) = shape(&target);
            let kind = match (native, count) {
                (Native::Text, 1) => ServedKind::Text,
                (Native::Text, _) => ServedKind::Texts,
                (_, 1) => ServedKind::Double,
                _ => ServedKind::Doubles,
            };
            let (details, has_control) = limits_of(&target);
            let form = ServedForm { kind, has_display: !details.units.is_empty(), has_control };
            let sid = self.next_channel;
            self.next_channel = sid.checked_add(1).ok_or(CloseCircuit)?;
            self.channels.insert(sid, PvaGatewayChannel { request, form, details });
            serving::answer_create(cid, Ok(sid), &mut self.output);
        }
        Ok(())
    }

    /// Closes a channel, and ends its requests.
    fn destroy(&mut self, sid: u32, cid: u32) {
        if self.channels.remove(&sid).is_none() {
            return;
        }
        let of_it = self.of_channels.range((sid, 0)..=(sid, u32::MAX)).map(|(_, number)| *number);
        for number in of_it.collect::<Vec<_>>() {
            self.end(number);
        }
        serving::confirm_destroy(sid, cid, &mut self.output);
    }

    /// Begins a request, if its channel is open and the client selects something.
    fn begin_request(
        &mut self,
        command: u8,
        (sid, number): (u32, u32),
        step: u8,
        input: &mut PvaInput<'_>,
    ) -> Result<(), CloseCircuit> {
        if self.requests.len() >= MOST_ASKED || self.requests.contains_key(&number) {
            return Err(CloseCircuit);
        }
        let wanted = serving::request(input, &mut self.registry)?;
        let Some(channel) = self.channels.get(&sid) else {
            serving::refuse(command, number, step, UNKNOWN, &mut self.output);
            return Ok(());
        };
        let selected = channel.form.select(wanted.as_deref());
        if selected == 0 {
            serving::refuse(command, number, step, "it has none of these fields", &mut self.output);
            return Ok(());
        }
        let of = match command {
            command::GET => RequestKind::Get(None),
            _ if step & step::ACKNOWLEDGE != 0 => RequestKind::Monitor(MonitorFlow::new(Some(input.long()?))),
            _ => RequestKind::Monitor(MonitorFlow::new(None)),
        };
        let key = UpdateKey { variable: channel.request.to_string().into(), form: channel.form, selected };
        serving::begin(command, number, channel.form, &mut self.output);
        self.requests.insert(number, PvaGatewayRequest { sid, key, of });
        self.of_channels.insert((sid, number));
        Ok(())
    }

    /// Handles a step of a request for single values.
    fn get(&mut self, input: &mut PvaInput<'_>) -> Result<(), CloseCircuit> {
        let (sid, number, step) = (input.long()?, input.long()?, input.byte()?);
        if step & step::INIT != 0 {
            return self.begin_request(command::GET, (sid, number), step, input);
        }
        let Some(request) = self.requests.get_mut(&number).filter(|request| request.sid == sid) else {
            serving::refuse(command::GET, number, step, UNKNOWN, &mut self.output);
            return Ok(());
        };
        let (RequestKind::Get(asked @ None), Some(channel)) = (&mut request.of, self.channels.get(&sid)) else {
            serving::refuse(command::GET, number, step, "it is busy, or no such request", &mut self.output);
            return Ok(());
        };
        let reference = self.next_asked;
        *asked = Some((reference, step));
        let wanted = Request { event: DrfEvent::Immediate, ..channel.request.clone() };
        self.add(reference, number, &wanted);
        Ok(())
    }

    /// Handles a step of a monitor.
    fn monitor(&mut self, input: &mut PvaInput<'_>) -> Result<(), CloseCircuit> {
        let (sid, number, step) = (input.long()?, input.long()?, input.byte()?);
        if step & step::INIT != 0 {
            return self.begin_request(command::MONITOR, (sid, number), step, input);
        }
        let Some(request) = self.requests.get_mut(&number).filter(|request| request.sid == sid) else { return Ok(()) };
        let RequestKind::Monitor(flow) = &mut request.of else { return Err(CloseCircuit) };
        if step & step::ACKNOWLEDGE != 0 {
            flow.acknowledge(input.long()?);
        }
        let starts = step & step::START == step::START;
        match (step & step::SWITCH != 0, flow.asked) {
            (true, None) if starts => {
                let reference = self.next_asked;
                flow.asked = Some(reference);
                if let Some(channel) = self.channels.get(&sid) {
                    let event = event_of_monitor(&channel.request);
                    let wanted = Request { event, ..channel.request.clone() };
                    self.add(reference, number, &wanted);
                }
            }
            (true, Some(reference)) if !starts => {
                flow.asked = None;
                self.forget(reference);
            }
            _ => {}
        }
        match step & step::DESTROY {
            0 => {
                self.enqueue(number);
                self.flush();
            }
            _ => self.end(number),
        }
        Ok(())
    }

    /// Answers the question for a type.
    fn tell_type(&mut self, input: &mut PvaInput<'_>) -> Result<(), CloseCircuit> {
        let (sid, number, path) = (input.long()?, input.long()?, input.text()?);
        match (self.channels.get(&sid), std::str::from_utf8(path)) {
            (Some(channel), Ok(path)) => serving::tell_type(number, channel.form, path, &mut self.output),
            _ => serving::refuse_type(number, UNKNOWN, &mut self.output),
        }
        Ok(())
    }

    fn add(&mut self, reference: i64, number: u32, wanted: &Request) {
        self.next_asked = reference + 1;
        self.asked.insert(reference, number);
        self.changes.push(ListChange::Add(reference, wanted.to_string()));
    }

    fn forget(&mut self, reference: i64) {
        if self.asked.remove(&reference).is_some() {
            self.changes.push(ListChange::Remove(reference));
        }
    }

    /// Ends a request.
    fn end(&mut self, number: u32) {
        let Some(request) = self.requests.remove(&number) else { return };
        self.of_channels.remove(&(request.sid, number));
        let asked = match request.of {
            RequestKind::Get(asked) => asked.map(|(reference, _)| reference),
            RequestKind::Monitor(flow) => {
                self.waiting -= flow.waiting_bytes();
                flow.asked
            }
        };
        asked.into_iter().for_each(|reference| self.forget(reference));
    }

    /// Puts a monitor into the queue, if its client is ready for an update that waits.
    fn enqueue(&mut self, number: u32) {
        let Some(request) = self.requests.get_mut(&number) else { return };
        if let RequestKind::Monitor(flow) = &mut request.of
            && flow.is_ready()
            && !std::mem::replace(&mut flow.is_queued, true)
        {
            self.ready.push_back(number);
        }
    }
}

/// Appends the answer to a search, if something is found or the client wants one in any case.
fn answer(shared: &SharedUpdates, question: &SearchQuestion<'_>, database: &Database, port: u16, out: &mut Vec<u8>) {
    let is_found = |name: &[u8]| name_of(name).and_then(|name| variable(name, database)).is_some();
    let found = question.names.iter().filter(|(_, name)| is_found(name)).map(|(number, _)| *number);
    let found: Vec<u32> = found.collect();
    if !found.is_empty() || question.must_answer {
        serving::search_answer(shared.server(), question.sequence, port, &found, out);
    }
}

/// Returns the name of a variable, if it is text of a permitted length.
fn name_of(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes).ok().filter(|name| (1..=LONGEST_NAME).contains(&name.len()))
}

/// The bytes that may wait for a client before updates of monitors are left out.
const ENOUGH_OUTPUT: usize = 64 << 10;
/// The bytes of the newest updates that may wait; beyond that, readings wait in the service.
pub(crate) const MOST_WAITING: usize = 1 << 20;
/// Words of refusals.
const READ_ONLY: &str = "the gateway is read-only";
const UNKNOWN: &str = "no such channel or request";
