//! Settings within messages, and their outcomes.

use super::record::*;

record! {
    /// Bytes to set, in the front-end's format.
    RawSetting {
        /// The request that they are for.
        ref_id: i64 = 0x1eab,
        /// The bytes.
        data: Bytes = 0x7f38,
    }
}

record! {
    /// Engineering values to set.
    ScaledSetting {
        /// The request that they are for.
        ref_id: i64 = 0x1eab,
        /// The values.
        data: Vec<f64> = 0x7f38,
    }
}

record! {
    /// Texts to set: a control command, an enumerated value.
    TextSetting {
        /// The request that they are for.
        ref_id: i64 = 0x1eab,
        /// The texts.
        data: Vec<String> = 0x7f38,
    }
}

record! {
    /// The outcome of one setting.
    SettingStatus {
        /// The request that it was for.
        ref_id: i64 = 0x1eab,
        /// Its status, as [`Status`](crate::status::Status) packs it.
        status: i16 = 0x4454,
    }
}
