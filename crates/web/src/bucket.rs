//! Files in a bucket: storage with the S3 protocol (Amazon's, MinIO, Garage, Ceph …), in place of a
//! folder. All nodes of a cluster see the same files there.
//!
//! # Invariants
//!
//! - Uploads pass through this server, which holds each one to its upload slot: a bucket has no
//!   uncounted file, no file larger than announced, and no incomplete one.
//! - Each request is signed for at most a minute, except for an address that a client is redirected
//!   to.
//! - No request waits for ever for the storage, and none is repeated here: that is up to clients.
//!
//! # Layout
//!
//! `signature` signs requests; `objects` are those that are being written and read.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use hyper::header::{HOST, RANGE};
use hyper::{Method, Request, Response, StatusCode, Uri};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use crate::ask::now_ms;
use crate::body::Body;
use crate::https;
use crate::storage::{Growing, ShownFile, Storage, StorageDoing, place};

mod objects;
mod signature;

use objects::{GrowingObject, ObjectBody, ObjectBytes, PATIENCE};
pub use signature::BucketKey;
use signature::SignedParts;

/// The address of a bucket and how it is used.
#[derive(Debug, Clone)]
pub struct BucketSettings {
    /// The address below which the files are: that of the bucket, perhaps with a path.
    pub url: String,
    /// The key that requests are signed with.
    pub key: BucketKey,
    /// PEM file of certificates to trust besides those that the machine trusts.
    pub trusted: Option<PathBuf>,
    /// True if clients are redirected to the bucket for files, to an address that is valid for an
    /// hour.
    pub redirects: bool,
}

/// A bucket. Clones share it.
#[derive(Clone)]
pub struct UploadBucket(Arc<BucketParts>);

/// Returns whether a text can be the address of a bucket, without characters that a request would
/// have to percent-encode.
pub fn is_address(text: &str) -> bool {
    let Some(rest) = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://")) else { return false };
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~:/[]".contains(&byte);
    let has_host = rest.bytes().next().is_some_and(|first| first.is_ascii_alphanumeric() || first == b'[');
    has_host && rest.bytes().all(is_plain) && text.parse::<Uri>().is_ok()
}

struct BucketParts {
    url: Uri,
    settings: BucketSettings,
    tls: TlsConnector,
    /// The number of requests that the storage has refused or not answered.
    failures: AtomicU64,
    /// The time of the last one, in milliseconds since 1970.
    failed_ms: AtomicU64,
}

impl UploadBucket {
    /// Returns a bucket, without a request to it.
    ///
    /// # Errors
    /// The address or the file of certificates can't be used; as a text that names it.
    pub fn new(settings: BucketSettings) -> Result<Self, String> {
        let url = settings.url.parse().map_err(|error| format!("{}: {error}", settings.url))?;
        let tls = https::trusting(settings.trusted.as_deref())?;
        let (failures, failed_ms) = (AtomicU64::new(0), AtomicU64::new(0));
        Ok(Self(Arc::new(BucketParts { url, settings, tls, failures, failed_ms })))
    }

    /// Returns the number of failed requests since the start, and the time of the last one.
    pub(crate) fn failures(&self) -> (u64, u64) {
        (self.0.failures.load(Ordering::Relaxed), self.0.failed_ms.load(Ordering::Relaxed))
    }

    /// Writes a file, reads it and removes it again, as a check. It blocks.
    ///
    /// # Errors
    /// The reason why one of these steps failed, as a text.
    pub fn probe(&self) -> Result<(), String> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| error.to_string())?;
        let probed = runtime.block_on(async {
            timeout(PATIENCE, async {
                let mut file = self.begin(PROBE, PROBE.len() as u64).await?;
                file.append(PROBE.as_bytes().to_vec()).await?;
                file.end().await?;
                let read = self.read(PROBE, 0, PROBE.len() as u64).await?.ok_or(io::ErrorKind::NotFound)?;
                let is_same = read.collect().await?.to_bytes() == PROBE.as_bytes();
                self.remove(PROBE).await?;
                if is_same { Ok(()) } else { Err(io::Error::other("what was read back differs from what was written")) }
            })
            .await
        });
        match probed {
            Ok(probed) => probed.map_err(|error| error.to_string()),
            Err(_) => Err("it doesn't answer".to_owned()),
        }
    }

    /// Returns the path of a file.
    fn path(&self, token: &str) -> String {
        format!("{}/{}", self.0.url.path().trim_end_matches('/'), place(token))
    }

    fn host(&self) -> &str {
        self.0.url.authority().map_or("", |authority| authority.as_str())
    }

    /// Returns the path and query of a request, signed.
    fn sign_path(&self, method: &Method, path: &str, query: &[(&str, &str)], seconds: u64) -> String {
        let (method, host, now_ms) = (method.as_str(), self.host(), now_ms());
        let query = self.0.settings.key.query(SignedParts { method, host, path, query, now_ms, seconds });
        format!("{path}?{query}")
    }

    /// Makes a request; `None` if there is no such file.
    async fn ask(
        &self,
        method: Method,
        path: &str,
        range: Option<String>,
        body: ObjectBody,
    ) -> io::Result<Option<Response<Incoming>>> {
        let asked = self.try_to_ask(method, path, range, body).await;
        if asked.is_err() {
            self.0.failures.fetch_add(1, Ordering::Relaxed);
            self.0.failed_ms.store(now_ms(), Ordering::Relaxed);
        }
        asked
    }

    async fn try_to_ask(
        &self,
        method: Method,
        path: &str,
        range: Option<String>,
        body: ObjectBody,
    ) -> io::Result<Option<Response<Incoming>>> {
        let mut request = Request::builder().uri(self.sign_path(&method, path, &[], SIGNED_SECONDS)).method(method);
        request = request.header(HOST, self.host());
        if let Some(range) = range {
            request = request.header(RANGE, range);
        }
        let request = request.body(body).map_err(io::Error::other)?;
        let opening = timeout(CONNECTING, https::open(&self.0.tls, &self.0.url)).await;
        let opened = opening.map_err(|_| io::Error::other("the bucket can't be reached: no answer"))?;
        let mut sender = opened.map_err(|error| io::Error::other(format!("the bucket can't be reached: {error}")))?;
        let response = sender.send_request(request).await;
        let response = response.map_err(|error| io::Error::other(format!("the bucket doesn't answer: {error}")))?;
        match response.status() {
            status if status.is_success() => Ok(Some(response)),
            StatusCode::NOT_FOUND => Ok(None),
            status => Err(refusal(status, response.into_body()).await),
        }
    }
}

