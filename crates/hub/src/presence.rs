//! Presence: RFC 6121 §4. Broadcasts and probes go to each home shard once, whatever the number of
//! contacts there.

use std::collections::{BTreeMap, BTreeSet};

use rookery_fanout::{Addresses, Audience, Link, Packet, StanzaType, To};
use rookery_jid::{Jid, JidRef};
use rookery_store::StoreError;
use rookery_stream::error::Condition;
use rookery_xml::{Element, Stanza, Writer, ns};

use crate::World;
use crate::mail::Mail;
use crate::parts::User;
use crate::session::SessionContact;
use crate::subscribe::short_text;
use crate::trace::Step;

impl World {
    /// Handles presence from a session (RFC 6121 §4.2 to §4.6).
    pub(crate) fn presence_from(&mut self, link: Link, stanza: Stanza<'_>, type_: StanzaType, to: Option<JidRef<'_>>) {
        match (type_, to) {
            (StanzaType::Available, None) => self.available(link, stanza),
            (StanzaType::Unavailable, None) => {
                let packet = self.stamp(link, stanza, type_);
                self.become_unavailable(link, packet);
            }
            (StanzaType::Available | StanzaType::Unavailable, Some(to)) => self.send_directed(link, stanza, type_, to),
            (StanzaType::Error | StanzaType::Probe, Some(to)) => {
                if let Some(packet) = self.stamp(link, stanza, type_) {
                    self.route_from(link, &packet, to);
                }
            }
            (StanzaType::Error, None) => {}
            (_, Some(to)) => self.subscription_from(link, stanza, type_, to),
            (_, None) => self.refuse(link, stanza, Condition::BadRequest.into()),
        }
    }

    /// Handles initial presence and updates (§4.2, §4.4).
    fn available(&mut self, link: Link, stanza: Stanza<'_>) {
        let Some(priority) = priority(stanza) else {
            return self.refuse(link, stanza, Condition::BadRequest.into());
        };
        let Some(packet) = self.stamp(link, stanza, StanzaType::Available) else { return };
        let packet = self.presence_form(link, &packet).unwrap_or(packet);
        debug_assert!(packet.type_() == StanzaType::Available, "modules change the form of presence, not its type");
        let delivered = self.outboxes.pushed_total();
        let Some(session) = self.at_mut(link) else { return };
        let (is_initial, was_reachable) = (session.presence.is_none(), session.takes_messages());
        session.presence = Some(packet.clone());
        session.priority = priority;
        if !was_reachable {
            session.reachable_since = delivered;
        }
        self.broadcast(link, &packet);
        if is_initial {
            self.probe_contacts(link);
            self.show_own_resources(link);
            self.show_requests(link);
        }
        if !was_reachable && priority >= 0 {
            self.call_of_session(|registry| &registry.sessions.reachable, link);
        }
        self.call_of_session(|registry| &registry.sessions.presence, link);
    }

    fn presence_form(&mut self, link: Link, packet: &Packet) -> Option<Packet> {
        let domain = self.outboxes.address(link)?.domain().to_owned();
        self.own_presence(&domain, packet)
    }

    /// Broadcasts the presence of an account's sessions again, where modules give it another form
    /// than before.
    pub fn show_again(&mut self, account: JidRef<'_>) {
        for link in self.links_of(account) {
            let presence = self.session_at(link).and_then(|session| session.presence.clone());
            let new = presence.and_then(|presence| self.presence_form(link, &presence));
            if let Some(new) = new {
                if let Some(session) = self.at_mut(link) {
                    session.presence = Some(new.clone());
                }
                self.broadcast(link, &new);
            }
        }
    }

