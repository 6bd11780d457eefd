//! The end of a run: the faults are over, all clients return, and their views are compared with
//! each other and with the book.

use std::collections::{BTreeMap, BTreeSet};

use rookery_hub::{Census, World};

use crate::archives::{archives, privacy, room_archives};
use crate::book::{BookedItem, BookedRecipient};
use crate::device::{NODES, RosterEntry, UserDevice, account_of};
use crate::peer::{SimulatedPeer, USERS};
use crate::run::SimulatedRun;
use crate::unsteady::DatabaseTrouble;

/// Ends all faults, makes all clients return and compares their views.
pub(crate) fn come_to_rest(run: &mut SimulatedRun) {
    run.book.note(format_args!("-- the faults are over"));
    run.book.forget_going_on();
    run.nodes.set_trouble(DatabaseTrouble::None);
    run.unstall();
    for device in &mut run.devices {
        device.reads = true;
        device.plan.is_attacked = false;
        device.widen();
    }
    run.peer.iter_mut().for_each(SimulatedPeer::widen);
    // All nodes that were missing return at once.
    run.overlap_moves();
    for round in 0..MOST_MENDS {
        // Nodes notice orders within seconds.
        if run.nodes.mend() && !run.nodes.is_moving() && (round > 1 || run.nodes.count() == 1) {
            break;
        }
        run.pass(2_000);
    }
    if run.nodes.is_moving() {
        let how = run.nodes.describe();
        run.book.break_rule(format!("nodes do not come to go by the same homes when all faults are over: {how}"));
    }
    // From here on, requests are answered at once and don't wait for the clock.
    run.nodes.linger_no_more();
    // In this time slow clients get their output, and operations are done that waited for an
    // unavailable store.
    run.pass_in(STRIDES, MINUTE_MS);
    gather(run);
    // In this time sessions end that no client resumed.
    run.pass_in(STRIDES, RESUMABLE_MS);
    gather(run);
    let checks: [fn(&mut SimulatedRun); 11] =
        [answers, rosters, presences, rooms, archives, room_archives, privacy, deliveries, news, abroad, guests];
    for check in checks {
        if run.book.first_breach().is_none() {
            check(run);
        }
    }
    if run.book.first_breach().is_none() {
        disperse(run);
    }
}

/// Checks that all devices are there, and available.
fn gather(run: &mut SimulatedRun) {
    for _ in 0..20 {
        run.settle();
        let mut all = true;
        for device in &mut run.devices {
            all &= device.is_ready();
            if let Some((node, server)) = run.nodes.open(device.index) {
                device.connect(node, &server, &mut run.book);
            }
        }
        if let Some(peer) = &mut run.peer {
            peer.come(run.nodes.first(), &mut run.book);
        }
        if let Some(guests) = &mut run.guests {
            guests.gather(run.nodes.first(), &mut run.book);
        }
        if all || run.book.first_breach().is_some() {
            break;
        }
        run.pass(30_000);
    }
    if let Some(device) = run.devices.iter().find(|device| !device.is_ready()) {
        let name = device.full();
        run.book.break_rule(format!("{name} can't log in when all faults are over"));
    }
    for device in &mut run.devices {
        device.come_back(&mut run.book);
    }
    run.settle();
}

/// Checks that every request has its reply (RFC 6120 §8.2.3).
fn answers(run: &mut SimulatedRun) {
    for device in &run.devices {
        // A resource that was asked may have ended before it replied. A session that moves
        // continues without data that could not be stored in time, which counts as a death.
        let may_be_lost = |deaths: usize| run.book.node_deaths > 0 && deaths < run.book.deaths;
        let open = device.asked.iter().find(|(id, deaths)| !id.starts_with("ask") && !may_be_lost(**deaths));
        if let Some((id, _)) = open {
            return run.book.break_rule(format!("{} has no answer to {id} (RFC 6120 §8.2.3)", device.full()));
        }
    }
}

