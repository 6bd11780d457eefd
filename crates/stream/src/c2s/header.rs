//! Opening a stream (RFC 6120 §4.2, §4.7): reading the client's header, judging it, and sending the
//! server's.

use rookery_jid::{Jid, JidError};
use rookery_xml::header::{self, Header};
use rookery_xml::{escape_attr, ns};

use super::features::{self, FeatureOffer};
use super::{C2s, C2sEvent, C2sPhase};
use crate::error::{STREAM_END, StreamError};

impl C2s {
    /// Returns whether the input of an open stream begins with a stream header: a client restarts
    /// the stream where it must not. To the scanner that would be an element that never ends.
    pub(super) fn opens_again(&self, input: &[u8]) -> bool {
        let behind = input
            .strip_prefix(b"<")
            .and_then(|rest| rest.strip_prefix(self.prefix.as_bytes()))
            .and_then(|rest| rest.strip_prefix(b":stream"));
        behind.and_then(<[u8]>::first).is_some_and(|byte| matches!(byte, b' ' | b'\t' | b'\r' | b'\n' | b'>' | b'/'))
    }

    /// Takes the header of a stream. Whitespace may precede it, since some may follow the end of
    /// the previous content.
    pub(super) fn header(&mut self, input: &[u8], out: &mut Vec<u8>) -> Option<usize> {
        let space = input.iter().take_while(|byte| matches!(byte, b' ' | b'\t' | b'\r' | b'\n')).count();
        if space > 0 {
            return Some(space);
        }
        let C2sPhase::Header(opening) = &mut self.phase else { return None };
        let limits = &self.policy.limits_before;
        if !opening.worthwhile(input) && input.len() <= limits.bytes {
            return None;
        }
        match header::parse(input, limits) {
            Ok(None) => None,
            Ok(Some((length, header))) => {
                self.open(header, out);
                Some(length)
            }
            Err(fault) => {
                self.fail(&StreamError::from(fault), Some(fault.text()), out);
                Some(0)
            }
        }
    }

    /// Replies to a header with the server's own and the features, or an error.
    fn open(&mut self, header: Header, out: &mut Vec<u8>) {
        let addresses = self.addresses(&header);
        let judged = judge(&header).and(addresses);
        if let Ok((host, _)) = &judged {
            self.host = *host;
        }
        let client = judged.as_ref().ok().and_then(|(_, client)| client.as_ref());
        self.write_header(client, out);
        if let Err((error, text)) = judged {
            return self.fail(&error, Some(text), out);
        }
        if let Ok((_, client)) = judged {
            self.client = client;
        }
        // The language is added to stanzas that the client sends without one of their own (§4.7.4):
        // a text that isn't a valid tag mustn't make them long.
        self.lang = header.lang.filter(|lang| lang.len() <= MAX_LANG);
        self.prefix = header.prefix.unwrap_or_default();
        self.prefixes = header.prefixes;
        let offer = FeatureOffer { policy: &self.policy, host: self.host(), facts: &self.facts };
        if self.account.is_some() {
            features::after_login(&offer, out);
            self.phase = C2sPhase::Bind;
            self.pending = Some(C2sEvent::BegunAgain);
        } else {
            features::before_login(&offer, out);
            self.phase = C2sPhase::Login;
        }
    }

    /// Returns the index of the host in `to`, and the bare JID in `from`, if the client gave one.
    ///
    /// A client must send `to` (§4.7.2). Many servers, and this one, assume the only host if a
    /// client doesn't, and refuse it with `improper-addressing` if there are several.
    fn addresses(&self, header: &Header) -> Result<(usize, Option<Jid>), HeaderRefusal> {
        let host = match &header.to {
            Some(to) => {
                let to = Jid::parse(to).map_err(|_: JidError| IMPROPER_TO)?;
                self.policy.host_named(to.domain()).filter(|_| to.is_domain()).ok_or(HOST_UNKNOWN)?
            }
            None if self.account.is_some() => self.host,
            None if self.policy.hosts.len() == 1 => 0,
            None => return Err(NO_TO),
        };
        let client = match &header.from {
            Some(from) => Some(Jid::parse(from).map_err(|_: JidError| IMPROPER_FROM)?.to_bare()),
            None => None,
        };
        if let Some(account) = &self.account {
            if host != self.host {
                return Err(OTHER_HOST);
            }
            if client.as_ref().is_some_and(|client| client != account) {
                return Err(OTHER_FROM);
            }
        }
        Ok((host, client))
    }

