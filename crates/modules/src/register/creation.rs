//! New accounts, asked for by connections that have not logged in (XEP-0077 §3.1).

use rookery_hub::{Guest, Iq, World};
use rookery_jid::Jid;
use rookery_sasl::Credentials;
use rookery_store::StoreError;
use rookery_stream::error::{Condition, StanzaError};
use rookery_xml::ns;

use super::rate::{Creations, Slot};
use super::{ALLOW_CREATION, ALLOW_PLAINTEXT, NAME, long_enough, password, rate};
use crate::administration::service::welcome;
use crate::asker::condition;
use crate::rights::{Rights, with_rights};

/// Answers a request of a guest: with what to fill in, or by creating the account.
pub(super) fn request(world: &mut World, guest: Guest, iq: Iq, creations: &Creations) {
    if let Err(error) = may_create(world, guest, &iq) {
        return world.refuse_guest(guest, &iq, error);
    }
    if !iq.set {
        let mut reply = iq.result();
        reply.start_ns("query", ns::REGISTER).text_child("instructions", INSTRUCTIONS);
        reply.text_child("username", "").text_child("password", "");
        return world.reply_to_guest(guest, reply);
    }
    match Creation::read(world, guest, iq.clone(), creations) {
        Ok(creation) => creation.look_up(world),
        Err(error) => world.refuse_guest(guest, &iq, error),
    }
}

/// Whether accounts can be created at all, and over such a connection.
fn may_create(world: &World, guest: Guest, iq: &Iq) -> Result<(), StanzaError> {
    let options = world.domain(iq.to.domain()).and_then(|domain| domain.module(NAME));
    let options = options.filter(|options| options.switch(ALLOW_CREATION.key)).ok_or(Condition::ServiceUnavailable)?;
    if iq.payload.name() != "query" {
        return Err(Condition::BadRequest.into());
    }
    if !guest.secure && !options.switch(ALLOW_PLAINTEXT.key) {
        let error = StanzaError::new(Condition::NotAuthorized);
        return Err(error.with_text("the password could be read on the way; use an encrypted stream"));
    }
    Ok(())
}

/// An account on its way.
struct Creation {
    guest: Guest,
    iq: Iq,
    account: Jid,
    password: String,
    /// Gives the address back what it has used up, should the creation fail.
    slot: Slot,
}

impl Creation {
    /// Reads a filled-in form, and takes the address's turn if all is well.
    fn read(world: &World, guest: Guest, iq: Iq, creations: &Creations) -> Result<Self, StanzaError> {
        if iq.payload.child("remove", ns::REGISTER).is_some() {
            // §3.2, table: there is no account to remove before login.
            return Err(Condition::UnexpectedRequest.into());
        }
        let field = |name| iq.payload.child_text(name, ns::REGISTER).filter(|text| !text.is_empty());
        let (Some(username), Some(password)) = (field("username"), field("password")) else {
            return Err(not_acceptable("a username and a password are needed"));
        };
        let account = Jid::new(Some(&username), iq.to.domain(), None);
        let account = account.map_err(|_| not_acceptable("no such username is possible"))?;
        let Some(options) = world.domain(iq.to.domain()).and_then(|domain| domain.module(NAME)) else {
            return Err(Condition::ServiceUnavailable.into());
        };
        long_enough(options, &password)?;
        let slot = match rate::is_trusted(options, guest.address) {
            true => Slot::unlimited(),
            false => creations.take(guest.address, world.time(), options)?,
        };
        Ok(Self { guest, iq, account, password, slot })
    }

    /// Names that are taken are refused before any work is done for them.
    fn look_up(self, world: &mut World) {
        // The name of an administrator without an account is not for whoever comes first.
        let account = self.account.clone();
        with_rights(world, &account.domain().to_owned(), &account, move |world, rights| match rights {
            Ok(Rights::Admin) => self.conflict(world),
            Ok(_) => self.look_up_account(world),
            Err(error) => self.refuse(world, error),
        });
    }

    fn look_up_account(self, world: &mut World) {
        let exists = world.stores.accounts.exists(self.account.as_ref());
        world.wait(exists, move |world, exists| match exists {
            Ok(false) => self.derive(world),
            Ok(true) => self.conflict(world),
            Err(error) => self.failed(world, &error),
        });
    }

    fn derive(mut self, world: &mut World) {
        let derived = password::derive(world, std::mem::take(&mut self.password));
        world.wait(derived, move |world, derived| match password::derived(world, &self.account, derived) {
            Ok(credentials) => self.create(world, credentials),
            Err(error) => self.refuse(world, error),
        });
    }

    fn create(self, world: &mut World, credentials: Credentials) {
        let created = world.stores.accounts.create(self.account.as_ref(), credentials);
        world.wait(created, move |world, created| match created {
            Ok(true) => {
                tracing::info!(account = %self.account, address = %self.guest.address, "an account was created");
                world.reply_to_guest(self.guest, self.iq.result());
                welcome(world, &self.account);
            }
            // Somebody else was quicker.
            Ok(false) => self.conflict(world),
            Err(error) => self.failed(world, &error),
        });
    }

    fn conflict(self, world: &mut World) {
        self.slot.conflicted();
        world.refuse_guest(self.guest, &self.iq, Condition::Conflict);
    }

    fn failed(self, world: &mut World, error: &StoreError) {
        world.store_failed("creating an account", &self.account, error);
        self.refuse(world, condition(error).into());
    }

    fn refuse(self, world: &mut World, error: StanzaError) {
        self.slot.give_back();
        world.refuse_guest(self.guest, &self.iq, error);
    }
}

fn not_acceptable(text: &'static str) -> StanzaError {
    StanzaError::new(Condition::NotAcceptable).with_text(text)
}

const INSTRUCTIONS: &str = "Choose a username and a password.";
