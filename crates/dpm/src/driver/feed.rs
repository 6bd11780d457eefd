//! Readings as JSON for another thread of this process: the web front.
//!
//! A feed is a client like those over TCP, with a pair of sockets instead of a connection. A feed
//! that isn't read is treated like any slow client, and dropping it ends its list.

use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::os::unix::net::UnixStream;
use std::task::{Context, Poll, ready};

use serde_json::{Map, Value, json};
use tokio::io::AsyncReadExt;

use super::ask::{GREETING, LARGEST, Until, with_default_event};
use super::overview::OverviewFeed;
use super::reception::{Reception, Visitor, VisitorErrand};
use crate::sdd::SddMessage;
use crate::sdd::reply::Reply;
use crate::sdd::request::{AddToList, Request, StartList};
use crate::service::{BroughtBy, network};
use crate::status::Status;
use crate::time::Utc;

/// Opens feeds. Clones use the same service.
#[derive(Debug, Clone)]
pub struct DeviceFeeds(Reception);

/// A stream of readings.
#[derive(Debug)]
pub struct DeviceFeed {
    stream: tokio::net::UnixStream,
    requests: Vec<String>,
    /// The units of each request, once they are known.
    units: Vec<Option<String>>,
    /// The requests that wait for their only answer; `None` if they are answered repeatedly.
    waiting: Option<Vec<bool>>,
    is_open: bool,
    unsent: Vec<u8>,
    input: Vec<u8>,
}

/// An item of a feed.
#[derive(Debug, Clone, PartialEq)]
pub enum FeedNews {
    /// A reading, as an object.
    Reading(Value),
    /// No reading has come for a while, but the service is alive.
    Alive,
}

impl DeviceFeeds {
    pub(super) fn new(reception: Reception) -> Self {
        Self(reception)
    }

    /// Begins to read on behalf of a host: each request once, or at its own rate. Must be called
    /// within a runtime of `tokio`.
    ///
    /// # Errors
    /// `InvalidInput` for a request that can't be read; `NotConnected` if the service has ended;
    /// others are the system's.
    pub fn open(&self, requests: &[String], is_once: bool, from: IpAddr) -> io::Result<DeviceFeed> {
        let until = if is_once { Until::Answered } else { Until::Readings(None) };
        let meant =
            requests.iter().map(|request| with_default_event(request, until)).collect::<io::Result<Vec<_>>>()?;
        let (ours, theirs) = UnixStream::pair()?;
        ours.set_nonblocking(true)?;
        theirs.set_nonblocking(true)?;
        let stream = tokio::net::UnixStream::from_std(ours)?;
        if !self.enter(theirs, VisitorErrand::Talk, from) {
            return Err(io::ErrorKind::NotConnected.into());
        }
        Ok(DeviceFeed {
            stream,
            units: vec![None; meant.len()],
            waiting: is_once.then(|| vec![true; meant.len()]),
            requests: meant,
            is_open: false,
            unsent: GREETING.to_vec(),
            input: Vec::new(),
        })
    }
}

impl DeviceFeeds {
    /// Asks for an overview of readings, readers and delays on behalf of a host. Must be called
    /// within a runtime of `tokio`.
    ///
    /// # Errors
    /// `NotConnected` if the service has ended; others are the system's.
    pub fn overview(&self, from: IpAddr) -> io::Result<OverviewFeed> {
        let (ours, theirs) = UnixStream::pair()?;
        ours.set_nonblocking(true)?;
        theirs.set_nonblocking(true)?;
        let stream = tokio::net::UnixStream::from_std(ours)?;
        if !self.enter(theirs, VisitorErrand::Look, from) {
            return Err(io::ErrorKind::NotConnected.into());
        }
        Ok(OverviewFeed::new(stream))
    }

    /// Returns the figures of the service, in Prometheus's format (text exposition format 0.0.4).
    /// Must be called within a runtime of `tokio`.
    ///
    /// # Errors
    /// `NotConnected` if the service has ended; others are the system's.
    pub async fn figures(&self) -> io::Result<String> {
        let (ours, theirs) = UnixStream::pair()?;
        ours.set_nonblocking(true)?;
        theirs.set_nonblocking(true)?;
        let mut stream = tokio::net::UnixStream::from_std(ours)?;
        if !self.enter(theirs, VisitorErrand::Measure, Ipv4Addr::LOCALHOST.into()) {
            return Err(io::ErrorKind::NotConnected.into());
        }
        let mut text = String::new();
        stream.read_to_string(&mut text).await?;
        Ok(text)
    }

    fn enter(&self, stream: UnixStream, errand: VisitorErrand, from: IpAddr) -> bool {
        self.0.enter(Visitor { stream, errand, from: network(from), by: BroughtBy::Http })
    }
}

impl DeviceFeed {
    /// Returns the next item; `None` once all single requests have been answered, or the service
    /// has ended.
    pub fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<io::Result<FeedNews>>> {
        loop {
            if let Some(news) = self.next_news() {
                return Poll::Ready(Some(news));
            }
            if self.waiting.as_ref().is_some_and(|waiting| !waiting.contains(&true)) {
                return Poll::Ready(None);
            }
            if !self.unsent.is_empty() {
                ready!(self.stream.poll_write_ready(context))?;
                match self.stream.try_write(&self.unsent) {
                    Ok(sent) => drop(self.unsent.drain(..sent)),
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    Err(error) => return Poll::Ready(Some(Err(error))),
                }
                continue;
            }
            ready!(self.stream.poll_read_ready(context))?;
            let mut chunk = [0; CHUNK];
            match self.stream.try_read(&mut chunk) {
                Ok(0) => return Poll::Ready(None),
                Ok(length) => self.input.extend_from_slice(&chunk[..length]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Some(Err(error))),
            }
        }
    }

