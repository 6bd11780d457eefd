//! Requests of XEP-0060, parsed into types.

use rookery_hub::{Iq, World};
use rookery_jid::{Jid, JidRef};
use rookery_modkit::form::Form;
use rookery_modkit::rsm;
use rookery_stream::error::{Condition, StanzaError};
use rookery_xml::{Element, ns};

use super::error::{invalid_options, nodeid_required, presence_required, specific};
use super::node::{NodeKey, Relation};
use super::state::Asks;

/// A request: the IQ, with the asker and the host that it is for.
#[derive(Debug, Clone)]
pub(crate) struct PubsubCall {
    pub iq: Iq,
    /// The asker's relation to the owner, once it has been looked up.
    pub relation: Option<Relation>,
}

impl PubsubCall {
    /// Returns the key of a node on the request's host.
    pub(crate) fn key(&self, node: &str) -> NodeKey {
        (self.iq.to.to_bare(), node.to_owned())
    }

    /// Returns the asker's address.
    pub(crate) fn from(&self) -> JidRef<'_> {
        self.iq.from.as_ref()
    }

    /// Returns the asker's relation to the owner; that of a stranger as long as it isn't known.
    pub(crate) fn relation(&self) -> Relation {
        self.relation.clone().unwrap_or_default()
    }

    /// Replies with success and nothing else.
    pub(crate) fn succeed(&self, world: &mut World) {
        world.reply_done(&self.iq);
    }

    /// Replies with an error. To a stranger, every node of an account that it can't use looks like
    /// one restricted to those who see the account's presence. So strangers learn neither which
    /// nodes exist, nor whether the account does.
    pub(crate) fn refuse(&self, world: &mut World, error: impl Into<StanzaError>) {
        let error = error.into();
        let tells_nothing = matches!(
            error.condition,
            Condition::BadRequest
                | Condition::FeatureNotImplemented
                | Condition::InternalServerError
                | Condition::ResourceConstraint
        );
        if !self.is_stranger() || tells_nothing {
            return world.reply_error(&self.iq, error);
        }
        match self.iq.payload.ns() {
            // XEP-0030 §8.
            ns::DISCO_INFO => world.reply_error(&self.iq, Condition::ServiceUnavailable),
            ns::DISCO_ITEMS => {
                let mut reply = self.iq.result();
                reply.start_ns("query", ns::DISCO_ITEMS).opt_attr("node", self.iq.payload.attr("node"));
                world.reply(&self.iq, reply);
            }
            _ => world.reply_error(&self.iq, presence_required()),
        }
    }

    fn is_stranger(&self) -> bool {
        let is_account = self.iq.to.local().is_some();
        is_account && !self.iq.is_own() && self.relation.as_ref().is_none_or(|relation| !relation.sees_presence)
    }
}

impl Asks for PubsubCall {
    fn takes(&self) -> Option<(&str, usize)> {
        self.iq.takes()
    }
}

/// The action that a request asks for. Nodes are never empty texts.
#[derive(Debug)]
pub(crate) enum RequestAction {
    /// To create a node (§8.1). Without an id, the service makes one up.
    Create { node: Option<String>, form: Option<Form> },
    /// To publish an item (§7.1).
    Publish { node: String, item: Option<Element>, options: Option<Form> },
    /// To retract items (§7.2).
    Retract { node: String, ids: Vec<String>, notify: bool },
    /// To retrieve items (§6.5).
    Items { node: String, ids: Vec<String>, max_items: Option<usize>, page: Option<rsm::RsmRequest> },
    /// To subscribe (§6.1).
    Subscribe { node: String, jid: Jid, options: Option<Form> },
    /// To end a subscription (§6.2).
    Unsubscribe { node: String, jid: Jid },
    /// To get the options of a subscription (§6.3.2).
    Options { node: String, jid: Jid },
    /// To change the options of a subscription (§6.3.5).
    SetOptions { node: String, jid: Jid, form: Form },
    /// To get the options of new subscriptions (§6.4).
    DefaultOptions,
    /// To list the asker's own subscriptions (§5.6).
    Subscriptions { node: Option<String> },
    /// To list the asker's own affiliations (§5.7).
    Affiliations { node: Option<String> },
    /// To get the configuration of a node (§8.2.1).
    Configuration { node: String },
    /// To configure a node (§8.2.4).
    Configure { node: String, form: Option<Form> },
    /// To get the configuration of new nodes (§8.3).
    DefaultConfiguration,
    /// To delete a node (§8.4).
    Delete { node: String, redirect: Option<String> },
    /// To purge a node of its items (§8.5).
    Purge { node: String },
    /// To list the subscribers of a node (§8.8.1).
    Subscribers { node: String },
    /// To change the subscriptions of others (§8.8.2).
    SetSubscribers { node: String, changes: Vec<(String, String)> },
    /// To list the affiliations of a node (§8.9.1).
    Affiliated { node: String },
    /// To change the affiliations of others (§8.9.2).
    SetAffiliated { node: String, changes: Vec<(String, String)> },
}

