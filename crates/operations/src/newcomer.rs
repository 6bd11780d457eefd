//! Accounts that users have created for themselves, without an invitation: for some days they count
//! as newcomers, unknown to the others here.
//!
//! The mark is a document of the account, so limits for newcomers cost others nothing, and it is
//! removed with the account.

use rookery_hub::{Document, World};
use rookery_jid::JidRef;

/// The mark of an account that was created without an invitation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Newcomer {
    /// The time of its creation, in milliseconds since 1970.
    pub since_ms: u64,
}

impl Document for Newcomer {
    const NAME: &'static str = "newcomer";

    fn read(bytes: &[u8]) -> Option<Self> {
        Some(Self { since_ms: std::str::from_utf8(bytes).ok()?.parse().ok()? })
    }
}

/// Marks a newly created account, which has no session yet.
pub(crate) fn mark(world: &mut World, account: JidRef<'_>) {
    let since = world.time().to_string().into_bytes();
    let (kept, account) = (world.keep_document::<Newcomer>(account, since), account.to_jid());
    world.wait(kept, move |world, kept| {
        if let Err(error) = kept {
            world.store_failed("marking a new account", &account, &error);
        }
    });
}
