//! Contacts that the operator assigns to accounts: groups whose members see each other without
//! asking (shared roster groups).
//!
//! One module says who they are ([`Hooks::shared_contacts`](crate::Hooks::shared_contacts)). They
//! appear in the roster with the account's own contacts, and see its presence. None of it is in the
//! store, so a group of ten thousand costs no look-up there: presence goes to a
//! [`Roll`](crate::Roll) that all members share, and a probe gets its reply from members who are
//! online, and from no others.
//!
//! # Invariants
//!
//! * An account's own roster entries are merged with these and never lost: names, groups and
//!   subscriptions.
//! * A contact by group can't be removed, and a user who has one gets the whole roster at each
//!   login: a version (RFC 6121 §2.6) would not show the operator's changes.

use rookery_base::Map;
use std::collections::BTreeSet;
use std::sync::Arc;

use rookery_fanout::{Addresses, Link, Packet};
use rookery_jid::{Jid, JidRef};
use rookery_store::{RosterItem, Subscription};
use serde::{Deserialize, Serialize};

use crate::World;
pub use crate::calls::{Circle, SharedContacts};
use crate::mail::Mail;
use crate::memo::Memo;
use crate::session::RosterInterest;

/// A stanza or a question for all accounts of a domain that are here.
#[derive(Debug, Clone, Serialize, Deserialize)]
enum ForEverybody {
    /// Presence.
    Show(Packet),
    /// The probe of a resource that is present.
    Probe(Jid),
}

/// Sends something to all accounts of a domain that are on a shard, except for a few.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Everybody {
    domain: String,
    what: ForEverybody,
    except: Vec<Jid>,
}

impl Memo for Everybody {
    const NAME: &'static str = "hub everybody";

    /// Finds the accounts of this shard.
    fn open(self, world: &mut World) {
        let mut to = Addresses::default();
        for (_, user) in &world.people.users {
            if let Some((hash, bare)) = world.people.names.get(user.name)
                && bare.rsplit_once('@').is_some_and(|(_, of)| of == self.domain)
                && !self.except.iter().any(|jid| jid.as_str() == bare)
            {
                to.push(hash, bare);
            }
        }
        match self.what {
            ForEverybody::Show(packet) => world.deliver_copies(&packet, &to),
            ForEverybody::Probe(from) => world.answer_shared_probes(&from, &to),
        }
    }
}

/// Probes, for a resource, the accounts of this shard that the resource's account sees by group.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ProbeMembers {
    from: Jid,
    #[serde(with = "shared_names")]
    to: Arc<Addresses>,
}

impl Memo for ProbeMembers {
    const NAME: &'static str = "hub probe members";

    fn open(self, world: &mut World) {
        world.answer_shared_probes(&self.from, &self.to);
    }

    fn again(self, world: &mut World) {
        world.answer_shared_probes(&self.from, &self.to);
    }
}

/// Writes names that are shared within the process, and reads them.
mod shared_names {
    use std::sync::Arc;

    use rookery_fanout::Addresses;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<S: Serializer>(names: &Arc<Addresses>, serializer: S) -> Result<S::Ok, S::Error> {
        names.as_ref().serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Arc<Addresses>, D::Error> {
        Addresses::deserialize(deserializer).map(Arc::new)
    }
}

impl World {
    fn shared_contacts(&self, owner: JidRef<'_>) -> Option<SharedContacts> {
        self.catalogue.registry.shared_contacts(self.domain(owner.domain()))
    }

    /// Returns the relation between an account and a contact by group, from the account's view.
    pub fn shared_relation(&self, owner: JidRef<'_>, contact: JidRef<'_>) -> Subscription {
        match self.shared_contacts(owner) {
            Some(shared) if owner.bare_str() != contact.bare_str() => {
                (shared.relation)(self, owner.bare(), contact.bare())
            }
            _ => Subscription::None,
        }
    }

    /// Returns whether an account shows its presence to somebody by group.
    pub(crate) fn shows_by_group(&self, owner: &str, asker: JidRef<'_>) -> bool {
        if !self.catalogue.registry.has_shared_contacts() {
            return false;
        }
        match JidRef::parse_prepared(owner) {
            Some(owner) => self.shared_relation(owner, asker).from(),
            // A name beyond ASCII has to be prepared first.
            None => Jid::parse(owner).is_ok_and(|owner| self.shared_relation(owner.as_ref(), asker).from()),
        }
    }

