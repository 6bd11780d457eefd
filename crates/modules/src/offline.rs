//! XEP-0160: Best Practices for Handling Offline Messages.
//!
//! # Invariants
//!
//! * A message leaves the store after it is in an outbox, never before: after a failure it may be
//!   delivered twice, but it isn't lost. The hub returns the messages in the outbox of a session
//!   that ends to the store.
//! * While messages travel from the store to a session, later stanzas for the account wait (a
//!   hold), so nothing overtakes them. The hold ends early if the client reads so slowly that its
//!   outbox is half full. Otherwise everything else for the account, including its other resources,
//!   would wait for that one client; stanzas that overtake then can be recognised by the delay
//!   stamp.
//! * A message goes to one session. A session that becomes reachable takes over a delivery from the
//!   session that is being served.
//! * A message that a session got and that is still in the store isn't given to it again by any
//!   delivery: a session may be unavailable for a while, or be served again after another one has
//!   ended.

use rookery_base::{Abandoned, Awaited, Map, one_shot};
use rookery_fanout::{Link, Packet, StanzaType, To};
use rookery_hub::failure::condition;
use rookery_hub::{
    Bound, Bounds, Hold, Hooks, Module, Most, OptionSpec, Passage, Per, Phase, SessionRef, Share, Step, Target, Unit,
    Value, Verdict, World, delay,
};
use rookery_jid::{Jid, JidRef};
use rookery_modkit::option;
use rookery_store::{OfflineMessage, OfflineRoom, Pushed, StoreError, Subscription};
use rookery_stream::error::Condition;
use rookery_xml::{Child, Kind, ns};
use tracing::warn;

/// The module that stores messages that no resource takes, and delivers them when one does.
#[derive(Debug)]
pub struct OfflineModule;

impl Module for OfflineModule {
    fn name(&self) -> &'static str {
        "offline"
    }

    fn summary(&self) -> &'static str {
        "messages for users who are offline are stored until they return"
    }

    fn standards(&self) -> &'static [(&'static str, &'static str)] {
        &[("XEP-0160", "1.0.1"), ("XEP-0203", "2.0"), ("XEP-0334", "1.0.0")]
    }

    fn options(&self) -> &'static [OptionSpec] {
        &[LIMIT, BYTES]
    }

    fn bounds(&self) -> &'static [Bound] {
        &BOUNDS
    }

    fn install(&self, hooks: &mut Hooks<'_>) {
        hooks.feature(Target::Server, ns::OFFLINE);
        hooks.state(Pushes(Share::new(PUSHES)));
        hooks.state(DeliveryRounds::default());
        hooks.undelivered(Phase::Act, keep);
        hooks.reachable(deliver);
    }
}

const LIMIT: OptionSpec = OptionSpec {
    key: "limit",
    default: || Value::Number(2000),
    doc: "messages that may wait for one user; one sender may have at most as many as are still free, and gets an error beyond that",
    check: option::at_least_one,
};

const BYTES: OptionSpec = OptionSpec {
    key: "most_bytes",
    default: || Value::Number(16 << 20),
    doc: "bytes of messages that may wait for one user; one sender may have at most as many as are still free",
    check: option::at_least_one,
};

const BOUNDS: [Bound; 2] = [
    Bound::on("messages that wait for an absent user", Per::Account, Most::Option(LIMIT.key), Unit::Number)
        .or("its sender gets <service-unavailable/>, as soon as it has more than is still free")
        .kept_in(&["offline_messages"]),
    Bound::on("bytes of these messages", Per::Account, Most::Option(BYTES.key), Unit::Bytes)
        .or("its sender gets <service-unavailable/>, as soon as it has more than is still free")
        .kept_in(&["offline_messages"]),
];

/// The fate of a message that no session takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OfflineFate {
    /// It waits for its user.
    Kept,
    /// It would be pointless later, and its sender needn't be told.
    Dropped,
    /// It must not be stored; its sender is told that it is lost, if the sender may know that the
    /// user is offline.
    Unstored,
    /// It is not for storage; the hub tells the sender.
    Refused,
}

