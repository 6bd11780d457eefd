//! New accounts, and passwords set by a link, requested by connections that have not logged in
//! (XEP-0077 §3.1, XEP-0445).

use rookery_hub::{Guest, Iq, Options, World};
use rookery_modkit::form::{Field, Form};
use rookery_operations::invitations::fixed_name;
use rookery_operations::registration::{self, BadName, Registration, Unregistered};
use rookery_store::Invitation;
use rookery_stream::error::{Condition, StanzaError};
use rookery_xml::ns;

use super::rate::{CreationSlot, CreationStep, Creations};
use super::shown::ShownTokens;
use super::{ALLOW_CREATION, ALLOW_PLAINTEXT, APPROVE, INSTRUCTIONS, NAME, long_enough, rate};

/// Replies to a request of a guest: with the form to fill in, or by creating the account.
pub(super) fn request(world: &mut World, guest: Guest, iq: Iq) {
    let invitation = world.state::<ShownTokens>().of(guest).filter(|invitation| invitation.domain == iq.to.domain());
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
        Ok((creation, wanted)) => {
            creation.tell(world, CreationStep::Begun);
            registration::register(world, wanted, |world, outcome| creation.end(world, outcome));
        }
        Err(error) => world.refuse_guest(guest, &iq_again, error),
    }
}

/// Checks whether accounts can be created at all, and over this connection. A token permits what is
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
        return Err(error.with_text("the password could be read by others on this connection; use an encrypted stream"));
    }
    Ok(options)
}

/// Replies with the fields to fill in: as elements for older clients, and as a form (XEP-0077 §5,
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

/// A request of a guest, with the turn of its address.
struct Creation {
    guest: Guest,
    iq: Iq,
    /// The turn of the address, which it gets back if the creation fails.
    slot: CreationSlot,
    /// The token that the connection has shown.
    token: Option<String>,
}

impl Creation {
    /// Reads a filled-in form, and takes the address's turn if it is valid.
    fn read(
        world: &World,
        guest: Guest,
        iq: Iq,
        invitation: Option<Invitation>,
    ) -> Result<(Self, Registration), StanzaError> {
        if iq.payload.child("remove", ns::REGISTER).is_some() {
            // §3.2, table: there is no account to remove before login.
            return Err(Condition::UnexpectedRequest.into());
        }
        let (username, password) = filled_in(&iq)?;
        let account = registration::account(&username, iq.to.domain(), invitation.as_ref()).map_err(no_name)?;
        let Some(options) = world.options(iq.to.domain(), NAME) else {
            return Err(Condition::ServiceUnavailable.into());
        };
        long_enough(world, iq.to.domain(), &password)?;
        let slot = match invitation.is_some() || rate::is_trusted(options, guest.address) {
            true => CreationSlot::without_limit(),
            false => world.state::<Creations>().take(guest.address, world.time(), options)?,
        };
        let token = invitation.as_ref().map(|invitation| invitation.token.clone());
        let waits = invitation.is_none() && options.switch(APPROVE.key);
        let wanted = Registration { account, password, invitation, waits, address: guest.address };
        Ok((Self { guest, iq, slot, token }, wanted))
    }

    /// Tells other nodes how the address has used its turn.
    fn tell(&self, world: &mut World, step: CreationStep) {
        if world.has_other_nodes()
            && let Some(news) = self.slot.news(self.iq.to.domain(), step)
        {
            world.tell_other_nodes(&news);
        }
    }

    fn end(self, world: &mut World, outcome: Result<(), Unregistered>) {
        let error = match outcome {
            Ok(()) => {
                if let Some(token) = &self.token {
                    world.state_mut::<ShownTokens>().forget(token);
                }
                return world.reply_to_guest(self.guest, self.iq.result());
            }
            Err(Unregistered::Taken) => {
                self.tell(world, CreationStep::Conflicted);
                self.slot.end_in_conflict();
                return world.refuse_guest(self.guest, &self.iq, Condition::Conflict);
            }
            Err(Unregistered::Used) => {
                StanzaError::new(Condition::ItemNotFound).with_text("the link has already been used")
            }
            Err(Unregistered::Gone) => Condition::ItemNotFound.into(),
            Err(Unregistered::Refused(error)) => error,
        };
        self.tell(world, CreationStep::GivenBack);
        self.slot.give_back();
        world.refuse_guest(self.guest, &self.iq, error);
    }
}

/// Returns the error for an invalid name of a new account.
fn no_name(why: BadName) -> StanzaError {
    match why {
        BadName::Impossible => not_acceptable("this username isn't possible"),
        BadName::MixesScripts => not_acceptable("a username may not mix letters of different scripts"),
        BadName::OnlyFor(name) => {
            StanzaError::new(Condition::NotAcceptable).with_text(format!("the link is only valid for {name}"))
        }
    }
}

/// Reads the username and password, from the form if there is one, which then has to be complete
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
