//! The messages of a client, and the parts that answers have in common.

use std::net::{IpAddr, Ipv6Addr};

use super::bytes::{ByteOrder, PvaInput, PvaOutput};
use super::{PvaFault, command, frame, step};

/// The answer to a search.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SearchAnswer {
    /// The server's address; `None` if it is the address from which the answer comes.
    pub host: Option<IpAddr>,
    /// The server's port over TCP.
    pub port: u16,
    /// The numbers of the searches for its variables.
    pub found: Vec<u32>,
}

impl SearchAnswer {
    /// Reads the payload of an answer. An answer that reports nothing as found, or that names
    /// another protocol than plain TCP, has no variables.
    ///
    /// # Errors
    /// An answer that is too short.
    pub fn read(input: &mut PvaInput<'_>) -> Result<Self, PvaFault> {
        // The server's number for itself, and the number of the search.
        input.take(12 + 4)?;
        let host = input.take(16)?.first_chunk().map(|bytes: &[u8; 16]| Ipv6Addr::from(*bytes).to_canonical());
        let host = host.filter(|host| !host.is_unspecified() && *host != IpAddr::from([0; 4]));
        let port = input.word()?;
        let is_tcp = input.text()? == TCP;
        let is_found = input.byte()? != 0;
        let found = (0..input.word()?).map(|_| input.long()).collect::<Result<Vec<_>, _>>()?;
        let found = if is_tcp && is_found { found } else { Vec::new() };
        Ok(Self { host, port, found })
    }
}

/// Returns the bytes that a search needs for a name.
pub fn size_of_search(name: &str) -> usize {
    4 + 3 + name.len()
}

/// Appends a search for names, each with its number. Answers go to a port of the sender; over TCP
/// it is 0. A server to which `is_for_one` is sent passes the search to the others of its host.
pub fn search(names: &[(u32, &str)], port: u16, is_for_one: bool, order: ByteOrder, out: &mut Vec<u8>) {
    let mut payload = PvaOutput::new(order);
    payload.long(0);
    payload.byte(if is_for_one { FOR_ONE } else { 0 });
    payload.bytes.extend_from_slice(&[0; 3 + 16]);
    payload.word(port);
    payload.size(1);
    payload.text(TCP);
    payload.word(u16::try_from(names.len()).unwrap_or(u16::MAX));
    for (number, name) in names.iter().take(usize::from(u16::MAX)) {
        payload.long(*number);
        payload.text(name.as_bytes());
    }
    frame::write(command::SEARCH, &payload, out);
}

/// Reads the server's half of the greeting: returns whether clients may name their users.
///
/// # Errors
/// A greeting that is too short.
pub fn accepts_users(input: &mut PvaInput<'_>) -> Result<bool, PvaFault> {
    // The sizes of its buffer and its registry of types.
    input.take(4 + 2)?;
    let mut accepts = false;
    for _ in 0..input.size()? {
        accepts |= input.text()? == USERS;
    }
    Ok(accepts)
}

/// Appends the client's half of the greeting, with the names of its user and host if the server
/// accepts them.
pub fn greeting(name: Option<&str>, order: ByteOrder, out: &mut Vec<u8>) {
    let mut payload = PvaOutput::new(order);
    payload.long(BUFFER);
    payload.word(u16::try_from(super::MOST_TYPES).unwrap_or(u16::MAX));
    payload.word(0);
    match name {
        None => {
            payload.text(b"anonymous");
            payload.byte(NO_TYPE);
        }
        Some(name) => {
            payload.text(USERS);
            structure(&[("user", TEXT), ("host", TEXT)], &mut payload);
            payload.text(name.as_bytes());
            payload.text(name.as_bytes());
        }
    }
    frame::write(command::CONNECTION_VALIDATION, &payload, out);
}

/// Appends a request to open a channel.
pub fn create(cid: u32, name: &str, order: ByteOrder, out: &mut Vec<u8>) {
    let mut payload = PvaOutput::new(order);
    payload.word(1);
    payload.long(cid);
    payload.text(name.as_bytes());
    frame::write(command::CREATE_CHANNEL, &payload, out);
}

/// Appends a message with two numbers, such as the end of a channel or request.
pub fn pair(command: u8, first: u32, second: u32, order: ByteOrder, out: &mut Vec<u8>) {
    let mut payload = PvaOutput::new(order);
    payload.long(first);
    payload.long(second);
    frame::write(command, &payload, out);
}

/// Appends an echo request.
pub fn echo(order: ByteOrder, out: &mut Vec<u8>) {
    frame::write(command::ECHO, &PvaOutput::new(order), out);
}

/// Appends the beginning of a request for some fields of a channel.
pub fn init(command: u8, (sid, number): (u32, u32), fields: &[&str], order: ByteOrder, out: &mut Vec<u8>) {
    let mut payload = head((sid, number), step::INIT, order);
    payload.byte(STRUCTURE);
    payload.text(b"");
    payload.size(1);
    payload.text(b"field");
    let fields: Vec<(&str, &[u8])> = fields.iter().map(|field| (*field, EMPTY)).collect();
    structure(&fields, &mut payload);
    frame::write(command, &payload, out);
}

