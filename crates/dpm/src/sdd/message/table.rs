//! The table of messages: ids, fields, types. Reading and writing follow from it.

use super::*;

record! {
    /// Bytes to set, as the front-end takes them.
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
    /// What became of one setting.
    SettingStatus {
        /// The request that it was for.
        ref_id: i64 = 0x1eab,
        /// Its status, as [`Status`](crate::status::Status) packs it.
        status: i16 = 0x4454,
    }
}

/// What clients ask.
pub mod request {
    use super::*;

    direction! {
        /// A request to DPM.
        Request;

        /// Who is there? Sent to everyone.
        ServiceDiscovery = 0xdfda {}
        /// Makes a list.
        OpenList = 0x081c {
            /// Sent by no known client.
            location: Option<String> = 0x9de0,
        }
        /// Puts a request on a list, in place of one with the same number.
        AddToList = 0x0061 {
            /// The list.
            list_id: i32 = 0xe820,
            /// The client's number for this request.
            ref_id: i64 = 0x1eab,
            /// The request, or a property of the list if it begins with `#`.
            drf_request: String = 0x6324,
        }
        /// Takes a request from a list.
        RemoveFromList = 0xf121 {
            /// The list.
            list_id: i32 = 0xe820,
            /// The client's number for the request.
            ref_id: i64 = 0x1eab,
        }
        /// Starts data flowing, by the requests as they are now.
        StartList = 0xddb5 {
            /// The list.
            list_id: i32 = 0xe820,
            /// The data model of requests that name none.
            model: Option<String> = 0x5e63,
        }
        /// Stops data and keeps the requests.
        StopList = 0x53a9 {
            /// The list.
            list_id: i32 = 0xe820,
        }
        /// Stops data and forgets the requests.
        ClearList = 0xc309 {
            /// The list.
            list_id: i32 = 0xe820,
        }
        /// A step of GSS-API authentication; the first token is empty.
        Authenticate = 0xc453 {
            /// The list.
            list_id: i32 = 0xe820,
            /// The token.
            token: Bytes = 0x8da1,
        }
        /// Proves that the context stands, and allows settings.
        EnableSettings = 0x5362 {
            /// The list.
            list_id: i32 = 0xe820,
            /// The integrity code over `message`.
            mic: Bytes = 0x1fcd,
            /// What the code is over.
            message: Bytes = 0x3102,
        }
        /// Sets devices.
        ApplySettings = 0xc678 {
            /// Who sets; may be empty.
            user_name: String = 0x5648,
            /// The list.
            list_id: i32 = 0xe820,
            /// Settings in bytes.
            raw_array: Option<Vec<RawSetting>> = 0x0301,
            /// Settings in engineering values.
            scaled_array: Option<Vec<ScaledSetting>> = 0x63ce,
            /// Settings in text.
            text_array: Option<Vec<TextSetting>> = 0xce8f,
        }
    }
}

/// What DPM answers. `timestamp` is in milliseconds since 1970, `status` as [`Status`](crate::status::Status) packs it, `cycle` the cycle time of
/// a GETS32 reply or 0.
pub mod reply {
    use super::*;

