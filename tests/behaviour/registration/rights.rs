//! Rights belong to an account, not to a name: strangers can't register a name that has been given
//! rights, and a removed account leaves no rights behind.

use rookery_hub::Value;
use rookery_jid::Jid;
use rookery_operations::rights;
use rookery_testkit::client::xml;
use rookery_testkit::{Client, Config, Server};
use rookery_xml::{Element, ns};

use super::{fill_in, guest, link, outcome, show};

/// Returns a server of two domains, whose administrator is `bard`, and whose configuration gives
/// rights to other names.
fn server() -> Server {
    let list = |names: &[&str]| Value::List(names.iter().map(|name| (*name).to_owned()).collect());
    let options = vec![
        ("register", "allow_creation", Value::Switch(true)),
        ("register", "allow_plaintext", Value::Switch(true)),
        ("administration", "admins", list(&["bard@example.org"])),
        ("rooms", "admins", list(&["bill@example.org"])),
        ("pubsub", "create", list(&["news@example.org", "local"])),
        ("shared_roster", "groups", list(&["Crew: cook@example.org, mate@example.org -> Crew"])),
        ("contact", "abuse", list(&["xmpp:abuse@example.org"])),
    ];
    let domains = vec!["example.org".to_owned(), "two.example".to_owned()];
    let server = Server::with(Config { options, domains, login_seconds: 10_000_000, ..Config::default() });
    name_admin(&server, "two.example", &["helper@example.org"]);
    server
}

/// Makes these the administrators of a domain that its administrators have named.
fn name_admin(server: &Server, domain: &str, names: &[&str]) {
    let names: Vec<Jid> = names.iter().map(|name| Jid::parse(name).expect("an address")).collect();
    server.finish(rights::set_named(&server.stores(), domain, &names)).expect("kept");
}

/// Runs a command of a domain up to its form. Returns the condition of the error, or an empty text.
fn may(client: &mut Client, domain: &str, command: &str) -> String {
    let node = format!("http://jabber.org/protocol/admin#{command}");
    outcome(
        &client.ask(&format!(
            "<iq type='set' id='1' to='{domain}'><command xmlns='{}' node='{node}'/></iq>",
            ns::COMMANDS
        )),
    )
}

pub fn add_user(client: &mut Client, name: &str) -> Element {
    let ask = |more: &str, form: &str| {
        format!(
            "<iq type='set' id='1' to='example.org'><command xmlns='{}' \
             node='http://jabber.org/protocol/admin#add-user'{more}>{form}</command></iq>",
            ns::COMMANDS
        )
    };
    let first = client.ask(&ask("", ""));
    let session = first.child("command", ns::COMMANDS).and_then(|command| command.attr("sessionid"));
    let session = format!(" sessionid='{}'", session.expect("a session"));
    let field = |var: &str, value: &str| format!("<field var='{var}'><value>{value}</value></field>");
    let fields = [
        field("accountjid", &format!("{name}@example.org")),
        field("password", "long enough"),
        field("password-verify", "long enough"),
    ];
    client.ask(&ask(&session, &format!("<x xmlns='jabber:x:data' type='submit'>{}</x>", fields.concat())))
}

#[test]
fn names_with_rights_are_given_by_operators_only() {
    let server = server();
    let mut guest = guest(&server);
    for name in ["bard", "bill", "news", "helper", "cook", "mate", "abuse"] {
        assert_eq!(outcome(&fill_in(&mut guest, name, "long enough")), "conflict", "{name}");
    }
    // Names that look the same, in one script or in different scripts.
    assert_eq!(outcome(&fill_in(&mut guest, "bi1l", "long enough")), "conflict");
    assert_eq!(outcome(&fill_in(&mut guest, "p\u{430}ul", "long enough")), "not-acceptable");
    assert_eq!(outcome(&fill_in(&mut guest, "павел", "long enough")), "");
    // An invitation without a name lets a guest register, but not under such a name.
    let mut bard = server.login("bard/globe");
    let (_, token) = link(&mut bard, super::CREATE, &[]);
    let mut guest = super::guest(&server);
    show(&mut guest, &token);
    assert_eq!(outcome(&fill_in(&mut guest, "helper", "long enough")), "conflict");
    // An invitation for this very name comes from an operator.
    let (_, token) = link(&mut bard, super::CREATE, &[("username", "helper")]);
    show(&mut guest, &token);
    assert_eq!(outcome(&fill_in(&mut guest, "helper", "long enough")), "");
    // Commands come from operators, too, and mention the rights.
    assert!(xml(&add_user(&mut bard, "bill")).contains("had been given rights before"));
    assert!(!xml(&add_user(&mut bard, "will")).contains("had been given rights before"));
}

#[test]
fn who_is_removed_has_no_rights_left_at_any_domain() {
    let server = server();
    let mut helper = server.login("helper/desk");
    assert_eq!(may(&mut helper, "two.example", "get-online-users-num"), "");
    helper.send("<iq type='set' id='r' to='example.org'><query xmlns='jabber:iq:register'><remove/></query></iq>");
    helper.expect("<iq type='result' id='r' from='example.org'/>");
    let mut successor = server.login("helper/desk");
    assert_eq!(may(&mut successor, "two.example", "get-online-users-num"), "forbidden");
    // If an administrator removes the account, its rights go as well.
    name_admin(&server, "two.example", &["helper@example.org", "other@example.org"]);
    let work = rookery_operations::users::remove_without_server(
        &server.stores(),
        &["example.org".to_owned(), "two.example".to_owned()],
        Jid::parse("helper@example.org").expect("an address").as_ref(),
    );
    assert_eq!(server.finish(work), Ok(true));
    let named = server.finish(server.stores().meta.entries("admins/two.example")).expect("kept");
    assert_eq!(named, [("other@example.org".to_owned(), Vec::new())]);
}

/// The server belongs to all domains: an administrator of another domain can't stop it.
#[test]
fn administrators_of_the_default_domain_end_the_server() {
    let server = server();
    let (mut helper, mut bard) = (server.login("helper/desk"), server.login("bard/globe"));
    for command in ["shutdown", "restart"] {
        assert_eq!(may(&mut helper, "two.example", command), "forbidden");
        assert_eq!(may(&mut helper, "example.org", command), "forbidden");
        assert_eq!(may(&mut bard, "two.example", command), "");
        assert_eq!(may(&mut bard, "example.org", command), "");
    }
    let items = |client: &mut Client| {
        let query = format!("<query xmlns='http://jabber.org/protocol/disco#items' node='{}'/>", ns::COMMANDS);
        xml(&client.ask(&format!("<iq type='get' id='2' to='two.example'>{query}</iq>")))
    };
    assert!(!items(&mut helper).contains("#shutdown") && items(&mut helper).contains("#add-user"));
    assert!(items(&mut bard).contains("#shutdown"));
}
