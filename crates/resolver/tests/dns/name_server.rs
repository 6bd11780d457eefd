//! The test's own name server, on loopback, which follows a script.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;

use hickory_resolver::proto::op::{Message, MessageType, ResponseCode};
use hickory_resolver::proto::rr::rdata::CNAME;
use hickory_resolver::proto::rr::{Name, RData, Record, RecordType};
use rookery_federation::Found;
use rookery_resolver::{Dns, ResolverSettings};
use rookery_shard::Resolver;

/// A reply of the name server to a query.
#[derive(Clone)]
pub enum Say {
    Records(Vec<RData>),
    Code(ResponseCode),
    /// The flag that the answer is too long for a datagram, which is then sent over a connection.
    Longer(Vec<RData>),
    /// Records of another name.
    Other(Vec<RData>),
    /// An alias, and the records of its target.
    Alias(&'static str, Vec<RData>),
    /// An alias and the records of its target, all validated.
    SecureAlias(&'static str, Vec<RData>),
    /// An answer with a wrong id first, then one with the right id.
    Forged(Vec<RData>, Vec<RData>),
    /// Records with the statement that the name server has validated their signatures.
    Secure(Vec<RData>),
    /// Validated records that are too long for a datagram.
    SecureLonger(Vec<RData>),
    /// Bytes that aren't a message.
    Garbage,
    /// No reply, ever.
    Silence,
    /// No reply to the first query, and validated records to the second.
    SecureLate(Vec<RData>),
}

type NameServerScript = Arc<Mutex<BTreeMap<(String, RecordType), Say>>>;

/// A name server, until the process ends.
pub struct NameServer {
    pub address: SocketAddr,
    script: NameServerScript,
    asked: Arc<Mutex<Vec<(String, RecordType)>>>,
}

impl NameServer {
    pub fn start() -> Self {
        // A port that is free for datagrams may be in use for connections, so both are tried.
        let (udp, address, tcp) = std::iter::repeat_with(|| {
            let udp = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a socket");
            let address = udp.local_addr().expect("an address");
            Some((udp, address, TcpListener::bind(address).ok()?))
        })
        .find_map(|bound| bound)
        .expect("a port for both");
        let (script, asked) = (NameServerScript::default(), Arc::<Mutex<Vec<_>>>::default());
        let server = Self { address, script: script.clone(), asked: asked.clone() };
        let (script_of_tcp, asked_by_tcp) = (script.clone(), asked.clone());
        thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok((len, from)) = udp.recv_from(&mut buffer) {
                for answer in answers(&script, &asked, &buffer[..len], false) {
                    udp.send_to(&answer, from).expect("a datagram leaves");
                }
            }
        });
        thread::spawn(move || {
            for stream in tcp.incoming() {
                let mut stream = stream.expect("a connection");
                let mut length = [0; 2];
                while stream.read_exact(&mut length).is_ok() {
                    let mut question = vec![0; usize::from(u16::from_be_bytes(length))];
                    stream.read_exact(&mut question).expect("a question");
                    for answer in answers(&script_of_tcp, &asked_by_tcp, &question, true) {
                        let length = u16::try_from(answer.len()).expect("a short answer").to_be_bytes();
                        stream.write_all(&[&length[..], &answer].concat()).expect("an answer leaves");
                    }
                }
            }
        });
        server
    }

    pub fn say(&self, name: &str, type_: RecordType, say: Say) {
        self.script.lock().expect("the script").insert((name.to_owned(), type_), say);
    }

    /// Returns the queried names.
    pub fn queried_names(&self, type_: RecordType) -> Vec<String> {
        let asked = self.asked.lock().expect("questions");
        asked.iter().filter(|(_, of)| *of == type_).map(|(name, _)| name.clone()).collect()
    }

    pub fn find(&self, domain: &str) -> Found {
        find(&[self.address], domain)
    }

    /// Looks up a domain for an operator who trusts the server's statement that answers are signed.
    pub fn find_trusting(&self, domain: &str) -> Found {
        find_by(self.trusting(), domain)
    }

    pub fn trusting(&self) -> ResolverSettings {
        ResolverSettings { servers: vec![self.address], dnssec: true, ..ResolverSettings::default() }
    }
}

