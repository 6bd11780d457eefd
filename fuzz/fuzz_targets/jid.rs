//! Addresses: preparing twice changes nothing, the parts make up the whole, and the fast path
//! agrees with the slow one.

#![no_main]

use libfuzzer_sys::fuzz_target;
use rookery_jid::{Jid, JidRef, prepare};

fuzz_target!(|raw: &str| {
    let Ok(prepared) = prepare(raw) else { return };
    let jid = prepared.into_jid();
    assert_eq!(Jid::parse(jid.as_str()).as_ref(), Ok(&jid));
    assert_eq!(Jid::new(jid.local(), jid.domain(), jid.resource()).as_ref(), Ok(&jid));
    if let Some(fast) = JidRef::parse_prepared(raw) {
        assert_eq!((fast.local(), fast.domain(), fast.resource()), (jid.local(), jid.domain(), jid.resource()));
    }
});
