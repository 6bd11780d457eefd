//! Components that act on behalf of accounts (XEP-0356), or in place of this server (XEP-0355):
//! bridges that keep their users in the roster, services for the nodes of accounts.
//!
//! # Invariants
//!
//! * A component has the privileges that the configuration gives it, and acts only on behalf of an
//!   account of the domain that it addresses, without a resource.
//! * Stanzas that it sends for an account pass the same filters as the account's own.
//! * Forbidden actions get the error `forbidden`. The reply to a delegated request counts only if
//!   it is for the entity that made the request, and has the same id.

use rookery_fanout::{Packet, StanzaType};
use rookery_jid::{Jid, JidRef};
use rookery_stream::error::Condition;
use rookery_xml::{Element, Kind, Limits, Namespaces, Node, Stanza, Writer, ns};
use serde::{Deserialize, Serialize};

use crate::World;
use crate::filter::ROUTE;
use crate::iq::Iq;
use crate::memo::Memo;
use crate::passage::Notes;
use crate::settings::Privileges;

/// Acts in the name of an account, at its home.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Deputy {
    /// A message of the account to an address.
    Message(Packet, Jid),
    /// A request of the account to an address, for a component that has asked under an id.
    Request { component: Jid, id: String, account: Jid, to: Jid, request: Packet },
    /// A component that has connected sees who is available.
    Show { component: Jid },
}

impl Memo for Deputy {
    const NAME: &'static str = "hub deputy";

    fn open(self, world: &mut World) {
        match self {
            Self::Message(packet, to) => world.route_for(&packet, to.as_ref()),
            Self::Request { component, id, account, to, request } => {
                world.request_for(component, id, account, &to, &request);
            }
            Self::Show { component } => world.show_all_to(component),
        }
    }

    fn home(&self) -> Option<Jid> {
        match self {
            Self::Message(packet, _) => packet.sender(),
            Self::Request { account, .. } => Some(account.clone()),
            Self::Show { .. } => None,
        }
    }

    fn refused(self, world: &mut World) {
        if let Self::Message(packet, to) = self {
            world.bounce(&packet, to.as_ref(), Condition::RemoteServerTimeout.into());
        }
    }
}

impl World {
    /// Returns the privileges of a component, if this is its own address.
    pub(crate) fn privileges(&self, component: &Jid) -> Option<&Privileges> {
        let components = &self.catalogue.settings.components;
        let found = components.iter().find(|found| found.name == component.as_str())?;
        Some(&found.privileges)
    }

    /// Tells a component that has connected its privileges (XEP-0356 §4.2, XEP-0355 §4.2) and, if
    /// it may know that, who is available. This happens on the shard of this process that stands
    /// for its name.
    pub fn component_came(&mut self, name: &str) {
        self.attach(name, true);
        let Ok(component) = Jid::parse(name) else { return };
        let Some(privileges) = self.privileges(&component).filter(|found| **found != Privileges::default()) else {
            return;
        };
        let privileges = privileges.clone();
        let domains: Vec<String> = self.catalogue.settings.domains.iter().map(|domain| domain.name.clone()).collect();
        for domain in domains {
            let mut message = Writer::new("message");
            message.attr("from", &domain).attr("id", &self.unique_text());
            write_privileges(&mut message, &privileges);
            self.route_built(&message.finish(), &component);
        }
        if privileges.sees_accounts() {
            for shard in 0..self.shards() {
                self.send_memo(shard, Deputy::Show { component: component.clone() });
            }
        }
    }

    /// Shows a component the presence of the sessions of this shard, and of contacts elsewhere if
    /// it may see that.
    fn show_all_to(&mut self, component: Jid) {
        let presence = self.people.sessions.iter().flatten().filter_map(|session| session.presence.clone());
        let mut presence: Vec<Packet> = presence.collect();
        if self.privileges(&component).is_some_and(Privileges::sees_contacts) {
            let is_of_others =
                |packet: &&Packet| packet.sender().is_some_and(|from| from.domain() != component.domain());
            presence.extend(self.out.elsewhere.available_presence().filter(is_of_others).cloned());
        }
        self.show_some_to(component, presence);
    }

