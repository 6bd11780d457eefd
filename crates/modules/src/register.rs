//! XEP-0077: In-Band Registration. By default, administrators invite people, and nobody else can
//! create an account: a server that anyone may join needs supervision.
//!
//! # Layout
//!
//! This file: the module, and an account's requests about itself after login. [`creation`]: new
//! accounts, before login. [`rate`]: the limit of new accounts per address. [`invite`]:
//! invitations, and links to set a password; `shown`: streams that have shown one.
//!
//! # Invariants
//!
//! * Keys are derived in the background, never on the shard.
//! * A token is valid for one registration. While it is valid, the name that it is for is
//!   reserved.
//! * A new password ends the other sessions of its account.
//! * An account can only change and remove itself: the stream decides, not the content of the
//!   request.
//! * No reply repeats the password (§3.3).

pub mod creation;
pub mod invite;
pub mod rate;
mod shown;

use rookery_hub::{Bound, Hooks, Iq, Module, Most, OptionSpec, Per, SessionRef, Target, Unit, Value, World};
use rookery_jid::prepare_local;
use rookery_modkit::option;
use rookery_operations::{password, sessions};
use rookery_store::StoreError;
use rookery_stream::error::{Condition, StanzaError, StreamError};
use rookery_xml::{Writer, ns};

pub use rate::Creations;
use rate::NAME;

/// The module that lets users create, change and remove accounts from their clients.
#[derive(Debug)]
pub struct RegisterModule {
    creations: Creations,
}

impl RegisterModule {
    /// Makes the module for one shard; `creations` is the same for all shards.
    pub fn new(creations: Creations) -> Self {
        Self { creations }
    }
}

impl Module for RegisterModule {
    fn name(&self) -> &'static str {
        NAME
    }

    fn summary(&self) -> &'static str {
        "people who are invited can create an account; users can change their password and remove their account"
    }

    fn standards(&self) -> &'static [(&'static str, &'static str)] {
        &[("XEP-0077", "2.4"), ("XEP-0401", "0.5.0"), ("XEP-0445", "0.2.0")]
    }

    fn options(&self) -> &'static [OptionSpec] {
        &OPTIONS
    }

    fn bounds(&self) -> &'static [Bound] {
        &BOUNDS
    }

    fn install(&self, hooks: &mut Hooks<'_>) {
        hooks.feature(Target::Server, ns::REGISTER);
        // §8.
        hooks.stream_features(|_, domain| {
            let creates = domain.module(NAME).is_some_and(|options| options.switch(ALLOW_CREATION.key));
            let by_token = Writer::with_ns("register", ns::TOKEN_REGISTRATION).finish();
            let by_anybody = creates.then(|| Writer::with_ns("register", ns::REGISTER_FEATURE).finish());
            [by_token].into_iter().chain(by_anybody).collect()
        });
        hooks.state(self.creations.clone());
        hooks.memo::<rate::CreationNews>();
        hooks.state(shown::ShownTokens::default());
        hooks.before_login(ns::REGISTER, creation::request);
        hooks.before_login(ns::PREAUTH, shown::preauth);
        hooks.iq(Target::Server, ns::REGISTER, of_account);
        hooks.iq(Target::Account, ns::REGISTER, of_account);
    }
}

const OPTIONS: [OptionSpec; 9] = [
    ALLOW_CREATION,
    APPROVE,
    ALLOW_PLAINTEXT,
    MIN_PASSWORD,
    INSTRUCTIONS,
    USERS_INVITE,
    INVITATION_DAYS,
    rate::PER_ADDRESS_SECONDS,
    rate::TRUSTED_NETWORKS,
];

const ALLOW_CREATION: OptionSpec = OptionSpec {
    key: "allow_creation",
    default: || Value::Switch(false),
    doc: "anyone can create an account; if false, only people with an invitation can",
    check: option::any,
};

const APPROVE: OptionSpec = OptionSpec {
    key: "approve",
    default: || Value::Switch(false),
    doc: "an account that somebody creates without an invitation can't be used until an operator approves it; say so in `instructions`",
    check: option::any,
};

const ALLOW_PLAINTEXT: OptionSpec = OptionSpec {
    key: "allow_plaintext",
    default: || Value::Switch(false),
    doc: "accounts can be created over unencrypted connections",
    check: option::any,
};

const MIN_PASSWORD: OptionSpec = OptionSpec {
    key: password::OPTION,
    default: || Value::Number(password::LEAST),
    doc: "characters that a new password must have, however it is set",
    check: option::at_least_one,
};

const INSTRUCTIONS: OptionSpec = OptionSpec {
    key: "instructions",
    default: || Value::Text("Choose a username and a password.".to_owned()),
    doc: "the text that people see when they create an account",
    check: option::any,
};

const USERS_INVITE: OptionSpec = OptionSpec {
    key: "users_invite",
    default: || Value::Switch(false),
    doc: "users can invite people, who become their contacts; if false, only administrators can",
    check: option::any,
};

const INVITATION_DAYS: OptionSpec = OptionSpec {
    key: "invitation_days",
    default: || Value::Number(7),
    doc: "days for which an invitation, or a link to set a password, is valid",
    check: option::at_least_one,
};

