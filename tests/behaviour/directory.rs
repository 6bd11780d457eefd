//! A directory of users (XEP-0055).

use rookery_hub::Value;
use rookery_testkit::{Client, Config, Server};
use rookery_xml::Element;

fn server(options: &[(&'static str, Value)]) -> Server {
    let options = options.iter().map(|(key, value)| ("directory", *key, value.clone())).collect();
    Server::with(Config { options, ..Config::default() })
}

fn card(server: &Server, name: &str, full: &str) {
    let mut client = server.online(&format!("{name}/x"));
    let set = client.ask(&format!("<iq type='set' id='v'><vCard xmlns='vcard-temp'><FN>{full}</FN></vCard></iq>"));
    assert_eq!(set.attr("type"), Some("result"), "{set:?}");
    client.close();
}

fn search(client: &mut Client, words: &str) -> Element {
    client.ask(&format!(
        "<iq type='set' id='s' to='search.example.org'><query xmlns='jabber:iq:search'><x xmlns='jabber:x:data' type='submit'>\
         <field var='FORM_TYPE'><value>jabber:iq:search</value></field><field var='search'><value>{words}</value></field>\
         </x></query></iq>"
    ))
}

/// Returns the addresses in a result, in either of its forms.
fn found_addresses(answer: &Element) -> Vec<String> {
    let query = answer.child("query", "jabber:iq:search").unwrap_or_else(|| panic!("{answer:?}"));
    let by_form = |form: &Element| {
        let items = form.children().filter(|child| child.name() == "item");
        let jid = |item: &Element| {
            item.children().find(|field| field.attr("var") == Some("jid"))?.child_text("value", "jabber:x:data")
        };
        items.filter_map(jid).collect()
    };
    match query.child("x", "jabber:x:data") {
        Some(form) => by_form(form),
        None => query.children().filter_map(|item| item.attr("jid").map(str::to_owned)).collect(),
    }
}

#[test]
fn users_are_found_by_name_and_address() {
    let server = server(&[("results", Value::Number(50))]);
    card(&server, "jcap", "Juliet Capulet");
    card(&server, "tcap", "Tybalt Capulet");
    let mut romeo = server.online("romeo/orchard");
    let form = romeo.ask("<iq type='get' id='f' to='search.example.org'><query xmlns='jabber:iq:search'/></iq>");
    let query = form.child("query", "jabber:iq:search").unwrap_or_else(|| panic!("no query: {form:?}"));
    assert!(query.child("x", "jabber:x:data").is_some(), "{form:?}");
    assert_eq!(found_addresses(&search(&mut romeo, "capulet")), ["jcap@example.org", "tcap@example.org"]);
    assert_eq!(found_addresses(&search(&mut romeo, "CAPULET jul")), ["jcap@example.org"]);
    assert_eq!(found_addresses(&search(&mut romeo, "rome")), ["romeo@example.org"]);
    assert_eq!(found_addresses(&search(&mut romeo, "nobody")), [""; 0]);
    let plain = "<iq type='set' id='o' to='search.example.org'><query xmlns='jabber:iq:search'><last>capulet</last></query></iq>";
    assert_eq!(found_addresses(&romeo.ask(plain)).len(), 2);
    assert_eq!(search(&mut romeo, "a").attr("type"), Some("error"), "everybody has an a");
}

#[test]
fn a_search_is_bounded() {
    let server = server(&[("search_accounts", Value::Number(60)), ("results", Value::Number(3))]);
    for number in 0..70 {
        server.account(&format!("user{number:02}"));
    }
    let mut romeo = server.online("user69/x");
    assert_eq!(found_addresses(&search(&mut romeo, "user")).len(), 3);
    assert_eq!(found_addresses(&search(&mut romeo, "user59")), ["user59@example.org"]);
    assert_eq!(found_addresses(&search(&mut romeo, "user60")), [""; 0], "behind those that are looked at");
}

#[test]
fn a_directory_is_only_where_the_operator_wants_one() {
    let server = Server::with(Config { modules_off: vec!["directory"], ..Config::default() });
    let mut romeo = server.online("romeo/orchard");
    assert_eq!(search(&mut romeo, "romeo").attr("type"), Some("error"));
}
