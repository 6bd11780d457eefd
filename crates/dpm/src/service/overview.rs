//! The overview at a moment for people to look at: devices that are read, their readers, and
//! delays.
//!
//! The cost doesn't depend on the number of viewers: an overview is made once a second at most, and
//! has a bounded number of devices and clients, the most significant ones.

use std::collections::HashMap;
use std::fmt::{self, Write};

use serde_json::{Value, json};

use super::client::{DpmClient, Speaks};
use super::keys::ClientKey;
use super::lines::FrontEndLine;
use super::share::Good;
use super::{Dpm, Statistics, metrics};
use crate::database::{Database, Reached};
use crate::drf::Property;
use crate::pool::EntryGlance;
use crate::status::Status;
use crate::time::Moment;
use crate::when::When;

/// The service at one moment, with the most significant devices and clients only.
#[derive(Debug, Clone, Default)]
pub struct Overview {
    /// All front-ends from which something is read, those with most faults first.
    pub front_ends: Vec<FrontEndLine>,
    /// The devices with the most readers, and those that are most overdue.
    pub devices: Vec<DeviceLine>,
    /// The clients with the most requests.
    pub clients: Vec<ClientLine>,
}

/// The readings of one device in one form, with their readers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceLine {
    /// A request that reads the same.
    pub request: String,
    /// Its front-end.
    pub node: String,
    /// The number of its readers.
    pub readers: usize,
    /// The number of its readings.
    pub readings: u64,
    /// The milliseconds since the last good reading; `None` if the last reading failed.
    pub age: Option<u64>,
    /// The milliseconds by which that exceeds its period.
    pub late: u64,
    /// The status of the last reading.
    pub status: Status,
}

/// A client with open lists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientLine {
    /// Its address.
    pub from: String,
    /// The protocol that it speaks.
    pub speaks: &'static str,
    /// The number of its lists.
    pub lists: usize,
    /// The number of requests on its lists.
    pub requests: usize,
    /// The bytes of output that wait for it to read.
    pub waiting: usize,
}

impl Dpm {
    /// Returns the overview of this moment, made again at each call.
    pub fn overview(&self, now: Moment) -> Overview {
        let glances: Vec<EntryGlance> = self.pool.glances(now).collect();
        let clients = self.outlets.clients.iter().map(|(_, client)| ClientLine::of(client));
        let clients = first(clients.filter(|client| client.lists > 0).collect(), |client| client.requests);
        Overview {
            front_ends: front_ends(&self.database, &glances),
            devices: devices(&self.database, &glances),
            clients,
        }
    }

    /// Sends a client the overview as JSON, and nothing else.
    pub(super) fn look(&mut self, client: ClientKey, head: &str, now: Moment) {
        self.look_again(now);
        let text = &self.last_overview.text;
        let length = if head.is_empty() { String::new() } else { format!("Content-Length: {}\r\n\r\n", text.len()) };
        self.outlets.frame(client, format!("{head}{length}{text}").into_bytes());
    }

    /// Makes the overview again unless the last one is fresh.
    fn look_again(&mut self, now: Moment) {
        if self.last_overview.made.is_none_or(|made| made + FRESH <= now.millis) {
            let overview = self.overview(now);
            self.last_overview.text = overview.json(&self.statistics()).to_string();
            self.last_overview.front_ends = overview.front_ends;
            self.last_overview.made = Some(now.millis);
        }
    }

    /// Returns the figures in Prometheus's format (text exposition format 0.0.4).
    pub(super) fn figures(&mut self, now: Moment) -> String {
        self.look_again(now);
        let clients = self.outlets.clients.iter();
        let spoken: Vec<&str> = clients.map(|(_, client)| client.protocol()).collect();
        metrics::text(&self.statistics(), &spoken, &self.last_overview.front_ends, &self.outlets.gauges)
    }

    /// Sends a client of another thread the figures; its connection ends after them.
    pub fn show_figures(&mut self, client: ClientKey, now: Moment) {
        if let Some(state) = self.outlets.clients.get_mut(client) {
            state.speaks = Speaks::Daq;
        }
        let text = self.figures(now);
        self.outlets.frame(client, text.into_bytes());
    }

