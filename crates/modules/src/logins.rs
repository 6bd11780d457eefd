//! The modules that suit a domain by its clients' way of logging in.
//!
//! Accounts of an anonymous domain (XEP-0175) last for one session, and the store knows nothing of
//! them: a module that stores something for accounts makes no sense there, and features that cost
//! the operator something are off unless requested. If an outside source vouches for logins,
//! accounts and passwords can't be created here, and tokens that outlive the source's decision are
//! off unless the operator wants them.

use rookery_hub::fast::MODULE as FAST;
use rookery_stream::c2s::LoginKind;

/// A module's availability in a domain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoginPlace {
    /// It is on in the domain if it is on for all domains.
    Usual,
    /// It is off unless the domain's own table switches it on.
    OnRequest,
    /// It stays off, even if the domain's own table has it.
    Never,
}

/// Returns the availability of a module in a domain with such logins.
pub fn place(login: LoginKind, module: &str) -> LoginPlace {
    match login {
        LoginKind::Own => LoginPlace::Usual,
        LoginKind::Anonymous if USUAL.contains(&module) => LoginPlace::Usual,
        LoginKind::Anonymous if ON_REQUEST.contains(&module) => LoginPlace::OnRequest,
        LoginKind::Anonymous => LoginPlace::Never,
        LoginKind::Source { .. } if module == "register" => LoginPlace::Never,
        LoginKind::Source { .. } if module == FAST => LoginPlace::OnRequest,
        LoginKind::Source { .. } => LoginPlace::Usual,
    }
}

/// Modules that store nothing for accounts. Modules listed neither here nor below can't be on in an
/// anonymous domain.
const USUAL: [&str; 16] = [
    "administration",
    "announce",
    "caps",
    "carbons",
    "client_state",
    "commands",
    "contact",
    "disco",
    "ping",
    "rooms",
    "rtbl",
    "sasl2",
    "sic",
    "time",
    "version",
    "visits",
];

/// Modules that could serve strangers, at the operator's expense.
const ON_REQUEST: [&str; 5] = ["bytestreams", "data", "external_services", "multicast", "pubsub"];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Shared, table};

    #[test]
    fn each_listed_module_exists_and_is_listed_once() {
        let modules: Vec<&str> = table(&Shared::default()).iter().map(|module| module.name()).collect();
        for name in USUAL.into_iter().chain(ON_REQUEST).chain([FAST, "register"]) {
            assert!(modules.contains(&name), "{name} isn't a module");
        }
        assert!(USUAL.iter().all(|name| !ON_REQUEST.contains(name)));
        let kept = ["archive", "offline", "privacy", "private", "push", "register", "shared_roster", "upload", "vcard"];
        for name in kept {
            assert!(modules.contains(&name), "{name} isn't a module");
            assert_eq!(place(LoginKind::Anonymous, name), LoginPlace::Never, "{name}");
        }
    }
}
