//! The chat page, `/chat`: Converse.js, configured for this server.
//!
//! Its files are not part of this program. `rookery web install` downloads the package in the
//! version that is pinned here with its hash, and puts the files for browsers into the data folder
//! ([`package`], by npm or by [`download`]); the Debian package and the image have them already.
//! Until there are files, the page says so.
//!
//! # Invariants
//!
//! - Only files of the package are served: a path has plain names, and they lead below the folder
//!   of this version.
//! - The page only runs scripts of this server, and no inline ones. Nothing is loaded from other
//!   hosts, so they learn nothing about users: links to media elsewhere stay links.
//! - The page doesn't ask for a password that would be sent in the clear, unless login without TLS
//!   is allowed there.

pub mod download;
pub mod package;

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use hyper::body::Incoming;
use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use rookery_hub::{Domain, Settings as Hub};
use serde_json::json;
use tokio::task::spawn_blocking;
use tracing::warn;

use crate::WebSettings;
use crate::address::Safety;
use crate::coding::Coding;
use crate::discovery;
use crate::guests::LOGO;
use crate::language::Language;
use crate::reply::{Body, reply, text};
use package::VERSION;

/// The files of the page.
#[derive(Debug, Clone)]
pub struct ChatFiles {
    data: PathBuf,
}

impl ChatFiles {
    /// Returns the files that `rookery web install` puts into this data folder or, until it is run,
    /// those that were installed with the server.
    pub fn new(data: &Path) -> Self {
        Self { data: data.to_owned() }
    }

    /// Replies to a request below `/chat`.
    pub(crate) async fn answer(
        &self,
        request: &Request<Incoming>,
        rest: &str,
        safety: Safety,
        settings: &WebSettings,
    ) -> Response<Body> {
        if !settings.chat {
            return text(StatusCode::NOT_FOUND, "there is nothing here");
        }
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            let mut refused = text(StatusCode::METHOD_NOT_ALLOWED, "this is read-only");
            refused.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET, HEAD"));
            return refused;
        }
        match rest {
            "" | "/" => self.page(request.headers(), safety, settings).await,
            START_PATH => with_cache_control(reply(StatusCode::OK, "text/javascript; charset=utf-8", START), BRIEFLY),
            _ => match rest.strip_prefix('/').and_then(|rest| rest.strip_prefix(VERSION)?.strip_prefix('/')) {
                Some(path) if is_plain(path) => self.file(path, request.headers()).await,
                _ => text(StatusCode::NOT_FOUND, "there is nothing here"),
            },
        }
    }

    /// Returns whether the package is installed.
    pub(crate) async fn is_installed(&self) -> bool {
        let data = self.data.clone();
        let has_script = move || package::installed_folder(&data).is_some_and(|folder| folder.join(SCRIPT).is_file());
        spawn_blocking(has_script).await.unwrap_or_default()
    }

    async fn page(&self, headers: &HeaderMap, safety: Safety, settings: &WebSettings) -> Response<Body> {
        if !self.is_installed().await {
            return text(
                StatusCode::SERVICE_UNAVAILABLE,
                "the chat page is not installed yet: run `rookery web install`",
            );
        }
        match safety {
            Safety::Safe => {}
            Safety::Elsewhere(address) => return to(&address),
            Safety::Unsafe => {
                return text(StatusCode::FORBIDDEN, "this connection is not encrypted: open the page with https:");
            }
        }
        let language = Language::choose(headers);
        let mut page = reply(StatusCode::OK, "text/html; charset=utf-8", html(settings, language));
        if let Ok(policy) = HeaderValue::from_str(&policy(&settings.hub)) {
            page.headers_mut().insert(header::CONTENT_SECURITY_POLICY, policy);
        }
        with_cache_control(page, BRIEFLY)
    }

    /// Returns a file of the package, compressed if such a form exists and is accepted.
    async fn file(&self, path: &str, headers: &HeaderMap) -> Response<Body> {
        let (data, wanted) = (self.data.clone(), path.to_owned());
        let kind = package::content_type(path);
        let wants_gzip = Coding::choose(headers) == Some(Coding::Gzip);
        let opened = spawn_blocking(move || {
            let folder = package::installed_folder(&data).ok_or(io::ErrorKind::NotFound)?;
            let compressed = folder.join(format!("{wanted}{}", package::COMPRESSED));
            if wants_gzip && let Ok(found) = open(&compressed) {
                return Ok((found, true));
            }
            open(&folder.join(wanted)).map(|found| (found, false))
        });
        let ((file, len), is_compressed) = match opened.await.map_err(io::Error::other).and_then(|opened| opened) {
            Ok(found) => found,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return text(StatusCode::NOT_FOUND, "there is no such file");
            }
            Err(error) => {
                warn!(%error, path, "a file of the chat page can't be read");
                return text(StatusCode::INTERNAL_SERVER_ERROR, "the server has failed");
            }
        };
        let mut response = reply(StatusCode::OK, kind, "");
        *response.body_mut() = Body::file(file, 0, len);
        if is_compressed {
            response.headers_mut().insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        }
        response.headers_mut().insert(header::VARY, HeaderValue::from_static("accept-encoding"));
        // The address names the version, so its content never changes.
        with_cache_control(response, FOR_GOOD)
    }
}

