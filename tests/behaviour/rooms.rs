//! XEP-0045: Multi-User Chat, through the whole server. Section numbers are those of the standard;
//! the cases are its examples, in its order.
//!
//! A stanza that a client gets is compared in a short form, such as
//! `< firstwitch presence owner/moderator 110`: presence of that nick, with the room's data about
//! the occupant and the status codes.

mod admins;
mod bad_input;
mod entering;
mod keeping;
mod languages;
mod large;
mod limits;
mod moderators;
mod newer;
mod occupants;
mod owners;
mod past;
mod registering;
mod restart;
mod rights;
mod service;

use rookery_hub::Value;
use rookery_testkit::{Client, Config, Server};
use rookery_xml::{Element, ns};

/// The room of the examples.
const COVEN: &str = "coven@conference.example.org";

/// A server with three users and a room. The room may be on the shard of the first witch or not.
struct RoomScene {
    server: Server,
    /// The owner of the room, on shard 0: `firstwitch`.
    crone: Client,
    /// A user on shard 1: `secondwitch`.
    wiccarocks: Client,
    /// A user on shard 0: `thirdwitch`.
    hag: Client,
}

impl RoomScene {
    /// Returns a scene with all three online, and no room yet.
    fn new() -> Self {
        Self::with(Config::default())
    }

