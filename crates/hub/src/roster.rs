//! Rosters: RFC 6121 §2. The store is authoritative; the shard keeps the subscriptions of users
//! who are online.

use rookery_fanout::{Link, Packet, To};
use rookery_jid::Jid;
use rookery_store::{Changed, Changes, Edit, EditRoster, Roster, RosterChange, RosterItem, SizeOf, Subscription};
use rookery_stream::error::{Condition, StanzaError, StreamError};
use rookery_xml::{Element, Writer, ns};
use serde::{Deserialize, Serialize};
use tracing::warn;

use crate::World;
use crate::failure::condition;
use crate::iq::Iq;
use crate::memo::Memo;
use crate::session::{RosterInterest, SessionRef};
use crate::settings::RosterLimits;

impl World {
    /// Handles a roster get or set of an account's own session.
    pub(crate) fn roster(&mut self, iq: Iq) {
        // Sessions only ask about their own account. A request without a session has no backlog
        // that could be held.
        let Some(session) = iq.origin else { return self.reply_error(&iq, Condition::ServiceUnavailable) };
        if iq.payload.name() != "query" {
            return self.reply_error(&iq, Condition::BadRequest);
        }
        if self.is_anonymous(iq.to.domain()) {
            return self.no_roster(session, &iq);
        }
        if iq.set { self.roster_set(Some(session), iq) } else { self.roster_get(session, iq) }
    }

    /// Handles a roster get (§2.1.3, §2.6.2).
    fn roster_get(&mut self, session: SessionRef, iq: Iq) {
        // Contacts added by the operator's groups have no versions.
        let has_shared = self.has_shared(&iq.to);
        if let Some(found) = self.session_mut(session)
            && found.interest == RosterInterest::Unasked
        {
            found.interest = if has_shared { RosterInterest::Follows } else { RosterInterest::Asked };
        }
        // A roster is large, and a client may request it as often as it likes, so it gets one only
        // when it has read the previous one.
        self.when_room_in_order(session, move |world| world.give_roster(session, iq));
    }

    fn give_roster(&mut self, session: SessionRef, iq: Iq) {
        let rosters = self.stores.rosters.clone();
        let version = iq.payload.attr("ver").filter(|_| !self.has_shared(&iq.to));
        let known = version.and_then(|version| version.parse().ok());
        let owner = iq.to.clone();
        let whole = move |world: &mut World, iq: Iq| {
            let roster = world.stores.rosters.get(iq.to.as_ref());
            world.wait_in_order(session, roster, move |world, roster| world.roster_result(session, &iq, roster));
        };
        let Some(version) = known else { return whole(self, iq) };
        self.wait_in_order(session, rosters.since(owner.as_ref(), version), move |world, changes| match changes {
            Ok(Some(changes)) => {
                world.roster_reply(session, iq.result());
                world.push_changes(session, changes, &iq.to);
            }
            Ok(None) => whole(world, iq),
            Err(error) => world.roster_not_given(session, &iq, &error),
        });
    }

    /// Pushes the changes since a session's version, as far as they have been read from the store.
    fn push_changes(&mut self, session: SessionRef, changes: Changes, owner: &Jid) {
        for (version, change) in changes.changes {
            if let Some(push) = push(&self.unique_text(), Some(version), &change) {
                self.push_paced(session.link, &push, To::Full);
            }
        }
        self.follow(session, changes.version, owner);
    }

    /// Lets a session that has been told a version of its roster follow the roster: it gets a push
    /// of each change from now on, after the changes made meanwhile.
    fn follow(&mut self, session: SessionRef, version: u64, owner: &Jid) {
        let Some(found) = self.session_mut(session) else { return };
        let interest = match found.interest {
            RosterInterest::Behind => RosterInterest::Asked,
            RosterInterest::Unasked | RosterInterest::Asked | RosterInterest::Follows => RosterInterest::Follows,
        };
        found.interest = interest;
        if interest == RosterInterest::Follows {
            return;
        }
        let (changes, owner) = (self.stores.rosters.since(owner.as_ref(), version), owner.clone());
        self.wait_in_order(session, changes, move |world, changes| match changes {
            Ok(Some(changes)) => world.push_changes(session, changes, &owner),
            // The client would have to ask for the roster again, and only a new session can tell it
            // so.
            Ok(None) => world.close(session.link, StreamError::Reset, "the roster has changed too often meanwhile"),
            Err(error) => {
                world.store_failed("reading a roster", &owner, &error);
                world.close(session.link, StreamError::Reset, "the rest of the roster can't be sent");
            }
        });
    }

