//! Limits messages and subscription requests between users who aren't contacts, because spam is of
//! that kind.
//!
//! Stanzas that a local account sends to strangers are counted at its home, and those to strangers
//! on other servers once more and over a longer time: a stolen account must not write to the whole
//! world. Stanzas from strangers on other servers to an account are counted at the home of that
//! account, for the account and for the sender's domain, where addresses cost nothing. Contacts are
//! known for accounts that are online. For others the store is asked, but only if it decides about
//! a refusal, and the reply to a sender is the same as for an account that doesn't exist.
//!
//! # Layout
//!
//! `outgoing` limits suspected spam from our own users; `written` is the set of strangers that
//! they have written to.

use rookery_base::Map;
use rookery_fanout::{Packet, StanzaType};
use rookery_hub::failure::condition;
use rookery_hub::{
    Bound, Delivery, Document, Hooks, Module, Most, OptionSpec, Options, Passage, Per, Phase, Stanzas, Step, Unit,
    Value, Wanted, World,
};
use rookery_jid::{Jid, JidRef};
use rookery_modkit::option;
use rookery_operations::newcomer::Newcomer;
use rookery_store::{StoreError, Subscription};
use rookery_stream::error::{Condition, ErrorType, StanzaError};
use rookery_xml::Kind;

mod outgoing;
mod written;

use outgoing::OutgoingCounts;
use written::{NAME, NEWCOMER_DAYS, NEWCOMER_PER_HOUR, SAME_TEXT, StrangersWritten, is_contact};

/// The module that limits stanzas between strangers.
#[derive(Debug)]
pub struct StrangersModule;

/// A shard's counts of stanzas between strangers in this minute.
#[derive(Debug, Default)]
struct StrangerCounts {
    /// Stanzas to strangers, by sending account.
    sent: Map<Jid, u64>,
    /// Stanzas from strangers on other servers, by receiving address.
    received: Map<Jid, u64>,
    /// The same by the sender's domain: messages, and requests for a subscription.
    messages_of: Map<String, u64>,
    requests_of: Map<String, u64>,
    /// The strangers on other servers to whom accounts have written.
    abroad: Map<Jid, StrangersWritten>,
}

impl Module for StrangersModule {
    fn name(&self) -> &'static str {
        NAME
    }

    fn summary(&self) -> &'static str {
        "messages between people who aren't contacts are limited, against spam"
    }

    fn standards(&self) -> &'static [(&'static str, &'static str)] {
        &[("XEP-0205", "1.0.2")]
    }

    fn options(&self) -> &'static [OptionSpec] {
        &OPTIONS
    }

    fn bounds(&self) -> &'static [Bound] {
        &BOUNDS
    }

    fn install(&self, hooks: &mut Hooks<'_>) {
        let stanzas = Stanzas::of(Kind::Message, &[StanzaType::Normal, StanzaType::Chat])
            .and(Stanzas::of(Kind::Presence, &[StanzaType::Subscribe]));
        hooks.state(StrangerCounts::default());
        let limited = Wanted::from(stanzas).where_options(|options| options.number(SENT) > 0);
        hooks.before_route(Phase::Guard, limited, going);
        hooks.document::<Newcomer>();
        hooks.state(OutgoingCounts::default());
        // Only newcomers pay for this.
        let of_newcomers = Wanted::from(stanzas).with_document(Newcomer::NAME).where_options(outgoing::is_limited);
        hooks.before_route(Phase::Guard, of_newcomers, outgoing::of_newcomer);
        let texts = Wanted::from(Stanzas::of(Kind::Message, &[StanzaType::Normal, StanzaType::Chat]));
        let texts = texts.where_options(|options| options.number(SAME_TEXT) > 0);
        hooks.before_route(Phase::Guard, texts, outgoing::text);
        hooks.abroad(stanzas, going_abroad);
        let limited =
            |options: &Options| options.switch(REFUSE) || OF_OTHERS.iter().any(|limit| options.number(limit) > 0);
        let limited = Wanted::from(stanzas).from_elsewhere().where_options(limited);
        hooks.before_delivery(Phase::Guard, limited, coming);
        hooks.every(MINUTE_MS, |world| {
            let now_ms = world.uptime_ms();
            let counts = world.state_mut::<StrangerCounts>();
            let mut abroad = std::mem::take(&mut counts.abroad);
            abroad.retain(|_, abroad| !abroad.is_over(now_ms));
            *counts = StrangerCounts { abroad, ..StrangerCounts::default() };
            world.state_mut::<OutgoingCounts>().sweep(now_ms);
        });
    }
}

fn going(world: &mut World, Passage { packet, to, .. }: Passage<'_>) -> Delivery {
    let Some(sender) = packet.sender() else { return Delivery::Pass };
    let limit = world.options(sender.domain(), NAME).map_or(0, |options| options.number(SENT));
    let is_own = sender.bare_str() == to.bare_str();
    if limit == 0 || is_own || to.local().is_none() || is_contact(world, sender.bare(), to) == Some(true) {
        return Delivery::Pass;
    }
    if count(&mut world.state_mut::<StrangerCounts>().sent, sender.bare()) <= limit {
        return Delivery::Pass;
    }
    refuse(world, packet, to, "you send too much to people who aren't among your contacts; try again in a minute")
}