/// Checks that all resources of an account have the same roster, and that it is the server's (RFC
/// 6121 §2.1.6).
fn rosters(run: &mut SimulatedRun) {
    let before: Vec<_> = run.devices.iter().map(|device| device.roster.clone()).collect();
    for device in &mut run.devices {
        device.ask_roster(&mut run.book);
    }
    run.settle();
    for (device, before) in run.devices.iter().zip(before) {
        let (Some(before), Some(now)) = (before, &device.roster) else { continue };
        if before != *now && !run.book.store_failed && run.book.node_deaths == 0 {
            let name = device.full();
            return run.book.break_rule(format!(
                "{name} believed its roster to be {before:?}, and it is {now:?} (RFC 6121 §2.1.6)"
            ));
        }
    }
    if run.book.deaths > 0 || run.book.store_failed {
        return;
    }
    // Both sides of a subscription must agree (RFC 6121 §3).
    let entries = entries(&run.devices);
    for (&(user, contact), entry) in &entries {
        let other = entries.get(&(contact, user));
        let other = other.map_or("none", |other| &*other.subscription);
        let sees = matches!(&*entry.subscription, "to" | "both");
        let is_seen = matches!(other, "from" | "both");
        let blockers = &run.book.blockers;
        let is_blocked = blockers.contains(&(user, contact)) || blockers.contains(&(contact, user));
        let may_be_refused = !sees && run.book.may_be_crossed(user, contact);
        if sees != is_seen && !is_blocked && !may_be_refused {
            let subscription = &entry.subscription;
            let text = format!("u{user} has u{contact} as {subscription:?}, u{contact} has u{user} as {other:?}");
            return run.book.break_rule(format!("{text} (RFC 6121 §3)"));
        }
    }
}

fn entries(devices: &[UserDevice]) -> BTreeMap<(usize, usize), RosterEntry> {
    let mut entries = BTreeMap::new();
    for device in devices {
        for (jid, entry) in device.roster.iter().flatten() {
            if let Some(contact) = account_of(jid) {
                entries.insert((device.plan.account, contact), entry.clone());
            }
        }
    }
    entries
}

/// Checks that all devices see the last presence of everyone whose presence they may see, and of
/// nobody else (RFC 6121 §4).
fn presences(run: &mut SimulatedRun) {
    // Nobody is told of sessions that end with their node, and their last changes may not be
    // stored.
    if run.book.store_failed || run.book.node_deaths > 0 {
        return;
    }
    let entries = entries(&run.devices);
    let is_blocked = |a: usize, b: usize| run.book.blockers.contains(&(a, b)) || run.book.blockers.contains(&(b, a));
    let mut broken = None;
    for device in run.devices.iter().filter(|device| device.shown.is_some()) {
        for other in &run.devices {
            let (user, contact) = (device.plan.account, other.plan.account);
            if is_blocked(user, contact) {
                continue;
            }
            let sees = user == contact
                || entries.get(&(user, contact)).is_some_and(|entry| matches!(&*entry.subscription, "to" | "both"));
            // If a process dies, perhaps only one side was told.
            let is_shown = entries.get(&(contact, user)).map(|entry| &*entry.subscription);
            let is_shown = user == contact || matches!(is_shown, Some("from" | "both"));
            let may_differ = run.book.deaths > 0 || run.book.may_be_crossed(user, contact);
            if may_differ && sees != is_shown {
                continue;
            }
            let wanted = other.shown.filter(|_| sees);
            let found = device.sight.get(&other.full()).copied();
            if wanted != found {
                let (device, other) = (device.full(), other.full());
                broken.get_or_insert(format!(
                    "{device} sees presence {found:?} of {other}, which should be {wanted:?} (RFC 6121 §4)"
                ));
            }
        }
    }
    broken.into_iter().for_each(|broken| run.book.break_rule(broken));
}

