//! The server's own entities as service discovery and capabilities describe them: its domains and
//! their accounts.

use rookery_hub::{Domain, LoginBy, Registry, Target};
use rookery_modkit::disco::{DiscoIdentity, Info};
use rookery_pubsub::pep;
use rookery_xml::ns;

use crate::contact;
use crate::version::NAME;

/// Returns the identities and features of a domain.
pub(crate) fn of_server<'a>(registry: &Registry, domain: &Domain) -> Info<'a> {
    let mut features = registry.features(Target::Server, domain);
    features.extend(OF_THE_HUB);
    features.sort_unstable();
    features.dedup();
    let identity = DiscoIdentity { category: "server", type_: "im", name: Some(NAME) };
    Info { identity, more: personal_eventing(domain), features, forms: contact::forms(domain) }
}

/// Returns the identities and features of a domain's accounts.
pub(crate) fn of_account<'a>(registry: &Registry, domain: &Domain) -> Info<'a> {
    let type_ = match domain.login {
        LoginBy::Anonymous => "anonymous",
        LoginBy::Own | LoginBy::Source(_) => "registered",
    };
    let identity = DiscoIdentity { category: "account", type_, name: None };
    let features = registry.features(Target::Account, domain);
    Info { identity, more: personal_eventing(domain), features, forms: Vec::new() }
}

/// Returns the identity of accounts whose nodes are open to others (XEP-0163 §6.1). Their domain
/// has it, too, since many clients look there.
fn personal_eventing(domain: &Domain) -> &'static [DiscoIdentity<'static>] {
    let is_on = domain.module(pep::NAME).is_some();
    if is_on { &[DiscoIdentity { category: "pubsub", type_: "pep", name: None }] } else { &[] }
}

/// The features of the hub, which don't depend on modules.
const OF_THE_HUB: [&str; 1] = [ns::ROSTER];
