//! The addresses that an account conceals its presence from: those that it blocks, or that a
//! privacy list shuts out (XEP-0191 §3.3, XEP-0016 §2.12).
//!
//! One module decides, by a document of the account that is in memory
//! ([`Document::conceals`](crate::Document::conceals)). Broadcasts, the end of directed presence,
//! replies to probes and the consequences of subscriptions ask here; for an account without the
//! document, this reads one field.

use std::collections::BTreeSet;

use rookery_fanout::{Link, Packet};
use rookery_jid::{Jid, JidRef};
use rookery_store::{LastSeen, StoreError, Subscription};
use tracing::warn;

use crate::{World, delay};

impl World {
    /// Returns whether an account whose home this is conceals its presence from a contact: the
    /// presence of one session, or everything about the account. Events that modules send for the
    /// account, such as those of personal nodes (XEP-0163), must stop here too.
    pub fn conceals(&self, owner: JidRef<'_>, link: Option<Link>, contact: JidRef<'_>) -> bool {
        let Some(document) = self.catalogue.registry.concealing_in(self.domain(owner.domain())) else { return false };
        let is_own = owner.bare_str() == contact.bare_str();
        let found = if is_own { None } else { self.document_any(owner, document) };
        found.is_some_and(|document| document.conceals(self, link, owner, contact))
    }

    /// Returns whether a session conceals itself from the contact with this bare JID.
    pub(crate) fn is_concealed(&self, link: Link, contact: &str) -> bool {
        let Some(owner) = self.outboxes.address(link).filter(|_| self.has_documents(link)) else { return false };
        match JidRef::parse_prepared(contact) {
            Some(contact) => self.conceals(owner.bare(), Some(link), contact),
            // A name beyond ASCII has to be prepared first.
            None => Jid::parse(contact).is_ok_and(|contact| self.conceals(owner.bare(), Some(link), contact.as_ref())),
        }
    }

    /// Continues with those of some accounts, here or offline, that don't conceal their presence
    /// from `asker`.
    pub fn retain_unconcealed(
        &mut self,
        asker: Jid,
        mut owners: Vec<Jid>,
        then: impl FnOnce(&mut World, Vec<Jid>) + 'static,
    ) {
        let Some(document) = self.catalogue.registry.concealing().filter(|_| !owners.is_empty()) else {
            return then(self, owners);
        };
        let documents = self.stores.documents.of(owners.clone(), &crate::module::stored_name(document));
        self.wait(documents, move |world, documents| match documents {
            Ok(documents) => {
                owners.retain(|owner| {
                    let of_owner = documents.iter().find(|(of, _)| of == owner);
                    of_owner.is_none_or(|(owner, bytes)| !world.conceals_by(owner, document, bytes, &asker))
                });
                then(world, owners);
            }
            Err(error) => world.store_failed("looking up who conceals itself", &asker, &error),
        });
    }

    /// Returns the bare JIDs of the contacts from whom a session conceals itself.
    pub(crate) fn concealed_from(&self, link: Link) -> BTreeSet<Box<str>> {
        let Some(owner) = self.outboxes.address(link).filter(|_| self.has_documents(link)) else {
            return BTreeSet::new();
        };
        let mut contacts = self.own_watchers(owner.bare());
        contacts.retain(|contact| self.conceals(owner.bare(), Some(link), contact.as_ref()));
        contacts.iter().map(|contact| contact.as_str().into()).collect()
    }

    /// Returns the bare JIDs of the contacts to whom a session may not send this probe.
    pub(crate) fn shunned_contacts(&mut self, link: Link, probe: &Packet) -> BTreeSet<Box<str>> {
        let owner = self.outboxes.address(link).filter(|_| self.has_documents(link));
        let mut contacts = owner.map(|owner| self.watched_contacts(owner.bare())).unwrap_or_default();
        contacts.retain(|contact| self.leaving(link, probe, contact.as_ref()).is_none());
        contacts.iter().map(|contact| contact.as_str().into()).collect()
    }

    /// Returns the contacts who see the presence of an account whose home this is, by subscription
    /// or by group (RFC 6121 §4.2.2). There are none if it has no session. Contacts from whom it
    /// conceals itself are included.
    pub fn watchers(&self, account: JidRef<'_>) -> Vec<Jid> {
        let mut watchers = self.own_watchers(account);
        let by_group = self.watchers_by_group(account);
        if !by_group.is_empty() {
            watchers.extend(by_group);
            watchers.sort_unstable();
            watchers.dedup();
        }
        watchers
    }

    /// Returns the same contacts without those who only see it by group.
    pub(crate) fn own_watchers(&self, account: JidRef<'_>) -> Vec<Jid> {
        self.contacts_by_subscription(account, |_, from| from)
    }

    /// Returns the contacts whose presence an account whose home this is sees by subscription.
    /// There are none if it has no session.
    pub fn watched_contacts(&self, account: JidRef<'_>) -> Vec<Jid> {
        self.contacts_by_subscription(account, |to, _| to)
    }

