//! Choices of the operator: our identity, and the limits of clients.

use std::net::SocketAddr;

use crate::rad50::Rad50;

/// The name of our node, and the limits of clients.
#[derive(Debug, Clone, Copy)]
pub struct ServiceOptions {
    /// The name of our node.
    pub name: Rad50,
    /// Its trunk and node number.
    pub address: u16,
    /// The address of the acnetd by way of which we are on the network, if there is one. It knows
    /// all nodes, so those that the database doesn't have may be clients, too.
    pub acnetd: Option<SocketAddr>,
    /// Bytes that may wait for a client before readings are dropped.
    pub queue: usize,
    /// Bytes that may wait for all clients of an address with more than 64 KiB each.
    pub queue_of_address: usize,
    /// Bytes that may wait for all such clients.
    pub queue_of_all: usize,
    /// Lists in total.
    pub all_lists: usize,
    /// Requests that a list may have.
    pub requests: usize,
    /// Lists that a connection may have.
    pub lists: usize,
    /// Lists that all connections of an address may have.
    pub lists_of_address: usize,
    /// Requests that all lists of a connection may have.
    pub requests_of_client: usize,
    /// Requests that all lists of an address may have.
    pub requests_of_address: usize,
    /// Requests that all lists may have together.
    pub all_requests: usize,
    /// Events of front-ends on which a connection may read: each takes one of the 5120 ids that all
    /// share.
    pub events_of_client: usize,
    /// Events of front-ends on which an address may read.
    pub events_of_address: usize,
    /// Fast plots that a connection may read, of the 1024 that all share.
    pub plots_of_client: usize,
    /// Fast plots that an address may read.
    pub plots_of_address: usize,
    /// Bytes of settings of a connection that may wait for front-ends.
    pub settings_of_client: usize,
    /// Bytes of settings of an address that may wait for front-ends.
    pub settings_of_address: usize,
    /// Requests for history from an address that may wait for the archive; further ones are made
    /// when those are answered.
    pub questions_of_address: usize,
    /// The time that a one-shot request may take before its reader gets a timeout, in milliseconds.
    pub once: u64,
    /// Connections in total.
    pub clients: usize,
    /// Connections from one address.
    pub clients_of_address: usize,
    /// Bytes of all clients of an address that may wait for the end of a frame, or for the client
    /// to read its output.
    pub input_of_address: usize,
    /// The time that a connection may take to name its protocol, in milliseconds.
    pub greeting: u64,
    /// The longest time from the beginning of a frame to its end, in milliseconds.
    pub frame: u64,
    /// Requests of a client that may be passed on to other nodes at a time, of the 1024 that all
    /// share.
    pub passed_of_client: usize,
    /// Requests of all clients of an address that may be passed on at a time.
    pub passed_of_address: usize,
    /// The time for which a connection may read none of its queued output, in milliseconds.
    pub stuck: u64,
    /// Connections by gRPC in total.
    pub grpc_clients: usize,
    /// Connections by gRPC from one address.
    pub grpc_clients_of_address: usize,
    /// Calls that may read by gRPC at a time.
    pub grpc_calls: usize,
    /// Calls from one address that may read by gRPC at a time.
    pub grpc_calls_of_address: usize,
    /// Bytes of incomplete messages by gRPC.
    pub grpc_bytes: usize,
    /// Bytes of incomplete messages by gRPC from one address.
    pub grpc_bytes_of_address: usize,
    /// The time for which a connection by gRPC may be without a call, in milliseconds.
    pub grpc_idle: u64,
    /// The number of our process, for clients that ask for it.
    pub process: u32,
}

impl Default for ServiceOptions {
    fn default() -> Self {
        Self { process: std::process::id(), ..Self::USUAL }
    }
}

impl ServiceOptions {
    /// Returns the defaults, except for the number of the process.
    pub const USUAL: Self = Self {
        name: Rad50::literal(b"DPM06"),
        address: 0x0ad6,
        acnetd: None,
        queue: 4 << 20,
        queue_of_address: 64 << 20,
        queue_of_all: 256 << 20,
        all_lists: 100_000,
        requests: 20_000,
        lists: 256,
        lists_of_address: 8192,
        requests_of_client: 100_000,
        requests_of_address: 250_000,
        all_requests: 2_000_000,
        events_of_client: 1000,
        events_of_address: 2000,
        plots_of_client: 64,
        plots_of_address: 256,
        settings_of_client: 1 << 20,
        settings_of_address: 4 << 20,
        questions_of_address: 32,
        // Clients give up after five seconds, so they get the answer well before that.
        once: 3000,
        clients: 10_000,
        clients_of_address: 2000,
        input_of_address: 16 << 20,
        greeting: 5000,
        frame: 30_000,
        passed_of_client: 64,
        passed_of_address: 256,
        stuck: 60_000,
        grpc_clients: 1000,
        grpc_clients_of_address: 250,
        grpc_calls: 4000,
        grpc_calls_of_address: 1000,
        grpc_bytes: 64 << 20,
        grpc_bytes_of_address: 16 << 20,
        grpc_idle: 60_000,
        process: 0,
    };

    /// Returns these options with bounds on connections and calls that leave an eighth of the
    /// process's descriptors for other purposes: half are for clients, an eighth for connections by
    /// gRPC and a quarter for their calls, which take two each. No address gets more than half of
    /// the total.
    pub fn within(self, descriptors: u64) -> Self {
        let share = |wanted: usize, part: u64| wanted.min(usize::try_from(descriptors / part).unwrap_or(usize::MAX));
        let of_address = |wanted: usize, all: usize| wanted.min(all.div_ceil(2));
        let (clients, grpc_clients) = (share(self.clients, 2), share(self.grpc_clients, 8));
        let grpc_calls = share(self.grpc_calls, 8);
        Self {
            clients,
            clients_of_address: of_address(self.clients_of_address, clients),
            grpc_clients,
            grpc_clients_of_address: of_address(self.grpc_clients_of_address, grpc_clients),
            grpc_calls,
            grpc_calls_of_address: of_address(self.grpc_calls_of_address, grpc_calls),
            ..self
        }
    }
}
