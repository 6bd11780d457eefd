//! `rookery store`: the database as a whole.

pub mod copy;
mod migrate;

use crate::arguments::StoreCommand;
use crate::failure::CommandFailure;
use crate::loaded::ConfigSource;

/// Runs one command.
///
/// # Errors
///
/// [`CommandFailure::Config`] if the configuration is wrong, otherwise the errors of the store.
pub fn run(source: &ConfigSource, command: StoreCommand) -> Result<(), CommandFailure> {
    match command {
        StoreCommand::Copy { ends, live } => copy::copy(source, &ends, live),
        StoreCommand::Verify { ends, shown } => copy::verify(source, &ends, shown),
        StoreCommand::Migrate { dry_run, sql, shown } => migrate::run(source, dry_run, sql, shown),
    }
}
