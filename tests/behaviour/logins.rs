//! Logins without passwords in the store: anonymous ones, and those that an outside source
//! verifies.

mod anonymous;
mod sources;
