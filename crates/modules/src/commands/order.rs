//! A command, and one in progress, as the command itself sees it.

use rookery_hub::failure::condition;
use rookery_hub::{Domain, Iq, World};
use rookery_jid::Jid;
use rookery_modkit::form::Form;
use rookery_operations::rights::Rights;
use rookery_store::StoreError;
use rookery_stream::error::{Condition, StanzaError};
use rookery_xml::{Element, Writer, ns};

use super::session::{CommandSession, Sessions};

/// One command of XEP-0050: its node, its name for display, the right to run it, and its forms.
pub(crate) struct AdHocCommand {
    /// Its node, by which clients name it.
    pub node: &'static str,
    /// Its name for display.
    pub name: &'static str,
    /// The module that it belongs to; if that is off, the command doesn't exist.
    pub module: &'static str,
    /// The least right that allows a user to run it.
    pub may: Rights,
    /// The switch of the module that leaves it to administrators while it is off.
    pub switch: Option<&'static str>,
    /// The stages: each makes a form and hands it to [`CommandOrder::ask`].
    pub stages: &'static [CommandStep],
    /// Carries the command out once all forms are filled in.
    pub run: CommandStep,
}

impl AdHocCommand {
    /// Returns the least right that allows a user of a domain to run it.
    pub fn least(&self, domain: &Domain) -> Rights {
        let options = domain.module(self.module);
        let is_off = self.switch.is_some_and(|switch| options.is_none_or(|options| !options.switch(switch)));
        if is_off { self.may.max(Rights::Admin) } else { self.may }
    }
}

/// A part of a command.
pub(crate) type CommandStep = fn(&mut World, CommandOrder);

/// A running command. It ends with [`CommandOrder::ask`], [`CommandOrder::succeed`],
/// [`CommandOrder::complete`], [`CommandOrder::fail`] or [`CommandOrder::refuse`].
pub(crate) struct CommandOrder {
    pub(super) command: &'static AdHocCommand,
    pub(super) iq: Iq,
    /// The id of its session.
    pub(super) id: String,
    /// The session as it was before the last form came in.
    pub(super) before: Option<CommandSession>,
    pub(super) answers: Vec<Form>,
}

/// The result of a command.
#[derive(Debug, Clone, Default)]
pub(crate) struct CommandOutcome {
    result: Option<Element>,
    notes: Vec<(&'static str, String)>,
}

impl CommandOutcome {
    /// Returns an outcome with a form of type `result`.
    pub fn result(form: Element) -> Self {
        Self { result: Some(form), notes: Vec::new() }
    }

    /// Returns an outcome with a note of success.
    pub fn info(text: impl Into<String>) -> Self {
        Self::default().note("info", text)
    }

    /// Returns the same with a note about something that failed.
    #[must_use]
    pub fn error(self, text: impl Into<String>) -> Self {
        self.note("error", text)
    }

    /// Returns the same with a note: `info`, `warn` or `error`.
    #[must_use]
    pub fn note(mut self, severity: &'static str, text: impl Into<String>) -> Self {
        self.notes.push((severity, text.into()));
        self
    }
}

impl CommandOrder {
    /// Returns the full JID of the user who runs the command.
    pub fn from(&self) -> &Jid {
        &self.iq.from
    }

    /// Returns the domain at which the command runs.
    pub fn domain(&self) -> &str {
        self.iq.to.domain()
    }

    /// Returns the first value of a field, from any stage; `None` if it is empty.
    pub fn value(&self, var: &str) -> Option<&str> {
        self.answers.iter().rev().find_map(|form| form.value(var)).filter(|value| !value.is_empty())
    }

    /// Returns the values of a field, from any stage, without empty ones.
    pub fn values(&self, var: &str) -> Vec<String> {
        let form = self.answers.iter().rev().find(|form| form.has(var));
        let values = form.into_iter().flat_map(|form| form.values(var)).map(str::trim);
        values.filter(|value| !value.is_empty()).map(str::to_owned).collect()
    }

    /// Returns the lines of a field of type `text-multi` as one text.
    pub fn text(&self, var: &str) -> String {
        let form = self.answers.iter().rev().find(|form| form.has(var));
        let lines: Vec<_> = form.into_iter().flat_map(|form| form.values(var)).collect();
        lines.join("\n").trim().to_owned()
    }

    /// Asks the user to fill in a form.
    pub fn ask(self, world: &mut World, form: Form) {
        let required = form.required_fields().map(str::to_owned).collect();
        let stage = self.answers.len();
        let mut reply = self.reply("executing");
        reply.start("actions").attr("execute", if self.is_last(stage) { "complete" } else { "next" });
        if stage > 0 {
            reply.start("prev").end();
        }
        reply.start(if self.is_last(stage) { "complete" } else { "next" }).end().end();
        reply.element(&form.element());
        let (owner, node, at_ms) = (self.iq.from.clone(), self.command.node, world.time());
        let session = CommandSession { owner, node, answers: self.answers, required, at_ms };
        world.state_mut::<Sessions>().put(self.id, session);
        world.reply(&self.iq, reply);
    }

    /// Ends the command with a note of success.
    pub fn succeed(self, world: &mut World, text: &str) {
        self.complete(world, CommandOutcome::info(text));
    }

    /// Ends the command with an outcome.
    pub fn complete(self, world: &mut World, outcome: CommandOutcome) {
        let mut reply = self.reply("completed");
        for (severity, text) in &outcome.notes {
            reply.start("note").attr("type", severity).text(text).end();
        }
        if let Some(result) = &outcome.result {
            reply.element(result);
        }
        self.end(world);
        world.reply(&self.iq, reply);
    }

    /// Ends the command with a note about an invalid value (XEP-0050 §3.6), in a form that was
    /// otherwise valid.
    pub fn fail(self, world: &mut World, text: impl Into<String>) {
        self.complete(world, CommandOutcome::default().error(text));
    }

    /// Ends the command with an error.
    pub fn refuse(self, world: &mut World, error: impl Into<StanzaError>) {
        self.end(world);
        world.reply_error(&self.iq, error);
    }

    /// Ends the command because the store failed.
    pub fn store_failed(self, world: &mut World, doing: &'static str, error: &StoreError) {
        world.store_failed(doing, &self.iq.from, error);
        self.refuse(world, condition(error));
    }

    /// Refuses a form that is missing, or lacks a required field (`bad-payload`); the session
    /// continues, and another form may be sent.
    pub(super) fn send_back(self, world: &mut World, text: impl Into<String>) {
        match self.before {
            Some(session) => world.state_mut::<Sessions>().put(self.id, session),
            None => world.state_mut::<Sessions>().end(&self.id),
        }
        world.reply_error(&self.iq, specific(Condition::BadRequest, "bad-payload").with_text(text.into()));
    }

    pub(super) fn is_last(&self, stage: usize) -> bool {
        stage + 1 >= self.command.stages.len()
    }

    pub(super) fn end(&self, world: &mut World) {
        world.state_mut::<Sessions>().end(&self.id);
    }

    pub(super) fn reply(&self, status: &str) -> Writer {
        let mut reply = self.iq.result();
        reply.attr("xml:lang", "en").start_ns("command", ns::COMMANDS).attr("node", self.command.node);
        reply.attr("sessionid", &self.id).attr("status", status);
        reply
    }
}

/// Returns an error with one of the conditions of XEP-0050 §4.4.
pub(super) fn specific(condition: Condition, name: &'static str) -> StanzaError {
    StanzaError::new(condition).with_application(Element::new(name, ns::COMMANDS))
}
