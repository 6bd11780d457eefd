//! XEP-0198: Stream Management. Neither side loses a stanza when a connection breaks.
//!
//! The streams and the hub implement it ([`rookery_hub::management`]); this module switches it on,
//! announces it, and declares its options.
//!
//! Left out: `location` (§3), since a session can be resumed at any address of this server.

use rookery_hub::management::{MAX_BYTES, MAX_STANZAS, MODULE, RESUME_SECONDS};
use rookery_hub::{Bound, Hooks, Module, Most, OptionSpec, Per, Unit, Value};
use rookery_modkit::option;
use rookery_xml::{Writer, ns};

/// The module for acknowledged streams, and for sessions that survive their connection.
#[derive(Debug)]
pub struct StreamManagement;

impl Module for StreamManagement {
    fn name(&self) -> &'static str {
        MODULE
    }

    fn summary(&self) -> &'static str {
        "sessions survive broken connections, and no message is lost"
    }

    fn standards(&self) -> &'static [(&'static str, &'static str)] {
        &[("XEP-0198", "1.6.3")]
    }

    fn left_out(&self) -> &'static [(&'static str, &'static str)] {
        &[("XEP-0198", "`location` (§3): any address of this server will do")]
    }

    fn options(&self) -> &'static [OptionSpec] {
        &[SECONDS, STANZAS, BYTES]
    }

    fn bounds(&self) -> &'static [Bound] {
        &BOUNDS
    }

    fn install(&self, hooks: &mut Hooks<'_>) {
        hooks.login_features(|_, _| vec![Writer::with_ns("sm", ns::SM).finish()]);
    }
}

const SECONDS: OptionSpec = OptionSpec {
    key: RESUME_SECONDS,
    default: || Value::Number(600),
    doc: "seconds that a session waits for its client when the connection is lost; 0 ends it at once",
    check: option::any,
};

const STANZAS: OptionSpec = OptionSpec {
    key: MAX_STANZAS,
    default: || Value::Number(5000),
    doc: "stanzas that may wait for one client or for its acknowledgement; one more ends its session, and the waiting ones are delivered elsewhere",
    check: option::at_least_one,
};

const BYTES: OptionSpec = OptionSpec {
    key: MAX_BYTES,
    default: || Value::Number(1024 * 1024),
    doc: "the same in bytes",
    check: option::at_least_one,
};

const BOUNDS: [Bound; 3] = [
    Bound::on(
        "the time for which a session waits for its client",
        Per::Session,
        Most::Option(RESUME_SECONDS),
        Unit::Seconds,
    )
    .or("the session ends; its messages go elsewhere"),
    Bound::on("unacknowledged stanzas", Per::Session, Most::Option(MAX_STANZAS), Unit::Number)
        .or("the session ends; its messages go elsewhere"),
    Bound::on("unacknowledged stanzas", Per::Session, Most::Option(MAX_BYTES), Unit::Bytes)
        .or("the session ends; its messages go elsewhere"),
];
