//! Judges the certificates of other servers (RFC 6120 §13.7.2, RFC 9525, RFC 5280).
//!
//! Handshakes between servers succeed with any certificate, as long as the peer has its key: at
//! that time it isn't known yet which domain the certificate has to be for, and an operator may
//! allow dialback instead. [`Trust::judge`] says afterwards what a chain proves.
//!
//! # Invariants
//!
//! - Names count only if the chain leads to an anchor, and within their validity.
//! - A name is in the `subjectAltName`: `dNSName`, SRVName of `_xmpp-server`, or `xmppAddr` of a
//!   bare domain. The common name, addresses of mail and URIs never count.
//! - A wildcard is a whole left-most label of a `dNSName` and stands for one label.
//! - The same rule holds for both directions: authorities no longer issue `clientAuth`, so
//!   `serverAuth` is what a server's certificate is for on either side.
//!
//! # Layout
//!
//! `tlsa` judges by TLSA records in DNS, instead of authorities or in addition to them.

use std::time::Duration;
use std::{fmt, str};

use rustls::RootCertStore;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, TrustAnchor, UnixTime};
use webpki::{EndEntityCert, Error, ExtendedKeyUsageValidator, KeyPurposeId, KeyPurposeIdIter, KeyUsage, VerifiedPath};
use x509_parser::extensions::GeneralName;

use super::settings::ascii_domain;

pub mod tlsa;

/// The authorities whose certificates are trusted.
#[derive(PartialEq, Eq)]
pub struct Trust {
    anchors: Vec<TrustAnchor<'static>>,
}

impl Trust {
    /// Takes certificates of authorities in DER; anything else is left out.
    pub fn new(authorities: impl IntoIterator<Item = Vec<u8>>) -> Self {
        let anchors = authorities.into_iter().filter_map(|der| {
            let der = CertificateDer::from(der);
            webpki::anchor_from_trusted_cert(&der).ok().map(|anchor| anchor.to_owned())
        });
        Self { anchors: anchors.collect() }
    }

    /// Reads the certificates of authorities from PEM text, in DER for [`Trust::new`].
    ///
    /// # Errors
    ///
    /// The fault in the text, for the operator; a text without a certificate is a fault, too.
    pub fn read_pem(pem: &[u8]) -> Result<Vec<Vec<u8>>, String> {
        let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
        let read = read.map_err(|error| error.to_string())?;
        if read.is_empty() {
            return Err("there is no certificate in it".to_owned());
        }
        Ok(read.into_iter().map(|der| der.to_vec()).collect())
    }

    /// Returns the authorities for a library that verifies by itself.
    pub fn roots(&self) -> RootCertStore {
        RootCertStore { roots: self.anchors.clone() }
    }

    /// Returns the number of trusted authorities.
    pub fn len(&self) -> usize {
        self.anchors.len()
    }

    /// Returns whether no authority is trusted.
    pub fn is_empty(&self) -> bool {
        self.anchors.is_empty()
    }

    /// Returns the names that a chain proves at a moment, in seconds since 1970. The peer's own
    /// certificate comes first.
    ///
    /// The work is bounded: webpki follows six intermediate certificates at most and counts what it
    /// checks.
    ///
    /// # Errors
    ///
    /// [`Untrusted`], in words for the operator's log.
    pub fn judge(&self, chain: &[&[u8]], unix_seconds: u64) -> Result<Names, Untrusted> {
        follow(&self.anchors, chain, unix_seconds, None)
    }
}

/// A condition on a path, in addition to those that hold for all paths.
type IsMeant<'a> = &'a dyn Fn(&VerifiedPath<'_>) -> Result<(), Error>;

/// Follows a chain to one of these anchors, by a path that `is_meant` accepts, and returns the
/// names of its first certificate.
fn follow(
    anchors: &[TrustAnchor<'_>],
    chain: &[&[u8]],
    unix_seconds: u64,
    is_meant: Option<IsMeant<'_>>,
) -> Result<Names, Untrusted> {
    let chain: Vec<CertificateDer<'_>> = chain.iter().map(|der| CertificateDer::from(*der)).collect();
    let Some((own, intermediates)) = chain.split_first() else { return Err(Untrusted::Missing) };
    let end_entity = EndEntityCert::try_from(own).map_err(|error| Untrusted::Invalid(error.to_string()))?;
    let time = UnixTime::since_unix_epoch(Duration::from_secs(unix_seconds));
    let algorithms = aws_lc_rs::default_provider().signature_verification_algorithms.all;
    end_entity
        .verify_for_usage(algorithms, anchors, intermediates, time, ForServers, None, is_meant)
        .map_err(|error| Untrusted::because(&error))?;
    Names::read(own, unix_seconds).ok_or_else(|| Untrusted::Invalid("its names can't be read".to_owned()))
}

impl fmt::Debug for Trust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Trust").field("anchors", &self.anchors.len()).finish()
    }
}

