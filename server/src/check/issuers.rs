//! Checks the CAA records of DNS (RFC 8659): an authority reads them before it issues a
//! certificate, and issues none to a domain whose records name only others.

use rookery_resolver::{IssueRecord, Lookups};

use super::{ACME, CheckReport};
use crate::acme;
use crate::config::ServerConfig;
use crate::federation;

/// Checks whether DNS lets the authority issue the certificates of a configuration.
pub(super) fn look(report: &mut CheckReport, config: &ServerConfig) {
    let wanted = acme::wanted_certificates(config);
    if wanted.is_empty() || !config.acme.enabled {
        return;
    }
    let lookups = match Lookups::new(&federation::dns_settings(config, None)) {
        Ok(lookups) => lookups,
        Err(failure) => return report.warn(ACME, format!("DNS can't be asked: {failure}")),
    };
    let directory = &config.acme.directory;
    for name in wanted.iter().flat_map(|wanted| &wanted.names).filter(|name| name.contains('.')) {
        let found = match lookups.issues(name) {
            Ok(Some(found)) => found,
            Ok(None) => {
                report.note(ACME, format!("no CAA record restricts who issues certificates for {name}"));
                continue;
            }
            Err(_) => {
                report.warn(
                    ACME,
                    format!("DNS doesn't answer about CAA records of {name}: no authority will issue a certificate"),
                );
                continue;
            }
        };
        let (holder, records) = found;
        let Some(issuer) = issuer(directory) else {
            let named: Vec<_> = records.iter().map(|record| format!("{} {:?}", record.tag, record.value)).collect();
            let named = named.join(", ");
            report.note(
                ACME,
                format!("the CAA records of {holder} are: {named}; they must name the authority of {directory}"),
            );
            continue;
        };
        match refusal(&records, issuer) {
            None => report.note(ACME, format!("the CAA records of {holder} let {issuer} issue for {name}")),
            Some(why) => report.warn(
                ACME,
                format!(
                    "{issuer} won't issue for {name}: {why}; add the record `{holder}. IN CAA 0 issue \"{issuer}\"`"
                ),
            ),
        }
    }
}

/// Returns why an authority that tries names by HTTP must not issue; `None` if it may.
fn refusal(records: &[IssueRecord], issuer: &str) -> Option<String> {
    if let Some(unknown) = records.iter().find(|record| record.is_critical && !TAGS.contains(&record.tag.as_str())) {
        return Some(format!("a CAA record has the unknown critical tag {:?}", unknown.tag));
    }
    let mut allowed =
        records.iter().filter(|record| record.tag == "issue").map(|record| record.value.as_str()).peekable();
    allowed.peek()?;
    let (mut others, mut has_other_method) = (Vec::new(), false);
    for value in allowed {
        let mut parts = value.split(';').map(str::trim);
        let named = parts.next().unwrap_or_default();
        if !named.eq_ignore_ascii_case(issuer) {
            others.push(if named.is_empty() { "nobody" } else { named });
            continue;
        }
        // RFC 8657 §4.
        let methods =
            parts.filter_map(|part| part.split_once('=')).find(|(name, _)| name.trim() == "validationmethods");
        match methods {
            Some((_, methods)) if methods.split(',').all(|method| method.trim() != METHOD) => has_other_method = true,
            _ => return None,
        }
    }
    Some(match has_other_method {
        true => format!("its CAA record allows other methods than {METHOD} (validationmethods)"),
        false => format!("the CAA records allow {}", others.join(", ")),
    })
}

/// Returns the name under which CAA records know the authority of a directory, if it is a known
/// one.
fn issuer(directory: &str) -> Option<&'static str> {
    let (_, rest) = directory.split_once("://")?;
    let host = rest.split(['/', ':']).next()?;
    let is_of = |domain: &str| host.strip_suffix(domain).is_some_and(|front| front.is_empty() || front.ends_with('.'));
    ISSUERS.iter().find(|(domain, _)| is_of(domain)).map(|(_, issuer)| *issuer)
}

/// The domains of authorities' directories, each with the name of the authority in CAA records.
const ISSUERS: [(&str, &str); 6] = [
    ("letsencrypt.org", "letsencrypt.org"),
    ("zerossl.com", "sectigo.com"),
    ("sectigo.com", "sectigo.com"),
    ("pki.goog", "pki.goog"),
    ("ssl.com", "ssl.com"),
    ("digicert.com", "digicert.com"),
];
/// The tags that authorities know (RFC 8659 §4.2 to §4.4).
const TAGS: [&str; 3] = ["issue", "issuewild", "iodef"];
/// The method by which names are tried (RFC 8555 §8.3).
const METHOD: &str = "http-01";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_authority_issues_if_it_is_named_or_nobody_is() {
        let record =
            |is_critical, tag: &str, value: &str| IssueRecord { is_critical, tag: tag.into(), value: value.into() };
        let issue = |value: &str| record(false, "issue", value);
        for (records, words) in [
            (vec![], None),
            (vec![record(false, "iodef", "mailto:a@example.org")], None),
            (vec![issue("other.example"), issue("LetsEncrypt.org")], None),
            (vec![issue("letsencrypt.org; validationmethods=dns-01,http-01")], None),
            (vec![issue("letsencrypt.org; validationmethods=dns-01")], Some("validationmethods")),
            (vec![issue("other.example")], Some("allow other.example")),
            (vec![issue(";")], Some("allow nobody")),
            (vec![issue("letsencrypt.org"), record(true, "future", "x")], Some("critical tag")),
        ] {
            match (refusal(&records, "letsencrypt.org"), words) {
                (None, None) => {}
                (Some(found), Some(words)) => assert!(found.contains(words), "{records:?}: {found}"),
                (found, _) => panic!("{records:?}: {found:?}"),
            }
        }
    }

    #[test]
    fn known_directories_have_the_names_of_their_authorities() {
        assert_eq!(issuer("https://acme-staging-v02.api.letsencrypt.org/directory"), Some("letsencrypt.org"));
        assert_eq!(issuer("https://acme.zerossl.com/v2/DV90"), Some("sectigo.com"));
        assert_eq!(issuer("https://notletsencrypt.org/directory"), None);
        assert_eq!(issuer("https://127.0.0.1:14000/dir"), None);
    }
}
