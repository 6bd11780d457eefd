//! The configuration of a node (XEP-0060 §8.2, §16.4.4).
//!
//! It is stored as the form that an owner would submit to set it, so that a field added by a later
//! version has its default in older nodes.

use rookery_jid::Jid;
use rookery_modkit::form::{Field, Form};
use rookery_stream::error::{Condition, StanzaError};
use rookery_xml::{Element, Writer};

use super::error::specific;

/// The configuration of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NodeConfig {
    pub title: String,
    pub description: String,
    /// The namespace of the payload, or another description of its type.
    pub type_: String,
    pub contact: Vec<Jid>,
    pub access: Access,
    pub publish: Publish,
    /// The most items that are kept; `None` stands for `max`, as many as the operator allows.
    pub max_items: Option<usize>,
    /// Seconds after which an item expires; `None` for never.
    pub item_expire: Option<u64>,
    /// The most bytes of a payload; `None` for as many as the operator allows.
    pub max_payload: Option<usize>,
    pub persist_items: bool,
    pub deliver_payloads: bool,
    pub deliver_notifications: bool,
    pub notify_config: bool,
    pub notify_delete: bool,
    pub notify_retract: bool,
    pub notify_sub: bool,
    pub notification: Notification,
    pub send_last: SendLast,
    pub presence_based: bool,
    /// Groups of the owner's roster that have access, for [`Access::Roster`].
    pub roster_groups: Vec<String>,
    /// True if notifications name the publisher.
    pub publisher: bool,
}

/// The access model: the right to subscribe and retrieve (§4.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    Open,
    Presence,
    Roster,
    Authorize,
    Whitelist,
}

/// The publisher model: the right to publish.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Publish {
    Publishers,
    Subscribers,
    Open,
}

/// The type of messages that notify.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Notification {
    Normal,
    Headline,
    Chat,
}

/// The occasions on which the last item is sent without a publication.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SendLast {
    Never,
    OnSub,
    OnSubAndPresence,
}

/// The values of a field, each with its name in stanzas and its label.
type FieldNames<T> = &'static [(T, &'static str, &'static str)];

impl NodeConfig {
    /// Returns the default configuration of a node of a service.
    pub(crate) fn of_service() -> Self {
        Self {
            title: String::new(),
            description: String::new(),
            type_: String::new(),
            contact: Vec::new(),
            access: Access::Open,
            publish: Publish::Publishers,
            max_items: None,
            item_expire: None,
            max_payload: None,
            persist_items: true,
            deliver_payloads: true,
            deliver_notifications: true,
            notify_config: false,
            notify_delete: true,
            notify_retract: true,
            notify_sub: false,
            notification: Notification::Headline,
            send_last: SendLast::Never,
            presence_based: false,
            roster_groups: Vec::new(),
            publisher: false,
        }
    }

    /// Returns the default configuration of a node of an account (XEP-0163 §5). Encryption keys are
    /// open to all (XEP-0384 §5.3).
    pub(crate) fn of_account(node: &str) -> Self {
        let access = if node.starts_with(OMEMO) { Access::Open } else { Access::Presence };
        Self {
            access,
            max_items: Some(1),
            send_last: SendLast::OnSubAndPresence,
            presence_based: true,
            ..Self::of_service()
        }
    }

    /// Applies the fields of a submitted form. Returns `false` if it has a field that nodes don't
    /// have.
    ///
    /// # Errors
    /// A field has an invalid value.
    pub(crate) fn apply(&mut self, form: &Form) -> Result<bool, StanzaError> {
        let mut all_known = true;
        for field in form.fields().filter(|field| field.var() != "FORM_TYPE") {
            let Some(var) = field.var().strip_prefix("pubsub#") else {
                all_known = false;
                continue;
            };
            all_known &= self.set(var, field.all())?;
        }
        Ok(all_known)
    }

