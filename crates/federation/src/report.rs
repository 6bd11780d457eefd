//! An operator's view of the streams, and the command that ends one.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::net::SocketAddr;

use rookery_stream::error::StreamError;

use crate::route::RouteState;
use crate::servers::{ConnectionKey, Machine, ServerStreams};

/// The direction of a stream's stanzas.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum StreamDirection {
    /// To another server.
    Outgoing,
    /// From another server.
    Incoming,
    /// In both directions, with a component.
    Component,
}

impl StreamDirection {
    /// Returns the direction whose [name](Self::name) this is; `None` if there is none.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Outgoing, Self::Incoming, Self::Component].into_iter().find(|direction| direction.name() == name)
    }

    /// Returns its name in metrics and lists.
    pub fn name(self) -> &'static str {
        match self {
            Self::Outgoing => "out",
            Self::Incoming => "in",
            Self::Component => "component",
        }
    }
}

/// A stream, or a way to a domain without one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct StreamReport {
    /// The other domain, or the component.
    pub remote: String,
    /// The domain of this server; empty if the stream doesn't name one.
    pub local: String,
    /// The direction of stanzas.
    pub direction: StreamDirection,
    /// The state: `ready`, or the step that it waits for.
    pub state: Cow<'static, str>,
    /// The proof of the other domain, in a few words; empty if there is no stream.
    pub security: Cow<'static, str>,
    /// The address of the other end.
    pub address: Option<SocketAddr>,
    /// The number of waiting stanzas.
    pub waiting: usize,
    /// Milliseconds since the last stanza.
    pub quiet_ms: u64,
    /// The reason for the last failure; empty if there was none.
    pub trouble: String,
    /// The connection.
    pub key: Option<ConnectionKey>,
}

/// Counts of streams, for metrics.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tally {
    /// Streams that are ready, by direction and proof of the other domain.
    pub ready: BTreeMap<(&'static str, &'static str), u64>,
    /// Ways that are looked for or negotiated.
    pub under_way: u64,
    /// Ways that aren't tried for a while, since they have failed.
    pub failed: u64,
    /// Connections that have proven nothing yet.
    pub strangers: u64,
    /// Stanzas that wait for other servers or components.
    pub waiting: u64,
}

