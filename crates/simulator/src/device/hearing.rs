//! Stanzas that a device receives, and its reactions.

use rookery_xml::{Element, ns};

use super::{Archived, UserDevice, account_of, room_of};
use crate::book::{Book, How, Stay};
use crate::peer::FORGED;

impl UserDevice {
    /// Handles an element of a session.
    pub(super) fn hear(&mut self, element: &Element, book: &mut Book) {
        if element.ns() != ns::CLIENT {
            return self.element(element, book);
        }
        if let Some(managed) = self.managed.as_mut().filter(|managed| managed.counts) {
            managed.handled = managed.handled.wrapping_add(1);
        }
        let to = element.attr("to");
        if to.is_some_and(|to| to != self.full() && to != self.bare) {
            book.break_rule(format!("{} got a stanza for {to:?}", self.full()));
        }
        match element.name() {
            "message" => self.message(element, book),
            "presence" => self.presence(element, book),
            "iq" => self.iq(element, book),
            other => book.break_rule(format!("{} got <{other}/>", self.full())),
        }
    }

    fn element(&mut self, element: &Element, book: &mut Book) {
        let h = element.attr("h").and_then(|h| h.parse().ok());
        match (element.ns(), element.name(), h) {
            (ns::SM, "enabled", _) => {
                if let Some(managed) = &mut self.managed {
                    managed.counts = true;
                    managed.id = element.attr("id").map(str::to_owned);
                }
            }
            (ns::SM, "r", _) => {
                if let Some(handled) = self.managed.as_ref().map(|managed| managed.handled) {
                    self.write(&format!("<a xmlns='{}' h='{handled}'/>", ns::SM), book);
                }
            }
            (ns::SM, "a", Some(h)) => self.acknowledged(h, book),
            (ns::STREAMS, "error", _) => {
                self.has_conflict = element.children().any(|child| child.name() == "conflict");
            }
            // The features that remain after a session was bound by XEP-0386.
            (ns::STREAMS, "features", _) if self.plan.login.is_sasl2() => {}
            _ => book.break_rule(format!("{} got <{} xmlns='{}'/>", self.full(), element.name(), element.ns())),
        }
    }

    fn message(&mut self, element: &Element, book: &mut Book) {
        let Some(session) = self.session else { return };
        let number = number_of(element);
        if self.is_from_abroad(element, session, book) {
            return;
        }
        if element.attr("type") == Some("error") {
            let id = element.attr("id").and_then(|id| id.strip_prefix('m')?.parse::<usize>().ok());
            return self.refused(id, book);
        }
        if let Some(result) = element.child("result", "urn:xmpp:mam:2") {
            return self.record_archived(element, result, book);
        }
        for direction in ["received", "sent"] {
            if let Some(carbon) = element.child(direction, "urn:xmpp:carbons:2") {
                if element.attr("from") != Some(&*self.bare) {
                    book.break_rule(format!("{} got a carbon from {:?}", self.full(), element.attr("from")));
                }
                let Some((copy, number)) = forwarded_message(carbon).and_then(|copy| Some((copy, number_of(copy)?)))
                else {
                    return;
                };
                self.tell_archive_id(copy, number, book);
                check_correction(copy, number, book);
                return book.hear(session, number, How::Carbon);
            }
        }
        if let Some(event) = element.child("event", ns::PUBSUB_EVENT) {
            return self.hear_news(element.attr("from"), event, book);
        }
        let Some(number) = number else { return };
        let is_late = element.child("delay", "urn:xmpp:delay").is_some();
        let room = element.attr("from").and_then(room_of);
        match room.filter(|_| element.attr("type") == Some("groupchat")) {
            Some((room, _)) if !is_late => {
                if let Some(id) = archive_id(element, &super::room(room), number, book) {
                    book.name_in_room(room, number, id);
                }
                self.hear_in_room(room, number, book);
            }
            Some(_) => {}
            None => {
                self.tell_archive_id(element, number, book);
                check_correction(element, number, book);
                book.hear(session, number, if is_late { How::Late } else { How::Live });
                let from = element.attr("from").filter(|_| element.child("request", ns::RECEIPTS).is_some());
                from.into_iter().for_each(|from| self.confirm(number, from, book));
            }
        }
    }

