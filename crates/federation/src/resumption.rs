//! Broken streams of other servers that may continue over another connection (XEP-0198 §5).
//!
//! The number of handled stanzas is kept for each: it tells the other server which ones to send
//! again.
//!
//! A bidirectional stream (XEP-0288) is resumed by the server that has opened it, as the standard
//! says, or by the other server, on a stream that this one opens: it has stanzas under way, too,
//! and may be the first to need the count. A server that doesn't support this refuses, and nothing
//! is lost that wouldn't be lost anyway.
//!
//! # Invariants
//!
//! - A stream continues for the domain that it was proven for, towards the same domain of ours. In
//!   addition, its name can't be guessed.
//! - Once a stream continues elsewhere, nothing more that arrives over its old connection counts.

use rookery_base::Map;
use rookery_hub::custody::{Balance, Ledger};
use rookery_stream::error::StreamError;

use crate::inbound::{ManagedInbound, Said};
use crate::outbound::Outbound;
use crate::sent::Sharing;
use crate::servers::{ConnectionKey, Machine, ServerStreams};
use crate::stream_id;
use crate::timers::StreamTimer;

/// The streams that may be resumed here.
#[derive(Debug, Default)]
pub(crate) struct Resumable {
    /// The streams that have a connection, by their domains and ids.
    live: Map<Box<str>, ConnectionKey>,
    /// The streams that have none, by the domains that they speak for.
    broken: Map<Box<str>, Vec<BrokenStreams>>,
    number: usize,
    is_watched: bool,
}

#[derive(Debug)]
struct BrokenStreams {
    id: Box<str>,
    local: Box<str>,
    balance: Balance,
    until_ms: u64,
}

impl ServerStreams {
    /// Starts to acknowledge the stanzas of a stream.
    pub(crate) fn enable(&mut self, key: ConnectionKey, may_resume: bool) {
        let id: Option<Box<str>> = may_resume.then(|| stream_id().into());
        let remote = self.inbound(key).and_then(|machine| machine.proven().next());
        if let Some((id, remote)) = id.as_ref().zip(remote) {
            let name = name(remote, id);
            self.resumable.live.insert(name, key);
        }
        let mut out = Vec::new();
        if let Some(machine) = self.inbound_mut(key) {
            machine.enabled(id, KEPT_MS / 1000, &mut out);
        }
        self.write(key, out);
        self.answers_managed(key);
        self.may_carry(key);
    }

    /// Lets a stream continue another one, whose connection may still seem to be alive. `answered`
    /// is the peer's count of our stanzas on that one.
    pub(crate) fn resume(&mut self, key: ConnectionKey, id: &str, answered: Option<u32>) {
        let Some(machine) = self.inbound(key) else { return };
        let (Some(remote), Some(local)) = (machine.proven().next().map(Box::<str>::from), machine.local()) else {
            return;
        };
        let local = Box::<str>::from(local);
        self.put_away(id, &remote, &local);
        let mut out = Vec::new();
        let handled = self.take_broken(id, &remote, &local);
        let Some(machine) = self.inbound_mut(key) else { return };
        match handled {
            HandledCount::Unknown => {
                let ends = machine.not_resumed(&mut out).is_some();
                self.write(key, out);
                if ends { self.end(key) } else { self.may_carry(key) }
            }
            HandledCount::Moving => {
                machine.resuming = Some((id.into(), answered));
                self.settles(key, 0);
            }
            HandledCount::Of(handled) => {
                machine.resumed(id.into(), handled, answered.unwrap_or_default(), &mut out);
                self.resumable.live.insert(name(&remote, id), key);
                self.write(key, out);
                match answered {
                    Some(answered) => self.answers_resumed(key, id, answered),
                    None => self.may_carry(key),
                }
            }
        }
    }

