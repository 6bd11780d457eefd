//! XEP-0357: Push Notifications. Notifies a phone that has no connection of a waiting message.
//!
//! Users' clients name the push services of their makers. When a message arrives about which a user
//! wants to be notified, and the user isn't looking at any session – there is none, or all are
//! inactive (XEP-0352) or have lost their connection (XEP-0198) – each service gets a notification.
//! By default it has the number of messages and none of their content, since third parties can read
//! it.
//!
//! # Invariants
//!
//! * A service is notified at most once in `INTERVAL_MS` for one registration, and never again
//!   before it has replied: messages in between are reported together.
//! * A registration ends when its service refuses it. An error that may be temporary, or no reply,
//!   does not end it.
//! * Registrations are bounded in number and size per account; they are kept in its documents.
//!
//! Left out: retries of a service that has refused (§7.1), and remote disabling by a message (§8),
//! which the next refusal achieves as well.

use rookery_base::Map;
use std::rc::Rc;

use rookery_fanout::outbox::quiet::{Urgency, urgency};
use rookery_fanout::{Attention, Link, Packet, StanzaType};
use rookery_hub::failure::condition;
use rookery_hub::{
    Answer, Bound, Document, Hooks, Iq, Module, Most, OptionSpec, Passage, Per, Phase, Step, Target, Unit, Value,
    Verdict, World,
};
use rookery_jid::{Jid, JidRef, prepare};
use rookery_modkit::form::{Field, Form};
use rookery_modkit::option;
use rookery_stream::error::Condition;
use rookery_xml::{Element, Kind, Writer, ns};

/// The module for push notifications.
#[derive(Debug)]
pub struct Push;

impl Module for Push {
    fn name(&self) -> &'static str {
        NAME
    }

    fn summary(&self) -> &'static str {
        "phones without a connection are notified of waiting messages"
    }

    fn standards(&self) -> &'static [(&'static str, &'static str)] {
        &[("XEP-0357", "0.4.1")]
    }

    fn left_out(&self) -> &'static [(&'static str, &'static str)] {
        &[("XEP-0357", "retries of a service that has refused (§7.1), disabling by a message (§8)")]
    }

    fn options(&self) -> &'static [OptionSpec] {
        &[CONTENT, REGISTRATIONS]
    }

    fn bounds(&self) -> &'static [Bound] {
        &BOUNDS
    }

    fn install(&self, hooks: &mut Hooks<'_>) {
        hooks.feature(Target::Account, ns::PUSH);
        hooks.document::<Registrations>();
        hooks.iq(Target::Account, ns::PUSH, switch);
        hooks.state(PushNews::default());
        hooks.undelivered(Phase::Guard, |world, Passage { packet, to, .. }| {
            notify(world, packet, to);
            Verdict::Pass
        });
        hooks.unattended(unattended);
    }
}

const CONTENT: OptionSpec = OptionSpec {
    key: "content",
    default: || Value::Text("none".to_owned()),
    doc: "the contents of a notification about the last message: \"none\", \"sender\", or \"body\", which is sender and text",
    check: content,
};

const REGISTRATIONS: OptionSpec = OptionSpec {
    key: "registrations",
    default: || Value::Number(10),
    doc: "push services that one user may have; one more replaces the oldest",
    check: option::at_least_one,
};

fn content(value: &Value) -> Result<(), String> {
    match value {
        Value::Text(text) if !matches!(text.as_str(), "none" | "sender" | "body") => {
            Err(format!("{text:?} must be \"none\", \"sender\" or \"body\""))
        }
        _ => Ok(()),
    }
}

/// A push service that a client has named (§5).
#[derive(Debug, Clone, PartialEq, Eq)]
struct PushRegistration {
    service: Jid,
    node: Option<String>,
    /// The form for publishing.
    options: Option<Element>,
}

/// The registrations of an account, oldest first.
#[derive(Debug, Clone, Default)]
struct Registrations(Vec<PushRegistration>);

/// Registrations with pending or recent notifications: by account, service and node.
#[derive(Debug, Default)]
struct PushNews(Map<(Jid, Jid, Option<String>), ToldService>);

/// The state of the notifications to one service.
#[derive(Debug, Default)]
struct ToldService {
    /// Messages since the last notification.
    count: u64,
    /// The last of them.
    last: Option<Packet>,
    /// True if a notification waits for its reply or for its time.
    is_busy: bool,
}

