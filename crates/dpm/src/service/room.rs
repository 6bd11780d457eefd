//! Room for queued output: the bounds for the clients of an address, and for all clients together.
//!
//! The queue of each client is bounded, but thousands of clients that do not read could each fill
//! theirs. A client has its first step of room for itself; further steps are taken from the shares
//! of its address and of all clients, and are freed when it reads. So nothing is counted for
//! clients that keep up.

use std::collections::HashMap;

use super::client::DpmClient;
use super::options::ServiceOptions;
use super::share::ClientAddress;

/// The steps of room that have been taken.
#[derive(Debug)]
pub(super) struct RoomSteps {
    of_address: usize,
    of_all: usize,
    all: usize,
    addresses: HashMap<ClientAddress, usize, ahash::RandomState>,
}

impl RoomSteps {
    pub(super) fn new(options: &ServiceOptions) -> Self {
        let (of_address, of_all) = (options.queue_of_address / STEP, options.queue_of_all / STEP);
        Self { of_address, of_all, all: 0, addresses: HashMap::default() }
    }

    /// Takes a step for a client of an address. Returns false if none is left.
    fn take(&mut self, address: ClientAddress) -> bool {
        let taken = self.addresses.get(&address).copied().unwrap_or_default();
        if taken >= self.of_address || self.all >= self.of_all {
            return false;
        }
        self.all += 1;
        self.addresses.insert(address, taken + 1);
        true
    }

    /// Returns true if more may be queued for a client, `queue` bytes in all, and takes room for
    /// it. A client that was refused room gets none until it has read.
    pub(super) fn makes(&mut self, client: &mut DpmClient, queue: usize) -> bool {
        let bytes = client.outbox.bytes();
        if bytes >= queue || client.is_full {
            return false;
        }
        while bytes >= (client.steps + 1) * STEP {
            if !self.take(client.address) {
                client.is_full = true;
                return false;
            }
            client.steps += 1;
        }
        true
    }

    pub(super) fn give(&mut self, address: ClientAddress, steps: usize) {
        self.all -= steps;
        if let Some(taken) = self.addresses.get_mut(&address) {
            *taken -= steps;
            if *taken == 0 {
                self.addresses.remove(&address);
            }
        }
    }

    /// Returns how many steps are taken.
    pub(super) fn len(&self) -> usize {
        self.all
    }
}

/// The size of a step, in bytes.
pub(super) const STEP: usize = 64 << 10;