    direction! {
        /// A reply of DPM.
        Reply;

        /// Here I am.
        ServiceDiscovery = 0xcd7e {
            /// How busy; the least busy is preferred.
            load: i16 = 0x1eb3,
            /// Where.
            service_location: String = 0x11af,
        }
        /// The list is made.
        OpenList = 0x349e {
            /// Its number.
            list_id: i32 = 0xe820,
        }
        /// The request was taken.
        AddToList = 0x8bac {
            /// The list.
            list_id: i32 = 0xe820,
            /// The client's number for the request.
            ref_id: i64 = 0x1eab,
            /// Whether.
            status: i16 = 0x4454,
        }
        /// The request was removed.
        RemoveFromList = 0xf41a {
            /// The list.
            list_id: i32 = 0xe820,
            /// The client's number for the request.
            ref_id: i64 = 0x1eab,
            /// Whether.
            status: i16 = 0x4454,
        }
        /// The list is started.
        StartList = 0x9600 {
            /// The list.
            list_id: i32 = 0xe820,
            /// Whether.
            status: i16 = 0x4454,
        }
        /// How the list is; also sent after silence, to show that someone is there.
        ListStatus = 0x7370 {
            /// The list.
            list_id: i32 = 0xe820,
            /// How.
            status: i16 = 0x4454,
        }
        /// A request failed for now, or an answer that is nothing but a status.
        Status = 0xd6ad {
            /// The client's number for the request; 0 for the list.
            ref_id: i64 = 0x1eab,
            /// When.
            timestamp: i64 = 0xd55b,
            /// Cycle.
            cycle: i64 = 0x0740,
            /// What happened.
            status: i16 = 0x4454,
        }
        /// What the database knows of the device of a request.
        DeviceInfo = 0x6fed {
            /// The client's number for the request.
            ref_id: i64 = 0x1eab,
            /// The device's index.
            di: i32 = 0x82dd,
            /// Its name.
            name: String = 0x931c,
            /// What it is.
            description: String = 0xf92c,
            /// Of readings and settings.
            units: Option<String> = 0x3dfb,
            /// Its meaning is unknown; never sent.
            format_hint: Option<i16> = 0x7ec2,
        }
        /// One number.
        Scalar = 0xd6ab {
            /// The client's number for the request.
            ref_id: i64 = 0x1eab,
            /// When it was read.
            timestamp: i64 = 0xd55b,
            /// Cycle.
            cycle: i64 = 0x0740,
            /// Status of the reading.
            status: i16 = 0x4454,
            /// The number.
            data: f64 = 0x7f38,
        }
        /// Numbers.
        ScalarArray = 0x59fc {
            /// The client's number for the request.
            ref_id: i64 = 0x1eab,
            /// When they were read.
            timestamp: i64 = 0xd55b,
            /// Cycle.
            cycle: i64 = 0x0740,
            /// Status of the reading.
            status: i16 = 0x4454,
            /// The numbers.
            data: Vec<f64> = 0x7f38,
        }
        /// Bytes as the front-end sent them.
        Raw = 0xcf5e {
            /// The client's number for the request.
            ref_id: i64 = 0x1eab,
            /// When they were read.
            timestamp: i64 = 0xd55b,
            /// Cycle.
            cycle: i64 = 0x0740,
            /// Status of the reading.
            status: i16 = 0x4454,
            /// The bytes, little endian.
            data: Bytes = 0x7f38,
        }
        /// A text.
        Text = 0x8f32 {
            /// The client's number for the request.
            ref_id: i64 = 0x1eab,
            /// When it was read.
            timestamp: i64 = 0xd55b,
            /// Cycle.
            cycle: i64 = 0x0740,
            /// Status of the reading.
            status: i16 = 0x4454,
            /// The text.
            data: String = 0x7f38,
        }
        /// Texts.
        TextArray = 0x327b {
            /// The client's number for the request.
            ref_id: i64 = 0x1eab,
            /// When they were read.
            timestamp: i64 = 0xd55b,
            /// Cycle.
            cycle: i64 = 0x0740,
            /// Status of the reading.
            status: i16 = 0x4454,
            /// The texts.
            data: Vec<String> = 0x7f38,
        }
        /// Numbers, each with its time; an empty one ends a history.
        TimedScalarArray = 0x7a32 {
            /// The client's number for the request.
            ref_id: i64 = 0x1eab,
            /// When.
            timestamp: i64 = 0xd55b,
            /// Cycle.
            cycle: i64 = 0x0740,
            /// Status of the readings.
            status: i16 = 0x4454,
            /// The numbers.
            data: Vec<f64> = 0x7f38,
            /// Their times, in microseconds since 1970.
            micros: Vec<i64> = 0x342d,
        }
        /// An analog alarm block, scaled.
        AnalogAlarm = 0x7588 {
            /// The client's number for the request.
            ref_id: i64 = 0x1eab,
            /// When it was read.
            timestamp: i64 = 0xd55b,
            /// Cycle.
            cycle: i64 = 0x0740,
            /// Readings below are bad.
            minimum: f64 = 0x234c,
            /// Readings above are bad.
            maximum: f64 = 0xe288,
            /// Is it watched?
            alarm_enable: bool = 0x8f20,
            /// Is it bad?
            alarm_status: bool = 0x6036,
            /// Does it abort the beam?
            abort: bool = 0x4a1c,
            /// Is the abort suppressed?
            abort_inhibit: bool = 0x8172,
            /// Bad readings in a row that make an alarm.
            tries_needed: i32 = 0x0132,
            /// Bad readings in a row so far.
            tries_now: i32 = 0x2b3e,
        }
        /// A digital alarm block.
        DigitalAlarm = 0xc79b {
            /// The client's number for the request.
            ref_id: i64 = 0x1eab,
            /// When it was read.
            timestamp: i64 = 0xd55b,
            /// Cycle.
            cycle: i64 = 0x0740,
            /// The bits as they should be.
            nominal: i32 = 0x4f1d,
            /// The bits that count.
            mask: i32 = 0x11eb,
            /// Is it watched?
            alarm_enable: bool = 0x8f20,
            /// Is it bad?
            alarm_status: bool = 0x6036,
            /// Does it abort the beam?
            abort: bool = 0x4a1c,
            /// Is the abort suppressed?
            abort_inhibit: bool = 0x8172,
            /// Bad readings in a row that make an alarm.
            tries_needed: i32 = 0x0132,
            /// Bad readings in a row so far.
            tries_now: i32 = 0x2b3e,
        }
        /// The basic status; an attribute that the device has not is absent.
        BasicStatus = 0xf2f9 {
            /// The client's number for the request.
            ref_id: i64 = 0x1eab,
            /// When it was read.
            timestamp: i64 = 0xd55b,
            /// Cycle.
            cycle: i64 = 0x0740,
            /// Is it on?
            on: Option<bool> = 0x5c01,
            /// Is it ready?
            ready: Option<bool> = 0xab23,
            /// Is it under remote control?
            remote: Option<bool> = 0xe486,
            /// Is its polarity positive?
            positive: Option<bool> = 0x2716,
            /// Does it ramp?
            ramp: Option<bool> = 0x9238,
        }
        /// What became of each setting.
        ApplySettings = 0x43c0 {
            /// Each once.
            status: Vec<SettingStatus> = 0x4454,
        }
        /// The answer to a step of authentication.
        Authenticate = 0x1c76 {
            /// Whom to get a ticket for.
            service_name: Option<String> = 0x6338,
            /// The token of the next step.
            token: Option<Bytes> = 0x8da1,
        }
    }
}
