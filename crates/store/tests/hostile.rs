//! A server at the address of a database that speaks nonsense, or without an end: an error that says so, in time and without growing.

use rookery_store::{StoreError, mysql, postgres};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
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

/// Both engines refuse what a server does.
fn refused(speak: impl Fn(TcpStream) + Clone + Send + 'static) {
    let error = open_postgres(serve(speak.clone()));
    assert!(matches!(error, StoreError::Lost(_) | StoreError::Other(_) | StoreError::Unfit(_)), "{error:?}");
    let address = format!("mysql://rookery@127.0.0.1:{}/chat", serve(speak));
    let address = mysql::Address::parse(&address).expect("an address");
    let error = mysql::open(&mysql::Options::at(address)).err().expect("no database");
    assert!(matches!(error, StoreError::Lost(_) | StoreError::Other(_) | StoreError::Unfit(_)), "{error:?}");
}

fn open_postgres(port: u16) -> StoreError {
    let address = format!("postgres://rookery@127.0.0.1:{port}/chat");
    let address = postgres::Address::parse(&address).expect("an address");
    postgres::open(&postgres::Options::at(address)).err().expect("no database")
}

/// Speaks to all who connect. Returns the port.
fn serve(speak: impl Fn(TcpStream) + Send + 'static) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    thread::spawn(move || listener.incoming().map_while(Result::ok).for_each(speak));
    port
}
