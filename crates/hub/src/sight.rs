//! Reports stanzas to traces, for the world and for modules.
//!
//! Each place on the way of a stanza where something is decided calls one of these with the
//! reason. They do nothing unless somebody traces.

use std::borrow::Cow;
use std::sync::Arc;

use rookery_fanout::{Addresses, Attention, Link, Packet, StanzaType, Station};
use rookery_jid::{Jid, JidRef};
use rookery_stream::error::StanzaError;
use rookery_xml::{Element, Kind, Node, Stanza, Writer};

use crate::World;
use crate::destination::Destination;
use crate::iq::Iq;
use crate::trace::{First, MOST_CONTENT, MOST_TRACES, Sighting, Step, Trace, begins, is_answer};

/// A stanza as a trace sees it.
struct SightedStanza<'a> {
    kind: &'a str,
    type_: Cow<'a, str>,
    id: Option<Cow<'a, str>>,
    from: Option<Jid>,
    to: JidRef<'a>,
    /// The stanza itself, if it is here.
    stanza: Option<Stanza<'a>>,
    /// The bytes of its first child, which tell it from others that have no `id`.
    mark: Cow<'a, [u8]>,
}

impl<'a> SightedStanza<'a> {
    fn stanza(stanza: Stanza<'a>, from: Option<Jid>, to: JidRef<'a>) -> Self {
        let mark = stanza.first_child().map(|child| Cow::Borrowed(child.bytes())).unwrap_or_default();
        let type_ = stanza.type_().unwrap_or_default();
        Self { kind: stanza.name(), type_, id: stanza.id(), from, to, stanza: Some(stanza), mark }
    }

    fn iq(iq: &'a Iq) -> Self {
        let type_ = Cow::Borrowed(if iq.set { "set" } else { "get" });
        let (id, mark) = (Some(Cow::Borrowed(iq.id.as_str())), Cow::default());
        Self { kind: "iq", type_, id, from: Some(iq.from.clone()), to: iq.to.as_ref(), stanza: None, mark }
    }

    /// Returns the text from which the stanza's number follows: its kind and `id`, and the address
    /// that waits for an answer, so that the answer has the same number.
    fn text(&self) -> String {
        let asker = match &self.from {
            Some(from) if !is_answer(&self.type_) => from.bare_str(),
            _ => self.to.bare_str(),
        };
        match &self.id {
            Some(id) => format!("{} {asker} {id}", self.kind),
            None => format!("{} {asker} {} {}", self.kind, self.type_, String::from_utf8_lossy(&self.mark)),
        }
    }

    fn first(&self, has_contents: bool) -> First {
        let Some(stanza) = &self.stanza else { return First::default() };
        let mut content = if has_contents { text_of(stanza) } else { outline(stanza) };
        content.truncate(content.floor_char_boundary(MOST_CONTENT));
        First { bytes: stanza.bytes().len(), content }
    }
}

/// Reports to traces.
impl World {
    /// Writes sightings into a trace from now on. `false` if there are already as many as allowed.
    pub fn trace(&mut self, trace: Arc<Trace>) -> bool {
        let now_ms = self.clock.now_ms;
        self.traces.retain(|other| other.until_ms() > now_ms);
        let fits = self.traces.len() < MOST_TRACES;
        if fits {
            self.traces.push(trace);
        }
        fits
    }

    /// Writes sightings into a trace as [`World::trace`] does, and ends the trace at its time. Its
    /// reader puts that off as long as it asks.
    pub fn trace_while_asked(&mut self, trace: Arc<Trace>) -> bool {
        let fits = self.trace(trace.clone());
        if fits {
            self.end_in_time(trace);
        }
        fits
    }

    fn end_in_time(&mut self, trace: Arc<Trace>) {
        match trace.until_ms().saturating_sub(self.clock.now_ms) {
            0 => self.end_trace(trace.reader()),
            remaining_ms => _ = self.after(remaining_ms, move |world| world.end_in_time(trace)),
        }
    }

    /// Returns the trace of a reader, if one is being written for it.
    pub fn trace_for(&self, reader: u128) -> Option<Arc<Trace>> {
        self.traces.iter().find(|trace| trace.reader() == reader).cloned()
    }