/// Checks that the occupants of a room agree on who is in it, and that they are right (XEP-0045
/// §7).
fn rooms(run: &mut SimulatedRun) {
    // Rooms of a node that died without a journal are gone, and their occupants aren't told.
    if run.book.lossy_node_deaths > 0 {
        return;
    }
    run.devices.iter_mut().for_each(|device| device.ping_rooms(&mut run.book));
    run.settle();
    for room in (0..run.people.rooms).filter(|room| !run.book.unsettled.contains(room)) {
        let seated: Vec<&UserDevice> = run.devices.iter().filter(|device| device.seats[room].nick.is_some()).collect();
        let nicks: BTreeSet<&String> = seated.iter().filter_map(|device| device.seats[room].nick.as_ref()).collect();
        // An occupant whose session ended with its node stays in the room if its address soon
        // returns.
        let is_ghost = |nick: &String| !nicks.contains(nick) && run.book.is_ghost(room, nick);
        let believed = |device: &UserDevice| -> BTreeMap<String, (String, String)> {
            let view = device.seats[room].view.iter().filter(|(nick, _)| !is_ghost(nick));
            view.map(|(nick, who)| (nick.clone(), who.clone())).collect()
        };
        let first = seated.first().map(|device| believed(device)).unwrap_or_default();
        for device in &seated {
            let view = believed(device);
            if !view.keys().eq(nicks.iter().copied()) {
                let name = device.full();
                let found: Vec<_> = view.keys().collect();
                return run.book.break_rule(format!(
                    "{name} believes that {found:?} are in room {room}, where {nicks:?} are (XEP-0045 §7)"
                ));
            }
            if view != first {
                let (one, other) = (device.full(), seated[0].full());
                return run.book.break_rule(format!("{one} believes {view:?} of room {room}, {other} {first:?}"));
            }
        }
    }
    room_order(run);
}

/// Checks that all occupants get the same messages in the same order, without gaps.
fn room_order(run: &mut SimulatedRun) {
    let stays = &run.book.stays;
    // Those may have come once more, after later ones: to somebody who has entered in the meantime,
    // for the first time.
    let may_be_late = |number: &usize| run.book.loose.contains(number) || run.book.doubtful.contains(number);
    for (at, one) in stays.iter().enumerate() {
        for other in stays[at + 1..].iter().filter(|other| other.room == one.room) {
            let [a, b] = [(one, other), (other, one)].map(|(own, others)| {
                let common = |number: &usize| others.heard.contains(number);
                let heard: Vec<usize> = own.heard.iter().copied().filter(|number| !may_be_late(number)).collect();
                let from = heard.iter().position(common);
                let to = heard.iter().rposition(common);
                from.zip(to).map(|(from, to)| heard[from..=to].to_vec()).unwrap_or_default()
            });
            if a != b {
                let (room, a, b) = (one.room, format!("{a:?}"), format!("{b:?}"));
                let (one, other) = (one.session, other.session);
                return run.book.break_rule(format!("in room {room} session {one} heard {a}, session {other} {b}"));
            }
        }
    }
}

/// Checks that every acknowledged message has reached a client (XEP-0198 §4).
fn deliveries(run: &mut SimulatedRun) {
    let mut broken = None;
    for (number, message) in run.book.messages.iter().enumerate() {
        let account = match message.to {
            BookedRecipient::Account(account) | BookedRecipient::Device(account, _) => account,
            BookedRecipient::Room(_) => continue,
        };
        let may_be_blocked = run.book.blockers.contains(&(account, message.account))
            || run.book.blockers.contains(&(message.account, account));
        let died = message.losses < run.book.losses();
        let may_be_gone = run.book.removed.contains(&account);
        let is_uncertain = died || may_be_blocked || may_be_gone || run.book.store_failed;
        if !message.is_handled || message.is_refused || is_uncertain {
            continue;
        }
        // If the addressed session existed then and still exists, it must have got the message
        // itself (RFC 6121 §8.5.3.1): no acknowledged message is missing after `<resumed/>`.
        let lasting = message.for_session.map(|session| &run.book.sessions[session]);
        let lasting = lasting.filter(|session| !session.is_over && !session.was_unavailable);
        if lasting.is_some_and(|session| !session.heard.contains_key(&(number, false))) {
            broken.get_or_insert(format!("message {number} was acknowledged, and its session lacks it (XEP-0198 §5)"));
        }
        if message.is_unkept {
            continue;
        }
        let mut sessions = run.book.sessions.iter().filter(|session| session.account == account);
        let is_heard = sessions.clone().any(|session| session.heard.contains_key(&(number, false)));
        if !is_heard && !sessions.any(|session| session.is_leaky) {
            broken.get_or_insert(format!("message {number} was acknowledged and has reached nobody (XEP-0198 §4)"));
        }
    }
    broken.into_iter().for_each(|broken| run.book.break_rule(broken));
}

