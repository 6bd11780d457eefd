//! A server that misbehaves on demand. It supports just enough XMPP for the load generator.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use base64::{Engine, engine::general_purpose::STANDARD};

/// The fault of the server, with every n-th message or from the n-th on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FakeFault {
    None,
    Lose(u64),
    Double(u64),
    /// Holds a message back until the next one for the same receiver has left.
    Reorder(u64),
    /// Sends a message that no client has sent.
    Invent(u64),
    /// Replies with an error stanza.
    Bounce(u64),
    /// Closes the sender's connection.
    Close(u64),
    /// Sends the receiver invalid XML.
    Babble(u64),
    /// Accepts connections and stays silent.
    Silent,
    /// Stays silent on the first connection only.
    Forgets,
    /// Closes connections at the first input.
    Hangs,
    /// Uses another protocol from the first byte.
    Garbage,
    /// Refuses every account.
    NotAuthorized,
}

/// A running server; its threads end with the test.
pub struct Fake {
    pub address: SocketAddr,
    shared: Arc<FakeShared>,
}

struct FakeShared {
    fault: FakeFault,
    sockets: Mutex<HashMap<String, Out>>,
    messages: AtomicU64,
    planted: AtomicU64,
    connections: AtomicU64,
}

struct Out {
    socket: TcpStream,
    kept: Vec<String>,
}

impl Fake {
    pub fn start(fault: FakeFault) -> Fake {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let shared = FakeShared {
            fault,
            sockets: Mutex::default(),
            messages: AtomicU64::new(0),
            planted: AtomicU64::new(0),
            connections: AtomicU64::new(0),
        };
        let shared = Arc::new(shared);
        let server = shared.clone();
        thread::spawn(move || {
            for socket in listener.incoming() {
                let (server, socket) = (server.clone(), socket.unwrap());
                thread::spawn(move || server.serve(socket));
            }
        });
        Fake { address, shared }
    }

    /// Returns how often the fault has occurred.
    pub fn faults_planted(&self) -> u64 {
        self.shared.planted.load(SeqCst)
    }
}

impl FakeShared {
    fn serve(&self, mut socket: TcpStream) -> Option<()> {
        socket.set_read_timeout(Some(Duration::from_millis(200))).ok()?;
        let is_first = self.connections.fetch_add(1, SeqCst) == 0;
        let (mut user, mut carry, mut buffer) = (String::new(), String::new(), [0; 4096]);
        loop {
            let len = match socket.read(&mut buffer) {
                Ok(0) => return None,
                Ok(len) => len,
                Err(_) => {
                    self.release(&user);
                    continue;
                }
            };
            carry += std::str::from_utf8(&buffer[..len]).ok()?;
            match self.fault {
                FakeFault::Silent => carry.clear(),
                FakeFault::Forgets if is_first => carry.clear(),
                FakeFault::Hangs => return None,
                FakeFault::Garbage => socket.write_all(b"220 mail.example ESMTP ready\r\n").ok()?,
                _ => {}
            }
            while let Some((item, rest)) = next(&carry) {
                self.item(&item, &mut user, &mut socket)?;
                carry = rest;
            }
        }
    }

    fn item(&self, item: &str, user: &mut String, socket: &mut TcpStream) -> Option<()> {
        let answer = if item.starts_with("<?xml") || item.starts_with("<stream:stream") {
            let features = match user.is_empty() {
                true => {
                    "<mechanisms xmlns='urn:ietf:params:xml:ns:xmpp-sasl'><mechanism>PLAIN</mechanism></mechanisms>"
                }
                false => "<bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'/>",
            };
            format!("{HEADER}<stream:features>{features}</stream:features>")
        } else if item.starts_with("<auth") && self.fault == FakeFault::NotAuthorized {
            "<failure xmlns='urn:ietf:params:xml:ns:xmpp-sasl'><not-authorized/></failure>".into()
        } else if item.starts_with("<auth") {
            let initial = item.split('>').nth(1)?.split('<').next()?;
            let initial = String::from_utf8(STANDARD.decode(initial).ok()?).ok()?;
            *user = initial.split('\0').nth(1)?.to_owned();
            "<success xmlns='urn:ietf:params:xml:ns:xmpp-sasl'/>".into()
        } else if item.contains("xmpp-bind") {
            let out = Out { socket: socket.try_clone().ok()?, kept: Vec::new() };
            self.sockets.lock().unwrap().insert(user.clone(), out);
            let jid = format!("{user}@localhost/bench");
            format!(
                "<iq type='result' id='bind'><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'><jid>{jid}</jid></bind></iq>"
            )
        } else if item.contains("jabber:iq:register") {
            "<iq type='result' id='register'/>".into()
        } else if item.contains("jabber:iq:version") {
            "<iq type='result' id='version'><query xmlns='jabber:iq:version'><name>Fake</name></query></iq>".into()
        } else if item.starts_with("<presence") {
            format!("<presence from='{user}@localhost/bench'/>")
        } else if item.starts_with("<message") {
            return self.message(item, user, socket);
        } else {
            return Some(());
        };
        socket.write_all(answer.as_bytes()).ok()
    }

