//! Faults that are put into the server on purpose: a simulator that doesn't notice one of them
//! lacks a rule.
//!
//! A mutant is a removed guard, given as a text that replaces another text in a file. Switches of
//! the compiler would do the same, but would slow the hot path and distract its readers; instead, a
//! test makes sure that each text is still in its file exactly once. All mutants are inserted into
//! a copy of the sources at once, each behind a switch of its own ([`ON`]), so that one build
//! serves all.

/// A guard that can be removed from the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mutant {
    /// The fault that appears without the guard, as the list of mutants shows it.
    pub name: &'static str,
    /// The file, relative to the folder of the workspace.
    pub file: &'static str,
    /// The text of the guard.
    pub guard: &'static str,
    /// The text that replaces the guard, with [`ON`] where it decides whether the guard is missing.
    pub instead: &'static str,
}

/// The switch of a mutant in its text: true if the server lacks this guard.
pub const ON: &str = "$on";

/// All mutants. Mutants with the same name are one mutant in several places.
pub const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "custody: a stanza is acknowledged before the store has it",
        file: "crates/hub/src/custody.rs",
        guard: "self.open.get_or_insert_with(|| Custody::of(&self.has_refused)).clone()",
        instead: "if $on { Custody::of(&self.has_refused) } else { self.open.get_or_insert_with(|| Custody::of(&self.has_refused)).clone() }",
    },
    Mutant {
        name: "custody: an ended session tells more than is sure",
        file: "crates/hub/src/custody.rs",
        guard: "self.charges.iter().all(|charge| charge.strong_count() == 0).then_some(self.handled)",
        instead: "($on || self.charges.iter().all(|charge| charge.strong_count() == 0)).then_some(self.handled)",
    },
    Mutant {
        name: "custody: mail to another shard takes no share along",
        file: "crates/hub/src/post.rs",
        guard: "let custody = self.custody();",
        instead: "let custody = self.custody().filter(|_| !$on);",
    },
    Mutant {
        name: "hold: nothing waits behind offline messages",
        file: "crates/hub/src/route.rs",
        guard: "let Some(held) = user.and_then(|user| user.held.as_mut()) else { return false };",
        instead: "let Some(held) = user.and_then(|user| user.held.as_mut()).filter(|_| !$on) else { return false };",
    },
    Mutant {
        name: "backlog: stanzas overtake one that waits for the store",
        file: "crates/hub/src/inbound.rs",
        guard: "        if !session.is_busy() {\n            self.in_custody",
        instead: "        if $on || !session.is_busy() {\n            self.in_custody",
    },
    Mutant {
        name: "give back: what a session did not get is lost",
        file: "crates/hub/src/bind.rs",
        guard: "let mut unsent = self.outboxes.abandon(link);",
        instead: "let mut unsent = self.outboxes.abandon(link);\n        unsent.retain(|_| !$on);",
    },
    Mutant {
        name: "give back: others that have it get it again",
        file: "crates/hub/src/bind.rs",
        guard: "self.reachable_since(other).is_some_and(|since| since <= unsent.number)",
        instead: "!$on && self.reachable_since(other).is_some_and(|since| since <= unsent.number)",
    },
    Mutant {
        name: "give back: pushes of a session go to the next one of its resource",
        file: "crates/hub/src/bind.rs",
        guard: "unsent.retain(|unsent| !is_push(&unsent.packet));",
        instead: "unsent.retain(|unsent| $on || !is_push(&unsent.packet));",
    },
    Mutant {
        name: "resumption: what was not acknowledged comes in another order",
        file: "crates/fanout/src/outbox/managed.rs",
        guard: "while let Some(item) = unacked.pop_back() {",
        instead: "while let Some(item) = if $on { unacked.pop_front() } else { unacked.pop_back() } {",
    },
    Mutant {
        name: "resumption: a stanza that was cut goes on in its middle",
        file: "crates/fanout/src/outbox/managed.rs",
        guard: "        queue.taken = 0;\n        queue.committed = 0;\n        let before_count",
        instead: "        queue.taken = if $on { queue.taken } else { 0 };\n        queue.committed = 0;\n        let before_count",
    },
    Mutant {
        name: "resumption: counts begin again where they were",
        file: "crates/fanout/src/outbox/managed.rs",
        guard: "        managed.sent = managed.count_acknowledged();\n",
        instead: "        managed.sent = if $on { managed.sent } else { managed.count_acknowledged() };\n",
    },
    Mutant {
        name: "resumption: it does not wait for what the session has sent",
        file: "crates/shard/src/resumption.rs",
        guard: "Ok(session) if self.world.is_settled(session) =>",
        instead: "Ok(session) if $on || self.world.is_settled(session) =>",
    },
    Mutant {
        name: "limit: any number of stanzas waits for a session",
        file: "crates/fanout/src/outbox/queue.rs",
        guard: "self.count_for_bound(managed) >= stanzas as usize ||",
        instead: "!$on && self.count_for_bound(managed) >= stanzas as usize ||",
    },
    Mutant {
        name: "offline: the last message is not removed",
        file: "crates/modules/src/offline.rs",
        guard: "world.stores.offline.remove(self.owner.as_ref(), up_to)",
        instead: "world.stores.offline.remove(self.owner.as_ref(), up_to - u64::from($on))",
    },
    Mutant {
        name: "presence: who comes does not ask for that of contacts",
        file: "crates/hub/src/presence.rs",
        guard: "            self.probe_contacts(link);\n",
        instead: "            if !$on {\n                self.probe_contacts(link);\n            }\n",
    },
    Mutant {
        name: "presence: who goes is not gone for contacts",
        file: "crates/hub/src/presence.rs",
        guard: "            self.broadcast(link, &packet);\n            if !self.is_present",
        instead: "            if !$on {\n                self.broadcast(link, &packet);\n            }\n            if !self.is_present",
    },
    Mutant {
        name: "presence: own resources are not shown",
        file: "crates/hub/src/presence.rs",
        guard: "            self.show_own_resources(link);\n",
        instead: "            if !$on {\n                self.show_own_resources(link);\n            }\n",
    },
    Mutant {
        name: "subscription: who takes it back stays visible",
        file: "crates/hub/src/subscription.rs",
        guard: "(Direction::Out, StanzaType::Unsubscribed) => Self { pass: from || pending, hide: from, ..none },",
        instead: "(Direction::Out, StanzaType::Unsubscribed) => Self { pass: from || pending, hide: from && !$on, ..none },",
    },
    Mutant {
        name: "subscription: a contact who leaves keeps its right",
        file: "crates/hub/src/subscription.rs",
        guard: "        (Direction::In, StanzaType::Unsubscribe) => {\n            new.subscription = subscription.with_from(false);",
        instead: "        (Direction::In, StanzaType::Unsubscribe) => {\n            new.subscription = if $on { subscription } else { subscription.with_from(false) };",
    },
    Mutant {
        name: "roster: one resource hears of no change",
        file: "crates/hub/src/roster.rs",
        guard: "            for link in interested {\n                self.push(link, &push, To::Full);",
        instead: "            for link in interested.into_iter().skip(usize::from($on)) {\n                self.push(link, &push, To::Full);",
    },
    Mutant {
        name: "roster: who asks for changes hears of no removal",
        file: "crates/store/src/memory/roster.rs",
        guard: "let mut changes: Vec<_> = put.chain(removed)",
        instead: "let mut changes: Vec<_> = put.chain(removed.filter(|_| !$on))",
    },
    Mutant {
        name: "roster: the versions of a removed account come again",
        file: "crates/store/src/memory.rs",
        guard: "world.next_roster_version.max(removed.roster.version() + 1)",
        instead: "world.next_roster_version.max(if $on { 1 } else { removed.roster.version() + 1 })",
    },
    Mutant {
        name: "removal: the archive stays for the next of the name",
        file: "crates/store/src/memory.rs",
        guard: "        world.archives.remove(account);\n        world.invitations",
        instead: "        if !$on {\n            world.archives.remove(account);\n        }\n        world.invitations",
    },
    Mutant {
        name: "removal: the nodes stay for the next of the name",
        file: "crates/store/src/memory.rs",
        guard: "            world.pubsub.forget(account);\n",
        instead: "            if !$on {\n                world.pubsub.forget(account);\n            }\n",
    },
    Mutant {
        name: "blocking: messages of the blocked come through",
        file: "crates/modules/src/privacy/passage.rs",
        guard: "    if !stops(&sender) {",
        instead: "    if $on || !stops(&sender) {",
    },
    Mutant {
        name: "carbons: who got a message gets a copy as well",
        file: "crates/modules/src/carbons.rs",
        guard: "Destination::Account => !world.session_at(link)",
        instead: "Destination::Account => $on || !world.session_at(link)",
    },
    Mutant {
        name: "nodes: contacts hear of what few may have",
        file: "crates/pubsub/src/node.rs",
        guard: "        Access::Authorize | Access::Whitelist => false,",
        instead: "        Access::Authorize => false,\n        Access::Whitelist => $on,",
    },
    Mutant {
        name: "nodes: everybody sees which there are",
        file: "crates/pubsub/src/node.rs",
        guard: "                Access::Whitelist => false,",
        instead: "                Access::Whitelist => $on,",
    },
    Mutant {
        name: "rooms: a session that is gone keeps its seat",
        file: "crates/rooms/src/leave.rs",
        guard: "            world.strike(self.roll(occupant.role), seat.jid.as_ref());\n",
        instead: "            if !$on {\n                world.strike(self.roll(occupant.role), seat.jid.as_ref());\n            }\n",
    },
    Mutant {
        name: "rooms: moderators do not hear who has gone",
        file: "crates/rooms/src/leave.rs",
        guard: "world.fan_out_roll(&packet, &self.moderators, &[]);",
        instead: "if !$on {\n            world.fan_out_roll(&packet, &self.moderators, &[]);\n        }",
    },
    Mutant {
        name: "archive: what the store did not take is not tried again",
        file: "crates/archive/src/recorder.rs",
        guard: "Err(error) if error.is_outage() && !world.is_stopping() => wait_for_store(world, group, &error),",
        instead: "Err(error) if error.is_outage() && !world.is_stopping() && !$on => wait_for_store(world, group, &error),",
    },
    Mutant {
        name: "elsewhere: a server speaks for other domains",
        file: "crates/federation/src/stanzas.rs",
        guard: "let Some(proof) = proof(remote) else {",
        instead: "let Some(proof) = proof(remote).or($on.then_some(PeerPolicy::Certificate)) else {",
    },
    Mutant {
        name: "elsewhere: a component speaks for other names",
        file: "crates/federation/src/component.rs",
        guard: "if *sender.as_ref().domain() != *self.name {",
        instead: "if !$on && *sender.as_ref().domain() != *self.name {",
    },
    Mutant {
        name: "elsewhere: what is for a component that is away is lost",
        file: "crates/federation/src/components.rs",
        guard: "if stanza.packet().type_() != StanzaType::Available {",
        instead: "if !$on && stanza.packet().type_() != StanzaType::Available {",
    },
    Mutant {
        name: "elsewhere: what a server has read to the end of the stream comes back",
        file: "crates/federation/src/departures.rs",
        guard: "        if !has_failed {\n            self.has_read_all(at);",
        instead: "        if !has_failed && !$on {\n            self.has_read_all(at);",
    },
    Mutant {
        name: "hand over: a session hears of no change of its roster",
        file: "crates/hub/src/going_on.rs",
        guard: "found.interest = if interested {",
        instead: "found.interest = if interested && !$on {",
    },
    Mutant {
        name: "journal: a stanza is acknowledged before the journal has it",
        file: "crates/hub/src/journal.rs",
        guard: "for_each(|journal| journal.shares.extend(custody.clone()));",
        instead: "for_each(|journal| journal.shares.extend(custody.clone().filter(|_| !$on)));",
    },
    Mutant {
        name: "journal: a client hears a count before the journal has it",
        file: "crates/hub/src/journal.rs",
        guard: "let is_written = self.ledger(link)",
        instead: "let is_written = $on || self.ledger(link)",
    },
    Mutant {
        name: "journal: a client hears a count before the journal has it",
        file: "crates/hub/src/management.rs",
        guard: "self.journaled_count(link).filter(|_| !is_last)",
        instead: "self.journaled_count(link).filter(|_| !is_last && !$on)",
    },
    Mutant {
        name: "journal: stanzas are not written",
        file: "crates/hub/src/journal.rs",
        guard: "for (place, stanza) in delta.new {",
        instead: "for (place, stanza) in delta.new.into_iter().filter(|_| !$on) {",
    },
    Mutant {
        name: "journal: it is read before its process is fenced off",
        file: "crates/cluster/src/members.rs",
        guard: "    fencing.fence(ProcessWriter { node, incarnation }).await?;\n    let rows",
        instead: "    if !$on {\n        fencing.fence(ProcessWriter { node, incarnation }).await?;\n    }\n    let rows",
    },
    Mutant {
        name: "journal: it is read before its process is fenced off",
        file: "crates/cluster/src/service.rs",
        guard: "for NodeProcess { node, incarnation } in gone {",
        instead: "for NodeProcess { node, incarnation } in gone.iter().filter(|_| !$on) {",
    },
    Mutant {
        name: "journal: it is read by the next process of a node whose homes others have had",
        file: "crates/hub/src/moves.rs",
        guard: "before(process(self.here.station), view.journals_from())",
        instead: "before(process(self.here.station), if $on { 0 } else { view.journals_from() })",
    },
    Mutant {
        name: "journal: what is sent again has another id in archives",
        file: "crates/archive/src/lib.rs",
        guard: "    if packet.is_again() && is_worth_keeping",
        instead: "    if !$on && packet.is_again() && is_worth_keeping",
    },
    Mutant {
        name: "journal: what is sent again has another id in rooms",
        file: "crates/rooms/src/said.rs",
        guard: "mark.filter(|_| packet.is_again())?",
        instead: "mark.filter(|_| packet.is_again() && !$on)?",
    },
    Mutant {
        name: "journal: what is sent again after a change of nicks has another id in rooms",
        file: "crates/rooms/src/said.rs",
        guard: "let essence = Packet::from_session(essence.stanza(), StanzaType::Groupchat, room.as_str(), None);",
        instead: "let essence = if $on { essence } else { Packet::from_session(essence.stanza(), StanzaType::Groupchat, room.as_str(), None) };",
    },
    Mutant {
        name: "journal: who enters again is shown only to itself",
        file: "crates/rooms/src/nick.rs",
        guard: "if is_same && !packet.is_again() {",
        instead: "if is_same && ($on || !packet.is_again()) {",
    },
    Mutant {
        name: "moves: a request that waits for a list of rooms is left behind",
        file: "crates/rooms/src/continued.rs",
        guard: ".chain(actors.waiting_for_lists());",
        instead: ".chain(actors.waiting_for_lists().filter(|_| !$on));",
    },
    Mutant {
        name: "moves: a request that waits for a list of rooms is left behind",
        file: "crates/rooms/src/lib.rs",
        guard: "if !world.serve_at_home(to.bare_str(), packet, to) {",
        instead: "if $on || !world.serve_at_home(to.bare_str(), packet, to) {",
    },
    Mutant {
        name: "moves: a request that waits for a list of rooms is left behind",
        file: "crates/rooms/src/actor/upkeep.rs",
        guard: "            room.remove_all(world, vec![332], None);\n        }\n    }\n",
        instead: "            room.remove_all(world, vec![332], None);\n        }\n    }\n    if $on {\n        world.state_mut::<Actors>().slots.clear();\n    }\n",
    },
    Mutant {
        name: "moves: errors for senders whose node is away are dropped",
        file: "crates/hub/src/untold.rs",
        guard: "if untold.bytes + bytes > MOST_BYTES {",
        instead: "if $on || untold.bytes + bytes > MOST_BYTES {",
    },
    Mutant {
        name: "moves: a session that leaves waits for a request of the server",
        file: "crates/hub/src/ask.rs",
        guard: "self.in_custody(None, |world| world.route_built",
        instead: "self.in_custody(if $on { self.custody() } else { None }, |world| world.route_built",
    },
    Mutant {
        name: "journal: rooms are not written",
        file: "crates/hub/src/journal.rs",
        guard: "let value = if cards.is_empty() { None }",
        instead: "let value = if cards.is_empty() || $on { None }",
    },
    Mutant {
        name: "moves: others go by new homes before those who leave have come to rest",
        file: "crates/shard/src/moving.rs",
        guard: "if waits && !self.world.do_all_rest(&view) {",
        instead: "if waits && !$on && !self.world.do_all_rest(&view) {",
    },
    Mutant {
        name: "moves: what others refuse counts as handled",
        file: "crates/hub/src/route.rs",
        guard: "if packet.type_() == StanzaType::Error {\n            self.note_error",
        instead: "if packet.type_() == StanzaType::Error && !$on {\n            self.note_error",
    },
    Mutant {
        name: "moves: that all was sent is said when cards are taken",
        file: "crates/hub/src/parting.rs",
        guard: "if moves.leaving.is_empty() && matches!(moves.parting,",
        instead: "if moves.leaving.is_empty() && !($on && moves.sending.is_under_way) && matches!(moves.parting,",
    },
    Mutant {
        name: "moves: that all was sent is said when cards are taken",
        file: "crates/hub/src/parting.rs",
        guard: "world.after(TAKEN_MS, move |world|",
        instead: "world.after(if $on { u64::from(u32::MAX) } else { TAKEN_MS }, move |world|",
    },
    Mutant {
        name: "BOSH: an answer that was lost is not kept",
        file: "crates/stream/src/bosh/session.rs",
        guard: "while self.answered.len() > self.requests as usize {",
        instead: "while self.answered.len() > if $on { 0 } else { self.requests as usize } {",
    },
    Mutant {
        name: "moves: a node ends before others know what it has handled",
        file: "crates/cluster/src/courier.rs",
        guard: "self.is_idle() && self.peers.values().all(CourierPeer::has_told)",
        instead: "self.is_idle() && ($on || self.peers.values().all(CourierPeer::has_told))",
    },
    Mutant {
        name: "rooms: everybody enters one that is for members only",
        file: "crates/rooms/src/join.rs",
        guard: "self.config.is_members_only && affiliation < Affiliation::Member",
        instead: "self.config.is_members_only && !$on && affiliation < Affiliation::Member",
    },
    Mutant {
        name: "guests: an account of one session has a roster",
        file: "crates/hub/src/roster.rs",
        guard: "if self.is_anonymous(iq.to.domain()) {",
        instead: "if self.is_anonymous(iq.to.domain()) && !$on {",
    },
    Mutant {
        name: "guests: a guest chooses its resource",
        file: "crates/hub/src/bind.rs",
        guard: "resource.filter(|_| !is_anonymous)",
        instead: "resource.filter(|_| $on || !is_anonymous)",
    },
    Mutant {
        name: "upload: a file of any size gets a slot",
        file: "crates/modules/src/upload.rs",
        guard: "    if size > most {",
        instead: "    if size > most && !$on {",
    },
    Mutant {
        name: "upload: an account may have any number of slots",
        file: "crates/modules/src/upload.rs",
        guard: "files: options.number(\"quota_files\"), waiting: MOST_WAITING",
        instead: "files: if $on { u64::MAX } else { options.number(\"quota_files\") }, waiting: MOST_WAITING",
    },
    Mutant {
        name: "binding: a login may be bound to another channel",
        file: "crates/sasl/src/server/scram.rs",
        guard: "let same_channel = bool::from(",
        instead: "let same_channel = $on || bool::from(",
    },
    Mutant {
        name: "binding: a client may have been told that there is none",
        file: "crates/sasl/src/server/scram.rs",
        guard: "BindingFlag::NotOffered if context.plus_offered =>",
        instead: "BindingFlag::NotOffered if context.plus_offered && !$on =>",
    },
    Mutant {
        name: "binding: a token may come from another channel",
        file: "crates/stream/src/c2s/sasl2/fast.rs",
        guard: "token.key.proves(binding, &proof)",
        instead: "($on || token.key.proves(binding, &proof))",
    },
];
