//! The first lines of a connection, which name its protocol.

use super::keys::CloseClient;

/// The protocol that a client wants.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Greeting {
    /// DPM over TCP.
    Dpm,
    /// acnetd's client protocol.
    Raw,
    /// None: it watches the service at work.
    Top,
    /// None: it gets the counters once, in Prometheus's format.
    Metrics,
    /// None: it gets an overview of the devices, the readers and the delays once.
    Overview,
    /// An unsupported one, with the answer to the client.
    Refused(&'static str),
}

/// Reads the first lines, and returns the number of their bytes; `None` if they are incomplete.
/// `may_watch` is true for clients of this machine, `may_scrape` for those that may read the
/// counters.
pub(super) fn read(input: &[u8], may_watch: bool, may_scrape: bool) -> Result<Option<(Greeting, usize)>, CloseClient> {
    let end = input.windows(END.len()).position(|window| window == END).map(|end| end + END.len());
    let Some(end) = end else {
        let could_be = |start: &[u8]| input.starts_with(&start[..start.len().min(input.len())]);
        let is_hopeless = input.len() > LONGEST || !(could_be(b"RAW\r\n\r\n") || could_be(b"GET "));
        return if is_hopeless { Err(CloseClient) } else { Ok(None) };
    };
    let Ok(text) = std::str::from_utf8(&input[..end - END.len()]) else { return Err(CloseClient) };
    let mut lines = text.split("\r\n");
    let greeting = match lines.next().unwrap_or_default() {
        "RAW" => Greeting::Raw,
        first if first.starts_with("GET /dpm ") => {
            let mut kind = "application/pc";
            for line in lines {
                let Some((key, value)) = line.split_once(':') else { return Ok(Some((Greeting::Refused(BAD), end))) };
                if key.eq_ignore_ascii_case("content-type") {
                    kind = value.trim();
                }
            }
            if kind == "application/pc" { Greeting::Dpm } else { Greeting::Refused(UNSUPPORTED) }
        }
        first if first.starts_with("GET /top ") && may_watch => Greeting::Top,
        first if first.starts_with("GET /metrics ") && may_scrape => Greeting::Metrics,
        first if first.starts_with("GET /overview ") && may_watch => Greeting::Overview,
        first if first.starts_with("GET ") => Greeting::Refused(NOT_FOUND),
        _ => return Err(CloseClient),
    };
    Ok(Some((greeting, end)))
}

const END: &[u8] = b"\r\n\r\n";
/// The largest length of the first lines, in bytes.
const LONGEST: usize = 4096;
const BAD: &str = "HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
const NOT_FOUND: &str = "HTTP/1.1 404 Not Found\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
const UNSUPPORTED: &str = "HTTP/1.1 415 Unsupported Media Type\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
