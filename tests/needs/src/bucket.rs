//! A bucket in memory on this machine: as much of S3 as it takes to put files, get parts of them
//! and delete them. It doesn't verify signatures.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A bucket, until it is dropped.
#[derive(Debug)]
pub struct FakeBucket {
    address: SocketAddr,
    kept: Kept,
    is_over: Arc<AtomicBool>,
    is_full: Arc<AtomicBool>,
}

type Kept = Arc<Mutex<BTreeMap<String, Vec<u8>>>>;

impl FakeBucket {
    /// The access key id of the bucket.
    pub const ACCESS_KEY: &str = "TESTKEY";

    /// Starts an empty bucket.
    ///
    /// # Panics
    /// If the system gives no port.
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("its address");
        let (kept, is_over, is_full) = (Kept::default(), Arc::<AtomicBool>::default(), Arc::<AtomicBool>::default());
        let (files, over, full) = (kept.clone(), is_over.clone(), is_full.clone());
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                if over.load(Ordering::Relaxed) {
                    return;
                }
                let (files, full) = (files.clone(), full.clone());
                // A truncated body gets no response.
                std::thread::spawn(move || serve(&stream, &files, full.load(Ordering::Relaxed)));
            }
        });
        Self { address, kept, is_over, is_full }
    }

    /// Returns its address.
    pub fn url(&self) -> String {
        format!("http://{}/bucket", self.address)
    }

    /// Makes the bucket refuse all further files, or accept them again.
    pub fn refuse(&self, refuses: bool) {
        self.is_full.store(refuses, Ordering::Relaxed);
    }

    /// Returns the files, by their paths.
    pub fn files(&self) -> BTreeMap<String, Vec<u8>> {
        lock(&self.kept).clone()
    }
}

impl Drop for FakeBucket {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        // The thread checks the flag at the next connection.
        drop(TcpStream::connect(self.address));
    }
}

fn lock(kept: &Kept) -> MutexGuard<'_, BTreeMap<String, Vec<u8>>> {
    kept.lock().unwrap_or_else(PoisonError::into_inner)
}

fn serve(stream: &TcpStream, kept: &Kept, is_full: bool) -> Option<()> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let mut words = line.split(' ');
    let (method, target) = (words.next()?, words.next()?);
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let (mut length, mut range) = (0, None);
    loop {
        let mut header = String::new();
        reader.read_line(&mut header).ok()?;
        let Some((name, value)) = header.split_once(':') else { break };
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.trim().parse().ok()?,
            "range" => range = value.trim().strip_prefix("bytes=").map(str::to_owned),
            _ => {}
        }
    }
    let is_known = query.contains(&format!("X-Amz-Credential={}%2F", FakeBucket::ACCESS_KEY));
    let is_signed = query.split_once("X-Amz-Signature=").is_some_and(|(_, signature)| signature.len() == 64);
    let (status, content) = match method {
        _ if !is_known || !is_signed => refusal(403, "InvalidAccessKeyId"),
        _ if !path.starts_with("/bucket/") => refusal(404, "NoSuchBucket"),
        "PUT" if is_full => refusal(507, "StorageFull"),
        "PUT" => {
            let mut body = vec![0; length];
            reader.read_exact(&mut body).ok()?;
            lock(kept).insert(path.to_owned(), body);
            (200, Vec::new())
        }
        "GET" => match lock(kept).get(path) {
            None => refusal(404, "NoSuchKey"),
            Some(file) => match range {
                None => (200, file.clone()),
                Some(range) => {
                    let (from, to) = range.split_once('-')?;
                    let (from, to) = (from.parse::<usize>().ok()?, to.parse::<usize>().ok()?);
                    (206, file.get(from..file.len().min(to + 1)).unwrap_or_default().to_vec())
                }
            },
        },
        "DELETE" => {
            lock(kept).remove(path);
            (204, Vec::new())
        }
        _ => refusal(405, "MethodNotAllowed"),
    };
    let head = format!("HTTP/1.1 {status} X\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", content.len());
    let mut stream = stream;
    stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&content)).ok()
}

fn refusal(status: u16, code: &str) -> (u16, Vec<u8>) {
    (status, format!("<?xml version=\"1.0\"?><Error><Code>{code}</Code></Error>").into_bytes())
}
