//! Documents of accounts, as the modules that own them read them; see [`crate::documents`] for
//! where they are kept.

use std::rc::Rc;

use rookery_fanout::{Link, Packet};
use rookery_jid::JidRef;

use super::document::Exported;
use crate::World;
use crate::calls::AnyDocument;

/// A document of an account that a module needs with every stanza, and that is kept in memory, by
/// its type.
///
/// The module declares it with [`Hooks::document`](crate::Hooks::document).
pub trait Document: Sized + 'static {
    /// The name of the document in the store, which is unique.
    const NAME: &'static str;

    /// Reads the bytes of a document; `None` if the module didn't write them.
    fn read(bytes: &[u8]) -> Option<Self>;

    /// Its form in a file of XEP-0227.
    const EXPORT: Exported = Exported::Bytes;

    /// Returns whether the roster of the account is needed in memory too, see
    /// [`World::roster_item`].
    fn needs_roster(&self) -> bool {
        false
    }

    /// Returns whether a session may have a stanza that is for the bare JID of the account, while
    /// that is [screened](World::set_screened).
    fn may_reach(&self, _world: &World, _link: Link, _packet: &Packet) -> bool {
        true
    }

    /// Returns whether the account, or this session of it, conceals its presence from a contact
    /// (XEP-0191 §3.3, XEP-0016 §2.12); see [`World::conceals`]. If the account is away, the store
    /// is asked only for documents that [may conceal](Self::MAY_CONCEAL).
    fn conceals(&self, _world: &World, _link: Option<Link>, _owner: JidRef<'_>, _contact: JidRef<'_>) -> bool {
        false
    }

    /// True if [`Document::conceals`] may return `true`. If several documents say so, the last one
    /// counts.
    const MAY_CONCEAL: bool = false;
}

impl<D: Document> AnyDocument for D {
    fn needs_roster(&self) -> bool {
        D::needs_roster(self)
    }

    fn may_reach(&self, world: &World, link: Link, packet: &Packet) -> bool {
        D::may_reach(self, world, link, packet)
    }

    fn conceals(&self, world: &World, link: Option<Link>, owner: JidRef<'_>, contact: JidRef<'_>) -> bool {
        D::conceals(self, world, link, owner, contact)
    }
}

pub(crate) fn read<D: Document>(bytes: &[u8]) -> Option<Rc<dyn AnyDocument>> {
    Some(Rc::new(D::read(bytes)?))
}
