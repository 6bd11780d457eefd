//! Describes the bounds on everything that others can make the server store or do.
//!
//! A bound that exists only in the code that enforces it is found by the attacker first. Each part
//! of the server therefore declares its bounds as data, from which one page for operators is
//! generated, with the values in force.
//!
//! # Invariants
//!
//! - A bound says what happens to an excess, and who is affected: those who caused it.
//! - Every table of the store is named by a bound ([`Bound::tables`]) or filled by operators alone.

/// A bound on one resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bound {
    /// The resource, in the plural or as a mass noun: `messages that wait for a user`.
    pub resource: &'static str,
    /// The subject that has a share of its own, to which the number applies.
    pub per: Per,
    /// The source of the number.
    pub most: Most,
    /// The unit of the number.
    pub unit: Unit,
    /// The consequence of exceeding the bound, in a few words, such as
    /// `its sender gets <service-unavailable/>`.
    pub excess: &'static str,
    /// The tables of the store whose rows the bound limits; none if it is about memory, time or
    /// connections.
    pub tables: &'static [&'static str],
}

/// The subjects to each of which a bound applies separately.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Per {
    /// One account, with all of its sessions.
    Account,
    /// One IP address.
    Address,
    /// One connection, whether it has logged in or not.
    Connection,
    /// One session of an account.
    Session,
    /// One stanza, or one request.
    Stanza,
    /// One room, with all of its occupants.
    Room,
    /// One node of a publish-subscribe service.
    Node,
    /// One domain of this server.
    Domain,
    /// One domain of another server.
    RemoteDomain,
    /// One thread that serves connections.
    Shard,
    /// The whole process.
    Server,
    /// A subject that isn't listed here, by its name.
    Other(&'static str),
}

/// The source of a bound's number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Most {
    /// An option of the module that declares the bound.
    Option(&'static str),
    /// A key of the configuration, written `table.key`.
    Key(&'static str),
    /// A number that operators can't change.
    Fixed(u64),
}

/// The units of a bound's number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// A count.
    Number,
    /// A size, shown in bytes, KiB or MiB.
    Bytes,
    /// A count per second.
    PerSecond,
    /// A count per day.
    PerDay,
    /// Bytes per second, shown as a size with `/s`.
    BytesPerSecond,
    /// Bytes per minute, shown as a size with `/min`.
    BytesPerMinute,
    /// A time in milliseconds.
    Milliseconds,
    /// A time in seconds.
    Seconds,
    /// A time in minutes.
    Minutes,
    /// A time in days.
    Days,
}

impl Bound {
    /// Returns a bound on a resource, whose excess [`Bound::or`] describes.
    pub const fn on(resource: &'static str, per: Per, most: Most, unit: Unit) -> Self {
        Self { resource, per, most, unit, excess: "", tables: &[] }
    }

    /// Sets the consequence of exceeding the bound.
    pub const fn or(self, excess: &'static str) -> Self {
        Self { excess, ..self }
    }

    /// Sets the tables of the store whose rows the bound limits.
    pub const fn kept_in(self, tables: &'static [&'static str]) -> Self {
        Self { tables, ..self }
    }
}

impl Per {
    /// Returns the words for the subject in a table: `account`, `IP address`.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Account => "account",
            Self::Address => "IP address",
            Self::Connection => "connection",
            Self::Session => "session",
            Self::Stanza => "stanza",
            Self::Room => "room",
            Self::Node => "node",
            Self::Domain => "domain",
            Self::RemoteDomain => "remote domain",
            Self::Shard => "shard",
            Self::Server => "server",
            Self::Other(words) => words,
        }
    }
}

impl Unit {
    /// Formats a number with its unit for people: `64 KiB`, `20/s`, `30 days`.
    pub fn show(self, number: u64) -> String {
        match self {
            Self::Number => number.to_string(),
            Self::Bytes => size(number),
            Self::PerSecond => format!("{number}/s"),
            Self::PerDay => format!("{number}/day"),
            Self::BytesPerSecond => format!("{}/s", size(number)),
            Self::BytesPerMinute => format!("{}/min", size(number)),
            Self::Milliseconds => format!("{number} ms"),
            Self::Seconds => format!("{number} s"),
            Self::Minutes => format!("{number} min"),
            Self::Days => format!("{number} days"),
        }
    }
}

/// Formats a number of bytes in the largest binary unit that divides it.
fn size(bytes: u64) -> String {
    const UNITS: [(&str, u64); 4] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("bytes", 1)];
    let fits = |(_, factor): &(&str, u64)| bytes >= *factor && bytes.is_multiple_of(*factor);
    let (unit, factor) = UNITS.into_iter().find(fits).unwrap_or(("bytes", 1));
    format!("{} {unit}", bytes / factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_with_their_units() {
        let written = [
            (Unit::Number, 1000, "1000"),
            (Unit::Bytes, 65_536, "64 KiB"),
            (Unit::Bytes, 1023, "1023 bytes"),
            (Unit::Bytes, 0, "0 bytes"),
            (Unit::BytesPerSecond, 1 << 20, "1 MiB/s"),
            (Unit::PerDay, 200, "200/day"),
        ];
        for (unit, number, words) in written {
            assert_eq!(unit.show(number), words);
        }
    }
}
