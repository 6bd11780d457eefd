//! Makes a backup.

use std::fmt;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, IsTerminal, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rookery_base::date;
use rookery_store::sql::copy::{self, CopyEnd, EndAddress};
use rookery_store::sqlite::{self, Severity};
use rookery_web::backups::UnmadeBackup;
use rookery_web::health::{DiskFill, Space};
use serde_json::{Value, json};
use tracing::info;

use super::archive::{self, BackupArchive};
use super::restore::files_below;
use super::{ABOUT, About, DATA, DATABASE, FORMAT, OUTSIDE, OutsideFile, STANDARD, UPLOADS};
use crate::arguments::ShownAs;
use crate::clock;
use crate::columns::{self, count_of};
use crate::config::ServerConfig;
use crate::control::note_beside;
use crate::database;
use crate::failure::CommandFailure;
use crate::folder::{self, Folder};
use crate::loaded::ConfigSource;
use crate::welcome::say;

/// Writes everything that a server has to a file, also while the server runs, and reads the file
/// again; with `-` it writes to standard output, where nothing can be read again.
///
/// # Errors
///
/// [`CommandFailure::Config`] if the configuration is wrong, otherwise [`CommandFailure::Failed`].
/// A file of that name then doesn't exist, or is the earlier one. Bytes that have reached standard
/// output by then aren't a usable backup.
pub fn backup(source: &ConfigSource, file: &Path, shown: ShownAs) -> Result<(), CommandFailure> {
    let config = source.read()?;
    if file == Path::new(STANDARD) {
        return stream(source, &config, shown);
    }
    let work = BackupWork::begin(file)?;
    let made = make(source, &config, &work);
    let outcome = made.and_then(|made| work.keep(file).map(|()| made));
    work.clear();
    let (content, bytes) = outcome?;
    note_beside(source, "", &format!("made a backup: {}", file.display()));
    if shown.json {
        return columns::objects([content.object(file, Some(bytes))]);
    }
    say(&format!("{content} in {bytes} bytes, written and verified\n{}", elsewhere(&config)));
    Ok(())
}

/// Writes a backup to standard output, and a summary of its contents to standard error. Only the
/// database takes space in the data folder meanwhile.
fn stream(source: &ConfigSource, config: &ServerConfig, shown: ShownAs) -> Result<(), CommandFailure> {
    if io::stdout().is_terminal() {
        return Err(CommandFailure::Failed(
            "a backup can't be shown at a terminal: redirect it to a file or a program, as in \
             `rookery backup - | ssh host 'cat > rookery.tar.gz'`"
                .to_owned(),
        ));
    }
    source.folder.find()?;
    let file = Path::new(STANDARD);
    let work = BackupWork::begin(&source.folder.stream_stem())?;
    let filled = fill(source, config, &work, file, io::stdout().lock());
    work.clear();
    let (content, _) = filled?;
    note_beside(source, "", "made a backup: to standard output");
    match shown.json {
        true => eprintln!("{}", content.object(file, None)),
        false => eprint!("{content}, written to standard output\n{}", elsewhere(config)),
    }
    Ok(())
}

/// Makes a backup for the API of the running server: in the data folder, verified, and without a
/// name when it is returned.
///
/// # Errors
///
/// The reason why there is none; nothing remains on the disk then.
pub fn write_for_api(source: &ConfigSource) -> Result<File, UnmadeBackup> {
    let failed = |failure: CommandFailure| UnmadeBackup::Failed(failure.to_string());
    let config = source.read().map_err(|error| failed(error.into()))?;
    let work = match BackupWork::begin(&source.folder.stream_stem()) {
        Ok(work) => work,
        Err(UnbegunBackup::Busy(_)) => return Err(UnmadeBackup::Busy),
        Err(UnbegunBackup::Failed(failure)) => return Err(failed(failure)),
    };
    let made = match has_room(&source.folder) {
        true => make(source, &config, &work).map_err(failed),
        false => Err(UnmadeBackup::NoRoom),
    };
    work.clear();
    let (content, bytes) = made?;
    info!(%content, bytes, "a backup was made for a request to the API");
    Ok(work.file)
}