    /// Records the id of a message in the account's archive, if the message contains it (XEP-0359
    /// §3).
    fn tell_archive_id(&self, message: &Element, number: usize, book: &mut Book) {
        if let Some(id) = archive_id(message, &self.bare, number, book) {
            book.name(self.plan.account, number, id);
        }
    }

    /// Handles a message from a user of another server, or the error of a message to such a user.
    /// Returns whether the element was one of these.
    fn is_from_abroad(&self, element: &Element, session: usize, book: &mut Book) -> bool {
        let from = element.attr("from").unwrap_or_default();
        let body = element.child_text("body", ns::CLIENT).unwrap_or_default();
        let number = |text: &str, kind: &str| text.strip_prefix(kind).and_then(|rest| rest.parse::<usize>().ok());
        if body == FORGED {
            book.break_rule(format!("{} got what {from} has not sent (RFC 6120 §8.1.2.2)", self.full()));
            return true;
        }
        if element.attr("type") == Some("error") {
            let Some(number) = element.attr("id").and_then(|id| number(id, "out")) else { return false };
            let error = element.child("error", ns::CLIENT);
            let condition = error.and_then(|error| error.children().next()).map(Element::name);
            book.refuse_abroad(session, number, condition.unwrap_or_default());
            return true;
        }
        let Some(number) = number(&body, "in") else { return false };
        let is_live = element.child("delay", "urn:xmpp:delay").is_none();
        book.hear_home(session, from, number, is_live);
        true
    }

    fn hear_in_room(&mut self, room: usize, number: usize, book: &mut Book) {
        let Some(seat) = self.seats.get(room).filter(|seat| seat.nick.is_some()) else {
            // The message was on its way to an earlier session with the same address.
            return;
        };
        let heard = &mut book.stays[seat.stay].heard;
        if heard.contains(&number) {
            if book.doubtful.contains(&number) {
                return;
            }
            return book.break_rule(format!("{} got message {number} of room {room} twice", self.full()));
        }
        heard.push(number);
        if book.is_shut_out(room, self.plan.account) {
            let name = self.full();
            book.break_rule(format!(
                "{name} got message {number} of room {room}, of which it is no member (XEP-0045 §7.2.7)"
            ));
        }
    }

    /// Configures a room that it has created (XEP-0045 §10.1.2).
    fn open_room(&mut self, room: usize, book: &mut Book) {
        let field = |name: &str, value: &str| format!("<field var='{name}'><value>{value}</value></field>");
        let is_closed = book.rooms.for_members.contains(&room);
        let fields = match is_closed {
            true => field("FORM_TYPE", ROOM_CONFIG) + &field("muc#roomconfig_membersonly", "1"),
            false => String::new(),
        };
        let form = format!("<x xmlns='jabber:x:data' type='submit'>{fields}</x>");
        let query = format!("<query xmlns='http://jabber.org/protocol/muc#owner'>{form}</query>");
        let id = self.ask("open", "set", Some(&super::room(room)), &query, book);
        if is_closed {
            self.opening.insert(id, room);
        }
    }

    fn refused(&mut self, number: Option<usize>, book: &mut Book) {
        let Some(session) = self.session else { return };
        let Some(number) = number else { return };
        match book.messages.get_mut(number) {
            Some(message) if message.account == book.sessions[session].account => message.is_refused = true,
            _ => book.break_rule(format!("{} got the error of message {number}", self.full())),
        }
    }

