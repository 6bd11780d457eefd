//! The options after a database's address, `?KEY=VALUE&…`: those that drivers and tools of other
//! programs know. An option that wouldn't be honoured is refused, with the setting that takes its
//! place.

/// Returns the keys of the options of an address, as they are written.
pub(crate) fn keys(options: &str) -> impl Iterator<Item = &str> {
    let pairs = options.split('&').filter(|pair| !pair.is_empty());
    pairs.map(|pair| pair.split_once('=').map_or(pair, |(key, _)| key))
}

/// Returns the error for an option that isn't accepted, with what to do instead. `others` says
/// which options are accepted.
pub(crate) fn refusal(key: &str, others: &str) -> String {
    let lower = key.to_ascii_lowercase().replace('_', "-");
    let is_any = |beginnings: &[&str]| beginnings.iter().any(|beginning| lower.starts_with(beginning));
    let instead = if is_any(&["sslcert", "sslkey", "ssl-cert", "ssl-key", "sslcrl", "ssl-crl"]) {
        "the server doesn't log in to databases by a certificate"
    } else if is_any(&["sslroot", "ssl-ca", "tls-ca"]) {
        "`tls_authorities` in [store] names the authorities"
    } else if is_any(&["ssl", "tls", "use-ssl", "usessl", "require-ssl", "verify-", "built-in-roots"]) {
        "`tls` in [store] says whether the connection is encrypted, which it is by default, unless all hosts are this machine"
    } else if is_any(&["application-name", "fallback-application-name"]) {
        "the server names its sessions itself, in order to find its own"
    } else if is_any(&["connect-timeout", "tcp-", "keepalive", "wait-timeout", "pool-", "inactive-"]) {
        "the server has its own time limits"
    } else if is_any(&["target-session-attrs", "load-balance-hosts"]) {
        "the server looks for a host that can be written to"
    } else if is_any(&["host", "port"]) {
        "hosts and their ports stand before the slash"
    } else {
        others
    };
    format!("the option {key:?} isn't taken in the address: {instead}; leave it out")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_refused_is_told_with_what_is_right() {
        for (key, right) in [
            ("sslmode", "`tls` in [store]"),
            ("require_ssl", "`tls` in [store]"),
            ("ssl-mode", "`tls` in [store]"),
            ("sslrootcert", "`tls_authorities` in [store]"),
            ("sslcert", "by a certificate"),
            ("application_name", "names its sessions"),
            ("keepalives_idle", "time limits"),
            ("target_session_attrs", "can be written to"),
            ("port", "before the slash"),
            ("other", "there are none"),
        ] {
            let told = refusal(key, "there are none");
            assert!(told.contains(right) && told.contains(key), "{told}");
        }
        assert_eq!(keys("a=1&b&&c=x=y").collect::<Vec<_>>(), ["a", "b", "c"]);
        assert_eq!(keys("").count(), 0);
    }
}