    /// Makes a resource unavailable (§4.5): by its own presence in `packet`, or because it is gone.
    pub(crate) fn become_unavailable(&mut self, link: Link, packet: Option<Packet>) {
        let Some(address) = self.outboxes.address(link).cloned() else { return };
        let Some(session) = self.at_mut(link) else { return };
        let was_available = session.take_presence();
        let mut directed = session.rare.as_mut().map(|rare| std::mem::take(&mut rare.directed)).unwrap_or_default();
        if !was_available && directed.is_empty() {
            return;
        }
        let Some(packet) = packet.or_else(|| unavailable(&address)) else { return };
        let newer = self.newer_session(link, &address);
        if let Some(shown_to) = newer.and_then(|newer| self.session_at(newer)?.rare.as_ref()) {
            directed.retain(|to| !shown_to.directed.contains(to));
        }
        // Those who see the newer session know nothing of this one any more.
        if was_available && newer.is_none() {
            // Some got directed presence before the broadcasts began.
            directed.retain(|to| !self.is_subscribed(link, to.as_ref()));
            self.broadcast(link, &packet);
            if !self.is_present(address.bare()) {
                self.keep_last(&address, &packet);
            }
        }
        self.call_of_session(|registry| &registry.sessions.presence, link);
        directed.retain(|to| !self.is_concealed(link, to.as_str()));
        self.fan_out(&packet, directed.iter().map(Jid::as_ref));
    }

    /// Returns the available session that has bound the resource of one that is ending and waits
    /// for the store (RFC 6120 §7.7.2.2).
    fn newer_session(&self, link: Link, address: &Jid) -> Option<Link> {
        let is_newer = |other: &Link| {
            *other != link
                && self.outboxes.address(*other) == Some(address)
                && self.session_at(*other).is_some_and(|found| found.is_available() && !found.ending)
        };
        self.links_of(address.as_ref()).into_iter().find(is_newer)
    }

    /// Returns whether an account has an available resource.
    pub(crate) fn is_present(&self, account: JidRef<'_>) -> bool {
        self.links_of(account).into_iter().any(|link| self.session_at(link).is_some_and(|found| found.is_available()))
    }

    /// Remembers the last presence of an account for probes that come while it is offline (§4.3.2).
    fn keep_last(&mut self, address: &Jid, packet: &Packet) {
        let owner = address.to_bare();
        if self.is_anonymous(owner.domain()) {
            return;
        }
        let word = last_word(packet, address, &owner);
        let kept = self.stores.last_presence.put(owner.as_ref(), self.time(), word);
        self.wait(kept, move |world, kept| {
            // If the store is busy, as when all sessions end at once, that isn't reported: the last
            // presence is a courtesy, and nothing was promised.
            if let Err(error) = kept
                && !matches!(error, StoreError::NoAccount | StoreError::Busy | StoreError::Away { .. })
            {
                world.store_failed("keeping the last presence", &owner, &error);
            }
        });
    }

    /// Sends a packet to the contacts who see the user, and to the user's own available resources
    /// (§4.2.2).
    fn broadcast(&mut self, link: Link, packet: &Packet) {
        let Some(user) = self.session_at(link).map(|session| session.user) else { return };
        let mut left_out = self.concealed_from(link);
        self.show_to_circle(link, packet, &mut left_out);
        let audience = self.audience(user, SessionContact::from, &left_out);
        if self.is_tracing()
            && let Some(address) = self.outboxes.address(link)
        {
            let concealed = left_out.len();
            self.sight(packet, address.bare(), Step::Goes, || {
                format!("to the subscribed contacts, except {concealed} from whom it is concealed, and to the account's own resources")
            });
        }
        self.fan_out_sorted(packet, audience);
        for (domain, contacts) in self.contacts_away(user, SessionContact::from, &left_out) {
            self.fan_out_away(packet, domain, contacts);
        }
        self.show_to(user, packet);
        self.show_to_components(packet);
    }

    /// Asks for the presence of the contacts whom the user sees (§4.3.1).
    fn probe_contacts(&mut self, link: Link) {
        let Some(user) = self.session_at(link).map(|session| session.user) else { return };
        let Some(from) = self.outboxes.address(link).cloned() else { return };
        let Some(probe) = probe(&from) else { return };
        let shunned = self.shunned_contacts(link, &probe);
        if self.federates() {
            let away = self.contacts_away(user, SessionContact::to, &shunned);
            away.into_values().flatten().for_each(|contact| self.route_away(&probe, contact.as_ref()));
        }
        for (shard, names) in self.audience(user, SessionContact::to, &shunned).into_groups() {
            if shard == self.shard() {
                self.answer_probes(&from, &names);
            } else {
                self.post(shard, Mail::Probe { from: from.clone(), to: names });
            }
        }
        self.probe_circle(&from);
    }

