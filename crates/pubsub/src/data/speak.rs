//! Texts of the source in rooms: the service enters them as an occupant (XEP-0045 §7.2) when there
//! is something to post, and stays.
//!
//! A text has been posted when the room reflects it; until then it is kept, and sent again if the
//! service had to re-enter. A room treats the service like any occupant: it may be banned or made a
//! visitor, and then the texts wait, up to a limit.

use std::collections::VecDeque;

use rookery_base::Map;
use rookery_fanout::{Packet, StanzaType};
use rookery_hub::{Memo, World};
use rookery_jid::{Jid, JidRef};
use rookery_stream::error::Condition;
use rookery_xml::{Built, Element, Kind, Writer, ns};
use serde::{Deserialize, Serialize};
use tracing::warn;

use super::options::NAME;

/// Posts a text in a room that is at home on this shard, in the name of a host.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct RoomSay {
    host: String,
    room: Jid,
    text: String,
}

impl Memo for RoomSay {
    const NAME: &'static str = "data say";

    fn open(self, world: &mut World) {
        Speaker::say(world, &self.host, &self.room, self.text);
    }

    fn home(&self) -> Option<Jid> {
        Some(self.room.clone())
    }
}

/// The service's presence in the rooms that are at home on a shard.
#[derive(Debug, Default)]
pub(super) struct RoomSpeakers(Map<Jid, Speaker>);

/// Posts a text in a room, in the name of a domain's service. It may be called on any shard.
pub fn say(world: &mut World, domain: &str, room: &Jid, text: String) {
    let services = world.options(domain, NAME).map(|options| options.text("host"));
    let Some(host) = services.map(|host| host.replace('@', domain)) else { return };
    world.send_memo_home(room.as_ref(), RoomSay { host, room: room.clone(), text });
}

/// The service in one room.
#[derive(Debug)]
pub(super) struct Speaker {
    host: String,
    room: Jid,
    nick: String,
    seat: SpeakerSeat,
    /// The texts that wait to be posted, oldest first.
    texts: VecDeque<String>,
    /// The id of the first text, if it has been sent but not reflected yet.
    sent: Option<String>,
    /// Distinguishes the timer of the last attempt from earlier ones.
    attempt: u64,
}

/// Work to do once the speaker's state is released: a room may reply before the sending call has
/// returned.
struct Doing {
    /// The id for the stanza that needs one; there is at most one.
    id: String,
    stanzas: Vec<(Built, Jid)>,
    /// The milliseconds until the next check, the service's state then, and the number of the
    /// attempt.
    later: Option<(u64, SpeakerSeat, u64)>,
}

/// The service's state in a room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SpeakerSeat {
    Outside,
    Entering,
    Inside,
    /// The room did not let the service in; the service tries again later.
    Waiting,
}

impl Speaker {
    /// Posts a text, on the home shard of the room.
    fn say(world: &mut World, host: &str, room: &Jid, text: String) {
        let speakers = &mut world.state_mut::<RoomSpeakers>().0;
        speakers.entry(room.clone()).or_insert_with(|| Speaker::new(host, room));
        with(world, room, |speaker, doing| {
            if speaker.texts.len() == MOST_TEXTS {
                // The text under way stays: its reflection must find it.
                speaker.texts.remove(1);
            }
            speaker.texts.push_back(text);
            match speaker.seat {
                SpeakerSeat::Outside => speaker.enter(doing),
                SpeakerSeat::Inside => speaker.send(doing),
                SpeakerSeat::Entering | SpeakerSeat::Waiting => {}
            }
        });
    }

    /// Takes a stanza that a room sends to the service.
    pub fn heard(world: &mut World, packet: &Packet, from: &Jid, to: JidRef<'_>) {
        if matches!(packet.type_(), StanzaType::Get | StanzaType::Set) {
            return world.bounce(packet, to, Condition::ServiceUnavailable.into());
        }
        let stanza = packet.stanza();
        with(world, &from.to_bare(), |speaker, doing| {
            if speaker.host != to.domain() {
                return;
            }
            let is_own = from.resource() == Some(&speaker.nick);
            let is_said = packet.id().is_some_and(|id| speaker.sent.as_deref() == Some(&id));
            match (packet.kind(), packet.type_()) {
                (Kind::Presence, StanzaType::Available) if is_own => {
                    speaker.entered(&Element::read(&stanza), doing);
                }
                (Kind::Presence, StanzaType::Unavailable) if is_own => speaker.wait(doing),
                (Kind::Presence, StanzaType::Error) => speaker.refused(&Element::read(&stanza), doing),
                (Kind::Message, StanzaType::Groupchat) if is_own && is_said => {
                    speaker.sent = None;
                    speaker.texts.pop_front();
                    speaker.send(doing);
                }
                // The service isn't an occupant any more, or has no voice.
                (Kind::Message, StanzaType::Error) => speaker.wait(doing),
                (Kind::Iq, StanzaType::Result) if speaker.seat == SpeakerSeat::Entering => speaker.begin(doing),
                (Kind::Iq, StanzaType::Error) if speaker.seat == SpeakerSeat::Entering => speaker.wait(doing),
                _ => {}
            }
        });
    }

