//! `rookery bench cluster`: measures what a cluster loses while its nodes die.
//!
//! People with XEP-0198 write to each other through several hosts of one domain, on any server,
//! while a command causes damage at regular intervals. Every message is accounted for: once
//! acknowledged, it has to arrive, to be in the recipient's archive, or to come back as an error;
//! only once, and in order. A client that loses its connection asks the next host for its session.
//!
//! Nothing here measures speed: everything runs in one thread, and clients share the machine with
//! the servers.

mod books;
mod person;
mod room;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashSet};
use std::fs;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use clap::Args;
use rookery_base::chance::Sequence;
use rustix::event::{Timespec, epoll};
use serde::Serialize;

use crate::BenchOutcome;
use crate::scenario::{ServerPlace, Tls, address};
use books::{BookedOutcome, MessageBooks, MessageFault, OtherOutcome};
use person::{ClusterPerson, ClusterTerms, SessionCuts, SessionEvent};
use room::RoomBooks;

/// `rookery bench cluster`.
#[derive(Debug, Clone, Args)]
pub struct ClusterBench {
    /// Addresses and ports of the nodes
    #[arg(long, value_name = "HOST:PORT", value_delimiter = ',', required = true)]
    hosts: Vec<String>,
    /// Domain of the accounts, which `rookery bench register` creates
    #[arg(long, default_value = "localhost")]
    domain: String,
    /// Encryption of the connections
    #[arg(long, value_enum, default_value_t = Tls::None)]
    tls: Tls,
    /// Password of all accounts
    #[arg(long, env = "ROOKERY_BENCH_PASSWORD", default_value = "pencil-pencil")]
    password: String,
    /// Users
    #[arg(long, default_value_t = 200)]
    users: usize,
    /// Number of the first user's account, if others use those before it
    #[arg(long, default_value_t = 0)]
    first: usize,
    /// Logins per second at the beginning
    #[arg(long, value_name = "RATE", default_value_t = 200.0)]
    arrival_rate: f64,
    /// Messages per second, of all users together
    #[arg(long, default_value_t = 100.0)]
    rate: f64,
    /// Presence to other users, published items (XEP-0163) and requests for pages of archives per
    /// second, of all users together
    #[arg(long, value_name = "RATE", default_value_t = 0.0)]
    other_rate: f64,
    /// Seconds to send messages for
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Shell command that disturbs the cluster, such as killing a node and starting it again;
    /// ROUND counts from 0
    #[arg(long = "do", value_name = "COMMAND")]
    harm: Option<String>,
    /// Seconds between two such commands; one that takes longer is waited for
    #[arg(long, value_name = "SECONDS", default_value_t = 20)]
    every: u64,
    /// Seconds of a host's silence after which its client tries the next one
    #[arg(long, value_name = "SECONDS", default_value_t = 5)]
    patience: u64,
    /// Seconds to wait at the end for messages in flight
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    settle: u64,
    /// Room that all users join and write to, instead of to each other
    #[arg(long, value_name = "ROOM@SERVICE")]
    room: Option<String>,
    /// Write the result as JSON
    #[arg(long, value_name = "FILE.json")]
    out: Option<PathBuf>,
}

/// The result of a run.
#[derive(Debug, Serialize)]
struct ClusterResult {
    hosts: Vec<String>,
    users: usize,
    rate: f64,
    seconds: u64,
    harms: usize,
    failed_harms: usize,
    messages: BookedOutcome,
    others: OtherOutcome,
    /// Milliseconds from sending to arrival: the median, the 99th percentile, the maximum.
    delay_ms: [f64; 3],
    cut: usize,
    resumed: usize,
    begun_again: usize,
    /// Milliseconds from the loss of a connection until its person was connected again: the median,
    /// the 99th percentile, the maximum.
    away_ms: [f64; 3],
    /// The people who were not connected at the end, and the last reason why a connection ended.
    missing_people: usize,
    last_reason: Option<String>,
    room: Option<RoomResult>,
    /// The first messages that were lost or came twice, and the sessions of their people.
    faults: Vec<MessageFault>,
    sessions: Vec<FaultySession>,
}

/// An event of the session of a person whose messages were lost or came twice.
#[derive(Debug, Serialize)]
struct FaultySession {
    /// The number of the person.
    person: usize,
    /// Seconds since the first message was sent; negative before that.
    at: f64,
    /// The index of the host.
    host: usize,
    event: String,
}

