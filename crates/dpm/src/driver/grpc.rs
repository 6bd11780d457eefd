//! gRPC on its port: a thread with HTTP/2, which hands each `Read` over to the serving thread and
//! passes its replies on.
//!
//! The messages of a stream come through a pair of sockets, ready to be sent; they aren't examined
//! here. A client that does not read stops its own pair by HTTP/2's flow control, and the service
//! then treats it like any other slow client. When a client cancels, disconnects or exceeds its
//! deadline, the pair is closed, which ends its list.

use std::collections::HashMap;
use std::future::poll_fn;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::os::unix::net::UnixStream;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::{Buf, Bytes};
use h2::server::SendResponse;
use h2::{Reason, RecvStream, SendStream};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use tokio::sync::oneshot;
use tokio::time::{Instant, Sleep};

use super::credentials::{CertificateKeys, Keyring};
use super::listen::{self, Reserve};
use super::methods::{ClientInput, MethodCaller, Methods};
use super::reception::{Reception, Visitor, VisitorErrand};
use crate::grpc::daq;
use crate::grpc::devdb::DeviceDatabase;
use crate::grpc::plots::PlotStore;
use crate::grpc::protocol::{self, Code};
use crate::service::{BroughtBy, ServiceOptions, network};
use rookery_observe::vital;

