//! A domain's announcements, its administrators, and the restart and shutdown of the server:
//! XEP-0133 §4.23 to §4.32.

use rookery_base::count_of;
use rookery_hub::World;
use rookery_jid::Jid;
use rookery_modkit::form::{Field, Form};
use rookery_operations::announce::{self, Text};
use rookery_operations::process::{Process, Wish};
use rookery_operations::rights::{self, Rights, with_named};
use rookery_operations::welcome;
use rookery_stream::error::Condition;

use super::{NAME, form, note};
use crate::commands::order::{AdHocCommand, CommandOrder};

pub(crate) const COMMANDS: &[AdHocCommand] = &[
    AdHocCommand {
        node: "http://jabber.org/protocol/admin#announce",
        name: "Send an announcement to online users",
        module: announce::NAME,
        may: Rights::Admin,
        switch: None,
        stages: &[|world, order| {
            let form = form(
                "Making an Announcement",
                "Fill out this form to make an announcement to all active users of this service.",
            );
            order.ask(world, with_text(form, "announcement", "Announcement", None));
        }],
        run: |world, order| {
            let text = text(&order, "announcement");
            announce::to_online(world, order.domain(), &text);
            note(world, &order, "sent an announcement", &text.body);
            order.succeed(world, "the announcement was sent");
        },
    },
    AdHocCommand {
        node: "http://jabber.org/protocol/admin#set-motd",
        name: "Set the message of the day",
        module: announce::NAME,
        may: Rights::Admin,
        switch: None,
        stages: &[|world, order| {
            let form = form("Setting the Message of the Day", "Fill out this form to set the message of the day.");
            order.ask(world, with_text(form, "motd", "Message of the Day", None));
        }],
        run: |world, order| {
            let domain = order.domain().to_owned();
            let text = text(&order, "motd");
            let body = text.body.clone();
            announce::set_motd(world, &domain, text, move |world, kept| match kept {
                Ok(()) => {
                    note(world, &order, "set the message of the day", &body);
                    order.succeed(world, "the message of the day was set");
                }
                Err(error) => order.store_failed(world, "keeping a message of the day", &error),
            });
        },
    },
    AdHocCommand {
        node: "http://jabber.org/protocol/admin#edit-motd",
        name: "Edit the message of the day",
        module: announce::NAME,
        may: Rights::Admin,
        switch: None,
        stages: &[|world, order| {
            let domain = order.domain().to_owned();
            announce::motd(world, &domain, |world, text| match text {
                Ok(text) => {
                    let form =
                        form("Editing the Message of the Day", "Fill out this form to edit the message of the day.");
                    order.ask(world, with_text(form, "motd", "Message of the Day", text.as_ref()));
                }
                Err(error) => order.store_failed(world, "reading the message of the day", &error),
            });
        }],
        run: |world, order| {
            let domain = order.domain().to_owned();
            let text = text(&order, "motd");
            let body = text.body.clone();
            announce::update_motd(world, &domain, text, move |world, kept| match kept {
                Ok(()) => {
                    note(world, &order, "changed the message of the day", &body);
                    order.succeed(world, "the message of the day was changed for users who haven't received it yet");
                }
                Err(error) => order.store_failed(world, "keeping a message of the day", &error),
            });
        },
    },
    AdHocCommand {
        node: "http://jabber.org/protocol/admin#delete-motd",
        name: "Delete the message of the day",
        module: announce::NAME,
        may: Rights::Admin,
        switch: None,
        stages: &[],
        run: |world, order| {
            let domain = order.domain().to_owned();
            announce::delete_motd(world, &domain, |world, kept| match kept {
                Ok(()) => {
                    note(world, &order, "removed the message of the day", order.domain());
                    order.succeed(world, "there is no message of the day any more");
                }
                Err(error) => order.store_failed(world, "removing a message of the day", &error),
            });
        },
    },
    AdHocCommand {
        node: "http://jabber.org/protocol/admin#set-welcome",
        name: "Set the welcome message",
        module: NAME,
        may: Rights::Admin,
        switch: None,
        stages: &[|world, order| {
            let kept = welcome::text(&world.stores, order.domain());
            world.wait(kept, move |world, kept| {
                let body = match kept {
                    Ok(kept) => kept,
                    Err(error) => return order.store_failed(world, "reading the welcome message", &error),
                };
                let text = body.map(|body| Text { subject: None, body });
                let form =
                    form("Setting Welcome Message", "Fill out this form to set the welcome message for this service.");
                let field = multi("welcome", "Welcome Message", text.as_ref()).required();
                order.ask(world, form.field(field));
            });
        }],
        run: |world, order| {
            let text = order.text("welcome");
            set_welcome(world, order, text, "new users are welcomed from now on");
        },
    },
    AdHocCommand {
        node: "http://jabber.org/protocol/admin#delete-welcome",
        name: "Delete the welcome message",
        module: NAME,
        may: Rights::Admin,
        switch: None,
        stages: &[],
        run: |world, order| set_welcome(world, order, String::new(), "there is no welcome message any more"),
    },
    AdHocCommand {
        node: "http://jabber.org/protocol/admin#edit-admin",
        name: "Edit the list of administrators",
        module: NAME,
        may: Rights::Admin,
        switch: None,
        stages: &[ask_admins],
        run: set_admins,
    },
    AdHocCommand {
        node: "http://jabber.org/protocol/admin#restart",
        name: "Restart the server",
        module: NAME,
        may: Rights::Server,
        switch: None,
        stages: &[|world, order| ask_end(world, order, "Restarting the Service", "restart")],
        run: |world, order| end(world, order, Wish::Restart),
    },
    AdHocCommand {
        node: "http://jabber.org/protocol/admin#shutdown",
        name: "Shut the server down",
        module: NAME,
        may: Rights::Server,
        switch: None,
        stages: &[|world, order| ask_end(world, order, "Shutting Down the Service", "shut down")],
        run: |world, order| end(world, order, Wish::Stop),
    },
];