/// The part of the result that is about a room; there is none if people write to each other.
#[derive(Debug, Serialize)]
struct RoomResult {
    room: String,
    /// The number of times that occupants were seen to enter and to leave, once all were present.
    entered: usize,
    left: usize,
    /// The longest time in which an occupant got no message, in milliseconds.
    pause_ms: f64,
    /// The number of messages in the room's history at the end, and how many of those aren't the
    /// last ones that were received.
    history: usize,
    wrong_history: usize,
}

impl ClusterBench {
    /// Runs the load, and prints the result.
    ///
    /// # Errors
    /// The error of the system, or a list of lost, duplicated and reordered messages.
    pub fn run(&self) -> BenchOutcome<()> {
        let mut crowd = ClusterCrowd::new(self.terms()?, self.users)?;
        crowd.gather(self.arrival_rate)?;
        eprintln!("{} people are there", self.users);
        let mut harm = ClusterHarm::new(self.harm.clone(), Duration::from_secs(self.every.max(1)));
        crowd.talk(Duration::from_secs(self.seconds), [self.rate, self.other_rate], &mut harm)?;
        harm.finish()?;
        crowd.settle(Duration::from_secs(self.settle))?;
        let result = self.result(&crowd, &harm);
        result.print();
        if let Some(file) = &self.out {
            fs::write(file, serde_json::to_vec_pretty(&result)?)
                .map_err(|error| format!("{}: {error}", file.display()))?;
        }
        let BookedOutcome { lost, unsearched, doubled, reordered, astray, .. } = result.messages;
        let (left, wrong) = result.room.as_ref().map_or((0, 0), |room| (room.left, room.wrong_history));
        match lost + unsearched + doubled + reordered + astray {
            0 if left + wrong > 0 => Err(format!(
                "occupants were seen to leave {left} times, and {wrong} messages of the history are not what was said last"
            )
            .into()),
            0 => Ok(()),
            _ => Err(format!(
                "{lost} messages were lost, {unsearched} may be in archives that didn't reply, {doubled} came twice, {reordered} out of order, {astray} went astray"
            )
            .into()),
        }
    }

    fn terms(&self) -> BenchOutcome<ClusterTerms> {
        let place = |host: &String| ServerPlace {
            host: host.clone(),
            domain: self.domain.clone(),
            tls: self.tls,
            transport: rookery_base::Transport::Tcp,
            password: self.password.clone(),
            at_once: 1,
            login_timeout: 30.0,
            threads: Some(1),
        };
        let places: Vec<_> = self.hosts.iter().map(place).collect();
        let hosts = self.hosts.iter().map(|host| address(host)).collect::<BenchOutcome<Vec<_>>>()?;
        let first = places.first().ok_or("there is no host")?;
        let settings = first.settings(None, false, 0)?;
        Ok(ClusterTerms {
            hosts,
            session: settings.target.terms.clone(),
            direct_tls: self.tls == Tls::Direct,
            first: self.first,
            patience: Duration::from_secs(self.patience.max(1)),
            room: self.room.clone(),
        })
    }

    fn result(&self, crowd: &ClusterCrowd, harm: &ClusterHarm) -> ClusterResult {
        let SessionCuts { cut, resumed, begun_again, away, last, .. } = &crowd.cuts;
        let faults = crowd.books.faults();
        ClusterResult {
            hosts: self.hosts.clone(),
            users: self.users,
            rate: self.rate,
            seconds: self.seconds,
            harms: harm.round,
            failed_harms: harm.failed,
            messages: crowd.books.outcome(),
            others: crowd.books.others.clone(),
            delay_ms: spread(crowd.books.delays()),
            cut: *cut,
            resumed: *resumed,
            begun_again: *begun_again,
            away_ms: spread(away),
            missing_people: crowd.people.iter().filter(|person| !person.is_live()).count(),
            last_reason: last.clone(),
            room: self.room.as_ref().map(|room| RoomResult::new(room, &crowd.books.room)),
            sessions: sessions_of(&faults, crowd),
            faults,
        }
    }
}

/// Returns the events of the sessions of the people whose messages were lost or came twice.
fn sessions_of(faults: &[MessageFault], crowd: &ClusterCrowd) -> Vec<FaultySession> {
    let Some(begun) = crowd.books.start() else { return Vec::new() };
    let people: HashSet<usize> = faults.iter().flat_map(|fault| [fault.from, fault.to]).collect();
    let events = crowd.cuts.events.iter().filter(|event| people.contains(&event.person));
    let session = |event: &SessionEvent| {
        let after = event.at.checked_duration_since(begun).map(|after| after.as_secs_f64());
        let at = after.unwrap_or_else(|| -begun.duration_since(event.at).as_secs_f64());
        FaultySession { person: event.person, at, host: event.host, event: event.event.clone() }
    };
    events.map(session).collect()
}

