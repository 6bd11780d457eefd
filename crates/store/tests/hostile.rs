//! A server at the address of a database that speaks nonsense, or without an end: an error that says so, in time and without growing.

use rookery_store::{StoreError, mysql, postgres};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

#[test]
fn nonsense_is_an_error() {
    for nonsense in
        [&b""[..], b"HTTP/1.1 400 Bad Request\r\n\r\n", &[0; 64], &[0xFF; 64], b"E\xFF\xFF\xFF\xFF", b"R\0\0\0\x04"]
    {
        refused(|mut client| drop(client.write_all(nonsense)));
    }
}

#[test]
fn bytes_without_an_end_are_an_error() {
    refused(|mut client| while client.write_all(&[0; 16 << 10]).is_ok() {});
}

/// Lets all log in, and gives rows to whatever is asked.
#[test]
fn rows_without_an_end_are_an_error() {
    let port = serve(|mut client| {
        drop(client.read(&mut [0; 4096]));
        // AuthenticationOk, ReadyForQuery: https://www.postgresql.org/docs/current/protocol-message-formats.html
        drop(client.write_all(b"R\0\0\0\x08\0\0\0\0Z\0\0\0\x05I"));
        drop(client.read(&mut [0; 4096]));
        let description = b"T\0\0\0\x1B\0\x01a\0\0\0\0\0\0\0\0\0\0\x19\xFF\xFF\xFF\xFF\xFF\xFF\0\0";
        drop(client.write_all(description));
        let rows = b"D\0\0\0\x0D\0\x01\0\0\0\x03off".repeat(1000);
        while client.write_all(&rows).is_ok() {}
    });
    let error = open_postgres(port);
    assert!(matches!(error, StoreError::Lost(_)), "{error:?}");
}

/// A message says that it has two gibibytes, and goes on until it has.
#[test]
fn a_message_that_is_too_large_is_refused_at_its_head() {
    let taken = Arc::<AtomicUsize>::default();
    let counted = taken.clone();
    let port = serve(move |mut client| {
        drop(client.read(&mut [0; 4096]));
        drop(client.write_all(b"R\0\0\0\x08\0\0\0\0Z\0\0\0\x05I"));
        drop(client.read(&mut [0; 4096]));
        drop(client.write_all(b"D\x7F\xFF\xFF\xFF"));
        pour(client, &counted);
    });
    let error = open_postgres(port);
    assert!(error.to_string().contains("a message of 2147483647 bytes"), "{error}");
    expect_little(&taken);
}

/// Parameters are kept as long as a connection.
#[test]
fn parameters_without_an_end_are_refused() {
    let taken = Arc::<AtomicUsize>::default();
    let counted = taken.clone();
    let port = serve(move |mut client| {
        drop(client.read(&mut [0; 4096]));
        drop(client.write_all(b"R\0\0\0\x08\0\0\0\0"));
        for number in 0.. {
            let parameter = format!("{number:030}\0{}\0", "x".repeat(964));
            let message = [b"S\0\0\x03\xE8", parameter.as_bytes()].concat();
            if client.write_all(&message).is_err() {
                return;
            }
            counted.fetch_add(message.len(), Ordering::Relaxed);
        }
    });
    let error = open_postgres(port);
    assert!(error.to_string().contains("that nobody asked for"), "{error}");
    expect_little(&taken);
}

/// Whatever that server says that its packets may have.
#[test]
fn a_packet_that_is_too_large_is_refused() {
    let taken = Arc::<AtomicUsize>::default();
    let counted = taken.clone();
    let port = serve(move |mut client| {
        drop(client.write_all(&packet(0, &greeting())));
        drop(client.read(&mut [0; 4096]));
        drop(client.write_all(&packet(2, b"\0\0\0\x02\0\0\0")));
        drop(client.read(&mut [0; 4096]));
        // What has the greatest length goes on in the next packet.
        let part = vec![0; 0x00FF_FFFF];
        for number in 1..=100 {
            if client.write_all(&packet(number, &part)).is_err() {
                return;
            }
            counted.fetch_add(part.len(), Ordering::Relaxed);
        }
    });
    let error = open_mysql(port);
    assert!(error.to_string().contains("max_allowed_packet"), "{error}");
    let taken = taken.load(Ordering::Relaxed);
    assert!(taken < 100 << 20, "{taken} bytes were taken");
}

