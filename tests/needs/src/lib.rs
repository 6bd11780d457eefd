//! Provides tests with the programs, servers and ports that they need on this machine.
//!
//! A test that lacks something (a program, a library, a route to another host) fails: one that
//! passed because it tried nothing would hide the lack for ever. Missing packages are installed
//! where possible. On other machines, the variable `ROOKERY_SKIP` names the tests to leave out, and
//! [`skips`] records them for the end of the run.
//!
//! # Layout
//!
//! `debian` installs packages, `servers` those of servers; `skip` leaves tests out and records
//! those that took two tries. `redis`, `postgres` and `mariadb` start servers for one test: `port`
//! reserves their ports, `guard` ends them with the test, and `clock` gives them another time.
//! `pair` starts a PostgreSQL or a MariaDB and its standby. `proxy` stands in front of a database
//! and disturbs its connections, `impostor` stands in for one, and `silent` is a port that never
//! responds. `site` responds over HTTP, `bucket` stores files as S3 does, and `slapd` starts a
//! directory.

mod bucket;
mod clock;
mod debian;
mod guard;
pub mod impostor;
mod mariadb;
mod pair;
mod port;
mod postgres;
mod proxy;
mod redis;
mod servers;
mod silent;
mod site;
mod skip;
mod slapd;

pub use bucket::FakeBucket;
pub use debian::{library, programs, unpack};
pub use guard::{family, signal};
pub use mariadb::Mariadb;
pub use pair::{Followed, Pair};
pub use port::free_port;
pub use postgres::{Pool, Postgres};
pub use proxy::{Proxy, ProxyDirection};
pub use redis::Redis;
pub use servers::servers;
pub use silent::SilentPort;
pub use site::Site;
pub use skip::{skips, tried_again};
pub use slapd::Slapd;

/// Defines tests by the functions of these names in the module `test`, and leaves them out where
/// the need is named in `ROOKERY_SKIP`.
#[macro_export]
macro_rules! needing {
    ($need:literal: $($name:ident),* $(,)?) => {$(
        #[test]
        fn $name() {
            if !$crate::skips($need) {
                test::$name();
            }
        }
    )*};
}