    fn record_archived(&mut self, message: &Element, result: &Element, book: &mut Book) {
        let address = self.archive.as_deref().unwrap_or(&self.bare);
        if message.attr("from").is_some_and(|from| from != address) {
            book.break_rule(format!("{} got an archived message from {:?}", self.full(), message.attr("from")));
        }
        let number = forwarded_message(result).and_then(number_of);
        forwarded_message(result)
            .zip(number)
            .into_iter()
            .for_each(|(copy, number)| check_correction(copy, number, book));
        if let (Some(id), Some(number)) = (result.attr("id"), number) {
            self.archived.push(Archived { id: id.to_owned(), number });
        }
    }

    fn presence(&mut self, element: &Element, book: &mut Book) {
        let Some(from) = element.attr("from") else { return };
        if let Some((room, nick)) = room_of(from) {
            return self.occupant(room, nick, element, book);
        }
        match element.attr("type") {
            None => {
                let status = element.child_text("status", ns::CLIENT);
                let number = status.and_then(|status| status.strip_prefix('p')?.parse().ok());
                if from == self.full() && self.blind.take_if(|first| Some(*first) == number).is_some() {
                    // Presence that arrived earlier belongs to the time before (RFC 6121 §4.2.2).
                    self.sight.clear();
                }
                let priority = element.child_text("priority", ns::CLIENT).and_then(|priority| priority.parse().ok());
                if from == self.full() && priority.unwrap_or(0) >= 0 {
                    self.session.into_iter().for_each(|session| book.sessions[session].takes = true);
                }
                match number {
                    Some(number) => drop(self.sight.insert(from.to_owned(), number)),
                    None => book.break_rule(format!("{} got a presence without its status", self.full())),
                }
            }
            Some("unavailable") => drop(self.sight.remove(from)),
            // Most users approve requests; some leave them unanswered for a while.
            Some("subscribe") => {
                let status = element.child_text("status", ns::CLIENT).unwrap_or_default();
                let (by, before) = status.strip_prefix('s').and_then(|rest| rest.split_once(' ')).unwrap_or_default();
                if let (Some(session), Ok(by), Ok(before)) = (self.session, by.parse(), before.parse()) {
                    book.hear_request(session, by, before);
                }
                let Some(contact) = account_of(from) else {
                    return self.say(format!("<presence type='subscribed' to='{from}'/>"), None, book);
                };
                if !(contact + self.plan.account).is_multiple_of(4) {
                    book.allowed.insert((self.plan.account, contact));
                    self.say(format!("<presence type='subscribed' to='{from}'/>"), None, book);
                }
            }
            Some(_) => {}
        }
    }

    fn occupant(&mut self, room: usize, nick: &str, element: &Element, book: &mut Book) {
        let Some(session) = self.session else { return };
        let (name, is_lasting) = (self.full(), self.can_resume() && self.is_ready());
        let Some(seat) = self.seats.get_mut(room) else { return };
        if element.attr("type") == Some("error")
            && !seat.take_reply_before(nick)
            && let Some(at) = seat.entering.iter().position(|entering| entering == nick)
        {
            seat.entering.remove(at);
        }
        let Some(user) = element.child("x", "http://jabber.org/protocol/muc#user") else { return };
        let has =
            |code: &str| user.children().any(|child| child.name() == "status" && child.attr("code") == Some(code));
        let item = user.children().find(|child| child.name() == "item");
        let attr = |name: &str| item.and_then(|item| item.attr(name)).unwrap_or_default().to_owned();
        match element.attr("type") {
            None => {
                seat.view.insert(nick.to_owned(), (attr("affiliation"), attr("role")));
                if has("110") {
                    if seat.nick.is_none() {
                        seat.stay = book.stays.len();
                        book.stays.push(Stay { room, session, heard: Vec::new() });
                    }
                    // An earlier session may have asked, which a node didn't hear for a while: its
                    // end comes next, and then the reply for this session.
                    if !seat.take_reply_before(nick) {
                        seat.is_own |= seat.entering.iter().any(|entering| entering == nick);
                        seat.entering.clear();
                    }
                    seat.nick = Some(nick.to_owned());
                    if has("201") {
                        book.create_room(room, self.plan.account);
                        self.open_room(room, book);
                    }
                }
            }
            Some("unavailable") => {
                seat.view.remove(nick);
                if has("110") && has("303") {
                    // While the client was inactive, the presence of its arrival in the room was
                    // outdated by this one before it could be sent.
                    seat.nick = seat.nick.is_some().then(|| attr("nick"));
                } else if has("110") {
                    let is_told_why = ["301", "307", "321", "322", "332"].into_iter().any(has);
                    let may_go = seat.leaves || is_told_why || !seat.is_own || book.store_failed;
                    if is_lasting && !may_go && book.node_deaths > 0 && book.losses() == 0 {
                        book.break_rule(format!("{name} is out of room {room}, and nobody has asked for that"));
                    }
                    seat.leave();
                }
            }
            Some(_) => {}
        }
    }

