//! Contacts, affiliations, archives, vCards, files and links by the API, while clients are there.

use std::io::Write;

use serde_json::{Value, json};

use super::control::{log_in, read_until};
use super::logins::with;
use super::rig::CliRig;
use super::uploads::{http, slot};

/// Sends a request to the API, and returns status and content.
fn api(said: &str, token: &str, method: &str, path: &str, body: Option<Value>) -> (u16, Value) {
    let body = body.map(|body| body.to_string()).unwrap_or_default();
    let head =
        format!("{method} /api/v1{path} HTTP/1.1\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json");
    let answer = http(said, &head, body.as_bytes());
    let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or_else(|| panic!("{answer}"));
    let (_, body) = answer.split_once("\r\n\r\n").unwrap_or_default();
    (status, serde_json::from_str(body).unwrap_or_default())
}

fn rig(scopes: &[&str]) -> (CliRig, String) {
    let rig = CliRig::new();
    rig.write("rookery.toml", &with(""));
    for name in ["alice", "bob"] {
        rig.run_with(
            &["user", "add", &format!("{name}@localhost"), "--password-stdin", "--allow-short"],
            "secret-secret\n",
        )
        .fine();
    }
    let mut arguments = vec!["token", "add", "test"];
    arguments.extend(scopes.iter().flat_map(|scope| ["--scope", scope]));
    let token = rig.run(&arguments).fine().trim().to_owned();
    (rig, token)
}

#[test]
fn contacts_are_changed_and_clients_hear_of_it() {
    let (rig, token) = rig(&["users:read", "users:write"]);
    let (server, said) = rig.serve();
    let mut alice = log_in(&said, "alice", "secret-secret", "phone");
    alice.get_mut().write_all(b"<iq type='get' id='r'><query xmlns='jabber:iq:roster'/></iq>").expect("written");
    read_until(&mut alice, "</iq>");
    let ask = |method: &str, path: &str, body: Option<Value>| api(&said, &token, method, path, body);
    let bob = json!({"name": "Bob", "groups": ["Friends", "Team"], "mutual": true});
    assert_eq!(ask("PUT", "/users/alice@localhost/contacts/bob@localhost", Some(bob)).0, 204);
    let pushed = read_until(&mut alice, "</iq>");
    assert!(pushed.contains("jid='bob@localhost'") && pushed.contains("Friends"), "{pushed}");
    assert!(read_until(&mut alice, "</iq>").contains("subscription='both'"));
    let listed = |of: &str| ask("GET", &format!("/users/{of}@localhost/contacts"), None).1["items"].clone();
    let item = |jid: &str, name: Value, groups: Value| json!([{"jid": jid, "name": name, "groups": groups, "subscription": "both", "asked": false}]);
    assert_eq!(listed("alice"), item("bob@localhost", "Bob".into(), json!(["Friends", "Team"])));
    assert_eq!(listed("bob"), item("alice@localhost", Value::Null, json!([])));
    assert_eq!(ask("DELETE", "/users/alice@localhost/contacts/bob@localhost", None).0, 204);
    assert!(read_until(&mut alice, "</iq>").contains("subscription='remove'"));
    assert_eq!(ask("DELETE", "/users/alice@localhost/contacts/bob@localhost", None).0, 404);
    assert_eq!(ask("GET", "/users/nobody@localhost/contacts", None).0, 404);
    let stranger = json!({"mutual": true});
    assert_eq!(ask("PUT", "/users/alice@localhost/contacts/x@elsewhere.example", Some(stranger)).0, 404);
    assert_eq!(ask("PUT", "/users/alice@localhost/contacts/alice@localhost", Some(json!({}))).0, 422);
    assert_eq!(server.stop(), 0);
}

#[test]
fn programs_give_no_short_passwords() {
    let (rig, token) = rig(&["users:write"]);
    let (server, said) = rig.serve();
    let short = || Some(json!({"name": "carol", "password": "x"}));
    let (status, problem) = api(&said, &token, "POST", "/domains/localhost/users", short());
    assert_eq!(status, 422);
    assert!(problem["detail"].as_str().is_some_and(|detail| detail.contains("min_password")), "{problem}");
    assert_eq!(api(&said, &token, "PATCH", "/users/alice@localhost", Some(json!({"password": "x"}))).0, 422);
    assert_eq!(server.stop(), 0);
}

