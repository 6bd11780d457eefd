//! The client's end of BOSH (XEP-0124): one request that waits, and a second connection for
//! sending meanwhile, as browsers do it.
//!
//! Responses count in the order of their requests, whichever connection they arrive on. A
//! connection that the server closes between requests is opened again when it is needed.

use rookery_client::SessionError;
use rookery_xml::wrapper::Wrapper;
use rookery_xml::{Limits, ns};

/// A session.
#[derive(Debug)]
pub struct LoadBosh {
    domain: String,
    sid: String,
    rid: u64,
    lines: [BoshLine; LINES],
    /// Elements that wait for a request.
    waiting: Vec<u8>,
    /// True if a stream has to begin, or to restart.
    begins: bool,
}

#[derive(Debug, Default)]
struct BoshLine {
    /// The number of the request in progress.
    rid: Option<u64>,
    /// The request in progress, which is sent again if its connection was closed before it arrived.
    request: Vec<u8>,
    is_repeated: bool,
    input: Vec<u8>,
    /// The response on this connection, until it is its turn.
    answer: Option<Vec<u8>>,
}

/// Connections of a client.
pub const LINES: usize = 2;

impl LoadBosh {
    /// Returns a client without a session.
    pub fn new(domain: &str) -> LoadBosh {
        let (sid, lines) = (String::new(), Default::default());
        LoadBosh { domain: domain.to_owned(), sid, rid: FIRST, lines, waiting: Vec::new(), begins: false }
    }

    /// Takes output of the stream: a header alone, or elements.
    pub fn write(&mut self, stream: &[u8]) {
        if stream.starts_with(b"<?xml") {
            self.begins = true;
        } else {
            self.waiting.extend_from_slice(stream);
        }
    }

    /// Returns the next request that can go out, and on which connection; `None` if there is none.
    pub fn request(&mut self) -> Option<(usize, Vec<u8>)> {
        let is_opening = self.sid.is_empty();
        let under_way = self.lines.iter().filter(|line| line.rid.is_some()).count();
        let has_something = self.begins || (!self.waiting.is_empty() && !is_opening);
        if under_way > 0 && (!has_something || is_opening) || (is_opening && !self.begins) {
            return None;
        }
        let at = self.lines.iter().position(|line| line.rid.is_none())?;
        let body = self.body(is_opening);
        let head = format!(
            "POST /http-bind HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/xml; charset=utf-8\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        let request = [head.as_bytes(), &body].concat();
        let line = self.lines.get_mut(at)?;
        (line.rid, line.is_repeated) = (Some(self.rid), false);
        line.request.clone_from(&request);
        self.rid += 1;
        Some((at, request))
    }

    fn body(&mut self, is_opening: bool) -> Vec<u8> {
        let (rid, sid, domain) = (self.rid, &self.sid, &self.domain);
        let begins = std::mem::take(&mut self.begins);
        let attributes = match (is_opening, begins) {
            (true, _) => format!(
                "to='{domain}' hold='1' wait='60' ver='1.6' xml:lang='en' xmpp:version='1.0' xmlns:xmpp='{}'",
                ns::XBOSH
            ),
            (_, true) => format!("sid='{sid}' to='{domain}' xmpp:restart='true' xmlns:xmpp='{}'", ns::XBOSH),
            _ => format!("sid='{sid}'"),
        };
        let mut body = format!("<body rid='{rid}' {attributes} xmlns='{}'", ns::HTTP_BIND).into_bytes();
        if begins || self.waiting.is_empty() {
            body.extend_from_slice(b"/>");
        } else {
            body.push(b'>');
            body.append(&mut self.waiting);
            body.extend_from_slice(b"</body>");
            self.waiting = Vec::new();
        }
        body
    }

    /// Handles bytes from a connection.
    ///
    /// # Errors
    /// They are not a response.
    pub fn receive(&mut self, line: usize, wire: &[u8]) -> Result<(), SessionError> {
        let Some(line) = self.lines.get_mut(line) else { return Ok(()) };
        line.input.extend_from_slice(wire);
        let Some(end) = line.input.windows(4).position(|window| window == b"\r\n\r\n") else { return Ok(()) };
        let head = String::from_utf8_lossy(line.input.get(..end).unwrap_or_default()).to_ascii_lowercase();
        if !head.starts_with("http/1.1 200") {
            return Err(SessionError(format!("not a response of BOSH: {}", head.lines().next().unwrap_or_default())));
        }
        let len = head.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse::<usize>().ok());
        let len = len.ok_or_else(|| SessionError("a response without a length".into()))?;
        let whole = end + 4 + len;
        if let Some(body) = line.input.get(end + 4..whole) {
            line.answer = Some(body.to_vec());
            line.input.drain(..whole);
            line.request = Vec::new();
            line.input.shrink_to_fit();
        }
        Ok(())
    }

    /// Appends the content of the next response in turn to `stream`, in the form of a stream.
    ///
    /// # Errors
    /// The server has ended the session.
    pub fn next(&mut self, stream: &mut Vec<u8>) -> Result<bool, SessionError> {
        let oldest = self.lines.iter_mut().filter(|line| line.rid.is_some()).min_by_key(|line| line.rid);
        let Some(line) = oldest.filter(|line| line.answer.is_some()) else { return Ok(false) };
        line.rid = None;
        let answer = line.answer.take().unwrap_or_default();
        let wrong = |fault| SessionError(format!("the server's response is not well-formed: {fault}"));
        let wrapper = Wrapper::read(&answer, &Limits { bytes: usize::MAX, ..Limits::AFTER_LOGIN }).map_err(wrong)?;
        if wrapper.attr("", "type") == Some("terminate") {
            return Err(SessionError(format!("the server ended the session: {}", String::from_utf8_lossy(&answer))));
        }
        if self.sid.is_empty() {
            self.sid = wrapper.attr("", "sid").unwrap_or_default().to_owned();
        }
        let content = answer.get(wrapper.content..).unwrap_or_default();
        let end = if wrapper.is_empty { 0 } else { memchr::memmem::rfind(content, b"</").unwrap_or_default() };
        let content = content.get(..end).unwrap_or_default();
        if memchr::memmem::find(content, b"<stream:features").is_some() {
            // The beginning of a stream, which the wrapper of BOSH replaces.
            stream.extend_from_slice(
                format!("<stream:stream xmlns='{}' xmlns:stream='{}' version='1.0'>", ns::CLIENT, ns::STREAMS)
                    .as_bytes(),
            );
        }
        stream.extend_from_slice(content);
        Ok(true)
    }

    /// Handles a connection that was closed. Returns `true` if that is harmless, with the request
    /// that has to be sent again.
    pub fn closed(&mut self, line: usize) -> (bool, Option<Vec<u8>>) {
        let Some(line) = self.lines.get_mut(line) else { return (false, None) };
        let is_harmless = line.rid.is_none() || line.answer.is_some();
        if is_harmless || !line.input.is_empty() || std::mem::replace(&mut line.is_repeated, true) {
            return (is_harmless, None);
        }
        (true, Some(line.request.clone()))
    }
}

/// The first request's number. It is large enough, and always the same: a load needs no protection
/// from guessing.
const FIRST: u64 = 1_573_741_820;
