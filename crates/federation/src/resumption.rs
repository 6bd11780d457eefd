//! Streams of other servers that have broken and may go on over another connection (XEP-0198 §5).
//!
//! What is kept of one is how many of its stanzas were handed on: enough to tell its server which
//! of them to send again.
//!
//! # Invariants
//!
//! - A stream goes on for the domain that it was proven for, towards the same domain of ours. Its
//!   name can't be guessed besides.
//! - When it goes on elsewhere, nothing more that comes over its old connection counts.

use rookery_base::Map;
use rookery_stream::error::StreamError;

use crate::inbound::{Inbound, Managed};
use crate::servers::{Key, Servers, Timer};
use crate::stream_id;

/// The streams that may be resumed here.
#[derive(Debug, Default)]
pub(crate) struct Resumable {
    /// Those that have a connection, by their names.
    live: Map<Box<str>, Key>,
    /// Those that have none, by the domains that they speak for.
    broken: Map<Box<str>, Vec<Broken>>,
    number: usize,
    is_watched: bool,
}

#[derive(Debug)]
struct Broken {
    id: Box<str>,
    local: Box<str>,
    handled: u32,
    until_ms: u64,
}

impl Servers {
    /// Acknowledges the stanzas of a stream from now on.
    pub(crate) fn enable(&mut self, key: Key, may_resume: bool) {
        let id: Option<Box<str>> = may_resume.then(|| stream_id().into());
        if let Some(id) = &id {
            self.resumable.live.insert(id.clone(), key);
        }
        let mut out = Vec::new();
        if let Some(machine) = self.inbound_mut(key) {
            machine.enabled(id, KEPT_MS / 1000, &mut out);
        }
        self.write(key, out);
    }

    /// Lets a stream go on where another one was, whose connection may still seem to be alive.
    pub(crate) fn resume(&mut self, key: Key, id: Box<str>) {
        let Some(machine) = self.inbound(key) else { return };
        let (Some(remote), Some(local)) = (machine.proven().next().map(Box::<str>::from), machine.local()) else {
            return;
        };
        let local = Box::<str>::from(local);
        let handled = self.take_live(&id, &remote, &local).or_else(|| self.take_broken(&id, &remote, &local));
        let mut out = Vec::new();
        let Some(machine) = self.inbound_mut(key) else { return };
        let ends = match handled {
            Some(handled) => {
                machine.resumed(id.clone(), handled, &mut out);
                self.resumable.live.insert(id, key);
                false
            }
            None => machine.not_resumed(&mut out).is_some(),
        };
        self.write(key, out);
        if ends {
            self.end(key);
        }
    }

    /// A stream is gone: keeps what it takes to go on with it.
    pub(crate) fn keep(&mut self, machine: &mut Inbound) {
        if let Some(id) = machine.managed_id() {
            self.resumable.live.remove(id);
        }
        let Some(Managed { handled, id: Some(id), .. }) = machine.take_managed() else { return };
        let (Some(remote), Some(local)) = (machine.proven().next(), machine.local()) else { return };
        let resumable = &mut self.resumable;
        let of_domain = resumable.broken.entry(remote.into()).or_default();
        if of_domain.len() >= MOST_OF_DOMAIN {
            of_domain.remove(0);
            resumable.number -= 1;
        }
        if resumable.number < MOST_KEPT {
            resumable.number += 1;
            of_domain.push(Broken { id, local: local.into(), handled, until_ms: self.now_ms + KEPT_MS });
        }
        if !std::mem::replace(&mut resumable.is_watched, true) {
            self.set_timer(KEPT_MS, Timer::Broken);
        }
    }

    /// Forgets streams that nobody has gone on with.
    pub(crate) fn forget_broken(&mut self) {
        let (resumable, now_ms) = (&mut self.resumable, self.now_ms);
        let mut next = None;
        resumable.broken.retain(|_, streams| {
            streams.retain(|stream| stream.until_ms > now_ms);
            next = next.into_iter().chain(streams.first().map(|stream| stream.until_ms)).min();
            !streams.is_empty()
        });
        resumable.number = resumable.broken.values().map(Vec::len).sum();
        resumable.is_watched = next.is_some();
        if let Some(next) = next {
            self.set_timer(next - now_ms, Timer::Broken);
        }
    }

    fn take_live(&mut self, id: &str, remote: &str, local: &str) -> Option<u32> {
        let key = *self.resumable.live.get(id)?;
        let machine = self.inbound_mut(key)?;
        if machine.proven().next() != Some(remote) || machine.local() != Some(local) {
            return None;
        }
        let Managed { handled, .. } = machine.take_managed()?;
        let mut out = Vec::new();
        machine.close(&StreamError::Conflict, Some("The stream goes on over another connection."), &mut out);
        self.write(key, out);
        self.end(key);
        Some(handled)
    }

    fn take_broken(&mut self, id: &str, remote: &str, local: &str) -> Option<u32> {
        let streams = self.resumable.broken.get_mut(remote)?;
        let at = streams.iter().position(|stream| *stream.id == *id && *stream.local == *local)?;
        let Broken { handled, .. } = streams.remove(at);
        self.resumable.number -= 1;
        if streams.is_empty() {
            self.resumable.broken.remove(remote);
        }
        Some(handled)
    }
}

/// The time for which a broken stream may be resumed.
pub const KEPT_MS: u64 = 300_000;
/// Broken streams of one domain.
pub const MOST_OF_DOMAIN: usize = 16;
/// Broken streams of all domains.
pub const MOST_KEPT: usize = 10_000;
