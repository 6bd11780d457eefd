//! The values of `[uploads]`: the place of the files that users share.

use std::path::PathBuf;

/// The place of uploaded files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UploadsConfig {
    /// The address of a bucket; without one the files are in the data folder.
    pub bucket: Option<String>,
    /// The region that requests to the bucket are signed for.
    pub region: String,
    /// The name of its access key.
    pub access_key: Option<String>,
    /// The file with the secret of that key.
    pub secret_file: Option<PathBuf>,
    /// PEM file of certificates to trust besides those of the machine.
    pub trusted: Option<PathBuf>,
    /// True if clients get the files from the bucket.
    pub redirect: bool,
}

impl Default for UploadsConfig {
    fn default() -> Self {
        let (bucket, access_key, secret_file, trusted) = (None, None, None, None);
        Self { bucket, region: "us-east-1".to_owned(), access_key, secret_file, trusted, redirect: false }
    }
}