    /// Lets a stream of ours resume another one: tells the other server how many of its stanzas
    /// were handled there.
    pub(crate) fn resumes(&mut self, key: ConnectionKey) {
        let Some(at) = self.route_of(key) else { return };
        let Some(route) = self.routes.get(at) else { return };
        let (remote, local) = (route.remote.clone(), route.local.clone());
        let broken = route.broken.as_ref().map(|broken| (broken.id.clone(), broken.sharing));
        let handled = match broken {
            None => None,
            Some((_, Sharing::OneWay)) => Some(0),
            Some((id, _)) => {
                self.put_away(&id, &remote, &local);
                match self.take_broken(&id, &remote, &local) {
                    HandledCount::Unknown => None,
                    HandledCount::Moving => return self.settles(key, 0),
                    HandledCount::Of(handled) => {
                        if self.outbound(key).is_some_and(Outbound::is_bidi) {
                            self.resumable.live.insert(name(&remote, &id), key);
                        } else {
                            // The other direction may continue elsewhere.
                            let (balance, until_ms) = (Ledger::after(handled).end(), self.now_ms + KEPT_MS);
                            self.remember(remote, BrokenStreams { id, local, balance, until_ms });
                        }
                        Some(handled)
                    }
                }
            }
        };
        let mut out = Vec::new();
        let event = self.outbound_mut(key).and_then(|(machine, _)| machine.resume(handled, &mut out));
        self.write(key, out);
        if let Some(event) = event {
            self.handle_event(key, event);
        }
    }

    /// Checks in a moment whether the store has everything that a stream depends on.
    pub(crate) fn settles(&mut self, key: ConnectionKey, looks: u8) {
        if let Some(serial) = self.streams.get(key.0 as usize).map(|stream| stream.serial) {
            self.set_timer(SETTLE_MS, StreamTimer::Settle(key, serial, looks));
        }
    }

    /// Checks whether the store has everything that a stream depends on, and continues with it.
    pub(crate) fn look_whether_settled(&mut self, key: ConnectionKey, serial: u32, looks: u8) {
        let Some(stream) = self.streams.get_mut(key.0 as usize).filter(|stream| !stream.ended) else { return };
        let (mut out, is_last) = (Vec::new(), looks >= MOST_LOOKS);
        let is_told = match &mut stream.machine {
            Machine::In { machine, .. } => match machine.resuming.take() {
                Some((id, answered)) => return self.resume(key, &id, answered),
                None => match machine.tell_settled(is_last, &mut out) {
                    Some(Said::End) => {
                        self.write(key, out);
                        return self.end(key);
                    }
                    said => said.is_some(),
                },
            },
            Machine::Out { machine, .. } if machine.is_counting() => return self.resumes(key),
            Machine::Out { machine, .. } => machine.tell_asked(is_last, &mut out),
            Machine::Component(_) => true,
        };
        self.write(key, out);
        if !is_told {
            self.set_timer(SETTLE_MS, StreamTimer::Settle(key, serial, looks + 1));
        }
    }

    /// Remembers that a stream that we have opened is ready, and can be resumed in the peer's
    /// direction.
    pub(crate) fn watch_reverse(&mut self, key: ConnectionKey) {
        let Some((machine, _)) = self.outbound_mut(key) else { return };
        let id = machine.managed_id().filter(|_| machine.may_be_resumed());
        if let Some(name) = id.map(|id| name(machine.remote(), id)) {
            self.resumable.live.insert(name, key);
        }
    }

    /// Keeps the state for resuming a stream that is gone.
    pub(crate) fn keep(&mut self, machine: &mut Machine) {
        if let Some(named) = resumable_id(machine) {
            self.resumable.live.remove(&named);
        }
        if let Some((remote, stream)) = take_state(machine, self.now_ms + KEPT_MS) {
            self.remember(remote, stream);
        }
    }

    fn remember(&mut self, remote: Box<str>, stream: BrokenStreams) {
        self.resumable.keep(remote, stream);
        if !std::mem::replace(&mut self.resumable.is_watched, true) {
            self.set_timer(KEPT_MS, StreamTimer::Broken);
        }
    }

    /// Forgets streams that were not resumed.
    pub(crate) fn forget_broken(&mut self) {
        let (resumable, now_ms) = (&mut self.resumable, self.now_ms);
        let mut next = None;
        resumable.broken.retain(|_, streams| {
            streams.retain(|stream| stream.until_ms > now_ms);
            next = next.into_iter().chain(streams.first().map(|stream| stream.until_ms)).min();
            !streams.is_empty()
        });
        resumable.number = resumable.broken.values().map(Vec::len).sum();
        resumable.is_watched = next.is_some();
        if let Some(next) = next {
            self.set_timer(next - now_ms, StreamTimer::Broken);
        }
    }

