//! An HTTP server on this machine, which responds to one request at a time.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// A site, until it is dropped.
#[derive(Debug)]
pub struct Site {
    address: SocketAddr,
    /// The paths that were requested.
    asked: Arc<Mutex<Vec<String>>>,
    is_over: Arc<AtomicBool>,
}

impl Site {
    /// Starts a site that responds with the status and content that `answer` returns for path and
    /// body.
    ///
    /// # Panics
    /// If the system gives no port.
    pub fn start(answer: impl Fn(&str, &str) -> (u16, String) + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("its address");
        let (asked, is_over) = (Arc::<Mutex<Vec<_>>>::default(), Arc::new(AtomicBool::new(false)));
        let (log, over) = (asked.clone(), is_over.clone());
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                if over.load(Ordering::Relaxed) {
                    return;
                }
                let Some((path, body)) = request(&stream) else { continue };
                let (status, content) = answer(&path, &body);
                log.lock().unwrap_or_else(PoisonError::into_inner).push(path);
                let head =
                    format!("HTTP/1.1 {status} X\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", content.len());
                // A client that has gone needs no response.
                _ = (&stream).write_all((head + &content).as_bytes());
            }
        });
        Self { address, asked, is_over }
    }

    /// Returns the address of a path.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Returns how many requests there were for a path.
    pub fn count(&self, path: &str) -> usize {
        let asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        asked.iter().filter(|asked| *asked == path).count()
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        // The thread checks the flag at the next connection.
        drop(TcpStream::connect(self.address));
    }
}

fn request(stream: &TcpStream) -> Option<(String, String)> {
    let mut reader = BufReader::new(stream);
    let (mut line, mut length) = (String::new(), 0);
    reader.read_line(&mut line).ok()?;
    let path = line.split(' ').nth(1)?.to_owned();
    loop {
        let mut header = String::new();
        reader.read_line(&mut header).ok()?;
        let Some((name, value)) = header.split_once(':') else { break };
        if name.eq_ignore_ascii_case("content-length") {
            length = value.trim().parse().ok()?;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some((path, String::from_utf8(body).ok()?))
}