    /// Asks for the presence of the contacts elsewhere whom an account sees, in the name of the
    /// account (RFC 6121 §4.3), if one of its sessions is available. The replies are for all of
    /// these. Returns the number of contacts.
    pub(crate) fn probe_elsewhere(&mut self, account: &Jid) -> usize {
        let links = self.links_of(account.as_ref());
        let available = links.iter().filter_map(|&link| Some((link, self.session_at(link)?)));
        let found = available.into_iter().find(|(_, session)| session.is_available());
        let Some((link, user)) = found.map(|(link, session)| (link, session.user)) else { return 0 };
        let Some(probe) = probe(account) else { return 0 };
        let shunned = self.shunned_contacts(link, &probe);
        let away: Vec<_> = self.contacts_away(user, SessionContact::to, &shunned).into_values().flatten().collect();
        away.iter().for_each(|contact| self.route_away(&probe, contact.as_ref()));
        away.len()
    }

    /// Returns the contacts of other servers, by domain, except those that are left out.
    fn contacts_away(
        &self,
        user: u32,
        wanted: impl Fn(SessionContact) -> bool,
        left_out: &BTreeSet<Box<str>>,
    ) -> BTreeMap<String, Vec<Jid>> {
        let mut away = BTreeMap::<String, Vec<Jid>>::new();
        if !self.federates() {
            return away;
        }
        let contacts = self.people.users.get(user as usize).map(|user| &*user.contacts).unwrap_or_default();
        for contact in contacts.iter().filter(|&&contact| wanted(contact)) {
            let jid = self.people.names.get(contact.name()).and_then(|(_, bare)| Jid::parse(bare).ok());
            if let Some(jid) = jid.filter(|jid| !self.is_here(jid.domain()) && !left_out.contains(jid.as_str())) {
                away.entry(jid.domain().to_owned()).or_default().push(jid);
            }
        }
        away
    }

    /// Returns the contacts of this server and of others, except those that are left out.
    fn audience(&self, user: u32, wanted: impl Fn(SessionContact) -> bool, left_out: &BTreeSet<Box<str>>) -> Audience {
        let mut audience = Audience::new(self.shards());
        let contacts = self.people.users.get(user as usize).map(|user| &*user.contacts).unwrap_or_default();
        for contact in contacts.iter().filter(|&&contact| wanted(contact)) {
            if let Some((hash, bare)) = self.people.names.get(contact.name())
                && !left_out.contains(bare)
            {
                audience.add(self.hop(hash), hash, bare);
            }
        }
        audience
    }

    /// Gives presence to the available resources of an account.
    pub(crate) fn show_to(&mut self, user: u32, packet: &Packet) {
        self.for_each_link(Some(user), |world, link| {
            if world.session_at(link).is_some_and(|session| session.is_available())
                && world.may_reach(user, link, packet)
            {
                world.push(link, packet, To::Bare);
            }
        });
    }

    /// Shows the user's other available resources to one that has just become available (§4.2.2).
    fn show_own_resources(&mut self, new: Link) {
        let user = self.session_at(new).map(|session| session.user);
        self.for_each_link(user, |world, link| {
            let presence = world.session_at(link).and_then(|session| session.presence.clone());
            if let Some(presence) = presence.filter(|_| link != new) {
                world.push_paced(new, &presence, To::Bare);
            }
        });
    }

    /// Replies to the probe of a resource for many accounts together (§4.3.2): for those online
    /// without delay, for those offline from the store.
    pub(crate) fn answer_probes(&mut self, from: &Jid, to: &Addresses) {
        if self.may_be_awaited() {
            let others = |to| Mail::Probe { from: from.clone(), to };
            if let Some(here) = self.sift(to, (0, true), others) {
                return self.answer_probes_here(from, &here);
            }
        }
        self.answer_probes_here(from, to);
    }

