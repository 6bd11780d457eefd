//! In-band registration with forms and tokens: XEP-0077, XEP-0401, XEP-0445. Limits of rates and
//! plain elements are tested with the module.

mod passwords;
mod rights;

use rookery_hub::Value;
use rookery_sasl::Mechanism;
use rookery_testkit::{Client, Config, Server};
use rookery_xml::{Element, ns};

/// Returns a server where registering needs a token; `bard` is an administrator.
fn closed_server() -> Server {
    server(false)
}

fn server(allow_creation: bool) -> Server {
    let options = vec![
        ("register", "allow_plaintext", Value::Switch(true)),
        ("register", "allow_creation", Value::Switch(allow_creation)),
        ("register", "users_invite", Value::Switch(true)),
        ("register", "invitation_days", Value::Number(1)),
        ("administration", "admins", Value::List(vec!["bard@example.org".into()])),
    ];
    Server::with(Config { options, login_seconds: 10_000_000, ..Config::default() })
}

fn guest(server: &Server) -> Client {
    let mut guest = server.connect();
    guest.open("example.org");
    guest
}

fn fill_in(guest: &mut Client, username: &str, password: &str) -> Element {
    guest.ask(&format!(
        "<iq type='set' id='r'><query xmlns='jabber:iq:register'><x xmlns='jabber:x:data' type='submit'>\
         <field var='FORM_TYPE'><value>jabber:iq:register</value></field>\
         <field var='username'><value>{username}</value></field>\
         <field var='password'><value>{password}</value></field></x></query></iq>"
    ))
}

fn show(guest: &mut Client, token: &str) -> Element {
    guest
        .ask(&format!("<iq type='set' id='p' to='example.org'><preauth xmlns='urn:xmpp:pars:0' token='{token}'/></iq>"))
}

/// Returns the condition of an error, or an empty text for a result.
fn outcome(answer: &Element) -> String {
    match answer.child("error", ns::CLIENT) {
        Some(error) => error.children().next().map(Element::name).unwrap_or_default().to_owned(),
        None => {
            assert_eq!(answer.attr("type"), Some("result"), "{answer:?}");
            String::new()
        }
    }
}

/// Runs a command with a form. Returns the link and its token.
fn link(client: &mut Client, node: &str, fields: &[(&str, &str)]) -> (String, String) {
    let mut answer = client
        .ask(&format!("<iq type='set' id='c' to='example.org'><command xmlns='{}' node='{node}'/></iq>", ns::COMMANDS));
    let command = answer.child("command", ns::COMMANDS).unwrap_or_else(|| panic!("{answer:?}"));
    if command.attr("status") == Some("executing") {
        let session = command.attr("sessionid").expect("a session");
        let fields = fields.iter().map(|(var, value)| format!("<field var='{var}'><value>{value}</value></field>"));
        let form = format!("<x xmlns='jabber:x:data' type='submit'>{}</x>", fields.collect::<String>());
        answer = client.ask(&format!(
            "<iq type='set' id='c' to='example.org'>\
             <command xmlns='{}' node='{node}' sessionid='{session}'>{form}</command></iq>",
            ns::COMMANDS
        ));
    }
    let command = answer.child("command", ns::COMMANDS).unwrap_or_else(|| panic!("{answer:?}"));
    let x = command.child("x", ns::DATA_FORMS).expect("a form");
    let uri = x.children().find(|field| field.attr("var") == Some("uri")).expect("a link");
    let uri = uri.child_text("value", ns::DATA_FORMS).expect("a link");
    let token = uri.split("preauth=").nth(1).and_then(|rest| rest.split(';').next()).expect("a token").to_owned();
    (uri, token)
}

fn can_log_in(server: &Server, name: &str, password: &str) -> bool {
    guest(server).authenticate(name, password, Mechanism::ScramSha256).is_ok()
}

const DAY_MS: u64 = 86_400_000;
const CREATE: &str = "urn:xmpp:invite#create-account";
const INVITE: &str = "urn:xmpp:invite#invite";

#[test]
fn a_form_is_offered_and_taken() {
    let server = server(true);
    let mut guest = guest(&server);
    let answer = guest.ask("<iq type='get' id='g'><query xmlns='jabber:iq:register'/></iq>");
    let query = answer.child("query", ns::REGISTER).expect("a query");
    let vars: Vec<_> =
        query.child("x", ns::DATA_FORMS).expect("a form").children().filter_map(|field| field.attr("var")).collect();
    assert_eq!(vars, ["FORM_TYPE", "username", "password"]);
    assert!(query.child("username", ns::REGISTER).is_some(), "older clients know no forms");
    assert_eq!(outcome(&fill_in(&mut guest, "juliet", "")), "not-acceptable");
    let cancelled =
        "<iq type='set' id='r'><query xmlns='jabber:iq:register'><x xmlns='jabber:x:data' type='cancel'/></query></iq>";
    assert_eq!(outcome(&guest.ask(cancelled)), "bad-request");
    assert_eq!(outcome(&fill_in(&mut guest, "juliet", "long enough")), "");
    assert!(can_log_in(&server, "juliet", "long enough"));
}

