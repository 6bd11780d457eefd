//! Certificates as strangers show them: none causes a panic, none is trusted without an authority,
//! and the names in each are names of hosts.

#![no_main]

use libfuzzer_sys::fuzz_target;
use rookery_stream::tls::trust::tlsa::{Association, Associations, Fingerprints};
use rookery_stream::tls::trust::{Names, Trust};

fuzz_target!(|input: (u16, &[u8])| {
    let (split, der) = input;
    let (own, between) = der.split_at(usize::from(split).min(der.len()));
    assert!(Trust::new([]).judge(&[own, between], 1_800_000_000).is_err());
    // An authority that is trusted for being in a file can be anything, too.
    let _ = Trust::new([between.to_vec()]).judge(&[own, between], 1_800_000_000);
    // DNS names this one and no other.
    if let Some(shown) = Fingerprints::of(own) {
        let record = |der: &[u8]| Association::read(3, 0, 0, der);
        let is_named = |record| {
            let named = Associations::new("a.example", "x.example", 5269, record);
            named.is_some_and(|named| named.of_caller(&shown).is_some())
        };
        assert_eq!(is_named(record(own)), !own.is_empty());
        assert!(own == between || !is_named(record(between)));
    }
    let Some(names) = Names::read_claims(der) else { return };
    for name in names.all() {
        assert!(!name.is_empty() && name.len() <= 255);
        assert!(
            name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_' | b'*')),
            "{name:?}"
        );
    }
    // No name covers every domain, and a text that isn't the name of a host is never covered.
    for domain in ["example", "", "a.example\0", "a..example", "*.a.example"] {
        assert!(!names.cover(domain) || names.all().any(|name| name == domain), "{domain:?}");
    }
});
