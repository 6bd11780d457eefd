//! Looks over databases that are other processes, before a start and for `rookery check`: the same
//! way for each engine.

use super::finding::{self, Finding, Severity, clock, connections, distance, divided};
use super::migrate;
use super::opening::{Openable, Wanted};
use super::remote::Distant;
use crate::StoreError;
use std::sync::Arc;
use std::time::Duration;

/// A connection, with what an engine says of itself in its own way.
pub(crate) trait Checked: Distant {
    /// The reasons why no host can be written to.
    const READ_ONLY: &'static str;

    /// Returns the reasons why a store can't keep in this database what it promises, each with its
    /// remedy.
    fn unfit(&mut self, trusts_durability: bool) -> Result<Vec<String>, StoreError>;

    /// Returns the name of the product, with its version.
    fn product(&mut self) -> Result<String, StoreError>;

    /// Returns the value of a setting of the server, empty if there is none of the name.
    fn setting(&mut self, name: &str) -> Result<String, StoreError>;

    /// Returns the settings that operators want to know, each with its value.
    fn settings(&mut self) -> Result<Vec<String>, StoreError>;

    /// Returns what keeps sessions from being what this server sets them to.
    fn ill_set(&mut self) -> Result<Option<String>, StoreError> {
        Ok(None)
    }
}

/// Checks a database that may be in use: whether it can be reached and is fit, its schema, its
/// settings, and how far away it is. Changes nothing in it.
pub(crate) fn check<E: Openable>(target: &Arc<E::Target>, wanted: Wanted) -> Vec<Finding> {
    let mut findings = Vec::new();
    if let Err(error) = look::<E>(target, wanted, &mut findings) {
        findings.push(finding::failed(&error));
    }
    findings
}

/// Stops at the first thing that makes further looks pointless.
fn look<E: Openable>(target: &Arc<E::Target>, wanted: Wanted, findings: &mut Vec<Finding>) -> Result<(), StoreError> {
    let mut note = |severity, text| findings.push(Finding { severity, text });
    let mut driver = E::connect(target, ANSWER)?;
    note(Severity::Note, format!("{} at {}", driver.product()?, driver.place()));
    if driver.is_read_only() {
        note(Severity::Fault, format!("no host can be written to: {}", E::READ_ONLY));
    }
    for reason in driver.unfit(wanted.trusts_durability)? {
        note(Severity::Fault, reason);
    }
    note(Severity::Note, driver.settings()?.join(", "));
    if let Some(ill_set) = driver.ill_set()? {
        note(Severity::Fault, ill_set);
    }
    let most = driver.setting("max_connections")?.parse().unwrap_or_default();
    findings.push(connections(most, wanted.connections));
    findings.extend(clock(driver.now_ms()?));
    let version = migrate::version(&mut driver)?;
    findings.push(finding::schema(version, migrate::known(&driver)));
    if version > 0 {
        let accounts = driver.column(COUNT_ACCOUNTS)?.concat();
        findings.push(Finding { severity: Severity::Note, text: format!("{accounts} accounts") });
        findings.extend(divided(driver.parts()?.len(), wanted.months));
    }
    findings.push(distance(wanted.connections, || driver.ping())?);
    Ok(())
}

const COUNT_ACCOUNTS: &str = "SELECT COUNT(*) FROM accounts";

/// Returns the statement above.
#[cfg(test)]
pub(in crate::sql) fn listed() -> Vec<crate::sql::listed::Listed> {
    crate::sql::listed::listed![COUNT_ACCOUNTS]
}

/// The time that an answer to a question of the check may take.
const ANSWER: Duration = Duration::from_secs(30);
