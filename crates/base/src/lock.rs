//! Locks that survive a panic.
//!
//! A thread that panics while it holds a lock of the standard library poisons it. The data behind
//! our locks is changed in steps that leave it consistent, and a panic ends one request or one
//! task, not the server: so the next thread continues with the data as it is.

use std::sync::{Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Locks a mutex.
pub fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Locks for reading, shared with other readers.
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
