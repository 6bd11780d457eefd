//! The picture of the server: the operator's, or the built-in one.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use hyper::{Response, StatusCode};
use tokio::task::spawn_blocking;
use tracing::warn;

use crate::reply::{Body, reply};

/// Returns the media type of a picture by its file name; `None` if browsers may not show it.
pub fn picture_type(file: &Path) -> Option<&'static str> {
    match file.extension()?.to_str()?.to_ascii_lowercase().as_str() {
        "svg" => Some("image/svg+xml"),
        "png" => Some("image/png"),
        "jpg" | "jpeg" => Some("image/jpeg"),
        "webp" => Some("image/webp"),
        _ => None,
    }
}

/// Returns the picture in a file; the built-in one if there is none or it can't be read.
pub async fn picture(file: Option<PathBuf>) -> Response<Body> {
    let own = || reply(StatusCode::OK, "image/svg+xml", OWN);
    let Some((file, kind)) = file.and_then(|file| Some((file.clone(), picture_type(&file)?))) else { return own() };
    let path = file.clone();
    let contents = spawn_blocking(move || read(&path)).await.map_err(io::Error::other).and_then(|contents| contents);
    match contents {
        Ok(contents) => reply(StatusCode::OK, kind, contents),
        Err(error) => {
            warn!(file = %file.display(), %error, "the logo can't be shown; see logo in [web]");
            own()
        }
    }
}

fn read(file: &Path) -> io::Result<Vec<u8>> {
    let mut contents = Vec::new();
    File::open(file)?.take(MOST_BYTES + 1).read_to_end(&mut contents)?;
    match contents.len() as u64 <= MOST_BYTES {
        true => Ok(contents),
        false => Err(io::Error::other("it is larger than 1 MiB")),
    }
}

/// The built-in picture.
const OWN: &str = include_str!("icon.svg");
/// The most bytes of a picture.
const MOST_BYTES: u64 = 1024 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pictures_are_known_by_their_names() {
        assert_eq!(picture_type(Path::new("/a/Logo.PNG")), Some("image/png"));
        assert_eq!(picture_type(Path::new("logo.html")), None);
        assert_eq!(picture_type(Path::new("svg")), None);
    }

    #[test]
    fn a_large_file_is_no_picture() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.png");
        std::fs::write(&file, vec![0; MOST_BYTES as usize]).unwrap();
        assert_eq!(read(&file).unwrap().len() as u64, MOST_BYTES);
        std::fs::write(&file, vec![0; MOST_BYTES as usize + 1]).unwrap();
        assert!(read(&file).is_err());
    }
}
