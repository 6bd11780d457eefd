//! The service on its sockets.

mod output;

use std::collections::VecDeque;
use std::io;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::sync::Arc;

use super::clock::MachineClock;
use super::credentials::Keyring;
use super::datagram::{DATAGRAMS, LARGEST_DATAGRAM, RECEIVE_BUFFER, next_datagram};
use super::feed::DeviceFeeds;
use super::gateway::Gateway;
use super::grpc::Grpc;
use super::history::Historian;
use super::links::LinkSockets;
use super::listen::{self, Reserve};
use super::multicast::MulticastGroup;
use super::pipe::OutputPipe;
use super::reception::{ConnectionPeer, VisitorErrand, Visitors};
use super::set::{Ready, SocketSet};
use super::wake::Wake;
use super::writers::WriterThreads;
use crate::authority::SettingAuthority;
use crate::database::Database;
use crate::gateway::GatewayCircuit;
use crate::gateway::pva::PvaGatewayCircuit;
use crate::grpc::devdb::DeviceDatabase;
use crate::grpc::plots::PlotStore;
use crate::history::HistoryArchive;
use crate::link::{Came, LinkNetwork};
use crate::rad50::Rad50;
use crate::service::{ClientKey, Dpm, ScrapeNetwork, ServiceOptions, Statistics};
use crate::stages::ReadingStage;
use crate::time::Moment;

/// The addresses and options of the service.
#[derive(Debug, Clone)]
pub struct ServeSettings {
    /// Addresses for clients, TCP: one or more.
    pub clients: Vec<SocketAddr>,
    /// The address for front-ends, UDP.
    pub front_ends: SocketAddr,
    /// The options of the service.
    pub options: ServiceOptions,
}

/// An address that can't be bound.
#[derive(Debug)]
pub struct NotOpened {
    /// The address and port that can't be bound.
    pub address: SocketAddr,
    /// The system's reason.
    pub error: io::Error,
}

impl NotOpened {
    fn at(address: SocketAddr) -> impl FnOnce(io::Error) -> Self {
        move |error| Self { address, error }
    }
}

impl std::fmt::Display for NotOpened {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}: {}", self.address, self.error)
    }
}

impl std::error::Error for NotOpened {}

/// The service and its sockets.
#[derive(Debug)]
pub struct DpmServer {
    dpm: Dpm,
    set: SocketSet,
    wake: Wake,
    clock: MachineClock,
    listeners: Vec<Listener>,
    front_ends: UdpSocket,
    history: Option<Historian>,
    visitors: Visitors,
    grpc: Option<Grpc>,
    gateway: Option<Gateway>,
    pva_gateway: Option<Gateway>,
    /// The networks of servers, in the order of [`LinkNetwork::ALL`].
    links: Vec<LinkSockets>,
    /// The connections, by the number of the client.
    connections: Vec<Option<ServedConnection>>,
    /// The clients with output, in the order in which it is their turn.
    pending: VecDeque<ClientKey>,
    writers: WriterThreads,
    buffer: Vec<u8>,
    rendered: Vec<u8>,
    /// The time when this turn began, in milliseconds.
    now: u64,
    /// The time of the next check of connections, in milliseconds.
    review: u64,
}

#[derive(Debug)]
struct Listener {
    socket: TcpListener,
    reserve: Reserve,
    /// The end of the rest of a listener that couldn't accept, in milliseconds.
    rests_until: Option<u64>,
}

#[derive(Debug)]
struct ServedConnection {
    pipe: Arc<OutputPipe>,
    reads: bool,
    writes: bool,
    is_pending: bool,
}

impl DpmServer {
    /// Opens the sockets. Bounds on connections are lowered if the process has too few descriptors.
    ///
    /// # Errors
    /// [`NotOpened`] with the address that can't be bound.
    pub fn open(settings: ServeSettings, database: Arc<Database>) -> Result<Self, NotOpened> {
        let addresses = settings.clients.iter().take(MOST_LISTENERS);
        let listeners = addresses.map(|address| Listener::open(*address).map_err(NotOpened::at(*address)));
        let listeners = listeners.collect::<Result<Vec<_>, _>>()?;
        let address = settings.front_ends;
        Self::of(settings, database, listeners).map_err(NotOpened::at(address))
    }

