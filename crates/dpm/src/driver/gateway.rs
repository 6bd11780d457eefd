//! Channel Access and pvAccess for clients of EPICS: for each of them a thread that answers
//! searches, and hands each circuit over to the serving thread as a separate client.

use std::collections::HashMap;
use std::future::poll_fn;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::net::UnixStream;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::oneshot;
use tokio::time::{Instant, Sleep, sleep};

use super::ask::{GREETING, LARGEST};
use super::listen::{self, Reserve};
use super::reception::{Reception, Visitor, VisitorErrand};
use crate::gateway::{GatewayWire, ListChange};
use crate::grpc::devdb::DeviceDatabase;
use crate::sdd::SddMessage;
use crate::sdd::reply::Reply;
use crate::sdd::request::{AddToList, RemoveFromList, Request, StartList};
use crate::service::network;
use rookery_observe::vital;

/// The thread. Dropping it ends all circuits.
#[derive(Debug)]
pub(super) struct Gateway {
    address: SocketAddr,
    devices: DeviceDatabase,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Gateway {
    /// Opens the port, for TCP and UDP, and starts the thread.
    pub(super) fn start<W: GatewayWire>(
        listen: SocketAddr,
        reception: Reception,
        devices: DeviceDatabase,
    ) -> io::Result<Self> {
        let listener = listen::open(listen)?;
        let reserve = Reserve::new(W::CLIENTS)?;
        let address = listener.local_addr()?;
        let searches = std::net::UdpSocket::bind(address)?;
        searches.set_nonblocking(true)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
        let (stop, stopped) = oneshot::channel();
        let front: Arc<GatewayFront<W>> = Arc::new(GatewayFront {
            reception,
            devices: devices.clone(),
            address,
            taken: Arc::default(),
            shared: Arc::default(),
        });
        let serve = move || {
            let served = async {
                let searches = UdpSocket::from_std(searches)?;
                tokio::spawn(Arc::clone(&front).answer_searches(searches));
                front.serve(TcpListener::from_std(listener)?, reserve, stopped).await
            };
            if let Err(error) = runtime.block_on(served) {
                eprintln!("rookery: {} is no longer served: {error}", W::PROTOCOL);
            }
        };
        let thread = std::thread::Builder::new().name(W::PROTOCOL.into()).spawn(|| vital(serve))?;
        Ok(Self { address, devices, stop: Some(stop), thread: Some(thread) })
    }

    /// Returns the devices that clients find.
    pub(super) fn devices(&self) -> &DeviceDatabase {
        &self.devices
    }

    /// Returns the address that clients connect to.
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct GatewayFront<W: GatewayWire> {
    reception: Reception,
    devices: DeviceDatabase,
    address: SocketAddr,
    taken: Arc<CircuitPlaces>,
    shared: Arc<W::Shared>,
}

/// The number of circuits of each address.
#[derive(Default)]
struct CircuitPlaces(Mutex<HashMap<IpAddr, usize>>);

/// The place of a circuit, which is free again when this is dropped.
struct CircuitPlace {
    taken: Arc<CircuitPlaces>,
    from: IpAddr,
}

impl Drop for CircuitPlace {
    fn drop(&mut self) {
        let mut taken = self.taken.lock();
        if let Some(own) = taken.get_mut(&self.from) {
            *own -= 1;
            if *own == 0 {
                taken.remove(&self.from);
            }
        }
    }
}

impl CircuitPlaces {
    fn lock(&self) -> MutexGuard<'_, HashMap<IpAddr, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn place(self: &Arc<Self>, from: IpAddr) -> Option<CircuitPlace> {
        let mut taken = self.lock();
        let (all, own) = (taken.values().sum::<usize>(), taken.get(&from).copied().unwrap_or_default());
        if all >= MOST_CLIENTS || own >= MOST_CLIENTS_OF_ADDRESS {
            return None;
        }
        *taken.entry(from).or_default() += 1;
        Some(CircuitPlace { taken: Arc::clone(self), from })
    }
}

impl<W: GatewayWire> GatewayFront<W> {
    async fn answer_searches(self: Arc<Self>, searches: UdpSocket) {
        let mut buffer = vec![0; super::datagram::LARGEST_DATAGRAM];
        loop {
            // The network's reports about undelivered answers are not errors here.
            let Ok((length, from)) = searches.recv_from(&mut buffer).await else { continue };
            let port = self.address.port();
            if let Some(answers) = W::search(&self.shared, &buffer[..length], &self.devices.now(), port) {
                // Nobody but the sender gets an answer, whatever address a search names.
                let to = SocketAddr::new(from.ip(), answers.port.unwrap_or(from.port()));
                let _ = searches.try_send_to(&answers.bytes, to);
            }
        }
    }