    /// Parses received replies until one of them is an item.
    fn next_news(&mut self) -> Option<io::Result<FeedNews>> {
        while let Some((prefix, framed)) = self.input.split_first_chunk::<4>() {
            let length = u32::from_be_bytes(*prefix) as usize;
            if length > LARGEST {
                return Some(Err(io::ErrorKind::InvalidData.into()));
            }
            let reply = Reply::decode(framed.get(..length)?);
            self.input.drain(..prefix.len() + length);
            let Ok(reply) = reply else { return Some(Err(io::ErrorKind::InvalidData.into())) };
            if let Some(news) = self.take(&reply) {
                return Some(Ok(news));
            }
        }
        None
    }

    fn take(&mut self, reply: &Reply) -> Option<FeedNews> {
        match reply {
            Reply::OpenList(opened) if !self.is_open => {
                self.is_open = true;
                self.ask(opened.list_id);
                None
            }
            Reply::DeviceInfo(info) => {
                let place = usize::try_from(info.ref_id - 1).ok()?;
                *self.units.get_mut(place)? = info.units.clone().filter(|units| !units.is_empty());
                None
            }
            Reply::ListStatus(_) => Some(FeedNews::Alive),
            reply => {
                let (ref_id, timestamp, rest) = members(reply)?;
                let place = usize::try_from(ref_id - 1).ok()?;
                let request = self.requests.get(place)?;
                let is_answered = self.waiting.as_mut().is_some_and(|waiting| !std::mem::take(&mut waiting[place]));
                if is_answered {
                    return None;
                }
                let mut object = Map::new();
                object.insert("request".into(), request.clone().into());
                object.insert("time".into(), Utc(timestamp).to_string().into());
                let is_number = matches!(reply, Reply::Scalar(_) | Reply::ScalarArray(_) | Reply::TimedScalarArray(_));
                if let Some(units) = self.units[place].clone().filter(|_| is_number) {
                    object.insert("units".into(), units.into());
                }
                object.extend(rest.into_iter().map(|(name, value)| (name.to_owned(), value)));
                Some(FeedNews::Reading(object.into()))
            }
        }
    }

    /// Puts all requests on the list and starts it.
    fn ask(&mut self, list_id: i32) {
        let requests = (1..).zip(&self.requests);
        let adds = requests.map(|(ref_id, drf)| AddToList { list_id, ref_id, drf_request: drf.clone() }.into());
        for request in adds.chain([Request::from(StartList { list_id, model: None })]) {
            let mut message = Vec::new();
            Request::encode(&request, &mut message);
            // The request has been parsed, so it is far smaller than 4 GiB.
            self.unsent.extend_from_slice(&(message.len() as u32).to_be_bytes());
            self.unsent.extend_from_slice(&message);
        }
    }
}

/// The members of a JSON object, in order.
type ObjectMembers = Vec<(&'static str, Value)>;

/// Returns the number of a reading's request, its time, and its members by name. Numbers that JSON
/// can't express are null.
fn members(reply: &Reply) -> Option<(i64, i64, ObjectMembers)> {
    let value = |value: Value| vec![("value", value)];
    Some(match reply {
        Reply::Status(reply) => {
            let status = Status(reply.status);
            let words = vec![
                ("facility", status.facility().into()),
                ("error", status.error().into()),
                ("status", status.to_string().into()),
            ];
            (reply.ref_id, reply.timestamp, words)
        }
        Reply::Scalar(reply) => (reply.ref_id, reply.timestamp, value(reply.data.into())),
        Reply::ScalarArray(reply) => (reply.ref_id, reply.timestamp, value(reply.data.clone().into())),
        Reply::TimedScalarArray(reply) => {
            let micros = ("micros", reply.micros.clone().into());
            (reply.ref_id, reply.timestamp, vec![("value", reply.data.clone().into()), micros])
        }
        Reply::Raw(reply) => {
            let bytes: String = reply.data.0.iter().map(|byte| format!("{byte:02x}")).collect();
            (reply.ref_id, reply.timestamp, vec![("raw", bytes.into())])
        }
        Reply::Text(reply) => (reply.ref_id, reply.timestamp, value(reply.data.clone().into())),
        Reply::TextArray(reply) => (reply.ref_id, reply.timestamp, value(reply.data.clone().into())),
        Reply::AnalogAlarm(alarm) => {
            let told = json!({
                "minimum": alarm.minimum, "maximum": alarm.maximum, "enabled": alarm.alarm_enable, "bad": alarm.alarm_status,
                "abort": alarm.abort, "abort_inhibit": alarm.abort_inhibit, "tries_needed": alarm.tries_needed,
                "tries_now": alarm.tries_now,
            });
            (alarm.ref_id, alarm.timestamp, value(told))
        }
        Reply::DigitalAlarm(alarm) => {
            let told = json!({
                "nominal": alarm.nominal, "mask": alarm.mask, "enabled": alarm.alarm_enable, "bad": alarm.alarm_status,
                "abort": alarm.abort, "abort_inhibit": alarm.abort_inhibit, "tries_needed": alarm.tries_needed,
                "tries_now": alarm.tries_now,
            });
            (alarm.ref_id, alarm.timestamp, value(told))
        }
        Reply::BasicStatus(status) => {
            let all = [
                ("on", status.on),
                ("ready", status.ready),
                ("remote", status.remote),
                ("positive", status.positive),
                ("ramp", status.ramp),
            ];
            let told = all.into_iter().filter_map(|(name, truth)| Some((name.to_owned(), truth?.into())));
            (status.ref_id, status.timestamp, value(told.collect::<Map<_, _>>().into()))
        }
        _ => return None,
    })
}

/// The most bytes that are read at a time.
const CHUNK: usize = 16 << 10;
