//! XEP-0133: Service Administration. Commands with which the administrators of a domain (see
//! `rights`) manage its accounts and announcements.
//!
//! # Layout
//!
//! This file: the module, and the reading of a command's accounts. `accounts`: accounts and
//! their sessions. `inquiries`: information about one account. `lists`: the numbers and lists of
//! accounts. `service`: announcements, the message of the day, administrators, stop and restart.
//!
//! [`border`]: black- and whitelists.
//!
//! # Left out
//!
//! Getting a password (§4.6, retracted: no server with SCRAM keys knows one). `lastlogin` (§4.9)
//! reports the time when an account was last online: now if it is online, otherwise the end of its
//! last session.

pub(crate) mod accounts;
pub mod border;
pub(crate) mod inquiries;
pub(crate) mod lists;
pub(crate) mod service;

use rookery_base::Set;
use rookery_hub::failure::work_condition;
use rookery_hub::{Hooks, Module, OptionSpec, World};
use rookery_jid::Jid;
use rookery_modkit::form::{Field, Form};
use rookery_operations::action_log::{self, ActionLog, Entry};
use rookery_operations::logins::{self, Logins};
use rookery_operations::process::Process;
use rookery_operations::rights::{ADMINISTRATION as NAME, ADMINS};
use rookery_operations::{self as operations, Outcome as Came, Refusal};
use rookery_stream::error::{Condition, StanzaError};

use crate::commands::order::{CommandOrder, CommandOutcome};

/// The module that lets administrators manage a domain from their clients.
#[derive(Debug)]
pub struct Administration {
    borders: border::Borders,
    action_log: ActionLog,
    logins: Logins,
    process: Process,
}

impl Administration {
    /// Makes the module for one shard; the arguments are shared by all shards.
    pub fn new(borders: border::Borders, action_log: ActionLog, logins: Logins, process: Process) -> Self {
        Self { borders, action_log, logins, process }
    }
}

impl Module for Administration {
    fn name(&self) -> &'static str {
        NAME
    }

    fn summary(&self) -> &'static str {
        "administrators can look after accounts and the server from their clients (needs commands)"
    }

    fn standards(&self) -> &'static [(&'static str, &'static str)] {
        &[("XEP-0133", "1.3.1")]
    }

    fn left_out(&self) -> &'static [(&'static str, &'static str)] {
        &[("XEP-0133", "getting a password (§4.6): no server with SCRAM keys knows one")]
    }

    fn options(&self) -> &'static [OptionSpec] {
        &[ADMINS]
    }

    fn install(&self, hooks: &mut Hooks<'_>) {
        hooks.state(self.borders.clone());
        hooks.state(self.action_log.clone());
        hooks.state(self.logins.clone());
        hooks.state(self.process.clone());
        border::install(hooks);
        action_log::install(hooks);
        lists::install(hooks);
        logins::install(hooks);
        operations::install(hooks);
    }
}

/// Returns a form of a command.
fn form(title: &str, instructions: &str) -> Form {
    Form::new("form").title(title).instructions(instructions).hidden("FORM_TYPE", FORM_TYPE)
}

/// Returns the form of a command's result, with no fields yet.
fn result() -> Form {
    Form::new("result").hidden("FORM_TYPE", FORM_TYPE)
}

/// Returns a form that asks for accounts.
fn accounts_form(title: &str, instructions: &str) -> Form {
    form(title, instructions).field(Field::jid_multi("accountjids").label("The Jabber ID(s)").required())
}

/// Returns a form that asks for one account.
fn account_form(title: &str, instructions: &str) -> Form {
    form(title, instructions).field(Field::jid_single("accountjid").label("The Jabber ID").required())
}