    async fn serve(
        self: Arc<Self>,
        listener: TcpListener,
        mut reserve: Reserve,
        mut stopped: oneshot::Receiver<()>,
    ) -> io::Result<()> {
        loop {
            let next = poll_fn(|cx| match Pin::new(&mut stopped).poll(cx) {
                Poll::Ready(_) => Poll::Ready(None),
                Poll::Pending => listener.poll_accept(cx).map(Some),
            });
            let (stream, from) = match next.await {
                None => return Ok(()),
                Some(Ok(accepted)) => accepted,
                Some(Err(error)) => {
                    if reserve.shed(&listener, &error) {
                        sleep(listen::REST).await;
                    }
                    continue;
                }
            };
            let from = network(from.ip());
            if let Some(place) = self.taken.place(from)
                && let Ok(talk) = CircuitTalk::begin(stream, &self, from)
            {
                tokio::spawn(talk.run(place));
            }
        }
    }
}

/// Carries data between the client of a circuit and the serving thread.
struct CircuitTalk<W: GatewayWire> {
    front: Arc<GatewayFront<W>>,
    client: TcpStream,
    service: tokio::net::UnixStream,
    circuit: W,
    /// The number of the list, once it is open.
    list: Option<i32>,
    /// Bytes for the service, and received bytes that are not a whole reply yet.
    asks: Vec<u8>,
    replies: Vec<u8>,
    /// The deadline for a client that reads nothing or is silent.
    patience: Pin<Box<Sleep>>,
    is_stuck: bool,
}

/// The end of a circuit.
struct CircuitOver;

impl<W: GatewayWire> CircuitTalk<W> {
    fn begin(client: TcpStream, front: &Arc<GatewayFront<W>>, from: IpAddr) -> io::Result<Self> {
        client.set_nodelay(true)?;
        listen::keep_alive(&client)?;
        let (ours, theirs) = UnixStream::pair()?;
        ours.set_nonblocking(true)?;
        theirs.set_nonblocking(true)?;
        let service = tokio::net::UnixStream::from_std(ours)?;
        let (errand, by) = (VisitorErrand::Talk, W::BY);
        if !front.reception.enter(Visitor { stream: theirs, errand, from, by }) {
            return Err(io::ErrorKind::NotConnected.into());
        }
        Ok(Self {
            front: Arc::clone(front),
            client,
            service,
            circuit: W::begin(&front.shared),
            list: None,
            asks: GREETING.to_vec(),
            replies: Vec::new(),
            patience: Box::pin(sleep(STUCK)),
            is_stuck: false,
        })
    }

    async fn run(mut self, place: CircuitPlace) {
        poll_fn(|cx| self.poll(cx)).await;
        drop(place);
    }

