//! Connections to brokers.

use super::state::{BrokerSession, SessionState, TopicKey, TopicTimer, Topics};
use crate::link::Goes;
use crate::mqtt::{self, Begins, BrokerPacket};
use crate::pool::readers::{Deliver, PoolReaders};
use crate::stages::{Begun, ReadingStage};
use crate::status::Status;
use crate::time::Moment;

impl Topics {
    /// Returns the session of a broker, which is created if there is none.
    pub(super) fn session(&mut self, node: usize) -> &mut BrokerSession {
        let serial = &mut self.serial;
        self.sessions.entry(node).or_insert_with(|| {
            *serial += 1;
            BrokerSession::new(*serial)
        })
    }

    /// Connects to a broker, unless a connection is already under way or has to wait.
    pub(super) fn call(&mut self, node: usize, now: Moment) {
        let Some(Some(broker)) = self.nodes.get(node).cloned() else { return };
        let session = self.session(node);
        let serial = session.serial;
        if session.state != SessionState::New {
            return;
        }
        session.state = SessionState::Calling;
        session.attempts = session.attempts.saturating_add(1);
        self.timers.insert((now.millis + CONNECT, TopicTimer::Session(node, serial)));
        self.out.push(match broker.trust {
            Some(trust) => Goes::ConnectTls(node, broker.address, trust),
            None => Goes::Connect(node, broker.address),
        });
    }

    /// Handles a connection that has opened: identifies us.
    pub(super) fn greet(&mut self, node: usize, now: Moment) {
        let Some(Some(broker)) = self.nodes.get(node) else { return };
        let Some(session) = self.sessions.get_mut(&node).filter(|session| session.state == SessionState::Calling)
        else {
            return;
        };
        session.state = SessionState::Greeting;
        let password = broker.password.as_ref().map(|password| password.0.as_slice());
        mqtt::connect(broker.user.as_deref(), password, KEEP_ALIVE_SECONDS, &mut session.output);
        self.write_sessions(now);
    }

    /// Notes that a topic is to be subscribed to.
    pub(super) fn want(&mut self, key: TopicKey, node: usize) {
        let Some(topic) = self.topics.get_mut(key) else { return };
        if let Some(session) = self.sessions.get_mut(&node).filter(|session| session.is_open())
            && !std::mem::replace(&mut topic.is_subscribed, true)
        {
            session.wanted.push(key);
        }
    }

    /// Handles bytes of a broker. A connection with an invalid packet is closed.
    pub(super) fn received(
        &mut self,
        node: usize,
        bytes: &[u8],
        now: Moment,
        mut begun: Begun,
        readers: &mut PoolReaders<'_, impl Deliver>,
    ) {
        // Bytes in any other state belong to a connection that is over.
        let is_up = |session: &&mut BrokerSession| matches!(session.state, SessionState::Greeting | SessionState::Open);
        let Some(session) = self.sessions.get_mut(&node).filter(is_up) else { return };
        let serial = session.serial;
        session.is_pinged = false;
        let skipped = session.skipped.min(bytes.len());
        session.skipped -= skipped;
        let mut input = std::mem::take(&mut session.input);
        input.extend_from_slice(&bytes[skipped..]);
        let mut rest = &*input;
        loop {
            match mqtt::first(rest, LARGEST) {
                Ok(Begins::Packet(packet, length)) => {
                    rest = &rest[length..];
                    match self.answer(node, packet, now, begun, readers) {
                        Ok(ended) => begun = ended,
                        Err(status) => return self.leave(node, status, now, readers),
                    }
                }
                Ok(Begins::TooLong(topic, length)) => {
                    let key = self.by_name.get(&(node, topic.into())).copied();
                    let here = length.min(rest.len());
                    rest = &rest[here..];
                    if let Some(session) = self.sessions.get_mut(&node) {
                        session.skipped = length - here;
                    }
                    if let Some(key) = key {
                        begun = self.updated(key, Err(Status::TRUNC_REPLY), now, begun, readers);
                    }
                }
                Ok(Begins::Unfinished) => break,
                Err(_) => {
                    self.counters.strays += 1;
                    return self.leave(node, Status::NODE_DOWN, now, readers);
                }
            }
        }
        if let Some(session) = self.sessions.get_mut(&node).filter(|session| session.serial == serial) {
            session.input.extend_from_slice(rest);
        }
    }

