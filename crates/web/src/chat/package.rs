//! The package of Converse.js: its version, and the files that are taken from it.
//!
//! # Invariants
//!
//! - Nothing of a package is written before its hash is known to be the pinned one.
//! - The folder of a version is complete or missing: it is created beside its place and moved
//!   there at the end.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Component, Path, PathBuf};

use base64::{Engine, engine::general_purpose::STANDARD};
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use sha2::{Digest, Sha512};

/// The package's name in the npm registry.
pub const NAME: &str = "converse.js";
/// The version that the page is made for.
pub const VERSION: &str = "14.0.0";
/// The SHA-512 of the package, in Base64, as in the registry's `integrity`.
pub const INTEGRITY: &str = "LFUg030jDalV47vI/vyVPqYPZfJYXFbubq8v0cFDe2zXNeeGEk3Up0Fj/WTzT6t+6do+cAIToy73eAj7RNDj2Q==";
/// The suffix of a file's compressed form.
pub(super) const COMPRESSED: &str = ".gz";

/// Returns the folder for the files of this version, in a data folder.
pub fn folder(data: &Path) -> PathBuf {
    data.join("web").join(format!("{NAME}-{VERSION}"))
}

/// Returns the folder that has the files of this version: the one in a data folder or, if there is
/// none, that of the server's package; `None` if neither exists.
pub fn installed_folder(data: &Path) -> Option<PathBuf> {
    [data, Path::new(PACKAGED)].map(folder).into_iter().find(|folder| folder.is_dir())
}

/// The folder in which a package of the server or an image has the files, with the same structure
/// as in a data folder.
const PACKAGED: &str = "/usr/share/rookery";

/// Installs the files for browsers from a package in a data folder, in place of other versions;
/// returns their number.
///
/// # Errors
/// It is another package, or the folder can't be written; as a text.
pub fn install(package: &[u8], data: &Path) -> Result<usize, String> {
    verify(package, INTEGRITY)?;
    unpack(package, &folder(data)).map_err(|error| format!("{}: {error}", folder(data).display()))
}

/// Checks the SHA-512 of the bytes.
fn verify(package: &[u8], integrity: &str) -> Result<(), String> {
    let found = STANDARD.encode(Sha512::digest(package));
    if found == integrity {
        return Ok(());
    }
    Err(format!("this is not {NAME} {VERSION}: its SHA-512 is\n  {found}, not\n  {integrity}"))
}

fn unpack(package: &[u8], folder: &Path) -> io::Result<usize> {
    let parent = folder.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(parent)?;
    let beside = folder.with_extension("new");
    remove(&beside)?;
    let count = write_files(package, &beside)?;
    for other in fs::read_dir(parent)? {
        let path = other?.path();
        let is_ours = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(NAME));
        if is_ours && path != beside {
            remove(&path)?;
        }
    }
    fs::rename(&beside, folder)?;
    Ok(count)
}

fn write_files(package: &[u8], folder: &Path) -> io::Result<usize> {
    let mut count = 0;
    let mut archive = tar::Archive::new(GzDecoder::new(package).take(MOST_BYTES));
    for entry in archive.entries()? {
        let mut entry = entry?;
        let path = entry.path()?.into_owned();
        let Some(wanted) = wanted_file(&path).filter(|_| entry.header().entry_type().is_file()) else { continue };
        let target = folder.join(wanted);
        fs::create_dir_all(target.parent().unwrap_or(folder))?;
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes)?;
        File::create(&target)?.write_all(&bytes)?;
        if is_compressible(wanted) {
            let mut name = target.into_os_string();
            name.push(COMPRESSED);
            let mut encoder = GzEncoder::new(File::create(name)?, Compression::best());
            encoder.write_all(&bytes)?;
            encoder.finish()?;
        }
        count += 1;
    }
    Ok(count)
}

fn remove(folder: &Path) -> io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Returns the path for a file of the package if browsers need it: a built file, unless it is a map
/// for debuggers or exists in a smaller form.
fn wanted_file(path: &Path) -> Option<&Path> {
    let path = path.strip_prefix("package/dist").ok()?;
    let name = path.to_str()?;
    let is_below = path.components().all(|part| matches!(part, Component::Normal(_)));
    let is_left_out = name.starts_with("website") || LEFT_OUT.contains(&name);
    (is_below && !is_left_out && content_type(name) != UNKNOWN).then_some(path)
}

