//! Accounts and their sessions: XEP-0133 §4.1 to §4.7, and their archives.

use rookery_hub::World;
use rookery_jid::Jid;
use rookery_modkit::form::Field;
use rookery_operations::rights::Rights;
use rookery_operations::{sessions, users};

use super::{Done, NAME, account_form, accounts_form, accounts_of, for_each_account, form, note, refuse, refuse_own};
use crate::commands::order::{AdHocCommand, CommandOrder};

pub(crate) const COMMANDS: &[AdHocCommand] = &[
    AdHocCommand {
        node: "http://jabber.org/protocol/admin#add-user",
        name: "Add a user",
        module: NAME,
        may: Rights::Admin,
        switch: None,
        stages: &[|world, order| {
            let form = form("Adding a User", "Fill out this form to add a user.")
                .field(Field::jid_single("accountjid").label("The Jabber ID for the account to be added").required())
                .field(Field::text_private("password").label("The password for this account").required())
                .field(Field::text_private("password-verify").label("Retype password").required());
            order.ask(world, form);
        }],
        run: add,
    },
    AdHocCommand {
        node: "http://jabber.org/protocol/admin#delete-user",
        name: "Delete users",
        module: NAME,
        may: Rights::Admin,
        switch: None,
        stages: &[|world, order| {
            order.ask(world, accounts_form("Deleting a User", "Fill out this form to delete a user."))
        }],
        run: |world, order| with_others(world, order, "deleted accounts", remove),
    },
    AdHocCommand {
        node: "http://jabber.org/protocol/admin#disable-user",
        name: "Disable users",
        module: NAME,
        may: Rights::Admin,
        switch: None,
        stages: &[|world, order| {
            order.ask(world, accounts_form("Disabling a User", "Fill out this form to disable a user."))
        }],
        run: |world, order| with_others(world, order, "disabled accounts", disable),
    },
    AdHocCommand {
        node: "http://jabber.org/protocol/admin#reenable-user",
        name: "Re-enable users",
        module: NAME,
        may: Rights::Admin,
        switch: None,
        stages: &[|world, order| {
            order.ask(world, accounts_form("Re-Enable a User", "Fill out this form to re-enable a user."))
        }],
        run: |world, order| match accounts_of(&order) {
            Ok(accounts) => for_each_account(world, order, accounts, "re-enabled accounts", enable),
            Err(text) => order.fail(world, text),
        },
    },
    AdHocCommand {
        node: "http://jabber.org/protocol/admin#end-user-session",
        name: "End sessions of users",
        module: NAME,
        may: Rights::Admin,
        switch: None,
        stages: &[|world, order| {
            let instructions = "Fill out this form to end a user's session.";
            order.ask(world, accounts_form("Ending a User Session", instructions));
        }],
        run: |world, order| match accounts_of(&order) {
            Ok(accounts) => {
                for_each_account(world, order, accounts, "accounts whose sessions were ended", end_sessions)
            }
            Err(text) => order.fail(world, text),
        },
    },
    AdHocCommand {
        node: "http://jabber.org/protocol/admin#change-user-password",
        name: "Change the password of a user",
        module: NAME,
        may: Rights::Admin,
        switch: None,
        stages: &[|world, order| {
            let form = account_form("Changing a User Password", "Fill out this form to change a user's password.");
            let password = Field::text_private("password").label("The password for this account");
            order.ask(world, form.field(password.required()));
        }],
        run: |world, order| match accounts_of(&order).as_deref() {
            Ok([account]) => change_password(world, order, account.to_bare()),
            Ok(_) => order.fail(world, "one account must be given"),
            Err(text) => order.fail(world, text.clone()),
        },
    },
    AdHocCommand {
        node: "urn:rookery:administration#empty-archive",
        name: "Empty archives of users",
        module: NAME,
        may: Rights::Admin,
        switch: None,
        stages: &[|world, order| {
            let instructions = "The messages that these users have sent and received are removed from their archives.";
            order.ask(world, accounts_form("Emptying Archives", instructions));
        }],
        run: |world, order| match accounts_of(&order) {
            Ok(accounts) => for_each_account(world, order, accounts, "emptied archives", empty_archive),
            Err(text) => order.fail(world, text),
        },
    },
];

/// Creates an account (§4.1).
fn add(world: &mut World, order: CommandOrder) {
    let account = match accounts_of(&order).as_deref() {
        Ok([account]) if account.resource().is_none() => account.clone(),
        Ok(_) => return order.fail(world, "one account must be given, without a resource"),
        Err(text) => return order.fail(world, text.clone()),
    };
    let password = order.value("password").unwrap_or_default().to_owned();
    if order.value("password-verify") != Some(&password) {
        return order.fail(world, "the two passwords differ");
    }
    users::add(world, account.clone(), password, move |world, added| match added {
        Ok(has_rights) => {
            note(world, &order, "created an account", account.as_str());
            let more = if has_rights { "; its name had been given rights before the account existed" } else { "" };
            order.succeed(world, &format!("{account} was added{more}"));
        }
        Err(refusal) => refuse(world, order, refusal),
    });
}

/// Applies an action to the accounts of a form, unless the administrator's own is among them.
fn with_others(world: &mut World, order: CommandOrder, what: &'static str, deed: super::Deed) {
    match accounts_of(&order) {
        Ok(accounts) => match refuse_own(&order, &accounts) {
            Ok(()) => for_each_account(world, order, accounts, what, deed),
            Err(error) => order.refuse(world, error),
        },
        Err(text) => order.fail(world, text),
    }
}

/// Removes an account (§4.2).
fn remove(world: &mut World, account: Jid, done: Done) {
    users::remove(world, account, done);
}

/// Disables accounts, and ends their sessions (§4.3).
fn disable(world: &mut World, account: Jid, done: Done) {
    users::set_disabled(world, account.to_bare(), true, done);
}

/// Lets a disabled account log in again (§4.4).
fn enable(world: &mut World, account: Jid, done: Done) {
    users::set_disabled(world, account.to_bare(), false, done);
}

fn empty_archive(world: &mut World, account: Jid, done: Done) {
    users::empty_archive(world, account.to_bare(), done);
}

/// Ends all sessions of an account, or the one of a full JID (§4.5).
fn end_sessions(world: &mut World, account: Jid, done: Done) {
    sessions::end(world, account, |world, ended| done(world, ended.map(drop)));
}

/// Sets the password of an account (§4.7).
fn change_password(world: &mut World, order: CommandOrder, account: Jid) {
    let password = order.value("password").unwrap_or_default().to_owned();
    let keep = Some(order.from().clone());
    users::set_password(world, account.clone(), password, keep, move |world, set| match set {
        Ok(()) => {
            note(world, &order, "set a password", account.as_str());
            order.succeed(world, &format!("{account} has a new password"));
        }
        Err(refusal) => refuse(world, order, refusal),
    });
}