impl RoomResult {
    fn new(room: &str, books: &RoomBooks) -> Self {
        let ((entered, left, pause), (wrong_history, history)) = (books.presence(), books.history());
        Self { room: room.to_owned(), entered, left, pause_ms: pause.as_secs_f64() * 1e3, history, wrong_history }
    }
}

impl ClusterResult {
    fn print(&self) {
        let line = |name: &str, value: &dyn std::fmt::Display| println!("{name:<44}{value:>12}");
        let found = &self.messages;
        println!("{} people, {} hosts, {} messages/s for {} s", self.users, self.hosts.len(), self.rate, self.seconds);
        if self.harms > 0 {
            line("harms", &self.harms);
        }
        line("messages said", &found.said);
        line("  acknowledged", &found.acknowledged);
        line("  came", &found.came);
        line("  came back as errors", &found.refused);
        line("  acknowledged, in the archive alone", &found.archived_only);
        if found.unsearched > 0 {
            line("  acknowledged, archive didn't reply", &found.unsearched);
        }
        line("  acknowledged and LOST", &found.lost);
        line("came again, with the same id", &found.again);
        line("came TWICE, with another id", &found.doubled);
        line("came OUT OF ORDER", &found.reordered);
        line("went ASTRAY", &found.astray);
        let times = |[half, most, all]: [f64; 3]| format!("{half:.0}, {most:.0}, {all:.0} ms");
        println!("{:<44}{}", "until it came: half, 99 %, all below", times(self.delay_ms));
        let OtherOutcome { presence, publications, pages, answered, refused } = &self.others;
        if presence + publications + pages > 0 {
            line("presence to other people", presence);
            line("items published, pages asked for", &(publications + pages));
            line("  answered", answered);
            line("  refused", refused);
        }
        line("connections lost", &self.cut);
        line("  sessions resumed", &self.resumed);
        line("  begun again", &self.begun_again);
        println!("{:<44}{}", "until people were back: half, 99 %, all", times(self.away_ms));
        if let Some(room) = &self.room {
            line("occupants seen to leave", &room.left);
            line("occupants seen to enter", &room.entered);
            line("longest pause that somebody heard, ms", &room.pause_ms.round());
            println!("{:<44}{:>12} ({} WRONG)", "messages of the history at the end", room.history, room.wrong_history);
        }
        if self.failed_harms > 0 {
            line("harms that FAILED", &self.failed_harms);
        }
        if self.missing_people > 0 {
            line("people who did NOT COME BACK", &self.missing_people);
            println!("  the last reason: {}", self.last_reason.as_deref().unwrap_or("none"));
        }
    }
}

/// Returns the median, the 99th percentile and the maximum of these times, in milliseconds.
fn spread(times: &[Duration]) -> [f64; 3] {
    let mut times: Vec<_> = times.to_vec();
    times.sort_unstable();
    let at = |share: f64| {
        let place = ((times.len() as f64 * share).ceil() as usize).saturating_sub(1);
        times.get(place).map_or(0.0, |time| time.as_secs_f64() * 1e3)
    };
    [at(0.5), at(0.99), at(1.0)]
}

/// All people of a run, and their common data.
struct ClusterCrowd {
    terms: ClusterTerms,
    set: OwnedFd,
    people: Vec<ClusterPerson>,
    /// The number of people who have arrived.
    present: usize,
    /// The people who have something to do at some time, whatever comes from the server.
    due: BinaryHeap<Reverse<(Instant, usize)>>,
    /// The last time that everybody was looked at.
    looked_at: Instant,
    books: MessageBooks,
    cuts: SessionCuts,
    buffer: Vec<u8>,
    room: Option<String>,
}

impl ClusterCrowd {
    fn new(terms: ClusterTerms, users: usize) -> BenchOutcome<Self> {
        let now = Instant::now();
        let people = (0..users).map(|number| ClusterPerson::new(number, &terms, now)).collect();
        let set = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let buffer = vec![0; 64 * 1024];
        let room = terms.room.clone();
        let books = if room.is_some() { MessageBooks::of_room(users) } else { MessageBooks::default() };
        let (cuts, due) = (SessionCuts::default(), BinaryHeap::new());
        Ok(Self { terms, set, people, present: 0, due, looked_at: now, books, cuts, buffer, room })
    }