    fn iq(&mut self, element: &Element, book: &mut Book) {
        let (id, from) = (element.attr("id").unwrap_or_default().to_owned(), element.attr("from"));
        match element.attr("type") {
            Some("result" | "error") => {
                let Some(deaths) = self.asked.remove(&id) else {
                    // The reply may be for an earlier session with the same address. Also, the
                    // resource that was asked may reply and end before its acknowledgement arrives.
                    let mut before = book.sessions.iter().filter(|session| session.device == self.index);
                    // A session that moves continues without data that isn't stored in time: the
                    // reply then comes twice, and so does one that was on its way when a node died.
                    let may_come_again = match self.replied.get(&id) {
                        Some(deaths) => *deaths < book.deaths,
                        None => book.node_deaths > 0,
                    };
                    if before.nth(1).is_some() || id.starts_with("ask") || may_come_again {
                        return;
                    }
                    return book
                        .break_rule(format!("{} got an answer to {id}, which it did not wait for", self.full()));
                };
                self.replied.insert(id.clone(), deaths);
                self.answered(&id, element, book);
            }
            Some("set") if element.child("query", ns::ROSTER).is_some() => {
                if from.is_some_and(|from| from != self.bare) {
                    book.break_rule(format!("{} got a roster push from {from:?}", self.full()));
                }
                element.child("query", ns::ROSTER).into_iter().for_each(|query| self.take_push(query, book));
                self.say(format!("<iq type='result' id='{id}'/>"), None, book);
            }
            Some("get") if element.child("query", ns::DISCO_INFO).is_some() => self.tell_capabilities(element, book),
            _ => {
                let to = from.map(|from| format!(" to='{from}'")).unwrap_or_default();
                self.say(format!("<iq type='result' id='{id}'{to}/>"), None, book);
            }
        }
    }

