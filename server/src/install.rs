//! `rookery web install`: the files of the chat page.
//!
//! npm gets the package, from the registry that the machine is set up for; whether it is the right
//! one is checked here, by its hash.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use rookery_web::chat::package::{self, NAME, VERSION};

use crate::failure::CommandFailure;
use crate::folder::Folder;
use crate::loaded::ConfigSource;
use crate::welcome::say;

/// Gets the package and unpacks it, unless that was done before.
///
/// # Errors
/// [`CommandFailure::Failed`]: the package can't be had, is another one, or can't be written.
pub fn run(source: &ConfigSource, from: Option<&str>) -> Result<(), CommandFailure> {
    let folder = &source.folder;
    folder.find()?;
    let target = package::folder(folder.path());
    if from.is_none() && target.is_dir() {
        say(&format!("{NAME} {VERSION} is there: {}\n", target.display()));
        return Ok(());
    }
    let package = match from.map(Path::new) {
        Some(file) if file.is_file() => read(file)?,
        _ => fetch(from.unwrap_or(&format!("{NAME}@{VERSION}")), folder)?,
    };
    let count = package::install(&package, folder.path()).map_err(CommandFailure::Failed)?;
    say(&format!("installed {NAME} {VERSION}, {count} files: {}\n", target.display()));
    Ok(())
}

/// Lets npm get a package, by name or address.
fn fetch(what: &str, folder: &Folder) -> Result<Vec<u8>, CommandFailure> {
    let place = folder.path().join(PLACE);
    fs::create_dir_all(&place).map_err(|error| CommandFailure::file(&place, &error))?;
    let package = pack(what, &place);
    // It holds nothing that is needed again.
    let _ = fs::remove_dir_all(&place);
    package
}

fn pack(what: &str, place: &Path) -> Result<Vec<u8>, CommandFailure> {
    let mut npm = Command::new("npm");
    npm.args(["pack", "--silent", "--ignore-scripts", "--pack-destination"]).arg(place).arg("--").arg(what);
    let output = npm.stdin(Stdio::null()).output().map_err(|error| {
        CommandFailure::Failed(format!("npm can't be run: {error}; install it, or name the package with --from FILE"))
    })?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(CommandFailure::Failed(format!("npm can't get {what}: {}", said.trim())));
    }
    let found = fs::read_dir(place).map_err(|error| CommandFailure::file(place, &error))?.flatten();
    let file = found.map(|entry| entry.path()).find(|path| path.extension().is_some_and(|end| end == "tgz"));
    read(&file.ok_or_else(|| CommandFailure::Failed(format!("npm said that it got {what}, but it didn't")))?)
}

fn read(file: &Path) -> Result<Vec<u8>, CommandFailure> {
    let failed = |error| CommandFailure::file(file, &error);
    if fs::metadata(file).map_err(failed)?.len() > MOST_BYTES {
        return Err(CommandFailure::Failed(format!("{} is too large to be {NAME} {VERSION}", file.display())));
    }
    fs::read(file).map_err(failed)
}

/// The folder into which npm puts what it got.
const PLACE: &str = "web/npm";
/// The package has less than 9 MB.
const MOST_BYTES: u64 = 64 * 1024 * 1024;