/// Appends a later step of a request, with what belongs to it.
pub fn step(command: u8, of: (u32, u32), step: u8, order: ByteOrder, body: &[u8], out: &mut Vec<u8>) {
    let mut payload = head(of, step, order);
    payload.bytes.extend_from_slice(body);
    frame::write(command, &payload, out);
}

/// Reads the status of an answer: `None` for success, or the server's words.
///
/// # Errors
/// A status that is too short.
pub fn refusal(input: &mut PvaInput<'_>) -> Result<Option<String>, PvaFault> {
    let kind = input.byte()?;
    if kind == NO_TYPE {
        return Ok(None);
    }
    let words = String::from_utf8_lossy(input.text()?).into_owned();
    input.text()?;
    Ok((kind >= ERROR).then_some(words))
}

fn head((sid, number): (u32, u32), step: u8, order: ByteOrder) -> PvaOutput {
    let mut payload = PvaOutput::new(order);
    payload.long(sid);
    payload.long(number);
    payload.byte(step);
    payload
}

/// Appends the type of a structure.
fn structure(fields: &[(&str, &[u8])], payload: &mut PvaOutput) {
    payload.byte(STRUCTURE);
    payload.text(b"");
    payload.size(fields.len());
    for (name, of) in fields {
        payload.text(name.as_bytes());
        payload.bytes.extend_from_slice(of);
    }
}

/// The only transport that we know, and the way in which clients name their users.
const TCP: &[u8] = b"tcp";
const USERS: &[u8] = b"ca";
/// The flag of a search that is sent to one host.
const FOR_ONE: u8 = 0x80;
/// The buffer size in the greeting, on which nothing depends here.
const BUFFER: u32 = 0x1_0000;
/// The codes of types: none, a structure, one without fields, a text.
const NO_TYPE: u8 = 0xff;
const STRUCTURE: u8 = 0x80;
const EMPTY: &[u8] = &[STRUCTURE, 0, 0];
const TEXT: &[u8] = &[0x60];
/// The first kind of status that is no success.
const ERROR: u8 = 2;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn statuses_are_read_as_the_specification_has_them() {
        for (bytes, refused) in [
            (&b"\xff"[..], None),
            (b"\x00\x00\x00", None),
            (b"\x01\x0aLow memory\x00", None),
            (b"\x02\x05a bad\x03day", Some("a bad")),
            (b"\x03\x00\x00", Some("")),
        ] {
            let mut input = PvaInput::new(bytes, ByteOrder::Big);
            assert_eq!(refusal(&mut input), Ok(refused.map(str::to_owned)));
            assert_eq!(input.unread_bytes(), 0);
        }
    }

    #[test]
    fn a_search_names_its_variables() {
        let mut out = Vec::new();
        search(&[(7, "SR:DCCT")], 5077, true, ByteOrder::Big, &mut out);
        let expected = [
            &[0xca, 2, 0x80, 3, 0, 0, 0, 44, 0, 0, 0, 0, 0x80, 0, 0, 0][..],
            &[0; 16],
            &[0x13, 0xd5, 1, 3],
            b"tcp",
            &[0, 1, 0, 0, 0, 7, 7],
            b"SR:DCCT",
        ];
        let mut expected = expected.concat();
        expected[7] = (expected.len() - 8) as u8;
        assert_eq!(out, expected);
    }

    /// Returns an answer to a search.
    fn answer(host: [u8; 16], protocol: &[u8], is_found: u8) -> Vec<u8> {
        let mut payload = PvaOutput::new(ByteOrder::Big);
        payload.bytes.extend([1; 16]);
        payload.bytes.extend(host);
        payload.word(5075);
        payload.text(protocol);
        payload.byte(is_found);
        payload.word(2);
        payload.long(3);
        payload.long(4);
        payload.bytes
    }

    #[test]
    fn answers_to_searches_name_the_server() {
        let mapped = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 1, 0, 5];
        for (bytes, host, found) in [
            (answer([0; 16], b"tcp", 1), None, vec![3, 4]),
            (answer(mapped, b"tcp", 1), Some(IpAddr::from([10, 1, 0, 5])), vec![3, 4]),
            (answer(mapped, b"tcp", 0), Some(IpAddr::from([10, 1, 0, 5])), vec![]),
            (answer([0; 16], b"tls", 1), None, vec![]),
        ] {
            let read = SearchAnswer::read(&mut PvaInput::new(&bytes, ByteOrder::Big));
            assert_eq!(read, Ok(SearchAnswer { host, port: 5075, found }));
        }
    }

    proptest! {
        #[test]
        fn any_answer_is_read_or_refused(bytes: Vec<u8>) {
            let input = || PvaInput::new(&bytes, ByteOrder::Little);
            let _ = (SearchAnswer::read(&mut input()), accepts_users(&mut input()), refusal(&mut input()));
        }
    }
}
