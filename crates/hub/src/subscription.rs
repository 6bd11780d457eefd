//! The subscription state machine: RFC 6121 §3 and Appendix A as pure functions over a roster item.
//!
//! [`edit`] applies an event to the item; [`Effects`] derives, from the previous item, the stanzas
//! to send. The store runs the first inside its own step, so two events on one item can't
//! interleave; the second runs on the shard, afterwards.

use rookery_fanout::StanzaType;
use rookery_jid::Jid;
use rookery_store::{Edit, RosterItem, SizeOf};

use crate::settings::RosterLimits;

/// The direction of a stanza: sent by the account's owner, or received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// Sent by the owner (Appendix A.2).
    Out,
    /// Sent by the contact (Appendix A.3).
    In,
}

/// A subscription stanza as the state machine sees it.
#[derive(Debug, Clone)]
pub struct SubscriptionEvent {
    /// Sent or received.
    pub direction: Direction,
    /// `Subscribe`, `Subscribed`, `Unsubscribe` or `Unsubscribed`.
    pub type_: StanzaType,
    /// The stanza to keep while a received `subscribe` waits for an answer (§3.1.3); empty
    /// otherwise.
    pub stanza: Vec<u8>,
}

/// The stanzas that must be sent after an event, given the item as it was before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Effects {
    /// Pass the stanza on: to the contact if the owner sent it, to the owner's resources if the
    /// contact did.
    pub pass: bool,
    /// Answer the contact with `subscribed` in the owner's name (§3.1.3, §3.4.2).
    pub approve: bool,
    /// Send the contact the available presence of the owner's resources (§3.1.5).
    pub show: bool,
    /// Send the contact unavailable presence of the owner's resources (§3.2.2, §3.3.3).
    pub hide: bool,
}

/// Returns the change that `event` makes to the item of `contact`. A roster that is full by
/// `limits` accepts no more contacts; the requests of people who aren't contacts have a separate
/// limit, so that they take nobody else's place.
pub fn edit(
    event: &SubscriptionEvent,
    contact: &Jid,
    limits: &RosterLimits,
    item: Option<&RosterItem>,
    size: SizeOf<'_>,
) -> Edit {
    if item.is_none() && !may_create(event) {
        return Edit::Keep;
    }
    let is_new = item.is_none();
    let was_visible = item.is_some_and(RosterItem::visible);
    let mut new = item.cloned().unwrap_or_else(|| RosterItem { listed: false, ..RosterItem::new(contact.clone()) });
    let subscription = new.subscription;
    match (event.direction, event.type_) {
        (Direction::Out, StanzaType::Subscribe) => {
            new.listed = true;
            new.ask = new.ask || !subscription.to();
        }
        (Direction::Out, StanzaType::Unsubscribe) | (Direction::In, StanzaType::Unsubscribed) => {
            new.subscription = subscription.with_to(false);
            new.ask = false;
        }
        (Direction::Out, StanzaType::Subscribed) if new.pending_in.is_some() => {
            new.listed = true;
            new.pending_in = None;
            new.subscription = subscription.with_from(true);
        }
        (Direction::Out, StanzaType::Subscribed) if !subscription.from() => {
            new.listed = true;
            new.approved = true;
        }
        (Direction::Out, StanzaType::Unsubscribed) => {
            new.subscription = subscription.with_from(false);
            new.pending_in = None;
            new.approved = false;
        }
        (Direction::In, StanzaType::Subscribe) if subscription.from() => {}
        (Direction::In, StanzaType::Subscribe) if new.approved => {
            new.subscription = subscription.with_from(true);
            new.pending_in = None;
        }
        (Direction::In, StanzaType::Subscribe) => new.pending_in = Some(event.stanza.clone()),
        (Direction::In, StanzaType::Unsubscribe) => {
            new.subscription = subscription.with_from(false);
            new.pending_in = None;
        }
        (Direction::In, StanzaType::Subscribed) if new.ask => {
            new.subscription = subscription.with_to(true);
            new.ask = false;
        }
        _ => {}
    }
    if !new.visible() && new.pending_in.is_none() {
        return if is_new { Edit::Keep } else { Edit::Remove };
    }
    if new.visible() && !was_visible && !limits.take(&size(), new.bytes())
        || is_new && !new.visible() && size().requests >= limits.requests
    {
        return Edit::Keep;
    }
    if item == Some(&new) { Edit::Keep } else { Edit::Put(new) }
}

/// Returns whether an event may create an item: a sent or received request, and a pre-approval
/// (§3.4).
fn may_create(event: &SubscriptionEvent) -> bool {
    matches!((event.direction, event.type_), (_, StanzaType::Subscribe) | (Direction::Out, StanzaType::Subscribed))
}