/// The reason why a certificate proves nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Untrusted {
    /// The peer has shown no certificate.
    Missing,
    /// It has expired, by our clock.
    Expired,
    /// It isn't valid yet.
    NotYetValid,
    /// No trusted authority has issued it: it is self-signed, of an unknown authority, or comes
    /// without the certificates in between.
    UnknownIssuer,
    /// It is meant for other uses than servers.
    OtherUse,
    /// DNS names the certificates of the server, under this name, and it is none of them.
    Unassociated(String),
    /// It is broken in another way.
    Invalid(String),
}

impl Untrusted {
    fn because(error: &Error) -> Self {
        match error {
            Error::CertExpired { .. } => Self::Expired,
            Error::CertNotValidYet { .. } => Self::NotYetValid,
            // The second is for an authority that has the name of one of ours and another key.
            Error::UnknownIssuer | Error::InvalidSignatureForPublicKey => Self::UnknownIssuer,
            Error::RequiredEkuNotFoundContext(_) => Self::OtherUse,
            error => Self::Invalid(error.to_string()),
        }
    }
}

impl fmt::Display for Untrusted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => f.write_str("it has shown no certificate"),
            Self::Expired => f.write_str("its certificate has expired"),
            Self::NotYetValid => f.write_str("its certificate is not valid yet"),
            Self::UnknownIssuer => f.write_str(
                "no trusted authority issued its certificate, or it doesn't show the certificates in between",
            ),
            Self::OtherUse => f.write_str("its certificate is not for servers"),
            Self::Unassociated(name) => write!(f, "its certificate is not among the TLSA records of {name}"),
            Self::Invalid(reason) => write!(f, "its certificate is invalid: {reason}"),
        }
    }
}

impl std::error::Error for Untrusted {}

/// The names in a certificate whose chain was followed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Names {
    /// `dNSName`s in lower case, wildcards included.
    dns: Vec<String>,
    /// The domains of `_xmpp-server` SRVNames and of `xmppAddr`s, as A-labels.
    exact: Vec<String>,
    /// Seconds for which the certificate is valid, from the moment at which it was judged.
    valid_s: u64,
    /// True if DNS has named the certificate or its authority.
    is_associated: bool,
}

impl Names {
    /// Makes the names of a certificate with these `dNSName`s, for tests that have no certificate.
    pub fn of(dns: &[&str]) -> Self {
        let dns = dns.iter().map(|name| name.to_ascii_lowercase()).collect();
        Self { dns, valid_s: u64::MAX, ..Self::default() }
    }

    /// Returns the same names, valid for this number of seconds, for tests that have no
    /// certificate.
    pub fn for_seconds(self, valid_s: u64) -> Self {
        Self { valid_s, ..self }
    }

    /// Returns the seconds for which the certificate is valid, from the moment of the verdict.
    pub fn valid_s(&self) -> u64 {
        self.valid_s
    }

    /// Returns whether DNS has named the certificate or its authority (DANE), for at least one of
    /// the names.
    pub fn is_associated(&self) -> bool {
        self.is_associated
    }

    /// Returns whether the certificate is for this domain.
    pub fn cover(&self, domain: &str) -> bool {
        let Ok(domain) = ascii_domain(domain) else { return false };
        let parent = domain.split_once('.').map(|(_, parent)| parent);
        let by_dns = self.dns.iter().any(|name| match name.strip_prefix("*.") {
            // A wildcard over a whole top-level domain would be for everybody in it.
            Some(rest) => rest.contains('.') && Some(rest) == parent,
            None => *name == domain,
        });
        by_dns || self.exact.contains(&domain)
    }

    /// Adds names that were proven otherwise; all hold only for as long as each of them does.
    pub fn join(&mut self, other: Self) {
        for (all, more) in [(&mut self.dns, other.dns), (&mut self.exact, other.exact)] {
            for name in more {
                if !all.contains(&name) {
                    all.push(name);
                }
            }
        }
        self.valid_s = self.valid_s.min(other.valid_s);
        self.is_associated |= other.is_associated;
    }

    /// Reads the names that a certificate claims, without any proof: for operators to look at.
    /// Returns `None` if it isn't a certificate.
    pub fn read_claims(der: &[u8]) -> Option<Self> {
        Self::read(der, 0)
    }

