//! New accounts, and passwords that are set by a link, asked for by connections that have not
//! logged in (XEP-0077 §3.1, XEP-0445).

use rookery_hub::failure::condition;
use rookery_hub::{Guest, Iq, Options, World};
use rookery_jid::Jid;
use rookery_modkit::form::{Field, Form};
use rookery_operations::rights::with_reserved;
use rookery_operations::sessions;
use rookery_operations::welcome::welcome;
use rookery_operations::{lookalike, password};
use rookery_sasl::Credentials;
use rookery_store::{Invitation, Purpose, StoreError};
use rookery_stream::error::{Condition, StanzaError};
use rookery_xml::ns;

use super::rate::{Creations, Slot};
use super::shown::Shown;
use super::{ALLOW_CREATION, ALLOW_PLAINTEXT, INSTRUCTIONS, NAME, long_enough, rate};

/// Replies to a request of a guest: with what to fill in, or by creating the account.
pub(super) fn request(world: &mut World, guest: Guest, iq: Iq) {
    let invitation = world.state::<Shown>().of(guest).filter(|invitation| invitation.domain == iq.to.domain());
    let options = match may_create(world, guest, &iq, invitation.as_ref()) {
        Ok(options) => options,
        Err(error) => return world.refuse_guest(guest, &iq, error),
    };
    if !iq.set {
        let instructions = options.text(INSTRUCTIONS.key).to_owned();
        return ask(world, guest, &iq, &instructions, invitation.as_ref());
    }
    let iq_again = iq.clone();
    match Creation::read(world, guest, iq, invitation) {
        Ok(creation) => creation.check(world),
        Err(error) => world.refuse_guest(guest, &iq_again, error),
    }
}

/// Tells whether accounts can be created at all, and over such a connection. A token opens what is
/// closed to others.
fn may_create<'w>(
    world: &'w World,
    guest: Guest,
    iq: &Iq,
    invitation: Option<&Invitation>,
) -> Result<&'w Options, StanzaError> {
    let options = world.options(iq.to.domain(), NAME);
    let is_open = |options: &&Options| options.switch(ALLOW_CREATION.key) || invitation.is_some();
    let options = options.filter(is_open).ok_or(Condition::ServiceUnavailable)?;
    if iq.payload.name() != "query" {
        return Err(Condition::BadRequest.into());
    }
    if !guest.secure && !options.switch(ALLOW_PLAINTEXT.key) {
        let error = StanzaError::new(Condition::NotAuthorized);
        return Err(error.with_text("the password could be read on the way; use an encrypted stream"));
    }
    Ok(options)
}

/// Asks for what is to be filled in: as elements for older clients, and as a form (XEP-0077 §5,
/// XEP-0004).
fn ask(world: &mut World, guest: Guest, iq: &Iq, instructions: &str, invitation: Option<&Invitation>) {
    let name = invitation.and_then(fixed_name).unwrap_or_default();
    let mut reply = iq.result();
    reply.start_ns("query", ns::REGISTER).text_child("instructions", instructions);
    reply.text_child("username", &name).text_child("password", "");
    let username = Field::text_single("username").label("Username").required();
    let username = if name.is_empty() { username } else { username.value(&name) };
    let form = Form::new("form").title("Registration").instructions(instructions).hidden("FORM_TYPE", ns::REGISTER);
    let form = form.field(username).field(Field::text_private("password").label("Password").required());
    reply.element(&form.element());
    world.reply_to_guest(guest, reply);
}

/// Returns the one name that an invitation is good for, if there is only one.
fn fixed_name(invitation: &Invitation) -> Option<String> {
    match &invitation.purpose {
        Purpose::Account(name) => name.clone(),
        Purpose::Password => invitation.owner.as_ref().and_then(Jid::local).map(str::to_owned),
    }
}

/// An account on its way.
struct Creation {
    guest: Guest,
    iq: Iq,
    account: Jid,
    password: String,
    /// Gives the address back what it has used up, should the creation fail.
    slot: Slot,
    /// The invitation that the connection has shown.
    invitation: Option<Invitation>,
}

impl Creation {
    /// Reads a filled-in form, and takes the address's turn if all is well.
    fn read(world: &World, guest: Guest, iq: Iq, invitation: Option<Invitation>) -> Result<Self, StanzaError> {
        if iq.payload.child("remove", ns::REGISTER).is_some() {
            // §3.2, table: there is no account to remove before login.
            return Err(Condition::UnexpectedRequest.into());
        }
        let (username, password) = filled_in(&iq)?;
        let account = Jid::new(Some(&username), iq.to.domain(), None);
        let account = account.map_err(|_| not_acceptable("no such username is possible"))?;
        if !account.local().is_some_and(lookalike::is_of_one_script) {
            return Err(not_acceptable("a username may not mix letters of different scripts"));
        }
        if let Some(name) = invitation.as_ref().and_then(fixed_name)
            && account.local() != Some(name.as_str())
        {
            return Err(
                StanzaError::new(Condition::NotAcceptable).with_text(format!("the link is good for {name} only"))
            );
        }
        let Some(options) = world.options(iq.to.domain(), NAME) else {
            return Err(Condition::ServiceUnavailable.into());
        };
        long_enough(options, &password)?;
        let slot = match invitation.is_some() || rate::is_trusted(options, guest.address) {
            true => Slot::unlimited(),
            false => world.state::<Creations>().take(guest.address, world.time(), options)?,
        };
        Ok(Self { guest, iq, account, password, slot, invitation })
    }

