//! Messages of a domain: to one address, to all users, and the message of the day.

use rookery_hub::World;
use rookery_jid::Jid;
use rookery_xml::Writer;

use super::{Outcome, Refusal};
use crate::announce::{self, Text};

/// The recipients of an announcement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MessageAudience {
    /// All sessions that are available.
    Online,
    /// All accounts of the domain: offline users get it later.
    All,
}

/// Sends a message of a domain to an address, here or elsewhere. As with any message, the caller
/// doesn't learn whether it arrives.
pub fn send(world: &mut World, domain: &str, to: &Jid, text: &Text) {
    let mut message = Writer::new("message");
    message.attr("type", "normal").attr("id", &world.unique_text()).attr("from", domain);
    if let Some(subject) = &text.subject {
        message.text_child("subject", subject);
    }
    message.text_child("body", &text.body);
    world.route_built(&message.finish(), to);
}

/// Sends an announcement to users of a domain.
pub fn announce(world: &mut World, domain: &str, to: MessageAudience, text: &Text) {
    match to {
        MessageAudience::Online => announce::to_online(world, domain, text),
        MessageAudience::All => announce::to_everybody(world, domain, text),
    }
}

/// Continues with the message of the day, if there is one.
pub fn motd(world: &mut World, domain: &str, then: impl FnOnce(&mut World, Outcome<Option<Text>>) + 'static) {
    announce::motd(world, domain, |world, text| then(world, text.map_err(Refusal::from)));
}

/// Sets the message of the day and sends it to available users; or removes it.
pub fn set_motd(
    world: &mut World,
    domain: &str,
    text: Option<Text>,
    then: impl FnOnce(&mut World, Outcome<()>) + 'static,
) {
    let kept =
        |world: &mut World, kept: Result<(), rookery_store::StoreError>| then(world, kept.map_err(Refusal::from));
    match text {
        Some(text) => announce::set_motd(world, domain, text, kept),
        None => announce::delete_motd(world, domain, kept),
    }
}

/// Returns whether a text can be written in XML, which lacks most control characters (XML 1.0
/// §2.2).
pub fn is_sayable(text: &str) -> bool {
    let is_char = |char: char| matches!(char, '\t' | '\n' | '\r' | '\u{20}'..='\u{D7FF}' | '\u{E000}'..='\u{FFFD}' | '\u{10000}'..='\u{10FFFF}');
    text.chars().all(is_char)
}
