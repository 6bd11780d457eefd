//! Sessions: their list, and ending them.

use std::cell::RefCell;
use std::iter;
use std::mem;
use std::net::SocketAddr;
use std::rc::Rc;

use rookery_fanout::Link;
use rookery_hub::{Hooks, Question, QuestionReply, World};
use rookery_jid::{Jid, JidRef};
use rookery_stream::error::StreamError;
use serde::{Deserialize, Deserializer, Serialize};

use super::{Gathered, Outcome, PATIENCE_MS, Refusal};

/// A session as operators see it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionInfo {
    /// Its full JID.
    pub jid: Jid,
    /// The address that its client connects from; `None`, like all data about the connection, while
    /// the client is disconnected.
    pub address: Option<SocketAddr>,
    /// The transport of its stream.
    pub transport: Option<String>,
    /// True if TLS ends here.
    pub is_encrypted: Option<bool>,
    /// The time at which its client connected, in milliseconds since 1970.
    pub since_ms: Option<u64>,
    /// True if it has sent available presence.
    pub is_available: bool,
    /// The priority of that presence.
    pub priority: i8,
    /// The client, as it describes itself: the address of its software in its capabilities
    /// (XEP-0115).
    pub client: Option<String>,
    /// The loss of its connection; `None` while it is connected.
    pub lost: Option<LostClient>,
    /// Bytes waiting for it, or for its acknowledgement.
    pub waiting_bytes: usize,
    /// The milliseconds since it last sent a stanza, or since it began; `None` if its node is older
    /// than this member.
    #[serde(skip)]
    pub idle_ms: Option<u64>,
}

/// The sessions of a shard, as an answer. Nodes of 0.2.0 know only the first member: they read
/// nothing after it, and what they send ends there.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct SessionAnswer {
    sessions: Vec<SessionInfo>,
    #[serde(deserialize_with = "perhaps")]
    idle_ms: Vec<Option<u64>>,
}

fn perhaps<'d, D: Deserializer<'d>>(deserializer: D) -> Result<Vec<Option<u64>>, D::Error> {
    Ok(Vec::deserialize(deserializer).unwrap_or_default())
}

impl From<Vec<SessionInfo>> for SessionAnswer {
    fn from(sessions: Vec<SessionInfo>) -> Self {
        let idle_ms = sessions.iter().map(|session| session.idle_ms).collect();
        Self { sessions, idle_ms }
    }
}

impl SessionAnswer {
    fn whole(self) -> Vec<SessionInfo> {
        let idle = self.idle_ms.into_iter().chain(iter::repeat(None));
        self.sessions.into_iter().zip(idle).map(|(session, idle_ms)| SessionInfo { idle_ms, ..session }).collect()
    }
}

/// A session that waits for its client (XEP-0198).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LostClient {
    /// The time at which the connection was lost, in milliseconds since 1970.
    pub since_ms: u64,
    /// The time until which the client may resume it.
    pub until_ms: u64,
}

pub(super) fn install(hooks: &mut Hooks<'_>) {
    hooks.question::<Of>();
    hooks.question::<In>();
    hooks.question::<CloseSessions>();
    hooks.question::<Fullest>();
    hooks.question::<OnlineIn>();
}

fn gather(found: Vec<Option<SessionAnswer>>) -> Gathered<SessionInfo> {
    Gathered::from(found.into_iter().map(|found| found.map(SessionAnswer::whole)).collect::<Vec<_>>())
}

/// Continues with the sessions of an account, newest last.
pub fn of(world: &mut World, account: &Jid, then: impl FnOnce(&mut World, Outcome<Vec<SessionInfo>>) + 'static) {
    let asked = Of(account.to_bare());
    let whole = |found: Option<SessionAnswer>| found.map(SessionAnswer::whole).ok_or(Refusal::Late);
    world.put_to_home(account.as_ref(), asked, move |world, found| then(world, whole(found)));
}