    /// Lets people arrive at this rate, and waits until all are connected.
    fn gather(&mut self, rate: f64) -> BenchOutcome<()> {
        let begun = Instant::now();
        let time = GATHERING + Duration::try_from_secs_f64(self.people.len() as f64 / rate)?;
        let mut waits_for = 0;
        while let Some(absent) = self.absent(waits_for).or_else(|| self.absent(0)) {
            waits_for = absent;
            // The first arrives at once.
            self.arrive((1.0 + begun.elapsed().as_secs_f64() * rate) as usize);
            if begun.elapsed() > time {
                let why = self.cuts.last.as_deref().unwrap_or("nobody says why");
                let outside = self.people.iter().filter(|person| !person.is_ready()).count();
                return Err(format!("{outside} people could not log in, or enter the room: {why}").into());
            }
            self.turn(STEP)?;
        }
        self.arrive(self.people.len());
        // New sessions get presence and stored messages first.
        self.turn_for(Duration::from_secs(1))?;
        self.books.room.open();
        Ok(())
    }

    /// Returns the first person from this one on who isn't ready.
    fn absent(&self, from: usize) -> Option<usize> {
        (from..self.people.len()).find(|number| !self.people.get(*number).is_some_and(ClusterPerson::is_ready))
    }

    /// Lets people arrive until so many are present.
    fn arrive(&mut self, present: usize) {
        let (now, present) = (Instant::now(), present.min(self.people.len()));
        self.due.extend((self.present..present).map(|number| Reverse((now, number))));
        self.present = present;
    }

    /// Lets people write at the first of the rates, and send other stanzas at the second.
    fn talk(&mut self, time: Duration, [rate, other_rate]: [f64; 2], harm: &mut ClusterHarm) -> BenchOutcome<()> {
        let (begun, mut said, mut chance) = (Instant::now(), 0.0, Sequence::new(SEED));
        let jids: Vec<String> = self.people.iter().map(ClusterPerson::jid).collect();
        let names: Vec<String> = jids.iter().map(|jid| self.room.clone().unwrap_or_else(|| jid.clone())).collect();
        let mut others = 0;
        while begun.elapsed() < time {
            harm.tick(begun)?;
            while said < begun.elapsed().as_secs_f64() * rate {
                said += 1.0;
                let (from, to) = (chance.below(names.len()), chance.below(names.len()));
                let person = self.people.get_mut(from).filter(|person| person.is_live() && from != to);
                // A person without a connection sends nothing.
                if let (Some(person), Some(name)) = (person, names.get(to)) {
                    let now = Instant::now();
                    person.say(self.books.say(from, to, now), name, now);
                }
            }
            while (others as f64) < begun.elapsed().as_secs_f64() * other_rate {
                let (from, to) = (chance.below(jids.len()), chance.below(jids.len()));
                let person = self.people.get_mut(from).filter(|person| person.is_live() && from != to);
                if let (Some(person), Some(jid)) = (person, jids.get(to)) {
                    person.send_other(others, jid, &mut self.books.others, Instant::now());
                }
                others += 1;
            }
            self.turn(STEP)?;
        }
        Ok(())
    }

    /// Waits until everything has arrived, or for that time; then searches archives for the rest.
    fn settle(&mut self, time: Duration) -> BenchOutcome<()> {
        let until = Instant::now() + time;
        let is_open = |crowd: &Self| crowd.books.miss_any() || !crowd.people.iter().all(ClusterPerson::is_live);
        // Unacknowledged messages may still arrive, too.
        self.turn_for(Duration::from_secs(2).min(time))?;
        while Instant::now() < until && is_open(self) {
            self.turn(STEP)?;
        }
        if self.room.is_some() {
            return self.look_back();
        }
        let missing: Vec<usize> = (0..self.people.len()).filter(|number| self.books.misses(*number)).collect();
        let until = Instant::now() + SEARCHING;
        let is_done = |crowd: &Self| {
            missing.iter().all(|number| crowd.people.get(*number).is_some_and(ClusterPerson::has_searched))
        };
        while Instant::now() < until && !is_done(self) {
            let now = Instant::now();
            for number in &missing {
                self.people.get_mut(*number).into_iter().for_each(|person| person.search(now));
            }
            self.turn(STEP)?;
        }
        let has_searched = |number: &usize| self.people.get(*number).is_some_and(ClusterPerson::has_searched);
        let (_, unsearched): (Vec<usize>, Vec<usize>) = missing.into_iter().partition(has_searched);
        unsearched.into_iter().for_each(|number| self.books.give_up_search(number));
        Ok(())
    }