/// Decides whether a message is stored, by XEP-0160 §3 and the hints of XEP-0334 §4.
///
/// `<no-permanent-store/>` is about archives: waiting for the recipient is "a normal part of
/// delivery" (XEP-0334 §3.3). A message that must not be stored at all is returned with an error if
/// it has a body, since RFC 6121 §8.5.2.2.1 allows only storing or an error; but only senders who
/// get the user's presence are told, since others would learn from it whether the user is online.
fn fate(packet: &Packet) -> OfflineFate {
    if packet.kind() != Kind::Message || !matches!(packet.type_(), StanzaType::Normal | StanzaType::Chat) {
        return OfflineFate::Refused;
    }
    let stanza = packet.stanza();
    if stanza.child("no-store", ns::HINTS).is_some() {
        return if stanza.has_body() { OfflineFate::Unstored } else { OfflineFate::Dropped };
    }
    let is_kept = stanza.has_body()
        || stanza.child("store", ns::HINTS).is_some()
        || stanza.children().any(|child| !is_fleeting(child.name(), &child.ns()));
    if is_kept { OfflineFate::Kept } else { OfflineFate::Dropped }
}

/// Returns whether an element means nothing by itself later: chat states (XEP-0085), and elements
/// that only accompany others.
fn is_fleeting(name: &str, namespace: &str) -> bool {
    match namespace {
        ns::CHAT_STATES | ns::HINTS | ns::STANZA_ID | ns::DELAY => true,
        ns::CLIENT => name == "thread",
        _ => false,
    }
}

/// Counts the messages that a shard is writing to the store.
#[derive(Debug)]
struct Pushes(Share);

/// Stores a message for an account that no resource takes; the account need not exist.
fn keep(world: &mut World, Passage { packet, to, notes }: Passage<'_>) -> Verdict {
    match fate(packet) {
        OfflineFate::Refused => return Verdict::Pass,
        OfflineFate::Unstored => {
            world.sight(packet, to, Step::Stopped, || {
                "its sender forbids storing it (XEP-0334); a contact who sees the account's presence is told".into()
            });
            tell_contact(world, packet, to);
            return Verdict::Taken;
        }
        OfflineFate::Dropped => {
            world.sight(packet, to, Step::Stopped, || {
                "it is only meaningful now, such as a typing notification (XEP-0160 §3)".into()
            });
            return Verdict::Taken;
        }
        OfflineFate::Kept => {}
    }
    // A server that stops returns all unread stanzas of sessions, even if they are from one sender.
    let is_counted = !world.is_stopping();
    if is_counted && !world.state_mut::<Pushes>().0.take(packet) {
        world.bounce(packet, to, Condition::ResourceConstraint.into());
        return Verdict::Taken;
    }
    let options = world.options(to.domain(), "offline");
    let number = |key| options.map_or(0, |options| options.number(key));
    let room = OfflineRoom { messages: number(LIMIT.key), bytes: number(BYTES.key) };
    // A message without a sender is the server's own.
    let sender = packet.sender().unwrap_or_else(|| to.to_jid());
    let stanza = packet.with_to(to.bare_str());
    let pushed =
        world.stores.offline.push(to, sender.as_ref(), stanza, notes.came_ms.unwrap_or_else(|| world.time()), room);
    let (packet, to) = (packet.clone(), to.to_jid());
    world.wait(pushed, move |world, pushed| {
        if is_counted {
            world.state_mut::<Pushes>().0.give_back(&packet);
        }
        match pushed {
            Ok(Pushed::Kept) => {
                world.sight(&packet, to.as_ref(), Step::Kept, || "it waits for the user in the store (XEP-0160)".into())
            }
            // §2: the sender is told that a queue is full, and can't distinguish that from an
            // account that doesn't exist.
            Ok(outcome @ (Pushed::Full | Pushed::NoAccount)) => {
                world.sight(&packet, to.as_ref(), Step::Noted, || match outcome {
                    Pushed::NoAccount => "there is no such account".into(),
                    _ => "the offline messages of the account are full, or this sender's share of them".into(),
                });
                world.bounce(&packet, to.as_ref(), Condition::ServiceUnavailable.into())
            }
            Err(error) => {
                world.store_failed("keeping an offline message", &to, &error);
                world.bounce(&packet, to.as_ref(), condition(&error).into());
            }
        }
    });
    Verdict::Taken
}