    /// Tells a session that it doesn't get the roster; it may ask again.
    fn roster_not_given(&mut self, session: SessionRef, iq: &Iq, error: &rookery_store::StoreError) {
        if let Some(found) = self.session_mut(session)
            && found.interest != RosterInterest::Follows
        {
            found.interest = RosterInterest::Unasked;
        }
        self.roster_failed(iq, error);
    }

    /// Sends a session the reply to its request, after earlier stanzas.
    fn roster_reply(&mut self, session: SessionRef, reply: Writer) {
        match Packet::from_built(&reply.finish()) {
            Ok(packet) if self.session(session).is_some() => _ = self.push_paced(session.link, &packet, To::Full),
            Ok(_) => {}
            Err(fault) => warn!(?fault, "the server wrote a roster that its own scanner refuses"),
        }
    }

    fn roster_result(&mut self, session: SessionRef, iq: &Iq, roster: Result<Roster, rookery_store::StoreError>) {
        let roster = match roster {
            Ok(roster) => roster,
            Err(error) => return self.roster_not_given(session, iq, &error),
        };
        let version = roster.version;
        let reply = self.write_roster(iq, roster);
        self.roster_reply(session, reply);
        self.follow(session, version, &iq.to);
    }

    /// Writes a whole roster as the reply to a request.
    fn write_roster(&self, iq: &Iq, roster: Roster) -> Writer {
        let mut reply = iq.result();
        let has_shared = self.has_shared(&iq.to);
        let version = (!has_shared).then(|| roster.version.to_string());
        let own: Vec<RosterItem> = roster.items.into_iter().filter(RosterItem::visible).collect();
        let items = if has_shared { self.with_shared(iq.to.as_ref(), own) } else { own };
        reply.start_ns("query", ns::ROSTER).opt_attr("ver", version.as_deref());
        for item in &items {
            write_item(&mut reply, item);
        }
        reply.end();
        reply
    }

    /// Handles a request of a component about the roster of an account (XEP-0356 §4).
    pub(crate) fn roster_for_component(&mut self, iq: Iq) {
        let may = self.privileges(&iq.from).is_some_and(|privileges| privileges.roster.allow(iq.set));
        if !may {
            return self.reply_error(&iq, Condition::Forbidden);
        }
        if iq.payload.name() != "query" {
            return self.reply_error(&iq, Condition::BadRequest);
        }
        if iq.set {
            return self.roster_set(None, iq);
        }
        let roster = self.stores.rosters.get(iq.to.as_ref());
        self.wait(roster, move |world, roster| match roster {
            Ok(roster) => {
                let reply = world.write_roster(&iq, roster);
                world.reply(&iq, reply);
            }
            Err(error) => world.roster_failed(&iq, &error),
        });
    }

    /// Replies for an account of one session, which has no roster (XEP-0175 §3).
    fn no_roster(&mut self, session: SessionRef, iq: &Iq) {
        if iq.set {
            return self.reply_error(iq, Condition::NotAllowed);
        }
        let mut reply = iq.result();
        reply.start_ns("query", ns::ROSTER).end();
        self.roster_reply(session, reply);
    }

    fn roster_failed(&mut self, iq: &Iq, error: &rookery_store::StoreError) {
        self.store_failed("reading or writing a roster", &iq.to, error);
        self.reply_error(iq, condition(error));
    }

