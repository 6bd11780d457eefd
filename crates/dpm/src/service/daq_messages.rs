//! Messages for clients by gRPC, each encoded once for all of them.

use crate::grpc::daq;
use crate::sdd::Shared;

/// Encodes a message for clients by gRPC. Is it something to them?
pub(super) fn prepare(message: &Shared, is_last: bool) -> bool {
    !message.other(|reply| daq::outcome(reply, is_last).unwrap_or_default()).is_empty()
}

/// Appends a message for the request of a number.
pub(super) fn write(ref_id: i64, message: &Shared, out: &mut Vec<u8>) {
    let outcome = message.other(|reply| daq::outcome(reply, false).unwrap_or_default());
    daq::put_reading_reply(out, u32::try_from(ref_id).unwrap_or_default(), outcome);
}
