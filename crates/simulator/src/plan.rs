//! The run that a seed determines: the participants, the server or its nodes, and the events.

use rookery_sasl::Mechanism;

use crate::draw::SeededDraw;
use crate::event::{ABROAD, ALL, AMONG_NODES, OF_GUESTS, SimulatedEvent, SimulatedEventKind};

/// Everything that a seed determines about a run, so that the run can be repeated.
#[derive(Debug, Clone)]
pub struct RunPlan {
    /// The seed, on which all randomness in the server depends, too.
    pub seed: u64,
    /// The number of nodes, 1 without a cluster.
    pub nodes: usize,
    /// The number of shards of each node.
    pub shards: usize,
    /// The number of accounts.
    pub accounts: usize,
    /// The number of rooms.
    pub rooms: usize,
    /// The devices, account by account.
    pub devices: Vec<DevicePlan>,
    /// The server or component that takes part, if there is one.
    pub peer: Option<PeerPlan>,
    /// True if guests take part, who log in without a name (XEP-0175).
    pub has_guests: bool,
    /// True if the store carries out operations only at certain events.
    pub store_is_late: bool,
    /// True if work on other threads, such as checking a password, is also only done at certain
    /// events.
    pub background_is_late: bool,
    /// True if an outside service checks logins (RFC 7628), for which every second device has a
    /// token.
    pub has_source: bool,
    /// True if little happens at once: bytes and ticks are drawn in small pieces, a device that
    /// reads has something to read, and one that is to write in a room enters the room first.
    pub is_fine: bool,
    /// The limit of stanzas that may wait for a session or its acknowledgement, if it is a low one.
    pub most_stanzas: Option<usize>,
    /// True if Redis and the database of several nodes have no faults, and a node dies only while
    /// all others are at rest, so that journals are put to the test.
    pub is_firm: bool,
    /// The events, in order.
    pub events: Vec<SimulatedEvent>,
}

/// The properties of a device that don't change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DevicePlan {
    /// The number of the account that it belongs to.
    pub account: usize,
    /// True if it uses stream management (XEP-0198).
    pub is_managed: bool,
    /// True if it resumes its session, given stream management.
    pub resumes: bool,
    /// The way in which it logs in.
    pub login: PlannedLogin,
    /// The mechanism for its password, if that is not PLAIN.
    pub scram: Mechanism,
    /// The mechanism that it uses instead if an outside service checks logins.
    pub by_source: Option<Mechanism>,
    /// The way in which it connects.
    pub way: LoginWay,
    /// The seed for the channels of its connections, if TLS protects these.
    pub channels: u64,
    /// True if somebody may be in the middle of these, or its channel bindings may be wrong.
    pub is_attacked: bool,
    /// True if it requests a token, and logs in with it from then on (XEP-0484).
    pub has_token: bool,
    /// True if it keeps its roster from one session to the next, and then asks only for the changes
    /// (RFC 6121 §2.6).
    pub keeps_roster: bool,
    /// True if it wants the items that contacts publish (XEP-0163 §4).
    pub wants_news: bool,
    /// True if it enables carbons after it has logged in.
    pub carbons: bool,
    /// The most bytes that may be on their way to the device.
    pub window: usize,
    /// The most bytes that the server reads from it at a time.
    pub most: usize,
    /// The priority of its presence (RFC 6121 §4.7.2.3). With a negative one, it gets no messages
    /// for the bare JID.
    pub priority: i8,
}

/// The properties of another server or a component that don't change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PeerPlan {
    /// True if it is a component (XEP-0114).
    pub is_component: bool,
    /// True if it breaks the standards.
    pub is_hostile: bool,
    /// The most bytes that may be on their way to the peer.
    pub window: usize,
    /// The most bytes that the server moves at a time.
    pub most: usize,
}