/// Enables or disables a push service, for the account itself (§5 and §6).
fn switch(world: &mut World, iq: Iq) {
    if !iq.is_own() {
        return world.reply_error(&iq, Condition::ServiceUnavailable);
    }
    let service = match iq.payload.attr("jid").map(prepare) {
        Some(Ok(jid)) if iq.set => jid.as_ref().to_jid(),
        Some(Err(_)) if iq.set => return world.reply_error(&iq, Condition::JidMalformed),
        _ => return world.reply_error(&iq, Condition::BadRequest),
    };
    let node = iq.payload.attr("node").map(str::to_owned);
    let mut all = registrations(world, iq.to.as_ref()).map(|all| (*all).clone()).unwrap_or_default();
    match iq.payload.name() {
        "enable" => {
            let options = iq.payload.child("x", ns::DATA_FORMS).cloned();
            if options.as_ref().is_some_and(|options| !is_usable(options))
                || node.as_ref().is_some_and(|node| node.len() > MAX_NODE)
            {
                return world.reply_error(&iq, Condition::NotAcceptable);
            }
            all.0.retain(|other| other.service != service || other.node != node);
            all.0.push(PushRegistration { service, node, options });
            let options = world.options(iq.to.domain(), NAME);
            let most = options.map_or(0, |options| options.number(REGISTRATIONS.key)).max(1) as usize;
            let too_many = all.0.len().saturating_sub(most);
            all.0.drain(..too_many);
        }
        // §6: without a node, all registrations at the service.
        "disable" => all.0.retain(|other| other.service != service || (node.is_some() && other.node != node)),
        _ => return world.reply_error(&iq, Condition::BadRequest),
    }
    world.set_document::<Registrations>(iq.to.clone().as_ref(), write(&all.0), move |world, kept| match kept {
        Ok(()) => world.reply_done(&iq),
        Err(error) => {
            world.store_failed("keeping a push service", &iq.to, &error);
            world.reply_error(&iq, condition(&error));
        }
    });
}

/// Returns whether a form can be used for publishing: it is readable, and not larger than
/// necessary.
fn is_usable(options: &Element) -> bool {
    Form::read(options).is_some() && Writer::write(options).bytes().len() <= MAX_FORM
}

fn registrations(world: &World, account: JidRef<'_>) -> Option<Rc<Registrations>> {
    world.document::<Registrations>(account)
}

/// Reacts to a stanza for a session whose user isn't looking.
fn unattended(world: &mut World, packet: &Packet, link: Link) {
    let Some(account) = world.address(link).map(Jid::to_bare) else { return };
    if registrations(world, account.as_ref()).is_none() {
        return;
    }
    let is_looked_at = |&link: &Link| {
        world.outboxes.attention(link) == Attention::Active
            && world.session_at(link).is_some_and(|session| session.takes_messages())
    };
    if !world.links_of(account.as_ref()).iter().any(is_looked_at) {
        notify(world, packet, account.as_ref());
    }
}

/// Notifies the push services of an account of a message.
fn notify(world: &mut World, packet: &Packet, account: JidRef<'_>) {
    let is_message = packet.kind() == Kind::Message && packet.type_() != StanzaType::Error;
    let Some(all) = registrations(world, account).filter(|_| is_message && urgency(packet) == Urgency::Now) else {
        return;
    };
    world.sight(packet, account, Step::Noted, || {
        let services: Vec<_> = all.0.iter().map(|registration| registration.service.as_str()).collect();
        format!("push services are notified, each at most once in a while: {} (XEP-0357)", services.join(", "))
    });
    let account = account.bare().to_jid();
    for registration in &all.0 {
        let is_idle = {
            let key = (account.clone(), registration.service.clone(), registration.node.clone());
            let told = world.state_mut::<PushNews>().0.entry(key).or_default();
            told.count += 1;
            told.last = Some(packet.clone());
            !std::mem::replace(&mut told.is_busy, true)
        };
        if is_idle {
            publish(world, account.clone(), registration.clone());
        }
    }
}

/// Publishes pending news (§7), then waits for the reply and the interval.
fn publish(world: &mut World, account: Jid, registration: PushRegistration) {
    let key = (account.clone(), registration.service.clone(), registration.node.clone());
    let Some(told) = world.state_mut::<PushNews>().0.get_mut(&key) else { return };
    let (count, last) = (std::mem::take(&mut told.count), told.last.take());
    let options = world.options(account.domain(), NAME);
    let content = options.map_or("none", |options| options.text(CONTENT.key)).to_owned();
    let payload = notification(&registration, count, last.as_ref(), &content);
    let (domain, service) = (account.domain().to_owned(), registration.service.clone());
    world.ask(&domain, &service, true, &payload, move |world, answer| {
        let is_refused =
            matches!(&answer, Answer::Error { condition, wait: false } if !PASSING.contains(&condition.as_str()));
        let pushes = &mut world.counters.pushes;
        match answer {
            Answer::Result(_) => pushes.accepted += 1,
            _ if is_refused => pushes.refused += 1,
            _ => pushes.failed += 1,
        }
        if is_refused {
            world.state_mut::<PushNews>().0.remove(&key);
            return disable(world, &account, &registration);
        }
        world.after(INTERVAL_MS, move |world| {
            let is_done = world.state::<PushNews>().0.get(&key).is_none_or(|told| told.count == 0);
            // The registration may have been disabled meanwhile.
            let is_there = registrations(world, account.as_ref()).is_none_or(|all| all.0.contains(&registration));
            if is_done || !is_there {
                world.state_mut::<PushNews>().0.remove(&key);
            } else {
                publish(world, account, registration);
            }
        });
    });
}

