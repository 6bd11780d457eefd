//! Programs from Debian's packages.

use std::path::PathBuf;
use std::process::Command;
use std::sync::{Mutex, PoisonError};

/// Installs the packages whose programs are missing: pairs of program and package.
///
/// # Panics
///
/// If that isn't possible, with what to install.
pub fn need(programs: &[(&str, &str)]) {
    // Scenarios run side by side, but packages can be installed by one at a time.
    static INSTALLING: Mutex<()> = Mutex::new(());
    let _alone = INSTALLING.lock().unwrap_or_else(PoisonError::into_inner);
    let missing: Vec<&str> =
        programs.iter().filter(|(program, _)| !is_there(program)).map(|(_, package)| *package).collect();
    if missing.is_empty() {
        return;
    }
    // The lists may be missing or name versions that are gone.
    let installed = install(&missing) || (apt_get(&["update"]) && install(&missing));
    assert!(installed, "these tests need more programs; as root: apt-get install {}", missing.join(" "));
}

/// Whether a program is in the path, or where programs of administrators are.
pub fn is_there(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain([PathBuf::from("/usr/sbin")]);
    folders.into_iter().any(|folder| folder.join(program).is_file())
}

fn install(packages: &[&str]) -> bool {
    apt_get(&[&["install", "--yes", "--no-install-recommends"], packages].concat())
}

/// As root, or as somebody who may become root without being asked for a password.
fn apt_get(arguments: &[&str]) -> bool {
    let command = |program: &str, before: &[&str]| {
        let mut command = Command::new(program);
        // The machine may be installing something by itself.
        command
            .args(before)
            .args(["apt-get", "-o", "DPkg::Lock::Timeout=300"])
            .args(arguments)
            .env("DEBIAN_FRONTEND", "noninteractive");
        command.output().is_ok_and(|output| output.status.success())
    };
    command("env", &[]) || command("sudo", &["-n"])
}
