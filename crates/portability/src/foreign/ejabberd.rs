//! The tables of ejabberd, and those of MongooseIM, which began as a copy of it.
//!
//! Newer tables of both servers have a column for the domain, under different names. The columns
//! that exist show which it is.

use std::collections::BTreeMap;

use rookery_sasl::Hash;
use rookery_store::sql::foreign::{Foreign, ForeignKey, TextRow, WantedRows};
use rookery_xml::{Element, ns};

use super::accounts::{ArchivePosition, ForeignAccounts, ForeignFault, MESSAGES, NAMES, has_table};
use super::credentials::{CredentialTexts, mongoose};
use super::elements::{archived_message, configure, damaged_element, element, item, nodes, request, roster_item, text};
use crate::{OURS, PIE};

/// The tables of one of the two servers.
pub(super) struct Tables {
    foreign: Foreign,
    is_mongoose: bool,
    /// The column for the domain in most tables, if they have one.
    domain: Option<&'static str>,
    /// True if the users table has a column for the kind of a row's keys.
    is_typed: bool,
    /// The optional tables, each with true if it exists.
    has: BTreeMap<&'static str, bool>,
}

impl Tables {
    /// Finds out which tables exist.
    pub fn of(mut foreign: Foreign, is_mongoose: bool) -> Result<Self, ForeignFault> {
        let server = if is_mongoose { "MongooseIM" } else { "ejabberd" };
        let columns = has_table(&mut foreign, "users", server)?;
        let has_column = |name: &str| columns.iter().any(|column| column == name);
        if !has_column("username") || has_column("pass_details") != is_mongoose {
            return Err(ForeignFault(format!("its table \"users\" isn't that of {server}")));
        }
        let domain = if is_mongoose { "server" } else { "server_host" };
        let domain = has_column(domain).then_some(domain);
        let is_typed = has_column("type");
        let mut has = BTreeMap::new();
        for table in OPTIONAL {
            has.insert(table, !foreign.columns(table)?.is_empty());
        }
        Ok(Self { foreign, is_mongoose, domain, is_typed, has })
    }