    fn of(settings: ServeSettings, database: Arc<Database>, listeners: Vec<Listener>) -> io::Result<Self> {
        let front_ends = UdpSocket::bind(settings.front_ends)?;
        front_ends.set_nonblocking(true)?;
        // A thousand front-ends may answer at the same moment.
        let _ = rustix::net::sockopt::set_socket_recv_buffer_size(&front_ends, RECEIVE_BUFFER);
        let set = SocketSet::new()?;
        for (listener, key) in listeners.iter().zip(LISTENERS..) {
            set.add(&listener.socket, key)?;
        }
        set.add(&front_ends, FRONT_ENDS)?;
        let visitors = Visitors::new()?;
        set.add(visitors.bell(), VISITORS)?;
        let wake = Wake::new()?;
        set.add(&wake, WAKE)?;
        let writers = WriterThreads::start(WriterThreads::usual())?;
        set.add(writers.bell(), WRITTEN)?;
        Ok(Self {
            dpm: Dpm::new(settings.options.within(listen::descriptors()), database),
            set,
            wake,
            clock: MachineClock::new(),
            listeners,
            front_ends,
            history: None,
            visitors,
            grpc: None,
            gateway: None,
            pva_gateway: None,
            links: LinkSockets::all(),
            connections: Vec::new(),
            pending: VecDeque::new(),
            writers,
            buffer: vec![0; LARGEST_DATAGRAM],
            rendered: Vec::new(),
            now: 0,
            review: 0,
        })
    }

    /// Records the readings that the database names, and answers questions about history.
    ///
    /// # Errors
    /// The system's, if the archive's thread can't be started.
    pub fn with_history(mut self, archive: HistoryArchive) -> io::Result<Self> {
        let historian = Historian::start(archive)?;
        self.set.add(historian.bell(), HISTORY)?;
        self.history = Some(historian);
        self.dpm.record(self.clock.now());
        Ok(self)
    }

    /// Serves gRPC as well, on a port and thread of its own; without `plots`, no configurations of
    /// plots are kept.
    ///
    /// # Errors
    /// The system's, such as for an address that can't be bound.
    pub fn with_grpc(mut self, listen: SocketAddr, plots: Option<PlotStore>) -> io::Result<Self> {
        self.grpc = Some({
            let devices = DeviceDatabase::new(Arc::clone(self.dpm.database()));
            Grpc::start(listen, self.visitors.reception(), *self.dpm.options(), devices, plots)?
        });
        Ok(self)
    }

    /// Serves Channel Access to clients of EPICS as well, by TCP and UDP, on a thread of its own.
    ///
    /// # Errors
    /// The system's, such as for an address that can't be bound.
    pub fn with_channel_access(mut self, listen: SocketAddr) -> io::Result<Self> {
        let devices = DeviceDatabase::new(Arc::clone(self.dpm.database()));
        self.gateway = Some(Gateway::start::<GatewayCircuit>(listen, self.visitors.reception(), devices)?);
        Ok(self)
    }

    /// Serves pvAccess to clients of EPICS as well, by TCP and UDP, on a thread of its own.
    ///
    /// # Errors
    /// The system's, such as for an address that can't be bound.
    pub fn with_pv_access(mut self, listen: SocketAddr) -> io::Result<Self> {
        let devices = DeviceDatabase::new(Arc::clone(self.dpm.database()));
        self.pva_gateway = Some(Gateway::start::<PvaGatewayCircuit>(listen, self.visitors.reception(), devices)?);
        Ok(self)
    }

    /// Accepts requests to all nodes of ACNET as well, such as searches for a DPM.
    ///
    /// # Errors
    /// The system's; `InvalidInput` if the socket for front-ends is bound to a specific address.
    pub fn with_multicast(self, group: MulticastGroup) -> io::Result<Self> {
        group.join(&self.front_ends)?;
        Ok(self)
    }

    /// Returns the address that clients of EPICS connect to, if Channel Access is served.
    pub fn channel_access_address(&self) -> Option<SocketAddr> {
        self.gateway.as_ref().map(Gateway::address)
    }

    /// Returns the address that clients of EPICS connect to, if pvAccess is served.
    pub fn pv_access_address(&self) -> Option<SocketAddr> {
        self.pva_gateway.as_ref().map(Gateway::address)
    }

    /// Returns the certificate of the gRPC port and the keys of tokens, if gRPC is served; they are
    /// empty until they are replaced.
    pub fn grpc_keys(&self) -> Option<Keyring> {
        self.grpc.as_ref().map(|grpc| grpc.keyring().clone())
    }

    /// Returns the address that clients connect to by gRPC, if it is served.
    pub fn grpc_address(&self) -> Option<SocketAddr> {
        self.grpc.as_ref().map(Grpc::address)
    }

    /// Returns the address for datagrams of front-ends and other nodes.
    ///
    /// # Errors
    /// The system's.
    pub fn network_address(&self) -> io::Result<SocketAddr> {
        self.front_ends.local_addr()
    }

    /// Returns the addresses for clients, in the order of the settings.
    ///
    /// # Errors
    /// The system's.
    pub fn addresses(&self) -> io::Result<Vec<SocketAddr>> {
        self.listeners.iter().map(|listener| listener.socket.local_addr()).collect()
    }

