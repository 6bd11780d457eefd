//! The database that a backup is put into: the one that a server will look for when it starts in
//! the folder, unless another one is named.

use std::path::{Path, PathBuf};

use rookery_store::sql::copy::EndAddress;

use super::{About, DATA};
use crate::config::{Environment, ServerConfig, Store};
use crate::database;
use crate::failure::CommandFailure;
use crate::folder::Folder;
use crate::loaded::ConfigSource;

/// The place of a restored database.
pub struct RestorePlace {
    /// The database.
    pub address: EndAddress,
    /// True if it is the file in the data folder.
    pub is_own: bool,
    /// True if the operator named it in the command: its contents may be removed then. A database
    /// that only the backup's configuration names may still be used by the server that was backed
    /// up.
    pub is_named: bool,
    /// The database for which a server will look instead, if it is another one, with the
    /// configuration that names it.
    pub expected: Option<(EndAddress, PathBuf)>,
}

impl RestorePlace {
    /// Finds the place for a backup that has been unpacked.
    ///
    /// # Errors
    ///
    /// `to` is not the address of a database, or the backup's configuration can't be used; with the
    /// remedy.
    pub fn find(
        source: &ConfigSource,
        here: &Store,
        unpacked: (&Path, &About),
        to: Option<&str>,
        replace: bool,
    ) -> Result<RestorePlace, CommandFailure> {
        let folder = &source.folder;
        let coming = ComingConfig::find(source, unpacked, replace);
        let expected = match &coming {
            None => database::address(folder, here),
            Some(coming) => coming.database(folder, unpacked.0),
        };
        let file =
            coming.map_or_else(|| source.config.clone().unwrap_or_else(|| folder.config()), |coming| coming.place);
        let (address, is_named, expected) = match to {
            Some(to) => (database::read_address(to, here)?, true, expected.ok()),
            None => {
                let address = expected.map_err(|error| {
                    let what = "the configuration in the backup says where its database belongs";
                    CommandFailure::Failed(format!("{what}: {error}; {REMEDY}"))
                })?;
                let is_named = database::address(folder, here).is_ok_and(|own| is_same(&own, &address));
                (address, is_named, None)
            }
        };
        let is_own = is_same(&address, &EndAddress::Sqlite(folder.database()));
        let expected = expected.filter(|expected| !is_same(expected, &address)).map(|expected| (expected, file));
        Ok(RestorePlace { address, is_own, is_named, expected })
    }

    /// Returns the failure of a copy to this database; if the operator didn't name it, the message
    /// says that the backup's configuration does.
    pub fn explain(&self, failure: CommandFailure) -> CommandFailure {
        match self.is_named {
            true => failure,
            false => CommandFailure::Failed(format!(
                "the configuration in the backup keeps the data in {}: {failure}; {REMEDY}",
                self.address
            )),
        }
    }
}

/// The configuration in a backup, which will hold once it is in its place.
struct ComingConfig {
    /// The file that was unpacked.
    file: PathBuf,
    /// The place where it belongs.
    place: PathBuf,
}

impl ComingConfig {
    /// Finds the configuration in a backup; `None` if there is none, or if an existing one stays in
    /// force.
    fn find(source: &ConfigSource, (parts, about): (&Path, &About), replace: bool) -> Option<ComingConfig> {
        let folder = &source.folder;
        let moves = |file: &PathBuf| replace && !folder.restoring().exists() && *file == folder.config();
        if source.config.as_ref().is_some_and(|file| !moves(file)) {
            return None;
        }
        let inside = folder.config();
        let name = inside.strip_prefix(folder.path()).unwrap_or(&inside);
        let file = parts.join(DATA).join(name);
        if file.is_file() {
            return Some(ComingConfig { file, place: inside });
        }
        // A configuration that was outside the data folder is the first of the outside files.
        let first = about.outside.first().filter(|outside| outside.path.extension().is_some_and(|end| end == "toml"));
        first.map(|outside| ComingConfig { file: parts.join(&outside.name), place: outside.path.clone() })
    }

    fn database(&self, folder: &Folder, parts: &Path) -> Result<EndAddress, CommandFailure> {
        let modules = rookery_modules::table(&rookery_modules::Shared::default());
        let mut store = ServerConfig::load(Some(&self.file), &Environment::of_process(), &modules)?.store;
        // These files haven't been moved to their places yet.
        for file in [&mut store.password, &mut store.authorities].into_iter().flatten() {
            let unpacked = file.strip_prefix(folder.path()).map(|name| parts.join(DATA).join(name));
            if let Some(unpacked) = unpacked.ok().filter(|unpacked| !file.exists() && unpacked.exists()) {
                *file = unpacked;
            }
        }
        database::address(folder, &store)
    }
}

/// Returns whether two addresses are of the same database.
fn is_same(one: &EndAddress, other: &EndAddress) -> bool {
    let absolute = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    match (one, other) {
        (EndAddress::Sqlite(one), EndAddress::Sqlite(other)) => absolute(one) == absolute(other),
        _ => one == other,
    }
}

const REMEDY: &str =
    "name a database with --to URL, or put a rookery.toml with another `url` into the data folder first";