#[test]
fn without_a_token_closed_is_closed() {
    let server = closed_server();
    let mut guest = guest(&server);
    let features = guest.features.clone().expect("features");
    assert!(features.child("register", ns::TOKEN_REGISTRATION).is_some());
    assert!(features.child("register", ns::REGISTER_FEATURE).is_none());
    assert_eq!(outcome(&fill_in(&mut guest, "juliet", "long enough")), "service-unavailable");
    assert_eq!(outcome(&show(&mut guest, "invented")), "item-not-found");
    assert_eq!(outcome(&show(&mut guest, "&apos; OR 1=1 --")), "item-not-found");
    assert_eq!(outcome(&guest.ask("<iq type='set' id='p'><preauth xmlns='urn:xmpp:pars:0'/></iq>")), "bad-request");
    assert_eq!(outcome(&fill_in(&mut guest, "juliet", "long enough")), "service-unavailable");
}

#[test]
fn who_comes_by_a_users_link_is_a_contact() {
    for shard in [0, 1] {
        let server = closed_server();
        let mut romeo = server.online("romeo/orchard");
        romeo.ask("<iq type='get' id='roster'><query xmlns='jabber:iq:roster'/></iq>");
        let (uri, token) = link(&mut romeo, INVITE, &[]);
        assert_eq!(uri, format!("xmpp:romeo@example.org?roster;preauth={token};ibr=y"));
        let name = server.name_at("juliet", shard);
        let mut guest = guest(&server);
        assert_eq!(outcome(&show(&mut guest, &token)), "");
        assert_eq!(outcome(&fill_in(&mut guest, &name, "r0m30myr0m30")), "");
        romeo.expect(&format!(
            "<iq type='set' id='*'><query xmlns='jabber:iq:roster' ver='*'>\
             <item jid='{name}@example.org' subscription='both'/></query></iq>"
        ));
        let mut juliet = server.online(&format!("{name}/balcony"));
        romeo.expect(&format!("<presence from='{name}@example.org/balcony'/>"));
        juliet.expect("<presence from='romeo@example.org/orchard'/>");
    }
}

#[test]
fn a_link_has_a_page_where_browsers_find_one() {
    let server = closed_server();
    server.reload(|config| config.settings.told.pages = Some("https://@:5443".to_owned()));
    let mut romeo = server.login("romeo/orchard");
    let node = INVITE;
    let answer = romeo
        .ask(&format!("<iq type='set' id='c' to='example.org'><command xmlns='{}' node='{node}'/></iq>", ns::COMMANDS));
    let form = answer.child("command", ns::COMMANDS).and_then(|command| command.child("x", ns::DATA_FORMS));
    let value = |var: &str| {
        let field = form.expect("a form").children().find(|field| field.attr("var") == Some(var)).expect(var);
        field.child_text("value", ns::DATA_FORMS).expect("a value")
    };
    let token = value("uri").split("preauth=").nth(1).and_then(|rest| rest.split(';').next()).map(str::to_owned);
    assert_eq!(value("landing-url"), format!("https://example.org:5443/invite/{}", token.expect("a token")));
}

#[test]
fn a_token_is_good_for_one_registration() {
    let server = closed_server();
    let mut bard = server.login("bard/globe");
    let (uri, token) = link(&mut bard, CREATE, &[]);
    assert_eq!(uri, format!("xmpp:example.org?register;preauth={token}"));
    let (mut one, mut other) = (guest(&server), guest(&server));
    assert_eq!((outcome(&show(&mut one, &token)), outcome(&show(&mut other, &token))), (String::new(), String::new()));
    // An attempt that fails doesn't use the token up.
    assert_eq!(outcome(&fill_in(&mut one, "bard", "long enough")), "conflict");
    assert_eq!(outcome(&fill_in(&mut one, "a", "short")), "not-acceptable");
    // The token may expire once it has been shown.
    server.advance(DAY_MS + 1);
    assert_eq!(outcome(&fill_in(&mut one, "a", "long enough")), "");
    let refused = outcome(&fill_in(&mut other, "b", "long enough"));
    assert!(["service-unavailable", "item-not-found"].contains(&refused.as_str()), "{refused}");
}

#[test]
fn tokens_are_used_up_and_expire() {
    let server = closed_server();
    let mut bard = server.login("bard/globe");
    let (_, token) = link(&mut bard, CREATE, &[]);
    let (mut one, mut other) = (guest(&server), guest(&server));
    show(&mut one, &token);
    show(&mut other, &token);
    assert_eq!(outcome(&fill_in(&mut one, "a", "long enough")), "");
    let refused = outcome(&fill_in(&mut other, "b", "long enough"));
    assert!(["service-unavailable", "item-not-found"].contains(&refused.as_str()), "{refused}");
    assert_eq!(outcome(&show(&mut other, &token)), "item-not-found");
    let (_, token) = link(&mut bard, CREATE, &[]);
    server.advance(DAY_MS + 1);
    assert_eq!(outcome(&show(&mut guest(&server), &token)), "item-not-found");
}

