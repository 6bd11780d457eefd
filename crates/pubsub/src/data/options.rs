//! Options of the service, and the resulting bounds.

use rookery_hub::{Bound, Most, OptionSpec, Options, Per, Unit, Value, World};
use rookery_jid::Jid;
use rookery_modkit::option;

/// The key below `[modules]`.
pub(super) const NAME: &str = "data";

pub(super) const BOUNDS: &[Bound] = &[
    Bound::on("subscriptions to readings", Per::Account, Most::Option(SUBSCRIPTIONS), Unit::Number)
        .or("one more gets <policy-violation/>"),
    Bound::on("nodes that are being read", Per::Server, Most::Option(NODES), Unit::Number)
        .or("a subscription to one more gets <resource-constraint/>"),
    Bound::on(
        "the time between two notifications",
        Per::Other("subscription"),
        Most::Option("shortest_interval_ms"),
        Unit::Milliseconds,
    )
    .or("a shorter one is raised to this"),
];

/// The key of the option for the subscriptions of an account.
pub(super) const SUBSCRIPTIONS: &str = "subscriptions";

/// The key of the option for the number of open nodes.
pub(super) const NODES: &str = "nodes";

pub(super) const OPTIONS: [OptionSpec; 7] = [
    OptionSpec {
        key: "host",
        default: || Value::Text("data.@".to_owned()),
        doc: "the address of the service; @ stands for the domain",
        check: option::host,
    },
    OptionSpec {
        key: "name",
        default: || Value::Text("Readings".to_owned()),
        doc: "its name in lists of services",
        check: option::any,
    },
    OptionSpec {
        key: "access",
        default: || Value::List(vec!["local".to_owned()]),
        doc: "who may use it: \"all\", \"local\" (users of this server, without those of anonymous domains), domains, or addresses such as \"crew@example.org\"",
        check: option::access_list,
    },
    OptionSpec {
        key: "interval_ms",
        default: || Value::Number(1000),
        doc: "milliseconds between two notifications of a node for a subscriber who requested no interval",
        check: option::at_least_one,
    },
    OptionSpec {
        key: "shortest_interval_ms",
        default: || Value::Number(66),
        doc: "the shortest interval that a subscriber may request, in milliseconds",
        check: option::at_least_one,
    },
    OptionSpec {
        key: SUBSCRIPTIONS,
        default: || Value::Number(100),
        doc: "subscriptions that one account may have",
        check: option::at_least_one,
    },
    OptionSpec {
        key: NODES,
        default: || Value::Number(10_000),
        doc: "nodes that may have subscribers, and so are read, at the same time",
        check: option::at_least_one,
    },
];

/// Returns whether a user may use the service.
pub(super) fn lets_in(world: &World, options: &Options, who: &Jid) -> bool {
    option::may_use(world, options.list("access"), who)
}
