//! Judges certificates by TLSA records in the signed zone of a server (DANE, RFC 6698, RFC 7671,
//! RFC 7673).
//!
//! # Invariants
//!
//! - Records come only from answers that a trusted name server has validated; signatures aren't
//!   checked here.
//! - If there are usable records, one of them has to match: no authority can replace it.
//! - A record takes the same memory whatever the zone says, and the number of records is bounded,
//!   so that a stranger's zone can't fill the memory.
//! - Each kind of record follows one path to anchors at most, within webpki's own bounds.

use std::fmt;

use aws_lc_rs::digest::{self, SHA256, SHA512};
use rustls::pki_types::{CertificateDer, TrustAnchor};
use webpki::{Error, VerifiedPath};

use super::super::settings::ascii_domain;
use super::{Names, Trust, Untrusted, follow};

/// The usable TLSA records of one port of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Associations {
    /// The domain that the server is of.
    domain: String,
    host: String,
    port: u16,
    all: Vec<Association>,
}

/// One TLSA record: a digest of a certificate, or of its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Association {
    usage: Usage,
    selector: Selector,
    /// The matching type of the record, for operators.
    matching: u8,
    digest: Hashed,
}

/// The part of a certificate's chain that a record is about (RFC 7218 §2.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Usage {
    /// An authority's certificate on a path that is also valid without the record.
    PkixTa = 0,
    /// The server's own certificate, which is also valid without the record.
    PkixEe = 1,
    /// An authority that the zone names.
    DaneTa = 2,
    /// The server's own certificate, without any other condition.
    DaneEe = 3,
}

/// The part of a certificate that a record is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Selector {
    Certificate = 0,
    /// The `SubjectPublicKeyInfo`.
    Key = 1,
}

/// The digests of a certificate that a peer has shown, with which a record may agree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fingerprints {
    certificate: [Hashed; 2],
    /// `None` if it isn't a certificate.
    key: Option<[Hashed; 2]>,
}

#[derive(Clone, PartialEq, Eq)]
enum Hashed {
    Sha256([u8; 32]),
    Sha512([u8; 64]),
}

impl Associations {
    /// Takes the records of the host and port of a domain's server. Returns `None` if there are
    /// none: then certificates are judged as if DNS said nothing (RFC 6698 §4.1). Records beyond
    /// [`MOST`] are ignored.
    pub fn new(domain: &str, host: &str, port: u16, records: impl IntoIterator<Item = Association>) -> Option<Self> {
        let all: Vec<_> = records.into_iter().take(MOST).collect();
        let host = host.trim_end_matches('.').to_ascii_lowercase();
        (!all.is_empty()).then(|| Self { domain: domain.to_owned(), host, port, all })
    }

    /// Returns the name in DNS that has the records.
    pub fn name(&self) -> String {
        format!("_{}._tcp.{}.", self.port, self.host)
    }

    /// Returns the records, for operators.
    pub fn iter(&self) -> impl Iterator<Item = &Association> {
        self.all.iter()
    }

    /// Returns the names that a caller proves by having shown this certificate: the domain, for a
    /// day at most. Only records about a server's own certificate without any other condition count
    /// (usage 3). The caller doesn't come from the port that they are for, but a server with the
    /// key is the domain's server. Returns `None` if no record is about the certificate.
    pub fn of_caller(&self, shown: &Fingerprints) -> Option<Names> {
        let is_named = self.of(Usage::DaneEe).any(|association| association.is_about(shown));
        is_named.then(|| self.names()).filter(|names| names.cover(&self.domain))
    }

    /// Returns the names of the server that has the domain's certificate.
    fn names(&self) -> Names {
        let exact = ascii_domain(&self.domain).into_iter().collect();
        Names { exact, valid_s: DAY_S, is_associated: true, ..Names::default() }
    }

    fn of(&self, usage: Usage) -> impl Iterator<Item = &Association> {
        self.all.iter().filter(move |association| association.usage == usage)
    }
}