    /// Sends a client of another thread the overview as JSON; its connection ends after it.
    pub fn show_overview(&mut self, client: ClientKey, now: Moment) {
        if let Some(state) = self.outlets.clients.get_mut(client) {
            state.speaks = Speaks::Daq;
        }
        self.look(client, "", now);
    }
}

/// The head of the answer to `GET /overview`.
pub(super) const HEAD: &str = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n";

/// Returns the first rows in the order of a figure, the largest first.
fn first<T, K: Ord>(mut lines: Vec<T>, figure: impl Fn(&T) -> K) -> Vec<T> {
    lines.sort_by_key(|line| std::cmp::Reverse(figure(line)));
    lines.truncate(MOST_LINES);
    lines
}

fn front_ends(database: &Database, glances: &[EntryGlance]) -> Vec<FrontEndLine> {
    let mut lines: HashMap<usize, FrontEndLine> = HashMap::new();
    for glance in glances {
        let Some(node) = database.nodes().get(glance.wanted.node) else { continue };
        let line = lines.entry(glance.wanted.node).or_insert_with(|| FrontEndLine {
            name: node.name.to_string(),
            protocol: protocol(&node.reached),
            things: 0,
            silent: 0,
            late: 0,
            readers: 0,
            heard: None,
        });
        line.things += 1;
        line.readers += glance.readers;
        line.silent += usize::from(glance.age.is_none());
        line.late += usize::from(late(glance) > period(&glance.when));
        line.heard = line.heard.into_iter().chain(glance.age).min();
    }
    let mut lines: Vec<FrontEndLine> = lines.into_values().collect();
    lines.sort_by(|one, other| one.name.cmp(&other.name));
    lines.sort_by_key(|line| std::cmp::Reverse((line.silent + line.late, line.things)));
    lines
}

fn protocol(reached: &Reached) -> &'static str {
    match reached {
        Reached::Acnet(node) => node.protocol.name(),
        Reached::ChannelAccess(_) => "CA",
        Reached::PvAccess(_) => "PVA",
        Reached::Mqtt(_) => "MQTT",
    }
}

fn devices(database: &Database, glances: &[EntryGlance]) -> Vec<DeviceLine> {
    let lasting = glances.iter().filter(|glance| glance.when != When::Once);
    let hottest = first(lasting.clone().collect(), |glance| glance.readers);
    let is_bad = |glance: &&EntryGlance| glance.age.is_none() || late(glance) > period(&glance.when);
    let latest = first(lasting.filter(is_bad).collect(), |glance| (glance.age.is_none(), late(glance), glance.readers));
    let mut lines: Vec<DeviceLine> = Vec::new();
    for glance in latest.into_iter().chain(hottest) {
        if let Some(line) = DeviceLine::of(database, glance).filter(|line| !lines.contains(line)) {
            lines.push(line);
        }
    }
    lines
}

/// Returns the period of an event in milliseconds, or 0 if it has none.
fn period(when: &When) -> u64 {
    if let When::Every(period) = when { *period } else { 0 }
}

/// Returns the milliseconds by which a periodic reading is overdue.
fn late(glance: &EntryGlance) -> u64 {
    match (&glance.when, glance.age) {
        (When::Every(period), Some(age)) => age.saturating_sub(*period),
        _ => 0,
    }
}

impl DeviceLine {
    fn of(database: &Database, glance: &EntryGlance) -> Option<Self> {
        let wanted = glance.wanted;
        let device = database.by_number(wanted.device)?;
        let property = Property::from_number(wanted.property)?;
        let place = device.place(property)?;
        let mut request = device.name.clone();
        if property != Property::Reading {
            let _ = write!(request, ".{}", property.name());
        }
        if (wanted.offset, wanted.length) != (0, place.default_size) {
            let (from, count) = (wanted.offset / place.element, wanted.length / place.element);
            let is_whole = wanted.offset.is_multiple_of(place.element) && wanted.length.is_multiple_of(place.element);
            let _ = match count {
                1 if is_whole => write!(request, "[{from}]"),
                _ if is_whole => write!(request, "[{from}:{}]", from + count.saturating_sub(1)),
                _ => write!(request, "{{{}:{}}}", wanted.offset, wanted.length),
            };
        }
        let _ = match &glance.when {
            When::Once => write!(request, "@I"),
            When::Every(millis) => write!(request, "@p,{millis}"),
            When::Changed(millis) => write!(request, "@q,{millis}"),
            When::Clock { number, clock, delay } => write!(request, "@e,{number:X},{},{delay}", clock.letter()),
            When::State { device, value, delay, comparison } => {
                let name = database.by_number(*device).map_or_else(|| device.to_string(), |device| device.name.clone());
                write!(request, "@s,{name},{value},{delay},{}", comparison.sign())
            }
        };
        Some(Self {
            request,
            node: database.nodes().get(wanted.node)?.name.to_string(),
            readers: glance.readers,
            readings: glance.readings,
            age: glance.age,
            late: late(glance),
            status: glance.status,
        })
    }
}

