//! The connection from the command line to the server that runs in the same data folder: a socket
//! in that folder, with the server's API without a token.

use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::time::Duration;

use rookery_operations::action_log::{self, Entry};
use rookery_store::sql::IndexPlan;
use rookery_store::sql::copy::EndAddress;
use rookery_store::{Stores, wait};
use rookery_web::control;
use rookery_web::control::client::{self, ControlAnswer};
use serde_json::{Value, json};
use tracing::warn;

use crate::clock;
use crate::database::{self, OpenedDatabase};
use crate::failure::CommandFailure;
use crate::folder::Folder;
use crate::loaded::ConfigSource;

/// Creates the socket. A failure is logged, and the server runs without it.
pub fn bind(folder: &Folder) -> Option<UnixListener> {
    let path = folder.control();
    // An earlier server has left it: no other can be running, since we hold the folder's lock.
    let _ = fs::remove_file(&path);
    let bound = UnixListener::bind(&path)
        .and_then(|listener| fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).map(|()| listener));
    let path = path.display();
    bound
        .inspect_err(|error| warn!(%path, %error, "commands can't reach this server: its socket can't be created"))
        .ok()
}

/// The server that runs in a data folder.
#[derive(Debug, Clone, Copy)]
pub struct RunningServer<'a> {
    folder: &'a Folder,
}

