//! Streams that outlive the certificate that proved them (RFC 6120 §13.7.2.3).
//!
//! They end with `<reset/>`, and their servers open new ones, with a certificate that is checked
//! again. Stanzas that wait for such a stream of ours leave with the next one.

use rookery_stream::error::StreamError;
use rookery_stream::tls::trust::{Names, Untrusted};

use crate::servers::{ConnectionKey, Machine, ServerStreams};
use crate::timers::StreamTimer;

impl ServerStreams {
    /// Remembers the expiry of a stream's certificate, and the other results of the check.
    pub(crate) fn holds_until(&mut self, key: ConnectionKey, shown: &Result<Names, Untrusted>) {
        let Ok(names) = shown else { return };
        let until_ms = self.now_ms.saturating_add(names.valid_s().saturating_mul(1000));
        if let Some(stream) = self.streams.get_mut(key.0 as usize) {
            let known_ms = stream.certified_until_ms.unwrap_or(u64::MAX);
            stream.certified_until_ms = Some(until_ms.min(known_ms));
        }
    }

    /// Checks streams again when the trusted authorities have changed: a server that was proven by
    /// a certificate has to prove itself again.
    pub fn judge_again(&mut self) {
        let certified = self.streams.iter().filter(|(_, stream)| stream.certified_until_ms.is_some());
        let keys: Vec<ConnectionKey> = certified.map(|(key, _)| ConnectionKey(key as u32)).collect();
        for key in keys {
            if let Some(stream) = self.streams.get_mut(key.0 as usize) {
                stream.certified_until_ms = Some(self.now_ms);
                self.renew(key);
            }
        }
    }

    /// Ends a stream whose certificate has expired. Returns `false` if it hasn't.
    pub(crate) fn renew(&mut self, key: ConnectionKey) -> bool {
        let now_ms = self.now_ms;
        let Some(stream) = self.streams.get_mut(key.0 as usize) else { return false };
        if stream.certified_until_ms.is_none_or(|until_ms| now_ms < until_ms) {
            return false;
        }
        let serial = stream.serial;
        let mut out = Vec::new();
        match &mut stream.machine {
            // Stanzas are under way, though not for long.
            Machine::In { carries: Some(route), .. } if self.routes.get(*route).is_some_and(|route| !route.rests()) => {
                self.set_timer(SOON_MS, StreamTimer::Idle(key, serial));
            }
            Machine::In { machine, carries, .. } => {
                let carried = *carries;
                machine.close(&StreamError::Reset, Some(EXPIRED), &mut out);
                self.write(key, out);
                carried.into_iter().for_each(|route| self.has_read_all(route));
                self.end(key);
            }
            Machine::Out { machine, route, .. } if self.routes.get(*route).is_some_and(|route| route.rests()) => {
                let route = *route;
                machine.close(Some(&StreamError::Reset), &mut out);
                self.write(key, out);
                self.end(key);
                self.has_read_all(route);
                self.broken(route, EXPIRED);
            }
            // A component shows no certificate.
            Machine::Component(_) => return false,
            // Stanzas are under way, though not for long.
            Machine::Out { .. } => self.set_timer(SOON_MS, StreamTimer::Idle(key, serial)),
        }
        true
    }
}

const EXPIRED: &str = "The certificate has to be shown again.";
/// The time until a stream with stanzas under way is checked again.
const SOON_MS: u64 = 1_000;
