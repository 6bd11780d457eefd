//! A network between a test and a database, which delays bytes, holds them back or drops them,
//! refuses connections, or cuts one after any byte.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// A proxy to a Unix socket, which a test can disturb. All its connections end when it is dropped.
pub struct Proxy {
    folder: PathBuf,
    shared: Arc<ProxyShared>,
}

/// The direction of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProxyDirection {
    /// From clients to the database.
    Asked,
    /// From the database to clients.
    Answered,
}

#[derive(Default)]
struct ProxyShared {
    state: Mutex<ProxyState>,
    delay_us: AtomicU64,
    refuses: AtomicBool,
    /// The number of connections refused so far.
    refused: AtomicU64,
    stands: AtomicBool,
    /// Connections up to this number no longer pass bytes on.
    silent: AtomicU64,
    cuts: AtomicU64,
    ended: AtomicBool,
}

#[derive(Default)]
struct ProxyState {
    /// The direction and the number of further bytes after which a connection is cut.
    cut: Option<(ProxyDirection, u64)>,
    open: HashMap<u64, (UnixStream, UnixStream)>,
    /// The number of connections so far.
    joined: u64,
}

impl Proxy {
    /// Starts a proxy to a socket, with a socket of the same name in another folder.
    ///
    /// # Panics
    /// If that isn't possible, with the reason.
    pub fn start(socket: &Path) -> Proxy {
        static FOLDERS: AtomicU64 = AtomicU64::new(0);
        let number = FOLDERS.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("rookery-way-{}-{number}", std::process::id()));
        std::fs::create_dir(&folder).expect("a temporary folder");
        let own = folder.join(socket.file_name().expect("the name of a socket"));
        let listener = UnixListener::bind(own).expect("a socket");
        let shared = Arc::<ProxyShared>::default();
        let (taken, socket) = (shared.clone(), socket.to_owned());
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                if taken.ended.load(Ordering::Relaxed) {
                    break;
                }
                if taken.refuses.load(Ordering::Relaxed) {
                    taken.refused.fetch_add(1, Ordering::Relaxed);
                } else if let Ok(server) = UnixStream::connect(&socket) {
                    taken.join(client, server);
                }
            }
        });
        Proxy { folder, shared }
    }

    /// Returns the folder of the socket.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Delays all bytes by this time in each direction.
    pub fn delay(&self, time: Duration) {
        self.shared.delay_us.store(time.as_micros() as u64, Ordering::Relaxed);
    }

    /// Refuses new connections, or accepts them again.
    pub fn refuse(&self, refuses: bool) {
        self.shared.refuses.store(refuses, Ordering::Relaxed);
    }

    /// Waits until this many connections were refused.
    pub fn expect_refused(&self, connections: u64) {
        while self.shared.refused.load(Ordering::Relaxed) < connections {
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Holds all bytes back, or lets them pass again.
    pub fn stand(&self, stands: bool) {
        self.shared.stands.store(stands, Ordering::Relaxed);
    }

    /// Drops all bytes of the current connections without closing these, like a network that has
    /// lost their state.
    pub fn silence(&self) {
        self.shared.silent.store(self.shared.state().joined, Ordering::Relaxed);
    }

    /// Cuts a connection right after this many further bytes in this direction, counted over all
    /// connections.
    pub fn cut_behind(&self, direction: ProxyDirection, bytes: u64) {
        self.shared.state().cut = Some((direction, bytes));
    }

    /// Cancels [`Proxy::cut_behind`]. Returns true if the connection wasn't cut yet.
    pub fn spare(&self) -> bool {
        self.shared.state().cut.take().is_some()
    }

    /// Cuts all connections.
    pub fn cut_all(&self) {
        let mut state = self.shared.state();
        self.shared.cuts.fetch_add(state.open.len() as u64, Ordering::Relaxed);
        state.open.drain().for_each(|(_, both)| end(both));
    }

    /// Returns how many connections were cut.
    pub fn cuts(&self) -> u64 {
        self.shared.cuts.load(Ordering::Relaxed)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::Relaxed);
        self.shared.state().open.drain().for_each(|(_, both)| end(both));
        if let Some(socket) = std::fs::read_dir(&self.folder).ok().and_then(|mut files| files.next()?.ok()) {
            // Wakes the thread that accepts connections.
            drop(UnixStream::connect(socket.path()));
        }
        drop(std::fs::remove_dir_all(&self.folder));
    }
}

impl ProxyShared {
    fn state(&self) -> MutexGuard<'_, ProxyState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Joins two connections until one ends.
    fn join(self: &Arc<ProxyShared>, client: UnixStream, server: UnixStream) {
        let copies = || Some((client.try_clone().ok()?, server.try_clone().ok()?));
        let (Some(kept), Some((from_client, to_server)), Some((to_client, from_server))) =
            (copies(), copies(), copies())
        else {
            return;
        };
        let mut state = self.state();
        state.joined += 1;
        let number = state.joined;
        state.open.insert(number, kept);
        drop(state);
        self.pass(number, ProxyDirection::Asked, from_client, to_server);
        self.pass(number, ProxyDirection::Answered, from_server, to_client);
    }

    /// Passes bytes on: one thread reads them, another writes them after their delay.
    fn pass(self: &Arc<ProxyShared>, number: u64, direction: ProxyDirection, mut from: UnixStream, to: UnixStream) {
        let (bytes, taken) = mpsc::channel();
        let shared = self.clone();
        thread::spawn(move || {
            let mut buffer = [0; 16 << 10];
            while let Ok(read @ 1..) = from.read(&mut buffer) {
                let delay = Duration::from_micros(shared.delay_us.load(Ordering::Relaxed));
                if bytes.send((Instant::now() + delay, buffer[..read].to_vec())).is_err() {
                    break;
                }
            }
        });
        let shared = self.clone();
        thread::spawn(move || {
            shared.write(number, direction, &taken, &to);
            while shared.is_silent(number) {
                thread::sleep(Duration::from_millis(5));
            }
            drop(to.shutdown(Shutdown::Both));
            if let Some(both) = shared.state().open.remove(&number) {
                end(both);
            }
        });
    }

    fn write(&self, number: u64, direction: ProxyDirection, taken: &Receiver<(Instant, Vec<u8>)>, mut to: &UnixStream) {
        for (due, bytes) in taken {
            thread::sleep(due.saturating_duration_since(Instant::now()));
            while self.is_silent(number) || (self.stands.load(Ordering::Relaxed) && !self.ended.load(Ordering::Relaxed))
            {
                thread::sleep(Duration::from_millis(5));
            }
            let passes = self.passes(direction, bytes.len());
            if to.write_all(&bytes[..passes.unwrap_or(bytes.len())]).is_err() || passes.is_some() {
                return;
            }
        }
    }

    fn is_silent(&self, number: u64) -> bool {
        number <= self.silent.load(Ordering::Relaxed) && !self.ended.load(Ordering::Relaxed)
    }

    /// Returns how many of some bytes pass before the connection is cut, if it is.
    fn passes(&self, direction: ProxyDirection, bytes: usize) -> Option<usize> {
        let mut state = self.state();
        let (_, left) = state.cut.as_mut().filter(|(cut, _)| *cut == direction)?;
        if *left > bytes as u64 {
            *left -= bytes as u64;
            return None;
        }
        let passes = *left as usize;
        state.cut = None;
        self.cuts.fetch_add(1, Ordering::Relaxed);
        Some(passes)
    }
}

fn end((client, server): (UnixStream, UnixStream)) {
    drop(client.shutdown(Shutdown::Both));
    drop(server.shutdown(Shutdown::Both));
}