fn going_abroad(world: &mut World, Passage { packet, to, .. }: Passage<'_>) -> Delivery {
    let Some(sender) = packet.sender().filter(|_| to.local().is_some()) else { return Delivery::Pass };
    let limit = world.options(sender.domain(), NAME).map_or(0, |options| options.number(ABROAD));
    let is_free = limit == 0 || is_contact(world, sender.bare(), to) == Some(true);
    if is_free || world.is_component(to.domain()) || may_go_abroad(world, sender.bare(), to, limit) {
        return Delivery::Pass;
    }
    refuse(
        world,
        packet,
        to,
        "you have written to too many users of other servers who aren't among your contacts; try again later",
    )
}

/// Counts a remote stranger to whom an account writes; returns `false` above the limit.
fn may_go_abroad(world: &mut World, account: JidRef<'_>, to: JidRef<'_>, per_hour: u64) -> bool {
    let now_ms = world.uptime_ms();
    let abroad = &mut world.state_mut::<StrangerCounts>().abroad;
    if abroad.len() >= MAX_ADDRESSES {
        abroad.clear();
    }
    abroad.entry(account.bare().to_jid()).or_default().may_write(to, per_hour, now_ms)
}

fn refuse(world: &mut World, packet: &Packet, to: JidRef<'_>, text: &'static str) -> Delivery {
    world.sight(packet, to, Step::Noted, || {
        "its recipient isn't a contact of the sender, who has already written to as many such people as allowed".into()
    });
    world.counters.outgoing_refused += 1;
    let error = StanzaError::new(Condition::PolicyViolation).with_type(ErrorType::Wait);
    world.bounce(packet, to, error.with_text(text));
    Delivery::Taken
}

fn coming(world: &mut World, Passage { packet, to, notes }: Passage<'_>) -> Delivery {
    if notes.is_cleared {
        return Delivery::Pass;
    }
    let Some(sender) = packet.sender().filter(|sender| !world.is_ours(sender.domain())) else { return Delivery::Pass };
    let Some(options) = world.options(to.domain(), NAME) else { return Delivery::Pass };
    let (limit, refuses) = (options.number(RECEIVED), options.switch(REFUSE) && packet.kind() == Kind::Message);
    let is_message = packet.kind() == Kind::Message;
    let domain_limit = options.number(if is_message { MESSAGES_OF_DOMAIN } else { REQUESTS_OF_DOMAIN });
    let contact = is_contact(world, to, sender.as_ref());
    if contact == Some(true) {
        return Delivery::Pass;
    }
    let is_too_much = count(&mut world.state_mut::<StrangerCounts>().received, to) > limit && limit > 0;
    let counts = world.state_mut::<StrangerCounts>();
    let of_domain = if packet.kind() == Kind::Message { &mut counts.messages_of } else { &mut counts.requests_of };
    let domain_sends_too_much = count_domain(of_domain, sender.domain()) > domain_limit && domain_limit > 0;
    let refusal = match (refuses, is_too_much, domain_sends_too_much) {
        (true, ..) => Condition::ServiceUnavailable.into(),
        (false, true, _) => Condition::ResourceConstraint.into(),
        (false, false, true) => StanzaError::new(Condition::PolicyViolation)
            .with_type(ErrorType::Wait)
            .with_text("users of your server send too much to people who aren't among their contacts"),
        (false, false, false) => return Delivery::Pass,
    };
    world.sight(packet, to, Step::Noted, || match (refuses, is_too_much) {
        (true, _) => "its sender is not in the roster, and the server refuses messages of strangers elsewhere".into(),
        (false, true) => format!("its sender is not in the roster, and strangers have sent more than {limit} in a minute"),
        (false, false) => {
            format!("its sender is not in the roster, and its domain has sent strangers more than {domain_limit} in a minute")
        }
    });
    match contact {
        Some(_) => world.bounce(packet, to, refusal),
        None => look_up(world, Passage { packet, to, notes }, &sender, refusal),
    }
    Delivery::Taken
}

/// Asks the store whether a sender is a contact of an account that has no session. Stanzas to one
/// account keep their order.
fn look_up(world: &mut World, Passage { packet, to, notes }: Passage<'_>, sender: &Jid, refusal: StanzaError) {
    let item = world.stores.rosters.item(to.bare(), sender.bare());
    let (packet, to, mut notes) = (packet.clone(), to.to_jid(), notes.clone());
    world.wait(item, move |world, item| {
        let passes = match item {
            Ok(item) => item.is_some_and(|item| item.subscription != Subscription::None),
            // The rules for addresses without an account apply.
            Err(StoreError::NoAccount) => true,
            Err(error) => {
                world.store_failed("looking up a contact", &to, &error);
                return world.bounce(&packet, to.as_ref(), condition(&error).into());
            }
        };
        if !passes {
            return world.bounce(&packet, to.as_ref(), refusal);
        }
        notes.is_cleared = true;
        world.deliver_noted(&packet, to.as_ref(), notes);
    });
}

