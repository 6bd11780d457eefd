//! XEP-0313: Message Archive Management, for accounts; and the functions with which rooms keep
//! theirs ([`record`], [`answer()`]).
//!
//! # What is archived
//!
//! For an account: messages of type `normal` and `chat`, in both directions, that have a body or
//! are otherwise part of a conversation (`payload`), except those with a hint against storing;
//! messages with a hint for storing are included (XEP-0334). Chat states and other transient
//! messages, errors, headlines, results of archives, carbons, and messages that this server refuses
//! are not archived. Messages in rooms are in the rooms' archives. The user's preferences decide
//! last (XEP-0441).
//!
//! # Invariants
//!
//! * Only its owner sees an archive. For everybody else it is `forbidden`, whether the account
//!   exists or not.
//! * An incoming message carries `<stanza-id by='account'/>` with its id in the archive if it is
//!   archived, and no other such id (XEP-0359). An id is shown to its owner only: the id of a sent
//!   message is on the account's own copies of it (XEP-0280), and the recipient doesn't see it.
//! * A message that waits in the offline store carries that id too. So the two stores are
//!   independent: a client that has read the archive recognises duplicates, and one that doesn't
//!   know archives gets everything.
//! * Delivery never waits for the archive, see `recorder`.
//!
//! With preferences that archive only contacts, a message from a stranger carries an id that the
//! archive doesn't have.
//!
//! # Left out
//!
//! Groupchat in the archives of users (`include-groupchat` is understood and has no effect), and
//! pages by index. If the clock was set back while the server was down, new messages sort before
//! those from the repeated period.
//!
//! # Layout
//!
//! `recorder` writes messages into the archives. `query` reads requests; `answer` and `search`,
//! with `terms`, reply to them with a `page`; `newest` loads messages for rooms. `id` assigns ids,
//! `last_id` keeps them above those of another node, and `own` removes forged ones. `known` looks
//! up possible duplicates, by the ids that `noted` keeps. `prefs` has users' preferences, and
//! `options` the operator's settings. `sweep` removes old messages, `purge` empties an archive, and
//! `retract` leaves tombstones of retracted messages.

#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_types))]

mod answer;
pub mod id;
mod known;
mod last_id;
mod newest;
mod noted;
mod options;
mod own;
mod page;
mod prefs;
mod purge;
mod query;
mod recorder;
mod retract;
mod search;
mod sweep;
mod terms;

pub use answer::answer;
pub use newest::{NewestMessage, newest};
pub use options::NAME;
pub use purge::Purge;
pub use query::ArchiveView;
pub use recorder::{ArchiveRecord, ArchiveRecorder, record, refusal, write};
pub use retract::{Retracted, retract, tombstone_mark};
pub use sweep::{PERIOD_MS, expire};
pub use terms::terms;

use rookery_fanout::{Packet, StanzaType};
use rookery_hub::{
    Bound, Delivery, Destination, Hooks, Iq, Module, Most, OptionSpec, Passage, Per, Phase, Stanzas, Step, Target,
    Unit, Wanted, World,
};
use rookery_jid::{Jid, JidRef};
use rookery_modkit::payload::{has, is_lasting};
use rookery_store::ArchiveOf;
use rookery_stream::error::Condition;
use rookery_xml::{Child, Kind, Namespaces, ns};

use options::{ArchivePolicy, BYTES, DAY_BYTES, DEFAULT, EXPIRE_DAYS, PAGE, ROOM_BYTES, ROOM_EXPIRE_DAYS, SEARCH};
pub use own::stanza_id;
use prefs::Preferences;

/// Archives users' messages, for their other devices and for later.
#[derive(Debug)]
pub struct ArchiveModule;

