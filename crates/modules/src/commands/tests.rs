//! Stages, as in the examples of XEP-0050 §3.3: a service is chosen, then configured.

use std::sync::Arc;

use rookery_fanout::Link;
use rookery_hub::{Domain, LoginBy, Options, Place, Registry, Settings, Wakeups, World};
use rookery_jid::Jid;
use rookery_modkit::form::{Field, Form};
use rookery_operations::rights::Rights;
use rookery_sasl::Credentials;
use rookery_store::memory::Memory;
use rookery_store::{Background, wait};
use rookery_xml::{Element, Limits, Stanza, ns};

use super::*;

pub(super) const COMMANDS: &[AdHocCommand] = &[AdHocCommand {
    node: "config",
    name: "Configure Service",
    module: NAME,
    may: Rights::Account,
    switch: None,
    stages: &[
        |world, order| order.ask(world, Form::new("form").field(Field::list_single("service").required())),
        |world, order| order.ask(world, Form::new("form").field(Field::list_single("state").required())),
    ],
    run: |world, order| match order.value("state") {
        Some("odd") => order.fail(world, "no such state"),
        state => {
            let text = format!("{} is {}", order.value("service").unwrap_or("?"), state.unwrap_or("?"));
            order.succeed(world, &text);
        }
    },
}];

#[test]
fn every_node_names_one_command() {
    for command in table() {
        assert_eq!(table().filter(|other| other.node == command.node).count(), 1, "{}", command.node);
        assert!(!command.name.is_empty(), "{}", command.node);
    }
}

/// A user who runs commands.
struct CommandStage {
    world: World,
    link: Link,
}

impl CommandStage {
    fn new() -> Self {
        let modules: Vec<Box<dyn Module>> = vec![Box::new(Commands)];
        let on = modules.iter().map(|module| (module.name(), Options::defaults(module.options()))).collect();
        let settings = Settings {
            domains: vec![Domain { name: "x".into(), modules: on, login: LoginBy::Own }],
            ..Settings::default()
        };
        let stores = Memory::stores();
        let account = Jid::parse("romeo@x").unwrap();
        let credentials = Credentials::derive_with("p", 1, [[0; 16]; 3]).unwrap();
        wait(stores.accounts.create(account.as_ref(), credentials)).unwrap();
        let place = Place::alone(0, 1, [1, 2, 3, 4]);
        let (registry, wakeups) = (Registry::new(modules), Wakeups::new(|| {}));
        let mut world = World::new(place, Arc::new(settings), registry, stores, Background::in_place(), wakeups);
        world.bind(Link(0), &account, Some("r"));
        while world.run_tasks() {}
        Self { world, link: Link(0) }
    }

    /// Runs an action with the form of one field, and returns the reply.
    fn act(&mut self, session: &str, action: &str, field: Option<(&str, &str)>) -> Element {
        let form = field.map(|(var, value)| {
            format!("<x xmlns='jabber:x:data' type='submit'><field var='{var}'><value>{value}</value></field></x>")
        });
        let session = if session.is_empty() { String::new() } else { format!(" sessionid='{session}'") };
        let action = if action.is_empty() { String::new() } else { format!(" action='{action}'") };
        let iq = format!(
            "<iq type='set' id='1' to='x'><command xmlns='{}' node='config'{session}{action}>{}</command></iq>",
            ns::COMMANDS,
            form.unwrap_or_default()
        );
        let _ = self.world.stanza(self.link, Stanza::parse(iq.as_bytes(), &Limits::AFTER_LOGIN).unwrap());
        while self.world.run_tasks() {}
        let mut out = Vec::new();
        self.world.outboxes.render(self.link, usize::MAX, &mut out);
        self.world.outboxes.remove_sent(self.link, out.len());
        Element::parse(&out).unwrap()
    }

    fn start(&mut self) -> String {
        command(&self.act("", "", None)).attr("sessionid").unwrap().to_owned()
    }
}

fn command(answer: &Element) -> &Element {
    answer.child("command", ns::COMMANDS).unwrap_or_else(|| panic!("{answer:?}"))
}