/// Checks that every device that wants the items of a node, and may have them, got the last item,
/// which is the same for all (XEP-0163 §4.3).
fn news(run: &mut SimulatedRun) {
    if run.book.store_failed {
        return;
    }
    run.devices.iter_mut().for_each(|device| device.look_again(&mut run.book));
    run.settle();
    let entries = entries(&run.devices);
    let blockers = &run.book.blockers;
    let mut broken = None;
    for owner in 0..run.people.accounts {
        for (node, access) in NODES.into_iter().enumerate() {
            let may_have = |device: &&UserDevice| {
                let (owner, viewer) = (owner, device.plan.account);
                let entry = entries.get(&(viewer, owner));
                let sees = entry.is_some_and(|entry| matches!(&*entry.subscription, "to" | "both"));
                let is_blocked = blockers.contains(&(owner, viewer)) || blockers.contains(&(viewer, owner));
                device.plan.wants_news && (owner == viewer || access != "whitelist" && sees && !is_blocked)
            };
            let found = run.devices.iter().filter(may_have);
            let mut found = found.map(|device| (device, device.news.get(&(owner, node)).copied()));
            let Some((one, first)) = found.next() else { continue };
            if let Some((other, second)) = found.find(|(_, number)| *number != first) {
                let (one, other) = (one.full(), other.full());
                broken.get_or_insert(format!(
                    "of the node {access} of u{owner} {one} was told {first:?} and {other} {second:?} (XEP-0163 §4.3)"
                ));
            }
            let gone = first.filter(|number| run.book.items[*number].is_gone);
            if let Some(number) = gone {
                let one = one.full();
                broken.get_or_insert(format!(
                    "{one} was told item {number} of a removed account, u{owner} (XEP-0077 §3.2)"
                ));
            }
            let may_be_gone = run.book.removed.contains(&owner);
            let is_there =
                |item: &BookedItem| (item.account, item.node, item.is_done) == (owner, node, true) && !may_be_gone;
            if first.is_none() && run.book.items.iter().any(is_there) {
                let one = one.full();
                broken
                    .get_or_insert(format!("{one} was told nothing of the node {access} of u{owner} (XEP-0163 §4.3)"));
            }
        }
    }
    broken.into_iter().for_each(|broken| run.book.break_rule(broken));
}

