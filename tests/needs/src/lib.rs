//! The needs that tests have of the machine they run on.
//!
//! A test that lacks something (a program, a library, a way to another host) fails: one that passes
//! because it tried nothing would hide that for ever. What is missing is installed where that is
//! possible; on a machine where it isn't, the operator names the tests that are left out in the
//! variable `ROOKERY_SKIP`, and [`skips`] keeps the list of them for the end of the run.
//!
//! # Layout
//!
//! `debian` installs packages, `servers` those of servers, `skip` leaves tests out and keeps the
//! list of those that took two tries. `redis` is one of the test's own, and `port` finds ports for
//! such servers; `postgres` and `mariadb` are databases of the test's own, which `guard` ends with
//! the test and to which `clock` tells another time, `pair` is two of which one takes over from the
//! other, `proxy` is a way to them that can be disturbed, `impostor` stands in their place, and at
//! `silent` nobody answers.
//! `site` answers requests of HTTP, `bucket` keeps files as S3 does, and `slapd` is a directory.

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
pub use debian::{library, programs, unpacked};
pub use guard::{family, signal};
pub use mariadb::Mariadb;
pub use pair::Pair;
pub use port::free_port;
pub use postgres::{Pool, Postgres};
pub use proxy::{Direction, Proxy};
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
