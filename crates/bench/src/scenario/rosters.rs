//! Rosters in which users see each other, created through the protocol before a load that needs
//! them (RFC 6121 §3).
//!
//! Every user logs in, requests the roster, and requests a subscription from each contact that
//! isn't in it with both directions; every request is granted. Rosters left over from an earlier
//! run cost one roster request each.

use std::collections::HashSet;

use rookery_xml::{Child, Kind, Stanza, ns};

use super::ScenarioRun;
use crate::engine::{LoadCount, LoadWorker, NEVER, WorkerLoad};
use crate::{BenchOutcome, chat};

/// Users in a ring: the contacts of each are its nearest neighbours on either side. With one
/// contact less than users, all know each other.
#[derive(Debug, Clone, Copy)]
pub struct Ring {
    /// Users, from number 0.
    pub users: usize,
    /// The wanted number of contacts of each user; see [`Ring::degree`] for the actual one.
    pub contacts: usize,
}

impl Ring {
    /// Returns the actual number of contacts of each user: an even number, unless all know each
    /// other.
    pub fn degree(&self) -> usize {
        let others = self.users.saturating_sub(1);
        if self.contacts >= others { others } else { self.contacts & !1 }
    }

    /// Returns the contacts of a user.
    pub fn of(&self, user: usize) -> impl Iterator<Item = usize> + use<> {
        let (degree, users) = (self.degree(), self.users.max(1));
        let everybody = degree + 1 >= users;
        let near = (0..degree).map(move |at| {
            let step = at / 2 + 1;
            match at % 2 {
                0 => (user + step) % users,
                _ => (user + users - step % users) % users,
            }
        });
        let all = (0..users).filter(move |other| *other != user);
        if everybody { Either::All(all) } else { Either::Near(near) }
    }
}

enum Either<A, B> {
    All(A),
    Near(B),
}

impl<A: Iterator<Item = usize>, B: Iterator<Item = usize>> Iterator for Either<A, B> {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        match self {
            Either::All(iterator) => iterator.next(),
            Either::Near(iterator) => iterator.next(),
        }
    }
}

impl ScenarioRun<'_> {
    /// Creates the rosters, unless they exist, and logs all users out again.
    ///
    /// # Errors
    /// Logins failed, or no subscription was granted for half a minute.
    pub fn make_rosters(&mut self, ring: Ring) -> BenchOutcome<()> {
        self.log_in(0..ring.users, "")?;
        let (threads, wanted) = (self.crew.threads(), (ring.users * ring.degree()) as u64);
        self.meter.doing(format!("rosters of {} users with {} contacts each", ring.users, ring.degree()));
        let domain = self.server.domain();
        let load = |thread| {
            let counters = self.crew.counters().get(thread).cloned().unwrap_or_default();
            let own = (0..ring.users).filter(|user| user % threads == thread);
            let members =
                own.map(|user| RosterMember { missing: ring.of(user).collect(), ..RosterMember::default() }).collect();
            RosterMaking { members, domain: domain.clone(), threads, thread, counters, begun: false }
        };
        let mut loads: Vec<RosterMaking> = (0..threads).map(load).collect();
        let before = self.crew.totals().get(LoadCount::Steps);
        let mut last = (0, std::time::Instant::now());
        let mut reached = 0;
        self.watch(&mut loads, |totals| {
            reached = totals.get(LoadCount::Steps) - before;
            if reached != last.0 {
                last = (reached, std::time::Instant::now());
            }
            reached >= wanted || last.1.elapsed() > PATIENCE
        })?;
        if reached < wanted {
            return Err(format!("{reached} of {wanted} subscriptions, and none more for half a minute").into());
        }
        self.rest(std::time::Duration::from_secs(1))?;
        self.hang_up(0..ring.users)?;
        self.rest(std::time::Duration::from_secs(2))
    }
}

/// The users of one thread.
struct RosterMaking {
    members: Vec<RosterMember>,
    domain: String,
    threads: usize,
    thread: usize,
    counters: std::sync::Arc<crate::engine::LoadCounters>,
    begun: bool,
}

