//! The tables of 2007: destinations, total, per destination; and next to them the measurements of
//! that year.

use super::{AddressKind, AddressServers, MessageRoute, MessageTimes};

pub(super) fn head(route: MessageRoute, servers: AddressServers, kind: AddressKind) -> String {
    let route_name = match route {
        MessageRoute::Normal => "normal",
        MessageRoute::Trusted => "trusted",
        MessageRoute::Untrusted => "untrusted",
    };
    let kind = match (route, kind) {
        (MessageRoute::Untrusted, AddressKind::To) => ", addresses of type 'to'",
        (MessageRoute::Untrusted, AddressKind::Bcc) => ", addresses of type 'bcc'",
        _ => "",
    };
    let servers = match servers {
        AddressServers::Single => "all on one server".to_owned(),
        AddressServers::Multiple => "each on a server of its own".to_owned(),
        AddressServers::Services(1) => "all on one other server".to_owned(),
        AddressServers::Services(count) => format!("on {count} other servers with multicast services"),
    };
    format!(
        "{route_name} route, {servers}{kind}\n{:>12} {:>12} {:>9} {:>9} {:>9} {:>7} {:>9} {:>9} {:>8}",
        "destinations", "total µs", "± µs", "µs/dest", "2007", "times", "write", "bytes", "stanzas"
    )
}

pub(super) fn line(point: &MessageTimes, route: MessageRoute, servers: AddressServers) -> String {
    let count = point.destinations as f64;
    let each = point.total_us / count;
    let then = figure_of_2007(route, servers, point.destinations);
    let (then, times) = match then {
        Some(then) => (format!("{then:.0}"), format!("{:.0}×", then / each)),
        None => (String::new(), String::new()),
    };
    format!(
        "{:>12} {:>12.1} {:>9.1} {each:>9.3} {then:>9} {times:>7} {:>9.3} {:>9.0} {:>8}",
        point.destinations,
        point.total_us,
        point.plus_minus,
        point.write_us / count,
        point.bytes as f64 / count,
        point.left
    )
}

/// Returns the line that shows how the cost per destination changes with their number: a factor of
/// one is flat.
pub(super) fn foot(points: &[MessageTimes]) -> String {
    let each = |point: &MessageTimes| point.total_us / point.destinations as f64;
    let many: Vec<_> = points.iter().filter(|point| point.destinations >= FLAT_FROM).collect();
    match (many.first(), many.last()) {
        (Some(first), Some(last)) if first.destinations < last.destinations => format!(
            "a destination costs {:.2} times as much at {} as at {}\n",
            each(last) / each(first),
            last.destinations,
            first.destinations
        ),
        _ => String::new(),
    }
}

/// Returns the figure of 2007, in µs per destination (badlop.blogspot.com/2007/10).
fn figure_of_2007(route: MessageRoute, servers: AddressServers, destinations: usize) -> Option<f64> {
    let row = match (route, servers) {
        (MessageRoute::Normal, AddressServers::Single) => [Some(60.0), Some(200.0), Some(170.0)],
        (MessageRoute::Normal, AddressServers::Multiple) => [Some(111.0), Some(105.0), Some(89.0)],
        (MessageRoute::Trusted, AddressServers::Single) => [Some(86.0), Some(244.0), Some(219.0)],
        (MessageRoute::Trusted, AddressServers::Multiple) => [Some(215.0), Some(629.0), Some(211.0)],
        (MessageRoute::Untrusted, AddressServers::Single) => [Some(253.0), Some(658.0), Some(562.0)],
        // The last figure is that of 400: there are no later measurements.
        (MessageRoute::Untrusted, AddressServers::Multiple) => {
            return if destinations == 101 { Some(1157.0) } else { None };
        }
        (_, AddressServers::Services(_)) => return None,
    };
    let at = [101, 501, 901].iter().position(|&measured| measured == destinations)?;
    row.get(at).copied().flatten()
}

/// The number of destinations below which the fixed cost of a stanza matters.
const FLAT_FROM: usize = 101;
