//! Posts events to an address, in batches, until they are accepted: at least once each, in order.
//!
//! Nothing waits for the other side. Events go to the spool on the disk within `GATHERING`, and
//! from there to the address; a batch that isn't accepted is posted again later, at growing
//! intervals.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use hmac::{Hmac, KeyInit, Mac};
use hyper::Uri;
use hyper::body::Bytes;
use hyper::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use rookery_base::hex;
use rookery_operations::events::EventLog;
use sha2::Sha256;
use tokio::task::spawn_blocking;
use tokio::time::sleep;
use tokio_rustls::TlsConnector;
use tracing::{info, warn};

use super::spool::{NextLines, Spool};
use super::to_json;
use crate::ask::now_ms;
use crate::https;

/// The address of a program that gets events, and the terms.
#[derive(Clone)]
pub struct PostSettings {
    /// The address.
    pub url: Uri,
    /// The secret by which batches are signed.
    pub secret: String,
    /// PEM file of certificates to trust besides those that the machine trusts.
    pub trusted: Option<PathBuf>,
    /// The folder for waiting events.
    pub folder: PathBuf,
    /// The most bytes of waiting events.
    pub spool_bytes: u64,
}

impl std::fmt::Debug for PostSettings {
    /// Hides the secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PostSettings").field("url", &self.url).finish_non_exhaustive()
    }
}

/// Counts of posted events.
#[derive(Debug, Default)]
pub struct PostCounts {
    /// Events that were accepted.
    pub sent: AtomicU64,
    /// Batches that weren't.
    pub failures: AtomicU64,
    /// Events that were lost: there was no room, or they came too fast.
    pub lost: AtomicU64,
    /// Bytes of waiting events.
    pub waiting: AtomicU64,
}

/// Returns whether an address can be posted to: `https:`, or `http:` on this machine.
pub fn is_address(text: &str) -> bool {
    let Ok(url) = text.parse::<Uri>() else { return false };
    let Some(authority) = url.authority().filter(|authority| !authority.as_str().contains('@')) else { return false };
    match url.scheme_str() {
        Some("https") => true,
        Some("http") => ["localhost", "127.0.0.1", "[::1]"].contains(&authority.host()),
        _ => false,
    }
}

/// Posts events until the front stops.
pub(crate) async fn run(events: EventLog, settings: PostSettings, counts: Arc<PostCounts>) {
    let tls = match https::trusting(settings.trusted.as_deref()) {
        Ok(tls) => tls,
        Err(error) => return warn!(%error, "events can't be posted"),
    };
    let (folder, most_bytes) = (settings.folder.clone(), settings.spool_bytes);
    let opened = spawn_blocking(move || Spool::open(folder, most_bytes)).await;
    let spool = match opened.map_err(std::io::Error::other).and_then(|opened| opened) {
        Ok(spool) => spool,
        Err(error) => {
            return warn!(%error, folder = %settings.folder.display(), "events can't be saved, and aren't posted");
        }
    };
    // Events from before this start are included.
    Poster { told: 0, events, settings, counts, tls, spool: Some(spool), delay: None }.run().await;
}

struct Poster {
    events: EventLog,
    /// The serial of the newest event in the spool.
    told: u64,
    settings: PostSettings,
    counts: Arc<PostCounts>,
    tls: TlsConnector,
    /// `None` only while it is being used.
    spool: Option<Spool>,
    /// The time until the next attempt, after a failure.
    delay: Option<Duration>,
}

impl Poster {
    async fn run(&mut self) {
        loop {
            self.gather().await;
            let began = tokio::time::Instant::now();
            let is_all = self.post().await;
            // While batches aren't accepted, events go to the spool as before.
            let until = match (is_all, self.delay) {
                (true, _) => began,
                (false, delay) => began + delay.unwrap_or_default(),
            };
            loop {
                sleep(GATHERING).await;
                if tokio::time::Instant::now() >= until {
                    break;
                }
                self.gather().await;
            }
        }
    }

    /// Writes new events to the spool.
    async fn gather(&mut self) {
        loop {
            let behind = std::future::poll_fn(|context| {
                std::task::Poll::Ready(match self.events.poll_behind(self.told, PORTION, context) {
                    std::task::Poll::Ready(behind) => Some(behind),
                    std::task::Poll::Pending => None,
                })
            });
            let Some(behind) = behind.await else { return };
            self.counts.lost.fetch_add(behind.missed, Ordering::Relaxed);
            let Some(last) = behind.events.last() else { return };
            let newest = last.serial;
            let mut lines = Vec::new();
            for event in &behind.events {
                lines.extend_from_slice(to_json(event).to_string().as_bytes());
                lines.push(b'\n');
            }
            match self.with_spool(move |spool| spool.append(&lines)).await {
                Ok(lost) => {
                    self.told = newest;
                    if lost > 0 {
                        self.counts.lost.fetch_add(lost as u64, Ordering::Relaxed);
                        warn!(
                            lost,
                            "events are lost: they aren't being accepted, and there is no room for more; see [events]"
                        );
                    }
                }
                Err(error) => {
                    warn!(%error, "events can't be saved to disk");
                    return;
                }
            }
        }
    }

