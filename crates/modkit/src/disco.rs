//! XEP-0030: Service Discovery, the part that every entity of the server has: its identities,
//! features and forms, and lists of items.

use rookery_hub::{Iq, World};
use rookery_xml::{Element, Writer, ns};

/// The description of an entity for disco#info (XEP-0030 §3.1).
#[derive(Debug)]
pub struct Info<'a> {
    /// The first identity.
    pub identity: DiscoIdentity<'a>,
    /// More identities, if it has any.
    pub more: &'static [DiscoIdentity<'static>],
    /// The features, sorted, each once.
    pub features: Vec<&'static str>,
    /// Extended information (XEP-0128).
    pub forms: Vec<Element>,
}

/// An identity of an entity of this server (XEP-0030 §3.1).
#[derive(Debug, Clone, Copy)]
pub struct DiscoIdentity<'a> {
    /// A category of the registry of disco categories, such as `pubsub`.
    pub category: &'static str,
    /// A type within the category.
    pub type_: &'static str,
    /// The name for people.
    pub name: Option<&'a str>,
}

impl Info<'_> {
    /// Returns its identities: at least one, the main one first.
    pub fn identities(&self) -> impl Iterator<Item = DiscoIdentity<'_>> {
        [self.identity].into_iter().chain(self.more.iter().copied())
    }

    /// Writes the `<query/>` of a reply, for the node that was asked for (§3.1).
    pub fn write(&self, reply: &mut Writer, node: Option<&str>) {
        reply.start_ns("query", ns::DISCO_INFO).opt_attr("node", node);
        for DiscoIdentity { category, type_, name } in self.identities() {
            reply.start("identity").attr("category", category).attr("type", type_).opt_attr("name", name).end();
        }
        for feature in &self.features {
            reply.start("feature").attr("var", feature).end();
        }
        for form in &self.forms {
            reply.element(form);
        }
        reply.end();
    }
}

/// Replies with a list of items (§4.1): address and name.
pub fn reply_items(world: &mut World, iq: &Iq, items: &[(&str, Option<&str>)]) {
    let mut reply = iq.result();
    reply.start_ns("query", ns::DISCO_ITEMS).opt_attr("node", node(iq));
    for (jid, name) in items {
        reply.start("item").attr("jid", jid).opt_attr("name", *name).end();
    }
    world.reply(iq, reply);
}

/// Returns the node that a request names. An empty name, as some clients write it, is none.
pub fn node(iq: &Iq) -> Option<&str> {
    iq.payload.attr("node").filter(|node| !node.is_empty())
}
