//! The other side of the control socket, for commands: one request and its response.

use std::io;
use std::path::Path;
use std::time::Duration;

use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::{self, SendRequest};
use hyper::header::{CONTENT_TYPE, HOST};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::UnixStream;
use tokio::time::timeout;

use crate::api;
pub use crate::form::encode;

/// The response of a server.
#[derive(Debug, Clone, PartialEq)]
pub struct ControlAnswer {
    /// The status (RFC 9110 §15).
    pub status: u16,
    /// The body; null if there is none.
    pub body: Value,
}

/// Sends one request to the server with this control socket, and waits for the response up to a
/// limit. `path` is relative to [`api::PREFIX`]. It blocks.
///
/// # Errors
/// The socket doesn't exist, no server listens, or the response is late, too large or not JSON.
pub fn ask(
    socket: &Path,
    patience: Duration,
    method: &str,
    path: &str,
    body: Option<&Value>,
) -> io::Result<ControlAnswer> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let asked = timeout(patience, exchange(socket, method, path, body));
        asked.await.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?
    })
}

/// Asks for lines of JSON and passes each to `each`, as they arrive, until there are no more or
/// `each` returns `false`. It blocks.
///
/// # Errors
/// As for [`ask`]; a refusal is an error with the server's text.
pub fn follow(socket: &Path, path: &str, each: &mut dyn FnMut(&Value) -> io::Result<bool>) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let asked = timeout(PATIENCE, send(socket, "GET", path, None)).await;
        let (mut sender, response) = asked.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
        let is_success = response.status().is_success();
        let mut body = response.into_body();
        let mut waiting = Vec::new();
        while let Some(frame) = body.frame().await {
            let Ok(bytes) = frame.map_err(io::Error::other)?.into_data() else { continue };
            waiting.extend_from_slice(&bytes);
            if !is_success {
                continue;
            }
            let lines = waiting.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
            for line in waiting.drain(..lines).collect::<Vec<u8>>().split(|byte| *byte == b'\n') {
                if !line.is_empty() && !each(&serde_json::from_slice(line)?)? {
                    return Ok(());
                }
            }
            if waiting.len() > MOST {
                return Err(io::Error::new(io::ErrorKind::FileTooLarge, "a line is too large"));
            }
        }
        // The sender holds the connection until here.
        sender.ready().await.ok();
        if is_success {
            return Ok(());
        }
        let problem: Value = serde_json::from_slice(&waiting)?;
        Err(io::Error::other(problem["detail"].as_str().unwrap_or("the server refused").to_owned()))
    })
}

async fn exchange(socket: &Path, method: &str, path: &str, body: Option<&Value>) -> io::Result<ControlAnswer> {
    let (_sender, response) = send(socket, method, path, body).await?;
    let status = response.status().as_u16();
    let body = Limited::new(response.into_body(), MOST).collect().await.map_err(|error| {
        match error.downcast::<LengthLimitError>() {
            Ok(_) => io::Error::new(io::ErrorKind::FileTooLarge, "the answer is too large"),
            Err(error) => io::Error::other(error),
        }
    })?;
    let bytes = body.to_bytes();
    let body = if bytes.is_empty() { Value::Null } else { serde_json::from_slice(&bytes)? };
    Ok(ControlAnswer { status, body })
}

/// Sends a request; the response can be read as long as the sender lives.
async fn send(
    socket: &Path,
    method: &str,
    path: &str,
    body: Option<&Value>,
) -> io::Result<(SendRequest<Full<Bytes>>, Response<Incoming>)> {
    let socket = UnixStream::connect(socket).await?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(socket)).await.map_err(io::Error::other)?;
    // The sender sees an error of the connection, which ends with the runtime.
    drop(tokio::spawn(connection));
    let request = Request::builder().method(method).uri(format!("{}{path}", api::PREFIX)).header(HOST, "localhost");
    let (request, bytes) = match body {
        Some(body) => (request.header(CONTENT_TYPE, "application/json"), Bytes::from(body.to_string())),
        None => (request, Bytes::new()),
    };
    let request = request.body(Full::new(bytes)).map_err(io::Error::other)?;
    let response = sender.send_request(request).await.map_err(io::Error::other)?;
    Ok((sender, response))
}

/// The time that a response may usually take: removing an account may take a minute.
pub const PATIENCE: Duration = Duration::from_secs(90);
/// The most bytes of a response.
const MOST: usize = 16 * 1024 * 1024;
