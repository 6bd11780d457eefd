//! The meaning of MariaDB's and MySQL's errors. Their numbers are those of MariaDB's list of error
//! codes.

use crate::StoreError;
use crate::error::EngineWords;
use mysql_async::{DriverError, Error, IoError};
use std::io::ErrorKind;

/// Returns the error of the store for an error of the library.
pub(super) fn failure(database: &str, error: &Error) -> StoreError {
    let engine = |message: String| EngineWords { database: database.to_owned(), message };
    match error {
        Error::Server(error) => server_failure(error.code, engine(format!("{}, error {}", error.message, error.code))),
        Error::Io(IoError::Io(error)) => StoreError::Lost(engine(error.to_string())),
        Error::Driver(DriverError::ConnectionClosed) => StoreError::Lost(engine("the connection is closed".into())),
        Error::Driver(DriverError::PacketTooLarge) => {
            StoreError::Other(engine("this is larger than its max_allowed_packet".into()))
        }
        Error::Driver(
            DriverError::UnknownAuthPlugin { .. }
            | DriverError::NoClientSslFlagFromServer
            | DriverError::CleartextPluginDisabled
            | DriverError::MysqlOldPasswordDisabled,
        )
        | Error::Io(_) => StoreError::Unfit(engine(error.to_string())),
        // Packets out of order, or unknown ones: the other end doesn't speak the protocol.
        Error::Driver(DriverError::PacketOutOfOrder | DriverError::UnexpectedPacket { .. }) => {
            StoreError::Lost(engine(error.to_string()))
        }
        // The server has returned more than was requested.
        Error::Other(why) => StoreError::Lost(engine(why.to_string())),
        _ => StoreError::Other(engine(error.to_string())),
    }
}

/// Returns the error for a host that couldn't be connected to. Another protocol, or answers that
/// are too long, won't go away by themselves.
pub(super) fn connect_failure(database: &str, error: &Error) -> StoreError {
    match failure(database, error) {
        StoreError::Lost(engine) if is_nonsense(error) => {
            StoreError::Unfit(EngineWords { message: format!("{NO_MARIADB}: {}", engine.message), ..engine })
        }
        failure => failure,
    }
}

fn is_nonsense(error: &Error) -> bool {
    match error {
        Error::Driver(DriverError::PacketOutOfOrder | DriverError::UnexpectedPacket { .. }) | Error::Other(_) => true,
        // Data that the library can't read; a connection that ends has this kind as well.
        Error::Io(IoError::Io(error)) => match error.kind() {
            ErrorKind::InvalidData | ErrorKind::InvalidInput => true,
            ErrorKind::UnexpectedEof => error.to_string().contains("parse"),
            _ => false,
        },
        _ => false,
    }
}

fn server_failure(code: u16, engine: EngineWords) -> StoreError {
    match code {
        LOCK_WAIT | DEADLOCK | CHANGED_SINCE_READ | TABLE_CHANGED | DUPLICATE | NO_PARENT | HAS_CHILDREN
        | PREPARE_AGAIN | UNKNOWN_STATEMENT => StoreError::Conflict(engine),
        DISK_FULL | TABLE_FULL => StoreError::Full(engine),
        READ_ONLY_OPTION | READ_ONLY_TRANSACTION | READ_ONLY_MODE => StoreError::ReadOnly(engine),
        INTERRUPTED | STATEMENT_TIMEOUT | QUERY_TIMEOUT => StoreError::Locked(engine),
        NO_ACCESS_TO_DATABASE
        | ACCESS_DENIED
        | UNKNOWN_DATABASE
        | NOT_FROM_THIS_HOST
        | ACCESS_DENIED_WITHOUT_PASSWORD => StoreError::Unfit(engine),
        TABLE_CRASHED | INDEX_CORRUPT => StoreError::Corrupt(engine),
        ERROR_OF_THE_ENGINE => StoreError::Io(engine),
        TOO_MANY_CONNECTIONS
        | SHUTDOWN
        | FORCED_CLOSE
        | HOST_IS_BLOCKED
        | ABORTED
        | 1155..=1161
        | NEW_ABORTED
        | TOO_MANY_OF_USER
        | USER_LIMIT
        | KILLED
        | SESSION_KILLED
        | IDLE => StoreError::Lost(engine),
        _ => StoreError::Other(engine),
    }
}

