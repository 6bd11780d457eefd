//! Restores a backup.

use std::fs::{self, File, OpenOptions};
use std::io::{self, IsTerminal, Read};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rookery_store::sql::copy::{self, Compared, CopyEnd, CopyError, EndAddress};
use rookery_store::sqlite;

use super::destination::RestorePlace;
use super::write::sound;
use super::{ABOUT, About, DATA, DATABASE, FORMAT, OUTSIDE, STANDARD, UPLOADS, archive};
use crate::clock;
use crate::database;
use crate::failure::CommandFailure;
use crate::folder::{BEFORE, Folder};
use crate::loaded::ConfigSource;
use crate::owner::Owner;
use crate::store::copy::Bar;
use crate::welcome::say;

/// Puts the files of a backup into the data folder, and its database where a server will look for
/// it, or into the database that is named.
///
/// # Errors
///
/// [`CommandFailure::Failed`] if a server runs here, if there is data and `replace` isn't set, or
/// if the backup is damaged: nothing is changed then. If a restore is interrupted, no server starts
/// until the same command has completed it.
pub fn restore(source: &ConfigSource, file: &Path, to: Option<&str>, replace: bool) -> Result<(), CommandFailure> {
    let folder = &source.folder;
    let here = source.read()?.store;
    if let Some(to) = to {
        // A wrong address is reported before anything is unpacked.
        database::read_address(to, &here)?;
    }
    folder.create_for_server()?;
    let _lock = folder.lock()?;
    if !replace && !folder.restoring().exists() && folder.database().exists() {
        return Err(CommandFailure::Failed(format!(
            "{} already has a database; --replace moves the existing data into a subfolder",
            folder.path().display()
        )));
    }
    let parts = folder.parts();
    let _ = fs::remove_dir_all(&parts);
    let unpacked = unpack(file, &parts).and_then(|about| look(&parts).map(|()| about));
    let found = unpacked.and_then(|about| {
        let to = RestorePlace::find(source, &here, (&parts, &about), to, replace)?;
        if !to.is_own {
            // This comes before any change to the data folder, since the other database may turn
            // out not to be empty.
            copy_database(&parts.join(DATABASE), &to, replace).map_err(|failure| to.explain(failure))?;
        }
        Ok((about, to))
    });
    let (about, to) = found.inspect_err(|_| drop(fs::remove_dir_all(&parts)))?;
    put(folder, &parts, to.is_own, replace)?;
    folder.hand_over("")?;
    for outside in &about.outside {
        let now = folder.restored_folder().join(outside.name.strip_prefix(OUTSIDE).unwrap_or_default());
        say(&format!("{} is {} now: it was outside of the data folder\n", outside.path.display(), now.display()));
    }
    let but = to.expected.map_or_else(String::new, |(expected, config)| {
        let config = config.display();
        format!("; a server that starts here uses {expected}: if that isn't meant, set `url` in [store] of {config}")
    });
    let (made, place) = (about.made, folder.path().display());
    say(&format!("restored the backup of {made} to {place}, its database in {}{but}\n", to.address));
    if Owner::is_root(folder.path()) {
        say(&format!("root owns these files: for a server that runs as another user, run `chown -R USER: {place}`\n"));
    }
    Ok(())
}

/// Opens a backup.
fn input(file: &Path) -> Result<Box<dyn Read>, CommandFailure> {
    if file != Path::new(STANDARD) {
        return Ok(Box::new(File::open(file).map_err(|error| CommandFailure::file(file, &error))?));
    }
    match io::stdin().is_terminal() {
        false => Ok(Box::new(io::stdin().lock())),
        true => Err(CommandFailure::Failed(
            "standard input is a terminal: pipe a backup to it, as in `ssh host cat rookery.tar.gz | rookery restore -`"
                .to_owned(),
        )),
    }
}

/// Unpacks a backup into a folder of its own.
fn unpack(file: &Path, parts: &Path) -> Result<About, CommandFailure> {
    let mut about = None;
    let read = archive::read(input(file)?, &mut |name, content| {
        if name == ABOUT {
            let mut text = String::new();
            content.read_to_string(&mut text)?;
            about = Some(toml::from_str::<About>(&text).map_err(io::Error::other)?);
            return Ok(());
        }
        let path = parts.join(name);
        make_folder(path.parent().unwrap_or(parts))?;
        let mut out = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
        io::copy(content, &mut out)?;
        out.sync_all()
    });
    read.map_err(|error| CommandFailure::file(file, &error))?;
    let known = about.filter(|about| about.format <= FORMAT);
    known.ok_or_else(|| CommandFailure::Failed(format!("{} isn't a backup that this server can read", file.display())))
}

