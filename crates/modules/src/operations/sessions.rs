//! Sessions: which there are, and their end.

use std::net::SocketAddr;

use rookery_fanout::Link;
use rookery_hub::{ErrandReply, World};
use rookery_jid::{Jid, JidRef};
use rookery_stream::error::StreamError;

use super::{Outcome, Refusal};

/// A session as operators see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionInfo {
    /// Its full JID.
    pub jid: Jid,
    /// Where its client connects from; `None` while that is away.
    pub address: Option<SocketAddr>,
    /// Whether it has sent available presence.
    pub is_available: bool,
    /// The priority of that presence.
    pub priority: i8,
    /// Bytes that wait for it, or for its acknowledgement.
    pub waiting_bytes: usize,
}

/// The sessions of an account, newest last.
pub fn of(world: &mut World, account: &Jid, then: impl FnOnce(&mut World, Vec<SessionInfo>) + 'static) {
    let asked = account.to_bare();
    let work = move |world: &mut World, reply: ErrandReply<_>| {
        let found: Vec<_> = world.links_of(asked.as_ref()).into_iter().filter_map(|link| look(world, link)).collect();
        with_peers(world, found.into_iter(), Vec::new(), reply);
    };
    world.ask_home(account.as_ref(), work, then);
}

/// Sessions of a domain, `limit` at most (at least one), in the order of their addresses behind `after`. One more than the limit is given if there are
/// more.
pub fn list(
    world: &mut World,
    domain: &str,
    after: Option<Jid>,
    limit: usize,
    then: impl FnOnce(&mut World, Vec<Jid>) + 'static,
) {
    let (domain, most) = (domain.to_owned(), limit.max(1).saturating_add(1));
    let work = move |world: &mut World| {
        let after = after.as_ref().map_or("", Jid::as_str);
        let links = world.present(&domain).flat_map(|(_, links)| links);
        let addresses = links.filter_map(|link| world.outboxes.address(link)).filter(|jid| jid.as_str() > after);
        first(addresses.cloned().collect(), most)
    };
    world.ask_shards(work, move |world, found| then(world, first(found.into_iter().flatten().collect(), most)));
}

/// Ends the sessions of an account, or the one of a full JID; how many those were.
pub fn end(world: &mut World, address: Jid, then: impl FnOnce(&mut World, Outcome<usize>) + 'static) {
    let exists = world.stores.accounts.exists(address.as_ref());
    world.wait(exists, move |world, exists| match exists {
        Ok(true) => {
            close(world, address, "an administrator has ended the session", |world, count| then(world, Ok(count)))
        }
        Ok(false) => then(world, Err(Refusal::no_account(address.bare()))),
        Err(error) => then(world, Err(error.into())),
    });
}

/// The same without asking whether there is such an account; the clients are told `text`.
pub(crate) fn close(
    world: &mut World,
    address: Jid,
    text: &'static str,
    then: impl FnOnce(&mut World, usize) + 'static,
) {
    let meant = address.clone();
    let is_meant = move |of: JidRef<'_>| meant.resource().is_none() || of == meant.as_ref();
    close_those(world, &address, is_meant, (StreamError::PolicyViolation, text), then);
}

/// Ends all that goes on by the old password of an account: its sessions but that of a full JID,
/// those that wait for their clients among them, and logins under way. Tokens end by themselves.
pub(crate) fn password_changed(
    world: &mut World,
    account: Jid,
    keep: Option<Jid>,
    then: impl FnOnce(&mut World) + 'static,
) {
    world.end_logins(&account);
    let is_meant = move |of: JidRef<'_>| keep.as_ref().is_none_or(|keep| of != keep.as_ref());
    // RFC 6120 §4.9.3.16: the credentials that secured the stream hold no longer.
    let error = (StreamError::Reset, "the password has changed");
    close_those(world, &account, is_meant, error, |world, _| then(world));
}

fn close_those(
    world: &mut World,
    account: &Jid,
    is_meant: impl Fn(JidRef<'_>) -> bool + Send + 'static,
    (error, text): (StreamError, &'static str),
    then: impl FnOnce(&mut World, usize) + 'static,
) {
    let whose = account.to_bare();
    let work = move |world: &mut World, reply: ErrandReply<usize>| {
        let links = world.links_of(whose.as_ref()).into_iter();
        let meant: Vec<_> =
            links.filter(|&link| world.outboxes.address(link).is_some_and(|of| is_meant(of.as_ref()))).collect();
        for &link in &meant {
            world.close(link, error.clone(), text);
        }
        reply.give(world, meant.len());
    };
    world.ask_home(account.as_ref(), work, then);
}

fn look(world: &World, link: Link) -> Option<(Link, SessionInfo)> {
    let session = world.session_at(link)?;
    let info = SessionInfo {
        jid: world.outboxes.address(link)?.clone(),
        address: None,
        is_available: session.is_available(),
        priority: session.priority,
        waiting_bytes: world.outboxes.waiting_bytes(link),
    };
    Some((link, info))
}

fn with_peers(
    world: &mut World,
    mut sessions: std::vec::IntoIter<(Link, SessionInfo)>,
    mut found: Vec<SessionInfo>,
    reply: ErrandReply<Vec<SessionInfo>>,
) {
    let Some((link, info)) = sessions.next() else { return reply.give(world, found) };
    world.with_peer(link, move |world, address| {
        found.push(SessionInfo { address, ..info });
        with_peers(world, sessions, found, reply);
    });
}

/// The first so many, in order.
fn first(mut jids: Vec<Jid>, most: usize) -> Vec<Jid> {
    if jids.len() > most {
        jids.select_nth_unstable_by(most, |a, b| a.as_str().cmp(b.as_str()));
        jids.truncate(most);
    }
    jids.sort_unstable_by(|a, b| a.as_str().cmp(b.as_str()));
    jids
}
