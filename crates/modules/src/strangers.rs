//! Limits for messages and subscription requests between those who are no contacts of each other:
//! what spam consists of.
//!
//! What a local account sends to strangers is counted at its home; what strangers of other servers
//! send to an account, at the home of that. Whether somebody is a contact is known of accounts that
//! are here. For others the store is asked, but only where it decides about a refusal, and the
//! answer to a sender is that for an account that doesn't exist.

use rookery_base::Map;
use rookery_fanout::StanzaType;
use rookery_hub::failure::condition;
use rookery_hub::{
    Bound, Delivery, Hooks, Module, Most, OptionSpec, Options, Passage, Per, Phase, Stanzas, Unit, Value, Wanted, World,
};
use rookery_jid::{Jid, JidRef};
use rookery_modkit::option;
use rookery_store::{StoreError, Subscription};
use rookery_stream::error::{Condition, ErrorType, StanzaError};
use rookery_xml::Kind;

/// Limits what strangers send.
#[derive(Debug)]
pub struct Strangers;

/// Counts what strangers have been sent in this minute, on a shard.
#[derive(Debug, Default)]
struct Counts {
    /// To strangers, by the account that sends.
    sent: Map<Jid, u64>,
    /// From strangers of other servers, by the address that receives.
    received: Map<Jid, u64>,
}

impl Module for Strangers {
    fn name(&self) -> &'static str {
        NAME
    }

    fn summary(&self) -> &'static str {
        "what strangers send is limited, against spam"
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
        hooks.state(Counts::default());
        let limited = Wanted::from(stanzas).where_options(|options| options.number(SENT) > 0);
        hooks.before_route(Phase::Guard, limited, going);
        let limited = |options: &Options| options.number(RECEIVED) > 0 || options.switch(REFUSE);
        let limited = Wanted::from(stanzas).from_elsewhere().where_options(limited);
        hooks.before_delivery(Phase::Guard, limited, coming);
        hooks.every(MINUTE_MS, |world| {
            let counts = world.state_mut::<Counts>();
            counts.sent = Map::default();
            counts.received = Map::default();
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
    if count(&mut world.state_mut::<Counts>().sent, sender.bare()) <= limit {
        return Delivery::Pass;
    }
    let error = StanzaError::new(Condition::PolicyViolation).with_type(ErrorType::Wait);
    world.bounce(packet, to, error.with_text("too much to those who are not among your contacts"));
    Delivery::Taken
}

fn coming(world: &mut World, Passage { packet, to, notes }: Passage<'_>) -> Delivery {
    if notes.is_cleared {
        return Delivery::Pass;
    }
    let Some(sender) = packet.sender().filter(|sender| !world.is_ours(sender.domain())) else { return Delivery::Pass };
    let Some(options) = world.options(to.domain(), NAME) else { return Delivery::Pass };
    let (limit, refuses) = (options.number(RECEIVED), options.switch(REFUSE) && packet.kind() == Kind::Message);
    let contact = is_contact(world, to, sender.as_ref());
    if contact == Some(true) {
        return Delivery::Pass;
    }
    let is_too_much = count(&mut world.state_mut::<Counts>().received, to) > limit && limit > 0;
    let refusal = match (refuses, is_too_much) {
        (true, _) => Condition::ServiceUnavailable,
        (false, true) => Condition::ResourceConstraint,
        (false, false) => return Delivery::Pass,
    };
    match contact {
        Some(_) => world.bounce(packet, to, refusal.into()),
        None => look_up(world, Passage { packet, to, notes }, &sender, refusal),
    }
    Delivery::Taken
}

/// Asks the store whether a sender is a contact of an account that has no session. Those to one
/// account keep their order.
fn look_up(world: &mut World, Passage { packet, to, notes }: Passage<'_>, sender: &Jid, refusal: Condition) {
    let item = world.stores.rosters.item(to.bare(), sender.bare());
    let (packet, to, mut notes) = (packet.clone(), to.to_jid(), notes.clone());
    world.wait(item, move |world, item| {
        let passes = match item {
            Ok(item) => item.is_some_and(|item| item.subscription != Subscription::None),
            // The rules for addresses without account apply.
            Err(StoreError::NoAccount) => true,
            Err(error) => {
                world.store_failed("looking up a contact", &to, &error);
                return world.bounce(&packet, to.as_ref(), condition(&error).into());
            }
        };
        if !passes {
            return world.bounce(&packet, to.as_ref(), refusal.into());
        }
        notes.is_cleared = true;
        world.deliver_noted(&packet, to.as_ref(), notes);
    });
}

/// Tells whether two share presence in either direction; `None` if the account is not here to tell.
fn is_contact(world: &World, account: JidRef<'_>, contact: JidRef<'_>) -> Option<bool> {
    world.subscription(account, contact).map(|subscription| subscription != Subscription::None)
}

/// Counts one more for an address. Too many addresses at once are forgotten together: an attacker
/// must not fill the memory.
fn count(counts: &mut Map<Jid, u64>, address: JidRef<'_>) -> u64 {
    if counts.len() >= MAX_ADDRESSES {
        counts.clear();
    }
    let count = counts.entry(address.bare().to_jid()).or_default();
    *count += 1;
    *count
}

const NAME: &str = "strangers";

const OPTIONS: [OptionSpec; 3] = [
    OptionSpec {
        key: SENT,
        default: || Value::Number(0),
        doc: "messages and subscription requests per minute that an account may send to those who are no contacts; 0: no limit",
        check: option::any,
    },
    OptionSpec {
        key: RECEIVED,
        default: || Value::Number(600),
        doc: "the same that an account may get from strangers of other servers together; 0: no limit",
        check: option::any,
    },
    OptionSpec {
        key: REFUSE,
        default: || Value::Switch(false),
        doc: "whether messages of strangers of other servers are refused; they can still ask for a subscription",
        check: option::any,
    },
];

const SENT: &str = "sent_per_minute";
const RECEIVED: &str = "received_per_minute";
const REFUSE: &str = "refuse_remote";
const MINUTE_MS: u64 = 60_000;
/// Addresses that a shard counts for.
const MAX_ADDRESSES: usize = 100_000;

const BOUNDS: [Bound; 2] = [
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
