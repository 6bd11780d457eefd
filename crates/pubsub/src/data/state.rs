//! A shard's memory of data nodes: those that are at home there and have subscribers.

use rookery_base::Map;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use rookery_hub::{Iq, Options, World};
use rookery_jid::Jid;
use rookery_modkit::form::{Field, Form};
use rookery_stream::error::{Condition, StanzaError};
use rookery_xml::{Element, Writer};

use super::joined::Data;
use super::source::{Description, Reading, Topic};
use crate::error::invalid_options;

/// The state of the service on one shard.
#[derive(Debug)]
pub(super) struct DataState {
    /// The source and the subscriptions, which all shards share.
    pub data: Data,
    pub nodes: Map<Topic, DataNode>,
}

/// A node with subscribers.
#[derive(Debug)]
pub(super) struct DataNode {
    pub topic: Arc<Topic>,
    pub subscribers: BTreeMap<Jid, SubscriptionTerms>,
    /// The last reading.
    pub last: Option<Reading>,
    /// The subscribers, by the interval of their notifications.
    pub paces: Vec<SubscriberPace>,
}

/// Subscribers that are notified at the same interval.
#[derive(Debug)]
pub(super) struct SubscriberPace {
    /// The shortest time between two notifications, in milliseconds.
    pub interval: u64,
    /// The time of the last notification, in milliseconds of the shard's clock.
    pub sent_at: Option<u64>,
    /// True if a timer will send the next one.
    pub waits: bool,
    /// The JIDs that are notified at this interval; a pace without any is removed.
    pub to: Vec<Jid>,
}

/// The options of a subscription (XEP-0060 §6.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SubscriptionTerms {
    /// True if the subscriber wants notifications at all.
    pub deliver: bool,
    /// The shortest time between two of them, in milliseconds; `None` for the operator's default.
    pub interval: Option<u64>,
}

/// Returns the shard that is home to a node.
pub(super) fn home(world: &World, host: &str, node: &str) -> usize {
    world.home_of_text(&format!("{host}/{node}"))
}

/// Returns the description of a node.
///
/// # Errors
/// There is no such node, or no source.
pub(super) fn describe(world: &World, iq: &Iq, node: &str) -> Result<Description, StanzaError> {
    let source = world.state::<DataState>().data.source().ok_or(Condition::ServiceUnavailable)?;
    let topic = Topic { host: iq.to.domain().to_owned(), node: node.to_owned() };
    source.describe(&topic.node).map_err(|reason| StanzaError::new(Condition::ItemNotFound).with_text(reason))
}

impl DataState {
    pub fn new(data: Data) -> Self {
        Self { data, nodes: Map::default() }
    }

    /// Adds a subscriber, or sets its options; the first subscriber opens the node. `usual` is the
    /// default interval in milliseconds.
    pub fn put(&mut self, topic: &Topic, subscriber: &Jid, terms: SubscriptionTerms, usual: u64, shard: usize) {
        let node = self.nodes.entry(topic.clone()).or_insert_with(|| {
            self.data.open.fetch_add(1, Ordering::Relaxed);
            DataNode { topic: Arc::new(topic.clone()), subscribers: BTreeMap::new(), last: None, paces: Vec::new() }
        });
        let is_first = node.subscribers.is_empty();
        if node.subscribers.insert(subscriber.clone(), terms).is_none() {
            self.data.subscriptions.add(subscriber, &node.topic);
        }
        node.sort(usual);
        if is_first && let Some(source) = self.data.source() {
            source.open(&node.topic, shard);
        }
    }

    /// Removes a subscriber; removing the last one closes the node. `None` if it wasn't subscribed,
    /// otherwise whether it was the last.
    pub fn remove(&mut self, topic: &Topic, subscriber: &Jid) -> Option<bool> {
        let node = self.nodes.get_mut(topic)?;
        node.subscribers.remove(subscriber)?;
        self.data.subscriptions.remove(subscriber, topic);
        node.paces.iter_mut().for_each(|pace| pace.to.retain(|jid| jid != subscriber));
        node.paces.retain(|pace| !pace.to.is_empty());
        let is_last = node.subscribers.is_empty();
        if is_last {
            self.nodes.remove(topic);
            self.data.open.fetch_sub(1, Ordering::Relaxed);
            if let Some(source) = self.data.source() {
                source.close(topic);
            }
        }
        Some(is_last)
    }