impl Module for ArchiveModule {
    fn name(&self) -> &'static str {
        NAME
    }

    fn summary(&self) -> &'static str {
        "conversations are kept on the server, for all devices of a user"
    }

    fn standards(&self) -> &'static [(&'static str, &'static str)] {
        &[
            ("XEP-0313", "1.1.3"),
            ("XEP-0441", "0.2.0"),
            ("XEP-0424", "0.4.2"),
            ("XEP-0431", "0.2.0"),
            ("XEP-0359", "0.7.0"),
            ("XEP-0059", "1.0"),
        ]
    }

    fn left_out(&self) -> &'static [(&'static str, &'static str)] {
        &[(
            "XEP-0313",
            "groupchat in the archives of users (`include-groupchat` is understood and changes nothing), pages by index",
        )]
    }

    fn options(&self) -> &'static [OptionSpec] {
        &[DEFAULT, EXPIRE_DAYS, ROOM_EXPIRE_DAYS, PAGE, SEARCH, BYTES, ROOM_BYTES, DAY_BYTES]
    }

    fn bounds(&self) -> &'static [Bound] {
        &BOUNDS
    }

    fn install(&self, hooks: &mut Hooks<'_>) {
        for feature in [ns::MAM, ns::MAM_EXTENDED, ns::STANZA_ID, ns::FULLTEXT, ns::RETRACT, ns::RETRACT_TOMBSTONE] {
            hooks.feature(Target::Account, feature);
        }
        hooks.feature(Target::Account, GROUPCHAT_FIELD);
        hooks.feature(Target::Server, ns::HINTS);
        hooks.document::<Preferences>();
        hooks.state(ArchiveRecorder::default());
        hooks.state(id::Ids::default());
        hooks.state(noted::KnownIds::default());
        hooks.memo::<noted::NotedId>();
        hooks.handing_on(noted::hand_on);
        hooks.memo::<last_id::LastId>();
        hooks.handing_on(last_id::hand_on);
        hooks.state(own::LastClaims::default());
        hooks.state(options::LastOptions::default());
        hooks.state(search::ArchiveSearches::default());
        hooks.state(retract::UnderWay::default());
        hooks.state(sweep::Sweeps::default());
        hooks.question::<Purge>();
        hooks.iq(Target::Account, ns::MAM, asked);
        hooks.before_route(Phase::Record, CONVERSATION, sent);
        hooks.before_delivery(Phase::Record, CONVERSATION, received);
        let others = Wanted::from(OTHERS).naming(&[ns::STANZA_ID, ns::DELAY]);
        hooks.before_delivery(Phase::Record, others, |world, Passage { packet, to, .. }| {
            own::without(world, packet, to).map_or(Delivery::Pass, Delivery::As)
        });
        hooks.stopping(write);
        hooks.account_removed(|world, account| {
            recorder::forget(world, account);
            sweep::clear(world);
        });
        hooks.every(sweep::PERIOD_MS, sweep::begin);
    }
}

const BOUNDS: [Bound; 11] = [
    Bound::on(
        "the time for which messages are archived",
        Per::Other("message"),
        Most::Option("expire_days"),
        Unit::Days,
    )
    .or("older ones are removed"),
    Bound::on(
        "the time for which messages of rooms are archived",
        Per::Other("message"),
        Most::Option(ROOM_EXPIRE_DAYS.key),
        Unit::Days,
    )
    .or("older ones are removed; 0: as those of users. Owners of persistent rooms can set less"),
    Bound::on(
        "bytes added to all archives of a shard in a day",
        Per::Other("sender"),
        Most::Option(DAY_BYTES.key),
        Unit::Bytes,
    )
    .or("its messages are delivered, but not archived; the log names the sender")
    .kept_in(&["archive_messages"]),
    Bound::on("bytes of archived messages, 128 more for each", Per::Account, Most::Option(BYTES.key), Unit::Bytes)
        .or("the oldest are removed: of the current conversation if it takes an eighth of all, else of the largest one")
        .kept_in(&["archives", "archive_messages", "archive_conversations", "archive_shares"]),
    Bound::on("bytes of archived messages, 128 more for each", Per::Room, Most::Option(ROOM_BYTES.key), Unit::Bytes)
        .or("the oldest are removed")
        .kept_in(&["archives", "archive_messages", "archive_conversations", "archive_shares"]),
    Bound::on("messages in a page", Per::Stanza, Most::Option(PAGE.key), Unit::Number)
        .or("the client asks for the next page"),
    Bound::on("messages that a search reads", Per::Stanza, Most::Option(SEARCH.key), Unit::Number)
        .or("the client gets the results so far, and can ask for more"),
    Bound::on("different words in a search", Per::Stanza, Most::Fixed(query::MAX_WORDS as u64), Unit::Number)
        .or("the search gets <policy-violation/>"),
    Bound::on(
        "ids of messages that dead nodes had not yet written into archives",
        Per::Shard,
        Most::Fixed(noted::MOST_KNOWN as u64),
        Unit::Number,
    )
    .or("the oldest are forgotten: a message that is sent again may get another id"),
    Bound::on("searches at a time", Per::Account, Most::Fixed(search::MOST_SEARCHES_OF_ONE as u64), Unit::Number)
        .or("one more gets <resource-constraint/>"),
    Bound::on("searches at a time", Per::Shard, Most::Fixed(search::MOST_SEARCHES as u64), Unit::Number)
        .or("one more gets <resource-constraint/>"),
];