    fn with_options(options: Vec<(&'static str, Value)>) -> Self {
        let options = options.into_iter().map(|(key, value)| ("rooms", key, value)).collect();
        Self::with(Config { options, ..Config::default() })
    }

    fn with(config: Config) -> Self {
        let server = Server::with(config);
        let [crone, wiccarocks, hag] =
            [("crone", 0), ("wiccarocks", 1), ("hag", 0)].map(|(stem, at)| server.name_at(stem, at));
        let crone = server.online(&format!("{crone}/desktop")).with_name("crone");
        let wiccarocks = server.online(&format!("{wiccarocks}/laptop")).with_name("wiccarocks");
        let hag = server.online(&format!("{hag}/pda")).with_name("hag");
        Self { server, crone, wiccarocks, hag }
    }

    /// Returns a scene in which the owner has made the room.
    fn open_scene() -> Self {
        Self::new().open("")
    }

    /// Returns such a scene, with fields of the room's configuration: `var=value`, with several
    /// values of one field separated by `+`.
    fn configure_scene(fields: &str) -> Self {
        Self::new().open(fields)
    }

    fn open(mut self, fields: &str) -> Self {
        join(&mut self.crone, "firstwitch");
        self.crone.all();
        configure(&mut self.crone, fields);
        self.crone.all();
        self
    }

    /// Makes the other two enter, and discards the stanzas about that.
    fn all_in(mut self) -> Self {
        join(&mut self.wiccarocks, "secondwitch");
        join(&mut self.hag, "thirdwitch");
        self.hush();
        self
    }

    /// Reads and discards everything that the clients have got so far.
    fn hush(&mut self) {
        for client in [&mut self.crone, &mut self.wiccarocks, &mut self.hag] {
            client.all();
        }
    }

    #[track_caller]
    fn crone_hears(&mut self, wanted: &[&str]) {
        let wanted: Vec<_> = wanted.iter().map(|text| self.with_names(text)).collect();
        assert_eq!(take_stanzas(&mut self.crone), wanted, "firstwitch");
    }

    #[track_caller]
    fn wicca_hears(&mut self, wanted: &[&str]) {
        let wanted: Vec<_> = wanted.iter().map(|text| self.with_names(text)).collect();
        assert_eq!(take_stanzas(&mut self.wiccarocks), wanted, "secondwitch");
    }

    #[track_caller]
    fn hag_hears(&mut self, wanted: &[&str]) {
        let wanted: Vec<_> = wanted.iter().map(|text| self.with_names(text)).collect();
        assert_eq!(take_stanzas(&mut self.hag), wanted, "thirdwitch");
    }

    /// Replaces names in a text: `CRONE`, `WICCA` and `HAG` by bare JIDs, or by full ones if `/r`
    /// follows them; `COVEN` by the room.
    fn with_names(&self, text: &str) -> String {
        let mut text = text.replace("COVEN", COVEN);
        for (name, client) in [("CRONE", &self.crone), ("WICCA", &self.wiccarocks), ("HAG", &self.hag)] {
            text = text.replace(&format!("{name}/r"), client.full()).replace(name, client.bare());
        }
        text
    }
}

/// Asks to enter the room.
fn join(client: &mut Client, nick: &str) {
    join_with(client, nick, "");
}

/// Asks to enter the room, with this content of the `<x/>`.
fn join_with(client: &mut Client, nick: &str, content: &str) {
    client.send(&format!(
        "<presence to='{COVEN}/{nick}'><x xmlns='http://jabber.org/protocol/muc'>{content}</x></presence>"
    ));
    client.pump();
}

/// Leaves the room under a nick, without reading the replies.
fn leave(client: &mut Client, nick: &str) {
    client.send(&format!("<presence to='{COVEN}/{nick}' type='unavailable'/>"));
    client.pump();
}

/// Submits a configuration. Returns the next element, which is the reply.
fn configure(client: &mut Client, fields: &str) -> Element {
    client.send(&configuration(fields));
    answer(client)
}

fn configuration(fields: &str) -> String {
    let fields: String = fields
        .split_whitespace()
        .map(|field| {
            let (var, values) = field.split_once('=').expect("var=value");
            let var = if var.starts_with("muc#") || var.starts_with("x-") {
                var.to_owned()
            } else {
                format!("muc#roomconfig_{var}")
            };
            let values: String = values.split('+').map(|value| format!("<value>{value}</value>")).collect();
            format!("<field var='{var}'>{values}</field>")
        })
        .collect();
    let type_ = "<field var='FORM_TYPE'><value>http://jabber.org/protocol/muc#roomconfig</value></field>";
    let type_ = if fields.is_empty() { "" } else { type_ };
    format!(
        "<iq to='{COVEN}' type='set' id='config'><query xmlns='http://jabber.org/protocol/muc#owner'>\
         <x xmlns='jabber:x:data' type='submit'>{type_}{fields}</x></query></iq>"
    )
}

/// Sends items in `muc#admin`, and returns the reply.
fn administer(client: &mut Client, type_: &str, items: &str) -> Element {
    client.send(&format!(
        "<iq to='{COVEN}' type='{type_}' id='admin'><query xmlns='http://jabber.org/protocol/muc#admin'>{items}</query></iq>"
    ));
    answer(client)
}

/// Sends a request of type get or set with this payload, and returns the reply.
fn ask(client: &mut Client, to: &str, type_: &str, payload: &str) -> Element {
    client.send(&format!("<iq to='{to}' type='{type_}' id='ask'>{payload}</iq>"));
    answer(client)
}

/// Returns the next reply to an IQ, and discards the stanzas before it.
fn answer(client: &mut Client) -> Element {
    loop {
        let found = client.expect_element();
        if found.is("iq", ns::CLIENT) && matches!(found.attr("type"), Some("result" | "error")) {
            return found;
        }
    }
}

/// Sends a message to all occupants.
fn say(client: &mut Client, body: &str) {
    client.send(&format!("<message to='{COVEN}' type='groupchat' id='m'><body>{body}</body></message>"));
}

/// Returns the stanzas that a client has got, each in the short form.
fn take_stanzas(client: &mut Client) -> Vec<String> {
    client.all().iter().map(short).collect()
}

/// Returns the short form of a stanza: `nick kind/type`, followed by its contents.
fn short(stanza: &Element) -> String {
    let from = stanza.attr("from").unwrap_or_default();
    let who = from.split_once('/').map_or(from, |(room, nick)| if room == COVEN { nick } else { from });
    let who = if who == COVEN { "ROOM" } else { who };
    let mut text = format!("{who} {}", stanza.name());
    if let Some(type_) = stanza.attr("type") {
        text += &format!("/{type_}");
    }
    if let Some(error) = stanza.child("error", ns::CLIENT) {
        return format!("{text} {}", condition(error));
    }
    for name in ["subject", "body", "show", "status"] {
        if let Some(found) = stanza.child_text(name, ns::CLIENT) {
            text += &format!(" {name}={found}");
        }
    }
    if stanza.child("delay", ns::DELAY).is_some() {
        text += " late";
    }
    if let Some(x) = stanza.child("x", ns::MUC_USER) {
        user(x, &mut text);
    }
    text
}

fn user(x: &Element, text: &mut String) {
    for item in x.children().filter(|child| child.name() == "item") {
        *text += &format!(" {}/{}", item.attr("affiliation").unwrap_or("-"), item.attr("role").unwrap_or("-"));
        for name in ["jid", "nick"] {
            if let Some(value) = item.attr(name) {
                *text += &format!(" {name}={value}");
            }
        }
        for child in item.children() {
            *text += &format!(" {}={}{}", child.name(), child.attr("nick").unwrap_or_default(), child.text());
        }
    }
    for status in x.children().filter(|child| child.name() == "status") {
        *text += &format!(" {}", status.attr("code").unwrap_or("?"));
    }
    for child in x.children().filter(|child| !matches!(child.name(), "item" | "status")) {
        *text += &format!(" {}", child.name());
    }
}

/// Returns the condition of a reply that is an error, or `result`.
fn outcome(answer: &Element) -> String {
    answer.child("error", ns::CLIENT).map_or("result".into(), condition)
}

fn condition(error: &Element) -> String {
    error.children().next().map(|child| child.name().to_owned()).unwrap_or_default()
}
