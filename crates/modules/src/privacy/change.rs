//! The notifications of contacts and resources when one set of rules replaces another.
//!
//! A contact that is shut out now sees the account become unavailable, before the new rules apply;
//! one that is let in sees it again, once they are stored (XEP-0191 §3.3, §3.4; XEP-0016 §2.11,
//! §2.12). The same holds in the other direction: a contact whose presence is stopped seems
//! unavailable, and one whose presence is let in again is probed.

use rookery_base::{Map, Set};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

use rookery_fanout::{Packet, To};
use rookery_hub::{SessionRef, World};
use rookery_jid::{Jid, JidRef};
use rookery_store::{StoreError, Subscription};
use rookery_xml::Writer;

use super::passage::{acquaintance, denies_known};
use super::rules::{Acquaintance, PassingStanza, PrivacyList, PrivacyRules};
use super::sessions::{PrivacySessions, reference};

/// The changes for each session and address.
#[derive(Debug, Default)]
pub(crate) struct Shift {
    /// The contacts that no longer see the session.
    hidden: Vec<(SessionRef, Jid)>,
    /// The contacts that see it again.
    shown: Vec<(SessionRef, Jid)>,
    /// The contacts that the session no longer sees.
    gone: Vec<(SessionRef, Jid)>,
    /// The contacts that the session may see again.
    back: Vec<(SessionRef, Jid)>,
}

/// Replaces the rules of an account that has a session. `then` runs when the store has answered.
pub(crate) fn replace(
    world: &mut World,
    account: &Jid,
    rules: PrivacyRules,
    then: impl FnOnce(&mut World, Result<(), StoreError>) + 'static,
) {
    let after = Rc::new(rules);
    let before = world.document::<PrivacyRules>(account.as_ref()).unwrap_or_default();
    let shift = Shift::of_rules(world, account, &before, &after);
    shift.shut_out(world);
    let account = account.clone();
    world.set_document::<PrivacyRules>(account.clone().as_ref(), after.write(), move |world, kept| {
        let is_kept = kept.is_ok();
        then(world, kept);
        if is_kept {
            return shift.open(world);
        }
        // The former rules apply again, or those of a later change.
        let now = world.document::<PrivacyRules>(account.as_ref()).unwrap_or_default();
        Shift::of_rules(world, &account, &after, &now).open(world);
    });
}

impl Shift {
    fn of_rules(world: &World, account: &Jid, before: &PrivacyRules, after: &PrivacyRules) -> Self {
        let sessions = world.state::<PrivacySessions>();
        Self::between(world, account, |address| (sessions.list_for(before, address), sessions.list_for(after, address)))
    }

    /// Compares two lists, which `lists` returns for the full JID of each session.
    pub(crate) fn between<'l>(
        world: &World,
        account: &Jid,
        lists: impl Fn(JidRef<'_>) -> (Option<&'l PrivacyList>, Option<&'l PrivacyList>),
    ) -> Self {
        let (watchers, watched) = (world.watchers(account.as_ref()), world.watched_contacts(account.as_ref()));
        let mut shift = Self::default();
        // The roster is looked up once per contact, however many sessions and lists there are.
        let known = RefCell::new(Map::<Jid, Acquaintance>::default());
        let known = |contact: &Jid| {
            let mut known = known.borrow_mut();
            let ask = || acquaintance(world, account.as_ref(), contact.as_ref());
            known.entry(contact.to_bare()).or_insert_with(ask).clone()
        };
        // A session that is ending tells only those from whom it doesn't conceal itself then.
        for session in world.links_shown(account.as_ref()).into_iter().filter_map(|link| reference(world, link)) {
            let Some(address) = world.address(session.link) else { continue };
            let lists = lists(address.as_ref());
            let changes = |contact: &Jid, passing| {
                let stops = |list: Option<&PrivacyList>| {
                    let denies =
                        |list| denies_known(list, account.as_ref(), contact.as_ref(), passing, || known(contact));
                    list.is_some_and(denies)
                };
                (stops(lists.0), stops(lists.1))
            };
            let directed = world.directed_to(session.link);
            let sees = |jid: &Jid| world.may_see_presence(account.as_ref(), jid.as_ref());
            for contact in with_named(watchers.iter().chain(&directed), lists, sees) {
                match changes(&contact, PassingStanza::PresenceOut) {
                    (false, true) => shift.hidden.push((session, contact)),
                    (true, false) if sees(&contact) => shift.shown.push((session, contact)),
                    _ => {}
                }
            }
            let is_seen = |jid: &Jid| {
                let subscription = world.subscription(account.as_ref(), jid.as_ref());
                subscription.is_some_and(Subscription::to)
            };
            for contact in with_named(watched.iter(), lists, is_seen) {
                match changes(&contact, PassingStanza::PresenceIn) {
                    (false, true) => shift.gone.push((session, contact)),
                    (true, false) => shift.back.push((session, contact)),
                    _ => {}
                }
            }
        }
        shift
    }

    /// Sends unavailable presence to contacts that are shut out, and from those whose presence is
    /// stopped.
    pub(crate) fn shut_out(&self, world: &mut World) {
        for (session, contact) in &self.hidden {
            world.hide_session_from(session.link, contact.as_ref());
        }
        for (session, contact) in &self.gone {
            let mut presence = Writer::new("presence");
            presence.attr("type", "unavailable").attr("from", contact.as_str());
            if let Ok(packet) = Packet::from_built(&presence.finish()) {
                world.push(session.link, &packet, To::Full);
            }
        }
    }

    /// Sends presence to contacts that are let in, and probes those whose presence may come again.
    pub(crate) fn open(&self, world: &mut World) {
        show(world, &self.shown);
        probe(world, &self.back);
    }
}

fn show(world: &mut World, shown: &[(SessionRef, Jid)]) {
    for (session, contact) in shown {
        if world.session(*session).is_some() {
            world.show_session_to(session.link, contact.as_ref());
        }
    }
}

fn probe(world: &mut World, back: &[(SessionRef, Jid)]) {
    let mut asked = Set::default();
    for (session, contact) in back {
        let contact = contact.to_bare();
        if world.session(*session).is_some() && asked.insert((*session, contact.clone())) {
            world.probe(session.link, contact.as_ref());
        }
    }
}

/// Returns these contacts, and those whom a rule names by an address of an account, bare or full,
/// if they are contacts: by group, or by one of their resources.
fn with_named<'c>(
    contacts: impl Iterator<Item = &'c Jid>,
    (before, after): (Option<&PrivacyList>, Option<&PrivacyList>),
    is_contact: impl Fn(&Jid) -> bool,
) -> BTreeSet<Jid> {
    let mut all: BTreeSet<Jid> = contacts.cloned().collect();
    let named = before.into_iter().chain(after).flat_map(PrivacyList::named_addresses);
    all.extend(named.filter(|jid| jid.local().is_some() && is_contact(jid)).cloned());
    all
}
