//! Checks a database for the operator: `rookery check`.

use super::driver::SqliteDriver;
use super::place::{directory, probe};
use super::schema;
use crate::StoreError;
use crate::sql::connection::{SqlConnection, all, one};
use crate::sql::finding::{self, Finding, Severity};
use crate::sql::migrate;
use crate::sql::transactions::Transactions;
use std::path::Path;
use std::time::Duration;

/// Checks a database file that may be in use, without changing it: directory, schema, integrity,
/// whether it can be written. Reads the whole file, so it takes as long as the disk needs for that.
pub fn check(path: &Path) -> Vec<Finding> {
    let mut findings = Vec::new();
    let directory = directory(path);
    match directory.is_dir().then(|| probe(directory)) {
        None => findings.push(note(format!("the directory {} will be created", directory.display()))),
        Some(Ok(())) => findings.push(note(format!("the directory {} can be written", directory.display()))),
        Some(Err(error)) => {
            let error = StoreError::Directory { path: directory.into(), reason: error.to_string() };
            findings.push(finding::for_error(&error));
        }
    }
    if !path.exists() {
        findings.push(note(format!("there is no database {} yet; the server will create it", path.display())));
    } else if let Err(error) = check_file(path, &mut findings) {
        findings.push(fault(error.to_string()));
    }
    findings
}

/// Adds findings, up to the first error that makes further checks pointless.
fn check_file(path: &Path, findings: &mut Vec<Finding>) -> Result<(), StoreError> {
    let mut driver = SqliteDriver::open_to_read(path, LOCK_WAIT)?;
    let version = migrate::version(&mut driver)?;
    findings.push(finding::schema(version, schema::KNOWN));
    check_integrity(&mut driver, findings)?;
    if version > 0 {
        let accounts = one(&mut driver, crate::sql::statements::COUNT_ACCOUNTS, &[], |row| row.integer(0))?;
        findings.push(note(format!("accounts: {}", accounts.unwrap_or_default())));
    }
    drop(driver);
    match check_writable(path) {
        Ok(()) => findings.push(note("the database can be written".into())),
        // A server that writes a lot may hold it all the time, which isn't a fault of the file.
        Err(error @ StoreError::Locked(_)) => {
            findings.push(Finding { severity: Severity::Warning, text: error.to_string() });
        }
        Err(error) => return Err(error),
    }
    Ok(())
}

fn check_integrity(driver: &mut SqliteDriver, findings: &mut Vec<Finding>) -> Result<(), StoreError> {
    let damage = all(driver, "PRAGMA quick_check(20)", &[], |row| Ok(row.text(0)?.to_owned()))?;
    let orphans = all(driver, "PRAGMA foreign_key_check", &[], |row| Ok(row.text(0)?.to_owned()))?;
    if damage == ["ok"] && orphans.is_empty() {
        findings.push(note("the integrity check found no damage".into()));
        return Ok(());
    }
    let damage = damage.into_iter().filter(|line| line != "ok");
    let orphans = (!orphans.is_empty()).then(|| format!("{} rows belong to no account", orphans.len()));
    findings.extend(damage.chain(orphans).map(|what| fault(driver.corrupt(what).to_string())));
    Ok(())
}

fn check_writable(path: &Path) -> Result<(), StoreError> {
    let mut driver = SqliteDriver::open(path, LOCK_WAIT)?;
    let outcome = driver.begin_write(0);
    driver.rollback();
    outcome
}

fn note(text: String) -> Finding {
    Finding { severity: Severity::Note, text }
}

fn fault(text: String) -> Finding {
    Finding { severity: Severity::Fault, text }
}

/// The time that the check waits for another program that holds the database.
const LOCK_WAIT: Duration = Duration::from_secs(2);
