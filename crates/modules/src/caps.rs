//! XEP-0115: Entity Capabilities. A client that has seen a server with these capabilities before
//! needn't ask again. `caps2` is their second version (XEP-0390), which is announced as well.

use rookery_hub::{Domain, Hooks, Module, Target};
use rookery_modkit::caps::ver;
use rookery_modkit::disco::Info;
use rookery_xml::{Writer, ns};

use crate::caps2;
use crate::entity::of_server;

/// The module that announces a hash of [`disco`](crate::disco)'s replies for a domain.
#[derive(Debug)]
pub struct Caps;

impl Module for Caps {
    fn name(&self) -> &'static str {
        "caps"
    }

    fn summary(&self) -> &'static str {
        "clients log in faster: they recognise what the server supports without asking (needs disco)"
    }

    fn standards(&self) -> &'static [(&'static str, &'static str)] {
        &[("XEP-0115", "1.6.0"), ("XEP-0390", "0.3.2")]
    }

    fn left_out(&self) -> &'static [(&'static str, &'static str)] {
        &[(
            "XEP-0390",
            "hashes of clients, which are passed on unread; clients send those of XEP-0115 as well, which are read",
        )]
    }

    fn install(&self, hooks: &mut Hooks<'_>) {
        hooks.feature(Target::Server, ns::CAPS);
        hooks.feature(Target::Server, ns::CAPS_2);
        // §6.3: announced as a stream feature, but only after login, when it is settled which
        // features the client may use.
        hooks.login_features(|registry, domain| {
            if !is_on(domain) {
                return Vec::new();
            }
            let mut c = Writer::with_ns("c", ns::CAPS);
            let info = of_server(registry, domain);
            let ver = ver(&info);
            c.attr("hash", "sha-1").attr("node", NODE).attr("ver", &ver);
            vec![c.finish(), caps2::stream_feature(&info)]
        });
    }
}

/// Returns whether a domain announces its capabilities: only if it replies to requests about them.
pub(crate) fn is_on(domain: &Domain) -> bool {
    domain.module("caps").is_some() && domain.module("disco").is_some()
}

/// Returns whether a service discovery node is one of those under which clients look up announced
/// capabilities (§6.2).
pub(crate) fn is_node(info: &Info<'_>, node: &str) -> bool {
    node.strip_prefix(NODE).and_then(|rest| rest.strip_prefix('#')) == Some(ver(info).as_str())
        || node == caps2::node(info)
}

/// Identifies this software (§4) by a URI of its own.
const NODE: &str = "urn:uuid:5d5a35a4-54f8-4f4b-9f0c-3f7c1b6f2f0e";
