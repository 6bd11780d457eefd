//! XEP-0279: Server IP Check. A client whose address differs from what it expects knows that it is
//! behind a NAT.

use rookery_hub::{Hooks, Iq, Module, Target, World};
use rookery_stream::error::Condition;
use rookery_xml::ns;

/// The module that tells clients the address from which they connect.
#[derive(Debug)]
pub struct Sic;

impl Module for Sic {
    fn name(&self) -> &'static str {
        "sic"
    }

    fn summary(&self) -> &'static str {
        "clients can ask which address their connection comes from"
    }

    fn standards(&self) -> &'static [(&'static str, &'static str)] {
        &[("XEP-0279", "0.2")]
    }

    fn install(&self, hooks: &mut Hooks<'_>) {
        for namespace in [ns::SIC, ns::SIC_0] {
            hooks.feature(Target::Server, namespace);
            hooks.iq(Target::Server, namespace, answer);
            hooks.iq(Target::Account, namespace, answer);
        }
    }
}

/// Replies with the session's own address (§4), and no other's.
fn answer(world: &mut World, iq: Iq) {
    let Some(session) = iq.origin.filter(|_| iq.to.is_domain() || iq.is_own()) else {
        return world.reply_error(&iq, Condition::Forbidden);
    };
    let name = if iq.payload.ns() == ns::SIC_0 { "ip" } else { "address" };
    if iq.set || iq.payload.name() != name {
        return world.reply_error(&iq, Condition::BadRequest);
    }
    world.with_peer(session.link, move |world, peer| {
        // A client that has gone meanwhile needs no reply.
        let Some(peer) = peer else { return };
        let peer = peer.address;
        let ip = peer.ip().to_canonical().to_string();
        let mut reply = iq.result();
        match iq.payload.ns() {
            ns::SIC_0 => reply.start_ns("ip", ns::SIC_0).text(&ip),
            _ => {
                let address = reply.start_ns("address", ns::SIC);
                address.text_child("ip", &ip).text_child("port", &peer.port().to_string())
            }
        };
        world.reply(&iq, reply);
    });
}
