//! Tests a server at the database's address that sends nonsense, or endless data, or nothing at
//! all: the result is an error that says so, in time and without using more memory.

use rookery_needs::impostor::{
    END_OF_ROWS, LOGGED_IN, ONE_COLUMN, ROW, answer, answer_alike, columns, fall_silent, greeting, impostor, ok_packet,
    packet, row,
};
use rookery_store::{StoreError, mysql, postgres};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

#[test]
fn nonsense_is_an_error() {
    for nonsense in
        [&b""[..], b"HTTP/1.1 400 Bad Request\r\n\r\n", &[0; 64], &[0xFF; 64], b"E\xFF\xFF\xFF\xFF", b"R\0\0\0\x04"]
    {
        expect_refusal(|mut client| drop(client.write_all(nonsense)));
    }
}

#[test]
fn bytes_without_an_end_are_an_error() {
    expect_refusal(|mut client| while client.write_all(&[0; 16 << 10]).is_ok() {});
}

/// Accepts every login, and answers any request with rows.
#[test]
fn rows_without_an_end_are_an_error() {
    let port = impostor(|mut client| {
        answer(&mut client, LOGGED_IN);
        answer(&mut client, ONE_COLUMN);
        let rows = ROW.repeat(1000);
        while client.write_all(&rows).is_ok() {}
    });
    expect_unfit(&open_postgres(port), "it gives more than was asked for");
    let port = impostor(|mut client| {
        log_in(&mut client);
        answer(&mut client, &columns(1));
        // As many as there are packet numbers.
        let rows: Vec<u8> = (0..=255_u8).flat_map(|at| row(at.wrapping_add(4), &["off"])).collect();
        while client.write_all(&rows).is_ok() {}
    });
    expect_unfit(&open_mysql(port), "it gives more than was asked for");
}

/// Each of them announces another one.
#[test]
fn answers_without_an_end_are_an_error() {
    let port = impostor(|mut client| {
        log_in(&mut client);
        answer(&mut client, &ok_packet(1, false));
        let answers: Vec<u8> = (0..=255_u8).flat_map(|at| ok_packet(at.wrapping_add(2), false)).collect();
        while client.write_all(&answers).is_ok() {}
    });
    expect_unfit(&open_mysql(port), "it gives more than was asked for");
    let port = impostor(|mut client| {
        answer(&mut client, LOGGED_IN);
        answer(&mut client, b"");
        let answers = b"C\0\0\0\x09SHOW\0".repeat(1000);
        while client.write_all(&answers).is_ok() {}
    });
    expect_unfit(&open_postgres(port), "it gives more than was asked for");
}

/// The wait for a silent server is bounded, whatever it has sent before. It may only be busy, so
/// another attempt makes sense.
#[test]
fn silence_in_the_middle_of_opening_is_an_error() {
    let is_off = [ONE_COLUMN, ROW, END_OF_ROWS].concat();
    let half_a_row = [ONE_COLUMN, &ROW[..7]].concat();
    let of_postgres =
        [vec![], vec![LOGGED_IN.to_vec()], vec![LOGGED_IN.to_vec(), half_a_row], vec![LOGGED_IN.to_vec(), is_off]];
    let settings = [columns(4), row(7, &["10.11.6-MariaDB", "0", "OFF", "16777216"])].concat();
    let all_settings = [settings.clone(), packet(8, b"\xFE\0\0\x02\0")].concat();
    let of_mysql = [
        vec![],
        vec![greeting()],
        vec![greeting(), ok_packet(2, true)],
        vec![greeting(), ok_packet(2, true), settings],
        vec![greeting(), ok_packet(2, true), all_settings],
    ];
    thread::scope(|scope| {
        let opening = |open: fn(u16) -> StoreError, says: Vec<Vec<u8>>, speaks_first: bool| {
            let said = says.len();
            let port = impostor(move |mut client| {
                for (at, says) in says.iter().enumerate() {
                    match at == 0 && speaks_first {
                        true => drop(client.write_all(says)),
                        false => answer(&mut client, says),
                    }
                }
                fall_silent(&mut client);
            });
            scope.spawn(move || (said, open(port)))
        };
        let openings = of_postgres.map(|says| opening(open_postgres, says, false)).into_iter();
        let openings: Vec<_> = openings.chain(of_mysql.map(|says| opening(open_mysql, says, true))).collect();
        for opening in openings {
            let (said, error) = opening.join().expect("an end");
            assert!(matches!(error, StoreError::Lost(_)), "silent behind {said}: {error:?}");
        }
    });
}

