//! The numbers and names by which clients and lists are known: the lowest layer of the service.

use crate::acnet::DPMD;
use crate::rad50::Rad50;

/// The number of a client's connection.
pub type ClientKey = usize;

/// The request to close a client's connection after an unrecoverable error. Its queued output may
/// contain the reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CloseClient;

/// The number of the first list, the same as in other DPMs.
pub(super) const FIRST_LIST: i32 = 4096;
/// The task whose requests are answered here.
pub(super) const TASK: Rad50 = DPMD;
