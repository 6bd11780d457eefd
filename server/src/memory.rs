//! The memory that threads allocate, as the allocator counts it.

use tikv_jemalloc_ctl::thread::{ThreadLocal, allocatedp};

/// Returns the bytes that the running thread has allocated since its start; 0 if the allocator
/// doesn't count them.
pub(crate) fn allocated_bytes() -> u64 {
    ALLOCATED.with(|allocated| allocated.map_or(0, ThreadLocal::get))
}

thread_local! {
    /// The allocator's counter: to find it takes longer than to read it.
    static ALLOCATED: Option<ThreadLocal<u64>> = allocatedp::read().ok();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_thread_allocates_is_counted() {
        let before = allocated_bytes();
        let bytes = std::hint::black_box(vec![0_u8; 100_000]);
        assert!(allocated_bytes() - before >= bytes.len() as u64);
    }
}