    /// Takes the count from a stream that still seems to have a connection. If the other server has
    /// opened that stream, it ends; on one of ours, our own direction continues.
    fn put_away(&mut self, id: &str, remote: &str, local: &str) {
        let Some(&key) = self.resumable.live.get(&name(remote, id)) else { return };
        let is_meant = match self.streams.get(key.0 as usize).map(|stream| &stream.machine) {
            Some(Machine::In { machine, .. }) => {
                machine.proven().next() == Some(remote) && machine.local() == Some(local)
            }
            Some(Machine::Out { machine, .. }) => machine.local() == local,
            Some(Machine::Component(_)) | None => false,
        };
        if !is_meant {
            return;
        }
        if self.inbound(key).is_some() {
            let mut out = Vec::new();
            if let Some(machine) = self.inbound_mut(key) {
                let text = "The stream continues over another connection.";
                machine.close(&StreamError::Conflict, Some(text), &mut out);
            }
            self.write(key, out);
            self.end(key);
        }
        let until_ms = self.now_ms + KEPT_MS;
        let machine = self.streams.get_mut(key.0 as usize).map(|stream| &mut stream.machine);
        if let Some((remote, stream)) = machine.and_then(|machine| take_state(machine, until_ms)) {
            self.resumable.live.remove(&name(&remote, &stream.id));
            self.remember(remote, stream);
        }
    }

    /// Takes the count of a stream that has no connection any more.
    fn take_broken(&mut self, id: &str, remote: &str, local: &str) -> HandledCount {
        let Some(streams) = self.resumable.broken.get_mut(remote) else { return HandledCount::Unknown };
        let found = streams.iter().position(|stream| *stream.id == *id && *stream.local == *local);
        let Some((at, stream)) = found.and_then(|at| Some((at, streams.get(at)?))) else {
            return HandledCount::Unknown;
        };
        let Some(handled) = stream.balance.settled_count() else { return HandledCount::Moving };
        streams.remove(at);
        self.resumable.number -= 1;
        if streams.is_empty() {
            self.resumable.broken.remove(remote);
        }
        HandledCount::Of(handled)
    }
}

impl Resumable {
    fn keep(&mut self, remote: Box<str>, stream: BrokenStreams) {
        let of_domain = self.broken.entry(remote).or_default();
        if of_domain.len() >= MOST_OF_DOMAIN {
            of_domain.remove(0);
            self.number -= 1;
        }
        if self.number < MOST_KEPT {
            self.number += 1;
            of_domain.push(stream);
        }
    }
}

/// Returns the id of a resumable stream, with its domain.
fn resumable_id(machine: &Machine) -> Option<Box<str>> {
    match machine {
        Machine::In { machine, .. } => Some(name(machine.proven().next()?, machine.managed_id()?)),
        Machine::Out { machine, .. } => {
            machine.managed_id().filter(|_| machine.may_be_resumed()).map(|id| name(machine.remote(), id))
        }
        Machine::Component(_) => None,
    }
}

/// Takes the state for continuing a stream elsewhere: no more stanzas count on it.
fn take_state(machine: &mut Machine, until_ms: u64) -> Option<(Box<str>, BrokenStreams)> {
    let (remote, local, id, balance) = match machine {
        Machine::In { machine, .. } => {
            let (remote, local) = (Box::<str>::from(machine.proven().next()?), Box::<str>::from(machine.local()?));
            let ManagedInbound { ledger, id, .. } = machine.take_managed()?;
            (remote, local, id?, ledger.end())
        }
        Machine::Out { machine, .. } => {
            let (id, balance) = machine.take_handled()?;
            (machine.remote().into(), machine.local().into(), id, balance)
        }
        Machine::Component(_) => return None,
    };
    Some((remote, BrokenStreams { id, local, balance, until_ms }))
}

/// The number of stanzas that were handled on a stream.
enum HandledCount {
    /// There was no such stream, or it is forgotten.
    Unknown,
    /// The store is still at work.
    Moving,
    Of(u32),
}

/// Returns a key for a stream among those of all domains: ids of different servers may be equal.
fn name(remote: &str, id: &str) -> Box<str> {
    [remote, " ", id].concat().into()
}

/// The time between two checks whether the store is done.
const SETTLE_MS: u64 = 10;
/// The number of checks after which a server gets an acknowledgement of what is settled, rather
/// than of everything that it asked about: without an answer, it would take us for dead.
const MOST_LOOKS: u8 = 200;
/// The time for which a broken stream may be resumed.
pub const KEPT_MS: u64 = 300_000;
/// The most broken streams of one domain.
pub const MOST_OF_DOMAIN: usize = 16;
/// The most broken streams of all domains.
pub const MOST_KEPT: usize = 10_000;
