//! The service: clients, their lists, and the pool that reads for all of them.
//!
//! [`Dpm`] takes bytes of clients, datagrams of front-ends and the time, and returns bytes and
//! datagrams to send. It opens no socket and reads no clock, so a test can run it against a
//! simulated front-end in one thread. `rookery dpm` puts sockets around it.
//!
//! Invariants:
//! - Every request of a list gets a `DeviceInfo` or a `Status` when the list starts; an error of
//!   one request is reported for that one and stops no other.
//! - After a list is stopped, no queued message for its requests is sent any more.
//! - The waiting output of a client is bounded in bytes. Readings beyond that are dropped, and once
//!   the client has read half of its output, it gets the status
//!   [`REPLY_OVERFLOW`](crate::status::Status::REPLY_OVERFLOW) for each request that lost some.
//!   Other clients do not notice.
//! - The requests of a client that does not read its output are not read either.

mod caller;
mod client;
mod daq;
mod daq_messages;
mod gauges;
mod gauging;
mod greeting;
mod input;
mod keys;
mod lines;
mod list;
mod listing;
mod metrics;
mod node;
mod options;
mod outbox;
mod output;
mod overview;
mod packets;
mod pass;
mod passing;
mod playback;
mod playlist;
mod raw;
mod record;
mod recorder;
mod remote;
mod remotes;
mod report;
mod room;
mod scale;
mod scrapers;
mod session;
mod settings;
mod share;
mod state;
mod sync;
mod sync_route;
mod tcp;
mod top;
mod traffic;
mod watchers;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use slab::Slab;

use crate::acnet::{PacketKind, packet};
use crate::authority::{Roles, SettingAuthority};
use crate::database::{Database, DeviceNode};
use crate::link::{Came, Goes, LinkNetwork};
use crate::plot::{self, Plots};
use crate::pool::{Deliver, DevicePool, PoolReader};
use crate::sdd::SharedReply;
use crate::setting::{self, Setter};
use crate::status::Status;
use crate::time::Moment;
pub use client::BroughtBy;
use client::{DpmClient, Speaks};
use gauges::{Gauges, is_gauge};
pub(crate) use input::FRAME;
use keys::FIRST_LIST;
pub use keys::{ClientKey, CloseClient};
pub use lines::FrontEndLine;
pub use options::ServiceOptions;
pub use overview::{ClientLine, DeviceLine, Overview};
pub use pass::read_passed_task;
pub use passing::PASSED_ON;
use passing::Passing;
use playlist::Questions;
use recorder::{Recorder, is_recorder};
pub(crate) use remote::{GONE, MOST_TASKS};
use remotes::RemoteClients;
use room::RoomSteps;
pub use scrapers::ScrapeNetwork;
pub(crate) use share::network;
use share::{Good, Shares};
pub(crate) use state::Outlets;
pub use state::{Dpm, Statistics};
pub use top::PAGE_END;
pub use traffic::Traffic;
use watchers::{LastOverview, Watchers};

impl Dpm {
    /// Returns a service without clients.
    pub fn new(options: ServiceOptions, database: Arc<Database>) -> Self {
        let now = Moment { millis: 0, unix_millis: 0 };
        let outlets = Outlets {
            clients: Slab::new(),
            lists: Slab::new(),
            dirty: Vec::new(),
            dirty_remotes: Vec::new(),
            now,
            queue: options.queue,
            room: RoomSteps::new(&options),
            dropped: 0,
            recorder: Recorder::default(),
            gauges: Gauges::default(),
            questions: Questions::new(options.questions_of_address),
            epoch: 0,
        };
        Self {
            pool: DevicePool::new(&database, options.address, options.once),
            plots: Plots::new(&database, options.address),
            passing: Passing::default(),
            remotes: RemoteClients::default(),
            answers: Vec::new(),
            traffic: Traffic::default(),
            setter: Setter::new(&database, options.address),
            authority: SettingAuthority::default(),
            batches: Slab::new(),
            requests: 0,
            shares: Shares::default(),
            patience: BinaryHeap::new(),
            closing: Vec::new(),
            options,
            database,
            outlets,
            list_ids: HashMap::default(),
            next_list: FIRST_LIST,
            heartbeats: BinaryHeap::new(),
            watchers: Watchers::default(),
            last_overview: LastOverview::default(),
            scrapers: Vec::new(),
        }
    }

    /// Returns the options in force.
    pub fn options(&self) -> &ServiceOptions {
        &self.options
    }

    /// Returns the current devices.
    pub fn database(&self) -> &Arc<Database> {
        &self.database
    }

