//! Two servers and their wires in memory: TLS is a message that both sides get, with the
//! certificate that a test gives them.

use super::*;

/// One of the servers.
pub(super) struct WorldSide {
    pub(super) name: &'static str,
    pub(super) servers: ServerStreams,
    /// The names in its certificate, or the fault in it.
    pub(super) shown: Result<Names, Untrusted>,
    pub(super) delivered: Vec<String>,
    pub(super) bounced: Vec<(String, String)>,
    pub(super) lost: Vec<String>,
    /// Stanzas that are being stored, each with the time at which that is done.
    pub(super) store: Vec<(u64, Custody)>,
    pub(super) ends: BTreeMap<ConnectionKey, usize>,
    pub(super) tls: BTreeSet<ConnectionKey>,
}

impl inbound::Ours for &'static str {
    fn is_ours(&self, host: &str) -> bool {
        host == *self || host.strip_prefix("rooms.") == Some(self)
    }
}

impl Home for &'static str {
    fn home(&self, _: &str) -> usize {
        0
    }

    fn shard(&self) -> usize {
        0
    }
}

/// A wire: its ends, by server and key.
#[derive(Default)]
pub(super) struct WorldWire {
    pub(super) ends: [Option<(usize, ConnectionKey)>; 2],
    pub(super) shaking: usize,
}

pub(super) struct ServersWorld {
    pub(super) sides: Vec<WorldSide>,
    pub(super) wires: Vec<WorldWire>,
    pub(super) now_ms: u64,
    /// Connections that were requested.
    pub(super) attempts: Vec<(usize, Address)>,
    /// Domains that DNS doesn't know, with its answers.
    pub(super) unknown: BTreeMap<&'static str, NotFound>,
    /// The number of bytes carried.
    pub(super) carried: usize,
    /// The number of bytes until all wires are cut.
    pub(super) left: Option<usize>,
    /// Addresses that never answer.
    pub(super) dead: BTreeSet<SocketAddr>,
}

pub(super) fn address(server: usize) -> SocketAddr {
    SocketAddr::from(([1, 1, 1, server as u8 + 1], 5269))
}

impl ServersWorld {
    pub(super) fn new(policies: [PeerPolicy; 2]) -> Self {
        let names = ["a.example", "b.example"];
        let side = |at: usize| {
            let mut settings = FederationSettings::new(Secret::new(names[at].as_bytes()));
            settings.rules.policy = policies[at];
            WorldSide {
                name: names[at],
                servers: ServerStreams::new(Arc::new(settings)),
                shown: Ok(Names::of(&[names[at]])),
                delivered: Vec::new(),
                bounced: Vec::new(),
                lost: Vec::new(),
                store: Vec::new(),
                ends: BTreeMap::new(),
                tls: BTreeSet::new(),
            }
        };
        Self {
            sides: vec![side(0), side(1)],
            wires: Vec::new(),
            now_ms: 1,
            attempts: Vec::new(),
            unknown: BTreeMap::new(),
            dead: BTreeSet::new(),
            left: None,
            carried: 0,
        }
    }

    pub(super) fn send(&mut self, side: usize, from: &str, to: &str, body: &str) {
        let text = format!("<message from='{from}' id='{body}'><body>{body}</body></message>");
        let packet = Packet::from_bytes(text.as_bytes()).unwrap();
        self.sides[side].servers.set_time(self.now_ms);
        self.sides[side].servers.send(Outgoing::plain(Jid::parse(to).unwrap(), packet));
    }

    pub(super) fn settle(&mut self) {
        let mut bytes = VecDeque::new();
        loop {
            let mut moved = false;
            for at in 0..self.sides.len() {
                self.sides[at].store.retain(|(due, _)| *due > self.now_ms);
                self.sides[at].servers.set_time(self.now_ms);
                self.sides[at].servers.run_timers();
                self.sides[at].servers.flush();
                while let Some(action) = self.sides[at].servers.next_action() {
                    moved = true;
                    self.act(at, action, &mut bytes);
                }
            }
            while let Some((wire, to, chunk)) = bytes.pop_front() {
                moved = true;
                self.carry(wire, to, chunk);
            }
            if !moved {
                return;
            }
        }
    }