fn is_compressible(path: &Path) -> bool {
    path.extension()
        .is_some_and(|extension| ["js", "css", "json", "svg", "ttf", "wasm"].iter().any(|known| extension == *known))
}

/// Returns the media type of a file by its name.
pub(super) fn content_type(name: &str) -> &'static str {
    let extension = name.rsplit_once('.').map_or("", |(_, extension)| extension);
    TYPES.iter().find(|(known, _)| *known == extension).map_or(UNKNOWN, |(_, kind)| kind)
}

const UNKNOWN: &str = "application/octet-stream";
const TYPES: [(&str, &str); 10] = [
    ("js", "text/javascript; charset=utf-8"),
    ("css", "text/css; charset=utf-8"),
    ("json", "application/json"),
    ("svg", "image/svg+xml"),
    ("png", "image/png"),
    ("ico", "image/x-icon"),
    ("ttf", "font/ttf"),
    ("mp3", "audio/mpeg"),
    ("ogg", "audio/ogg"),
    ("wasm", "application/wasm"),
];
/// Files whose minified forms the page loads.
const LEFT_OUT: [&str; 2] = ["converse.js", "converse.css"];
/// The most bytes of an unpacked package: this one has a fifth of that.
const MOST_BYTES: u64 = 256 * 1024 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a package with these files.
    fn package(files: &[(&str, &[u8])]) -> Vec<u8> {
        let mut archive = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
        for (path, bytes) in files {
            let mut header = tar::Header::new_gnu();
            header.set_size(bytes.len() as u64);
            header.set_mode(0o644);
            // `set_path` isn't used, since it refuses the paths of a malicious package.
            header.as_old_mut().name[..path.len()].copy_from_slice(path.as_bytes());
            header.set_cksum();
            archive.append(&header, *bytes).unwrap();
        }
        archive.into_inner().unwrap().finish().unwrap()
    }

    #[test]
    fn what_a_browser_needs_is_unpacked_and_other_versions_go() {
        let data = tempfile::tempdir().unwrap();
        let folder = folder(data.path());
        let old = folder.with_file_name(format!("{NAME}-1.0.0"));
        fs::create_dir_all(&old).unwrap();
        let bytes = package(&[
            ("package/dist/converse.min.js", b"script"),
            ("package/dist/converse.min.js.map", b"map"),
            ("package/dist/converse.js", b"large"),
            ("package/dist/images/logo.png", b"picture"),
            ("package/src/index.js", b"source"),
            ("package/dist/../../evil.js", b"evil"),
        ]);
        assert_eq!(unpack(&bytes, &folder).unwrap(), 2);
        assert_eq!(fs::read(folder.join("converse.min.js")).unwrap(), b"script");
        let mut plain = Vec::new();
        GzDecoder::new(File::open(folder.join("converse.min.js.gz")).unwrap()).read_to_end(&mut plain).unwrap();
        assert_eq!(plain, b"script");
        assert!(folder.join("images/logo.png").exists() && !folder.join("images/logo.png.gz").exists());
        assert!(!old.exists() && !data.path().join("evil.js").exists() && !folder.join("converse.js").exists());
        assert_eq!(unpack(&bytes, &folder).unwrap(), 2, "again, over itself");
    }

    #[test]
    fn another_package_is_refused_before_anything_is_written() {
        let data = tempfile::tempdir().unwrap();
        let refused = install(&package(&[("package/dist/a.js", b"x")]), data.path()).unwrap_err();
        assert!(refused.starts_with("this is not converse.js 14.0.0: its SHA-512 is"), "{refused}");
        assert_eq!(fs::read_dir(data.path()).unwrap().count(), 0);
        assert!(
            verify(b"", "z4PhNX7vuL3xVChQ1m2AB9Yg5AULVxXcg/SpIdNs6c5H0NE8XYXysP+DGNKHfuwvY7kxvUdBeoGlODJ6+SfaPg==")
                .is_ok()
        );
    }

    #[test]
    fn half_a_package_leaves_nothing_that_looks_whole() {
        let data = tempfile::tempdir().unwrap();
        let bytes = package(&[("package/dist/a.js", &[7; 4000]), ("package/dist/b.js", &[9; 4000])]);
        assert!(unpack(&bytes[..bytes.len() / 2], &folder(data.path())).is_err());
        assert!(!folder(data.path()).exists());
    }
}
