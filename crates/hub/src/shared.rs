//! Contacts that accounts have by the will of the operator: groups whose members see each other without asking (shared roster groups).
//!
//! One module says who they are ([`Hooks::shared_contacts`](crate::Hooks::shared_contacts)). They stand in the roster with the account's own contacts,
//! and see its presence. Nothing of it is in the store, so that a group of ten thousand costs no look-up there: presence goes to a [`Roll`] that all
//! members share, probes are answered by those who are here and by nobody else.
//!
//! Invariants:
//! * What an account keeps in its roster itself is joined with this and never lost: its names, groups and subscriptions.
//! * A contact by group can't be removed, and whoever has one gets the whole roster at each login: a version (RFC 6121 §2.6) would not tell what the
//!   operator has changed.

use std::collections::{BTreeSet, HashMap};
use std::rc::Rc;
use std::sync::Arc;

use ahash::RandomState;
use rookery_fanout::{Link, Names, Packet};
use rookery_jid::{Jid, JidRef};
use rookery_store::{RosterItem, Subscription};

use crate::World;
use crate::roll::Roll;

/// Who is whose contact by group.
pub trait SharedContacts {
    /// What an account and a contact show each other, seen from the account.
    fn relation(&self, world: &World, owner: JidRef<'_>, contact: JidRef<'_>) -> Subscription;

