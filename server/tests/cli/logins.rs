//! Logins that another service checks, from socket to socket: a client, the server, and these
//! services.

use std::io::{BufReader, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use jsonwebtoken::{Algorithm, EncodingKey, Header, encode, get_current_timestamp};
use rcgen::KeyPair;
use rookery_needs::Site;
use serde_json::{Value, json};

use super::control::{base64, read_until};
use super::rig::{CliRig, FREE_PORTS};

/// Returns a configuration whose clients may log in without encryption, with tables of logins.
pub fn with(tables: &str) -> String {
    let login = "scram_iterations = 4096\nplaintext_loopback = true\nplain_without_tls = true\n";
    format!("domains = [\"localhost\"]\n{}{tables}", FREE_PORTS.replace("scram_iterations = 4096\n", login))
}

/// A client before its login.
pub struct LoginStream(BufReader<TcpStream>, String);

impl LoginStream {
    pub fn open(said: &str, domain: &str) -> LoginStream {
        let words: Vec<&str> = said.split_whitespace().collect();
        let address = words.windows(2).find(|pair| pair[1].starts_with("(STARTTLS")).expect("a port")[0];
        let socket = TcpStream::connect(address).expect("connected");
        socket.set_read_timeout(Some(Duration::from_secs(20))).expect("a patience");
        let mut stream = LoginStream(BufReader::new(socket), domain.to_owned());
        stream.restart();
        stream
    }

    fn restart(&mut self) -> String {
        let domain = self.1.clone();
        self.ask(
            &format!("<stream:stream to='{domain}' version='1.0' xmlns='jabber:client' xmlns:stream='http://etherx.jabber.org/streams'>"),
            "</stream:features>",
        )
    }

    /// Sends data, to which no response comes at once.
    pub fn say(&mut self, say: &str) {
        self.0.get_mut().write_all(say.as_bytes()).expect("written");
    }

    /// Returns the next element, up to the end of a stanza.
    pub fn more(&mut self) -> String {
        let mut read = String::new();
        while !["</iq>", "</presence>", "</message>"].iter().any(|end| read.contains(end)) {
            let more = read_until(&mut self.0, ">");
            assert!(!more.is_empty(), "the connection has ended: {read}");
            let is_whole = read.is_empty() && more.ends_with("/>");
            read.push_str(&more);
            if is_whole {
                break;
            }
        }
        read
    }

    pub fn ask(&mut self, say: &str, until: &str) -> String {
        self.0.get_mut().write_all(say.as_bytes()).expect("written");
        read_until(&mut self.0, until)
    }

    /// Tries to log in, and returns the server's response.
    fn authenticate(&mut self, mechanism: &str, message: &str) -> String {
        let auth = format!(
            "<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='{mechanism}'>{}</auth>",
            base64(message.as_bytes())
        );
        self.ask(&auth, ">")
    }

    pub fn by_password(&mut self, name: &str, password: &str) -> String {
        let said = self.authenticate("PLAIN", &format!("\0{name}\0{password}"));
        if said.contains("<failure") { said + &read_until(&mut self.0, "</failure>") } else { said }
    }

    /// Binds a resource after a login, and returns the address.
    pub fn bind(&mut self) -> String {
        self.restart();
        let bound = self.ask("<iq type='set' id='b'><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'/></iq>", "</iq>");
        let (_, rest) = bound.split_once("<jid>").expect("an address");
        rest.split_once("</jid>").expect("its end").0.to_owned()
    }

    fn is_alive(&mut self) -> bool {
        self.ask("<iq type='get' id='p'><ping xmlns='urn:xmpp:ping'/></iq>", "id='p'").contains("id='p'")
    }
}

pub fn says(answer: &str, condition: &str) {
    assert!(answer.contains(condition), "{condition} is not in {answer}");
}

#[test]
fn everybody_comes_in_where_a_domain_is_for_everybody() {
    let rig = CliRig::fresh();
    rig.write("rookery.toml", &with("[domain.\"guests.localhost\".login]\nanonymous = true\n"));
    let (server, said) = rig.serve();
    let mut stream = LoginStream::open(&said, "guests.localhost");
    says(&stream.authenticate("ANONYMOUS", ""), "<success");
    let one = stream.bind();
    assert!(one.contains("@guests.localhost/"), "{one}");
    let mut other = LoginStream::open(&said, "guests.localhost");
    says(&other.authenticate("ANONYMOUS", ""), "<success");
    assert_ne!(one, other.bind());
    assert!(stream.is_alive() && other.is_alive());
    assert_eq!(server.stop(), 0);
    let kept = rig.run(&["user", "list"]).fine();
    assert!(!kept.contains("guests.localhost"), "{kept}");
}

#[test]
fn an_address_that_knows_passwords_is_asked() {
    let is_there = Arc::new(AtomicBool::new(true));
    let there = is_there.clone();
    let site = Site::start(move |_, body| {
        let said: Value = serde_json::from_str(body).expect("JSON");
        match (there.load(Ordering::Relaxed), said["password"] == "right") {
            (false, _) => (500, String::new()),
            (true, true) => (200, String::new()),
            (true, false) => (401, String::new()),
        }
    });
    let rig = CliRig::fresh();
    rig.write("rookery.toml", &with(&format!("[domain.localhost.login]\nurl = \"{}\"\n", site.url("/check"))));
    let checked = rig.run(&["check"]).out;
    says(&checked, "checks passwords");
    let (server, said) = rig.serve();
    let mut stream = LoginStream::open(&said, "localhost");
    says(&stream.by_password("juliet", "wrong"), "<not-authorized");
    says(&stream.by_password("juliet", "right"), "<success");
    assert!(stream.bind().starts_with("juliet@localhost/"));
    is_there.store(false, Ordering::Relaxed);
    let mut late = LoginStream::open(&said, "localhost");
    says(&late.by_password("juliet", "right"), "<temporary-auth-failure");
    assert!(stream.is_alive(), "a source that is away ends nobody's session");
    is_there.store(true, Ordering::Relaxed);
    says(&late.by_password("juliet", "right"), "<success");
    assert_eq!(server.stop(), 0);
}

/// An issuer for the tests: its keys, and its tokens.
struct LoginIssuer {
    site: Site,
    key: Arc<EncodingKey>,
    /// The text in the next token for a browser.
    nonce: Arc<Mutex<String>>,
}

impl LoginIssuer {
    fn start() -> LoginIssuer {
        let pair = KeyPair::generate().expect("a key");
        let key = Arc::new(EncodingKey::from_ec_der(&pair.serialize_der()));
        let raw = pair.public_key_raw();
        let [x, y] = [&raw[1..33], &raw[33..65]].map(url_safe);
        let keys = json!({ "keys": [{ "kty": "EC", "crv": "P-256", "kid": "k", "alg": "ES256", "x": x, "y": y }] });
        let (own, nonce) = (Arc::<Mutex<String>>::default(), Arc::<Mutex<String>>::default());
        let (address, carried, signs) = (own.clone(), nonce.clone(), key.clone());
        let site = Site::start(move |path, body| {
            let own = address.lock().expect("its address").clone();
            let place = |path: &str| format!("{own}{path}");
            match path {
                "/.well-known/openid-configuration" => {
                    let said = json!({
                        "issuer": own, "jwks_uri": place("/keys"), "token_endpoint": place("/token"),
                        "authorization_endpoint": place("/authorize"),
                    });
                    (200, said.to_string())
                }
                "/keys" => (200, keys.to_string()),
                "/token" if body.contains("code=good&") => {
                    let nonce = carried.lock().expect("a text").clone();
                    (200, json!({ "id_token": token(&signs, &own, "page", &nonce) }).to_string())
                }
                _ => (404, String::new()),
            }
        });
        *own.lock().expect("its address") = site.url("");
        LoginIssuer { site, key, nonce }
    }

    fn token(&self, audience: &str) -> String {
        token(&self.key, &self.site.url(""), audience, "")
    }
}

fn token(key: &EncodingKey, issuer: &str, audience: &str, nonce: &str) -> String {
    let header = Header { kid: Some("k".into()), ..Header::new(Algorithm::ES256) };
    let claims = json!({
        "iss": issuer, "aud": audience, "exp": get_current_timestamp() + 600, "nonce": nonce,
        "preferred_username": "juliet",
    });
    encode(&header, &claims, key).expect("a token")
}

fn url_safe(bytes: &[u8]) -> String {
    base64(bytes).replace('+', "-").replace('/', "_").replace('=', "")
}

#[test]
fn tokens_of_an_issuer_open_accounts() {
    let issuer = LoginIssuer::start();
    let rig = CliRig::fresh();
    let table = format!("[domain.localhost.login]\nissuer = \"{}\"\naudience = \"chat\"\n", issuer.site.url(""));
    rig.write("rookery.toml", &with(&table));
    says(&rig.run(&["check"]).out, "it has 1 keys");
    let (server, said) = rig.serve();
    let mut stream = LoginStream::open(&said, "localhost");
    let show = |audience: &str| format!("n,,\x01auth=Bearer {}\x01\x01", issuer.token(audience));
    let refused = stream.authenticate("OAUTHBEARER", &show("others"));
    says(&refused, "<challenge");
    says(&read_until(&mut stream.0, "</challenge>"), &base64(b"{\"openid-configuration\":\"http://127.0.0.1:")[..40]);
    says(
        &stream.ask("<response xmlns='urn:ietf:params:xml:ns:xmpp-sasl'>AQ==</response>", "</failure>"),
        "<not-authorized",
    );
    says(&stream.authenticate("OAUTHBEARER", &show("chat")), "<success");
    assert!(stream.bind().starts_with("juliet@localhost/"));
    drop(issuer.site);
    assert!(stream.is_alive());
    assert_eq!(server.stop(), 0);
}

/// Asks for a page, and returns the whole response.
fn get(address: &str, path: &str, cookie: &str) -> String {
    let mut socket = TcpStream::connect(address).expect("connected");
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nCookie: {cookie}\r\nConnection: close\r\n\r\n");
    socket.write_all(request.as_bytes()).expect("written");
    let mut response = String::new();
    socket.read_to_string(&mut response).expect("text");
    response
}

/// Returns the text between two others.
fn between<'a>(text: &'a str, from: &str, to: &str) -> &'a str {
    let (_, rest) = text.split_once(from).unwrap_or_else(|| panic!("{from} is not in {text}"));
    rest.split_once(to).map_or(rest, |(found, _)| found)
}