/// The answers about the server's settings.
#[test]
fn answers_of_another_kind_are_an_error() {
    for texts in [&["off"][..], &["10.11.6-MariaDB", "0", "OFF", "many"], &["", "", "", ""], &["1"; 9]] {
        let port = impostor(move |mut client| {
            log_in(&mut client);
            let count = texts.len() as u8;
            let end = packet(count + 4, b"\xFE\0\0\x02\0");
            let same = [columns(count), row(count + 3, texts), end].concat();
            answer_alike(&mut client, &same);
        });
        let error = open_mysql(port);
        assert!(matches!(error, StoreError::Unfit(_)), "{texts:?}: {error:?}");
    }
}

/// A message announces two gibibytes, and continues until it has them.
#[test]
fn a_message_that_is_too_large_is_refused_at_its_head() {
    let taken = Arc::<AtomicUsize>::default();
    let counted = taken.clone();
    let port = impostor(move |mut client| {
        answer(&mut client, LOGGED_IN);
        answer(&mut client, b"D\x7F\xFF\xFF\xFF");
        pour(client, &counted);
    });
    expect_unfit(&open_postgres(port), "a message of 2147483647 bytes");
    expect_little(&taken);
}

/// Parameters are kept for the life of a connection.
#[test]
fn parameters_without_an_end_are_refused() {
    let taken = Arc::<AtomicUsize>::default();
    let counted = taken.clone();
    let port = impostor(move |mut client| {
        // AuthenticationOk
        answer(&mut client, b"R\0\0\0\x08\0\0\0\0");
        for number in 0.. {
            let parameter = format!("{number:030}\0{}\0", "x".repeat(964));
            let message = [b"S\0\0\x03\xE8", parameter.as_bytes()].concat();
            if client.write_all(&message).is_err() {
                return;
            }
            counted.fetch_add(message.len(), Ordering::Relaxed);
        }
    });
    expect_unfit(&open_postgres(port), "that nobody asked for");
    expect_little(&taken);
}

