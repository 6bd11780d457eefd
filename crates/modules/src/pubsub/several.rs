//! Several writes that belong together: the caller hears once, when all have been answered, and of
//! the first that failed.

use std::cell::RefCell;
use std::rc::Rc;

use rookery_hub::World;
use rookery_stream::error::StanzaError;

/// A function that runs when all writes are answered.
type Then = Box<dyn FnOnce(&mut World, Result<(), StanzaError>)>;

/// Writes on their way. Clones mean the same.
#[derive(Clone)]
pub(super) struct Several(Rc<RefCell<State>>);

struct State {
    /// Writes without an answer, and one more until no more begin.
    open: usize,
    outcome: Result<(), StanzaError>,
    then: Option<Then>,
}

impl Several {
    /// Begins with no writes; `then` runs when those that begin have ended.
    pub fn new(then: impl FnOnce(&mut World, Result<(), StanzaError>) + 'static) -> Self {
        Self(Rc::new(RefCell::new(State { open: 1, outcome: Ok(()), then: Some(Box::new(then)) })))
    }

    /// Begins a write; the returned function ends it.
    pub fn begin(&self) -> impl FnOnce(&mut World, Result<(), StanzaError>) + 'static {
        self.0.borrow_mut().open += 1;
        let several = self.clone();
        move |world, outcome| several.end(world, outcome)
    }

    /// Declares that no more writes begin.
    pub fn all_begun(self, world: &mut World) {
        self.end(world, Ok(()));
    }

    fn end(self, world: &mut World, outcome: Result<(), StanzaError>) {
        let mut state = self.0.borrow_mut();
        state.open = state.open.saturating_sub(1);
        if state.outcome.is_ok() {
            state.outcome = outcome;
        }
        let then = if state.open == 0 { state.then.take() } else { None };
        let outcome = state.outcome.clone();
        drop(state);
        if let Some(then) = then {
            then(world, outcome);
        }
    }
}
