//! Recipients of messages for an account: the rules of RFC 6121 §8.5 as a value, for modules that
//! add to it; and the sessions that want copies.

use rookery_fanout::{Link, Packet, StanzaType};
use rookery_jid::JidRef;
use rookery_xml::Kind;

use crate::World;
use crate::session::SessionRef;

/// The recipients of a message for an account.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Destination {
    /// The session that it is addressed to.
    Session(Link),
    /// Every session that accepts messages to the bare JID; if there is none, the message waits for
    /// one.
    Account,
    /// No recipient, and nobody is notified.
    Nobody,
    /// No recipient, and its sender gets an error.
    Refused,
}

impl Destination {
    /// Returns the recipients of a message that is for a bare JID, or for a resource that isn't
    /// there.
    pub(crate) fn without_session(type_: StanzaType, to: JidRef<'_>) -> Self {
        match (type_, to.resource()) {
            // §8.5.3.2.1: as if it were for the bare JID.
            (StanzaType::Chat, _) => Self::Account,
            (StanzaType::Error, _) | (StanzaType::Headline, Some(_)) => Self::Nobody,
            (_, Some(_)) | (StanzaType::Groupchat, None) => Self::Refused,
            (_, None) => Self::Account,
        }
    }
}

impl World {
    /// Returns the recipients of a message for an account whose home this is, as its sessions are
    /// now.
    pub fn destination(&self, packet: &Packet, to: JidRef<'_>) -> Destination {
        debug_assert!(packet.kind() == Kind::Message, "only messages have a destination");
        let user = self.user_named(self.hash(to.bare_str()), to.bare_str());
        let session = to.resource().and_then(|resource| self.find_resource(user, resource));
        session.map_or_else(|| Destination::without_session(packet.type_(), to), Destination::Session)
    }

    /// Sets whether a session wants copies of what other resources of its account send and get
    /// (XEP-0280 §4, §5).
    pub fn set_carbons(&mut self, session: SessionRef, wanted: bool) {
        if let Some(session) = self.session_mut(session) {
            session.carbons = wanted;
        }
    }

    /// Returns whether an account whose home this is has a session that wants copies.
    pub(crate) fn has_carbons(&self, account: JidRef<'_>) -> bool {
        let user = self.user_named(self.hash(account.bare_str()), account.bare_str());
        user.is_some_and(|user| self.is_copying(user))
    }

    /// Returns whether a user has a session that wants copies.
    pub(crate) fn is_copying(&self, user: u32) -> bool {
        let links = self.people.users.get(user as usize).map(|user| user.links.as_slice()).unwrap_or_default();
        links.iter().any(|&link| self.session_at(link).is_some_and(|session| session.carbons))
    }

    /// Returns the sessions that want copies of an account whose home this is. Allocates nothing if
    /// there are none.
    pub fn links_with_carbons(&self, account: JidRef<'_>) -> Vec<Link> {
        let user = self.user_named(self.hash(account.bare_str()), account.bare_str());
        let links = user.and_then(|user| self.people.users.get(user as usize)).map(|user| user.links.as_slice());
        let wants = |link: &Link| self.session_at(*link).is_some_and(|session| session.carbons && !session.ending);
        links.unwrap_or_default().iter().copied().filter(wants).collect()
    }
}
