//! Files of the operator: a folder whose content is public, under paths that nothing else here
//! uses. It saves a small machine a second web server, for a home page or another `.well-known`
//! file.
//!
//! # Invariants
//!
//! - Nothing outside the folder is served, wherever links in it lead.
//! - Names that begin with a dot don't exist, except for `.well-known`.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use hyper::body::Incoming;
use hyper::header::{self, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use tokio::task::spawn_blocking;
use tracing::warn;

use crate::form;
use crate::reply::{Body, reply, text};

/// A file that can be served.
struct OwnFile {
    file: File,
    len: u64,
    /// Its entity tag, which changes with the file.
    tag: String,
    content_type: &'static str,
}

/// Replies to a request for a file of a folder; `None` if there is no such file.
pub(crate) async fn answer(request: &Request<Incoming>, folder: &Path) -> Option<Response<Body>> {
    let names = names(request.uri().path())?;
    let folder = folder.to_owned();
    let found = spawn_blocking(move || find(&folder, &names)).await;
    let found = match found.map_err(io::Error::other).and_then(|found| found) {
        Ok(found) => found?,
        Err(error) => {
            warn!(%error, path = request.uri().path(), "a file of `files` in [web] can't be read");
            return Some(text(StatusCode::INTERNAL_SERVER_ERROR, "the server has failed"));
        }
    };
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        let mut refused = text(StatusCode::METHOD_NOT_ALLOWED, "this can only be read");
        refused.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET, HEAD"));
        return Some(refused);
    }
    let known = request.headers().get(header::IF_NONE_MATCH).and_then(|known| known.to_str().ok());
    let is_known = known.is_some_and(|known| known.split(',').any(|known| known.trim() == found.tag));
    let mut response = reply(StatusCode::OK, found.content_type, "");
    match is_known {
        true => *response.status_mut() = StatusCode::NOT_MODIFIED,
        false => *response.body_mut() = Body::file(found.file, 0, found.len),
    }
    let headers = response.headers_mut();
    // The operator decides what its pages may do.
    headers.remove(header::CONTENT_SECURITY_POLICY);
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    if let Ok(tag) = HeaderValue::from_str(&found.tag) {
        headers.insert(header::ETAG, tag);
    }
    Some(response)
}

/// Returns the names in a path; `None` if it can't lead to a served file.
fn names(path: &str) -> Option<Vec<String>> {
    let rest = path.strip_prefix('/')?;
    let rest = rest.strip_suffix('/').unwrap_or(rest);
    if rest.is_empty() {
        return Some(Vec::new());
    }
    let mut names = Vec::new();
    for (at, name) in rest.split('/').enumerate() {
        let name = form::decode(name)?;
        let is_hidden = name.starts_with('.') && !(at == 0 && name == ".well-known");
        if name.is_empty() || is_hidden || name.contains(['/', '\\', '\0']) {
            return None;
        }
        names.push(name);
    }
    Some(names)
}

fn find(folder: &Path, names: &[String]) -> io::Result<Option<OwnFile>> {
    let not_there = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Ok(None),
        _ => Err(error),
    };
    let wanted: PathBuf = names.iter().fold(folder.to_owned(), |path, name| path.join(name));
    let (root, mut path) = match fs::canonicalize(folder).and_then(|root| Ok((root, fs::canonicalize(wanted)?))) {
        Ok(found) => found,
        Err(error) => return not_there(error),
    };
    if path.is_dir() {
        path = match fs::canonicalize(path.join(INDEX)) {
            Ok(path) => path,
            Err(error) => return not_there(error),
        };
    }
    if !path.starts_with(&root) {
        return Ok(None);
    }
    let file = File::open(&path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Ok(None);
    }
    let changed = metadata.modified()?.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    let tag = format!("\"{:x}-{:x}\"", metadata.len(), changed.as_nanos());
    Ok(Some(OwnFile { file, len: metadata.len(), tag, content_type: content_type(&path) }))
}

fn content_type(path: &Path) -> &'static str {
    let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
    let known = TYPES.iter().find(|(known, _)| extension.eq_ignore_ascii_case(known));
    known.map_or("application/octet-stream", |(_, content_type)| content_type)
}

/// The file that is served for a folder.
const INDEX: &str = "index.html";
const TYPES: [(&str, &str); 20] = [
    ("html", "text/html; charset=utf-8"),
    ("htm", "text/html; charset=utf-8"),
    ("css", "text/css; charset=utf-8"),
    ("js", "text/javascript; charset=utf-8"),
    ("mjs", "text/javascript; charset=utf-8"),
    ("txt", "text/plain; charset=utf-8"),
    ("md", "text/markdown; charset=utf-8"),
    ("json", "application/json"),
    ("xml", "application/xml"),
    ("pdf", "application/pdf"),
    ("svg", "image/svg+xml"),
    ("png", "image/png"),
    ("jpg", "image/jpeg"),
    ("jpeg", "image/jpeg"),
    ("gif", "image/gif"),
    ("webp", "image/webp"),
    ("ico", "image/x-icon"),
    ("woff2", "font/woff2"),
    ("wasm", "application/wasm"),
    ("webmanifest", "application/manifest+json"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_lead_nowhere_but_down() {
        let read = |path: &str| names(path).map(|names| names.join("|"));
        assert_eq!(read("/").as_deref(), Some(""));
        assert_eq!(read("/a%20b/c.html").as_deref(), Some("a b|c.html"));
        assert_eq!(read("/.well-known/security.txt").as_deref(), Some(".well-known|security.txt"));
        for bad in [
            "",
            "a",
            "/..",
            "/a/../b",
            "/%2e%2e/b",
            "/a%2fb",
            "/a//b",
            "/.git/config",
            "/a/.well-known/x",
            "/%00",
            "/a%5cb",
        ] {
            assert_eq!(read(bad), None, "{bad}");
        }
    }

    #[test]
    fn links_out_of_the_folder_lead_nowhere() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("files");
        fs::create_dir_all(folder.join("sub")).unwrap();
        fs::write(folder.join("sub/index.html"), "index").unwrap();
        fs::write(place.path().join("secret"), "secret").unwrap();
        std::os::unix::fs::symlink(place.path().join("secret"), folder.join("out")).unwrap();
        std::os::unix::fs::symlink(folder.join("sub/index.html"), folder.join("within.html")).unwrap();
        let found =
            |path: &str| find(&folder, &names(path).unwrap()).unwrap().map(|found| (found.len, found.content_type));
        let page = Some((5, "text/html; charset=utf-8"));
        assert_eq!(
            (found("/sub"), found("/sub/"), found("/sub/index.html"), found("/within.html")),
            (page, page, page, page)
        );
        assert_eq!((found("/out"), found("/"), found("/none"), found("/sub/index.html/x")), (None, None, None, None));
    }
}
