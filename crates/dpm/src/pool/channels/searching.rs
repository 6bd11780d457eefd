//! Finding the servers of variables.
//!
//! All searched variables share datagrams, and the searches for each become less and less frequent.
//! A host may speak for itself: only a datagram from an address in the device file may name another
//! host, so that a stranger can't direct us to third parties.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use super::circuits::MOST_CIRCUITS;
use super::state::{ChannelState, ChannelTimer, Channels};
use super::wire::{Cid, CircuitWire, FoundServer};
use crate::channel_access::LONGEST_NAME;
use crate::link::Goes;
use crate::time::Moment;

/// The names of a node that are searched for by one datagram.
struct SearchBatch {
    node: usize,
    names: Vec<(Cid, Arc<str>)>,
    size: usize,
}

impl<W: CircuitWire> Channels<W> {
    /// Sends searches for variables that aren't found yet, up to the limit of a turn.
    pub(super) fn search(&mut self, now: Moment) {
        if self.searching.is_empty() || self.next_search > now.millis {
            return;
        }
        if W::NAMES_PORT && self.port.is_none() {
            self.out.push(Goes::Bind);
            self.next_search = now.millis + BIND;
            return;
        }
        let mut batches: Vec<SearchBatch> = Vec::new();
        let many = self.searching.len().min(SEARCHES);
        for cid in self.searching.drain(..many).collect::<Vec<_>>() {
            self.search_for(cid, &mut batches, now);
        }
        self.next_search = now.millis + PAUSE;
        for batch in batches {
            self.send_searches(&batch, now);
        }
    }

    /// Notes the port to which answers to searches come.
    pub(super) fn bound(&mut self, port: u16, now: Moment) {
        self.port = Some(port);
        self.next_search = now.millis;
    }

    /// Adds the search for a channel to those of its node, and sets the time of its next one.
    fn search_for(&mut self, cid: Cid, batches: &mut Vec<SearchBatch>, now: Moment) {
        let Some(channel) = self.channels.get_mut(&cid) else { return };
        let node = channel.node();
        if channel.state != ChannelState::Searching || channel.is_unused() {
            channel.is_searched = false;
            return;
        }
        let pause = pause(channel.searches);
        channel.searches = channel.searches.saturating_add(1);
        self.timers.insert((now.millis + pause, ChannelTimer::Search(cid)));
        let name = Arc::clone(&channel.variable.1);
        let size = W::size_of_search(&name);
        let batch = batches.iter_mut().rev().find(|batch| batch.node == node);
        match batch.filter(|batch| batch.size + size <= DATAGRAM) {
            Some(batch) => {
                batch.names.push((cid, name));
                batch.size += size;
            }
            None => batches.push(SearchBatch { node, names: vec![(cid, name)], size: W::SEARCH_HEAD + size }),
        }
    }

    fn send_searches(&mut self, batch: &SearchBatch, now: Moment) {
        let Some(Some(search)) = self.nodes.get(batch.node).cloned() else { return };
        let names: Vec<(Cid, &str)> = batch.names.iter().map(|(cid, name)| (*cid, &**name)).collect();
        self.counters.requests += 1;
        for to in search.addresses {
            self.out.push(Goes::Datagram(to, W::datagram(&names, to, self.port.unwrap_or_default())));
        }
        for server in search.name_servers {
            if let Some(link) = self.names_at(batch.node, server, now)
                && let Some(circuit) = self.circuits.get_mut(link).filter(|circuit| circuit.is_ready)
            {
                circuit.wire.search(&names, &mut circuit.output);
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

    /// Handles answers to searches. Several servers may have the same variable; the first that
    /// answers is taken.
    pub(super) fn handle_answers(&mut self, from: SocketAddr, found: &[FoundServer], now: Moment) {
        for FoundServer { cid, host, port } in found.iter().copied() {
            let channel = self.channels.get(&cid).filter(|channel| channel.state == ChannelState::Searching);
            let Some(node) = channel.map(|channel| channel.node()) else { continue };
            let Some(Some(search)) = self.nodes.get(node) else { continue };
            let is_named = search.addresses.contains(&from) || search.name_servers.contains(&from);
            let host: IpAddr = host.unwrap_or(from.ip());
            if host != from.ip() && !is_named {
                self.counters.strays += 1;
                continue;
            }
            if let Some(link) = self.circuit_to(node, SocketAddr::new(host, port), now) {
                self.create(cid, link, now);
            }
        }
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

/// The most bytes of searches in a datagram.
const DATAGRAM: usize = 1024;
/// The searches that are sent in a turn, and the pause after it, in milliseconds.
const SEARCHES: usize = 1000;
const PAUSE: u64 = 10;
/// The time after which the socket for searches is requested again, in milliseconds.
const BIND: u64 = 1000;
/// The time between the first search and the second, which is doubled each time, and the longest,
/// in milliseconds.
const FIRST: u64 = 100;
const RAREST: u64 = 8000;

const _: () = assert!(LONGEST_NAME + 64 < DATAGRAM);
