//! A component's stream (XEP-0114): a service with a name of its own, which doesn't log in, but
//! proves that it knows a secret, and then speaks for all addresses of that name.

use rookery_xml::{Element, Limits};

use crate::{SessionError, StreamItem, StreamReader, words};

/// The stream of one component.
#[derive(Debug)]
pub struct ComponentSession {
    secret: String,
    reader: StreamReader,
    /// True if the server has accepted the secret.
    is_accepted: bool,
    /// The bytes of an incomplete element.
    carry: Vec<u8>,
}

impl ComponentSession {
    /// Starts the stream of a component; the first output is appended to `out`.
    pub fn start(name: &str, secret: &str, out: &mut Vec<u8>) -> Self {
        out.extend_from_slice(words::component_header(name).as_bytes());
        let reader = StreamReader::new(Limits::AFTER_LOGIN);
        Self { secret: secret.to_owned(), reader, is_accepted: false, carry: Vec::new() }
    }

    /// Returns whether the server has accepted the secret, so that stanzas may be sent.
    pub fn is_accepted(&self) -> bool {
        self.is_accepted
    }

    /// Processes bytes from the wire. Calls `each` with every stanza, and appends the output of the
    /// handshake to `out`.
    ///
    /// # Errors
    /// The error that ends the stream.
    pub fn read(&mut self, wire: &[u8], out: &mut Vec<u8>, each: &mut dyn FnMut(Element)) -> Result<(), SessionError> {
        self.carry.extend_from_slice(wire);
        while let Some((len, item)) = self.reader.next(&self.carry).map_err(SessionError::not_well_formed)? {
            self.carry.drain(..len);
            match item {
                None => {}
                Some(StreamItem::Header(header)) => {
                    let digest = words::handshake(&header.id.unwrap_or_default(), &self.secret);
                    out.extend_from_slice(format!("<handshake>{digest}</handshake>").as_bytes());
                }
                Some(StreamItem::Element(element)) if element.name() == "handshake" => self.is_accepted = true,
                Some(StreamItem::Element(element)) if element.name() == "error" && !is_stanza(&element) => {
                    let condition = element.children().next().map_or("no reason", Element::name);
                    return Err(SessionError(format!("the server ended the stream: {condition}")));
                }
                Some(StreamItem::Element(element)) => each(element),
                Some(StreamItem::End) => return Err(SessionError::stream_closed()),
            }
        }
        Ok(())
    }
}

fn is_stanza(element: &Element) -> bool {
    matches!(element.name(), "message" | "presence" | "iq")
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = "<?xml version='1.0'?><stream:stream id='3BF96D32' from='plays.shakespeare.lit' \
                          xmlns='jabber:component:accept' xmlns:stream='http://etherx.jabber.org/streams'>";

    #[test]
    fn the_secret_is_shown_and_stanzas_follow() {
        let (mut out, mut came) = (Vec::new(), Vec::new());
        let mut component = ComponentSession::start("plays.shakespeare.lit", "secret", &mut out);
        assert!(String::from_utf8_lossy(&out).contains("to='plays.shakespeare.lit'"));
        out.clear();
        component.read(HEADER.as_bytes(), &mut out, &mut |_| {}).unwrap();
        let digest = words::handshake("3BF96D32", "secret");
        assert_eq!(String::from_utf8_lossy(&out), format!("<handshake>{digest}</handshake>"));
        assert!(!component.is_accepted());
        for byte in b"<handshake/><message from='a@b' to='c@plays.shakespeare.lit'><body>Hi</body></message>".chunks(1)
        {
            component.read(byte, &mut out, &mut |element| came.push(element)).unwrap();
        }
        assert!(component.is_accepted());
        assert_eq!(came.iter().map(Element::name).collect::<Vec<_>>(), ["message"]);
    }

    #[test]
    fn a_wrong_secret_is_told() {
        let mut component = ComponentSession::start("plays.shakespeare.lit", "secret", &mut Vec::new());
        let refused = "<stream:error><not-authorized xmlns='urn:ietf:params:xml:ns:xmpp-streams'/></stream:error>";
        let error = component.read((HEADER.to_owned() + refused).as_bytes(), &mut Vec::new(), &mut |_| {}).unwrap_err();
        assert_eq!(error.to_string(), "the server ended the stream: not-authorized");
    }
}
