//! Installs programs and libraries from Debian's packages.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

/// Installs the packages whose programs are missing: pairs of program and package.
///
/// # Panics
/// If that isn't possible, with what to install.
pub fn programs(needed: &[(&str, &str)]) {
    have(|| missing(needed));
}

/// Installs the package of a library of the system, such as `libgssapi_krb5.so.2`, if the loader
/// doesn't know it.
///
/// # Panics
/// If that isn't possible, with what to install.
pub fn library(file: &str, package: &str) {
    have(|| if is_loadable(file) { Vec::new() } else { vec![package] });
}

/// Unpacks a package into a folder without installing it, which would start its service.
///
/// # Panics
/// If the package can't be downloaded or unpacked, with the reason.
pub fn unpack(package: &str, folder: &Path) {
    let downloads = folder.join("downloaded");
    std::fs::create_dir_all(&downloads).expect("a folder");
    let download = || {
        let mut command = Command::new("apt-get");
        command.args(["download", package]).current_dir(&downloads).output().is_ok_and(|output| output.status.success())
    };
    // The lists may be missing or name versions that are gone.
    let is_there = download() || (apt_get(&["update"]) && download());
    assert!(
        is_there,
        "this test needs the package {package}, which `apt-get download` can't get. ROOKERY_SKIP can leave it out"
    );
    for file in std::fs::read_dir(&downloads).expect("a folder").flatten() {
        let extracted = Command::new("dpkg-deb").arg("--extract").args([file.path(), folder.to_owned()]).status();
        assert!(extracted.is_ok_and(|status| status.success()), "{package} can't be unpacked");
    }
}

fn is_loadable(file: &str) -> bool {
    let known = Command::new("/sbin/ldconfig").arg("-p").output();
    known.is_ok_and(|known| String::from_utf8_lossy(&known.stdout).split_whitespace().any(|word| word == file))
}

/// Installs what is missing.
fn have<'a>(missing: impl FnOnce() -> Vec<&'a str>) {
    // Tests run side by side, but packages can be installed by one at a time.
    static INSTALLING: Mutex<()> = Mutex::new(());
    let _alone = INSTALLING.lock().unwrap_or_else(PoisonError::into_inner);
    let missing = missing();
    if missing.is_empty() {
        return;
    }
    // The lists may be missing or name versions that are gone.
    let installed = install(&missing) || (apt_get(&["update"]) && install(&missing));
    let list = missing.join(" ");
    assert!(
        installed,
        "this test needs more; as root: apt-get install {list}. ROOKERY_SKIP can leave it out: see CONTRIBUTING.md"
    );
}

/// Returns the packages of the programs that are neither in the path nor in the folders of
/// administrators' programs (`/usr/sbin` and the like).
pub fn missing<'a>(needed: &[(&str, &'a str)]) -> Vec<&'a str> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders: Vec<_> = std::env::split_paths(&path).chain([PathBuf::from("/usr/sbin")]).collect();
    let is_there = |program: &str| folders.iter().any(|folder| folder.join(program).is_file());
    needed.iter().filter(|(program, _)| !is_there(program)).map(|(_, package)| *package).collect()
}

fn install(packages: &[&str]) -> bool {
    apt_get(&[&["install", "--yes", "--no-install-recommends"], packages].concat())
}

/// Runs apt-get as root, or by sudo if that asks for no password.
fn apt_get(arguments: &[&str]) -> bool {
    let command = |program: &str, before: &[&str]| {
        let mut command = Command::new(program);
        // The machine may be installing something else, which holds the lock.
        command
            .args(before)
            .args(["apt-get", "-o", "DPkg::Lock::Timeout=300"])
            .args(arguments)
            .env("DEBIAN_FRONTEND", "noninteractive");
        command.output().is_ok_and(|output| output.status.success())
    };
    command("env", &[]) || command("sudo", &["-n"])
}