/// Replies to a request of a user who has logged in, to the domain or to the user's own account.
fn of_account(world: &mut World, iq: Iq) {
    // Only the account's own stream to its own domain may do this: other askers have no account
    // here to change.
    let Some(session) = iq.origin.filter(|_| iq.from.domain() == iq.to.domain() && (iq.to.is_domain() || iq.is_own()))
    else {
        return world.reply_error(&iq, Condition::Forbidden);
    };
    if iq.payload.name() != "query" {
        return world.reply_error(&iq, Condition::BadRequest);
    }
    if !iq.set {
        return reply_registered(world, &iq);
    }
    match iq.payload.child("remove", ns::REGISTER) {
        Some(_) if iq.payload.children().count() == 1 => remove(world, iq),
        Some(_) => world.reply_error(&iq, Condition::BadRequest),
        None => change_password(world, session, iq),
    }
}

/// Replies with the data of a registered account (§3.1), without the password.
fn reply_registered(world: &mut World, iq: &Iq) {
    let mut reply = iq.result();
    reply.start_ns("query", ns::REGISTER).text_child("registered", "");
    reply.text_child("instructions", "To change your password, send your username with the new one.");
    reply.text_child("username", iq.from.local().unwrap_or_default()).text_child("password", "");
    world.reply(iq, reply);
}

/// Removes the account (§3.2). The reply follows the removal, and then the stream ends.
fn remove(world: &mut World, iq: Iq) {
    let account = iq.from.to_bare();
    // This comes before anything waits, so that no further request of its sessions is carried out.
    world.retire(&iq);
    world.end_sessions_of_removed(&account);
    // The next owner of the name must not inherit the rights.
    let domains = rookery_operations::rights::domains(world);
    let forgotten = rookery_operations::rights::forget(&world.stores, &domains, account.as_ref());
    world.wait(forgotten, move |world, forgotten| match forgotten {
        Ok(()) => world.remove_account(account, move |world, removed| tell_removed(world, &iq, removed.map(drop))),
        Err(error) => tell_removed(world, &iq, Err(error)),
    });
}

/// Tells the client that asked whether its account is gone. Its sessions have ended in any case.
fn tell_removed(world: &mut World, iq: &Iq, removed: Result<(), StoreError>) {
    let (outcome, text) = match removed {
        Ok(()) => (Ok(()), "the account was removed"),
        Err(error) => {
            world.store_failed("removing an account", &iq.from, &error);
            (Err(rookery_hub::failure::condition(&error)), "the account was not removed: log in to try again")
        }
    };
    world.dismiss(iq, outcome, StreamError::NotAuthorized, text);
}

/// Changes the password (§3.3).
fn change_password(world: &mut World, session: SessionRef, iq: Iq) {
    let username = iq.payload.child_text("username", ns::REGISTER).unwrap_or_default();
    let password = iq.payload.child_text("password", ns::REGISTER).unwrap_or_default();
    if username.is_empty() || password.is_empty() {
        return world.reply_error(&iq, Condition::BadRequest);
    }
    if prepare_local(&username).ok().as_deref() != iq.from.local() {
        return world.reply_error(&iq, Condition::Forbidden);
    }
    if let Err(error) = long_enough(world, iq.to.domain(), &password) {
        return world.reply_error(&iq, error);
    }
    let derived = password::derive(world, iq.from.as_ref(), password);
    world.wait_in_order(session, derived, move |world, derived| {
        let credentials = match password::credentials_of(world, &iq.from, derived) {
            Ok(credentials) => credentials,
            Err(error) => return world.reply_error(&iq, error),
        };
        let set = world.stores.accounts.set_credentials(iq.from.bare(), credentials);
        world.wait_in_order(session, set, move |world, set| match set {
            Ok(true) => {
                world.reply_done(&iq);
                sessions::password_changed(world, iq.from.to_bare(), Some(iq.from), |_, _| {});
            }
            // The account was removed meanwhile.
            Ok(false) => world.reply_error(&iq, Condition::RegistrationRequired),
            Err(error) => {
                world.store_failed("changing a password", &iq.from, &error);
                world.reply_error(&iq, rookery_hub::failure::condition(&error));
            }
        });
    });
}

/// Checks that a new password has as many characters as the operator requires.
fn long_enough(world: &World, domain: &str, password: &str) -> Result<(), StanzaError> {
    password::long_enough(world.settings(), domain, password).map_err(|short| {
        let text = format!("the password must have at least {} characters", short.least);
        StanzaError::new(Condition::NotAcceptable).with_text(text)
    })
}

const BOUNDS: [Bound; 3] = [
    Bound::on(
        "the time between two accounts that are created",
        Per::Address,
        Most::Option("per_address_seconds"),
        Unit::Seconds,
    )
    .or("the request gets <resource-constraint/>")
    .kept_in(&["accounts", "scram_keys"]),
    Bound::on(
        "open invitations",
        Per::Account,
        Most::Fixed(rookery_operations::invitations::MAX_OPEN as u64),
        Unit::Number,
    )
    .or("the command ends with a note that says so")
    .kept_in(&["invitations"]),
    Bound::on(
        "the time for which an invitation is valid",
        Per::Other("invitation"),
        Most::Option("invitation_days"),
        Unit::Days,
    )
    .or("the link stops working"),
];
