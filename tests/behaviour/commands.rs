//! XEP-0050: Ad-Hoc Commands, from socket to socket: who sees which commands, and who may run them.
//! Stages are tested beside the code.

use rookery_hub::Value;
use rookery_testkit::{Client, Config, Server};
use rookery_xml::{Element, ns};

const ADD: &str = "http://jabber.org/protocol/admin#add-user";

fn server() -> Server {
    let admins = ("administration", "admins", Value::List(vec!["bard@example.org".into()]));
    Server::with(Config { options: vec![admins], federates: true, ..Config::default() })
}

fn items(client: &mut Client) -> Vec<String> {
    let query = format!("<query xmlns='{}' node='{}'/>", ns::DISCO_ITEMS, ns::COMMANDS);
    let answer = client.ask(&format!("<iq type='get' id='i' to='example.org'>{query}</iq>"));
    let query = answer.child("query", ns::DISCO_ITEMS).expect("items");
    assert!(query.children().all(|item| item.attr("jid") == Some("example.org") && item.attr("name").is_some()));
    query.children().filter_map(|item| item.attr("node")).map(str::to_owned).collect()
}

fn info(client: &mut Client, node: &str) -> Element {
    let query = format!("<query xmlns='{}' node='{node}'/>", ns::DISCO_INFO);
    client.ask(&format!("<iq type='get' id='i' to='example.org'>{query}</iq>"))
}

fn run(client: &mut Client, node: &str) -> Element {
    let command = format!("<command xmlns='{}' node='{node}' action='execute'/>", ns::COMMANDS);
    client.ask(&format!("<iq type='set' id='c' to='example.org'>{command}</iq>"))
}

fn is_error(answer: &Element, condition: &str) {
    let error = answer.child("error", ns::CLIENT).unwrap_or_else(|| panic!("no error: {answer:?}"));
    assert!(error.child(condition, ns::STANZA_ERRORS).is_some(), "{error:?}");
}

#[test]
fn commands_are_listed_for_those_who_may() {
    let server = server();
    let mut admin = server.login("bard/globe");
    let mut user = server.login("romeo/orchard");
    let listed = items(&mut admin);
    assert!(listed.iter().any(|node| node == ADD), "{listed:?}");
    assert!(!items(&mut user).iter().any(|node| node.contains("protocol/admin")));
    let features =
        admin.ask(&format!("<iq type='get' id='f' to='example.org'><query xmlns='{}'/></iq>", ns::DISCO_INFO));
    let query = features.child("query", ns::DISCO_INFO).expect("info");
    assert!(query.children().any(|feature| feature.attr("var") == Some(ns::COMMANDS)));
}

#[test]
fn nodes_describe_themselves() {
    let server = server();
    let mut admin = server.login("bard/globe");
    let mut user = server.login("romeo/orchard");
    admin
        .send(&format!("<iq type='get' id='i' to='example.org'><query xmlns='{}' node='{ADD}'/></iq>", ns::DISCO_INFO));
    admin.expect(&format!(
        "<iq type='result' id='i' from='example.org'><query xmlns='{}' node='{ADD}'>\
         <identity category='automation' type='command-node' name='Add a user'/>\
         <feature var='{}'/><feature var='{}'/></query></iq>",
        ns::DISCO_INFO,
        ns::COMMANDS,
        ns::DATA_FORMS
    ));
    is_error(&info(&mut user, ADD), "forbidden");
    is_error(&info(&mut admin, "nothing"), "item-not-found");
    let list = info(&mut user, ns::COMMANDS);
    let identity = list.child("query", ns::DISCO_INFO).and_then(|query| query.children().next()).expect("an identity");
    assert_eq!((identity.attr("category"), identity.attr("type")), (Some("automation"), Some("command-list")));
}

#[test]
fn only_those_who_may_run_a_command() {
    let server = server();
    let mut admin = server.login("bard/globe");
    let mut user = server.login("romeo/orchard");
    is_error(&run(&mut user, ADD), "forbidden");
    is_error(&run(&mut admin, "nothing"), "item-not-found");
    let answer = run(&mut admin, ADD);
    let command = answer.child("command", ns::COMMANDS).expect("a command");
    assert_eq!((command.attr("status"), command.attr("node")), (Some("executing"), Some(ADD)));
    // Its session is no other resource's.
    let session = command.attr("sessionid").expect("a session");
    let mut other = server.login("bard/tavern");
    let stolen = other.ask(&format!(
        "<iq type='set' id='c' to='example.org'><command xmlns='{}' node='{ADD}' sessionid='{session}' action='cancel'/></iq>",
        ns::COMMANDS
    ));
    is_error(&stolen, "bad-request");
}

#[test]
fn strangers_get_nothing_and_break_nothing() {
    let server = server();
    for payload in ["<command xmlns='NS' node='ADD'/>", "<command xmlns='NS'/>", "<other xmlns='NS' node='ADD'/>"] {
        let payload = payload.replace("NS", ns::COMMANDS).replace("ADD", ADD);
        server.incoming(&format!("<iq type='set' id='s' from='bard@other.example/x' to='example.org'>{payload}</iq>"));
        let left = server.take_left();
        assert_eq!(left.len(), 1, "{left:?}");
        let text = format!("{left:?}");
        assert!(text.contains("forbidden") || text.contains("bad-request"), "{text}");
    }
}

#[test]
fn without_its_module_a_command_is_not_there() {
    let admins = ("administration", "admins", Value::List(vec!["bard@example.org".into()]));
    let server =
        Server::with(Config { options: vec![admins], modules_off: vec!["administration"], ..Config::default() });
    let mut admin = server.login("bard/globe");
    is_error(&run(&mut admin, ADD), "item-not-found");
    let server = Server::with(Config { modules_off: vec!["commands"], ..Config::default() });
    let mut user = server.login("romeo/orchard");
    is_error(&run(&mut user, ADD), "service-unavailable");
    is_error(&info(&mut user, ns::COMMANDS), "item-not-found");
}
