//! The HTTPS client for requests to an authority. Responses are bounded in time and bytes.

use std::path::Path;
use std::pin::Pin;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::{Request, Response};
use instant_acme::{BodyWrapper, BytesResponse, Error, HttpClient};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use crate::https::{HttpsFailed, exchange, trusting};

/// A client that speaks HTTPS and nothing else.
pub(super) struct Https {
    tls: TlsConnector,
}

impl Https {
    /// Returns a client that trusts the machine's authorities and those of a PEM file.
    pub fn new(trusted: Option<&Path>) -> Result<Self, String> {
        Ok(Self { tls: trusting(trusted)? })
    }
}

impl HttpClient for Https {
    fn request(
        &self,
        request: Request<BodyWrapper<Bytes>>,
    ) -> Pin<Box<dyn Future<Output = Result<BytesResponse, Error>> + Send>> {
        let tls = self.tls.clone();
        Box::pin(async move {
            let url = request.uri().clone();
            let named = |cause: HttpsFailed| Error::Other(format!("{url}: {cause}").into());
            match timeout(PATIENCE, exchange(tls, request, MOST_BYTES)).await {
                Ok(Ok((parts, bytes))) => Ok(Response::from_parts(parts, Full::new(bytes)).into()),
                Ok(Err(cause)) => Err(named(cause)),
                Err(_) => Err(named("no answer in time".into())),
            }
        })
    }
}

/// The time that one request may take.
const PATIENCE: Duration = Duration::from_secs(30);
/// The most bytes of a response. A chain of certificates has a few thousand.
const MOST_BYTES: usize = 1024 * 1024;
