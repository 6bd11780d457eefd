//! Events for other programs: the choice of those that a domain reports, and the events of this
//! crate. The API and the web front pass them on ([`rookery_operations::events`]).
//!
//! Messages are only reported if the operator wants that, and so are their texts.

use rookery_fanout::{Link, Packet, StanzaType};
use rookery_hub::{
    Bound, Delivery, Hooks, LoginSeen, Module, Most, OptionSpec, Passage, Per, Phase, Stanzas, Unit, Value, Wanted,
    World,
};
use rookery_jid::JidRef;
use rookery_modkit::option;
use rookery_operations::events::{self, EventKind, EventLog, KINDS, MODULE};
use rookery_xml::{Kind, ns};

/// The module that records events.
#[derive(Debug)]
pub struct EventsModule {
    events: EventLog,
}

impl EventsModule {
    /// Returns the module of one shard. All shards share the events.
    pub fn new(events: EventLog) -> Self {
        Self { events }
    }
}

impl Module for EventsModule {
    fn name(&self) -> &'static str {
        MODULE
    }

    fn summary(&self) -> &'static str {
        "other programs are notified of events on this server, through the API or by requests to them (see [events])"
    }

    fn standards(&self) -> &'static [(&'static str, &'static str)] {
        &[("Server-sent events", "HTML, section 9.2")]
    }

    fn on_by_default(&self) -> bool {
        false
    }

    fn options(&self) -> &'static [OptionSpec] {
        &OPTIONS
    }

    fn bounds(&self) -> &'static [Bound] {
        &BOUNDS
    }

    fn install(&self, hooks: &mut Hooks<'_>) {
        hooks.state(self.events.clone());
        hooks.login(logged_in);
        hooks.session_ended(ended);
        hooks.account_removed(removed);
        let conversations = Stanzas::of(Kind::Message, &[StanzaType::Normal, StanzaType::Chat, StanzaType::Groupchat]);
        let told = Wanted::from(conversations)
            .where_options(|options| options.list(KINDS).iter().any(|group| group == EventKind::Message.group()));
        hooks.before_route(Phase::Record, told, |world, passage| message(world, passage, "sent"));
        hooks.before_delivery(Phase::Record, told.from_elsewhere(), |world, passage| {
            message(world, passage, "received")
        });
    }
}

fn logged_in(world: &World, seen: &LoginSeen<'_>) {
    let kind = if seen.failure.is_some() { EventKind::LoginFailed } else { EventKind::Login };
    if !events::tells(world, seen.domain, kind) {
        return;
    }
    let mut fields = vec![("address", seen.address.to_string()), ("transport", seen.transport.label().to_owned())];
    fields.extend(seen.who.map(|who| ("account", who.to_string())));
    fields.extend(seen.mechanism.map(|mechanism| ("mechanism", mechanism.to_owned())));
    fields.extend(seen.failure.map(|failure| ("failure", failure.to_owned())));
    events::note(world, seen.domain, kind, fields);
}

fn ended(world: &mut World, link: Link) {
    let Some(jid) = world.address(link).cloned() else { return };
    events::note(world, jid.domain(), EventKind::SessionEnded, vec![("session", jid.to_string())]);
}

fn removed(world: &mut World, account: JidRef<'_>) {
    events::note(world, account.domain(), EventKind::AccountRemoved, vec![("account", account.to_string())]);
}

fn message(world: &mut World, Passage { packet, to, .. }: Passage<'_>, way: &'static str) -> Delivery {
    let Some(sender) = packet.sender() else { return Delivery::Pass };
    let domain = if way == "sent" { sender.domain().to_owned() } else { to.domain().to_owned() };
    // Carbons and other copies aren't messages that the user has sent.
    let Some(body) = body(packet) else { return Delivery::Pass };
    let mut fields = vec![("way", way.to_owned()), ("from", sender.to_string()), ("to", to.to_string())];
    let stanza = packet.stanza();
    fields.push(("type", stanza.type_().map_or("normal".to_owned(), |type_| type_.to_string())));
    fields.extend(stanza.id().map(|id| ("stanza_id", id.to_string())));
    if world.options(&domain, MODULE).is_some_and(|options| options.switch(CONTENTS)) {
        fields.push(("body", body.chars().take(MOST_LETTERS).collect()));
    }
    events::note(world, &domain, EventKind::Message, fields);
    Delivery::Pass
}

fn body(packet: &Packet) -> Option<String> {
    let stanza = packet.stanza();
    Some(stanza.children().find(|child| child.is("body", ns::CLIENT))?.element().text())
}

const OPTIONS: [OptionSpec; 2] = [
    OptionSpec {
        key: KINDS,
        default: || Value::List(["accounts", "logins", "sessions", "reports"].map(str::to_owned).to_vec()),
        doc: "the events to report: \"accounts\" (created and removed), \"logins\" (failed ones too), \"sessions\" (that have ended), \"reports\" (of abuse), \"messages\" (from users and from other servers)",
        check: is_kinds,
    },
    OptionSpec {
        key: CONTENTS,
        default: || Value::Switch(false),
        doc: "true includes the texts of messages; end-to-end encrypted ones stay encrypted",
        check: option::any,
    },
];

fn is_kinds(value: &Value) -> Result<(), String> {
    option::each(value, |kind| match EventKind::ALL.iter().any(|known| known.group() == kind) {
        true => Ok(()),
        false => Err(format!(
            "{kind:?} isn't a kind of event; write \"accounts\", \"logins\", \"sessions\", \"reports\" or \"messages\""
        )),
    })
}

const CONTENTS: &str = "contents";
/// The most characters of a text that are reported.
const MOST_LETTERS: usize = 10_000;

const BOUNDS: [Bound; 1] =
    [Bound::on("events in memory for readers", Per::Server, Most::Fixed(events::MOST as u64), Unit::Number)
        .or("the oldest are forgotten, also at 8 MiB; readers are told how many they have missed")];
