//! What floods and spam meet: limits for strangers, and sessions that send too fast.

mod rate;
mod strangers;