    /// Stops writing into the trace of a reader.
    pub fn end_trace(&mut self, reader: u128) {
        self.traces.retain(|trace| trace.reader() != reader);
    }

    /// Returns whether anybody traces anything.
    #[inline]
    pub fn is_tracing(&self) -> bool {
        !self.traces.is_empty()
    }

    /// Reports to traces what happens to a stanza on its way to an address, and why.
    #[inline]
    pub fn sight(&self, packet: &Packet, to: JidRef<'_>, step: Step, why: impl FnOnce() -> String) {
        if self.is_tracing() {
            self.sight_packet(packet, to, step, why);
        }
    }

    #[cold]
    fn sight_packet(&self, packet: &Packet, to: JidRef<'_>, step: Step, why: impl FnOnce() -> String) {
        if self.is_packet_traced(packet, to) {
            self.write_down(&SightedStanza::stanza(packet.stanza(), packet.sender(), to), step, &why());
        }
    }

    /// Reports to traces the outcome of a request.
    #[inline]
    pub fn sight_iq(&self, iq: &Iq, step: Step, why: impl FnOnce() -> String) {
        if self.is_tracing() && self.is_traced(Some(iq.from.as_ref()), iq.to.as_ref()) {
            self.write_down(&SightedStanza::iq(iq), step, &why());
        }
    }

    /// Tells traces of a stanza that a session has sent. `to` is its address, if that is valid.
    #[cold]
    pub(crate) fn sight_received(&self, from: &Jid, stanza: Stanza<'_>, to: Option<JidRef<'_>>) {
        let to = to.unwrap_or_else(|| from.bare());
        if self.is_traced(Some(from.as_ref()), to) {
            let why = format!("from the session, {} bytes", stanza.bytes().len());
            self.write_down(&SightedStanza::stanza(stanza, Some(from.clone()), to), Step::Received, &why);
        }
    }

    /// Tells traces of a stanza of a session that hasn't been stamped.
    #[cold]
    pub(crate) fn sight_sent(&self, link: Link, stanza: Stanza<'_>, step: Step, why: impl FnOnce() -> String) {
        let Some(from) = self.outboxes.address(link) else { return };
        let to = stanza.raw_to().map(|to| to.bytes).unwrap_or_default();
        if !self.any_trace(|trace| trace.has(from.as_ref()) || trace.may_have(to)) {
            return;
        }
        let to = stanza.to().and_then(|to| Jid::parse(&to).ok()).unwrap_or_else(|| from.to_bare());
        if self.is_traced(Some(from.as_ref()), to.as_ref()) && stanza.kind() != Kind::Other {
            self.write_down(&SightedStanza::stanza(stanza, Some(from.clone()), to.as_ref()), step, &why());
        }
    }

    /// Reports to traces what happens to a session.
    #[inline]
    pub(crate) fn sight_session(&self, link: Link, why: impl FnOnce() -> String) {
        if self.is_tracing()
            && let Some(address) = self.outboxes.address(link)
            && self.is_traced(None, address.as_ref())
        {
            self.write_session(address, &why());
        }
    }

    /// Tells traces that a request for presence gets no presence in reply.
    #[inline]
    pub(crate) fn sight_probe(&self, from: &Jid, to: &str, step: Step, why: &str) {
        if self.is_tracing()
            && self.any_trace(|trace| trace.has(from.as_ref()) || trace.may_be(to.as_bytes()))
            && let Ok(to) = Jid::parse(to)
            && self.is_traced(Some(from.as_ref()), to.as_ref())
        {
            let (type_, mark) = (Cow::Borrowed("probe"), Cow::default());
            let from = Some(from.clone());
            let seen = SightedStanza { kind: "presence", type_, id: None, from, to: to.as_ref(), stanza: None, mark };
            self.write_down(&seen, step, why);
        }
    }

    /// Tells traces that an error goes back to a stanza's sender, or that it can't.
    #[cold]
    pub(crate) fn sight_bounce(&self, packet: &Packet, to: JidRef<'_>, error: &StanzaError, is_told: bool) {
        let (step, fate) = match is_told {
            true => (Step::Refused, "its sender gets"),
            false => (Step::Stopped, "nobody is notified, because such a stanza is never answered:"),
        };
        self.sight(packet, to, step, || format!("{fate} {}", error_text(error)));
    }