    fn contacts_by_subscription(&self, account: JidRef<'_>, wanted: impl Fn(bool, bool) -> bool) -> Vec<Jid> {
        let user = self.user_named(self.hash(account.bare_str()), account.bare_str());
        let contacts = user.and_then(|user| self.people.users.get(user as usize)).map(|user| &*user.contacts);
        let wanted = contacts.unwrap_or_default().iter().filter(|contact| wanted(contact.to(), contact.from()));
        wanted.filter_map(|contact| Jid::parse(self.people.names.get(contact.name())?.1).ok()).collect()
    }

    /// Returns whether an address may see the presence of an account whose home this is and that
    /// has a session: the account itself may, and contacts with a subscription.
    pub fn may_see_presence(&self, account: JidRef<'_>, asker: JidRef<'_>) -> bool {
        let user = self.user_named(self.hash(account.bare_str()), account.bare_str());
        let user = user.and_then(|user| self.people.users.get(user as usize));
        user.is_some_and(|user| self.may_see(user, asker))
    }

    /// Returns the relation between an account whose home this is and a contact, by subscription
    /// or by group; `None` if the account has no session.
    pub fn subscription(&self, account: JidRef<'_>, contact: JidRef<'_>) -> Option<Subscription> {
        let (own, shared) = (self.own_subscription(account, contact)?, self.shared_relation(account, contact));
        Some(Subscription::new(own.to() || shared.to(), own.from() || shared.from()))
    }

    /// Returns the subscription without what groups add.
    pub fn own_subscription(&self, account: JidRef<'_>, contact: JidRef<'_>) -> Option<Subscription> {
        let user = self.user_named(self.hash(account.bare_str()), account.bare_str())?;
        let user = self.people.users.get(user as usize)?;
        let name = self.people.names.find(self.hash(contact.bare_str()), contact.bare_str());
        let found = name.and_then(|name| user.contact(name));
        Some(found.map_or(Subscription::None, |found| Subscription::new(found.to(), found.from())))
    }

    /// Returns the addresses to which a session has sent directed presence that is still in effect
    /// (RFC 6121 §4.6.3).
    pub fn directed_to(&self, link: Link) -> Vec<Jid> {
        let rare = self.session_at(link).and_then(|session| session.rare.as_ref());
        rare.map(|rare| rare.directed.iter().cloned().collect()).unwrap_or_default()
    }

    /// Sends the presence of a session to a contact, if it is available and doesn't conceal itself.
    pub fn show_session_to(&mut self, link: Link, contact: JidRef<'_>) {
        let presence = self.session_at(link).and_then(|session| session.presence.clone());
        if let Some(packet) = presence.filter(|_| !self.is_concealed(link, contact.as_str())) {
            self.route(&packet, contact);
        }
    }

    /// Returns the name in the store of the document by which accounts conceal themselves; an empty
    /// one, which no document has, if none does.
    pub(crate) fn concealing_document(&self) -> String {
        self.catalogue.registry.concealing().map(crate::module::stored_name).unwrap_or_default()
    }

    /// Replies to probes with the last presence of offline accounts, except those whose document,
    /// which comes with the presence, conceals it from the asker.
    pub(crate) fn show_last(&mut self, asker: Jid, seen: Vec<(LastSeen, Option<Vec<u8>>)>) {
        let concealing = self.catalogue.registry.concealing();
        for (last, bytes) in seen {
            // The account has come back while the store was asked, and has shown itself to the
            // asker.
            if self.is_present(last.owner.as_ref()) {
                continue;
            }
            let is_concealed = concealing
                .zip(bytes)
                .is_some_and(|(document, bytes)| self.conceals_by(&last.owner, document, &bytes, &asker));
            if !is_concealed {
                self.show_one_last(&asker, &last);
            }
        }
    }

    /// Returns whether an account that may be away conceals itself from an asker, by a document as
    /// the store has it. A damaged document conceals nothing, here as in memory.
    fn conceals_by(&self, owner: &Jid, document: &str, bytes: &[u8], asker: &Jid) -> bool {
        if owner.bare() == asker.bare() || self.catalogue.registry.concealing_in(self.domain(owner.domain())).is_none()
        {
            return false;
        }
        let read = self.catalogue.registry.read_document(document, bytes);
        let found = read.and_then(|(_, found)| found);
        found.is_some_and(|document| document.conceals(self, None, owner.as_ref(), asker.as_ref()))
    }

    fn show_one_last(&mut self, asker: &Jid, last: &LastSeen) {
        match Packet::from_bytes(&last.stanza) {
            Ok(packet) => {
                let delay = delay::element(last.owner.as_str(), last.unix_ms);
                self.route(&packet.with_child(&delay), asker.as_ref());
            }
            Err(fault) => warn!(account = %last.owner, ?fault, "an account's last presence in the store is damaged"),
        }
    }

    /// Ends the sessions of an account whose documents the store couldn't return, with
    /// `internal-server-error`: nobody knows from whom it conceals itself.
    pub(crate) fn refuse_without_documents(&mut self, account: &Jid, error: &StoreError) {
        self.store_failed("loading what modules need of the account", account, error);
        for link in self.links_of(account.as_ref()) {
            let text = "what belongs to the account could not be loaded";
            self.close(link, rookery_stream::error::StreamError::InternalServerError, text);
        }
    }
}
