//! Events for other programs: accounts, logins, sessions, reports, messages. The API streams them,
//! and the web front posts them to an address.
//!
//! One list for all shards. Code that records an event never waits for readers: the newest are kept
//! in memory, within bounds, and a reader that is too slow is told how many events it has missed.
//! If the module is off, nothing is recorded.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use rookery_base::lock::lock;
use rookery_base::{chance, hex};
use rookery_hub::World;

/// The events. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct EventLog(Arc<Mutex<KeptEvents>>);

/// One event, as readers of the API and the web hook get it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Occurrence {
    /// Its number in this run of the server.
    pub serial: u64,
    /// Its unique name, which differs from those of other runs, too.
    pub id: String,
    /// The time, in milliseconds since 1970.
    pub unix_ms: u64,
    /// The kind, such as `login`.
    pub kind: &'static str,
    /// The domain that it concerns.
    pub domain: String,
    /// The details, by name.
    pub fields: Vec<(&'static str, String)>,
}

/// The events after a given one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EventsBehind {
    /// The events, in their order.
    pub events: Vec<Arc<Occurrence>>,
    /// The number of missed events that are no longer in memory.
    pub missed: u64,
}

#[derive(Debug, Default)]
struct KeptEvents {
    /// The name of this run.
    run: String,
    /// The serial of the newest.
    newest: u64,
    kept: VecDeque<Arc<Occurrence>>,
    bytes: usize,
    waiting: Vec<Waker>,
}

impl Occurrence {
    /// Returns the approximate bytes that it takes.
    fn bytes(&self) -> usize {
        let fields = self.fields.iter().map(|(name, text)| name.len() + text.len() + 32);
        128 + self.domain.len() + fields.sum::<usize>()
    }
}

impl EventLog {
    /// Records an event, and wakes the waiting readers.
    pub fn note(&self, unix_ms: u64, kind: &'static str, domain: &str, fields: Vec<(&'static str, String)>) {
        let mut kept = lock(&self.0);
        if kept.run.is_empty() {
            let mut random = [0; 8];
            // Without randomness, the time distinguishes runs.
            kept.run = match chance::fill(&mut random) {
                Ok(()) => hex::encode(random),
                Err(_) => format!("{unix_ms:x}"),
            };
        }
        kept.newest += 1;
        let (serial, id) = (kept.newest, format!("{}-{:010}", kept.run, kept.newest));
        let event = Occurrence { serial, id, unix_ms, kind, domain: domain.to_owned(), fields };
        kept.bytes += event.bytes();
        kept.kept.push_back(Arc::new(event));
        while kept.kept.len() > MOST || kept.bytes > MOST_BYTES {
            let Some(oldest) = kept.kept.pop_front() else { break };
            kept.bytes -= oldest.bytes();
        }
        let waiting = std::mem::take(&mut kept.waiting);
        drop(kept);
        waiting.into_iter().for_each(Waker::wake);
    }

    /// Returns the serial of the newest event; 0 if there is none.
    pub fn newest(&self) -> u64 {
        lock(&self.0).newest
    }

    /// Returns the serial of the event with a name; `None` if it is of another run.
    pub fn serial_of(&self, id: &str) -> Option<u64> {
        let (run, serial) = id.split_once('-')?;
        (run == lock(&self.0).run).then(|| serial.parse().ok()).flatten()
    }

    /// Returns up to `most` events after a given one, once there are any.
    pub fn poll_behind(&self, serial: u64, most: usize, context: &mut Context<'_>) -> Poll<EventsBehind> {
        let mut kept = lock(&self.0);
        if kept.newest <= serial {
            let is_known = kept.waiting.iter().any(|waker| waker.will_wake(context.waker()));
            // Some may be readers that have gone. All are woken, and those that remain register
            // again.
            let woken = match kept.waiting.len() >= MOST_WAITING {
                true => std::mem::take(&mut kept.waiting),
                false => Vec::new(),
            };
            if !is_known || !woken.is_empty() {
                kept.waiting.push(context.waker().clone());
            }
            drop(kept);
            woken.into_iter().for_each(Waker::wake);
            return Poll::Pending;
        }
        let first = kept.kept.front().map_or(kept.newest + 1, |event| event.serial);
        let missed = first.saturating_sub(serial + 1);
        let skipped = usize::try_from((serial + 1).saturating_sub(first)).unwrap_or(usize::MAX);
        Poll::Ready(EventsBehind { events: kept.kept.iter().skip(skipped).take(most).cloned().collect(), missed })
    }
}

