//! Tests odd certificates of many kinds, made by rcgen.

use rcgen::{
    BasicConstraints, CertificateParams, CustomExtension, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    OtherNameValue, SanType, date_time_ymd,
};

use super::*;

const NOW: u64 = 1_800_000_000;

struct TrustAuthority {
    issuer: Issuer<'static, KeyPair>,
    der: Vec<u8>,
}

fn params(names: &[&str]) -> CertificateParams {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let mut params = CertificateParams::new(names).expect("names");
    params.not_before = date_time_ymd(2020, 1, 1);
    params.not_after = date_time_ymd(2040, 1, 1);
    params
}

fn authority() -> TrustAuthority {
    let mut params = params(&[]);
    params.distinguished_name.push(DnType::CommonName, "authority");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().expect("a key");
    let der = params.self_signed(&key).expect("a certificate").der().to_vec();
    TrustAuthority { issuer: Issuer::new(params, key), der }
}

impl TrustAuthority {
    fn issue(&self, params: &CertificateParams) -> Vec<u8> {
        params.signed_by(&KeyPair::generate().expect("a key"), &self.issuer).expect("a certificate").der().to_vec()
    }

    fn judge(&self, params: &CertificateParams) -> Result<Names, Untrusted> {
        Trust::new([self.der.clone()]).judge(&[&self.issue(params)], NOW)
    }
}

#[test]
fn a_chain_is_followed_to_an_authority() {
    let (good, other) = (authority(), authority());
    let own = good.issue(&params(&["a.example"]));
    let trust = Trust::new([good.der.clone()]);
    let judged = trust.judge(&[&own], NOW).unwrap();
    assert!(judged.cover("a.example"));
    assert_eq!(NOW + judged.valid_s(), 2_208_988_800, "until the beginning of 2040");
    assert_eq!(trust.judge(&[], NOW), Err(Untrusted::Missing));
    assert_eq!(trust.judge(&[&other.issue(&params(&["a.example"]))], NOW), Err(Untrusted::UnknownIssuer));
    assert_eq!(trust.judge(&[&own], 2_300_000_000), Err(Untrusted::Expired));
    assert_eq!(trust.judge(&[&own], 1_000_000_000), Err(Untrusted::NotYetValid));
    let own_key = KeyPair::generate().unwrap();
    let self_signed = params(&["a.example"]).self_signed(&own_key).unwrap();
    assert_eq!(trust.judge(&[self_signed.der()], NOW), Err(Untrusted::UnknownIssuer));
    assert!(matches!(trust.judge(&[b"no certificate"], NOW), Err(Untrusted::Invalid(_))));
}

#[test]
fn a_server_s_certificate_is_no_authority() {
    let good = authority();
    let mut between = params(&["evil.example"]);
    between.distinguished_name.push(DnType::CommonName, "between");
    let key = KeyPair::generate().unwrap();
    let leaf = between.signed_by(&key, &good.issuer).unwrap().der().to_vec();
    let issuer = Issuer::new(between, key);
    let forged = params(&["a.example"]).signed_by(&KeyPair::generate().unwrap(), &issuer).unwrap();
    let judged = Trust::new([good.der]).judge(&[forged.der(), &leaf], NOW);
    assert!(judged.is_err(), "{judged:?}");
}

#[test]
fn a_chain_has_seven_links_at_most_and_costs_little() {
    let good = authority();
    let trust = Trust::new([good.der.clone()]);
    let mut issuer = good.issuer;
    let mut chain = Vec::new();
    for number in 0..7 {
        let mut between = params(&[]);
        between.distinguished_name.push(DnType::CommonName, format!("between {number}"));
        between.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        chain.insert(0, between.signed_by(&key, &issuer).unwrap().der().to_vec());
        issuer = Issuer::new(between, key);
    }
    let own = params(&["a.example"]).signed_by(&KeyPair::generate().unwrap(), &issuer).unwrap().der().to_vec();
    let shown: Vec<&[u8]> = std::iter::once(&own).chain(&chain).map(Vec::as_slice).collect();
    assert!(trust.judge(&shown, NOW).is_err());
    // Many certificates could be the next link and aren't: the library gives up.
    let copies: Vec<&[u8]> =
        std::iter::once(own.as_slice()).chain(std::iter::repeat_n(chain[0].as_slice(), 100)).collect();
    assert!(trust.judge(&copies, NOW).is_err());
}

