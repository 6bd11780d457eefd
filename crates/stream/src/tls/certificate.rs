//! Creates, reads and hashes certificates.
//!
//! Reading is left to `x509-parser`: it belongs to the family of parsers that rcgen uses too,
//! allocates little, and is maintained by specialists in ASN.1. rustls's own parser shows neither
//! dates nor signature algorithm.

use aws_lc_rs::digest;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, date_time_ymd,
};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use std::time::Duration;
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;
use x509_parser::signature_algorithm::RsaSsaPssParams;

use super::SettingsError;
use super::settings::ascii_domain;

/// Certificate and private key in PEM.
pub struct SelfSigned {
    /// The certificate, which names all the domains.
    pub certificate: String,
    /// The key, PKCS#8. It must be stored where nobody else can read it.
    pub key: String,
}

/// Makes a self-signed certificate (ECDSA P-256) for these domains, valid from the day before `now`
/// (against clocks that are behind) for ten years. `now` is in seconds since 1970.
///
/// The names are `dNSName`s, which is what clients check today; RFC 6120 §13.7.1.2.1 lets servers
/// do without the older `xmppAddr`.
///
/// # Errors
///
/// [`SettingsError::BadDomain`] for a name that can't stand in a certificate,
/// [`SettingsError::NoIdentity`] for no domain at all, [`SettingsError::Library`] if the system
/// gives no random numbers.
pub fn self_signed(domains: &[String], now: u64) -> Result<SelfSigned, SettingsError> {
    let names = domains.iter().map(|domain| ascii_domain(domain)).collect::<Result<Vec<_>, _>>()?;
    let first = names.first().cloned().ok_or(SettingsError::NoIdentity)?;
    let mut params = CertificateParams::new(names).map_err(|_| SettingsError::BadDomain(first.clone()))?;
    params.distinguished_name = DistinguishedName::new();
    if first.len() <= MAX_COMMON_NAME {
        params.distinguished_name.push(DnType::CommonName, first);
    }
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    set_validity(&mut params, now);
    let key = KeyPair::generate().map_err(library)?;
    let certificate = params.self_signed(&key).map_err(library)?;
    Ok(SelfSigned { certificate: certificate.pem(), key: key.serialize_pem() })
}

/// A private authority, for closed networks and tests.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    der: CertificateDer<'static>,
}

/// A certificate that an authority has issued, in PEM.
pub struct IssuedCertificate {
    /// The certificate, without that of the authority.
    pub chain: String,
    /// Its key, PKCS#8.
    pub key: String,
}

impl Authority {
    /// Makes an authority, valid for ten years from the day before `now`, in seconds since 1970.
    ///
    /// # Errors
    ///
    /// [`SettingsError::Library`] if the system gives no random numbers.
    pub fn new(now: u64) -> Result<Self, SettingsError> {
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, "Rookery's own authority");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        set_validity(&mut params, now);
        let key = KeyPair::generate().map_err(library)?;
        let der = params.self_signed(&key).map_err(library)?.der().clone();
        Ok(Self { issuer: Issuer::new(params, key), der })
    }

    /// Returns its own certificate, in DER.
    pub fn der(&self) -> &[u8] {
        &self.der
    }

    /// Issues a certificate for servers of these domains, valid for as long as the authority.
    ///
    /// # Errors
    ///
    /// As [`self_signed`].
    pub fn issue(&self, domains: &[String], now: u64) -> Result<IssuedCertificate, SettingsError> {
        let names = domains.iter().map(|domain| ascii_domain(domain)).collect::<Result<Vec<_>, _>>()?;
        let mut params = CertificateParams::new(names).map_err(library)?;
        params.distinguished_name = DistinguishedName::new();
        // Public authorities issue certificates for no other use today.
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        set_validity(&mut params, now);
        let key = KeyPair::generate().map_err(library)?;
        let certificate = params.signed_by(&key, &self.issuer).map_err(library)?;
        Ok(IssuedCertificate { chain: certificate.pem(), key: key.serialize_pem() })
    }
}