impl ClientLine {
    fn of(client: &DpmClient) -> Self {
        let from = client.place().map(|place| place.to_string());
        let address = client.address.map(|address| address.to_string());
        Self {
            from: from.or(address).unwrap_or_else(|| "this process".to_owned()),
            speaks: client.protocol(),
            lists: client.lists.len(),
            requests: client.held.of(Good::Requests),
            waiting: client.outbox.bytes(),
        }
    }
}

impl Overview {
    /// Returns the overview as JSON, with some totals.
    pub fn json(&self, statistics: &Statistics) -> Value {
        let front_ends: Vec<Value> = self
            .front_ends
            .iter()
            .take(MOST_FRONT_ENDS)
            .map(|line| {
                json!({
                    "name": line.name, "protocol": line.protocol, "things": line.things, "silent": line.silent,
                    "late": line.late, "readers": line.readers, "heard_ms": line.heard,
                })
            })
            .collect();
        let devices: Vec<Value> = self
            .devices
            .iter()
            .map(|line| {
                json!({
                    "request": line.request, "front_end": line.node, "readers": line.readers,
                    "readings": line.readings, "age_ms": line.age, "late_ms": line.late,
                    "status": line.status.to_string(),
                })
            })
            .collect();
        let clients: Vec<Value> = self
            .clients
            .iter()
            .map(|line| {
                json!({
                    "from": line.from, "speaks": line.speaks, "lists": line.lists, "requests": line.requests,
                    "waiting_bytes": line.waiting,
                })
            })
            .collect();
        let Statistics { pool, clients: connected, entries, dropped, .. } = statistics;
        json!({
            "clients": connected, "things": entries, "readings": pool.readings, "delivered": pool.delivered,
            "unanswered": pool.timeouts, "dropped": dropped, "front_ends": front_ends, "devices": devices,
            "busiest": clients,
        })
    }
}

impl fmt::Display for Overview {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let age = |age: Option<u64>| age.map_or("silent".to_owned(), |age| format!("{age} ms"));
        let bad = self.front_ends.iter().filter(|line| line.silent + line.late > 0).take(SHOWN);
        writeln!(
            f,
            "{:24} {:>8} {:>8} {:>8} {:>12}",
            "front-ends, silent or late", "things", "silent", "late", "last heard"
        )?;
        for line in bad {
            let FrontEndLine { name, protocol, things, silent, late, heard, .. } = line;
            let name = format!("{name} ({protocol})");
            writeln!(f, "{name:26} {things:>8} {silent:>8} {late:>8} {:>12}", age(*heard))?;
        }
        writeln!(f, "\n{:32} {:>8} {:>10} {:>12} {:>10}", "devices", "readers", "readings", "last reading", "late")?;
        for DeviceLine { request, readers, readings, age: last, late, .. } in self.devices.iter().take(SHOWN) {
            writeln!(f, "{request:32} {readers:>8} {readings:>10} {:>12} {late:>7} ms", age(*last))?;
        }
        writeln!(f, "\n{:32} {:8} {:>8} {:>10} {:>14}", "clients", "speak", "lists", "requests", "bytes waiting")?;
        for ClientLine { from, speaks, lists, requests, waiting } in self.clients.iter().take(SHOWN) {
            writeln!(f, "{from:32} {speaks:8} {lists:>8} {requests:>10} {waiting:>14}")?;
        }
        Ok(())
    }
}

/// The milliseconds for which an overview is reused.
const FRESH: u64 = 1000;
/// The most devices by each figure, and the most clients.
const MOST_LINES: usize = 100;
/// The most front-ends in JSON.
const MOST_FRONT_ENDS: usize = 100;
/// The number of rows of each kind on a terminal.
const SHOWN: usize = 10;