    /// Reports to traces how the rules for accounts (RFC 6121 §8.5) treat a stanza, before it
    /// happens.
    #[cold]
    pub(crate) fn sight_rules(&self, user: Option<u32>, packet: &Packet, to: JidRef<'_>) {
        let user_found = user.and_then(|user| self.people.users.get(user as usize));
        if !self.is_packet_traced(packet, to) {
            // A stanza for an account concerns each of its sessions.
            let own = user_found.into_iter().flat_map(|user| &user.links);
            let mut own = own.filter_map(|&link| self.outboxes.address(link));
            let is_about = |trace: &Trace| trace.subject().is_session();
            if !self.any_trace(is_about) || !own.any(|own| self.is_traced(None, own.as_ref())) {
                return;
            }
        }
        let links = user_found.map(|user| user.links.clone()).unwrap_or_default();
        let session = to.resource().and_then(|resource| self.find_resource(user, resource));
        match (packet.kind(), session) {
            (_, Some(link)) if !self.is_about_account(packet) => {
                let why = "to the session that it is addressed to (RFC 6121 §8.5.3.1)";
                self.sight_given(link, packet, why);
            }
            (Kind::Message, _) => self.sight_message(&links, packet, to),
            (Kind::Presence, _) => self.sight_presence(&links, packet, to),
            (_, None) if to.resource().is_some() => self
                .sight(packet, to, Step::Noted, || "no session has bound this resource (RFC 6121 §8.5.3.2.3)".into()),
            _ => {}
        }
    }

    /// Returns whether presence for a resource is handled for its account (RFC 6121 §8.5.3).
    fn is_about_account(&self, packet: &Packet) -> bool {
        let is_of_session =
            matches!(packet.type_(), StanzaType::Available | StanzaType::Unavailable | StanzaType::Error);
        packet.kind() == Kind::Presence && !is_of_session
    }

    fn sight_message(&self, links: &[Link], packet: &Packet, to: JidRef<'_>) {
        if to.resource().is_some() {
            self.sight(packet, to, Step::Noted, || "no session has bound this resource".into());
        }
        match Destination::without_session(packet.type_(), to) {
            Destination::Account => {}
            Destination::Nobody => {
                let why = "a message of this type is for the addressed session alone (RFC 6121 §8.5.2.1.1, §8.5.3.2.1)";
                return self.sight(packet, to, Step::Stopped, || why.into());
            }
            Destination::Refused | Destination::Session(_) => {
                let why = "a message of this type is not for other resources (RFC 6121 §8.5.2.1.1, §8.5.3.2.1)";
                return self.sight(packet, to, Step::Noted, || why.into());
            }
        }
        let mut takers = 0;
        for &link in links {
            let Some(session) = self.session_at(link) else { continue };
            if session.takes_messages() {
                takers += 1;
                let priority = session.priority;
                let why = format!(
                    "as all available resources with a priority of 0 or more (its is {priority}; RFC 6121 §8.5.2.1.1)"
                );
                self.sight_given(link, packet, &why);
                continue;
            }
            let address = self.outboxes.address(link).map(Jid::as_str).unwrap_or_default();
            let reason = match (session.ending, session.is_available(), session.priority) {
                (true, ..) => "its stream is ending".to_owned(),
                (_, false, _) => "it has sent no available presence".to_owned(),
                (.., priority) => format!("its priority is {priority}, below 0"),
            };
            self.sight(packet, to, Step::Noted, || format!("not for {address}: {reason} (RFC 6121 §8.5.2.1.1)"));
        }
        if takers == 0 {
            let count = links.len();
            self.sight(packet, to, Step::Noted, || match count {
                0 => "the account has no session here, if there is such an account (RFC 6121 §8.5.2.2.1)".into(),
                _ => "no resource accepts it (RFC 6121 §8.5.2.2.1)".into(),
            });
        }
    }

