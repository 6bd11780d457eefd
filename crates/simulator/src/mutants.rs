//! Faults that are put into the server on purpose: a simulator that misses one of them has a rule
//! too few.
//!
//! A mutant is a guard that is taken away, as one text that takes the place of another in a file.
//! Texts and not switches of the compiler, since a switch would stand in the hot path and in the
//! way of its readers; a test sees to it that each text is still there exactly once.

/// A guard that is taken away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mutant {
    /// Its name.
    pub name: &'static str,
    /// The file, below the folder of the workspace.
    pub file: &'static str,
    /// The text that stands there.
    pub guard: &'static str,
    /// The text that takes its place.
    pub instead: &'static str,
}

/// All mutants.
pub const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "custody: a stanza is acknowledged before the store has it",
        file: "crates/hub/src/custody.rs",
        guard: "self.open.get_or_insert_with(|| Custody(Arc::default())).clone()",
        instead: "Custody(Arc::default())",
    },
    Mutant {
        name: "custody: mail to another shard takes no share along",
        file: "crates/hub/src/custody.rs",
        guard: "let is_settled = self.charges.iter().all(|charge| charge.strong_count() == 0);",
        instead: "let is_settled = true;",
    },
    Mutant {
        name: "hold: nothing waits behind offline messages",
        file: "crates/hub/src/route.rs",
        guard: "let Some(held) = user.and_then(|user| user.held.as_mut()) else { return false };",
        instead: "let Some(held) = user.and_then(|user| user.held.as_mut()).filter(|_| false) else { return false };",
    },
    Mutant {
        name: "lane: stanzas overtake one that waits for the store",
        file: "crates/hub/src/inbound.rs",
        guard: "        if !session.is_busy() {\n            self.in_custody",
        instead: "        if true {\n            self.in_custody",
    },
    Mutant {
        name: "give back: what a session did not get is lost",
        file: "crates/hub/src/bind.rs",
        guard: "        self.give_back(link);\n        if !is_busy {",
        instead: "        if !is_busy {",
    },
    Mutant {
        name: "give back: others that have it get it again",
        file: "crates/hub/src/bind.rs",
        guard: "found.takes_messages() && found.reachable_since <= unsent.number",
        instead: "false",
    },
    Mutant {
        name: "resumption: what was not acknowledged comes in another order",
        file: "crates/fanout/src/outbox/managed.rs",
        guard: "while let Some(item) = unacked.pop_back() {",
        instead: "while let Some(item) = unacked.pop_front() {",
    },
    Mutant {
        name: "resumption: a stanza that was cut goes on in its middle",
        file: "crates/fanout/src/outbox/managed.rs",
        guard: "        queue.taken = 0;\n        queue.committed = 0;\n        let before_count",
        instead: "        queue.committed = 0;\n        let before_count",
    },
    Mutant {
        name: "resumption: counts begin again where they were",
        file: "crates/fanout/src/outbox/managed.rs",
        guard: "        managed.sent = managed.acknowledged();\n",
        instead: "",
    },
    Mutant {
        name: "resumption: it does not wait for what the session has sent",
        file: "crates/shard/src/resumption.rs",
        guard: "Ok(session) if self.world.is_settled(session) =>",
        instead: "Ok(session) =>",
    },
    Mutant {
        name: "offline: the last message is not removed",
        file: "crates/modules/src/offline.rs",
        guard: "world.stores.offline.remove(self.owner.as_ref(), up_to)",
        instead: "world.stores.offline.remove(self.owner.as_ref(), up_to - 1)",
    },
    Mutant {
        name: "presence: who comes does not ask for that of contacts",
        file: "crates/hub/src/presence.rs",
        guard: "            self.probe_contacts(link);\n",
        instead: "",
    },
    Mutant {
        name: "presence: who goes is not gone for contacts",
        file: "crates/hub/src/presence.rs",
        guard: "            self.broadcast(link, &packet);\n            if !self.is_present",
        instead: "            if !self.is_present",
    },
    Mutant {
        name: "presence: own resources are not shown",
        file: "crates/hub/src/presence.rs",
        guard: "            self.show_own_resources(link);\n",
        instead: "",
    },
    Mutant {
        name: "subscription: who takes it back stays visible",
        file: "crates/hub/src/subscription.rs",
        guard: "Self { pass: from || pending, hide: from, ..none },\n            (Direction::In, StanzaType::Subscribe) if from =>",
        instead: "Self { pass: from || pending, ..none },\n            (Direction::In, StanzaType::Subscribe) if from =>",
    },
    Mutant {
        name: "subscription: a contact who leaves keeps its right",
        file: "crates/hub/src/subscription.rs",
        guard: "        (Direction::In, StanzaType::Unsubscribe) => {\n            new.subscription = subscription.with_from(false);",
        instead: "        (Direction::In, StanzaType::Unsubscribe) => {",
    },
    Mutant {
        name: "roster: one resource hears of no change",
        file: "crates/hub/src/roster.rs",
        guard: "            for link in interested {\n                self.push(link, &push, To::Full);",
        instead: "            for link in interested.into_iter().skip(1) {\n                self.push(link, &push, To::Full);",
    },
    Mutant {
        name: "blocking: messages of the blocked come through",
        file: "crates/modules/src/privacy/passage.rs",
        guard: "    if !stops(&sender) {",
        instead: "    if true || !stops(&sender) {",
    },
    Mutant {
        name: "carbons: who got a message gets a copy as well",
        file: "crates/modules/src/carbons.rs",
        guard: "Destination::Account => !world.session_at(link).is_some_and(|session| session.takes_messages()),",
        instead: "Destination::Account => true,",
    },
    Mutant {
        name: "rooms: a session that is gone keeps its seat",
        file: "crates/rooms/src/leave.rs",
        guard: "            world.strike(self.roll(occupant.role), seat.jid.as_ref());\n",
        instead: "",
    },
    Mutant {
        name: "rooms: moderators do not hear who has gone",
        file: "crates/rooms/src/leave.rs",
        guard: "world.fan_out_roll(&packet, &self.moderators, &[]);",
        instead: "let _ = &packet;",
    },
    Mutant {
        name: "archive: what the store did not take is not tried again",
        file: "crates/archive/src/recorder.rs",
        guard: "Err(error) if error.is_outage() && !world.is_stopping() => wait_for_store(world, group, &error),",
        instead: "Err(error) if error.is_outage() && !world.is_stopping() => refused(world, &group, &error),",
    },
];