#[derive(Default)]
struct RosterMember {
    /// Contacts that the roster doesn't have with both directions.
    missing: HashSet<usize>,
    /// Contacts that have granted this user's request.
    granted: HashSet<usize>,
    /// The missing contacts that have not been sent a request.
    unasked: Vec<usize>,
    /// The contacts that have been sent a request and have not granted it yet.
    asked: HashSet<usize>,
}

impl RosterMaking {
    /// Handles items of a roster, whole or pushed.
    fn items(&mut self, number: usize, query: &Child<'_>) {
        let Some(member) = self.members.get_mut(number / self.threads) else { return };
        for item in query.children().filter(|item| item.name() == "item") {
            let Some(contact) = item.attr("jid").and_then(|jid| contact(&jid)) else { continue };
            let state = item.attr("subscription");
            if matches!(state.as_deref(), Some("to" | "both")) {
                member.granted.insert(contact);
                member.asked.remove(&contact);
            }
            if state.as_deref() == Some("both") && member.missing.remove(&contact) {
                self.counters.add(LoadCount::Steps, 1);
            }
        }
    }

    /// Sends requests to some more contacts.
    fn ask(&mut self, number: usize, out: &mut Vec<u8>) {
        let Some(member) = self.members.get_mut(number / self.threads) else { return };
        while member.asked.len() < WINDOW
            && let Some(contact) = member.unasked.pop()
        {
            if !member.granted.contains(&contact) && member.asked.insert(contact) {
                presence(&chat::account(contact, &self.domain), "subscribe", out);
            }
        }
    }
}

impl WorkerLoad for RosterMaking {
    fn due(&mut self, _now: u64, worker: &mut LoadWorker) -> u64 {
        if !self.begun {
            self.begun = true;
            let request = format!("<iq type='get' id='{ROSTER}'><query xmlns='{}'/></iq>", ns::ROSTER);
            for slot in 0..self.members.len() {
                worker.send(slot * self.threads + self.thread, request.as_bytes());
            }
        }
        NEVER
    }

    fn stanza(&mut self, number: usize, stanza: &Stanza<'_>, _now: u64, out: &mut Vec<u8>) {
        match (stanza.kind(), stanza.type_().as_deref()) {
            (Kind::Iq, Some(kind @ ("result" | "set"))) => {
                let whole = kind == "result" && stanza.id().as_deref() == Some(ROSTER);
                if let Some(query) = stanza.child("query", ns::ROSTER) {
                    self.items(number, &query);
                }
                if whole && let Some(member) = self.members.get_mut(number / self.threads) {
                    // Only available resources get requests (RFC 6121 §3.1.3).
                    out.extend_from_slice(b"<presence/>");
                    member.unasked = member.missing.iter().copied().collect();
                }
                self.ask(number, out);
            }
            (Kind::Presence, Some("subscribe")) => {
                if let Some(from) = stanza.from() {
                    presence(rookery_xml::escape_attr(bare(&from)).as_ref(), "subscribed", out);
                }
            }
            _ => {}
        }
    }
}

fn presence(to: &str, kind: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(format!("<presence to='{to}' type='{kind}'/>").as_bytes());
}

fn bare(jid: &str) -> &str {
    jid.split_once('/').map_or(jid, |(bare, _)| bare)
}

/// Returns the number of an account of ours.
pub fn contact(jid: &str) -> Option<usize> {
    jid.strip_prefix("user")?.split_once('@')?.0.parse().ok()
}

const ROSTER: &str = "roster";
/// The most open requests of one user. A contact that has granted one doesn't count, so that users
/// don't wait for each other.
const WINDOW: usize = 16;
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(30);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contacts_are_mutual() {
        for (users, contacts, degree) in
            [(300, 299, 299), (900, 40, 40), (900, 41, 40), (5, 4, 4), (4, 9, 3), (1, 1, 0)]
        {
            let ring = Ring { users, contacts };
            assert_eq!(ring.degree(), degree);
            let of: Vec<HashSet<usize>> = (0..users).map(|user| ring.of(user).collect()).collect();
            for (user, contacts) in of.iter().enumerate() {
                assert_eq!(contacts.len(), degree, "{users} {contacts:?}");
                assert!(contacts.iter().all(|other| of[*other].contains(&user) && *other != user));
            }
        }
    }
}
