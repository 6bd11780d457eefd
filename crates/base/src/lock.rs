//! Locks that a panic doesn't spoil.
//!
//! A thread that panics while it holds a lock of the standard library poisons it. What our locks
//! guard is changed in steps that leave it whole, and a panic ends one request or one task, not the
//! server: so the next thread goes on with what is there.

use std::sync::{Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Locks a mutex.
pub fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Locks for reading, beside others that read.
pub fn read<T: ?Sized>(lock: &RwLock<T>) -> RwLockReadGuard<'_, T> {
    lock.read().unwrap_or_else(PoisonError::into_inner)
}

/// Locks for writing.
pub fn write<T: ?Sized>(lock: &RwLock<T>) -> RwLockWriteGuard<'_, T> {
    lock.write().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_spoils_no_lock() {
        let (mutex, both) = (Mutex::new(1), RwLock::new(1));
        std::thread::scope(|scope| {
            let panicking = scope.spawn(|| {
                let (mut one, mut other) = (lock(&mutex), write(&both));
                (*one, *other) = (2, 2);
                panic!("as a bug would");
            });
            assert!(panicking.join().is_err());
        });
        assert_eq!((*lock(&mutex), *read(&both)), (2, 2));
    }
}
