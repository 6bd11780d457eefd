//! Limits stanzas from our own users to strangers, for which other servers would block this one:
//! the number of strangers to whom a new account may write, and the number to whom anyone may send
//! the same text.
//!
//! An account that exceeds a limit gets an error, and the operators are told once an hour: by a
//! line in the log and in the list of abuse reports, from which they can disable it.

use std::hash::BuildHasher;

use rookery_base::{Map, Set};
use rookery_fanout::Packet;
use rookery_hub::{Delivery, Options, Passage, Step, Value, World};
use rookery_jid::{Jid, JidRef};
use rookery_operations::events::{self, EventKind};
use rookery_operations::newcomer::Newcomer;
use rookery_operations::reports::{self, AbuseReport};
use rookery_stream::error::{Condition, ErrorType, StanzaError};
use rookery_xml::ns;
use tracing::warn;

use super::written::{HOUR_MS, NAME, NEWCOMER_DAYS, NEWCOMER_PER_HOUR, SAME_TEXT, StrangersWritten, is_contact};

/// The counts of a shard's accounts.
#[derive(Debug, Default)]
pub(super) struct OutgoingCounts {
    /// The strangers to whom newcomers have written.
    newcomers: Map<Jid, StrangersWritten>,
    /// The latest texts of accounts.
    texts: Map<Jid, Vec<SentText>>,
    /// The accounts that were reported to the operators within the hour, with the time.
    told_ms: Map<Jid, u64>,
}

/// A text that an account has sent to strangers.
#[derive(Debug)]
struct SentText {
    hash: u64,
    /// The time of the first copy.
    since_ms: u64,
    /// The hashes of its recipients.
    recipients: Set<u64>,
}

impl OutgoingCounts {
    /// Drops entries older than an hour.
    pub fn sweep(&mut self, now_ms: u64) {
        self.newcomers.retain(|_, written| !written.is_over(now_ms));
        self.texts.retain(|_, texts| texts.iter().any(|text| text.since_ms + HOUR_MS > now_ms));
        self.told_ms.retain(|_, told_ms| *told_ms + HOUR_MS > now_ms);
    }
}

/// Returns whether options limit newcomers.
pub(super) fn is_limited(options: &Options) -> bool {
    options.number(NEWCOMER_DAYS) > 0 && options.number(NEWCOMER_PER_HOUR) > 0
}

/// Checks a stanza from an account that is, or was, new.
pub(super) fn of_newcomer(world: &mut World, Passage { packet, to, .. }: Passage<'_>) -> Delivery {
    let Some(sender) = to_stranger(world, packet, to) else { return Delivery::Pass };
    let Some(options) = world.options(sender.domain(), NAME) else { return Delivery::Pass };
    let (days, per_hour) = (options.number(NEWCOMER_DAYS), options.number(NEWCOMER_PER_HOUR));
    let until = |newcomer: &Newcomer| newcomer.since_ms.saturating_add(days.saturating_mul(DAY_MS));
    let is_new = world.document::<Newcomer>(sender.bare()).is_some_and(|newcomer| until(&newcomer) > world.time());
    if !is_new || may_write(world, sender.bare(), to, per_hour) {
        return Delivery::Pass;
    }
    let told = "your account is new, and has already written to as many people outside your contacts as allowed; try again later";
    refuse(world, packet, to, "a new account that writes to too many strangers", told)
}

/// Checks a message with a text.
pub(super) fn text(world: &mut World, Passage { packet, to, .. }: Passage<'_>) -> Delivery {
    let Some(sender) = to_stranger(world, packet, to) else { return Delivery::Pass };
    let limit = world.options(sender.domain(), NAME).map_or(0, |options| options.number(SAME_TEXT));
    if limit == 0 || may_repeat(world, packet, sender.bare(), to, limit) {
        return Delivery::Pass;
    }
    let told = "you have already sent this text to as many people outside your contacts as allowed; try again later";
    refuse(world, packet, to, "it sends the same text to too many strangers", told)
}

/// Returns the sender of a stanza to a stranger.
fn to_stranger(world: &World, packet: &Packet, to: JidRef<'_>) -> Option<Jid> {
    let sender = packet.sender()?;
    let is_other = to.local().is_some() && sender.bare_str() != to.bare_str();
    (is_other && is_contact(world, sender.bare(), to) != Some(true)).then_some(sender)
}

fn may_write(world: &mut World, account: JidRef<'_>, to: JidRef<'_>, per_hour: u64) -> bool {
    let now_ms = world.uptime_ms();
    let newcomers = &mut world.state_mut::<OutgoingCounts>().newcomers;
    if newcomers.len() >= MOST_ACCOUNTS {
        newcomers.clear();
    }
    newcomers.entry(account.to_jid()).or_default().may_write(to, per_hour, now_ms)
}