/// The thread. Dropping it ends all calls.
#[derive(Debug)]
pub(super) struct Grpc {
    address: SocketAddr,
    keyring: Keyring,
    devices: DeviceDatabase,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Grpc {
    /// Opens the port and starts the thread.
    pub(super) fn start(
        listen: SocketAddr,
        reception: Reception,
        options: ServiceOptions,
        devices: DeviceDatabase,
        plots: Option<PlotStore>,
    ) -> io::Result<Self> {
        let listener = listen::open(listen)?;
        let reserve = Reserve::new("clients of readings by gRPC")?;
        let address = listener.local_addr()?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
        let (stop, stopped) = oneshot::channel();
        let requests = options.requests;
        let methods = Methods { reception: reception.clone(), devices: devices.clone(), plots, requests };
        let keyring = Keyring::default();
        let front =
            Arc::new(GrpcFront { reception, methods, keyring: keyring.clone(), options, taken: Mutex::default() });
        let serve = move || {
            if let Err(error) = runtime.block_on(front.serve(listener, reserve, stopped)) {
                eprintln!("rookery: gRPC is no longer served: {error}");
            }
        };
        let thread = std::thread::Builder::new().name("grpc".into()).spawn(|| vital(serve))?;
        Ok(Self { address, keyring, devices, stop: Some(stop), thread: Some(thread) })
    }

    /// Returns the keys in force.
    pub(super) fn keyring(&self) -> &Keyring {
        &self.keyring
    }

    /// Returns the devices that clients can look up.
    pub(super) fn devices(&self) -> &DeviceDatabase {
        &self.devices
    }

    /// Returns the address that clients connect to.
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Grpc {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct GrpcFront {
    reception: Reception,
    methods: Methods,
    keyring: Keyring,
    options: ServiceOptions,
    /// The number of occupied places.
    taken: Mutex<HashMap<(BoundedThing, Option<IpAddr>), usize>>,
}

/// A bounded resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum BoundedThing {
    Connection,
    /// An open call that reads.
    Call,
    /// A byte of an incomplete message.
    Byte,
}

/// Places that an address occupies; dropping this frees them.
struct GrpcPlaces {
    front: Arc<GrpcFront>,
    what: BoundedThing,
    from: IpAddr,
    count: usize,
}

impl GrpcPlaces {
    /// Takes more places. Returns false if there are not enough, or if the address has reached its
    /// share.
    fn grow(&mut self, more: usize) -> bool {
        let is_there = self.front.take(self.what, self.from, more);
        if is_there {
            self.count += more;
        }
        is_there
    }
}

impl Drop for GrpcPlaces {
    fn drop(&mut self) {
        let mut taken = self.front.lock_places();
        for key in [(self.what, None), (self.what, Some(self.from))] {
            if let Some(count) = taken.get_mut(&key) {
                *count = count.saturating_sub(self.count);
                if *count == 0 {
                    taken.remove(&key);
                }
            }
        }
    }
}

/// The caller and the bounds of a call.
struct Call {
    from: IpAddr,
    /// The time for which the client may leave its output unread, in milliseconds.
    stuck: u64,
    deadline: Option<Pin<Box<Sleep>>>,
}

/// The failure of a call: a code with a reason, or the loss of the client.
enum CallFailure {
    Told(Code, &'static str),
    Gone,
}

impl GrpcFront {
    fn lock_places(&self) -> MutexGuard<'_, HashMap<(BoundedThing, Option<IpAddr>), usize>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a place for an address, if there is one and the address has not reached its share.
    fn place(self: &Arc<Self>, what: BoundedThing, from: IpAddr) -> Option<GrpcPlaces> {
        self.take(what, from, 1).then(|| GrpcPlaces { front: Arc::clone(self), what, from, count: 1 })
    }

    fn take(&self, what: BoundedThing, from: IpAddr, count: usize) -> bool {
        let (all, of_address) = match what {
            BoundedThing::Connection => (self.options.grpc_clients, self.options.grpc_clients_of_address),
            BoundedThing::Call => (self.options.grpc_calls, self.options.grpc_calls_of_address),
            BoundedThing::Byte => (self.options.grpc_bytes, self.options.grpc_bytes_of_address),
        };
        let bounds = [((what, None), all), ((what, Some(from)), of_address)];
        let mut taken = self.lock_places();
        if bounds.iter().any(|(key, most)| taken.get(key).copied().unwrap_or_default() + count > *most) {
            return false;
        }
        for (key, _) in bounds {
            *taken.entry(key).or_default() += count;
        }
        true
    }

    async fn serve(
        self: Arc<Self>,
        listener: TcpListener,
        mut reserve: Reserve,
        mut stopped: oneshot::Receiver<()>,
    ) -> io::Result<()> {
        let listener = tokio::net::TcpListener::from_std(listener)?;
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
                        tokio::time::sleep(listen::REST).await;
                    }
                    continue;
                }
            };
            // Connections beyond the bounds are closed at once.
            if let Some(place) = self.place(BoundedThing::Connection, network(from.ip())) {
                tokio::spawn(Arc::clone(&self).greet(stream, from, place));
            }
        }
    }

    /// Serves a connection, with a TLS handshake if there is a certificate.
    async fn greet(self: Arc<Self>, stream: tokio::net::TcpStream, address: SocketAddr, place: GrpcPlaces) {
        let _ = stream.set_nodelay(true);
        let _ = listen::keep_alive(&stream);
        let certificate = self.keyring.now().certificate.clone();
        let caller = MethodCaller { address, is_safe: certificate.is_some(), unproved: Arc::default() };
        match certificate {
            None => self.connection(stream, caller, place).await,
            Some(certificate) => {
                let handshake = tokio_rustls::TlsAcceptor::from(certificate.0).accept(stream);
                // A client whose handshake fails gets only the alert.
                let Ok(Ok(stream)) = tokio::time::timeout(PATIENCE, handshake).await else { return };
                self.connection(stream, caller, place).await;
            }
        }
    }

    async fn connection(
        self: Arc<Self>,
        stream: impl tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
        caller: MethodCaller,
        place: GrpcPlaces,
    ) {
        let mut builder = h2::server::Builder::new();
        builder.max_concurrent_streams(STREAMS).max_header_list_size(HEADERS).max_send_buffer_size(SEND_BUFFER);
        let greeting = tokio::time::timeout(PATIENCE, builder.handshake::<_, Bytes>(stream)).await;
        let Ok(Ok(mut connection)) = greeting else { return };
        let mut calls: Vec<tokio::task::JoinHandle<()>> = Vec::new();
        let mut pings = connection.ping_pong().map(Pings::new);
        let idle = Duration::from_millis(self.options.grpc_idle);
        let mut looked_over = Box::pin(tokio::time::sleep(idle));
        let mut is_ending = false;
        loop {
            let next = poll_fn(|cx| {
                if pings.as_mut().is_some_and(|pings| pings.is_dead(cx)) {
                    return Poll::Ready(None);
                }
                while looked_over.as_mut().poll(cx).is_ready() {
                    if calls.iter().any(|call| !call.is_finished()) {
                        looked_over.as_mut().reset(Instant::now() + idle);
                    } else if is_ending {
                        return Poll::Ready(None);
                    } else {
                        // A client that needs another call later connects again: its library
                        // handles this end.
                        connection.graceful_shutdown();
                        is_ending = true;
                        looked_over.as_mut().reset(Instant::now() + PATIENCE);
                    }
                }
                connection.poll_accept(cx)
            });
            let Some(Ok((request, respond))) = next.await else { break };
            calls.retain(|call| !call.is_finished());
            calls.push(tokio::spawn(Arc::clone(&self).call(request, respond, place.from, caller.clone())));
            looked_over.as_mut().reset(Instant::now() + idle);
        }
        for call in calls {
            call.abort();
        }
        drop(place);
    }

    async fn call(
        self: Arc<Self>,
        request: Request<RecvStream>,
        mut respond: SendResponse<Bytes>,
        from: IpAddr,
        caller: MethodCaller,
    ) {
        if let Some(status) = refusal(&request) {
            let mut response = Response::new(());
            *response.status_mut() = status;
            let _ = respond.send_response(response, true);
            return;
        }
        let timeout =
            request.headers().get("grpc-timeout").map(|value| value.to_str().ok().and_then(protocol::timeout));
        let mut call = Call { from, deadline: None, stuck: self.options.stuck };
        let outcome = match timeout {
            Some(None) => Err(CallFailure::Told(Code::Internal, "grpc-timeout cannot be read")),
            timeout => {
                // A timer can't run for centuries; such a deadline is never reached anyway.
                let end = timeout.flatten().and_then(|timeout| Instant::now().checked_add(timeout));
                call.deadline = end.map(|end| Box::pin(tokio::time::sleep_until(end)));
                match request.uri().path() {
                    READ => self.read(&mut call, request.into_body(), &mut respond).await,
                    _ => self.ask(&mut call, request, caller, &mut respond).await,
                }
            }
        };
        match outcome {
            Ok(()) => {}
            Err(CallFailure::Gone) => respond.send_reset(Reason::CANCEL),
            Err(CallFailure::Told(code, why)) => {
                let mut response = response_head();
                response.headers_mut().extend(trailers(code, why));
                let _ = respond.send_response(response, true);
            }
        }
    }

    /// Answers `Read`: readings are passed on as they arrive.
    async fn read(
        self: &Arc<Self>,
        call: &mut Call,
        body: RecvStream,
        respond: &mut SendResponse<Bytes>,
    ) -> Result<(), CallFailure> {
        let (message, held) = call.message(body, self).await?;
        let list = daq::reading_list(&message, self.options.requests).map_err(|_| MALFORMED)?;
        drop((message, held));
        let requests = list.ok_or(CallFailure::Told(Code::ResourceExhausted, "there are too many requests"))?;
        let _place = self.place(BoundedThing::Call, call.from).ok_or(CROWDED)?;
        let broken = |_| CROWDED;
        let (ours, theirs) = UnixStream::pair().map_err(broken)?;
        let nonblocking = ours.set_nonblocking(true).and_then(|()| theirs.set_nonblocking(true));
        let ours = nonblocking.and_then(|()| tokio::net::UnixStream::from_std(ours)).map_err(broken)?;
        let errand = VisitorErrand::Read(requests);
        if !self.reception.enter(Visitor { stream: theirs, errand, from: call.from, by: BroughtBy::Grpc }) {
            return Err(CallFailure::Told(Code::Unavailable, "the service ends"));
        }
        let mut stream = respond.send_response(response_head(), false).map_err(|_| CallFailure::Gone)?;
        call.pass_on(&ours, &mut stream).await
    }

    /// Lets `tonic` answer any other method.
    async fn ask(
        self: &Arc<Self>,
        call: &mut Call,
        request: Request<RecvStream>,
        caller: MethodCaller,
        respond: &mut SendResponse<Bytes>,
    ) -> Result<(), CallFailure> {
        let _place = self.place(BoundedThing::Call, call.from).ok_or(CROWDED)?;
        let mut held = GrpcPlaces { front: Arc::clone(self), what: BoundedThing::Byte, from: call.from, count: 0 };
        let makes_room = move |bytes| held.grow(bytes);
        let request = request.map(|stream| ClientInput { stream, makes_room });
        let keys: Arc<CertificateKeys> = self.keyring.now();
        let mut answer = Box::pin(self.methods.call(request, caller, keys));
        let answer = poll_fn(|cx| {
            if respond.poll_reset(cx).is_ready() {
                return Poll::Ready(Err(CallFailure::Gone));
            }
            match call.is_late(cx) {
                true => Poll::Ready(Err(LATE)),
                false => answer.as_mut().poll(cx).map(Ok),
            }
        });
        let response = answer.await?.ok_or(CallFailure::Told(Code::Unimplemented, "there is no such method"))?;
        let (head, mut body) = response.into_parts();
        let is_over = http_body::Body::is_end_stream(&body);
        let mut stream =
            respond.send_response(Response::from_parts(head, ()), is_over).map_err(|_| CallFailure::Gone)?;
        if is_over {
            return Ok(());
        }
        loop {
            let frame = poll_fn(|cx| {
                if stream.poll_reset(cx).is_ready() {
                    return Poll::Ready(Err(CallFailure::Gone));
                }
                match call.is_late(cx) {
                    true => Poll::Ready(Err(LATE)),
                    false => http_body::Body::poll_frame(Pin::new(&mut body), cx).map(Ok),
                }
            });
            let frame = match frame.await {
                Ok(Some(Ok(frame))) => frame,
                Ok(Some(Err(_)) | None) => return stream.send_data(Bytes::new(), true).map_err(|_| CallFailure::Gone),
                Err(CallFailure::Told(code, why)) => {
                    return stream.send_trailers(trailers(code, why)).map_err(|_| CallFailure::Gone);
                }
                Err(CallFailure::Gone) => return Err(CallFailure::Gone),
            };
            match frame.into_data() {
                Ok(data) => call.send(&mut stream, data).await?,
                Err(frame) => {
                    let last = frame.into_trailers().unwrap_or_default();
                    return stream.send_trailers(last).map_err(|_| CallFailure::Gone);
                }
            }
        }
    }
}

