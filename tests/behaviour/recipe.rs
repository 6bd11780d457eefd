//! The modules that `doc/book/developing/writing-a-module.md` shows, in the server: they work as
//! the page says.

mod note;
mod tally;

use note::NoteModule;
use rookery_hub::{Module, Value};
use rookery_modules::Shared;
use rookery_testkit::{Config, Server, play};
use tally::TallyModule;

use crate::strangers;

/// Returns the server's modules and those of the page.
fn table(shared: &Shared) -> Vec<Box<dyn Module>> {
    let mut table = rookery_modules::table(shared);
    table.push(Box::new(NoteModule));
    table.push(Box::new(TallyModule));
    table
}

fn config() -> Config {
    Config { table, ..Config::default() }
}

#[test]
fn a_note_is_there_for_all_clients_and_comes_back() {
    let server = Server::with(config());
    let mut phone = server.login("romeo/phone");
    play(
        &mut [&mut phone],
        "C: <iq type='get' id='1'><note xmlns='urn:example:note'/></iq>
         S: <iq type='result' id='1' from='*'><note xmlns='urn:example:note'/></iq>
         C: <iq type='set' id='2'><note xmlns='urn:example:note'>Thursday, the tomb</note></iq>
         S: <iq type='result' id='2' from='*'/>",
    );
    phone.close();
    let mut desk = server.login("romeo/desk");
    play(
        &mut [&mut desk],
        "C: <iq type='get' id='3'><note xmlns='urn:example:note'/></iq>
         S: <iq type='result' id='3' from='*'><note xmlns='urn:example:note'>Thursday, the tomb</note></iq>
         C: <iq type='set' id='4'><note xmlns='urn:example:note'/></iq>
         S: <iq type='result' id='4' from='*'/>
         C: <iq type='get' id='5'><note xmlns='urn:example:note'/></iq>
         S: <iq type='result' id='5' from='*'><note xmlns='urn:example:note'/></iq>
         C: <iq type='get' id='6'><knot xmlns='urn:example:note'/></iq>
         S: <iq type='error' id='6' from='*'><error type='modify'><bad-request xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></iq>",
    );
}

#[test]
fn a_note_is_as_long_as_the_operator_allows() {
    let server = Server::with(Config { options: vec![("note", "bytes", Value::Number(5))], ..config() });
    let mut romeo = server.login("romeo/orchard");
    play(
        &mut [&mut romeo],
        "C: <iq type='set' id='1'><note xmlns='urn:example:note'>Friar</note></iq>
         S: <iq type='result' id='1' from='*'/>
         C: <iq type='set' id='2'><note xmlns='urn:example:note'>Friars</note></iq>
         S: <iq type='error' id='2' from='*'><error type='modify'><not-acceptable xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></iq>
         C: <iq type='get' id='3'><note xmlns='urn:example:note'/></iq>
         S: <iq type='result' id='3' from='*'><note xmlns='urn:example:note'>Friar</note></iq>",
    );
}

#[test]
fn a_note_that_the_store_refuses_is_not_there() {
    let server = Server::with(config());
    let mut romeo = server.login("romeo/orchard");
    let account = server.account("romeo");
    server.finish(server.stores().accounts.remove(account.as_ref())).expect("an answer");
    let refused = romeo.ask("<iq type='set' id='1'><note xmlns='urn:example:note'>Poison</note></iq>");
    assert_eq!(refused.attr("type"), Some("error"), "{refused:?}");
    play(
        &mut [&mut romeo],
        "C: <iq type='get' id='2'><note xmlns='urn:example:note'/></iq>
         S: <iq type='result' id='2' from='*'><note xmlns='urn:example:note'/></iq>",
    );
}

#[test]
fn nobody_learns_from_notes_who_has_an_account() {
    strangers::learn_nothing(
        &config(),
        &[
            ("get", "", "<note xmlns='urn:example:note'/>"),
            ("set", "", "<note xmlns='urn:example:note'>I was here</note>"),
            ("get", "", "<knot xmlns='urn:example:note'/>"),
        ],
    );
}

const ASK: &str = "<iq type='get' id='t' to='example.org'><tally xmlns='urn:example:tally'/></iq>";
const BEGIN_AGAIN: &str = "<iq type='set' id='b' to='example.org'><tally xmlns='urn:example:tally'/></iq>";

#[test]
fn the_tally_is_of_all_shards_and_says_when_one_is_missing() {
    let admins = Value::List(vec!["prince@example.org".to_owned()]);
    let server = Server::with(Config { options: vec![("administration", "admins", admins)], ..config() });
    let mut one = server.online(&format!("{}/a", server.name_at("romeo", 0)));
    let mut other = server.online(&format!("{}/b", server.name_at("juliet", 1)));
    one.send(&format!("<message to='{}'><body>Hark</body></message>", other.bare()));
    other.send(&format!("<message to='{}'><body>Who calls?</body></message>", one.bare()));
    assert_eq!((one.bodies().len(), other.bodies().len()), (1, 1));
    let tally = |messages: &str| {
        format!("<iq type='result' id='t' from='example.org'><tally xmlns='urn:example:tally' {messages}/></iq>")
    };
    one.send(ASK);
    one.expect(&tally("messages='2'"));

    server.stall(Some(1));
    one.send(ASK);
    one.expect_nothing();
    server.advance(3_000);
    one.expect(&tally("messages='1' partial='true'"));
    server.stall(None);

    assert_eq!(one.ask(BEGIN_AGAIN).attr("type"), Some("error"), "a user may not");
    let mut prince = server.login("prince/street");
    assert_eq!(prince.ask(BEGIN_AGAIN).attr("type"), Some("result"));
    prince.send(ASK);
    prince.expect(&tally("messages='0'"));
}
