//! A world with one sender, and with local recipients, or recipients on servers of their own.

use std::cell::{Cell, RefCell};
use std::hint::black_box;
use std::rc::Rc;
use std::sync::Arc;

use rookery_fanout::multicast::Outgoing;
use rookery_fanout::{Link, Packet, StanzaType};
use rookery_hub::{Custody, Event, Federation, Settings, Value, World};
use rookery_jid::Jid;
use rookery_observe::MulticastStage;
use rookery_xml::{Kind as StanzaKind, Limits, Stanza};
use rustix::time::{ClockId, Timespec, clock_gettime};

use super::{AddressKind, AddressServers, MessageRoute};
use crate::network::{DOMAIN, Parts};
use crate::{BenchOutcome, chat};

/// The server under test, without sockets.
pub(super) struct Bed {
    world: World,
    servers: AddressServers,
    recipients: Vec<Jid>,
    streams: Streams,
    out: Vec<u8>,
}

/// A message to be sent. It is made beforehand, since making it is the sender's work.
pub(super) struct BedLoad {
    route: MessageRoute,
    text: String,
    to: Vec<Jid>,
}

/// The cost of one message.
pub(super) struct Played {
    /// CPU time until every copy waits for its session, or was passed to its stream, in µs.
    pub(super) us: f64,
    /// CPU time of rendering the waiting copies, in µs.
    pub(super) write_us: f64,
    pub(super) copies: u64,
    pub(super) bytes: u64,
    /// The copies that left for other servers.
    pub(super) left: u64,
}

/// A replacement for streams to other servers: the pieces of each stanza are visited, as by a
/// vectored write, and counted.
#[derive(Debug, Default, Clone)]
struct Streams {
    stanzas: Rc<Cell<u64>>,
    bytes: Rc<Cell<u64>>,
    /// The requests that have no reply yet, with the services that they were sent to.
    asked: Rc<RefCell<Vec<(Jid, Packet)>>>,
}

impl Federation for Streams {
    fn send(&mut self, stanza: Outgoing) {
        if stanza.packet().kind() == StanzaKind::Iq {
            self.asked.borrow_mut().push((stanza.to().clone(), stanza.packet().clone()));
            return;
        }
        let mut len = 0;
        stanza.parts(|part| len += black_box(part).len() as u64);
        self.stanzas.set(self.stanzas.get() + 1);
        self.bytes.set(self.bytes.get() + len);
    }

    fn arrive(&mut self, _: &Packet, _: &Jid, _: Option<Custody>) -> bool {
        false
    }
}

impl Bed {
    pub(super) fn new(servers: AddressServers, recipients: usize) -> BenchOutcome<Bed> {
        let parts = Parts::new(0, 0)?;
        let mut world = parts.world(0, 1);
        world.apply(Arc::new(without_limits(world.settings())));
        let streams = Streams::default();
        world.set_federation(Box::new(streams.clone()));
        let mut bed = Bed { world, servers, recipients: Vec::new(), streams, out: Vec::new() };
        bed.session(0)?;
        for number in 1..=recipients {
            let jid = match servers {
                AddressServers::Single => bed.session(number)?,
                AddressServers::Multiple => Jid::parse(&format!("user@server{number:04}.example/bench"))?,
                AddressServers::Services(count) => {
                    Jid::parse(&format!("user{number:04}@server{:04}.example/bench", number % count))?
                }
            };
            bed.recipients.push(jid);
        }
        bed.flush();
        Ok(bed)
    }

    /// Returns an available session of its own account.
    fn session(&mut self, number: usize) -> BenchOutcome<Jid> {
        let (link, account) = (Link(number as u32), Jid::parse(&chat::account(number, DOMAIN))?);
        self.world.bind(link, &account, Some("bench"));
        while self.world.run_tasks() {}
        let Some(Event::Bound(_, Ok(jid))) = self.world.next_event() else {
            return Err("a session was refused".into());
        };
        _ = self.world.stanza(link, Stanza::parse(chat::PRESENCE.as_bytes(), &LIMITS)?);
        while self.world.run_tasks() {}
        Ok(jid)
    }

    /// Returns a message to this number of the recipients.
    pub(super) fn load(&self, route: MessageRoute, destinations: usize, kind: AddressKind) -> BenchOutcome<BedLoad> {
        let to: Vec<Jid> = self.recipients.iter().take(destinations).cloned().collect();
        let body = "<body>Such a message is as long as people write them, a line or two.</body>";
        let type_ = if kind == AddressKind::To { "to" } else { "bcc" };
        let addresses = to.iter().map(|jid| format!("<address type='{type_}' jid='{jid}'/>"));
        let header = match route {
            MessageRoute::Untrusted => {
                format!(
                    "<addresses xmlns='http://jabber.org/protocol/address'>{}</addresses>",
                    addresses.collect::<String>()
                )
            }
            _ => String::new(),
        };
        let text = format!("<message to='multicast.{DOMAIN}' type='chat' id='a1'>{body}{header}</message>");
        Ok(BedLoad { route, text, to })
    }