fn set_welcome(world: &mut World, order: CommandOrder, text: String, done: &'static str) {
    let kept = welcome::set_text(&world.stores, order.domain(), text);
    world.wait(kept, move |world, kept| match kept {
        Ok(()) => {
            note(world, &order, "changed the welcome message", done);
            order.succeed(world, done);
        }
        Err(error) => order.store_failed(world, "keeping the welcome message", &error),
    });
}

/// Shows the administrators that can be changed by this command, and those that the configuration
/// names (§4.29).
fn ask_admins(world: &mut World, order: CommandOrder) {
    let configured = rights::configured_administrators(world, order.domain()).unwrap_or_default();
    let domain = order.domain().to_owned();
    with_named(world, &domain, move |world, named| match named {
        Ok(named) => {
            let field = Field::jid_multi("adminjids").label("The admin list");
            let field = field.with_values(named.iter().map(Jid::to_string));
            let form = form(
                "Editing the Admin List",
                "Fill out this form to edit the list of entities who have administrative privileges.",
            );
            let form = match configured.is_empty() {
                true => form,
                false => {
                    let names: Vec<_> = configured.iter().map(Jid::as_str).collect();
                    form.field(Field::fixed(&format!("The configuration also names: {}", names.join(", "))))
                }
            };
            order.ask(world, form.field(field));
        }
        Err(error) => order.refuse(world, error),
    });
}

