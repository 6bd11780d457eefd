//! The other side of the control socket, for commands: one request and its answer.

use std::io;
use std::path::Path;
use std::time::Duration;

use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::Request;
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::header::{CONTENT_TYPE, HOST};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::UnixStream;
use tokio::time::timeout;

use crate::api;
pub use crate::form::encode;

/// The answer of a server.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// The status (RFC 9110 §15).
    pub status: u16,
    /// The body; null if there is none.
    pub body: Value,
}

/// Puts one request to the server whose control socket this is, and waits for its answer. `path`
/// stands behind [`api::PREFIX`]. It blocks.
///
/// # Errors
/// The socket isn't there, nobody listens, or the answer is late, too large or no JSON.
pub fn ask(socket: &Path, method: &str, path: &str, body: Option<&Value>) -> io::Result<Answer> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let asked = timeout(PATIENCE, exchange(socket, method, path, body));
        asked.await.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?
    })
}

async fn exchange(socket: &Path, method: &str, path: &str, body: Option<&Value>) -> io::Result<Answer> {
    let socket = UnixStream::connect(socket).await?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(socket)).await.map_err(io::Error::other)?;
    // What breaks it is told to the sender.
    let connection = tokio::spawn(connection);
    let request = Request::builder().method(method).uri(format!("{}{path}", api::PREFIX)).header(HOST, "localhost");
    let (request, bytes) = match body {
        Some(body) => (request.header(CONTENT_TYPE, "application/json"), Bytes::from(body.to_string())),
        None => (request, Bytes::new()),
    };
    let request = request.body(Full::new(bytes)).map_err(io::Error::other)?;
    let response = sender.send_request(request).await.map_err(io::Error::other)?;
    let status = response.status().as_u16();
    let body = Limited::new(response.into_body(), MOST).collect().await.map_err(|error| {
        match error.downcast::<LengthLimitError>() {
            Ok(_) => io::Error::new(io::ErrorKind::FileTooLarge, "the answer is too large"),
            Err(error) => io::Error::other(error),
        }
    })?;
    connection.abort();
    let bytes = body.to_bytes();
    let body = if bytes.is_empty() { Value::Null } else { serde_json::from_slice(&bytes)? };
    Ok(Answer { status, body })
}

/// The time that an answer may take: what removes an account has a minute.
const PATIENCE: Duration = Duration::from_secs(90);
/// Bytes of an answer.
const MOST: usize = 16 * 1024 * 1024;