/// A way to connect to the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoginWay {
    /// A stream over TCP (RFC 6120 §4).
    Tcp,
    /// The same, protected by TLS (XEP-0368), to which a login can be bound.
    Secured,
    /// A WebSocket (RFC 7395).
    WebSocket,
    /// A WebSocket behind a proxy that ends TLS.
    Proxied,
    /// Requests of BOSH (XEP-0124, XEP-0206).
    Bosh,
}

impl LoginWay {
    /// Returns whether stanzas come as messages of a WebSocket, behind a proxy or not.
    pub fn is_websocket(self) -> bool {
        matches!(self, Self::WebSocket | Self::Proxied)
    }
}

/// A way to log in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlannedLogin {
    /// By PLAIN (RFC 4616).
    Plain,
    /// By SCRAM (RFC 5802, RFC 7677).
    Scram,
    /// By XEP-0388, with the usual steps afterwards.
    Sasl2,
    /// By XEP-0388, with the session in the same exchange (XEP-0386).
    Bind2,
}

impl PlannedLogin {
    /// Returns whether the login uses XEP-0388.
    pub fn is_sasl2(self) -> bool {
        matches!(self, Self::Sasl2 | Self::Bind2)
    }
}

impl RunPlan {
    /// Returns the run of a seed, with this many events.
    pub fn new(seed: u64, events: usize) -> Self {
        let mut draw = SeededDraw::new(seed.wrapping_mul(0xd134_2543_de82_ef95).wrapping_add(1));
        let accounts = if draw.percent(90) { draw.between(2, 5) } else { draw.between(6, 50) };
        let devices = (0..accounts).flat_map(|account| {
            let count = [1, 1, 2, 2, 3, 4][draw.below(6)];
            let devices: Vec<_> = (0..count).map(|_| DevicePlan::draw(account, &mut draw)).collect();
            devices
        });
        let devices: Vec<DevicePlan> = devices.collect();
        let count = devices.len();
        let (shards, rooms) = (draw.between(1, 4), draw.between(1, 2));
        let is_calm = draw.percent(25);
        let store_is_late = !is_calm && draw.percent(50);
        // Each run has its own character: some events are frequent, some never happen.
        let mut weight = |what: SimulatedEventKind, weight: u32| match what {
            SimulatedEventKind::Settle
            | SimulatedEventKind::Tick
            | SimulatedEventKind::Connect
            | SimulatedEventKind::Read
            | SimulatedEventKind::Store
            | SimulatedEventKind::Wait => weight,
            what if what.is_fault() && is_calm => 0,
            _ => weight * [0, 1, 1, 2, 4][draw.below(5)],
        };
        let weights: Vec<u32> = ALL.iter().map(|&(what, usual)| weight(what, usual)).collect();
        let mut drawn: Vec<SimulatedEvent> = Vec::new();
        if draw.percent(70) {
            // Most clients connect when others have been there for a while.
            drawn.extend((0..count).map(|who| SimulatedEvent { what: SimulatedEventKind::Connect, who, a: 0, b: 0 }));
            drawn.push(SimulatedEvent { what: SimulatedEventKind::Settle, who: 0, a: 0, b: 0 });
        }
        drawn.extend((drawn.len()..events).map(|_| SimulatedEvent::draw(&mut draw, ALL, &weights)));
        drawn.truncate(events);
        let mut plan = Self {
            seed,
            nodes: 1,
            shards,
            accounts,
            rooms,
            devices,
            peer: None,
            has_guests: seed % 32 == 6,
            store_is_late,
            background_is_late: false,
            has_source: seed % 64 == 40,
            is_fine: false,
            most_stanzas: (seed % 64 == 8).then(|| 10 + (seed / 64 % 30) as usize),
            is_firm: false,
            events: drawn,
        };
        // The peer is drawn from a sequence of its own, so that the other seeds mean the same as
        // before there were peers.
        if seed % 4 == 1 {
            plan.invite(&mut SeededDraw::new(!seed), is_calm);
        }
        if plan.has_guests {
            plan.mix(OF_GUESTS, &mut SeededDraw::new(!seed.rotate_left(8)), is_calm);
        }
        if matches!(seed % 8, 6 | 7) {
            plan.modernise(&mut SeededDraw::new(!seed));
        }
        if matches!(seed % 16, 11 | 15) {
            plan.spread(&mut SeededDraw::new(!seed.rotate_left(16)), is_calm);
        }
        if plan.has_source {
            plan.vouch();
        }
        // Seeds that have found faults mean the same as before there was channel binding.
        if matches!(seed % 32, 17 | 30) || matches!(seed % 256, 91 | 191) {
            plan.secure(&mut SeededDraw::new(!seed.rotate_left(24)), is_calm);
        }
        if matches!(seed % 5, 0 | 2) {
            plan.refine(&mut SeededDraw::new(seed.rotate_left(32)));
        }
        plan
    }

