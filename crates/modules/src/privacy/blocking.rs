//! XEP-0191: Blocking Command. The block list is a view of the default privacy list (§5).

use rookery_hub::failure::condition;
use rookery_hub::{Iq, SessionRef, World};
use rookery_jid::Jid;
use rookery_stream::error::{Condition, StanzaError};
use rookery_xml::ns;

use super::limits::{MAX_ITEMS, fit, most};
use super::pushes::{push_blocks, push_default, write_blocks};
use super::rules::PrivacyRules;
use super::sessions::PrivacySessions;
use super::{change, report};

/// Replies to a request of the blocking command.
pub(crate) fn answer(world: &mut World, iq: Iq) {
    // Only the account itself has a block list to request.
    let Some(session) = iq.origin.filter(|_| iq.is_own()) else {
        return world.reply_error(&iq, Condition::ServiceUnavailable);
    };
    match (iq.set, iq.payload.name()) {
        (false, "blocklist") => get(world, session, &iq),
        (true, "block" | "unblock") => set(world, iq),
        _ => world.reply_error(&iq, Condition::BadRequest),
    }
}

/// Sends the list of blocked addresses (§3.2). From now on, the client is notified of changes.
fn get(world: &mut World, session: SessionRef, iq: &Iq) {
    world.state_mut::<PrivacySessions>().asked_for_blocks(session);
    let rules = world.document::<PrivacyRules>(iq.to.as_ref()).unwrap_or_default();
    let mut reply = iq.result();
    write_blocks(&mut reply, "blocklist", rules.block_list());
    world.reply(iq, reply);
}

/// Blocks or unblocks contacts (§3.3 to §3.5).
fn set(world: &mut World, iq: Iq) {
    let is_block = iq.payload.name() == "block";
    if is_block && iq.payload.children().count() as u64 > most(world, &iq, MAX_ITEMS) {
        return world.reply_error(&iq, full());
    }
    let jids = match items(&iq, is_block) {
        Ok(jids) => jids,
        Err(error) => return world.reply_error(&iq, error),
    };
    let mut rules =
        world.document::<PrivacyRules>(iq.to.as_ref()).map_or_else(PrivacyRules::default, |rules| (*rules).clone());
    if is_block {
        rules.block(&jids);
    } else if jids.is_empty() {
        let all: Vec<Jid> = rules.block_list().into_iter().cloned().collect();
        rules.unblock(&all);
    } else {
        rules.unblock(&jids);
    }
    if is_block && !fit(world, &iq, &rules) {
        return world.reply_error(&iq, full());
    }
    let (account, name) = (iq.to.to_bare(), iq.payload.name().to_owned());
    change::replace(world, &account.clone(), rules, move |world, kept| match kept {
        Ok(()) => {
            world.reply_done(&iq);
            if is_block {
                report::take(world, &iq);
            }
            push_blocks(world, &account, &name, &jids);
            push_default(world, &account);
        }
        Err(error) => {
            world.store_failed("keeping a block list", &account, &error);
            world.reply_error(&iq, condition(&error));
        }
    });
}

/// Returns the addresses in a request; at least one to block (§3.3), none to unblock means all
/// (§3.5).
fn items(iq: &Iq, is_block: bool) -> Result<Vec<Jid>, Condition> {
    let items = iq.payload.children().filter(|child| child.is("item", ns::BLOCKING));
    let jids = items.map(|item| {
        let jid = item.attr("jid").ok_or(Condition::BadRequest)?;
        Jid::parse(jid).map_err(|_| Condition::JidMalformed)
    });
    let jids = jids.collect::<Result<Vec<_>, _>>()?;
    let others = iq.payload.children().any(|child| !child.is("item", ns::BLOCKING));
    if others || is_block && jids.is_empty() { Err(Condition::BadRequest) } else { Ok(jids) }
}

fn full() -> StanzaError {
    StanzaError::new(Condition::ResourceConstraint).with_text("the block list is full")
}
