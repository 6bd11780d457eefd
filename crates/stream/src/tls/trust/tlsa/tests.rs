//! Tests chains against records: matching ones, others, and unusable ones.

use aws_lc_rs::digest::{SHA256, SHA512, digest};
use proptest::prelude::*;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, PublicKeyData, date_time_ymd};

use super::super::Trust;
use super::*;

const NOW: u64 = 1_800_000_000;

/// A chain from an authority through an intermediate one to a server.
struct Chain {
    root: Vec<u8>,
    between: Vec<u8>,
    own: Vec<u8>,
    /// The keys of the three in the same order, as `SubjectPublicKeyInfo`.
    keys: [Vec<u8>; 3],
}

fn params(names: &[&str], common_name: &str) -> CertificateParams {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let mut params = CertificateParams::new(names).expect("names");
    params.not_before = date_time_ymd(2020, 1, 1);
    params.not_after = date_time_ymd(2040, 1, 1);
    params.distinguished_name.push(DnType::CommonName, common_name);
    params
}

impl Chain {
    fn of(own: CertificateParams) -> Self {
        let authority = |name| {
            let mut params = params(&[], name);
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            params
        };
        let [root_key, between_key, own_key] = [(); 3].map(|()| KeyPair::generate().expect("a key"));
        let keys = [&root_key, &between_key, &own_key].map(PublicKeyData::subject_public_key_info);
        let root = authority("root").self_signed(&root_key).expect("a certificate").der().to_vec();
        let issuer = Issuer::new(authority("root"), root_key);
        let between = authority("between").signed_by(&between_key, &issuer).expect("a certificate").der().to_vec();
        let issuer = Issuer::new(authority("between"), between_key);
        let own = own.signed_by(&own_key, &issuer).expect("a certificate").der().to_vec();
        Self { root, between, own, keys }
    }

    fn new(names: &[&str]) -> Self {
        Self::of(params(names, "server"))
    }

    /// Returns the links as a server shows them, the first of them its own.
    fn links(&self) -> [&[u8]; 3] {
        [&self.own, &self.between, &self.root]
    }

    fn trust(&self) -> Trust {
        Trust::new([self.root.clone()])
    }
}

fn nobody() -> Trust {
    Trust::new([])
}

/// Returns a record for a content by a matching type.
fn record(usage: u8, selector: u8, matching: u8, content: &[u8]) -> Association {
    let data = match matching {
        1 => digest(&SHA256, content).as_ref().to_vec(),
        2 => digest(&SHA512, content).as_ref().to_vec(),
        _ => content.to_vec(),
    };
    Association::read(usage, selector, matching, &data).expect("a record that can be used")
}

fn judge(trust: &Trust, chain: &[&[u8]], records: impl IntoIterator<Item = Association>) -> Result<Names, Untrusted> {
    let associations = Associations::new("a.example", "xmpp.host.example.", 5269, records).expect("records");
    trust.judge_associated(chain, &associations, NOW)
}

#[test]
fn a_server_s_own_certificate_needs_neither_authority_nor_name_nor_date() {
    let mut old = params(&["other.example"], "old");
    old.not_after = date_time_ymd(2021, 1, 1);
    let key = KeyPair::generate().expect("a key");
    let own = old.self_signed(&key).expect("a certificate").der().to_vec();
    for matching in 0..3 {
        for (selector, content) in [(0, own.clone()), (1, key.subject_public_key_info())] {
            let names = judge(&nobody(), &[&own], [record(3, selector, matching, &content)]).expect("proven");
            assert!(names.cover("a.example") && names.is_associated(), "3 {selector} {matching}");
            assert!(!names.cover("other.example"), "the certificate's own names were not proven");
            assert_eq!(names.valid_s(), DAY_S);
        }
    }
}

#[test]
fn what_no_record_is_about_proves_nothing() {
    let (shown, other) = (Chain::new(&["a.example"]), Chain::new(&["a.example"]));
    let unassociated = Err(Untrusted::Unassociated("_5269._tcp.xmpp.host.example.".to_owned()));
    for (usage, part) in [(0, 1), (1, 0), (2, 1), (3, 0)] {
        for matching in 0..3 {
            let of_other = record(usage, 0, matching, other.links()[part]);
            assert_eq!(judge(&shown.trust(), &shown.links(), [of_other]), unassociated, "{usage} 0 {matching}");
        }
    }
    let own = record(3, 0, 1, &shown.own);
    assert_eq!(judge(&shown.trust(), &[], [own.clone()]), unassociated, "nothing is shown");
    assert_eq!(judge(&shown.trust(), &[&shown.between], [own]), unassociated, "another one is shown");
    // This is the right digest of the wrong part.
    assert_eq!(judge(&shown.trust(), &shown.links(), [record(3, 1, 1, &shown.own)]), unassociated);
    assert_eq!(judge(&shown.trust(), &shown.links(), [record(3, 0, 1, &shown.root)]), unassociated);
}

#[test]
fn one_record_of_several_is_enough() {
    let (shown, other) = (Chain::new(&["a.example"]), Chain::new(&["a.example"]));
    let records = [record(3, 0, 1, &other.own), record(0, 0, 2, &other.root), record(3, 1, 2, &shown.keys[2])];
    assert!(judge(&nobody(), &shown.links(), records).is_ok());
}

