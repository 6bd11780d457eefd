//! Settings within messages, and their outcomes.

use super::record::*;

record! {
    /// Bytes to set, in the front-end's format.
    RawSetting {
        /// The client's number for the request to set.
        ref_id: i64 = 0x1eab,
        /// The bytes.
        data: Bytes = 0x7f38,
    }
}

record! {
    /// Engineering values to set.
    ScaledSetting {
        /// The client's number for the request to set.
        ref_id: i64 = 0x1eab,
        /// The values.
        data: Vec<f64> = 0x7f38,
    }
}

record! {
    /// Texts to set, such as a control command or an enumerated value.
    TextSetting {
        /// The client's number for the request to set.
        ref_id: i64 = 0x1eab,
        /// The texts.
        data: Vec<String> = 0x7f38,
    }
}

record! {
    /// The outcome of one setting.
    SettingStatus {
        /// The client's number for the request that was set.
        ref_id: i64 = 0x1eab,
        /// Its status, as [`Status`](crate::status::Status) packs it.
        status: i16 = 0x4454,
    }
}