    /// Handles a packet. The error is the readers' status if the connection is to be closed.
    fn answer(
        &mut self,
        node: usize,
        packet: BrokerPacket<'_>,
        now: Moment,
        begun: Begun,
        readers: &mut PoolReaders<'_, impl Deliver>,
    ) -> Result<Begun, Status> {
        let Some(session) = self.sessions.get_mut(&node) else { return Ok(begun) };
        match (session.state, packet) {
            (SessionState::Greeting, BrokerPacket::Connected(0)) => self.opened(node),
            // The broker doesn't know us, or doesn't admit us (§3.2.2.3).
            (SessionState::Greeting, BrokerPacket::Connected(4 | 5)) => return Err(Status::PRIV),
            (SessionState::Open, BrokerPacket::Publish { topic, id, payload }) => {
                if let Some(id) = id {
                    mqtt::acknowledge(id, &mut session.output);
                }
                let Some(key) = self.by_name.get(&(node, topic.into())).copied() else {
                    self.counters.strays += 1;
                    return Ok(begun);
                };
                self.counters.replies += 1;
                let begun = readers.entries.stages.end(ReadingStage::LookUp, begun);
                return Ok(self.updated(key, Ok(payload), now, begun, readers));
            }
            (SessionState::Open, BrokerPacket::Published(id)) => self.published(node, id),
            (SessionState::Open, BrokerPacket::Subscribed(id, granted)) => {
                let asked = session.granting.remove(&id).unwrap_or_default();
                let refused = asked.into_iter().zip(granted).filter(|(_, granted)| **granted >= REFUSED);
                for ((key, serial), _) in refused.collect::<Vec<_>>() {
                    if self.topics.get(key).is_some_and(|topic| topic.serial == serial) {
                        let _ = self.updated(key, Err(Status::PRIV), now, begun, readers);
                    }
                }
            }
            (SessionState::Open, BrokerPacket::Unsubscribed(_) | BrokerPacket::Alive) => {}
            _ => return Err(Status::NODE_DOWN),
        }
        Ok(begun)
    }

    /// Subscribes to all needed topics after a broker has accepted us.
    fn opened(&mut self, node: usize) {
        let Some(session) = self.sessions.get_mut(&node) else { return };
        (session.state, session.attempts) = (SessionState::Open, 0);
        let keys: Vec<TopicKey> =
            self.topics.iter().filter(|(_, topic)| topic.node == node).map(|(key, _)| key).collect();
        for key in keys {
            self.want(key, node);
        }
    }

    /// Closes the connection to a broker.
    fn leave(&mut self, node: usize, status: Status, now: Moment, readers: &mut PoolReaders<'_, impl Deliver>) {
        self.out.push(Goes::Close(node));
        self.fall(node, status, now, readers);
    }

    /// Handles the end of a connection.
    pub(super) fn lost(&mut self, node: usize, now: Moment, readers: &mut PoolReaders<'_, impl Deliver>) {
        self.fall(node, Status::NODE_DOWN, now, readers);
    }

    /// Returns a session to the state without a connection: readers get a status, and the next
    /// attempt follows after a pause.
    fn fall(&mut self, node: usize, status: Status, now: Moment, readers: &mut PoolReaders<'_, impl Deliver>) {
        let Some(old) = self.sessions.remove(&node) else { return };
        if matches!(old.state, SessionState::New | SessionState::Resting) {
            self.sessions.insert(node, old);
            return;
        }
        self.counters.timeouts += 1;
        let mut sent: Vec<_> = old.puts.into_iter().collect();
        sent.sort_unstable_by_key(|(id, _)| *id);
        sent.into_iter().for_each(|(_, put)| self.finish(put, Status::UTIME));
        let attempts = old.attempts.max(1);
        let session = self.session(node);
        (session.state, session.attempts, session.waiting) = (SessionState::Resting, attempts, old.waiting);
        let (serial, pause) = (session.serial, (PAUSE << attempts.min(7)).min(LONGEST_PAUSE));
        self.timers.insert((now.millis + pause, TopicTimer::Session(node, serial)));
        let of_node = |(key, topic): (TopicKey, &super::state::PoolTopic)| (topic.node == node).then_some(key);
        for key in self.topics.iter().filter_map(of_node).collect::<Vec<_>>() {
            if let Some(topic) = self.topics.get_mut(key) {
                topic.is_subscribed = false;
                topic.views.values_mut().for_each(|view| view.latest = None);
            }
            self.tell((key, false), status, now, readers);
            self.unsettle(key);
        }
    }