/// Checks that no message to or from another server was lost, and that both sides see each other's
/// presence as far as subscriptions allow (RFC 6121 §4).
fn abroad(run: &mut SimulatedRun) {
    run.book.check_abroad();
    let Some(peer) = run.peer.as_mut().filter(|_| !run.book.abroad.was_away && run.book.deaths == 0) else { return };
    if run.book.store_failed {
        return;
    }
    (0..USERS).for_each(|user| peer.show(user, &mut run.book));
    run.settle();
    let Some(peer) = &run.peer else { return };
    let mut broken = None;
    for (device, (user, known)) in
        run.devices.iter().flat_map(|device| peer.users().iter().enumerate().map(move |user| (device, user)))
    {
        let account = device.plan.account;
        if device.shown.is_none() || run.book.removed.contains(&account) {
            continue;
        }
        let (name, contact) = (device.full(), peer.user(user));
        let entry = device.roster.as_ref().and_then(|roster| roster.get(&contact));
        let subscription = entry.map_or("none", |entry| &*entry.subscription);
        let (sees, is_seen) = (matches!(subscription, "to" | "both"), matches!(subscription, "from" | "both"));
        let (may_see, may_be_seen) = (known.watchers.contains(&account), known.watched.contains(&account));
        if is_seen && !may_be_seen && known.crossed.contains(&account)
            || !sees && may_see && known.cancelled.contains(&account)
        {
            continue;
        }
        if (sees, is_seen) != (may_see, may_be_seen) {
            broken
                .get_or_insert(format!("{name} has {contact} as {subscription:?}, which has not agreed (RFC 6121 §3)"));
        }
        let pairs = [
            (sees, known.shown, device.sight.get(&format!("{contact}/x")), &name, &contact),
            (is_seen, device.shown, known.sight.get(&name), &contact, &name),
        ];
        for (is_allowed, shown, found, one, other) in pairs {
            let wanted = shown.filter(|_| is_allowed);
            if wanted != found.copied() {
                broken.get_or_insert(format!(
                    "{one} sees presence {found:?} of {other}, which should be {wanted:?} (RFC 6121 §4)"
                ));
            }
        }
    }
    broken.into_iter().for_each(|broken| run.book.break_rule(broken));
}

/// Checks that guests have sessions and replies, and that the store has nothing about them
/// (XEP-0175 §3).
fn guests(run: &mut SimulatedRun) {
    let Some(guests) = &run.guests else { return };
    guests.check(&mut run.book);
    for address in guests.addresses() {
        if run.nodes.has_stored(address) {
            return run.book.break_rule(format!("the store has something of {address}, a guest (XEP-0175 §3)"));
        }
    }
}

/// Checks that nothing remains once all clients are gone.
fn disperse(run: &mut SimulatedRun) {
    run.book.note(format_args!("-- everybody goes"));
    for device in &mut run.devices {
        device.close(&mut run.book);
        device.reset_abandoned();
    }
    run.settle();
    run.peer.iter_mut().for_each(|peer| peer.go(&mut run.book));
    run.guests.iter_mut().for_each(|guests| guests.disperse(&mut run.book));
    run.pass_in(STRIDES, RESUMABLE_MS);
    let store = run.nodes.store_waiting();
    let mut left = [0; 3];
    for (_, server, _) in run.nodes.servers() {
        left[0] += server.sessions();
        left[1] += server.connections();
        left[2] += server.tasks();
    }
    let [sessions, connections, tasks] = left;
    let waiting: usize = run.nodes.inspect(|world| world.outboxes.waiting_total()).into_iter().sum();
    if (sessions, connections, tasks, waiting, store) != (0, 0, 0, 0, 0) {
        run.book.break_rule(format!(
            "with nobody there are {sessions} sessions, {connections} connections, {tasks} tasks, {waiting} bytes that wait, {store} operations"
        ));
    }
    let at_work = run.nodes.at_work();
    if !at_work.is_empty() {
        run.book.break_rule(format!("with nobody something waits at the nodes {at_work:?}"));
    }
    // All queues must be empty, and no data of an absent client may remain.
    let mut broken = None;
    for (node, server, timers) in run.nodes.servers() {
        for (shard, (found, &timers)) in server.inspect(World::census).into_iter().zip(timers).enumerate() {
            let wanted = Census { timers: found.timers.min(timers), ..Census::default() };
            if found != wanted {
                let at = if run.nodes.count() == 1 { String::new() } else { format!(" of node {node}") };
                broken.get_or_insert(format!("with nobody shard {shard}{at} has {found:?} in hand, not {wanted:?}"));
            }
        }
    }
    broken.into_iter().for_each(|broken| run.book.break_rule(broken));
}

/// The most steps in which the clock is advanced while nothing happens except that time passes.
const STRIDES: u64 = 80;
const MINUTE_MS: u64 = 60_000;
/// The most attempts to have all nodes present.
const MOST_MENDS: usize = 100;
/// Longer than a session waits for its client, and than anyone waits for an answer, in
/// milliseconds.
const RESUMABLE_MS: u64 = 1_000_000;