    /// Moves bytes both ways until nothing more can be moved.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            match self.turn(cx) {
                Err(CircuitOver) => return Poll::Ready(()),
                Ok(true) => {}
                Ok(false) => break,
            }
        }
        let is_stuck = !self.circuit.output().is_empty();
        if is_stuck && !std::mem::replace(&mut self.is_stuck, is_stuck) {
            self.patience.as_mut().reset(Instant::now() + STUCK);
        }
        self.is_stuck = is_stuck;
        match is_stuck {
            true => self.patience.as_mut().poll(cx),
            false => Poll::Pending,
        }
    }

    /// Moves some bytes. Returns whether it has to be called again: a socket that turned out not to
    /// be ready has to be polled once more.
    fn turn(&mut self, cx: &mut Context<'_>) -> Result<bool, CircuitOver> {
        let mut again = false;
        let mut chunk = [0; CHUNK];
        if !self.circuit.output().is_empty() && self.client.poll_write_ready(cx).is_ready() {
            let output = self.circuit.output();
            let sent = bytes_moved(self.client.try_write(output))?;
            output.drain(..sent);
            self.circuit.flush();
            self.is_stuck &= sent == 0;
            again = true;
        }
        if !self.asks.is_empty() && self.service.poll_write_ready(cx).is_ready() {
            let sent = bytes_moved(self.service.try_write(&self.asks))?;
            self.asks.drain(..sent);
            again = true;
        }
        // While a client doesn't read, its input isn't read either, and its readings wait in the
        // service as those of any client do.
        let has_room = self.circuit.output().len() < MOST_OUTPUT && self.asks.len() < MOST_OUTPUT;
        if has_room && self.circuit.has_room() && self.service.poll_read_ready(cx).is_ready() {
            let length = bytes_read(self.service.try_read(&mut chunk))?;
            self.replies.extend_from_slice(&chunk[..length]);
            self.take_replies()?;
            again = true;
        }
        if has_room && self.client.poll_read_ready(cx).is_ready() {
            let length = bytes_read(self.client.try_read(&mut chunk))?;
            let (database, port) = (self.front.devices.now(), self.front.address.port());
            self.circuit.received(&chunk[..length], &database, port).map_err(|_| CircuitOver)?;
            again = true;
        }
        self.ask();
        Ok(again)
    }

    /// Handles the complete replies.
    fn take_replies(&mut self) -> Result<(), CircuitOver> {
        while let Some((prefix, framed)) = self.replies.split_first_chunk::<4>() {
            let length = u32::from_be_bytes(*prefix) as usize;
            if length > LARGEST {
                return Err(CircuitOver);
            }
            let Some(frame) = framed.get(..length) else { return Ok(()) };
            let reply = Reply::decode(frame).map_err(|_| CircuitOver)?;
            self.replies.drain(..prefix.len() + length);
            match &reply {
                Reply::OpenList(opened) if self.list.is_none() => self.list = Some(opened.list_id),
                reply => self.circuit.reply(reply),
            }
        }
        Ok(())
    }

    /// Sends changes of the list to the service.
    fn ask(&mut self) {
        let Some(list_id) = self.list else { return };
        let changes = self.circuit.take_changes();
        let starts = changes.iter().any(|change| matches!(change, ListChange::Add(..)));
        for change in changes {
            self.say(match change {
                ListChange::Add(ref_id, drf_request) => AddToList { list_id, ref_id, drf_request }.into(),
                ListChange::Remove(ref_id) => RemoveFromList { list_id, ref_id }.into(),
            });
        }
        if starts {
            self.say(StartList { list_id, model: None }.into());
        }
    }

    fn say(&mut self, request: Request) {
        let mut message = Vec::new();
        request.encode(&mut message);
        // The request has been parsed, so it is far smaller than 4 GiB.
        self.asks.extend_from_slice(&(message.len() as u32).to_be_bytes());
        self.asks.extend_from_slice(&message);
    }
}

/// Returns the number of bytes that were moved: none if the socket turned out not to be ready.
fn bytes_moved(result: io::Result<usize>) -> Result<usize, CircuitOver> {
    match result {
        Ok(moved) => Ok(moved),
        Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => Ok(0),
        Err(_) => Err(CircuitOver),
    }
}

/// Returns the number of bytes that were read. The end of input is the end of the circuit.
fn bytes_read(result: io::Result<usize>) -> Result<usize, CircuitOver> {
    match result {
        Ok(0) => Err(CircuitOver),
        result => bytes_moved(result),
    }
}

/// The most circuits, in total and per address.
pub(crate) const MOST_CLIENTS: usize = 1000;
pub(crate) const MOST_CLIENTS_OF_ADDRESS: usize = 250;
/// The bytes that may wait for a client before its readings are held back and its input isn't read.
pub(crate) const MOST_OUTPUT: usize = 256 << 10;
/// The time for which a client may take nothing.
pub(crate) const STUCK: Duration = Duration::from_secs(60);
/// The most bytes that are read at a time.
const CHUNK: usize = 16 << 10;
