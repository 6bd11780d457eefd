//! Installs other servers from Debian's packages.

use std::path::Path;

use super::debian;

/// Installs the servers whose programs are missing: pairs of program and package. Does so only on
/// machines whose policy keeps packages from starting services, such as containers: elsewhere the
/// servers would run, also after the next boot.
///
/// # Panics
/// If they can't be installed, with what to install.
pub fn servers(needed: &[(&str, &str)]) {
    let missing = debian::missing(needed).join(" ");
    assert!(
        missing.is_empty() || Path::new(POLICY).exists(),
        "this test needs the packages {missing}, whose servers would start here when they are installed. Install them and stop the servers, \
         or let ROOKERY_SKIP leave the test out: see CONTRIBUTING.md"
    );
    debian::programs(needed);
}

/// The script that decides whether an installed package may start its service.
const POLICY: &str = "/usr/sbin/policy-rc.d";
