//! Reads the answers of name servers.
//!
//! An answer may contain records of other names, which the library passes on. Only records of the
//! requested name count, or of the name to which its aliases lead.

use std::net::IpAddr;

use hickory_resolver::net::NetError;
use hickory_resolver::proto::rr::{Name, RData, Record};
use rookery_federation::targets::SrvTarget;
use rookery_stream::tls::trust::tlsa::Association;

/// Returns the targets in an answer to a query for the SRV records of a name, without other
/// records.
pub fn targets(asked: &Name, answers: &[Record], direct_tls: bool) -> Vec<SrvTarget> {
    let targets = of_name(asked, answers).filter_map(|record| match &record.data {
        RData::SRV(srv) => Some(SrvTarget {
            priority: srv.priority,
            weight: srv.weight,
            ..SrvTarget::at(&srv.target.to_ascii(), srv.port, direct_tls)
        }),
        _ => None,
    });
    targets.collect()
}

/// Returns the addresses of a name in an answer, without other records.
pub fn addresses(asked: &Name, answers: &[Record]) -> Vec<IpAddr> {
    let addresses = of_name(asked, answers).filter_map(|record| match &record.data {
        RData::A(ip) => Some(IpAddr::V4(ip.0)),
        RData::AAAA(ip) => Some(IpAddr::V6(ip.0)),
        _ => None,
    });
    addresses.collect()
}

/// Returns the usable TLSA records of a name in an answer, without other records.
pub fn associations(asked: &Name, answers: &[Record]) -> Vec<Association> {
    let associations = of_name(asked, answers).filter_map(|record| match &record.data {
        RData::TLSA(tlsa) => {
            let [usage, selector, matching] =
                [u8::from(tlsa.cert_usage), u8::from(tlsa.selector), u8::from(tlsa.matching)];
            Association::read(usage, selector, matching, &tlsa.cert_data)
        }
        _ => None,
    });
    associations.collect()
}

/// A CAA record: who may issue certificates for a name (RFC 8659 §4.1).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IssueRecord {
    /// True if an authority that doesn't know the tag must not issue.
    pub is_critical: bool,
    /// The tag, in lower case, such as `issue`.
    pub tag: String,
    /// The value, such as `letsencrypt.org; validationmethods=http-01`.
    pub value: String,
}

/// Returns the CAA records of a name in an answer, without other records.
pub fn issues(asked: &Name, answers: &[Record]) -> Vec<IssueRecord> {
    let issues = of_name(asked, answers).filter_map(|record| match &record.data {
        RData::CAA(caa) => Some(IssueRecord {
            is_critical: caa.issuer_critical,
            tag: caa.tag.to_ascii_lowercase(),
            value: String::from_utf8_lossy(&caa.value).into_owned(),
        }),
        _ => None,
    });
    issues.collect()
}

/// Returns the records of a name, or of the name to which its aliases lead. The library also passes
/// on records of other names.
fn of_name<'a>(asked: &Name, answers: &'a [Record]) -> impl Iterator<Item = &'a Record> {
    let name = end_of_aliases(asked, answers);
    answers.iter().filter(move |record| record.name == name)
}

/// Returns the name to which the aliases in an answer lead from the requested name.
pub(crate) fn end_of_aliases(asked: &Name, answers: &[Record]) -> Name {
    let mut name = asked.clone();
    for _ in 0..MOST_ALIASES {
        let alias = answers.iter().filter(|record| record.name == name).find_map(|record| match &record.data {
            RData::CNAME(alias) => Some(alias.0.clone()),
            _ => None,
        });
        let Some(alias) = alias else { break };
        name = alias;
    }
    name
}

/// Returns whether this is the answer that there are no such records, rather than no answer.
pub(crate) fn is_none(error: &NetError) -> bool {
    use hickory_resolver::net::DnsError;
    use hickory_resolver::proto::op::ResponseCode;
    // A name server that refuses or fails says nothing about the name, although the library treats
    // that as an answer.
    match error {
        NetError::Dns(DnsError::NoRecordsFound(none)) => {
            matches!(none.response_code, ResponseCode::NoError | ResponseCode::NXDomain)
        }
        _ => false,
    }
}

/// The most aliases of a name that are followed.
const MOST_ALIASES: usize = 8;