    /// Returns the handle that opens feeds of readings for other threads.
    pub fn feeds(&self) -> DeviceFeeds {
        DeviceFeeds::new(self.visitors.reception())
    }

    /// Returns the handle with which another thread ends the wait of a turn.
    pub fn wake(&self) -> Wake {
        self.wake.clone()
    }

    /// Serves until an error occurs or `each` returns false; it is called after a turn's input and
    /// before its output, at least every 200 ms.
    pub fn run(mut self, mut each: impl FnMut(&mut Dpm, Moment) -> bool) -> io::Result<()> {
        let mut ready = Vec::new();
        loop {
            let now = self.clock.now();
            let wait = match self.pending.is_empty() {
                true => self.dpm.deadline().map_or(IDLE, |deadline| deadline.saturating_sub(now.millis).min(IDLE)),
                false => 0,
            };
            self.set.wait(Some(wait), &mut ready)?;
            let now = self.clock.now();
            self.now = now.millis;
            for event in &ready {
                match event.key {
                    FRONT_ENDS => self.take_datagrams(now)?,
                    HISTORY => self.take_answers(now),
                    VISITORS => self.take_visitors(now),
                    WAKE => self.wake.rest(),
                    WRITTEN => self.take_news(),
                    key if key >= LISTENERS => self.accept((key - LISTENERS) as usize, now),
                    key => match LinkSockets::of_key(key) {
                        Some(place) => self.take_link(place, *event, now)?,
                        None => self.take_client(*event, now),
                    },
                }
            }
            self.dpm.tick(now);
            self.look_over(now);
            let before = Arc::as_ptr(self.dpm.database());
            let is_over = each(&mut self.dpm, now);
            if Arc::as_ptr(self.dpm.database()) != before {
                let gateways = self.gateway.iter().chain(&self.pva_gateway).map(Gateway::devices);
                for devices in self.grpc.as_ref().map(Grpc::devices).into_iter().chain(gateways) {
                    devices.replace(Arc::clone(self.dpm.database()));
                }
            }
            for (to, datagram) in self.dpm.datagrams(now) {
                // A datagram that can't be sent counts as lost on the way; its request is repeated.
                let _ = self.front_ends.send_to(&datagram, to);
            }
            for (network, sockets) in LinkNetwork::ALL.into_iter().zip(&mut self.links) {
                for goes in self.dpm.take_link_orders(network, now) {
                    sockets.obey(goes, &self.set, now.millis);
                }
                for link in sockets.take_broken() {
                    self.dpm.link(network, Came::Down(link), now);
                }
                if let Some(port) = sockets.take_bound() {
                    self.dpm.link(network, Came::Bound(port), now);
                }
            }
            for client in self.dpm.take_dirty() {
                self.make_pending(client);
            }
            self.write_pending();
            for client in self.dpm.take_closing() {
                self.finish(client);
            }
            if let Some(history) = &mut self.history {
                // Done after the writes, which may have caused more work.
                history.give(self.dpm.take_work());
                self.dpm.lost_for_history(history.dropped_readings());
            }
            if is_over {
                return Ok(());
            }
        }
    }

    /// Sets the authority for settings. Before this, all settings are refused.
    pub fn set_authority(&mut self, authority: SettingAuthority) {
        self.dpm.set_authority(authority);
    }

    /// Lets hosts of these networks read `/metrics` of the clients' port, besides this machine.
    pub fn let_scrape(&mut self, networks: Vec<ScrapeNetwork>) {
        self.dpm.let_scrape(networks);
    }

    /// Sets the tasks of other nodes that clients of acnetd's protocol may use.
    pub fn pass_on_to(&mut self, tasks: Vec<Rad50>) {
        self.dpm.pass_on_to(tasks);
    }

    /// Returns the figures of its work and state.
    pub fn statistics(&self) -> Statistics {
        self.dpm.statistics()
    }

    fn take_answers(&mut self, now: Moment) {
        let Some(history) = &mut self.history else { return };
        for (ticket, answer) in history.take() {
            self.dpm.take_answer(ticket, answer, now);
        }
    }

