//! The tables of Prosody's `mod_storage_sql`: `prosody` has key-value stores, `prosodyarchive`
//! append-only ones.

use std::collections::BTreeMap;

use rookery_store::sql::foreign::{Foreign, ForeignKey, WantedRows};
use rookery_xml::{Element, ns};
use serde_json::{Map, Value};

use super::accounts::{ArchivePosition, ForeignAccounts, ForeignFault, MESSAGES, NAMES};
use super::credentials::{CredentialTexts, hash_of};
use super::elements::{archived_message, configure, damaged_element, element, item, nodes, request, roster_item, text};
use super::json::{notes, stanza, table, value};
use crate::{OURS, PIE};

/// The tables `prosody` and `prosodyarchive`.
pub(super) struct ProsodyTables {
    foreign: Foreign,
}

/// The stores of an account by their names.
type ProsodyStores = BTreeMap<String, Map<String, Value>>;

impl ProsodyTables {
    pub fn new(foreign: Foreign) -> Self {
        Self { foreign }
    }

    fn stores(&mut self, domain: &str, name: &str, parts: &mut Vec<Element>) -> Result<ProsodyStores, ForeignFault> {
        let equal = [("host", ForeignKey::Text(domain)), ("user", ForeignKey::Text(name))];
        let rows = self.foreign.rows(&WantedRows::of("prosody", &["store", "key", "type", "value"], &equal))?;
        let mut stores: BTreeMap<String, Vec<(String, Value)>> = BTreeMap::new();
        for row in &rows {
            let [store, key, kind, text] = [0, 1, 2, 3].map(|column| text(row, column));
            match value(kind, text) {
                Some(value) => stores.entry(store.to_owned()).or_default().push((key.to_owned(), value)),
                None => parts
                    .push(damaged_element(format!("the entry {key:?} of the store {store:?}, which can't be read"))),
            }
        }
        Ok(stores.into_iter().map(|(store, rows)| (store, table(rows.into_iter()))).collect())
    }

    /// Returns entries of an append-only store that come after a position, and the next position.
    fn entries(
        &mut self,
        (domain, name, store): (&str, &str, &str),
        after: Option<ArchivePosition>,
    ) -> Result<(Vec<ProsodyEntry>, Option<ArchivePosition>), ForeignFault> {
        let equal =
            [("host", ForeignKey::Text(domain)), ("user", ForeignKey::Text(name)), ("store", ForeignKey::Text(store))];
        let wanted = WantedRows::of("prosodyarchive", &["sort_id", "key", "when", "with", "value"], &equal);
        let after = ArchivePosition::keys(after);
        let rows = self.foreign.rows(&wanted.behind(&["sort_id"], after.as_deref(), MESSAGES))?;
        let last = ArchivePosition::of(rows.last(), 1);
        let entries = rows.iter().map(|row| ProsodyEntry {
            key: text(row, 1).to_owned(),
            // Older tables have whole seconds, newer tables fractions.
            unix_ms: (text(row, 2).parse::<f64>().unwrap_or_default() * 1000.0) as u64,
            with: text(row, 3).to_owned(),
            element: element(text(row, 4), "an entry in the archive"),
        });
        Ok((entries.collect(), last))
    }

    fn all_entries(&mut self, domain: &str, name: &str, store: &str) -> Result<Vec<ProsodyEntry>, ForeignFault> {
        let (mut all, mut after) = (Vec::new(), None);
        loop {
            let (entries, last) = self.entries((domain, name, store), after)?;
            all.extend(entries);
            match last {
                Some(_) => after = last,
                None => return Ok(all),
            }
        }
    }

    fn waiting(&mut self, domain: &str, name: &str, parts: &mut Vec<Element>) -> Result<(), ForeignFault> {
        let mut offline = Element::new("offline-messages", PIE);
        for ProsodyEntry { unix_ms, element: mut message, .. } in self.all_entries(domain, name, "offline")? {
            if message.ns() == OURS {
                parts.push(message);
                continue;
            }
            let delay = Element::new("delay", ns::DELAY).with_attr("from", domain);
            message.push_child(delay.with_attr("stamp", rookery_base::date::timestamp(unix_ms)));
            offline.push_child(message);
        }
        if offline.children().next().is_some() {
            parts.push(offline);
        }
        Ok(())
    }

    fn nodes(
        &mut self,
        (domain, name): (&str, &str),
        stores: &ProsodyStores,
        parts: &mut Vec<Element>,
    ) -> Result<(), ForeignFault> {
        let (mut configurations, mut all) = (Vec::new(), Vec::new());
        for (node, about) in stores.get("pep").into_iter().flatten().filter(|(node, _)| !node.starts_with("__")) {
            let config = about.get("config").and_then(Value::as_object).into_iter().flatten();
            let options: Vec<_> = config
                .filter_map(|(name, value)| match value {
                    Value::String(text) => Some((name.clone(), text.clone())),
                    Value::Number(_) | Value::Bool(_) => Some((name.clone(), value.to_string())),
                    _ => None,
                })
                .collect();
            configurations.push(configure(node, &options));
            let mut items = Element::new("items", ns::PUBSUB).with_attr("node", node);
            for entry in self.all_entries(domain, name, &format!("pep_{node}"))? {
                match item(&entry.key, &entry.with, entry.element) {
                    told if told.ns() == OURS => parts.push(told),
                    item => items.push_child(item),
                }
            }
            all.push(items);
        }
        parts.extend(nodes(configurations, all));
        Ok(())
    }
}

