//! The list of commands (XEP-0050 §3.2).

use rookery_hub::{Iq, World};
use rookery_modkit::disco::{DiscoIdentity, Info};
use rookery_operations::rights::with_rights;
use rookery_stream::error::Condition;
use rookery_xml::ns;

use super::order::AdHocCommand;
use super::{find, of_domain};

/// Replies to disco#items for the node of all commands with those that the asker may run, if any.
pub(crate) fn items(world: &mut World, iq: Iq) {
    let (domain, from) = (iq.to.domain().to_owned(), iq.from.clone());
    with_rights(world, &domain, &from, move |world, rights| {
        let rights = match rights {
            Ok(rights) => rights,
            Err(error) => return world.reply_error(&iq, error),
        };
        let domain = world.domain(iq.to.domain());
        let commands = domain
            .into_iter()
            .flat_map(|domain| of_domain(domain).filter(move |command| rights >= command.least(domain)));
        let mut reply = iq.result();
        reply.start_ns("query", ns::DISCO_ITEMS).attr("node", ns::COMMANDS);
        for command in commands {
            reply.start("item").attr("jid", iq.to.as_str()).attr("node", command.node).attr("name", command.name).end();
        }
        world.reply(&iq, reply);
    });
}

/// Replies to disco#info for the node of all commands or of one of them. Returns `false` for other
/// nodes.
pub(crate) fn info(world: &mut World, iq: &Iq, node: &str) -> bool {
    let Some(domain) = world.domain(iq.to.domain()).filter(|domain| domain.module(super::NAME).is_some()) else {
        return false;
    };
    if node == ns::COMMANDS {
        let identity = DiscoIdentity { category: "automation", type_: "command-list", name: Some("Commands") };
        write(world, iq, identity, vec![ns::COMMANDS, ns::DISCO_INFO, ns::DISCO_ITEMS]);
        return true;
    }
    let Some(command) = find(domain, node) else { return false };
    let least = command.least(domain);
    let (domain, iq) = (domain.name.clone(), iq.clone());
    with_rights(world, &domain, &iq.from.clone(), move |world, rights| match rights {
        Ok(rights) if rights >= least => describe(world, &iq, command),
        Ok(_) => world.reply_error(&iq, Condition::Forbidden),
        Err(error) => world.reply_error(&iq, error),
    });
    true
}

fn describe(world: &mut World, iq: &Iq, command: &AdHocCommand) {
    let identity = DiscoIdentity { category: "automation", type_: "command-node", name: Some(command.name) };
    write(world, iq, identity, vec![ns::COMMANDS, ns::DATA_FORMS]);
}

fn write(world: &mut World, iq: &Iq, identity: DiscoIdentity<'_>, features: Vec<&'static str>) {
    let mut reply = iq.result();
    Info { identity, more: &[], features, forms: Vec::new() }.write(&mut reply, iq.payload.attr("node"));
    world.reply(iq, reply);
}