    /// Makes the first person enter the room once more, to get its history.
    fn look_back(&mut self) -> BenchOutcome<()> {
        self.books.room.close();
        self.people.first_mut().into_iter().for_each(|person| person.look_back(HISTORY, Instant::now()));
        let until = Instant::now() + SEARCHING;
        while Instant::now() < until && !self.people.first().is_some_and(ClusterPerson::is_ready) {
            self.turn(STEP)?;
        }
        // The history follows the presence of all occupants.
        self.turn_for(Duration::from_secs(2))
    }

    fn turn_for(&mut self, time: Duration) -> BenchOutcome<()> {
        let until = Instant::now() + time;
        while Instant::now() < until {
            self.turn(STEP)?;
        }
        Ok(())
    }

    /// Does all due work, and waits for the sockets at most for that time.
    fn turn(&mut self, timeout: Duration) -> BenchOutcome<()> {
        let now = Instant::now();
        for number in self.take_due(now) {
            self.tick(number, now)?;
        }
        let mut events = Vec::with_capacity(EVENTS);
        match epoll::wait(&self.set, rustix::buffer::spare_capacity(&mut events), Some(&Timespec::try_from(timeout)?)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        for event in &events {
            let number = event.data.u64() as usize;
            if let Some(person) = self.people.get_mut(number) {
                person.ready(&mut self.books, &mut self.buffer, Instant::now(), &mut self.cuts);
                self.due.extend(person.due().map(|at| Reverse((at, number))));
            }
        }
        Ok(())
    }

    /// Returns the people who have something to do now. A look at each of many thousands after
    /// every event would take more of the machine than the server does.
    fn take_due(&mut self, now: Instant) -> Vec<usize> {
        if now.duration_since(self.looked_at) >= LOOKING {
            self.looked_at = now;
            self.due.clear();
            return (0..self.present).collect();
        }
        let mut due = Vec::new();
        while let Some(Reverse((_, number))) = self.due.peek().copied().filter(|Reverse((at, _))| *at <= now) {
            self.due.pop();
            due.push(number);
        }
        due
    }

    /// Does the due work of a person.
    fn tick(&mut self, number: usize, now: Instant) -> BenchOutcome<()> {
        let Some(person) = self.people.get_mut(number) else { return Ok(()) };
        let is_new = person.tick(&self.terms, now, &mut self.cuts);
        if let Some(socket) = person.socket().filter(|_| is_new) {
            let data = epoll::EventData::new_u64(number as u64);
            let flags = epoll::EventFlags::IN | epoll::EventFlags::OUT | epoll::EventFlags::ET;
            epoll::add(&self.set, socket, data, flags)?;
        }
        self.due.extend(person.due().map(|at| Reverse((at, number))));
        Ok(())
    }
}

/// The command that causes damage.
struct ClusterHarm {
    command: Option<String>,
    every: Duration,
    /// The number of its runs, and of its failures.
    round: usize,
    failed: usize,
    running: Option<Child>,
}

impl ClusterHarm {
    fn new(command: Option<String>, every: Duration) -> Self {
        Self { command, every, round: 0, failed: 0, running: None }
    }

    /// Runs the command if it is due.
    fn tick(&mut self, begun: Instant) -> BenchOutcome<()> {
        if let Some(child) = &mut self.running {
            let Some(status) = child.try_wait()? else { return Ok(()) };
            self.failed += usize::from(!status.success());
            self.running = None;
        }
        let Some(command) = &self.command else { return Ok(()) };
        let due = self.every * u32::try_from(self.round + 1).unwrap_or(u32::MAX);
        if begun.elapsed() >= due {
            let mut shell = Command::new("sh");
            shell.args(["-c", command]).env("ROUND", self.round.to_string()).stdin(Stdio::null());
            self.running = Some(shell.spawn().map_err(|error| format!("the command can't be run: {error}"))?);
            self.round += 1;
        }
        Ok(())
    }

    fn finish(&mut self) -> BenchOutcome<()> {
        if let Some(mut child) = self.running.take() {
            self.failed += usize::from(!child.wait()?.success());
        }
        Ok(())
    }
}

const STEP: Duration = Duration::from_millis(5);
/// The time between two looks at everybody, for silent hosts.
const LOOKING: Duration = Duration::from_secs(1);
/// The time that logins may take after the last one has begun.
const GATHERING: Duration = Duration::from_secs(120);
/// The time that searching archives may take.
const SEARCHING: Duration = Duration::from_secs(60);
const EVENTS: usize = 1024;
/// The number of messages of a room's history that are compared.
const HISTORY: usize = 20;
/// The seed, so that the same people write to each other in every run.
const SEED: u64 = 17;
