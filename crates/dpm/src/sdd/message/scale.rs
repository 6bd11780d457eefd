//! The tables of the task SCALE, which converts values of devices for clients that have them from
//! elsewhere.

use super::record::*;

direction! {
    /// A request to convert values, or a search for the service.
    ScaleRequest of SCALE_PROTOCOL;

    /// Searches for the service.
    ScaleSearch = 0xdfda {}
    /// Converts bytes into numbers, or numbers into bytes.
    ScaleValues = 0xbef8 {
        /// The device, its property and the form of the numbers.
        drf_request: String = 0x6324,
        /// The bytes that are to become numbers.
        raw: Option<Bytes> = 0x66af,
        /// The numbers that are to become bytes.
        scaled: Option<Vec<f64>> = 0xa99b,
    }
}

direction! {
    /// A reply of the service.
    ScaleReply of SCALE_PROTOCOL;

    /// The service is here.
    ScalePlace = 0xcd7e {
        /// The place of the service.
        service_location: String = 0x11af,
    }
    /// The converted values, or a status.
    ScaledValues = 0x44f9 {
        /// The status: success or not.
        status: i16 = 0x4454,
        /// The bytes that numbers have become.
        raw: Option<Bytes> = 0x66af,
        /// The numbers that bytes have become.
        scaled: Option<Vec<f64>> = 0xa99b,
    }
}

/// The id of the protocol of SCALE.
const SCALE_PROTOCOL: i64 = -1_130_988_094;
