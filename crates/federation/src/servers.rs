//! All streams of a shard with other servers: their handling of stanzas, bytes, answers and time.
//!
//! # Invariants
//!
//! - Everything about a remote domain is at its home shard: the ways to it, and the streams that
//!   speak for it. A stream that arrives elsewhere moves there before its domain counts.
//! - Actions are carried out in their order; a key is used again only after [`Action::Drop`] or
//!   [`ServerStreams::closed`].
//! - A stanza that can't leave is bounced once, as [`Action::Bounce`]. One that has left and isn't
//!   acknowledged is sent again if it is known not to have arrived, and bounced if that isn't
//!   known.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;

use rookery_base::Map;
use rookery_fanout::Packet;
use rookery_fanout::multicast::Outgoing;
use rookery_hub::Custody;
use rookery_jid::Jid;
use rookery_stream::error::StanzaError;
use rookery_stream::tls::trust::{Names, Untrusted};
use rookery_xml::{Built, Scanner};
use slab::Slab;

use crate::arrivals::pair;
use crate::bidi::Carriers;
use crate::calling::OutboundCalls;
use crate::component;
use crate::components::AttachedComponent;
use crate::inbound::{self, Inbound};
use crate::intake::DomainIntake;
use crate::outbound::{self, Outbound};
use crate::pings::ForADay;
use crate::resumption::Resumable;
use crate::route::DomainRoute;
use crate::settings::FederationSettings;
use crate::strangers::Strangers;
use crate::targets::Address;
use crate::timers::StreamTimer;

/// A connection, by its position at this shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionKey(pub u32);

/// The questions of the streams to the server that runs them.
pub trait Home: inbound::Ours {
    /// Returns the shard that is the home of a remote domain.
    fn home(&self, domain: &str) -> usize;
    /// Returns the number of the shard that these streams are on.
    fn shard(&self) -> usize;
}

/// An act that the shard has to carry out.
#[derive(Debug)]
pub enum Action {
    /// Look up where the server of a domain is; then call [`ServerStreams::resolved`].
    Resolve(Box<str>),
    /// Connect; then call [`ServerStreams::connected`] or [`ServerStreams::closed`].
    Connect(ConnectionKey, Address),
    /// Begin a handshake; then call [`ServerStreams::secured`]. We accept, for this domain if it is
    /// known, or we call, as the first domain and for the second one.
    StartTls(ConnectionKey, Handshake),
    /// Write bytes; then call [`ServerStreams::drained`] when all output is written.
    Write(ConnectionKey, Vec<u8>),
    /// Close our direction when all is written; call [`ServerStreams::closed`] when the peer has
    /// closed, too, or has had enough time.
    End(ConnectionKey),
    /// Close at once. The key is free.
    Drop(ConnectionKey),
    /// Pass connection and stream to another shard, which calls [`ServerStreams::adopt`]. The key
    /// is free.
    Move(ConnectionKey, Box<Arrival>, usize),
    /// A stanza of another server for an address here, to be handled in this custody.
    Deliver(Packet, Jid, Option<Custody>),
    /// A stanza of a component, for any address.
    Route(Packet, Jid),
    /// An error of this server for another server's user, or a component's.
    Refuse(Built, Jid),
    /// A stanza that can't leave, to its sender.
    Bounce(Outgoing, StanzaError),
    /// A stream with the server of a domain has broken, or the server can't be reached.
    Lost(Box<str>),
    /// A component has connected.
    ComponentCame(Box<str>),
    /// The last connection of a component has gone.
    ComponentGone(Box<str>),
    /// Stop reading from a connection, or start again.
    Pause(ConnectionKey, bool),
}

/// Our end of a handshake.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Handshake {
    /// The peer has called, for this domain if that is known.
    Accept(Option<Box<str>>),
    /// We have called.
    Call {
        /// In the name of this domain of ours.
        local: Box<str>,
        /// The domain that the peer has to be.
        remote: Box<str>,
    },
}