impl ServerStreams {
    /// Returns all streams of the shard, and the ways that have none.
    pub fn report(&self) -> Vec<StreamReport> {
        let mut all = Vec::new();
        for (_, route) in &self.routes {
            let key = route.key();
            let stream = key.and_then(|key| self.streams.get(key.0 as usize));
            let security = match stream.map(|stream| &stream.machine) {
                Some(Machine::Out { machine, .. }) => machine.security(),
                Some(Machine::In { machine, .. }) => machine.security(&route.remote),
                _ => "",
            };
            all.push(StreamReport {
                remote: route.remote.to_string(),
                local: route.local.to_string(),
                direction: StreamDirection::Outgoing,
                state: state(&route.state).into(),
                security: security.into(),
                address: None,
                waiting: route.waiting(),
                quiet_ms: stream.map_or(0, |stream| self.now_ms.saturating_sub(stream.used_ms)),
                trouble: route.trouble.clone(),
                key,
            });
        }
        for (at, stream) in &self.streams {
            let quiet_ms = self.now_ms.saturating_sub(stream.used_ms);
            let report =
                |remote: &str, local: &str, direction, is_ready, security: &'static str, waiting| StreamReport {
                    remote: remote.to_owned(),
                    local: local.to_owned(),
                    direction,
                    state: match (stream.ended, is_ready) {
                        (true, _) => "closing",
                        (false, true) => "ready",
                        (false, false) => "proves itself",
                    }
                    .into(),
                    security: security.into(),
                    address: None,
                    waiting,
                    quiet_ms,
                    trouble: String::new(),
                    key: Some(ConnectionKey(at as u32)),
                };
            match &stream.machine {
                Machine::Out { machine, .. } if machine.is_bidi() && machine.is_ready() => {
                    let (remote, local, security) = (machine.remote(), machine.local(), machine.security());
                    all.push(report(remote, local, StreamDirection::Incoming, true, security, 0));
                }
                Machine::Out { .. } => {}
                Machine::In { machine, .. } => {
                    let local = machine.local().unwrap_or_default();
                    for domain in machine.proven() {
                        all.push(report(domain, local, StreamDirection::Incoming, true, machine.security(domain), 0));
                    }
                    if !machine.has_proven() {
                        let remote = machine.claimed().unwrap_or_default();
                        all.push(report(remote, local, StreamDirection::Incoming, false, "nothing", 0));
                    }
                }
                Machine::Component(attached) => {
                    let (name, is_ready) = (attached.machine.name(), attached.machine.has_proven());
                    let security = if is_ready { "secret" } else { "nothing" };
                    all.push(report(name, name, StreamDirection::Component, is_ready, security, attached.queue.len()));
                }
            }
        }
        all
    }

    /// Adds the shard's streams and ways to a tally.
    pub fn count(&self, tally: &mut Tally) {
        for (_, route) in &self.routes {
            tally.waiting += route.waiting() as u64;
            tally.under_way += u64::from(route.is_under_way());
            tally.failed +=
                u64::from(matches!(route.state, RouteState::Failed { until_ms, .. } if self.now_ms < until_ms));
        }
        for (_, stream) in &self.streams {
            let (direction, security) = match &stream.machine {
                Machine::Out { machine, .. } if machine.is_ready() => (StreamDirection::Outgoing, machine.security()),
                Machine::In { machine, .. } if machine.has_proven() => {
                    let first = machine.proven().next().unwrap_or_default();
                    (StreamDirection::Incoming, machine.security(first))
                }
                Machine::Component(attached) if attached.machine.has_proven() => {
                    tally.waiting += attached.queue.len() as u64;
                    (StreamDirection::Component, "secret")
                }
                Machine::Out { .. } => continue,
                Machine::In { .. } | Machine::Component(_) => {
                    tally.strangers += 1;
                    continue;
                }
            };
            *tally.ready.entry((direction.name(), security)).or_default() += 1;
        }
    }

    /// Ends all streams with a domain or component, and lets the way to it be tried at once. With
    /// `locals`, only streams of these domains of ours and of their subdomains. Returns the number
    /// of streams.
    pub fn close(&mut self, remote: &str, locals: Option<&[String]>) -> usize {
        let is_meant = |local: &str| locals.is_none_or(|locals| locals.iter().any(|domain| is_of(local, domain)));
        let mut closed = 0;
        for at in self.by_remote.get(remote).cloned().unwrap_or_default() {
            let Some(route) = self.routes.get_mut(at).filter(|route| is_meant(&route.local)) else { continue };
            route.failures = 0;
            closed += usize::from(!matches!(route.state, RouteState::Idle));
            self.give_up(at, &StreamError::Reset, "an operator has closed it");
        }
        let keys: Vec<usize> = self.streams.iter().map(|(key, _)| key).collect();
        for at in keys {
            let key = ConnectionKey(at as u32);
            let Some(stream) = self.streams.get_mut(at).filter(|stream| !stream.ended) else { continue };
            match &mut stream.machine {
                Machine::In { machine, .. } => {
                    let names_it = machine.proven().chain(machine.claimed()).any(|domain| domain == remote);
                    if names_it && is_meant(machine.local().unwrap_or_default()) {
                        let mut out = Vec::new();
                        machine.close(&StreamError::Reset, None, &mut out);
                        self.write(key, out);
                        self.end(key);
                        closed += 1;
                    }
                }
                Machine::Component(attached) if attached.machine.name() == remote && is_meant(remote) => {
                    self.dismiss(key, &StreamError::Reset);
                    closed += 1;
                }
                _ => {}
            }
        }
        closed
    }
}

/// Returns whether a host is a domain or below it.
pub fn is_of(host: &str, domain: &str) -> bool {
    host.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
}

fn state(state: &RouteState) -> &'static str {
    match state {
        RouteState::Idle => "at rest",
        RouteState::Resolving => "asks DNS",
        RouteState::Connecting { .. } => "connects",
        RouteState::Negotiating { .. } => "negotiates",
        RouteState::Ready { .. } => "ready",
        RouteState::Paused => "waits to resume",
        RouteState::Failed { .. } => "failed",
    }
}
