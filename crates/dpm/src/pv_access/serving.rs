//! The messages of a server, and the parts that those of clients have in common.
//!
//! We write in one byte order, which the first message of a circuit announces, so an update is
//! written once for all clients; they may write in either order.

use super::bytes::{ByteOrder, PvaInput, PvaOutput};
use super::served::ServedForm;
use super::types::{PvaFields, PvaType, TypeRegistry};
use super::{LARGEST_OF_CLIENT, MOST_TYPES, PvaFault, command, control, frame, step, value};
use std::sync::Arc;

/// The byte order in which we write.
pub const ORDER: ByteOrder = ByteOrder::Little;

/// A search of a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SearchQuestion<'a> {
    /// The client's number of the search.
    pub sequence: u32,
    /// True if the client wants an answer even if nothing is found.
    pub must_answer: bool,
    /// The client's port for answers.
    pub port: u16,
    /// The names, each with its number.
    pub names: Vec<(u32, &'a [u8])>,
}

impl<'a> SearchQuestion<'a> {
    /// Reads the payload of a search. The address for answers is skipped: a stranger could name a
    /// third host. A search for servers that speak something else than plain TCP has no names.
    ///
    /// # Errors
    /// A search that is too short.
    pub fn read(input: &mut PvaInput<'a>) -> Result<Self, PvaFault> {
        let sequence = input.long()?;
        let must_answer = input.byte()? & MUST_ANSWER != 0;
        input.take(3 + 16)?;
        let port = input.word()?;
        let mut is_tcp = false;
        let protocols = input.size()?;
        for _ in 0..protocols {
            is_tcp |= input.text()? == b"tcp";
        }
        let mut names = Vec::new();
        for _ in 0..input.word()? {
            names.push((input.long()?, input.text()?));
        }
        let is_empty = protocols > 0 && !is_tcp;
        Ok(Self { sequence, must_answer, port, names: if is_empty { Vec::new() } else { names } })
    }
}

/// Appends the answer to a search: the numbers of the names that are found at this port of the
/// host that answers.
pub fn search_answer(server: [u8; 12], sequence: u32, port: u16, found: &[u32], out: &mut Vec<u8>) {
    let mut payload = PvaOutput::new(ORDER);
    payload.bytes.extend_from_slice(&server);
    payload.long(sequence);
    payload.bytes.extend_from_slice(&[0; 16]);
    payload.word(port);
    payload.text(b"tcp");
    payload.byte(u8::from(!found.is_empty()));
    payload.word(u16::try_from(found.len()).unwrap_or(u16::MAX));
    for number in found.iter().take(usize::from(u16::MAX)) {
        payload.long(*number);
    }
    frame::write_of_server(command::SEARCH_RESPONSE, &payload, out);
}

/// Appends the beginning of a circuit: our byte order, and the ways in which clients may name
/// their users.
pub fn greeting(out: &mut Vec<u8>) {
    frame::write_control_of_server(control::SET_BYTE_ORDER, 0, ORDER, out);
    let mut payload = PvaOutput::new(ORDER);
    payload.long(LARGEST_OF_CLIENT as u32);
    payload.word(MOST_TYPES as u16);
    payload.size(METHODS.len());
    for method in METHODS {
        payload.text(method);
    }
    frame::write_of_server(command::CONNECTION_VALIDATION, &payload, out);
}

/// Reads the client's half of the greeting: returns whether it names its user in a way that we
/// know. The user itself counts for nothing, since anyone may read.
///
/// # Errors
/// A greeting that is too short.
pub fn is_method_known(input: &mut PvaInput<'_>) -> Result<bool, PvaFault> {
    input.take(4 + 2 + 2)?;
    let method = input.text()?;
    Ok(method.is_empty() || METHODS.contains(&method))
}

/// Appends the end of the greeting.
pub fn end_greeting(refusal: Option<&str>, out: &mut Vec<u8>) {
    let mut payload = PvaOutput::new(ORDER);
    status(refusal, &mut payload);
    frame::write_of_server(command::CONNECTION_VALIDATED, &payload, out);
}

/// Appends the answer to a request to open a channel.
pub fn answer_create(cid: u32, sid: Result<u32, &str>, out: &mut Vec<u8>) {
    let mut payload = PvaOutput::new(ORDER);
    payload.long(cid);
    payload.long(sid.unwrap_or(u32::MAX));
    status(sid.err(), &mut payload);
    frame::write_of_server(command::CREATE_CHANNEL, &payload, out);
}

/// Appends the message that a channel is closed.
pub fn confirm_destroy(sid: u32, cid: u32, out: &mut Vec<u8>) {
    let mut payload = PvaOutput::new(ORDER);
    payload.long(sid);
    payload.long(cid);
    frame::write_of_server(command::DESTROY_CHANNEL, &payload, out);
}

/// Appends the beginning of a request, with the type of its values.
pub fn begin(command: u8, number: u32, form: ServedForm, out: &mut Vec<u8>) {
    let mut payload = head(number, step::INIT);
    status(None, &mut payload);
    form.describe(&mut payload);
    frame::write_of_server(command, &payload, out);
}

/// Appends the refusal of a step of a request.
pub fn refuse(command: u8, number: u32, step: u8, words: &str, out: &mut Vec<u8>) {
    let mut payload = head(number, step);
    status(Some(words), &mut payload);
    frame::write_of_server(command, &payload, out);
}