/// Removes a registration that its service has refused (§7.1).
fn disable(world: &mut World, account: &Jid, refused: &PushRegistration) {
    let Some(all) = registrations(world, account.as_ref()) else { return };
    let left = Registrations(all.0.iter().filter(|other| *other != refused).cloned().collect());
    let owner = account.clone();
    world.set_document::<Registrations>(account.as_ref(), write(&left.0), move |world, kept| {
        if let Err(error) = kept {
            world.store_failed("disabling a push service", &owner, &error);
        }
    });
}

/// Returns the payload of a notification (§7).
fn notification(registration: &PushRegistration, count: u64, last: Option<&Packet>, content: &str) -> Element {
    let mut summary = Form::new("submit").hidden("FORM_TYPE", SUMMARY);
    summary = summary.field(Field::text_single("message-count").value(&count.to_string()));
    if let Some(last) = last.filter(|_| content != "none") {
        if let Some(sender) = last.sender() {
            summary = summary.field(Field::jid_single("last-message-sender").value(sender.as_str()));
        }
        if let Some(body) = body(last).filter(|_| content == "body") {
            summary = summary.field(Field::text_single("last-message-body").value(&body));
        }
    }
    let notification = Element::new("notification", ns::PUSH).with_child(summary.element());
    let item = Element::new("item", ns::PUBSUB).with_child(notification);
    let publish =
        Element::new("publish", ns::PUBSUB).with_opt_attr("node", registration.node.as_deref()).with_child(item);
    let mut pubsub = Element::new("pubsub", ns::PUBSUB).with_child(publish);
    if let Some(options) = &registration.options {
        pubsub.push_child(Element::new("publish-options", ns::PUBSUB).with_child(options.clone()));
    }
    pubsub
}

fn body(packet: &Packet) -> Option<String> {
    let stanza = packet.stanza();
    let body = stanza.children().find(|child| child.name() == "body")?.element().text();
    Some(body.chars().take(MAX_BODY).collect())
}

/// Returns the stored form of registrations; `None` if there are none.
fn write(all: &[PushRegistration]) -> Option<Vec<u8>> {
    let mut root = Element::new("push", ns::PUSH);
    for PushRegistration { service, node, options } in all {
        let mut enable = Element::new("enable", ns::PUSH).with_attr("jid", service.as_str());
        enable = enable.with_opt_attr("node", node.as_deref());
        options.iter().for_each(|options| enable.push_child(options.clone()));
        root.push_child(enable);
    }
    (!all.is_empty()).then(|| Writer::write(&root).into_bytes())
}

impl Document for Registrations {
    const NAME: &'static str = NAME;

    fn read(document: &[u8]) -> Option<Self> {
        let root = Element::parse(document).ok()?;
        let registration = |enable: &Element| {
            let service = Jid::parse(enable.attr("jid")?).ok()?;
            let (node, options) = (enable.attr("node").map(str::to_owned), enable.child("x", ns::DATA_FORMS).cloned());
            Some(PushRegistration { service, node, options })
        };
        Some(Self(root.children().filter_map(registration).collect()))
    }
}

const NAME: &str = "push";
/// The type of a summary, which gives its fields a meaning (§7).
const SUMMARY: &str = "urn:xmpp:push:summary";
/// Errors that say nothing about the registration: the service can't be reached.
const PASSING: [&str; 3] = ["remote-server-not-found", "remote-server-timeout", "internal-server-error"];
/// The milliseconds between two notifications for one registration.
const INTERVAL_MS: u64 = 5_000;
/// The most bytes of the name of a node.
const MAX_NODE: usize = 1024;
/// The most bytes of the form for publishing.
const MAX_FORM: usize = 4096;
/// The most characters of a text.
const MAX_BODY: usize = 500;

const BOUNDS: [Bound; 3] = [
    Bound::on("push services", Per::Account, Most::Option(REGISTRATIONS.key), Unit::Number)
        .or("one more replaces the oldest")
        .kept_in(&["documents"]),
    Bound::on("the form of a push service", Per::Stanza, Most::Fixed(MAX_FORM as u64), Unit::Bytes)
        .or("the request gets <not-acceptable/>"),
    Bound::on(
        "the time between two notifications",
        Per::Other("push service"),
        Most::Fixed(INTERVAL_MS),
        Unit::Milliseconds,
    )
    .or("messages in between are reported together"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registrations_are_read_as_they_were_written() {
        let service = Jid::parse("push.example.net").unwrap();
        let options = Form::new("submit").hidden("FORM_TYPE", "x").element();
        let all = vec![
            PushRegistration { service: service.clone(), node: Some("it's <a> node".into()), options: Some(options) },
            PushRegistration { service, node: None, options: None },
        ];
        assert_eq!(Registrations::read(&write(&all).unwrap()).unwrap().0, all);
        assert_eq!(write(&[]), None);
        assert!(Registrations::read(b"<").is_none());
    }
}
