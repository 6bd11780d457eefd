//! The way from the command line to the server that runs in the same data folder: a socket in that
//! folder, for its owner alone.
//!
//! A connection says one line and gets one text. There is nothing on it that the owner of the data
//! folder may not do anyway.

use std::fs;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::Duration;

use rookery_shard::Door;
use tracing::{debug, warn};

use crate::failure::Failure;
use crate::folder::Folder;
use crate::s2s;

/// Answers questions from now on. A server that can't be asked is told in the log, and runs all the
/// same.
pub fn serve(folder: &Folder, door: Door) {
    let path = folder.control();
    // What an earlier server left: the lock of the folder is ours.
    let _ = fs::remove_file(&path);
    let bound = UnixListener::bind(&path)
        .and_then(|listener| fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).map(|()| listener));
    let listener = match bound {
        Ok(listener) => listener,
        Err(error) => {
            let path = path.display();
            return warn!(%path, %error, "`rookery s2s list` can't ask this server: its socket can't be made");
        }
    };
    let work = move || {
        for connection in listener.incoming().flatten() {
            if let Err(error) = answer(&connection, &door) {
                debug!(%error, "a question of the command line was not answered");
            }
        }
    };
    if let Err(error) = std::thread::Builder::new().name("control".into()).spawn(work) {
        warn!(%error, "`rookery s2s list` can't ask this server: there is no thread for it");
    }
}

fn answer(connection: &UnixStream, door: &Door) -> std::io::Result<()> {
    connection.set_read_timeout(Some(PATIENCE))?;
    connection.set_write_timeout(Some(PATIENCE))?;
    let mut line = String::new();
    BufReader::new(connection.take(LONGEST)).read_line(&mut line)?;
    let words: Vec<&str> = line.split_whitespace().collect();
    let text = match words.as_slice() {
        ["s2s", "list"] => s2s::listed(&door.servers()),
        ["s2s", "close", domain] => format!("streams closed: {}\n", door.close_servers(domain, None)),
        _ => "this server doesn't know that question; it may be of another version\n".to_owned(),
    };
    let mut connection = connection;
    connection.write_all(text.as_bytes())
}

/// Asks the running server.
///
/// # Errors
///
/// [`Failure::Failed`] if none runs in the folder, or it doesn't answer.
pub fn ask(folder: &Folder, question: &str) -> Result<String, Failure> {
    let path = folder.control();
    let failed = |error: std::io::Error| match error.kind() {
        ErrorKind::NotFound | ErrorKind::ConnectionRefused => {
            Failure::Failed(format!("no server runs in {}; name its folder with --data-dir", folder.path().display()))
        }
        _ => Failure::file(&path, &error),
    };
    let mut connection = UnixStream::connect(&path).map_err(failed)?;
    connection.set_read_timeout(Some(PATIENCE)).map_err(failed)?;
    connection.write_all(format!("{question}\n").as_bytes()).map_err(failed)?;
    let mut text = String::new();
    connection.read_to_string(&mut text).map_err(failed)?;
    Ok(text)
}

/// The time that either side waits for the other.
const PATIENCE: Duration = Duration::from_secs(5);
/// Bytes of a question.
const LONGEST: u64 = 4096;