    /// Returns the options of a subscription, if there is one.
    pub fn terms(&self, topic: &Topic, subscriber: &Jid) -> Option<SubscriptionTerms> {
        self.nodes.get(topic)?.subscribers.get(subscriber).copied()
    }

    /// Returns the last reading of a node.
    pub fn last(&self, topic: &Topic) -> Option<Reading> {
        self.nodes.get(topic)?.last.clone()
    }
}

impl DataNode {
    /// Groups the subscribers by the interval of their notifications.
    fn sort(&mut self, usual: u64) {
        let mut paces: Vec<SubscriberPace> = Vec::new();
        for (jid, terms) in self.subscribers.iter().filter(|(_, terms)| terms.deliver) {
            let interval = terms.interval.unwrap_or(usual);
            match paces.iter_mut().find(|pace| pace.interval == interval) {
                Some(pace) => pace.to.push(jid.clone()),
                None => {
                    let before = self.paces.iter().find(|pace| pace.interval == interval);
                    let (sent_at, waits) = before.map_or((None, false), |before| (before.sent_at, before.waits));
                    paces.push(SubscriberPace { interval, sent_at, waits, to: vec![jid.clone()] });
                }
            }
        }
        self.paces = paces;
    }
}

impl SubscriptionTerms {
    /// The default options.
    pub const USUAL: Self = Self { deliver: true, interval: None };

    /// Applies the options of a submitted form. `shortest` is the shortest interval that may be
    /// requested, in milliseconds.
    ///
    /// # Errors
    /// `invalid-options` if an option has an invalid value (XEP-0060 §6.3.5.2).
    pub fn apply(&mut self, form: &Form, shortest: u64) -> Result<(), StanzaError> {
        match form.boolean(DELIVER) {
            Some(Ok(deliver)) => self.deliver = deliver,
            Some(Err(_)) => return Err(invalid_options()),
            None => {}
        }
        if let Some(text) = form.value(INTERVAL) {
            let interval: u64 = text.trim().parse().map_err(|_| invalid_options())?;
            if interval > LONGEST_MS {
                return Err(invalid_options());
            }
            self.interval = Some(interval.max(shortest));
        }
        Ok(())
    }

    /// Returns the form of the options.
    pub fn form(&self, options: &Options) -> Form {
        let interval = self.interval.unwrap_or(options.number("interval_ms"));
        Form::new("form")
            .hidden("FORM_TYPE", SUBSCRIBE_OPTIONS)
            .field(Field::boolean(DELIVER, self.deliver).label("Receive notifications"))
            .field(
                Field::text_single(INTERVAL)
                    .label("Milliseconds between two notifications, at least")
                    .value(&interval.to_string()),
            )
    }

    /// Returns the options in their stored form, which is empty for the default ones.
    pub fn write_stored(&self) -> Vec<u8> {
        if *self == Self::USUAL {
            return Vec::new();
        }
        let form =
            Form::new("submit").hidden("FORM_TYPE", SUBSCRIBE_OPTIONS).field(Field::boolean(DELIVER, self.deliver));
        let form = match self.interval {
            Some(interval) => form.field(Field::text_single(INTERVAL).value(&interval.to_string())),
            None => form,
        };
        Writer::write(&form.element()).into_bytes()
    }

    /// Reads the options as they are stored.
    pub fn read(stored: &[u8]) -> Self {
        let mut terms = Self::USUAL;
        if let Some(form) = Element::parse(stored).ok().and_then(|element| Form::read(&element)) {
            terms.apply(&form, 0).ok();
        }
        terms
    }
}

const SUBSCRIBE_OPTIONS: &str = "http://jabber.org/protocol/pubsub#subscribe_options";
const DELIVER: &str = "pubsub#deliver";
const INTERVAL: &str = "pubsub#digest_frequency";
/// The longest interval, a day: a client that wants less should subscribe to less.
const LONGEST_MS: u64 = 86_400_000;