    fn answer_probes_here(&mut self, from: &Jid, to: &Addresses) {
        let mut away = Vec::new();
        for (hash, bare) in to.iter() {
            if !self.answer_probe(from, hash, bare)
                && let Ok(owner) = Jid::parse(bare)
            {
                away.push(owner);
            }
        }
        if !away.is_empty() {
            self.answer_for_those_away(from, away);
        }
    }

    /// Replies for an account that has available resources; `false` if it has none.
    pub(crate) fn answer_probe(&mut self, from: &Jid, hash: u64, bare: &str) -> bool {
        let Some(user) = self.user_named(hash, bare).and_then(|at| self.people.users.get(at as usize)) else {
            return false;
        };
        let Some(present) = self.presence_for(user, from) else { return false };
        if present.is_empty() {
            // A blocked contact gets no reply at all (XEP-0191 §3.3).
            self.sight_probe(from, bare, Step::Stopped, "the account conceals its presence from the asker");
            return true;
        }
        if !self.may_see(user, from.as_ref()) {
            self.refuse_probe(from, bare);
            return true;
        }
        for packet in present {
            self.route(&packet, from.as_ref());
        }
        true
    }

    /// Returns the presence of the available resources of an account that don't conceal themselves
    /// from somebody; `None` if none is available.
    pub(crate) fn presence_for(&self, user: &User, who: &Jid) -> Option<Vec<Packet>> {
        let present = user.links.iter().filter_map(|&link| Some((link, self.session_at(link)?.presence.clone()?)));
        let mut present: Vec<(Link, Packet)> = present.collect();
        if present.is_empty() {
            return None;
        }
        present.retain(|(link, _)| !self.is_concealed(*link, who.as_str()));
        Some(present.into_iter().map(|(_, packet)| packet).collect())
    }

    /// Tells a prober that there is no subscription. The bare JID does: a full one would show who
    /// is online (§4.3.2).
    fn refuse_probe(&mut self, from: &Jid, bare: &str) {
        self.sight_probe(from, bare, Step::Stopped, "the asker has no subscription to the account's presence");
        let mut refusal = Writer::new("presence");
        refusal.attr("type", "unsubscribed").attr("from", bare);
        self.route_built(&refusal.finish(), &from.to_bare());
    }

    /// Replies to anybody's probe for one account, which may be offline or not exist: an asker who
    /// may not see it gets the same reply in all cases (§4.3.2).
    fn answer_one_probe(&mut self, from: Jid, to: JidRef<'_>) {
        let is_answered = self.answer_probe(&from, self.hash(to.bare_str()), to.bare_str());
        if is_answered || from.bare_str() == to.bare_str() || self.conceals(to.bare(), None, from.bare()) {
            return;
        }
        let item = self.stores.rosters.item(to.bare(), from.bare());
        let owner = to.bare().to_jid();
        self.wait(item, move |world, item| {
            let is_shown = match item {
                Ok(item) => item.is_some_and(|item| item.subscription.from()),
                Err(StoreError::NoAccount) => false,
                Err(error) => return world.store_failed("answering a presence probe", &owner, &error),
            };
            if is_shown || world.shared_relation(owner.as_ref(), from.as_ref()).from() {
                world.answer_for_those_away(&from, vec![owner]);
            } else {
                world.refuse_probe(&from, owner.as_str());
            }
        });
    }

    pub(crate) fn may_see(&self, user: &User, asker: JidRef<'_>) -> bool {
        let name = self.people.names.find(self.hash(asker.bare_str()), asker.bare_str());
        name.is_some_and(|name| name == user.name || user.contact(name).is_some_and(SessionContact::from))
            || self.people.names.get(user.name).is_some_and(|(_, owner)| self.shows_by_group(owner, asker))
    }

    fn answer_for_those_away(&mut self, from: &Jid, mut away: Vec<Jid>) {
        let (from, rest) = (from.clone(), away.split_off(away.len().min(AWAY)));
        let document = self.concealing_document();
        let seen = self.stores.last_presence.of(from.bare(), away, &document);
        self.wait(seen, move |world, seen| match seen {
            Ok(seen) => {
                world.show_last(from.clone(), seen);
                if !rest.is_empty() {
                    world.answer_for_those_away(&from, rest);
                }
            }
            Err(error) => world.store_failed("answering a presence probe", &from, &error),
        });
    }

