//! The memory that the running thread has allocated since its start.
//!
//! Only the allocator knows that, and only the binary knows the allocator, so the binary says how
//! to ask it.

use std::sync::OnceLock;

/// Sets the way to ask for the bytes that the running thread has allocated since its start. Only
/// the first one counts.
pub fn ask_by(allocator: fn() -> u64) {
    // A second one would be the same.
    _ = ALLOCATOR.set(allocator);
}

/// Returns the bytes that the running thread has allocated since its start; 0 if the allocator is
/// unknown. Freed bytes count as well.
pub fn allocated_bytes() -> u64 {
    ALLOCATOR.get().map_or(0, |allocator| allocator())
}

static ALLOCATOR: OnceLock<fn() -> u64> = OnceLock::new();
