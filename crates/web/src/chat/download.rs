//! Downloads the package of Converse.js to a machine without npm.

use std::time::Duration;

use http_body_util::Empty;
use hyper::body::Bytes;
use hyper::{Request, StatusCode};
use tokio::runtime;
use tokio::time::timeout;

use super::package::{NAME, VERSION};
use crate::https::{HttpsFailed, exchange, trusting};

/// Returns the address of the package in an npm registry.
pub fn address(registry: &str) -> String {
    format!("{}/{NAME}/-/{NAME}-{VERSION}.tgz", registry.trim_end_matches('/'))
}

/// Downloads the content of an `https://` address, up to a number of bytes, without checking it.
///
/// # Errors
/// The content can't be reached, doesn't exist, is too large, or takes longer than ten minutes; as
/// a text.
pub fn download(url: &str, most_bytes: usize) -> Result<Vec<u8>, String> {
    let runtime = runtime::Builder::new_current_thread().enable_all().build();
    let told = |error: HttpsFailed| format!("{url}: {error}");
    let got = async {
        let request = Request::get(url).body(Empty::<Bytes>::new())?;
        let exchanged = timeout(PATIENCE, exchange(trusting(None)?, request, most_bytes)).await;
        let (head, bytes) = exchanged.map_err(|_| "it takes too long")??;
        match head.status {
            StatusCode::OK => Ok(bytes.to_vec()),
            status => Err(HttpsFailed::from(format!("it says {status}"))),
        }
    };
    runtime.map_err(|error| error.to_string())?.block_on(got).map_err(told)
}

/// The time for the whole download, over a slow connection.
const PATIENCE: Duration = Duration::from_secs(600);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_registry_has_the_package_below_its_name() {
        let file = format!("/converse.js/-/converse.js-{VERSION}.tgz");
        assert_eq!(address("https://npm.example.org/all/"), format!("https://npm.example.org/all{file}"));
        assert_eq!(address("https://npm.example.org"), format!("https://npm.example.org{file}"));
    }

    #[test]
    fn what_cannot_be_had_is_named() {
        for (url, words) in [
            ("http://localhost/a", "it is not https:"),
            ("https://localhost:1/a", "Connection refused"),
            ("https:///", "https:///: "),
        ] {
            let error = download(url, 10).expect_err(url);
            assert!(error.contains(url) && error.contains(words), "{error}");
        }
    }
}
