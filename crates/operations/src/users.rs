//! Accounts: created, changed, inspected, removed.

use rookery_archive::Purge;
use rookery_hub::{Hooks, Question, QuestionReply, Settings, World};
use rookery_jid::{Jid, JidRef};
use rookery_sasl::{Credentials, CredentialsError};
use rookery_store::{Edit, EditRoster, Pending, RosterItem, StoreError, Stores, Subscription};
use serde::{Deserialize, Serialize};

use super::sessions::{self, SessionInfo, Why};
use super::{LONG_PATIENCE_MS, Outcome, Refusal};
use crate::events::{self, EventKind};
use crate::{password, reports, rights, welcome};

pub(super) fn install(hooks: &mut Hooks<'_>) {
    hooks.question::<Remove>();
}

/// An account as operators see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OperationUser {
    /// Its bare JID.
    pub jid: Jid,
    /// True if it may not log in.
    pub is_disabled: bool,
    /// True if it administers its domain.
    pub is_admin: bool,
    /// Its sessions, newest last.
    pub sessions: Vec<SessionInfo>,
    /// The time when its last session ended, in milliseconds since 1970; `None` if it never had
    /// one.
    pub last_seen_ms: Option<u64>,
    /// The number of contacts in its roster.
    pub contacts: usize,
}

/// A password that an operator gives an account.
#[derive(Clone)]
pub struct NewPassword {
    text: String,
    may_be_short: bool,
}

impl NewPassword {
    /// Returns a password to which the rule of the domain doesn't apply: the operator at the
    /// command line has decided about it.
    pub fn of_any_length(text: String) -> Self {
        Self { text, may_be_short: true }
    }
}

impl From<String> for NewPassword {
    fn from(text: String) -> Self {
        Self { text, may_be_short: false }
    }
}

impl std::fmt::Debug for NewPassword {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NewPassword").field("may_be_short", &self.may_be_short).finish_non_exhaustive()
    }
}

/// A row of a list of accounts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// Its bare JID.
    pub jid: Jid,
    /// True if it may not log in.
    pub is_disabled: bool,
}

/// A part of a list of accounts.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Page {
    /// The accounts, by the bytes of their localparts.
    pub users: Vec<Listed>,
    /// The account after which the next part begins; `None` if there is none.
    pub next: Option<Jid>,
}

/// Returns the address of an account that this server may have: a localpart and one of its domains.
///
/// # Errors
/// The reason why the address is impossible.
pub fn address(settings: &Settings, local: &str, domain: &str) -> Outcome<Jid> {
    if !settings.domains.iter().any(|served| served.name == domain) {
        return Err(Refusal::Missing(format!("{domain} isn't a domain of this server")));
    }
    let jid = Jid::new(Some(local), domain, None);
    let jid = jid.map_err(|error| Refusal::Impossible(format!("no account can have this name: {error}")))?;
    match jid.local() {
        Some(_) => Ok(jid),
        None => Err(Refusal::Impossible("an account has a name".into())),
    }
}

/// Creates an account in the stores, whether a server is running or not.
pub fn create(stores: &Stores, account: JidRef<'_>, credentials: Credentials) -> Pending<Outcome<()>> {
    let (created, account) = (stores.accounts.create(account, credentials), account.to_jid());
    Box::pin(async move {
        Ok(match created.await? {
            true => Ok(()),
            false => Err(Refusal::Exists(format!("{account} already exists"))),
        })
    })
}

/// Sets the password of an account in the stores: it applies from the next login on.
pub fn set_credentials(stores: &Stores, account: JidRef<'_>, credentials: Credentials) -> Pending<Outcome<()>> {
    let (set, account) = (stores.accounts.set_credentials(account, credentials), account.to_jid());
    Box::pin(async move { Ok(if set.await? { Ok(()) } else { Err(Refusal::no_account(account)) }) })
}

/// Creates an account, and welcomes it; continues with `true` if its name has rights already, which
/// the operator should know.
pub fn add(
    world: &mut World,
    account: Jid,
    password: impl Into<NewPassword>,
    then: impl FnOnce(&mut World, Outcome<bool>) + 'static,
) {
    derive(world, account.clone().as_ref(), password.into(), move |world, credentials| {
        let credentials = match credentials {
            Ok(credentials) => credentials,
            Err(refusal) => return then(world, Err(refusal)),
        };
        let created = create(&world.stores, account.as_ref(), credentials);
        world.wait(created, move |world, created| {
            if let Err(refusal) = created.unwrap_or_else(|error| Err(error.into())) {
                return then(world, Err(refusal));
            }
            let fields = vec![("account", account.to_string()), ("by", "administrator".to_owned())];
            events::note(world, account.domain(), EventKind::AccountCreated, fields);
            welcome::welcome(world, &account);
            let named = rights::all_named(&world.stores, world.settings());
            world.wait(named, move |world, named| {
                let has_rights = named.is_ok_and(|named| named.contains(&account));
                if has_rights {
                    tracing::warn!(%account, "an account was created with a name that already had rights: check the options that mention it");
                }
                then(world, Ok(has_rights));
            });
        });
    });
}

