//! `rookery user import`: many accounts from a file, on all cores.
//!
//! Hashing the passwords is nearly all of the work (about ten milliseconds each), so a batch is
//! hashed by all cores while the store writes the previous one. Memory is one batch and the
//! addresses seen so far, by which repeated lines are found.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::sync::Mutex;
use std::thread;

use indicatif::{ProgressBar, ProgressStyle};
use rookery_base::Set;
use rookery_base::lock::lock;
use rookery_jid::Jid;
use rookery_sasl::Credentials;
use rookery_store::{Pending, wait};

use super::content::Content;
use super::csv::{self, CsvLine};
use super::password::PasswordRule;
use crate::arguments::ShownAs;
use crate::columns::count_of;
use crate::config::ServerConfig;
use crate::control::note;
use crate::database::OpenedDatabase;
use crate::failure::CommandFailure;
use crate::loaded::ConfigSource;

/// Imports a file and prints a summary.
///
/// # Errors
///
/// [`CommandFailure::Told`] if a line was wrong, [`CommandFailure::Failed`] if the file or the
/// store failed; what was imported before stays.
pub fn run(
    content: Content,
    rule: &PasswordRule,
    shown: ShownAs,
    config: &ServerConfig,
    source: &ConfigSource,
    database: &OpenedDatabase,
) -> Result<(), CommandFailure> {
    let named = super::named_accounts(config, database)?;
    let bar = bar(content.bytes);
    let (seen, told) = (HashMap::new(), Vec::new());
    let mut import = AccountImport { config, rule, database, bar, seen, added: 0, wrong: 0, named, told };
    let path = content.path.clone();
    let read = import.run(&path, BufReader::new(content.read()));
    import.tell(&path, source, shown)?;
    read?;
    if import.wrong > 0 { Err(CommandFailure::Told) } else { Ok(()) }
}

struct AccountImport<'a> {
    config: &'a ServerConfig,
    rule: &'a PasswordRule,
    database: &'a OpenedDatabase,
    bar: ProgressBar,
    /// The line on which each address first appeared.
    seen: HashMap<Jid, u64>,
    added: u64,
    wrong: u64,
    /// Accounts that have rights because of their names, and those of them that were added.
    named: Set<Jid>,
    told: Vec<Jid>,
}

/// An account that was read, with the number and size of its line.
struct ImportRow {
    line: u64,
    bytes: u64,
    jid: Jid,
    password: String,
}

/// Accounts that are being written by the store, by line.
struct WritingAccounts {
    lines: Vec<(u64, Jid)>,
    pending: Pending<Vec<bool>>,
}

