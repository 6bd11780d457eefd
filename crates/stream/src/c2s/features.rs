//! The stream features, composed in one place from one table per state of the stream (RFC 6120
//! §4.3.2).
//!
//! A feature is a function that writes its element, or nothing. To be included, it needs a line in
//! the table.

use rookery_sasl::{Mechanism, TokenMechanism};
use rookery_xml::{Limits, Scan, Scanner, Writer, ns};

use super::{Facts, Host, Policy};

/// The facts that the features depend on.
pub(super) struct FeatureOffer<'a> {
    pub policy: &'a Policy,
    pub host: Option<&'a Host>,
    pub facts: &'a Facts,
}

/// Appends `<stream:features/>` of a stream whose client has not logged in.
pub(super) fn before_login(offer: &FeatureOffer<'_>, out: &mut Vec<u8>) {
    compose(BEFORE_LOGIN, offer, out);
}

/// Appends `<stream:features/>` of a stream whose client has logged in and has no resource.
pub(super) fn after_login(offer: &FeatureOffer<'_>, out: &mut Vec<u8>) {
    compose(AFTER_LOGIN, offer, out);
}

/// Appends `<stream:features/>` of a stream that has a resource already.
pub(super) fn after_bind(offer: &FeatureOffer<'_>, out: &mut Vec<u8>) {
    compose(AFTER_BIND, offer, out);
}

/// Appends `<stream:features/>` of a stream that has a resource, if stream management was enabled
/// along with it.
pub(super) fn after_enabling(offer: &FeatureOffer<'_>, out: &mut Vec<u8>) {
    compose(AFTER_ENABLING, offer, out);
}

