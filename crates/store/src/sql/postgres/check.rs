//! Looks over what a PostgreSQL promises: before a start, and for `rookery check`.

use super::driver::{Driver, POOLED};
use super::schema;
use super::target::{Options, Target};
use crate::StoreError;
use crate::sql::archive::months::Months;
use crate::sql::finding::{self, Finding, Severity, clock, connections, distance, divided};
use crate::sql::migrate;
use crate::sql::transactions::Remote;
use std::sync::Arc;
use std::time::Duration;

/// Returns the reasons why a store can't keep in this database what it promises, each with its remedy.
pub(super) fn unfit(driver: &mut Driver, trusts_durability: bool) -> Result<Vec<String>, StoreError> {
    let mut reasons = Vec::new();
    if driver.shares_sessions()? {
        reasons.push(POOLED.to_owned());
    }
    let version: u32 = setting(driver, "server_version_num")?.parse().unwrap_or_default();
    if version < OLDEST {
        reasons.push(format!("its version is {}, the oldest that will do is {}", version / 10_000, OLDEST / 10_000));
    }
    let encoding = setting(driver, "server_encoding")?;
    if encoding != "UTF8" {
        reasons.push(format!(
            "its encoding is {encoding}, which can't hold all that people write; make another one by CREATE DATABASE … \
             ENCODING 'UTF8' TEMPLATE template0"
        ));
    }
    if !trusts_durability {
        for name in DURABLE {
            if setting(driver, name)? == "off" {
                reasons.push(format!(
                    "{name} is off: what it acknowledges doesn't survive a power cut; switch it on, or say durability = \
                     \"trust\" under [store] if that is meant"
                ));
            }
        }
    }
    Ok(reasons)
}

fn setting(driver: &mut Driver, name: &str) -> Result<String, StoreError> {
    Ok(driver.run(&format!("SHOW {name}"))?.into_iter().next().unwrap_or_default())
}

/// Checks a database that may be in use: whether it can be reached and is fit, its schema, its settings, and how far away it is. Changes nothing in
/// it.
pub fn check(options: &Options) -> Vec<Finding> {
    let mut findings = Vec::new();
    if let Err(error) = look(options, &mut findings) {
        findings.push(finding::failed(&error));
    }
    findings
}

/// Stops at the first thing that makes further looks pointless.
fn look(options: &Options, findings: &mut Vec<Finding>) -> Result<(), StoreError> {
    let mut note = |severity, text| findings.push(Finding { severity, text });
    let mut driver = Driver::open(Arc::new(Target::new(options)), ANSWER)?;
    let (version, encoding) = (setting(&mut driver, "server_version")?, setting(&mut driver, "server_encoding")?);
    note(Severity::Note, format!("PostgreSQL {version}, encoding {encoding}, at {}", driver.database()));
    if driver.is_read_only() {
        note(
            Severity::Fault,
            "no host can be written to: it is a replica, or default_transaction_read_only is on".into(),
        );
    }
    for reason in unfit(&mut driver, options.trusts_durability)? {
        note(Severity::Fault, reason);
    }
    let mut settings = Vec::new();
    for name in DURABLE.iter().copied().chain(["default_transaction_isolation"]) {
        settings.push(format!("{name} {}", setting(&mut driver, name)?));
    }
    note(Severity::Note, settings.join(", "));
    let most = setting(&mut driver, "max_connections")?.parse().unwrap_or_default();
    findings.push(connections(most, options.connections));
    findings.extend(clock(driver.now_ms()?));
    let version = migrate::version(&mut driver)?;
    findings.push(finding::schema(version, schema::KNOWN));
    if version > 0 {
        let accounts = driver.run("SELECT COUNT(*) FROM accounts")?;
        findings.push(Finding { severity: Severity::Note, text: format!("{} accounts", accounts.concat()) });
        findings.extend(divided(driver.parts()?.len(), options.months));
    }
    findings.push(distance(options.connections, || driver.run("SELECT 1").map(drop))?);
    Ok(())
}

/// PostgreSQL 13.
const OLDEST: u32 = 130_000;

/// The settings without which what was acknowledged may be lost.
const DURABLE: [&str; 3] = ["fsync", "synchronous_commit", "full_page_writes"];

/// How long an answer to a question of the check may take.
const ANSWER: Duration = Duration::from_secs(30);