/// An entry of an append-only store.
struct ProsodyEntry {
    key: String,
    unix_ms: u64,
    with: String,
    element: Element,
}

impl ForeignAccounts for ProsodyTables {
    fn domains(&mut self) -> Result<Option<Vec<String>>, ForeignFault> {
        let equal = [("store", ForeignKey::Text("accounts"))];
        let wanted = WantedRows { distinct: true, order: &["host"], ..WantedRows::of("prosody", &["host"], &equal) };
        let rows = self.foreign.rows(&wanted)?;
        Ok(Some(rows.iter().map(|row| text(row, 0).to_owned()).collect()))
    }

    fn names(&mut self, domain: &str, after: Option<&str>) -> Result<Vec<String>, ForeignFault> {
        let equal = [("host", ForeignKey::Text(domain)), ("store", ForeignKey::Text("accounts"))];
        let wanted = WantedRows { distinct: true, ..WantedRows::of("prosody", &["user"], &equal) };
        let after = after.map(|name| [ForeignKey::Text(name)]);
        let rows = self.foreign.rows(&wanted.behind(&["user"], after.as_ref().map(<[_; 1]>::as_slice), NAMES))?;
        Ok(rows.iter().map(|row| text(row, 0).to_owned()).collect())
    }

    fn account(&mut self, domain: &str, name: &str) -> Result<(Option<String>, Vec<Element>), ForeignFault> {
        let mut parts = Vec::new();
        let stores = self.stores(domain, name, &mut parts)?;
        let empty = Map::new();
        let store = |name: &str| stores.get(name).unwrap_or(&empty);
        let password = credentials(store("accounts"), &mut parts);
        roster(store("roster"), &format!("{name}@{domain}"), &mut parts);
        self.waiting(domain, name, &mut parts)?;
        parts.extend(stanza(store("vcard"), "", 0));
        private(store("private"), &mut parts);
        make_block_list(store("blocklist"), &mut parts);
        self.nodes((domain, name), &stores, &mut parts)?;
        Ok((password, parts))
    }

    fn archive(
        &mut self,
        domain: &str,
        name: &str,
        after: Option<ArchivePosition>,
    ) -> Result<(Vec<Element>, Option<ArchivePosition>), ForeignFault> {
        let (entries, last) = self.entries((domain, name, "archive"), after)?;
        let messages = entries.into_iter().map(|entry| archived_message(&entry.key, entry.unix_ms, entry.element));
        Ok((messages.collect(), last))
    }
}

/// Reads the password, or adds the keys to the parts. The length of the keys shows their hash.
fn credentials(account: &Map<String, Value>, parts: &mut Vec<Element>) -> Option<String> {
    let text = |name: &str| account.get(name).and_then(Value::as_str).unwrap_or_default();
    let (stored, server) = (text("stored_key"), text("server_key"));
    if !stored.is_empty() {
        let iterations = account.get("iteration_count").map(Value::to_string).unwrap_or_default();
        parts.push(match hash_of(stored.len() / 2) {
            Some(hash) => {
                CredentialTexts { hash, stored, server, salt: text("salt"), iterations: &iterations }.hexadecimal()
            }
            None => damaged_element("keys of an unknown length"),
        });
        return None;
    }
    Some(text("password").to_owned()).filter(|password| !password.is_empty())
}

fn roster(contacts: &Map<String, Value>, owner: &str, parts: &mut Vec<Element>) {
    let mut query = Element::new("query", ns::ROSTER);
    for (jid, contact) in contacts.iter().filter(|(jid, _)| !jid.starts_with("__")) {
        let Some(contact) = contact.as_object() else { continue };
        let text = |name: &str| contact.get(name).and_then(Value::as_str).unwrap_or_default();
        let groups =
            contact.get("groups").and_then(Value::as_object).into_iter().flatten().map(|(group, _)| group.clone());
        query.push_child(roster_item(
            jid,
            text("name"),
            text("subscription"),
            text("ask") == "subscribe",
            groups.collect(),
        ));
    }
    parts.push(query);
    let pending = notes(contacts).and_then(|notes| notes.get("pending")?.as_object()).into_iter().flatten();
    parts.extend(pending.map(|(from, _)| request(from, owner, "")));
}

fn private(stored: &Map<String, Value>, parts: &mut Vec<Element>) {
    let mut query = Element::new("query", ns::PRIVATE);
    for (key, data) in stored.iter().filter(|(key, _)| !key.starts_with("__")) {
        match data.as_object().and_then(|data| stanza(data, "", 0)) {
            Some(data) => query.push_child(data),
            None => parts.push(damaged_element(format!("the private data {key:?}, which can't be read"))),
        }
    }
    parts.push(query);
}

/// Makes the list of blocked contacts.
fn make_block_list(stored: &Map<String, Value>, parts: &mut Vec<Element>) {
    let jids = stored.keys().filter(|jid| !jid.starts_with("__"));
    let items = jids.zip(1..).map(|(jid, order)| {
        let item = Element::new("item", ns::PRIVACY).with_attr("type", "jid").with_attr("value", jid);
        item.with_attr("action", "deny").with_attr("order", order.to_string())
    });
    let list = items.fold(Element::new("list", ns::PRIVACY).with_attr("name", BLOCKED), Element::with_child);
    if list.children().next().is_some() {
        let default = Element::new("default", ns::PRIVACY).with_attr("name", BLOCKED);
        parts.push(Element::new("query", ns::PRIVACY).with_child(default).with_child(list));
    }
}

const BLOCKED: &str = "blocked";