impl AccountImport<'_> {
    /// Reports how far the import got, even if it ended early, and records that in the action log.
    fn tell(&mut self, file: &Path, source: &ConfigSource, shown: ShownAs) -> Result<(), CommandFailure> {
        self.database.look_over();
        self.bar.finish_and_clear();
        if self.wrong > SHOWN {
            eprintln!("and {} more", self.wrong - SHOWN);
        }
        let (added, wrong) = (count_of(self.added, "account"), count_of(self.wrong, "line"));
        if self.added > 0 {
            note(source, &self.database.stores, "", &format!("imported {added} from {}", file.display()));
        }
        let words = format!("{added} added, {wrong} failed\n");
        super::tell_import(shown, self.added, self.wrong, &words, &self.told)
    }

    fn run(&mut self, file: &Path, mut input: impl BufRead) -> Result<(), CommandFailure> {
        let mut line = 0;
        let mut writing: Option<WritingAccounts> = None;
        loop {
            let (rows, end) = match self.batch(file, &mut input, &mut line) {
                Ok(batch) => batch,
                Err(failure) => {
                    // Accounts that are still being written are waited for, and are counted.
                    writing.take().map_or(Ok(()), |writing| self.finish(writing))?;
                    return Err(failure);
                }
            };
            let hashed = self.hash(rows);
            if let Some(writing) = writing.take() {
                self.finish(writing)?;
            }
            let (lines, accounts): (Vec<_>, Vec<_>) =
                hashed.into_iter().map(|(line, jid, credentials)| ((line, jid.clone()), (jid, credentials))).unzip();
            if !lines.is_empty() {
                writing = Some(WritingAccounts { lines, pending: self.database.stores.accounts.create_many(accounts) });
            }
            if end {
                break;
            }
        }
        if let Some(writing) = writing {
            self.finish(writing)?;
        }
        Ok(())
    }

    /// Reads the next lines, and returns whether they are the last.
    fn batch(
        &mut self,
        file: &Path,
        input: &mut impl BufRead,
        line: &mut u64,
    ) -> Result<(Vec<ImportRow>, bool), CommandFailure> {
        let mut rows = Vec::new();
        while rows.len() < BATCH {
            let mut bytes = Vec::new();
            let read = input.by_ref().take(LINE_BYTES).read_until(b'\n', &mut bytes);
            let read = read.map_err(|error| CommandFailure::file(file, &error))?;
            if read == 0 {
                return Ok((rows, true));
            }
            *line += 1;
            let mut bytes_read = read as u64;
            let row = if bytes_read == LINE_BYTES && !bytes.ends_with(b"\n") {
                bytes_read += skip_line(input).map_err(|error| CommandFailure::file(file, &error))?;
                Err(format!("the line is longer than {LINE_BYTES} bytes"))
            } else {
                self.row(*line, &bytes)
            };
            match row {
                // A line counts as progress once its password is hashed.
                Ok(Some(row)) => rows.push(row),
                Ok(None) => self.bar.inc(bytes_read),
                Err(reason) => {
                    self.bar.inc(bytes_read);
                    self.refuse(*line, &reason);
                }
            }
        }
        Ok((rows, false))
    }

    fn row(&mut self, line: u64, bytes: &[u8]) -> Result<Option<ImportRow>, String> {
        let length = bytes.len() as u64;
        let bytes = if line == 1 { bytes.strip_prefix(BYTE_ORDER_MARK).unwrap_or(bytes) } else { bytes };
        let text = std::str::from_utf8(bytes).map_err(|_| "the line is not UTF-8".to_owned())?;
        let text = text.strip_suffix('\n').unwrap_or(text);
        let (jid, password) = match csv::line(text.strip_suffix('\r').unwrap_or(text))? {
            CsvLine::Blank => return Ok(None),
            CsvLine::Head if line == 1 => return Ok(None),
            CsvLine::Head => return Err("the column names belong in the first line".to_owned()),
            CsvLine::Account { jid, password } => (jid, password),
        };
        let jid = super::parse_served(&jid, self.config)?;
        if password.is_empty() {
            return Err(format!("the password of {jid} is empty"));
        }
        if let Some(reason) = self.rule.refuses(&jid, &password) {
            return Err(format!("{jid}: {reason}"));
        }
        if let Some(first) = self.seen.get(&jid) {
            return Err(format!("{jid} already appeared in line {first}"));
        }
        self.seen.insert(jid.clone(), line);
        Ok(Some(ImportRow { line, bytes: length, jid, password }))
    }

    /// Derives credentials on all cores, in the order of the rows.
    fn hash(&mut self, rows: Vec<ImportRow>) -> Vec<(u64, Jid, Credentials)> {
        let iterations = self.config.login.scram_iterations;
        let waiting = Mutex::new(rows.into_iter());
        let threads = thread::available_parallelism().map_or(1, usize::from);
        let bar = &self.bar;
        let work = || {
            let mut done = Vec::new();
            loop {
                let row = lock(&waiting).next();
                let Some(row) = row else { return done };
                let derived = Credentials::derive(&row.password, iterations);
                bar.inc(row.bytes);
                done.push((row.line, row.jid, derived));
            }
        };
        let mut hashed = thread::scope(|scope| {
            let others: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
            let mut all = work();
            // A thread that panicked has printed that; its rows are missing from the sum.
            all.extend(others.into_iter().filter_map(|other| other.join().ok()).flatten());
            all
        });
        hashed.sort_by_key(|(line, ..)| *line);
        let mut good = Vec::with_capacity(hashed.len());
        for (line, jid, derived) in hashed {
            match derived {
                Ok(credentials) => good.push((line, jid, credentials)),
                Err(error) => self.refuse(line, &format!("{jid}: {error}")),
            }
        }
        good
    }

    fn finish(&mut self, writing: WritingAccounts) -> Result<(), CommandFailure> {
        let created = wait(writing.pending)?;
        for ((line, jid), created) in writing.lines.into_iter().zip(created) {
            if created {
                self.added += 1;
                self.told.extend(self.named.get(&jid).cloned());
            } else {
                self.refuse(line, &format!("{jid} already exists"));
            }
        }
        Ok(())
    }

    fn refuse(&mut self, line: u64, reason: &str) {
        self.wrong += 1;
        if self.wrong <= SHOWN {
            self.bar.suspend(|| eprintln!("line {line}: {reason}"));
        }
    }
}

/// Skips the rest of a line that is too long, and returns its size.
fn skip_line(input: &mut impl BufRead) -> std::io::Result<u64> {
    let mut skipped = 0;
    loop {
        let buffer = input.fill_buf()?;
        let end = buffer.iter().position(|byte| *byte == b'\n');
        let length = end.map_or(buffer.len(), |end| end + 1);
        input.consume(length);
        skipped += length as u64;
        if end.is_some() || length == 0 {
            return Ok(skipped);
        }
    }
}

/// Returns a progress bar, which only shows on a terminal.
fn bar(bytes: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:40} {percent}% of {total_bytes}, {elapsed} gone, {eta} to go");
    ProgressBar::new(bytes).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

/// Wrong lines that are shown one by one: a file of another kind has nothing else.
const SHOWN: u64 = 10;

/// Accounts that are hashed and written together: some seconds of work.
const BATCH: usize = 256;

/// An address has at most 2047 bytes, and no password is longer than a page.
const LINE_BYTES: u64 = 8192;

const BYTE_ORDER_MARK: &[u8] = "\u{FEFF}".as_bytes();
