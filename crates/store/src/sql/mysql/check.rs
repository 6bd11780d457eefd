//! Looks over what a MariaDB or MySQL promises: before a start, and for `rookery check`.

use super::driver::Driver;
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
    let (version, is_mariadb) = driver.version();
    let (oldest, words) = if is_mariadb { ((10, 6), "MariaDB 10.6") } else { ((8, 0), "MySQL 8.0") };
    if numbers(version) < oldest {
        reasons.push(format!("its version is {version}, the oldest that will do is {words}"));
    }
    let engines = "SELECT support FROM information_schema.engines WHERE engine = 'InnoDB'";
    let support = driver.run(engines)?.concat().concat();
    if support != "YES" && support != "DEFAULT" {
        reasons.push("it has no InnoDB, without which nothing is written whole or not at all".into());
    }
    let packet: u64 = setting(driver, "max_allowed_packet")?.parse().unwrap_or_default();
    if packet < LEAST_PACKET {
        reasons.push(format!(
            "max_allowed_packet is {packet}: a portion of an archive may be larger; set it to {LEAST_PACKET} or more"
        ));
    }
    if !trusts_durability {
        for (name, durable, loses) in DURABLE {
            let value = setting(driver, name)?;
            // Without a log for replicas nothing depends on it.
            let is_unused = *name == "sync_binlog" && setting(driver, "log_bin")? == "0";
            if value != *durable && !is_unused {
                reasons.push(format!(
                    "{name} is {value}: {loses}; set it to {durable}, or say durability = \"trust\" under [store] if that is meant"
                ));
            }
        }
    }
    Ok(reasons)
}

/// Reads the first two numbers of a version.
fn numbers(version: &str) -> (u32, u32) {
    let mut numbers = version.split(['.', '-']).map(|part| part.parse().unwrap_or_default());
    (numbers.next().unwrap_or_default(), numbers.next().unwrap_or_default())
}

/// Reads a setting of the server: sessions have their own.
fn setting(driver: &mut Driver, name: &str) -> Result<String, StoreError> {
    Ok(driver.run(&format!("SELECT @@global.{name}"))?.concat().concat())
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
    let (version, is_mariadb) = driver.version();
    let product = if is_mariadb { "MariaDB" } else { "MySQL (this server is not tested with it)" };
    note(Severity::Note, format!("{product} {version} at {}", driver.database()));
    if driver.is_read_only() {
        note(Severity::Fault, "no host can be written to: it is a replica, or read_only is on".into());
    }
    for reason in unfit(&mut driver, options.trusts_durability)? {
        note(Severity::Fault, reason);
    }
    let mut settings = Vec::new();
    for name in DURABLE.iter().map(|(name, ..)| *name).chain(SHOWN) {
        settings.push(format!("{name} {}", setting(&mut driver, name)?));
    }
    // Its name differs between MariaDB and MySQL. Transactions of this server set their own.
    let isolation =
        driver.run("SHOW GLOBAL VARIABLES WHERE variable_name IN ('tx_isolation', 'transaction_isolation')")?;
    settings.extend(isolation.into_iter().take(1).map(|row| row.join(" ")));
    note(Severity::Note, settings.join(", "));
    // Not the server's, which this server overrides, but what is left of it in its own sessions.
    let session = driver.run("SELECT @@session.sql_mode, @@session.character_set_client")?.concat();
    let is_as_set = matches!(session.as_slice(), [mode, set] if mode.contains("STRICT_ALL_TABLES") && set == "binary");
    if !is_as_set {
        let words = session.join(", ");
        note(Severity::Fault, format!("sessions can't be set to be strict and to convert no characters: {words}"));
    }
    let most = setting(&mut driver, "max_connections")?.parse().unwrap_or_default();
    findings.push(connections(most, options.connections));
    findings.extend(clock(driver.now_ms()?));
    let version = migrate::version(&mut driver)?;
    findings.push(finding::schema(version, schema::KNOWN));
    if version > 0 {
        let accounts = driver.run("SELECT COUNT(*) FROM accounts")?;
        findings.push(Finding { severity: Severity::Note, text: format!("{} accounts", accounts.concat().concat()) });
        findings.extend(divided(driver.parts()?.len(), options.months));
    }
    findings.push(distance(options.connections, || driver.ping())?);
    Ok(())
}

/// The settings without which what was acknowledged may be lost: name, value, and what becomes of it otherwise.
const DURABLE: &[(&str, &str, &str)] = &[
    ("innodb_flush_log_at_trx_commit", "1", "what it acknowledges doesn't survive a power cut"),
    ("sync_binlog", "1", "its replicas and backups may lack what it has acknowledged before a power cut"),
];

/// Settings that are told, because those who look for the cause of something want to know them.
const SHOWN: [&str; 3] = ["max_allowed_packet", "sql_mode", "character_set_server"];

/// A group of messages for archives has eight mebibytes at most, and packets have other things in them.
const LEAST_PACKET: u64 = 16 << 20;

/// How long an answer to a question of the check may take.
const ANSWER: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_by_their_numbers() {
        assert!(numbers("10.11.6-MariaDB-0+deb12u1") > (10, 6) && numbers("10.5.9-MariaDB") < (10, 6));
        assert_eq!((numbers("8.0.36"), numbers("12-preview"), numbers("")), ((8, 0), (12, 0), (0, 0)));
    }
}