    /// Handles a roster set (§2.1.5, §2.3 to §2.5) of a session, or of a component, which may also
    /// set subscriptions (XEP-0356 §4.3): its users can be asked by nobody else.
    fn roster_set(&mut self, session: Option<SessionRef>, iq: Iq) {
        let wanted = match RosterSet::read(&iq.payload, &self.catalogue.settings.roster) {
            Ok(wanted) => wanted,
            Err(error) => return self.reply_error(&iq, error),
        };
        let contact = wanted.jid.clone();
        if contact == iq.to {
            // §2.3.3: an account can't be its own contact.
            return self.reply_error(&iq, Condition::NotAllowed);
        }
        let is_removal = wanted.remove;
        if is_removal && self.join_parts(iq.to.as_ref(), &contact, None).is_some() {
            // The operator wants it there.
            return self.reply_error(&iq, Condition::NotAllowed);
        }
        let limits = self.catalogue.settings.roster;
        let owner = iq.to.clone();
        let (name, groups) = (wanted.name.clone(), wanted.groups.clone());
        // A component may decide about subscriptions of its own users only, and a client never.
        let is_its_own = session.is_none() && iq.from.domain() == contact.domain();
        let subscription = given_subscription(&iq).filter(|_| is_its_own);
        let edit = move |item: Option<&RosterItem>, size: SizeOf<'_>| match wanted.edit(item, size, &limits) {
            Edit::Put(item) => Edit::Put(with_subscription(item, subscription)),
            other => other,
        };
        let changed = self.stores.rosters.change(owner.as_ref(), contact.as_ref(), Box::new(edit));
        let then = move |world: &mut World, changed: Result<Changed, rookery_store::StoreError>| {
            let changed = match changed {
                Ok(changed) => changed,
                Err(error) => return world.roster_failed(&iq, &error),
            };
            let was_there = changed.before.as_ref().is_some_and(RosterItem::visible);
            if is_removal && !was_there {
                return world.reply_error(&iq, Condition::ItemNotFound);
            }
            let is_done = |item: &RosterItem| item.listed && item.name == name && item.groups == groups;
            if !is_removal && !changed.after.as_ref().is_some_and(is_done) {
                let error = StanzaError::new(Condition::ResourceConstraint).with_text("the roster is full");
                return world.reply_error(&iq, error);
            }
            world.roster_changed(&owner, &contact, &changed);
            world.reply_done(&iq);
            if is_removal {
                world.end_subscriptions(&owner, &contact, &changed);
            }
        };
        match session {
            Some(session) => self.wait_in_order(session, changed, then),
            None => self.wait(changed, then),
        }
    }

    /// Tells a removed contact that both subscriptions have ended (§2.5.2).
    pub(crate) fn end_subscriptions(&mut self, owner: &Jid, contact: &Jid, changed: &Changed) {
        let Some(before) = &changed.before else { return };
        let contact = contact.to_bare();
        if before.subscription.to() || before.ask {
            self.send_subscription("unsubscribe", owner, &contact);
        }
        if before.subscription.from() || before.pending_in.is_some() {
            self.send_subscription("unsubscribed", owner, &contact);
        }
        if before.subscription.from() {
            self.hide_resources_from(owner, contact.as_ref());
        }
    }

    /// Makes two accounts of this server see each other's presence without asking them, as an
    /// invitation does (XEP-0401 §3). Their clients are told.
    pub fn befriend(&mut self, one: Jid, other: Jid) {
        for (owner, contact) in [(one.clone(), other.clone()), (other, one)] {
            self.send_memo_home(owner.clone().as_ref(), Befriend { owner, contact });
        }
    }

    /// Brings the shard and all interested resources up to date after a change (§2.1.6).
    pub(crate) fn roster_changed(&mut self, owner: &Jid, contact: &Jid, changed: &Changed) {
        let subscription = |item: &Option<RosterItem>| item.as_ref().map(|item| item.subscription).unwrap_or_default();
        let (before, after) = (subscription(&changed.before), subscription(&changed.after));
        self.know(owner.as_ref(), contact, changed.after.as_ref());
        if before != after {
            self.set_contact(owner.as_ref(), contact, after.to(), after.from());
        }
        if !before.from() && after.from() {
            self.call_shown(owner.as_ref(), contact.as_ref());
        }
        let visible = |item: &Option<RosterItem>| item.clone().filter(RosterItem::visible);
        let change = match (visible(&changed.before), visible(&changed.after)) {
            (None, None) => return,
            (Some(before), Some(after)) if same_to_clients(&before, &after) => return,
            (_, Some(item)) => RosterChange::Put(item),
            (Some(item), None) => RosterChange::Removed(item.jid),
        };
        let links = self.links_of(owner.as_ref());
        for link in &links {
            if let Some(session) = self.at_mut(*link)
                && session.interest == RosterInterest::Asked
            {
                session.interest = RosterInterest::Behind;
            }
        }
        let interested: Vec<Link> = links.into_iter().filter(|&link| self.is_interested(link)).collect();
        let onlookers = self.onlookers_of_rosters();
        if interested.is_empty() && onlookers.is_empty() {
            return;
        }
        let version = (!self.has_shared(owner)).then_some(changed.version);
        let change = match change {
            RosterChange::Put(item) => {
                RosterChange::Put(self.join_parts(owner.as_ref(), contact, Some(item.clone())).unwrap_or(item))
            }
            RosterChange::Removed(jid) => match self.join_parts(owner.as_ref(), contact, None) {
                Some(item) => RosterChange::Put(item),
                None => RosterChange::Removed(jid),
            },
        };
        if let Some(push) = push(&self.unique_text(), version, &change) {
            for link in interested {
                self.push(link, &push, To::Full);
            }
        }
        for component in onlookers {
            let push = write_push(Some(owner), &self.unique_text(), None, &change);
            self.route_built(&push.finish(), &component);
        }
    }

    /// Returns the components that are told about changes of rosters (XEP-0356 §4.2).
    fn onlookers_of_rosters(&self) -> Vec<Jid> {
        let components = self.catalogue.settings.components.iter();
        let hear = components.filter(|component| component.privileges.hears_of_rosters());
        hear.filter_map(|component| Jid::parse(&component.name).ok()).collect()
    }

    fn is_interested(&self, link: Link) -> bool {
        self.session_at(link).is_some_and(|session| session.interest == RosterInterest::Follows)
    }
}