/// Continues with those of the given accounts that have a session with a connected client, in no
/// particular order. An account whose home doesn't answer in time is left out.
pub fn retain_connected(world: &mut World, accounts: Vec<Jid>, then: impl FnOnce(&mut World, Vec<Jid>) + 'static) {
    let gathering = Rc::new(RefCell::new((accounts.len(), Vec::new(), Some(then))));
    if accounts.is_empty() {
        let then = gathering.borrow_mut().2.take();
        return then.into_iter().for_each(|then| then(world, Vec::new()));
    }
    for account in accounts {
        let gathering = gathering.clone();
        of(world, &account.clone(), move |world, sessions| {
            let is_here = sessions.is_ok_and(|sessions| sessions.iter().any(|session| session.address.is_some()));
            let done = {
                let (left, found, then) = &mut *gathering.borrow_mut();
                found.extend(is_here.then_some(account));
                *left -= 1;
                if *left == 0 { then.take().map(|then| (then, mem::take(found))) } else { None }
            };
            if let Some((then, found)) = done {
                then(world, found);
            }
        });
    }
}

/// Continues with the accounts of a domain that have a session with a connected client.
pub fn online(world: &mut World, domain: String, then: impl FnOnce(&mut World, Gathered<Jid>) + 'static) {
    world.put_to_all(OnlineIn(domain), |world, found| then(world, Gathered::from(found)));
}

/// Asks a shard for the accounts of a domain that are online there.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct OnlineIn(String);

impl Question for OnlineIn {
    const NAME: &'static str = "operations online";
    const PATIENCE_MS: u64 = PATIENCE_MS;
    type Answer = Vec<Jid>;

    fn ask(self, world: &mut World, reply: QuestionReply<Self::Answer>) {
        let is_here = |link: &Link| world.absence(*link).is_none();
        let online = world.present(&self.0).filter(|(_, links)| links.iter().any(is_here));
        let online = online.filter_map(|(bare, _)| Jid::parse(bare).ok()).collect();
        reply.answer(world, online);
    }
}

/// Asks the home of an account for its sessions.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Of(Jid);

impl Question for Of {
    const NAME: &'static str = "operations sessions of an account";
    const PATIENCE_MS: u64 = PATIENCE_MS;
    type Answer = SessionAnswer;

    fn ask(self, world: &mut World, reply: QuestionReply<Self::Answer>) {
        let links = world.links_of(self.0.as_ref()).into_iter();
        let found: Vec<_> = links.filter_map(|link| look(world, link)).collect();
        with_peers(world, found.into_iter(), Vec::new(), reply);
    }
}

/// Continues with sessions of a domain, `limit` at most (at least one), in the order of their
/// addresses after `after`. If there are more, the result has one more than the limit.
pub fn list(
    world: &mut World,
    domain: &str,
    after: Option<Jid>,
    limit: usize,
    then: impl FnOnce(&mut World, Gathered<SessionInfo>) + 'static,
) {
    let most = limit.max(1).saturating_add(1);
    let asked = In { domain: domain.to_owned(), after, most };
    world.put_to_all(asked, move |world, found| {
        let Gathered { items, is_partial } = gather(found);
        then(world, Gathered { items: first(items, most, |info| info.jid.as_str()), is_partial });
    });
}

/// Asks a shard for the first sessions of a domain after a given one.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct In {
    domain: String,
    after: Option<Jid>,
    most: usize,
}

impl Question for In {
    const NAME: &'static str = "operations sessions of a domain";
    const PATIENCE_MS: u64 = PATIENCE_MS;
    type Answer = SessionAnswer;

    fn ask(self, world: &mut World, reply: QuestionReply<Self::Answer>) {
        let after = self.after.as_ref().map_or("", Jid::as_str);
        let links = world.present(&self.domain).flat_map(|(_, links)| links);
        let addresses = links.filter_map(|link| Some((link, world.address(link)?)));
        let behind = addresses.filter(|(_, jid)| jid.as_str() > after);
        let links = first(behind.collect(), self.most, |(_, jid)| jid.as_str()).into_iter().map(|(link, _)| link);
        let found: Vec<_> = links.filter_map(|link| look(world, link)).collect();
        with_peers(world, found.into_iter(), Vec::new(), reply);
    }
}

