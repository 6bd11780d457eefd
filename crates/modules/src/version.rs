//! XEP-0092: Software Version.

use rookery_hub::{Hooks, Iq, Module, OptionSpec, Target, Value, World};
use rookery_modkit::option;
use rookery_modkit::request::is_get;
use rookery_xml::ns;

/// The module that names the software of a domain.
#[derive(Debug)]
pub struct Version;

impl Module for Version {
    fn name(&self) -> &'static str {
        "version"
    }

    fn summary(&self) -> &'static str {
        "clients and other servers can ask which software and version this is"
    }

    fn standards(&self) -> &'static [(&'static str, &'static str)] {
        &[("XEP-0092", "1.1")]
    }

    fn options(&self) -> &'static [OptionSpec] {
        &[SHOW_OS]
    }

    fn install(&self, hooks: &mut Hooks<'_>) {
        hooks.feature(Target::Server, ns::VERSION);
        hooks.iq(Target::Server, ns::VERSION, answer);
    }
}

/// §5: the administrator must be able to keep the operating system secret; it helps attackers more
/// than users.
const SHOW_OS: OptionSpec = OptionSpec {
    key: "show_os",
    default: || Value::Switch(false),
    doc: "true also reveals the operating system, e.g. \"linux\"",
    check: option::any,
};

fn answer(world: &mut World, iq: Iq) {
    if !is_get(world, &iq, "query") {
        return;
    }
    let options = world.options(iq.to.domain(), "version");
    let shows_os = options.is_some_and(|options| options.switch(SHOW_OS.key));
    let mut reply = iq.result();
    reply.start_ns("query", ns::VERSION).text_child("name", NAME).text_child("version", VERSION);
    if shows_os {
        reply.text_child("os", std::env::consts::OS);
    }
    world.reply(&iq, reply);
}

/// The name of this software, as peers see it.
pub(crate) const NAME: &str = "Rookery";

const VERSION: &str = env!("CARGO_PKG_VERSION");
