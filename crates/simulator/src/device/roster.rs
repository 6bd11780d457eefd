//! Contacts in the view of a device (RFC 6121 §2).

use std::collections::BTreeMap;

use rookery_xml::Element;

use super::{UserDevice, account_of};
use crate::book::Book;

/// An item of a roster, as the owner's client knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RosterEntry {
    /// The state of the subscription.
    pub subscription: String,
    /// True if a subscription is requested.
    pub asks: bool,
    /// The owner's name for the contact; empty if there is none.
    pub name: String,
}

impl UserDevice {
    /// Asks for the whole roster.
    pub fn ask_roster(&mut self, book: &mut Book) {
        self.ask("roster", "get", None, "<query xmlns='jabber:iq:roster'/>", book);
    }

    /// Asks for the changes since the last roster that it got, if it keeps rosters (§2.6.2), and
    /// otherwise for the whole roster.
    pub(super) fn ask_changes(&mut self, book: &mut Book) {
        if !self.plan.keeps_roster {
            return self.ask_roster(book);
        }
        let version = self.known.as_ref().map_or("", |(version, _)| version);
        let query = format!("<query xmlns='jabber:iq:roster' ver='{version}'/>");
        let since = version.parse().unwrap_or(0);
        let id = self.ask("roster", "get", None, &query, book);
        self.roster_asks.insert(id, since);
    }

    /// Handles the reply to its request. A reply without a roster means that the device has the
    /// newest version, or will get it by pushes (§2.6.3).
    pub(super) fn take_roster(&mut self, id: &str, query: Option<&Element>, book: &mut Book) {
        let since = self.roster_asks.remove(id);
        self.stale = 0;
        match query {
            Some(query) => {
                self.see_version(query, book);
                self.see_requests(query, book);
                let mut roster = BTreeMap::new();
                query.children().for_each(|item| take_item(&mut roster, item));
                self.known = query.attr("ver").map(|version| (version.to_owned(), roster.clone()));
                self.roster = Some(roster);
            }
            None => {
                self.roster = self.known.as_ref().map(|(_, items)| items.clone());
                // Changes that were pushed before the reply are pushed once more.
                self.version = since.map_or(self.version, |since| self.version.min(since));
            }
        }
    }

    /// Records which subscription requests the server knows, as the roster shows them (§3.1.2),
    /// unless another session has got a newer roster.
    fn see_requests(&self, query: &Element, book: &mut Book) {
        let version = query.attr("ver").and_then(|version| version.parse().ok()).unwrap_or(0);
        for item in query.children() {
            let Some(contact) = item.attr("jid").and_then(account_of) else { continue };
            let (pair, asks) = ((self.plan.account, contact), item.attr("ask") == Some("subscribe"));
            let sees = matches!(item.attr("subscription"), Some("to" | "both"));
            if sees {
                book.seen.insert(pair);
            }
            if book.asks.get(&pair).is_some_and(|(newest, _)| *newest > version) {
                continue;
            }
            book.asks.insert(pair, (version, asks));
            if asks || sees {
                book.asking.remove(&pair);
            }
        }
    }

    /// Records the version of the roster that it got. A session gets changes in their order
    /// (§2.6.3); it gets no change that an earlier session has not read.
    fn see_version(&mut self, query: &Element, book: &mut Book) {
        let Some(version) = query.attr("ver").and_then(|version| version.parse().ok()) else { return };
        if version < self.version && book.node_deaths == 0 {
            let (name, before) = (self.full(), self.version);
            book.break_rule(format!(
                "{name} was told version {version} of its roster behind {before} (RFC 6121 §2.6.3)"
            ));
        }
        self.version = self.version.max(version);
        book.tell_roster(self.plan.account, version);
    }

    /// Checks the age of a pushed change. A session that hasn't requested the roster gets no pushes
    /// (§2.2), and the roster that it then gets has all earlier changes: so a change that another
    /// session knew when this session began isn't pushed to this one before its roster.
    fn see_age(&self, query: &Element, book: &mut Book) {
        let Some(version) = query.attr("ver").and_then(|version| version.parse::<u64>().ok()) else { return };
        if version <= self.stale && book.node_deaths == 0 {
            let (name, stale) = (self.full(), self.stale);
            book.break_rule(format!(
                "{name} was told of version {version} of its roster before it was told its roster, of {stale} at least (RFC 6121 §2.2)"
            ));
        }
    }

    /// Handles a push (§2.1.6).
    pub(super) fn take_push(&mut self, query: &Element, book: &mut Book) {
        self.see_age(query, book);
        self.see_version(query, book);
        self.see_requests(query, book);
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