/// This doesn't depend on the packet size that the server announces.
#[test]
fn a_packet_that_is_too_large_is_refused() {
    let taken = Arc::<AtomicUsize>::default();
    let counted = taken.clone();
    let port = impostor(move |mut client| {
        log_in(&mut client);
        drop(client.read(&mut [0; 4096]));
        // A part with the greatest length continues in the next packet.
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

/// The driver reserves memory for as many columns as are announced, and panics.
#[test]
fn more_columns_than_there_can_be_are_an_error() {
    let port = impostor(move |mut client| {
        log_in(&mut client);
        answer_alike(&mut client, &packet(1, &[0xFE, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF]));
    });
    let error = open_mysql(port);
    assert!(matches!(error, StoreError::Unfit(_) | StoreError::Lost(_)), "{error:?}");
    assert!(error.to_string().contains("makes the driver panic"), "{error}");
}

/// A MariaDB may request files from its clients, under any names, in answer to anything.
#[test]
fn a_server_that_asks_for_a_file_gets_none() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("file");
    std::fs::write(&file, "secret").expect("a file");
    let (told, name) = (Arc::new(Mutex::new(Vec::new())), file.display().to_string());
    let heard = told.clone();
    let port = impostor(move |mut client| {
        log_in(&mut client);
        answer(&mut client, &packet(1, &[b"\xFB", name.as_bytes()].concat()));
        hear(&mut client, &heard);
    });
    let error = open_mysql(port);
    assert!(matches!(error, StoreError::Other(_)), "{error:?}");
    expect_untold(&told);
}

/// No server on an unencrypted connection gets the password itself, whatever it requests.
#[test]
fn a_password_is_not_told_in_the_clear() {
    let told = Arc::new(Mutex::new(Vec::new()));
    let heard = told.clone();
    let port = impostor(move |mut client| {
        // AuthenticationCleartextPassword
        answer(&mut client, b"R\0\0\0\x08\0\0\0\x03");
        hear(&mut client, &heard);
    });
    let address = format!("postgres://rookery:secret@127.0.0.1:{port}/chat");
    let address = postgres::PostgresAddress::parse(&address).expect("an address");
    let error = postgres::open(&postgres::PostgresOptions::at(address)).err().expect("no database");
    expect_unfit(&error, "pg_hba.conf");
    expect_untold(&told);
    // Of MariaDB's methods, the one that reveals the password isn't answered at all.
    let heard = told.clone();
    let port = impostor(move |mut client| {
        drop(client.write_all(&greeting()));
        answer(&mut client, &packet(2, b"\xFEmysql_clear_password\0"));
        hear(&mut client, &heard);
    });
    let address = format!("mysql://rookery:secret@127.0.0.1:{port}/chat");
    let address = mysql::MysqlAddress::parse(&address).expect("an address");
    mysql::open(&mysql::MysqlOptions::at(address)).err().expect("no database");
    expect_untold(&told);
}

/// An attacker on the network may claim that the server doesn't support encryption.
#[test]
fn nobody_logs_in_where_no_encryption_is_offered() {
    let told = Arc::new(Mutex::new(Vec::new()));
    let heard = told.clone();
    let port = impostor(move |mut client| {
        // The request for encryption has eight bytes.
        drop(client.read_exact(&mut [0; 8]));
        drop(client.write_all(b"N"));
        hear(&mut client, &heard);
    });
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let roots = rustls::RootCertStore::empty();
    let config = config.expect("versions").with_root_certificates(roots).with_no_client_auth();
    let address = format!("postgres://secret:secret@127.0.0.1:{port}/chat");
    let address = postgres::PostgresAddress::parse(&address).expect("an address");
    let options = postgres::PostgresOptions { tls: Some(Arc::new(config)), ..postgres::PostgresOptions::at(address) };
    expect_unfit(&postgres::open(&options).err().expect("no encryption"), "does not support TLS");
    expect_untold(&told);
    let heard = told.clone();
    let port = impostor(move |mut client| {
        drop(client.write_all(&greeting()));
        hear(&mut client, &heard);
    });
    let address =
        mysql::MysqlAddress::parse(&format!("mysql://secret:secret@127.0.0.1:{port}/chat")).expect("an address");
    let options = mysql::MysqlOptions { roots: Some(Vec::new()), ..mysql::MysqlOptions::at(address) };
    expect_unfit(&mysql::open(&options).err().expect("no encryption"), "SSL");
    expect_untold(&told);
}

/// Lets a client log in to a server that claims to be a MariaDB.
fn log_in(client: &mut TcpStream) {
    drop(client.write_all(&greeting()));
    answer(client, &ok_packet(2, true));
}

/// Records all data from a client.
fn hear(client: &mut TcpStream, heard: &Mutex<Vec<u8>>) {
    let mut buffer = [0; 4096];
    while let Ok(read @ 1..) = client.read(&mut buffer) {
        heard.lock().expect("what was heard").extend(&buffer[..read]);
    }
}

fn expect_untold(told: &Mutex<Vec<u8>>) {
    let told = told.lock().expect("what was heard");
    assert!(!told.windows(6).any(|bytes| bytes == b"secret"), "{told:?}");
}

/// Sends until the client stops reading, and counts the bytes.
fn pour(mut client: TcpStream, taken: &AtomicUsize) {
    while client.write_all(&[0; 64 << 10]).is_ok() {
        taken.fetch_add(64 << 10, Ordering::Relaxed);
    }
}

/// Expects that no more was read than fits into the buffers of sockets.
fn expect_little(taken: &AtomicUsize) {
    let taken = taken.load(Ordering::Relaxed);
    assert!(taken < 32 << 20, "{taken} bytes were taken");
}

/// Checks that both engines refuse a server's behaviour.
fn expect_refusal(speak: impl Fn(TcpStream) + Clone + Send + 'static) {
    let error = open_postgres(impostor(speak.clone()));
    assert!(matches!(error, StoreError::Lost(_) | StoreError::Other(_) | StoreError::Unfit(_)), "{error:?}");
    let error = open_mysql(impostor(speak));
    assert!(matches!(error, StoreError::Lost(_) | StoreError::Other(_) | StoreError::Unfit(_)), "{error:?}");
}

#[track_caller]
fn expect_unfit(error: &StoreError, words: &str) {
    assert!(matches!(error, StoreError::Unfit(_)) && error.to_string().contains(words), "{error:?}");
}

fn open_postgres(port: u16) -> StoreError {
    let address = format!("postgres://rookery@127.0.0.1:{port}/chat");
    let address = postgres::PostgresAddress::parse(&address).expect("an address");
    postgres::open(&postgres::PostgresOptions::at(address)).err().expect("no database")
}

fn open_mysql(port: u16) -> StoreError {
    let address = mysql::MysqlAddress::parse(&format!("mysql://rookery@127.0.0.1:{port}/chat")).expect("an address");
    mysql::open(&mysql::MysqlOptions::at(address)).err().expect("no database")
}