    /// Returns the same run with only those of its events that have these numbers.
    pub fn only(&self, numbers: &[usize]) -> Self {
        let events = numbers.iter().filter_map(|number| self.events.get(*number).copied()).collect();
        Self { events, ..self.clone() }
    }

    /// Makes things happen in small pieces.
    fn refine(&mut self, draw: &mut SeededDraw) {
        self.is_fine = true;
        for event in &mut self.events {
            if event.what == SimulatedEventKind::Settle && draw.percent(80) {
                event.what = [
                    SimulatedEventKind::Tick,
                    SimulatedEventKind::Tick,
                    SimulatedEventKind::Read,
                    SimulatedEventKind::Store,
                ][draw.below(4)];
            }
        }
    }

    /// Makes some devices use BOSH and others tokens, and makes work on background threads late.
    fn modernise(&mut self, draw: &mut SeededDraw) {
        self.background_is_late = draw.percent(50);
        for device in &mut self.devices {
            device.scram = [Mechanism::ScramSha1, Mechanism::ScramSha256, Mechanism::ScramSha512][draw.below(3)];
            if draw.percent(30) {
                // Such a device can repeat its requests, so it needs no stream management.
                (device.way, device.is_managed) = (LoginWay::Bosh, false);
            } else if draw.percent(50) {
                (device.way, device.has_token) = (LoginWay::Proxied, true);
                device.login = if draw.percent(50) { PlannedLogin::Sasl2 } else { PlannedLogin::Bind2 };
            }
        }
    }

    /// Protects some streams by TLS, and makes most of their clients bind their logins to it.
    fn secure(&mut self, draw: &mut SeededDraw, is_calm: bool) {
        for device in self.devices.iter_mut().filter(|device| device.way == LoginWay::Tcp) {
            if draw.percent(30) {
                continue;
            }
            (device.way, device.is_attacked) = (LoginWay::Secured, !is_calm);
            device.channels = draw.below(1 << 31) as u64;
            device.scram = [
                Mechanism::ScramSha1Plus,
                Mechanism::ScramSha256Plus,
                Mechanism::ScramSha512Plus,
                Mechanism::ScramSha256,
            ][draw.below(4)];
            device.login = [PlannedLogin::Plain, PlannedLogin::Scram, PlannedLogin::Sasl2, PlannedLogin::Bind2]
                [draw.by_weight(&[5, 40, 15, 40])];
            device.has_token = device.login.is_sasl2() && draw.percent(50);
        }
    }

    /// Makes clients log in by what an outside service says.
    fn vouch(&mut self) {
        for (at, device) in self.devices.iter_mut().enumerate() {
            device.by_source = Some([Mechanism::OAuthBearer, Mechanism::Plain][at % 2]);
        }
    }

