//! SDD: the binary encoding of every message between DPM and its clients.
//!
//! [`request`] and [`reply`] are the tables of all messages, from which reading and writing follow.
//! Parsed values borrow nothing and are bounded by the input: a false length is an error before
//! memory is allocated for it. [`SharedReply`] is a reply that was encoded once and is sent to many
//! readers, each with its own reference number.

mod message;
mod shared;
mod value;

pub use message::{
    Bytes, FieldKind, MessageField, PROTOCOL, RawSetting, ScaledSetting, SddMessage, SettingStatus, TextSetting, reply,
    request, scale, sync,
};
pub use shared::SharedReply;
pub use value::SddError;