#[test]
fn affiliations_are_listed_and_changed() {
    let (rig, token) = rig(&["rooms:read", "rooms:write"]);
    let (server, said) = rig.serve();
    let ask = |method: &str, path: &str, body: Option<Value>| api(&said, &token, method, path, body);
    let room = json!({"room": "garden", "owner": "alice@localhost"});
    assert_eq!(ask("POST", "/domains/localhost/rooms", Some(room)).0, 201);
    let path = "/rooms/garden@conference.localhost/affiliations";
    let set = |user: &str, affiliation: &str| {
        ask("PUT", &format!("{path}/{user}"), Some(json!({"affiliation": affiliation, "reason": "so"}))).0
    };
    assert_eq!((set("bob@localhost", "member"), set("x@elsewhere.example", "outcast")), (204, 204));
    assert_eq!(set("alice@localhost", "member"), 422, "nobody would own it");
    assert_eq!(set("bob@localhost", "king"), 400);
    let (_, first) = ask("GET", &format!("{path}?limit=2"), None);
    let names: Vec<_> = first["items"].as_array().expect("a list").iter().map(|item| &item["affiliation"]).collect();
    assert_eq!((names, &first["next"]), (vec![&json!("owner"), &json!("member")], &json!("bob@localhost")));
    let (_, second) = ask("GET", &format!("{path}?after=bob@localhost"), None);
    assert_eq!(second["items"], json!([{"jid": "x@elsewhere.example", "affiliation": "outcast", "reason": "so"}]));
    assert_eq!(set("bob@localhost", "none"), 204);
    assert_eq!(ask("GET", path, None).1["items"].as_array().map(Vec::len), Some(2));
    assert_eq!(ask("GET", "/rooms/nowhere@conference.localhost/affiliations", None).0, 404);
    assert_eq!(server.stop(), 0);
}

#[test]
fn archives_are_read_in_parts() {
    let (rig, token) = rig(&["users:export"]);
    let (server, said) = rig.serve();
    let mut alice = log_in(&said, "alice", "secret-secret", "phone");
    for body in ["one", "two", "three"] {
        let message = format!("<message to='bob@localhost' type='chat'><body>{body}</body></message>");
        alice.get_mut().write_all(message.as_bytes()).expect("written");
    }
    alice.get_mut().write_all(b"<iq type='get' id='p'><ping xmlns='urn:xmpp:ping'/></iq>").expect("written");
    read_until(&mut alice, "id='p'");
    let ask = |query: &str| api(&said, &token, "GET", &format!("/users/bob@localhost/archive{query}"), None);
    // Messages are archived some time later.
    let mut asked = (0..200).map(|_| {
        std::thread::sleep(std::time::Duration::from_millis(50));
        ask("").1
    });
    let all = asked.find(|all| all["items"].as_array().is_some_and(|items| items.len() == 3));
    assert_eq!(all.expect("three messages")["next"], Value::Null);
    let (_, first) = ask("?limit=2&with=alice@localhost");
    let next = first["next"].as_str().expect("there are more").to_owned();
    let (_, rest) = ask(&format!("?after={next}"));
    assert_eq!(rest["items"].as_array().map(Vec::len), Some(1));
    assert!(rest["items"][0]["stanza"].as_str().is_some_and(|stanza| stanza.contains("three")), "{rest}");
    let id = rest["items"][0]["id"].as_str().expect("an id");
    assert_eq!(ask(&format!("/{id}")), (200, rest["items"][0].clone()));
    assert_eq!((ask("/nonsense").0, ask("/0000000000001").0), (404, 404));
    assert_eq!(ask("?after=nonsense").0, 422);
    assert_eq!(api(&said, &token, "GET", "/users/nobody@localhost/archive", None).0, 404);
    assert_eq!(server.stop(), 0);
}

