//! The shares of each client and each address in the common resources, and their bounds.
//!
//! Ids of requests to front-ends, memory for lists and their requests, outstanding settings: each
//! is limited, and a single client could take all of it. Everything that a client takes is
//! therefore counted for the client and for its address until it is returned, and a request beyond
//! a bound is refused with a status. No address gets more ids than are left for the others.
//!
//! Clients of this process, which act for the users of a chat, count as one address. The operator's
//! recordings are not counted.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};

use super::keys::ClientKey;
use super::options::ServiceOptions;
use crate::plot::PlotKey;
use crate::status::Status;

/// The address that clients come from; `None` for this process.
pub(super) type ClientAddress = Option<IpAddr>;

/// A resource that is counted for clients and addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Good {
    /// Open lists.
    Lists,
    /// Requests on them.
    Requests,
    /// Events of front-ends that are read on: each is at least one request to its front-end.
    Events,
    /// Fast plots.
    Plots,
    /// Settings that wait for front-ends, in bytes.
    Settings,
    /// Requests that are passed on to other nodes.
    Passed,
    /// Received bytes that are not processed yet.
    Input,
}

/// The amounts that one client or address has, by [`Good`].
#[derive(Debug, Default)]
pub(super) struct Holdings([usize; 7]);

/// A resource that readers can share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum CommonThing {
    /// A front-end and an event, by the pool's number.
    Event(usize),
    /// A plot, by its key.
    Plot(PlotKey),
}

/// The amounts that all clients and addresses have.
#[derive(Debug, Default)]
pub(super) struct Shares {
    /// The number of connections and the amounts of each address.
    addresses: HashMap<ClientAddress, (usize, Holdings), ahash::RandomState>,
    /// The number of readers that a client has of each shared resource; the next field has those of
    /// addresses.
    of_clients: HashMap<(ClientKey, CommonThing), usize, ahash::RandomState>,
    of_addresses: HashMap<(ClientAddress, CommonThing), usize, ahash::RandomState>,
}

impl Holdings {
    pub(super) fn of(&self, good: Good) -> usize {
        self.0[good as usize]
    }

    fn change(&mut self, good: Good, by: isize) {
        let held = &mut self.0[good as usize];
        *held = held.saturating_add_signed(by);
    }

    fn is_nothing(&self) -> bool {
        self.0.iter().all(|held| *held == 0)
    }
}

/// Returns the address by which a client is counted: for IPv6 the network of 64 bits in which a
/// host can choose any address.
pub(crate) fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into()
        }
        address => address,
    }
}

/// Returns an address by which the clients on a node are counted. No client over IP has it, since
/// [`network`] keeps nothing of the half in which the node's number is.
pub(super) fn node_as_address(node: u16) -> IpAddr {
    Ipv6Addr::new(DISCARDED, 0, 0, 0, 1, 0, 0, node).into()
}

/// The beginning of addresses to which nothing is ever sent (RFC 6666).
const DISCARDED: u16 = 0x0100;

impl ServiceOptions {
    /// Returns the amounts of something that a client and an address may have.
    fn most(&self, good: Good) -> (usize, usize) {
        match good {
            Good::Lists => (self.lists, self.lists_of_address),
            Good::Requests => (self.requests_of_client, self.requests_of_address),
            Good::Events => (self.events_of_client, self.events_of_address),
            Good::Plots => (self.plots_of_client, self.plots_of_address),
            Good::Settings => (self.settings_of_client, self.settings_of_address),
            // A single client is bounded by the length of a frame.
            Good::Input => (usize::MAX, self.input_of_address),
            Good::Passed => (self.passed_of_client, self.passed_of_address),
        }
    }
}

impl Good {
    fn of(common: CommonThing) -> Self {
        match common {
            CommonThing::Event(_) => Self::Events,
            CommonThing::Plot(_) => Self::Plots,
        }
    }

    /// Returns the status of a refusal.
    fn refusal(self) -> Status {
        match self {
            Self::Requests => Status::OUTOMEM,
            _ => Status::BUSY,
        }
    }
}

impl Shares {
    /// Returns the number of connections that an address has.
    pub(super) fn connections(&self, address: ClientAddress) -> usize {
        self.addresses.get(&address).map_or(0, |address| address.0)
    }

    /// Returns the number of counts: 0 if nothing is taken.
    pub(super) fn len(&self) -> usize {
        self.addresses.len() + self.of_clients.len() + self.of_addresses.len()
    }