    /// Posts waiting events. Returns whether all of them were accepted.
    async fn post(&mut self) -> bool {
        loop {
            let next = match self.with_spool(|spool| spool.next(BATCH, BATCH_BYTES)).await {
                Ok(Some(next)) => next,
                Ok(None) => return true,
                Err(error) => {
                    warn!(%error, "waiting events can't be read");
                    return self.failed();
                }
            };
            if let Err(error) = self.send(&next).await {
                self.counts.failures.fetch_add(1, Ordering::Relaxed);
                let again = self.delay.map_or(FIRST_DELAY, |delay| (delay * 2).min(LONGEST_DELAY));
                if self.delay.is_none() {
                    warn!(url = %self.settings.url, %error, "events aren't accepted, and wait");
                }
                self.delay = Some(again);
                return false;
            }
            if self.delay.take().is_some() {
                info!(url = %self.settings.url, "events are accepted again");
            }
            let count = next.count as u64;
            if let Err(error) = self.with_spool(move |spool| spool.take(&next)).await {
                warn!(%error, "events that were already posted will be posted again");
                return self.failed();
            }
            self.counts.sent.fetch_add(count, Ordering::Relaxed);
        }
    }

    fn failed(&mut self) -> bool {
        self.delay = Some(self.delay.map_or(FIRST_DELAY, |delay| (delay * 2).min(LONGEST_DELAY)));
        false
    }

    async fn send(&self, next: &NextLines) -> Result<(), String> {
        let body = Bytes::from(next.lines.clone());
        let signed = signature(&self.settings.secret, now_ms() / 1000, &body);
        let signed = HeaderValue::from_str(&signed).map_err(|error| error.to_string())?;
        let headers = vec![(CONTENT_TYPE, HeaderValue::from_static("application/x-ndjson")), (SIGNATURE, signed)];
        https::post(&self.tls, &self.settings.url, headers, body, PATIENCE).await
    }

    /// Uses the spool on another thread.
    async fn with_spool<T: Send + 'static>(
        &mut self,
        work: impl FnOnce(&mut Spool) -> std::io::Result<T> + Send + 'static,
    ) -> std::io::Result<T> {
        let Some(mut spool) = self.spool.take() else { return Err(std::io::Error::other("the spool is gone")) };
        let done = spawn_blocking(move || {
            let done = work(&mut spool);
            (spool, done)
        });
        let (spool, done) = done.await.map_err(std::io::Error::other)?;
        self.counts.waiting.store(spool.bytes(), Ordering::Relaxed);
        self.spool = Some(spool);
        done
    }
}

/// Returns the signature of a batch: HMAC-SHA256 over the time, a dot and the body.
fn signature(secret: &str, unix_seconds: u64, body: &[u8]) -> String {
    // HMAC takes keys of any length.
    let Ok(mut mac) = <Hmac<Sha256> as KeyInit>::new_from_slice(secret.as_bytes()) else { return String::new() };
    mac.update(format!("{unix_seconds}.").as_bytes());
    mac.update(body);
    format!("t={unix_seconds},v1={}", hex::encode(mac.finalize().into_bytes()))
}

/// Returns the folder for waiting events, below the data folder.
pub fn folder(data: &Path) -> PathBuf {
    data.join("events")
}

const SIGNATURE: HeaderName = HeaderName::from_static("rookery-signature");
/// The time in which events are collected before they are written and posted.
const GATHERING: Duration = Duration::from_millis(200);
/// The number of events that are written to the spool at a time.
const PORTION: usize = 500;
/// The most events of a batch, and the most bytes.
pub(crate) const BATCH: usize = 100;
const BATCH_BYTES: usize = 256 * 1024;
/// The time for a batch.
const PATIENCE: Duration = Duration::from_secs(20);
/// The time until a batch that wasn't accepted is posted again: at first, and at most.
const FIRST_DELAY: Duration = Duration::from_secs(1);
const LONGEST_DELAY: Duration = Duration::from_secs(300);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_signed_with_its_time() {
        // Computed with OpenSSL.
        let signed = signature("secret", 1_700_000_000, b"{}\n");
        assert_eq!(signed, format!("t=1700000000,v1={EXPECTED}"));
    }

    #[test]
    fn addresses_are_encrypted_or_here() {
        for (text, is_one) in [
            ("https://hooks.example.org/rookery?a=b", true),
            ("http://127.0.0.1:8080/events", true),
            ("http://[::1]:8080/events", true),
            ("http://hooks.example.org/", false),
            ("https://user:secret@hooks.example.org/", false),
            ("hooks.example.org", false),
            ("", false),
        ] {
            assert_eq!(is_address(text), is_one, "{text}");
        }
    }

    const EXPECTED: &str = "dc2e07c928691c3fdecbdca708e89415b4ad6f1c9ddb31cd2da8967da29cd435";
}