/// Returns the domain's accounts that a command is about, each once.
///
/// # Errors
/// The error says what is wrong with the form.
fn accounts_of(order: &CommandOrder) -> Result<Vec<Jid>, String> {
    let (mut accounts, mut seen) = (Vec::new(), Set::default());
    for text in order.values("accountjids").into_iter().chain(order.value("accountjid").map(str::to_owned)) {
        let account = Jid::parse(&text).map_err(|error| format!("{text}: {error}"))?;
        if account.local().is_none() || account.domain() != order.domain() {
            return Err(format!("{text} is not an account of {}", order.domain()));
        }
        if accounts.len() == MAX_ACCOUNTS && !seen.contains(&account) {
            return Err(format!("at most {MAX_ACCOUNTS} accounts can be given at once"));
        }
        if seen.insert(account.clone()) {
            accounts.push(account);
        }
    }
    if accounts.is_empty() { Err("an account must be given".into()) } else { Ok(accounts) }
}

/// Refuses a command by which an administrator would lock itself out (`not-allowed`).
fn refuse_own(order: &CommandOrder, accounts: &[Jid]) -> Result<(), StanzaError> {
    match accounts.iter().any(|account| account.bare() == order.from().bare()) {
        true => Err(StanzaError::new(Condition::NotAllowed).with_text("administrators can't do that to themselves")),
        false => Ok(()),
    }
}

/// An action on one account.
type Deed = fn(&mut World, Jid, Done);
/// The continuation that takes the outcome of a [`Deed`].
type Done = Box<dyn FnOnce(&mut World, Came<()>)>;

/// Applies an action to one account after the other, then ends the command with the outcomes.
fn for_each_account(world: &mut World, order: CommandOrder, accounts: Vec<Jid>, what: &'static str, deed: Deed) {
    next(world, order, accounts.into_iter(), (what, deed), (0, Vec::new()));
}

fn next(
    world: &mut World,
    order: CommandOrder,
    mut accounts: std::vec::IntoIter<Jid>,
    (what, deed): (&'static str, Deed),
    (mut done, mut unknown): (usize, Vec<String>),
) {
    let Some(account) = accounts.next() else {
        let outcome = CommandOutcome::info(format!("{what}: {done}"));
        return order.complete(
            world,
            match unknown.is_empty() {
                true => outcome,
                false => outcome.error(format!("there is no such account: {}", unknown.join(", "))),
            },
        );
    };
    let name = account.to_string();
    let then = move |world: &mut World, outcome| {
        match outcome {
            Ok(()) => {
                note(world, &order, what, &name);
                done += 1;
            }
            Err(Refusal::Missing(_)) => unknown.push(name),
            Err(refusal) => return refuse(world, order, refusal),
        }
        next(world, order, accounts, (what, deed), (done, unknown));
    };
    deed(world, account, Box::new(then));
}

/// Records in the action log what a command has done.
pub(crate) fn note(world: &World, order: &CommandOrder, what: &str, whom: &str) {
    world.state::<ActionLog>().note(Entry {
        unix_ms: world.time(),
        who: order.from().bare_str().to_owned(),
        by: "command".into(),
        act: format!("{what}: {whom}"),
        domain: order.domain().to_owned(),
    });
}

/// Ends a command with the reason why it wasn't carried out: as a note if other values might work,
/// otherwise as an error.
pub(crate) fn refuse(world: &mut World, order: CommandOrder, refusal: Refusal) {
    match refusal {
        Refusal::Impossible(text) | Refusal::Missing(text) | Refusal::Exists(text) | Refusal::Full(text) => {
            order.fail(world, text);
        }
        Refusal::Off(text) => order.refuse(world, StanzaError::new(Condition::FeatureNotImplemented).with_text(text)),
        Refusal::Late => {
            order.refuse(world, StanzaError::new(Condition::ResourceConstraint).with_text(refusal.to_string()))
        }
        Refusal::Failed(_) => {
            order.refuse(world, StanzaError::new(Condition::InternalServerError).with_text(refusal.to_string()));
        }
        Refusal::Store(error) => order.store_failed(world, "a command of an administrator", &error),
        Refusal::Work(error) => {
            world.work_failed("a command of an administrator", order.from(), error);
            order.refuse(world, work_condition(error));
        }
    }
}

/// The type of all forms, which gives their fields a meaning.
const FORM_TYPE: &str = "http://jabber.org/protocol/admin";
/// The most accounts that one command may be about.
const MAX_ACCOUNTS: usize = 1000;