    /// Counts a connection.
    pub(super) fn connect(&mut self, address: ClientAddress) {
        self.addresses.entry(address).or_default().0 += 1;
    }

    /// Stops counting a connection that has ended.
    pub(super) fn disconnect(&mut self, address: ClientAddress) {
        if let Some((connections, _)) = self.addresses.get_mut(&address) {
            *connections = connections.saturating_sub(1);
        }
        self.forget(address);
    }

    /// Fails if a client that holds `held`, or its address, may not have that much more.
    pub(super) fn check(
        &self,
        options: &ServiceOptions,
        held: &Holdings,
        address: ClientAddress,
        good: Good,
        more: usize,
    ) -> Result<(), Status> {
        let (of_client, of_address) = options.most(good);
        let address = self.addresses.get(&address).map_or(0, |address| address.1.of(good));
        match held.of(good) + more <= of_client && address + more <= of_address {
            true => Ok(()),
            false => Err(good.refusal()),
        }
    }

    /// Counts the amount that a client takes, or returns.
    pub(super) fn change(&mut self, held: Option<&mut Holdings>, address: ClientAddress, good: Good, by: isize) {
        if by == 0 {
            return;
        }
        if let Some(held) = held {
            held.change(good, by);
        }
        self.addresses.entry(address).or_default().1.change(good, by);
        if by < 0 {
            self.forget(address);
        }
    }

    /// Fails if a client may not read one more event or plot. `common` is the wanted one, if it has
    /// readers already; `left` is how many more are possible in total.
    pub(super) fn check_common(
        &self,
        options: &ServiceOptions,
        held: &Holdings,
        (client, address): (ClientKey, ClientAddress),
        good: Good,
        common: Option<CommonThing>,
        left: usize,
    ) -> Result<(), Status> {
        let has = |common: &CommonThing| self.of_clients.contains_key(&(client, *common));
        if common.as_ref().is_some_and(has) {
            return Ok(());
        }
        let (of_client, of_address) = options.most(good);
        let of_client = held.of(good) < of_client;
        if common.is_some_and(|common| self.of_addresses.contains_key(&(address, common))) {
            return if of_client { Ok(()) } else { Err(good.refusal()) };
        }
        let has = self.addresses.get(&address).map_or(0, |address| address.1.of(good));
        // An address that has as much as is left for all others gets no more.
        let is_fair = common.is_some() || has < left;
        if of_client && has < of_address && is_fair { Ok(()) } else { Err(good.refusal()) }
    }

    /// Counts a reader of an event or plot.
    pub(super) fn join(
        &mut self,
        held: Option<&mut Holdings>,
        client: ClientKey,
        address: ClientAddress,
        common: CommonThing,
    ) {
        let of_client = self.of_clients.entry((client, common)).or_default();
        *of_client += 1;
        if *of_client == 1
            && let Some(held) = held
        {
            held.change(Good::of(common), 1);
        }
        let of_address = self.of_addresses.entry((address, common)).or_default();
        *of_address += 1;
        if *of_address == 1 {
            self.addresses.entry(address).or_default().1.change(Good::of(common), 1);
        }
    }

    /// Stops counting a reader that has left.
    pub(super) fn leave(
        &mut self,
        held: Option<&mut Holdings>,
        client: ClientKey,
        address: ClientAddress,
        common: CommonThing,
    ) {
        if take_one(&mut self.of_clients, (client, common))
            && let Some(held) = held
        {
            held.change(Good::of(common), -1);
        }
        if take_one(&mut self.of_addresses, (address, common))
            && let Some((_, held)) = self.addresses.get_mut(&address)
        {
            held.change(Good::of(common), -1);
        }
    }

    fn forget(&mut self, address: ClientAddress) {
        let is_idle = |(connections, held): &(usize, Holdings)| *connections == 0 && held.is_nothing();
        if self.addresses.get(&address).is_some_and(is_idle) {
            self.addresses.remove(&address);
        }
    }
}

/// Decrements a count. Returns true if it reached zero.
fn take_one<K: std::hash::Hash + Eq>(counts: &mut HashMap<K, usize, ahash::RandomState>, key: K) -> bool {
    let Some(count) = counts.get_mut(&key) else { return false };
    *count -= 1;
    let is_last = *count == 0;
    if is_last {
        counts.remove(&key);
    }
    is_last
}