    /// Reads rows of an account, if the table exists.
    fn rows(
        &mut self,
        (table, name, domain): (&'static str, &str, &str),
        columns: &[&str],
        order: &[&str],
    ) -> Result<Vec<TextRow>, ForeignFault> {
        if self.has.get(table) == Some(&false) {
            return Ok(Vec::new());
        }
        let mut equal = vec![("username", ForeignKey::Text(name))];
        // The tables for vCards and offline messages have always had the domain in MongooseIM.
        let of_domain = match (self.is_mongoose, table) {
            (true, "vcard" | "offline_message") => Some("server"),
            _ => self.domain,
        };
        equal.extend(of_domain.map(|column| (column, ForeignKey::Text(domain))));
        let wanted = WantedRows { order, ..WantedRows::of(table, columns, &equal) };
        Ok(self.foreign.rows(&wanted)?)
    }

    fn credentials(
        &mut self,
        name: &str,
        domain: &str,
        parts: &mut Vec<Element>,
    ) -> Result<Option<String>, ForeignFault> {
        if self.is_mongoose {
            let rows = self.rows(("users", name, domain), &["password", "pass_details"], &[])?;
            let mut rows = rows.iter().map(|row| (text(row, 0), text(row, 1)));
            let (password, details) = rows.next().unwrap_or_default();
            return Ok(match mongoose(details).or_else(|| mongoose(password)) {
                Some(keys) => {
                    parts.extend(keys);
                    None
                }
                None => Some(password.to_owned()).filter(|password| !password.is_empty()),
            });
        }
        let columns: &[&str] = match self.is_typed {
            true => &["password", "serverkey", "salt", "iterationcount", "type"],
            false => &["password", "serverkey", "salt", "iterationcount"],
        };
        let mut plain = None;
        for row in self.rows(("users", name, domain), columns, &[])? {
            let [stored, server, salt, iterations, kind] = [0, 1, 2, 3, 4].map(|column| text(&row, column));
            let is_plain = if self.is_typed { kind == "1" } else { server.is_empty() || iterations == "0" };
            if is_plain {
                plain = Some(stored.to_owned()).filter(|password| !password.is_empty());
                continue;
            }
            let (prefix, stored) = stored.split_once(':').unwrap_or(("", stored));
            let hash = match (kind, prefix) {
                ("2" | "", "" | "sha") => Hash::Sha1,
                ("3", _) | ("", "sha256") => Hash::Sha256,
                ("4", _) | ("", "sha512") => Hash::Sha512,
                (kind, prefix) => {
                    parts.push(damaged_element(format!("keys of an unknown kind: type {kind:?} {prefix:?}")));
                    continue;
                }
            };
            parts.push(CredentialTexts { hash, stored, server, salt, iterations }.base64());
        }
        Ok(plain)
    }

    fn roster(&mut self, name: &str, domain: &str, parts: &mut Vec<Element>) -> Result<(), ForeignFault> {
        let mut groups: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for row in self.rows(("rostergroups", name, domain), &["jid", "grp"], &[])? {
            groups.entry(text(&row, 0).to_owned()).or_default().push(text(&row, 1).to_owned());
        }
        let columns = ["jid", "nick", "subscription", "ask", "askmessage"];
        let (mut roster, mut requests) = (Element::new("query", ns::ROSTER), Vec::new());
        for row in self.rows(("rosterusers", name, domain), &columns, &["jid"])? {
            let [jid, nick, subscription, ask, message] = [0, 1, 2, 3, 4].map(|column| text(&row, column).trim_end());
            if matches!(ask, "I" | "B") {
                requests.push(request(jid, &format!("{name}@{domain}"), message));
            }
            // A user who has only sent a request isn't a contact yet.
            if subscription == "N" && ask == "I" {
                continue;
            }
            let subscription = match subscription {
                "B" => "both",
                "T" => "to",
                "F" => "from",
                _ => "none",
            };
            let asks = matches!(ask, "O" | "B" | "S");
            roster.push_child(roster_item(jid, nick, subscription, asks, groups.remove(jid).unwrap_or_default()));
        }
        parts.push(roster);
        parts.extend(requests);
        Ok(())
    }

    /// Reads privacy lists, one of which is the block list.
    fn privacy(&mut self, name: &str, domain: &str, parts: &mut Vec<Element>) -> Result<(), ForeignFault> {
        let lists = self.rows(("privacy_list", name, domain), &["name", "id"], &["name"])?;
        if lists.is_empty() {
            return Ok(());
        }
        let mut query = Element::new("query", ns::PRIVACY);
        for row in self.rows(("privacy_default_list", name, domain), &["name"], &[])? {
            query.push_child(Element::new("default", ns::PRIVACY).with_attr("name", text(&row, 0)));
        }
        for row in &lists {
            let equal = [("id", ForeignKey::Number(text(row, 1).parse().unwrap_or_default()))];
            let wanted = WantedRows { order: &["ord"], ..WantedRows::of("privacy_list_data", &PRIVACY, &equal) };
            let items = self.foreign.rows(&wanted)?;
            let list = Element::new("list", ns::PRIVACY).with_attr("name", text(row, 0));
            query.push_child(items.iter().map(privacy_item).fold(list, Element::with_child));
        }
        parts.push(query);
        Ok(())
    }

    fn documents(&mut self, name: &str, domain: &str, parts: &mut Vec<Element>) -> Result<(), ForeignFault> {
        for row in self.rows(("vcard", name, domain), &["vcard"], &[])? {
            parts.push(element(text(&row, 0), "a vCard"));
        }
        let mut private = Element::new("query", ns::PRIVATE);
        for row in self.rows(("private_storage", name, domain), &["data"], &["namespace"])? {
            match element(text(&row, 0), "private data") {
                told if told.ns() == OURS => parts.push(told),
                data => private.push_child(data),
            }
        }
        parts.push(private);
        Ok(())
    }

    fn waiting(&mut self, name: &str, domain: &str, parts: &mut Vec<Element>) -> Result<(), ForeignFault> {
        let (table, column, order) =
            if self.is_mongoose { ("offline_message", "packet", "id") } else { ("spool", "xml", "seq") };
        let mut offline = Element::new("offline-messages", PIE);
        for row in self.rows((table, name, domain), &[column], &[order])? {
            match element(text(&row, 0), "a waiting message") {
                told if told.ns() == OURS => parts.push(told),
                message => offline.push_child(message),
            }
        }
        if offline.children().next().is_some() {
            parts.push(offline);
        }
        Ok(())
    }

    /// Reads personal nodes (XEP-0163), which have tables of their own in ejabberd.
    fn nodes(&mut self, name: &str, domain: &str, parts: &mut Vec<Element>) -> Result<(), ForeignFault> {
        if self.is_mongoose || self.has.get("pubsub_node") == Some(&false) {
            return Ok(());
        }
        let host = format!("{name}@{domain}");
        let equal = [("host", ForeignKey::Text(&host))];
        let wanted = WantedRows { order: &["nodeid"], ..WantedRows::of("pubsub_node", &["node", "nodeid"], &equal) };
        let (mut configurations, mut all) = (Vec::new(), Vec::new());
        for row in self.foreign.rows(&wanted)? {
            let node = text(&row, 0);
            let id = [("nodeid", ForeignKey::Number(text(&row, 1).parse().unwrap_or_default()))];
            let options = self.foreign.rows(&WantedRows::of("pubsub_node_option", &["name", "val"], &id))?;
            let options: Vec<_> =
                options.iter().map(|row| (text(row, 0).to_owned(), text(row, 1).to_owned())).collect();
            configurations.push(configure(node, &options));
            let wanted = WantedRows::of("pubsub_item", &["itemid", "publisher", "payload"], &id);
            let wanted = WantedRows { order: &["modification"], ..wanted };
            let mut items = Element::new("items", ns::PUBSUB).with_attr("node", node);
            for row in self.foreign.rows(&wanted)? {
                match item(text(&row, 0), text(&row, 1), element(text(&row, 2), "an item")) {
                    told if told.ns() == OURS => parts.push(told),
                    item => items.push_child(item),
                }
            }
            all.push(items);
        }
        parts.extend(nodes(configurations, all));
        Ok(())
    }

    /// Returns MongooseIM's number of an account's archive.
    fn archive_of(&mut self, name: &str, domain: &str) -> Result<Option<i64>, ForeignFault> {
        let equal = [("server", ForeignKey::Text(domain)), ("user_name", ForeignKey::Text(name))];
        let rows = self.foreign.rows(&WantedRows::of("mam_server_user", &["id"], &equal))?;
        Ok(rows.first().and_then(|row| text(row, 0).parse().ok()))
    }

    /// Reads MongooseIM's archive, whose ids are times in microseconds, shifted to the left by a
    /// byte.
    fn mongoose_archive(
        &mut self,
        domain: &str,
        name: &str,
        after: Option<ArchivePosition>,
    ) -> Result<(Vec<Element>, Option<ArchivePosition>), ForeignFault> {
        if self.has.get("mam_message") == Some(&false) {
            return Ok((Vec::new(), None));
        }
        let Some(archive) = self.archive_of(name, domain)? else { return Ok((Vec::new(), None)) };
        let equal = [("user_id", ForeignKey::Number(archive))];
        let wanted = WantedRows::of("mam_message", &["id", "message"], &equal);
        let after = ArchivePosition::keys(after);
        let rows = self.foreign.rows(&wanted.behind(&["id"], after.as_deref(), MESSAGES))?;
        let last = ArchivePosition::of(rows.last(), 1);
        let messages = rows.iter().map(|row| {
            let id = text(row, 0);
            let unix_ms = id.parse::<u64>().unwrap_or_default() / 256 / 1000;
            match text(row, 1) {
                xml if xml.trim_start().starts_with('<') => {
                    archived_message(id, unix_ms, element(xml, "an archived message"))
                }
                _ => damaged_element(format!(
                    "the archived message {id}, which isn't XML: MongooseIM's own format can't be read"
                )),
            }
        });
        Ok((messages.collect(), last))
    }
}

impl ForeignAccounts for Tables {
    fn domains(&mut self) -> Result<Option<Vec<String>>, ForeignFault> {
        let Some(column) = self.domain else { return Ok(None) };
        let columns = [column];
        let wanted = WantedRows { distinct: true, order: &columns, ..WantedRows::of("users", &columns, &[]) };
        let rows = self.foreign.rows(&wanted)?;
        Ok(Some(rows.iter().map(|row| text(row, 0).to_owned()).collect()))
    }