/// Records an event of a domain, if the domain reports its kind.
pub fn note(world: &World, domain: &str, kind: EventKind, fields: Vec<(&'static str, String)>) {
    if tells(world, domain, kind) {
        world.state::<EventLog>().note(world.time(), kind.name(), domain, fields);
    }
}

/// Returns whether a domain reports a kind of event.
pub fn tells(world: &World, domain: &str, kind: EventKind) -> bool {
    let options = world.options(domain, MODULE);
    options.is_some_and(|options| options.list(KINDS).iter().any(|group| group == kind.group()))
}

/// The kinds of events that are recorded, if the domain has the module for them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventKind {
    /// An account was created, by its user or by an operator.
    AccountCreated,
    /// An account was removed with all its data.
    AccountRemoved,
    /// A user has logged in.
    Login,
    /// Somebody has failed to log in.
    LoginFailed,
    /// A session has ended, and can't be resumed any more.
    SessionEnded,
    /// A user has reported another one.
    Reported,
    /// A user has sent a message, or one has arrived from another server.
    Message,
}

impl EventKind {
    /// All kinds, in the order of the variants.
    pub const ALL: [Self; 7] = [
        Self::AccountCreated,
        Self::AccountRemoved,
        Self::Login,
        Self::LoginFailed,
        Self::SessionEnded,
        Self::Reported,
        Self::Message,
    ];

    /// Returns its name for programs.
    pub fn name(self) -> &'static str {
        match self {
            Self::AccountCreated => "account.created",
            Self::AccountRemoved => "account.removed",
            Self::Login => "login",
            Self::LoginFailed => "login.failed",
            Self::SessionEnded => "session.ended",
            Self::Reported => "report",
            Self::Message => "message",
        }
    }

    /// Returns the name of its group, for operators.
    pub fn group(self) -> &'static str {
        match self {
            Self::AccountCreated | Self::AccountRemoved => "accounts",
            Self::Login | Self::LoginFailed => "logins",
            Self::SessionEnded => "sessions",
            Self::Reported => "reports",
            Self::Message => "messages",
        }
    }
}

/// The module, and its option, that decide which events a domain publishes.
pub const MODULE: &str = "events";
/// The option with the groups.
pub const KINDS: &str = "kinds";
/// The most events in memory, and their most bytes.
pub const MOST: usize = 10_000;
const MOST_BYTES: usize = 8 << 20;
/// The most readers that wait for an event.
const MOST_WAITING: usize = 1000;

#[cfg(test)]
mod tests {
    use super::*;

    fn behind(events: &EventLog, serial: u64) -> Option<EventsBehind> {
        match events.poll_behind(serial, usize::MAX, &mut Context::from_waker(Waker::noop())) {
            Poll::Ready(behind) => Some(behind),
            Poll::Pending => None,
        }
    }

    #[test]
    fn readers_continue_after_the_last_event_that_they_have() {
        let events = EventLog::default();
        assert_eq!(behind(&events, 0), None);
        for kind in ["one", "two", "three"] {
            events.note(1, kind, "a.example", Vec::new());
        }
        let all = behind(&events, 0).unwrap().events;
        assert_eq!(all.iter().map(|event| event.kind).collect::<Vec<_>>(), ["one", "two", "three"]);
        assert_eq!(events.serial_of(&all[1].id), Some(2));
        assert_eq!(events.serial_of("other-0000000002"), None, "of another run");
        assert_eq!(behind(&events, 2).unwrap().events[..], all[2..]);
        assert_eq!(behind(&events, 3), None);
    }

    #[test]
    fn readers_that_have_gone_are_forgotten() {
        struct GoneReader;
        impl std::task::Wake for GoneReader {
            fn wake(self: Arc<Self>) {}
        }
        let events = EventLog::default();
        for _ in 0..3 * MOST_WAITING {
            let gone = Waker::from(Arc::new(GoneReader));
            assert!(events.poll_behind(0, 1, &mut Context::from_waker(&gone)).is_pending());
        }
        assert!(lock(&events.0).waiting.len() <= MOST_WAITING);
    }

    #[test]
    fn memory_is_bounded_and_a_slow_reader_learns_how_much_it_missed() {
        let events = EventLog::default();
        for _ in 0..MOST + 5 {
            events.note(1, "login", "a.example", Vec::new());
        }
        let all = behind(&events, 0).unwrap();
        assert_eq!((all.events.len(), all.missed), (MOST, 5));
        for _ in 0..20 {
            events.note(1, "message", "a.example", vec![("body", "x".repeat(1 << 20))]);
        }
        assert!(behind(&events, 0).unwrap().events.len() < 9);
    }
}