/// No server on a way that isn't encrypted gets the password itself, whatever it asks for.
#[test]
fn a_password_is_not_told_in_the_clear() {
    let told = Arc::new(Mutex::new(Vec::new()));
    let heard = told.clone();
    let port = serve(move |mut client| {
        drop(client.read(&mut [0; 4096]));
        // AuthenticationCleartextPassword
        drop(client.write_all(b"R\0\0\0\x08\0\0\0\x03"));
        drop(client.read_to_end(&mut heard.lock().expect("what was heard")));
    });
    let address = format!("postgres://rookery:secret@127.0.0.1:{port}/chat");
    let address = postgres::Address::parse(&address).expect("an address");
    let error = postgres::open(&postgres::Options::at(address)).err().expect("no database");
    assert!(matches!(&error, StoreError::Unfit(_)) && error.to_string().contains("pg_hba.conf"), "{error:?}");
    let told = told.lock().expect("what was heard");
    assert!(!told.windows(6).any(|bytes| bytes == b"secret"), "{told:?}");
    // Of MariaDB's methods, the one that tells it isn't answered at all.
    let told = Arc::new(Mutex::new(Vec::new()));
    let heard = told.clone();
    let port = serve(move |mut client| {
        drop(client.write_all(&packet(0, &greeting())));
        drop(client.read(&mut [0; 4096]));
        drop(client.write_all(&packet(2, b"\xFEmysql_clear_password\0")));
        drop(client.read_to_end(&mut heard.lock().expect("what was heard")));
    });
    let address = format!("mysql://rookery:secret@127.0.0.1:{port}/chat");
    let address = mysql::Address::parse(&address).expect("an address");
    mysql::open(&mysql::Options::at(address)).err().expect("no database");
    let told = told.lock().expect("what was heard");
    assert!(!told.windows(6).any(|bytes| bytes == b"secret"), "{told:?}");
}

/// Returns the greeting of a server without a password: <https://mariadb.com/kb/en/connection/>.
fn greeting() -> Vec<u8> {
    let capabilities = 0x000F_A20F_u32.to_le_bytes();
    let (low, high) = capabilities.split_at(2);
    [
        &b"\x0A10.11.6-MariaDB\0\x01\0\0\0saltsalt\0"[..],
        low,
        b"\x21\x02\0",
        high,
        b"\x15\0\0\0\0\0\0\0\0\0\0saltsaltsalt\0mysql_native_password\0",
    ]
    .concat()
}

fn packet(number: u8, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_le_bytes();
    [&length[..3], &[number], payload].concat()
}

/// Sends until nobody takes it, and counts.
fn pour(mut client: TcpStream, taken: &AtomicUsize) {
    while client.write_all(&[0; 64 << 10]).is_ok() {
        taken.fetch_add(64 << 10, Ordering::Relaxed);
    }
}

/// Expects that no more was taken than fits into the buffers of sockets.
fn expect_little(taken: &AtomicUsize) {
    let taken = taken.load(Ordering::Relaxed);
    assert!(taken < 32 << 20, "{taken} bytes were taken");
}

/// Both engines refuse what a server does.
fn refused(speak: impl Fn(TcpStream) + Clone + Send + 'static) {
    let error = open_postgres(serve(speak.clone()));
    assert!(matches!(error, StoreError::Lost(_) | StoreError::Other(_) | StoreError::Unfit(_)), "{error:?}");
    let error = open_mysql(serve(speak));
    assert!(matches!(error, StoreError::Lost(_) | StoreError::Other(_) | StoreError::Unfit(_)), "{error:?}");
}

fn open_postgres(port: u16) -> StoreError {
    let address = format!("postgres://rookery@127.0.0.1:{port}/chat");
    let address = postgres::Address::parse(&address).expect("an address");
    postgres::open(&postgres::Options::at(address)).err().expect("no database")
}

fn open_mysql(port: u16) -> StoreError {
    let address = mysql::Address::parse(&format!("mysql://rookery@127.0.0.1:{port}/chat")).expect("an address");
    mysql::open(&mysql::Options::at(address)).err().expect("no database")
}

/// Speaks to all who connect. Returns the port.
fn serve(speak: impl Fn(TcpStream) + Send + 'static) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    thread::spawn(move || listener.incoming().map_while(Result::ok).for_each(speak));
    port
}
