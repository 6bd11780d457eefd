//! Reads archives of accounts, for callers that may export them.

use rookery_archive::id;
use rookery_jid::{Jid, JidRef};
use rookery_store::{ArchiveQuery, Pending, Stores};

use crate::{Outcome, Refusal};

/// A message of an archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptMessage {
    /// Its id, as clients see it.
    pub id: String,
    /// The time of its arrival, in milliseconds since 1970.
    pub unix_ms: u64,
    /// The stanza as XML, as the archive has it.
    pub stanza: String,
}

/// A part of an archive, oldest first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KeptMessages {
    /// The messages, oldest first, no more than were requested.
    pub messages: Vec<KeptMessage>,
    /// True if there are more after them.
    pub has_more: bool,
}

/// Returns at most `limit` messages of an account's archive after a given one, optionally only
/// those with one contact.
pub fn page(
    stores: &Stores,
    account: JidRef<'_>,
    with: Option<Jid>,
    after: Option<&str>,
    limit: usize,
) -> Pending<Outcome<KeptMessages>> {
    let behind = match after.map(id::read) {
        None => 0,
        Some(Some(behind)) => behind,
        Some(None) => {
            return Box::pin(async {
                Ok(Err(Refusal::Impossible("after: expected the `next` of the previous part".into())))
            });
        }
    };
    let query = ArchiveQuery { with, after: behind, limit, max_bytes: MOST_BYTES, ..ArchiveQuery::default() };
    let (exists, found) = (stores.accounts.exists(account), stores.archive.page(account, query));
    let account = account.to_jid();
    Box::pin(async move {
        if !exists.await? {
            return Ok(Err(Refusal::no_account(account)));
        }
        let found = found.await?.unwrap_or_default();
        let messages = found.messages.into_iter().map(kept_message).collect();
        Ok(Ok(KeptMessages { messages, has_more: found.more }))
    })
}

/// Returns one message of an account's archive by its id, as clients see it.
pub fn message(stores: &Stores, account: JidRef<'_>, id: &str) -> Pending<Outcome<KeptMessage>> {
    let missing = |what: &str| Refusal::Missing(format!("there is no message {what} in this archive"));
    let Some(wanted) = id::read(id) else {
        let refusal = missing(id);
        return Box::pin(async { Ok(Err(refusal)) });
    };
    let query = ArchiveQuery { ids: Some(vec![wanted]), limit: 1, max_bytes: MOST_BYTES, ..ArchiveQuery::default() };
    let (exists, found) = (stores.accounts.exists(account), stores.archive.page(account, query));
    let (account, refusal) = (account.to_jid(), missing(id));
    Box::pin(async move {
        if !exists.await? {
            return Ok(Err(Refusal::no_account(account)));
        }
        let message = found.await?.and_then(|page| page.messages.into_iter().next());
        Ok(message.map(kept_message).ok_or(refusal))
    })
}

fn kept_message((id, stanza): (u64, Vec<u8>)) -> KeptMessage {
    let stanza = String::from_utf8_lossy(&stanza).into_owned();
    KeptMessage { id: id::text(id), unix_ms: id::time(id), stanza }
}

/// Returns the number of messages in an archive of an account or room; `None` if there are more
/// than a number.
pub fn count(stores: &Stores, owner: JidRef<'_>, up_to: usize) -> Pending<Option<usize>> {
    let query = ArchiveQuery { limit: 1, max_bytes: 1, count_to: up_to, ..ArchiveQuery::default() };
    let page = stores.archive.page(owner, query);
    Box::pin(async move { Ok(page.await?.and_then(|page| page.count)) })
}

/// Returns when the newest message of an archive of an account or room arrived, in milliseconds
/// since 1970; `None` if there is none.
pub fn newest(stores: &Stores, owner: JidRef<'_>) -> Pending<Option<u64>> {
    let ends = stores.archive.ends(owner);
    Box::pin(async move { Ok(ends.await?.map(|(_, newest)| id::time(newest))) })
}

/// The most bytes of stanzas in a part.
const MOST_BYTES: usize = 1 << 20;