impl std::fmt::Debug for UploadBucket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("UploadBucket").field("url", &self.0.url).finish_non_exhaustive()
    }
}

impl Storage for UploadBucket {
    fn begin(&self, token: &str, size: u64) -> StorageDoing<'static, Box<dyn Growing>> {
        let (bucket, path) = (self.clone(), self.path(token));
        Box::pin(async move {
            let (sender, body) = ObjectBody::of(size);
            let taken = tokio::spawn(async move {
                match bucket.ask(Method::PUT, &path, None, body).await? {
                    Some(_) => Ok(()),
                    None => Err(io::Error::other("there is no such bucket")),
                }
            });
            let object: Box<dyn Growing> = Box::new(GrowingObject::new(sender, taken));
            Ok(object)
        })
    }

    fn read(&self, token: &str, start: u64, len: u64) -> StorageDoing<'static, Option<Body>> {
        let (bucket, path) = (self.clone(), self.path(token));
        Box::pin(async move {
            let range = format!("bytes={start}-{}", start.saturating_add(len).saturating_sub(1));
            let asked = timeout(PATIENCE, bucket.ask(Method::GET, &path, Some(range), ObjectBody::empty())).await;
            let Some(response) = asked.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?? else { return Ok(None) };
            if start > 0 && response.status() != StatusCode::PARTIAL_CONTENT {
                return Err(io::Error::other("the bucket doesn't support multipart uploads"));
            }
            Ok(Some(Body::coming(ObjectBytes::new(response.into_body(), len))))
        })
    }

    fn remove(&self, token: &str) -> StorageDoing<'static, ()> {
        let (bucket, path) = (self.clone(), self.path(token));
        Box::pin(async move {
            let asked = timeout(PATIENCE, bucket.ask(Method::DELETE, &path, None, ObjectBody::empty())).await;
            asked.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?.map(drop)
        })
    }

    fn address(&self, token: &str, shown: ShownFile<'_>) -> Option<String> {
        if !self.0.settings.redirects {
            return None;
        }
        let query = [
            ("response-cache-control", shown.cache_control),
            ("response-content-disposition", shown.disposition),
            ("response-content-type", shown.content_type),
        ];
        let scheme = self.0.url.scheme_str()?;
        let signed = self.sign_path(&Method::GET, &self.path(token), &query, REDIRECTED_SECONDS);
        Some(format!("{scheme}://{}{signed}", self.host()))
    }
}

/// Returns the error for a refusal, with the code that the storage gives.
async fn refusal(status: StatusCode, body: Incoming) -> io::Error {
    let said = timeout(SAYING, Limited::new(body, MOST_SAID).collect()).await;
    let said = said.ok().and_then(Result::ok).map(|said| said.to_bytes()).unwrap_or_default();
    let said = String::from_utf8_lossy(&said);
    let code = said.split_once("<Code>").and_then(|(_, rest)| rest.split_once("</Code>")).map_or("", |(code, _)| code);
    let code: String = code.chars().filter(char::is_ascii_alphanumeric).take(60).collect();
    let hint = match code.as_str() {
        "NoSuchBucket" => ": make the bucket, or correct `bucket`",
        "InvalidAccessKeyId" => ": correct `access_key`",
        "SignatureDoesNotMatch" => ": the secret isn't that of `access_key`",
        "AuthorizationHeaderMalformed" | "PermanentRedirect" => ": correct `region`",
        "AccessDenied" => ": the key needs the right to get, put and delete objects",
        "RequestTimeTooSkewed" => ": the clock of this machine is wrong",
        _ => "",
    };
    io::Error::other(format!("the bucket says {} {code}{hint}", status.as_u16()))
}

/// The token under which a check writes a file.
const PROBE: &str = "rookery-check-of-the-bucket";
/// The seconds for which a request of this server is signed.
const SIGNED_SECONDS: u64 = 60;
/// The seconds for which the address of a redirection is valid.
const REDIRECTED_SECONDS: u64 = 3600;
/// The time for a connection to the storage.
const CONNECTING: Duration = Duration::from_secs(10);
/// The time for reading the reason of a refusal, and its most bytes.
const SAYING: Duration = Duration::from_secs(5);
const MOST_SAID: usize = 16 * 1024;

#[cfg(test)]
mod tests;