    /// Spreads the run over several nodes, with events of nodes in place of a quarter of the
    /// others.
    fn spread(&mut self, draw: &mut SeededDraw, is_calm: bool) {
        (self.nodes, self.shards) = (draw.between(2, 4), draw.between(1, 2));
        self.background_is_late = false;
        let does_move = draw.percent(80);
        let is_firm = draw.percent(40);
        self.is_firm = is_firm;
        let mut weight = |what: SimulatedEventKind, weight: u32| match what {
            SimulatedEventKind::Carry => weight,
            SimulatedEventKind::NodeKill if is_firm && !is_calm => 4,
            SimulatedEventKind::NodePause
            | SimulatedEventKind::NodeCut
            | SimulatedEventKind::RedisAway
            | SimulatedEventKind::RedisForget
            | SimulatedEventKind::RedisBreak
                if is_firm =>
            {
                0
            }
            what if what.is_fault() && is_calm => 0,
            _ if !does_move => 0,
            _ => weight * [0, 1, 2][draw.below(3)],
        };
        let weights: Vec<u32> = AMONG_NODES.iter().map(|&(what, usual)| weight(what, usual)).collect();
        for event in &mut self.events {
            if !matches!(event.what, SimulatedEventKind::Connect) && draw.percent(25) {
                *event = SimulatedEvent::draw(draw, AMONG_NODES, &weights);
            }
            if is_firm && matches!(event.what, SimulatedEventKind::Trouble | SimulatedEventKind::Stall) {
                event.what = SimulatedEventKind::Carry;
            }
        }
        // Most seeds mean the same as before nodes had sessions of BOSH.
        if self.seed % 128 != 95 {
            let of_bosh = self.devices.iter_mut().filter(|device| device.way == LoginWay::Bosh);
            of_bosh.for_each(|device| device.way = LoginWay::Tcp);
        }
        // No journal has a session that can't be resumed, so its client is told at once what is
        // handled.
        self.devices.iter_mut().for_each(|device| device.resumes = draw.percent(75));
    }

    /// Adds a peer to the run, with its events in place of a fifth of the others.
    fn invite(&mut self, draw: &mut SeededDraw, is_calm: bool) {
        let peer = PeerPlan {
            is_component: draw.percent(40),
            is_hostile: !is_calm && draw.percent(20),
            window: if draw.percent(80) { 1 << 20 } else { draw.between(300, 5000) },
            most: if draw.percent(85) { usize::MAX } else { draw.between(20, 500) },
        };
        self.mix(ABROAD, draw, is_calm);
        self.peer = Some(peer);
    }

    /// Puts events of these kinds in place of a fifth of the others.
    fn mix(&mut self, kinds: &[(SimulatedEventKind, u32)], draw: &mut SeededDraw, is_calm: bool) {
        let weights = kinds.iter().map(|(what, weight)| if what.is_fault() && is_calm { 0 } else { *weight });
        let weights: Vec<u32> = weights.collect();
        for event in &mut self.events {
            if !matches!(event.what, SimulatedEventKind::Connect) && draw.percent(20) {
                *event = SimulatedEvent::draw(draw, kinds, &weights);
            }
        }
    }
}

impl DevicePlan {
    fn draw(account: usize, draw: &mut SeededDraw) -> Self {
        Self {
            account,
            is_managed: draw.percent(70),
            resumes: true,
            login: [PlannedLogin::Plain, PlannedLogin::Scram, PlannedLogin::Sasl2, PlannedLogin::Bind2]
                [draw.by_weight(&[50, 15, 15, 20])],
            scram: Mechanism::ScramSha256,
            by_source: None,
            channels: 0,
            is_attacked: false,
            way: if draw.percent(15) { LoginWay::WebSocket } else { LoginWay::Tcp },
            has_token: false,
            keeps_roster: draw.percent(40),
            wants_news: draw.percent(50),
            carbons: draw.percent(40),
            window: if draw.percent(80) { 1 << 20 } else { draw.between(300, 5000) },
            most: if draw.percent(85) { usize::MAX } else { draw.between(20, 500) },
            priority: if draw.percent(85) { 0 } else { draw.between(0, 3) as i8 - 1 },
        }
    }
}
