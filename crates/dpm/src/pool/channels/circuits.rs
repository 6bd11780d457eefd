//! Circuits: connections to servers, with the channels on them.

use indexmap::IndexSet;

use super::state::{
    ChannelExchange, ChannelQuestion, ChannelState, ChannelTimer, Channels, Cid, Circuit, OpenChannel, Serial,
};
use crate::channel_access::message::{self, ChannelHeader, version};
use crate::channel_access::{MINOR, command};
use crate::link::{Goes, LinkNumber};
use crate::pool::readers::{Deliver, PoolReaders};
use crate::status::Status;
use crate::time::Moment;

impl Channels {
    /// Connects to a server.
    pub(super) fn call(&mut self, node: usize, server: std::net::SocketAddr, now: Moment) -> LinkNumber {
        let serial = self.serial;
        self.serial += 1;
        let link = self.circuits.insert(Circuit {
            node,
            server,
            serial,
            is_up: false,
            minor: 0,
            input: Vec::new(),
            output: Vec::new(),
            channels: IndexSet::default(),
            has_names: false,
            heard_at: now.millis,
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

    /// Handles a connection that has opened: identifies us, and requests the channels.
    pub(super) fn up(&mut self, link: LinkNumber, now: Moment) {
        let Some(circuit) = self.circuits.get_mut(link) else { return };
        (circuit.is_up, circuit.heard_at) = (true, now.millis);
        version().write(&[], &mut circuit.output);
        for (command, name) in [(command::HOST_NAME, OUR_NAME), (command::CLIENT_NAME, OUR_NAME)] {
            ChannelHeader { command, ..ChannelHeader::default() }.write(&message::text(name), &mut circuit.output);
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
        if circuit.is_up {
            self.ask_to_create(cid, link);
        }
    }

    fn ask_to_create(&mut self, cid: Cid, link: LinkNumber) {
        let (Some(channel), Some(circuit)) = (self.channels.get(&cid), self.circuits.get_mut(link)) else { return };
        let header = ChannelHeader {
            command: command::CREATE_CHAN,
            first: cid,
            second: MINOR.into(),
            ..ChannelHeader::default()
        };
        header.write(&message::text(&channel.variable.1), &mut circuit.output);
    }

    /// Removes a channel from its circuit, and informs the server. The circuit ends with its last
    /// channel.
    pub(super) fn leave_circuit(&mut self, cid: Cid) {
        let Some(channel) = self.channels.get_mut(&cid) else { return };
        let state = std::mem::replace(&mut channel.state, ChannelState::Searching);
        channel.latest = None;
        let (link, sid) = match state {
            ChannelState::Searching => return,
            ChannelState::Creating { link, .. } => (link, None),
            ChannelState::Open(OpenChannel { link, sid, .. }) => (link, Some(sid)),
        };
        let Some(circuit) = self.circuits.get_mut(link) else { return };
        circuit.channels.swap_remove(&cid);
        if let Some(sid) = sid {
            let header =
                ChannelHeader { command: command::CLEAR_CHANNEL, first: sid, second: cid, ..ChannelHeader::default() };
            header.write(&[], &mut circuit.output);
        }
        if circuit.channels.is_empty() && !circuit.has_names {
            self.drop_circuit(link);
        }
    }

    pub(super) fn drop_circuit(&mut self, link: LinkNumber) -> Option<Circuit> {
        let circuit = self.circuits.try_remove(link)?;
        self.by_server.remove(&(circuit.node, circuit.server));
        self.out.push(Goes::Close(link));
        Some(circuit)
    }

    /// Handles the end of a connection, or ends it: its channels are searched for again, and their
    /// readers get a status.
    pub(super) fn lost(&mut self, link: LinkNumber, now: Moment, readers: &mut PoolReaders<'_, impl Deliver>) {
        let Some(circuit) = self.drop_circuit(link) else { return };
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
            let Some(channel) = self.channels.get_mut(&exchange.channel) else { continue };
            channel.outstanding = channel.outstanding.saturating_sub(1);
            match exchange.question {
                ChannelQuestion::Read(entries) => {
                    let asked = &self.asked;
                    let is_wanted = |(entry, serial): &Serial| asked.get(entry).is_some_and(|it| it.serial == *serial);
                    channel.reads.extend(entries.into_iter().filter(is_wanted));
                }
                ChannelQuestion::Bounds => {}
                ChannelQuestion::Put(put) => self.finish(put, Status::UTIME),
            }
            self.unsettle(exchange.channel);
        }
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
        let again = match circuit.echo_at {
            _ if !circuit.is_up => None,
            Some(asked) if asked + ANSWER <= now.millis => None,
            Some(asked) => Some(asked + ANSWER),
            None if circuit.heard_at + SILENCE > now.millis => Some(circuit.heard_at + SILENCE),
            None => {
                circuit.echo_at = Some(now.millis);
                ChannelHeader { command: command::ECHO, ..ChannelHeader::default() }.write(&[], &mut circuit.output);
                Some(now.millis + ANSWER)
            }
        };
        match again {
            Some(due) => drop(self.timers.insert((due, ChannelTimer::Circuit(link, serial)))),
            None => {
                self.counters.timeouts += 1;
                self.lost(link, now, readers);
            }
        }
    }

    /// Sends the waiting output of circuits.
    pub(super) fn write_circuits(&mut self) {
        for (link, circuit) in &mut self.circuits {
            if circuit.is_up && !circuit.output.is_empty() {
                self.out.push(Goes::Bytes(link, std::mem::take(&mut circuit.output)));
            }
        }
    }
}

/// The name of our user and host, for servers that let only some users or hosts set.
const OUR_NAME: &str = "rookery";
/// The most circuits; a server that would need one more counts as not found.
pub(crate) const MOST_CIRCUITS: usize = 512;
/// The time limit for opening a connection, and for a server to open a channel, in milliseconds.
const CONNECT: u64 = 5000;
const CREATE: u64 = 10_000;
/// The silence after which a server gets an echo, and the time limit for its answer, in
/// milliseconds.
const SILENCE: u64 = 15_000;
const ANSWER: u64 = 5000;