/// A stream that moves between shards.
#[derive(Debug)]
pub struct Arrival {
    pub(crate) arriving: StreamOwner,
    pub(crate) carry: Option<Box<CarriedElement>>,
}

/// The owner of a moving stream.
#[derive(Debug)]
pub(crate) enum StreamOwner {
    /// Another server's.
    Server {
        machine: Box<Inbound>,
        peer: IpAddr,
        /// The event to handle at its destination.
        event: inbound::InboundEvent,
        deadline_ms: u64,
    },
    /// A component's, which has proven its name.
    Component(Box<AttachedComponent>),
}

/// The stream that a question is about, if it still exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Arrived {
    pub key: ConnectionKey,
    pub serial: u32,
    /// The stranger against whom it counts, if the stream had proven nothing when it asked.
    pub stranger: Option<IpAddr>,
}

/// An unfinished element, with the state of the scanner.
#[derive(Debug)]
pub(crate) struct CarriedElement {
    pub bytes: Vec<u8>,
    pub scanner: Box<Scanner>,
}

#[derive(Debug)]
pub(crate) struct Stream {
    pub serial: u32,
    pub machine: Machine,
    pub carry: Option<Box<CarriedElement>>,
    /// The time of the last stanza in either direction.
    pub used_ms: u64,
    /// The time at which the peer's certificate expires.
    pub certified_until_ms: Option<u64>,
    pub ended: bool,
    /// Stanzas that were written before the stream ended, and that its connection has not taken
    /// completely: they arrive before its end, or are given back when the connection is gone.
    pub last_written: Vec<Outgoing>,
}

#[derive(Debug)]
pub(crate) enum Machine {
    In {
        machine: Box<Inbound>,
        peer: IpAddr,
        /// True if it is at the home of the domains that it speaks for, and stays here.
        is_home: bool,
        /// True if it counts among the unproven ones of its address.
        counts: bool,
        /// The time by which it must have proven something.
        deadline_ms: u64,
        /// True if it can carry stanzas of ours.
        is_carrier: bool,
        /// The way that it carries.
        carries: Option<usize>,
    },
    Out {
        machine: Box<Outbound>,
        /// The way that it is for.
        route: usize,
        direct_tls: bool,
        /// The address that it counts for, until it is ready.
        calls: Option<IpAddr>,
    },
    Component(Box<AttachedComponent>),
}

/// The streams of a shard.
#[derive(Debug)]
pub struct ServerStreams {
    pub(crate) settings: Arc<FederationSettings>,
    pub(crate) now_ms: u64,
    pub(crate) streams: Slab<Stream>,
    pub(crate) routes: Slab<DomainRoute>,
    pub(crate) by_remote: Map<Box<str>, Vec<usize>>,
    /// Ways that are being found or negotiated, and those for questions alone.
    pub(crate) under_way: usize,
    pub(crate) questions_under_way: usize,
    /// The number of ways for questions, in any state.
    pub(crate) question_ways: usize,
    /// The number of ways that are being looked for, by sender.
    pub(crate) askers: Map<Box<str>, usize>,
    /// The number of incoming streams that speak for a domain, by pairs of domains.
    pub(crate) speakers: Map<Box<str>, u32>,
    /// The bytes of all waiting stanzas.
    pub(crate) waiting_bytes: usize,
    pub(crate) actions: VecDeque<Action>,
    /// Ways with output to be written.
    pub(crate) dirty: Vec<usize>,
    /// The connections of the components whose home this is.
    pub(crate) components: Map<Box<str>, Vec<ConnectionKey>>,
    /// Connections of components with output to be written.
    pub(crate) dirty_components: Vec<ConnectionKey>,
    /// Addresses of incoming streams that have proven nothing.
    pub(crate) strangers: Strangers,
    /// The rates at which domains send.
    pub(crate) intake: DomainIntake,
    pub(crate) resumable: Resumable,
    /// Domains whose servers don't reply to pings.
    pub(crate) silent: ForADay,
    /// Connections to other servers that are being made.
    pub(crate) calls: OutboundCalls,
    pub(crate) carriers: Carriers,
    pub(crate) timers: BinaryHeap<Reverse<(u64, StreamTimer)>>,
    serial: u32,
    scanner: Option<Box<Scanner>>,
    pub(crate) is_stopping: bool,
}

