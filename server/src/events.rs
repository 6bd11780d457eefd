//! The program that is notified of events.

use rookery_web::events::post::{self, PostSettings};

use crate::config::{ConfigError, ServerConfig};
use crate::folder::Folder;
use crate::uploads::secret;

/// Returns the settings for posting events, if there are any.
///
/// # Errors
///
/// The file of the secret can't be used.
pub fn post_settings(config: &ServerConfig, folder: &Folder) -> Result<Option<PostSettings>, ConfigError> {
    let config = &config.events;
    let Some(address) = &config.url else { return Ok(None) };
    let because = |why: String| ConfigError::because(format!("events: {why}"));
    let url = address.parse().map_err(|error| because(format!("{address}: {error}")))?;
    let secret = secret(config.secret_file.clone(), "events-secret").map_err(because)?;
    let (trusted, spool_bytes) = (config.trusted.clone(), config.spool_bytes as u64);
    Ok(Some(PostSettings { url, secret, trusted, folder: post::folder(folder.path()), spool_bytes }))
}
