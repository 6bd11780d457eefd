//! Methods that `tonic` calls: settings, information on devices, health, and the description of all
//! services.
//!
//! [`grpc`](super::grpc) has the connections, deadlines and bounds; it hands requests in and sends
//! the replies.

use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body::Frame;
use prost::Message;
use tokio::io::AsyncReadExt;
use tonic::body::Body;
use tonic::server::{Grpc, UnaryService};
use tonic_health::pb::health_server::{Health, HealthServer};
use tonic_prost::ProstCodec;
use tower_service::Service;

use super::credentials::CertificateKeys;
use super::reception::{Reception, Visitor, VisitorErrand};
use crate::authority::SetterProof;
use crate::grpc::daq;
use crate::grpc::devdb::{DeviceDatabase, DeviceInformation};
use crate::grpc::generated::DESCRIPTION;
use crate::grpc::generated::services::daq::{SettingList, SettingReply};
use crate::grpc::generated::services::devdb::dev_db_server::DevDbServer;
use crate::grpc::plots::PlotStore;
use crate::service::{BroughtBy, network};

/// The caller of a method, and its connection.
#[derive(Debug, Clone)]
pub(super) struct MethodCaller {
    pub(super) address: SocketAddr,
    /// True if the connection can't be read or changed by others on the network.
    pub(super) is_safe: bool,
    /// The number of its connection's calls that try to set without a proof.
    pub(super) unproved: Arc<AtomicUsize>,
}

/// The dispatcher of all gRPC methods apart from `Read`, which has its own way.
#[derive(Debug, Clone)]
pub(super) struct Methods {
    pub(super) reception: Reception,
    pub(super) devices: DeviceDatabase,
    pub(super) plots: Option<PlotStore>,
    /// The most settings of a call.
    pub(super) requests: usize,
}

impl Methods {
    /// Calls a method. Returns `None` if no method has that path.
    pub(super) async fn call<B>(
        &self,
        request: Request<B>,
        caller: MethodCaller,
        keys: Arc<CertificateKeys>,
    ) -> Option<Response<Body>>
    where
        B: http_body::Body<Data = Bytes, Error = tonic::Status> + Send + 'static,
    {
        let request = request.map(Body::new);
        let path = request.uri().path();
        let service = path.strip_prefix('/').and_then(|path| path.split_once('/'))?.0;
        Some(match service {
            "services.daq.DAQ" if path == SET => {
                let settings = SetStream { methods: self.clone(), caller, keys };
                let codec = ProstCodec::<SettingReply, SettingList>::default();
                Grpc::new(codec).max_decoding_message_size(LARGEST_SETTINGS).unary(settings, request).await
            }
            "services.devdb.DevDB" => {
                let caller = match prove(request.headers(), &caller, &keys) {
                    SetterProof::Peer(peer) => Ok(peer.principal),
                    SetterProof::Failed(why) => Err(why),
                    SetterProof::Negotiate(_) | SetterProof::Nothing => Err("a token is missing".to_owned()),
                };
                let information =
                    DeviceInformation { devices: self.devices.clone(), plots: self.plots.clone(), caller };
                let server = DevDbServer::new(information).max_decoding_message_size(LARGEST_SETTINGS);
                never({ server }.call(request).await)
            }
            "grpc.health.v1.Health" => never(HealthServer::new(Healthy).call(request).await),
            "grpc.reflection.v1.ServerReflection" => {
                let described = reflection_builder().build_v1().ok()?;
                never({ described }.call(request).await)
            }
            "grpc.reflection.v1alpha.ServerReflection" => {
                let described = reflection_builder().build_v1alpha().ok()?;
                never({ described }.call(request).await)
            }
            _ => return None,
        })
    }
}

fn reflection_builder() -> tonic_reflection::server::Builder<'static> {
    let health = tonic_health::pb::FILE_DESCRIPTOR_SET;
    let builder = tonic_reflection::server::Builder::configure();
    builder.register_encoded_file_descriptor_set(DESCRIPTION).register_encoded_file_descriptor_set(health)
}

fn never<T>(result: Result<T, Infallible>) -> T {
    match result {
        Ok(value) => value,
        Err(never) => match never {},
    }
}

/// A call of `Set` by one client.
struct SetStream {
    methods: Methods,
    caller: MethodCaller,
    keys: Arc<CertificateKeys>,
}

impl UnaryService<SettingList> for SetStream {
    type Response = SettingReply;
    type Future = Pin<Box<dyn Future<Output = Result<tonic::Response<SettingReply>, tonic::Status>> + Send>>;

    fn call(&mut self, request: tonic::Request<SettingList>) -> Self::Future {
        let proof = prove(request.metadata().as_ref(), &self.caller, &self.keys);
        let unproved = &self.caller.unproved;
        let is_stranger = matches!(proof, SetterProof::Nothing | SetterProof::Failed(_));
        let has_many = is_stranger && unproved.fetch_add(1, Ordering::Relaxed) >= UNPROVED_CALLS;
        let list = request.into_inner();
        let (reception, from, most) = (self.methods.reception.clone(), self.caller.address, self.methods.requests);
        Box::pin(async move {
            if has_many || list.setting.len() > most {
                return Err(tonic::Status::resource_exhausted("there are too many settings"));
            }
            let broken = |error: std::io::Error| tonic::Status::resource_exhausted(error.to_string());
            let (ours, theirs) = UnixStream::pair().map_err(broken)?;
            let nonblocking = ours.set_nonblocking(true).and_then(|()| theirs.set_nonblocking(true));
            let mut ours = nonblocking.and_then(|()| tokio::net::UnixStream::from_std(ours)).map_err(broken)?;
            let errand = VisitorErrand::Set(daq::settings(list), proof, from);
            if !reception.enter(Visitor { stream: theirs, errand, from: network(from.ip()), by: BroughtBy::Grpc }) {
                return Err(tonic::Status::unavailable("the service ends"));
            }
            let mut reply = Vec::new();
            ours.read_to_end(&mut reply).await.map_err(broken)?;
            let reply = SettingReply::decode(reply.as_slice());
            reply.map(tonic::Response::new).map_err(|error| tonic::Status::internal(error.to_string()))
        })
    }
}