/// Replies to a request to an account.
fn asked(world: &mut World, iq: Iq) {
    if !iq.is_own() {
        return world.reply_error(&iq, Condition::Forbidden);
    }
    match iq.payload.name() {
        "prefs" => prefs::answer(world, iq),
        _ => match iq.origin {
            // Pages are large, rooms fill them as well, and clients ask for several ahead: each is
            // sent when the previous one has been read.
            Some(session) => world.when_room_in_order(session, move |world| answer(world, iq, ArchiveView::Account)),
            None => answer(world, iq, ArchiveView::Account),
        },
    }
}

/// Records a message from a session. One to the sender's own account is recorded on arrival.
fn sent(world: &mut World, Passage { packet, to, notes }: Passage<'_>) -> Delivery {
    let Some(from) = packet.sender() else { return Delivery::Pass };
    let stripped = own::without(world, packet, from.as_ref());
    let passing = stripped.as_ref().unwrap_or(packet);
    if from.bare() != to.bare() && is_worth_keeping(passing) {
        if is_refused(world, from.as_ref(), from.as_ref(), to, passing) {
            return Delivery::Taken;
        }
        if packet.is_again() {
            keep_once(world, &from, passing, to);
            return stripped.map_or(Delivery::Pass, Delivery::As);
        }
        let id = keep(world, from.as_ref(), from.as_ref(), to.to_jid(), (passing, to), None);
        if world.is_tracing() {
            explain(world, packet, to, (from.bare(), to), id.as_deref());
        }
        if id.is_some() {
            retract::carry_out(world, from.as_ref(), &to.to_jid(), passing);
        }
        notes.recorded = id.map(String::into_boxed_str);
    }
    stripped.map_or(Delivery::Pass, Delivery::As)
}

/// Records a message from a session, possibly a repeated one, unless the archive has it.
fn keep_once(world: &mut World, from: &Jid, packet: &Packet, to: JidRef<'_>) {
    let (own, packet, to) = (from.clone(), packet.clone(), to.to_jid());
    known::find(world, &from.to_bare(), Some(to.clone()), &packet.clone(), move |world, found| {
        let id = match found {
            Some(found) if found.is_archived => return,
            found => found.map(|found| found.id),
        };
        if keep(world, own.as_ref(), own.as_ref(), to.clone(), (&packet, to.as_ref()), id).is_some() {
            retract::carry_out(world, own.as_ref(), &to, &packet);
        }
    });
}

/// Records a message for an account under the id that it had before.
fn keep_as(world: &mut World, packet: &Packet, to: JidRef<'_>, id: u64) {
    let Some(from) = packet.sender() else { return };
    if keep(world, to, from.as_ref(), from.clone(), (packet, to), Some(id)).is_some() {
        retract::carry_out(world, to, &from, packet);
    }
}