    /// Returns all names, for log lines.
    pub fn all(&self) -> impl Iterator<Item = &str> {
        self.dns.iter().chain(&self.exact).map(String::as_str)
    }

    fn read(der: &[u8], unix_seconds: u64) -> Option<Self> {
        let (_, certificate) = x509_parser::parse_x509_certificate(der).ok()?;
        let ends = u64::try_from(certificate.validity().not_after.timestamp()).unwrap_or_default();
        let mut names = Self { valid_s: ends.saturating_sub(unix_seconds), ..Self::default() };
        let Some(extension) = certificate.subject_alternative_name().ok()? else { return Some(names) };
        for name in &extension.value.general_names {
            match name {
                GeneralName::DNSName(name) if is_host(name) => names.dns.push(name.to_ascii_lowercase()),
                GeneralName::OtherName(kind, value) => {
                    let domain = match kind.to_id_string().as_str() {
                        SRV_NAME => text_of(value, IA5_STRING).and_then(|name| name.strip_prefix("_xmpp-server.")),
                        XMPP_ADDR => text_of(value, UTF8_STRING).filter(|name| !name.contains(['@', '/', '*'])),
                        _ => None,
                    };
                    names
                        .exact
                        .extend(domain.filter(|name| !name.contains('*')).and_then(|name| ascii_domain(name).ok()));
                }
                _ => {}
            }
        }
        // The names are kept for as long as the stream.
        names.dns.shrink_to_fit();
        Some(names)
    }
}

/// Returns whether a `dNSName` is valid: A-labels, with `*` for nothing but the whole left-most
/// label.
fn is_host(name: &str) -> bool {
    let rest = name.strip_prefix("*.").unwrap_or(name);
    let is_label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
    };
    !rest.is_empty() && rest.len() <= 253 && rest.split('.').all(is_label)
}

/// Returns the string in the value of an `otherName`: `[0] EXPLICIT` and a string of one kind, with
/// short or one-byte lengths, which hold any domain.
fn text_of(value: &[u8], kind: u8) -> Option<&str> {
    let inner = content_of(value, EXPLICIT)?;
    str::from_utf8(content_of(inner, kind)?).ok()
}

/// Returns the content of a DER value that has this tag and nothing after it.
fn content_of(der: &[u8], tag: u8) -> Option<&[u8]> {
    let (&found, rest) = der.split_first()?;
    let (&length, rest) = rest.split_first()?;
    let (length, content) = match length {
        0..=0x7f => (usize::from(length), rest),
        0x81 => rest.split_first().map(|(&length, rest)| (usize::from(length), rest))?,
        0x82 => {
            let (high, rest) = rest.split_first()?;
            let (low, rest) = rest.split_first()?;
            (usize::from(*high) << 8 | usize::from(*low), rest)
        }
        _ => return None,
    };
    (found == tag && content.len() == length).then_some(content)
}

/// Accepts certificates for servers, for any use, or without a stated use.
struct ForServers;

impl ExtendedKeyUsageValidator for ForServers {
    fn validate(&self, purposes: KeyPurposeIdIter<'_, '_>) -> Result<(), Error> {
        let mut found = Vec::new();
        for purpose in purposes {
            let purpose = purpose?;
            if purpose == KeyPurposeId::new(SERVER_AUTH) || purpose == KeyPurposeId::new(ANY_USE) {
                return Ok(());
            }
            found.push(purpose.to_decoded_oid());
        }
        if found.is_empty() {
            return Ok(());
        }
        let required = KeyUsage::server_auth();
        Err(Error::RequiredEkuNotFoundContext(webpki::RequiredEkuNotFoundContext { required, present: found }))
    }
}

/// 1.3.6.1.5.5.7.3.1, `id-kp-serverAuth`.
const SERVER_AUTH: &[u8] = &[0x2b, 6, 1, 5, 5, 7, 3, 1];
/// 2.5.29.37.0, `anyExtendedKeyUsage`.
const ANY_USE: &[u8] = &[0x55, 0x1d, 0x25, 0];
/// `id-on-dnsSRV` (RFC 4985 §2).
const SRV_NAME: &str = "1.3.6.1.5.5.7.8.7";
/// `id-on-xmppAddr` (RFC 6120 §13.7.1.4).
const XMPP_ADDR: &str = "1.3.6.1.5.5.7.8.5";
const EXPLICIT: u8 = 0xa0;
const UTF8_STRING: u8 = 0x0c;
const IA5_STRING: u8 = 0x16;

#[cfg(test)]
mod tests;
