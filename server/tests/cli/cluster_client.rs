//! A client of a node that may die: it sends as little as possible, and notices an end.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::cluster::PATIENCE;

/// A client over a socket.
pub struct ClusterClient {
    stream: TcpStream,
    pub got: String,
    pub jid: String,
}

impl ClusterClient {
    pub fn log_in(user: &str, port: u16) -> ClusterClient {
        ClusterClient::at(user, "localhost", port)
    }

    /// Logs in to a server of a domain.
    pub fn at(user: &str, domain: &str, port: u16) -> ClusterClient {
        let mut client = ClusterClient::bind_at(user, domain, &format!("r{port}"), port);
        client.send("<presence/>");
        client.wait("<presence");
        client
    }

    /// Logs in without binding a resource; `None` if the server refuses, or ends.
    pub fn try_log_in(user: &str, port: u16) -> Option<ClusterClient> {
        let stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
        stream.set_read_timeout(Some(Duration::from_millis(100))).ok()?;
        let mut client = ClusterClient { stream, got: String::new(), jid: format!("{user}@localhost/r{port}") };
        let plain = STANDARD.encode(format!("\0{user}\0secret"));
        let auth = format!("<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='PLAIN'>{plain}</auth>");
        for (words, answer) in [(HEADER, "</stream:features>"), (&auth, "<success"), (HEADER, "</stream:features>")] {
            let until = Instant::now() + PATIENCE;
            let mut is_there = client.exchange(words);
            while !client.got.contains(answer) {
                if !is_there || Instant::now() >= until {
                    return None;
                }
                is_there = client.exchange("");
            }
            client.got.clear();
        }
        Some(client)
    }

    /// Logs in without becoming available.
    pub fn bind(user: &str, resource: &str, port: u16) -> ClusterClient {
        ClusterClient::bind_at(user, "localhost", resource, port)
    }

    fn bind_at(user: &str, domain: &str, resource: &str, port: u16) -> ClusterClient {
        let header = HEADER.replace("localhost", domain);
        let stream = TcpStream::connect(("127.0.0.1", port)).expect("a connection");
        stream.set_read_timeout(Some(Duration::from_millis(100))).expect("a timeout");
        let mut client = ClusterClient { stream, got: String::new(), jid: format!("{user}@{domain}/{resource}") };
        client.send(&header);
        client.wait("</stream:features>");
        let plain = STANDARD.encode(format!("\0{user}\0secret"));
        client.send(&format!("<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='PLAIN'>{plain}</auth>"));
        client.wait("<success");
        client.send(&header);
        client.wait("</stream:features>");
        client.send(&format!(
            "<iq type='set' id='b'><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'><resource>{resource}</resource></bind></iq>"
        ));
        client.wait("</bind>");
        client
    }

    pub fn send(&mut self, text: &str) {
        self.stream.write_all(text.as_bytes()).expect("a written stanza");
    }

    pub fn say(&mut self, to: &str, text: &str) {
        self.send(&format!("<message type='chat' to='{to}'><body>{text}</body></message>"));
    }

    /// Waits for a text, and drops the input up to its end.
    #[track_caller]
    pub fn wait(&mut self, what: &str) -> String {
        let at = self.has(what);
        let rest = self.got.split_off(at + what.len());
        std::mem::replace(&mut self.got, rest)
    }

    /// Waits for a text, and returns where it begins.
    #[track_caller]
    pub fn has(&mut self, what: &str) -> usize {
        let until = Instant::now() + PATIENCE;
        loop {
            if let Some(at) = self.got.find(what) {
                return at;
            }
            assert!(Instant::now() < until, "{}: {what} has not come, but {:?}", self.jid, self.got);
            self.read();
        }
    }

    /// Returns the client if its home answers, or `None` if its stream ends before that.
    pub fn while_served(mut self) -> Option<ClusterClient> {
        let (until, mut buffer) = (Instant::now() + PATIENCE, [0; 1024]);
        let account = self.jid.split('/').next().unwrap_or_default();
        let ping = format!("<iq type='get' id='here' to='{account}'><ping xmlns='urn:xmpp:ping'/></iq>");
        self.stream.write_all(ping.as_bytes()).ok()?;
        while !self.got.contains("id='here'") {
            assert!(Instant::now() < until, "{}: neither an answer nor an end, but {:?}", self.jid, self.got);
            match self.stream.read(&mut buffer) {
                Ok(0) => return None,
                Ok(len) => self.got.push_str(&String::from_utf8_lossy(&buffer[..len])),
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
                Err(_) => return None,
            }
        }
        Some(self)
    }

    /// Sends text, if the server still accepts it.
    pub fn write(&mut self, text: &str) {
        _ = self.stream.write_all(text.as_bytes());
    }

    /// Sends text and reads the available input. Returns `false` once the stream has ended.
    pub fn exchange(&mut self, text: &str) -> bool {
        let mut buffer = [0; 64 * 1024];
        if self.stream.write_all(text.as_bytes()).is_err() {
            return false;
        }
        match self.stream.read(&mut buffer) {
            Ok(0) => false,
            Ok(len) => {
                self.got.push_str(&String::from_utf8_lossy(&buffer[..len]));
                true
            }
            Err(error) => matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut),
        }
    }

    fn read(&mut self) {
        let mut buffer = [0; 16 * 1024];
        match self.stream.read(&mut buffer) {
            Ok(0) => panic!("{}: the stream has ended behind {:?}", self.jid, self.got),
            Ok(len) => self.got.push_str(&String::from_utf8_lossy(&buffer[..len])),
            Err(_) => {}
        }
    }
}

const HEADER: &str = "<?xml version='1.0'?><stream:stream to='localhost' version='1.0' xmlns='jabber:client' \
                      xmlns:stream='http://etherx.jabber.org/streams'>";