    pub(super) fn act(&mut self, at: usize, action: Action, bytes: &mut VecDeque<(usize, usize, Option<Vec<u8>>)>) {
        let side = &mut self.sides[at];
        match action {
            Action::Resolve(domain) => {
                let found = match (self.unknown.get(&*domain), &*domain) {
                    (Some(reason), _) => Err(*reason),
                    (None, "a.example" | "rooms.a.example") => Ok(vec![Address::new(address(0), false)]),
                    _ => Ok(vec![Address::new(address(1), false)]),
                };
                side.servers.resolved(&domain, &found);
            }
            Action::Connect(key, address) => {
                self.attempts.push((at, address.clone()));
                if self.dead.contains(&address.socket) {
                    return;
                }
                let other = usize::from(address.socket == self::address(1));
                let Some(theirs) = self.sides[other].servers.accept(self::address(9), false) else {
                    return self.sides[at].servers.closed(key, "closed");
                };
                let wire = self.wires.len();
                self.wires.push(WorldWire { ends: [Some((at, key)), Some((other, theirs))], shaking: 0 });
                self.sides[at].ends.insert(key, wire);
                self.sides[other].ends.insert(theirs, wire);
                self.sides[at].servers.connected(key);
            }
            Action::StartTls(key, _) => {
                let Some(&wire) = side.ends.get(&key) else { return };
                self.wires[wire].shaking += 1;
                if self.wires[wire].shaking == 2 {
                    let shown = self.sides.iter().map(|side| side.shown.clone()).collect::<Vec<_>>();
                    // The accepting side is ready first, as with TLS 1.3 the calling one is: either
                    // order must do.
                    for end in (0..2).rev() {
                        let (of, key) = self.wires[wire].ends[end].unwrap();
                        let (other, _) = self.wires[wire].ends[1 - end].unwrap();
                        self.sides[of].tls.insert(key);
                        self.sides[of].servers.secured(key, shown[other].clone());
                    }
                }
            }
            Action::Write(key, chunk) => {
                if let Some(&wire) = side.ends.get(&key) {
                    let to = self.other_end(wire, at, key);
                    bytes.push_back((wire, to, Some(chunk)));
                    self.sides[at].servers.drained(key);
                }
            }
            Action::End(key) => {
                if let Some(&wire) = side.ends.get(&key) {
                    let to = self.other_end(wire, at, key);
                    bytes.push_back((wire, to, None));
                } else {
                    side.servers.closed(key, "gone");
                }
            }
            Action::Drop(key) => {
                if let Some(wire) = side.ends.remove(&key) {
                    let to = self.other_end(wire, at, key);
                    self.wires[wire].ends[1 - to] = None;
                    bytes.push_back((wire, to, None));
                }
            }
            Action::Move(..) => panic!("there is one shard"),
            Action::Route(..) => panic!("there is no component"),
            Action::Deliver(packet, to, custody) => {
                // The store has some at once, and others later.
                let due = self.now_ms + side.delivered.len() as u64 % 5 * 20;
                side.store.extend(custody.map(|custody| (due, custody)));
                side.delivered.push(format!("{} {to}: {}", packet.sender().unwrap(), packet.id().unwrap_or_default()));
            }
            Action::Refuse(error, to) => side.bounced.push((to.to_string(), format!("{error:?}"))),
            Action::Bounce(stanza, error) => {
                let id = stanza.packet().id().unwrap_or_default().into_owned();
                side.bounced.push((id, error.condition.name().to_owned()));
            }
            Action::Lost(domain) => side.lost.push(domain.into()),
            Action::ComponentCame(_) | Action::ComponentGone(_) => panic!("there is no component"),
            Action::Pause(..) => {}
        }
    }

    pub(super) fn other_end(&self, wire: usize, at: usize, key: ConnectionKey) -> usize {
        usize::from(self.wires[wire].ends[0] == Some((at, key)))
    }

    pub(super) fn carry(&mut self, wire: usize, to: usize, chunk: Option<Vec<u8>>) {
        let Some((at, key)) = self.wires[wire].ends[to] else { return };
        self.sides[at].servers.set_time(self.now_ms);
        let name = self.sides[at].name;
        let Some(mut chunk) = chunk else { return self.sever(wire, to) };
        let is_cut = self.left.is_some_and(|left| left < chunk.len());
        match &mut self.left {
            Some(left) if is_cut => chunk.truncate(*left),
            Some(left) => *left -= chunk.len(),
            None => {}
        }
        self.carried += chunk.len();
        self.sides[at].servers.received(key, &chunk, &name);
        if is_cut {
            self.left = None;
            self.sever(wire, to);
        }
    }

    pub(super) fn sever(&mut self, wire: usize, to: usize) {
        for end in [to, 1 - to] {
            if let Some((side, key)) = self.wires[wire].ends[end].take() {
                self.sides[side].ends.remove(&key);
                self.sides[side].servers.closed(key, "the other side has closed the connection");
            }
        }
    }

    pub(super) fn advance(&mut self, ms: u64) {
        let until = self.now_ms + ms;
        loop {
            self.settle();
            let next = self.sides.iter().filter_map(|side| side.servers.next_timer()).min();
            match next.filter(|due| *due <= until) {
                Some(due) => self.now_ms = self.now_ms.max(due),
                None => break,
            }
        }
        self.now_ms = until;
        self.settle();
    }

    pub(super) fn change(&mut self, side: usize, change: impl FnOnce(&mut FederationSettings)) {
        let mut settings = (*self.sides[side].servers.settings).clone();
        change(&mut settings);
        let name = self.sides[side].name;
        self.sides[side].servers.apply(Arc::new(settings), &name);
        self.settle();
    }
}

impl ServersWorld {
    /// Settles everything else, and keeps the output to a connection that isn't a wire.
    pub(super) fn settle_but(&mut self, key: ConnectionKey, said: &mut Vec<u8>) {
        let wire = self.wires.len();
        self.wires.push(WorldWire::default());
        self.sides[1].ends.insert(key, wire);
        self.wires[wire].ends = [Some((1, key)), None];
        let mut bytes = VecDeque::new();
        for _ in 0..100 {
            for at in 0..2 {
                self.sides[at].servers.flush();
                while let Some(action) = self.sides[at].servers.next_action() {
                    self.act(at, action, &mut bytes);
                }
            }
            while let Some((of, to, chunk)) = bytes.pop_front() {
                if of == wire {
                    said.extend_from_slice(&chunk.unwrap_or_default());
                } else {
                    self.carry(of, to, chunk);
                }
            }
        }
    }
}
