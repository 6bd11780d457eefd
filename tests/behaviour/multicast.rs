//! XEP-0033: Extended Stanza Addressing, through the whole server. Section numbers are those of the
//! standard.
//!
//! Headers are written and compared in short: `to:a@x` is an address, `to!a@x` one that is marked
//! as delivered, `noreply:` one without JID.

mod checks;
mod delivery;
mod discovery;
mod originators;
mod presence;
mod service;
mod trusted;

use rookery_hub::Value;
use rookery_testkit::remote::Left;
use rookery_testkit::{Client, Config, Server};
use rookery_xml::{Element, ns};

/// Somebody who sends, and recipients whose homes are the two shards.
struct MulticastScene {
    server: Server,
    /// On shard 0, not available.
    sender: Client,
    /// `NEAR`, whose home is that of the sender.
    near: Client,
    /// `FAR`, whose home is the other shard.
    far: Client,
}

impl MulticastScene {
    fn new() -> Self {
        Self::with(Config { federates: true, ..Config::default() })
    }

    fn with_options(options: Vec<(&'static str, Value)>) -> Self {
        let options = options.into_iter().map(|(key, value)| ("multicast", key, value)).collect();
        Self::with(Config { federates: true, options, ..Config::default() })
    }

    fn with(config: Config) -> Self {
        let server = Server::with(config);
        let [sender, near, far] = [("sender", 0), ("near", 0), ("far", 1)].map(|(stem, at)| server.name_at(stem, at));
        let sender = server.login(&format!("{sender}/s"));
        let near = server.online(&format!("{near}/r"));
        let far = server.online(&format!("{far}/r"));
        Self { server, sender, near, far }
    }

    /// Puts the names of the scene into a text: `SENDER` is a full JID, `NEAR` and `FAR` are bare.
    fn with_names(&self, text: &str) -> String {
        text.replace("SENDER", self.sender.full()).replace("NEAR", self.near.bare()).replace("FAR", self.far.bare())
    }

    /// Sends a message of the sender to the service, with the id `m` and the body `hi`.
    fn says(&mut self, header: &str) {
        self.says_to("multicast.example.org", header);
    }

    fn says_to(&mut self, service: &str, header: &str) {
        let message = self.with_names(&message(service, header));
        self.sender.send(&message);
    }

    /// Sends presence of the sender to the service, with the id `p`.
    fn shows(&mut self, type_: &str, header: &str) {
        let presence = self.with_names(&presence("multicast.example.org", type_, header));
        self.sender.send(&presence);
    }

    /// Lets a message of somebody of another server come in.
    fn comes_in(&self, from: &str, header: &str) {
        let message = self.with_names(&message("multicast.example.org", header));
        self.server.incoming(&message.replacen("<message ", &format!("<message from='{from}' "), 1));
    }

    /// Checks that nobody got anything.
    fn nothing_is_delivered(&mut self) {
        self.near.expect_nothing();
        self.far.expect_nothing();
        assert_eq!(self.server.take_left(), []);
    }

    /// Checks that the sender is refused, and nothing is delivered.
    fn is_refused(&mut self, type_: &str, condition: &str) -> String {
        let text = expect_refusal(&mut self.sender, type_, condition);
        self.nothing_is_delivered();
        text
    }

    /// Checks what the recipients see: `NEAR`, then `FAR`.
    fn see(&mut self, near: &str, far: &str) {
        let wanted = (self.with_names(near), self.with_names(far));
        assert_eq!((saw(&mut self.near), saw(&mut self.far)), wanted);
        self.sender.expect_nothing();
    }
}

/// Returns a message with the id `m` and the body `hi`, for a service.
fn message(service: &str, header: &str) -> String {
    format!("<message to='{service}' id='m'><body>hi</body>{}</message>", addresses(header))
}

/// Returns a presence with the id `p`, available if the type is empty.
fn presence(service: &str, type_: &str, header: &str) -> String {
    let type_ = if type_.is_empty() { String::new() } else { format!(" type='{type_}'") };
    format!("<presence to='{service}' id='p'{type_}>{}</presence>", addresses(header))
}

/// Returns a header from its short form; none from an empty one.
fn addresses(short: &str) -> String {
    if short.is_empty() {
        return String::new();
    }
    let written = short.split_whitespace().map(|address| {
        let at = address.find([':', '!']).expect("type and mark");
        let (type_, jid) = (&address[..at], &address[at + 1..]);
        let delivered = if address[at..].starts_with('!') { " delivered='true'" } else { "" };
        let jid = if jid.is_empty() { String::new() } else { format!(" jid='{jid}'") };
        format!("<address type='{type_}'{jid}{delivered}/>")
    });
    header(&written.collect::<String>())
}

/// Returns a header with this content.
fn header(content: &str) -> String {
    format!("<addresses xmlns='http://jabber.org/protocol/address'>{content}</addresses>")
}

/// Returns the header of a stanza in its short form.
fn short(stanza: &Element) -> String {
    let Some(header) = stanza.child("addresses", ns::ADDRESS) else { return "no header".into() };
    let addresses = header.children().map(|address| {
        assert!(address.is("address", ns::ADDRESS));
        let mark = if address.attr("delivered") == Some("true") { '!' } else { ':' };
        format!("{}{mark}{}", address.attr("type").expect("type"), address.attr("jid").unwrap_or_default())
    });
    addresses.collect::<Vec<_>>().join(" ")
}

/// Returns the headers that a client has seen, one stanza after the other.
fn saw(client: &mut Client) -> String {
    let all = client.all();
    assert!(all.iter().all(|stanza| stanza.attr("type") != Some("error")), "{all:?}");
    all.iter().map(short).collect::<Vec<_>>().join(", ")
}

/// Checks that the next thing a client hears is an error of the service, for the stanza with the id
/// `m` or `p`. Returns what it says to people.
fn expect_refusal(client: &mut Client, type_: &str, condition: &str) -> String {
    let found = client.expect_element();
    let kind = found.name().to_owned();
    let id = if kind == "message" { "m" } else { "p" };
    let to = client.full().to_owned();
    let wanted = format!("<{kind} {}</{kind}>", error(id, "multicast.example.org", type_, condition));
    let wanted = wanted.replacen("type=", &format!("to='{to}' type="), 1);
    if let Err(difference) = rookery_testkit::matches(&rookery_testkit::element(&wanted), &found) {
        panic!("{difference}: {}", rookery_testkit::client::xml(&found));
    }
    let text = found.child("error", ns::CLIENT).and_then(|error| error.child_text("text", ns::STANZA_ERRORS));
    text.unwrap_or_default()
}

/// Returns an error stanza, behind its name.
fn error(id: &str, from: &str, type_: &str, condition: &str) -> String {
    format!(
        "type='error' id='{id}' from='{from}'><error type='{type_}'>\
         <{condition} xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error>"
    )
}

/// Returns the copies that left for other servers: the address, and the header in short. Requests
/// are left out.
fn copies(left: &[Left]) -> Vec<(String, String)> {
    let stanzas = left.iter().map(|left| (left.to.clone(), rookery_testkit::element(&left.text)));
    stanzas.filter(|(_, stanza)| stanza.name() != "iq").map(|(to, stanza)| (to, short(&stanza))).collect()
}

/// Returns copies as [`copies`] does, from what a test writes.
fn to_pairs<const N: usize>(copies: [(&str, &str); N]) -> Vec<(String, String)> {
    copies.map(|(to, header)| (to.to_owned(), header.to_owned())).into()
}

/// Returns the error that left for somebody of another server: to whom, from whom, condition.
fn refused_away(left: &[Left]) -> Vec<(String, String, String)> {
    let stanzas = left.iter().map(|left| (left.to.clone(), rookery_testkit::element(&left.text)));
    let errors = stanzas.filter_map(|(to, stanza)| {
        let error = stanza.child("error", ns::CLIENT)?;
        let condition = error.children().next()?.name().to_owned();
        Some((to, stanza.attr("from")?.to_owned(), condition))
    });
    errors.collect()
}