    /// Handles directed presence (§4.6), whose recipients are told when the resource becomes
    /// unavailable.
    fn send_directed(&mut self, link: Link, stanza: Stanza<'_>, type_: StanzaType, to: JidRef<'_>) {
        let Some(packet) = self.stamp(link, stanza, type_) else { return };
        // A service that passes presence on remembers the recipients itself: nobody is present at
        // the service's own address, nor at that of a domain.
        let passes_on = to.is_domain() && self.is_here(to.domain());
        if !passes_on && !self.remember(link, type_, [to]) {
            return self.refuse(link, stanza, Condition::ResourceConstraint.into());
        }
        self.route_from(link, &packet, to);
    }

    /// Records that a resource of this shard has sent available presence to an address, so that
    /// unavailable presence follows (§4.6.3), or that it has sent unavailable presence there.
    /// Returns `false` if the addresses would be too many: then none is recorded. For senders
    /// elsewhere it does nothing.
    pub fn remember_directed<'a>(
        &mut self,
        sender: JidRef<'_>,
        type_: StanzaType,
        to: impl IntoIterator<Item = JidRef<'a>>,
    ) -> bool {
        let hash = self.hash(sender.bare_str());
        let user = self.user_named(hash, sender.bare_str());
        let link = sender.resource().and_then(|resource| self.find_resource(user, resource));
        link.is_none_or(|link| self.remember(link, type_, to))
    }

    fn remember<'a>(&mut self, link: Link, type_: StanzaType, to: impl IntoIterator<Item = JidRef<'a>>) -> bool {
        let limit = self.catalogue.settings.max_directed;
        let is_broadcasting = self.session_at(link).is_some_and(|session| session.is_available());
        let mut new = BTreeSet::new();
        for to in to {
            if type_ == StanzaType::Available && !(is_broadcasting && self.is_subscribed(link, to)) {
                new.insert(to.to_jid());
            } else if type_ == StanzaType::Unavailable
                && let Some(rare) = self.at_mut(link).and_then(|session| session.rare.as_mut())
            {
                rare.directed.remove(&to.to_jid());
            }
        }
        let Some(session) = self.at_mut(link).filter(|_| !new.is_empty()) else { return true };
        let directed = &mut session.rare().directed;
        let more = new.iter().filter(|jid| !directed.contains(*jid)).count();
        if more > 0 && directed.len() + more > limit {
            return false;
        }
        directed.extend(new);
        debug_assert!(directed.len() <= limit || more == 0, "directed presence is bounded");
        true
    }

    /// Returns whether a session is known to be available at an address, or at a resource of that.
    pub(crate) fn has_shown_itself(&self, link: Link, place: JidRef<'_>) -> bool {
        let rare = self.session_at(link).and_then(|session| session.rare.as_ref());
        let directed = rare.is_some_and(|rare| rare.directed.iter().any(|to| to.bare_str() == place.bare_str()));
        directed || self.is_subscribed(link, place)
    }

    /// Returns whether an address gets the user's broadcasts.
    fn is_subscribed(&self, link: Link, to: JidRef<'_>) -> bool {
        let user = self.session_at(link).and_then(|session| self.people.users.get(session.user as usize));
        user.is_some_and(|user| self.may_see(user, to))
    }

    /// Handles presence that came by routing, at the home of the account (§8.5.2.1.2, §8.5.3).
    pub(crate) fn deliver_presence(&mut self, user: Option<u32>, packet: &Packet, to: JidRef<'_>) {
        match (packet.type_(), to.resource()) {
            (StanzaType::Available | StanzaType::Unavailable, None) => {
                if let Some(user) = user {
                    self.show_to(user, packet);
                }
                self.show_contact_to_components(user, packet, to);
            }
            (StanzaType::Available | StanzaType::Unavailable | StanzaType::Error, Some(resource)) => {
                if let Some(link) = self.find_resource(user, resource) {
                    self.push(link, packet, To::Full);
                }
                // Replies to probes are for the resource that has asked.
                if packet.type_() != StanzaType::Error {
                    self.show_contact_to_components(user, packet, to);
                }
            }
            (StanzaType::Error, None) => {
                if let Some(user) = user {
                    self.show_to(user, packet);
                }
            }
            (StanzaType::Probe, _) => {
                if let Some(from) = packet.sender() {
                    self.answer_one_probe(from, to);
                }
            }
            _ => self.subscription_for(packet, to.bare()),
        }
    }

    /// Sends a contact the presence of every available resource of an account (§3.1.5).
    pub(crate) fn show_resources_to(&mut self, owner: &Jid, contact: JidRef<'_>) {
        for link in self.links_of(owner.as_ref()) {
            self.show_session_to(link, contact);
        }
    }

    /// Tells a contact that no resource of an account is available any more (§3.2.2, §3.3.3). A
    /// session that is ending sends its own unavailable presence to those who are contacts then.
    pub(crate) fn hide_resources_from(&mut self, owner: &Jid, contact: JidRef<'_>) {
        for link in self.links_shown(owner.as_ref()) {
            if !self.is_concealed(link, contact.as_str()) {
                self.hide_session_from(link, contact);
            }
        }
    }

    /// Tells a contact that a session is not available any more, if it is, whether it conceals
    /// itself or not.
    pub fn hide_session_from(&mut self, link: Link, contact: JidRef<'_>) {
        let is_available = self.session_at(link).is_some_and(|session| session.presence.is_some());
        let directed = self.at_mut(link).and_then(|session| session.rare.as_mut());
        let was_directed = directed.is_some_and(|rare| rare.directed.remove(&contact.to_jid()));
        let packet = self.outboxes.address(link).filter(|_| is_available || was_directed).and_then(unavailable);
        if let Some(packet) = packet {
            self.route(&packet, contact);
        }
    }

    /// Asks for the presence of a contact in the name of a session that is available (§4.3.1).
    pub fn probe(&mut self, link: Link, contact: JidRef<'_>) {
        let is_available = self.session_at(link).is_some_and(|session| session.is_available());
        if let Some(packet) = self.outboxes.address(link).filter(|_| is_available).and_then(probe) {
            self.route(&packet, contact);
        }
    }
}

