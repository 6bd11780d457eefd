//! XEP-0441: Message Archive Management Preferences: which conversations a user wants to have
//! archived.
//!
//! The preferences are a document that is in memory whenever a stanza for the account is handled: a
//! line `default` with the word, then a line with `+` or `-` and an address for each that is always
//! or never archived.

use std::collections::BTreeSet;

use rookery_hub::failure::condition;
use rookery_hub::{Document, Iq, World};
use rookery_jid::{Jid, JidRef};
use rookery_stream::error::Condition;
use rookery_xml::{Element, Writer, ns};

use super::options::{ArchivePolicy, RecordOptions};

/// The preferences of an account.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Preferences {
    default: ArchivePolicy,
    always: BTreeSet<Jid>,
    never: BTreeSet<Jid>,
}

impl Document for Preferences {
    const NAME: &'static str = "archive";

    fn read(bytes: &[u8]) -> Option<Self> {
        let mut lines = std::str::from_utf8(bytes).ok()?.lines();
        let mut read = Self { default: ArchivePolicy::read(lines.next()?)?, ..Self::default() };
        for line in lines {
            let (list, address) = match line.split_at_checked(1)? {
                ("+", address) => (&mut read.always, address),
                ("-", address) => (&mut read.never, address),
                _ => return None,
            };
            list.insert(Jid::parse(address).ok()?);
        }
        Some(read)
    }
}

impl Preferences {
    /// Returns the policy for a conversation (§2.2).
    fn of(&self, with: JidRef<'_>) -> ArchivePolicy {
        // An entry with a resource applies to that resource only.
        let has = |list: &BTreeSet<Jid>| list.contains(with.as_str()) || list.contains(with.bare_str());
        match (has(&self.never), has(&self.always)) {
            (true, _) => ArchivePolicy::Never,
            (_, true) => ArchivePolicy::Always,
            _ => self.default,
        }
    }

    fn write(&self) -> Vec<u8> {
        let always = self.always.iter().map(|jid| format!("\n+{jid}"));
        let never = self.never.iter().map(|jid| format!("\n-{jid}"));
        let lists: String = always.chain(never).collect();
        format!("{}{lists}", self.default.word()).into_bytes()
    }

    /// Reads the payload of a request to set preferences.
    fn of_request(prefs: &Element) -> Result<Self, Condition> {
        let default = prefs.attr("default").and_then(ArchivePolicy::read).ok_or(Condition::BadRequest)?;
        let list = |name| -> Result<BTreeSet<Jid>, Condition> {
            let jids = prefs.child(name, ns::MAM).into_iter().flat_map(Element::children);
            let jids = jids.filter(|child| child.is("jid", ns::MAM));
            jids.map(|jid| Jid::parse(jid.text().trim()).map_err(|_| Condition::JidMalformed)).collect()
        };
        let read = Self { default, always: list("always")?, never: list("never")? };
        if read.always.len() + read.never.len() > MAX_ADDRESSES {
            return Err(Condition::ResourceConstraint);
        }
        Ok(read)
    }

    fn write_to(&self, reply: &mut Writer) {
        reply.start_ns("prefs", ns::MAM).attr("default", self.default.word());
        for (name, list) in [("always", &self.always), ("never", &self.never)] {
            reply.start(name);
            for jid in list {
                reply.text_child("jid", jid.as_str());
            }
            reply.end();
        }
        reply.end();
    }
}

/// Replies to a user's request to read or set the preferences.
pub(super) fn answer(world: &mut World, iq: Iq) {
    if !iq.set {
        let preferences = preferences(world, iq.to.as_ref());
        return reply(world, &iq, &preferences);
    }
    let preferences = match Preferences::of_request(&iq.payload) {
        Ok(preferences) => preferences,
        Err(error) => return world.reply_error(&iq, error),
    };
    let account = iq.to.clone();
    world.set_document::<Preferences>(account.as_ref(), Some(preferences.write()), move |world, kept| match kept {
        Ok(()) => reply(world, &iq, &preferences),
        Err(error) => {
            world.store_failed("keeping archive preferences", &iq.to, &error);
            world.reply_error(&iq, condition(&error));
        }
    });
}

/// Returns the user's policy for a conversation.
pub(super) fn policy_for(world: &mut World, account: JidRef<'_>, with: JidRef<'_>) -> ArchivePolicy {
    match world.document::<Preferences>(account) {
        Some(preferences) => preferences.of(with),
        None => RecordOptions::of(world, account.domain()).default,
    }
}

fn preferences(world: &mut World, account: JidRef<'_>) -> Preferences {
    let set = world.document::<Preferences>(account).map(|preferences| (*preferences).clone());
    set.unwrap_or_else(|| Preferences {
        default: RecordOptions::of(world, account.domain()).default,
        ..Preferences::default()
    })
}

fn reply(world: &mut World, iq: &Iq, preferences: &Preferences) {
    let mut reply = iq.result();
    preferences.write_to(&mut reply);
    world.reply(iq, reply);
}

/// The most addresses in both lists together.
const MAX_ADDRESSES: usize = 500;

#[cfg(test)]
mod tests {
    use super::*;

    fn preferences(xml: &str) -> Result<Preferences, Condition> {
        Preferences::of_request(&Element::parse(xml.as_bytes()).unwrap())
    }

    #[test]
    fn preferences_are_kept_as_set_and_decide() {
        let set = preferences(
            "<prefs xmlns='urn:xmpp:mam:2' default='roster'><always><jid>romeo@montague.lit</jid></always>\
             <never><jid>montague@montague.lit</jid><jid>romeo@montague.lit/phone</jid></never></prefs>",
        )
        .unwrap();
        assert_eq!(Preferences::read(&set.write()), Some(set.clone()));
        for (with, expected) in [
            ("romeo@montague.lit/desk", ArchivePolicy::Always),
            ("romeo@montague.lit", ArchivePolicy::Always),
            ("romeo@montague.lit/phone", ArchivePolicy::Never),
            ("montague@montague.lit/x", ArchivePolicy::Never),
            ("nurse@capulet.lit", ArchivePolicy::Roster),
        ] {
            assert_eq!(set.of(Jid::parse(with).unwrap().as_ref()), expected, "{with}");
        }
    }

    #[test]
    fn malformed_preferences_are_refused() {
        for (xml, expected) in [
            ("<prefs xmlns='urn:xmpp:mam:2'/>", Condition::BadRequest),
            ("<prefs xmlns='urn:xmpp:mam:2' default='sometimes'/>", Condition::BadRequest),
            (
                "<prefs xmlns='urn:xmpp:mam:2' default='never'><never><jid>@</jid></never></prefs>",
                Condition::JidMalformed,
            ),
        ] {
            assert_eq!(preferences(xml), Err(expected), "{xml}");
        }
        let many: String = (0..=MAX_ADDRESSES).map(|n| format!("<jid>u{n}@x</jid>")).collect();
        let many = format!("<prefs xmlns='urn:xmpp:mam:2' default='never'><always>{many}</always></prefs>");
        assert_eq!(preferences(&many), Err(Condition::ResourceConstraint));
        assert_eq!(Preferences::read(b"always\n*x@y"), None);
    }
}
