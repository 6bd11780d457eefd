//! Bounds the recipients of a stanza, a limit that the service announces (XEP-0033 §6, in
//! ejabberd's form), and the bytes that a sender may have multiplied.
//!
//! One message of 100 KB for a hundred recipients is stored a hundred times or more: in their
//! archives, and once again for those who are offline. So the limit is on bytes times recipients,
//! per minute.

use rookery_base::{Bucket, Map};
use rookery_hub::Options;
use rookery_xml::{Element, Kind, ns};

/// The key below `[modules]`.
pub(crate) const NAME: &str = "multicast";

pub(super) const LOCAL_MESSAGES: &str = "local_messages";
pub(super) const LOCAL_PRESENCES: &str = "local_presences";
pub(super) const REMOTE_MESSAGES: &str = "remote_messages";
pub(super) const REMOTE_PRESENCES: &str = "remote_presences";

/// Bytes times recipients that a sender may have in a minute; 0 for no limit.
pub(super) const MINUTE_BYTES: &str = "minute_bytes";

/// The debts of senders for multiplied bytes, in milliseconds: of local ones by bare JID, of others
/// by domain. An entry without debt is soon dropped.
#[derive(Debug, Default)]
pub(super) struct Spent(Map<Box<str>, Bucket>);

impl Spent {
    /// Charges a sender for a message. Returns `false` if the message exceeds what is left of the
    /// sender's minute. A sender without debt may have any message.
    pub(super) fn charge(&mut self, sender: &str, bytes: u64, minute_bytes: u64, now_ms: u64) -> bool {
        let Some(cost_ms) = bytes.saturating_mul(MINUTE_MS).checked_div(minute_bytes) else { return true };
        if self.0.len() >= MOST_SENDERS {
            self.0.retain(|_, owed| owed.level(now_ms) > 0);
        }
        let owed_ms = self.0.get(sender).map_or(0, |owed| owed.level(now_ms));
        let is_allowed = owed_ms == 0 || owed_ms.saturating_add(cost_ms) <= MINUTE_MS;
        if is_allowed && cost_ms > 0 {
            self.0.entry(sender.into()).or_default().put(cost_ms, now_ms);
        }
        is_allowed
    }
}

const MINUTE_MS: u64 = 60_000;
/// The number of senders above which those without debt are dropped.
const MOST_SENDERS: usize = 10_000;

/// Returns the limit for a stanza; `None` if there is none.
pub(super) fn of(options: &Options, is_local: bool, kind: Kind) -> Option<usize> {
    let key = match (is_local, kind) {
        (true, Kind::Presence) => LOCAL_PRESENCES,
        (true, _) => LOCAL_MESSAGES,
        (false, Kind::Presence) => REMOTE_PRESENCES,
        (false, _) => REMOTE_MESSAGES,
    };
    Some(options.number(key)).filter(|&limit| limit > 0).map(|limit| limit as usize)
}

/// Returns the form with the asker's limits. A limit that doesn't exist has no field.
pub(super) fn form(options: &Options, is_local: bool) -> Element {
    let field = |var: &str, value: &str| {
        let value = Element::new("value", ns::DATA_FORMS).with_text(value);
        Element::new("field", ns::DATA_FORMS).with_attr("var", var).with_child(value)
    };
    let form = Element::new("x", ns::DATA_FORMS).with_attr("type", "result");
    let form = form.with_child(field("FORM_TYPE", ns::ADDRESS).with_attr("type", "hidden"));
    [("message", Kind::Message), ("presence", Kind::Presence)].into_iter().fold(form, |form, (var, kind)| {
        match of(options, is_local, kind) {
            Some(limit) => form.with_child(field(var, &limit.to_string())),
            None => form,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sender_pays_for_bytes_times_recipients() {
        let mut spent = Spent::default();
        let mut charge = |sender, bytes, now_ms| spent.charge(sender, bytes, 60_000, now_ms);
        assert!(charge("a@x", 50_000, 0) && charge("a@x", 10_000, 0) && !charge("a@x", 1000, 0));
        assert!(charge("b@x", 60_000, 0), "each for itself");
        assert!(!charge("a@x", 1000, 999) && charge("a@x", 1000, 1000), "it comes back with time");
        assert!(charge("c@x", 1_000_000, 0) && !charge("c@x", 1, 900_000) && charge("c@x", 1, 1_000_000));
        assert!(spent.charge("a@x", u64::MAX, 0, 0), "0 is no limit");
    }

    #[test]
    fn senders_without_debt_are_forgotten() {
        let mut spent = Spent::default();
        for number in 0..3 * MOST_SENDERS as u64 {
            assert!(spent.charge(&number.to_string(), 1000, 60_000, number * 10));
        }
        // Each owes for one second, and a hundred arrive per second.
        let last = 3 * MOST_SENDERS as u64 - 1;
        assert!(
            (last - 98..=last).all(|number| spent.0.contains_key(number.to_string().as_str())),
            "a sender with debt isn't forgotten"
        );
        assert!(spent.0.len() <= MOST_SENDERS);
    }
}
