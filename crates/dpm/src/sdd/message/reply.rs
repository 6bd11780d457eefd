//! The table of DPM's replies. `timestamp` is in milliseconds since 1970, `status` as
//! [`Status`](crate::status::Status) packs it, `cycle` the cycle time of a GETS32 reply or 0.

use super::record::*;
use super::settings::SettingStatus;

direction! {
    /// A reply of DPM.
    Reply of PROTOCOL;

    /// A DPM is here.
    ServiceDiscovery = 0xcd7e {
        /// The load; the least busy is preferred.
        load: i16 = 0x1eb3,
        /// The place of the service.
        service_location: String = 0x11af,
    }
    /// A list was opened.
    OpenList = 0x349e {
        /// The number that the service has given the list, for all further requests about it.
        list_id: i32 = 0xe820,
    }
    /// The request was accepted, or not.
    AddToList = 0x8bac {
        /// The number of the list, as `OpenList` gave it.
        list_id: i32 = 0xe820,
        /// The client's number for the request.
        ref_id: i64 = 0x1eab,
        /// The status: success or not.
        status: i16 = 0x4454,
    }
    /// The request was removed.
    RemoveFromList = 0xf41a {
        /// The number of the list, as `OpenList` gave it.
        list_id: i32 = 0xe820,
        /// The client's number for the request.
        ref_id: i64 = 0x1eab,
        /// The status: success or not.
        status: i16 = 0x4454,
    }
    /// The list is started, or could not be.
    StartList = 0x9600 {
        /// The number of the list, as `OpenList` gave it.
        list_id: i32 = 0xe820,
        /// The status: success or not.
        status: i16 = 0x4454,
    }
    /// The status of the list; also sent after silence, to show that the DPM is alive.
    ListStatus = 0x7370 {
        /// The number of the list, as `OpenList` gave it.
        list_id: i32 = 0xe820,
        /// The status of the list: success, or the reason of a failure.
        status: i16 = 0x4454,
    }
    /// A request failed for now, or an answer consists of a status only.
    Status = 0xd6ad {
        /// The client's number for the request; 0 for the list.
        ref_id: i64 = 0x1eab,
        /// The time.
        timestamp: i64 = 0xd55b,
        /// The cycle time that belongs to the status; 0 if there is none.
        cycle: i64 = 0x0740,
        /// The status that it reports.
        status: i16 = 0x4454,
    }
    /// The database's record of a requested device.
    DeviceInfo = 0x6fed {
        /// The client's number for the request.
        ref_id: i64 = 0x1eab,
        /// The device's index.
        di: i32 = 0x82dd,
        /// The name of the device in the database.
        name: String = 0x931c,
        /// The description in words.
        description: String = 0xf92c,
        /// The units of readings and settings.
        units: Option<String> = 0x3dfb,
        /// Its meaning is unknown; never sent.
        format_hint: Option<i16> = 0x7ec2,
    }
    /// One number.
    Scalar = 0xd6ab {
        /// The client's number for the request.
        ref_id: i64 = 0x1eab,
        /// The time when it was read.
        timestamp: i64 = 0xd55b,
        /// The cycle time of the reading.
        cycle: i64 = 0x0740,
        /// The status of the reading.
        status: i16 = 0x4454,
        /// The number.
        data: f64 = 0x7f38,
    }
    /// Numbers.
    ScalarArray = 0x59fc {
        /// The client's number for the request.
        ref_id: i64 = 0x1eab,
        /// The time when they were read.
        timestamp: i64 = 0xd55b,
        /// The cycle time of the readings.
        cycle: i64 = 0x0740,
        /// The status of the reading.
        status: i16 = 0x4454,
        /// The numbers.
        data: Vec<f64> = 0x7f38,
    }
    /// Bytes as the front-end sent them.
    Raw = 0xcf5e {
        /// The client's number for the request.
        ref_id: i64 = 0x1eab,
        /// The time when they were read.
        timestamp: i64 = 0xd55b,
        /// The cycle time of the reading.
        cycle: i64 = 0x0740,
        /// The status of the reading.
        status: i16 = 0x4454,
        /// The bytes, little endian.
        data: Bytes = 0x7f38,
    }
    /// One text, such as a description or a state in words.
    Text = 0x8f32 {
        /// The client's number for the request.
        ref_id: i64 = 0x1eab,
        /// The time when it was read.
        timestamp: i64 = 0xd55b,
        /// The cycle time of the reading.
        cycle: i64 = 0x0740,
        /// The status of the reading.
        status: i16 = 0x4454,
        /// The text.
        data: String = 0x7f38,
    }
    /// Any number of texts.
    TextArray = 0x327b {
        /// The client's number for the request.
        ref_id: i64 = 0x1eab,
        /// The time when they were read.
        timestamp: i64 = 0xd55b,
        /// The cycle time of the readings.
        cycle: i64 = 0x0740,
        /// The status of the reading.
        status: i16 = 0x4454,
        /// The texts.
        data: Vec<String> = 0x7f38,
    }
    /// Numbers, each with its time; a message without any ends a history.
    TimedScalarArray = 0x7a32 {
        /// The client's number for the request.
        ref_id: i64 = 0x1eab,
        /// The time of the readings.
        timestamp: i64 = 0xd55b,
        /// The cycle time of the readings.
        cycle: i64 = 0x0740,
        /// The status of the readings.
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
        /// The time when it was read.
        timestamp: i64 = 0xd55b,
        /// The cycle time of the reading.
        cycle: i64 = 0x0740,
        /// The limit below which readings are bad.
        minimum: f64 = 0x234c,
        /// The limit above which readings are bad.
        maximum: f64 = 0xe288,
        /// True if the device is watched.
        alarm_enable: bool = 0x8f20,
        /// True if the reading is bad.
        alarm_status: bool = 0x6036,
        /// True if an alarm aborts the beam.
        abort: bool = 0x4a1c,
        /// True if the abort is suppressed.
        abort_inhibit: bool = 0x8172,
        /// The number of bad readings in a row that make an alarm.
        tries_needed: i32 = 0x0132,
        /// The number of bad readings in a row so far.
        tries_now: i32 = 0x2b3e,
    }
    /// A digital alarm block.
    DigitalAlarm = 0xc79b {
        /// The client's number for the request.
        ref_id: i64 = 0x1eab,
        /// The time when it was read.
        timestamp: i64 = 0xd55b,
        /// The cycle time of the reading.
        cycle: i64 = 0x0740,
        /// The bits as they should be.
        nominal: i32 = 0x4f1d,
        /// The bits that are compared.
        mask: i32 = 0x11eb,
        /// True if the device is watched.
        alarm_enable: bool = 0x8f20,
        /// True if the reading is bad.
        alarm_status: bool = 0x6036,
        /// True if an alarm aborts the beam.
        abort: bool = 0x4a1c,
        /// True if the abort is suppressed.
        abort_inhibit: bool = 0x8172,
        /// The number of bad readings in a row that make an alarm.
        tries_needed: i32 = 0x0132,
        /// The number of bad readings in a row so far.
        tries_now: i32 = 0x2b3e,
    }
    /// The basic status; attributes that the device lacks are absent.
    BasicStatus = 0xf2f9 {
        /// The client's number for the request.
        ref_id: i64 = 0x1eab,
        /// The time when it was read.
        timestamp: i64 = 0xd55b,
        /// The cycle time of the reading.
        cycle: i64 = 0x0740,
        /// True if the device is on, false if it is off.
        on: Option<bool> = 0x5c01,
        /// True if the device is ready, false if it has tripped.
        ready: Option<bool> = 0xab23,
        /// True if it is under remote control.
        remote: Option<bool> = 0xe486,
        /// True if its polarity is positive.
        positive: Option<bool> = 0x2716,
        /// True if the device follows a ramp, false if its output is constant.
        ramp: Option<bool> = 0x9238,
    }
    /// The outcome of each setting.
    ApplySettings = 0x43c0 {
        /// One status for each setting.
        status: Vec<SettingStatus> = 0x4454,
    }
    /// The answer to a step of authentication.
    Authenticate = 0x1c76 {
        /// The name of the service to get a ticket for.
        service_name: Option<String> = 0x6338,
        /// The token of the next step.
        token: Option<Bytes> = 0x8da1,
    }
}
