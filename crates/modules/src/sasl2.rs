//! XEP-0388: Extensible SASL Profile, and XEP-0386: Bind 2. A client logs in again in one exchange,
//! with its session and the session's settings.
//!
//! The streams implement it ([`rookery_stream::c2s`]); this module switches it on. A resource is
//! `TAG/ID`, where the id is the same for the same installation of a client, and the older session
//! of that installation ends.
//!
//! Left out: tasks after authentication (XEP-0388 §2.6.3), which nothing requires yet. Offline
//! messages are delivered, not cleared: a client that has them from the archive recognises them by
//! their ids.

use rookery_hub::fast::MODULE as FAST;
use rookery_hub::management::{CARBONS, CLIENT_STATE, MODULE as STREAM_MANAGEMENT, RESUME_SECONDS};
use rookery_hub::{Domain, Hooks, LoginBy, Module, Registry, Takes};
use rookery_stream::c2s::{Host, LoginKind, Sasl2};
use rookery_xml::{Built, ns};

/// The module for login and session in one exchange.
#[derive(Debug)]
pub struct Sasl2Module;

impl Module for Sasl2Module {
    fn name(&self) -> &'static str {
        NAME
    }

    fn summary(&self) -> &'static str {
        "clients log in and get their session in a single exchange"
    }

    fn standards(&self) -> &'static [(&'static str, &'static str)] {
        &[("XEP-0388", "1.0.4"), ("XEP-0386", "1.1.0")]
    }

    fn left_out(&self) -> &'static [(&'static str, &'static str)] {
        &[("XEP-0388", "tasks after authentication (§2.6.3), which nothing requires yet")]
    }

    fn install(&self, _: &mut Hooks<'_>) {}
}

/// Returns the stream features that a domain offers to clients, by its active modules.
pub fn host(domain: &Domain, registry: &Registry) -> Host {
    let rendered = |features: Vec<Built>| features.iter().flat_map(|feature| feature.bytes().to_vec()).collect();
    Host {
        name: domain.name.clone(),
        login: login_kind(&domain.login),
        registration: domain.module("register").is_some(),
        sasl2: domain.module(NAME).map(|_| sasl2(domain)),
        before_login_features: rendered(registry.stream_features(domain)),
        after_login_features: rendered(registry.login_features(domain)),
    }
}

/// Returns the way in which clients log in, as the type that streams use.
pub fn login_kind(login: &LoginBy) -> LoginKind {
    match login {
        LoginBy::Own => LoginKind::Own,
        LoginBy::Anonymous => LoginKind::Anonymous,
        LoginBy::Source(source) => {
            let Takes { passwords, tokens } = source.takes();
            LoginKind::Source { passwords, tokens }
        }
    }
}

fn sasl2(domain: &Domain) -> Sasl2 {
    let is_on = |(module, var)| domain.module(module).map(|_| var);
    Sasl2 {
        resumption: domain.module(STREAM_MANAGEMENT).is_some_and(|options| options.number(RESUME_SECONDS) > 0),
        fast: domain.module(FAST).is_some(),
        bind: Some(
            [(CARBONS, ns::CARBONS), (STREAM_MANAGEMENT, ns::SM), (CLIENT_STATE, ns::CSI)]
                .into_iter()
                .filter_map(is_on)
                .collect(),
        ),
    }
}

const NAME: &str = "sasl2";
