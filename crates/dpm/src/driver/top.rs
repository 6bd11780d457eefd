//! `rookery dpm top`: a live view of a DPM on this machine.

use std::io::{self, IsTerminal, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use crate::service::PAGE_END;

/// Shows page after page, `pages` of them or until the DPM ends.
///
/// # Errors
/// The error of the system; `InvalidData` if the server is no DPM.
pub fn show(address: SocketAddr, pages: Option<usize>) -> io::Result<()> {
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.write_all(b"GET /top HTTP/1.1\r\n\r\n")?;
    let mut text = Vec::new();
    head(&mut stream, &mut text)?;
    let mut shown = 0;
    let mut out = io::stdout();
    let clear = if out.is_terminal() && pages != Some(1) { CLEAR } else { "" };
    let mut bytes = [0; 4096];
    while pages.is_none_or(|pages| shown < pages) {
        if let Some(end) = text.iter().position(|byte| *byte == PAGE_END as u8) {
            let page: Vec<u8> = text.drain(..=end).take(end).collect();
            write!(out, "{clear}{}", String::from_utf8_lossy(&page))?;
            out.flush()?;
            shown += 1;
            continue;
        }
        match stream.read(&mut bytes)? {
            0 => return Ok(()),
            length => text.extend_from_slice(&bytes[..length]),
        }
    }
    Ok(())
}

/// Reads the head of the response; the rest stays in `text`.
fn head(stream: &mut TcpStream, text: &mut Vec<u8>) -> io::Result<()> {
    let mut bytes = [0; 4096];
    loop {
        let length = stream.read(&mut bytes)?;
        text.extend_from_slice(&bytes[..length]);
        if let Some(end) = text.windows(END.len()).position(|window| window == END) {
            let is_ok = text.starts_with(b"HTTP/1.1 200 ");
            text.drain(..end + END.len());
            return if is_ok { Ok(()) } else { Err(io::Error::new(io::ErrorKind::InvalidData, REFUSED)) };
        }
        if length == 0 || text.len() > LONGEST {
            return Err(io::Error::new(io::ErrorKind::InvalidData, REFUSED));
        }
    }
}

const END: &[u8] = b"\r\n\r\n";
const LONGEST: usize = 4096;
/// The time limit for a page, which comes every second.
const PATIENCE: Duration = Duration::from_secs(10);
/// Clears the screen for the next page.
const CLEAR: &str = "\x1b[H\x1b[2J";
const REFUSED: &str = "nothing listens there that can be watched; a DPM can be watched from its own machine only";