    fn message(&self, item: &str, from: &str, sender: &mut TcpStream) -> Option<()> {
        let number = self.messages.fetch_add(1, SeqCst) + 1;
        let to = item.split("to='").nth(1)?.split('@').next()?.to_owned();
        let mut sockets = self.sockets.lock().unwrap();
        let out = sockets.get_mut(&to)?;
        let item = item.replacen("<message ", &format!("<message from='{from}@localhost/bench' "), 1);
        let every = |n: u64| number.is_multiple_of(n) && self.planted.fetch_add(1, SeqCst) < u64::MAX;
        let text = match self.fault {
            FakeFault::Lose(n) if every(n) => String::new(),
            FakeFault::Double(n) if every(n) => item.repeat(2),
            FakeFault::Reorder(n) if number.is_multiple_of(n) => {
                out.kept.push(item);
                String::new()
            }
            FakeFault::Invent(n) if every(n) => item.clone() + &with_another_number(&item)?,
            FakeFault::Bounce(n) if every(n) => {
                let error =
                    "<error type='cancel'><service-unavailable xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error>";
                sender.write_all(format!("<message type='error'>{error}</message>").as_bytes()).ok()?;
                String::new()
            }
            FakeFault::Close(n) if number >= n => {
                sender.shutdown(std::net::Shutdown::Both).ok()?;
                return None;
            }
            FakeFault::Babble(n) if number >= n => "<<<&\0".into(),
            _ => item,
        };
        let kept = if text.is_empty() { Vec::new() } else { std::mem::take(&mut out.kept) };
        self.planted.fetch_add(kept.len() as u64, SeqCst);
        out.socket.write_all((text + &kept.concat()).as_bytes()).ok()
    }

    /// Sends a held-back message to a user who gets no further ones: late, but in order.
    fn release(&self, user: &str) {
        if let Some(out) = self.sockets.lock().unwrap().get_mut(user) {
            let kept = std::mem::take(&mut out.kept).concat();
            // The client may have gone.
            let _ = out.socket.write_all(kept.as_bytes());
        }
    }
}

/// Returns the same message with a sequence number that no sender has reached.
fn with_another_number(item: &str) -> Option<String> {
    let mark = item.split("~mark:").nth(1)?.split('~').next()?;
    let mut parts: Vec<&str> = mark.split(':').collect();
    *parts.get_mut(2)? = "ffffff";
    Some(item.replacen(mark, &parts.join(":"), 1))
}

/// Returns the first whole item: a stream header, or an element with a name that the generator
/// uses.
fn next(text: &str) -> Option<(String, String)> {
    let len = if text.starts_with("<?xml") || text.starts_with("<stream:stream") {
        text.find("<stream:stream").and_then(|at| Some(at + text[at..].find('>')? + 1))?
    } else {
        let name: String = text.get(1..)?.chars().take_while(|c| c.is_ascii_alphanumeric()).collect();
        let close = format!("</{name}>");
        let first = text.find('>')? + 1;
        if text[..first].ends_with("/>") { first } else { text.find(&close)? + close.len() }
    };
    Some((text[..len].to_owned(), text[len..].to_owned()))
}

const HEADER: &str = "<?xml version='1.0'?><stream:stream from='localhost' id='1' version='1.0' \
    xmlns='jabber:client' xmlns:stream='http://etherx.jabber.org/streams'>";
