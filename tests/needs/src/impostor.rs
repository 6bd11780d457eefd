//! A server in place of a database, which isn't one or sends wrong replies: the test determines its
//! bytes.
//!
//! This module has the bytes of both protocols that more than one test needs: those of PostgreSQL
//! by <https://www.postgresql.org/docs/current/protocol-message-formats.html>, those of MariaDB by
//! <https://mariadb.com/kb/en/clientserver-protocol/>.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;

/// Runs `speak` for every connection until the test's process ends. Returns the port of the
/// loopback interface.
///
/// # Panics
/// If there is no port.
pub fn impostor(speak: impl Fn(TcpStream) + Clone + Send + 'static) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            let speak = speak.clone();
            thread::spawn(move || speak(client));
        }
    });
    port
}

/// Waits for any request, and sends the answer. Ignores that a client has gone.
pub fn answer(client: &mut TcpStream, answer: &[u8]) {
    drop(client.read(&mut [0; 4096]));
    drop(client.write_all(answer));
}

/// Says nothing until the client has gone.
pub fn fall_silent(client: &mut TcpStream) {
    drop(client.read_to_end(&mut Vec::new()));
}

/// AuthenticationOk and ReadyForQuery of PostgreSQL.
pub const LOGGED_IN: &[u8] = b"R\0\0\0\x08\0\0\0\0Z\0\0\0\x05I";

/// RowDescription of PostgreSQL, of a column that is a text.
pub const ONE_COLUMN: &[u8] = b"T\0\0\0\x1A\0\x01a\0\0\0\0\0\0\0\0\0\0\x19\xFF\xFF\xFF\xFF\xFF\xFF\0\0";

/// DataRow of PostgreSQL with "off".
pub const ROW: &[u8] = b"D\0\0\0\x0D\0\x01\0\0\0\x03off";

/// CommandComplete and ReadyForQuery of PostgreSQL.
pub const END_OF_ROWS: &[u8] = b"C\0\0\0\x09SHOW\0Z\0\0\0\x05I";

/// Returns a packet of MariaDB with its number, which counts from the last question.
///
/// # Panics
/// If the payload is larger than a packet may be.
pub fn packet(number: u8, payload: &[u8]) -> Vec<u8> {
    assert!(payload.len() < 1 << 24, "{} bytes", payload.len());
    let length = (payload.len() as u32).to_le_bytes();
    [&length[..3], &[number], payload].concat()
}

/// Returns the greeting of a MariaDB that requires no password and offers no encryption.
pub fn greeting() -> Vec<u8> {
    let capabilities = 0x000F_A20F_u32.to_le_bytes();
    let (low, high) = capabilities.split_at(2);
    let greeting = [
        &b"\x0A10.11.6-MariaDB\0\x01\0\0\0saltsalt\0"[..],
        low,
        b"\x21\x02\0",
        high,
        b"\x15\0\0\0\0\0\0\0\0\0\0saltsaltsalt\0mysql_native_password\0",
    ];
    packet(0, &greeting.concat())
}

/// Returns MariaDB's OK packet; with `is_last`, no other result follows.
pub fn ok_packet(number: u8, is_last: bool) -> Vec<u8> {
    packet(number, &[0, 0, 0, if is_last { 0x02 } else { 0x0A }, 0, 0, 0])
}

/// Returns the packets that precede rows of this many text columns in MariaDB. The next packet's
/// number is the number of columns plus 3.
pub fn columns(count: u8) -> Vec<u8> {
    let column = b"\x03def\0\0\0\x01a\0\x0C\x3F\0\0\x01\0\0\xFD\0\0\0\0\0";
    let mut packets = packet(1, &[count]);
    (0..count).for_each(|at| packets.extend(packet(at + 2, column)));
    packets.extend(packet(count + 2, b"\xFE\0\0\x02\0"));
    packets
}

/// Returns the packet that announces rows of 2^44 columns in MariaDB. No address space has room for
/// so many.
pub fn countless_columns() -> Vec<u8> {
    packet(1, &[&[0xFE], &(1_u64 << 44).to_le_bytes()[..]].concat())
}

/// Returns a row of MariaDB.
///
/// # Panics
/// If a text is longer than 250 bytes.
pub fn row(number: u8, texts: &[&str]) -> Vec<u8> {
    let mut payload = Vec::new();
    for text in texts {
        assert!(text.len() <= 250, "{text}");
        payload.push(text.len() as u8);
        payload.extend(text.as_bytes());
    }
    packet(number, &payload)
}

/// Answers every MariaDB request with the same bytes until the client has gone, but grants the lock
/// without which no connection continues.
pub fn answer_alike(client: &mut TcpStream, same: &[u8]) {
    let lock = [columns(1), row(4, &["1"]), packet(5, b"\xFE\0\0\x02\0")].concat();
    let mut question = [0; 4096];
    while let Ok(bytes @ 1..) = client.peek(&mut question) {
        let is_lock = question[..bytes].windows(LOCK.len()).any(|part| part == LOCK);
        answer(client, if is_lock { &lock } else { same });
    }
}

/// The function that asks MariaDB for a lock.
const LOCK: &[u8] = b"GET_LOCK";
