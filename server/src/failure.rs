//! Reasons why a command ends without success, and their exit codes.

use std::fmt;
use std::io;
use std::path::Path;
use std::process::ExitCode;

use rookery_store::StoreError;

use crate::config::ConfigError;

/// The reason why a command failed, in words for the operator.
#[derive(Debug)]
pub enum CommandFailure {
    /// Something went wrong: exit code 1.
    Failed(String),
    /// The reason was printed already: exit code 1.
    Told,
    /// The database or the machine doesn't meet the server's needs and has to be repaired first:
    /// exit code 78, as for a wrong configuration.
    Unfit(String),
    /// A resource such as a port or a database is taken or unavailable for now: exit code 75,
    /// `EX_TEMPFAIL` of sysexits.h. A supervisor should try again.
    Blocked(String),
    /// Other nodes of the cluster have taken over from this process, since they had heard nothing
    /// from it: exit code 75, `EX_TEMPFAIL` of sysexits.h. A supervisor should start it again.
    TakenOver,
    /// The configuration can't be used: exit code 78, `EX_CONFIG` of sysexits.h. A supervisor
    /// shouldn't try again.
    Config(ConfigError),
}

impl CommandFailure {
    /// Returns the failure of an operation on a file.
    pub fn file(path: &Path, error: &io::Error) -> CommandFailure {
        CommandFailure::Failed(format!("{}: {error}", path.display()))
    }

    /// Returns the exit code that represents it in scripts. Code 2, for wrong arguments, comes from
    /// the parser of the command line.
    pub fn exit_code(&self) -> ExitCode {
        match self {
            CommandFailure::Failed(_) | CommandFailure::Told => ExitCode::FAILURE,
            CommandFailure::Config(_) | CommandFailure::Unfit(_) => ExitCode::from(EX_CONFIG),
            CommandFailure::Blocked(_) | CommandFailure::TakenOver => ExitCode::from(EX_TEMPFAIL),
        }
    }
}

impl fmt::Display for CommandFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CommandFailure::Failed(reason) | CommandFailure::Unfit(reason) | CommandFailure::Blocked(reason) => {
                f.write_str(reason)
            }
            CommandFailure::Told => Ok(()),
            CommandFailure::TakenOver => f.write_str(
                "other nodes of the cluster have taken over from this process, which was stalled or cut off; \
                 start it again",
            ),
            CommandFailure::Config(error) => write!(f, "{error}"),
        }
    }
}

impl std::error::Error for CommandFailure {}

impl From<ConfigError> for CommandFailure {
    fn from(error: ConfigError) -> CommandFailure {
        CommandFailure::Config(error)
    }
}

impl From<StoreError> for CommandFailure {
    fn from(error: StoreError) -> CommandFailure {
        match error {
            StoreError::OldSchema { .. }
            | StoreError::TooNew { .. }
            | StoreError::Foreign(_)
            | StoreError::Unfinished(_)
            | StoreError::Unfit(_)
            | StoreError::Corrupt(_)
            | StoreError::Directory { .. }
            | StoreError::Other(_) => CommandFailure::Unfit(error.to_string()),
            error if error.is_temporary() => CommandFailure::Blocked(error.to_string()),
            error => CommandFailure::Failed(error.to_string()),
        }
    }
}

/// The exit code of failures that last until the operator repairs them (sysexits.h).
pub const EX_CONFIG: u8 = 78;
/// The exit code of failures that may be gone at the next attempt (sysexits.h).
pub const EX_TEMPFAIL: u8 = 75;
