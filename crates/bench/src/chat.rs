//! The stanzas that benchmarks send.

/// Returns the address of the account with this number. It is as long as a real one.
pub fn account(number: usize, domain: &str) -> String {
    format!("{}@{domain}", local(number))
}

/// Returns the localpart of the account with this number.
pub fn local(number: usize) -> String {
    format!("user{number:07}")
}

/// Returns a chat message as a client sends it, of [`BYTES`] bytes if the addresses leave room: it
/// has a body with an entity, a chat state and a request for a receipt. Its form is that of the
/// 288-byte stanza in the scanner's benchmark.
pub fn message(from: &str, to: &str) -> String {
    let head = format!(
        "<message to='{to}' from='{from}' type='chat' id='9b2f6a1e-5c1d-4f5e-8a4b-0d3c'><body>Wherefore &amp; "
    );
    let room = BYTES.saturating_sub(head.len() + TAIL.len());
    head + &"x".repeat(room) + TAIL
}

/// Available presence as clients send it, with entity capabilities (XEP-0115).
pub const PRESENCE: &str = "<presence><priority>5</priority><show>away</show>\
    <c xmlns='http://jabber.org/protocol/caps' hash='sha-1' node='https://client.example' ver='QgayPKawpkPSDYmwbVO6khIbUKE='/>\
    </presence>";

/// Bytes of a [`message`].
pub const BYTES: usize = 288;

const TAIL: &str =
    "</body><active xmlns='http://jabber.org/protocol/chatstates'/><request xmlns='urn:xmpp:receipts'/></message>";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_has_the_bytes_that_it_should_and_is_a_stanza() {
        let text = message("user0000001@localhost/bench", "user0000002@localhost/bench");
        assert_eq!(text.len(), BYTES);
        for text in [text.as_str(), PRESENCE] {
            assert!(rookery_xml::Stanza::parse(text.as_bytes(), &rookery_xml::Limits::AFTER_LOGIN).is_ok(), "{text}");
        }
    }
}
