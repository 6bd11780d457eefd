//! STARTTLS (RFC 6120 §5).

use super::{C2s, C2sEvent, C2sPhase, Facts};
use crate::error::STREAM_END;
use crate::opening::Opening;

impl C2s {
    /// Begins a connection that encrypts from its first byte (XEP-0368): the stream begins with
    /// [`C2s::tls_started`], as it does after STARTTLS. Must be called before anything is read.
    pub fn begin_with_tls(&mut self) {
        self.phase = C2sPhase::Tls;
    }

    /// Answers [`C2sEvent::StartTls`], or follows [`C2s::begin_with_tls`], when the handshake is
    /// complete: the stream restarts, and everything that the client said before is void (RFC 6120
    /// §5.4.3.3).
    pub fn tls_started(&mut self, facts: Facts) {
        if !matches!(self.phase, C2sPhase::Tls) {
            return;
        }
        self.facts = facts;
        self.restart();
    }

    /// Replies to `<starttls/>`; `behind` is the input after it.
    ///
    /// Bytes after it came in the clear, from the client or from somebody who injected them: a
    /// client must wait for `<proceed/>`. They are refused rather than dropped, because a client
    /// that sends them would wait for the reply. §5.3.3 doesn't allow whitespace either, but some
    /// clients end every element with a line break (Go's `xmpp` package), and whitespace can carry
    /// no content: it is dropped.
    pub(super) fn starttls(&mut self, behind: &[u8], out: &mut Vec<u8>) {
        let silent = behind.iter().all(|byte| matches!(byte, b' ' | b'\t' | b'\r' | b'\n'));
        if !self.facts.starttls_offered() || !matches!(self.phase, C2sPhase::Login) || !silent {
            // §5.4.2.2: the failure is followed by the end of the stream.
            out.extend_from_slice(FAILURE);
            out.extend_from_slice(STREAM_END);
            self.phase = C2sPhase::Ending;
            return;
        }
        out.extend_from_slice(PROCEED);
        self.phase = C2sPhase::Tls;
        self.pending = Some(C2sEvent::StartTls);
    }

    /// Waits for a new stream header: the old stream is gone without having been closed (RFC 6120
    /// §4.3.3).
    pub(super) fn restart(&mut self) {
        self.scanner.reset();
        self.opened = false;
        self.lang = None;
        self.prefix.clear();
        self.prefixes.clear();
        self.phase = C2sPhase::Header(Opening::default());
    }
}

const PROCEED: &[u8] = b"<proceed xmlns='urn:ietf:params:xml:ns:xmpp-tls'/>";

const FAILURE: &[u8] = b"<failure xmlns='urn:ietf:params:xml:ns:xmpp-tls'/>";
