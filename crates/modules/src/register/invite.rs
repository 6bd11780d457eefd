//! Invitations (XEP-0401), and links to set a new password: what makes the tokens that `tokens` takes.

use rookery_hub::{World, delay};
use rookery_jid::{Jid, prepare_local};
use rookery_modkit::form::{Field, Form};
use rookery_store::{Invitation, Purpose};
use rookery_stream::error::Condition;

use super::{INVITATION_DAYS, NAME, USERS_INVITE};
use crate::administration::refuse;
use crate::commands::Command;
use crate::commands::order::{Order, Outcome};
use crate::operations::Refusal;
use crate::operations::invitations::{self, Wanted};
use crate::rights::Rights;

pub(crate) const COMMANDS: &[Command] = &[
    Command {
        node: "urn:xmpp:invite#invite",
        name: "Invite somebody",
        module: NAME,
        may: Rights::Account,
        stages: &[],
        run: invite,
    },
    Command {
        node: "urn:xmpp:invite#create-account",
        name: "Invite somebody to create an account",
        module: NAME,
        may: Rights::Admin,
        stages: &[|world, order| {
            let form = Form::new("form")
                .title("Inviting a New User")
                .instructions("Whoever gets the link can create an account, with this name if one is given.")
                .field(Field::text_single("username").label("Username"))
                .field(Field::boolean("roster-subscription", false).label("Add to your contacts"));
            order.ask(world, form);
        }],
        run: create_account,
    },
    Command {
        node: "urn:rookery:register#reset-password",
        name: "Make a link to set a new password",
        module: NAME,
        may: Rights::Admin,
        stages: &[|world, order| {
            let form = Form::new("form")
                .title("Setting a New Password")
                .instructions("Whoever gets the link can set a new password for the account.")
                .field(Field::jid_single("accountjid").label("The Jabber ID").required());
            order.ask(world, form);
        }],
        run: reset_password,
    },
];

/// A token that nobody can guess: 26 letters and digits, 130 bits.
///
/// # Errors
/// The operating system gives no random bytes.
pub fn token() -> Result<String, getrandom::Error> {
    let mut bytes = [0; 26];
    getrandom::fill(&mut bytes)?;
    let letters = bytes.iter().filter_map(|byte| LETTERS.get(usize::from(byte & 31)));
    Ok(letters.map(|letter| char::from(*letter)).collect())
}

/// The link of an invitation (XEP-0401 §3, XEP-0445 §2). `invites`: it is a user's to a contact, who may have an account elsewhere.
pub fn uri(invitation: &Invitation, invites: bool) -> String {
    let Invitation { token, domain, purpose, owner, .. } = invitation;
    match (purpose, owner) {
        (Purpose::Account(_), Some(owner)) if invites => format!("xmpp:{owner}?roster;preauth={token};ibr=y"),
        (Purpose::Account(Some(local)), _) => format!("xmpp:{local}@{domain}?register;preauth={token}"),
        (Purpose::Password, Some(owner)) => format!("xmpp:{owner}?register;preauth={token}"),
        _ => format!("xmpp:{domain}?register;preauth={token}"),
    }
}

/// XEP-0401 §3.1.
fn invite(world: &mut World, order: Order) {
    let allows = world.domain(order.domain()).and_then(|domain| domain.module(NAME));
    if !allows.is_some_and(|options| options.switch(USERS_INVITE.key)) {
        return order.refuse(world, Condition::Forbidden);
    }
    let owner = Some(order.from().to_bare()).filter(|owner| owner.domain() == order.domain());
    if owner.is_none() {
        return order.refuse(world, Condition::Forbidden);
    }
    let domain = order.domain().to_owned();
    make(world, order, Wanted::Account { domain, local: None, inviter: owner }, true);
}

/// XEP-0401 §3.2.
fn create_account(world: &mut World, order: Order) {
    let local = match order.value("username").map(prepare_local) {
        None => None,
        Some(Ok(name)) => Some(name.into_owned()),
        Some(Err(error)) => return order.fail(world, format!("no such username is possible: {error}")),
    };
    let befriends = order.value("roster-subscription").is_some_and(|value| matches!(value.trim(), "1" | "true"));
    let inviter = Some(order.from().to_bare()).filter(|owner| befriends && owner.domain() == order.domain());
    let domain = order.domain().to_owned();
    make(world, order, Wanted::Account { domain, local, inviter }, false);
}

fn reset_password(world: &mut World, order: Order) {
    let account = order.value("accountjid").and_then(|text| Jid::parse(text).ok());
    let account = account.filter(|account| account.local().is_some() && account.domain() == order.domain());
    match account {
        Some(account) => make(world, order, Wanted::Password(account.to_bare()), false),
        None => order.fail(world, "an account of this domain must be given"),
    }
}

fn make(world: &mut World, order: Order, wanted: Wanted, invites: bool) {
    let options = world.domain(order.domain()).and_then(|domain| domain.module(NAME));
    let days = options.map_or(0, |options| options.number(INVITATION_DAYS.key));
    let made = invitations::make(&world.stores, wanted, days, world.time());
    world.wait(made, move |world, made| match made.map_err(Refusal::from).and_then(|made| made) {
        Ok(invitation) => {
            let form = Form::new("result")
                .hidden("FORM_TYPE", "urn:xmpp:invite#invitation")
                .field(Field::text_single("uri").label("The link to pass on").value(&uri(&invitation, invites)))
                .field(
                    Field::text_single("expire").label("Good until").value(&delay::timestamp(invitation.expires_ms)),
                );
            order.complete(world, Outcome::result(form.element()));
        }
        Err(refusal) => refuse(world, order, refusal),
    });
}

/// Invitations of one account that may be open.
pub const MAX_OPEN: usize = 50;
/// A day, milliseconds.
pub const DAY_MS: u64 = 86_400_000;

const LETTERS: &[u8; 32] = b"abcdefghijkmnpqrstuvwxyz23456789";
