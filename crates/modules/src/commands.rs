//! XEP-0050: Ad-Hoc Commands. A command is an entry of the table: its node, its name, its
//! permissions, its forms, and its action.
//!
//! # Layout
//!
//! This file: the module and the table. `request`: incoming requests and their errors. `order`: the
//! types of a command, and of one in progress. `session`: the state between stages. `discovery`:
//! lists and descriptions of commands.
//!
//! # Invariants
//!
//! * A user who may not run a command gets `forbidden` for it, and doesn't see it in lists.
//! * A session belongs to one full JID and one command; its id is never reused. Sessions are
//!   bounded in number, per account and in total, and in age; as long as it is remembered, a
//!   session that has ended is distinguished from one that never existed (`session-expired`,
//!   `bad-sessionid`).
//!
//! Left out: `bad-locale`. Texts are in English; a client that prefers another language gets
//! English, marked as such, rather than refused.

pub(crate) mod discovery;
pub(crate) mod order;
mod request;
mod session;

use rookery_hub::{Bound, Domain, Hooks, Module, Target};
use rookery_xml::ns;

use crate::administration;
use order::AdHocCommand;
use session::Sessions;

/// The module that lets clients run commands of the server.
#[derive(Debug)]
pub struct Commands;

impl Module for Commands {
    fn name(&self) -> &'static str {
        NAME
    }

    fn summary(&self) -> &'static str {
        "clients can run commands of the server, such as those of administrators"
    }

    fn standards(&self) -> &'static [(&'static str, &'static str)] {
        &[("XEP-0050", "1.3.0")]
    }

    fn left_out(&self) -> &'static [(&'static str, &'static str)] {
        &[("XEP-0050", "`bad-locale`: a client that prefers another language gets English, marked as such")]
    }

    fn bounds(&self) -> &'static [Bound] {
        session::BOUNDS
    }

    fn install(&self, hooks: &mut Hooks<'_>) {
        hooks.feature(Target::Server, ns::COMMANDS);
        hooks.state(Sessions::default());
        hooks.iq(Target::Server, ns::COMMANDS, request::handle);
    }
}

/// Returns all commands, in the order in which they are listed.
fn table() -> impl Iterator<Item = &'static AdHocCommand> {
    [
        #[cfg(test)]
        tests::COMMANDS,
        administration::accounts::COMMANDS,
        administration::inquiries::COMMANDS,
        administration::lists::COMMANDS,
        administration::service::COMMANDS,
        administration::border::COMMANDS,
        crate::register::invite::COMMANDS,
    ]
    .into_iter()
    .flatten()
}

/// Returns the command of a node, if the domain has it.
pub(crate) fn find(domain: &Domain, node: &str) -> Option<&'static AdHocCommand> {
    of_domain(domain).find(|command| command.node == node)
}

/// Returns the commands of a domain.
fn of_domain(domain: &Domain) -> impl Iterator<Item = &'static AdHocCommand> {
    let is_on = domain.module(NAME).is_some();
    table().filter(move |command| is_on && domain.module(command.module).is_some())
}

const NAME: &str = "commands";

#[cfg(test)]
mod tests;
