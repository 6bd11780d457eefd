//! Records tests that are left out on request, and tests that took two tries.

use std::env;
use std::fs::File;
use std::io::{Write, stderr};

/// Returns true if this test is left out on this machine, and records that.
///
/// A test's name has parts with dots between them: `clients.foreign.accounts_come_from_prosody`.
/// `ROOKERY_SKIP` has names of tests or of whole groups, separated by commas:
/// `clients.foreign,gssapi`.
///
/// The record is a line with the entry of `ROOKERY_SKIP` and the test, at the end of the file that
/// `ROOKERY_SKIPPED` names; `.ci/run` and `.ci/fast` show it when they end. Without that variable
/// standard error gets the line at once.
///
/// # Panics
/// If the record can't be written.
pub fn skips(test: &str) -> bool {
    let list = env::var("ROOKERY_SKIP").unwrap_or_default();
    let Some(entry) = entry(&list, test) else { return false };
    record("ROOKERY_SKIPPED", &format!("{entry}\t{test}"), &format!("{test} is skipped: ROOKERY_SKIP has {entry}"));
    true
}

/// Records that a test ran out of time and is tried once more.
///
/// The record is a line with the test's name at the end of the file that `ROOKERY_TWICE` names,
/// which `.ci/run` and `.ci/fast` show when they end; without that variable standard error gets
/// `told` at once.
///
/// # Panics
/// If the record can't be written.
pub fn tried_again(test: &str, told: &str) {
    record("ROOKERY_TWICE", test, &format!("{test} ran out of time and is tried once more: {told}"));
}

/// Appends a line to the file that a variable names, or prints `told` if the variable isn't set.
fn record(variable: &str, line: &str, told: &str) {
    match env::var_os(variable) {
        Some(file) => {
            let file = File::options().append(true).create(true).open(file);
            // One write: other tests append to the same file.
            let written = file.and_then(|mut file| file.write_all(format!("{line}\n").as_bytes()));
            written.unwrap_or_else(|error| panic!("the file that {variable} names: {error}"));
        }
        // A macro's output would be captured by the test harness, and shown only on failure.
        None => writeln!(stderr(), "{told}").expect("standard error"),
    }
}

/// Returns the entry of a list that names a test or one of its groups.
fn entry<'a>(list: &'a str, test: &str) -> Option<&'a str> {
    let names = |entry: &str| test.strip_prefix(entry).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
    list.split(',').map(str::trim).find(|entry| !entry.is_empty() && names(entry))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_is_named_by_itself_or_by_its_groups() {
        let test = "clients.foreign.accounts_come_from_prosody";
        for (list, expected) in [
            (test, Some(test)),
            ("clients", Some("clients")),
            ("gssapi, clients.foreign", Some("clients.foreign")),
            ("clients.foreign,clients", Some("clients.foreign")),
            ("clients.for", None),
            ("foreign", None),
            ("clients.foreign.accounts_come_from_prosody.twice", None),
            ("", None),
            (",", None),
        ] {
            assert_eq!(entry(list, test), expected, "{list}");
        }
    }
}
