//! A node as its home shard holds it, and its permissions (XEP-0060 §4).

use std::collections::BTreeMap;

use rookery_base::Map;
use rookery_jid::{Jid, JidRef};
use rookery_modkit::form::{Field, Form};
use rookery_store::pubsub::{NodeAffiliation, NodeSubscription};
use rookery_stream::error::{Condition, StanzaError};
use rookery_xml::{Element, Writer};

use super::config::{Access, NodeConfig, Publish};
use super::error::{invalid_options, presence_required, specific};

/// The key of a node: its host and its id.
pub(crate) type NodeKey = (Jid, String);

/// The contacts that see the presence of a node's owner, with the owner's roster groups for them if
/// these matter.
pub(super) type Contacts = Map<Jid, Relation>;

/// A node without its items.
#[derive(Debug, Clone)]
pub(crate) struct PubsubNode {
    pub config: NodeConfig,
    /// The account against whose limits it counts.
    pub creator: Option<Jid>,
    pub affiliations: BTreeMap<Jid, NodeAffiliation>,
    pub subscriptions: BTreeMap<Jid, PubsubSubscription>,
}

/// The terms of an address's subscription.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PubsubSubscription {
    /// True until an owner has approved it.
    pub pending: bool,
    /// True if the subscriber wants to be notified (§16.4.2, `pubsub#deliver`).
    pub deliver: bool,
    /// True if notifications are stored while the subscriber is away. Only the subscriber can
    /// choose that, since they take space from other senders' messages.
    pub offline: bool,
}

/// The relation of a user to the owner of a node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Relation {
    /// True if the user sees the owner's presence.
    pub sees_presence: bool,
    /// The groups of the owner's roster that the user is in.
    pub groups: Vec<String>,
}

/// Returns whether a contact is notified of a node without a subscription: an auto-subscriber
/// (XEP-0060 §9.1), or one on the whitelist.
pub(super) fn hears(config: &NodeConfig, affiliation: Option<NodeAffiliation>, relation: &Relation) -> bool {
    match affiliation {
        Some(NodeAffiliation::Owner | NodeAffiliation::Publisher | NodeAffiliation::Member) => return true,
        Some(NodeAffiliation::PublishOnly | NodeAffiliation::Outcast) => return false,
        None => {}
    }
    match config.access {
        Access::Open | Access::Presence => relation.sees_presence,
        Access::Roster => {
            relation.sees_presence && config.roster_groups.iter().any(|group| relation.groups.contains(group))
        }
        Access::Authorize | Access::Whitelist => false,
    }
}

impl PubsubNode {
    /// Returns a node that `owner` has just created: its only affiliate, without subscribers.
    pub(crate) fn new(config: NodeConfig, owner: Jid) -> Self {
        let affiliations = BTreeMap::from([(owner.clone(), NodeAffiliation::Owner)]);
        Self { config, creator: Some(owner), affiliations, subscriptions: BTreeMap::new() }
    }

    /// Returns a node as the store has it. `defaults` fill in what its configuration leaves out.
    pub(crate) fn of(stored: rookery_store::pubsub::NodeRecord, defaults: NodeConfig) -> Self {
        let subscriptions = stored.subscriptions.into_iter();
        Self {
            config: defaults.read(&stored.config),
            creator: stored.creator,
            affiliations: stored.affiliations.into_iter().collect(),
            subscriptions: subscriptions.map(|(jid, found)| (jid, PubsubSubscription::of(&found))).collect(),
        }
    }

    /// Returns the affiliation of an entity, whatever its resource.
    pub(crate) fn affiliation(&self, entity: JidRef<'_>) -> Option<NodeAffiliation> {
        self.affiliations.get(&entity.bare().to_jid()).copied()
    }

    /// Returns whether an entity owns the node.
    pub(crate) fn is_owner(&self, entity: JidRef<'_>) -> bool {
        self.affiliation(entity) == Some(NodeAffiliation::Owner)
    }

    /// Returns the addresses that own the node.
    pub(crate) fn owners(&self) -> impl Iterator<Item = &Jid> {
        self.affiliations
            .iter()
            .filter(|(_, affiliation)| **affiliation == NodeAffiliation::Owner)
            .map(|(owner, _)| owner)
    }

