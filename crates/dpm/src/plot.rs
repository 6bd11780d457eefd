//! Plots: readings more often than twenty times a second, collected by front-ends and sent in
//! batches (`FTPMAN`).
//!
//! A plot is one device at one rate, for all its readers; its batches are scaled and encoded once
//! for each requested form. Before the first batch the front-end is asked for the device's class.
//! Readers of devices without fast plots are handed back, to be polled.
//!
//! Points have times since a clock event, whose time is not known here. So the newest point of the
//! first batch counts as taken at its arrival, and all other points of this and later batches by
//! the front-end's own distances from it; once the two clocks have drifted apart by a second, the
//! time of arrival is used again.
//!
//! Invariants, as in the [`pool`](crate::pool): a plot without readers is cancelled at once;
//! replies count only for outstanding requests, and from the node that was asked; a front-end that
//! is silent or refuses is asked again after growing pauses.

mod times;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use indexmap::IndexSet;

use crate::acnet::ftpman::{Class, PlotRequest, Point, Reply, Setup, TASK};
use crate::acnet::{AcnetHeader, AcnetPacket, DeviceItem, PacketKind, RequestsById, requests};
use crate::database::{AcnetNode, Database, DeviceNode, DeviceRecord, FrontRequest, ValueForm};
use crate::drf::{DrfEvent, Property, PropertyField};
use crate::pool::{Deliver, PoolReader};
use crate::rad50::Rad50;
use crate::scaling::Scaling;
use crate::sdd::{SharedReply, reply};
use crate::show;
use crate::status::Status;
use crate::time::Moment;
use times::Times;

/// The number of a plot; none is ever used again.
pub type PlotKey = u64;

/// The plots of all front-ends, with their timers.
#[derive(Debug)]
pub struct Plots {
    nodes: Vec<Option<AcnetNode>>,
    address: u16,
    plots: BTreeMap<PlotKey, Plot>,
    by_key: HashMap<PlottedReadings, PlotKey, ahash::RandomState>,
    requests: RequestsById<PlotKey>,
    /// The time in milliseconds at which each plot is looked after next; one entry for each.
    timers: BTreeSet<(u64, PlotKey)>,
    next: PlotKey,
    out: Vec<(usize, Vec<u8>)>,
    handed_back: Vec<PoolReader>,
}

/// The plotted readings, and the time between points in tens of microseconds.
type PlottedReadings = (FrontRequest, u16);

#[derive(Debug)]
struct Plot {
    key: PlottedReadings,
    channels: Vec<PlotChannel>,
    stage: PlotStage,
    attempts: u32,
    /// The deadline for the next action, in milliseconds, and the time of its timer: then or
    /// earlier.
    deadline: u64,
    timer: u64,
    times: Times,
}

/// Readers of one form of a plot. A reader comes and leaves in constant time.
#[derive(Debug)]
struct PlotChannel {
    form: ValueForm,
    device: Arc<DeviceRecord>,
    readers: IndexSet<PoolReader, ahash::RandomState>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PlotStage {
    /// The front-end was asked for the device's class.
    Asked(u16),
    /// The front-end was asked to plot.
    Plotting(u16),
    /// It has failed, and is tried again later.
    Resting,
}

/// Returns the time between points, in tens of microseconds, if a request is for a plot: a number
/// of a reading more often than twenty times a second.
///
/// # Errors
/// [`BAD_EVENT`](Status::BAD_EVENT) for a period below ten microseconds, which the protocol can't
/// express.
pub fn period(
    device: &DeviceRecord,
    form: ValueForm,
    wanted: &FrontRequest,
    event: &DrfEvent,
) -> Result<Option<u16>, Status> {
    let DrfEvent::Periodic { period, .. } = event else { return Ok(None) };
    let micros = period.micros();
    let element = device.value(Property::Reading).filter(|value| value.scaling.text().is_none());
    let is_number = form.property == Property::Reading
        && matches!(form.field, PropertyField::Scaled | PropertyField::Primary)
        && matches!(wanted.length, 2 | 4)
        && element.is_some_and(|value| value.place.element == wanted.length);
    match u16::try_from(micros / 10) {
        _ if !is_number || micros >= SLOWEST => Ok(None),
        Ok(0) | Err(_) => Err(Status::BAD_EVENT),
        Ok(period) => Ok(Some(period)),
    }
}

impl Plots {
    /// Returns the plots of the nodes of a database, for the node `address`.
    pub fn new(database: &Database, address: u16) -> Self {
        Self {
            nodes: database.nodes().iter().map(DeviceNode::acnet).collect(),
            address,
            plots: BTreeMap::new(),
            by_key: HashMap::default(),
            requests: RequestsById::within(requests::PLOTS),
            timers: BTreeSet::new(),
            next: 0,
            out: Vec::new(),
            handed_back: Vec::new(),
        }
    }