    fn show_some_to(&mut self, component: Jid, mut presence: Vec<Packet>) {
        let rest = presence.split_off(presence.len().min(SHOWN));
        for packet in presence {
            self.route(&packet, component.as_ref());
        }
        if !rest.is_empty() {
            self.after(SHOWN_MS, move |world| world.show_some_to(component, rest));
        }
    }

    /// Shows presence of an account to the components that may see it (XEP-0356 §7.1).
    pub(crate) fn show_to_components(&mut self, packet: &Packet) {
        if !self.catalogue.onlookers.is_empty() {
            let onlookers = self.catalogue.onlookers.clone();
            onlookers.iter().for_each(|component| self.route(packet, component.as_ref()));
        }
    }

    /// Takes a stanza by which a component acts for an account. `false` if it isn't one.
    pub(crate) fn is_privileged(&mut self, packet: &Packet, to: JidRef<'_>) -> bool {
        if !packet.namespaces().may_have(Namespaces::of(&[ns::PRIVILEGE])) || !self.is_domain(to.domain()) {
            return false;
        }
        let done = match (packet.kind(), packet.type_()) {
            (Kind::Message, type_) if type_ != StanzaType::Error && to.is_domain() => {
                let Some(privilege) = packet.stanza().child("privilege", ns::PRIVILEGE) else { return false };
                self.message_for(packet, to, &privilege.element())
            }
            (Kind::Iq, StanzaType::Get | StanzaType::Set) => {
                let Some(wrapped) = packet.stanza().child("privileged_iq", ns::PRIVILEGE) else { return false };
                self.iq_for(packet, to, &wrapped.element())
            }
            _ => return false,
        };
        if let Err(condition) = done {
            self.bounce(packet, to, condition.into());
        }
        true
    }

    /// Sends a message for an account (XEP-0356 §6).
    fn message_for(&mut self, packet: &Packet, to: JidRef<'_>, privilege: &Element) -> Result<(), Condition> {
        let component = packet.sender().ok_or(Condition::Forbidden)?;
        if !self.privileges(&component).is_some_and(|privileges| privileges.messages) {
            return Err(Condition::Forbidden);
        }
        let forwarded = privilege.child("forwarded", ns::FORWARD).ok_or(Condition::BadRequest)?;
        let message = forwarded.children().find(|child| ns::is_content(child.ns()) && child.name() == "message");
        let message = in_client(message.ok_or(Condition::Forbidden)?);
        let account = account_of(message.attr("from"), to)?;
        let to = message.attr("to").and_then(|to| Jid::parse(to).ok()).ok_or(Condition::BadRequest)?;
        let message = stamp(&message, &account).ok_or(Condition::BadRequest)?;
        self.send_memo_home(account.as_ref(), Deputy::Message(message, to));
        Ok(())
    }

    /// Sends a stanza on behalf of an account, past the modules that want to see it before.
    fn route_for(&mut self, packet: &Packet, to: JidRef<'_>) {
        let Some(account) = packet.sender() else { return };
        let on = self.filters(account.domain()).route;
        let user = self.user_named(self.hash(account.bare_str()), account.bare_str());
        if !self.registry().passing.before_route.want(on, packet, || self.traits(user, account.bare_str())) {
            return self.route(packet, to);
        }
        if let Some(packet) = self.pass(ROUTE, on, packet, to, account.as_ref(), &mut Notes::default()) {
            self.route(&packet, to);
        }
    }

    /// Makes a request for an account (XEP-0356 §5).
    fn iq_for(&mut self, packet: &Packet, to: JidRef<'_>, wrapped: &Element) -> Result<(), Condition> {
        let component = packet.sender().ok_or(Condition::Forbidden)?;
        let is_set = packet.type_() == StanzaType::Set;
        let mut inner = wrapped.children().filter(|child| ns::is_content(child.ns()) && child.name() == "iq");
        let (Some(iq), None) = (inner.next(), inner.next()) else { return Err(Condition::Forbidden) };
        let iq = in_client(iq);
        let mut payloads = iq.children();
        let (Some(payload), None) = (payloads.next(), payloads.next()) else { return Err(Condition::Forbidden) };
        let may = self.privileges(&component).is_some_and(|privileges| {
            let mut allowed = privileges.requests.iter().filter(|(namespace, _)| namespace == payload.ns());
            allowed.any(|(_, requests)| requests.allow(is_set))
        });
        let is_account = to.is_bare() && to.local().is_some();
        let is_same_type = iq.attr("type") == Some(if is_set { "set" } else { "get" });
        if !may || !is_account || !is_same_type {
            return Err(Condition::Forbidden);
        }
        let account = to.to_jid();
        let is_sender = |from: &str| Jid::parse(from).is_ok_and(|from| from == account);
        if !iq.attr("from").is_none_or(is_sender) {
            return Err(Condition::Forbidden);
        }
        let target = match iq.attr("to") {
            Some(to) => Jid::parse(to).map_err(|_| Condition::BadRequest)?,
            None => account.clone(),
        };
        let id = packet.id().ok_or(Condition::BadRequest)?.into_owned();
        let request = stamp(&iq, &account).ok_or(Condition::BadRequest)?;
        let memo = Deputy::Request { component, id, account: account.clone(), to: target, request };
        self.send_memo_home(account.as_ref(), memo);
        Ok(())
    }

