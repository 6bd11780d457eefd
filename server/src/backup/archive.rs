//! The file of a backup: written with checksums, and read with them.

use rookery_base::hex;
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::{Component, Path};
use std::time::UNIX_EPOCH;

use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;
use sha2::{Digest, Sha256};

/// A backup that is being written, to a file or a pipe.
pub struct BackupArchive<W: Write> {
    tar: tar::Builder<GzEncoder<BufWriter<W>>>,
    /// A line for each entry, as `sha256sum` writes it.
    sums: String,
    files: usize,
}

impl<W: Write> BackupArchive<W> {
    /// Begins to write.
    pub fn new(out: W) -> BackupArchive<W> {
        let compressed = GzEncoder::new(BufWriter::new(out), Compression::fast());
        BackupArchive { tar: tar::Builder::new(compressed), sums: String::new(), files: 0 }
    }

    /// Adds a file with a given name and content.
    pub fn bytes(&mut self, name: &str, bytes: &[u8]) -> io::Result<()> {
        self.entry(name, bytes, bytes.len() as u64, 0)
    }

    /// Adds a file with its current bytes; bytes that are appended meanwhile are left out.
    pub fn file(&mut self, name: &str, path: &Path) -> io::Result<()> {
        let file = File::open(path)?;
        let found = file.metadata()?;
        let modified = found.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        self.entry(name, file, found.len(), modified.map_or(0, |since| since.as_secs()))
    }

    /// Writes the checksums, and returns the writer that has received the backup, with the number
    /// of files in it.
    pub fn finish(mut self) -> io::Result<(W, usize)> {
        let (sums, files) = (std::mem::take(&mut self.sums), self.files);
        self.bytes(SUMS, sums.as_bytes())?;
        let mut out = self.tar.into_inner()?.finish()?.into_inner().map_err(io::IntoInnerError::into_error)?;
        out.flush()?;
        Ok((out, files))
    }

    fn entry(&mut self, name: &str, content: impl Read, size: u64, modified: u64) -> io::Result<()> {
        let mut header = tar::Header::new_gnu();
        header.set_size(size);
        header.set_mode(0o600);
        header.set_mtime(modified);
        let mut counted = Summed { content: content.take(size), digest: Sha256::new(), bytes: 0 };
        self.tar.append_data(&mut header, name, &mut counted)?;
        if counted.bytes != size {
            return Err(io::Error::other("it was truncated while it was being read: try again"));
        }
        self.sums.push_str(&format!("{}  {name}\n", hex(counted.digest)));
        self.files += 1;
        Ok(())
    }
}

/// Reads a backup from its beginning to its end, and passes every file with its name to `take`,
/// which may read as much of it as it likes. Returns the number of files.
///
/// # Errors
///
/// The fault of the backup. Files that `take` has received must not be used then.
pub fn read(input: impl Read, take: &mut dyn FnMut(&str, &mut dyn Read) -> io::Result<()>) -> io::Result<usize> {
    let mut tar = tar::Archive::new(MultiGzDecoder::new(BufReader::new(input)));
    let mut found: HashMap<String, String> = HashMap::new();
    let mut sums = None;
    for entry in tar.entries()? {
        let mut entry = entry?;
        let name = name(&entry)?;
        if name == SUMS {
            let mut text = String::new();
            entry.read_to_string(&mut text)?;
            sums = Some(text);
            break;
        }
        let mut summed = Summed { content: &mut entry, digest: Sha256::new(), bytes: 0 };
        take(&name, &mut summed)?;
        io::copy(&mut summed, &mut io::sink())?;
        let sum = hex(summed.digest);
        if found.insert(name.clone(), sum).is_some() {
            return Err(damage(&format!("{name} is in it twice")));
        }
    }
    let sums = sums.ok_or_else(|| damage("it ends too early"))?;
    // The checksum of the compressed file is at its end.
    io::copy(&mut tar.into_inner(), &mut io::sink())?;
    let count = found.len();
    compare(&sums, found).map(|()| count)
}

