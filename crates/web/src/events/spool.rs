//! Events that wait to be posted, on the disk: lines in files that are written one after the
//! other.
//!
//! # Invariants
//!
//! - A written line survives a crash, until it was accepted or the space is used up.
//! - An accepted line may be sent once more after a crash, but never out of order.
//! - The files have a bounded size: the oldest is removed first, and its lines are counted.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The waiting lines.
#[derive(Debug)]
pub(super) struct Spool {
    folder: PathBuf,
    /// The numbers of the files, with their bytes, oldest first.
    files: Vec<(u64, u64)>,
    /// The byte of the oldest file where the next line begins.
    taken: u64,
    most_bytes: u64,
}

/// The next lines to post.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NextLines {
    pub lines: Vec<u8>,
    pub count: usize,
    file: u64,
    end: u64,
}

impl Spool {
    /// Opens the files in a folder, which is created if necessary.
    ///
    /// # Errors
    /// The error of the system.
    pub fn open(folder: PathBuf, most_bytes: u64) -> io::Result<Self> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
        let mut files = Vec::new();
        for entry in fs::read_dir(&folder)?.flatten() {
            let name = entry.file_name();
            let number = name.to_str().and_then(|name| name.strip_suffix(".jsonl")?.parse().ok());
            if let Some(number) = number {
                files.push((number, whole(&entry.path())?));
            }
        }
        files.sort_unstable();
        let mut spool = Self { folder, files, taken: 0, most_bytes };
        let mark = fs::read_to_string(spool.folder.join(TAKEN)).unwrap_or_default();
        if let Some((Ok(file), Ok(at))) =
            mark.trim().split_once(' ').map(|(file, at)| (file.parse::<u64>(), at.parse::<u64>()))
            && spool.files.first().is_some_and(|(first, bytes)| *first == file && at <= *bytes)
        {
            spool.taken = at;
        }
        Ok(spool)
    }

    /// Returns the bytes of waiting lines.
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|(_, bytes)| bytes).sum::<u64>().saturating_sub(self.taken)
    }

    /// Appends lines, each with its end. Returns how many of the oldest lines were removed for
    /// them.
    ///
    /// # Errors
    /// The error of the system: then the lines are not stored.
    pub fn append(&mut self, lines: &[u8]) -> io::Result<usize> {
        let number = match self.files.last() {
            Some((number, bytes)) if *bytes < FILE_BYTES => *number,
            last => last.map_or(1, |(number, _)| number + 1),
        };
        let mut file = OpenOptions::new().append(true).create(true).mode(0o600).open(self.path(number))?;
        let before = file.metadata()?.len();
        if let Err(error) = file.write_all(lines).and_then(|()| file.sync_data()) {
            // Otherwise half a line would be read together with the next one.
            let _ = file.set_len(before);
            return Err(error);
        }
        let bytes = before + lines.len() as u64;
        match self.files.last_mut() {
            Some((last, known)) if *last == number => *known = bytes,
            _ => self.files.push((number, bytes)),
        }
        let mut lost = 0;
        while self.files.len() > 1 && self.files.iter().map(|(_, bytes)| bytes).sum::<u64>() > self.most_bytes {
            lost += self.read(self.files[0].0, self.taken, usize::MAX, usize::MAX)?.1;
            self.drop_first()?;
        }
        Ok(lost)
    }

    /// Returns the next lines within these limits, though at least one line; `None` if there are
    /// none.
    ///
    /// # Errors
    /// The error of the system.
    pub fn next(&self, most_lines: usize, most_bytes: usize) -> io::Result<Option<NextLines>> {
        let Some((number, bytes)) = self.files.iter().find(|(number, bytes)| {
            let from = if self.files.first().is_some_and(|(first, _)| first == number) { self.taken } else { 0 };
            *bytes > from
        }) else {
            return Ok(None);
        };
        let from = if self.files[0].0 == *number { self.taken } else { 0 };
        let (lines, count) = self.read(*number, from, most_lines, most_bytes)?;
        let end = (from + lines.len() as u64).min(*bytes);
        Ok((count > 0).then_some(NextLines { lines, count, file: *number, end }))
    }

    /// Removes the lines that [`Spool::next`] has returned.
    ///
    /// # Errors
    /// The error of the system; then they may be sent once more.
    pub fn take(&mut self, next: &NextLines) -> io::Result<()> {
        while self.files.len() > 1 && self.files[0].0 < next.file {
            self.drop_first()?;
        }
        self.taken = next.end;
        if let [(_, bytes), _, ..] = self.files[..]
            && bytes <= self.taken
        {
            return self.drop_first();
        }
        self.mark()
    }

    fn drop_first(&mut self) -> io::Result<()> {
        fs::remove_file(self.path(self.files[0].0))?;
        self.files.remove(0);
        self.taken = 0;
        self.mark()
    }

    /// Records how far the lines were taken.
    fn mark(&self) -> io::Result<()> {
        let Some((first, _)) = self.files.first() else { return Ok(()) };
        let (new, mark) = (self.folder.join("taken.new"), self.folder.join(TAKEN));
        fs::write(&new, format!("{first} {}\n", self.taken))?;
        fs::rename(new, mark)
    }

    /// Reads whole lines of a file, and counts them.
    fn read(&self, number: u64, from: u64, most_lines: usize, most_bytes: usize) -> io::Result<(Vec<u8>, usize)> {
        let mut file = File::open(self.path(number))?;
        file.seek(SeekFrom::Start(from))?;
        let mut bytes = Vec::new();
        file.take(FILE_BYTES * 2).read_to_end(&mut bytes)?;
        let (mut end, mut count) = (0, 0);
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            let is_whole = line.ends_with(b"\n");
            if !is_whole || count == most_lines || (count > 0 && end + line.len() > most_bytes) {
                break;
            }
            end += line.len();
            count += 1;
        }
        bytes.truncate(end);
        Ok((bytes, count))
    }

    fn path(&self, number: u64) -> PathBuf {
        self.folder.join(format!("{number:010}.jsonl"))
    }
}

