//! XEP-0352: Client State Indication. A phone in a pocket isn't woken for things that its user
//! doesn't see.
//!
//! The hub handles the clients' indications, and the outbox of a session delays stanzas that may
//! wait ([`rookery_fanout::outbox::quiet`]); this module switches it on and announces it. Waiting
//! stanzas are bounded by the soft limit of the outbox: above it everything is sent.

use rookery_hub::management::CLIENT_STATE;
use rookery_hub::{Hooks, Module};
use rookery_xml::{Writer, ns};

/// The module that lets presence and the like wait while a client is inactive.
#[derive(Debug)]
pub struct ClientState;

impl Module for ClientState {
    fn name(&self) -> &'static str {
        CLIENT_STATE
    }

    fn summary(&self) -> &'static str {
        "phones can sleep: presence is held back while nobody is looking"
    }

    fn standards(&self) -> &'static [(&'static str, &'static str)] {
        &[("XEP-0352", "1.0.0")]
    }

    fn install(&self, hooks: &mut Hooks<'_>) {
        hooks.login_features(|_, _| vec![Writer::with_ns("csi", ns::CSI).finish()]);
    }
}