    fn set(&mut self, var: &str, values: &[String]) -> Result<bool, StanzaError> {
        let text = values.first().map(|value| value.trim()).unwrap_or_default();
        match var {
            "title" => self.title = short(text)?,
            "description" => self.description = short(text)?,
            "type" => self.type_ = short(text)?,
            "contact" => {
                let jids = values.iter().take(MAX_CONTACTS).map(|value| Jid::parse(value));
                self.contact = jids.collect::<Result<_, _>>().map_err(|_| impossible(var))?;
            }
            "access_model" => {
                let unsupported = || specific(Condition::NotAcceptable, "unsupported-access-model");
                self.access = value_named(ACCESS, text).ok_or_else(unsupported)?;
            }
            "publish_model" => self.publish = value_named(PUBLISH, text).ok_or_else(|| impossible(var))?,
            "notification_type" => {
                self.notification = value_named(NOTIFICATION, text).ok_or_else(|| impossible(var))?
            }
            "send_last_published_item" => {
                self.send_last = value_named(SEND_LAST, text).ok_or_else(|| impossible(var))?
            }
            "max_items" => self.max_items = bound(var, text)?,
            "item_expire" => self.item_expire = bound(var, text)?.map(|seconds| seconds as u64),
            "max_payload_size" => self.max_payload = bound(var, text)?,
            "persist_items" => self.persist_items = read_boolean(var, text)?,
            "deliver_payloads" => self.deliver_payloads = read_boolean(var, text)?,
            "deliver_notifications" => self.deliver_notifications = read_boolean(var, text)?,
            "notify_config" => self.notify_config = read_boolean(var, text)?,
            "notify_delete" => self.notify_delete = read_boolean(var, text)?,
            "notify_retract" => self.notify_retract = read_boolean(var, text)?,
            "notify_sub" => self.notify_sub = read_boolean(var, text)?,
            "presence_based_delivery" => self.presence_based = read_boolean(var, text)?,
            "itemreply" => self.publisher = value_named(ITEM_REPLY, text).ok_or_else(|| impossible(var))?,
            "roster_groups_allowed" => {
                self.roster_groups =
                    values.iter().take(MAX_GROUPS).map(|group| short(group)).collect::<Result<_, _>>()?;
            }
            // There are no collections, so the value is only checked.
            "node_type" => drop(value_named(NODE_TYPE, text).ok_or_else(|| impossible(var))?),
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Returns the configuration as a form: `submit` for the store, `result` for others.
    pub(crate) fn form(&self, type_: &str) -> Form {
        self.form_with(type_, &[])
    }

    /// Returns the form to be filled in, with the groups of a roster to choose from.
    pub(crate) fn form_with(&self, type_: &str, groups: &[String]) -> Form {
        let more = groups.iter().filter(|group| !self.roster_groups.contains(group));
        let groups = self.roster_groups.iter().chain(more).take(MAX_OPTIONS);
        let text = |var: &str, value: &str| Field::text_single(&name(var)).value(value);
        let boolean = |var: &str, value: bool| Field::boolean(&name(var), value);
        let number = |bound: Option<usize>| bound.map_or("max".to_owned(), |number| number.to_string());
        Form::new(type_)
            .hidden("FORM_TYPE", NODE_CONFIG)
            .field(choice("node_type", NODE_TYPE, ()).label("The kind of node"))
            .field(text("title", &self.title).label("A short name for the node"))
            .field(text("description", &self.description).label("The topic of the node"))
            .field(text("type", &self.type_).label("The namespace of its payloads"))
            .field(
                Field::jid_multi(&name("contact"))
                    .label("A contact for questions about the node")
                    .with_values(self.contact.iter().map(Jid::as_str)),
            )
            .field(choice("access_model", ACCESS, self.access).label("Who may subscribe and retrieve items"))
            .field(
                groups
                    .fold(Field::list_multi(&name("roster_groups_allowed")), |field, group| field.option(group, group))
                    .label("Roster groups that may subscribe, for the access model roster")
                    .with_values(self.roster_groups.iter().map(String::as_str)),
            )
            .field(choice("publish_model", PUBLISH, self.publish).label("Who may publish"))
            .field(boolean("persist_items", self.persist_items).label("Keep items"))
            .field(text("max_items", &number(self.max_items)).label("How many items are kept"))
            .field(
                text("item_expire", &number(self.item_expire.map(|seconds| seconds as usize)))
                    .label("Seconds after which items are removed"),
            )
            .field(text("max_payload_size", &number(self.max_payload)).label("Maximum size of a payload in bytes"))
            .field(boolean("deliver_notifications", self.deliver_notifications).label("Notify subscribers"))
            .field(boolean("deliver_payloads", self.deliver_payloads).label("Notify with payloads"))
            .field(boolean("notify_config", self.notify_config).label("Notify of changes of the configuration"))
            .field(boolean("notify_delete", self.notify_delete).label("Notify when the node is deleted"))
            .field(boolean("notify_retract", self.notify_retract).label("Notify when items are removed"))
            .field(boolean("notify_sub", self.notify_sub).label("Notify owners of new and lost subscribers"))
            .field(choice("notification_type", NOTIFICATION, self.notification).label("The type of notifications"))
            .field(boolean("presence_based_delivery", self.presence_based).label("Notify only users who are available"))
            .field(choice("send_last_published_item", SEND_LAST, self.send_last).label("When to send the last item"))
            .field(choice("itemreply", ITEM_REPLY, self.publisher).label("The publisher that a notification names"))
    }

    /// Returns the bytes that the store keeps.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        Writer::write(&self.form("submit").element()).into_bytes()
    }

    /// Applies stored bytes over the defaults. A damaged field counts as missing.
    pub(crate) fn read(mut self, bytes: &[u8]) -> Self {
        if let Some(form) = Element::parse(bytes).ok().and_then(|element| Form::read(&element)) {
            // A field with an invalid value keeps its default.
            for field in form.fields() {
                if let Some(var) = field.var().strip_prefix("pubsub#") {
                    self.set(var, field.all()).ok();
                }
            }
        }
        self
    }

    /// Returns the name of the access model.
    pub(crate) fn access_name(&self) -> &'static str {
        name_of(ACCESS, self.access)
    }