/// Removes the rest of a line that a crash has left, and returns the bytes of the others.
fn whole(path: &Path) -> io::Result<u64> {
    let bytes = fs::read(path)?;
    let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at as u64 + 1);
    if whole < bytes.len() as u64 {
        OpenOptions::new().write(true).open(path)?.set_len(whole)?;
    }
    Ok(whole)
}

/// The name of the file that records how far the lines were taken.
const TAKEN: &str = "taken";
/// The size of a file, in bytes, at which the next one is begun.
const FILE_BYTES: u64 = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(spool: &mut Spool, most: usize) -> Vec<String> {
        let Some(next) = spool.next(most, 1000).unwrap() else { return Vec::new() };
        spool.take(&next).unwrap();
        let text = String::from_utf8(next.lines).unwrap();
        assert_eq!(text.lines().count(), next.count);
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn lines_wait_in_their_order_until_they_are_taken() {
        let folder = tempfile::tempdir().unwrap();
        let open = || Spool::open(folder.path().join("events"), 1 << 30).unwrap();
        let mut spool = open();
        assert_eq!(texts(&mut spool, 9), [""; 0]);
        spool.append(b"one\ntwo\n").unwrap();
        spool.append(b"three\n").unwrap();
        let next = spool.next(2, 1000).unwrap().unwrap();
        assert_eq!((&*next.lines, next.count), (b"one\ntwo\n".as_slice(), 2));
        assert_eq!(spool.next(2, 1000).unwrap().unwrap(), next, "they come again until they are taken");
        assert_eq!(texts(&mut spool, 1), ["one"]);
        let mut again = open();
        assert_eq!(again.bytes(), 10);
        assert_eq!(texts(&mut again, 9), ["two", "three"]);
        assert_eq!((texts(&mut again, 9).len(), again.bytes(), open().bytes()), (0, 0, 0));
    }

    #[test]
    fn half_a_line_of_a_crash_is_no_line() {
        let folder = tempfile::tempdir().unwrap();
        Spool::open(folder.path().to_owned(), 1 << 30).unwrap().append(b"one\n").unwrap();
        let file = folder.path().join("0000000001.jsonl");
        OpenOptions::new().append(true).open(file).unwrap().write_all(b"tw").unwrap();
        let mut spool = Spool::open(folder.path().to_owned(), 1 << 30).unwrap();
        spool.append(b"three\n").unwrap();
        assert_eq!(texts(&mut spool, 9), ["one", "three"]);
    }

    #[test]
    fn the_oldest_go_where_there_is_no_room() {
        let folder = tempfile::tempdir().unwrap();
        let mut spool = Spool::open(folder.path().to_owned(), 2 * FILE_BYTES).unwrap();
        let line = |letter: &str| format!("{}\n", letter.repeat(FILE_BYTES as usize / 2)).into_bytes();
        let lost: usize = ["a", "b", "c", "d", "e"].map(|letter| spool.append(&line(letter)).unwrap()).iter().sum();
        assert_eq!(lost, 2, "a file of two lines");
        let first = spool.next(1, usize::MAX).unwrap().unwrap();
        assert!(first.lines.starts_with(b"c") && spool.bytes() <= 2 * FILE_BYTES);
        spool.take(&first).unwrap();
        for letter in [b"d", b"e"] {
            let next = spool.next(1, 10).unwrap().unwrap();
            assert!(next.lines.starts_with(letter), "one line comes, however long");
            spool.take(&next).unwrap();
        }
        assert_eq!(spool.next(1, 10).unwrap(), None);
    }
}
