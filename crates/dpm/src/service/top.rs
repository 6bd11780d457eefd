//! Watchers of the service at work (`rookery dpm top`): clients of this machine that get the
//! counters and the table of stages every second.
//!
//! Stages are only measured while there are watchers.

use super::keys::ClientKey;
use super::{Dpm, Statistics};
use crate::count::count;
use crate::stages::ReadingStages;
use crate::time::Moment;

impl Dpm {
    /// Returns the times of readings by stage, which are only measured while there are watchers.
    pub fn stages(&mut self) -> &mut ReadingStages {
        self.pool.stages()
    }

    /// Adds a client to the watchers.
    pub(super) fn watch(&mut self, client: ClientKey, now: Moment) {
        self.outlets.frame(client, HEAD.as_bytes().to_vec());
        if self.watchers.clients.is_empty() {
            self.watchers.due = now.millis + EVERY;
            self.stages().clear();
        }
        self.watchers.clients.push(client);
        self.stages().measure(true);
    }

    /// Removes a client that has ended from the watchers.
    pub(super) fn unwatch(&mut self, client: ClientKey) {
        let before = self.watchers.clients.len();
        self.watchers.clients.retain(|other| *other != client);
        if before > 0 && self.watchers.clients.is_empty() {
            self.stages().measure(false);
        }
    }

    /// Sends the overview to the watchers when it is due.
    pub(super) fn tell_watchers(&mut self, now: Moment) {
        if self.watchers.deadline().is_none_or(|due| due > now.millis) {
            return;
        }
        self.watchers.due = now.millis + EVERY;
        let overview = self.overview(now);
        let text = format!("{}\n\n{overview}\n{}\n{PAGE_END}", self.statistics(), self.stages());
        for client in self.watchers.clients.clone() {
            // A client that doesn't read gets no more to read.
            if self.outlets.clients.get(client).is_some_and(|client| client.outbox.is_empty()) {
                self.outlets.frame(client, text.clone().into_bytes());
            }
        }
    }
}

impl std::fmt::Display for Statistics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let ratio = |one: u64, other: u64| if other == 0 { 0.0 } else { one as f64 / other as f64 };
        let Statistics { pool, entries, groups, clients, lists, dropped, variables, connected, circuits, .. } = self;
        let groups = count(*groups, "request");
        writeln!(f, "clients {clients}, lists {lists}, devices being read {entries} in {groups}")?;
        if *variables > 0 {
            let circuits = count(*circuits, "circuit");
            writeln!(f, "process variables {variables}, found {connected} on {circuits}")?;
        }
        if self.topics > 0 {
            let (topics, known, brokers) = (self.topics, self.topics_known, self.brokers);
            writeln!(f, "topics of MQTT {topics}, with a message {known}, brokers connected {brokers}")?;
        }
        writeln!(
            f,
            "asked by clients {}, found running {}, asked of front-ends {} in {}: consolidation {:.1}",
            pool.asked,
            pool.shared,
            pool.devices_requested,
            count(pool.requests, "request"),
            ratio(pool.asked, pool.devices_requested)
        )?;
        writeln!(
            f,
            "replies {}, readings {}, copies per reading {:.2}, delivered {}",
            pool.replies,
            pool.readings,
            ratio(pool.encoded, pool.readings),
            pool.delivered
        )?;
        let asked_again = format!("asked again in parts {}", pool.divided);
        write!(f, "unanswered {}, {asked_again}, strays {}, dropped {dropped}", pool.timeouts, pool.strays)
    }
}

/// The interval of pages, in milliseconds.
const EVERY: u64 = 1000;
/// The character after each page.
pub const PAGE_END: char = '\u{c}';
const HEAD: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n";
