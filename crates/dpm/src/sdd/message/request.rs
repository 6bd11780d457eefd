//! The table of clients' requests.

use super::record::*;
use super::settings::{RawSetting, ScaledSetting, TextSetting};

direction! {
    /// A request to DPM.
    Request of PROTOCOL;

    /// Searches for a DPM.
    ServiceDiscovery = 0xdfda {}
    /// Opens a list, whose number the reply has.
    OpenList = 0x081c {
        /// Sent by no known client.
        location: Option<String> = 0x9de0,
    }
    /// Puts a request on a list, in place of one with the same number.
    AddToList = 0x0061 {
        /// The number of the list, as the reply to `OpenList` gave it.
        list_id: i32 = 0xe820,
        /// The client's number for this request.
        ref_id: i64 = 0x1eab,
        /// The request, or a property of the list if it begins with `#`.
        drf_request: String = 0x6324,
    }
    /// Removes a request from a list.
    RemoveFromList = 0xf121 {
        /// The number of the list, as the reply to `OpenList` gave it.
        list_id: i32 = 0xe820,
        /// The client's number for the request.
        ref_id: i64 = 0x1eab,
    }
    /// Starts sending data, for the requests as they are now.
    StartList = 0xddb5 {
        /// The number of the list, as the reply to `OpenList` gave it.
        list_id: i32 = 0xe820,
        /// The data model of requests that name none.
        model: Option<String> = 0x5e63,
    }
    /// Stops data and keeps the requests.
    StopList = 0x53a9 {
        /// The number of the list, as the reply to `OpenList` gave it.
        list_id: i32 = 0xe820,
    }
    /// Stops data and deletes the requests.
    ClearList = 0xc309 {
        /// The number of the list, as the reply to `OpenList` gave it.
        list_id: i32 = 0xe820,
    }
    /// A step of GSS-API authentication; the first token is empty.
    Authenticate = 0xc453 {
        /// The number of the list, as the reply to `OpenList` gave it.
        list_id: i32 = 0xe820,
        /// The token of GSS-API (RFC 2743), for the acceptor.
        token: Bytes = 0x8da1,
    }
    /// Proves that the context is established, and enables settings.
    EnableSettings = 0x5362 {
        /// The number of the list, as the reply to `OpenList` gave it.
        list_id: i32 = 0xe820,
        /// The integrity code of `message`.
        mic: Bytes = 0x1fcd,
        /// The message that the code protects.
        message: Bytes = 0x3102,
    }
    /// Sets devices.
    ApplySettings = 0xc678 {
        /// The name of the user; may be empty.
        user_name: String = 0x5648,
        /// The number of the list, as the reply to `OpenList` gave it.
        list_id: i32 = 0xe820,
        /// Settings in bytes.
        raw_array: Option<Vec<RawSetting>> = 0x0301,
        /// Settings in engineering values.
        scaled_array: Option<Vec<ScaledSetting>> = 0x63ce,
        /// Settings in text.
        text_array: Option<Vec<TextSetting>> = 0xce8f,
    }
}