/// Notes that a stranger gets a text; returns `false` if the limit within the hour is reached.
fn may_repeat(world: &mut World, packet: &Packet, account: JidRef<'_>, to: JidRef<'_>, limit: u64) -> bool {
    let Some(text) = gist(packet) else { return true };
    let now_ms = world.uptime_ms();
    let texts = &mut world.state_mut::<OutgoingCounts>().texts;
    let (hash, recipient) = (texts.hasher().hash_one(&text), texts.hasher().hash_one(to.bare_str()));
    if texts.len() >= MOST_ACCOUNTS {
        texts.clear();
    }
    let texts = texts.entry(account.to_jid()).or_default();
    texts.retain(|text| text.since_ms + HOUR_MS > now_ms);
    let at = texts.iter().position(|text| text.hash == hash).unwrap_or_else(|| {
        if texts.len() >= MOST_TEXTS {
            // The text with the fewest recipients is the least likely to be spam.
            let least = texts.iter().enumerate().min_by_key(|(_, text)| text.recipients.len());
            let least = least.map_or(0, |(at, _)| at);
            texts.swap_remove(least);
        }
        texts.push(SentText { hash, since_ms: now_ms, recipients: Set::default() });
        texts.len() - 1
    });
    let recipients = &mut texts[at].recipients;
    if recipients.contains(&recipient) {
        return true;
    }
    let fits = (recipients.len() as u64) < limit.min(MOST_RECIPIENTS);
    if fits {
        recipients.insert(recipient);
    }
    fits
}

/// Returns the letters of a message's text: numbers, blanks and signs vary within the same text.
/// `None` for a common text, such as a greeting.
fn gist(packet: &Packet) -> Option<String> {
    let stanza = packet.stanza();
    let body = stanza.children().find(|child| child.is("body", ns::CLIENT))?.element().text();
    let letters: String = body.chars().filter(|char| char.is_alphabetic()).flat_map(char::to_lowercase).collect();
    (letters.chars().count() >= FEW_LETTERS).then_some(letters)
}

fn refuse(world: &mut World, packet: &Packet, to: JidRef<'_>, why: &'static str, told: &'static str) -> Delivery {
    world.sight(packet, to, Step::Noted, || format!("refused: {why}"));
    world.counters.outgoing_refused += 1;
    if let Some(sender) = packet.sender() {
        tell_operators(world, &sender.to_bare(), why);
    }
    let error = StanzaError::new(Condition::PolicyViolation).with_type(ErrorType::Wait);
    world.bounce(packet, to, error.with_text(told));
    Delivery::Taken
}

/// Reports an account to the operators, once an hour.
fn tell_operators(world: &mut World, account: &Jid, why: &'static str) {
    let now_ms = world.uptime_ms();
    let told_ms = &mut world.state_mut::<OutgoingCounts>().told_ms;
    if told_ms.len() >= MOST_ACCOUNTS || told_ms.get(account).is_some_and(|told_ms| told_ms + HOUR_MS > now_ms) {
        return;
    }
    told_ms.insert(account.clone(), now_ms);
    warn!(%account, why, "an account was stopped from sending what looks like spam; if it is spam, disable the account");
    let Ok(server) = Jid::parse(account.domain()) else { return };
    let serial = world.unique_text();
    let report = AbuseReport::new(world.time(), &serial, server, account.clone(), "urn:xmpp:reporting:spam", why);
    let fields = vec![
        ("by", account.domain().to_owned()),
        ("about", account.to_string()),
        ("reason", "spam".to_owned()),
        ("text", why.to_owned()),
    ];
    events::note(world, account.domain(), EventKind::Reported, fields);
    let (kept, account) = (reports::keep(&world.stores, account.domain(), &report), account.clone());
    world.wait(kept, move |world, kept| {
        if let Err(error) = kept {
            world.store_failed("keeping a report of abuse", &account, &error);
        }
    });
}

/// Accepts a number of recipients that can be counted.
pub(super) fn is_countable(value: &Value) -> Result<(), String> {
    match value {
        Value::Number(number) if *number > MOST_RECIPIENTS => Err(format!("at most {MOST_RECIPIENTS} are counted")),
        _ => Ok(()),
    }
}

const DAY_MS: u64 = 24 * HOUR_MS;
/// The fewest letters of a text that is compared.
const FEW_LETTERS: usize = 12;
/// The most accounts of a shard that are counted.
const MOST_ACCOUNTS: usize = 5000;
/// The most texts of one account that are compared.
const MOST_TEXTS: usize = 8;
/// The most recipients of one text that are counted.
pub(super) const MOST_RECIPIENTS: u64 = 1000;
