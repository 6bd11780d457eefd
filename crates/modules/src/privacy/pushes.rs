//! Notifies the resources of an account of changed rules, in the formats of both standards.

use rookery_fanout::{Packet, To};
use rookery_hub::{SessionRef, World};
use rookery_jid::Jid;
use rookery_xml::{Writer, ns};

use super::rules::PrivacyRules;
use super::sessions::{PrivacySessions, sessions_of};

/// Notifies the resources that follow the block list of its changes.
pub(crate) fn push_blocks<'j>(
    world: &mut World,
    account: &Jid,
    name: &str,
    jids: impl IntoIterator<Item = &'j Jid> + Clone,
) {
    for session in sessions_of(world, account.as_ref()) {
        if !world.state::<PrivacySessions>().follows_blocks(session) {
            continue;
        }
        let mut iq = Writer::new("iq");
        iq.attr("type", "set").attr("id", &world.unique_text());
        write_blocks(&mut iq, name, jids.clone());
        if let Ok(packet) = Packet::from_built(&iq.finish()) {
            world.push(session.link, &packet, To::Full);
        }
    }
}

/// Writes addresses as a part of a block list.
pub(super) fn write_blocks<'j>(out: &mut Writer, name: &str, jids: impl IntoIterator<Item = &'j Jid>) {
    out.start_ns(name, ns::BLOCKING);
    for jid in jids {
        out.start("item").attr("jid", jid.as_str()).end();
    }
    out.end();
}

/// Notifies the resources that use privacy lists that the default one has changed through the block
/// list.
pub(crate) fn push_default(world: &mut World, account: &Jid) {
    if let Some(name) = rules_of(world, account).default {
        push_list(world, account, &name, |world, session| world.state::<PrivacySessions>().follows_lists(session));
    }
}

/// Sends a privacy list push (§2.6).
pub(super) fn push_list(world: &mut World, account: &Jid, name: &str, to: fn(&World, SessionRef) -> bool) {
    for session in sessions_of(world, account.as_ref()) {
        if !to(world, session) {
            continue;
        }
        let mut iq = Writer::new("iq");
        iq.attr("type", "set").attr("id", &world.unique_text());
        iq.start_ns("query", ns::PRIVACY).start("list").attr("name", name);
        if let Ok(packet) = Packet::from_built(&iq.finish()) {
            world.push(session.link, &packet, To::Full);
        }
    }
}

/// Returns the rules of an account, which are empty if it has none.
pub(super) fn rules_of(world: &World, account: &Jid) -> PrivacyRules {
    world.document::<PrivacyRules>(account.as_ref()).map_or_else(PrivacyRules::default, |rules| (*rules).clone())
}
