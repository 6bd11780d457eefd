//! The channel below a stream, to which a client binds its login (RFC 5802 §6, RFC 9266, RFC 5929).
//!
//! No TLS is carried. The server gets channel bindings as if it had been there, and the client has
//! the same ones, unless there is somebody in the middle.

use std::array;
use std::collections::BTreeSet;

use rookery_sasl::{BindingType, ChannelBindings, Mechanism};
use rookery_testkit::Server;
use rookery_testkit::wire::Wire;
use rookery_xml::{Element, ns};

use super::UserDevice;
use crate::book::Book;
use crate::draw::SeededDraw;

/// The channel of a connection.
pub(super) struct DeviceChannel {
    of_server: ChannelBindings,
    /// The bindings that the client has, which may not support all types.
    pub(super) of_client: ChannelBindings,
    /// The attack on it, or the client's fault, if there is one: the server mustn't let the client
    /// in.
    pub(super) fault: Option<ChannelFault>,
    /// True if its login is bound to the channel.
    pub(super) is_bound: bool,
}

/// The attacks on a channel, and the fault of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ChannelFault {
    /// The client's TLS ends at an attacker, who has another connection to the server.
    Relayed,
    /// An attacker takes the mechanisms that bind out of the server's list.
    Stripped,
    /// The client binds its login by a type that the connection doesn't have.
    UnknownType,
}

/// The announcements that a client believes to be the server's.
pub(super) struct BelievedOffer {
    /// The mechanism that it chooses.
    pub(super) mechanism: Mechanism,
    /// The names of the mechanisms.
    pub(super) names: Vec<String>,
    /// The channel-binding types (XEP-0440).
    pub(super) types: Option<Vec<String>>,
}

impl DeviceChannel {
    fn draw(draw: &mut SeededDraw, is_attacked: bool) -> Self {
        let faults = [ChannelFault::Relayed, ChannelFault::Stripped, ChannelFault::UnknownType];
        let fault = (is_attacked && draw.percent(15)).then(|| faults[draw.below(faults.len())]);
        let secret: [u8; 32] = array::from_fn(|_| draw.below(256) as u8);
        // RFC 9266 has conditions for TLS 1.2, which the server can't check.
        let is_of_tls12 = fault == Some(ChannelFault::UnknownType) || draw.percent(20);
        let has_exporter = fault == Some(ChannelFault::UnknownType) || !is_of_tls12 && draw.percent(70);
        let of_server = ChannelBindings {
            exporter: (!is_of_tls12).then_some(secret),
            server_end_point: Some(CERTIFICATE.to_vec()),
        };
        let mut of_client = ChannelBindings { exporter: has_exporter.then_some(secret), ..of_server.clone() };
        if fault == Some(ChannelFault::Relayed) {
            let bytes = of_client.exporter.iter_mut().flatten().chain(of_client.server_end_point.iter_mut().flatten());
            bytes.for_each(|byte| *byte = !*byte);
        }
        Self { of_server, of_client, fault, is_bound: false }
    }
}

impl UserDevice {
    /// Returns a new connection that TLS protects.
    pub(super) fn open_channel(&mut self, server: &Server, shard: usize) -> Wire {
        let channel = DeviceChannel::draw(&mut self.channels, self.plan.is_attacked);
        let wire = server.connect_secured(shard, channel.of_server.clone()).wire;
        self.channel = Some(channel);
        wire
    }

    /// Returns the channel bindings that it has.
    pub(super) fn bindings(&self) -> ChannelBindings {
        self.channel.as_ref().map(|channel| channel.of_client.clone()).unwrap_or_default()
    }

    /// Returns the attack on its channel, or its own fault, if there is one.
    pub(super) fn fault(&self) -> Option<ChannelFault> {
        self.channel.as_ref()?.fault
    }

    /// Checks that the server offers channel binding exactly where there is a channel, and that it
    /// announces the right types (RFC 5802 §6, XEP-0440 §2).
    pub(super) fn check_channel(&self, names: &[String], types: Option<&[String]>, book: &mut Book) {
        let bindings = self.channel.as_ref().map(|channel| channel.of_server.clone()).unwrap_or_default();
        let right: BTreeSet<&str> = bindings.types().map(BindingType::name).collect();
        let announced: BTreeSet<&str> = types.unwrap_or_default().iter().map(String::as_str).collect();
        if announced != right {
            let name = self.full();
            book.break_rule(format!("{name} is told the binding types {announced:?}, not {right:?} (XEP-0440 §2)"));
        }
        if names.iter().any(|name| name.ends_with("-PLUS")) && bindings.is_empty() {
            book.break_rule(format!("{} is offered channel binding without a channel (RFC 5802 §6)", self.full()));
        }
    }

    /// Returns the announcements that it believes in, and its choice of a mechanism, given the
    /// server's announcements and the choice that it would make.
    pub(super) fn believe(&mut self, offer: BelievedOffer) -> BelievedOffer {
        let Some(channel) = &mut self.channel else { return offer };
        channel.is_bound = offer.mechanism.binds();
        if !channel.is_bound {
            // Nothing is bound, so nobody can notice anything.
            channel.fault = None;
        }
        match channel.fault {
            Some(ChannelFault::Stripped) => BelievedOffer {
                mechanism: match offer.mechanism {
                    Mechanism::ScramSha1Plus => Mechanism::ScramSha1,
                    Mechanism::ScramSha512Plus => Mechanism::ScramSha512,
                    _ => Mechanism::ScramSha256,
                },
                names: offer.names.into_iter().filter(|name| !name.ends_with("-PLUS")).collect(),
                types: None,
            },
            Some(ChannelFault::UnknownType) => {
                BelievedOffer { types: Some(vec![BindingType::TlsExporter.name().to_owned()]), ..offer }
            }
            Some(ChannelFault::Relayed) | None => offer,
        }
    }

    /// Handles the success of a login. Returns `false` if the channel isn't the server's, or the
    /// client was told so, and the server should have noticed.
    pub(super) fn may_trust_channel(&self, book: &mut Book) -> bool {
        if let Some(fault) = self.fault() {
            book.break_rule(format!("{} is logged in although its channel is {fault:?} (RFC 5802 §6)", self.full()));
            return false;
        }
        book.bound_logins.0 += u64::from(self.channel.as_ref().is_some_and(|channel| channel.is_bound));
        true
    }

    /// Handles the failure of a login. Returns whether it is due to the channel.
    pub(super) fn is_due_to_channel(&self, failure: &Element, book: &mut Book) -> bool {
        let is_temporary =
            failure.children().next().is_some_and(|condition| condition.name() == "temporary-auth-failure");
        let is_faulty = self.fault().is_some();
        book.bound_logins.1 += u64::from(is_faulty && !is_temporary);
        is_faulty
    }
}

/// Returns the channel-binding types that a server announces (XEP-0440 §2).
pub(super) fn binding_types(features: &Element) -> Option<Vec<String>> {
    let list = features.child("sasl-channel-binding", ns::CHANNEL_BINDING)?;
    Some(list.children().filter_map(|binding| binding.attr("type")).map(str::to_owned).collect())
}

/// The hash of the certificate, which all nodes show.
const CERTIFICATE: [u8; 32] = [0xce; 32];