    /// Sets the authority for settings. Before this, all settings are refused.
    pub fn set_authority(&mut self, authority: SettingAuthority) {
        self.authority = authority;
    }

    /// Replaces the roles, for settings from now on.
    pub fn set_roles(&mut self, roles: Roles) {
        self.authority.roles = roles;
    }

    /// Lets hosts of these networks read `/metrics` of the clients' port, besides this machine.
    pub fn let_scrape(&mut self, networks: Vec<ScrapeNetwork>) {
        self.scrapers = networks;
    }

    /// Connects a client of this process. Such clients count as one address.
    pub fn connect(&mut self) -> ClientKey {
        self.outlets.clients.insert(DpmClient::new(None, None))
    }

    /// Connects a client of an address that another thread of this process brings, which counts its
    /// connections.
    pub fn connect_for(&mut self, address: IpAddr, by: BroughtBy) -> ClientKey {
        let client = DpmClient::new(None, Some(network(address)));
        self.outlets.clients.insert(DpmClient { brought: Some(by), ..client })
    }

    /// Connects a client from an address; `None` if there are too many clients.
    pub fn connect_from(&mut self, from: SocketAddr, now: Moment) -> Option<ClientKey> {
        let address = Some(network(from.ip()));
        let is_full = self.outlets.clients.len() >= self.options.clients;
        if is_full || self.shares.connections(address) >= self.options.clients_of_address {
            return None;
        }
        self.shares.connect(address);
        let client = self.outlets.clients.insert(DpmClient::new(Some(from), address));
        self.wait_for(client, now.millis + self.options.greeting);
        Some(client)
    }

    /// Handles bytes of a client.
    ///
    /// # Errors
    /// [`CloseClient`] for an unknown client, for bytes that its protocol doesn't allow, and for
    /// more input than the bounds permit.
    pub fn receive(&mut self, client: ClientKey, bytes: &[u8], now: Moment) -> Result<(), CloseClient> {
        self.outlets.now = now;
        let Some(state) = self.outlets.clients.get_mut(client) else { return Err(CloseClient) };
        let mut input = std::mem::take(&mut state.input);
        input.extend_from_slice(bytes);
        let taken = self.take_input(client, &input, now)?;
        let is_listened_to = self.wants_input(client);
        let Some(state) = self.outlets.clients.get_mut(client) else { return Ok(()) };
        input.drain(..taken);
        if input.is_empty() && input.capacity() > KEPT_INPUT {
            input = Vec::new();
        }
        state.input = input;
        self.count_input(client)?;
        let Some(state) = self.outlets.clients.get_mut(client) else { return Ok(()) };
        if matches!(state.speaks, Speaks::Unknown) || state.from.is_none() {
            return Ok(());
        }
        if state.input.is_empty() || !is_listened_to {
            state.speaks_by = None;
        } else if taken > 0 || state.speaks_by.is_none() {
            self.wait_for(client, now.millis + self.options.frame);
        }
        Ok(())
    }

    /// Handles the end of a client's connection.
    pub fn disconnect(&mut self, client: ClientKey) {
        self.cancel_all_passed(client);
        let Some(state) = self.outlets.clients.get_mut(client) else { return };
        for list in std::mem::take(&mut state.lists) {
            self.close_list(list);
        }
        let input = self.outlets.clients.get(client).map_or(0, |state| state.held.of(Good::Input));
        self.count(client, Good::Input, -(input as isize));
        self.outlets.leave_room(client);
        let Some(state) = self.outlets.clients.try_remove(client) else { return };
        if state.from.is_some() {
            self.shares.disconnect(state.address);
        }
        self.unwatch(client);
    }

    /// Counts a client's bytes of an unfinished frame, and those held back because it does not
    /// read.
    fn count_input(&mut self, client: ClientKey) -> Result<(), CloseClient> {
        let Some(state) = self.outlets.clients.get(client) else { return Err(CloseClient) };
        let (is, was) = (state.input.len(), state.held.of(Good::Input));
        if is == was {
            return Ok(());
        }
        self.count(client, Good::Input, is as isize - was as isize);
        let is_more = is > was;
        if is_more && self.check_share(client, Good::Input, 0).is_err() { Err(CloseClient) } else { Ok(()) }
    }

    /// Fails if a client may not take this much more of a resource.
    fn check_share(&self, client: ClientKey, good: Good, more: usize) -> Result<(), Status> {
        let state = self.outlets.clients.get(client).ok_or(Status::NOT_CONNECTED)?;
        self.shares.check(&self.options, &state.held, state.address, good, more)
    }