/// Makes somebody a contact of an account, at the account's home: each sees the other's presence.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Befriend {
    owner: Jid,
    contact: Jid,
}

impl Memo for Befriend {
    const NAME: &'static str = "hub befriend";

    fn open(self, world: &mut World) {
        let Self { owner, contact } = self;
        let (new, limits) = (RosterItem::new(contact.clone()), world.catalogue.settings.roster);
        let edit: EditRoster = Box::new(move |before, size| {
            let is_contact = before.is_some_and(RosterItem::visible);
            if !is_contact && !limits.take(&size(), new.bytes()) {
                return Edit::Keep;
            }
            let item = before.cloned().unwrap_or_else(|| new.clone());
            Edit::Put(RosterItem {
                subscription: Subscription::Both,
                ask: false,
                pending_in: None,
                listed: true,
                ..item
            })
        });
        let changed = world.stores.rosters.change(owner.as_ref(), contact.as_ref(), edit);
        world.wait(changed, move |world, changed| match changed {
            Ok(changed) => world.roster_changed(&owner, &contact, &changed),
            Err(error) => world.store_failed("making two accounts contacts", &owner, &error),
        });
    }

    fn home(&self) -> Option<Jid> {
        Some(self.owner.clone())
    }

    fn refused(self, _: &mut World) {
        let Self { owner, contact } = self;
        warn!(%owner, %contact, "two accounts couldn't become contacts, because the node of one of them can't be reached");
    }
}

fn same_to_clients(a: &RosterItem, b: &RosterItem) -> bool {
    let hidden_part = |item: &RosterItem| RosterItem { pending_in: None, listed: true, ..item.clone() };
    hidden_part(a) == hidden_part(b)
}

/// Returns a roster push (§2.1.6), which is built once for all resources that get it.
fn push(id: &str, version: Option<u64>, change: &RosterChange) -> Option<Packet> {
    Packet::from_built(&write_push(None, id, version, change).finish()).ok()
}

/// Writes a roster push. For recipients other than the owner's resources, it is from the owner.
fn write_push(owner: Option<&Jid>, id: &str, version: Option<u64>, change: &RosterChange) -> Writer {
    let mut iq = Writer::new("iq");
    iq.attr("type", "set").attr("id", id).opt_attr("from", owner.map(Jid::as_str));
    iq.start_ns("query", ns::ROSTER).opt_attr("ver", version.map(|version| version.to_string()).as_deref());
    match change {
        RosterChange::Put(item) => write_item(&mut iq, item),
        RosterChange::Removed(jid) => {
            iq.start("item").attr("jid", jid.as_str()).attr("subscription", "remove");
            iq.end();
        }
    }
    iq.end();
    iq
}