    fn sight_presence(&self, links: &[Link], packet: &Packet, to: JidRef<'_>) {
        match packet.type_() {
            StanzaType::Available | StanzaType::Unavailable | StanzaType::Error => {}
            StanzaType::Probe => {
                return self.sight(packet, to, Step::Goes, || "presence goes to subscribers".into());
            }
            _ => return self.sight(packet, to, Step::Waits, || "until the store has changed the subscription".into()),
        }
        if to.resource().is_some() {
            return self.sight(packet, to, Step::Stopped, || "no session has bound this resource".into());
        }
        let available = links.iter().filter(|&&link| self.session_at(link).is_some_and(|found| found.is_available()));
        let mut none = true;
        for &link in available {
            none = false;
            self.sight_given(link, packet, "as all available resources (RFC 6121 §8.5.2.1.2)");
        }
        if none {
            self.sight(packet, to, Step::Stopped, || {
                "the account has no available resource (RFC 6121 §8.5.2.2.2)".into()
            });
        }
    }

    /// Tells traces that a session gets a stanza, why, and in which state it is.
    fn sight_given(&self, link: Link, packet: &Packet, why: &str) {
        let Some(address) = self.outboxes.address(link) else { return };
        let state = match self.outboxes.attention(link) {
            Attention::Active => "connected",
            Attention::Inactive => "connected, its client says that the user isn't looking (XEP-0352)",
            Attention::Detached => "without a connection, it waits for its client (XEP-0198)",
        };
        let managed = match self.outboxes.sent_and_unacknowledged(link) {
            Some((_, waiting)) => format!("; kept until it is acknowledged, like {waiting} before it (XEP-0198)"),
            None => String::new(),
        };
        let bytes = self.outboxes.waiting_bytes(link);
        self.sight(packet, address.as_ref(), Step::Given, || {
            format!("{why}; the session is {state}, {bytes} bytes wait for it or its acknowledgement{managed}")
        });
    }

    /// Tells traces of copies that this shard gives to its accounts.
    #[cold]
    pub(crate) fn sight_copies(&self, packet: &Packet, to: &Addresses) {
        if self.any_trace(|trace| trace.has_written(packet.from_escaped())) {
            let Some(from) = packet.sender() else { return };
            let count = to.iter().count();
            self.sight(packet, from.as_ref(), Step::Goes, || format!("copies for {count} addresses of this shard"));
            return;
        }
        let is_state = matches!(packet.type_(), StanzaType::Available | StanzaType::Unavailable);
        // The others come by the rules for accounts.
        let may_concern = |name: &str| self.any_trace(|trace| trace.may_be(name.as_bytes())) && !name.contains('/');
        for (hash, name) in to.iter().filter(|(_, name)| is_state && may_concern(name)) {
            if let Ok(to) = Jid::parse(name)
                && self.is_traced(None, to.as_ref())
            {
                let links = self.user_named(hash, name).and_then(|user| self.people.users.get(user as usize));
                let links = links.map(|user| user.links.clone()).unwrap_or_default();
                self.sight_presence(&links, packet, to.as_ref());
            }
        }
    }

    /// Describes the place of another shard, and its relation to the address.
    pub(crate) fn place_of_hop(&self, shard: usize, what: &str) -> String {
        match (self.station_of(shard), self.node_name(shard)) {
            (Some(Station { shard: number, .. }), Some(node)) if shard >= self.own_shards() => {
                format!("to shard {number} of node {node}, {what}")
            }
            _ => format!("to shard {shard}, {what}"),
        }
    }

    /// Returns false if surely no trace is about a stanza between these addresses, nor about a
    /// session of their accounts. While there is any trace, each stanza asks this a few times.
    #[inline(always)]
    pub(crate) fn may_be_traced(&self, one: &[u8], other: &[u8]) -> bool {
        self.traces.iter().any(|trace| trace.may_be(one) || trace.may_be(other))
    }

    /// Returns whether a trace is about a stanza on its way to an address.
    fn is_packet_traced(&self, packet: &Packet, to: JidRef<'_>) -> bool {
        self.any_trace(|trace| trace.has_written(packet.from_escaped()) || trace.has(to))
    }

