//! What a connection needs from the store before it has a session: credentials, and whether a password is right.

use rookery_jid::Jid;
use rookery_sasl::Credentials;
use rookery_sasl::server::Decoy;
use rookery_stream::c2s::{Issued, StoredToken};

use crate::World;
use crate::world::Event;

/// The answer to a question of a connection that logs in.
#[derive(Debug)]
pub enum LoginAnswer {
    /// The credentials of the account, if there is one.
    Credentials(Option<Box<Credentials>>),
    /// Whether the password is the account's.
    Verified(bool),
    /// The tokens of a client.
    Tokens(Vec<StoredToken>),
    /// The token that a client gets, if it gets one.
    Token(Option<Issued>),
    /// The store did not answer well; the log has it.
    Failed,
}

impl World {
    /// Loads the credentials of an account. Answered with [`Event::Login`]; `connection` is the driver's.
    pub fn look_up(&mut self, connection: u64, account: Jid) {
        let found = self.stores.accounts.credentials(account.as_ref());
        self.wait(found, move |world, found| {
            let answer = match found {
                Ok(found) => LoginAnswer::Credentials(found.map(Box::new)),
                Err(error) => {
                    world.store_failed("loading the credentials", &account, &error);
                    LoginAnswer::Failed
                }
            };
            world.events.push_back(Event::Login(connection, answer));
        });
    }

    /// Checks a password against an account, off the shard: it costs milliseconds. Answered with [`Event::Login`].
    pub fn verify(&mut self, connection: u64, account: Jid, password: String, decoy: Decoy) {
        let found = self.stores.accounts.credentials(account.as_ref());
        self.wait(found, move |world, found| {
            let found = match found {
                Ok(found) => found,
                Err(error) => {
                    world.store_failed("loading the credentials", &account, &error);
                    return world.events.push_back(Event::Login(connection, LoginAnswer::Failed));
                }
            };
            let name = account.local().unwrap_or_default().to_owned();
            let verified = world.background.run(move || decoy.verify(found.as_ref(), &name, &password));
            world.wait(verified, move |world, verified| {
                let answer = match verified {
                    Ok(correct) => LoginAnswer::Verified(correct),
                    Err(error) => {
                        world.store_failed("checking a password", &account, &error);
                        LoginAnswer::Failed
                    }
                };
                world.events.push_back(Event::Login(connection, answer));
            });
        });
    }
}