impl ServerStreams {
    /// Returns a shard's set of streams, which is empty.
    pub fn new(settings: Arc<FederationSettings>) -> Self {
        Self {
            settings,
            now_ms: 0,
            streams: Slab::new(),
            routes: Slab::new(),
            by_remote: Map::default(),
            under_way: 0,
            questions_under_way: 0,
            question_ways: 0,
            askers: Map::default(),
            speakers: Map::default(),
            waiting_bytes: 0,
            actions: VecDeque::new(),
            dirty: Vec::new(),
            components: Map::default(),
            dirty_components: Vec::new(),
            strangers: Strangers::default(),
            intake: DomainIntake::default(),
            resumable: Resumable::default(),
            silent: ForADay::default(),
            calls: OutboundCalls::default(),
            carriers: Carriers::default(),
            timers: BinaryHeap::new(),
            serial: 0,
            scanner: None,
            is_stopping: false,
        }
    }

    /// Sets the clock, in milliseconds; it never goes back.
    pub fn set_time(&mut self, now_ms: u64) {
        self.now_ms = now_ms;
    }

    /// Returns the next act to carry out.
    pub fn next_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// Returns the number of connections, whatever their state.
    pub fn len(&self) -> usize {
        self.streams.len()
    }

    /// Returns whether there is no connection.
    pub fn is_empty(&self) -> bool {
        self.streams.is_empty()
    }

    /// Returns the number of ways to other domains that are remembered.
    pub fn ways(&self) -> usize {
        self.routes.len()
    }

    /// Returns the bytes of all waiting stanzas.
    pub fn waiting(&self) -> usize {
        self.waiting_bytes
    }

    // --- events from the shard ---

    /// Handles decrypted bytes from a connection.
    pub fn received(&mut self, key: ConnectionKey, bytes: &[u8], home: &dyn Home) {
        let Some(stream) = self.streams.get_mut(key.0 as usize) else { return };
        let (input, mut scanner) = match stream.carry.take() {
            None => (None, self.scanner.take().unwrap_or_default()),
            Some(mut carry) => {
                carry.bytes.extend_from_slice(bytes);
                (Some(carry.bytes), carry.scanner)
            }
        };
        let whole = input.as_deref().unwrap_or(bytes);
        let mut at = 0;
        let (mut is_here, mut stanzas) = (true, 0);
        while is_here {
            let rest = whole.get(at..).unwrap_or_default();
            let Some(stream) = self.streams.get_mut(key.0 as usize) else { break };
            let mut out = Vec::new();
            let step = match &mut stream.machine {
                Machine::In { machine, .. } => {
                    let read = machine.read(rest, &mut scanner, home, &mut out);
                    (read.consumed, read.event.map(StreamStep::In))
                }
                Machine::Out { machine, .. } => {
                    let read = machine.read(rest, &mut scanner, home, &mut out);
                    (read.consumed, read.event.map(StreamStep::Out))
                }
                Machine::Component(attached) => {
                    let read = attached.machine.read(rest, &mut scanner, home, &mut out);
                    (read.consumed, read.event.map(StreamStep::Component))
                }
            };
            let (consumed, event) = step;
            at += consumed;
            self.write(key, out);
            match event {
                None => break,
                Some(StreamStep::In(event)) => {
                    stanzas += u64::from(matches!(
                        event,
                        inbound::InboundEvent::Stanza(..) | inbound::InboundEvent::Refused(..)
                    ));
                    let rest = whole.get(at..).unwrap_or_default();
                    is_here = self.arrived(key, event, rest, home);
                }
                Some(StreamStep::Out(event)) => {
                    stanzas += u64::from(matches!(
                        event,
                        outbound::OutboundEvent::Stanza(..) | outbound::OutboundEvent::Refused(..)
                    ));
                    self.handle_event(key, event);
                }
                Some(StreamStep::Component(event)) => {
                    let rest = whole.get(at..).unwrap_or_default();
                    is_here = self.component_did(key, event, rest, home);
                }
            }
        }
        if is_here {
            self.charge(key, bytes.len(), stanzas);
        }
        let rest = whole.get(at..).unwrap_or_default();
        match self.streams.get_mut(key.0 as usize) {
            Some(stream) if is_here && !rest.is_empty() && !stream.ended => {
                stream.carry = Some(Box::new(CarriedElement { bytes: rest.to_vec(), scanner }));
            }
            _ => {
                // After a fault the scanner is in the middle of an element, and the next stream
                // must start at the beginning of one.
                scanner.reset();
                self.scanner = Some(scanner);
            }
        }
    }

