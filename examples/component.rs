//! A component in Rust (XEP-0114): a program that serves all addresses of a name, as bridges to
//! other networks do.
//!
//! ```text
//! SECRET=… cargo run -p rookery-client --example component -- dice.localhost
//! ```
//!
//! rookery.toml has to contain:
//!
//! ```toml
//! [component."dice.localhost"]
//! secret = "…"
//! ```
//!
//! Each address at the name is a die: a message to 6@dice.localhost gets a number from 1 to 6 in
//! reply. HOST and PORT name the server, by default 127.0.0.1 and 5347.

use std::collections::hash_map::RandomState;
use std::env;
use std::error::Error;
use std::hash::BuildHasher;
use std::io::{Read, Write};
use std::net::TcpStream;

use rookery_client::ComponentSession;
use rookery_xml::{Element, Writer, ns};

fn main() -> Result<(), Box<dyn Error>> {
    let name = env::args().nth(1).ok_or("the name of the component is missing")?;
    let host = env::var("HOST").unwrap_or_else(|_| "127.0.0.1".to_owned());
    let port = env::var("PORT").map_or(Ok(5347), |port| port.parse::<u16>())?;
    run(TcpStream::connect((host, port))?, &name, &env::var("SECRET")?)
}

/// Serves a name over a socket until the stream ends.
pub fn run(mut socket: TcpStream, name: &str, secret: &str) -> Result<(), Box<dyn Error>> {
    let (mut out, mut buffer, mut is_served) = (Vec::new(), [0; 16 * 1024], false);
    let mut session = ComponentSession::start(name, secret, &mut out);
    loop {
        socket.write_all(&out)?;
        out.clear();
        let len = socket.read(&mut buffer)?;
        if len == 0 {
            return Err("the server closed the connection".into());
        }
        let mut said = Vec::new();
        session.read(&buffer[..len], &mut out, &mut |stanza| said.extend(answer(&stanza)))?;
        out.append(&mut said);
        if session.is_accepted() && !is_served {
            is_served = true;
            println!("{name} is served");
        }
    }
}

/// Returns the component's response to a stanza.
fn answer(stanza: &Element) -> Vec<u8> {
    let (from, to) = (stanza.attr("from").unwrap_or_default(), stanza.attr("to").unwrap_or_default());
    let kind = stanza.attr("type").unwrap_or_default();
    let is_request = stanza.name() == "iq" && matches!(kind, "get" | "set");
    let is_message = stanza.name() == "message" && kind != "error" && stanza.child("body", ns::CLIENT).is_some();
    // Errors never get a reply, or two programs would reply to each other for ever.
    if !is_request && !is_message {
        return Vec::new();
    }
    let sides = to.split_once('@').and_then(|(sides, _)| sides.parse::<u64>().ok());
    let sides = sides.filter(|sides| is_message && (2..=1000).contains(sides));
    let mut reply = Writer::new(stanza.name());
    reply.attr("from", to).attr("to", from).opt_attr("id", stanza.attr("id"));
    match sides {
        Some(sides) => reply.opt_attr("type", stanza.attr("type")).text_child("body", &roll(sides).to_string()),
        None if is_message => error(&mut reply, "item-not-found"),
        None => error(&mut reply, "service-unavailable"),
    };
    reply.finish().into_bytes()
}

fn error<'a>(reply: &'a mut Writer, condition: &str) -> &'a mut Writer {
    reply.attr("type", "error").start("error").attr("type", "cancel").start_ns(condition, ns::STANZA_ERRORS).end().end()
}

/// Returns a number from 1 to `sides`. The keys of each new hasher are random.
fn roll(sides: u64) -> u64 {
    1 + RandomState::new().hash_one(()) % sides
}
