//! Stanzas that a peer receives, and its reactions.

use rookery_xml::{Element, ns};

use super::{SimulatedPeer, USERS};
use crate::book::Book;
use crate::device::{DOMAIN, account_of};

impl SimulatedPeer {
    /// Handles a stanza of a stream. The stanza must be from a host of the server under test, and
    /// for this peer (RFC 6120 §8.1).
    pub(super) fn hear(&mut self, element: &Element, stream: usize, book: &mut Book) {
        let [from, to] = ["from", "to"].map(|name| element.attr(name).unwrap_or_default().to_owned());
        let domain = |jid: &str| jid.split('/').next().unwrap_or_default().rsplit('@').next().map(str::to_owned);
        let (sender, receiver) = (domain(&from).unwrap_or_default(), domain(&to).unwrap_or_default());
        let is_ours = sender == DOMAIN || sender.ends_with(&format!(".{DOMAIN}"));
        if !is_ours && sender != self.domain() || receiver != self.domain() {
            return book.break_rule(format!("{} got a stanza from {from:?} to {to:?} (RFC 6120 §8.1)", self.domain()));
        }
        let user = to.strip_prefix('w').and_then(|rest| rest.split('@').next()?.parse().ok());
        let user = user.filter(|user| *user < USERS);
        match (element.name(), user) {
            ("message", Some(_)) => book.hear_message(element, stream),
            ("presence", Some(user)) => self.hear_presence(user, &from, element, book),
            ("iq", _) if matches!(element.attr("type"), Some("get" | "set")) => {
                let id = element.attr("id").unwrap_or_default();
                let error =
                    "<error type='cancel'><service-unavailable xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error>";
                self.say(format!("<iq type='error' id='{id}' from='{to}' to='{from}'>{error}</iq>"), book);
            }
            _ => {}
        }
    }

    fn hear_presence(&mut self, user: usize, from: &str, element: &Element, book: &mut Book) {
        let Some(account) = account_of(from) else { return };
        match element.attr("type") {
            None => {
                let status = element.child_text("status", ns::CLIENT);
                match status.and_then(|status| status.strip_prefix('p')?.parse().ok()) {
                    Some(number) => drop(self.users[user].sight.insert(from.to_owned(), number)),
                    None => book.break_rule(format!("{} got a presence without its status", self.user(user))),
                }
            }
            Some("unavailable") => drop(self.users[user].sight.remove(from)),
            Some("subscribe") => {
                self.users[user].watchers.insert(account);
                self.send_subscription("subscribed", user, account, book);
                self.show_to(user, &crate::device::bare(account), book);
            }
            // An approval without a request is ignored (RFC 6121 §3.1.6).
            Some("subscribed") if self.users[user].asked.remove(&account) => {
                self.users[user].watched.insert(account);
            }
            Some("unsubscribe") => {
                self.hide_from(user, account, book);
                self.users[user].watchers.remove(&account);
            }
            // The cancellation may have crossed the request, whose answer is then ignored.
            Some("unsubscribed") => {
                let known = &mut self.users[user];
                if known.asked.contains(&account) {
                    known.crossed.insert(account);
                }
                self.forget_sight(user, account);
            }
            Some("probe") if self.users[user].watchers.contains(&account) => self.show_to(user, from, book),
            Some("probe") => self.send_subscription("unsubscribed", user, account, book),
            Some(_) => {}
        }
    }
}