/// Appends a value that was asked for once.
pub fn give(number: u32, step: u8, value: &[u8], out: &mut Vec<u8>) {
    let mut payload = head(number, step);
    status(None, &mut payload);
    payload.bytes.extend_from_slice(value);
    frame::write_of_server(command::GET, &payload, out);
}

/// Appends an update of a monitor, with the bits of the parts of which values were left out.
pub fn write_update(number: u32, value: &[u8], left_out: u64, out: &mut Vec<u8>) {
    let mut payload = head(number, 0);
    payload.bytes.extend_from_slice(value);
    payload.bytes.extend(value::PvaBits::of(left_out).to_bytes());
    frame::write_of_server(command::MONITOR, &payload, out);
}

/// Appends the type of a channel's field, or of the channel if the path is empty.
pub fn tell_type(number: u32, form: ServedForm, path: &str, out: &mut Vec<u8>) {
    let mut payload = PvaOutput::new(ORDER);
    payload.long(number);
    let mut of = PvaOutput::new(ORDER);
    let is_found = match path {
        "" => {
            form.describe(&mut of);
            true
        }
        path => form.describe_field(path, &mut of),
    };
    status((!is_found).then_some("no such field"), &mut payload);
    payload.bytes.extend(of.bytes);
    frame::write_of_server(command::GET_FIELD, &payload, out);
}

/// Appends the refusal to tell a type.
pub fn refuse_type(number: u32, words: &str, out: &mut Vec<u8>) {
    let mut payload = PvaOutput::new(ORDER);
    payload.long(number);
    status(Some(words), &mut payload);
    frame::write_of_server(command::GET_FIELD, &payload, out);
}

/// Reads the type of a client's request, and skips its values, which are options.
///
/// # Errors
/// A type or values that can't be read.
pub fn request(input: &mut PvaInput<'_>, registry: &mut TypeRegistry) -> Result<Option<Arc<PvaFields>>, PvaFault> {
    match PvaType::read(input, registry)? {
        Some(PvaType::Structure(of)) => {
            value::read(&of, None, input, registry, |_, _| ())?;
            Ok(Some(of))
        }
        Some(_) => Err(PvaFault("its request is not a structure")),
        None => Ok(None),
    }
}

fn head(number: u32, step: u8) -> PvaOutput {
    let mut payload = PvaOutput::new(ORDER);
    payload.long(number);
    payload.byte(step);
    payload
}

/// Appends a status: success, or an error with words.
fn status(refusal: Option<&str>, payload: &mut PvaOutput) {
    match refusal {
        None => payload.byte(SUCCESS),
        Some(words) => {
            payload.byte(ERROR);
            payload.text(words.as_bytes());
            payload.text(b"");
        }
    }
}

/// The flag of a search that wants an answer in any case.
const MUST_ANSWER: u8 = 1;
/// The ways in which clients may name their users.
const METHODS: [&[u8]; 2] = [b"ca", b"anonymous"];
/// The kinds of statuses.
const SUCCESS: u8 = 0xff;
const ERROR: u8 = 2;

#[cfg(test)]
mod tests {
    use super::super::message;
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn searches_of_our_client_are_read_and_answered() {
        for order in [ByteOrder::Little, ByteOrder::Big] {
            let mut out = Vec::new();
            message::search(&[(7, "M:OUTTMP"), (8, "G:TEXT")], 4711, true, order, &mut out);
            let mut input = frame::searches(&out).next().expect("a search");
            let question = SearchQuestion::read(&mut input).expect("a search");
            assert_eq!((question.port, question.must_answer), (4711, false));
            assert_eq!(question.names, [(7, &b"M:OUTTMP"[..]), (8, b"G:TEXT")]);
        }
        let mut out = Vec::new();
        search_answer([1; 12], 3, 5075, &[7, 8], &mut out);
        let mut input = frame::search_responses(&out).next().expect("an answer");
        let answer = message::SearchAnswer::read(&mut input).expect("an answer");
        assert_eq!((answer.host, answer.port, answer.found), (None, 5075, vec![7, 8]));
    }

    #[test]
    fn types_that_a_client_numbers_have_a_bound_in_bytes() {
        let (mut registry, name) = (TypeRegistry::of_client(), [b'x'; 200]);
        let numbered = |number: u16| {
            let mut out = PvaOutput::new(ORDER);
            out.byte(0xfd);
            out.word(number);
            out.byte(0x80);
            out.text(b"");
            out.size(10);
            for _ in 0..10 {
                out.text(&name);
                out.byte(0x43);
            }
            out.bytes
        };
        let faults = (0..64).map(|number| PvaType::read(&mut PvaInput::new(&numbered(number), ORDER), &mut registry));
        let kept = faults.take_while(Result::is_ok).count();
        assert!((20..40).contains(&kept), "{kept}");
    }

    proptest! {
        #[test]
        fn any_search_or_request_is_read_or_refused(bytes: Vec<u8>, big: bool) {
            let order = if big { ByteOrder::Big } else { ByteOrder::Little };
            let _ = SearchQuestion::read(&mut PvaInput::new(&bytes, order));
            let _ = is_method_known(&mut PvaInput::new(&bytes, order));
            let _ = request(&mut PvaInput::new(&bytes, order), &mut TypeRegistry::of_client());
            let _ = frame::searches(&bytes).count();
        }
    }
}
