//! Rules about the stanzas that an account lets through: XEP-0191 Blocking Command and XEP-0016
//! Privacy Lists, over one set of rules.
//!
//! # Layout
//!
//! [`rules`]: the rules, as pure functions. `passage`: their effect on incoming and outgoing
//! stanzas. [`blocking`] and `lists`: the requests of the two standards. `sessions`: the active
//! list of each session. `report`: reports about blocked users (XEP-0377). `limits`: the number of
//! rules. `pushes`: notifications of clients about changes. `change`: the transition from one set
//! of rules to the next, with the notifications of contacts and resources.
//!
//! # Invariants
//!
//! * The rules are a document in memory ([`Hooks::document`]), so that they also apply to an
//!   account without a session: nothing from a blocked contact is delivered, stored or archived.
//!   They come before every other module (`Phase::Guard`).
//! * Nothing stops communication between an account's resources and its own server.
//! * Rules apply from the moment of the request; if the store refuses them, the previous ones apply
//!   again and the client gets an error.
//! * For an account without rules, a stanza costs one read of a field.
//!
//! # Left out
//!
//! A blocked contact stays in the roster ("polite blocking", XEP-0191 §4). Messages that came
//! before the block stay in the archive and in the offline storage.

pub mod blocking;
mod change;
mod limits;
mod lists;
mod passage;
mod pushes;
mod report;
pub mod rules;
mod sessions;

use rookery_hub::{Bound, Document, Hooks, Module, Most, OptionSpec, Per, Phase, Stanzas, Target, Unit, Value, Wanted};
use rookery_modkit::option;
use rookery_xml::ns;

pub(crate) use limits::NAME;
use limits::{MAX_BYTES, MAX_ITEMS, MAX_RULES};
use report::Reports;
use rules::PrivacyRules;
use sessions::PrivacySessions;

/// The module that lets users block others, and set detailed rules for stanzas in both directions.
#[derive(Debug)]
pub struct Privacy;

impl Module for Privacy {
    fn name(&self) -> &'static str {
        NAME
    }

    fn summary(&self) -> &'static str {
        "users can block others, and filter incoming and outgoing stanzas"
    }

    fn standards(&self) -> &'static [(&'static str, &'static str)] {
        &[("XEP-0016", "1.7"), ("XEP-0191", "1.3"), ("XEP-0377", "0.4.1")]
    }

    fn left_out(&self) -> &'static [(&'static str, &'static str)] {
        &[("XEP-0191", "a blocked contact stays in the roster (§4); what came before the block stays in the archive")]
    }

    fn options(&self) -> &'static [OptionSpec] {
        &OPTIONS
    }

    fn bounds(&self) -> &'static [Bound] {
        &BOUNDS
    }

    fn install(&self, hooks: &mut Hooks<'_>) {
        hooks.feature(Target::Server, ns::BLOCKING);
        hooks.feature(Target::Server, ns::PRIVACY);
        hooks.feature(Target::Server, ns::REPORTING);
        hooks.document::<PrivacyRules>();
        hooks.state(PrivacySessions::default());
        hooks.state(Reports::default());
        hooks.iq(Target::Account, ns::BLOCKING, blocking::answer);
        hooks.every(HOUR_MS, |world| *world.state_mut() = Reports::default());
        hooks.iq(Target::Account, ns::PRIVACY, lists::answer);
        // Accounts without rules don't pay for these.
        let with_rules = Wanted::from(Stanzas::ALL).with_document(PrivacyRules::NAME);
        hooks.before_route(Phase::Guard, with_rules, passage::going);
        hooks.before_delivery(Phase::Guard, with_rules, passage::coming);
        hooks.session_ended(sessions::ended);
        hooks.session_carried(sessions::save, sessions::restore);
    }
}

const BOUNDS: [Bound; 6] = [
    Bound::on(
        "addresses and rules of block list and privacy lists",
        Per::Account,
        Most::Option(MAX_ITEMS),
        Unit::Number,
    )
    .or("the change gets <resource-constraint/>")
    .kept_in(&["documents"]),
    Bound::on("rules without an address", Per::Account, Most::Option(MAX_RULES), Unit::Number)
        .or("the change gets <resource-constraint/>"),
    Bound::on("privacy lists", Per::Account, Most::Fixed(lists::MAX_LISTS as u64), Unit::Number)
        .or("the change gets <resource-constraint/>"),
    Bound::on("block list and privacy lists", Per::Account, Most::Fixed(MAX_BYTES as u64), Unit::Bytes)
        .or("the change gets <resource-constraint/>")
        .kept_in(&["documents"]),
    Bound::on("reports of abuse in an hour", Per::Account, Most::Option(report::REPORTS_PER_HOUR), Unit::Number)
        .or("the reported users are blocked; operators aren't told"),
    Bound::on(
        "abuse reports that operators haven't dealt with",
        Per::Domain,
        Most::Fixed(rookery_operations::reports::MOST as u64),
        Unit::Number,
    )
    .or("the oldest one of the account with the most reports is dropped")
    .kept_in(&["lists"]),
];

const OPTIONS: [OptionSpec; 5] = [
    OptionSpec {
        key: MAX_ITEMS,
        default: || Value::Number(2000),
        doc: "addresses and other rules that the block list and the privacy lists of an account may have together",
        check: option::at_least_one,
    },
    OptionSpec {
        key: MAX_RULES,
        default: || Value::Number(200),
        doc: "of these, the rules that may be about groups, subscriptions or everybody",
        check: option::at_least_one,
    },
    OptionSpec {
        key: report::REPORT_TO,
        default: || Value::List(Vec::new()),
        doc: "accounts that receive users' reports when they block somebody, e.g. [\"admin@example.org\"]; reports are also logged",
        check: option::addresses,
    },
    OptionSpec {
        key: report::FORWARD_REPORTS,
        default: || Value::Switch(false),
        doc: "true forwards a report that allows it to the abuse contact of the reported user's server",
        check: option::any,
    },
    OptionSpec {
        key: report::REPORTS_PER_HOUR,
        default: || Value::Number(20),
        doc: "reports that are accepted from one account in an hour",
        check: option::any,
    },
];

const HOUR_MS: u64 = 3_600_000;