/// Sets the password of an account. Its sessions end, except that of a full JID, which may have
/// requested it.
pub fn set_password(
    world: &mut World,
    account: Jid,
    password: impl Into<NewPassword>,
    keep: Option<Jid>,
    then: impl FnOnce(&mut World, Outcome<()>) + 'static,
) {
    derive(world, account.clone().as_ref(), password.into(), move |world, credentials| {
        let credentials = match credentials {
            Ok(credentials) => credentials,
            Err(refusal) => return then(world, Err(refusal)),
        };
        let set = set_credentials(&world.stores, account.as_ref(), credentials);
        world.wait(set, move |world, set| match set.unwrap_or_else(|error| Err(error.into())) {
            Ok(()) => sessions::password_changed(world, account, keep, then),
            Err(refusal) => then(world, Err(refusal)),
        });
    });
}

/// Disables an account and ends its sessions, or enables it.
pub fn set_disabled(
    world: &mut World,
    account: Jid,
    disabled: bool,
    then: impl FnOnce(&mut World, Outcome<()>) + 'static,
) {
    let set = world.stores.accounts.set_disabled(account.as_ref(), disabled);
    world.wait(set, move |world, set| match check_found(set, &account) {
        Ok(()) if disabled => {
            world.end_logins(&account);
            sessions::close(world, account, Why::Disabled, |world, closed| then(world, closed.map(drop)));
        }
        set => then(world, set),
    });
}

/// Removes an account with all its data, and ends its sessions.
pub fn remove(world: &mut World, account: Jid, then: impl FnOnce(&mut World, Outcome<()>) + 'static) {
    let forgotten = rights::forget(&world.stores, &rights::domains(world), account.as_ref());
    world.wait(forgotten, move |world, forgotten| {
        if let Err(error) = forgotten {
            return then(world, Err(error.into()));
        }
        let (home, gone) = (world.home_of(account.as_ref()), Remove(account.to_bare()));
        world.put_to(home, gone, move |world, removed| {
            then(world, Refusal::or_late(removed).and_then(|is| check_exists(is, &account)))
        });
    });
}

/// Asks the home of an account to remove it; the answer is whether it existed.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Remove(Jid);

impl Question for Remove {
    const NAME: &'static str = "operations remove";
    const PATIENCE_MS: u64 = LONG_PATIENCE_MS;
    type Answer = Result<bool, StoreError>;

    fn ask(self, world: &mut World, reply: QuestionReply<Self::Answer>) {
        world.remove_account(self.0, move |world, removed| reply.answer(world, removed));
    }
}

/// Empties the archive of an account (XEP-0313), including messages that wait to be written.
pub fn empty_archive(world: &mut World, account: Jid, then: impl FnOnce(&mut World, Outcome<()>) + 'static) {
    let exists = world.stores.accounts.exists(account.as_ref());
    world.wait(exists, move |world, exists| match check_found(exists, &account) {
        Ok(()) => {
            let purge = Purge { owner: account.to_bare() };
            world.put_to_home(account.as_ref(), purge, |world, purged| then(world, Refusal::or_late(purged)));
        }
        missing => then(world, missing),
    });
}

/// Removes an account in stores on which no server runs, with all messages of its archive, and
/// revokes its rights at these domains. `false` if there was no such account.
pub fn remove_without_server(stores: &Stores, domains: &[String], account: JidRef<'_>) -> Pending<bool> {
    let (account, stores, domains) = (account.bare().to_jid(), stores.clone(), domains.to_vec());
    Box::pin(async move {
        if !stores.accounts.exists(account.as_ref()).await? {
            return Ok(false);
        }
        // The next owner of its name must inherit neither its rights nor subscriptions to it.
        rights::forget(&stores, &domains, account.as_ref()).await?;
        for item in stores.rosters.get(account.as_ref()).await?.items {
            if stores.accounts.exists(item.jid.as_ref()).await? {
                let end: EditRoster = Box::new(|item, _| item.map_or(Edit::Keep, end_subscription));
                stores.rosters.change(item.jid.as_ref(), account.as_ref(), end).await?;
            }
        }
        let removed = stores.accounts.remove(account.as_ref()).await?;
        reports::forget(&stores, &domains, account.as_ref()).await?;
        while stores.archive.clear(STEP).await? {}
        Ok(removed)
    })
}

/// Returns the change of a roster item that ends both directions of its subscription (RFC 6121
/// §2.5.2).
fn end_subscription(item: &RosterItem) -> Edit {
    let item = RosterItem { subscription: Subscription::None, ask: false, pending_in: None, ..item.clone() };
    if item.visible() { Edit::Put(item) } else { Edit::Remove }
}