impl RequestAction {
    /// Reads the payload of a request.
    ///
    /// # Errors
    /// A parameter that is missing, or not implemented.
    pub(crate) fn read(iq: &Iq) -> Result<Self, StanzaError> {
        let payload = &iq.payload;
        if payload.name() != "pubsub" {
            return Err(Condition::BadRequest.into());
        }
        let mut actions =
            payload.children().filter(|child| child.ns() == payload.ns() && !is_companion(payload, child));
        let Some(action) = actions.next() else { return Err(Condition::BadRequest.into()) };
        if payload.ns() == ns::PUBSUB_OWNER { Self::of_owner(iq, action) } else { Self::of_anybody(iq, action) }
    }

    /// Returns the node that has to exist for it, if it is about one.
    pub(crate) fn node(&self) -> Option<&str> {
        match self {
            Self::Create { node, .. } | Self::Subscriptions { node } | Self::Affiliations { node } => node.as_deref(),
            Self::DefaultOptions | Self::DefaultConfiguration => None,
            Self::Publish { node, .. }
            | Self::Retract { node, .. }
            | Self::Items { node, .. }
            | Self::Subscribe { node, .. }
            | Self::Unsubscribe { node, .. }
            | Self::Options { node, .. }
            | Self::SetOptions { node, .. }
            | Self::Configuration { node }
            | Self::Configure { node, .. }
            | Self::Delete { node, .. }
            | Self::Purge { node }
            | Self::Subscribers { node }
            | Self::SetSubscribers { node, .. }
            | Self::Affiliated { node }
            | Self::SetAffiliated { node, .. } => Some(node),
        }
    }

    fn of_anybody(iq: &Iq, action: &Element) -> Result<Self, StanzaError> {
        let node = || node(action).map(str::to_owned);
        let required = || node().ok_or_else(nodeid_required);
        let form_in = |name: &str| iq.payload.child(name, ns::PUBSUB).map(read_form).transpose();
        Ok(match (action.name(), iq.set) {
            ("create", true) => Self::Create { node: id(node())?, form: form_in("configure")?.flatten() },
            ("publish", true) => {
                let mut items = action.children().filter(|child| child.is("item", ns::PUBSUB));
                let (item, more) = (items.next().cloned(), items.next());
                if more.is_some() {
                    return Err(StanzaError::new(Condition::BadRequest).with_text("one item at a time"));
                }
                let node = id(Some(required()?))?.ok_or_else(nodeid_required)?;
                Self::Publish { node, item, options: form_in("publish-options")?.flatten() }
            }
            ("retract", true) => {
                let ids = item_ids(action)?;
                if ids.is_empty() {
                    return Err(specific(Condition::BadRequest, "item-required"));
                }
                Self::Retract { node: required()?, ids, notify: is_true(action.attr("notify")) }
            }
            ("items", false) => Self::Items {
                node: required()?,
                ids: item_ids(action)?,
                max_items: action.attr("max_items").map(number).transpose()?,
                page: rsm::RsmRequest::read(&iq.payload)?,
            },
            ("subscribe", true) => {
                Self::Subscribe { node: required()?, jid: own_jid(iq, action)?, options: form_in("options")?.flatten() }
            }
            ("unsubscribe", true) => {
                let jid = action.attr("jid").ok_or_else(|| specific(Condition::BadRequest, "jid-required"))?;
                Self::Unsubscribe { node: required()?, jid: same_account(iq, jid, || Condition::Forbidden.into())? }
            }
            ("options", is_set) => {
                let jid = action.attr("jid").ok_or_else(|| specific(Condition::BadRequest, "jid-required"))?;
                let jid = same_account(iq, jid, || Condition::Forbidden.into())?;
                let form = if is_set { read_form(action)? } else { None };
                match (is_set, form) {
                    (false, _) => Self::Options { node: required()?, jid },
                    (true, Some(form)) => Self::SetOptions { node: required()?, jid, form },
                    (true, None) => return Err(invalid_options()),
                }
            }
            ("default", false) => Self::DefaultOptions,
            ("subscriptions", false) => Self::Subscriptions { node: node() },
            ("affiliations", false) => Self::Affiliations { node: node() },
            _ => return Err(Condition::BadRequest.into()),
        })
    }