#[test]
fn a_certificate_for_servers_is_good_on_either_side() {
    use ExtendedKeyUsagePurpose::{Any, ClientAuth, CodeSigning, ServerAuth};
    let authority = authority();
    let cases = [
        (vec![], true),
        (vec![ServerAuth], true),
        (vec![ClientAuth, ServerAuth], true),
        (vec![Any], true),
        (vec![ClientAuth], false),
        (vec![CodeSigning], false),
    ];
    for (uses, is_good) in cases {
        let mut params = params(&["a.example"]);
        params.extended_key_usages.clone_from(&uses);
        let judged = authority.judge(&params);
        assert_eq!(judged.is_ok(), is_good, "{uses:?}: {judged:?}");
        assert!(is_good || judged == Err(Untrusted::OtherUse));
    }
}

#[test]
fn names_are_whole_labels_of_the_alternative_names() {
    let authority = authority();
    let judged = |names: &[&str]| authority.judge(&params(names)).expect("a certificate");
    let cases = [
        ("a.example", "a.example", true),
        ("A.Example", "a.example", true),
        ("*.a.example", "x.a.example", true),
        ("*.a.example", "a.example", false),
        ("*.a.example", "x.y.a.example", false),
        ("*.a.example", "xa.example", false),
        ("*.a.example", "evil-a.example", false),
        ("*.example", "a.example", false),
        ("x*.a.example", "xy.a.example", false),
        ("a.example", "x.a.example", false),
        ("a.example", "a.example.org", false),
        ("xn--bcher-kva.example", "bücher.example", true),
    ];
    for (name, domain, is_covered) in cases {
        assert_eq!(judged(&[name]).cover(domain), is_covered, "{name} for {domain}");
    }
    // A C string would end at the zero.
    let zero = "a.example\0.evil.example";
    assert!(!authority.judge(&params(&[zero])).is_ok_and(|names| names.cover("a.example") || names.cover(zero)));
    let mut by_common_name = params(&[]);
    by_common_name.distinguished_name.push(DnType::CommonName, "a.example");
    assert!(!authority.judge(&by_common_name).unwrap().cover("a.example"));
    let mut others = params(&[]);
    others.subject_alt_names = vec![
        SanType::Rfc822Name("romeo@a.example".try_into().unwrap()),
        SanType::URI("xmpp:a.example".try_into().unwrap()),
        SanType::IpAddress("192.0.2.1".parse().unwrap()),
    ];
    assert!(!authority.judge(&others).unwrap().cover("a.example"));
}

#[test]
fn addresses_of_xmpp_count_if_they_are_domains() {
    let authority = authority();
    let xmpp_addr = [1, 3, 6, 1, 5, 5, 7, 8, 5];
    let of = |text: &str| {
        let mut params = params(&[]);
        let value = OtherNameValue::Utf8String(text.to_owned());
        params.subject_alt_names = vec![SanType::OtherName((xmpp_addr.to_vec(), value))];
        authority.judge(&params).unwrap()
    };
    assert!(of("a.example").cover("a.example"));
    for text in ["romeo@a.example", "a.example/x", "*.example", "b.example"] {
        assert!(!of(text).cover("a.example"), "{text}");
    }
}

/// rcgen writes no IA5String into an `otherName`.
#[test]
fn names_of_services_count_for_this_service() {
    let authority = authority();
    let of = |service: &str| {
        let srv_name = [0x2b, 6, 1, 5, 5, 7, 8, 7];
        let text = [&[IA5_STRING, service.len() as u8], service.as_bytes()].concat();
        let value = [&[EXPLICIT, text.len() as u8], &text[..]].concat();
        let name = [&[6, srv_name.len() as u8], &srv_name[..], &value].concat();
        let other = [&[0xa0, name.len() as u8], &name[..]].concat();
        let names = [&[0x30, other.len() as u8], &other[..]].concat();
        let mut params = params(&[]);
        params.custom_extensions = vec![CustomExtension::from_oid_content(&[2, 5, 29, 17], names)];
        authority.judge(&params).unwrap()
    };
    assert!(of("_xmpp-server.a.example").cover("a.example"));
    for service in ["_xmpp-client.a.example", "_imap.a.example", "a.example", "_xmpp-server.*.example"] {
        assert!(!of(service).cover("a.example"), "{service}");
    }
}

#[test]
fn values_that_lie_about_their_length_are_no_names() {
    let good = [EXPLICIT, 5, UTF8_STRING, 3, b'a', b'.', b'b'];
    assert_eq!(text_of(&good, UTF8_STRING), Some("a.b"));
    assert_eq!(text_of(&good, IA5_STRING), None);
    for cut in 0..good.len() {
        assert_eq!(text_of(&good[..cut], UTF8_STRING), None);
    }
    assert_eq!(text_of(&[EXPLICIT, 0x84, 0, 0, 0, 1, 0], UTF8_STRING), None);
    assert_eq!(text_of(&[EXPLICIT, 3, UTF8_STRING, 1, 0xff], UTF8_STRING), None, "no UTF-8");
}
