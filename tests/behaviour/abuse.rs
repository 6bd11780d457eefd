//! Floods and spam, and what stops them: limits for strangers, sessions that send too fast, block
//! lists for rooms.

mod rate;
mod rtbl;
mod strangers;
