//! The error conditions that senders get after a failure of the server. Only this file decides
//! whether a condition tells them to try again.

use rookery_store::{StoreError, WorkError};
use rookery_stream::error::Condition;

/// Returns the condition for a store that failed: `resource-constraint`, whose type is "wait" (RFC
/// 6120 §8.3.3.18), if the same stanza may succeed later, else `internal-server-error` (§8.3.3.6).
pub fn condition(error: &StoreError) -> Condition {
    passing(error.is_temporary())
}

/// Returns the condition for background work that ended without an outcome.
pub fn work_condition(error: WorkError) -> Condition {
    passing(error.is_temporary())
}

fn passing(passes: bool) -> Condition {
    if passes { Condition::ResourceConstraint } else { Condition::InternalServerError }
}