/// Collects the facts about an account.
pub fn describe(world: &mut World, account: Jid, then: impl FnOnce(&mut World, Outcome<OperationUser>) + 'static) {
    let facts = facts(&world.stores, account.clone());
    world.wait(facts, move |world, facts| {
        let facts = match facts {
            Ok(Some(facts)) => facts,
            Ok(None) => return then(world, Err(Refusal::no_account(&account))),
            Err(error) => return then(world, Err(error.into())),
        };
        sessions::of(world, &account.clone(), move |world, sessions| {
            let sessions = match sessions {
                Ok(sessions) => sessions,
                Err(refusal) => return then(world, Err(refusal)),
            };
            let domain = account.domain().to_owned();
            rights::with_rights(world, &domain, &account.clone(), move |world, rights| {
                let UserFacts { is_disabled, last_seen_ms, contacts } = facts;
                let is_admin = rights.is_ok_and(|rights| rights >= rights::Rights::Admin);
                let user = OperationUser { jid: account, is_disabled, is_admin, sessions, last_seen_ms, contacts };
                then(world, Ok(user));
            });
        });
    });
}

/// Lists accounts of a domain, `limit` at most (at least one), after `after`; those whose
/// localparts contain `search` (in lower case, as localparts are). A search examines a bounded
/// number of accounts, so a part may be short or empty and still have a next one.
pub fn list(stores: &Stores, domain: &str, search: &str, after: Option<Jid>, limit: usize) -> Pending<Page> {
    let (stores, domain, search, mut after) = (stores.clone(), domain.to_owned(), search.to_lowercase(), after);
    let limit = limit.max(1);
    Box::pin(async move {
        let (mut found, mut next) = (Vec::new(), None);
        for _ in 0..MOST_STEPS {
            let step = if search.is_empty() { limit + 1 } else { STEP };
            let accounts = stores.accounts.list(&domain, after.as_ref().map(Jid::as_ref), step).await?;
            let is_last = accounts.len() < step;
            next = accounts.last().cloned().filter(|_| !is_last);
            let matches = |jid: &Jid| jid.local().is_some_and(|local| local.contains(&search));
            found.extend(accounts.into_iter().filter(matches));
            after = next.clone();
            if found.len() > limit || is_last {
                break;
            }
        }
        if found.len() > limit {
            found.truncate(limit);
            next = found.last().cloned();
        }
        // All questions are queued before the first answer is awaited.
        let states: Vec<_> = found.iter().map(|jid| stores.accounts.is_disabled(jid.as_ref())).collect();
        let mut users = Vec::with_capacity(found.len());
        for (jid, is_disabled) in found.into_iter().zip(states) {
            users.push(Listed { jid, is_disabled: is_disabled.await? });
        }
        Ok(Page { users, next })
    })
}

struct UserFacts {
    is_disabled: bool,
    last_seen_ms: Option<u64>,
    contacts: usize,
}

fn facts(stores: &Stores, account: Jid) -> Pending<Option<UserFacts>> {
    let stores = stores.clone();
    Box::pin(async move {
        if !stores.accounts.exists(account.as_ref()).await? {
            return Ok(None);
        }
        let is_disabled = stores.accounts.is_disabled(account.as_ref()).await?;
        let last_seen_ms = stores.last_presence.last(account.as_ref()).await?.map(|seen| seen.unix_ms);
        let roster = stores.rosters.get(account.as_ref()).await?;
        let contacts = roster.items.iter().filter(|item| item.visible()).count();
        Ok(Some(UserFacts { is_disabled, last_seen_ms, contacts }))
    })
}

fn derive(
    world: &mut World,
    whose: JidRef<'_>,
    password: NewPassword,
    then: impl FnOnce(&mut World, Outcome<Credentials>) + 'static,
) {
    if let Err(short) = password::long_enough(world.settings(), whose.domain(), &password.text)
        && !password.may_be_short
    {
        return then(world, Err(Refusal::Impossible(short.to_string())));
    }
    let derived = password::derive(world, whose, password.text);
    world.wait(derived, move |world, derived| {
        then(
            world,
            match derived {
                Ok(Ok(credentials)) => Ok(credentials),
                Ok(Err(CredentialsError::BadPassword)) => {
                    Err(Refusal::Impossible("the password is empty or contains characters that aren't allowed".into()))
                }
                Ok(Err(error @ CredentialsError::NoRandomness)) => {
                    tracing::error!(%error, "deriving the keys of a password failed");
                    Err(Refusal::Failed("deriving the keys of the password"))
                }
                Err(error) => Err(error.into()),
            },
        );
    });
}

fn check_found(outcome: Result<bool, StoreError>, account: &Jid) -> Outcome<()> {
    outcome.map_err(Refusal::from).and_then(|exists| check_exists(exists, account))
}

fn check_exists(exists: bool, account: &Jid) -> Outcome<()> {
    if exists { Ok(()) } else { Err(Refusal::no_account(account)) }
}

/// The number of accounts that a search examines in one step, and of steps; also of archived
/// messages that are removed in one step.
const STEP: usize = 1000;
const MOST_STEPS: usize = 100;
