//! Finding the servers of variables.
//!
//! All searched variables share datagrams, and the searches for each become less and less frequent.
//! A host may speak for itself: only a datagram from an address in the device file may name another
//! host, so that a stranger can't direct us to third parties.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use super::circuits::MOST_CIRCUITS;
use super::state::{ChannelState, ChannelTimer, Channels, Cid};
use crate::channel_access::message::{self, ChannelHeader, ChannelMessage, version};
use crate::channel_access::{LONGEST_NAME, MINOR, command};
use crate::link::Goes;
use crate::time::Moment;

impl Channels {
    /// Sends searches for variables that aren't found yet, up to the limit of a turn.
    pub(super) fn search(&mut self, now: Moment) {
        if self.searching.is_empty() || self.next_search > now.millis {
            return;
        }
        let mut batches: Vec<(usize, Vec<u8>)> = Vec::new();
        let many = self.searching.len().min(SEARCHES);
        for cid in self.searching.drain(..many).collect::<Vec<_>>() {
            self.search_for(cid, &mut batches, now);
        }
        self.next_search = now.millis + PAUSE;
        for (node, searches) in batches {
            self.send_searches(node, &searches, now);
        }
    }

    /// Adds the search for a channel to those of its node, and sets the time of its next one.
    fn search_for(&mut self, cid: Cid, batches: &mut Vec<(usize, Vec<u8>)>, now: Moment) {
        let Some(channel) = self.channels.get_mut(&cid) else { return };
        let node = channel.node();
        if channel.state != ChannelState::Searching || channel.is_unused() {
            channel.is_searched = false;
            return;
        }
        let pause = pause(channel.searches);
        channel.searches = channel.searches.saturating_add(1);
        self.timers.insert((now.millis + pause, ChannelTimer::Search(cid)));
        let mut search = Vec::new();
        let count = u32::from(MINOR);
        let header = ChannelHeader { command: command::SEARCH, data_type: NO_REPLY, count, first: cid, second: cid };
        header.write(&message::text(&channel.variable.1), &mut search);
        let full = |batch: &(usize, Vec<u8>)| batch.0 == node && batch.1.len() + search.len() <= DATAGRAM;
        match batches.iter_mut().rev().find(|batch| batch.0 == node).filter(|batch| full(batch)) {
            Some(batch) => batch.1.extend(search),
            None => {
                let mut batch = Vec::new();
                version().write(&[], &mut batch);
                batch.extend(search);
                batches.push((node, batch));
            }
        }
    }

    fn send_searches(&mut self, node: usize, searches: &[u8], now: Moment) {
        let Some(Some(search)) = self.nodes.get(node).cloned() else { return };
        self.counters.requests += 1;
        self.out.extend(search.addresses.iter().map(|to| Goes::Datagram(*to, searches.to_vec())));
        // A name server got the version when its circuit was opened.
        let mut head = Vec::new();
        version().write(&[], &mut head);
        for server in search.name_servers {
            if let Some(link) = self.names_at(node, server, now)
                && let Some(circuit) = self.circuits.get_mut(link).filter(|circuit| circuit.is_up)
            {
                circuit.output.extend_from_slice(&searches[head.len()..]);
            }
        }
    }

    /// Repeats the search for a channel when its time has come.
    pub(super) fn search_again(&mut self, cid: Cid, now: Moment) {
        let Some(channel) = self.channels.get_mut(&cid) else { return };
        match channel.state {
            ChannelState::Creating { until, .. } if until > now.millis => {
                self.timers.insert((until, ChannelTimer::Search(cid)));
                return;
            }
            // The server has accepted the connection, but doesn't open the channel.
            ChannelState::Creating { .. } => {
                self.leave_circuit(cid);
                self.counters.timeouts += 1;
            }
            ChannelState::Open(_) => {
                channel.is_searched = false;
                return;
            }
            ChannelState::Searching => {}
        }
        self.searching.push_back(cid);
    }

    /// Handles answers to searches.
    pub(super) fn found_by_datagram(&mut self, from: SocketAddr, bytes: &[u8], now: Moment) {
        for message in message::messages(bytes) {
            if message.header.command == command::SEARCH {
                self.found(from, message, now);
            }
        }
    }

    /// Handles the answer to a search: the port, the host, and the channel.
    pub(super) fn found(&mut self, from: SocketAddr, message: ChannelMessage<'_>, now: Moment) {
        let ChannelHeader { data_type: port, first: host, second: cid, .. } = message.header;
        let channel = self.channels.get(&cid).filter(|channel| channel.state == ChannelState::Searching);
        let (Some(channel), true) = (channel, port != 0) else {
            // Several servers may have the same variable; the first that answers is taken.
            return;
        };
        let node = channel.node();
        let Some(Some(search)) = self.nodes.get(node) else { return };
        let is_named = search.addresses.contains(&from) || search.name_servers.contains(&from);
        let host = match Ipv4Addr::from_bits(host) {
            Ipv4Addr::BROADCAST | Ipv4Addr::UNSPECIFIED => from.ip(),
            host if is_named => IpAddr::V4(host),
            _ => {
                self.counters.strays += 1;
                return;
            }
        };
        let server = SocketAddr::new(host, port);
        let Some(link) = self.circuit_to(node, server, now) else { return };
        self.create(cid, link, now);
    }

    /// Returns the circuit to a server, which is opened if there is none; `None` if the limit is
    /// reached.
    pub(super) fn circuit_to(&mut self, node: usize, server: SocketAddr, now: Moment) -> Option<usize> {
        if let Some(link) = self.by_server.get(&(node, server)) {
            return Some(*link);
        }
        if self.circuits.len() >= MOST_CIRCUITS {
            self.counters.strays += 1;
            return None;
        }
        Some(self.call(node, server, now))
    }
}

/// Returns the pause after this many searches, in milliseconds.
pub(super) fn pause(searches: u32) -> u64 {
    (FIRST << searches.min(16)).min(RAREST)
}

/// Servers without the variable stay silent.
const NO_REPLY: u16 = 5;
/// The most bytes of searches in a datagram.
const DATAGRAM: usize = 1024;
/// The searches that are sent in a turn, and the pause after it, in milliseconds.
const SEARCHES: usize = 1000;
const PAUSE: u64 = 10;
/// The time between the first search and the second, which is doubled each time, and the longest,
/// in milliseconds.
const FIRST: u64 = 100;
const RAREST: u64 = 8000;

const _: () = assert!(LONGEST_NAME + 64 < DATAGRAM);
