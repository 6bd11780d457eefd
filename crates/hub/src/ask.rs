//! Requests that this server makes itself, on behalf of one of its domains or sessions, and the
//! replies to them.
//!
//! # Invariants
//!
//! * A reply counts if it comes from the address that the request went to, with an id that nobody
//!   else can know. Each request gets exactly one outcome: if no reply arrives, a timeout takes its
//!   place.
//! * The shard that asks gets the reply, wherever it arrives: the id names the shard.

use rookery_fanout::{Packet, StanzaType};
use rookery_jid::Jid;
use rookery_xml::{Element, Writer, ns};
use serde::{Deserialize, Serialize};

use crate::World;
pub use crate::iq::Answer;
use crate::memo::Memo;
use crate::waiting::Inquiry;

impl World {
    /// Sends a request from a domain of this server, or from a session whose home this is; `then`
    /// gets the outcome, after a minute at the latest. The client of such a session sees nothing
    /// of it.
    pub fn ask(
        &mut self,
        from: &str,
        to: &Jid,
        is_set: bool,
        payload: &Element,
        then: impl FnOnce(&mut World, Answer) + 'static,
    ) {
        self.ask_whole(from, to, is_set, payload, |world, answer| then(world, answer.map_or(Answer::Nothing, read)));
    }

    /// Makes such a request; `then` gets the whole reply.
    pub(crate) fn ask_whole(
        &mut self,
        from: &str,
        to: &Jid,
        is_set: bool,
        payload: &Element,
        then: impl FnOnce(&mut World, Option<&Packet>) + 'static,
    ) {
        if self.waiting.asked.0.len() >= MAX_ASKED {
            // The continuation never runs at once: a caller that makes one request after another
            // would fill the stack.
            self.after(0, move |world| then(world, None));
            return;
        }
        let id = format!("{PREFIX}{}-{}", self.station(), self.unique_text());
        self.waiting.asked.0.insert(id.clone(), (to.clone(), Box::new(then)));
        let mut request = Writer::new("iq");
        request.attr("type", if is_set { "set" } else { "get" }).attr("id", &id).attr("from", from);
        request.element(payload);
        self.after(PATIENCE_MS, move |world| {
            if let Some((_, then)) = world.waiting.asked.0.remove(&id) {
                then(world, None);
            }
        });
        // Nobody's stanza waits for the request. If it has to wait itself, for a home that moves,
        // the session whose stanza it follows would not come to rest before.
        self.in_custody(None, |world| world.route_built(&request.finish(), to));
    }

    /// Takes a result or an error for an account or a session if it is the reply to a request made
    /// on its behalf, even if it is too late, since no client has such an id.
    pub(crate) fn answered_here(&mut self, packet: &Packet) -> bool {
        let is_own = packet.id().is_some_and(|id| {
            let rest = id.strip_prefix(PREFIX).and_then(|rest| rest.split_once('-'));
            rest.is_some_and(|(station, text)| station.parse() == Ok(self.station()) && text.len() == UNIQUE)
        });
        if is_own {
            self.answered(packet);
        }
        is_own
    }

    /// Takes a result or an error that came for a domain. One that isn't the reply to a request is
    /// dropped.
    pub(crate) fn answered(&mut self, packet: &Packet) {
        let Some(id) = packet.id() else { return };
        let station = id.strip_prefix(PREFIX).and_then(|rest| rest.split_once('-')?.0.parse().ok());
        // Nobody waits for the requests of a process that is gone.
        let Some(shard) = station.and_then(|station| self.shard_of(station)) else { return };
        if shard != self.shard() {
            return self.send_memo(shard, Answered(packet.clone()));
        }
        let sender = packet.sender();
        let is_from = |(to, _): &Inquiry| sender.as_ref() == Some(to);
        if !self.waiting.asked.0.get(&*id).is_some_and(is_from) {
            return;
        }
        if let Some((_, then)) = self.waiting.asked.0.remove(&*id) {
            then(self, Some(packet));
        }
    }
}

/// A reply that came in on a shard other than the one that asked.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Answered(Packet);

impl Memo for Answered {
    const NAME: &'static str = "hub answered";

    fn open(self, world: &mut World) {
        world.answered(&self.0);
    }
}

fn read(packet: &Packet) -> Answer {
    let stanza = packet.stanza();
    if packet.type_() == StanzaType::Result {
        return Answer::Result(stanza.children().next().map(|child| child.element()));
    }
    let error = stanza.children().find(|child| child.name() == "error").map(|child| child.element());
    let wait = error.as_ref().and_then(|error| error.attr("type")) == Some("wait");
    let defined = |child: &&Element| child.ns() == ns::STANZA_ERRORS && child.name() != "text";
    let condition = error.as_ref().and_then(|error| error.children().find(defined)).map(Element::name);
    Answer::Error { condition: condition.unwrap_or("undefined-condition").to_owned(), wait }
}

/// The beginning of each request's id.
const PREFIX: &str = "ask-";
/// The length of the text that makes an id unique.
const UNIQUE: usize = 16;
/// The time within which a reply has to come.
const PATIENCE_MS: u64 = 60_000;
/// Requests of one shard that may be without a reply.
const MAX_ASKED: usize = 10_000;