impl Call {
    /// Returns the one message that the client sends.
    async fn message(
        &mut self,
        mut body: RecvStream,
        front: &Arc<GrpcFront>,
    ) -> Result<(Vec<u8>, GrpcPlaces), CallFailure> {
        let mut held = GrpcPlaces { front: Arc::clone(front), what: BoundedThing::Byte, from: self.from, count: 0 };
        let mut bytes = Vec::new();
        let mut patience = Box::pin(tokio::time::sleep(PATIENCE));
        loop {
            let data = poll_fn(|cx| match self.is_late(cx) || patience.as_mut().poll(cx).is_ready() {
                true => Poll::Ready(Err(LATE)),
                false => body.poll_data(cx).map(|data| data.transpose().map_err(|_| CallFailure::Gone)),
            });
            let data = data.await?;
            let is_over = data.is_none();
            if let Some(data) = data {
                if !held.grow(data.len()) {
                    return Err(CROWDED);
                }
                bytes.extend_from_slice(&data);
                let _ = body.flow_control().release_capacity(data.len());
            }
            match protocol::message(&bytes, is_over) {
                Ok(Some(message)) => return Ok((message.to_vec(), held)),
                Ok(None) => {}
                Err((code, why)) => return Err(CallFailure::Told(code, why)),
            }
        }
    }