    /// Counts the amount of a resource that a client takes or returns.
    fn count(&mut self, client: ClientKey, good: Good, by: isize) {
        if let Some(state) = self.outlets.clients.get_mut(client) {
            self.shares.change(Some(&mut state.held), state.address, good, by);
        }
    }

    /// Takes the connections that have ended since the last call and are to be closed.
    pub fn take_closing(&mut self) -> Vec<ClientKey> {
        std::mem::take(&mut self.closing)
    }

    /// Handles a datagram of the network. Its bytes are swapped in place.
    pub fn datagram(&mut self, from: SocketAddr, datagram: &mut [u8], now: Moment) {
        self.outlets.now = now;
        packet::swap(datagram);
        for packet in packet::packets(datagram) {
            let begun = self.pool.stages().begin();
            let header = packet.header;
            let is_reply = matches!(header.kind, PacketKind::Reply | PacketKind::ReplyWithMore);
            // The node that answers is the server of the exchange.
            let theirs = if is_reply { header.server } else { header.client };
            let Some(node) = self.number_of_node(from, theirs) else { continue };
            self.traffic.came(header.kind);
            self.hear_node(node, now);
            match header.task_id {
                _ if !is_reply => self.answer_node(node, packet, now),
                // An answer to a ping: it only shows that the node is alive.
                remote::TASK_ID => {}
                // Nothing else is asked of nodes that the database doesn't have.
                _ if node >= node::FOREIGN => {}
                setting::TASK_ID => self.setter.take(node, &header, packet.body, now),
                plot::TASK_ID => self.plots.take(node, packet, now, &mut self.outlets),
                pass::TASK_ID => self.take_passed(node, packet, now),
                _ => self.pool.take((node, packet), now, begun, &mut self.outlets),
            }
        }
        self.poll_instead(now);
        self.finish_settings(now);
    }

    /// Handles input from servers of a network.
    pub fn link(&mut self, network: LinkNetwork, came: Came<'_>, now: Moment) {
        self.outlets.now = now;
        let begun = self.pool.stages().begin();
        self.pool.take_link(network, came, now, begun, &mut self.outlets);
        self.finish_settings(now);
    }

    /// Takes the orders for the servers of a network. Must be called after each turn's input.
    pub fn take_link_orders(&mut self, network: LinkNetwork, now: Moment) -> Vec<Goes> {
        let goes = self.pool.flush_links(network, now).collect();
        self.finish_settings(now);
        goes
    }

    /// Does all due work.
    pub fn tick(&mut self, now: Moment) {
        self.outlets.now = now;
        self.read_gauges(now);
        self.pool.tick(now, &mut self.outlets);
        self.plots.tick(now, &mut self.outlets);
        self.setter.tick(now);
        self.tick_passed(now);
        self.finish_settings(now);
        self.review_remotes(now);
        self.beat(now);
        self.end_silent(now);
        self.tell_watchers(now);
    }

    /// Returns the time at which [`tick`](Self::tick) must be called next, in milliseconds.
    pub fn deadline(&self) -> Option<u64> {
        let beat = self.heartbeats.peek().map(|beat| beat.0.0);
        let patience = self.patience.peek().map(|patience| patience.0.0);
        let exchanges = self.plots.deadline().into_iter().chain(self.setter.deadline());
        self.pool
            .deadline()
            .into_iter()
            .chain(exchanges)
            .chain(beat)
            .chain(patience)
            .chain(self.passing.deadline())
            .chain(self.remotes.deadline())
            .chain((!self.outlets.dirty_remotes.is_empty()).then_some(0))
            .chain(self.watchers.deadline())
            .min()
    }

    /// Takes the datagrams to send. Must be called after each turn's input.
    pub fn datagrams(&mut self, now: Moment) -> impl Iterator<Item = (SocketAddr, Vec<u8>)> {
        self.setter.prepare(now);
        self.finish_settings(now);
        self.flush_remotes(now);
        let nodes = self.database.nodes();
        let out =
            self.pool.flush(now).chain(self.plots.flush()).chain(self.setter.flush()).chain(self.answers.drain(..));
        let out = out.chain(self.passing.flush());
        out.filter_map(|(node, datagram)| {
            self.traffic.goes(&datagram);
            Some((node::network_node(nodes, &self.options, node)?.socket, datagram))
        })
    }

    /// Takes the clients with new output since the last call.
    pub fn take_dirty(&mut self) -> Vec<ClientKey> {
        std::mem::take(&mut self.outlets.dirty)
    }

