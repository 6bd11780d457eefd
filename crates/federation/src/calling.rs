//! Limits the connections to one address that are being made at a time.
//!
//! A server may have any number of domains, and accepts few unproven connections from one address.
//! After a restart, stanzas wait for each of those domains: if all were called at once, most calls
//! would be refused. So the calls wait in a queue, but no longer than their stanzas do.

use std::collections::VecDeque;
use std::net::IpAddr;

use rookery_base::Map;

use crate::servers::{ConnectionKey, Machine, ServerStreams};

/// The connections that are being opened.
#[derive(Debug, Default)]
pub(crate) struct OutboundCalls {
    addresses: Map<IpAddr, Called>,
    /// Addresses that have room for waiting calls.
    free: Vec<IpAddr>,
}

#[derive(Debug, Default)]
struct Called {
    under_way: usize,
    /// The ways that wait for a place, with their serial numbers.
    line: VecDeque<(usize, u32)>,
}

impl OutboundCalls {
    /// Takes a place, or queues the way.
    pub(crate) fn enter(&mut self, address: IpAddr, route: usize, serial: u32) -> bool {
        let called = self.addresses.entry(address).or_default();
        let has_room = called.under_way < MOST_AT_ONCE;
        if has_room {
            called.under_way += 1;
        } else {
            called.line.push_back((route, serial));
        }
        has_room
    }

    /// Frees a place at an address.
    pub(crate) fn leave(&mut self, address: IpAddr) {
        let Some(called) = self.addresses.get_mut(&address) else { return };
        called.under_way -= 1;
        if !called.line.is_empty() {
            self.free.push(address);
        } else if called.under_way == 0 {
            self.addresses.remove(&address);
        }
    }

    /// Returns the next call to an address that has a free place.
    fn next(&mut self, address: IpAddr) -> Option<(usize, u32)> {
        let called = self.addresses.get_mut(&address)?;
        let next = if called.under_way < MOST_AT_ONCE { called.line.pop_front() } else { None };
        if called.under_way == 0 && called.line.is_empty() {
            self.addresses.remove(&address);
        }
        next
    }
}

impl ServerStreams {
    /// Notes that a stream is ready, so that another one may be opened at its address.
    pub(crate) fn has_called(&mut self, key: ConnectionKey) {
        if let Some(Machine::Out { calls, .. }) = self.streams.get_mut(key.0 as usize).map(|stream| &mut stream.machine)
            && let Some(address) = calls.take()
        {
            self.calls.leave(address);
        }
    }

    /// Starts calls that have waited for a place. Ways that don't wait any more are skipped.
    pub(crate) fn call_up(&mut self) {
        while let Some(address) = self.calls.free.pop() {
            while let Some((route, serial)) = self.calls.next(address) {
                self.next_address(route, serial);
            }
        }
    }
}

/// The most connections to one address that a shard opens at a time.
pub const MOST_AT_ONCE: usize = 10;
