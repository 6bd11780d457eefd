//! Accepts streams from other servers: their admission, their proofs, and the shard that they
//! belong to.

use std::net::{IpAddr, SocketAddr};

use rookery_stream::error::{Condition, StreamError};
use tracing::{debug, info};

use crate::bidi::GRACE_MS;
use crate::inbound::{Inbound, InboundEvent, KeyQuestion};
use crate::outbound::StreamPurpose;
use crate::servers::{Action, Arrival, Arrived, ConnectionKey, Handshake, Home, Machine, ServerStreams, StreamOwner};
use crate::strangers::block;
use crate::timers::StreamTimer;

impl ServerStreams {
    /// Accepts the connection of another server. Returns `None` if there are too many unproven ones
    /// from that address, or in total, or if the address connects too often.
    pub fn accept(&mut self, peer: SocketAddr, direct_tls: bool) -> Option<ConnectionKey> {
        let peer = self.admit_stranger(peer)?;
        let machine = Box::new(Inbound::new(self.settings.clone(), direct_tls));
        let login_ms = self.settings.login_ms;
        let deadline_ms = self.now_ms + login_ms;
        let (key, serial) = self.insert(Machine::In {
            machine,
            peer,
            is_home: false,
            counts: true,
            deadline_ms,
            is_carrier: false,
            carries: None,
        });
        self.set_timer(login_ms, StreamTimer::Login(key, serial));
        if direct_tls {
            self.actions.push_back(Action::StartTls(key, Handshake::Accept(None)));
        }
        Some(key)
    }

    /// Counts a connection that has proven nothing. Returns `None` if there are too many from that
    /// address, or in total, or if it connects too often.
    pub(crate) fn admit_stranger(&mut self, peer: SocketAddr) -> Option<IpAddr> {
        let peer = block(peer);
        if self.is_stopping || !self.strangers.connect(peer, self.now_ms) {
            debug!(%peer, "an address has too many connections that have proven nothing; one more is closed");
            return None;
        }
        Some(peer)
    }

    /// Adopts a stream that came in at another shard, and belongs here. Call
    /// [`ServerStreams::received`] with no bytes afterwards.
    pub fn adopt(&mut self, arrival: Arrival, home: &dyn Home) -> ConnectionKey {
        let Arrival { arriving, carry } = arrival;
        let (mut machine, peer, event, deadline_ms) = match arriving {
            StreamOwner::Server { machine, peer, event, deadline_ms } => (machine, peer, event, deadline_ms),
            StreamOwner::Component(attached) => {
                let key = self.adopt_component(attached, carry);
                if self.is_stopping {
                    self.dismiss(key, &StreamError::SystemShutdown);
                } else {
                    self.received(key, &[], home);
                }
                return key;
            }
        };
        // The settings may have changed while it moved.
        machine.apply(self.settings.clone());
        let counts = !machine.has_proven();
        let fault = machine.objection(home).map(|(error, text)| (error, text.map(str::to_owned)));
        let fault = fault.or_else(|| {
            let text = || Some("Too many connections have proven nothing.".to_owned());
            (counts && !self.strangers.enter(peer)).then(|| (StreamError::ResourceConstraint, text()))
        });
        if let Some((error, text)) = fault {
            let mut out = Vec::new();
            machine.close(&error, text.as_deref(), &mut out);
            machine.forget();
            let (key, _) = self.insert(Machine::In {
                machine,
                peer,
                is_home: true,
                counts: false,
                deadline_ms,
                is_carrier: false,
                carries: None,
            });
            self.write(key, out);
            self.end(key);
            return key;
        }
        let (key, serial) = self.insert(Machine::In {
            machine,
            peer,
            is_home: true,
            counts,
            deadline_ms,
            is_carrier: false,
            carries: None,
        });
        if let Some(stream) = self.streams.get_mut(key.0 as usize) {
            stream.carry = carry;
        }
        let left = deadline_ms.saturating_sub(self.now_ms);
        self.set_timer(left, StreamTimer::Login(key, serial));
        self.handle_at_home(key, event);
        if self.is_stopping {
            self.stop();
        } else {
            self.received(key, &[], home);
        }
        key
    }