/// Records a message for an account.
fn received(world: &mut World, Passage { packet, to, notes }: Passage<'_>) -> Delivery {
    let stripped = own::without(world, packet, to);
    let passing = stripped.as_ref().unwrap_or(packet);
    if packet.is_again() && is_worth_keeping(passing) && is_accepted(world, passing, to) {
        match &notes.found {
            None => {
                known::deliver_known(world, passing, to, notes, keep_as);
                return Delivery::Taken;
            }
            Some(Some(id)) => return Delivery::As(passing.with_child(&stanza_id(to, id))),
            Some(None) => {}
        }
    }
    let id = match packet.sender().filter(|_| is_worth_keeping(passing)) {
        Some(from) if is_accepted(world, passing, to) => {
            if is_refused(world, to, from.as_ref(), to, passing) {
                return Delivery::Taken;
            }
            let with = from.clone();
            let id = keep(world, to, with.as_ref(), from, (passing, to), None);
            if world.is_tracing() {
                explain(world, packet, to, (to.bare(), with.as_ref()), id.as_deref());
            }
            if id.is_some() {
                retract::carry_out(world, to, &with, passing);
            }
            id
        }
        _ => None,
    };
    match id {
        Some(id) => Delivery::As(passing.with_child(&stanza_id(to, &id))),
        None => stripped.map_or(Delivery::Pass, Delivery::As),
    }
}

/// Refuses a message whose sender would believe it archived once it is acknowledged, if the
/// archive of `owner` can't accept it.
fn is_refused(world: &mut World, owner: JidRef<'_>, from: JidRef<'_>, to: JidRef<'_>, packet: &Packet) -> bool {
    // There is nearly always room, and checking that is quicker than reading the owner's
    // preferences.
    let Some(error) = recorder::refusal(world, from, packet.bytes().len()) else { return false };
    let with = if owner.bare() == from.bare() { to } else { from };
    if prefs::policy_for(world, owner, with) == ArchivePolicy::Never {
        return false;
    }
    world.bounce(packet, to, error);
    true
}

/// Returns whether a message reaches somebody, now or later.
fn is_accepted(world: &World, packet: &Packet, to: JidRef<'_>) -> bool {
    matches!(world.destination(packet, to), Destination::Session(_) | Destination::Account)
}

