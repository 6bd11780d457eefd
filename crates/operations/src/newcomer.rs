//! Accounts that people have created for themselves, without an invitation: for some days they are
//! newcomers, whom nobody here knows.
//!
//! The account has a document about it, so that limits for newcomers cost others nothing, and the
//! mark is removed with the account.

use rookery_hub::{Document, World};
use rookery_jid::JidRef;

/// The mark of an account that somebody has made without an invitation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Newcomer {
    /// The time when it was made, milliseconds since 1970.
    pub since_ms: u64,
}

impl Document for Newcomer {
    const NAME: &'static str = "newcomer";

    fn read(bytes: &[u8]) -> Option<Self> {
        Some(Self { since_ms: std::str::from_utf8(bytes).ok()?.parse().ok()? })
    }
}

/// Marks an account that was made just now, and has no session yet.
pub(crate) fn mark(world: &mut World, account: JidRef<'_>) {
    let since = world.time().to_string().into_bytes();
    let (kept, account) = (world.keep_document::<Newcomer>(account, since), account.to_jid());
    world.wait(kept, move |world, kept| {
        if let Err(error) = kept {
            world.store_failed("marking a new account", &account, &error);
        }
    });
}
