//! Transports on the command line.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use rookery_base::Transport;

/// All transports that the engine's clients support.
pub const TRANSPORTS: [Transport; 3] = [Transport::Tcp, Transport::WebSocket, Transport::Bosh];

/// Returns a parser of their names.
pub fn parser() -> impl TypedValueParser<Value = Transport> {
    let values = TRANSPORTS.map(|transport| PossibleValue::new(transport.label()).help(help(transport)));
    PossibleValuesParser::new(values).map(|name| {
        // Other names were refused.
        TRANSPORTS.into_iter().find(|transport| transport.label() == name).unwrap_or_default()
    })
}

fn help(transport: Transport) -> &'static str {
    match transport {
        Transport::Tcp => "A TCP connection (RFC 6120)",
        Transport::WebSocket => "A WebSocket (RFC 7395), at /xmpp-websocket",
        Transport::Bosh => "HTTP requests (XEP-0124), at /http-bind",
    }
}
