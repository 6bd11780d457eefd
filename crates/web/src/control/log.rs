//! Gives commands access to the log of the running server: the lines in memory, new ones as they
//! are written, and a higher level for a while.
//!
//! # Invariants
//!
//! - Only a few can follow at a time, each for a bounded time, so that there is room for other
//!   commands.
//! - Nothing is kept for a follower: it gets the lines that still exist when its connection has
//!   taken the previous ones, and the number of those that it has missed.

use std::fmt::{Debug, Formatter};
use std::io;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use hyper::body::{Bytes, Incoming};
use hyper::{Request, Response, StatusCode};
use rookery_base::count_of;
use rookery_observe::lines::{Line, Lines};
use rookery_operations::action_log::Entry;
use serde_json::Value;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval, sleep};

use crate::api::BY_COMMAND;
use crate::api::problem::Problem;
use crate::ask::now_ms;
use crate::body::ComingBytes;
use crate::reply::{Body, reply};
use crate::{WebShared, form};

/// The log of the process, as far as commands can use it.
#[derive(Clone)]
pub struct Log {
    /// The newest lines.
    pub lines: Lines,
    /// The part that decides about levels.
    pub levels: Arc<dyn Levels>,
}

impl Debug for Log {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Log").field("lines", &self.lines).finish_non_exhaustive()
    }
}

/// Decides which lines are logged.
pub trait Levels: Send + Sync {
    /// Logs more, or less, of a module for a while.
    ///
    /// # Errors
    /// There is no such level, or no such module; as a text.
    fn raise(&self, module: &str, level: &str, lasts: Duration) -> Result<(), String>;

    /// Resets the levels whose time is over.
    fn expire(&self);
}

/// Replies with the existing lines and, with `follow`, also with new ones. `follows` has the free
/// rights to follow.
pub(super) fn show(
    request: &Request<Incoming>,
    shared: &WebShared,
    follows: impl FnOnce() -> Option<OwnedSemaphorePermit>,
) -> Response<Body> {
    let Some(pairs) = form::pairs(request.uri().query().unwrap_or_default()) else {
        return Problem::bad_request("the query can't be read").response();
    };
    let given = |name: &str| pairs.iter().find(|(key, _)| key == name).map(|(_, value)| value.clone());
    let severity = match given("level").map(|level| severity(&level)) {
        Some(None) => return Problem::bad_request(format!("a level is one of: {}", LEVELS.join(", "))).response(),
        severity => severity.flatten().unwrap_or(LEVELS.len() as u8),
    };
    let place = match given("follow").map(|_| follows()) {
        Some(None) => {
            let words = format!("{FOLLOWERS} commands already follow the log");
            return Problem::new(StatusCode::SERVICE_UNAVAILABLE, "too-many", words).response();
        }
        place => place.flatten(),
    };
    let lines = shared.instance.log.lines.clone();
    let seen = lines.before();
    let following = place.map(|place| {
        let mut looks = interval(LOOK);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Following { looks, until: Instant::now() + LONGEST, _place: place }
    });
    let reading = LogReading { lines, seen, severity, account: given("account"), following };
    let mut response = reply(StatusCode::OK, "application/x-ndjson", "");
    *response.body_mut() = Body::coming(reading);
    response
}

/// Changes the level of a module for a while, and records the author.
pub(super) async fn raise(request: Request<Incoming>, who: &str, shared: Arc<WebShared>) -> Response<Body> {
    let body = form::body(request.into_body()).await.ok();
    let said: Value = body.and_then(|body| serde_json::from_slice(&body).ok()).unwrap_or_default();
    let (Some(module), Some(level), Some(seconds)) =
        (said["module"].as_str(), said["level"].as_str(), said["seconds"].as_u64())
    else {
        return Problem::bad_request("expected an object with `module`, `level` and `seconds`").response();
    };
    if !(1..=MOST_SECONDS).contains(&seconds) {
        return Problem::bad_request(format!("a level is raised for 1 to {MOST_SECONDS} seconds")).response();
    }
    let lasts = Duration::from_secs(seconds);
    if let Err(words) = shared.instance.log.levels.raise(module, level, lasts) {
        return Problem::bad_request(words).response();
    }
    let act = format!("set the level of the log of {module} to {level} for {}", count_of(seconds, "second"));
    let (who, by, domain) = (who.to_owned(), BY_COMMAND.to_owned(), String::new());
    shared.action_log.note(Entry { unix_ms: now_ms(), who, by, act, domain });
    tokio::spawn(async move {
        sleep(lasts).await;
        shared.instance.log.levels.expire();
    });
    reply(StatusCode::NO_CONTENT, "text/plain", "")
}

/// The rest of a log for a reader: the body of a response.
#[derive(Debug)]
struct LogReading {
    lines: Lines,
    /// The number of lines that this reader got or missed.
    seen: u64,
    /// The number of the lowest severity that is wanted.
    severity: u8,
    account: Option<String>,
    following: Option<Following>,
}

#[derive(Debug)]
struct Following {
    /// The times of checks for more. A new line wakes no task, since shards write lines.
    looks: Interval,
    until: Instant,
    _place: OwnedSemaphorePermit,
}

impl ComingBytes for LogReading {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        loop {
            let unseen = self.lines.after(self.seen, AT_ONCE);
            self.seen = unseen.seen;
            let mut text = String::new();
            if unseen.left_out > 0 {
                text = format!("{{\"left_out\":{}}}\n", unseen.left_out);
            }
            for line in unseen.lines.iter().filter(|line| self.wants(line)) {
                text.push_str(&line.text);
                text.push('\n');
            }
            if !text.is_empty() {
                return Poll::Ready(Some(Ok(text.into())));
            }
            if !unseen.lines.is_empty() {
                continue;
            }
            let Some(following) = &mut self.following else { return Poll::Ready(None) };
            let now = ready!(following.looks.poll_tick(context));
            if now >= following.until {
                return Poll::Ready(None);
            }
        }
    }
}

impl LogReading {
    fn wants(&self, line: &Line) -> bool {
        let is_about = |account: &String| line.account.as_deref() == Some(account);
        line.severity <= self.severity && self.account.as_ref().is_none_or(is_about)
    }
}

/// Returns the number of a level: 1 for errors, more for lower ones.
fn severity(level: &str) -> Option<u8> {
    let at = LEVELS.iter().position(|known| known.eq_ignore_ascii_case(level))?;
    u8::try_from(at + 1).ok()
}

/// The path of the log, after [`crate::api::PREFIX`].
pub const LOG: &str = "/log";
/// The path where levels are raised.
pub const LEVEL: &str = "/log/level";
/// The most commands that may follow the log at a time.
pub(crate) const FOLLOWERS: usize = 4;
/// The longest time of following.
pub(crate) const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);
/// The most seconds for which a level may be raised.
pub const MOST_SECONDS: u64 = 24 * 60 * 60;
/// The number of lines in a part of a response.
const AT_ONCE: usize = 256;
/// The time between two checks for more.
const LOOK: Duration = Duration::from_millis(100);
const LEVELS: [&str; 5] = ["error", "warn", "info", "debug", "trace"];