/// Checks that this server can use the database of a backup.
fn look(parts: &Path) -> Result<(), CommandFailure> {
    let database = parts.join(DATABASE);
    if !database.is_file() {
        return Err(CommandFailure::Failed("the backup has no database".to_owned()));
    }
    sqlite::plan(&database)?;
    sound(&database)
}

/// Moves the unpacked files into the data folder, with the database if it belongs there.
fn put(folder: &Folder, parts: &Path, has_database: bool, replace: bool) -> Result<(), CommandFailure> {
    let moved = (|| {
        if folder.restoring().exists() {
            // An earlier restore has moved existing data aside, and was interrupted.
        } else if replace {
            move_aside(folder)?;
        }
        File::create(folder.restoring())?.sync_all()?;
        put_files(folder, parts)?;
        if has_database {
            ["-wal", "-shm"].iter().for_each(|end| {
                let mut name = folder.database().into_os_string();
                name.push(end);
                drop(fs::remove_file(PathBuf::from(name)));
            });
            fs::rename(parts.join(DATABASE), folder.database())?;
        }
        fs::remove_dir_all(parts)?;
        File::open(folder.path())?.sync_all()?;
        fs::remove_file(folder.restoring())
    })();
    moved.map_err(|error: io::Error| CommandFailure::file(folder.path(), &error))
}

/// Puts the database of a backup into another one.
fn copy_database(from: &Path, to: &RestorePlace, replace: bool) -> Result<(), CommandFailure> {
    let is_named = to.is_named;
    sqlite::migrate(from, false)?;
    let mut from = CopyEnd::source(&EndAddress::Sqlite(from.to_owned()))?;
    let mut to = CopyEnd::destination(&to.address)?;
    let bar = Bar::new();
    let mut copied = copy::copy(&mut from, &mut to, &mut |progress| bar.show(progress));
    if replace && is_named && matches!(copied, Err(CopyError::NotEmpty(_))) {
        copy::clear(&mut to)?;
        copied = copy::copy(&mut from, &mut to, &mut |progress| bar.show(progress));
    }
    bar.end();
    let tables = copied.map_err(|error| match error {
        CopyError::NotEmpty(_) if is_named => {
            CommandFailure::Failed(format!("{error}; --replace removes what is there"))
        }
        error => CommandFailure::Failed(error.to_string()),
    })?;
    match tables.iter().find(|table| !table.is_same()) {
        None => Ok(()),
        Some(Compared { table, .. }) => Err(CommandFailure::Failed(format!("{table} differs after it was copied"))),
    }
}

/// Moves everything in the data folder into a new folder below it, except for the lock and the
/// files that are being restored.
fn move_aside(folder: &Folder) -> io::Result<()> {
    let aside = folder.path().join(format!("{BEFORE}{}", clock::now()));
    make_folder(&aside)?;
    for entry in fs::read_dir(folder.path())? {
        let entry = entry?;
        let (name, path) = (entry.file_name(), entry.path());
        let is_older = name.to_str().is_some_and(|name| name.starts_with(BEFORE));
        if is_older || path == folder.lock_file() || path == folder.parts() {
            continue;
        }
        fs::rename(path, aside.join(name))?;
    }
    say(&format!("the previous data is now in {}\n", aside.display()));
    Ok(())
}

/// Moves the files of a backup into their places. An existing configuration stays.
fn put_files(folder: &Folder, parts: &Path) -> io::Result<()> {
    let places = [(DATA, folder.path().to_owned()), (UPLOADS, folder.uploads()), (OUTSIDE, folder.restored_folder())];
    for (part, place) in places {
        let part = parts.join(part);
        for path in files_below(&part)? {
            let Ok(name) = path.strip_prefix(&part) else { continue };
            let mut target = place.join(name);
            if target == folder.config() && target.exists() {
                target = folder.restored_folder().join(name);
                say(&format!("{} stays; that of the backup is {}\n", folder.config().display(), target.display()));
            }
            make_folder(target.parent().unwrap_or(&place))?;
            fs::rename(&path, &target)?;
        }
    }
    Ok(())
}

/// Returns all files in a folder, and in the folders below it.
pub fn files_below(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let (mut folders, mut files) = (vec![folder.to_owned()], Vec::new());
    while let Some(folder) = folders.pop() {
        if !folder.is_dir() {
            continue;
        }
        for entry in fs::read_dir(&folder)? {
            let path = entry?.path();
            if path.is_dir() { folders.push(path) } else { files.push(path) }
        }
    }
    Ok(files)
}

fn make_folder(path: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
}
