//! Logins that don't go by passwords in the store: nobody's, and those that somebody else vouches
//! for.

mod anonymous;
mod sources;