fn set_admins(world: &mut World, order: CommandOrder) {
    let mut admins = Vec::new();
    for text in order.values("adminjids") {
        match Jid::parse(&text) {
            Ok(jid) if jid.local().is_some() && jid.resource().is_none() => admins.push(jid),
            _ => return order.fail(world, format!("{text} is not the address of an account")),
        }
    }
    if admins.len() > MAX_ADMINS {
        return order.fail(world, format!("at most {MAX_ADMINS} administrators can be named"));
    }
    let configured = rights::configured_administrators(world, order.domain()).unwrap_or_default();
    if !admins.iter().chain(&configured).any(|admin| admin.as_ref() == order.from().bare()) {
        return order.fail(world, "administrators can't remove themselves; another one can");
    }
    let set = rights::set_named(&world.stores, order.domain(), &admins);
    world.wait(set, move |world, set| match set {
        Ok(()) => {
            let names: Vec<&str> = admins.iter().map(Jid::as_str).collect();
            note(world, &order, "named the administrators", &names.join(", "));
            order.succeed(world, "the list of administrators was changed");
        }
        Err(error) => order.store_failed(world, "keeping the list of administrators", &error),
    });
}

/// Asks for the delay and the announcement before a restart or shutdown (§4.30, §4.31).
fn ask_end(world: &mut World, order: CommandOrder, title: &str, what: &str) {
    if !world.state::<Process>().listens() {
        return order.refuse(world, Condition::FeatureNotImplemented);
    }
    let delay = Field::list_single("delay")
        .label(&format!("Time delay before the server is {what}ed").replace("downed", "down"));
    let delays = [
        ("0", "none"),
        ("30", "30 seconds"),
        ("60", "60 seconds"),
        ("90", "90 seconds"),
        ("120", "2 minutes"),
        ("180", "3 minutes"),
        ("240", "4 minutes"),
        ("300", "5 minutes"),
    ];
    let delay = delays.iter().fold(delay, |field, (value, label)| field.option(value, label)).value("60");
    let form = form(title, &format!("Fill out this form to {what} the service."));
    order.ask(world, form.field(delay).field(multi("announcement", "Announcement", None)));
}

fn end(world: &mut World, order: CommandOrder, wish: Wish) {
    let seconds = match order.value("delay").map(str::parse::<u64>) {
        None => 0,
        Some(Ok(seconds)) if seconds <= MAX_DELAY => seconds,
        Some(_) => return order.fail(world, format!("the delay must be a number of seconds up to {MAX_DELAY}")),
    };
    let announcement = text(&order, "announcement");
    if !announcement.body.is_empty() {
        // All domains of this server end.
        let domains: Vec<_> = world.settings().domains.iter().map(|domain| domain.name.clone()).collect();
        domains.iter().for_each(|domain| announce::to_online(world, domain, &announcement));
    }
    tracing::warn!(administrator = %order.from(), ?wish, seconds, "an administrator is stopping the server");
    let act = if wish == Wish::Restart { "restarts the server" } else { "shuts the server down" };
    let time = count_of(seconds, "second");
    note(world, &order, act, &format!("in {time}"));
    order.succeed(world, &format!("this happens in {time}"));
    // Waits at least a moment, so that the reply and the announcement go out first.
    world.after((seconds * 1000).max(LAST_WORDS_MS), move |world| world.state::<Process>().wish(wish));
}

/// Returns the subject and text of an announcement.
fn text(order: &CommandOrder, var: &str) -> Text {
    Text { subject: order.value("subject").map(str::to_owned), body: order.text(var) }
}

fn with_text(form: Form, var: &str, label: &str, text: Option<&Text>) -> Form {
    let subject = Field::text_single("subject").label("Subject");
    let subject =
        text.and_then(|text| text.subject.as_deref()).into_iter().fold(subject, |field, text| field.value(text));
    form.field(subject).field(multi(var, label, text).required())
}

/// Returns a field for lines of text.
fn multi(var: &str, label: &str, text: Option<&Text>) -> Field {
    Field::text_multi(var).label(label).with_values(text.into_iter().flat_map(|text| text.body.lines()))
}

/// The most administrators that can be named.
const MAX_ADMINS: usize = 100;
/// The longest delay before a restart or shutdown, in seconds.
const MAX_DELAY: u64 = 86_400;
/// The shortest delay, in milliseconds.
const LAST_WORDS_MS: u64 = 500;