/// Tells a sender, if allowed to know that the user is offline, that a message which mustn't be
/// stored is lost. Others get no reply, as for a user who is online or an address that doesn't
/// exist.
fn tell_contact(world: &mut World, packet: &Packet, to: JidRef<'_>) {
    let Some(sender) = packet.sender() else { return };
    if sender.bare() == to.bare() {
        return world.bounce(packet, to, Condition::ServiceUnavailable.into());
    }
    let item = world.stores.rosters.item(to.bare(), sender.bare());
    let (packet, to) = (packet.clone(), to.to_jid());
    world.wait(item, move |world, item| {
        let subscription = match item {
            Ok(item) => item.map_or(Subscription::None, |item| item.subscription),
            Err(StoreError::NoAccount) => Subscription::None,
            Err(error) => {
                world.store_failed("looking up who may know that a user is away", &to, &error);
                Subscription::None
            }
        };
        if subscription.from() || world.shared_relation(to.as_ref(), sender.as_ref()).from() {
            world.bounce(&packet, to.as_ref(), Condition::ServiceUnavailable.into());
        }
    });
}

/// The current delivery of each account that has one, and the messages that sessions were given and
/// the store still has. There is at most one entry per online account, and per session.
#[derive(Debug, Default)]
struct DeliveryRounds {
    last: u64,
    current: Map<Jid, (u64, SessionRef)>,
    /// The ids of messages in the outbox of a session, oldest first.
    given: Map<SessionRef, Vec<u64>>,
}

/// The delivery of an account's messages to a session. They stay in the store until they were sent:
/// whatever happens meanwhile, no message is lost or delivered out of order.
struct OfflineDelivery {
    owner: Jid,
    session: SessionRef,
    hold: Option<Hold>,
    round: u64,
    /// The id of the last message that was handled.
    last: u64,
    /// Completes when the session has read its messages, or has ended, with the number of those
    /// that it has not got.
    drained: Option<Awaited<usize>>,
}

/// Starts to deliver stored messages to a session that takes messages from now on.
fn deliver(world: &mut World, link: Link) {
    let Some(owner) = world.address(link).map(Jid::to_bare) else { return };
    let Some(session) = reference(world, link) else { return };
    let Some(round) = world.state_mut::<DeliveryRounds>().begin(&owner, session) else { return };
    let last = world.state::<DeliveryRounds>().last_given(session);
    OfflineDelivery { owner, session, hold: None, round, last, drained: None }.next(world);
}

impl DeliveryRounds {
    /// Starts a delivery in place of the current one; `None` if the current one goes to the same
    /// session.
    fn begin(&mut self, owner: &Jid, session: SessionRef) -> Option<u64> {
        if self.current.get(owner).is_some_and(|(_, served)| *served == session) {
            return None;
        }
        self.last += 1;
        self.current.insert(owner.clone(), (self.last, session));
        Some(self.last)
    }

    /// Returns the id of the last message that a session was given and the store still has; 0 if
    /// there is none.
    fn last_given(&self, session: SessionRef) -> u64 {
        self.given.get(&session).and_then(|given| given.last()).copied().unwrap_or_default()
    }
}

impl OfflineDelivery {
    /// Loads the next portion.
    fn next(mut self, world: &mut World) {
        if self.hold.is_none() {
            self.hold = world.hold(self.owner.as_ref());
        }
        let loaded = world.stores.offline.load(self.owner.as_ref(), self.last, PORTION);
        world.wait(loaded, move |world, loaded| match loaded {
            // Another delivery has taken over, and loads the messages that this one hasn't
            // delivered.
            _ if !self.is_current(world) => self.wait_until_sent(world),
            // No messages were stored: from now on they go directly to the session.
            Ok(messages) if messages.is_empty() && self.last == 0 => self.end(world),
            Ok(messages) if messages.is_empty() => self.wait_until_sent(world),
            Ok(messages) => self.portion(world, &messages),
            Err(error) => {
                world.store_failed("loading offline messages", &self.owner, &error);
                // Delivered messages are still removed once they are sent; the rest wait for the
                // next session.
                world.state_mut::<DeliveryRounds>().current.remove(&self.owner);
                self.wait_until_sent(world);
            }
        });
    }

    /// Delivers as much of a portion to the session as it can take.
    fn portion(mut self, world: &mut World, messages: &[OfflineMessage]) {
        for message in messages {
            if !takes(world, self.session)
                || !world.outboxes.has_room(self.session.link, message.stanza.len())
                || !self.push(world, message)
            {
                return self.wait_until_sent(world);
            }
        }
        // The session may end while the next portion is loaded.
        self.watch(world);
        self.next(world);
    }

