//! Requests to run a command, and the errors of XEP-0050 §4.4.

use rookery_hub::{Iq, World};
use rookery_modkit::form::Form;
use rookery_operations::rights::with_rights;
use rookery_stream::error::{Condition, ErrorType, StanzaError};
use rookery_xml::ns;

use super::find;
use super::order::{AdHocCommand, CommandOrder, specific};
use super::session::{CommandSession, Gone, Sessions};

/// The action that a request takes on a session (§3.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SessionAction {
    Execute,
    Next,
    Complete,
    Prev,
    Cancel,
}

/// Handles a request.
pub(super) fn handle(world: &mut World, iq: Iq) {
    let (action, node) = match read(&iq) {
        Ok(read) => read,
        Err(error) => return world.reply_error(&iq, error),
    };
    let found = world.domain(iq.to.domain()).and_then(|domain| Some((find(domain, node)?, domain)));
    let Some((command, least)) = found.map(|(command, domain)| (command, command.least(domain))) else {
        return world.reply_error(&iq, Condition::ItemNotFound);
    };
    let (domain, from) = (iq.to.domain().to_owned(), iq.from.clone());
    with_rights(world, &domain, &from, move |world, rights| match rights {
        Ok(rights) if rights >= least => run_permitted(world, iq, command, action),
        Ok(_) => world.reply_error(&iq, Condition::Forbidden),
        Err(error) => world.reply_error(&iq, error),
    });
}

fn read(iq: &Iq) -> Result<(SessionAction, &str), StanzaError> {
    let command = &iq.payload;
    let node = command.attr("node").filter(|_| iq.set && command.name() == "command").ok_or(Condition::BadRequest)?;
    let action = match command.attr("action") {
        None | Some("execute") => SessionAction::Execute,
        Some("next") => SessionAction::Next,
        Some("complete") => SessionAction::Complete,
        Some("prev") => SessionAction::Prev,
        Some("cancel") => SessionAction::Cancel,
        Some(_) => return Err(specific(Condition::BadRequest, "malformed-action")),
    };
    Ok((action, node))
}

fn run_permitted(world: &mut World, iq: Iq, command: &'static AdHocCommand, action: SessionAction) {
    let Some(id) = iq.payload.attr("sessionid").map(str::to_owned) else {
        if action != SessionAction::Execute {
            // There is nothing yet to continue, to go back from or to end.
            return world.reply_error(&iq, bad_action());
        }
        let id = world.unique_text();
        return go(world, CommandOrder { command, iq, id, before: None, answers: Vec::new() });
    };
    let now = world.time();
    let taken = world.state_mut::<Sessions>().take(&id, &iq.from, command.node, now);
    match taken {
        Ok(session) => {
            let order =
                CommandOrder { command, iq, id, answers: session.answers.clone(), before: Some(session.clone()) };
            go_on(world, order, session, action);
        }
        Err(Gone::Ended) => {
            let error = specific(Condition::NotAllowed, "session-expired").with_type(ErrorType::Cancel);
            world.reply_error(&iq, error);
        }
        Err(Gone::Unknown) => world.reply_error(&iq, specific(Condition::BadRequest, "bad-sessionid")),
    }
}

fn go_on(world: &mut World, mut order: CommandOrder, session: CommandSession, action: SessionAction) {
    let stage = session.answers.len();
    let is_possible = match action {
        SessionAction::Execute | SessionAction::Cancel => true,
        SessionAction::Next => !order.is_last(stage),
        SessionAction::Complete => order.is_last(stage),
        SessionAction::Prev => stage > 0,
    };
    if !is_possible {
        world.state_mut::<Sessions>().put(order.id, session);
        return world.reply_error(&order.iq, bad_action());
    }
    match action {
        SessionAction::Cancel => {
            let reply = order.reply("canceled");
            order.end(world);
            world.reply(&order.iq, reply);
        }
        SessionAction::Prev => {
            order.answers.pop();
            go(world, order);
        }
        SessionAction::Execute | SessionAction::Next | SessionAction::Complete => {
            match filled_in(&order.iq, &session) {
                Ok(form) => {
                    order.answers.push(form);
                    go(world, order);
                }
                Err(text) => order.send_back(world, text),
            }
        }
    }
}

/// Goes on to the next stage, or carries the command out.
fn go(world: &mut World, order: CommandOrder) {
    let command = order.command;
    match command.stages.get(order.answers.len()) {
        Some(stage) => stage(world, order),
        None => (command.run)(world, order),
    }
}

/// Returns the submitted form if it has all required fields. §3.6.1: its type doesn't matter, it
/// counts as submitted.
fn filled_in(iq: &Iq, session: &CommandSession) -> Result<Form, String> {
    let x = iq.payload.child("x", ns::DATA_FORMS).ok_or("the form is missing")?;
    let form = Form::read(x).ok_or("the form is too large")?;
    let is_there = |var: &String| form.values(var).any(|value| !value.is_empty());
    match session.required.iter().find(|var| !is_there(var)) {
        Some(missing) => Err(format!("the field {missing} must be filled in")),
        None => Ok(form),
    }
}

fn bad_action() -> StanzaError {
    specific(Condition::BadRequest, "bad-action")
}
