//! Tests that are left out because the one who runs them said so.

use std::env;
use std::fs::File;
use std::io::{Write, stderr};

/// Returns true for a test that is to be left out on this machine, and records that it was.
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
    match env::var_os("ROOKERY_SKIPPED") {
        Some(file) => {
            let file = File::options().append(true).create(true).open(file);
            // One write: other tests append to the same file.
            let written = file.and_then(|mut file| file.write_all(format!("{entry}\t{test}\n").as_bytes()));
            written.expect("the file that ROOKERY_SKIPPED names");
        }
        // Not by a macro: the test harness would show that only if the test failed.
        None => writeln!(stderr(), "{test} is skipped: ROOKERY_SKIP has {entry}").expect("standard error"),
    }
    true
}

/// Returns the entry of a list that names a test or a group that it is in.
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