/// Records a message in an account's archive, if the account wants it there.
fn keep(
    world: &mut World,
    owner: JidRef<'_>,
    by: JidRef<'_>,
    with: Jid,
    (packet, to): (&Packet, JidRef<'_>),
    id: Option<u64>,
) -> Option<String> {
    let policy = prefs::policy_for(world, owner, with.as_ref());
    if policy == ArchivePolicy::Never {
        return None;
    }
    let contacts_only = policy == ArchivePolicy::Roster;
    let (stanza, mark) = (packet.with_to(to.as_str()), noted::mark(world, packet));
    record(world, ArchiveRecord { owner, of: ArchiveOf::Account, by, with, contacts_only, stanza, mark, id })
}

/// Reports to traces whether the archive of an account, the first of the two, has a message of its
/// conversation with the other one.
#[cold]
fn explain(
    world: &mut World,
    packet: &Packet,
    to: JidRef<'_>,
    (owner, with): (JidRef<'_>, JidRef<'_>),
    id: Option<&str>,
) {
    let (step, why) = match (id, prefs::policy_for(world, owner, with)) {
        (Some(id), ArchivePolicy::Roster) => {
            (Step::Kept, format!("in the archive of {owner} as {id}, if {with} is in its roster"))
        }
        (Some(id), _) => (Step::Kept, format!("in the archive of {owner} as {id} (XEP-0313)")),
        (None, ArchivePolicy::Never) => (Step::Noted, format!("{owner} archives nothing from {with} (XEP-0441)")),
        (None, _) => (
            Step::Noted,
            format!(
                "the archive of {owner} lacks it: the store is too far behind, or the sender has reached the daily limit"
            ),
        ),
    };
    world.sight(packet, to, step, || why);
}

/// Returns whether a message of a conversation is still meaningful later.
fn is_worth_keeping(packet: &Packet) -> bool {
    if packet.has_body() && !packet.namespaces().may_have(SPECIAL) {
        return true;
    }
    let (mut is_kept, mut is_excluded) = (packet.has_body(), false);
    has(packet, |child| {
        is_kept |= child.is("store", ns::HINTS) || is_lasting(&child);
        is_excluded |= is_excluding(&child);
        is_excluded
    });
    is_kept && !is_excluded
}

/// Returns whether an element keeps a message out of archives: a hint (XEP-0334 §4), or a sign
/// that it is a copy itself.
fn is_excluding(child: &Child<'_>) -> bool {
    match &*child.ns() {
        ns::HINTS => matches!(child.name(), "no-store" | "no-permanent-store" | "no-storage" | "no-permanent-storage"),
        ns::MAM => child.name() == "result",
        ns::CARBONS => matches!(child.name(), "sent" | "received"),
        _ => false,
    }
}

/// XEP-0313 §8: a query may say whether it wants groupchat; there is none.
const GROUPCHAT_FIELD: &str = "urn:xmpp:mam:2#groupchat-field";
const CONVERSATION: Stanzas = Stanzas::of(Kind::Message, &[StanzaType::Normal, StanzaType::Chat]);
/// Stanzas that are never archived here, but may carry ids or stamps in the account's name.
const OTHERS: Stanzas = Stanzas::of(Kind::Message, &[StanzaType::Groupchat, StanzaType::Headline, StanzaType::Error]);
/// Namespaces whose elements may keep a message with a body out of archives.
const SPECIAL: Namespaces = Namespaces::of(&[ns::HINTS, ns::MAM, ns::CARBONS]);

#[cfg(test)]
mod tests {
    use super::*;

    fn is_kept(content: &str) -> bool {
        let stanza = format!("<message from='a@x/r' type='chat'>{content}</message>");
        is_worth_keeping(&Packet::from_bytes(stanza.as_bytes()).unwrap())
    }

    #[test]
    fn conversations_are_worth_keeping() {
        for content in [
            "<body>hi</body>",
            "<body>hi</body><active xmlns='http://jabber.org/protocol/chatstates'/>",
            "<body>hi</body><private xmlns='urn:xmpp:carbons:2'/><no-copy xmlns='urn:xmpp:hints'/>",
            "<received xmlns='urn:xmpp:receipts' id='1'/>",
            "<displayed xmlns='urn:xmpp:chat-markers:0' id='1'/>",
            "<reactions xmlns='urn:xmpp:reactions:0' id='1'/>",
            "<retract xmlns='urn:xmpp:message-retract:1' id='1'/>",
            "<encrypted xmlns='eu.siacs.conversations.axolotl'/>",
            "<propose xmlns='urn:xmpp:jingle-message:0' id='1'/>",
            "<x xmlns='jabber:x:conference' jid='r@x'/>",
            "<x xmlns='http://jabber.org/protocol/muc#user'><invite from='a@x'/></x>",
            "<composing xmlns='http://jabber.org/protocol/chatstates'/><store xmlns='urn:xmpp:hints'/>",
        ] {
            assert!(is_kept(content), "{content}");
        }
    }

    #[test]
    fn transient_messages_are_not_worth_keeping() {
        for content in [
            "",
            "<composing xmlns='http://jabber.org/protocol/chatstates'/>",
            "<request xmlns='urn:xmpp:receipts'/>",
            "<markable xmlns='urn:xmpp:chat-markers:0'/>",
            "<body>hi</body><no-store xmlns='urn:xmpp:hints'/>",
            "<body>hi</body><no-store xmlns='urn:xmpp:&#104;ints'/>",
            "<body>hi</body><no-permanent-store xmlns='urn:xmpp:hints'/>",
            "<result xmlns='urn:xmpp:mam:2' id='1'/><body>hi</body>",
            "<sent xmlns='urn:xmpp:carbons:2'/><body>hi</body>",
            "<x xmlns='http://jabber.org/protocol/muc#user'><status code='104'/></x>",
            "<event xmlns='http://jabber.org/protocol/pubsub#event'/>",
        ] {
            assert!(!is_kept(content), "{content}");
        }
    }
}