impl Effects {
    /// Returns the effects of an event, from the item before and after it.
    pub fn of(
        direction: Direction,
        type_: StanzaType,
        before: Option<&RosterItem>,
        after: Option<&RosterItem>,
    ) -> Self {
        let from = before.is_some_and(|item| item.subscription.from());
        let to = before.is_some_and(|item| item.subscription.to());
        let ask = before.is_some_and(|item| item.ask);
        let pending = before.is_some_and(|item| item.pending_in.is_some());
        let from_now = after.is_some_and(|item| item.subscription.from());
        let pending_now = after.is_some_and(|item| item.pending_in.is_some());
        let none = Self::default();
        match (direction, type_) {
            (Direction::Out, StanzaType::Subscribe | StanzaType::Unsubscribe) => Self { pass: true, ..none },
            (Direction::Out, StanzaType::Subscribed) => Self { pass: pending, show: pending, ..none },
            (Direction::Out, StanzaType::Unsubscribed) => Self { pass: from || pending, hide: from, ..none },
            // A user who asks again may not see the contact's presence, for example because an
            // earlier approval found no request: the answer is sent with the presence (§3.1.5).
            (Direction::In, StanzaType::Subscribe) if from || from_now => Self { approve: true, show: true, ..none },
            (Direction::In, StanzaType::Subscribe) => Self { pass: !pending && pending_now, ..none },
            (Direction::In, StanzaType::Unsubscribe) => Self { pass: from || pending, hide: from, ..none },
            (Direction::In, StanzaType::Subscribed) => Self { pass: ask, ..none },
            (Direction::In, StanzaType::Unsubscribed) => Self { pass: to || ask, ..none },
            _ => none,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use StanzaType::{Subscribe, Subscribed, Unsubscribe, Unsubscribed};
    use rookery_store::{RosterSize, Subscription};

    fn contact() -> Jid {
        Jid::parse("contact@example.org").unwrap()
    }

    /// Returns an item in one of the nine states of Appendix A.1, e.g. `"from out"`, `"none in"`;
    /// `None` for no item.
    fn state(name: &str) -> Option<RosterItem> {
        let mut item = RosterItem::new(contact());
        for word in name.split(' ') {
            match word {
                "absent" => return None,
                "none" => {}
                "to" => item.subscription = Subscription::To,
                "from" => item.subscription = Subscription::From,
                "both" => item.subscription = Subscription::Both,
                "out" => item.ask = true,
                "in" => item.pending_in = Some(b"<presence/>".to_vec()),
                "approved" => item.approved = true,
                "hidden" => item.listed = false,
                other => panic!("no such state: {other}"),
            }
        }
        Some(item)
    }

    fn step(direction: Direction, type_: StanzaType, before: &str) -> (Option<RosterItem>, Effects) {
        let item = state(before);
        let event = SubscriptionEvent { direction, type_, stanza: b"<presence/>".to_vec() };
        let after = match edit(&event, &contact(), &RosterLimits::default(), item.as_ref(), &mut RosterSize::default) {
            Edit::Keep => item.clone(),
            Edit::Put(item) => Some(item),
            Edit::Remove => None,
        };
        let effects = Effects::of(direction, type_, item.as_ref(), after.as_ref());
        (after, effects)
    }

    /// Checks one row of a table of Appendix A: event, state before, state after, and whether the
    /// stanza is passed on.
    fn row(direction: Direction, type_: StanzaType, before: &str, after: &str, pass: bool) {
        let (item, effects) = step(direction, type_, before);
        assert_eq!(item, state(after), "{direction:?} {type_:?} in '{before}'");
        assert_eq!(effects.pass, pass, "{direction:?} {type_:?} in '{before}'");
    }

    #[test]
    fn outbound_subscribe_appendix_a_2_1() {
        for (before, after) in [
            ("absent", "none out"),
            ("none", "none out"),
            ("none out", "none out"),
            ("none in", "none out in"),
            ("none out in", "none out in"),
            ("to", "to"),
            ("to in", "to in"),
            ("from", "from out"),
            ("from out", "from out"),
            ("both", "both"),
        ] {
            row(Direction::Out, Subscribe, before, after, true);
        }
    }

    #[test]
    fn outbound_unsubscribe_appendix_a_2_2() {
        for (before, after) in [
            ("none", "none"),
            ("none out", "none"),
            ("none in", "none in"),
            ("none out in", "none in"),
            ("to", "none"),
            ("to in", "none in"),
            ("from", "from"),
            ("from out", "from"),
            ("both", "from"),
        ] {
            row(Direction::Out, Unsubscribe, before, after, true);
        }
    }

    #[test]
    fn outbound_subscribed_appendix_a_2_3_and_pre_approval() {
        for (before, after, pass) in [
            ("absent", "none approved", false),
            ("none", "none approved", false),
            ("none out", "none out approved", false),
            ("none in", "from", true),
            ("none out in", "from out", true),
            ("to", "to approved", false),
            ("to in", "both", true),
            ("from", "from", false),
            ("from out", "from out", false),
            ("both", "both", false),
        ] {
            row(Direction::Out, Subscribed, before, after, pass);
        }
    }

    #[test]
    fn outbound_unsubscribed_appendix_a_2_4() {
        for (before, after, pass) in [
            ("none", "none", false),
            ("none approved", "none", false),
            ("none out", "none out", false),
            ("none in", "none", true),
            ("none in hidden", "absent", true),
            ("none out in", "none out", true),
            ("to", "to", false),
            ("to in", "to", true),
            ("from", "none", true),
            ("from out", "none out", true),
            ("both", "to", true),
        ] {
            row(Direction::Out, Unsubscribed, before, after, pass);
        }
    }

    #[test]
    fn inbound_subscribe_appendix_a_3_1() {
        for (before, after, pass) in [
            ("absent", "none in hidden", true),
            ("none", "none in", true),
            ("none out", "none out in", true),
            ("none in", "none in", false),
            ("none out in", "none out in", false),
            ("to", "to in", true),
            ("to in", "to in", false),
            ("from", "from", false),
            ("from out", "from out", false),
            ("both", "both", false),
            ("none approved", "from approved", false),
        ] {
            row(Direction::In, Subscribe, before, after, pass);
        }
        assert!(step(Direction::In, Subscribe, "both").1.approve, "the server answers for the owner");
        let (_, effects) = step(Direction::In, Subscribe, "to approved");
        assert!(effects.approve && effects.show);
    }

    #[test]
    fn inbound_unsubscribe_appendix_a_3_2() {
        for (before, after, pass) in [
            ("absent", "absent", false),
            ("none", "none", false),
            ("none out", "none out", false),
            ("none in", "none", true),
            ("none in hidden", "absent", true),
            ("none out in", "none out", true),
            ("to", "to", false),
            ("to in", "to", true),
            ("from", "none", true),
            ("from out", "none out", true),
            ("both", "to", true),
        ] {
            row(Direction::In, Unsubscribe, before, after, pass);
        }
        assert!(step(Direction::In, Unsubscribe, "both").1.hide);
    }

    #[test]
    fn inbound_subscribed_appendix_a_3_3() {
        for (before, after, pass) in [
            ("absent", "absent", false),
            ("none", "none", false),
            ("none out", "to", true),
            ("none in", "none in", false),
            ("none out in", "to in", true),
            ("to", "to", false),
            ("to in", "to in", false),
            ("from", "from", false),
            ("from out", "both", true),
            ("both", "both", false),
        ] {
            row(Direction::In, Subscribed, before, after, pass);
        }
    }

    #[test]
    fn inbound_unsubscribed_appendix_a_3_4() {
        for (before, after, pass) in [
            ("absent", "absent", false),
            ("none", "none", false),
            ("none out", "none", true),
            ("none in", "none in", false),
            ("none out in", "none in", true),
            ("to", "none", true),
            ("to in", "none in", true),
            ("from", "from", false),
            ("from out", "from", true),
            ("both", "from", true),
        ] {
            row(Direction::In, Unsubscribed, before, after, pass);
        }
    }

    /// Nothing in a refusal says which request it answers: one that crosses a second request takes
    /// back both, and the contact's answer to the second finds no pending request (§3.1.6).
    #[test]
    fn a_refusal_that_crosses_a_second_request_is_of_both() {
        row(Direction::Out, Subscribe, "none out", "none out", true);
        row(Direction::In, Unsubscribed, "none out", "none", true);
        row(Direction::In, Subscribed, "none", "none", false);
        // The contact, who has refused the first request and approves the second.
        row(Direction::Out, Unsubscribed, "none in", "none", true);
        row(Direction::In, Subscribe, "none", "none in", true);
        row(Direction::Out, Subscribed, "none in", "from", true);
    }

    #[test]
    fn a_full_roster_takes_no_more_items() {
        let limits = RosterLimits { items: 10, requests: 5, bytes: 1000, ..RosterLimits::default() };
        let is_taken = |direction, size: RosterSize| {
            let event = SubscriptionEvent { direction, type_: Subscribe, stanza: Vec::new() };
            edit(&event, &contact(), &limits, None, &mut || size) != Edit::Keep
        };
        let full = RosterSize { items: 10, requests: 5, bytes: 990 };
        let size = |items, requests, bytes| RosterSize { items, requests, bytes };
        assert!(!is_taken(Direction::In, full) && !is_taken(Direction::Out, full));
        assert!(is_taken(Direction::In, size(10, 4, 990)), "requests don't need the place of contacts");
        assert!(is_taken(Direction::Out, size(9, 5, 900)), "nor contacts that of requests");
        assert!(!is_taken(Direction::Out, size(10, 0, 0)) && !is_taken(Direction::Out, size(0, 0, 990)));
        // A user who is accepted becomes a contact.
        let request = state("none in hidden");
        let event = SubscriptionEvent { direction: Direction::Out, type_: Subscribed, stanza: Vec::new() };
        assert_eq!(edit(&event, &contact(), &limits, request.as_ref(), &mut || full), Edit::Keep);
    }
}