/// Returns the part that is kept of an account's last unavailable presence: all of it, or the
/// beginning of a long status.
fn last_word(packet: &Packet, address: &Jid, owner: &Jid) -> Vec<u8> {
    if packet.bytes().len() <= LAST_WORD {
        return packet.with_to(owner.as_str());
    }
    let mut word = Writer::new("presence");
    word.attr("type", "unavailable").attr("from", address.as_str()).attr("to", owner.as_str());
    if let Some(status) = short_text(&packet.stanza(), "status", ns::CLIENT) {
        word.text_child("status", &status);
    }
    word.finish().into_bytes()
}

/// Bytes of an account's last presence that are kept as they are.
const LAST_WORD: usize = 4096;
/// The number of absent contacts whose last presence is loaded at a time.
const AWAY: usize = 512;

/// Returns unavailable presence in the name of a resource that can't send its own.
fn unavailable(address: &Jid) -> Option<Packet> {
    let mut presence = Writer::new("presence");
    presence.attr("type", "unavailable").attr("from", address.as_str());
    Packet::from_built(&presence.finish()).ok()
}

/// Returns a probe in the name of a resource or an account (§4.3.1).
pub(crate) fn probe(from: &Jid) -> Option<Packet> {
    let mut presence = Writer::new("presence");
    presence.attr("type", "probe").attr("from", from.as_str());
    Packet::from_built(&presence.finish()).ok()
}

/// Returns the priority that a presence states (§4.7.2.3): zero if it states none, `None` if it
/// isn't a number from -128 to 127.
fn priority(stanza: Stanza<'_>) -> Option<i8> {
    if !stanza.children().any(|child| child.name() == "priority") {
        return Some(0);
    }
    let root = Element::read(&stanza);
    let text = root.child("priority", root.ns()).map(|priority| priority.text());
    text.map_or(Some(0), |text| text.trim().parse().ok())
}