fn set_validity(params: &mut CertificateParams, now: u64) {
    let epoch = date_time_ymd(1970, 1, 1);
    let start = now.min(MAX_NOW).saturating_sub(DAY);
    params.not_before = epoch + Duration::from_secs(start);
    params.not_after = epoch + Duration::from_secs(start + TEN_YEARS);
}

fn library(error: rcgen::Error) -> SettingsError {
    SettingsError::Library(error.to_string())
}

/// The properties of a certificate, for the operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inspection {
    /// First second of validity, since 1970.
    pub not_before: i64,
    /// Last second of validity, since 1970.
    pub not_after: i64,
    /// The DNS names that it is for, as written, wildcards included.
    pub names: Vec<String>,
    /// True if issuer and subject are the same: no client will trust it unless told to.
    pub self_signed: bool,
}

impl Inspection {
    /// Returns whether the certificate is for this domain, a wildcard standing for exactly the
    /// leftmost label (RFC 6125 §6.4.3).
    pub fn covers(&self, domain: &str) -> bool {
        let Ok(domain) = ascii_domain(domain) else { return false };
        let parent = domain.split_once('.').map(|(_, parent)| parent);
        self.names.iter().any(|name| {
            let name = name.to_ascii_lowercase();
            name == domain || name.strip_prefix("*.").is_some_and(|rest| Some(rest) == parent)
        })
    }
}

/// Reads the first certificate of a PEM text.
///
/// # Errors
///
/// [`SettingsError::BadCertificate`].
pub fn inspect(pem: &[u8]) -> Result<Inspection, SettingsError> {
    let der = CertificateDer::from_pem_slice(pem).map_err(|error| SettingsError::BadCertificate(error.to_string()))?;
    inspect_der(&der)
}

pub(super) fn inspect_der(der: &[u8]) -> Result<Inspection, SettingsError> {
    let certificate = parse(der)?;
    let names = certificate.subject_alternative_name().ok().flatten();
    let names = names.iter().flat_map(|extension| &extension.value.general_names).filter_map(|name| match name {
        GeneralName::DNSName(name) => Some((*name).to_owned()),
        _ => None,
    });
    Ok(Inspection {
        not_before: certificate.validity().not_before.timestamp(),
        not_after: certificate.validity().not_after.timestamp(),
        names: names.collect(),
        self_signed: certificate.issuer().as_raw() == certificate.subject().as_raw(),
    })
}

/// Returns the value of `tls-server-end-point` (RFC 5929 §4.1): the certificate's hash by the hash
/// of its signature, SHA-256 in place of MD5 and SHA-1. `None` where the signature has no such hash
/// (Ed25519), for which the RFC defines no value.
///
/// # Errors
///
/// [`SettingsError::BadCertificate`].
pub(super) fn end_point(der: &CertificateDer<'_>) -> Result<Option<Vec<u8>>, SettingsError> {
    let certificate = parse(der)?;
    let algorithm = &certificate.signature_algorithm;
    let oid = algorithm.algorithm.to_id_string();
    let hash = if oid == RSASSA_PSS {
        // The parameters name the hash; SHA-1 is meant where they don't (RFC 4055 §3.1).
        let params = algorithm.parameters.as_ref().and_then(|any| RsaSsaPssParams::try_from(any).ok());
        params.map_or(Some(&digest::SHA256), |params| hash_of(&params.hash_algorithm_oid().to_id_string()))
    } else {
        hash_of(&oid)
    };
    Ok(hash.map(|hash| digest::digest(hash, der).as_ref().to_vec()))
}

fn parse(der: &[u8]) -> Result<X509Certificate<'_>, SettingsError> {
    match x509_parser::parse_x509_certificate(der) {
        Ok((_, certificate)) => Ok(certificate),
        Err(error) => Err(SettingsError::BadCertificate(error.to_string())),
    }
}