    /// Pushes a kept message; returns `false` if the session did not take it. An unreadable message
    /// is skipped: it would block those behind it for ever.
    fn push(&mut self, world: &mut World, message: &OfflineMessage) -> bool {
        match Packet::from_bytes(&message.stanza) {
            Ok(packet) => {
                let packet = stamp(packet, self.owner.domain(), message.unix_ms);
                if !world.push(self.session.link, &packet, To::Kept) {
                    return false;
                }
                world.state_mut::<DeliveryRounds>().given.entry(self.session).or_default().push(message.id);
            }
            Err(fault) => {
                warn!(account = %self.owner, id = message.id, ?fault, "an offline message in the store is damaged");
            }
        }
        self.last = message.id;
        true
    }

    /// Notes from now on how many of its messages the session gets, unless it has ended.
    fn watch(&mut self, world: &mut World) {
        if world.session(self.session).is_none() {
            return;
        }
        let (completer, drained) = one_shot::<usize>();
        if world.outboxes.when_drained(self.session.link, move |unsent| completer.complete(unsent)) {
            self.drained = Some(drained);
        }
    }

    /// Waits without blocking others. When the session has read its messages, or has ended, the
    /// sent ones are removed from the store.
    fn wait_until_sent(mut self, world: &mut World) {
        self.let_go(world);
        self.watch(world);
        let Some(drained) = self.drained.take() else {
            // The session ended, and nobody knows whether it got anything: it stays in the store.
            world.state_mut::<DeliveryRounds>().given.remove(&self.session);
            return self.go_on(world);
        };
        let go_on = move |world: &mut World, unsent: Result<usize, Abandoned>| {
            // Replaced by a later delivery to the same session, which removes the messages that
            // both have sent.
            let Ok(unsent) = unsent else { return };
            let given = world.state_mut::<DeliveryRounds>().given.remove(&self.session).unwrap_or_default();
            let sent = given.len().saturating_sub(unsent);
            let up_to = if unsent == 0 { Some(self.last) } else { given.get(..sent).and_then(<[u64]>::last).copied() };
            match up_to.filter(|&id| id > 0) {
                Some(up_to) => self.remove(world, up_to),
                // Other stanzas that the client hasn't acknowledged take all the room.
                None if self.is_current(world) && self.has_unacknowledged(world) => self.wait_for_room(world),
                None => self.go_on(world),
            }
        };
        // The client may read at any time: the stanzas of its own that started this are
        // acknowledged before that.
        world.in_custody(None, |world| world.wait(drained, go_on));
    }

    fn has_unacknowledged(&self, world: &World) -> bool {
        takes(world, self.session) && world.outboxes.waiting_bytes(self.session.link) > 0
    }

    /// Waits until the session has acknowledged enough. A large message may need more room than
    /// that, so the store isn't asked at once.
    fn wait_for_room(self, world: &mut World) {
        let (completer, room) = one_shot::<()>();
        world.outboxes.when_room(self.session.link, move || completer.complete(()));
        world.in_custody(None, |world| {
            world.wait(room, move |world, _| {
                world.in_custody(None, |world| world.after(AGAIN_MS, move |world| self.go_on(world)));
            });
        });
    }

    /// Removes the sent messages.
    fn remove(self, world: &mut World, up_to: u64) {
        let removed = world.stores.offline.remove(self.owner.as_ref(), up_to);
        world.wait(removed, move |world, removed| match removed {
            Ok(_) => self.go_on(world),
            Err(error) => {
                world.store_failed("removing delivered offline messages", &self.owner, &error);
                self.end(world);
            }
        });
    }

    /// Starts again with the messages that the store has now, if there are any and a session takes
    /// them.
    fn go_on(mut self, world: &mut World) {
        let Some(session) = self.target(world).filter(|_| self.is_current(world)) else { return self.end(world) };
        self.session = session;
        world.state_mut::<DeliveryRounds>().current.insert(self.owner.clone(), (self.round, session));
        self.last = world.state::<DeliveryRounds>().last_given(session);
        let left = world.stores.offline.count(self.owner.as_ref());
        world.wait(left, move |world, left| match left {
            Ok(left) if left > 0 && self.is_current(world) => self.next(world),
            _ => self.end(world),
        });
    }

    /// Returns the session that gets the next portion: the previous one or, if that has ended, any
    /// other that takes messages.
    fn target(&self, world: &World) -> Option<SessionRef> {
        let takes = |session: &SessionRef| takes(world, *session);
        let others = || world.links_of(self.owner.as_ref()).into_iter().rev();
        let other = || others().filter_map(|link| reference(world, link)).find(takes);
        Some(self.session).filter(takes).or_else(other)
    }