    /// Returns the accounts that have sessions on this shard.
    pub fn accounts_here(&self) -> Vec<Jid> {
        let names = self.people.users.iter().filter_map(|(_, user)| self.people.names.get(user.name));
        names.filter_map(|(_, bare)| Jid::parse(bare).ok()).collect()
    }

    /// Brings the clients of an account up to date with contacts by group: sends their current
    /// items, or removals. There may be more of them than an outbox has room for.
    ///
    /// Like all roster pushes, they don't wait for stanzas that are held for the account: a push
    /// that did could tell an older state after a newer one.
    pub fn push_shared(&mut self, owner: JidRef<'_>, items: Vec<(Jid, Option<RosterItem>)>) {
        let links = self.links_of(owner).into_iter();
        // These pushes have no version, so that they may come ahead of a roster that was requested.
        let has_asked = |link| self.session_at(link).is_some_and(|session| session.interest != RosterInterest::Unasked);
        let interested = links.filter(|&link| has_asked(link));
        let interested: Vec<Link> = interested.collect();
        if interested.is_empty() {
            return;
        }
        let push = |world: &mut Self, (contact, item): (Jid, Option<RosterItem>)| {
            crate::roster::push_unversioned(&world.unique_text(), &contact, item)
        };
        let pushes: Vec<Packet> = items.into_iter().filter_map(|item| push(self, item)).collect();
        for link in interested {
            self.bundle_ahead(link, pushes.clone());
        }
    }

    /// Shows a session to those who see it by group; they are added to those that a broadcast to
    /// contacts leaves out.
    pub(crate) fn show_to_circle(&mut self, link: Link, packet: &Packet, left_out: &mut BTreeSet<Box<str>>) {
        let Some(owner) = self.outboxes.address(link).map(Jid::to_bare) else { return };
        let watchers = self.shared_contacts(owner.as_ref()).map(|shared| shared.watchers);
        let Some(circle) = watchers.and_then(|watchers| watchers(self, owner.as_ref())) else { return };
        // They get the presence here, and not a second time as contacts of the account's own
        // roster.
        let own = self.own_watchers(owner.as_ref()).into_iter();
        let own = own.filter(|contact| self.shared_relation(owner.as_ref(), contact.as_ref()).from());
        left_out.extend(own.map(|contact| contact.as_str().into()));
        let mut except = self.concealed_from_circle(link, owner.as_ref());
        except.push(owner.clone());
        self.fan_out_roll(packet, &circle.members, &except);
        let Some(domain) = circle.everybody_of else { return };
        if self.here.view.is_shared() && self.has_documents(link) {
            // A user who has just logged in on another node may not be known here, and may be one
            // of those from whom the session conceals itself.
            let mut known = self.watchers_by_group(owner.as_ref());
            known.retain(|jid| jid.domain() == domain && !except.contains(jid));
            self.fan_out(packet, known.iter().map(Jid::as_ref));
        } else {
            self.for_everybody(&Everybody { domain, what: ForEverybody::Show(packet.clone()), except });
        }
    }

    /// Returns those who would see a session by group, if it didn't conceal itself from them.
    fn concealed_from_circle(&self, link: Link, owner: JidRef<'_>) -> Vec<Jid> {
        if !self.has_documents(link) {
            return Vec::new();
        }
        let mut members = self.watchers_by_group(owner);
        members.retain(|jid| self.conceals(owner, Some(link), jid.as_ref()));
        members
    }

    /// Returns those who see the presence of an account by group.
    pub(crate) fn watchers_by_group(&self, account: JidRef<'_>) -> Vec<Jid> {
        let owner = account.bare();
        let mut members =
            self.shared_contacts(owner).map(|shared| (shared.each_watcher)(self, owner)).unwrap_or_default();
        members.retain(|jid| jid.as_ref() != owner);
        members
    }

    /// Returns whether an account has any contact by group.
    pub(crate) fn has_shared(&self, owner: &Jid) -> bool {
        self.shared_contacts(owner.as_ref()).is_some_and(|shared| (shared.has_watched)(self, owner.bare()))
    }