    /// Handles an event of an incoming stream. Returns `false` if the stream isn't here any more.
    pub(crate) fn arrived(&mut self, key: ConnectionKey, event: InboundEvent, rest: &[u8], home: &dyn Home) -> bool {
        match event {
            InboundEvent::Stanza(packet, to, _) if self.takes_answer(&packet, &to) => {}
            InboundEvent::Stanza(packet, to, custody) => {
                let mut carries_soon = false;
                if let Some(stream) = self.streams.get_mut(key.0 as usize) {
                    stream.used_ms = self.now_ms;
                    carries_soon =
                        matches!(&stream.machine, Machine::In { machine, is_carrier: false, .. } if machine.is_bidi());
                }
                self.actions.push_back(Action::Deliver(packet, to, custody));
                if carries_soon {
                    self.may_carry(key);
                }
            }
            InboundEvent::Refused(error, to) => self.actions.push_back(Action::Refuse(error, to)),
            InboundEvent::StartTls => {
                let local = self.inbound(key).and_then(|machine| machine.local()).map(Box::from);
                self.actions.push_back(Action::StartTls(key, Handshake::Accept(local)));
            }
            InboundEvent::End => {
                let broken = self.inbound(key).filter(|machine| machine.has_failed());
                match broken.map(|machine| machine.proven().map(Box::from).collect()) {
                    Some(domains) => self.lost_all(domains),
                    None => self.route_of(key).into_iter().for_each(|route| self.has_read_all(route)),
                }
                self.end(key);
            }
            InboundEvent::Enable(may_resume) => self.enable(key, may_resume),
            InboundEvent::Asked => self.settles(key, 0),
            InboundEvent::Resume(id, answered) => self.resume(key, &id, answered),
            InboundEvent::Acknowledged(handled) => self.acknowledged(key, handled),
            InboundEvent::Proven(_) | InboundEvent::Verify(_) => return self.belongs(key, event, rest, home),
        }
        true
    }

    /// Moves a stream to the home of the domain that it speaks for, or continues with it here.
    fn belongs(&mut self, key: ConnectionKey, event: InboundEvent, rest: &[u8], home: &dyn Home) -> bool {
        let domain = match &event {
            InboundEvent::Proven(domain) => domain,
            InboundEvent::Verify(question) => &question.from,
            _ => return true,
        };
        let shard = home.home(domain);
        let Some(stream) = self.streams.get_mut(key.0 as usize) else { return false };
        let Machine::In { machine, is_home, .. } = &mut stream.machine else { return true };
        if shard == home.shard() {
            *is_home = true;
            self.handle_at_home(key, event);
            return true;
        }
        if *is_home {
            // The stream's other domains are at home here. The peer has to open another connection
            // for this one.
            let mut out = Vec::new();
            match event {
                InboundEvent::Verify(KeyQuestion { from, to, .. }) => {
                    machine.verified(&from, &to, &Err(Condition::ResourceConstraint), &mut out);
                }
                _ => machine.close(&StreamError::ResourceConstraint, Some("Use a stream for each domain."), &mut out),
            }
            let has_ended = machine.has_ended();
            self.write(key, out);
            if has_ended {
                self.end(key);
            }
            return true;
        }
        self.move_away(key, event, rest, shard);
        false
    }

    fn move_away(&mut self, key: ConnectionKey, event: InboundEvent, rest: &[u8], shard: usize) {
        let Some(stream) = self.streams.try_remove(key.0 as usize) else { return };
        let Machine::In { machine, peer, counts, deadline_ms, .. } = stream.machine else { return };
        match &event {
            InboundEvent::Proven(_) if counts => self.strangers.prove(peer),
            _ if counts => self.strangers.leave(peer),
            _ => {}
        }
        let carry = (!rest.is_empty())
            .then(|| Box::new(crate::servers::CarriedElement { bytes: rest.to_vec(), scanner: Box::default() }));
        let arrival = Arrival { arriving: StreamOwner::Server { machine, peer, event, deadline_ms }, carry };
        self.actions.push_back(Action::Move(key, Box::new(arrival), shard));
    }

    /// Handles a proof or a request of a stream that is at its home.
    fn handle_at_home(&mut self, key: ConnectionKey, event: InboundEvent) {
        match event {
            InboundEvent::Proven(domain) if self.has_room_for(key, &domain) => {
                self.note_proof(key, &domain, "its certificate")
            }
            InboundEvent::Proven(_) => {
                let mut out = Vec::new();
                let Some(machine) = self.inbound_mut(key) else { return };
                machine.close(&StreamError::ResourceConstraint, Some("That domain has too many streams."), &mut out);
                machine.forget();
                self.write(key, out);
                self.end(key);
            }
            InboundEvent::Verify(question) => {
                let Some(stream) = self.streams.get(key.0 as usize) else { return };
                let Machine::In { peer, counts, .. } = stream.machine else { return };
                let arrived = Arrived { key, serial: stream.serial, stranger: None };
                if question.is_certified {
                    return self.tell(arrived, &question, &Ok(true));
                }
                if !counts {
                    return self.ask(question, arrived);
                }
                if self.strangers.ask(peer, self.now_ms) {
                    return self.ask(question, Arrived { stranger: Some(peer), ..arrived });
                }
                self.tell(arrived, &question, &Err(Condition::ResourceConstraint));
            }
            _ => {}
        }
    }

