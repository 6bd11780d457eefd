//! Circuits: connections to servers, with the channels on them.

use indexmap::IndexSet;

use super::state::{
    ChannelExchange, ChannelQuestion, ChannelState, ChannelTimer, Channels, Circuit, OpenChannel, Serial,
};
use super::wire::{Cid, CircuitWire};
use crate::link::{Goes, LinkNumber};
use crate::pool::readers::{Deliver, PoolReaders};
use crate::status::Status;
use crate::time::Moment;

impl<W: CircuitWire> Channels<W> {
    /// Connects to a server.
    pub(super) fn call(&mut self, node: usize, server: std::net::SocketAddr, now: Moment) -> LinkNumber {
        let serial = self.serial;
        self.serial += 1;
        let link = self.circuits.insert(Circuit {
            node,
            server,
            serial,
            wire: W::default(),
            is_up: false,
            is_ready: false,
            input: Vec::new(),
            output: Vec::new(),
            channels: IndexSet::default(),
            has_names: false,
            heard_at: now.millis,
            said_at: now.millis,
            echo_at: None,
        });
        self.by_server.insert((node, server), link);
        self.timers.insert((now.millis + CONNECT, ChannelTimer::Circuit(link, serial)));
        self.out.push(Goes::Connect(link, server));
        link
    }

    /// Returns the circuit to a name server, which is opened if there is none.
    pub(super) fn names_at(&mut self, node: usize, server: std::net::SocketAddr, now: Moment) -> Option<LinkNumber> {
        let link = self.circuit_to(node, server, now)?;
        self.circuits.get_mut(link)?.has_names = true;
        Some(link)
    }

    /// Handles a connection that has opened: identifies us.
    pub(super) fn up(&mut self, link: LinkNumber, now: Moment) {
        let Some(circuit) = self.circuits.get_mut(link) else { return };
        (circuit.is_up, circuit.heard_at, circuit.said_at) = (true, now.millis, now.millis);
        if circuit.wire.greet(&mut circuit.output) {
            self.ready(link);
        }
    }

    /// Sends the requests for the channels of a circuit that can create them from now on.
    pub(super) fn ready(&mut self, link: LinkNumber) {
        let Some(circuit) = self.circuits.get_mut(link) else { return };
        if std::mem::replace(&mut circuit.is_ready, true) {
            return;
        }
        for cid in circuit.channels.iter().copied().collect::<Vec<_>>() {
            self.ask_to_create(cid, link);
        }
    }

    /// Puts a channel on a circuit.
    pub(super) fn create(&mut self, cid: Cid, link: LinkNumber, now: Moment) {
        let (Some(channel), Some(circuit)) = (self.channels.get_mut(&cid), self.circuits.get_mut(link)) else {
            return;
        };
        channel.state = ChannelState::Creating { link, until: now.millis + CREATE };
        channel.may_write = true;
        circuit.channels.insert(cid);
        if circuit.is_ready {
            self.ask_to_create(cid, link);
        }
    }

    fn ask_to_create(&mut self, cid: Cid, link: LinkNumber) {
        let (Some(channel), Some(circuit)) = (self.channels.get(&cid), self.circuits.get_mut(link)) else { return };
        circuit.wire.create(cid, &channel.variable.1, channel.shape, &mut circuit.output);
    }

    /// Removes a channel from its circuit, and informs the server. The circuit ends with its last
    /// channel.
    pub(super) fn leave_circuit(&mut self, cid: Cid) {
        let Some(channel) = self.channels.get_mut(&cid) else { return };
        let state = std::mem::replace(&mut channel.state, ChannelState::Searching);
        channel.latest = None;
        let (ChannelState::Creating { link, .. } | ChannelState::Open(OpenChannel { link, .. })) = state else {
            return;
        };
        let Some(circuit) = self.circuits.get_mut(link) else { return };
        circuit.channels.swap_remove(&cid);
        circuit.wire.clear(cid, &mut circuit.output);
        if circuit.channels.is_empty() && !circuit.has_names {
            self.drop_circuit(link, None);
        }
    }

    /// Ends a circuit. `why` is what its server did wrong, if anything.
    pub(super) fn drop_circuit(&mut self, link: LinkNumber, why: Option<&'static str>) -> Option<Circuit<W>> {
        let circuit = self.circuits.try_remove(link)?;
        self.by_server.remove(&(circuit.node, circuit.server));
        self.out.push(why.map_or(Goes::Close(link), |why| Goes::Refuse(link, why)));
        Some(circuit)
    }

