//! XEP-0484: Fast Authentication Streamlining Tokens. A client that has logged in once comes back
//! in one round trip, without the password.
//!
//! Streams and hub implement it ([`rookery_hub::fast`]); this module switches it on and declares
//! its options. It needs the module `sasl2`.
//!
//! Left out: TLS 0-RTT, which no stream accepts; `HT-SHA-256-UNIQ`, since TLS 1.3 lacks its channel
//! binding.

use rookery_hub::fast::{CLIENTS, DAYS, DOCUMENTS, MODULE, ROTATE_HOURS};
use rookery_hub::{Bound, DocumentSpec, Hooks, Module, Most, OptionSpec, Per, Unit, Value};
use rookery_modkit::option;

/// The module for logging in with tokens.
#[derive(Debug)]
pub struct Fast;

impl Module for Fast {
    fn name(&self) -> &'static str {
        MODULE
    }

    fn summary(&self) -> &'static str {
        "clients can return with a token instead of the password, in one round trip"
    }

    fn standards(&self) -> &'static [(&'static str, &'static str)] {
        &[("XEP-0484", "0.2.0")]
    }

    fn left_out(&self) -> &'static [(&'static str, &'static str)] {
        &[("XEP-0484", "TLS 0-RTT; `HT-SHA-256-UNIQ`, whose binding TLS 1.3 doesn't have")]
    }

    fn options(&self) -> &'static [OptionSpec] {
        &[LIFETIME, ROTATION, INSTALLATIONS]
    }

    fn bounds(&self) -> &'static [Bound] {
        &BOUNDS
    }

    fn documents(&self) -> &'static [DocumentSpec] {
        &[DOCUMENTS]
    }

    fn install(&self, _: &mut Hooks<'_>) {}
}

const LIFETIME: OptionSpec = OptionSpec {
    key: DAYS,
    default: || Value::Number(21),
    doc: "days for which a token is valid: a client that stays away longer needs its password again",
    check: days,
};

const ROTATION: OptionSpec = OptionSpec {
    key: ROTATE_HOURS,
    default: || Value::Number(24),
    doc: "hours after which a client that logs in with a token gets a new one",
    check: option::any,
};

const INSTALLATIONS: OptionSpec = OptionSpec {
    key: CLIENTS,
    default: || Value::Number(20),
    doc: "clients of one user that may have tokens; one more invalidates the oldest",
    check: option::at_least_one,
};

fn days(value: &Value) -> Result<(), String> {
    match value {
        Value::Number(1..=3650) => Ok(()),
        _ => Err("must be from 1 to 3650".to_owned()),
    }
}

const BOUNDS: [Bound; 2] = [
    Bound::on("clients that have tokens", Per::Account, Most::Option(CLIENTS), Unit::Number)
        .or("the oldest token becomes invalid")
        .kept_in(&["documents"]),
    Bound::on("the time for which a token is valid", Per::Other("token"), Most::Option(DAYS), Unit::Days)
        .or("the client needs its password again"),
];