    /// Who sees the presence of an account, without itself; `None` if it is in no group.
    fn watchers(&self, world: &World, owner: JidRef<'_>) -> Option<Circle>;

    /// Whose presence an account sees, without itself; `None` if it is in no group.
    fn watched(&self, world: &World, owner: JidRef<'_>) -> Option<Circle>;

    /// The roster items of an account, each contact once.
    fn items(&self, world: &World, owner: JidRef<'_>) -> Vec<RosterItem>;

    /// One of them.
    fn item(&self, world: &World, owner: JidRef<'_>, contact: JidRef<'_>) -> Option<RosterItem>;

    /// The accounts of a domain that are here, on whatever shard, where a circle can have everybody.
    fn present(&self, domain: &str) -> Vec<Jid>;
}

/// Members of groups.
#[derive(Debug, Clone)]
pub struct Circle {
    /// Accounts by name. The one that is asked for may be among them.
    pub members: Rc<Roll>,
    /// Besides, every account of this domain that is here.
    pub everybody_of: Option<String>,
}

/// What all accounts of a domain that are here get.
#[derive(Debug, Clone)]
enum ForEverybody {
    /// Presence.
    Show(Packet),
    /// The question of a resource who is present.
    Probe(Jid),
}

impl World {
    /// What an account and a contact show each other by group, seen from the account.
    pub fn shared_relation(&self, owner: JidRef<'_>, contact: JidRef<'_>) -> Subscription {
        match self.registry.shared_contacts(self.domain(owner.domain())) {
            Some(shared) if owner.bare_str() != contact.bare_str() => {
                shared.relation(self, owner.bare(), contact.bare())
            }
            _ => Subscription::None,
        }
    }

    /// Whether an account shows its presence to somebody by group.
    pub(crate) fn shows_by_group(&self, owner: &str, asker: JidRef<'_>) -> bool {
        if !self.registry.has_shared_contacts() {
            return false;
        }
        match JidRef::parse_prepared(owner) {
            Some(owner) => self.shared_relation(owner, asker).from(),
            // Beyond ASCII.
            None => Jid::parse(owner).is_ok_and(|owner| self.shared_relation(owner.as_ref(), asker).from()),
        }
    }

    /// The accounts that have sessions on this shard.
    pub fn accounts_here(&self) -> Vec<Jid> {
        let names = self.users.iter().filter_map(|(_, user)| self.names.get(user.name));
        names.filter_map(|(_, bare)| Jid::parse(bare).ok()).collect()
    }

    /// Brings the clients of an account up to date with contacts by group: their items as they are now, or that they are gone. They may be more than an
    /// outbox has room for.
    pub fn push_shared(&mut self, owner: JidRef<'_>, items: Vec<(Jid, Option<RosterItem>)>) {
        let links = self.links_of(owner).into_iter();
        let interested = links.filter(|&link| self.session_at(link).is_some_and(|session| session.interested));
        let interested: Vec<Link> = interested.collect();
        if interested.is_empty() {
            return;
        }
        let push = |world: &mut Self, (contact, item): (Jid, Option<RosterItem>)| {
            crate::roster::push_unversioned(&world.unique_text(), &contact, item)
        };
        let pushes: Vec<Packet> = items.into_iter().filter_map(|item| push(self, item)).collect();
        for link in interested {
            self.give_bundle(link, pushes.clone());
        }
    }

    /// Shows a session to those who see it by group; they are added to those whom a broadcast to contacts leaves out.
    pub(crate) fn show_to_circle(&mut self, link: Link, packet: &Packet, left_out: &mut BTreeSet<Box<str>>) {
        let Some(owner) = self.outboxes.address(link).map(Jid::to_bare) else { return };
        let Some(circle) = self.circle(&owner, |shared, world| shared.watchers(world, owner.as_ref())) else { return };
        // They get it here, and not as contacts of the own roster once more.
        let own = self.own_watchers(owner.as_ref()).into_iter();
        let own = own.filter(|contact| self.shared_relation(owner.as_ref(), contact.as_ref()).from());
        left_out.extend(own.map(|contact| contact.as_str().into()));
        let mut except = self.concealed_in(link, &owner, &circle);
        except.push(owner);
        self.fan_out_roll(packet, &circle.members, &except);
        if let Some(domain) = circle.everybody_of {
            self.for_everybody(domain, &ForEverybody::Show(packet.clone()), except);
        }
    }

    /// The members from whom a session conceals itself.
    fn concealed_in(&self, link: Link, owner: &Jid, circle: &Circle) -> Vec<Jid> {
        if !self.has_documents(link) {
            return Vec::new();
        }
        let mut members = self.members(owner.as_ref(), circle);
        members.retain(|jid| self.conceals(owner.as_ref(), Some(link), jid.as_ref()));
        members
    }

    /// Who sees the presence of an account by group.
    pub(crate) fn watchers_by_group(&self, account: JidRef<'_>) -> Vec<Jid> {
        let owner = account.bare().to_jid();
        let circle = self.circle(&owner, |shared, world| shared.watchers(world, owner.as_ref()));
        let mut members = circle.map(|circle| self.members(account, &circle)).unwrap_or_default();
        members.retain(|jid| *jid != owner);
        members
    }

    /// The members of a circle of an account; of everybody those who are here.
    fn members(&self, owner: JidRef<'_>, circle: &Circle) -> Vec<Jid> {
        let shared = self.registry.shared_contacts(self.domain(owner.domain()));
        let present = circle.everybody_of.as_ref().zip(shared).map(|(domain, shared)| shared.present(domain));
        let named = circle.members.chunks().flat_map(|(_, names)| names.iter());
        let named = named.filter_map(|(_, name)| Jid::parse(name).ok());
        named.chain(present.unwrap_or_default()).collect()
    }

    /// Whether an account has any contact by group.
    pub(crate) fn has_shared(&self, owner: &Jid) -> bool {
        self.circle(owner, |shared, world| shared.watched(world, owner.as_ref())).is_some()
    }

    /// Asks those whom a session sees by group.
    pub(crate) fn probe_circle(&mut self, from: &Jid) {
        let owner = from.to_bare();
        let Some(circle) = self.circle(&owner, |shared, world| shared.watched(world, owner.as_ref())) else { return };
        for (shard, names) in circle.members.chunks() {
            if shard == self.shard() {
                self.answer_shared_probes(from, names);
            } else {
                let (from, names) = (from.clone(), names.clone());
                self.run_at(shard, move |world| world.answer_shared_probes(&from, &names));
            }
        }
        if let Some(domain) = circle.everybody_of {
            self.for_everybody(domain, &ForEverybody::Probe(from.clone()), vec![owner]);
        }
    }

    fn circle(&self, owner: &Jid, ask: impl FnOnce(&dyn SharedContacts, &World) -> Option<Circle>) -> Option<Circle> {
        ask(self.registry.shared_contacts(self.domain(owner.domain()))?, self)
    }

    /// Answers for the members who are here. Those who are away have nothing to say: the store is not asked.
    pub(crate) fn answer_shared_probes(&mut self, from: &Jid, to: &Names) {
        let asker = self.hash(from.bare_str());
        let mut packets = Vec::new();
        for (hash, bare) in to.iter() {
            // A contact of the own roster is asked anyway.
            if bare == from.bare_str() || self.shows_itself_to(hash, bare, asker, from.bare_str()) {
                continue;
            }
            let user = self.user_named(hash, bare).and_then(|user| self.users.get(user as usize));
            let user = user.filter(|user| self.may_see(user, from.as_ref()));
            packets.extend(user.and_then(|user| self.presence_for(user, from)).into_iter().flatten());
        }
        // Members may be more than an outbox has room for.
        self.bundle(packets, from);
    }

    fn shows_itself_to(&self, hash: u64, owner: &str, asker_hash: u64, asker: &str) -> bool {
        let user = self.user_named(hash, owner).and_then(|user| self.users.get(user as usize));
        let asker = self.names.find(asker_hash, asker);
        user.zip(asker).and_then(|(user, asker)| user.contact(asker)).is_some_and(|contact| contact.from())
    }

    fn for_everybody(&mut self, domain: String, what: &ForEverybody, except: Vec<Jid>) {
        let except: Arc<[Jid]> = except.into();
        let here = self.shard();
        for shard in (0..self.shards()).filter(|&shard| shard != here) {
            let (domain, what, except) = (domain.clone(), what.clone(), except.clone());
            self.run_at(shard, move |world| world.give_everybody(&domain, &what, &except));
        }
        self.give_everybody(&domain, what, &except);
    }

    /// The same for the accounts of this shard.
    fn give_everybody(&mut self, domain: &str, what: &ForEverybody, except: &[Jid]) {
        let mut to = Names::default();
        for (_, user) in &self.users {
            if let Some((hash, bare)) = self.names.get(user.name)
                && bare.rsplit_once('@').is_some_and(|(_, of)| of == domain)
                && !except.iter().any(|jid| jid.as_str() == bare)
            {
                to.push(hash, bare);
            }
        }
        match what {
            ForEverybody::Show(packet) => self.give(packet, &to),
            ForEverybody::Probe(from) => self.answer_shared_probes(from, &to),
        }
    }

    /// The roster items of an account with its contacts by group.
    pub(crate) fn with_shared(&self, owner: JidRef<'_>, own: Vec<RosterItem>) -> Vec<RosterItem> {
        let shared = self.registry.shared_contacts(self.domain(owner.domain()));
        let shared = shared.map(|shared| shared.items(self, owner)).unwrap_or_default();
        let mut items = own;
        let known: HashMap<Jid, usize, RandomState> =
            items.iter().enumerate().map(|(at, item)| (item.jid.clone(), at)).collect();
        for item in shared {
            match known.get(&item.jid).and_then(|&at| items.get_mut(at)) {
                Some(own) => join(own, item),
                None => items.push(item),
            }
        }
        items
    }

    /// One item of an account as its clients see it: what it keeps itself, and what it has by group.
    pub fn joined(&self, owner: JidRef<'_>, contact: &Jid, own: Option<RosterItem>) -> Option<RosterItem> {
        let shared = self.registry.shared_contacts(self.domain(owner.domain()));
        let Some(shared) = shared.filter(|_| contact.is_bare() && *contact != owner.bare()) else { return own };
        match (own, shared.item(self, owner, contact.as_ref())) {
            (Some(mut own), Some(item)) => {
                join(&mut own, item);
                Some(own)
            }
            (own, item) => own.or(item),
        }
    }
}

/// Adds what an item has by group.
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