    fn answered(&mut self, id: &str, element: &Element, book: &mut Book) {
        let is_error = element.attr("type") == Some("error");
        let listed = element.child("query", ns::DISCO_ITEMS).filter(|_| id.starts_with("nodes"));
        let mut listed = listed.into_iter().flat_map(Element::children).filter_map(|item| item.attr("node"));
        if listed.any(|node| node == "urn:simulated:whitelist") {
            book.break_rule(format!("{} sees that somebody else has a node for few (XEP-0060 §5.2)", self.full()));
        }
        if id.starts_with("foreign") && !is_error {
            book.break_rule(format!("{} may read the archive of somebody else (XEP-0313)", self.full()));
        }
        let condition = element.child("error", ns::CLIENT).and_then(|error| Some(error.children().next()?.name()));
        if id.starts_with("self") && condition == Some("not-acceptable") {
            let (name, room) = (self.full(), element.attr("from").unwrap_or_default());
            book.break_rule(format!("{name} believes that it is {room}, and is not there (XEP-0410 §3)"));
        }
        if id.starts_with("roster") && !is_error {
            self.take_roster(id, element.child("query", ns::ROSTER), book);
        }
        if let Some(number) = self.publishing.remove(id).filter(|_| !is_error) {
            book.items[number].is_done = true;
        }
        if let Some(number) = self.uploading.remove(id) {
            let slot = element.child("slot", ns::HTTP_UPLOAD);
            let url = |name| slot.and_then(|slot| slot.child(name, ns::HTTP_UPLOAD)?.attr("url")).unwrap_or_default();
            match condition {
                None => book.give_slot(number, url("put"), url("get")),
                Some(condition) => book.refuse_slot(number, condition),
            }
        }
        if let Some(room) = self.opening.remove(id).filter(|_| !is_error) {
            book.rooms.closed.insert(room);
        }
        if let Some(removal) = self.removing.remove(id).filter(|_| !is_error) {
            book.confirm_removal(removal);
        }
        if let Some((command, account)) = self.commands.remove(id).filter(|_| !is_error) {
            self.go_on_with(command, account, element, book);
        }
        if let Some(fin) = element.child("fin", "urn:xmpp:mam:2") {
            let set = fin.child("set", "http://jabber.org/protocol/rsm");
            let last = set.and_then(|set| set.child_text("last", "http://jabber.org/protocol/rsm"));
            self.page = Some((last, fin.attr("complete") == Some("true")));
        }
        if let Some(account) = self.unblocking.remove(id)
            && let Some(open) = book.unblocking.get_mut(&(self.plan.account, account))
        {
            *open -= 1;
        }
        if let Some((account, unblocked)) = self.blocking.remove(id).filter(|_| !is_error)
            && book.unblocked == unblocked
            && !book.removed.contains(&self.plan.account)
            && book.unblocking.get(&(self.plan.account, account)).is_none_or(|open| *open == 0)
        {
            let since = (book.messages.len(), book.items.len());
            book.blocks.insert((self.plan.account, account), since);
        }
    }
}

fn forwarded_message(wrapper: &Element) -> Option<&Element> {
    wrapper.child("forwarded", "urn:xmpp:forward:0")?.child("message", ns::CLIENT)
}

/// Returns the id that the archive `by` assigned to a message, if the message contains it. No
/// archive assigns two ids to a message.
fn archive_id<'a>(message: &'a Element, by: &str, number: usize, book: &mut Book) -> Option<&'a str> {
    let is_by = |child: &&Element| child.is("stanza-id", "urn:xmpp:sid:0") && child.attr("by") == Some(by);
    let mut found = message.children().filter(is_by);
    let first = found.next()?.attr("id");
    if found.next().is_some() {
        book.break_rule(format!("message {number} has two ids of {by} (XEP-0359 §3)"));
    }
    first
}

/// Checks that a message says which one it corrects, if it corrects any (XEP-0308 §3).
fn check_correction(message: &Element, number: usize, book: &mut Book) {
    let replaced = message.child("replace", ns::CORRECT).map(|replace| replace.attr("id").unwrap_or_default());
    let Some(sent) = book.messages.get(number) else { return };
    let corrects = sent.corrects.map(|last| format!("m{last}"));
    if replaced != corrects.as_deref() {
        book.break_rule(format!(
            "message {number} arrived as a correction of {replaced:?}, not {corrects:?} (XEP-0308 §3)"
        ));
    }
}

/// Returns the number of a message, which is its body, or of the message that a receipt confirms.
fn number_of(message: &Element) -> Option<usize> {
    let body = message.child_text("body", ns::CLIENT);
    let receipt = || message.child("received", ns::RECEIPTS).and_then(|_| message.attr("id").map(str::to_owned));
    body.or_else(receipt)?.strip_prefix('m')?.parse().ok()
}

/// The type of the form with a room's configuration.
const ROOM_CONFIG: &str = "http://jabber.org/protocol/muc#roomconfig";