#[test]
fn cards_are_read_replaced_and_removed() {
    let (rig, token) = rig(&["users:read", "users:write"]);
    let (server, said) = rig.serve();
    let ask = |method: &str, body: Option<Value>| api(&said, &token, method, "/users/alice@localhost/vcard", body);
    assert_eq!(ask("GET", None).0, 404);
    let card = "<vCard xmlns='vcard-temp'><FN>Alice Liddell</FN></vCard>";
    assert_eq!(ask("PUT", Some(json!({"vcard": card}))).0, 204);
    let mut bob = log_in(&said, "bob", "secret-secret", "phone");
    bob.get_mut()
        .write_all(b"<iq type='get' id='v' to='alice@localhost'><vCard xmlns='vcard-temp'/></iq>")
        .expect("written");
    assert!(read_until(&mut bob, "</iq>").contains("<FN>Alice Liddell</FN>"));
    let (status, found) = ask("GET", None);
    assert!(status == 200 && found["vcard"].as_str().is_some_and(|card| card.contains("Alice Liddell")), "{found}");
    for wrong in ["<vCard", "<vCard xmlns='other'/>", "<card xmlns='vcard-temp'/>"] {
        assert_eq!(ask("PUT", Some(json!({"vcard": wrong}))).0, 422, "{wrong}");
    }
    assert_eq!((ask("DELETE", None).0, ask("GET", None).0), (204, 404));
    let nobody = |method: &str, body| api(&said, &token, method, "/users/nobody@localhost/vcard", body).0;
    assert_eq!((nobody("GET", None), nobody("PUT", Some(json!({"vcard": card})))), (404, 404));
    assert_eq!(server.stop(), 0);
}

#[test]
fn files_of_a_user_are_listed_without_their_addresses() {
    let (rig, token) = rig(&["users:read"]);
    let (server, said) = rig.serve();
    let ask = || api(&said, &token, "GET", "/users/alice@localhost/files", None);
    assert_eq!(ask(), (200, json!({"items": [], "next": null})));
    let path = slot(&said);
    let put = http(&said, &format!("PUT {path} HTTP/1.1\r\nContent-Type: text/plain"), b"beginning");
    assert!(put.starts_with("HTTP/1.1 201"), "{put}");
    let (_, found) = ask();
    let file = &found["items"][0];
    assert_eq!((&file["name"], &file["bytes"], &file["type"]), (&json!("a.txt"), &json!(9), &json!("text/plain")));
    let secret = path.trim_start_matches("/upload/").split('/').next().expect("a token");
    assert!(!found.to_string().contains(secret), "{found}");
    assert_eq!(api(&said, &token, "GET", "/users/nobody@localhost/files", None).0, 404);
    assert_eq!(server.stop(), 0);
}

#[test]
fn links_are_listed_and_revoked() {
    let rig = CliRig::new();
    rig.run_with(&["user", "add", "alice@localhost", "--password-stdin"], "secret-secret\n").fine();
    let token = rig.run(&["token", "add", "test", "--scope", "invitations:write"]).fine().trim().to_owned();
    let (server, said) = rig.serve();
    let ask = |method: &str, path: &str, body: Option<Value>| api(&said, &token, method, path, body);
    let path = "/domains/localhost/invitations";
    assert_eq!(ask("POST", path, Some(json!({"name": "bob", "days": 1}))).0, 201);
    assert_eq!(ask("POST", "/users/alice@localhost/password-link", Some(json!({"days": 2}))).0, 201);
    let (_, found) = ask("GET", path, None);
    let of = |at: usize| (found["items"][at]["purpose"].clone(), found["items"][at]["account"].clone());
    assert_eq!(of(0), (json!("account"), json!("bob@localhost")));
    assert_eq!(of(1), (json!("password"), json!("alice@localhost")));
    let link = found["items"][0]["token"].as_str().expect("a token");
    assert!(found["items"][0]["uri"].as_str().is_some_and(|uri| uri.contains(link)), "{found}");
    assert_eq!(ask("DELETE", &format!("{path}/{link}"), None).0, 204);
    assert_eq!(ask("DELETE", &format!("{path}/{link}"), None).0, 404);
    assert_eq!(ask("GET", path, None).1["items"].as_array().map(Vec::len), Some(1));
    assert_eq!(server.stop(), 0);
}
