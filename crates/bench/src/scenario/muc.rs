//! Rooms (XEP-0045): all users join, then messages are sent at a fixed rate in an open loop; each
//! goes to all occupants of its room.
//!
//! An occupant is a place in a room: number `room × occupants + place`. A user may have places in
//! several rooms, if there are fewer users than places.

use std::sync::Arc;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use clap::Args;
use rookery_base::lock::lock;
use rookery_xml::{Kind, Stanza};
use serde::Serialize;

use super::compose::Composer;
use super::multicast::condition;
use super::pace::{Dice, Pace};
use super::{Scenario, ScenarioRun};
use crate::engine::{LoadCount, LoadCounters, LoadWorker, NEVER, Receiver, TrackedPair, Tracker, WorkerLoad, tally};
use crate::{BenchOutcome, chat};

/// Declares the flags of a preset: the same flags with other defaults.
macro_rules! preset {
    ($(#[$about:meta])* $type:ident, $name:literal, rooms: $rooms:literal, occupants: $occupants:literal, users: $users:literal, rate: $rate:literal, quiet: $quiet:literal) => {
        $(#[$about])*
        #[derive(Debug, Clone, Args, Serialize)]
        pub struct $type {
            /// Rooms
            #[arg(long, default_value_t = $rooms)]
            rooms: usize,
            /// Occupants of each room
            #[arg(long, default_value_t = $occupants)]
            occupants: usize,
            /// Users, who share the places in all rooms evenly; as many as there are places and the
            /// limit of open files allows
            #[arg(long, default_value_t = $users)]
            users: usize,
            /// Messages per second, over all rooms
            #[arg(long, default_value_t = $rate)]
            rate: f64,
            /// Seconds to measure
            #[arg(long, default_value_t = 30.0)]
            seconds: f64,
            /// Seconds to warm up before that
            #[arg(long, default_value_t = 2.0)]
            warm_up: f64,
            /// Address of the service [default: conference.DOMAIN]
            #[arg(long)]
            service: Option<String>,
            /// Show the presence of moderators only (muc#roomconfig_presencebroadcast); otherwise
            /// each join sends a stanza to every occupant
            #[arg(long, default_value_t = $quiet, action = clap::ArgAction::Set, default_missing_value = "true", num_args = 0..=1)]
            quiet: bool,
        }

        impl Scenario for $type {
            const NAME: &'static str = $name;

            fn clients(&self) -> usize {
                self.users.min(self.rooms * self.occupants)
            }

            fn run(&self, run: &mut ScenarioRun<'_>) -> BenchOutcome<()> {
                let users = run.limit_clients(self.clients()).max(1);
                let service = self.service.clone().unwrap_or_else(|| format!("conference.{}", run.server.place.domain));
                let (count, occupants) = (self.rooms.max(1), self.occupants.max(1));
                let places = RoomPlaces { rooms: count, occupants, users, service, quiet: self.quiet };
                rooms(run, &places, self.rate, (self.warm_up, self.seconds))
            }
        }
    };
}

preset!(
    /// One big room.
    Big, "muc-big", rooms: 1, occupants: 500, users: 500, rate: 60.0, quiet: false
);
preset!(
    /// One huge room.
    Huge, "muc-huge", rooms: 1, occupants: 3000, users: 3000, rate: 10.0, quiet: false
);
preset!(
    /// As many as one room takes, who see moderators only.
    Crowd, "muc-crowd", rooms: 1, occupants: 10_000, users: 10_000, rate: 2.0, quiet: true
);
preset!(
    /// Many rooms.
    Many, "muc-many", rooms: 2000, occupants: 25, users: 50_000, rate: 1650.0, quiet: false
);

/// The rooms and their occupants.
#[derive(Debug, Clone)]
struct RoomPlaces {
    rooms: usize,
    occupants: usize,
    users: usize,
    service: String,
    quiet: bool,
}

impl RoomPlaces {
    fn all(&self) -> usize {
        self.rooms * self.occupants
    }

    /// Returns the user at a place. The users of one room have consecutive numbers, so none has two
    /// places in one room.
    fn user(&self, place: usize) -> usize {
        place % self.users
    }

    fn room(&self, place: usize) -> String {
        format!("bench{}@{}", place / self.occupants, rookery_xml::escape_attr(&self.service))
    }

    /// Returns the form with which a client creates a room that leaves no data behind.
    fn form(&self) -> String {
        let quiet = match self.quiet {
            false => "",
            true => "<field var='muc#roomconfig_presencebroadcast'><value>moderator</value></field>",
        };
        format!(
            "<x xmlns='jabber:x:data' type='submit'><field var='FORM_TYPE'><value>{MUC_CONFIG}</value></field>\
             <field var='muc#roomconfig_persistentroom'><value>0</value></field>{quiet}</x>"
        )
    }

    fn nick(&self, place: usize) -> String {
        format!("n{}", place % self.occupants)
    }
}

fn rooms(
    run: &mut ScenarioRun<'_>,
    places: &RoomPlaces,
    rate: f64,
    (warm_up, seconds): (f64, f64),
) -> BenchOutcome<()> {
    if places.occupants > places.users {
        return Err(format!("{} users can't fill a room of {}", places.users, places.occupants).into());
    }
    run.log_in(0..places.users, chat::PRESENCE)?;
    let name = run.result.scenario.clone();
    run.meter.doing(format!("{name}: opening {} rooms", places.rooms));
    join(run, places, true)?;
    run.meter.doing(format!("{name}: {} places are taken", places.all()));
    let before = run.read();
    join(run, places, false)?;
    run.rest(Duration::from_secs(1))?;
    let after = run.read();
    let joined = places.all() - places.rooms;
    if let Some(cpu) = after.server.zip(before.server).map(|(after, before)| after.since(&before).seconds()) {
        let each = cpu * 1e6 / joined.max(1) as f64;
        run.result.notes.push(format!("{joined} joins took {cpu:.2} s of the server's CPU, {each:.0} µs each"));
    }
    run.meter.doing(format!("{name}: {rate} messages/s in {} rooms of {}", places.rooms, places.occupants));
    let (window, threads) = (run.window(warm_up, seconds), run.crew.threads());
    let load = |thread| {
        let composer = Composer::new(run, thread);
        Speakers {
            pace: Pace::new(rate, window, thread, threads),
            dice: Dice::new(thread as u64),
            receiver: Receiver::new(run.number, composer.counters().clone()),
            composer,
            own: (0..places.all()).filter(|place| places.user(*place) % threads == thread).collect(),
            sent: vec![0; places.all()],
            places: places.clone(),
            out: Vec::new(),
        }
    };
    let mut loads: Vec<Speakers> = (0..threads).map(load).collect();
    run.measure(&mut loads, window)?;
    let trackers: Vec<&Tracker> = loads.iter().map(|load| &load.receiver.tracker).collect();
    let sent = loads.iter().flat_map(|load| load.sent.iter().enumerate().filter(|(_, count)| **count > 0));
    let pairs = sent.flat_map(|(place, count)| {
        let room = place - place % places.occupants;
        let receivers = (room..room + places.occupants).map(|other| places.user(other) as u32);
        receivers.map(move |receiver| (TrackedPair { sender: place as u32, receiver }, *count))
    });
    run.account(tally(pairs, &trackers));
    Ok(())
}

/// Lets the first occupant of each room join, which creates it, or all the others.
fn join(run: &mut ScenarioRun<'_>, places: &RoomPlaces, first: bool) -> BenchOutcome<()> {
    let threads = run.crew.threads();
    let refused = Arc::new(Mutex::new(None));
    let load = |thread| {
        let own = (0..places.all()).filter(|place| places.user(*place) % threads == thread);
        let own = own.filter(|place| (place % places.occupants == 0) == first);
        let counters = run.crew.counters().get(thread).cloned().unwrap_or_default();
        let waiting = own.collect::<Vec<_>>().into_iter();
        Joining { waiting, under_way: 0, places: places.clone(), counters, refused: refused.clone() }
    };
    let mut loads: Vec<Joining> = (0..threads).map(load).collect();
    let wanted = if first { places.rooms } else { places.all() - places.rooms } as u64;
    let before = run.crew.totals().get(LoadCount::Steps);
    let (mut reached, mut last) = (0, Instant::now());
    run.watch(&mut loads, |totals| {
        let now = totals.get(LoadCount::Steps) - before;
        if now != reached {
            (reached, last) = (now, Instant::now());
        }
        let refused = refused.lock().is_ok_and(|refused| refused.is_some());
        reached >= wanted || refused || last.elapsed() > PATIENCE
    })?;
    if let Some(refused) = lock(&refused).take() {
        return Err(format!("no room can be joined at {}: {refused}", places.service).into());
    }
    if reached < wanted {
        return Err(format!("{reached} of {wanted} places in rooms were taken, and none more for 20 s").into());
    }
    Ok(())
}

/// The joining occupants of one thread.
#[derive(Debug)]
struct Joining {
    waiting: std::vec::IntoIter<usize>,
    under_way: usize,
    places: RoomPlaces,
    counters: Arc<LoadCounters>,
    refused: Arc<Mutex<Option<String>>>,
}

impl WorkerLoad for Joining {
    fn due(&mut self, _now: u64, worker: &mut LoadWorker) -> u64 {
        while self.under_way < AT_ONCE
            && let Some(place) = self.waiting.next()
        {
            self.under_way += 1;
            let (room, nick) = (self.places.room(place), self.places.nick(place));
            let join =
                format!("<presence to='{room}/{nick}'><x xmlns='{MUC}'><history maxstanzas='0'/></x></presence>");
            worker.send(self.places.user(place), join.as_bytes());
        }
        NEVER
    }

    fn stanza(&mut self, _number: usize, stanza: &Stanza<'_>, _now: u64, out: &mut Vec<u8>) {
        let from_room = stanza.from().is_some_and(|from| from.starts_with("bench"));
        if !from_room || !matches!(stanza.kind(), Kind::Presence | Kind::Iq) {
            return;
        }
        if stanza.type_().as_deref() == Some("error") {
            let mut refused = lock(&self.refused);
            refused.get_or_insert_with(|| condition(stanza));
            return;
        }
        if stanza.kind() == Kind::Iq {
            // The room is open.
            return self.joined();
        }
        let user = stanza.child("x", MUC_USER);
        let has = |code: &str| {
            user.as_ref()
                .is_some_and(|x| x.children().any(|child| child.attr("code").is_some_and(|found| found == code)))
        };
        // XEP-0045 §7.2.2: 110 marks the occupant's own presence, which comes last; §10.1.2: 201
        // means that the room waits for its settings, and admits no other user until it has them.
        if has("110") {
            if !has("201") {
                return self.joined();
            }
            if let Some(from) = stanza.from() {
                let room = from.split_once('/').map_or(&*from, |(room, _)| room);
                let room = rookery_xml::escape_attr(room);
                let form = self.places.form();
                let iq = format!("<iq to='{room}' type='set' id='open'><query xmlns='{MUC_OWNER}'>{form}</query></iq>");
                out.extend_from_slice(iq.as_bytes());
            }
        }
    }
}

impl Joining {
    fn joined(&mut self) {
        self.under_way = self.under_way.saturating_sub(1);
        self.counters.add(LoadCount::Steps, 1);
    }
}

/// The occupants of one thread.
#[derive(Debug)]
struct Speakers {
    pace: Pace,
    dice: Dice,
    composer: Composer,
    receiver: Receiver,
    /// The places of this thread's users.
    own: Vec<usize>,
    /// The number of messages by place; 0 for those of other threads.
    sent: Vec<u32>,
    places: RoomPlaces,
    out: Vec<u8>,
}

impl WorkerLoad for Speakers {
    fn due(&mut self, now: u64, worker: &mut LoadWorker) -> u64 {
        for _ in 0..SENDS {
            let Some((_, intended)) = self.pace.take(now) else { break };
            let Some(place) = self.own.get(self.dice.roll(self.own.len())).copied() else { break };
            let Some(sent) = self.sent.get_mut(place) else { break };
            let mark = self.composer.mark(place, *sent, intended);
            *sent += 1;
            let head = format!("<message to='{}' type='groupchat' id='{place:x}-{sent:x}'>", self.places.room(place));
            self.out.clear();
            self.composer.message(&head, mark, self.places.occupants as u64, &mut self.out);
            self.composer.counters().lateness.add(now.saturating_sub(intended));
            worker.send(self.places.user(place), &self.out);
        }
        self.pace.upcoming().unwrap_or(NEVER)
    }

    fn stanza(&mut self, number: usize, stanza: &Stanza<'_>, now: u64, _out: &mut Vec<u8>) {
        if stanza.kind() == Kind::Message {
            self.receiver.take(number, stanza, now);
        }
    }
}

const MUC: &str = "http://jabber.org/protocol/muc";
const MUC_USER: &str = "http://jabber.org/protocol/muc#user";
const MUC_OWNER: &str = "http://jabber.org/protocol/muc#owner";
const MUC_CONFIG: &str = "http://jabber.org/protocol/muc#roomconfig";
/// The number of joins in progress in one thread.
const AT_ONCE: usize = 25;
/// The number of messages that are sent before input is read.
const SENDS: usize = 16;
const PATIENCE: Duration = Duration::from_secs(20);
