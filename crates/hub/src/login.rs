//! Queries of a connection to the store before it has a session: credentials, and checks of
//! passwords.

use rookery_jid::Jid;
use rookery_sasl::Credentials;
use rookery_sasl::server::Decoy;
use rookery_store::StoreError;

use crate::World;
use crate::event::Event;
pub use crate::event::LoginAnswer;
use crate::module::LoginSeen;
use crate::waiting::{WaitingLogin, WithCredentials};

impl World {
    /// Tells modules that a login has succeeded or failed.
    pub fn login_seen(&self, seen: &LoginSeen<'_>) {
        self.call_login(seen);
    }

    /// Loads the credentials of an account. Answered with [`Event::Login`]; `connection` is the
    /// driver's.
    pub fn look_up(&mut self, connection: u64, account: Jid) {
        self.with_credentials(account, move |world, found| {
            let answer = match found {
                Some((Some(found), true)) => LoginAnswer::Disabled(Box::new(found)),
                Some((found, _)) => LoginAnswer::Credentials(found.map(Box::new)),
                None => LoginAnswer::Failed,
            };
            world.out.events.push_back(Event::Login(connection, answer));
        });
    }

    /// Checks a password against an account, off the shard, since that takes milliseconds. If an
    /// outside source vouches for the domain's logins, the source is asked. Answered with
    /// [`Event::Login`].
    pub fn verify(&mut self, connection: u64, account: Jid, password: String, decoy: Decoy) {
        if let Some(source) = self.source_of(account.domain()) {
            return self.verify_elsewhere(connection, source, account, password);
        }
        let name = account.local().unwrap_or_default().to_owned();
        self.with_credentials(account.clone(), move |world, found| {
            let Some((found, disabled)) = found else {
                return world.out.events.push_back(Event::Login(connection, LoginAnswer::Failed));
            };
            let verified =
                world.background.verify(account.bare_str(), move || decoy.verify(found.as_ref(), &name, &password));
            world.wait(verified, move |world, verified| {
                let answer = match verified {
                    Ok(true) if disabled => LoginAnswer::VerifiedDisabled,
                    Ok(correct) => LoginAnswer::Verified(correct),
                    Err(error) => {
                        world.work_failed("checking a password", &account, error);
                        LoginAnswer::Failed
                    }
                };
                world.out.events.push_back(Event::Login(connection, answer));
            });
        });
    }

    /// Gets the credentials of an account, if there is one, and whether it is disabled; `None` if
    /// the store failed. One statement returns both, so that the time reveals nothing.
    pub(crate) fn with_credentials(
        &mut self,
        account: Jid,
        then: impl FnOnce(&mut World, Option<(Option<Credentials>, bool)>) + 'static,
    ) {
        let custody = self.waiting.custody.clone();
        let since_ms = self.time();
        self.waiting.logins.queue.push_back(WaitingLogin { account, since_ms, custody, then: Box::new(then) });
        self.admit_logins();
    }

    /// Lets waiting logins continue, up to the number that may be under way. A login that has
    /// waited for too long is refused.
    fn admit_logins(&mut self) {
        let most = self.stores.meta.logins_at_once().div_ceil(self.own_shards()).max(1);
        while self.waiting.logins.under_way < most
            && let Some(login) = self.waiting.logins.queue.pop_front()
        {
            let WaitingLogin { account, since_ms, custody, then } = login;
            if self.time().saturating_sub(since_ms) >= PATIENCE_MS {
                self.in_custody(custody, |world| {
                    world.store_failed("loading the credentials", &account, &StoreError::Busy);
                    then(world, None);
                });
                continue;
            }
            self.waiting.logins.under_way += 1;
            debug_assert!(self.waiting.logins.under_way <= most, "no more at a time than the store can serve");
            self.in_custody(custody, |world| world.load_credentials(account, then));
        }
    }

    fn load_credentials(&mut self, account: Jid, then: Box<WithCredentials>) {
        let found = self.stores.accounts.for_login(account.as_ref());
        self.wait(found, move |world, found| {
            debug_assert!(world.waiting.logins.under_way > 0, "a login is over once");
            world.waiting.logins.under_way -= 1;
            match found {
                Ok(found) => {
                    let (credentials, is_disabled) = found.unzip();
                    then(world, Some((credentials, is_disabled.unwrap_or_default())));
                }
                Err(error) => {
                    world.store_failed("loading the credentials", &account, &error);
                    then(world, None);
                }
            }
            world.admit_logins();
        });
    }
}

/// The longest time for which a login waits for others.
const PATIENCE_MS: u64 = 10_000;
