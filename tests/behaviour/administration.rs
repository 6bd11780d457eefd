//! XEP-0133: Service Administration. The administrator's home is one shard; the homes of the
//! accounts that it administers are on both.

mod accounts;
mod border;
mod inquiries;
mod service;

use rookery_hub::Value;
use rookery_testkit::{Client, Config, Server};
use rookery_xml::{Element, ns};

/// A server with an administrator, and one account on each shard.
struct AdministrationScene {
    server: Server,
    admin: Client,
    /// Local parts, whose homes are shard 0 and 1.
    names: [String; 2],
}

impl AdministrationScene {
    fn new() -> Self {
        Self::with(Config::default())
    }

    fn with(mut config: Config) -> Self {
        config.options.push(("administration", "admins", Value::List(vec!["bard@example.org".into()])));
        let server = Server::with(config);
        let names = [0, 1].map(|shard| server.name_at("user", shard));
        names.iter().for_each(|name| drop(server.account(name)));
        let admin = server.login("bard/globe");
        Self { server, admin, names }
    }

    fn jid(&self, at: usize) -> String {
        format!("{}@example.org", self.names[at])
    }

    /// Runs a command, completes its form if it has one, and returns the last reply.
    fn run(&mut self, command: &str, fields: &[(&str, &[&str])]) -> Element {
        run(&mut self.admin, command, fields)
    }

    /// Executes a command that succeeds, and returns what it says.
    fn succeed(&mut self, command: &str, fields: &[(&str, &[&str])]) -> Element {
        let answer = self.run(command, fields);
        let found = expect_completed(&answer).clone();
        assert!(!found.children().any(|note| note.attr("type") == Some("error")), "{found:?}");
        found
    }
}

fn run(client: &mut Client, command: &str, fields: &[(&str, &[&str])]) -> Element {
    let first = client.ask(&execute(command));
    let Some(found) = first.child("command", ns::COMMANDS).filter(|found| found.attr("status") == Some("executing"))
    else {
        return first;
    };
    client.ask(&complete(found, fields))
}

/// Returns the request to execute a command.
fn execute(command: &str) -> String {
    let node = format!("http://jabber.org/protocol/admin#{command}");
    format!("<iq type='set' id='1' to='example.org'><command xmlns='{}' node='{node}'/></iq>", ns::COMMANDS)
}

/// Returns the request to complete a command that has asked for these fields.
fn complete(asked: &Element, fields: &[(&str, &[&str])]) -> String {
    let attr = |name| asked.attr(name).unwrap_or_else(|| panic!("no {name}: {asked:?}"));
    let (node, session) = (attr("node"), attr("sessionid"));
    let fields = fields.iter().map(|(var, values)| {
        let values: String = values.iter().map(|value| format!("<value>{value}</value>")).collect();
        format!("<field var='{var}'>{values}</field>")
    });
    let form = format!("<x xmlns='jabber:x:data' type='submit'>{}</x>", fields.collect::<String>());
    format!(
        "<iq type='set' id='2' to='example.org'>\
         <command xmlns='{}' node='{node}' sessionid='{session}' action='complete'>{form}</command></iq>",
        ns::COMMANDS
    )
}

fn expect_completed(answer: &Element) -> &Element {
    let found = answer.child("command", ns::COMMANDS).unwrap_or_else(|| panic!("no command: {answer:?}"));
    assert_eq!(found.attr("status"), Some("completed"), "{found:?}");
    found
}

/// Returns the values of a field of a result.
fn values(command: &Element, var: &str) -> Vec<String> {
    let x = command.child("x", ns::DATA_FORMS).unwrap_or_else(|| panic!("no form: {command:?}"));
    let field = x.children().find(|field| field.attr("var") == Some(var)).unwrap_or_else(|| panic!("no {var}: {x:?}"));
    field.children().map(Element::text).collect()
}

/// Returns the error in the note of a completed command.
fn error_note(answer: &Element) -> String {
    let note = expect_completed(answer).child("note", ns::COMMANDS).unwrap_or_else(|| panic!("no note: {answer:?}"));
    assert_eq!(note.attr("type"), Some("error"), "{note:?}");
    note.text()
}

fn condition(answer: &Element) -> String {
    let error = answer.child("error", ns::CLIENT).unwrap_or_else(|| panic!("no error: {answer:?}"));
    error.children().filter(|child| child.name() != "text").map(Element::name).collect::<Vec<_>>().join(" ")
}
