//! XEP-0012: Last Activity. The uptime of a server, the time when an account was last online, and
//! the right to ask a resource.
//!
//! The time of an account is that of its last unavailable presence, which the hub stores for
//! probes; so it is only known for accounts that were available. Only those who may see the
//! account's presence learn it (§7), and others can't learn whether the account exists: both cases
//! get `forbidden`.

use rookery_fanout::StanzaType;
use rookery_hub::failure::condition;
use rookery_hub::{Delivery, Hooks, Iq, Module, Passage, Phase, Stanzas, Target, Wanted, World};
use rookery_modkit::asker::{Asker, with_asker};
use rookery_modkit::request::is_get;
use rookery_store::LastSeen;
use rookery_stream::error::Condition;
use rookery_xml::{Element, Kind, ns};

/// The module that tells when an account was last active.
#[derive(Debug)]
pub struct LastActivity;

impl Module for LastActivity {
    fn name(&self) -> &'static str {
        "last_activity"
    }

    fn summary(&self) -> &'static str {
        "contacts can see when somebody was last online, and everybody how long the server has been running"
    }

    fn standards(&self) -> &'static [(&'static str, &'static str)] {
        &[("XEP-0012", "2.0")]
    }

    fn install(&self, hooks: &mut Hooks<'_>) {
        hooks.feature(Target::Server, ns::LAST_ACTIVITY);
        hooks.feature(Target::Account, ns::LAST_ACTIVITY);
        hooks.iq(Target::Server, ns::LAST_ACTIVITY, |world, iq| {
            if is_get(world, &iq, "query") {
                let seconds = world.uptime_ms() / 1000;
                reply(world, &iq, seconds, "");
            }
        });
        hooks.iq(Target::Account, ns::LAST_ACTIVITY, |world, iq| {
            if is_get(world, &iq, "query") {
                of_account(world, iq);
            }
        });
        let questions = Wanted::from(Stanzas::of(Kind::Iq, &[StanzaType::Get])).naming(&[ns::LAST_ACTIVITY]);
        hooks.before_delivery(Phase::Guard, questions, guard);
    }
}

/// Replies for an account (§3); one that is online counts as active now.
fn of_account(world: &mut World, iq: Iq) {
    if world.conceals(iq.to.as_ref(), None, iq.from.as_ref()) {
        return world.reply_error(&iq, Condition::Forbidden);
    }
    with_asker(world, iq, |world, iq, asker| {
        if asker == Asker::Stranger {
            return world.reply_error(&iq, Condition::Forbidden);
        }
        if !world.links_of(iq.to.as_ref()).is_empty() {
            return reply(world, &iq, 0, "");
        }
        let seen = world.stores.last_presence.of(iq.from.bare(), vec![iq.to.clone()], "");
        world.wait(seen, move |world, seen| match seen.map(|seen| seen.into_iter().next().map(|(seen, _)| seen)) {
            Ok(Some(last)) => {
                let seconds = world.time().saturating_sub(last.unix_ms) / 1000;
                reply(world, &iq, seconds, &status(&last));
            }
            // The account has never been available.
            Ok(None) => world.reply_error(&iq, Condition::ItemNotFound),
            Err(error) => {
                world.store_failed("telling the last activity", &iq.to, &error);
                world.reply_error(&iq, condition(&error));
            }
        });
    });
}

/// Lets a request through to a resource only from entities that may see its presence (§4). Others
/// mustn't learn whether it is online, so the reply is the same in both cases.
fn guard(world: &mut World, Passage { packet, to, .. }: Passage<'_>) -> Delivery {
    if to.resource().is_none() || !mentions(packet.bytes(), ns::LAST_ACTIVITY.as_bytes()) {
        return Delivery::Pass;
    }
    let iq = packet.sender().and_then(|from| Iq::read(packet.stanza(), from, to.to_jid(), None));
    let Some(iq) = iq.filter(|iq| iq.payload.ns() == ns::LAST_ACTIVITY) else { return Delivery::Pass };
    if world.links_of(to).is_empty() {
        with_asker(world, iq, |world, iq, asker| {
            let refusal = if asker == Asker::Stranger { Condition::Forbidden } else { Condition::ServiceUnavailable };
            world.reply_error(&iq, refusal);
        });
        return Delivery::Taken;
    }
    if world.may_see_presence(to, iq.from.as_ref()) && !world.conceals(to.bare(), None, iq.from.as_ref()) {
        return Delivery::Pass;
    }
    world.reply_error(&iq, Condition::Forbidden);
    Delivery::Taken
}

fn reply(world: &mut World, iq: &Iq, seconds: u64, status: &str) {
    let mut reply = iq.result();
    reply.start_ns("query", ns::LAST_ACTIVITY).attr("seconds", &seconds.to_string());
    if !status.is_empty() {
        reply.text(status);
    }
    reply.end();
    world.reply(iq, reply);
}

/// Returns the status text of the last presence; empty if it had none.
fn status(last: &LastSeen) -> String {
    let presence = Element::parse(&last.stanza).ok();
    presence.and_then(|presence| presence.child_text("status", presence.ns())).unwrap_or_default()
}

fn mentions(bytes: &[u8], text: &[u8]) -> bool {
    bytes.windows(text.len()).any(|window| window == text)
}