    /// Returns the number of plots.
    pub fn len(&self) -> usize {
        self.plots.len()
    }

    /// Returns true if nobody plots anything.
    pub fn is_empty(&self) -> bool {
        self.plots.is_empty()
    }

    /// Adds a reader.
    pub fn join(
        &mut self,
        wanted: FrontRequest,
        period: u16,
        device: &Arc<DeviceRecord>,
        form: ValueForm,
        reader: PoolReader,
        now: Moment,
    ) -> PlotKey {
        let key = (wanted, period);
        if let Some(number) = self.by_key.get(&key)
            && let Some(plot) = self.plots.get_mut(number)
        {
            plot.join(device, form, reader);
            return *number;
        }
        let number = self.next;
        self.next += 1;
        let mut plot = Plot {
            key,
            channels: Vec::new(),
            stage: PlotStage::Resting,
            attempts: 0,
            deadline: now.millis,
            timer: now.millis,
            times: Times::default(),
        };
        plot.join(device, form, reader);
        self.timers.insert((plot.timer, number));
        self.plots.insert(number, plot);
        self.by_key.insert(key, number);
        self.ask(number, now);
        number
    }

    /// Returns the plot that others read already, if there is one.
    pub fn running_plot(&self, wanted: &FrontRequest, period: u16) -> Option<PlotKey> {
        self.by_key.get(&(*wanted, period)).copied()
    }

    /// Returns how many more plots are possible.
    pub fn ids_left(&self) -> usize {
        self.requests.capacity().saturating_sub(self.plots.len())
    }

    /// Removes a reader.
    pub fn leave(&mut self, number: PlotKey, reader: PoolReader) {
        let Some(plot) = self.plots.get_mut(&number) else { return };
        if let Some(place) = plot.channels.iter_mut().position(|channel| channel.readers.swap_remove(&reader))
            && plot.channels[place].readers.is_empty()
        {
            plot.channels.swap_remove(place);
        }
        if plot.channels.is_empty() {
            self.remove(number);
        }
    }

    /// Handles a packet for the plots' task from the node of a number.
    pub fn take(&mut self, node: usize, packet: AcnetPacket<'_>, now: Moment, deliver: &mut impl Deliver) {
        let header = packet.header;
        if !matches!(header.kind, PacketKind::Reply | PacketKind::ReplyWithMore) || header.client != self.address {
            return;
        }
        let number = self.requests.get(header.message).copied();
        let plot = number.and_then(|number| self.plots.get_mut(&number)).filter(|plot| plot.key.0.node == node);
        let expected = self.nodes.get(node).copied().flatten().map(|node| node.address);
        let (Some(plot), Some(number), true) = (plot, number, expected == Some(header.server)) else {
            let cancel = AcnetHeader { kind: PacketKind::Cancel, status: Status::SUCCESS, ..header };
            self.out.push((node, cancel.datagram(&[])));
            return;
        };
        plot.deadline = now.millis + PATIENCE;
        if header.status == Status::PEND {
            return;
        }
        match plot.stage {
            PlotStage::Asked(_) => self.handle_class(number, packet, now, deliver),
            PlotStage::Plotting(_) => self.handle_batch(number, packet, now, deliver),
            PlotStage::Resting => {}
        }
    }

    /// Does all due work.
    pub fn tick(&mut self, now: Moment, deliver: &mut impl Deliver) {
        while let Some((due, number)) = self.timers.first().copied().filter(|(due, _)| *due <= now.millis) {
            match self.plots.get(&number).map(|plot| (plot.deadline, plot.stage)) {
                Some((deadline, _)) if deadline > now.millis => self.wait_until(number, deadline),
                Some((_, PlotStage::Resting)) => self.ask(number, now),
                Some(_) => self.fail(number, Status::UTIME, now, deliver),
                None => {
                    self.timers.remove(&(due, number));
                }
            }
        }
    }

    /// Returns the time of the next call of [`tick`](Self::tick).
    pub fn deadline(&self) -> Option<u64> {
        self.timers.first().map(|timer| timer.0)
    }

    /// Takes the datagrams to send, with the number of their node.
    pub fn flush(&mut self) -> std::vec::Drain<'_, (usize, Vec<u8>)> {
        self.out.drain(..)
    }

