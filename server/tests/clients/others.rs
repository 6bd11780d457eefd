//! Other servers, from Debian's packages.

use std::path::Path;

use super::debian;

/// Installs the servers whose programs are missing: pairs of program and package. Only where that starts none of them, as in containers, whose policy says
/// so; the error says what is missing elsewhere.
///
/// # Panics
///
/// If they can't be installed, with what to install.
pub fn need(programs: &[(&str, &str)]) -> Result<(), String> {
    let missing: Vec<&str> =
        programs.iter().filter(|(program, _)| !debian::is_there(program)).map(|(_, package)| *package).collect();
    if !missing.is_empty() && !Path::new(POLICY).exists() {
        let list = missing.join(" ");
        return Err(format!("it needs the packages {list}, whose servers would start here when they are installed"));
    }
    debian::need(programs);
    Ok(())
}

/// Decides whether a package that is installed may start its server.
const POLICY: &str = "/usr/sbin/policy-rc.d";