    fn new(host: &str, room: &Jid) -> Self {
        Self {
            host: host.to_owned(),
            room: room.clone(),
            nick: NICK.to_owned(),
            seat: SpeakerSeat::Outside,
            texts: VecDeque::new(),
            sent: None,
            attempt: 0,
        }
    }

    fn enter(&mut self, doing: &mut Doing) {
        let Ok(seat) = Jid::new(self.room.local(), self.room.domain(), Some(&self.nick)) else { return };
        self.seat = SpeakerSeat::Entering;
        let mut presence = Writer::new("presence");
        presence.attr("from", &self.address());
        presence.start_ns("x", ns::MUC).start("history").attr("maxstanzas", "0");
        doing.stanzas.push((presence.finish(), seat));
        self.later(ANSWER_MS, SpeakerSeat::Entering, doing);
    }

    /// Notes that it has entered a room (§7.2.2), and unlocks a room that it has created (§10.1.2).
    fn entered(&mut self, presence: &Element, doing: &mut Doing) {
        if self.seat != SpeakerSeat::Entering {
            return;
        }
        let is_new = presence.child("x", ns::MUC_USER).is_some_and(|x| {
            x.children().any(|status| status.name() == "status" && status.attr("code") == Some("201"))
        });
        if !is_new {
            return self.begin(doing);
        }
        let mut iq = Writer::new("iq");
        iq.attr("type", "set").attr("id", &doing.id).attr("from", &self.address());
        iq.start_ns("query", ns::MUC_OWNER).start_ns("x", ns::DATA_FORMS).attr("type", "submit");
        doing.stanzas.push((iq.finish(), self.room.clone()));
    }

    fn begin(&mut self, doing: &mut Doing) {
        self.seat = SpeakerSeat::Inside;
        self.send(doing);
    }

    fn refused(&mut self, presence: &Element, doing: &mut Doing) {
        if self.seat != SpeakerSeat::Entering {
            return;
        }
        let error = presence.child("error", ns::CLIENT);
        let is_taken = error.is_some_and(|error| error.children().any(|child| child.name() == "conflict"));
        if is_taken && self.nick.len() < LONGEST_NICK {
            self.nick.push('_');
            return self.enter(doing);
        }
        let condition = error.and_then(|error| error.children().next()).map_or("error", Element::name);
        warn!(room = self.room.as_str(), condition, "the room doesn't let the readings service in: alarms wait");
        self.wait(doing);
    }

    /// Tries again later, if texts are waiting then.
    fn wait(&mut self, doing: &mut Doing) {
        if self.seat != SpeakerSeat::Waiting {
            (self.seat, self.sent) = (SpeakerSeat::Waiting, None);
            self.later(AGAIN_MS, SpeakerSeat::Waiting, doing);
        }
    }

    /// Schedules another check.
    fn later(&mut self, wait_ms: u64, seat: SpeakerSeat, doing: &mut Doing) {
        self.attempt += 1;
        doing.later = Some((wait_ms, seat, self.attempt));
    }

    /// Checks again after a while, unless the speaker has progressed.
    fn again(&mut self, seat: SpeakerSeat, attempt: u64, doing: &mut Doing) {
        if self.seat != seat || self.attempt != attempt {
            return;
        }
        match seat {
            SpeakerSeat::Entering => self.wait(doing),
            _ if self.texts.is_empty() => self.seat = SpeakerSeat::Outside,
            _ => self.enter(doing),
        }
    }

    /// Sends the first text, unless it is under way.
    fn send(&mut self, doing: &mut Doing) {
        let Some(text) = self.texts.front().filter(|_| self.sent.is_none()) else { return };
        let id = doing.id.clone();
        let mut message = Writer::new("message");
        message.attr("type", "groupchat").attr("id", &id).attr("from", &self.address());
        message.text_child("body", text);
        self.sent = Some(id);
        doing.stanzas.push((message.finish(), self.room.clone()));
    }

    fn address(&self) -> String {
        format!("{}/{RESOURCE}", self.host)
    }
}

/// Updates the speaker of a room, if there is one, and then does the resulting work.
fn with(world: &mut World, room: &Jid, work: impl FnOnce(&mut Speaker, &mut Doing)) {
    let mut doing = Doing { id: world.unique_text(), stanzas: Vec::new(), later: None };
    let Some(speaker) = world.state_mut::<RoomSpeakers>().0.get_mut(room) else { return };
    work(speaker, &mut doing);
    act(world, room, doing);
}

fn act(world: &mut World, room: &Jid, doing: Doing) {
    if let Some((wait_ms, seat, attempt)) = doing.later {
        let room = room.clone();
        world.after(wait_ms, move |world| with(world, &room, |speaker, doing| speaker.again(seat, attempt, doing)));
    }
    for (stanza, to) in doing.stanzas {
        world.route_built(&stanza, &to);
    }
}

/// The resource under which the service is an occupant.
pub(super) const RESOURCE: &str = "alarms";
const NICK: &str = "Alarms";
const LONGEST_NICK: usize = 32;
/// The most texts that wait for a room; beyond it, the oldest are dropped.
const MOST_TEXTS: usize = 100;
/// The longest time that a room may take to let the service in, in milliseconds.
const ANSWER_MS: u64 = 60_000;
/// The time until the next attempt at a room that did not let the service in, in milliseconds.
const AGAIN_MS: u64 = 60_000;
