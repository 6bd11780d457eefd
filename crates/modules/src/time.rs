//! XEP-0202: Entity Time. A client that compares clocks can correct the times that it shows.

use rookery_base::date;
use rookery_hub::{Hooks, Iq, Module, Target, World};
use rookery_modkit::request::is_get;
use rookery_xml::ns;

/// The module that tells the server's time of day.
#[derive(Debug)]
pub struct TimeModule;

impl Module for TimeModule {
    fn name(&self) -> &'static str {
        "time"
    }

    fn summary(&self) -> &'static str {
        "clients can compare their clock with the server's"
    }

    fn standards(&self) -> &'static [(&'static str, &'static str)] {
        &[("XEP-0202", "2.0"), ("XEP-0082", "1.1.1")]
    }

    fn install(&self, hooks: &mut Hooks<'_>) {
        hooks.feature(Target::Server, ns::TIME);
        hooks.iq(Target::Server, ns::TIME, answer);
    }
}

fn answer(world: &mut World, iq: Iq) {
    if !is_get(world, &iq, "time") {
        return;
    }
    let mut reply = iq.result();
    // A server has users in many time zones; its own would reveal nothing but its location.
    reply.start_ns("time", ns::TIME).text_child("tzo", "+00:00").text_child("utc", &date::timestamp(world.time()));
    world.reply(&iq, reply);
}