/// Returns whether the disk of the data folder has room for a backup there: for the database, for
/// its compressed form, which isn't larger, and for the files that users have shared.
fn has_room(folder: &Folder) -> bool {
    let size = |path: &Path| fs::metadata(path).map_or(0, |found| found.len());
    let database = size(&folder.database()).saturating_add(size(&folder.log_of_database()));
    let uploads = files_below(&folder.uploads()).unwrap_or_default();
    let uploads: u64 = uploads.iter().map(|path| size(path)).sum();
    let needed = database.saturating_mul(2).saturating_add(uploads);
    // A disk whose space is unknown shows when it is full.
    Space::of(folder.path()).map_or(true, |Space { free, total }| {
        Space { free: free.saturating_sub(needed), total }.fill() < DiskFill::Full
    })
}

/// Writes a backup to its file and reads it again. Returns the numbers of its content, and its size
/// in bytes.
fn make(
    source: &ConfigSource,
    config: &ServerConfig,
    work: &BackupWork,
) -> Result<(BackupContent, u64), CommandFailure> {
    let failed = |error| CommandFailure::file(&work.path, &error);
    let (content, file) = fill(source, config, work, &work.path, work.file.try_clone().map_err(failed)?)?;
    file.sync_all().map_err(failed)?;
    File::open(&work.path).and_then(|file| archive::read(file, &mut |_, _| Ok(()))).map_err(failed)?;
    Ok((content, work.file.metadata().map_or(0, |found| found.len())))
}

/// The numbers of a backup.
struct BackupContent {
    rows: u64,
    uploads: u64,
    /// Uploads that the database lists, but whose files were deleted meanwhile.
    gone: u64,
    files: usize,
    bucket: Option<String>,
}

impl BackupContent {
    fn object(&self, file: &Path, bytes: Option<u64>) -> Value {
        let Self { rows, uploads, gone, files, bucket } = self;
        json!({
            "file": file.display().to_string(), "rows": rows, "uploads": uploads, "uploads_deleted_meanwhile": gone,
            "uploads_elsewhere": bucket, "files": files, "bytes": bytes,
        })
    }
}

impl fmt::Display for BackupContent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}", count_of(self.rows, "row"), count_of(self.uploads, "upload"))?;
        if self.gone > 0 {
            write!(f, " ({} were deleted meanwhile and aren't included)", self.gone)?;
        }
        write!(f, ", {}", count_of(self.files as u64, "file"))
    }
}

/// Returns a line about uploads in a bucket, which a backup leaves out; empty if there is no
/// bucket.
fn elsewhere(config: &ServerConfig) -> String {
    config.uploads.bucket.as_ref().map_or_else(String::new, |bucket| {
        format!("uploads are in {bucket} and aren't included in this backup: have the storage service keep copies\n")
    })
}

/// Writes a backup to `out`, which messages call `name`. Returns the numbers of its content.
fn fill<W: Write>(
    source: &ConfigSource,
    config: &ServerConfig,
    work: &BackupWork,
    name: &Path,
    out: W,
) -> Result<(BackupContent, W), CommandFailure> {
    let rows = rows(source, &work.database())?;
    let mut archive = BackupArchive::new(out);
    let outside = outside(source, config);
    let about = About {
        format: FORMAT,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        made: date::timestamp(clock::now() * 1000),
        outside: outside.iter().map(|(outside, _)| outside.clone()).collect(),
    };
    let about = toml::to_string(&about).map_err(|error| CommandFailure::Failed(error.to_string()))?;
    archive.bytes(ABOUT, about.as_bytes()).map_err(|error| CommandFailure::file(name, &error))?;
    add(&mut archive, DATABASE, &work.database())?;
    let (uploads, gone) = match config.uploads.bucket {
        Some(_) => (0, 0),
        None => uploads(&mut archive, &source.folder, &work.database())?,
    };
    for (name, path) in files(&source.folder, work)? {
        // A file that is gone by now was temporary.
        add_if_there(&mut archive, &format!("{DATA}{name}"), &path)?;
    }
    for (outside, path) in &outside {
        add(&mut archive, &outside.name, path)?;
    }
    let (out, files) = archive.finish().map_err(|error| CommandFailure::file(name, &error))?;
    Ok((BackupContent { rows, uploads, gone, files, bucket: config.uploads.bucket.clone() }, out))
}

