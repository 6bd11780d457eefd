//! Each engine's checks of a database in another process: before a start, and for `rookery check`.

use super::remote::RemoteConnection;
use crate::StoreError;

/// A connection, with the checks that differ between engines.
pub(crate) trait Checked: RemoteConnection {
    /// The reasons why no host can be written to.
    const READ_ONLY: &'static str;

    /// Returns the reasons why a store can't keep its promises in this database, each with its
    /// remedy.
    fn unfit(&mut self, trusts_durability: bool) -> Result<Vec<String>, StoreError>;

    /// Returns the name of the product, with its version.
    fn product(&mut self) -> Result<String, StoreError>;

    /// Returns the value of a setting of the server, empty if it doesn't exist.
    fn setting(&mut self, name: &str) -> Result<String, StoreError>;

    /// Returns the settings that operators want to know, each with its value.
    fn settings(&mut self) -> Result<Vec<String>, StoreError>;

    /// Returns the reasons why sessions don't get this server's settings.
    fn ill_set(&mut self) -> Result<Option<String>, StoreError> {
        Ok(None)
    }
}
