//! Messages for clients by gRPC, each encoded once for all of them.

use crate::grpc::daq;
use crate::sdd::{SettingStatus, SharedReply};
use crate::status::Status;

/// Encodes a message for clients by gRPC. Returns false if it has no meaning for them.
pub(super) fn prepare(message: &SharedReply, is_last: bool) -> bool {
    !message.other_encoding(|reply| daq::outcome(reply, is_last).unwrap_or_default()).is_empty()
}

/// Appends a message for the request with a given number.
pub(super) fn write(ref_id: i64, message: &SharedReply, out: &mut Vec<u8>) {
    let outcome = message.other_encoding(|reply| daq::outcome(reply, false).unwrap_or_default());
    daq::put_reading_reply(out, u32::try_from(ref_id).unwrap_or_default(), outcome);
}

/// Returns the reply to settings, each made of a given number of requests, with the first status of
/// each that isn't a success.
pub(super) fn setting_reply(parts: &[usize], statuses: &[SettingStatus]) -> Vec<u8> {
    let mut all: Vec<Status> = vec![Status::BAD_REQUEST; parts.iter().sum()];
    for told in statuses {
        if let Some(place) = usize::try_from(told.ref_id).ok().and_then(|place| all.get_mut(place)) {
            *place = Status(told.status);
        }
    }
    let mut rest = all.as_slice();
    let outcomes = parts.iter().map(|count| {
        let (own, others) = rest.split_at(*count);
        rest = others;
        let worst = own.iter().find(|status| **status != Status::SUCCESS);
        // A setting without values isn't one.
        worst.or(own.first()).copied().unwrap_or(Status::BAD_REQUEST)
    });
    daq::setting_reply(outcomes)
}
