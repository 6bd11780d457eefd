//! Reasons why a command ends without success, and their exit codes.

use std::fmt;
use std::io;
use std::path::Path;
use std::process::ExitCode;

use rookery_store::StoreError;

use crate::config::ConfigError;

/// The reason why a command failed, in words for the operator.
#[derive(Debug)]
pub enum Failure {
    /// Something went wrong: exit code 1.
    Failed(String),
    /// The reason has been told already: exit code 1.
    Told,
    /// The database isn't what this server needs and has to be put right first: exit code 78, too.
    Unfit(String),
    /// The configuration can't be used: exit code 78, `EX_CONFIG` of sysexits.h. A supervisor
    /// shouldn't try again.
    Config(ConfigError),
}

impl Failure {
    /// Returns the failure of something that went wrong with a file.
    pub fn file(path: &Path, error: &io::Error) -> Failure {
        Failure::Failed(format!("{}: {error}", path.display()))
    }

    /// Returns the exit code that tells it to scripts. Code 2, for wrong arguments, comes from the
    /// parser of the command line.
    pub fn exit_code(&self) -> ExitCode {
        match self {
            Failure::Failed(_) | Failure::Told => ExitCode::FAILURE,
            Failure::Config(_) | Failure::Unfit(_) => ExitCode::from(EX_CONFIG),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Failed(reason) | Failure::Unfit(reason) => f.write_str(reason),
            Failure::Told => Ok(()),
            Failure::Config(error) => write!(f, "{error}"),
        }
    }
}

impl std::error::Error for Failure {}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Failure {
        Failure::Config(error)
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Failure {
        match error {
            StoreError::OldSchema { .. }
            | StoreError::TooNew { .. }
            | StoreError::Foreign(_)
            | StoreError::Unfinished(_)
            | StoreError::Unfit(_) => Failure::Unfit(error.to_string()),
            error => Failure::Failed(error.to_string()),
        }
    }
}

const EX_CONFIG: u8 = 78;
