//! Limits the rate at which other servers may send: if a domain sends faster, all streams that
//! speak for it are read later, and nothing is dropped.
//!
//! Each domain has a bucket of bytes and stanzas that empties with time, as a client's session has.
//! A server that floods delays only itself. An operator may give a smaller bucket to domains to
//! which no user here has written yet: spam comes from servers that were set up for it.

use rookery_base::{Bucket, Map, Set};

use crate::servers::{Action, ConnectionKey, Machine, ServerStreams};
use crate::settings::FederationSettings;
use crate::timers::StreamTimer;

/// The buckets of domains, in microseconds.
#[derive(Debug, Default)]
pub(crate) struct DomainIntake {
    buckets: Map<Box<str>, Bucket>,
    /// Domains to which users here have written.
    known: Set<Box<str>>,
}

impl DomainIntake {
    /// Notes that a user here has written to a domain.
    pub(crate) fn wrote_to(&mut self, domain: &str) {
        if self.known.contains(domain) {
            return;
        }
        if self.known.len() >= MOST_KNOWN {
            self.known.clear();
        }
        self.known.insert(domain.into());
    }

    /// Charges a domain. Returns the milliseconds for which it has to wait if it was too fast.
    fn charge(
        &mut self,
        domain: &str,
        bytes: usize,
        stanzas: u64,
        settings: &FederationSettings,
        now_ms: u64,
    ) -> Option<u64> {
        let is_new = settings.newcomer_stanzas > 0 && !self.known.contains(domain);
        let per_second = if is_new { settings.newcomer_stanzas } else { settings.stanzas_per_second };
        let of_bytes = (bytes as u64).saturating_mul(SECOND_US).checked_div(settings.bytes_per_second);
        let of_stanzas = stanzas.saturating_mul(SECOND_US).checked_div(per_second);
        let cost = of_bytes.unwrap_or_default().max(of_stanzas.unwrap_or_default());
        let now_us = now_ms * 1000;
        if !self.buckets.contains_key(domain) && self.buckets.len() >= MOST_KNOWN {
            self.buckets.retain(|_, bucket| bucket.level(now_us) > 0);
        }
        let ahead = self.buckets.entry(domain.into()).or_default().put(cost, now_us);
        let burst = settings.burst_seconds.saturating_mul(SECOND_US);
        (ahead > burst).then(|| (ahead - burst).div_ceil(1000))
    }
}

impl ServerStreams {
    /// Charges the domain of a stream for its input, and stops reading from the stream if that was
    /// too much.
    pub(crate) fn charge(&mut self, key: ConnectionKey, bytes: usize, stanzas: u64) {
        let Some(stream) = self.streams.get(key.0 as usize).filter(|stream| !stream.ended) else { return };
        let serial = stream.serial;
        let domain = match &stream.machine {
            Machine::In { machine, .. } => machine.proven().next(),
            Machine::Out { machine, .. } if machine.is_bidi() => Some(machine.remote()),
            Machine::Out { .. } | Machine::Component(_) => None,
        };
        let Some(domain) = domain else { return };
        if let Some(wait_ms) = self.intake.charge(domain, bytes, stanzas, &self.settings, self.now_ms) {
            self.actions.push_back(Action::Pause(key, true));
            self.set_timer(wait_ms, StreamTimer::Read(key, serial));
        }
    }

    /// Reads again from a stream that was too fast.
    pub(crate) fn read_again(&mut self, key: ConnectionKey) {
        self.actions.push_back(Action::Pause(key, false));
    }
}

const SECOND_US: u64 = 1_000_000;
/// The most domains that a shard remembers, as written to or as recent senders.
pub(crate) const MOST_KNOWN: usize = 50_000;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Secret;

    #[test]
    fn a_domain_that_floods_waits_and_others_do_not() {
        let mut settings = FederationSettings::new(Secret::new(b"secret"));
        (settings.stanzas_per_second, settings.bytes_per_second, settings.burst_seconds) = (10, 1000, 2);
        let mut intake = DomainIntake::default();
        assert_eq!(intake.charge("a.example", 10, 20, &settings, 0), None, "a burst");
        assert_eq!(intake.charge("a.example", 10, 1, &settings, 0), Some(100));
        assert_eq!(intake.charge("b.example", 2000, 1, &settings, 0), None);
        assert_eq!(intake.charge("b.example", 500, 1, &settings, 0), Some(500), "bytes count, too");
        assert_eq!(intake.charge("a.example", 10, 1, &settings, 300), None);
        settings.newcomer_stanzas = 1;
        intake.wrote_to("c.example");
        assert_eq!(intake.charge("c.example", 1, 10, &settings, 0), None);
        assert_eq!(intake.charge("d.example", 1, 10, &settings, 0), Some(8000), "nobody knows it");
        (settings.stanzas_per_second, settings.bytes_per_second, settings.newcomer_stanzas) = (0, 0, 0);
        assert_eq!(intake.charge("e.example", 1 << 30, 1 << 30, &settings, 0), None, "there are no limits");
    }

    #[test]
    fn what_is_remembered_of_domains_is_bounded() {
        let settings = FederationSettings::new(Secret::new(b"secret"));
        let mut intake = DomainIntake::default();
        for number in 0..2 * MOST_KNOWN as u64 {
            intake.charge(&format!("{number}.example"), 1, 1, &settings, number * 10);
            intake.wrote_to(&format!("{number}.example"));
        }
        assert!(intake.buckets.len() <= MOST_KNOWN && intake.known.len() <= MOST_KNOWN);
    }
}
