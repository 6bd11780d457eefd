//! Mail between shards: any bytes are mail or refused, and mail that was read means the same when
//! it is read again.

#![no_main]

use libfuzzer_sys::fuzz_target;
use rookery_hub::Registry;
use rookery_hub::mail::{MailError, Parcel};

fuzz_target!(|bytes: &[u8]| {
    thread_local! {
        static REGISTRY: Registry = Registry::new(rookery_modules::table(&rookery_modules::Shared::default()));
    }
    REGISTRY.with(|registry| {
        let Ok(parcel) = Parcel::decode(bytes, registry) else { return };
        match parcel.encode() {
            Ok(written) => {
                let again = Parcel::decode(&written, registry).expect("mail that was written");
                assert_eq!(format!("{again:?}"), format!("{parcel:?}"));
            }
            // A stanza may grow when it takes its canonical form.
            Err(error) => assert!(matches!(error, MailError::TooLarge(_)), "{error}"),
        }
    });
});
