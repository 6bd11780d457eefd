//! Counts of one or many runs.

use std::collections::BTreeMap;
use std::fmt;

use crate::book::Book;
use crate::event::SimulatedEventKind;

/// The counts of one or many runs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RunStatistics {
    /// The number of runs.
    pub runs: u64,
    /// The number of events of each kind: those that were possible, and those that were not in the
    /// state in which they were drawn.
    pub events: BTreeMap<SimulatedEventKind, (u64, u64)>,
    /// Sessions that were opened.
    pub sessions: u64,
    /// Messages that were sent.
    pub messages: u64,
    /// Copies of messages that arrived at clients.
    pub copies: u64,
    /// Logins that were bound to their channels, and those that were refused for another channel.
    pub bound_logins: (u64, u64),
    /// Deaths of nodes, and how many of them left a journal from which others could continue.
    pub node_deaths: (u64, u64),
    /// Operations of the store, and how many of them failed.
    pub operations: (u64, u64),
    /// The most that ever waited in a server.
    pub peaks: Peaks,
}

/// The most things that waited in all shards of a run at one time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Peaks {
    /// Stanzas for one session with stream management.
    pub stanzas: usize,
    /// Bytes for clients.
    pub bytes: usize,
    /// Mail between shards, and events for their drivers.
    pub mail: usize,
    /// Calls that are to be made later.
    pub timers: usize,
    /// Requests, questions to shards, and logins without an answer.
    pub requests: usize,
}

impl Peaks {
    /// Raises these numbers to the others where those are higher.
    pub fn raise(&mut self, other: &Peaks) {
        let Self { stanzas, bytes, mail, timers, requests } = self;
        *stanzas = other.stanzas.max(*stanzas);
        *bytes = other.bytes.max(*bytes);
        *mail = other.mail.max(*mail);
        *timers = other.timers.max(*timers);
        *requests = other.requests.max(*requests);
    }

    /// Returns a description of a number that is higher than this many clients can make it in a
    /// run, if there is one.
    pub fn excess(&self, clients: usize) -> Option<String> {
        let found = [
            ("bytes wait for clients", self.bytes, CLIENT_BYTES),
            ("pieces of mail wait", self.mail, CLIENT_MAIL),
            ("timers are set", self.timers, CLIENT_TIMERS),
            ("requests are open", self.requests, CLIENT_REQUESTS),
        ];
        let over = found.into_iter().find(|(_, found, most)| *found > (clients + 1) * most);
        over.map(|(what, found, _)| format!("{found} {what} with {clients} clients: a queue grows without bound"))
    }
}

/// The most of each that one client can cause: several times as much as the seeds have shown.
const CLIENT_BYTES: usize = 256 << 10;
const CLIENT_MAIL: usize = 100;
const CLIENT_TIMERS: usize = 200;
const CLIENT_REQUESTS: usize = 50;

impl RunStatistics {
    /// Counts an event.
    pub fn count(&mut self, what: SimulatedEventKind, happens: bool) {
        let (done, idle) = self.events.entry(what).or_default();
        *(if happens { done } else { idle }) += 1;
    }

    /// Counts the death of a node, which left a journal from which others continue, or not.
    pub fn count_death(&mut self, is_journaled: bool) {
        self.node_deaths.0 += 1;
        self.node_deaths.1 += u64::from(is_journaled);
    }

    /// Adds the counts that are only known at the end of a run.
    pub fn finish(&mut self, book: &Book, called: u64, failed: u64) {
        self.runs += 1;
        self.sessions += book.sessions.len() as u64;
        self.messages += book.messages.len() as u64;
        let heard: usize = book.sessions.iter().map(|session| session.heard.len()).sum();
        let in_rooms: usize = book.stays.iter().map(|stay| stay.heard.len()).sum();
        self.copies += (heard + in_rooms) as u64;
        self.bound_logins = book.bound_logins;
        self.operations = (called, failed);
    }

    /// Adds the counts of other runs.
    pub fn add(&mut self, other: &RunStatistics) {
        self.runs += other.runs;
        self.sessions += other.sessions;
        self.messages += other.messages;
        self.copies += other.copies;
        self.bound_logins.0 += other.bound_logins.0;
        self.bound_logins.1 += other.bound_logins.1;
        self.node_deaths.0 += other.node_deaths.0;
        self.node_deaths.1 += other.node_deaths.1;
        self.operations.0 += other.operations.0;
        self.operations.1 += other.operations.1;
        self.peaks.raise(&other.peaks);
        for (what, (done, idle)) in &other.events {
            let (all_done, all_idle) = self.events.entry(*what).or_default();
            *all_done += done;
            *all_idle += idle;
        }
    }
}

impl fmt::Display for RunStatistics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} runs, {} sessions, {} messages, {} copies",
            self.runs, self.sessions, self.messages, self.copies
        )?;
        writeln!(f, "{} operations of the store, {} of them failed", self.operations.0, self.operations.1)?;
        let (bound, refused) = self.bound_logins;
        writeln!(f, "{bound} logins bound to their channels, {refused} refused for another one")?;
        let (deaths, journaled) = self.node_deaths;
        writeln!(f, "{deaths} deaths of nodes, {journaled} of them with a journal that had all")?;
        let Peaks { stanzas, bytes, mail, timers, requests } = self.peaks;
        writeln!(
            f,
            "at most {stanzas} stanzas waited for a session, {bytes} bytes for all, {mail} mail, {timers} timers, {requests} requests"
        )?;
        writeln!(f, "events that happened, and those that could not:")?;
        for (what, (done, idle)) in &self.events {
            let name = format!("{what:?}");
            let fault = if what.is_fault() { "fault" } else { "" };
            writeln!(f, "  {name:<14}{done:>10}{idle:>10}  {fault}")?;
        }
        Ok(())
    }
}