    /// Handles a connection's timer: gives up a connection that isn't made in time, or whose broker
    /// doesn't answer a ping, and connects again after a pause.
    pub(super) fn look_after(
        &mut self,
        node: usize,
        serial: u64,
        now: Moment,
        readers: &mut PoolReaders<'_, impl Deliver>,
    ) {
        let Some(session) = self.sessions.get_mut(&node).filter(|session| session.serial == serial) else { return };
        match session.state {
            SessionState::New => {}
            SessionState::Resting => {
                session.state = SessionState::New;
                let is_wanted = self.topics.iter().any(|(_, topic)| topic.node == node && !topic.is_unused());
                if is_wanted || self.sessions.get(&node).is_some_and(|session| !session.waiting.is_empty()) {
                    self.call(node, now);
                } else {
                    self.sessions.remove(&node);
                }
            }
            SessionState::Calling | SessionState::Greeting => self.leave(node, Status::NODE_DOWN, now, readers),
            SessionState::Open => {
                let has_topics = self.topics.iter().any(|(_, topic)| topic.node == node);
                if !has_topics && session.puts.is_empty() && session.waiting.is_empty() {
                    mqtt::disconnect(&mut session.output);
                    self.out.push(Goes::Bytes(node, std::mem::take(&mut session.output)));
                    self.out.push(Goes::Close(node));
                    self.sessions.remove(&node);
                    return;
                }
                if session.is_pinged {
                    return self.leave(node, Status::NODE_DOWN, now, readers);
                }
                // A broker drops a client that sends nothing, even while it has much to send to it.
                session.is_pinged = true;
                mqtt::ping(&mut session.output);
                self.timers.insert((now.millis + PING, TopicTimer::Session(node, serial)));
            }
        }
    }

    /// Gives up an unused topic.
    pub(super) fn give_up(&mut self, key: TopicKey, serial: u64) {
        let Some(topic) = self.topics.get_mut(key).filter(|topic| topic.serial == serial) else { return };
        topic.is_idle = false;
        if !topic.is_unused() {
            return;
        }
        let topic = self.topics.remove(key);
        if let Some(session) = self.sessions.get_mut(&topic.node).filter(|session| session.is_open()) {
            session.wanted.retain(|wanted| *wanted != key);
            if topic.is_subscribed {
                let id = session.id();
                mqtt::unsubscribe(id, &topic.name, &mut session.output);
            }
        }
        self.by_name.remove(&(topic.node, topic.name));
    }

    /// Sends the waiting output of sessions.
    pub(super) fn write_sessions(&mut self, now: Moment) {
        for node in self.sessions.keys().copied().collect::<Vec<_>>() {
            self.put(node, now);
            if self.sessions.get(&node).is_some_and(|session| !session.waiting.is_empty()) {
                self.call(node, now);
            }
            let Some(session) = self.sessions.get_mut(&node) else { continue };
            let is_up = matches!(session.state, SessionState::Greeting | SessionState::Open);
            for keys in std::mem::take(&mut session.wanted).chunks(AT_ONCE) {
                let id = session.id();
                let topics = keys.iter().filter_map(|key| self.topics.get(*key));
                mqtt::subscribe(id, topics.map(|topic| &*topic.name), &mut session.output);
                let asked = keys.iter().filter_map(|key| Some((*key, self.topics.get(*key)?.serial)));
                session.granting.insert(id, asked.collect());
                self.counters.requests += 1;
                self.counters.devices_requested += keys.len() as u64;
            }
            if is_up && !session.output.is_empty() {
                self.out.push(Goes::Bytes(node, std::mem::take(&mut session.output)));
            }
        }
    }
}

/// The largest packet that is handled, in bytes.
pub(crate) const LARGEST: usize = 64 << 10;
/// The time limit for a connection, with the broker's acceptance, in milliseconds.
const CONNECT: u64 = 5000;
/// The interval of pings, and the time limit for an answer, in milliseconds.
const PING: u64 = 15_000;
/// The silence after which a broker may drop us.
const KEEP_ALIVE_SECONDS: u16 = 40;
/// The first pause after a lost connection, and the longest, in milliseconds.
const PAUSE: u64 = 125;
const LONGEST_PAUSE: u64 = 10_000;
/// The most topics in one subscription packet.
const AT_ONCE: usize = 100;
/// The lowest return code that is a refusal (§3.9.3).
const REFUSED: u8 = 0x80;
