//! XEP-0199: XMPP Ping. Shows a client that its stream still works.

use rookery_hub::{Hooks, Module, Target};
use rookery_modkit::asker::{Asker, with_asker};
use rookery_modkit::request::is_get;
use rookery_stream::error::Condition;
use rookery_xml::ns;

/// The module that replies to pings to a domain, and to an account from those who may know that it
/// exists.
#[derive(Debug)]
pub struct PingModule;

impl Module for PingModule {
    fn name(&self) -> &'static str {
        "ping"
    }

    fn summary(&self) -> &'static str {
        "clients can test whether their connection still works"
    }

    fn standards(&self) -> &'static [(&'static str, &'static str)] {
        &[("XEP-0199", "2.0.1")]
    }

    fn install(&self, hooks: &mut Hooks<'_>) {
        hooks.feature(Target::Server, ns::PING);
        hooks.feature(Target::Account, ns::PING);
        // §4.2: client to server.
        hooks.iq(Target::Server, ns::PING, |world, iq| {
            if is_get(world, &iq, "ping") {
                world.reply_done(&iq);
            }
        });
        hooks.iq(Target::Account, ns::PING, |world, iq| {
            if is_get(world, &iq, "ping") {
                with_asker(world, iq, |world, iq, asker| match asker {
                    Asker::Trusted => world.reply_done(&iq),
                    Asker::Stranger => world.reply_error(&iq, Condition::ServiceUnavailable),
                });
            }
        });
    }
}