impl Fingerprints {
    /// Takes the digests of a certificate in DER, or of bytes in its place.
    pub fn of(der: &[u8]) -> Option<Self> {
        let hashes = |content: &[u8]| {
            let long = digest::digest(&SHA512, content).as_ref().try_into().ok()?;
            Some([Hashed::Sha256(sha256(content)?), Hashed::Sha512(long)])
        };
        let parsed = x509_parser::parse_x509_certificate(der);
        let key = parsed.ok().and_then(|(_, certificate)| hashes(certificate.tbs_certificate.subject_pki.raw));
        Some(Self { certificate: hashes(der)?, key })
    }
}

impl Association {
    /// Reads the fields of a record (RFC 6698 §2.1). Returns `None` if it can't be used: its usage,
    /// selector or matching type is unknown, or its digest has the wrong length.
    pub fn read(usage: u8, selector: u8, matching: u8, data: &[u8]) -> Option<Self> {
        let usage = match usage {
            0 => Usage::PkixTa,
            1 => Usage::PkixEe,
            2 => Usage::DaneTa,
            3 => Usage::DaneEe,
            _ => return None,
        };
        let selector = match selector {
            0 => Selector::Certificate,
            1 => Selector::Key,
            _ => return None,
        };
        let digest = match matching {
            0 if !data.is_empty() => Hashed::Sha256(sha256(data)?),
            1 => Hashed::Sha256(data.try_into().ok()?),
            2 => Hashed::Sha512(data.try_into().ok()?),
            _ => return None,
        };
        Some(Self { usage, selector, matching, digest })
    }

    /// Returns whether the record is about the certificate that has these digests.
    fn is_about(&self, shown: &Fingerprints) -> bool {
        match self.selector {
            Selector::Certificate => shown.certificate.contains(&self.digest),
            Selector::Key => shown.key.as_ref().is_some_and(|key| key.contains(&self.digest)),
        }
    }

    /// Returns whether the record is about a certificate.
    fn is_of(&self, der: &[u8]) -> bool {
        match self.selector {
            Selector::Certificate => self.digest.is_of(der),
            Selector::Key => x509_parser::parse_x509_certificate(der)
                .is_ok_and(|(_, certificate)| self.digest.is_of(certificate.tbs_certificate.subject_pki.raw)),
        }
    }
}

impl fmt::Display for Association {
    /// Writes the record as zones do, with the beginning of its digest.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {} {:?}", self.usage as u8, self.selector as u8, self.matching, self.digest)
    }
}

impl Hashed {
    fn is_of(&self, content: &[u8]) -> bool {
        match self {
            Self::Sha256(expected) => digest::digest(&SHA256, content).as_ref() == expected,
            Self::Sha512(expected) => digest::digest(&SHA512, content).as_ref() == expected,
        }
    }

    fn bytes(&self) -> &[u8] {
        match self {
            Self::Sha256(bytes) => bytes,
            Self::Sha512(bytes) => bytes,
        }
    }
}

impl fmt::Debug for Hashed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.bytes().iter().take(8).try_for_each(|byte| write!(f, "{byte:02x}"))?;
        f.write_str("…")
    }
}

impl Trust {
    /// Returns the names that a chain proves by the records of the server that has shown it, and by
    /// the authorities as far as the records ask for them. The domain is one of the names, and what
    /// is proven holds for a day at most: then DNS is to be asked again.
    ///
    /// # Errors
    ///
    /// [`Untrusted::Unassociated`] if none of the records holds.
    pub fn judge_associated(
        &self,
        chain: &[&[u8]],
        associations: &Associations,
        unix_seconds: u64,
    ) -> Result<Names, Untrusted> {
        let domain = &associations.domain;
        let own = chain.first().copied().unwrap_or_default();
        let names = if associations.of(Usage::DaneEe).any(|association| association.is_of(own)) {
            // Neither names nor dates of the certificate count: the record is about this one
            // server, and ends when the zone says so (RFC 7671 §5.1).
            Some(Names { valid_s: DAY_S, ..Names::default() })
        } else {
            let is_named = |names: &Names| names.cover(domain) || names.cover(&associations.host);
            let by_anchor = by_anchors(chain, associations, unix_seconds).filter(is_named);
            by_anchor.or_else(|| self.by_constraints(chain, associations, unix_seconds).filter(is_named))
        };
        let Some(mut names) = names else { return Err(Untrusted::Unassociated(associations.name())) };
        names.exact.extend(ascii_domain(domain));
        names.valid_s = names.valid_s.min(DAY_S);
        names.is_associated = true;
        Ok(names)
    }

