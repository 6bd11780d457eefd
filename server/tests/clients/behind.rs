//! Three nodes of a cluster behind a balancer, in place of the one server of a scenario.
//!
//! `tests/clients/several.py` starts the nodes. They share a PostgreSQL and a Redis, which are
//! started once for all tests of this process.

use std::sync::OnceLock;

use rookery_needs::{Postgres, Redis};

/// The variable that makes `tests/clients/rookery.py` start three nodes.
pub const BEHIND: &str = "ROOKERY_BEHIND";

/// Returns the value of that variable for one try of a scenario, with new databases.
///
/// # Panics
///
/// If PostgreSQL or Redis can't be installed or started.
pub fn place() -> String {
    static SHARED: OnceLock<(Postgres, Redis)> = OnceLock::new();
    let (database, redis) = SHARED.get_or_init(|| (Postgres::start(), Redis::start()));
    let databases: Vec<String> = (0..SERVERS).map(|_| database.database()).collect();
    serde_json::json!({ "databases": databases, "redis": redis.url() }).to_string()
}

/// The largest number of servers that one of these scenarios starts.
const SERVERS: usize = 1;

/// Generates a test for each of these scenarios, which runs it with three nodes.
macro_rules! behind {
    ($($script:ident { $($scenario:ident)* })*) => {
        mod behind {
            $(mod $script {
                $(#[test]
                fn $scenario() {
                    crate::run_behind(concat!(stringify!($script), ".", stringify!($scenario)));
                })*
            })*
        }
    };
}