    /// Returns the subscriptions of an entity, whatever the resource.
    pub(crate) fn subscriptions_of<'a>(
        &'a self,
        entity: JidRef<'_>,
    ) -> impl Iterator<Item = (&'a Jid, &'a PubsubSubscription)> + use<'a> {
        let bare = entity.bare().to_jid();
        // Full JIDs sort right after their bare one and after longer bare ones with the same
        // prefix.
        let from = self.subscriptions.range(bare.clone()..);
        let until = move |jid: &Jid| jid.as_str().starts_with(bare.as_str());
        let same = entity.bare().to_jid();
        from.take_while(move |(jid, _)| until(jid)).filter(move |(jid, _)| jid.bare() == same.as_ref())
    }

    /// Returns whether an entity has an approved subscription.
    pub(crate) fn is_subscribed(&self, entity: JidRef<'_>) -> bool {
        self.subscriptions_of(entity).any(|(_, subscription)| !subscription.pending)
    }

    /// Returns whether the relation to an owner decides what this entity may do.
    pub(crate) fn asks_roster(&self, entity: JidRef<'_>) -> bool {
        matches!(self.config.access, Access::Presence | Access::Roster) && self.affiliation(entity).is_none()
    }

    /// Checks whether an entity may subscribe (§6.1.3), but not whether an owner must approve it.
    pub(crate) fn lets_subscribe(&self, entity: JidRef<'_>, relation: &Relation) -> Result<(), StanzaError> {
        match self.affiliation(entity) {
            Some(NodeAffiliation::Owner | NodeAffiliation::Publisher | NodeAffiliation::Member) => return Ok(()),
            Some(NodeAffiliation::PublishOnly | NodeAffiliation::Outcast) => return Err(Condition::Forbidden.into()),
            None => {}
        }
        match self.config.access {
            Access::Open | Access::Authorize => Ok(()),
            Access::Presence if relation.sees_presence => Ok(()),
            Access::Presence => Err(presence_required()),
            Access::Roster if relation.sees_presence && self.allows_group(relation) => Ok(()),
            Access::Roster => Err(specific(Condition::NotAuthorized, "not-in-roster-group")),
            Access::Whitelist => Err(specific(Condition::NotAllowed, "closed-node")),
        }
    }

    /// Checks whether an entity may retrieve items (§6.5.9).
    pub(crate) fn lets_retrieve(&self, entity: JidRef<'_>, relation: &Relation) -> Result<(), StanzaError> {
        let needs_approval = self.config.access == Access::Authorize && self.affiliation(entity).is_none();
        if needs_approval && !self.is_subscribed(entity) {
            return Err(specific(Condition::NotAuthorized, "not-subscribed"));
        }
        self.lets_subscribe(entity, relation)
    }

    /// Returns whether an entity may publish (§7.1.3.1).
    pub(crate) fn lets_publish(&self, entity: JidRef<'_>) -> bool {
        match (self.affiliation(entity), self.config.publish) {
            (Some(NodeAffiliation::Outcast), _) => false,
            (Some(NodeAffiliation::Owner | NodeAffiliation::Publisher | NodeAffiliation::PublishOnly), _) => true,
            (_, Publish::Open) => true,
            (_, Publish::Subscribers) => self.is_subscribed(entity),
            (_, Publish::Publishers) => false,
        }
    }

    /// Returns whether an entity may see in lists that the node exists.
    pub(crate) fn shows_to(config: &NodeConfig, affiliation: Option<NodeAffiliation>, relation: &Relation) -> bool {
        match affiliation {
            Some(NodeAffiliation::Outcast) => false,
            Some(_) => true,
            None => match config.access {
                Access::Open | Access::Authorize => true,
                Access::Presence => relation.sees_presence,
                Access::Roster => {
                    relation.sees_presence && config.roster_groups.iter().any(|g| relation.groups.contains(g))
                }
                Access::Whitelist => false,
            },
        }
    }

    fn allows_group(&self, relation: &Relation) -> bool {
        self.config.roster_groups.iter().any(|group| relation.groups.contains(group))
    }
}

impl PubsubSubscription {
    /// Returns an approved subscription with the default options.
    pub(crate) fn new() -> Self {
        Self { pending: false, deliver: true, offline: false }
    }

    fn of(stored: &NodeSubscription) -> Self {
        let mut found = Self { pending: stored.pending, ..Self::new() };
        if let Some(form) = Element::parse(&stored.options).ok().and_then(|element| Form::read(&element)) {
            found.apply(&form).ok();
        }
        found
    }

    /// Returns the subscription in its stored form.
    pub(crate) fn write_stored(&self) -> NodeSubscription {
        let is_usual = Self { pending: self.pending, ..Self::new() } == *self;
        let options = match is_usual {
            true => Vec::new(),
            false => Writer::write(&self.form("submit").element()).into_bytes(),
        };
        NodeSubscription { pending: self.pending, options }
    }

    /// Applies the options of a submitted form (§6.3.5).
    ///
    /// # Errors
    /// `invalid-options` if an option has an invalid value.
    pub(crate) fn apply(&mut self, form: &Form) -> Result<(), StanzaError> {
        for (var, option) in [("pubsub#deliver", &mut self.deliver), (OFFLINE, &mut self.offline)] {
            match form.boolean(var) {
                Some(Ok(value)) => *option = value,
                Some(Err(_)) => return Err(invalid_options()),
                None => {}
            }
        }
        Ok(())
    }

    /// Returns the form of its options.
    pub(crate) fn form(&self, type_: &str) -> Form {
        Form::new(type_)
            .hidden("FORM_TYPE", SUBSCRIBE_OPTIONS)
            .field(Field::boolean("pubsub#deliver", self.deliver).label("Receive notifications"))
            .field(Field::boolean(OFFLINE, self.offline).label("Store notifications while I am away"))
    }

    /// Returns the value of the attribute `subscription`.
    pub(crate) fn state(&self) -> &'static str {
        if self.pending { "pending" } else { "subscribed" }
    }
}

/// A field that isn't registered, so its name is in braces (XEP-0068 §3.2).
const OFFLINE: &str = "{urn:rookery:pubsub:0}offline";
const SUBSCRIBE_OPTIONS: &str = "http://jabber.org/protocol/pubsub#subscribe_options";