/// Writes the current database to an SQLite file, and checks the file. Returns the number of rows.
fn rows(source: &ConfigSource, to: &Path) -> Result<u64, CommandFailure> {
    let from = database::address(&source.folder, &source.read()?.store)?;
    let counts = match &from {
        EndAddress::Sqlite(file) if !file.exists() => {
            let file = file.display();
            return Err(CommandFailure::Failed(format!(
                "there is no database {file} yet, so there is nothing to back up"
            )));
        }
        EndAddress::Sqlite(file) => {
            sqlite::snapshot(file, to)?;
            copy::counts(&mut CopyEnd::source(&EndAddress::Sqlite(to.to_owned()))?)?
        }
        EndAddress::Postgres(_) | EndAddress::Mysql(_) => {
            let to = EndAddress::Sqlite(to.to_owned());
            let copied = copy::copy(&mut CopyEnd::source(&from)?, &mut CopyEnd::destination(&to)?, &mut |_| {});
            copied.map_err(|error| CommandFailure::Failed(error.to_string()))?;
            copy::counts(&mut CopyEnd::source(&to)?)?
        }
    };
    sound(to)?;
    Ok(counts.iter().map(|(_, rows)| rows).sum())
}

/// Checks that a database is intact.
///
/// # Errors
///
/// The fault that was found.
pub fn sound(database: &Path) -> Result<(), CommandFailure> {
    let findings = sqlite::check(database);
    match findings.into_iter().find(|finding| finding.severity > Severity::Warning) {
        Some(fault) => Err(CommandFailure::Failed(fault.text)),
        None => Ok(()),
    }
}

/// Adds the uploads that the database lists. Returns how many there are, and how many are gone.
fn uploads<W: Write>(
    archive: &mut BackupArchive<W>,
    folder: &Folder,
    database: &Path,
) -> Result<(u64, u64), CommandFailure> {
    let (mut there, mut gone) = (0, 0);
    let mut tokens = Vec::new();
    copy::uploads(&mut CopyEnd::source(&EndAddress::Sqlite(database.to_owned()))?, &mut |token| {
        tokens.push(token.to_owned())
    })?;
    for token in tokens {
        let name = rookery_web::upload::place(&token);
        match add_if_there(archive, &format!("{UPLOADS}{name}"), &folder.uploads().join(&name))? {
            true => there += 1,
            false => gone += 1,
        }
    }
    Ok((there, gone))
}

/// Returns the files of the data folder with their names in it, except for those that a backup
/// contains in another form, and those that are useless elsewhere.
fn files(folder: &Folder, work: &BackupWork) -> Result<Vec<(String, PathBuf)>, CommandFailure> {
    let mut found = Vec::new();
    let mut folders = vec![(String::new(), folder.path().to_owned())];
    while let Some((prefix, path)) = folders.pop() {
        let entries = fs::read_dir(&path).map_err(|error| CommandFailure::file(&path, &error))?;
        for entry in entries.flatten() {
            let (Ok(kind), Ok(name)) = (entry.file_type(), entry.file_name().into_string()) else { continue };
            if prefix.is_empty() && folder::is_kept_out(&name) || name.ends_with(".new") || work.is_of_it(&entry.path())
            {
                continue;
            }
            let name = format!("{prefix}{name}");
            match (kind.is_dir(), kind.is_file()) {
                (true, _) => folders.push((format!("{name}/"), entry.path())),
                (_, true) => found.push((name, entry.path())),
                _ => {}
            }
        }
    }
    found.sort();
    Ok(found)
}