/// Returns the proof in the `authorization` of a call.
fn prove(headers: &HeaderMap, caller: &MethodCaller, keys: &CertificateKeys) -> SetterProof {
    let Some(given) = headers.get(http::header::AUTHORIZATION) else { return SetterProof::Nothing };
    let given = given.to_str().ok().and_then(|given| given.split_once(' '));
    let Some((scheme, token)) = given else {
        return SetterProof::Failed("an authorization that can't be read".to_owned());
    };
    if !caller.is_safe && !caller.address.ip().is_loopback() {
        return SetterProof::Failed("a proof without TLS, which others could have read".to_owned());
    }
    if scheme.eq_ignore_ascii_case("bearer") {
        let Some(tokens) = &keys.tokens else {
            return SetterProof::Failed("a token, but there are no keys for it".to_owned());
        };
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        return tokens.check(token.trim(), now).map_or_else(SetterProof::Failed, SetterProof::Peer);
    }
    if scheme.eq_ignore_ascii_case("negotiate") {
        return match STANDARD.decode(token.trim()) {
            Ok(token) => SetterProof::Negotiate(token),
            Err(error) => SetterProof::Failed(error.to_string()),
        };
    }
    SetterProof::Failed(format!("an unsupported kind of authorization: {scheme:.20}"))
}

/// Health by gRPC's own protocol: a service that replies is serving.
#[derive(Debug, Clone, Copy)]
struct Healthy;

#[tonic::async_trait]
impl Health for Healthy {
    type WatchStream = Pin<Box<dyn HealthStream>>;

    async fn check(
        &self,
        asked: tonic::Request<tonic_health::pb::HealthCheckRequest>,
    ) -> Result<tonic::Response<tonic_health::pb::HealthCheckResponse>, tonic::Status> {
        let service = asked.into_inner().service;
        if !SERVICES.contains(&service.as_str()) {
            return Err(tonic::Status::not_found("there is no such service"));
        }
        Ok(tonic::Response::new(serving()))
    }

    async fn watch(
        &self,
        asked: tonic::Request<tonic_health::pb::HealthCheckRequest>,
    ) -> Result<tonic::Response<Self::WatchStream>, tonic::Status> {
        let is_known = SERVICES.contains(&asked.into_inner().service.as_str());
        let unknown = tonic_health::pb::health_check_response::ServingStatus::ServiceUnknown as i32;
        let told = if is_known { serving() } else { tonic_health::pb::HealthCheckResponse { status: unknown } };
        Ok(tonic::Response::new(Box::pin(HealthOnce(Some(told)))))
    }
}

fn serving() -> tonic_health::pb::HealthCheckResponse {
    let serving = tonic_health::pb::health_check_response::ServingStatus::Serving;
    tonic_health::pb::HealthCheckResponse { status: serving as i32 }
}

/// A stream of the health of a service.
trait HealthStream:
    tonic::codegen::tokio_stream::Stream<Item = Result<tonic_health::pb::HealthCheckResponse, tonic::Status>> + Send
{
}

/// A health that is reported once and never changes.
struct HealthOnce(Option<tonic_health::pb::HealthCheckResponse>);

impl tonic::codegen::tokio_stream::Stream for HealthOnce {
    type Item = Result<tonic_health::pb::HealthCheckResponse, tonic::Status>;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        // The health only changes when the connection ends, which the client sees by itself.
        self.0.take().map_or(Poll::Pending, |told| Poll::Ready(Some(Ok(told))))
    }
}

impl HealthStream for HealthOnce {}

/// The body of a request, as its bytes arrive.
pub(super) struct ClientInput<T> {
    pub(super) stream: h2::RecvStream,
    /// Reserves room for this many more bytes. Returns false if there is none.
    pub(super) makes_room: T,
}

impl<T: FnMut(usize) -> bool + Unpin> http_body::Body for ClientInput<T> {
    type Data = Bytes;
    type Error = tonic::Status;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let data = match self.stream.poll_data(cx) {
            Poll::Pending => return Poll::Pending,
            Poll::Ready(None) => return Poll::Ready(None),
            Poll::Ready(Some(Err(error))) => {
                return Poll::Ready(Some(Err(tonic::Status::cancelled(error.to_string()))));
            }
            Poll::Ready(Some(Ok(data))) => data,
        };
        if !(self.makes_room)(data.len()) {
            return Poll::Ready(Some(Err(tonic::Status::resource_exhausted("there are too many calls"))));
        }
        let _ = self.stream.flow_control().release_capacity(data.len());
        Poll::Ready(Some(Ok(Frame::data(data))))
    }
}

const SET: &str = "/services.daq.DAQ/Set";
/// The services whose health is reported; the first name stands for all of them.
const SERVICES: [&str; 3] = ["", "services.daq.DAQ", "services.devdb.DevDB"];
/// The largest message of a client of these methods, in bytes: settings take many times their size
/// while they are parsed.
pub(crate) const LARGEST_SETTINGS: usize = 512 << 10;
/// The most calls of a connection that try to set without a proof.
pub(crate) const UNPROVED_CALLS: usize = 16;