    /// Refuses names that are not to be had before any work is done for them.
    fn check(self, world: &mut World) {
        if self.resets() {
            return self.derive(world);
        }
        // A name that has rights before it has an account is not for the first stranger to come.
        with_reserved(world, &self.account.clone(), move |world, is_reserved| match is_reserved {
            Ok(true) if !self.is_invited_as() => self.conflict(world),
            Ok(_) => self.look_up(world),
            Err(error) => self.refuse(world, error),
        });
    }

    /// Asks whether the name is free: one that exists is taken, and so is one that an invitation is
    /// for (XEP-0401 §4).
    fn look_up(self, world: &mut World) {
        let exists = world.stores.accounts.exists(self.account.as_ref());
        let reserved = world.stores.invitations.is_reserved(self.account.as_ref(), world.time());
        world.wait(exists, move |world, exists| match exists {
            Ok(true) => self.conflict(world),
            Ok(false) => world.wait(reserved, move |world, reserved| match reserved {
                Ok(true) if !self.is_invited_as() => self.conflict(world),
                Ok(_) => self.derive(world),
                Err(error) => self.failed(world, &error),
            }),
            Err(error) => self.failed(world, &error),
        });
    }

    fn derive(mut self, world: &mut World) {
        let derived = password::derive(world, self.account.as_ref(), std::mem::take(&mut self.password));
        world.wait(derived, move |world, derived| match password::derived(world, &self.account, derived) {
            Ok(credentials) => self.use_token(world, credentials),
            Err(error) => self.refuse(world, error),
        });
    }

    /// Uses the token up, which is good once: of two connections that have shown it, one registers.
    fn use_token(self, world: &mut World, credentials: Credentials) {
        let Some(invitation) = self.invitation.clone() else { return self.create(world, credentials) };
        // §3: that it has expired since it was shown doesn't matter.
        let taken = world.stores.invitations.take(&invitation.token, 0);
        world.wait(taken, move |world, taken| match taken {
            Ok(Some(_)) => {
                world.state_mut::<Shown>().forget(&invitation.token);
                match self.resets() {
                    true => self.set_password(world, credentials),
                    false => self.create(world, credentials),
                }
            }
            Ok(None) => {
                let error = StanzaError::new(Condition::ItemNotFound).with_text("the link was used already");
                self.refuse(world, error);
            }
            Err(error) => self.failed(world, &error),
        });
    }

    fn set_password(self, world: &mut World, credentials: Credentials) {
        let set = world.stores.accounts.set_credentials(self.account.as_ref(), credentials);
        world.wait(set, move |world, set| match set {
            Ok(true) => {
                tracing::info!(account = %self.account, address = %self.guest.address, "a password was set by a link");
                world.reply_to_guest(self.guest, self.iq.result());
                sessions::password_changed(world, self.account, None, |_, _| {});
            }
            Ok(false) => self.refuse(world, Condition::ItemNotFound.into()),
            Err(error) => self.failed(world, &error),
        });
    }

    fn create(self, world: &mut World, credentials: Credentials) {
        let created = world.stores.accounts.create(self.account.as_ref(), credentials);
        world.wait(created, move |world, created| match created {
            Ok(true) => self.created(world),
            // Somebody else was quicker.
            Ok(false) => self.give_token_back(world, Self::conflict),
            Err(error) => self.give_token_back(world, move |creation, world| creation.failed(world, &error)),
        });
    }

    fn created(self, world: &mut World) {
        tracing::info!(account = %self.account, address = %self.guest.address, "an account was created");
        let inviter = self.invitation.and_then(|invitation| invitation.owner);
        world.reply_to_guest(self.guest, self.iq.result());
        if let Some(inviter) = inviter {
            world.befriend(inviter, self.account.clone());
        }
        welcome(world, &self.account);
    }

    /// Gives the token back, which is not used up by a registration that fails (XEP-0445 §3).
    fn give_token_back(self, world: &mut World, then: impl FnOnce(Self, &mut World) + 'static) {
        let Some(invitation) = self.invitation.clone() else { return then(self, world) };
        let kept = world.stores.invitations.put(invitation, world.time(), usize::MAX);
        world.wait(kept, move |world, kept| {
            if let Err(error) = kept {
                world.store_failed("keeping an invitation", &self.account, &error);
            }
            then(self, world);
        });
    }

    /// Tells whether a password is to be set rather than an account created.
    fn resets(&self) -> bool {
        self.invitation.as_ref().is_some_and(|invitation| invitation.purpose == Purpose::Password)
    }

    /// Tells whether the invitation is for this very name.
    fn is_invited_as(&self) -> bool {
        self.invitation.as_ref().and_then(fixed_name).as_deref() == self.account.local()
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

/// Reads username and password, from the form if there is one, which then has to be complete
/// (XEP-0077 §5).
fn filled_in(iq: &Iq) -> Result<(String, String), StanzaError> {
    let needed = || not_acceptable("a username and a password are needed");
    let (username, password) = match iq.payload.child("x", ns::DATA_FORMS) {
        Some(x) => {
            let form = Form::read(x).filter(|form| form.type_() == "submit").ok_or(Condition::BadRequest)?;
            if form.form_type().is_some_and(|form_type| form_type != ns::REGISTER) {
                return Err(Condition::BadRequest.into());
            }
            let value = |var| form.value(var).map(str::to_owned);
            (value("username"), value("password"))
        }
        None => (iq.payload.child_text("username", ns::REGISTER), iq.payload.child_text("password", ns::REGISTER)),
    };
    let given = |text: Option<String>| text.filter(|text| !text.is_empty()).ok_or_else(needed);
    Ok((given(username)?, given(password)?))
}

fn not_acceptable(text: &'static str) -> StanzaError {
    StanzaError::new(Condition::NotAcceptable).with_text(text)
}