    /// Returns whether a trace is about stanzas between these.
    #[inline]
    fn is_traced(&self, from: Option<JidRef<'_>>, to: JidRef<'_>) -> bool {
        self.any_trace(|trace| trace.concerns(from, to))
    }

    /// Returns whether any trace that hasn't ended fulfils a condition.
    #[inline]
    fn any_trace(&self, condition: impl Fn(&Trace) -> bool) -> bool {
        let now_ms = self.clock.now_ms;
        self.traces.iter().any(|trace| condition(trace) && trace.until_ms() > now_ms)
    }

    fn write_down(&self, seen: &SightedStanza<'_>, step: Step, why: &str) {
        let number = self.hash(&seen.text()) as u32;
        let now_ms = self.clock.now_ms;
        for trace in self.traces.iter().filter(|trace| trace.until_ms() > now_ms) {
            if !trace.concerns(seen.from.as_ref().map(Jid::as_ref), seen.to) {
                continue;
            }
            let Some(is_first) = trace.admit(number, begins(step, &seen.type_)) else { continue };
            trace.add(Sighting {
                number: 0,
                unix_ms: self.clock.unix_ms,
                shard: self.here.shard,
                stanza: Some(number),
                step,
                why: why.to_owned(),
                from: seen.from.as_ref().map_or_else(String::new, |from| from.as_str().to_owned()),
                to: seen.to.as_str().to_owned(),
                kind: seen.kind.to_owned(),
                type_: seen.type_.clone().into_owned(),
                id: seen.id.clone().unwrap_or_default().into_owned(),
                first: is_first.then(|| seen.first(trace.has_contents())),
            });
        }
    }

    #[cold]
    fn write_session(&self, address: &Jid, why: &str) {
        let now_ms = self.clock.now_ms;
        for trace in self.traces.iter().filter(|trace| trace.until_ms() > now_ms) {
            if trace.concerns(None, address.as_ref()) {
                trace.add(Sighting {
                    number: 0,
                    unix_ms: self.clock.unix_ms,
                    shard: self.here.shard,
                    stanza: None,
                    step: Step::Session,
                    why: why.to_owned(),
                    from: String::new(),
                    to: address.as_str().to_owned(),
                    kind: String::new(),
                    type_: String::new(),
                    id: String::new(),
                    first: None,
                });
            }
        }
    }
}

/// Returns an error in words.
fn error_text(error: &StanzaError) -> String {
    let text = error.text.as_ref().map(|text| format!(": {text}")).unwrap_or_default();
    format!("<{}/> of type {}{text}", error.condition.name(), error.error_type.name())
}

/// Returns the children of a stanza by name, namespace and length, without their texts.
fn outline(stanza: &Stanza<'_>) -> String {
    let children = stanza.children().take(MOST_CHILDREN).map(|child| {
        let bytes = child.bytes().len();
        match &*child.ns() {
            "jabber:client" | "jabber:server" | "jabber:component:accept" => format!("{} [{bytes} B]", child.name()),
            ns => format!("{} {ns} [{bytes} B]", child.name()),
        }
    });
    children.collect::<Vec<_>>().join(", ")
}

/// Returns a stanza with its texts but passwords.
fn text_of(stanza: &Stanza<'_>) -> String {
    let element = without_passwords(&Element::read(stanza));
    String::from_utf8_lossy(Writer::write(&element).bytes()).into_owned()
}

/// Returns an element without the texts of fields that are named as passwords.
fn without_passwords(element: &Element) -> Element {
    let is_secret = element.name() == "password"
        || element.attr("type") == Some("text-private")
        || element.attr("var").is_some_and(|var| var.contains("password") || var.contains("secret"));
    let mut shown = Element::new(element.name(), element.ns());
    for attr in element.attrs() {
        shown = shown.with_namespaced_attr(attr.clone());
    }
    if is_secret {
        return shown.with_text("[not shown]");
    }
    for node in element.nodes() {
        shown = match node {
            Node::Element(child) => shown.with_child(without_passwords(child)),
            Node::Text(text) => shown.with_text(text),
        };
    }
    shown
}

/// Children of a stanza that are named.
const MOST_CHILDREN: usize = 16;
