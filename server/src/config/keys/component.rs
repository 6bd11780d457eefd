//! The keys of a table `[component."NAME"]`.

use rookery_hub::RequestTypes;

use super::super::ComponentConfig;
use super::super::error::WrongValue;
use super::super::given::GivenValue;
use super::{file, path_text, put, quote};

/// The comment at the head of these tables in the example.
pub const ABOUT: &str = "One component (XEP-0114), such as a bridge to another network: a separate program that connects to an\n\
                         address of `components` in [listen] and serves all addresses of this name. The first one needs a\n\
                         restart.";

/// A key of a `[component."NAME"]` table.
pub struct ComponentKey {
    /// The name of the key within the table.
    pub name: &'static str,
    /// Its meaning.
    pub doc: &'static str,
    /// Puts a value into the component's configuration.
    pub set: fn(&mut ComponentConfig, &GivenValue<'_>) -> Result<(), WrongValue>,
    /// Returns its value as TOML, if it has one.
    pub show: fn(&ComponentConfig) -> Option<String>,
    /// A value for the example configuration, written as TOML.
    pub example: &'static str,
}

/// All keys of the table, in the order of the example.
pub const COMPONENT_KEYS: [ComponentKey; 9] = [
    ComponentKey {
        name: "secret",
        doc: "The secret with which the component proves its name.",
        set: |component, given| put(&mut component.secret, secret(given).map(Some)),
        show: |component| component.secret.as_ref().map(quote),
        example: "\"a long text that nobody can guess\"",
    },
    ComponentKey {
        name: "secret_file",
        doc: "A file with the secret instead; relative to this file.",
        set: |component, given| put(&mut component.secret_file, file(given)),
        show: |component| path_text(&component.secret_file),
        example: "\"/etc/rookery/bridge.secret\"",
    },
    ComponentKey {
        name: "roster",
        doc: "Its access to accounts' rosters (XEP-0356): \"none\", \"get\", \"set\" or \"both\". A bridge with \"both\" adds\n\
              its users itself.",
        set: |component, given| put(&mut component.privileges.roster, given.choice(REQUESTS)),
        show: |component| Some(quote(word(component.privileges.roster))),
        example: "\"both\"",
    },
    ComponentKey {
        name: "roster_pushes",
        doc: "true notifies it of changes to the rosters that it may read, as clients are notified.",
        set: |component, given| put(&mut component.privileges.roster_pushes, given.switch()),
        show: |component| Some(component.privileges.roster_pushes.to_string()),
        example: "false",
    },
    ComponentKey {
        name: "messages",
        doc: "true lets it send messages on behalf of accounts.",
        set: |component, given| put(&mut component.privileges.messages, given.switch()),
        show: |component| Some(component.privileges.messages.to_string()),
        example: "true",
    },
    ComponentKey {
        name: "presence",
        doc: "true shows it which accounts are available.",
        set: |component, given| put(&mut component.privileges.presence, given.switch()),
        show: |component| Some(component.privileges.presence.to_string()),
        example: "false",
    },
    ComponentKey {
        name: "roster_presence",
        doc: "true also shows it their contacts, including those on other servers. This needs a `roster` that it may read, and includes\n\
              `presence`.",
        set: |component, given| put(&mut component.privileges.roster_presence, given.switch()),
        show: |component| Some(component.privileges.roster_presence.to_string()),
        example: "false",
    },
    ComponentKey {
        name: "requests",
        doc: "Requests that it may make on behalf of accounts: a namespace, with \"get\", \"set\" or \"both\".",
        set: |component, given| put(&mut component.privileges.requests, given.list(request)),
        show: |component| {
            Some(list(component.privileges.requests.iter().map(|(name, which)| format!("{name} {}", word(*which)))))
        },
        example: "[\"http://jabber.org/protocol/pubsub both\", \"http://jabber.org/protocol/pubsub#owner set\"]",
    },
    ComponentKey {
        name: "delegated",
        doc: "Namespaces of requests to domains and accounts that it answers instead of the server (XEP-0355).",
        set: |component, given| put(&mut component.privileges.delegated, given.list(namespace)),
        show: |component| Some(list(component.privileges.delegated.iter().cloned())),
        example: "[\"urn:example:service\"]",
    },
];

const REQUESTS: &[(&str, RequestTypes)] = &[
    ("none", RequestTypes { get: false, set: false }),
    ("get", RequestTypes { get: true, set: false }),
    ("set", RequestTypes { get: false, set: true }),
    ("both", RequestTypes::BOTH),
];

fn word(requests: RequestTypes) -> &'static str {
    REQUESTS.iter().find(|(_, known)| *known == requests).map_or("none", |(word, _)| word)
}

fn list(texts: impl Iterator<Item = String>) -> String {
    format!("[{}]", texts.map(quote).collect::<Vec<_>>().join(", "))
}

fn request(given: GivenValue<'_>) -> Result<(String, RequestTypes), WrongValue> {
    given.parse_by("a namespace and \"get\", \"set\" or \"both\"", |text| {
        let (namespace, word) = text.split_once(' ')?;
        let (_, requests) = REQUESTS.iter().find(|(known, _)| *known == word.trim())?;
        (!namespace.is_empty()).then(|| (namespace.to_owned(), *requests))
    })
}

fn namespace(given: GivenValue<'_>) -> Result<String, WrongValue> {
    // XEP-0355 §9: neither delegation itself can be delegated, nor the privileges of components.
    let is_own = |text: &str| text.starts_with("urn:xmpp:delegation:") || text.starts_with("urn:xmpp:privilege:");
    given.parse_by("a namespace that can be delegated", |text| {
        (!text.is_empty() && !text.contains(' ') && !is_own(text)).then(|| text.to_owned())
    })
}

fn secret(given: &GivenValue<'_>) -> Result<String, WrongValue> {
    given.parse_by("a text of at least 8 characters", |text| (text.chars().count() >= 8).then(|| text.to_owned()))
}
