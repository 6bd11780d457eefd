//! The files that users share: in the data folder, or in a bucket.

use std::env;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use rookery_store::Slots;
use rookery_web::bucket::{BucketKey, BucketSettings, UploadBucket};
use rookery_web::upload::UploadFiles;

use crate::config::{ConfigError, ServerConfig};
use crate::failure::CommandFailure;
use crate::folder::Folder;

/// Returns the files of a server, without accessing any.
///
/// # Errors
///
/// [`CommandFailure::Config`] if the secret or the certificates for the bucket can't be used.
pub fn files(config: &ServerConfig, folder: &Folder, slots: Arc<dyn Slots>) -> Result<UploadFiles, CommandFailure> {
    Ok(match bucket(config)? {
        Some(bucket) => UploadFiles::in_bucket(bucket, slots),
        None => UploadFiles::new(folder.uploads(), slots),
    })
}

/// Returns the bucket, if there is one.
///
/// # Errors
///
/// The file of the secret or of the certificates can't be used.
pub fn bucket(config: &ServerConfig) -> Result<Option<UploadBucket>, ConfigError> {
    let config = &config.uploads;
    let Some(address) = &config.bucket else { return Ok(None) };
    let because = |why: String| ConfigError::because(format!("uploads: {why}"));
    let url = address.clone();
    let secret_key = secret(config.secret_file.clone(), "uploads-secret").map_err(because)?;
    let (region, access_key) = (config.region.clone(), config.access_key.clone().unwrap_or_default());
    let key = BucketKey { region, access_key, secret_key };
    let settings = BucketSettings { url, key, trusted: config.trusted.clone(), redirects: config.redirect };
    UploadBucket::new(settings).map(Some).map_err(because)
}

/// Reads the secret from the named file, otherwise from the service manager's credential.
///
/// # Errors
///
/// A message, if there is no such file, or it can't be used.
pub fn secret(named: Option<PathBuf>, credential: &str) -> Result<String, String> {
    let credential = || Some(PathBuf::from(env::var_os("CREDENTIALS_DIRECTORY")?).join(credential));
    let file = named.or_else(|| credential().filter(|file| file.exists()));
    let file = file.ok_or("a secret is needed: give its file with `secret_file`")?;
    let text = fs::read_to_string(&file).map_err(|error| format!("{}: can't be read: {error}", file.display()))?;
    match text.trim() {
        "" => Err(format!("{} is empty, but should contain a secret", file.display())),
        secret => Ok(secret.to_owned()),
    }
}