#[test]
fn a_name_is_kept_for_whom_it_is_for() {
    let server = server(true);
    let mut bard = server.login("bard/globe");
    let (uri, token) = link(&mut bard, CREATE, &[("username", "Juliet")]);
    assert_eq!(uri, format!("xmpp:juliet@example.org?register;preauth={token}"));
    assert_eq!(outcome(&fill_in(&mut guest(&server), "juliet", "long enough")), "conflict");
    let mut invited = guest(&server);
    show(&mut invited, &token);
    assert_eq!(outcome(&fill_in(&mut invited, "romeo", "long enough")), "not-acceptable");
    assert_eq!(outcome(&fill_in(&mut invited, "juliet", "long enough")), "");
    assert!(can_log_in(&server, "juliet", "long enough"));
}

#[test]
fn a_link_sets_a_password() {
    let server = closed_server();
    server.account("romeo");
    let mut bard = server.login("bard/globe");
    let (uri, token) = link(&mut bard, "urn:rookery:register#reset-password", &[("accountjid", "romeo@example.org")]);
    assert_eq!(uri, format!("xmpp:romeo@example.org?register;preauth={token}"));
    let mut guest = guest(&server);
    show(&mut guest, &token);
    assert_eq!(outcome(&fill_in(&mut guest, "bard", "long enough")), "not-acceptable");
    assert_eq!(outcome(&fill_in(&mut guest, "romeo", "long enough")), "");
    assert!(can_log_in(&server, "romeo", "long enough"));
    assert_eq!(outcome(&fill_in(&mut guest, "romeo", "another one")), "service-unavailable");
}

#[test]
fn only_those_who_may_make_links_are_offered_the_commands() {
    let server = closed_server();
    let mut romeo = server.login("romeo/orchard");
    let ask = |client: &mut Client, node: &str| {
        let iq =
            format!("<iq type='set' id='c' to='example.org'><command xmlns='{}' node='{node}'/></iq>", ns::COMMANDS);
        client.ask(&iq)
    };
    let nodes = |client: &mut Client| {
        let iq = format!(
            "<iq type='get' id='l' to='example.org'><query xmlns='{}' node='{}'/></iq>",
            ns::DISCO_ITEMS,
            ns::COMMANDS
        );
        let listed = client.ask(&iq);
        let items = listed.child("query", ns::DISCO_ITEMS).expect("a list").children().collect::<Vec<_>>();
        [INVITE, CREATE].map(|node| items.iter().any(|item| item.attr("node") == Some(node)))
    };
    assert_eq!(outcome(&ask(&mut romeo, CREATE)), "forbidden");
    assert_eq!((outcome(&ask(&mut romeo, INVITE)), nodes(&mut romeo)), (String::new(), [true, false]));
    server.reload(|config| config.options.push(("register", "users_invite", Value::Switch(false))));
    assert_eq!((outcome(&ask(&mut romeo, INVITE)), nodes(&mut romeo)), ("forbidden".to_owned(), [false, false]));
    let mut bard = server.login("bard/globe");
    assert_eq!((outcome(&ask(&mut bard, INVITE)), nodes(&mut bard)), (String::new(), [true, true]));
}

/// A user who registers without an invitation waits for an operator, who finds the account among
/// the reports. With an invitation, users can log in at once.
#[test]
fn accounts_may_wait_for_approval() {
    let options = vec![
        ("register", "allow_creation", Value::Switch(true)),
        ("register", "allow_plaintext", Value::Switch(true)),
        ("register", "approve", Value::Switch(true)),
        ("administration", "admins", Value::List(vec!["bard@example.org".into()])),
    ];
    let server = Server::with(Config { options, login_seconds: 10_000_000, ..Config::default() });
    assert_eq!(outcome(&fill_in(&mut guest(&server), "tybalt", "a long secret")), "");
    assert!(!can_log_in(&server, "tybalt", "a long secret"), "nobody has let it in");
    let waiting = server.finish(rookery_operations::reports::list(&server.stores(), "example.org")).expect("the list");
    let [waiting] = &waiting[..] else { panic!("one waits: {waiting:?}") };
    assert_eq!((waiting.about.as_str(), &*waiting.reason), ("tybalt@example.org", "approval"));
    server.finish(server.stores().accounts.set_disabled(waiting.about.as_ref(), false)).expect("let in");
    assert!(can_log_in(&server, "tybalt", "a long secret"));
    let mut bard = server.online("bard/desk");
    let (_, token) = link(&mut bard, CREATE, &[]);
    let mut invited = guest(&server);
    show(&mut invited, &token);
    assert_eq!(outcome(&fill_in(&mut invited, "juliet", "a long secret")), "");
    assert!(can_log_in(&server, "juliet", "a long secret"));
}