    fn names(&mut self, domain: &str, after: Option<&str>) -> Result<Vec<String>, ForeignFault> {
        let equal: Vec<_> = self.domain.iter().map(|column| (*column, ForeignKey::Text(domain))).collect();
        let wanted = WantedRows { distinct: true, ..WantedRows::of("users", &["username"], &equal) };
        let after = after.map(|name| [ForeignKey::Text(name)]);
        let rows = self.foreign.rows(&wanted.behind(&["username"], after.as_ref().map(<[_; 1]>::as_slice), NAMES))?;
        Ok(rows.iter().map(|row| text(row, 0).to_owned()).collect())
    }

    fn account(&mut self, domain: &str, name: &str) -> Result<(Option<String>, Vec<Element>), ForeignFault> {
        let mut parts = Vec::new();
        let password = self.credentials(name, domain, &mut parts)?;
        self.roster(name, domain, &mut parts)?;
        self.waiting(name, domain, &mut parts)?;
        self.documents(name, domain, &mut parts)?;
        self.privacy(name, domain, &mut parts)?;
        self.nodes(name, domain, &mut parts)?;
        Ok((password, parts))
    }

    /// Reads a page of ejabberd's archive. The position is the time of a message, in microseconds,
    /// and the number of its row, as many may be of the same time.
    fn archive(
        &mut self,
        domain: &str,
        name: &str,
        after: Option<ArchivePosition>,
    ) -> Result<(Vec<Element>, Option<ArchivePosition>), ForeignFault> {
        if self.is_mongoose {
            return self.mongoose_archive(domain, name, after);
        }
        if self.has.get("archive") == Some(&false) {
            return Ok((Vec::new(), None));
        }
        let mut equal = vec![("username", ForeignKey::Text(name))];
        equal.extend(self.domain.map(|column| (column, ForeignKey::Text(domain))));
        let wanted = WantedRows::of("archive", &["timestamp", "id", "xml"], &equal);
        let after = ArchivePosition::keys(after);
        let rows = self.foreign.rows(&wanted.behind(&["timestamp", "id"], after.as_deref(), MESSAGES))?;
        let last = ArchivePosition::of(rows.last(), 2);
        let messages = rows.iter().map(|row| {
            let id = text(row, 0);
            let unix_ms = id.parse::<u64>().unwrap_or_default() / 1000;
            archived_message(id, unix_ms, element(text(row, 2), "an archived message"))
        });
        Ok((messages.collect(), last))
    }
}

fn privacy_item(row: &TextRow) -> Element {
    let [kind, value, action, order] = [0, 1, 2, 3].map(|column| text(row, column).trim_end());
    let kind = match kind {
        "j" => Some("jid"),
        "g" => Some("group"),
        "s" => Some("subscription"),
        _ => None,
    };
    let item = Element::new("item", ns::PRIVACY).with_opt_attr("type", kind);
    let item = item.with_opt_attr("value", kind.map(|_| value));
    let item = item.with_attr("action", if action == "a" { "allow" } else { "deny" });
    let item = item.with_attr("order", order.split('.').next().unwrap_or_default());
    let is_set = |column: usize| matches!(text(row, column), "1" | "t" | "true");
    if is_set(4) {
        return item;
    }
    let kinds = ["iq", "message", "presence-in", "presence-out"];
    let chosen = kinds.iter().zip(5..).filter(|(_, column)| is_set(*column));
    chosen.fold(item, |item, (kind, _)| item.with_child(Element::new(*kind, ns::PRIVACY)))
}

const PRIVACY: [&str; 9] = [
    "t",
    "value",
    "action",
    "ord",
    "match_all",
    "match_iq",
    "match_message",
    "match_presence_in",
    "match_presence_out",
];

/// The tables that a database may lack, as they belong to modules that a server can do without.
const OPTIONAL: [&str; 11] = [
    "rosterusers",
    "rostergroups",
    "privacy_list",
    "privacy_default_list",
    "vcard",
    "private_storage",
    "spool",
    "offline_message",
    "pubsub_node",
    "archive",
    "mam_message",
];