    fn accept(&mut self, place: usize, now: Moment) {
        while let Some(listener) = self.listeners.get_mut(place) {
            match listener.socket.accept() {
                Ok((stream, from)) => {
                    // A connection above its address's limit is closed at once.
                    if listen::prepare(&stream).is_ok()
                        && let Some(client) = self.dpm.connect_from(from, now)
                    {
                        self.keep(ConnectionPeer::Network(stream), client);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) => {
                    // A connection that has already ended doesn't affect the others.
                    if listener.reserve.shed(&listener.socket, &error) {
                        listener.rests_until = Some(now.millis + listen::REST.as_millis() as u64);
                        let _ = self.set.change(&listener.socket, LISTENERS + place as u64, false, false);
                        return;
                    }
                }
            }
        }
    }

    /// Lets listeners that have rested accept again, and closes connections that have not read for
    /// too long.
    fn look_over(&mut self, now: Moment) {
        for (listener, key) in self.listeners.iter_mut().zip(LISTENERS..) {
            if listener.rests_until.take_if(|until| *until <= now.millis).is_some() {
                let _ = self.set.change(&listener.socket, key, true, false);
            }
        }
        if self.review > now.millis {
            return;
        }
        self.review = now.millis + REVIEW;
        let patience = self.dpm.options().stuck;
        // Connections from other threads have deadlines of their own.
        let is_stuck = |connection: &ServedConnection| {
            matches!(connection.pipe.stream, ConnectionPeer::Network(_))
                && connection.pipe.stuck_since().is_some_and(|since| since + patience <= now.millis)
        };
        let connections = self.connections.iter().enumerate();
        let stuck: Vec<ClientKey> = connections
            .filter(|(_, connection)| connection.as_ref().is_some_and(is_stuck))
            .map(|(client, _)| client)
            .collect();
        for client in stuck {
            self.close(client);
        }
    }

    /// Takes the clients that other threads have handed over.
    fn take_visitors(&mut self, now: Moment) {
        for visitor in self.visitors.take() {
            let client = self.dpm.connect_for(visitor.from, visitor.by);
            let Some(client) = self.keep(ConnectionPeer::Thread(visitor.stream), client) else { continue };
            let taken = match visitor.errand {
                VisitorErrand::Read(requests) => self.dpm.read(client, &requests, now),
                VisitorErrand::Talk => Ok(()),
                VisitorErrand::Look => {
                    self.dpm.show_overview(client, now);
                    Ok(())
                }
                VisitorErrand::Measure => {
                    self.dpm.show_figures(client, now);
                    Ok(())
                }
                VisitorErrand::Set(settings, proof, from) => self.dpm.set(client, settings, proof, from, now),
            };
            match taken {
                Ok(()) => self.write(client),
                Err(_) => self.close(client),
            }
        }
    }

    /// Stores a client's connection.
    fn keep(&mut self, stream: ConnectionPeer, client: ClientKey) -> Option<ClientKey> {
        if self.set.add(&stream, client as u64).is_err() {
            self.dpm.disconnect(client);
            return None;
        }
        if self.connections.len() <= client {
            self.connections.resize_with(client + 1, || None);
        }
        let pipe = Arc::new(OutputPipe::new(stream, client));
        self.connections[client] = Some(ServedConnection { pipe, reads: true, writes: false, is_pending: false });
        Some(client)
    }

    fn take_datagrams(&mut self, now: Moment) -> io::Result<()> {
        for _ in 0..DATAGRAMS {
            let begun = self.dpm.stages().begin();
            let Some((length, from)) = next_datagram(&self.front_ends, &mut self.buffer)? else { return Ok(()) };
            let _ = self.dpm.stages().end(ReadingStage::Datagram, begun);
            self.dpm.datagram(from, &mut self.buffer[..length], now);
        }
        Ok(())
    }

    /// Handles input of a network of servers: answers to searches, or that of a connection.
    fn take_link(&mut self, place: usize, event: Ready, now: Moment) -> io::Result<()> {
        let networks = LinkNetwork::ALL.get(place).zip(self.links.get_mut(place));
        let Some((network, sockets)) = networks else { return Ok(()) };
        let dpm = &mut self.dpm;
        if LinkSockets::is_search(event.key) {
            return sockets.answers(&mut self.buffer, |came| dpm.link(*network, came, now));
        }
        sockets.ready(event, &self.set, &mut self.buffer, now.millis, |came| dpm.link(*network, came, now));
        for link in sockets.take_broken() {
            self.dpm.link(*network, Came::Down(link), now);
        }
        Ok(())
    }
}

impl Listener {
    fn open(address: SocketAddr) -> io::Result<Self> {
        let reserve = Reserve::new("clients of readings")?;
        Ok(Self { socket: listen::open(address)?, reserve, rests_until: None })
    }
}

const FRONT_ENDS: u64 = u64::MAX - 1;
const HISTORY: u64 = u64::MAX - 2;
const VISITORS: u64 = u64::MAX - 3;
const WAKE: u64 = u64::MAX - 4;
const WRITTEN: u64 = u64::MAX - 5;
/// The key of the first listener; the other listeners have the keys that follow.
const LISTENERS: u64 = WRITTEN - MOST_LISTENERS as u64;
/// The most addresses to listen on.
const MOST_LISTENERS: usize = 64;
/// The interval between checks of connections, in milliseconds.
const REVIEW: u64 = 1000;
/// The longest time between two turns, in milliseconds.
const IDLE: u64 = 200;