#[test]
fn administrators_sign_in_at_the_issuer() {
    let issuer = LoginIssuer::start();
    let rig = CliRig::fresh();
    let table = format!(
        "[domain.localhost.login]\nissuer = \"{}\"\naudience = \"chat\"\nclient_id = \"page\"\n\
         [modules.administration]\nadmins = [\"juliet@localhost\"]\n",
        issuer.site.url("")
    );
    rig.write("rookery.toml", &with(&table));
    let (server, said) = rig.serve();
    let words: Vec<&str> = said.split_whitespace().collect();
    let page = words.windows(2).find(|pair| pair[1].starts_with("(HTTP)")).expect("a port")[0];
    says(&get(page, "/admin/login", ""), "/admin/login/away?domain=localhost");
    let leave = || {
        let away = get(page, "/admin/login/away?domain=localhost", "");
        says(&away, &format!("location: {}", issuer.site.url("/authorize?")));
        let (state, nonce) = (between(&away, "state=", "&").to_owned(), between(&away, "nonce=", "&").to_owned());
        *issuer.nonce.lock().expect("a text") = nonce;
        (format!("/admin/login/back?state={state}"), between(&away, "set-cookie: ", ";").to_owned())
    };
    let (back, cookie) = leave();
    let nobody = get(page, &format!("{back}&code=good"), &cookie);
    says(&nobody, "an administrator of this server");
    let show = format!("n,,\x01auth=Bearer {}\x01\x01", issuer.token("chat"));
    says(&LoginStream::open(&said, "localhost").authenticate("OAUTHBEARER", &show), "<success");
    let (back, cookie) = leave();
    says(&get(page, &format!("{back}&code=good"), "rookery-signing-in=0"), "in another browser");
    says(&get(page, &format!("{back}&code=good"), &cookie), "in another browser");
    let (back, cookie) = leave();
    says(&get(page, &format!("{back}&code=bad"), &cookie), "an administrator of this server");
    let (back, cookie) = leave();
    let signed_in = get(page, &format!("{back}&code=good"), &cookie);
    says(&signed_in, "You are signed in");
    says(&get(page, "/admin", between(&signed_in, "set-cookie: ", ";")), "juliet@localhost");
    assert_eq!(server.stop(), 0);
}