/// Returns true if prepared statements are gone.
pub(super) fn takes_statements(error: &Error) -> bool {
    matches!(error, Error::Server(error) if matches!(error.code, PREPARE_AGAIN | UNKNOWN_STATEMENT))
}

/// Returns true if the server has closed the connection, or the data on it no longer makes sense.
pub(super) fn ends_connection(error: &Error) -> bool {
    match error {
        Error::Server(error) => error.code == PACKET_TOO_LARGE,
        _ => true,
    }
}

const NO_MARIADB: &str = "it doesn't speak the protocol of MariaDB and MySQL";

const DISK_FULL: u16 = 1021;
const CHANGED_SINCE_READ: u16 = 1020;
const ERROR_OF_THE_ENGINE: u16 = 1030;
const INDEX_CORRUPT: u16 = 1034;
const TOO_MANY_CONNECTIONS: u16 = 1040;
const NO_ACCESS_TO_DATABASE: u16 = 1044;
const ACCESS_DENIED: u16 = 1045;
const UNKNOWN_DATABASE: u16 = 1049;
const SHUTDOWN: u16 = 1053;
const DUPLICATE: u16 = 1062;
const FORCED_CLOSE: u16 = 1080;
const TABLE_FULL: u16 = 1114;
const HOST_IS_BLOCKED: u16 = 1129;
const NOT_FROM_THIS_HOST: u16 = 1130;
const ABORTED: u16 = 1152;
const PACKET_TOO_LARGE: u16 = 1153;
const NEW_ABORTED: u16 = 1184;
const TABLE_CRASHED: u16 = 1194;
const TOO_MANY_OF_USER: u16 = 1203;
const LOCK_WAIT: u16 = 1205;
const DEADLOCK: u16 = 1213;
const USER_LIMIT: u16 = 1226;
const UNKNOWN_STATEMENT: u16 = 1243;
const READ_ONLY_OPTION: u16 = 1290;
const INTERRUPTED: u16 = 1317;
/// The table's definition has changed since the transaction began.
const TABLE_CHANGED: u16 = 1412;
const HAS_CHILDREN: u16 = 1451;
const NO_PARENT: u16 = 1452;
const PREPARE_AGAIN: u16 = 1615;
const ACCESS_DENIED_WITHOUT_PASSWORD: u16 = 1698;
const READ_ONLY_TRANSACTION: u16 = 1792;
const READ_ONLY_MODE: u16 = 1836;
/// Only in MariaDB.
const KILLED: u16 = 1927;
/// Only in MariaDB.
const STATEMENT_TIMEOUT: u16 = 1969;
/// Only in MySQL.
const QUERY_TIMEOUT: u16 = 3024;
/// Only in MySQL.
const SESSION_KILLED: u16 = 3169;
/// Only in MySQL.
const IDLE: u16 = 4031;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_sorted_by_who_can_mend_them() {
        let of = |code| {
            let error = mysql_async::ServerError { code, message: "why".into(), state: "HY000".into() };
            failure("mysql://r@db/r", &Error::Server(error))
        };
        for code in [LOCK_WAIT, DEADLOCK, DUPLICATE] {
            assert!(of(code).is_conflict(), "{code}");
        }
        assert!(matches!(of(TABLE_FULL), StoreError::Full(_)));
        assert!(matches!(of(READ_ONLY_OPTION), StoreError::ReadOnly(_)));
        assert!(matches!(of(TOO_MANY_CONNECTIONS), StoreError::Lost(_)));
        assert!(matches!(of(PACKET_TOO_LARGE), StoreError::Other(_)));
        assert_eq!(
            of(ACCESS_DENIED).to_string(),
            "the database can't be used as it is: mysql://r@db/r (why, error 1045)"
        );
    }
}
