//! The opening handshake of a WebSocket (RFC 6455 §4, RFC 7395 §3.1). Afterwards the connection
//! belongs to a shard.

use std::io;

use base64::{Engine, engine::general_purpose::STANDARD};
use hyper::body::Incoming;
use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::{Request, Response, StatusCode, Version};
use rookery_base::Transport;
use rookery_sasl::ChannelBindings;
use rookery_shard::Handed;
use sha1::{Digest, Sha1};

use crate::client::has_token;
use crate::conduit::{Conduit, ConduitParts};
use crate::exit::{Exit, Leave};
use crate::proxy::Origin;
use crate::reply::{Body, text};
use crate::site::{self, PageSite};
use crate::{WebSettings, WebShared};

/// Replies to the handshake. The connection goes to a shard once the response has left: see
/// [`give`].
pub(crate) fn upgrade(
    request: &Request<Incoming>,
    origin: Origin,
    settings: &WebSettings,
    exit: &Exit,
) -> Response<Body> {
    let accept = match judge(request.version(), request.headers()) {
        Ok(accept) => accept,
        Err(refusal) => return refuse(refusal),
    };
    let site = settings.names.site(request);
    if site == PageSite::Foreign {
        return refuse(HandshakeRefusal::Site);
    }
    exit.leave(Leave::WebSocket(origin, site));
    let mut response = Response::new(Body::default());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers = response.headers_mut();
    headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(header::SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(PROTOCOL));
    if let Ok(accept) = HeaderValue::from_str(&accept) {
        headers.insert(header::SEC_WEBSOCKET_ACCEPT, accept);
    }
    response
}

/// Passes the connection to a shard.
///
/// # Errors
/// The system's error about the socket.
pub(crate) fn give(conduit: Conduit, origin: Origin, site: PageSite, shared: &WebShared) -> io::Result<()> {
    let ConduitParts { socket, tls, input } = conduit.into_parts()?;
    shared.door.hand_over(Handed {
        socket: socket.into(),
        peer: origin.address,
        tls,
        // A script in a browser doesn't see the TLS channel and so can't bind to it, and libraries
        // for browsers fail if that is offered.
        bindings: ChannelBindings::default(),
        input,
        is_encrypted_by_proxy: origin.by_proxy,
        is_local: origin.way.is_known() && site == PageSite::Own,
        transport: Transport::WebSocket,
    });
    Ok(())
}

/// The reason why a handshake is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HandshakeRefusal {
    /// It is an ordinary request.
    NotOne,
    /// The version isn't 13 (RFC 6455 §4.4).
    Version,
    /// The key doesn't have 16 bytes (§4.1).
    Key,
    /// The client doesn't offer XMPP (RFC 7395 §3.1).
    Protocol,
    /// The request comes from a page of a site that isn't allowed (RFC 6455 §10.2).
    Site,
}

/// Checks the handshake; returns the value that accepts it (RFC 6455 §4.2.2).
fn judge(version: Version, headers: &HeaderMap) -> Result<String, HandshakeRefusal> {
    let is_upgrade =
        has_token(headers, header::CONNECTION, "upgrade") && has_token(headers, header::UPGRADE, "websocket");
    if version != Version::HTTP_11 || !is_upgrade {
        return Err(HandshakeRefusal::NotOne);
    }
    if headers.get(header::SEC_WEBSOCKET_VERSION).is_none_or(|version| version != "13") {
        return Err(HandshakeRefusal::Version);
    }
    let key = headers.get(header::SEC_WEBSOCKET_KEY).ok_or(HandshakeRefusal::Key)?.as_bytes();
    if STANDARD.decode(key).map(|nonce| nonce.len()) != Ok(16) {
        return Err(HandshakeRefusal::Key);
    }
    if !has_token(headers, header::SEC_WEBSOCKET_PROTOCOL, PROTOCOL) {
        return Err(HandshakeRefusal::Protocol);
    }
    Ok(STANDARD.encode(Sha1::new().chain_update(key).chain_update(GUID).finalize()))
}

fn refuse(refusal: HandshakeRefusal) -> Response<Body> {
    match refusal {
        HandshakeRefusal::NotOne => {
            let mut refused = text(StatusCode::UPGRADE_REQUIRED, "this is for XMPP over WebSocket (RFC 7395)");
            refused.headers_mut().insert(header::UPGRADE, HeaderValue::from_static("websocket"));
            refused.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
            refused
        }
        HandshakeRefusal::Version => {
            let mut refused = text(StatusCode::UPGRADE_REQUIRED, "only version 13 of WebSocket is supported");
            refused.headers_mut().insert(header::SEC_WEBSOCKET_VERSION, HeaderValue::from_static("13"));
            refused
        }
        HandshakeRefusal::Key => text(StatusCode::BAD_REQUEST, "Sec-WebSocket-Key is not 16 bytes in Base64"),
        HandshakeRefusal::Site => text(StatusCode::FORBIDDEN, site::FOREIGN),
        HandshakeRefusal::Protocol => text(StatusCode::BAD_REQUEST, "Sec-WebSocket-Protocol does not name xmpp"),
    }
}

/// RFC 7395 §3.1.
const PROTOCOL: &str = "xmpp";
/// RFC 6455 §1.3.
const GUID: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(changes: &[(&'static str, Option<&str>)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        let all = [
            ("connection", Some("keep-alive, Upgrade")),
            ("upgrade", Some("WebSocket")),
            ("sec-websocket-version", Some("13")),
            ("sec-websocket-key", Some("dGhlIHNhbXBsZSBub25jZQ==")),
            ("sec-websocket-protocol", Some("chat, xmpp")),
        ];
        for (name, value) in all.iter().chain(changes) {
            match value {
                Some(value) => drop(headers.insert(*name, value.parse().unwrap())),
                None => drop(headers.remove(*name)),
            }
        }
        headers
    }

    #[test]
    fn the_example_of_the_standard_is_accepted() {
        // RFC 6455 §1.3.
        let accepted = judge(Version::HTTP_11, &headers(&[]));
        assert_eq!(accepted.as_deref(), Ok("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="));
    }

    #[test]
    fn each_fault_is_told() {
        let refusal = |changes| judge(Version::HTTP_11, &headers(changes)).unwrap_err();
        assert_eq!(judge(Version::HTTP_10, &headers(&[])), Err(HandshakeRefusal::NotOne));
        assert_eq!(refusal(&[("upgrade", None)]), HandshakeRefusal::NotOne);
        assert_eq!(refusal(&[("connection", Some("close"))]), HandshakeRefusal::NotOne);
        assert_eq!(refusal(&[("sec-websocket-version", Some("8"))]), HandshakeRefusal::Version);
        assert_eq!(refusal(&[("sec-websocket-key", Some("AAAA"))]), HandshakeRefusal::Key);
        assert_eq!(refusal(&[("sec-websocket-key", None)]), HandshakeRefusal::Key);
        assert_eq!(refusal(&[("sec-websocket-protocol", Some("chat"))]), HandshakeRefusal::Protocol);
        assert_eq!(refuse(HandshakeRefusal::Version).headers()["sec-websocket-version"], "13");
        assert_eq!(refuse(HandshakeRefusal::NotOne).status(), StatusCode::UPGRADE_REQUIRED);
    }
}