/// Returns a roster push of a contact by group, which isn't part of any version: its item, or its
/// removal.
pub(crate) fn push_unversioned(id: &str, contact: &Jid, item: Option<RosterItem>) -> Option<Packet> {
    let change = item.map_or_else(|| RosterChange::Removed(contact.clone()), RosterChange::Put);
    push(id, None, &change)
}

fn write_item(out: &mut Writer, item: &RosterItem) {
    out.start("item").attr("jid", item.jid.as_str()).opt_attr("name", item.name.as_deref());
    out.attr("subscription", item.subscription.as_str());
    out.opt_attr("ask", item.ask.then_some("subscribe")).opt_attr("approved", item.approved.then_some("true"));
    for group in &item.groups {
        out.start("group").text(group);
        out.end();
    }
    out.end();
}

/// The item that a roster set asks for.
#[derive(Debug)]
pub(crate) struct RosterSet {
    pub jid: Jid,
    pub name: Option<String>,
    pub groups: Vec<String>,
    pub remove: bool,
}

impl RosterSet {
    /// Reads and checks a roster set (§2.1.5, §2.3.3).
    fn read(query: &Element, limits: &RosterLimits) -> Result<Self, StanzaError> {
        let mut items = query.children();
        let (Some(item), None) = (items.next(), items.next()) else {
            return Err(StanzaError::new(Condition::BadRequest).with_text("exactly one item is allowed"));
        };
        if item.name() != "item" || item.ns() != ns::ROSTER {
            return Err(Condition::BadRequest.into());
        }
        let jid = item.attr("jid").ok_or(Condition::BadRequest)?;
        let jid = Jid::parse(jid).map_err(|_| Condition::JidMalformed)?;
        let name = item.attr("name").filter(|name| !name.is_empty()).map(str::to_owned);
        if name.as_ref().is_some_and(|name| name.len() > limits.name_bytes) {
            return Err(StanzaError::new(Condition::NotAcceptable).with_text("the name is too long"));
        }
        let mut groups: Vec<String> = Vec::new();
        for group in item.children().filter(|child| child.name() == "group" && child.ns() == ns::ROSTER) {
            let group = group.text();
            if group.is_empty() || group.len() > limits.group_bytes || groups.len() >= limits.groups {
                let text = "a group has no name or too long a name, or there are too many groups";
                return Err(StanzaError::new(Condition::NotAcceptable).with_text(text));
            }
            if groups.contains(&group) {
                return Err(StanzaError::new(Condition::BadRequest).with_text("the same group twice"));
            }
            groups.push(group);
        }
        Ok(Self { jid, name, groups, remove: item.attr("subscription") == Some("remove") })
    }

    /// Returns the edit of an item. A roster that is full takes changes as long as they don't make
    /// it larger.
    pub fn edit(&self, item: Option<&RosterItem>, size: SizeOf<'_>, limits: &RosterLimits) -> Edit {
        let shown = item.filter(|item| item.visible());
        if self.remove {
            return if shown.is_some() { Edit::Remove } else { Edit::Keep };
        }
        let mut new = item.cloned().unwrap_or_else(|| RosterItem::new(self.jid.clone()));
        new.listed = true;
        new.name = self.name.clone();
        new.groups = self.groups.clone();
        let (before, after) = (shown.map_or(0, RosterItem::bytes), new.bytes());
        let has_place = match shown {
            None => limits.take(&size(), after),
            Some(_) => after <= before || size().bytes.saturating_add(after - before) <= limits.bytes,
        };
        if has_place { Edit::Put(new) } else { Edit::Keep }
    }
}

/// Returns the subscription that a component wants for a contact.
fn given_subscription(iq: &Iq) -> Option<Subscription> {
    let item = iq.payload.children().find(|child| child.is("item", ns::ROSTER))?;
    match item.attr("subscription")? {
        "none" => Some(Subscription::None),
        "to" => Some(Subscription::To),
        "from" => Some(Subscription::From),
        "both" => Some(Subscription::Both),
        _ => None,
    }
}

/// Returns an item in the form for a component: without pending requests.
fn with_subscription(item: RosterItem, subscription: Option<Subscription>) -> RosterItem {
    match subscription {
        Some(subscription) => RosterItem { subscription, ask: false, pending_in: None, ..item },
        None => item,
    }
}
