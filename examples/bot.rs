//! A bot in Rust: an account that replies to messages, and speaks in rooms when it is spoken to.
//!
//! ```text
//! rookery user add clock@localhost
//! PASSWORD=… cargo run -p rookery-client --example bot -- \
//!     clock@localhost garden@conference.localhost
//! ```
//!
//! It tells the time. HOST and PORT are needed if the server can't be found by its domain; CA is a
//! file with the certificates to trust, such as the data folder's `certs/self-signed.pem`.
//!
//! [`Bot`] has no I/O: it takes received bytes and returns those to send. [`run`] moves them.

use std::error::Error;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};
use std::{env, fs};

use rookery_client::{ClientSession, SessionError, SessionTerms, words};
use rookery_jid::Jid;
use rookery_sasl::client::SaltedPasswords;
use rookery_stream::tls::client::ClientSettings;
use rookery_xml::{Element, Writer, ns};

const NICK: &str = "clock";

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = env::args().skip(1);
    let account = Jid::parse(&arguments.next().ok_or("the address of the account is missing")?)?;
    let authorities = fs::read(env::var("CA").unwrap_or_else(|_| "/etc/ssl/certs/ca-certificates.crt".to_owned()))?;
    let host = env::var("HOST").unwrap_or_else(|_| account.domain().to_owned());
    let port = env::var("PORT").map_or(Ok(5222), |port| port.parse::<u16>())?;
    let (bot, first) = Bot::start(&account, env::var("PASSWORD")?, &authorities, arguments.collect())?;
    run(TcpStream::connect((host, port))?, bot, first)
}

/// Moves bytes between a socket and a bot until the stream ends.
pub fn run(mut socket: TcpStream, mut bot: Bot, first: Vec<u8>) -> Result<(), Box<dyn Error>> {
    let (mut out, mut buffer) = (first, [0; 16 * 1024]);
    loop {
        socket.write_all(&out)?;
        out.clear();
        let len = socket.read(&mut buffer)?;
        if len == 0 {
            return Err("the server closed the connection".into());
        }
        bot.read(&mut buffer[..len], &mut out)?;
    }
}

/// An account that replies to messages.
pub struct Bot {
    session: ClientSession,
    rooms: Vec<String>,
    has_greeted: bool,
}

impl Bot {
    /// Returns a bot that is about to log in, and the bytes to send first. It trusts servers whose
    /// certificates were issued by one of these authorities, in PEM.
    pub fn start(
        account: &Jid,
        password: String,
        authorities: &[u8],
        rooms: Vec<String>,
    ) -> Result<(Bot, Vec<u8>), Box<dyn Error>> {
        let terms = SessionTerms {
            domain: account.domain().to_owned(),
            tls: Some(ClientSettings::trusting(authorities, &[])?),
            mechanism: None,
            password,
            resource: None,
            register: false,
            cache: SaltedPasswords::new(),
        };
        let (username, mut first) = (account.local().unwrap_or_default().to_owned(), Vec::new());
        let session = ClientSession::start(&Arc::new(terms), username, false, &mut first)?;
        Ok((Bot { session, rooms, has_greeted: false }, first))
    }

    /// Processes bytes from the server, and appends the response to `out`.
    pub fn read(&mut self, wire: &mut [u8], out: &mut Vec<u8>) -> Result<(), SessionError> {
        let mut said = String::new();
        self.session.read(wire, out, &mut |stanza| {
            said.extend(answer(&Element::read(&stanza), &now()));
        })?;
        if self.session.is_bound() && !self.has_greeted {
            self.has_greeted = true;
            said = format!("<presence/>{}{said}", self.rooms.iter().map(|room| enter(room)).collect::<String>());
            println!("{} is there", self.session.jid().map_or("", Jid::as_str));
        }
        self.session.write(said.as_bytes(), out)
    }
}

/// Returns the bot's response to a stanza.
fn answer(stanza: &Element, time: &str) -> Option<String> {
    let (from, kind) = (stanza.attr("from").unwrap_or_default(), stanza.attr("type").unwrap_or_default());
    let body = stanza.child_text("body", ns::CLIENT);
    match (stanza.name(), kind) {
        ("message", "" | "normal" | "chat") => body.map(|_| words::message(from, kind, time)),
        ("message", "groupchat") => {
            let (room, nick) = from.split_once('/')?;
            let is_spoken_to = nick != NICK && body?.contains(NICK);
            is_spoken_to.then(|| words::message(room, kind, &format!("{nick}: {time}")))
        }
        // The room is new: the bot owns it, and opens it with its defaults (XEP-0045 §10.1.2).
        ("presence", "") => is_new_room(stanza).then(|| open(from.split('/').next().unwrap_or_default())),
        // Every request gets a reply (RFC 6120 §8.2.3).
        ("iq", "get" | "set") => Some(reply(stanza)),
        _ => None,
    }
}

fn enter(room: &str) -> String {
    let mut presence = Writer::new("presence");
    presence.attr("to", &format!("{room}/{NICK}")).start_ns("x", MUC).end();
    text(presence)
}

fn is_new_room(presence: &Element) -> bool {
    let news = presence.child("x", MUC_USER);
    news.is_some_and(|news| news.children().any(|child| child.name() == "status" && child.attr("code") == Some("201")))
}

fn open(room: &str) -> String {
    let mut iq = Writer::new("iq");
    iq.attr("type", "set").attr("to", room).attr("id", "open").start_ns("query", MUC_OWNER);
    iq.start_ns("x", "jabber:x:data").attr("type", "submit").end().end();
    text(iq)
}

fn reply(request: &Element) -> String {
    let is_ping = request.child("ping", ns::PING).is_some();
    let mut iq = Writer::new("iq");
    iq.attr("type", if is_ping { "result" } else { "error" });
    iq.opt_attr("to", request.attr("from")).opt_attr("id", request.attr("id"));
    if !is_ping {
        iq.start("error").attr("type", "cancel").start_ns("service-unavailable", ns::STANZA_ERRORS).end().end();
    }
    text(iq)
}

fn text(writer: Writer) -> String {
    String::from_utf8_lossy(writer.finish().bytes()).into_owned()
}

fn now() -> String {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    format!("{:02}:{:02} UTC", seconds / 3600 % 24, seconds / 60 % 60)
}

const MUC: &str = "http://jabber.org/protocol/muc";
const MUC_USER: &str = "http://jabber.org/protocol/muc#user";
const MUC_OWNER: &str = "http://jabber.org/protocol/muc#owner";