    /// Takes the readers of devices without fast plots, which are not readers here any more.
    pub fn take_handed_back(&mut self) -> Vec<PoolReader> {
        std::mem::take(&mut self.handed_back)
    }

    /// Takes over another database's nodes.
    pub fn replace_nodes(&mut self, nodes: &[DeviceNode]) {
        self.nodes = nodes.iter().map(DeviceNode::acnet).collect();
    }

    /// Asks for the class of a plot's device.
    fn ask(&mut self, number: PlotKey, now: Moment) {
        let Some(item) = self.plots.get(&number).map(|plot| item(&plot.key.0)) else { return };
        let body = PlotRequest::Classes(vec![item]).encode();
        self.send(number, PacketKind::Request, &body, PlotStage::Asked, now);
    }

    /// Sends a request for a plot, in place of the previous one.
    fn send(&mut self, number: PlotKey, kind: PacketKind, body: &[u8], stage: fn(u16) -> PlotStage, now: Moment) {
        let Some(id) = self.requests.open(number) else { return self.rest(number, now) };
        let Some(plot) = self.plots.get_mut(&number) else { return };
        plot.stage = stage(id);
        let node = plot.key.0.node;
        self.wait_until(number, now.millis + PATIENCE);
        if let Some(header) = self.header(node, kind, id) {
            self.out.push((node, header.datagram(body)));
        }
    }

    fn header(&self, node: usize, kind: PacketKind, id: u16) -> Option<AcnetHeader> {
        let server = (*self.nodes.get(node)?)?.address;
        let status = Status::SUCCESS;
        Some(AcnetHeader { kind, status, server, client: self.address, task: TASK, task_id: TASK_ID, message: id })
    }

    /// Handles the class of a plot's device.
    fn handle_class(&mut self, number: PlotKey, packet: AcnetPacket<'_>, now: Moment, deliver: &mut impl Deliver) {
        self.close(number, false);
        let status = packet.header.status;
        let class = Class::decode(packet.body);
        let Some(plot) = self.plots.get_mut(&number) else { return };
        match class {
            _ if status.is_fatal() && status != Status::NO_TASK => self.fail(number, status, now, deliver),
            Some(class) if class.is_fast() => {
                let (wanted, period) = plot.key;
                let name = name(number);
                let body = PlotRequest::Continuous(Setup { name, item: item(&wanted), period }).encode();
                self.send(number, PacketKind::MultipleRequest, &body, PlotStage::Plotting, now);
            }
            // Without such a task or class, the front-end does not plot.
            _ => {
                self.handed_back.extend(plot.channels.drain(..).flat_map(|channel| channel.readers));
                self.remove(number);
            }
        }
    }

    /// Handles a batch, or the answer to its request.
    fn handle_batch(&mut self, number: PlotKey, packet: AcnetPacket<'_>, now: Moment, deliver: &mut impl Deliver) {
        let Some(plot) = self.plots.get_mut(&number) else { return };
        let status = packet.header.status;
        let read = match status.is_fatal() {
            true => Err(status),
            false => Reply::decode(packet.body, plot.key.0.length == 4),
        };
        match read {
            Ok(Reply::Accepted(status)) if status.is_fatal() => self.fail(number, status, now, deliver),
            Ok(Reply::Accepted(_)) => {}
            Ok(Reply::Points(Ok(points))) => {
                plot.attempts = 0;
                plot.give(&points, now, deliver);
                if packet.header.kind == PacketKind::Reply {
                    self.close(number, false);
                    self.rest(number, now);
                }
            }
            Ok(Reply::Points(Err(status))) | Err(status) => self.fail(number, status, now, deliver),
        }
    }

    /// Tells the readers the failure, and rests.
    fn fail(&mut self, number: PlotKey, status: Status, now: Moment, deliver: &mut impl Deliver) {
        self.close(number, true);
        if let Some(plot) = self.plots.get(&number)
            && let Some(shared) = SharedReply::new(&show::status(status, now.unix_millis, 0))
        {
            let shared = Arc::new(shared);
            for reader in plot.channels.iter().flat_map(|channel| &channel.readers) {
                deliver.deliver(*reader, &shared, false);
            }
        }
        self.rest(number, now);
    }

    fn rest(&mut self, number: PlotKey, now: Moment) {
        let Some(plot) = self.plots.get_mut(&number) else { return };
        plot.stage = PlotStage::Resting;
        plot.times = Times::default();
        let deadline = now.millis + (FIRST_REST << plot.attempts.min(10)).min(LONGEST_REST);
        plot.attempts += 1;
        self.wait_until(number, deadline);
    }