    /// Returns how many copies are made for this number of recipients, once the multicast services
    /// are known.
    pub(super) fn copies(&self, route: MessageRoute, destinations: usize) -> u64 {
        match self.servers {
            AddressServers::Services(count) if route != MessageRoute::Normal => destinations.min(count) as u64,
            _ => destinations as u64,
        }
    }

    /// Sends the message, and writes every copy.
    pub(super) fn play(&mut self, load: &BedLoad) -> BenchOutcome<Played> {
        let (left, bytes) = (self.streams.stanzas.get(), self.streams.bytes.get());
        let copies = self.world.outboxes.pushed_total() + left;
        let start = clock_gettime(ClockId::ThreadCPUTime);
        match load.route {
            MessageRoute::Untrusted => {
                let stanza = Stanza::parse(black_box(load.text.as_bytes()), &LIMITS)?;
                _ = self.world.stanza(Link(0), stanza);
            }
            MessageRoute::Trusted => {
                let packet = own(&load.text)?;
                let begun = self.world.counters.stages.begin();
                self.world.fan_out(&packet, load.to.iter().map(Jid::as_ref));
                _ = self.world.counters.stages.end(MulticastStage::Route, begun);
            }
            MessageRoute::Normal => {
                for to in &load.to {
                    let packet = own(&load.text)?;
                    self.world.route(&packet, to.as_ref());
                }
            }
        }
        let routed = clock_gettime(ClockId::ThreadCPUTime);
        let written = self.flush();
        let end = clock_gettime(ClockId::ThreadCPUTime);
        let us = |spent: Timespec| spent.tv_sec as f64 * 1e6 + spent.tv_nsec as f64 / 1e3;
        let played = Played {
            us: us(routed - start),
            write_us: us(end - routed),
            copies: self.world.outboxes.pushed_total() + self.streams.stanzas.get() - copies,
            bytes: self.streams.bytes.get() - bytes + written,
            left: self.streams.stanzas.get() - left,
        };
        self.answer()?;
        Ok(played)
    }

    /// Answers the queries to other servers: each has a multicast service for any number of
    /// addresses in the experiments with services, otherwise none.
    fn answer(&mut self) -> BenchOutcome<()> {
        let asked = self.streams.asked.take();
        let feature = match self.servers {
            AddressServers::Services(_) => {
                "<feature var='http://jabber.org/protocol/address'/><x xmlns='jabber:x:data' type='result'>\
                 <field var='FORM_TYPE' type='hidden'><value>http://jabber.org/protocol/address</value></field>\
                 <field var='message'><value>infinite</value></field></x>"
            }
            _ => "",
        };
        for (whom, question) in asked {
            let (Some(asker), Some(id)) = (question.sender(), question.id()) else { continue };
            let answer = format!(
                "<iq type='result' id='{id}' from='{whom}' to='{asker}'>\
                 <query xmlns='http://jabber.org/protocol/disco#info'>{feature}</query></iq>"
            );
            let stanza = Stanza::parse(answer.as_bytes(), &LIMITS)?;
            self.world.incoming(&Packet::from_session(stanza, StanzaType::Result, whom.as_str(), None), asker.as_ref());
            while self.world.run_tasks() {}
        }
        Ok(())
    }

    /// Renders the waiting copies of each session, as a shard does; returns the number of their
    /// bytes.
    fn flush(&mut self) -> u64 {
        let begun = self.world.counters.stages.begin();
        let dirty = self.world.outboxes.take_dirty();
        let mut written = 0;
        for &link in &dirty {
            self.out.clear();
            self.world.outboxes.render(link, 65_536, &mut self.out);
            self.world.outboxes.remove_sent(link, self.out.len());
            written += black_box(&self.out).len() as u64;
        }
        self.world.outboxes.recycle(dirty);
        if self.servers == AddressServers::Single {
            _ = self.world.counters.stages.end(MulticastStage::Write, begun);
        }
        written
    }

    pub(super) fn measure_stages(&mut self, on: bool) {
        self.world.counters.stages.measure(on);
    }

    /// Returns the table of stages since the start.
    pub(super) fn stages(&self) -> String {
        self.world.counters.stages.to_string()
    }
}

/// Returns the settings with multicast for any number of recipients.
fn without_limits(settings: &Settings) -> Settings {
    let mut settings = settings.clone();
    let specs = rookery_modules::table(&rookery_modules::Shared::default());
    let specs = specs.iter().flat_map(|module| module.options().iter().map(move |spec| (module.name(), *spec)));
    let limits: Vec<_> = specs
        .filter(|(module, spec)| *module == "multicast" && ["local_messages", "minute_bytes"].contains(&spec.key))
        .collect();
    for domain in &mut settings.domains {
        for (module, spec) in &limits {
            if let Some(options) = domain.modules.get_mut(module) {
                options.set(spec, Value::Number(0));
            }
        }
    }
    settings
}

/// Returns a message from the server itself.
fn own(text: &str) -> BenchOutcome<Packet> {
    let stanza = Stanza::parse(black_box(text.as_bytes()), &LIMITS)?;
    Ok(Packet::from_session(stanza, StanzaType::Chat, DOMAIN, None))
}

const LIMITS: Limits = Limits { bytes: usize::MAX, ..Limits::AFTER_LOGIN };
