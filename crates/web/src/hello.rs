//! Inspects the beginning of TLS before it is read: servers that connect to the port for browsers
//! and say so by ALPN (XEP-0368) are served on other terms, which have to apply from the first
//! byte. Servers are asked for a certificate, and browsers must not be.
//!
//! Nothing is taken from the socket, so the code that serves the connection finds it untouched.

use std::io::{self, ErrorKind};

use rustix::net::{RecvFlags, recv};
use rustls::server::Acceptor;
use tokio::io::Interest;
use tokio::net::TcpStream;

/// Returns whether another server is calling. The caller limits the time: a ClientHello may take
/// several packets, since keys have grown, and the second packet may need a retransmission.
///
/// # Errors
///
/// The system's error about the socket.
pub async fn is_of_a_server(socket: &TcpStream) -> io::Result<bool> {
    let mut seen = vec![0; MOST_BYTES];
    let mut known = 0;
    loop {
        let ready = socket.ready(Interest::READABLE).await?;
        let looked = socket.try_io(Interest::READABLE, || {
            let (_, len) = recv(socket, seen.as_mut_slice(), RecvFlags::PEEK)?;
            // Peeked bytes stay readable; only new ones are a reason to check again.
            if len > known || len == 0 { Ok(len) } else { Err(ErrorKind::WouldBlock.into()) }
        });
        match looked {
            Ok(len) => {
                if let Some(is_server) = has_server(seen.get(..len).unwrap_or_default()) {
                    return Ok(is_server);
                }
                // The connection is closed, or the ClientHello is longer than any real one.
                if len == 0 || len == MOST_BYTES {
                    return Ok(false);
                }
                known = len;
            }
            // No more bytes will come, as the next reader will find out.
            Err(error) if error.kind() == ErrorKind::WouldBlock && ready.is_read_closed() => return Ok(false),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
}

/// Returns whether a ClientHello has the protocol of servers among its ALPN names. Returns `None`
/// if it is incomplete.
fn has_server(mut bytes: &[u8]) -> Option<bool> {
    let mut acceptor = Acceptor::default();
    while !bytes.is_empty() {
        // The library reads as much as it has room for.
        if acceptor.read_tls(&mut bytes).is_err() {
            return Some(false);
        }
        match acceptor.accept() {
            Ok(Some(accepted)) => {
                let hello = accepted.client_hello();
                return Some(hello.alpn().is_some_and(|mut names| names.any(|name| name == SERVERS)));
            }
            Ok(None) => {}
            Err(_) => return Some(false),
        }
    }
    None
}

/// The name of streams between servers (XEP-0368).
const SERVERS: &[u8] = b"xmpp-server";
/// The most bytes that are examined. The longest real ones have two keys of a few KiB.
const MOST_BYTES: usize = 8 * 1024;

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use rookery_stream::tls::client::{ClientSettings, ClientTls, Newest};
    use tokio::io::AsyncWriteExt;
    use tokio::net::TcpListener;

    use super::*;

    fn hello(alpn: &[&[u8]]) -> Vec<u8> {
        let settings = ClientSettings::trusting_anyone(Newest::Tls13, alpn, false).unwrap();
        let mut out = Vec::new();
        ClientTls::connect(&settings, "example.org", &mut out).unwrap();
        out
    }

    #[test]
    fn servers_say_that_they_are_servers() {
        let cases: [(&[&[u8]], bool); 5] = [
            (&[b"xmpp-server"], true),
            (&[b"other", b"xmpp-server"], true),
            (&[b"xmpp-client"], false),
            (&[b"h2", b"http/1.1"], false),
            (&[], false),
        ];
        for (alpn, expected) in cases {
            let hello = hello(alpn);
            assert_eq!(has_server(&hello), Some(expected), "{alpn:?}");
            for cut in [0, 1, 5, hello.len() / 2, hello.len() - 1] {
                assert_eq!(has_server(&hello[..cut]), None, "{cut} bytes");
            }
        }
    }

    /// Lets a client write these pieces of a ClientHello, and disconnect unless it `stays`, and
    /// returns the result. The runtime has no clock, so no client is too slow.
    fn told_of(pieces: &[&[u8]], stays: bool) -> bool {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
        runtime.block_on(async {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
            let mut calling = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
            let (called, _) = listener.accept().await.unwrap();
            let looks = tokio::spawn(async move { is_of_a_server(&called).await });
            for piece in pieces {
                assert!(!looks.is_finished(), "nothing can be told yet");
                calling.write_all(piece).await.unwrap();
                for _ in 0..1_000 {
                    tokio::task::yield_now().await;
                }
            }
            if !stays {
                drop(calling);
            }
            looks.await.unwrap().unwrap()
        })
    }

    #[test]
    fn a_beginning_may_come_in_pieces_however_late() {
        for (alpn, expected) in [(&b"xmpp-server"[..], true), (b"xmpp-client", false)] {
            let hello = hello(&[alpn]);
            let pieces: Vec<_> = hello.chunks(hello.len() / 3 + 1).collect();
            assert_eq!(told_of(&pieces, true), expected);
        }
    }

    #[test]
    fn who_leaves_in_the_middle_of_a_beginning_is_no_server() {
        let hello = hello(&[b"xmpp-server"]);
        for sent in [0, 1, hello.len() - 1] {
            assert!(!told_of(&[&hello[..sent]], false), "{sent}");
        }
    }

    #[test]
    fn what_is_no_tls_is_no_server() {
        assert_eq!(has_server(b"GET / HTTP/1.1\r\n\r\n"), Some(false));
        assert_eq!(has_server(b"<stream:stream to='example.org'>"), Some(false));
        assert_eq!(has_server(&[0; 100]), Some(false));
    }
}