    /// Sends a request on behalf of an account, and passes the outcome to the component.
    fn request_for(&mut self, component: Jid, id: String, account: Jid, to: &Jid, request: &Packet) {
        let Some(payload) = request.stanza().first_child().map(|child| child.element()) else { return };
        let own_id = request.id().unwrap_or_default().into_owned();
        let is_set = request.type_() == StanzaType::Set;
        let from = account.to_string();
        self.ask_whole(&from, to, is_set, &payload, move |world, answer| {
            let answer = answer.map(|answer| (answer.type_(), Element::read(&answer.stanza())));
            let (type_, content) = match &answer {
                Some((StanzaType::Result, answer)) => ("result", Some(answer)),
                Some((_, answer)) => ("error", Some(answer)),
                None => ("error", None),
            };
            let mut reply = Writer::new("iq");
            reply.attr("type", type_).attr("id", &id).attr("from", account.as_str());
            if let Some(content) = content {
                let mut inner = content.clone();
                inner.set_attr("id", own_id);
                inner.set_attr("to", account.as_str());
                let forwarded = Element::new("forwarded", ns::FORWARD).with_child(inner);
                reply.element(&Element::new("privilege", ns::PRIVILEGE).with_child(forwarded));
            }
            match content {
                Some(content) if type_ == "error" => {
                    if let Some(error) = content.child("error", ns::CLIENT) {
                        reply.element(error);
                    }
                }
                Some(_) => {}
                None => rookery_stream::error::StanzaError::from(Condition::RemoteServerTimeout).write(&mut reply),
            }
            world.route_built(&reply.finish(), &component);
        });
    }

    /// Returns the component that replies to a request in place of this server, unless it is the
    /// asker itself (XEP-0355 §4.3).
    pub(crate) fn delegate_of(&self, iq: &Iq) -> Option<Jid> {
        let components = self.catalogue.settings.components.iter();
        let mut delegates =
            components.filter(|component| component.privileges.delegated.iter().any(|of| of == iq.payload.ns()));
        let delegate = delegates.find(|component| component.name != iq.from.domain())?;
        Jid::parse(&delegate.name).ok()
    }

    /// Passes a request to the component that replies to it.
    pub(crate) fn delegate(&mut self, component: &Jid, iq: Iq) {
        let inner = Element::new("iq", ns::CLIENT)
            .with_attr("type", if iq.set { "set" } else { "get" })
            .with_attr("id", &iq.id)
            .with_attr("from", iq.from.as_str())
            .with_attr("to", iq.to.as_str())
            .with_child(iq.payload.clone());
        let forwarded = Element::new("forwarded", ns::FORWARD).with_child(inner);
        let payload = Element::new("delegation", ns::DELEGATION).with_child(forwarded);
        let domain = iq.to.domain().to_owned();
        self.ask_whole(&domain, component, iq.set, &payload, move |world, answer| {
            let answer = answer.filter(|answer| answer.type_() == StanzaType::Result);
            let delegation = answer.and_then(|answer| answer.stanza().child("delegation", ns::DELEGATION));
            let forwarded = delegation.map(|delegation| delegation.element());
            let inner = forwarded.as_ref().and_then(|found| found.child("forwarded", ns::FORWARD));
            let mut inner = inner.into_iter().flat_map(Element::children).filter(|child| ns::is_content(child.ns()));
            match inner.next().filter(|inner| answers(inner, &iq)).map(in_client) {
                Some(inner) => {
                    let mut reply = Writer::new("iq");
                    reply.attr("type", inner.attr("type").unwrap_or("result")).attr("id", &iq.id);
                    reply.attr("from", iq.to.as_str());
                    for child in inner.children() {
                        reply.element(child);
                    }
                    world.reply(&iq, reply);
                }
                None => world.reply_error(&iq, Condition::ServiceUnavailable),
            }
        });
    }
}