    /// Handles the end of a handshake, after the peer's certificates were checked.
    pub fn secured(&mut self, key: ConnectionKey, shown: Result<Names, Untrusted>) {
        self.holds_until(key, &shown);
        let mut out = Vec::new();
        let event = match self.streams.get_mut(key.0 as usize).map(|stream| &mut stream.machine) {
            Some(Machine::In { machine, .. }) => {
                machine.secured(shown);
                None
            }
            Some(Machine::Out { machine, .. }) => machine.secured(shown, &mut out),
            Some(Machine::Component(_)) | None => return,
        };
        self.write(key, out);
        if let Some(event) = event {
            self.handle_event(key, event);
        }
    }

    /// Handles a connection that is closed, by the peer or because we ended it. `reason` is for the
    /// operator.
    pub fn closed(&mut self, key: ConnectionKey, reason: &str) {
        let Some(stream) = self.streams.get(key.0 as usize) else { return };
        match &stream.machine {
            // The `Drop` that follows finds nothing to close, and frees the key.
            Machine::Out { .. } if !stream.ended => self.attempt_failed(key, reason),
            Machine::Component(_) => {
                self.detach(key);
                self.give_back_written(key);
                self.remove(key);
            }
            Machine::In { machine, .. } => {
                if !stream.ended {
                    self.lost_all(machine.proven().map(Box::from).collect());
                }
                self.remove(key);
            }
            Machine::Out { .. } => _ = self.remove(key),
        }
    }

    /// Reports that streams with these domains have broken.
    pub(crate) fn lost_all(&mut self, domains: Vec<Box<str>>) {
        self.actions.extend(domains.into_iter().map(Action::Lost));
    }

    // --- common to both directions ---

    pub(crate) fn insert(&mut self, machine: Machine) -> (ConnectionKey, u32) {
        self.serial = self.serial.wrapping_add(1);
        let stream = Stream {
            serial: self.serial,
            machine,
            carry: None,
            used_ms: self.now_ms,
            certified_until_ms: None,
            ended: false,
            last_written: Vec::new(),
        };
        (ConnectionKey(self.streams.insert(stream) as u32), self.serial)
    }

    pub(crate) fn next_serial(&mut self) -> u32 {
        self.serial = self.serial.wrapping_add(1);
        self.serial
    }

    pub(crate) fn is_at(&self, key: ConnectionKey, serial: u32) -> bool {
        self.streams.get(key.0 as usize).is_some_and(|stream| stream.serial == serial)
    }

    pub(crate) fn write(&mut self, key: ConnectionKey, bytes: Vec<u8>) {
        if !bytes.is_empty() {
            self.actions.push_back(Action::Write(key, bytes));
        }
    }

    /// Ends a connection once all output is on its way. Its key is free when the shard reports that
    /// it is closed.
    pub(crate) fn end(&mut self, key: ConnectionKey) {
        if let Some(stream) = self.streams.get_mut(key.0 as usize)
            && !stream.ended
        {
            stream.ended = true;
            stream.carry = None;
            self.detach(key);
            self.actions.push_back(Action::End(key));
            self.carries_no_more(key, "the other server's stream is over");
        }
    }