    /// Returns the name of the publish model.
    pub(crate) fn publish_name(&self) -> &'static str {
        name_of(PUBLISH, self.publish)
    }

    /// Returns the type of its notifications. Those for available resources only are headlines,
    /// which aren't stored for later (RFC 6121 §5.2.2).
    pub(crate) fn message_type(&self) -> Option<&'static str> {
        match self.notification {
            _ if self.presence_based => Some("headline"),
            Notification::Headline => Some("headline"),
            Notification::Chat => Some("chat"),
            Notification::Normal => None,
        }
    }
}

fn name(var: &str) -> String {
    format!("pubsub#{var}")
}

fn choice<T: Copy + PartialEq>(var: &str, names: FieldNames<T>, value: T) -> Field {
    let field =
        names.iter().fold(Field::list_single(&name(var)), |field, (_, value, label)| field.option(value, label));
    field.value(name_of(names, value))
}

fn name_of<T: Copy + PartialEq>(names: FieldNames<T>, value: T) -> &'static str {
    names.iter().find(|(found, ..)| *found == value).map_or("", |(_, name, _)| name)
}

fn value_named<T: Copy>(names: FieldNames<T>, name: &str) -> Option<T> {
    names.iter().find(|(_, found, _)| *found == name).map(|(value, ..)| *value)
}

/// Reads a number; `max` and an empty text mean none.
fn bound(var: &str, text: &str) -> Result<Option<usize>, StanzaError> {
    match text {
        "" | "max" => Ok(None),
        text if text.bytes().all(|byte| byte.is_ascii_digit()) => Ok(Some(text.parse().unwrap_or(usize::MAX))),
        _ => Err(impossible(var)),
    }
}

fn read_boolean(var: &str, text: &str) -> Result<bool, StanzaError> {
    match text {
        "1" | "true" => Ok(true),
        "0" | "false" => Ok(false),
        _ => Err(impossible(var)),
    }
}

fn short(text: &str) -> Result<String, StanzaError> {
    if text.len() > MAX_TEXT {
        return Err(StanzaError::new(Condition::NotAcceptable).with_text("a text is too long"));
    }
    Ok(text.to_owned())
}

fn impossible(var: &str) -> StanzaError {
    StanzaError::new(Condition::NotAcceptable).with_text(format!("the value of pubsub#{var} isn't valid"))
}

