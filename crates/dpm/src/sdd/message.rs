//! Messages, which are read and written by the rows of the tables [`request`] and [`reply`], and
//! those of the tasks beside DPM by the tables [`scale`] and [`sync`].
//!
//! A message is the magic `SDD` with version 2, and an array of three: the protocol's id, the
//! message's id, and a struct, which is an array of field ids and values. Fields are written in the
//! order of the table and read in any order. A field that is an `Option` may be absent.

#[macro_use]
mod record;
pub mod reply;
pub mod request;
pub mod scale;
mod settings;
pub mod sync;

pub use record::{Bytes, FieldKind, MessageField, PROTOCOL, SddMessage};
pub use settings::{RawSetting, ScaledSetting, SettingStatus, TextSetting};