    /// Probes those whom a session sees by group.
    pub(crate) fn probe_circle(&mut self, from: &Jid) {
        let owner = from.to_bare();
        let watched = self.shared_contacts(owner.as_ref()).map(|shared| shared.watched);
        let Some(circle) = watched.and_then(|watched| watched(self, owner.as_ref())) else { return };
        for (shard, names) in circle.members.chunks() {
            self.send_memo(shard, ProbeMembers { from: from.clone(), to: names.clone() });
        }
        if let Some(domain) = circle.everybody_of {
            self.for_everybody(&Everybody { domain, what: ForEverybody::Probe(from.clone()), except: vec![owner] });
        }
    }

    /// Replies for the members who are online, at once if they are here, and asks the homes of the
    /// others. Members who are offline have no presence: the store isn't asked.
    pub(crate) fn answer_shared_probes(&mut self, from: &Jid, to: &Addresses) {
        let others = |to| Mail::Memo(Box::new(ProbeMembers { from: from.clone(), to: Arc::new(to) }));
        let here = if self.may_be_awaited() { self.sift(to, (0, true), others) } else { None };
        let to = here.as_ref().unwrap_or(to);
        let asker = self.hash(from.bare_str());
        let mut packets = Vec::new();
        for (hash, bare) in to.iter() {
            // Contacts of the account's own roster are probed anyway.
            if bare == from.bare_str() || self.shows_itself_to(hash, bare, asker, from.bare_str()) {
                continue;
            }
            let user = self.user_named(hash, bare).and_then(|user| self.people.users.get(user as usize));
            let user = user.filter(|user| self.may_see(user, from.as_ref()));
            packets.extend(user.and_then(|user| self.presence_for(user, from)).into_iter().flatten());
        }
        // Members may be more than an outbox has room for.
        self.bundle(packets, from);
    }

    fn shows_itself_to(&self, hash: u64, owner: &str, asker_hash: u64, asker: &str) -> bool {
        let user = self.user_named(hash, owner).and_then(|user| self.people.users.get(user as usize));
        let asker = self.people.names.find(asker_hash, asker);
        user.zip(asker).and_then(|(user, asker)| user.contact(asker)).is_some_and(|contact| contact.from())
    }

    fn for_everybody(&mut self, memo: &Everybody) {
        for shard in 0..self.shards() {
            self.send_memo(shard, memo.clone());
        }
    }

    /// Returns the roster items of an account with its contacts by group.
    pub(crate) fn with_shared(&self, owner: JidRef<'_>, own: Vec<RosterItem>) -> Vec<RosterItem> {
        let shared = self.shared_contacts(owner).map(|shared| (shared.items)(self, owner)).unwrap_or_default();
        let mut items = own;
        let known: Map<Jid, usize> = items.iter().enumerate().map(|(at, item)| (item.jid.clone(), at)).collect();
        for item in shared {
            match known.get(&item.jid).and_then(|&at| items.get_mut(at)) {
                Some(own) => join(own, item),
                None => items.push(item),
            }
        }
        items
    }

    /// Returns one item of an account as its clients see it: its own part, and its part by group.
    pub fn join_parts(&self, owner: JidRef<'_>, contact: &Jid, own: Option<RosterItem>) -> Option<RosterItem> {
        let shared = self.shared_contacts(owner);
        let Some(shared) = shared.filter(|_| contact.is_bare() && *contact != owner.bare()) else { return own };
        match (own, (shared.item)(self, owner, contact.as_ref())) {
            (Some(mut own), Some(item)) => {
                join(&mut own, item);
                Some(own)
            }
            (own, item) => own.or(item),
        }
    }
}

/// Adds an item's part by group.
fn join(own: &mut RosterItem, shared: RosterItem) {
    let (a, b) = (own.subscription, shared.subscription);
    own.subscription = Subscription::new(a.to() || b.to(), a.from() || b.from());
    own.ask &= !own.subscription.to();
    own.listed = true;
    for group in shared.groups {
        if !own.groups.contains(&group) {
            own.groups.push(group);
        }
    }
    own.name = own.name.take().or(shared.name);
}