/// Continues with the sessions of some domains that have the most waiting bytes, `most` at most,
/// the fullest first.
pub fn fullest(
    world: &mut World,
    domains: Vec<String>,
    most: usize,
    then: impl FnOnce(&mut World, Gathered<SessionInfo>) + 'static,
) {
    world.put_to_all(Fullest { domains, most }, move |world, found| {
        let Gathered { mut items, is_partial } = gather(found);
        items.sort_by(|a, b| b.waiting_bytes.cmp(&a.waiting_bytes).then_with(|| a.jid.cmp(&b.jid)));
        items.truncate(most);
        then(world, Gathered { items, is_partial });
    });
}

/// Asks a shard for the sessions of some domains with the most waiting bytes.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Fullest {
    domains: Vec<String>,
    most: usize,
}

impl Question for Fullest {
    const NAME: &'static str = "operations fullest sessions";
    const PATIENCE_MS: u64 = PATIENCE_MS;
    type Answer = SessionAnswer;

    fn ask(self, world: &mut World, reply: QuestionReply<Self::Answer>) {
        let links = self.domains.iter().flat_map(|domain| world.present(domain)).flat_map(|(_, links)| links);
        let mut links: Vec<_> = links.map(|link| (world.outboxes.waiting_bytes(link), link)).collect();
        if links.len() > self.most {
            links.select_nth_unstable_by(self.most, |(some, _), (others, _)| others.cmp(some));
            links.truncate(self.most);
        }
        let found: Vec<_> = links.into_iter().filter_map(|(_, link)| look(world, link)).collect();
        with_peers(world, found.into_iter(), Vec::new(), reply);
    }
}

/// Ends the sessions of an account, or the one of a full JID, and continues with their number.
pub fn end(world: &mut World, address: Jid, then: impl FnOnce(&mut World, Outcome<usize>) + 'static) {
    let exists = world.stores.accounts.exists(address.as_ref());
    world.wait(exists, move |world, exists| match exists {
        Ok(true) => close(world, address, Why::Administrator, then),
        Ok(false) => then(world, Err(Refusal::no_account(address.bare()))),
        Err(error) => then(world, Err(error.into())),
    });
}

/// Ends sessions as [`end`] does, for a given reason and without checking that the account exists.
pub fn close(world: &mut World, address: Jid, why: Why, then: impl FnOnce(&mut World, Outcome<usize>) + 'static) {
    let account = address.to_bare();
    let which = if address.resource().is_none() { SessionWhich::All } else { SessionWhich::Only(address) };
    put_close(world, CloseSessions { account, which, why }, then);
}

/// Ends everything that relies on the old password of an account: its sessions except that of a
/// full JID, including those that wait for their clients, and logins in progress. Tokens end by
/// themselves.
pub fn password_changed(
    world: &mut World,
    account: Jid,
    keep: Option<Jid>,
    then: impl FnOnce(&mut World, Outcome<()>) + 'static,
) {
    world.end_logins(&account);
    let which = keep.map_or(SessionWhich::All, SessionWhich::AllBut);
    let close = CloseSessions { account: account.to_bare(), which, why: Why::PasswordChanged };
    put_close(world, close, |world, closed| then(world, closed.map(drop)));
}

fn put_close(world: &mut World, close: CloseSessions, then: impl FnOnce(&mut World, Outcome<usize>) + 'static) {
    let home = world.home_of(close.account.as_ref());
    world.put_to(home, close, |world, count| then(world, count.ok_or(Refusal::Late)));
}

/// Asks the home of an account to end some of its sessions; the answer is their number.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct CloseSessions {
    account: Jid,
    which: SessionWhich,
    why: Why,
}

/// Selects sessions of an account.
#[derive(Debug, Clone, Serialize, Deserialize)]
enum SessionWhich {
    All,
    Only(Jid),
    AllBut(Jid),
}

/// The reason why sessions are ended.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub enum Why {
    /// An administrator has requested it.
    Administrator,
    /// The account may not log in any more.
    Disabled,
    /// The password of their login has changed.
    PasswordChanged,
}

impl SessionWhich {
    fn means(&self, session: JidRef<'_>) -> bool {
        match self {
            Self::All => true,
            Self::Only(one) => session == one.as_ref(),
            Self::AllBut(one) => session != one.as_ref(),
        }
    }
}

