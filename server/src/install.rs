//! `rookery web install`: the files of the chat page.
//!
//! npm downloads the package, from the registry that the machine is set up for; without npm, the
//! server downloads it from that registry itself. The package is verified here, by its hash.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::process::{Command, Stdio};

use rookery_web::chat::download::{address, download};
use rookery_web::chat::package::{self, NAME, VERSION};

use crate::control::note_beside;
use crate::failure::CommandFailure;
use crate::folder::Folder;
use crate::loaded::ConfigSource;
use crate::welcome::say;

/// Downloads and unpacks the package, unless that was done before.
///
/// # Errors
/// [`CommandFailure::Failed`]: the package isn't available, has another hash, or can't be written.
pub fn run(source: &ConfigSource, from: Option<&str>) -> Result<(), CommandFailure> {
    let folder = &source.folder;
    folder.find()?;
    if from.is_none()
        && let Some(found) = package::installed_folder(folder.path())
    {
        say(&format!("{NAME} {VERSION} is already installed: {}\n", found.display()));
        return Ok(());
    }
    let target = package::folder(folder.path());
    let package = match from.map(Path::new) {
        Some(file) if file.is_file() => read(file)?,
        _ => get(from, folder)?,
    };
    let count = package::install(&package, folder.path()).map_err(CommandFailure::Failed)?;
    note_beside(source, "", &format!("installed {NAME} {VERSION}"));
    say(&format!("installed {NAME} {VERSION}, {count} files: {}\n", target.display()));
    Ok(())
}

/// Downloads the package with npm or without it: the pinned one, or the one at an address.
fn get(from: Option<&str>, folder: &Folder) -> Result<Vec<u8>, CommandFailure> {
    if let Some(package) = fetch(from.unwrap_or(&format!("{NAME}@{VERSION}")), folder)? {
        return Ok(package);
    }
    let url = match from {
        Some(url) if url.starts_with("https://") => url.to_owned(),
        Some(what) => return Err(npm_is_missing(what, "name a file, or an address with https://")),
        None => match std::env::var("npm_config_registry") {
            Ok(registry) => address(&registry),
            Err(_) => {
                return Err(npm_is_missing(NAME, "set npm_config_registry, or give the package with --from FILE"));
            }
        },
    };
    download(&url, MOST_BYTES as usize)
        .map_err(|error| CommandFailure::Failed(format!("{error}; if you have the package, give it with --from FILE")))
}

fn npm_is_missing(what: &str, instead: &str) -> CommandFailure {
    CommandFailure::Failed(format!("npm, which would download {what}, isn't installed: {instead}"))
}

/// Downloads a package with npm, by name or address; `None` if there is no npm.
fn fetch(what: &str, folder: &Folder) -> Result<Option<Vec<u8>>, CommandFailure> {
    let place = folder.path().join(PLACE);
    fs::create_dir_all(&place).map_err(|error| CommandFailure::file(&place, &error))?;
    let package = pack(what, &place);
    // Nothing in this folder is needed again.
    let _ = fs::remove_dir_all(&place);
    package
}

fn pack(what: &str, place: &Path) -> Result<Option<Vec<u8>>, CommandFailure> {
    let mut npm = Command::new("npm");
    npm.args(["pack", "--silent", "--ignore-scripts", "--pack-destination"]).arg(place).arg("--").arg(what);
    let output = match npm.stdin(Stdio::null()).output() {
        Ok(output) => output,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(CommandFailure::Failed(format!("npm can't be run: {error}"))),
    };
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(CommandFailure::Failed(format!("npm can't get {what}: {}", said.trim())));
    }
    let found = fs::read_dir(place).map_err(|error| CommandFailure::file(place, &error))?.flatten();
    let file = found.map(|entry| entry.path()).find(|path| path.extension().is_some_and(|end| end == "tgz"));
    let file = file
        .ok_or_else(|| CommandFailure::Failed(format!("npm claims to have downloaded {what}, but there is no file")))?;
    read(&file).map(Some)
}

fn read(file: &Path) -> Result<Vec<u8>, CommandFailure> {
    let failed = |error| CommandFailure::file(file, &error);
    if fs::metadata(file).map_err(failed)?.len() > MOST_BYTES {
        return Err(CommandFailure::Failed(format!("{} is too large to be {NAME} {VERSION}", file.display())));
    }
    fs::read(file).map_err(failed)
}

/// The folder for npm's downloads.
const PLACE: &str = "web/npm";
/// The package has less than 9 MB.
const MOST_BYTES: u64 = 64 * 1024 * 1024;