#[test]
fn mistakes_about_logins_are_told() {
    for (table, words) in [
        ("anonymous = true\nurl = \"https://a.example/\"\n", "everybody is let in without being checked"),
        ("url = \"http://a.example/\"\n", "an address that begins with \"https://\""),
        ("issuer = \"https://a.example\"\n", "set `audience` to the issuer's name"),
        ("ldap = \"ldaps://a.example\"\n", "say where the users are"),
        ("ldap = \"ldaps://a.example\"\ndn = \"uid=user\"\n", "a text with %u"),
        ("dn = \"uid=%u\"\n", "this key is for a directory"),
        ("url = \"https://a.example/\"\nldap = \"ldaps://a.example\"\n", "passwords can be checked in one place only"),
        ("seconds = 9\n", "nothing here checks logins"),
        ("isuer = \"https://a.example\"\n", "did you mean `issuer`?"),
        (
            "anonymous = true\n[domain.localhost.modules.archive]\nenabled = true\n",
            "the module `archive` can't be on here",
        ),
        (
            "url = \"https://a.example/\"\n[domain.localhost.modules.register]\nenabled = true\n",
            "the module `register` can't be on here",
        ),
    ] {
        let rig = CliRig::fresh();
        rig.write("rookery.toml", &with(&format!("[domain.localhost.login]\n{table}")));
        let ended = rig.run(&["check"]);
        assert_eq!(ended.code, 78, "{table}{}", ended.out);
        assert!(ended.out.contains(words), "{words} is not in {}", ended.out);
    }
}
