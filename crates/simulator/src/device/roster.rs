//! Contacts as a device knows them (RFC 6121 §2).

use std::collections::BTreeMap;

use rookery_xml::Element;

use super::Device;
use crate::book::Book;

/// An item of a roster, as its owner's client has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RosterEntry {
    /// The state of the subscription.
    pub subscription: String,
    /// True if a subscription is asked for.
    pub asks: bool,
    /// The name.
    pub name: String,
}

impl Device {
    /// Asks for the whole roster.
    pub fn ask_roster(&mut self, book: &mut Book) {
        self.ask("roster", "get", None, "<query xmlns='jabber:iq:roster'/>", book);
    }

    /// Asks for what has changed since it was told the roster last, if it keeps that (§2.6.2); for
    /// the whole roster else.
    pub(super) fn ask_changes(&mut self, book: &mut Book) {
        if !self.plan.keeps_roster {
            return self.ask_roster(book);
        }
        let version = self.known.as_ref().map_or("", |(version, _)| version);
        let query = format!("<query xmlns='jabber:iq:roster' ver='{version}'/>");
        self.ask("roster", "get", None, &query, book);
    }

    /// Takes the answer to its question: no roster means that it has the newest, or will have it
    /// by pushes (§2.6.3).
    pub(super) fn take_roster(&mut self, query: Option<&Element>) {
        match query {
            Some(query) => {
                let mut roster = BTreeMap::new();
                query.children().for_each(|item| take_item(&mut roster, item));
                self.known = query.attr("ver").map(|version| (version.to_owned(), roster.clone()));
                self.roster = Some(roster);
            }
            None => self.roster = self.known.as_ref().map(|(_, items)| items.clone()),
        }
    }

    /// Takes a push (§2.1.6).
    pub(super) fn take_push(&mut self, query: &Element) {
        let roster = self.roster.get_or_insert_default();
        query.children().for_each(|item| take_item(roster, item));
        if let Some((version, items)) = &mut self.known {
            query.children().for_each(|item| take_item(items, item));
            query.attr("ver").into_iter().for_each(|new| new.clone_into(version));
        }
    }
}

fn take_item(roster: &mut BTreeMap<String, RosterEntry>, item: &Element) {
    let Some(jid) = item.attr("jid") else { return };
    let text = |name: &str| item.attr(name).unwrap_or_default().to_owned();
    if item.attr("subscription") == Some("remove") {
        roster.remove(jid);
        return;
    }
    let asks = item.attr("ask") == Some("subscribe");
    roster.insert(jid.to_owned(), RosterEntry { subscription: text("subscription"), asks, name: text("name") });
}