/// Returns the page itself. The settings of Converse.js are in an attribute, since the page may not
/// contain scripts; it finds WebSocket and BOSH from its own address.
fn html(settings: &WebSettings, language: Language) -> String {
    let domain = settings.domains.first().map_or("localhost", String::as_str);
    let title = settings.title.as_deref().unwrap_or(domain);
    let told = json!({
        "default_domain": domain,
        "registration_domain": domain,
        "allow_registration": settings.hub.domains.first().is_some_and(creates_accounts),
        "bosh": settings.bosh.is_some(),
        "server": title,
        "assets_path": format!("/chat/{VERSION}/"),
        "render_media": uploads(&settings.hub).iter().filter_map(|upload| host_of(upload)).collect::<Vec<_>>(),
    });
    let (title, told) = (escaped(title), escaped(&told.to_string()));
    format!(
        "<!DOCTYPE html>\n<html lang=\"{}\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>{title}</title>\n\
         <link rel=\"icon\" href=\"{LOGO}\">\n\
         <link rel=\"stylesheet\" href=\"/chat/{VERSION}/converse.min.css\">\n\
         <script type=\"module\" src=\"/chat/{VERSION}/{SCRIPT}\"></script>\n\
         <script type=\"module\" src=\"/chat{START_PATH}\"></script>\n</head>\n\
         <body class=\"converse-fullscreen\" data-settings=\"{told}\">\n\
         <noscript>This page needs JavaScript. Any other XMPP client can log in to {title} too.</noscript>\n\
         <div id=\"conversejs-bg\"></div>\n</body>\n</html>\n",
        language.tag()
    )
}

/// Returns the policy that tells browsers what the page may load and reach (Content Security
/// Policy, level 3). Converse.js sets styles in attributes and computes with WebAssembly; files are
/// uploaded and downloaded at the addresses of upload slots (XEP-0363), perhaps at another port.
fn policy(settings: &Hub) -> String {
    let uploads: String = uploads(settings).iter().map(|upload| format!(" {upload}")).collect();
    format!(
        "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self' 'unsafe-inline'; font-src 'self'; \
         img-src 'self' data: blob:{uploads}; media-src 'self' blob:{uploads}; connect-src 'self'{uploads}; base-uri 'none'; \
         form-action 'none'; frame-ancestors 'none'"
    )
}

/// Returns the origins of users' files on this server.
fn uploads(settings: &Hub) -> Vec<String> {
    let urls = settings.domains.iter().filter_map(|domain| rookery_modules::upload::base(settings, domain));
    let mut origins: Vec<String> = urls.filter_map(|url| origin_of(&url).map(str::to_owned)).collect();
    origins.dedup();
    origins
}

/// Returns the scheme, host and port of an address; `None` if it contains a character that could
/// end a part of a policy.
fn origin_of(url: &str) -> Option<&str> {
    let (scheme, rest) = url.split_once("://")?;
    let host = rest.split('/').next()?;
    let is_one = matches!(scheme, "http" | "https") && discovery::is_host(host);
    is_one.then(|| url.get(..scheme.len() + "://".len() + host.len()))?
}

/// Returns the name in an origin, without its port, as Converse.js compares it.
fn host_of(origin: &str) -> Option<&str> {
    let (_, host) = origin.split_once("://")?;
    Some(host.rsplit_once(':').map_or(host, |(name, _)| name))
}

/// Returns whether strangers may create an account (XEP-0077).
fn creates_accounts(domain: &Domain) -> bool {
    domain.module("register").is_some_and(|options| options.switch("allow_creation"))
}

fn open(path: &Path) -> io::Result<(File, u64)> {
    let file = File::open(path)?;
    let metadata = file.metadata()?;
    if metadata.is_file() { Ok((file, metadata.len())) } else { Err(io::ErrorKind::NotFound.into()) }
}

/// Returns whether a path has plain names only, none of them hidden, so that it can't leave its
/// folder.
fn is_plain(path: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    path.split('/').all(|name| !name.is_empty() && !name.starts_with('.') && name.bytes().all(plain))
}

/// Redirects to another address.
fn to(address: &str) -> Response<Body> {
    let mut response = text(StatusCode::TEMPORARY_REDIRECT, "see there");
    if let Ok(location) = HeaderValue::from_str(address) {
        response.headers_mut().insert(header::LOCATION, location);
    }
    response
}

/// Adds the header for caching a response.
fn with_cache_control(mut response: Response<Body>, how_long: &'static str) -> Response<Body> {
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static(how_long));
    response
}

/// Returns a text for an element or an attribute in double quotes.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('"', "&quot;")
}

/// The script that is installed last, and without which the page can't work.
const SCRIPT: &str = "converse.min.js";
const START_PATH: &str = "/start.js";
const START: &str = include_str!("chat/start.js");
const BRIEFLY: &str = "no-cache";
const FOR_GOOD: &str = "public, max-age=31536000, immutable";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_lead_down_only() {
        for good in ["converse.min.js", "chunkjs/locales/dayjs/de-at-js.js", "webfonts/a_b.ttf"] {
            assert!(is_plain(good), "{good}");
        }
        for bad in
            ["", "..", "../x", "a/../b", "a//b", "/etc/passwd", "a/", ".hidden", "a/.b", "%2e%2e/a", "a\\b", "a\0"]
        {
            assert!(!is_plain(bad), "{bad}");
        }
    }

    #[test]
    fn a_policy_has_origins_and_nothing_else() {
        assert_eq!(origin_of("https://example.org:5443/upload"), Some("https://example.org:5443"));
        assert_eq!(origin_of("http://[::1]:1"), Some("http://[::1]:1"));
        for bad in ["example.org/upload", "https://a; script-src *", "https://", "javascript://a", "https://a b/c"] {
            assert_eq!(origin_of(bad), None, "{bad}");
        }
    }

    #[test]
    fn attributes_stay_attributes() {
        assert_eq!(escaped("{\"a\":\"<b>&\"}"), "{&quot;a&quot;:&quot;&lt;b>&amp;&quot;}");
    }
}