/// Returns the configuration and the certificates that are outside the data folder.
fn outside(source: &ConfigSource, config: &ServerConfig) -> Vec<(OutsideFile, PathBuf)> {
    let inside = source.folder.path().canonicalize().unwrap_or_else(|_| source.folder.path().to_owned());
    let of_domains = config.domains.iter().map(|domain| &domain.files);
    let named = of_domains.chain([&config.tls.files]).flat_map(|files| [&files.certificate, &files.key]);
    let named = named.chain([
        &config.uploads.secret_file,
        &config.uploads.trusted,
        &config.acme.trusted,
        &config.dpm.database,
        &config.dpm.grpc_certificate,
        &config.dpm.grpc_key,
        &config.dpm.tokens,
        &config.dpm.keytab,
        &config.dpm.roles,
    ]);
    let mut found: Vec<(OutsideFile, PathBuf)> = Vec::new();
    for path in [&source.config].into_iter().chain(named).flatten() {
        // The server may be able to start without some of these.
        let Ok(path) = path.canonicalize() else { continue };
        if path.starts_with(&inside) || !path.is_file() || found.iter().any(|(_, other)| *other == path) {
            continue;
        }
        let file = path.file_name().and_then(|name| name.to_str()).unwrap_or("file");
        let name = format!("{OUTSIDE}{}/{file}", found.len());
        found.push((OutsideFile { name, path: path.clone() }, path));
    }
    found
}

fn add<W: Write>(archive: &mut BackupArchive<W>, name: &str, path: &Path) -> Result<(), CommandFailure> {
    archive.file(name, path).map_err(|error| CommandFailure::file(path, &error))
}

/// Adds a file unless it is gone.
fn add_if_there<W: Write>(archive: &mut BackupArchive<W>, name: &str, path: &Path) -> Result<bool, CommandFailure> {
    match archive.file(name, path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(CommandFailure::file(path, &error)),
    }
}

/// The reason why the work on a backup can't begin.
enum UnbegunBackup {
    /// Another process or thread is writing a backup of that name.
    Busy(PathBuf),
    /// Anything else.
    Failed(CommandFailure),
}

impl From<CommandFailure> for UnbegunBackup {
    fn from(failure: CommandFailure) -> UnbegunBackup {
        UnbegunBackup::Failed(failure)
    }
}

impl From<UnbegunBackup> for CommandFailure {
    fn from(unbegun: UnbegunBackup) -> CommandFailure {
        match unbegun {
            UnbegunBackup::Busy(target) => {
                CommandFailure::Failed(format!("another backup is being written to {}", target.display()))
            }
            UnbegunBackup::Failed(failure) => failure,
        }
    }
}

/// The files for making a backup, beside the final one.
struct BackupWork {
    path: PathBuf,
    file: File,
    folder: PathBuf,
}

impl BackupWork {
    /// Creates them, or reuses those of an interrupted backup.
    fn begin(target: &Path) -> Result<BackupWork, UnbegunBackup> {
        let name =
            target.file_name().ok_or_else(|| CommandFailure::Failed(format!("{} names no file", target.display())))?;
        let beside = |end: &str| {
            let mut name = name.to_owned();
            name.push(end);
            target.with_file_name(name)
        };
        let (path, folder) = (beside(".new"), beside(".parts"));
        let failed = |error: io::Error| CommandFailure::file(&path, &error);
        let opened = OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(&path);
        let file = opened.map_err(failed)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(UnbegunBackup::Busy(target.to_owned()));
            }
            Err(TryLockError::Error(error)) => return Err(failed(error).into()),
        }
        file.set_len(0).map_err(failed)?;
        let _ = fs::remove_dir_all(&folder);
        let made = fs::DirBuilder::new().mode(0o700).create(&folder);
        made.map_err(|error| CommandFailure::file(&folder, &error))?;
        Ok(BackupWork { path, file, folder })
    }

    fn database(&self) -> PathBuf {
        self.folder.join(DATABASE)
    }

    /// Returns whether a path is one of these files.
    fn is_of_it(&self, path: &Path) -> bool {
        let same = |own: &Path| own.canonicalize().is_ok_and(|own| path.canonicalize().is_ok_and(|path| path == own));
        same(&self.path) || same(&self.folder)
    }

    /// Gives the backup its final name.
    fn keep(&self, target: &Path) -> Result<(), CommandFailure> {
        let folder = target.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let kept = fs::rename(&self.path, target).and_then(|()| File::open(folder)?.sync_all());
        kept.map_err(|error| CommandFailure::file(target, &error))
    }

    /// Removes the files that remain.
    fn clear(&self) {
        let _ = fs::remove_dir_all(&self.folder);
        let _ = fs::remove_file(&self.path);
    }
}