#[test]
fn an_authority_of_the_zone_is_followed_by_names_and_dates() {
    let chain = Chain::new(&["a.example"]);
    for (content, key) in [(&chain.root, &chain.keys[0]), (&chain.between, &chain.keys[1])] {
        for record in [record(2, 0, 1, content), record(2, 1, 2, key), record(2, 0, 0, content)] {
            let names = judge(&nobody(), &chain.links(), [record]).expect("proven");
            assert!(names.cover("a.example") && names.is_associated());
        }
    }
    let of_root = || [record(2, 0, 1, &chain.root)];
    assert!(judge(&nobody(), &[&chain.own, &chain.between], of_root()).is_err(), "the authority is not shown");
    let its_own = [record(2, 0, 1, &chain.own)];
    assert!(judge(&nobody(), &chain.links(), its_own).is_err(), "a server's certificate is no authority");
    let of_host = Chain::new(&["xmpp.host.example"]);
    let names = judge(&nobody(), &of_host.links(), [record(2, 0, 1, &of_host.root)]).expect("a name of the machine");
    assert!(names.cover("a.example"), "the signed zone has led to the machine");
    let of_other = Chain::new(&["b.example"]);
    assert!(judge(&nobody(), &of_other.links(), [record(2, 0, 1, &of_other.root)]).is_err(), "another name");
    let mut old = params(&["a.example"], "old");
    old.not_after = date_time_ymd(2021, 1, 1);
    let old = Chain::of(old);
    assert!(judge(&nobody(), &old.links(), [record(2, 0, 1, &old.root)]).is_err(), "expired");
    let mixed = [&of_other.own[..], &chain.between, &chain.root];
    assert!(judge(&nobody(), &mixed, of_root()).is_err(), "the authority is shown and has not issued it");
}

#[test]
fn constraints_hold_besides_the_authorities() {
    let chain = Chain::new(&["a.example"]);
    let (shown, [root_key, between_key, own_key]) = (chain.links(), &chain.keys);
    let cases = [
        record(1, 0, 1, &chain.own),
        record(1, 1, 2, own_key),
        record(0, 0, 1, &chain.between),
        record(0, 1, 1, between_key),
        record(0, 0, 0, &chain.root),
        record(0, 1, 1, root_key),
    ];
    for record in cases {
        assert!(judge(&chain.trust(), &shown, [record.clone()]).is_ok(), "{record}");
        assert!(judge(&nobody(), &shown, [record.clone()]).is_err(), "without the authority: {record}");
    }
    // Servers need not show the root.
    let short = [&chain.own[..], &chain.between];
    assert!(judge(&chain.trust(), &short, [record(0, 1, 1, root_key)]).is_ok());
    assert!(judge(&chain.trust(), &short, [record(0, 1, 1, own_key)]).is_err(), "that is no authority");
    assert!(judge(&chain.trust(), &short, [record(1, 1, 1, between_key)]).is_err(), "that is none of the server");
    let other = Chain::new(&["a.example"]);
    let beside = [&chain.own[..], &chain.between, &other.between];
    assert!(judge(&chain.trust(), &beside, [record(0, 0, 1, &other.between)]).is_err(), "that is not on the path");
}

#[test]
fn records_that_cannot_be_used_are_none() {
    let hashed = digest(&SHA256, b"x").as_ref().to_vec();
    for (usage, selector, matching, length) in [
        (4, 1, 1, 32),
        (255, 0, 1, 32),
        (3, 2, 1, 32),
        (3, 255, 1, 32),
        (3, 1, 3, 32),
        (3, 1, 1, 31),
        (3, 1, 2, 32),
        (3, 0, 0, 0),
    ] {
        assert_eq!(
            Association::read(usage, selector, matching, &hashed[..length]),
            None,
            "{usage} {selector} {matching}"
        );
    }
    assert_eq!(Associations::new("a.example", "a.example", 5269, []), None);
    let many = std::iter::repeat_n(record(3, 1, 1, b"x"), 1000);
    assert_eq!(Associations::new("a.example", "a.example", 5269, many).expect("records").iter().count(), MOST);
}

#[test]
fn operators_see_a_record_as_zones_write_it() {
    let record = Association::read(3, 1, 1, &[0xab; 32]).expect("a record");
    assert_eq!(record.to_string(), "3 1 1 abababababababab…");
}

proptest! {
    /// Only a record about the shown certificate proves anything, whatever else a zone and a server
    /// say.
    #[test]
    fn arbitrary_records_and_chains_prove_nothing(
        records in prop::collection::vec((any::<u8>(), any::<u8>(), 0_u8..4, prop::collection::vec(any::<u8>(), 0..70)), 0..40),
        chain in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..200), 0..12),
    ) {
        let read = |(usage, selector, matching, data): (u8, u8, u8, Vec<u8>)| {
            Association::read(usage % 5, selector % 3, matching, &data)
        };
        let records: Vec<_> = records.into_iter().filter_map(read).collect();
        let chain: Vec<&[u8]> = chain.iter().map(Vec::as_slice).collect();
        if let Some(associations) = Associations::new("a.example", "a.example", 5269, records) {
            prop_assert!(associations.iter().count() <= MOST);
            prop_assert!(nobody().judge_associated(&chain, &associations, NOW).is_err());
        }
    }
}
