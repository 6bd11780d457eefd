//! The module's data about sessions: the lists that they have requested and made active.

use rookery_base::{Map, Set};
use rookery_fanout::Link;
use rookery_hub::{Carry, SessionRef, World};
use rookery_jid::{Jid, JidRef};

use super::rules::{PrivacyList, PrivacyRules};

/// The requests and active lists of a shard's sessions.
#[derive(Debug, Default)]
pub(crate) struct PrivacySessions {
    /// Sessions that have requested the block list, and get its changes (XEP-0191 §3.3).
    blocking: Set<SessionRef>,
    /// Sessions that have requested privacy lists.
    lists: Set<SessionRef>,
    /// By full JID, the session and the name of its active list (XEP-0016 §2.4).
    active: Map<Jid, (SessionRef, String)>,
}

impl PrivacySessions {
    /// Notes that the session has requested the block list.
    pub(crate) fn asked_for_blocks(&mut self, session: SessionRef) {
        self.blocking.insert(session);
    }

    /// Notes that the session has requested privacy lists.
    pub(crate) fn asked_for_lists(&mut self, session: SessionRef) {
        self.lists.insert(session);
    }

    /// Returns whether the session has requested the block list.
    pub(crate) fn follows_blocks(&self, session: SessionRef) -> bool {
        self.blocking.contains(&session)
    }

    /// Returns whether the session has requested privacy lists.
    pub(crate) fn follows_lists(&self, session: SessionRef) -> bool {
        self.lists.contains(&session)
    }

    /// Returns the name of the list that the session with this full JID has made active.
    pub(crate) fn active(&self, address: JidRef<'_>) -> Option<&str> {
        self.active.get(address.as_str()).map(|(_, name)| name.as_str())
    }

    /// Sets the active list of a session; `None` for none.
    pub(crate) fn set_active(&mut self, session: SessionRef, address: Jid, name: Option<String>) {
        match name {
            Some(name) => drop(self.active.insert(address, (session, name))),
            None => drop(self.active.remove(&address)),
        }
    }

    /// Returns the list that applies to an address of an account: the active one of that session,
    /// otherwise the default one (XEP-0016 §2.2).
    pub(crate) fn list_for<'r>(&self, rules: &'r PrivacyRules, address: JidRef<'_>) -> Option<&'r PrivacyList> {
        let active = self.active(address).and_then(|name| rules.list(name));
        active.or_else(|| rules.default_list())
    }
}

/// Returns the data about a session, for another process: whether it follows blocks and lists,
/// and its active list.
pub(crate) fn save(world: &World, link: Link) -> Carry {
    let Some((session, address)) = reference(world, link).zip(world.address(link)) else { return Carry::Nothing };
    let sessions = world.state::<PrivacySessions>();
    let known: KnownSessions = (
        sessions.follows_blocks(session),
        sessions.follows_lists(session),
        sessions.active(address.as_ref()).map(str::to_owned),
    );
    match known {
        (false, false, None) => Carry::Nothing,
        known => postcard::to_allocvec(&known).map_or(Carry::Impossible, Carry::State),
    }
}

/// Restores the data that [`save`] has returned.
pub(crate) fn restore(world: &mut World, link: Link, state: Option<&[u8]>) {
    let known = state.and_then(|state| postcard::from_bytes::<KnownSessions>(state).ok());
    let Some((blocks, lists, active)) = known else { return };
    let Some((session, address)) = reference(world, link).zip(world.address(link).cloned()) else { return };
    let sessions = world.state_mut::<PrivacySessions>();
    if blocks {
        sessions.asked_for_blocks(session);
    }
    if lists {
        sessions.asked_for_lists(session);
    }
    if active.is_some() {
        sessions.set_active(session, address.clone(), active);
        screen(world, address.bare());
    }
}

type KnownSessions = (bool, bool, Option<String>);

/// Forgets a session that has ended.
pub(crate) fn ended(world: &mut World, link: Link) {
    let Some(session) = reference(world, link) else { return };
    let address = world.address(link).cloned();
    let sessions = world.state_mut::<PrivacySessions>();
    sessions.blocking.remove(&session);
    sessions.lists.remove(&session);
    if let Some(address) = address
        && sessions.active.get(&address).is_some_and(|(of, _)| *of == session)
    {
        sessions.active.remove(&address);
        screen(world, address.bare());
    }
}

/// Makes the hub filter stanzas for each session of an account separately, while any session has a
/// list of its own.
pub(crate) fn screen(world: &mut World, account: JidRef<'_>) {
    let sessions = world.state::<PrivacySessions>();
    let links = world.links_of(account).into_iter();
    let mut addresses = links.filter_map(|link| world.address(link));
    let any = addresses.any(|address| sessions.active.contains_key(address));
    world.set_screened(account, any);
}

/// Returns the session at a link.
pub(crate) fn reference(world: &World, link: Link) -> Option<SessionRef> {
    world.session_at(link).map(|session| SessionRef { link, serial: session.serial })
}

/// Returns the sessions of an account.
pub(crate) fn sessions_of(world: &World, account: JidRef<'_>) -> Vec<SessionRef> {
    world.links_of(account).into_iter().filter_map(|link| reference(world, link)).collect()
}