impl Why {
    fn error(self) -> (StreamError, &'static str) {
        match self {
            Self::Administrator => (StreamError::PolicyViolation, "an administrator has ended the session"),
            Self::Disabled => (StreamError::PolicyViolation, "the account is disabled"),
            // RFC 6120 §4.9.3.16: the credentials that secured the stream are no longer valid.
            Self::PasswordChanged => (StreamError::Reset, "the password has changed"),
        }
    }
}

impl Question for CloseSessions {
    const NAME: &'static str = "operations close sessions";
    const PATIENCE_MS: u64 = PATIENCE_MS;
    type Answer = usize;

    fn ask(self, world: &mut World, reply: QuestionReply<usize>) {
        let is_meant = |of: &Jid| self.which.means(of.as_ref());
        let links = world.links_of(self.account.as_ref()).into_iter();
        let meant: Vec<_> = links.filter(|&link| world.address(link).is_some_and(is_meant)).collect();
        let (error, text) = self.why.error();
        for &link in &meant {
            world.close(link, error.clone(), text);
        }
        reply.answer(world, meant.len());
    }
}

fn look(world: &World, link: Link) -> Option<(Link, SessionInfo)> {
    let session = world.session_at(link)?;
    let now_ms = world.time();
    let lost = world.absence(link).map(|(waited_ms, left_ms)| LostClient {
        since_ms: now_ms.saturating_sub(waited_ms),
        until_ms: now_ms + left_ms,
    });
    let info = SessionInfo {
        jid: world.address(link)?.clone(),
        address: None,
        transport: None,
        is_encrypted: None,
        since_ms: None,
        is_available: session.is_available(),
        priority: session.priority,
        client: session.client(),
        lost,
        waiting_bytes: world.outboxes.waiting_bytes(link),
        idle_ms: world.idle_ms(link),
    };
    Some((link, info))
}

fn with_peers(
    world: &mut World,
    mut sessions: std::vec::IntoIter<(Link, SessionInfo)>,
    mut found: Vec<SessionInfo>,
    reply: QuestionReply<SessionAnswer>,
) {
    let Some((link, info)) = sessions.next() else { return reply.answer(world, found.into()) };
    world.with_peer(link, move |world, peer| {
        found.push(match peer {
            None => info,
            Some(peer) => SessionInfo {
                address: Some(peer.address),
                transport: Some(peer.transport),
                is_encrypted: Some(peer.is_encrypted),
                since_ms: Some(peer.since_ms),
                ..info
            },
        });
        with_peers(world, sessions, found, reply);
    });
}

/// Returns the first items, `most` at most, in the order of their addresses.
fn first<T>(mut all: Vec<T>, most: usize, address: impl Fn(&T) -> &str) -> Vec<T> {
    if all.len() > most {
        all.select_nth_unstable_by(most, |a, b| address(a).cmp(address(b)));
        all.truncate(most);
    }
    all.sort_unstable_by(|a, b| address(a).cmp(address(b)));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(name: &str, idle_ms: Option<u64>) -> SessionInfo {
        SessionInfo {
            jid: Jid::parse(&format!("{name}@a.example/phone")).expect("an address"),
            address: None,
            transport: None,
            is_encrypted: None,
            since_ms: None,
            is_available: true,
            priority: 0,
            client: None,
            lost: None,
            waiting_bytes: 7,
            idle_ms,
        }
    }

    #[test]
    fn nodes_without_idle_times_read_our_answers_and_we_read_theirs() {
        let both = vec![session("alice", Some(5)), session("bob", None)];
        let bytes = postcard::to_allocvec(&SessionAnswer::from(both.clone())).expect("written");
        assert_eq!(postcard::from_bytes::<SessionAnswer>(&bytes).expect("read").whole(), both);
        let without: Vec<_> = both.into_iter().map(|session| SessionInfo { idle_ms: None, ..session }).collect();
        assert_eq!(postcard::from_bytes::<Vec<SessionInfo>>(&bytes).expect("an older node reads it"), without);
        let older = postcard::to_allocvec(&without).expect("written");
        assert_eq!(postcard::from_bytes::<SessionAnswer>(&older).expect("read").whole(), without);
    }
}