impl<'a> RunningServer<'a> {
    /// Returns the server that runs in a folder; `None` if none does, or it has no socket.
    pub fn find(folder: &'a Folder) -> Option<RunningServer<'a>> {
        let can_be_asked = folder.control().exists() && folder.running().is_some();
        can_be_asked.then_some(RunningServer { folder })
    }

    /// Returns the server that has to run in a folder.
    ///
    /// # Errors
    ///
    /// [`CommandFailure::Failed`] if none does.
    pub fn in_folder(folder: &'a Folder) -> Result<RunningServer<'a>, CommandFailure> {
        folder.find()?;
        RunningServer::find(folder).ok_or_else(|| nobody(folder))
    }

    /// Sends a GET request for a path of the server's API and returns the response.
    ///
    /// # Errors
    ///
    /// [`CommandFailure::Failed`] with the server's words, or if it doesn't answer.
    pub fn get(self, path: &str) -> Result<Value, CommandFailure> {
        self.ask("GET", path, None)
    }

    /// Calls `each` with each entry of a list. The path of a list that is paged ends with a `?`.
    ///
    /// # Errors
    ///
    /// As [`RunningServer::get`], and the errors of `each`.
    pub fn list(
        self,
        path: &str,
        mut each: impl FnMut(&Value) -> Result<(), CommandFailure>,
    ) -> Result<(), CommandFailure> {
        let mut after = String::new();
        loop {
            let query = if path.ends_with('?') { format!("limit={PART}{after}") } else { String::new() };
            let part = self.get(&format!("{path}{query}"))?;
            for item in part["items"].as_array().into_iter().flatten() {
                each(item)?;
            }
            note_partial(&part);
            match part["next"].as_str() {
                Some(next) => after = format!("&after={}", encode(next)),
                None => return Ok(()),
            }
        }
    }

    /// Sends a request to the running server and returns its response.
    ///
    /// # Errors
    ///
    /// As [`RunningServer::get`].
    pub fn ask(self, method: &str, path: &str, body: Option<&Value>) -> Result<Value, CommandFailure> {
        self.ask_for(client::PATIENCE, method, path, body)
    }

    /// Sends a request that takes a while to the running server.
    ///
    /// # Errors
    ///
    /// As [`RunningServer::get`].
    pub fn ask_for(
        self,
        patience: Duration,
        method: &str,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Value, CommandFailure> {
        let ControlAnswer { status, body } = self.exchange(patience, method, path, body)?;
        match status {
            200..=299 => Ok(body),
            _ => Err(CommandFailure::Failed(words(&body))),
        }
    }

    /// Calls `each` with each line of JSON that a path of the server streams, as they arrive, until
    /// it returns `false` or the server ends.
    ///
    /// # Errors
    ///
    /// As [`RunningServer::get`], and the errors of `each`.
    pub fn follow(
        self,
        path: &str,
        mut each: impl FnMut(&Value) -> Result<bool, CommandFailure>,
    ) -> Result<(), CommandFailure> {
        let socket = self.folder.control();
        let mut failed = None;
        let mut one = |line: &Value| {
            Ok(each(line).unwrap_or_else(|failure| {
                failed = Some(failure);
                false
            }))
        };
        let followed = client::follow(&socket, path, &mut one);
        failed.map_or_else(|| followed.map_err(|error| self.explain_unreached(&error)), Err)
    }

    /// Returns its process id, which it has written to the folder.
    pub fn process(self) -> Option<String> {
        self.folder.running()
    }

    /// Records in the server's action log a change that a command has made to the database by
    /// itself. If that fails, the command still succeeds.
    pub fn note(self, domain: &str, act: &str) {
        if let Err(failure) =
            self.exchange(client::PATIENCE, "POST", NOTE, Some(&json!({ "domain": domain, "act": act })))
        {
            eprintln!("rookery: this couldn't be recorded in the server's action log: {failure}");
        }
    }

    fn exchange(
        self,
        patience: Duration,
        method: &str,
        path: &str,
        body: Option<&Value>,
    ) -> Result<ControlAnswer, CommandFailure> {
        let asked = client::ask(&self.folder.control(), patience, method, path, body);
        asked.map_err(|error| self.explain_unreached(&error))
    }

    /// Explains why the server wasn't reached.
    fn explain_unreached(self, error: &io::Error) -> CommandFailure {
        let socket = self.folder.control();
        match error.kind() {
            ErrorKind::NotFound | ErrorKind::ConnectionRefused => nobody(self.folder),
            ErrorKind::PermissionDenied => CommandFailure::Failed(format!(
                "{}: {error}; while the server is running, only its user and root may run commands",
                socket.display()
            )),
            ErrorKind::TimedOut => CommandFailure::Failed("the running server doesn't respond; see its log".into()),
            ErrorKind::Other => CommandFailure::Failed(error.to_string()),
            _ => CommandFailure::file(&socket, error),
        }
    }
}

/// Records the act of a command in the action log: through the server that runs in the folder, or
/// in the store if none runs. If that fails, the command still succeeds.
pub fn note(source: &ConfigSource, stores: &Stores, domain: &str, act: &str) {
    match RunningServer::find(&source.folder) {
        Some(server) => server.note(domain, act),
        None => keep(stores, domain, act),
    }
}

/// Records the act of a command that needs no database itself. If no server runs, the act is
/// recorded only if the database exists and opening it changes nothing: a newer version must not
/// migrate the database while it makes the backup that is meant to precede the migration.
pub fn note_beside(source: &ConfigSource, domain: &str, act: &str) {
    if let Some(server) = RunningServer::find(&source.folder) {
        return server.note(domain, act);
    }
    let Ok(config) = source.read() else { return };
    let is_current = database::address(&source.folder, &config.store).is_ok_and(|address| {
        let is_there = !matches!(&address, EndAddress::Sqlite(file) if !file.exists());
        is_there
            && address
                .plan()
                .is_ok_and(|plan| plan.steps.is_empty() && plan.division.is_none() && plan.index == IndexPlan::Nothing)
    });
    if is_current && let Ok(database) = OpenedDatabase::open_patiently(&source.folder, &config.store) {
        keep(&database.stores, domain, act);
    }
}

/// Stores a note where the next server finds it.
fn keep(stores: &Stores, domain: &str, act: &str) {
    let (who, by) = (control::own_name(), control::BY.to_owned());
    let entry = Entry { unix_ms: clock::now() * 1000, who, by, act: act.to_owned(), domain: domain.to_owned() };
    if let Err(error) = wait(action_log::keep_entry(stores, entry)) {
        eprintln!("rookery: this couldn't be recorded in the action log: {error}");
    }
}

/// Warns on the terminal if the server's answer is incomplete.
pub fn note_partial(told: &Value) {
    if told["partial"] == true {
        eprintln!("rookery: a part of the server didn't respond in time, so its share is missing");
    }
}

/// Encodes a segment of a path or a value of a query.
pub fn encode(text: &str) -> String {
    rookery_web::control::client::encode(text)
}

/// Returns the server's description of a problem.
fn words(problem: &Value) -> String {
    problem["detail"].as_str().unwrap_or("the server refused, and didn't say why").to_owned()
}

fn nobody(folder: &Folder) -> CommandFailure {
    CommandFailure::Failed(format!(
        "no server is running in {}; give its folder with --data-dir",
        folder.path().display()
    ))
}

/// Entries per page of a list.
const PART: usize = 500;
/// The path of the control socket that records an action.
const NOTE: &str = rookery_web::control::NOTE;