/// Returns its status, the meaning of `execute`, the actions, and the field or note.
fn summary(answer: &Element) -> String {
    let command = command(answer);
    let mut words = vec![command.attr("status").unwrap_or("?").to_owned()];
    if let Some(actions) = command.child("actions", ns::COMMANDS) {
        words.push(actions.attr("execute").unwrap_or("?").to_owned());
        words.push(actions.children().map(Element::name).collect::<Vec<_>>().join("+"));
    }
    let field = command.child("x", ns::DATA_FORMS).and_then(|x| x.children().next());
    words.extend(field.and_then(|field| field.attr("var")).map(str::to_owned));
    words.extend(command.child("note", ns::COMMANDS).map(Element::text));
    words.join(" ")
}

/// Returns the general and the specific condition of an error.
fn error(answer: &Element) -> String {
    let error = answer.child("error", ns::CLIENT).unwrap_or_else(|| panic!("{answer:?}"));
    let names: Vec<_> = error.children().map(Element::name).filter(|name| *name != "text").collect();
    format!("{} {}", error.attr("type").unwrap(), names.join(" "))
}

#[test]
fn stages_go_forward_and_back() {
    let mut stage = CommandStage::new();
    let id = stage.start();
    assert_eq!(summary(&stage.act(&id, "next", Some(("service", "httpd")))), "executing complete prev+complete state");
    assert_eq!(summary(&stage.act(&id, "prev", None)), "executing next next service");
    assert_eq!(
        summary(&stage.act(&id, "execute", Some(("service", "jabberd")))),
        "executing complete prev+complete state"
    );
    assert_eq!(summary(&stage.act(&id, "complete", Some(("state", "on")))), "completed jabberd is on");
    assert_eq!(error(&stage.act(&id, "", Some(("state", "on")))), "cancel not-allowed session-expired");
}

#[test]
fn actions_must_fit_the_stage() {
    let mut stage = CommandStage::new();
    let id = stage.start();
    for action in ["prev", "complete"] {
        assert_eq!(error(&stage.act(&id, action, Some(("service", "a")))), "modify bad-request bad-action", "{action}");
    }
    assert_eq!(error(&stage.act(&id, "explode", None)), "modify bad-request malformed-action");
    stage.act(&id, "next", Some(("service", "a")));
    assert_eq!(error(&stage.act(&id, "next", Some(("state", "on")))), "modify bad-request bad-action");
    for action in ["next", "complete", "prev", "cancel"] {
        assert_eq!(error(&stage.act("", action, None)), "modify bad-request bad-action", "{action}");
    }
    assert_eq!(summary(&stage.act(&id, "cancel", None)), "canceled");
    assert_eq!(error(&stage.act(&id, "cancel", None)), "cancel not-allowed session-expired");
    assert_eq!(error(&stage.act("other", "", None)), "modify bad-request bad-sessionid");
}

#[test]
fn a_bad_form_can_be_sent_again() {
    let mut stage = CommandStage::new();
    let id = stage.start();
    for form in [None, Some(("service", "")), Some(("other", "a"))] {
        assert_eq!(error(&stage.act(&id, "next", form)), "modify bad-request bad-payload", "{form:?}");
    }
    stage.act(&id, "next", Some(("service", "a")));
    assert_eq!(error(&stage.act(&id, "", None)), "modify bad-request bad-payload");
    assert_eq!(summary(&stage.act(&id, "", Some(("state", "even")))), "completed a is even");
}

/// XEP-0050 §3.6: a valid form with an invalid value ends the command with a note.
#[test]
fn a_wrong_value_ends_the_command() {
    let mut stage = CommandStage::new();
    let id = stage.start();
    stage.act(&id, "next", Some(("service", "a")));
    let answer = stage.act(&id, "", Some(("state", "odd")));
    assert_eq!(summary(&answer), "completed no such state");
    let note = command(&answer).child("note", ns::COMMANDS).expect("a note");
    assert_eq!(note.attr("type"), Some("error"));
    assert_eq!(error(&stage.act(&id, "", Some(("state", "even")))), "cancel not-allowed session-expired");
}

#[test]
fn sessions_expire() {
    let mut stage = CommandStage::new();
    let id = stage.start();
    stage.world.set_time(0, session::MAX_AGE_MS);
    assert_eq!(error(&stage.act(&id, "next", Some(("service", "a")))), "cancel not-allowed session-expired");
}