fn answers(
    script: &NameServerScript,
    asked: &Arc<Mutex<Vec<(String, RecordType)>>>,
    question: &[u8],
    is_tcp: bool,
) -> Vec<Vec<u8>> {
    let message = Message::from_vec(question).expect("a question");
    let query = message.queries.first().expect("one question").clone();
    let (name, type_) = (query.name().to_ascii().to_lowercase(), query.query_type());
    let mut all = asked.lock().expect("questions");
    let is_first = !all.contains(&(name.clone(), type_));
    all.push((name.clone(), type_));
    drop(all);
    // RFC 6840 §5.7: only a client that asks for the statement gets it.
    let wants_word = message.metadata.authentic_data;
    let script = script.lock().expect("the script");
    let is_known = script.keys().any(|(known, _)| *known == name);
    let unknown = if is_known { ResponseCode::NoError } else { ResponseCode::NXDomain };
    let say = script.get(&(name, type_)).cloned().unwrap_or(Say::Code(unknown));
    let reply = |records: Vec<RData>, owner: &Name, code: ResponseCode| {
        let mut reply = Message::response(message.metadata.id, message.metadata.op_code);
        reply.metadata.message_type = MessageType::Response;
        reply.metadata.recursion_available = true;
        reply.metadata.response_code = code;
        reply.add_query(query.clone());
        reply.insert_answers(records.into_iter().map(|data| Record::from_rdata(owner.clone(), 60, data)).collect());
        reply
    };
    let ok = ResponseCode::NoError;
    let alias = |to: &str, records: Vec<RData>| {
        let to = Name::from_ascii(to).expect("a name");
        let mut answer = reply(vec![RData::CNAME(CNAME(to.clone()))], query.name(), ok);
        answer.add_answers(records.into_iter().map(|data| Record::from_rdata(to.clone(), 60, data)));
        answer
    };
    let replies = match say {
        Say::Records(records) => vec![reply(records, query.name(), ok)],
        Say::Secure(records) => {
            let mut answer = reply(records, query.name(), ok);
            answer.metadata.authentic_data = wants_word;
            vec![answer]
        }
        Say::Longer(records) if is_tcp => vec![reply(records, query.name(), ok)],
        Say::SecureLonger(records) if is_tcp => {
            let mut answer = reply(records, query.name(), ok);
            answer.metadata.authentic_data = wants_word;
            vec![answer]
        }
        Say::SecureLonger(_) => vec![reply(Vec::new(), query.name(), ok).truncate()],
        Say::Longer(_) => vec![reply(Vec::new(), query.name(), ok).truncate()],
        Say::Other(records) => vec![reply(records, &Name::from_ascii("evil.example.").expect("a name"), ok)],
        Say::Alias(to, records) => vec![alias(to, records)],
        Say::SecureAlias(to, records) => {
            let mut answer = alias(to, records);
            answer.metadata.authentic_data = wants_word;
            vec![answer]
        }
        Say::Forged(forged, right) => {
            let mut lie = reply(forged, query.name(), ok);
            lie.metadata.id = lie.metadata.id.wrapping_add(1);
            vec![lie, reply(right, query.name(), ok)]
        }
        Say::Code(code) => vec![reply(Vec::new(), query.name(), code)],
        Say::Garbage => return vec![vec![0xff; 40]],
        Say::Silence => Vec::new(),
        Say::SecureLate(_) if is_first => Vec::new(),
        Say::SecureLate(records) => {
            let mut answer = reply(records, query.name(), ok);
            answer.metadata.authentic_data = wants_word;
            vec![answer]
        }
    };
    replies.iter().map(|reply| reply.to_vec().expect("a message")).collect()
}

pub fn find(servers: &[SocketAddr], domain: &str) -> Found {
    find_by(ResolverSettings { servers: servers.to_vec(), ..ResolverSettings::default() }, domain)
}

pub fn find_by(settings: ResolverSettings, domain: &str) -> Found {
    let dns = Dns::start(settings).expect("a thread");
    let (tell, told) = mpsc::channel();
    dns.resolve(domain, Box::new(move |found| tell.send(found).expect("somebody waits")));
    told.recv().expect("an answer")
}