    /// Appends a client's output, until `out` has about `limit` bytes. Returns whether
    /// there is more.
    pub fn render(&mut self, client: ClientKey, out: &mut Vec<u8>, limit: usize) -> bool {
        self.outlets.render(client, out, limit);
        self.outlets.play_on_for(client);
        let waits = self.outlets.clients.get(client).is_some_and(|client| !client.input.is_empty());
        if waits && self.outlets.has_room(client) {
            // The client's input was held back while it did not read.
            let now = self.outlets.now;
            if self.receive(client, &[], now).is_err() {
                self.closing.push(client);
            }
        }
        self.outlets.clients.get(client).is_some_and(|client| !client.outbox.is_empty())
    }

    /// Returns whether a client's bytes should be read now.
    pub fn wants_input(&self, client: ClientKey) -> bool {
        self.outlets.has_room(client)
    }

    /// Replaces the database. Running requests keep the device as it was; later ones see the new
    /// one.
    ///
    /// # Errors
    /// A text, if the existing nodes don't keep their order, names and protocols, since current
    /// readings refer to them by number. New nodes may follow them.
    pub fn reload(&mut self, database: Arc<Database>) -> Result<(), &'static str> {
        let (old, new) = (self.database.nodes(), database.nodes());
        let speaks =
            |node: &DeviceNode| (std::mem::discriminant(&node.reached), node.acnet().map(|node| node.protocol));
        let kept = old.iter().zip(new).all(|(old, new)| (old.name, speaks(old)) == (new.name, speaks(new)));
        if new.len() < old.len() || !kept {
            return Err("nodes may be added at the end or change their addresses; any other change needs a restart");
        }
        self.pool.replace_nodes(new);
        self.plots.replace_nodes(new);
        self.setter.replace_nodes(new);
        self.database = database;
        self.outlets.gauges.begin_again();
        if self.outlets.recorder.is_on {
            self.record(self.outlets.now);
        }
        Ok(())
    }

    /// Returns the figures of its work and state.
    pub fn statistics(&self) -> Statistics {
        let (entries, groups) = self.pool.size();
        let (clients, lists) = (self.outlets.clients.len(), self.outlets.lists.len());
        let (dropped, unrecorded) = (self.outlets.dropped, self.outlets.recorder.lost);
        let (variables, connected, circuits) = self.pool.channels();
        let (topics, topics_known, brokers) = self.pool.topics();
        Statistics {
            pool: self.pool.counters(),
            passed: self.passing.len(),
            shares: self.shares.len() + self.outlets.room.len(),
            entries,
            groups,
            plots: self.plots.len(),
            variables,
            connected,
            circuits,
            topics,
            topics_known,
            brokers,
            clients,
            remotes: self.remotes.len(),
            lists,
            timers: self.heartbeats.len() + self.patience.len(),
            dropped,
            unrecorded,
            traffic: self.traffic,
        }
    }

    /// Gives a client until a time in milliseconds to send a whole message.
    fn wait_for(&mut self, client: ClientKey, until: u64) {
        let Some(state) = self.outlets.clients.get_mut(client) else { return };
        state.speaks_by = Some(until);
        if !std::mem::replace(&mut state.is_waited_for, true) {
            self.patience.push(Reverse((until, client)));
        }
    }

    /// Ends connections that never chose a protocol, or never finished a frame.
    fn end_silent(&mut self, now: Moment) {
        while let Some(Reverse((due, key))) = self.patience.peek().copied() {
            if due > now.millis {
                break;
            }
            self.patience.pop();
            // The number may belong to another client by now, which is then checked once more than
            // necessary.
            let Some(state) = self.outlets.clients.get_mut(key).filter(|client| client.is_waited_for) else { continue };
            match state.speaks_by {
                None => state.is_waited_for = false,
                Some(until) if until > now.millis => self.patience.push(Reverse((until, key))),
                Some(_) => {
                    state.is_waited_for = false;
                    self.closing.push(key);
                }
            }
        }
    }
}

impl Deliver for Outlets {
    fn deliver(&mut self, reader: PoolReader, message: &Arc<SharedReply>, last: bool) {
        if is_recorder(reader) {
            return self.recorder.take(reader.ref_id, message);
        }
        if is_gauge(reader) {
            return self.gauges.take(reader.ref_id, message);
        }
        if last
            && let Some(list) = self.lists.get_mut(reader.list)
            && let Some(asked) = list.requests.get_mut(&reader.ref_id)
        {
            asked.joined = None;
        }
        self.push(reader, message, last);
    }
}

/// The capacity of the input buffer that an idle client keeps, in bytes.
const KEPT_INPUT: usize = 4096;
