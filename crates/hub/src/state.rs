//! The state of modules, by type.
//!
//! A module declares a value of its own type when it is installed
//! ([`Hooks::state`](crate::Hooks::state)); every shard has one such value, and any code that gets
//! the world finds it by its type. So no handler carries state, and the declarations show
//! everything that a shard remembers for its modules.
//!
//! # Invariants
//!
//! * There is one value of a type in a shard, from its start to its end.
//! * A value is borrowed from the world only while nothing else of the world is needed; calls back
//!   into the world come after that. Nothing has to be locked, and nothing can be borrowed twice.

#![expect(clippy::disallowed_types, reason = "type ids are hashes by themselves; nobody goes through the map")]

use std::any::{Any, TypeId, type_name};
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// The values that modules have declared, by type.
#[derive(Default)]
pub(crate) struct States(HashMap<TypeId, Box<dyn Any>, BuildHasherDefault<OfType>>);

impl States {
    /// Keeps a value.
    ///
    /// # Panics
    /// There is one of this type already: two modules declare the same type, at the start of the
    /// server.
    pub(crate) fn declare<T: 'static>(&mut self, value: T) {
        let before = self.0.insert(TypeId::of::<T>(), Box::new(value));
        assert!(before.is_none(), "{} is declared twice", type_name::<T>());
    }

    /// Returns the value of this type.
    pub(crate) fn get<T: 'static>(&self) -> Option<&T> {
        self.0.get(&TypeId::of::<T>())?.downcast_ref()
    }

    /// Returns the value of this type for a change.
    pub(crate) fn get_mut<T: 'static>(&mut self) -> Option<&mut T> {
        self.0.get_mut(&TypeId::of::<T>())?.downcast_mut()
    }
}

/// Hashes a [`TypeId`], which is a hash already.
#[derive(Default)]
pub(crate) struct OfType(u64);

impl Hasher for OfType {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            if let Some(part) = word.get_mut(..chunk.len()) {
                part.copy_from_slice(chunk);
            }
            self.0 ^= u64::from_le_bytes(word);
        }
    }

    fn write_u64(&mut self, word: u64) {
        self.0 ^= word;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq)]
    struct StateSlot(u8);
    #[derive(Debug, PartialEq)]
    struct Other(u8);

    #[test]
    fn each_type_has_a_value_of_its_own() {
        let mut states = States::default();
        states.declare(StateSlot(1));
        states.declare(Other(2));
        states.get_mut::<StateSlot>().unwrap().0 = 3;
        assert_eq!((states.get(), states.get()), (Some(&StateSlot(3)), Some(&Other(2))));
        assert_eq!(states.get::<u8>(), None);
    }

    #[test]
    #[should_panic(expected = "is declared twice")]
    fn a_type_is_declared_once() {
        let mut states = States::default();
        states.declare(StateSlot(1));
        states.declare(StateSlot(2));
    }
}