    /// Follows the chain to a trusted authority, by a path that one of the records is about.
    fn by_constraints(&self, chain: &[&[u8]], associations: &Associations, unix_seconds: u64) -> Option<Names> {
        let mut constraints = associations.of(Usage::PkixTa).chain(associations.of(Usage::PkixEe)).peekable();
        constraints.peek()?;
        let own = chain.first()?;
        let is_meant = |path: &VerifiedPath<'_>| {
            let of_own = associations.of(Usage::PkixEe).any(|association| association.is_of(own));
            let of_path = associations.of(Usage::PkixTa).any(|association| association.is_on(path, chain));
            if of_own || of_path { Ok(()) } else { Err(Error::UnknownIssuer) }
        };
        follow(&self.anchors, chain, unix_seconds, Some(&is_meant)).ok()
    }
}

/// Follows the chain to one of the certificates in it that the zone names as authorities (RFC 7671
/// §5.2). The server has to show them.
fn by_anchors(chain: &[&[u8]], associations: &Associations, unix_seconds: u64) -> Option<Names> {
    associations.of(Usage::DaneTa).next()?;
    let named: Vec<CertificateDer<'_>> = chain
        .iter()
        .skip(1)
        .take(MOST_LINKS)
        .filter(|der| associations.of(Usage::DaneTa).any(|association| association.is_of(der)))
        .map(|der| CertificateDer::from(*der))
        .collect();
    let anchors: Vec<_> = named.iter().filter_map(|der| webpki::anchor_from_trusted_cert(der).ok()).collect();
    follow(&anchors, chain, unix_seconds, None).ok()
}

impl Association {
    /// Returns whether the record is about an authority on this path: an intermediate one, or the
    /// trusted one, which servers needn't show.
    fn is_on(&self, path: &VerifiedPath<'_>, chain: &[&[u8]]) -> bool {
        let between = path.intermediate_certificates().any(|link| self.is_of(&link.der()));
        let anchor = path.anchor();
        let by_key = self.selector == Selector::Key && self.digest.is_of(&sequence(&anchor.subject_public_key_info));
        let is_anchor = |der: &&&[u8]| {
            let der = CertificateDer::from(**der);
            webpki::anchor_from_trusted_cert(&der).is_ok_and(|shown| is_same(&shown, anchor))
        };
        between || by_key || chain.iter().skip(1).take(MOST_LINKS).filter(is_anchor).any(|der| self.is_of(der))
    }
}

fn is_same(one: &TrustAnchor<'_>, other: &TrustAnchor<'_>) -> bool {
    one.subject == other.subject && one.subject_public_key_info == other.subject_public_key_info
}

/// Returns a SEQUENCE with this content in DER, shorter than 64 KiB.
fn sequence(content: &[u8]) -> Vec<u8> {
    let [.., high, low] = content.len().to_be_bytes();
    let head: &[u8] = match content.len() {
        0..=0x7f => &[SEQUENCE, low],
        0x80..=0xff => &[SEQUENCE, 0x81, low],
        _ => &[SEQUENCE, 0x82, high, low],
    };
    [head, content].concat()
}

fn sha256(content: &[u8]) -> Option<[u8; 32]> {
    digest::digest(&SHA256, content).as_ref().try_into().ok()
}

/// The most records of a name that are used.
pub const MOST: usize = 32;
/// The most certificates after a server's own that are used.
const MOST_LINKS: usize = 8;
/// The time after which DNS is to be asked again.
const DAY_S: u64 = 24 * 60 * 60;
const SEQUENCE: u8 = 0x30;

#[cfg(test)]
mod tests;