    /// Sets the time of a plot's timer, in milliseconds.
    fn wait_until(&mut self, number: PlotKey, deadline: u64) {
        let Some(plot) = self.plots.get_mut(&number) else { return };
        self.timers.remove(&(plot.timer, number));
        (plot.deadline, plot.timer) = (deadline, deadline);
        self.timers.insert((deadline, number));
    }

    fn remove(&mut self, number: PlotKey) {
        self.close(number, true);
        let Some(plot) = self.plots.remove(&number) else { return };
        self.timers.remove(&(plot.timer, number));
        self.by_key.remove(&plot.key);
    }

    /// Ends a plot's outstanding request.
    fn close(&mut self, number: PlotKey, cancel: bool) {
        let Some(plot) = self.plots.get_mut(&number) else { return };
        let (PlotStage::Asked(id) | PlotStage::Plotting(id)) = plot.stage else { return };
        let node = plot.key.0.node;
        plot.stage = PlotStage::Resting;
        self.requests.close(id);
        if cancel && let Some(header) = self.header(node, PacketKind::Cancel, id) {
            self.out.push((node, header.datagram(&[])));
        }
    }
}

impl Plot {
    fn join(&mut self, device: &Arc<DeviceRecord>, form: ValueForm, reader: PoolReader) {
        // After a reload the same device may be scaled differently.
        let is_same = |channel: &PlotChannel| channel.form == form && Arc::ptr_eq(&channel.device, device);
        let place = self.channels.iter().position(is_same).unwrap_or_else(|| {
            let device = Arc::clone(device);
            self.channels.push(PlotChannel { form, device, readers: IndexSet::default() });
            self.channels.len() - 1
        });
        self.channels[place].readers.insert(reader);
    }

    /// Scales points and delivers them to all readers.
    fn give(&mut self, points: &[Point], now: Moment, deliver: &mut impl Deliver) {
        let times = self.times.place(points, now);
        for channel in &self.channels {
            if let Some(shared) = channel.show(points, &times, self.key.0.length) {
                let shared = Arc::new(shared);
                channel.readers.iter().for_each(|reader| deliver.deliver(*reader, &shared, false));
            }
        }
    }
}

impl PlotChannel {
    /// Returns the message of a batch; `None` if none of it can be shown.
    fn show(&self, points: &[Point], times: &[i64], length: u32) -> Option<SharedReply> {
        let value = self.device.value(self.form.property)?;
        let (mut data, mut micros) = (Vec::new(), Vec::new());
        for (point, micro) in points.iter().zip(times) {
            // A number that cannot be scaled leaves out its point only.
            if let Ok(number) = scale(&value.scaling, self.form.field, length, point.raw) {
                data.push(number);
                micros.push(*micro);
            }
        }
        let timestamp = micros.first()? / 1000;
        let reply = reply::TimedScalarArray { timestamp, data, micros, ..Default::default() };
        SharedReply::new(&reply.into())
    }
}

fn scale(scaling: &Scaling, field: PropertyField, length: u32, raw: i32) -> Result<f64, Status> {
    let bytes = raw.to_le_bytes();
    let bytes = bytes.get(..length as usize).ok_or(Status::SCALEFAIL)?;
    match field {
        PropertyField::Primary => scaling.to_primary(bytes),
        _ => scaling.to_common(bytes),
    }
}

fn item(wanted: &FrontRequest) -> DeviceItem {
    DeviceItem {
        device: wanted.device,
        property: wanted.property,
        ssdn: wanted.ssdn,
        length: wanted.length,
        offset: wanted.offset,
    }
}

/// Returns a plot's name, `FTP001` to `FTP999`.
fn name(number: PlotKey) -> Rad50 {
    Rad50::parse(&format!("FTP{:03}", number % 999 + 1)).unwrap_or_default()
}

/// Our task's number on our node: those of the pool and of settings, with other ids, differ.
pub const TASK_ID: u16 = 3;
/// The shortest period, in microseconds, at which readings are polled.
const SLOWEST: u64 = 50_000;
/// The longest time that a front-end may be silent, in milliseconds.
const PATIENCE: u64 = 5000;
/// The first pause in milliseconds; doubled with each attempt.
const FIRST_REST: u64 = 250;
/// The longest pause in milliseconds.
const LONGEST_REST: u64 = 8000;