/// Returns the name of an entry, which must stay below the folder where it is unpacked.
fn name<R: Read>(entry: &tar::Entry<'_, R>) -> io::Result<String> {
    let path = entry.path()?;
    let is_below = path.components().all(|component| matches!(component, Component::Normal(_)));
    let name = path.to_str().filter(|name| is_below && !name.is_empty() && entry.header().entry_type().is_file());
    name.map(str::to_owned).ok_or_else(|| damage(&format!("{} doesn't belong to a backup", path.display())))
}

/// Compares the checksums of the files that were read with those in the archive.
fn compare(sums: &str, mut found: HashMap<String, String>) -> io::Result<()> {
    for line in sums.lines() {
        let (sum, name) = line.split_once("  ").ok_or_else(|| damage("its checksums can't be read"))?;
        match found.remove(name) {
            Some(found) if found == sum => {}
            Some(_) => return Err(damage(&format!("the checksum of {name} has changed since it was written"))),
            None => return Err(damage(&format!("{name} is missing"))),
        }
    }
    match found.into_keys().next() {
        None => Ok(()),
        Some(name) => Err(damage(&format!("{name} has no checksum"))),
    }
}

fn damage(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("the backup is damaged: {what}"))
}

/// Counts and hashes bytes as they are read.
struct Summed<R> {
    content: R,
    digest: Sha256,
    bytes: u64,
}

impl<R: Read> Read for Summed<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.content.read(buffer)?;
        self.digest.update(buffer.get(..read).unwrap_or_default());
        self.bytes += read as u64;
        Ok(read)
    }
}

fn hex(digest: Sha256) -> String {
    hex::encode(digest.finalize())
}

/// The checksums, as `sha256sum` writes them.
const SUMS: &str = "SHA256SUMS";

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(path: &Path) {
        let mut archive = BackupArchive::new(File::create(path).expect("a file"));
        archive.bytes("a", b"one").expect("written");
        archive.bytes(&format!("uploads/{}", "x".repeat(300)), &[7; 100_000]).expect("written");
        archive.finish().expect("written");
    }

    #[test]
    fn what_is_written_is_read() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("b");
        sample(&path);
        let mut names = Vec::new();
        let count = read(File::open(&path).expect("a file"), &mut |name, content| {
            let mut bytes = Vec::new();
            // A file may be read in part.
            content.take(2).read_to_end(&mut bytes)?;
            names.push((name.len(), bytes));
            Ok(())
        });
        assert_eq!((count.expect("whole"), names), (2, vec![(1, b"on".to_vec()), (308, vec![7, 7])]));
    }

    #[test]
    fn damage_is_found_at_every_place() {
        let folder = tempfile::tempdir().expect("a folder");
        let (good, bad) = (folder.path().join("good"), folder.path().join("bad"));
        sample(&good);
        let bytes = std::fs::read(&good).expect("read");
        let content = |path: &Path| {
            let mut all = Vec::new();
            read(File::open(path)?, &mut |name, content| {
                all.extend_from_slice(name.as_bytes());
                content.read_to_end(&mut all).map(drop)
            })
            .map(|_| all)
        };
        let whole = content(&good).expect("whole");
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 0x10;
            std::fs::write(&bad, &changed).expect("written");
            // A change that isn't noticed, such as another date in the head, is harmless.
            assert!(content(&bad).is_ok_and(|found| found == whole) || content(&bad).is_err(), "byte {at}");
            std::fs::write(&bad, &bytes[..at]).expect("written");
            assert!(content(&bad).is_err(), "cut at byte {at}");
        }
    }

    #[test]
    fn nothing_leaves_the_folder() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("b");
        for name in ["../x", "/etc/x", "a/../../x"] {
            let mut tar = tar::Builder::new(GzEncoder::new(File::create(&path).expect("a file"), Compression::fast()));
            let mut header = tar::Header::new_gnu();
            header.set_size(0);
            header.set_mode(0o600);
            // The library refuses to write such names.
            header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
            header.set_cksum();
            tar.append(&header, io::empty()).expect("written");
            tar.into_inner().expect("written").finish().expect("written");
            let file = File::open(&path).expect("a file");
            let error = read(file, &mut |_, _| panic!("nothing is taken")).expect_err("a refusal");
            assert!(error.to_string().contains("doesn't belong to a backup"), "{error}");
        }
    }
}