/// Returns whether an element is the reply to a request (XEP-0355 §4.3).
fn answers(inner: &Element, iq: &Iq) -> bool {
    let is = |name: &str, jid: &Jid| inner.attr(name).and_then(|found| Jid::parse(found).ok()).as_ref() == Some(jid);
    inner.name() == "iq"
        && matches!(inner.attr("type"), Some("result" | "error"))
        && inner.attr("id") == Some(&iq.id)
        && is("from", &iq.to)
        && is("to", &iq.from)
}

/// Returns the account that a stanza claims to come from: one of the domain that the component
/// addresses, without a resource.
fn account_of(from: Option<&str>, server: JidRef<'_>) -> Result<Jid, Condition> {
    let account = from.and_then(|from| Jid::parse(from).ok()).ok_or(Condition::Forbidden)?;
    let is_account = account.is_bare() && account.local().is_some() && account.domain() == server.domain();
    if is_account { Ok(account) } else { Err(Condition::Forbidden) }
}

/// Returns a stanza in the name of an account.
fn stamp(element: &Element, account: &Jid) -> Option<Packet> {
    let built = Writer::write(element);
    let stanza = Stanza::parse(built.bytes(), &Limits::AFTER_LOGIN).ok()?;
    let type_ = StanzaType::of(stanza.kind(), stanza.raw_type().map(|raw| raw.bytes))?;
    Some(Packet::from_session(stanza, type_, account.as_str(), None))
}

/// Returns an element with everything in a namespace of stanzas moved to that of clients: a
/// component may write wrapped stanzas like its own.
fn in_client(element: &Element) -> Element {
    let namespace = if ns::is_content(element.ns()) { ns::CLIENT } else { element.ns() };
    let mut same = Element::new(element.name(), namespace);
    for attr in element.attrs() {
        same = same.with_namespaced_attr(attr.clone());
    }
    for node in element.nodes() {
        match node {
            Node::Element(child) => same.push_child(in_client(child)),
            Node::Text(text) => same.push_text(text),
        }
    }
    same
}

/// Writes the privileges of a component.
fn write_privileges(message: &mut Writer, privileges: &Privileges) {
    let perm = |access: &str, type_: &str| {
        Element::new("perm", ns::PRIVILEGE).with_attr("access", access).with_attr("type", type_)
    };
    let mut granted = Element::new("privilege", ns::PRIVILEGE);
    if privileges.roster != crate::settings::RequestTypes::default() {
        let pushes = if privileges.hears_of_rosters() { "true" } else { "false" };
        granted.push_child(perm("roster", privileges.roster.name()).with_attr("push", pushes));
    }
    if privileges.messages {
        granted.push_child(perm("message", "outgoing"));
    }
    if privileges.sees_accounts() {
        let whose = if privileges.sees_contacts() { "roster" } else { "managed_entity" };
        granted.push_child(perm("presence", whose));
    }
    if !privileges.requests.is_empty() {
        let mut requests = Element::new("perm", ns::PRIVILEGE).with_attr("access", "iq");
        for (namespace, allowed) in &privileges.requests {
            let namespace = Element::new("namespace", ns::PRIVILEGE).with_attr("ns", namespace);
            requests.push_child(namespace.with_attr("type", allowed.name()));
        }
        granted.push_child(requests);
    }
    if granted.children().next().is_some() {
        message.element(&granted);
    }
    if !privileges.delegated.is_empty() {
        let mut delegation = Element::new("delegation", ns::DELEGATION);
        for namespace in &privileges.delegated {
            delegation.push_child(Element::new("delegated", ns::DELEGATION).with_attr("namespace", namespace));
        }
        message.element(&delegation);
    }
}

/// Sessions that a component is shown at a time.
const SHOWN: usize = 500;
/// Milliseconds until it is shown the next.
const SHOWN_MS: u64 = 10;