    /// Passes the service's messages on until there are no more or the client has gone, then ends
    /// the call.
    async fn pass_on(
        &mut self,
        ours: &tokio::net::UnixStream,
        stream: &mut SendStream<Bytes>,
    ) -> Result<(), CallFailure> {
        let outcome = loop {
            let ready = poll_fn(|cx| {
                if stream.poll_reset(cx).is_ready() {
                    return Poll::Ready(Err(CallFailure::Gone));
                }
                if self.is_late(cx) {
                    return Poll::Ready(Err(LATE));
                }
                ours.poll_read_ready(cx).map(|ready| ready.map_err(|_| CallFailure::Gone))
            });
            if let Err(failure) = ready.await {
                break Err(failure);
            }
            let mut chunk = vec![0; CHUNK];
            match ours.try_read(&mut chunk) {
                Ok(0) => break Ok(()),
                Ok(length) => {
                    chunk.truncate(length);
                    if let Err(failure) = self.send(stream, chunk.into()).await {
                        break Err(failure);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => break Err(CallFailure::Told(Code::Unavailable, "the service ended the call")),
            }
        };
        // The head of the response is already sent, so the outcome goes into the trailers.
        let (code, why) = match outcome {
            Ok(()) => (Code::Ok, ""),
            Err(CallFailure::Told(code, why)) => (code, why),
            Err(CallFailure::Gone) => return Err(CallFailure::Gone),
        };
        stream.send_trailers(trailers(code, why)).map_err(|_| CallFailure::Gone)
    }

    /// Sends bytes as the client's flow control lets them through.
    async fn send(&mut self, stream: &mut SendStream<Bytes>, mut bytes: Bytes) -> Result<(), CallFailure> {
        let stuck = Duration::from_millis(self.stuck);
        while bytes.has_remaining() {
            stream.reserve_capacity(bytes.len());
            let mut patience = Box::pin(tokio::time::sleep(stuck));
            let capacity = poll_fn(|cx| {
                if stream.poll_reset(cx).is_ready() {
                    return Poll::Ready(Err(CallFailure::Gone));
                }
                if self.is_late(cx) {
                    return Poll::Ready(Err(LATE));
                }
                if patience.as_mut().poll(cx).is_ready() {
                    return Poll::Ready(Err(STUCK));
                }
                stream.poll_capacity(cx).map(|capacity| capacity.transpose().ok().flatten().ok_or(CallFailure::Gone))
            });
            let capacity = capacity.await?.min(bytes.len());
            stream.send_data(bytes.split_to(capacity), false).map_err(|_| CallFailure::Gone)?;
        }
        Ok(())
    }

    fn is_late(&mut self, cx: &mut Context<'_>) -> bool {
        self.deadline.as_mut().is_some_and(|deadline| deadline.as_mut().poll(cx).is_ready())
    }
}

/// Pings a client at intervals. Without pings, a client that vanished silently would keep its lists
/// until TCP gives up.
struct Pings {
    pings: h2::PingPong,
    timer: Pin<Box<Sleep>>,
    is_asked: bool,
}

impl Pings {
    fn new(pings: h2::PingPong) -> Self {
        Self { pings, timer: Box::pin(tokio::time::sleep(PING)), is_asked: false }
    }

    fn is_dead(&mut self, cx: &mut Context<'_>) -> bool {
        while self.is_asked && self.pings.poll_pong(cx).is_ready() {
            self.is_asked = false;
        }
        while self.timer.as_mut().poll(cx).is_ready() {
            if self.is_asked {
                return true;
            }
            self.is_asked = self.pings.send_ping(h2::Ping::opaque()).is_ok();
            self.timer.as_mut().reset(Instant::now() + PING);
        }
        false
    }
}

/// Returns the HTTP status for a request that is no gRPC call.
fn refusal(request: &Request<RecvStream>) -> Option<StatusCode> {
    if request.method() != Method::POST {
        return Some(StatusCode::METHOD_NOT_ALLOWED);
    }
    let kind = request.headers().get(http::header::CONTENT_TYPE).map(HeaderValue::as_bytes).unwrap_or_default();
    let is_grpc =
        kind.strip_prefix(b"application/grpc").is_some_and(|rest| matches!(rest.first(), None | Some(b'+' | b';')));
    (!is_grpc).then_some(StatusCode::UNSUPPORTED_MEDIA_TYPE)
}

/// Returns the head of a response to a call of gRPC.
fn response_head() -> Response<()> {
    let mut response = Response::new(());
    let headers = response.headers_mut();
    headers.insert(http::header::CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    headers.insert("grpc-accept-encoding", HeaderValue::from_static("identity"));
    response
}

/// Returns the trailers of a call. Reasons are plain text, which needs no encoding.
fn trailers(code: Code, why: &'static str) -> HeaderMap {
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", HeaderValue::from(code as u16));
    if !why.is_empty() {
        trailers.insert("grpc-message", HeaderValue::from_static(why));
    }
    trailers
}

const READ: &str = "/services.daq.DAQ/Read";
const MALFORMED: CallFailure = CallFailure::Told(Code::Internal, "the message cannot be read");
const CROWDED: CallFailure = CallFailure::Told(Code::ResourceExhausted, "there are too many calls");
const STUCK: CallFailure = CallFailure::Told(Code::ResourceExhausted, "the client does not read its readings");
const LATE: CallFailure = CallFailure::Told(Code::DeadlineExceeded, "the time is up");
/// The most calls of a connection at a time.
const STREAMS: u32 = 256;
/// The most bytes in the headers of a call.
const HEADERS: u32 = 16 << 10;
/// The bytes of a call that HTTP/2 buffers for a client that does not read.
const SEND_BUFFER: usize = 256 << 10;
/// The most bytes of the service's output that are read at a time.
const CHUNK: usize = 16 << 10;
/// The time limit for the beginning of a connection, the message of a call and the end of an idle
/// connection.
const PATIENCE: Duration = Duration::from_secs(10);
/// The time between two pings.
const PING: Duration = Duration::from_secs(60);
