//! What a connection needs from the store before it has a session: credentials, and whether a password is right.

use rookery_jid::Jid;
use rookery_sasl::Credentials;
use rookery_sasl::server::Decoy;

use crate::World;
use crate::event::Event;
pub use crate::event::LoginAnswer;
use crate::module::LoginSeen;

impl World {
    /// A login has succeeded or failed.
    pub fn login_seen(&self, seen: &LoginSeen<'_>) {
        self.call_login(seen);
    }

    /// Loads the credentials of an account. Answered with [`Event::Login`]; `connection` is the driver's.
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

    /// Checks a password against an account, off the shard: it costs milliseconds. Answered with [`Event::Login`].
    pub fn verify(&mut self, connection: u64, account: Jid, password: String, decoy: Decoy) {
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
                        world.store_failed("checking a password", &account, &error);
                        LoginAnswer::Failed
                    }
                };
                world.out.events.push_back(Event::Login(connection, answer));
            });
        });
    }

    /// The credentials of an account, if there is one, and whether it is disabled; `None` if the store failed. One statement tells both, so that
    /// the time tells nothing.
    pub(crate) fn with_credentials(
        &mut self,
        account: Jid,
        then: impl FnOnce(&mut World, Option<(Option<Credentials>, bool)>) + 'static,
    ) {
        let found = self.stores.accounts.for_login(account.as_ref());
        self.wait(found, move |world, found| match found {
            Ok(found) => {
                let (credentials, is_disabled) = found.unzip();
                then(world, Some((credentials, is_disabled.unwrap_or_default())));
            }
            Err(error) => {
                world.store_failed("loading the credentials", &account, &error);
                then(world, None);
            }
        });
    }
}