const ACCESS: FieldNames<Access> = &[
    (Access::Open, "open", "Everybody"),
    (Access::Presence, "presence", "Users who see the owner's presence"),
    (Access::Roster, "roster", "Users in some groups of the owner's roster"),
    (Access::Authorize, "authorize", "Users approved by an owner"),
    (Access::Whitelist, "whitelist", "Members"),
];

const PUBLISH: FieldNames<Publish> = &[
    (Publish::Publishers, "publishers", "Publishers"),
    (Publish::Subscribers, "subscribers", "Subscribers"),
    (Publish::Open, "open", "Everybody"),
];

const NOTIFICATION: FieldNames<Notification> = &[
    (Notification::Normal, "normal", "Normal, stored for users who are offline"),
    (Notification::Headline, "headline", "Headline, for users who are online"),
    (Notification::Chat, "chat", "Chat"),
];

const SEND_LAST: FieldNames<SendLast> = &[
    (SendLast::Never, "never", "Never"),
    (SendLast::OnSub, "on_sub", "To new subscribers"),
    (SendLast::OnSubAndPresence, "on_sub_and_presence", "To new subscribers and subscribers who become available"),
];

const NODE_TYPE: FieldNames<()> = &[((), "leaf", "One with items")];

const ITEM_REPLY: FieldNames<bool> = &[(false, "owner", "Nobody"), (true, "publisher", "The publisher")];

/// The form of a configuration.
pub(super) const NODE_CONFIG: &str = "http://jabber.org/protocol/pubsub#node_config";
/// The beginning of the names of nodes that hold keys (XEP-0384).
const OMEMO: &str = "eu.siacs.conversations.axolotl.";
/// The most bytes of a text.
const MAX_TEXT: usize = 2000;
/// The most addresses of contacts.
const MAX_CONTACTS: usize = 20;
/// The most roster groups that are offered.
const MAX_OPTIONS: usize = 200;
/// The most roster groups that a node may name.
const MAX_GROUPS: usize = 50;

/// Returns the time before which items have expired, in milliseconds since 1970.
pub(super) fn since(config: &NodeConfig, now_ms: u64) -> u64 {
    config.item_expire.map_or(0, |seconds| now_ms.saturating_sub(seconds.saturating_mul(1000)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn submit(fields: &[(&str, &[&str])]) -> Form {
        fields.iter().fold(Form::new("submit"), |form, (var, values)| {
            form.field(Field::plain(&name(var)).with_values(values.iter().copied()))
        })
    }

    #[test]
    fn a_stored_configuration_is_read_as_it_was() {
        let mut config = NodeConfig::of_account("x");
        let form = submit(&[
            ("title", &["Ideas & more"]),
            ("contact", &["a@example.org", "b@example.org"]),
            ("access_model", &["roster"]),
            ("roster_groups_allowed", &["Friends", "Servants"]),
            ("publish_model", &["open"]),
            ("max_items", &["max"]),
            ("item_expire", &["604800"]),
            ("max_payload_size", &["1028"]),
            ("persist_items", &["0"]),
            ("deliver_payloads", &["false"]),
            ("notification_type", &["normal"]),
            ("send_last_published_item", &["never"]),
            ("itemreply", &["publisher"]),
        ]);
        assert_eq!(config.apply(&form), Ok(true));
        assert_eq!((config.max_items, config.item_expire, config.max_payload), (None, Some(604_800), Some(1028)));
        assert_eq!(NodeConfig::of_service().read(&config.to_bytes()), NodeConfig { ..config.clone() });
        assert_eq!(config.clone().apply(&submit(&[("max_items", &["18446744073709551616"])])), Ok(true));
    }

    #[test]
    fn impossible_values_are_refused() {
        for (var, value) in [
            ("access_model", "closed"),
            ("publish_model", ""),
            ("max_items", "-1"),
            ("max_items", "1 OR 1=1"),
            ("persist_items", "maybe"),
            ("contact", "@"),
            ("node_type", "collection"),
            ("title", &"x".repeat(2001)),
        ] {
            assert!(NodeConfig::of_service().apply(&submit(&[(var, &[value])])).is_err(), "{var} {value}");
        }
        assert_eq!(NodeConfig::of_service().apply(&submit(&[("children", &["x"])])), Ok(false));
        assert_eq!(NodeConfig::of_service().read(b"<damaged").access, Access::Open);
    }
}
