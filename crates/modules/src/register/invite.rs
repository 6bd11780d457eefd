//! Invitations (XEP-0401), and links to set a new password: the source of the tokens that `shown`
//! accepts.

use rookery_base::date;
use rookery_hub::World;
use rookery_jid::{Jid, prepare_local};
use rookery_modkit::form::{Field, Form};
use rookery_operations::Refusal;
use rookery_operations::invitations::{self, LinkPurpose, uri};
use rookery_operations::rights::Rights;
use rookery_stream::error::Condition;

use super::{INVITATION_DAYS, NAME, USERS_INVITE};
use crate::administration::refuse;
use crate::commands::order::{AdHocCommand, CommandOrder, CommandOutcome};

pub(crate) const COMMANDS: &[AdHocCommand] = &[
    AdHocCommand {
        node: "urn:xmpp:invite#invite",
        name: "Invite somebody",
        module: NAME,
        may: Rights::Account,
        switch: Some(USERS_INVITE.key),
        stages: &[],
        run: invite,
    },
    AdHocCommand {
        node: "urn:xmpp:invite#create-account",
        name: "Invite somebody to create an account",
        module: NAME,
        may: Rights::Admin,
        switch: None,
        stages: &[|world, order| {
            let form = Form::new("form")
                .title("Inviting a New User")
                .instructions("Anyone who gets the link can create an account, with this name if one is given.")
                .field(Field::text_single("username").label("Username"))
                .field(Field::boolean("roster-subscription", false).label("Add to your contacts"));
            order.ask(world, form);
        }],
        run: create_account,
    },
    AdHocCommand {
        node: "urn:rookery:register#reset-password",
        name: "Create a link to set a new password",
        module: NAME,
        may: Rights::Admin,
        switch: None,
        stages: &[|world, order| {
            let form = Form::new("form")
                .title("Setting a New Password")
                .instructions("Anyone who gets the link can set a new password for the account.")
                .field(Field::jid_single("accountjid").label("The Jabber ID").required());
            order.ask(world, form);
        }],
        run: reset_password,
    },
];

/// Creates an invitation to become a contact (XEP-0401 §3.1).
fn invite(world: &mut World, order: CommandOrder) {
    let owner = Some(order.from().to_bare()).filter(|owner| owner.domain() == order.domain());
    if owner.is_none() {
        return order.refuse(world, Condition::Forbidden);
    }
    let domain = order.domain().to_owned();
    make(world, order, LinkPurpose::Account { domain, local: None, inviter: owner }, true);
}

/// Creates an invitation to create an account (XEP-0401 §3.2).
fn create_account(world: &mut World, order: CommandOrder) {
    let local = match order.value("username").map(prepare_local) {
        None => None,
        Some(Ok(name)) => Some(name.into_owned()),
        Some(Err(error)) => return order.fail(world, format!("this username isn't possible: {error}")),
    };
    let befriends = order.value("roster-subscription").is_some_and(|value| matches!(value.trim(), "1" | "true"));
    let inviter = Some(order.from().to_bare()).filter(|owner| befriends && owner.domain() == order.domain());
    let domain = order.domain().to_owned();
    make(world, order, LinkPurpose::Account { domain, local, inviter }, false);
}

fn reset_password(world: &mut World, order: CommandOrder) {
    let account = order.value("accountjid").and_then(|text| Jid::parse(text).ok());
    let account = account.filter(|account| account.local().is_some() && account.domain() == order.domain());
    match account {
        Some(account) => make(world, order, LinkPurpose::Password(account.to_bare()), false),
        None => order.fail(world, "an account of this domain must be given"),
    }
}

fn make(world: &mut World, order: CommandOrder, wanted: LinkPurpose, invites: bool) {
    let options = world.options(order.domain(), NAME);
    let days = options.map_or(0, |options| options.number(INVITATION_DAYS.key));
    let made = invitations::make(&world.stores, wanted, days, world.time());
    world.wait(made, move |world, made| match made.map_err(Refusal::from).and_then(|made| made) {
        Ok(invitation) => {
            let page = world.settings().told.pages.as_deref().map(|pages| invitations::page(&invitation, pages));
            let mut form = Form::new("result")
                .hidden("FORM_TYPE", "urn:xmpp:invite#invitation")
                .field(Field::text_single("uri").label("The link for a client").value(&uri(&invitation, invites)));
            if let Some(page) = page {
                form = form.field(Field::text_single("landing-url").label("The link to share").value(&page));
            }
            let until = date::timestamp(invitation.expires_ms);
            let form = form.field(Field::text_single("expire").label("Good until").value(&until));
            order.complete(world, CommandOutcome::result(form.element()));
        }
        Err(refusal) => refuse(world, order, refusal),
    });
}