    fn of_owner(iq: &Iq, action: &Element) -> Result<Self, StanzaError> {
        let required = || node(action).map(str::to_owned).ok_or_else(nodeid_required);
        Ok(match (action.name(), iq.set) {
            ("configure", false) => Self::Configuration { node: required()? },
            ("configure", true) if action.child("x", ns::DATA_FORMS).is_none() => {
                return Err(Condition::BadRequest.into());
            }
            ("configure", true) => Self::Configure { node: required()?, form: read_form(action)? },
            ("default", false) => Self::DefaultConfiguration,
            ("delete", true) => {
                let redirect = action.child("redirect", ns::PUBSUB_OWNER).and_then(|redirect| redirect.attr("uri"));
                if redirect.is_some_and(|uri| uri.len() > MAX_ID) {
                    return Err(Condition::NotAcceptable.into());
                }
                Self::Delete { node: required()?, redirect: redirect.map(str::to_owned) }
            }
            ("purge", true) => Self::Purge { node: required()? },
            ("subscriptions", false) => Self::Subscribers { node: required()? },
            ("subscriptions", true) => {
                Self::SetSubscribers { node: required()?, changes: changes(action, "subscription")? }
            }
            ("affiliations", false) => Self::Affiliated { node: required()? },
            ("affiliations", true) => {
                Self::SetAffiliated { node: required()?, changes: changes(action, "affiliation")? }
            }
            _ => return Err(Condition::BadRequest.into()),
        })
    }
}

/// Returns whether an element only supplements the one before: options of a subscription, the
/// configuration of a new node.
fn is_companion(payload: &Element, child: &Element) -> bool {
    let first = payload.children().next().map(Element::name);
    match child.name() {
        "publish-options" => true,
        "configure" => payload.ns() == ns::PUBSUB,
        "options" => first == Some("subscribe"),
        _ => false,
    }
}

fn node(element: &Element) -> Option<&str> {
    element.attr("node").filter(|node| !node.is_empty())
}

/// Returns an id for something new, unless it is too long.
fn id(id: Option<String>) -> Result<Option<String>, StanzaError> {
    match id {
        Some(id) if id.len() > MAX_ID => {
            Err(StanzaError::new(Condition::NotAcceptable).with_text("the name is too long"))
        }
        id => Ok(id),
    }
}

/// Returns the form in an element. `None` if it has none, or one that was cancelled.
fn read_form(parent: &Element) -> Result<Option<Form>, StanzaError> {
    let Some(x) = parent.child("x", ns::DATA_FORMS) else { return Ok(None) };
    match Form::read(x) {
        Some(form) => Ok(Some(form).filter(|form| form.type_() != "cancel")),
        None => Err(StanzaError::new(Condition::NotAcceptable).with_text("the form is too large")),
    }
}

fn item_ids(action: &Element) -> Result<Vec<String>, StanzaError> {
    let items = action.children().filter(|child| child.is("item", ns::PUBSUB));
    let mut ids = Vec::new();
    for item in items {
        match item.attr("id").filter(|id| !id.is_empty()) {
            Some(id) if ids.len() < MAX_IDS => ids.push(id.to_owned()),
            Some(_) => return Err(StanzaError::new(Condition::NotAcceptable).with_text("too many items")),
            None => return Err(specific(Condition::BadRequest, "item-required")),
        }
    }
    Ok(ids)
}

/// Returns the address that subscribes: the asker's, with or without a resource (§6.1.3.1).
fn own_jid(iq: &Iq, action: &Element) -> Result<Jid, StanzaError> {
    let invalid = || specific(Condition::BadRequest, "invalid-jid");
    same_account(iq, action.attr("jid").ok_or_else(invalid)?, invalid)
}

fn same_account(iq: &Iq, jid: &str, error: impl Fn() -> StanzaError) -> Result<Jid, StanzaError> {
    let jid = Jid::parse(jid).map_err(|_| specific(Condition::BadRequest, "invalid-jid"))?;
    if jid.bare() == iq.from.bare() { Ok(jid) } else { Err(error()) }
}

/// Reads the changes of an owner: addresses with their new values. An entry without a value changes
/// nothing (§8.8.2.1, §8.9.2.1).
fn changes(action: &Element, what: &str) -> Result<Vec<(String, String)>, StanzaError> {
    let entries = action.children().filter(|child| child.is(what, ns::PUBSUB_OWNER));
    let mut changes = Vec::new();
    for entry in entries {
        let (Some(jid), value) = (entry.attr("jid"), entry.attr(what)) else {
            return Err(specific(Condition::BadRequest, "jid-required"));
        };
        let Some(value) = value else { continue };
        if changes.iter().any(|(other, _)| other == jid) {
            return Err(Condition::BadRequest.into());
        }
        if changes.len() == MAX_CHANGES {
            return Err(StanzaError::new(Condition::NotAcceptable).with_text("too many changes at once"));
        }
        changes.push((jid.to_owned(), value.to_owned()));
    }
    if changes.is_empty() { Err(Condition::BadRequest.into()) } else { Ok(changes) }
}

fn number(text: &str) -> Result<usize, StanzaError> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number {
        return Err(Condition::BadRequest.into());
    }
    Ok(text.parse().unwrap_or(usize::MAX))
}

fn is_true(value: Option<&str>) -> bool {
    matches!(value, Some("1" | "true"))
}

/// The most bytes of the id of a node or an item, the same as for the parts of a JID (RFC 7622 §3).
pub(super) const MAX_ID: usize = 1023;
/// The most items that a request may name.
const MAX_IDS: usize = 1000;
/// The most entities that an owner may change at once.
const MAX_CHANGES: usize = 200;
