//! Sessions and contacts: plain data, small while idle.

use std::collections::{BTreeSet, VecDeque};

use rookery_fanout::{Link, Packet};
use rookery_jid::Jid;
use rookery_xml::ns;

use crate::custody::Custody;
use crate::names::NameId;

/// A reference to a session that may have ended: a link is reused, its serial number is not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SessionRef {
    /// The link, which may belong to a later session by now.
    pub link: Link,
    /// The number of the session among those that the link has had.
    pub serial: u32,
}

/// A bound resource of a user.
#[derive(Debug)]
pub struct Session {
    /// The number of the session among those that its link has had.
    pub serial: u32,
    /// Index of the user in the world's slab.
    pub(crate) user: u32,
    /// The number of copies that the shard had delivered when the resource began to take messages
    /// to the bare JID.
    pub(crate) reachable_since: u64,
    /// Priority of the last available presence (RFC 6121 §4.7.2.3).
    pub priority: i8,
    /// The stream is being ended: nothing more is delivered to it.
    pub(crate) ending: bool,
    /// The connection is gone; its earlier input is still being processed.
    pub(crate) gone: bool,
    /// The account was removed: nobody gets the session's undelivered messages.
    pub(crate) disinherits: bool,
    /// The session's interest in changes of the roster.
    pub(crate) interest: RosterInterest,
    /// The client wants copies of what other resources of the account send and get (XEP-0280 §4).
    pub(crate) carbons: bool,
    /// A stop has taken the connection, and the user hasn't been notified of stanzas that the
    /// client may have missed.
    pub(crate) is_uncalled: bool,
    /// The last available presence; `None` while the resource is not available.
    pub presence: Option<Packet>,
    /// The state that only some sessions have.
    pub(crate) rare: Option<Box<Rare>>,
}

/// The interest of a session in changes of its account's roster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RosterInterest {
    /// Its client has not asked for the roster.
    Unasked,
    /// The client has requested its roster and has no reply yet. If a push came ahead of the reply,
    /// the client would take the version of one change for that of all changes before it (RFC 6121
    /// §2.6).
    Asked,
    /// The client has requested its roster and has no reply yet, and changes were made since.
    Behind,
    /// It gets pushes: an interested resource (RFC 6121 §2.2).
    Follows,
}

/// The state that only some sessions have, or only for a moment.
#[derive(Debug, Default)]
pub(crate) struct Rare {
    /// The stream's `xml:lang`, escaped.
    pub lang: Option<Box<str>>,
    /// The addresses that were sent directed presence (RFC 6121 §4.6.3).
    pub directed: BTreeSet<Jid>,
    /// Stanzas that wait behind one that is not finished.
    pub backlog: SessionBacklog,
    /// Stream management, where it is on.
    pub managed: Option<Box<crate::managed::ManagedSession>>,
    /// The name of the client, kept after its presence is gone.
    #[expect(clippy::box_collection, reason = "few sessions have one, and all have the space for a pointer")]
    pub client: Option<Box<String>>,
}

/// Returns the client that a presence names.
fn client_of(presence: &Packet) -> Option<String> {
    let node = presence.stanza().child("c", ns::CAPS)?.attr("node")?.into_owned();
    let name = node.split_once("://").map_or(node.as_str(), |(_, name)| name).trim_end_matches(['/', '#']);
    let name = name.strip_prefix("www.").unwrap_or(name);
    Some(name.chars().take(MOST_OF_NAME).collect()).filter(|name: &String| !name.is_empty())
}

/// The most characters of a client's name that are shown.
const MOST_OF_NAME: usize = 60;

impl Rare {
    /// Returns whether it holds anything but a backlog that has run empty.
    pub fn is_needed(&self) -> bool {
        self.lang.is_some()
            || !self.directed.is_empty()
            || self.managed.is_some()
            || self.backlog.throttled
            || self.client.is_some()
    }
}

/// Rule five: nothing overtakes. While `waiting` is not zero, later stanzas of the session queue
/// here.
#[derive(Debug, Default)]
pub(crate) struct SessionBacklog {
    pub waiting: u32,
    pub queue: VecDeque<(Box<[u8]>, Option<Custody>)>,
    pub bytes: usize,
    pub paused: bool,
    /// True if the session sent too fast: reading is paused for that, whatever else waits.
    pub throttled: bool,
}

impl Session {
    /// Returns whether the resource has sent available presence.
    pub fn is_available(&self) -> bool {
        self.presence.is_some() && !self.ending
    }

    /// Returns whether messages to the bare JID go to this resource (RFC 6121 §8.5.2.1.1).
    pub fn takes_messages(&self) -> bool {
        self.is_available() && self.priority >= 0
    }

    /// Returns the client by its own statement: the address in the capabilities of its last
    /// presence (XEP-0115), shortened to 60 characters. `None` if it has never named itself.
    pub fn client(&self) -> Option<String> {
        match &self.presence {
            Some(presence) => client_of(presence),
            None => self.rare.as_ref()?.client.as_deref().cloned(),
        }
    }

    /// Takes the presence of a resource that becomes unavailable. Returns whether there was one.
    pub(crate) fn take_presence(&mut self) -> bool {
        let Some(presence) = self.presence.take() else { return false };
        if let Some(client) = client_of(&presence) {
            self.rare().client = Some(Box::new(client));
        }
        true
    }

    pub(crate) fn rare(&mut self) -> &mut Rare {
        self.rare.get_or_insert_default()
    }

    pub(crate) fn is_busy(&self) -> bool {
        self.rare.as_ref().is_some_and(|rare| rare.backlog.waiting > 0)
    }
}

/// A contact in four bytes: the number of the bare JID and the two directions of the subscription.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct SessionContact(u32);

impl SessionContact {
    /// Returns the state of a subscription. `to`: the user sees the contact; `from`: the contact
    /// sees the user.
    pub fn new(name: NameId, to: bool, from: bool) -> Self {
        Self(name.0 << 2 | u32::from(to) << 1 | u32::from(from))
    }

    pub fn name(self) -> NameId {
        NameId(self.0 >> 2)
    }

    pub fn to(self) -> bool {
        self.0 & 2 != 0
    }

    pub fn from(self) -> bool {
        self.0 & 1 != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_data_is_small() {
        assert!(size_of::<Session>() <= 48, "{}", size_of::<Session>());
        assert_eq!(size_of::<SessionContact>(), 4);
        let managed = size_of::<Rare>() + size_of::<crate::managed::ManagedSession>();
        assert!(managed <= 184, "{managed}");
    }
}
