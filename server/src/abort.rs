//! Handles a database that makes the process run out of memory while it is opened.
//!
//! The library for MariaDB reserves memory for as many columns as a server announces. If that
//! fails, the process aborts: none of our code runs after that, no error can be returned, and a
//! supervisor would start the server again and again. So an abort while a database is being opened
//! ends the process with the same exit code as any other invalid data from a database. By then the
//! standard library has reported on standard error how much memory could not be reserved. Once the
//! server has started, an abort ends it by the signal, so that a supervisor starts it again.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use signal_hook::consts::SIGABRT;
use signal_hook::flag::register_conditional_shutdown;

use crate::failure::EX_CONFIG;

/// True while an abort means that a database can't be used.
static IS_UNFIT: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// Makes an abort end the process with exit code 78 from now on, unless the process is a server
/// that has opened its database: that one opens further connections while it runs.
///
/// # Errors
///
/// The error of the operating system, which has no handler for the signal.
pub fn means_unfit() -> io::Result<()> {
    if IS_UNFIT.get().is_some() {
        return Ok(());
    }
    let is_unfit = Arc::clone(IS_UNFIT.get_or_init(|| Arc::new(AtomicBool::new(true))));
    register_conditional_shutdown(SIGABRT, EX_CONFIG.into(), is_unfit).map(drop)
}

/// Makes an abort end the process by its signal again, after the database has been opened.
pub fn means_a_fault() {
    if let Some(is_unfit) = IS_UNFIT.get() {
        is_unfit.store(false, Ordering::Relaxed);
    }
}