/// Returns the hash for a signature algorithm, or for a hash algorithm itself.
fn hash_of(oid: &str) -> Option<&'static digest::Algorithm> {
    Some(match oid {
        // md5WithRSA, sha1WithRSA, ecdsa-with-SHA1, SHA-1; then RSA, ECDSA and the hash itself.
        "1.2.840.113549.1.1.4" | "1.2.840.113549.1.1.5" | "1.2.840.10045.4.1" | "1.3.14.3.2.26" => &digest::SHA256,
        "1.2.840.113549.1.1.14" | "1.2.840.10045.4.3.1" | "2.16.840.1.101.3.4.2.4" => &digest::SHA224,
        "1.2.840.113549.1.1.11" | "1.2.840.10045.4.3.2" | "2.16.840.1.101.3.4.2.1" => &digest::SHA256,
        "1.2.840.113549.1.1.12" | "1.2.840.10045.4.3.3" | "2.16.840.1.101.3.4.2.2" => &digest::SHA384,
        "1.2.840.113549.1.1.13" | "1.2.840.10045.4.3.4" | "2.16.840.1.101.3.4.2.3" => &digest::SHA512,
        _ => return None,
    })
}

const RSASSA_PSS: &str = "1.2.840.113549.1.1.10";

/// `ub-common-name` of RFC 5280 appendix A.
const MAX_COMMON_NAME: usize = 64;

const DAY: u64 = 24 * 60 * 60;
const TEN_YEARS: u64 = 3_652 * DAY;

/// The last day whose certificate still ends in a year of four digits: 9980.
const MAX_NOW: u64 = 8_010 * 31_556_952;

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_800_000_000;

    fn domains(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn a_made_certificate_says_what_was_asked() {
        let made = self_signed(&domains(&["Example.org.", "bücher.example"]), NOW).unwrap();
        let seen = inspect(made.certificate.as_bytes()).unwrap();
        assert_eq!(seen.names, ["example.org", "xn--bcher-kva.example"]);
        assert!(seen.self_signed);
        assert_eq!(seen.not_before, (NOW - DAY) as i64);
        assert_eq!(seen.not_after - seen.not_before, TEN_YEARS as i64);
        assert!(seen.covers("BÜCHER.example") && seen.covers("example.org"));
        assert!(!seen.covers("chat.example.org"));
        assert!(made.key.starts_with("-----BEGIN PRIVATE KEY-----"));
    }

    #[test]
    fn wildcards_stand_for_one_label() {
        let seen = Inspection { not_before: 0, not_after: 1, names: domains(&["*.example.org"]), self_signed: false };
        assert!(seen.covers("chat.example.org"));
        assert!(!seen.covers("example.org") && !seen.covers("a.chat.example.org"));
    }

    #[test]
    fn odd_input_is_refused_not_believed() {
        assert!(matches!(self_signed(&[], NOW), Err(SettingsError::NoIdentity)));
        assert!(matches!(self_signed(&domains(&[""]), NOW), Err(SettingsError::BadDomain(_))));
        assert!(self_signed(&domains(&[&"a".repeat(63)]), u64::MAX).is_ok());
        assert!(matches!(inspect(b"nothing"), Err(SettingsError::BadCertificate(_))));
        let broken = b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        assert!(matches!(inspect(broken), Err(SettingsError::BadCertificate(_))));
    }

    fn signed_with(algorithm: &'static rcgen::SignatureAlgorithm) -> CertificateDer<'static> {
        let key = KeyPair::generate_for(algorithm).unwrap();
        let params = CertificateParams::new(domains(&["example.org"])).unwrap();
        params.self_signed(&key).unwrap().der().clone()
    }

    /// RFC 5929 §4.1.
    #[test]
    fn end_point_follows_the_signature() {
        let p256 = signed_with(&rcgen::PKCS_ECDSA_P256_SHA256);
        let expected = digest::digest(&digest::SHA256, &p256);
        assert_eq!(end_point(&p256).unwrap().as_deref(), Some(expected.as_ref()));
        let p384 = signed_with(&rcgen::PKCS_ECDSA_P384_SHA384);
        assert_eq!(end_point(&p384).unwrap().map(|value| value.len()), Some(48));
        assert_eq!(end_point(&signed_with(&rcgen::PKCS_ED25519)).unwrap(), None);
        assert_eq!(hash_of("1.2.840.113549.1.1.5"), Some(&digest::SHA256));
        assert_eq!(hash_of("1.2.840.113549.1.1.13"), Some(&digest::SHA512));
    }
}
