//! The imported file of accounts. It may be a pipe, so it is opened once and read once.

use std::fs::File;
use std::io::{self, Cursor, Read};
use std::path::{Path, PathBuf};

use crate::failure::CommandFailure;

/// An open file.
pub struct Content {
    /// Its name, for reports.
    pub path: PathBuf,
    /// Its size in bytes; 0 if it is unknown.
    pub bytes: u64,
    first: Vec<u8>,
    rest: Box<dyn Read>,
}

impl Content {
    /// Opens a file; `-` is standard input.
    ///
    /// # Errors
    ///
    /// [`CommandFailure::Failed`] with the file's name.
    pub fn open(path: &Path) -> Result<Content, CommandFailure> {
        let failed = |error: &io::Error| CommandFailure::file(path, error);
        let (mut rest, bytes): (Box<dyn Read>, u64) = if path == Path::new(STANDARD) {
            (Box::new(io::stdin()), 0)
        } else {
            let file = File::open(path).map_err(|error| failed(&error))?;
            let bytes = file.metadata().map_or(0, |found| found.len());
            (Box::new(file), bytes)
        };
        let mut first = Vec::new();
        rest.by_ref().take(BEGINNING).read_to_end(&mut first).map_err(|error| failed(&error))?;
        Ok(Content { path: path.to_owned(), bytes, first, rest })
    }

    /// Returns whether it is XML rather than lines of accounts: it begins with `<`.
    pub fn is_xml(&self) -> bool {
        let text = self.first.strip_prefix("\u{FEFF}".as_bytes()).unwrap_or(&self.first);
        text.trim_ascii_start().starts_with(b"<")
    }

    /// Returns a reader of it from its beginning.
    pub fn read(self) -> impl Read + 'static {
        Cursor::new(self.first).chain(self.rest)
    }
}

/// The name of standard input and standard output.
pub const STANDARD: &str = "-";
/// The number of bytes by which the format is recognised.
const BEGINNING: u64 = 64;
