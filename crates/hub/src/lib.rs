//! One shard's world: users, sessions, presence and the delivery rules of RFC 6121.