    fn is_current(&self, world: &World) -> bool {
        world.state::<DeliveryRounds>().current.get(&self.owner).is_some_and(|(round, _)| *round == self.round)
    }

    /// Ends the delivery, when all messages are delivered or no session is left to take them.
    fn end(mut self, world: &mut World) {
        if self.is_current(world) {
            world.state_mut::<DeliveryRounds>().current.remove(&self.owner);
        }
        self.let_go(world);
    }

    fn let_go(&mut self, world: &mut World) {
        if let Some(hold) = self.hold.take() {
            world.release(hold);
        }
    }
}

/// Returns whether a session takes messages.
fn takes(world: &World, session: SessionRef) -> bool {
    world.session(session).is_some_and(|found| found.takes_messages()) && !world.outboxes.is_given_up(session.link)
}

/// Returns a message with the stamp of its arrival (XEP-0203 §2). The store has the sender's
/// original, so a stamp in our name is forged.
fn stamp(packet: Packet, domain: &str, unix_ms: u64) -> Packet {
    let is_forged = |child: &Child<'_>| child.is("delay", ns::DELAY) && child.attr("from").as_deref() == Some(domain);
    packet.without_children(is_forged).with_child(&delay::element(domain, unix_ms))
}

fn reference(world: &World, link: Link) -> Option<SessionRef> {
    world.session_at(link).map(|session| SessionRef { link, serial: session.serial })
}

/// The messages that a shard may be writing to the store, a quarter of them from one sender.
const PUSHES: Bounds = Bounds { number: 8192, bytes: 32 << 20 };
/// Milliseconds after which a session that had no room for the next message is tried again.
const AGAIN_MS: u64 = 1_000;
/// The bytes of stanzas that are loaded at a time.
const PORTION: usize = 64 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    fn fate_of(type_: &str, content: &str) -> OfflineFate {
        let stanza = format!("<message from='a@x/r' type='{type_}'>{content}</message>");
        fate(&Packet::from_bytes(stanza.as_bytes()).unwrap())
    }

    #[test]
    fn messages_that_a_user_would_miss_are_kept() {
        for content in [
            "<body>hi</body>",
            "<active xmlns='http://jabber.org/protocol/chatstates'/><body>hi</body>",
            "<body>hi</body><no-permanent-store xmlns='urn:xmpp:hints'/>",
            "<received xmlns='urn:xmpp:receipts' id='1'/>",
            "<subject>hi</subject>",
            "<composing xmlns='http://jabber.org/protocol/chatstates'/><store xmlns='urn:xmpp:hints'/>",
        ] {
            assert_eq!(fate_of("chat", content), OfflineFate::Kept, "{content}");
            assert_eq!(fate_of("normal", content), OfflineFate::Kept, "{content}");
        }
    }

    #[test]
    fn messages_that_mean_nothing_later_are_dropped() {
        for content in [
            "",
            "<composing xmlns='http://jabber.org/protocol/chatstates'/>",
            "<gone xmlns='http://jabber.org/protocol/chatstates'/><thread>7</thread>",
            "<paused xmlns='http://jabber.org/protocol/chatstates'/><no-copy xmlns='urn:xmpp:hints'/>",
            "<marker xmlns='urn:example'/><no-store xmlns='urn:xmpp:hints'/>",
        ] {
            assert_eq!(fate_of("chat", content), OfflineFate::Dropped, "{content}");
        }
    }

    #[test]
    fn messages_that_may_not_be_stored_are_refused() {
        assert_eq!(fate_of("chat", "<body>hi</body><no-store xmlns='urn:xmpp:hints'/>"), OfflineFate::Unstored);
        for type_ in ["groupchat", "headline", "error"] {
            assert_eq!(fate_of(type_, "<body>hi</body>"), OfflineFate::Refused, "{type_}");
        }
    }

    #[test]
    fn a_stamp_in_our_name_is_forged_and_others_stay() {
        let stanza = b"<message from='a@x/r'><delay xmlns='urn:xmpp:delay' from='a@x' stamp='1999-01-01T00:00:00Z'/>\
            <delay xmlns='urn:xmpp:delay' from='example.org' stamp='1998-01-01T00:00:00Z'/></message>";
        let once = stamp(Packet::from_bytes(stanza).unwrap(), "example.org", 0);
        let text = String::from_utf8_lossy(once.bytes()).into_owned();
        assert!(text.contains("from='example.org' stamp='1970-01-01T00:00:00Z'"), "{text}");
        assert!(text.contains("1999") && !text.contains("1998"), "{text}");
    }
}
