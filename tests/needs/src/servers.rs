//! Other servers, from Debian's packages.

use std::path::Path;

use super::debian;

/// Installs the servers whose programs are missing: pairs of program and package. Does so only
/// where that starts none of them, as in containers, whose policy says so: on other machines they
/// would stay and listen, also after the next start.
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

/// Decides whether a package that is installed may start its server.
const POLICY: &str = "/usr/sbin/policy-rc.d";