type Feature = fn(&FeatureOffer<'_>, &mut Vec<u8>);

const BEFORE_LOGIN: &[Feature] =
    &[starttls, mechanisms, authentication, channel_bindings, host_before_login, limits_before];

const AFTER_LOGIN: &[Feature] = &[bind, session, roster_versions, pre_approval, host_after_login, limits_after];

const AFTER_BIND: &[Feature] = &[roster_versions, pre_approval, host_after_login, limits_after];

const AFTER_ENABLING: &[Feature] = &[roster_versions, pre_approval, host_after_enabling, limits_after];

fn compose(features: &[Feature], offer: &FeatureOffer<'_>, out: &mut Vec<u8>) {
    out.extend_from_slice(b"<stream:features>");
    for feature in features {
        feature(offer, out);
    }
    out.extend_from_slice(b"</stream:features>");
}

/// Writes `<starttls/>` (RFC 6120 §5.4.1), with `<required/>` unless the client may log in without
/// it.
fn starttls(offer: &FeatureOffer<'_>, out: &mut Vec<u8>) {
    if !offer.facts.starttls_offered() {
        return;
    }
    let mut starttls = Writer::with_ns("starttls", ns::STARTTLS);
    if !offer.facts.plaintext_login_allowed {
        starttls.start("required").end();
    }
    append(starttls, out);
}

/// Writes the mechanisms, strongest first (RFC 6120 §6.4.1). None is listed where none may be used:
/// an offer that is refused afterwards would invite clients to send passwords in the clear.
fn mechanisms(offer: &FeatureOffer<'_>, out: &mut Vec<u8>) {
    let offered = offer.policy.mechanisms_for(offer.facts, offer.host);
    if offered.is_empty() {
        return;
    }
    let mut mechanisms = Writer::with_ns("mechanisms", ns::SASL);
    for mechanism in offered {
        mechanisms.start("mechanism").text(mechanism.name()).end();
    }
    append(mechanisms, out);
}

/// Writes the mechanisms as XEP-0388 frames them, and the features that may be requested along with
/// them.
fn authentication(offer: &FeatureOffer<'_>, out: &mut Vec<u8>) {
    let Some(sasl2) = offer.host.and_then(|host| host.sasl2.as_ref()) else { return };
    let offered = offer.policy.mechanisms_for(offer.facts, offer.host);
    if offered.is_empty() {
        return;
    }
    let mut feature = Writer::with_ns("authentication", ns::SASL2);
    for mechanism in offered {
        feature.start("mechanism").text(mechanism.name()).end();
    }
    feature.start("inline");
    let is_managed = offer.facts.transport.is_managed();
    if sasl2.resumption && is_managed {
        feature.start_ns("sm", ns::SM).end();
    }
    if let Some(features) = &sasl2.bind {
        feature.start_ns("bind", ns::BIND2).start("inline");
        for var in features.iter().filter(|&&var| is_managed || var != ns::SM) {
            feature.start("feature").attr("var", var).end();
        }
        feature.end().end();
    }
    if sasl2.fast && offer.facts.secure {
        // XEP-0484 §3.1.
        feature.start_ns("fast", ns::FAST);
        for mechanism in TokenMechanism::to_offer(&offer.facts.bindings) {
            feature.start("mechanism").text(mechanism.name()).end();
        }
        feature.end();
    }
    feature.end();
    append(feature, out);
}

/// Writes the channel-binding types (XEP-0440 §2), so that a client picks one the server has.
fn channel_bindings(offer: &FeatureOffer<'_>, out: &mut Vec<u8>) {
    let binds = offer.policy.mechanisms_for(offer.facts, offer.host).into_iter().any(Mechanism::binds);
    if !binds {
        return;
    }
    let mut list = Writer::with_ns("sasl-channel-binding", ns::CHANNEL_BINDING);
    for binding in offer.facts.bindings.types() {
        list.start("channel-binding").attr("type", binding.name()).end();
    }
    append(list, out);
}

/// Appends the host's own features, e.g. registration (XEP-0077 §4); they are useless until a login
/// is allowed.
fn host_before_login(offer: &FeatureOffer<'_>, out: &mut Vec<u8>) {
    if let Some(host) = offer.host
        && offer.facts.login_allowed()
    {
        out.extend_from_slice(&host.before_login_features);
    }
}

/// Writes the feature of binding (RFC 6120 §7.4).
fn bind(_: &FeatureOffer<'_>, out: &mut Vec<u8>) {
    append(Writer::with_ns("bind", ns::BIND), out);
}

/// Writes the session feature of RFC 3921 §3, which RFC 6121 dropped: clients that still ask for a
/// session are told that they needn't.
fn session(_: &FeatureOffer<'_>, out: &mut Vec<u8>) {
    let mut session = Writer::with_ns("session", ns::SESSION);
    session.start("optional").end();
    append(session, out);
}

/// Writes the feature of roster versions (RFC 6121 §2.6.1).
fn roster_versions(_: &FeatureOffer<'_>, out: &mut Vec<u8>) {
    append(Writer::with_ns("ver", ns::ROSTER_VERSIONING), out);
}

/// Writes the feature of pre-approval (RFC 6121 §3.4).
fn pre_approval(_: &FeatureOffer<'_>, out: &mut Vec<u8>) {
    append(Writer::with_ns("sub", ns::PRE_APPROVAL), out);
}

/// Appends the host's features for after login, e.g. its entity capabilities (XEP-0115 §6.3).
fn host_after_login(offer: &FeatureOffer<'_>, out: &mut Vec<u8>) {
    match offer.host {
        Some(_) if !offer.facts.transport.is_managed() => host_after_enabling(offer, out),
        Some(host) => out.extend_from_slice(&host.after_login_features),
        None => {}
    }
}

/// Appends the same without stream management (XEP-0198), which is enabled already, or which the
/// transport has no use for: some clients enable it whenever it is offered.
fn host_after_enabling(offer: &FeatureOffer<'_>, out: &mut Vec<u8>) {
    let mut rest = offer.host.map_or(&[][..], |host| &host.after_login_features);
    let mut scanner = Scanner::new();
    while let Ok(Scan::Stanza(len)) = scanner.scan(rest, &Limits::AFTER_LOGIN) {
        let feature = scanner.stanza(rest);
        if feature.ns() != ns::SM {
            out.extend_from_slice(feature.bytes());
        }
        rest = rest.get(len..).unwrap_or_default();
    }
}

fn limits_before(offer: &FeatureOffer<'_>, out: &mut Vec<u8>) {
    limits(offer.policy.limits_before.bytes, offer.policy.idle_before, out);
}

fn limits_after(offer: &FeatureOffer<'_>, out: &mut Vec<u8>) {
    limits(offer.policy.limits_after.bytes, offer.policy.idle_after, out);
}

/// Writes the limits of the stream (XEP-0478 §3.1): the largest first-level element in bytes, and
/// how long the stream may be silent.
fn limits(max_bytes: usize, idle_seconds: Option<u32>, out: &mut Vec<u8>) {
    let mut limits = Writer::with_ns("limits", STREAM_LIMITS);
    limits.start("max-bytes").text(&max_bytes.to_string()).end();
    if let Some(seconds) = idle_seconds {
        limits.start("idle-seconds").text(&seconds.to_string()).end();
    }
    append(limits, out);
}

fn append(feature: Writer, out: &mut Vec<u8>) {
    out.extend_from_slice(feature.finish().bytes());
}

/// XEP-0478: Stream Limits Advertisement.
const STREAM_LIMITS: &str = "urn:xmpp:stream-limits:0";
