//! The machine: its addresses, and things that only root can create on it.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::path::Path;
use std::process::Command;

use rookery_federation::targets::is_public;

use crate::failure::CommandFailure;
use crate::folder;
use crate::owner::{Owner, USER};

/// The path of the unit, if the package has installed none.
const UNIT_FILE: &str = "/etc/systemd/system/rookery.service";
/// The unit of the package.
const UNIT: &str = include_str!("../../../packaging/rookery.service");

/// Returns whether services of systemd run on this machine, or the package is installed, and we may
/// create a service.
pub fn has_services() -> bool {
    rustix::process::geteuid().is_root() && (Path::new(BOOTED).is_dir() || has_packaged_unit())
}

/// Returns the public addresses from which this machine would send. Nothing is sent for that.
pub fn public_addresses() -> Vec<IpAddr> {
    let from = |own: &str, far: &str| {
        let socket = UdpSocket::bind(own).ok()?;
        socket.connect(far).ok()?;
        socket.local_addr().ok()
    };
    let found = [from("0.0.0.0:0", FAR_V4), from("[::]:0", FAR_V6)];
    found.into_iter().flatten().map(|address: SocketAddr| address.ip()).filter(|ip| is_public(*ip)).collect()
}

/// Returns the server's user, and creates it if it doesn't exist.
///
/// # Errors
///
/// [`CommandFailure::Failed`] if it can't be created.
pub fn user() -> Result<Owner, CommandFailure> {
    if let Some(owner) = Owner::of_service()? {
        return Ok(owner);
    }
    let arguments = ["--system", "--user-group", "--home-dir", crate::loaded::SERVICE_DATA, "--shell", NO_SHELL, USER];
    let made = Command::new("useradd").args(arguments).output();
    let made =
        made.map_err(|error| CommandFailure::Failed(format!("useradd, which creates the user {USER}: {error}")))?;
    if !made.status.success() {
        let words = String::from_utf8_lossy(&made.stderr);
        return Err(CommandFailure::Failed(format!("useradd can't create the user {USER}: {}", words.trim())));
    }
    Owner::of_service()?.ok_or_else(|| CommandFailure::Failed(format!("useradd didn't create the user {USER}")))
}

/// Writes the unit for a binary, unless there is one.
///
/// # Errors
///
/// [`CommandFailure::Failed`] if it can't be written.
pub fn install_unit(program: &Path) -> Result<(), CommandFailure> {
    if Path::new(unit_file()).exists() {
        return Ok(());
    }
    folder::write(Path::new(UNIT_FILE), &unit(program), 0o644)?;
    // If systemd isn't running, it reads the unit once it starts.
    let _ = Command::new("systemctl").arg("daemon-reload").output();
    Ok(())
}

/// Returns the unit for a binary.
fn unit(program: &Path) -> String {
    UNIT.replace(PROGRAM, &program.display().to_string())
}

/// Returns the file of the unit: the package's, if that is installed.
pub fn unit_file() -> &'static str {
    if has_packaged_unit() { PACKAGED_UNIT } else { UNIT_FILE }
}

fn has_packaged_unit() -> bool {
    Path::new(PACKAGED_UNIT).exists()
}

/// The unit that the package installs.
const PACKAGED_UNIT: &str = "/usr/lib/systemd/system/rookery.service";

/// The binary of the package's unit.
const PROGRAM: &str = "/usr/bin/rookery";
/// A folder that exists while systemd runs (sd_booted(3)).
const BOOTED: &str = "/run/systemd/system";
const NO_SHELL: &str = "/usr/sbin/nologin";
/// Addresses that nobody has (RFC 5737, RFC 3849).
const FAR_V4: &str = "192.0.2.1:9";
const FAR_V6: &str = "[2001:db8::1]:9";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_unit_runs_the_binary_that_there_is() {
        let unit = unit(Path::new("/opt/rookery/bin/rookery"));
        assert!(unit.contains("\nExecStart=/opt/rookery/bin/rookery serve "), "{unit}");
        assert!(!unit.contains(PROGRAM), "{unit}");
        for place in [crate::loaded::SERVICE_CONFIG, crate::loaded::SERVICE_DATA, USER] {
            assert!(unit.contains(place), "{place}");
        }
    }
}