    /// Handles the end of a connection, or ends it for the reason `why`: its channels are searched
    /// for again, and their readers get a status.
    pub(super) fn lost(
        &mut self,
        link: LinkNumber,
        why: Option<&'static str>,
        now: Moment,
        readers: &mut PoolReaders<'_, impl Deliver>,
    ) {
        let Some(circuit) = self.drop_circuit(link, why) else { return };
        self.forgo_all(|exchange| exchange.link == link);
        for cid in circuit.channels {
            self.fall(cid, Status::NODE_DOWN, now, readers);
        }
    }

    /// Gives up questions whose answers can't come any more: a reading is repeated, and a setting
    /// may have been made.
    pub(super) fn forgo_all(&mut self, is_meant: impl Fn(&ChannelExchange) -> bool) {
        let meant = self.exchanges.iter().filter(|(_, exchange)| is_meant(exchange));
        let mut meant: Vec<u32> = meant.map(|(number, _)| *number).collect();
        meant.sort_unstable();
        for number in meant {
            let Some(exchange) = self.exchanges.remove(&number) else { continue };
            if let Some(circuit) = self.circuits.get_mut(exchange.link) {
                circuit.wire.forget(number, &mut circuit.output);
            }
            if let Some(channel) = self.channels.get_mut(&exchange.channel) {
                channel.outstanding = channel.outstanding.saturating_sub(1);
            }
            self.forgo(exchange.channel, exchange.question);
        }
    }

    /// Gives up a question.
    pub(super) fn forgo(&mut self, cid: Cid, question: ChannelQuestion) {
        match question {
            ChannelQuestion::Read(entries) => {
                let asked = &self.asked;
                let is_wanted = |(entry, serial): &Serial| asked.get(entry).is_some_and(|it| it.serial == *serial);
                if let Some(channel) = self.channels.get_mut(&cid) {
                    channel.reads.extend(entries.into_iter().filter(is_wanted));
                }
            }
            ChannelQuestion::Bounds => {}
            ChannelQuestion::Put(put) => self.finish(put, Status::UTIME),
        }
        self.unsettle(cid);
    }

    /// Handles a circuit's timer: gives up a connection that isn't opened in time, or whose server
    /// doesn't answer an echo.
    pub(super) fn look_after(
        &mut self,
        link: LinkNumber,
        serial: u64,
        now: Moment,
        readers: &mut PoolReaders<'_, impl Deliver>,
    ) {
        let Some(circuit) = self.circuits.get_mut(link).filter(|circuit| circuit.serial == serial) else { return };
        // A server may wait for signs of life, too.
        let silent_since = if W::MUST_SPEAK { circuit.heard_at.min(circuit.said_at) } else { circuit.heard_at };
        let again = match circuit.echo_at {
            _ if !circuit.is_up => None,
            Some(asked) if asked + ANSWER <= now.millis => None,
            Some(asked) => Some(asked + ANSWER),
            None if silent_since + SILENCE > now.millis => Some(silent_since + SILENCE),
            None => {
                circuit.echo_at = Some(now.millis);
                circuit.wire.echo(&mut circuit.output);
                Some(now.millis + ANSWER)
            }
        };
        match again {
            Some(due) => drop(self.timers.insert((due, ChannelTimer::Circuit(link, serial)))),
            None => {
                self.counters.timeouts += 1;
                self.lost(link, Some("its server does not answer"), now, readers);
            }
        }
    }

    /// Sends the waiting output of circuits.
    pub(super) fn write_circuits(&mut self, now: Moment) {
        for (link, circuit) in &mut self.circuits {
            if circuit.is_up && !circuit.output.is_empty() {
                circuit.said_at = now.millis;
                self.out.push(Goes::Bytes(link, std::mem::take(&mut circuit.output)));
            }
        }
    }
}

/// The most circuits; a server that would need one more counts as not found.
pub(crate) const MOST_CIRCUITS: usize = 512;
/// The time limit for opening a connection, and for a server to open a channel, in milliseconds.
const CONNECT: u64 = 5000;
const CREATE: u64 = 10_000;
/// The silence after which a server gets an echo, and the time limit for its answer, in
/// milliseconds.
const SILENCE: u64 = 15_000;
const ANSWER: u64 = 5000;
