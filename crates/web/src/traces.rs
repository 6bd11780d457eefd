//! Posts measured ticks and slow events to a collector of OpenTelemetry, as OTLP over HTTP in JSON
//! (OpenTelemetry Protocol 1.x, "OTLP/HTTP").
//!
//! No part of the server waits for the collector. Spans that can't be posted at once are dropped
//! and counted: they are a sample anyway. No texts of users leave; addresses of accounts leave only
//! with slow events, which name those that had to wait.
//!
//! # Layout
//!
//! `otlp` writes the spans as JSON. This file: collecting and posting them.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use hyper::Uri;
use hyper::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use rookery_observe::slow;
use rookery_observe::spans::spans;
use tokio::time::{MissedTickBehavior, interval};
use tracing::{info, warn};

use crate::https;

mod otlp;

/// The collector, and the selection of ticks for it.
#[derive(Clone)]
pub struct TraceSettings {
    /// Its address, such as `http://127.0.0.1:4318/v1/traces`.
    pub url: Uri,
    /// The number of ticks that it gets per minute, besides slow ones.
    pub ticks_per_minute: u32,
    /// A header by which it authenticates us.
    pub header: Option<TraceHeader>,
    /// PEM file of certificates to trust besides those that the machine trusts.
    pub trusted: Option<PathBuf>,
    /// The name of this node; empty without a cluster.
    pub node: String,
}

/// A header of each request to the collector.
#[derive(Clone)]
pub struct TraceHeader(HeaderName, HeaderValue);

impl TraceHeader {
    /// Returns the header with a name and a value; `None` if they are invalid (RFC 9110
    /// §5).
    pub fn new(name: &str, value: &str) -> Option<Self> {
        Some(Self(name.parse().ok()?, value.parse().ok()?))
    }
}

impl std::fmt::Debug for TraceHeader {
    /// Hides the value.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("TraceHeader").field(&self.0).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for TraceSettings {
    /// Hides the header.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TraceSettings").field("url", &self.url).finish_non_exhaustive()
    }
}

/// Counts of the spans since the start.
#[derive(Debug, Default)]
pub struct TraceCounts {
    /// Spans that the collector has accepted.
    pub sent: AtomicU64,
    /// Spans that it hasn't.
    pub lost: AtomicU64,
}

/// Posts spans until the front stops.
pub(crate) async fn run(settings: TraceSettings, counts: Arc<TraceCounts>) {
    let tls = match https::trusting(settings.trusted.as_deref()) {
        Ok(tls) => tls,
        Err(error) => return warn!(%error, "traces can't be posted"),
    };
    spans().collect(Some(settings.ticks_per_minute));
    // Events from before this start aren't sent.
    let (_, mut seen) = slow().since(u64::MAX);
    let mut failing = false;
    let mut turns = interval(GATHERING);
    turns.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        turns.tick().await;
        let collected = spans().take();
        let (slow_events, total) = slow().since(seen);
        let overwritten = (total - seen).saturating_sub(slow_events.len() as u64);
        seen = total;
        counts.lost.fetch_add(overwritten, Ordering::Relaxed);
        let Some(batch) = otlp::batch(&settings.node, &collected, &slow_events) else { continue };
        let json = HeaderValue::from_static("application/json");
        let headers = settings.header.iter().map(|TraceHeader(name, value)| (name.clone(), value.clone()));
        let headers = headers.chain([(CONTENT_TYPE, json)]).collect();
        match https::post(&tls, &settings.url, headers, batch.body, PATIENCE).await {
            Ok(()) => {
                counts.sent.fetch_add(batch.spans, Ordering::Relaxed);
                if std::mem::take(&mut failing) {
                    info!(url = %settings.url, "traces are accepted again");
                }
            }
            Err(error) => {
                counts.lost.fetch_add(batch.spans, Ordering::Relaxed);
                if !std::mem::replace(&mut failing, true) {
                    warn!(url = %settings.url, %error, "traces aren't accepted, and are dropped; see [traces]");
                }
            }
        }
    }
}

/// The time in which spans are collected before they are posted.
const GATHERING: Duration = Duration::from_secs(5);
/// The time for a batch.
const PATIENCE: Duration = Duration::from_secs(10);
