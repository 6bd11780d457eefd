//! Declares the bounds on the memory and work that clients of DPM can cause, for the page of
//! limits.
//!
//! The numbers come from the code that enforces them, so the page can't differ.

use rookery_observe::{Bound, Most, Per, Unit};

use crate::acnet::requests;
use crate::driver::{
    LARGEST_SETTINGS, MOST_CLIENTS, MOST_CLIENTS_OF_ADDRESS, MOST_OUTPUT, MOST_UNSENT, STUCK, UNPROVED_CALLS,
};
use crate::gateway::pva::MOST_WAITING;
use crate::gateway::updates::MOST_SHARED_BYTES;
use crate::gateway::{self, MOST_ASKED, MOST_CHANNELS};
use crate::grpc::plots;
use crate::pool::{LARGEST_ANSWER, LARGEST_PACKET, MOST_CIRCUITS};
use crate::pv_access::{LARGEST, LARGEST_OF_CLIENT, LONGEST_SKIPPED, MOST_BYTES_OF_TYPES, MOST_TYPES};
use crate::service::{FRAME, GONE, MOST_TASKS, ServiceOptions};

/// The bounds of DPM, in the order of the page of limits.
pub const BOUNDS: &[Bound] = &[
    number("connections", Per::Server, OPTIONS.clients).or(CLOSED),
    number("connections", Per::Address, OPTIONS.clients_of_address).or(CLOSED),
    millis("the time to name the protocol", Per::Connection, OPTIONS.greeting).or("the connection is closed"),
    millis("the time from a frame's beginning to its end", Per::Connection, OPTIONS.frame)
        .or("the connection is closed"),
    millis("the time for which none of the waiting output is read", Per::Connection, OPTIONS.stuck)
        .or("the connection is closed"),
    Bound::on("readings that wait", Per::Connection, Most::Fixed(OPTIONS.queue as u64), Unit::Bytes)
        .or("later readings are dropped; each request that lost some gets `[17 -44]`"),
    bytes("readings that wait, beyond the first 64 KiB of each connection", Per::Address, OPTIONS.queue_of_address)
        .or("as for one connection; nothing more is read from the clients whose output waits"),
    bytes("readings that wait, beyond the first 64 KiB of each connection", Per::Server, OPTIONS.queue_of_all)
        .or("as for one connection; nothing more is read from the clients whose output waits"),
    Bound::on("a frame", Per::Connection, Most::Fixed(FRAME as u64), Unit::Bytes).or("the connection is closed"),
    Bound::on("bytes of unfinished frames", Per::Address, Most::Fixed(OPTIONS.input_of_address as u64), Unit::Bytes)
        .or("the connection that sends more is closed"),
    number("lists", Per::Connection, OPTIONS.lists).or(BUSY),
    number("lists", Per::Address, OPTIONS.lists_of_address).or(BUSY),
    number("lists", Per::Server, OPTIONS.all_lists).or(BUSY),
    number("requests of a list", Per::Other("list"), OPTIONS.requests).or("one more gets `[17 -9]`"),
    number("requests of all lists", Per::Connection, OPTIONS.requests_of_client).or("one more gets `[17 -9]`"),
    number("requests of all lists", Per::Address, OPTIONS.requests_of_address).or("one more gets `[17 -9]`"),
    number("events on which front-ends are read", Per::Connection, OPTIONS.events_of_client).or(BUSY),
    number("events on which front-ends are read", Per::Address, OPTIONS.events_of_address)
        .or("one more gets `[1 -8]`; so does an address that has as many as there are ids left for all others"),
    number("fast plots", Per::Connection, OPTIONS.plots_of_client).or(BUSY),
    number("fast plots", Per::Address, OPTIONS.plots_of_address)
        .or("one more gets `[1 -8]`; so does an address that has as many as there are ids left for all others"),
    number("reading requests to front-ends", Per::Server, requests::READINGS.end as usize)
        .or("readers of one more get `[1 -8]` until there is an id"),
    Bound::on(
        "settings that wait for front-ends",
        Per::Connection,
        Most::Fixed(OPTIONS.settings_of_client as u64),
        Unit::Bytes,
    )
    .or("those of one more batch get `[1 -8]`"),
    Bound::on(
        "settings that wait for front-ends",
        Per::Address,
        Most::Fixed(OPTIONS.settings_of_address as u64),
        Unit::Bytes,
    )
    .or("those of one more batch get `[1 -8]`"),
    number("questions that wait for the archive", Per::Address, OPTIONS.questions_of_address)
        .or("further ones wait until those are answered"),
    number("requests of all lists", Per::Server, OPTIONS.all_requests).or("one more gets `[17 -9]`"),
    number("circuits to servers of Channel Access", Per::Server, MOST_CIRCUITS).or(NOT_FOUND),
    number("circuits to servers of pvAccess", Per::Server, MOST_CIRCUITS).or(NOT_FOUND),
    number("circuits of clients of Channel Access", Per::Server, MOST_CLIENTS).or(CLOSED),
    number("circuits of clients of Channel Access", Per::Address, MOST_CLIENTS_OF_ADDRESS).or(CLOSED),
    number("circuits of clients of pvAccess", Per::Server, MOST_CLIENTS).or(CLOSED),
    number("circuits of clients of pvAccess", Per::Address, MOST_CLIENTS_OF_ADDRESS).or(CLOSED),
    number("channels of a circuit", Per::Connection, MOST_CHANNELS).or("the circuit is ended"),
    number("reads and monitors of a circuit", Per::Connection, MOST_ASKED).or("the circuit is ended"),
    bytes("a message of a client of Channel Access", Per::Connection, gateway::LARGEST).or("the circuit is ended"),
    bytes("a message of a client of pvAccess", Per::Connection, LARGEST_OF_CLIENT).or("the circuit is ended"),
    bytes("types that a client of pvAccess numbers", Per::Connection, MOST_BYTES_OF_TYPES).or("the circuit is ended"),
    bytes("newest updates of monitors that wait for a client of pvAccess", Per::Connection, MOST_WAITING)
        .or("readings wait like those of any other client"),
    bytes("updates that circuits of pvAccess share", Per::Server, MOST_SHARED_BYTES)
        .or("all are forgotten, and built again for the next client"),
    bytes("values that wait for a client of EPICS", Per::Connection, MOST_OUTPUT)
        .or("further ones wait like those of any other client"),
    millis("the time for which none of these values is read", Per::Connection, STUCK.as_millis() as u64)
        .or("the circuit is ended"),
    bytes("a message of a server of Channel Access", Per::Other("circuit"), LARGEST_ANSWER).or("the circuit is ended"),
    bytes("output that waits for a server of Channel Access", Per::Other("circuit"), MOST_UNSENT)
        .or("the circuit is ended"),
    bytes("a message of a server of pvAccess", Per::Other("circuit"), LARGEST)
        .or("a value that is longer is `[1 -32]` for its readers; any other message ends the circuit"),
    bytes("a message of a server of pvAccess that is skipped", Per::Other("circuit"), LONGEST_SKIPPED)
        .or("the circuit is ended"),
    number("types that a server of pvAccess numbers", Per::Other("circuit"), MOST_TYPES).or("the circuit is ended"),
    bytes("output that waits for a server of pvAccess", Per::Other("circuit"), MOST_UNSENT).or("the circuit is ended"),
    bytes("a packet of a broker of MQTT", Per::Other("broker"), LARGEST_PACKET)
        .or("a message that is longer is `[1 -32]` for its readers; any other ends the connection"),
    bytes("output that waits for a broker of MQTT", Per::Other("broker"), MOST_UNSENT).or("the connection is ended"),
    number("requests passed on to other nodes", Per::Connection, OPTIONS.passed_of_client).or(BUSY),
    number("requests passed on to other nodes", Per::Address, OPTIONS.passed_of_address).or(BUSY),
    number(
        "requests passed on to other nodes",
        Per::Server,
        requests::CLIENTS.end as usize - requests::CLIENTS.start as usize,
    )
    .or(BUSY),
    number("tasks that read over ACNET", Per::Other("node"), MOST_TASKS).or(BUSY),
    millis("the time without a packet from a node whose tasks read", Per::Other("node"), GONE)
        .or("its lists are closed"),
    number("gRPC connections", Per::Server, OPTIONS.grpc_clients).or(CLOSED),
    number("gRPC connections", Per::Address, OPTIONS.grpc_clients_of_address).or(CLOSED),
    millis("the time without a gRPC call", Per::Connection, OPTIONS.grpc_idle)
        .or("the connection is closed gracefully"),
    Bound::on("incomplete gRPC messages", Per::Server, Most::Fixed(OPTIONS.grpc_bytes as u64), Unit::Bytes)
        .or(EXHAUSTED),
    Bound::on("incomplete gRPC messages", Per::Address, Most::Fixed(OPTIONS.grpc_bytes_of_address as u64), Unit::Bytes)
        .or(EXHAUSTED),
    number("gRPC calls", Per::Server, OPTIONS.grpc_calls).or(EXHAUSTED),
    number("gRPC calls", Per::Address, OPTIONS.grpc_calls_of_address).or(EXHAUSTED),
    Bound::on("a gRPC message with settings", Per::Connection, Most::Fixed(LARGEST_SETTINGS as u64), Unit::Bytes)
        .or("the call ends with OUT_OF_RANGE"),
    number("gRPC calls that set without a proof", Per::Connection, UNPROVED_CALLS).or(EXHAUSTED),
    Bound::on("a configuration of plots", Per::Account, Most::Fixed(plots::LARGEST as u64), Unit::Bytes).or(UNSAVED),
    number("configurations of plots for everyone", Per::Account, plots::MOST_OF_OWNER).or(UNSAVED),
    Bound::on("configurations of plots for everyone", Per::Server, Most::Fixed(plots::MOST_BYTES as u64), Unit::Bytes)
        .or(UNSAVED),
    number("users with a configuration of plots of their own", Per::Server, plots::MOST).or(UNSAVED),
];

const OPTIONS: ServiceOptions = ServiceOptions::USUAL;
const NOT_FOUND: &str = "variables of one more server are not found";
const BUSY: &str = "one more gets `[1 -8]`";
const CLOSED: &str = "the new one is closed";
const UNSAVED: &str = "it isn't saved, and the result has the reason";
const EXHAUSTED: &str = "the call ends with RESOURCE_EXHAUSTED";

const fn number(resource: &'static str, per: Per, most: usize) -> Bound {
    Bound::on(resource, per, Most::Fixed(most as u64), Unit::Number)
}

const fn bytes(resource: &'static str, per: Per, most: usize) -> Bound {
    Bound::on(resource, per, Most::Fixed(most as u64), Unit::Bytes)
}

const fn millis(resource: &'static str, per: Per, most: u64) -> Bound {
    Bound::on(resource, per, Most::Fixed(most), Unit::Milliseconds)
}