    fn note_proof(&mut self, key: ConnectionKey, domain: &str, by: &str) {
        let idle_ms = self.settings.idle_ms;
        let now_ms = self.now_ms;
        let Some(stream) = self.streams.get_mut(key.0 as usize) else { return };
        stream.used_ms = now_ms;
        let serial = stream.serial;
        let Machine::In { machine, peer, counts, .. } = &mut stream.machine else { return };
        let (peer, pair, is_bidi) = (*peer, pair(machine, domain), machine.is_bidi());
        if std::mem::take(counts) {
            self.strangers.prove(peer);
            self.set_timer(2 * idle_ms, StreamTimer::Idle(key, serial));
        }
        if is_bidi {
            self.set_timer(GRACE_MS, StreamTimer::Carry(key, serial));
        }
        *self.speakers.entry(pair).or_default() += 1;
        info!(%peer, domain, by, "another server has opened a stream");
        self.is_alive(domain);
    }

    /// Tells a stream the outcome of its question, if it still waits for that.
    pub(crate) fn tell(&mut self, arrived: Arrived, question: &KeyQuestion, outcome: &Result<bool, Condition>) {
        if let Some(address) = arrived.stranger {
            self.strangers.answered(address);
        }
        if !self.is_at(arrived.key, arrived.serial) {
            return;
        }
        let mut out = Vec::new();
        let was_proven =
            self.inbound(arrived.key).is_some_and(|machine| machine.proven().any(|of| *of == *question.from));
        let is_too_much = matches!(outcome, Ok(true)) && !was_proven && !self.has_room_for(arrived.key, &question.from);
        let outcome = if is_too_much { &Err(Condition::ResourceConstraint) } else { outcome };
        let Some(machine) = self.inbound_mut(arrived.key) else { return };
        let is_proven = machine.verified(&question.from, &question.to, outcome, &mut out);
        let has_ended = machine.has_ended();
        self.write(arrived.key, out);
        if is_proven && !was_proven {
            let by = if question.is_certified { "its certificate" } else { "dialback" };
            self.note_proof(arrived.key, &question.from, by);
        } else if !is_proven {
            debug!(domain = &*question.from, ?outcome, "dialback has not proven another server's domain");
        }
        if has_ended {
            self.end(arrived.key);
        }
    }

    /// Returns whether one more stream may speak for a domain.
    fn has_room_for(&self, key: ConnectionKey, domain: &str) -> bool {
        let Some(machine) = self.inbound(key) else { return false };
        self.speakers.get(&pair(machine, domain)).is_none_or(|streams| *streams < MOST_SPEAKERS)
    }

    /// Asks the server of a key's domain to verify the key, over a stream for this purpose only.
    fn ask(&mut self, question: KeyQuestion, arrived: Arrived) {
        let at = self.way(&question.to, &question.from, StreamPurpose::Questions);
        let room = at.and_then(|at| Some((at, self.routes.get(at)?.questions.len())));
        match room {
            Some((at, waiting)) if waiting < MOST_QUESTIONS => self.question(at, question, arrived),
            _ => self.tell(arrived, &question, &Err(Condition::ResourceConstraint)),
        }
    }

    pub(crate) fn login_timed_out(&mut self, key: ConnectionKey, serial: u32) {
        if !self.is_at(key, serial) {
            return;
        }
        if let Some(attached) = self.attached_mut(key) {
            if !attached.machine.has_proven() && !attached.machine.has_ended() {
                self.dismiss(key, &StreamError::ConnectionTimeout);
            }
            return;
        }
        let mut out = Vec::new();
        let Some(machine) = self.inbound_mut(key) else { return };
        if machine.has_proven() || machine.has_ended() {
            return;
        }
        machine.close(&StreamError::ConnectionTimeout, None, &mut out);
        self.write(key, out);
        self.end(key);
    }

    pub(crate) fn inbound(&self, key: ConnectionKey) -> Option<&Inbound> {
        match &self.streams.get(key.0 as usize)?.machine {
            Machine::In { machine, .. } => Some(machine),
            Machine::Out { .. } | Machine::Component(_) => None,
        }
    }

    pub(crate) fn inbound_mut(&mut self, key: ConnectionKey) -> Option<&mut Inbound> {
        match &mut self.streams.get_mut(key.0 as usize)?.machine {
            Machine::In { machine, .. } => Some(machine),
            Machine::Out { .. } | Machine::Component(_) => None,
        }
    }
}

/// Returns a name for a domain together with the domain of ours that a stream is for.
pub(crate) fn pair(machine: &Inbound, domain: &str) -> Box<str> {
    name_of_pair(domain, machine.local().unwrap_or_default())
}

/// Returns a name for a remote domain together with one of ours.
pub(crate) fn name_of_pair(remote: &str, local: &str) -> Box<str> {
    [remote, " ", local].concat().into()
}

/// The most incoming streams that may speak for one domain: some servers open one for each pair of
/// hosts.
pub const MOST_SPEAKERS: u32 = 100;
/// The most keys that may wait to be verified by one server.
pub const MOST_QUESTIONS: usize = 100;