/// Counts one more stanza for an address. If there are too many addresses, all are forgotten: an
/// attacker must not fill the memory.
fn count(counts: &mut Map<Jid, u64>, address: JidRef<'_>) -> u64 {
    if counts.len() >= MAX_ADDRESSES {
        counts.clear();
    }
    let count = counts.entry(address.bare().to_jid()).or_default();
    *count += 1;
    *count
}

/// Counts one more stanza for a domain.
fn count_domain(counts: &mut Map<String, u64>, domain: &str) -> u64 {
    if let Some(count) = counts.get_mut(domain) {
        *count += 1;
        return *count;
    }
    if counts.len() >= MAX_ADDRESSES {
        counts.clear();
    }
    counts.insert(domain.to_owned(), 1);
    1
}

const OPTIONS: [OptionSpec; 9] = [
    OptionSpec {
        key: SENT,
        default: || Value::Number(0),
        doc: "messages and subscription requests per minute that an account may send to people who aren't contacts; 0: no limit",
        check: option::any,
    },
    OptionSpec {
        key: RECEIVED,
        default: || Value::Number(600),
        doc: "the same, that an account may receive from all strangers on other servers together; 0: no limit",
        check: option::any,
    },
    OptionSpec {
        key: ABROAD,
        default: || Value::Number(500),
        doc: "users of other servers who aren't contacts that an account may write to, or ask for a subscription, at once and then per hour; 0: no limit",
        check: option::any,
    },
    OptionSpec {
        key: NEWCOMER_DAYS,
        default: || Value::Number(3),
        doc: "days for which an account created without an invitation counts as new; 0: none",
        check: option::any,
    },
    OptionSpec {
        key: NEWCOMER_PER_HOUR,
        default: || Value::Number(30),
        doc: "people who aren't contacts, here and elsewhere, that a new account may write to, or ask for a subscription, at once and then per hour; 0: no limit",
        check: option::any,
    },
    OptionSpec {
        key: SAME_TEXT,
        default: || Value::Number(0),
        doc: "people who aren't contacts to whom an account may send the same text within an hour, 1000 at most; 0: no limit",
        check: outgoing::is_countable,
    },
    OptionSpec {
        key: MESSAGES_OF_DOMAIN,
        default: || Value::Number(3000),
        doc: "messages per minute that users of one other domain may send to accounts of a shard that they aren't contacts of; 0: no limit",
        check: option::any,
    },
    OptionSpec {
        key: REQUESTS_OF_DOMAIN,
        default: || Value::Number(1000),
        doc: "the same for subscription requests; 0: no limit",
        check: option::any,
    },
    OptionSpec {
        key: REFUSE,
        default: || Value::Switch(false),
        doc: "true refuses messages from strangers on other servers; they can still ask for a subscription",
        check: option::any,
    },
];

const SENT: &str = "sent_per_minute";
const RECEIVED: &str = "received_per_minute";
const REFUSE: &str = "refuse_remote";
const ABROAD: &str = "abroad_per_hour";
const MESSAGES_OF_DOMAIN: &str = "domain_messages_per_minute";
const REQUESTS_OF_DOMAIN: &str = "domain_requests_per_minute";
/// The limits for stanzas from other servers.
const OF_OTHERS: [&str; 3] = [RECEIVED, MESSAGES_OF_DOMAIN, REQUESTS_OF_DOMAIN];
const MINUTE_MS: u64 = 60_000;
/// The most addresses for which a shard counts.
const MAX_ADDRESSES: usize = 100_000;

const BOUNDS: [Bound; 7] = [
    Bound::on(
        "strangers of other servers who are written to at once, and then in an hour",
        Per::Account,
        Most::Option(ABROAD),
        Unit::Number,
    )
    .or("one more gets <policy-violation/>"),
    Bound::on(
        "strangers that a new account writes to, at once and then in an hour",
        Per::Account,
        Most::Option(NEWCOMER_PER_HOUR),
        Unit::Number,
    )
    .or("one more gets <policy-violation/>, and the operators a report"),
    Bound::on("strangers who get the same text within an hour", Per::Account, Most::Option(SAME_TEXT), Unit::Number)
        .or("one more gets <policy-violation/>, and the operators a report"),
    Bound::on(
        "messages to strangers in a minute, on a shard",
        Per::Other("remote domain"),
        Most::Option(MESSAGES_OF_DOMAIN),
        Unit::Number,
    )
    .or("the sender of one more gets <policy-violation/>"),
    Bound::on(
        "subscription requests to strangers in a minute, on a shard",
        Per::Other("remote domain"),
        Most::Option(REQUESTS_OF_DOMAIN),
        Unit::Number,
    )
    .or("the sender of one more gets <policy-violation/>"),
    Bound::on(
        "messages and subscription requests to strangers in a minute",
        Per::Account,
        Most::Option(SENT),
        Unit::Number,
    )
    .or("one more gets <policy-violation/>"),
    Bound::on(
        "messages and subscription requests from strangers of other servers in a minute",
        Per::Account,
        Most::Option(RECEIVED),
        Unit::Number,
    )
    .or("the sender of one more gets <resource-constraint/>"),
];
