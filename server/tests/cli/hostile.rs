//! A server whose configuration names an impostor in place of its database: its exit code and
//! message. Code 75 lets a supervisor try again, code 78 doesn't.

use std::io::Write;
use std::net::TcpStream;

use rookery_needs::impostor::{
    END_OF_ROWS, LOGGED_IN, ONE_COLUMN, ROW, answer, answer_alike, columns, countless_columns, fall_silent, greeting,
    impostor, ok_packet, packet, row,
};

use super::databases::rig;

/// An impostor, the scheme of its address, and the end of a server: exit code and words.
type HostileCase = (fn(TcpStream), &'static str, i32, &'static str);

const CASES: [HostileCase; 15] = [
    // It may be busy, or about to end.
    (hang_up, "postgres", 75, "can't be reached"),
    (hang_up, "mysql", 75, "can't be reached"),
    (stay_silent, "postgres", 75, "it doesn't answer"),
    (stay_silent, "mysql", 75, "it doesn't answer"),
    (be_postgres_and_fall_silent, "postgres", 75, "no answer in time"),
    (be_mariadb_and_fall_silent, "mysql", 75, "no answer in time"),
    // It will answer the same the next time.
    (speak_http, "postgres", 78, "doesn't speak PostgreSQL's protocol"),
    (say_nothing_that_is_a_greeting, "mysql", 78, "doesn't speak the protocol of MariaDB and MySQL"),
    (give_rows_without_an_end, "postgres", 78, "it gives more than was asked for"),
    (give_mariadbs_rows_without_an_end, "mysql", 78, "it gives more than was asked for"),
    (name_countless_columns, "mysql", 78, "memory allocation of"),
    (ask_for_the_password, "postgres", 78, "pg_hba.conf"),
    (ask_for_a_file, "mysql", 78, "LOCAL INFILE"),
    (give_everything_the_same_answer, "postgres", 78, "version 1 of its schema was made by something else"),
    (give_everything_mariadbs_answer, "mysql", 78, "version 1 of its schema was made by something else"),
];

#[test]
fn a_start_on_what_is_no_database_says_so_and_whether_to_try_again() {
    std::thread::scope(|scope| {
        for (speak, scheme, code, words) in CASES {
            scope.spawn(move || {
                let address = format!("{scheme}://rookery:secret@127.0.0.1:{}/chat", impostor(speak));
                let rig = rig(&address, "");
                rig.run(&["serve"]).expect_failure(code, words);
                let checked = rig.run(&["check"]);
                // The standard library reports an abort, on standard error.
                let told = [&checked.out, &checked.err].iter().any(|text| text.contains(words));
                assert!(checked.code == code && told, "{words}: {checked:?}");
                assert!(!checked.out.contains("secret"), "{checked:?}");
                rig.run(&["user", "list"]).expect_failure(code, words);
            });
        }
    });
}

fn hang_up(_: TcpStream) {}

fn stay_silent(mut client: TcpStream) {
    fall_silent(&mut client);
}

fn be_postgres_and_fall_silent(mut client: TcpStream) {
    answer(&mut client, LOGGED_IN);
    answer(&mut client, &[ONE_COLUMN, ROW, END_OF_ROWS].concat());
    fall_silent(&mut client);
}

fn be_mariadb_and_fall_silent(mut client: TcpStream) {
    log_in(&mut client);
    answer(&mut client, &settings());
    fall_silent(&mut client);
}

fn speak_http(mut client: TcpStream) {
    answer(&mut client, b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n");
    fall_silent(&mut client);
}

fn say_nothing_that_is_a_greeting(mut client: TcpStream) {
    drop(client.write_all(&packet(0, b"")));
    fall_silent(&mut client);
}

fn give_rows_without_an_end(mut client: TcpStream) {
    answer(&mut client, LOGGED_IN);
    answer(&mut client, ONE_COLUMN);
    let rows = ROW.repeat(1000);
    while client.write_all(&rows).is_ok() {}
}

fn give_mariadbs_rows_without_an_end(mut client: TcpStream) {
    log_in(&mut client);
    answer(&mut client, &columns(1));
    let rows: Vec<u8> = (0..=255_u8).flat_map(|at| row(at.wrapping_add(4), &["off"])).collect();
    while client.write_all(&rows).is_ok() {}
}

fn name_countless_columns(mut client: TcpStream) {
    log_in(&mut client);
    answer(&mut client, &countless_columns());
    fall_silent(&mut client);
}

fn ask_for_the_password(mut client: TcpStream) {
    // AuthenticationCleartextPassword
    answer(&mut client, b"R\0\0\0\x08\0\0\0\x03");
    fall_silent(&mut client);
}

fn ask_for_a_file(mut client: TcpStream) {
    log_in(&mut client);
    answer(&mut client, &packet(1, b"\xFB/etc/passwd"));
    // An empty packet, in place of the file.
    answer(&mut client, &ok_packet(3, true));
    fall_silent(&mut client);
}

fn give_everything_the_same_answer(mut client: TcpStream) {
    answer(&mut client, LOGGED_IN);
    let same = [ONE_COLUMN, ROW, END_OF_ROWS].concat();
    while client.peek(&mut [0]).is_ok_and(|bytes| bytes > 0) {
        answer(&mut client, &same);
    }
}

fn give_everything_mariadbs_answer(mut client: TcpStream) {
    log_in(&mut client);
    answer_alike(&mut client, &settings());
}

/// Performs the login of a client, as a MariaDB.
fn log_in(client: &mut TcpStream) {
    drop(client.write_all(&greeting()));
    answer(client, &ok_packet(2, true));
}

/// Returns the answer of a MariaDB that can be written to.
fn settings() -> Vec<u8> {
    let row = row(7, &["10.11.6-MariaDB", "0", "OFF", "16777216"]);
    [columns(4), row, packet(8, b"\xFE\0\0\x02\0")].concat()
}