    /// Writes the server's header (§4.7): `to` only if the client said who it is.
    fn write_header(&mut self, to: Option<&Jid>, out: &mut Vec<u8>) {
        let id = (self.ids)();
        out.extend_from_slice(b"<?xml version='1.0'?><stream:stream xmlns='jabber:client'");
        let id = format!("{id:032x}");
        let from = self.host().map(|host| host.name.as_str());
        let attributes = [
            ("xmlns:stream", Some(ns::STREAMS)),
            ("id", Some(id.as_str())),
            ("from", from),
            ("to", to.map(Jid::as_str)),
            ("xml:lang", Some(LANG)),
            ("version", Some("1.0")),
        ];
        for (name, value) in attributes {
            if let Some(value) = value {
                out.extend_from_slice(format!(" {name}='{}'", escape_attr(value)).as_bytes());
            }
        }
        out.push(b'>');
        self.opened = true;
    }

    /// Ends the stream with an error, after the server's own header if that hasn't been sent yet
    /// (§4.9.1.2).
    pub(super) fn fail(&mut self, error: &StreamError, text: Option<&str>, out: &mut Vec<u8>) {
        if !self.opened {
            self.write_header(None, out);
        }
        error.render(text, out);
        self.phase = C2sPhase::Ending;
    }

    /// Ends the stream because the client does (§4.4).
    pub(super) fn end(&mut self, out: &mut Vec<u8>) {
        out.extend_from_slice(STREAM_END);
        self.phase = C2sPhase::Ending;
    }
}

/// The error with which a header is refused, and an explanation.
type HeaderRefusal = (StreamError, &'static str);

/// Checks the parts that don't depend on addresses: the content namespace (§4.8.2) and the version
/// (§4.7.5).
fn judge(header: &Header) -> Result<(), HeaderRefusal> {
    if header.default_ns != ns::CLIENT {
        return Err(NOT_A_CLIENT);
    }
    // A higher major version is answered with ours, the lower of both; a missing version means 0.9.
    let version = header.version.as_deref().unwrap_or("0.9");
    match version.split_once('.').map(|(major, minor)| (major.parse(), minor.parse::<u32>())) {
        Some((Ok(1u32..), Ok(_))) => Ok(()),
        _ => Err(OLD_VERSION),
    }
}

const NOT_A_CLIENT: HeaderRefusal = (StreamError::InvalidNamespace, "The content namespace has to be jabber:client.");
const OLD_VERSION: HeaderRefusal = (StreamError::UnsupportedVersion, "Version 1.0 or later is needed.");
const IMPROPER_TO: HeaderRefusal = (StreamError::ImproperAddressing, "The 'to' is not an address.");
const NO_TO: HeaderRefusal = (StreamError::ImproperAddressing, "A 'to' is needed.");
const IMPROPER_FROM: HeaderRefusal = (StreamError::ImproperAddressing, "The 'from' is not an address.");
const HOST_UNKNOWN: HeaderRefusal = (StreamError::HostUnknown, "That host is not served here.");
const OTHER_HOST: HeaderRefusal = (StreamError::NotAuthorized, "The host may not change after login.");
const OTHER_FROM: HeaderRefusal = (StreamError::InvalidFrom, "The 'from' is not the user who has logged in.");

/// The language of the texts in errors (§4.7.4).
const LANG: &str = "en";

/// The most bytes of a language tag. BCP 47 §4.4.1 knows none above 35.
const MAX_LANG: usize = 64;