    /// Forgets a stream whose connection is to be closed at once.
    pub(crate) fn drop_now(&mut self, key: ConnectionKey) {
        if self.remove(key) {
            self.actions.push_back(Action::Drop(key));
        }
    }

    fn remove(&mut self, key: ConnectionKey) -> bool {
        self.carries_no_more(key, "the other server's connection is gone");
        let Some(mut stream) = self.streams.try_remove(key.0 as usize) else { return false };
        self.lose(std::mem::take(&mut stream.last_written));
        self.keep(&mut stream.machine);
        if let Machine::In { machine, counts: false, .. } = &stream.machine {
            machine.proven().for_each(|domain| release(&mut self.speakers, &pair(machine, domain)));
        }
        match stream.machine {
            Machine::In { peer, counts: true, .. } => self.strangers.leave(peer),
            Machine::Component(attached) if attached.counts => self.strangers.leave(attached.peer),
            Machine::Out { calls: Some(address), .. } => self.calls.leave(address),
            _ => {}
        }
        true
    }

    /// Returns the time without a stanza after which a stream of ours is closed: sooner than the
    /// other server would end it (XEP-0478), so that no stanza of ours is lost to that.
    pub(crate) fn rests_after_ms(&self, key: ConnectionKey) -> u64 {
        let borne_ms = self.outbound(key).map_or(u64::MAX, Outbound::most_idle_ms);
        (borne_ms / 4 * 3).max(SHORTEST_REST_MS).min(self.settings.idle_ms)
    }

    pub(crate) fn look_whether_idle(&mut self, key: ConnectionKey, serial: u32) {
        if !self.is_at(key, serial) || self.renew(key) {
            return;
        }
        let idle_ms = self.rests_after_ms(key);
        let Some(stream) = self.streams.get_mut(key.0 as usize) else { return };
        // The other server decides when it no longer needs its stream; we end that stream later
        // than our own.
        let patience = if matches!(stream.machine, Machine::In { .. }) { 2 * idle_ms } else { idle_ms };
        let idle_since = stream.used_ms;
        if self.now_ms < idle_since + patience {
            let delay = idle_since + patience - self.now_ms;
            return self.set_timer(delay, StreamTimer::Idle(key, serial));
        }
        let mut out = Vec::new();
        match &mut stream.machine {
            Machine::In { machine, .. } if machine.is_closing() => self.drop_now(key),
            Machine::Out { machine, .. } if machine.is_closing() => self.drop_now(key),
            Machine::In { carries: Some(route), .. } if self.routes.get(*route).is_some_and(DomainRoute::is_needed) => {
                self.set_timer(idle_ms, StreamTimer::Idle(key, serial));
            }
            Machine::In { machine, carries, .. } => {
                let carried = carries.take();
                machine.finish(&mut out);
                self.write(key, out);
                self.set_timer(LAST_WORDS_MS, StreamTimer::Idle(key, serial));
                carried.into_iter().for_each(|route| self.is_carried_no_more(route));
            }
            Machine::Out { route, .. } => {
                let route = *route;
                if !self.rest(route, key) {
                    self.set_timer(idle_ms, StreamTimer::Idle(key, serial));
                }
            }
            // A component may stay as long as it likes.
            Machine::Component(_) => {}
        }
    }
}

/// Decrements the count of a name.
pub(crate) fn release<N: Copy + Eq + From<u8> + std::ops::SubAssign>(counts: &mut Map<Box<str>, N>, name: &str) {
    if let Some(count) = counts.get_mut(name) {
        *count -= N::from(1);
        if *count == N::from(0) {
            counts.remove(name);
        }
    }
}

enum StreamStep {
    In(inbound::InboundEvent),
    Out(outbound::OutboundEvent),
    Component(component::ComponentEvent),
}

/// The time that a peer has for ending its direction after we have ended ours.
pub(crate) const LAST_WORDS_MS: u64 = 5_000;
/// The shortest time for which an idle stream is kept, whatever the other server announces: a new
/// stream for each stanza would cost both more.
const SHORTEST_REST_MS: u64 = 10_000;

#[cfg(test)]
mod tests;
