//! The sessions that send the most while somebody watches.

use rookery_hub::{Hooks, Question, QuestionReply, World};
use rookery_jid::Jid;
use serde::{Deserialize, Serialize};

use super::{Gathered, PATIENCE_MS};

/// A session with what it has sent since the watching began.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BusySender {
    /// Its full JID.
    pub jid: Jid,
    /// Messages, presence and IQs.
    pub stanzas: u64,
    /// Their bytes.
    pub bytes: u64,
}

pub(super) fn install(hooks: &mut Hooks<'_>) {
    hooks.question::<BusiestSenders>();
}

/// Continues with the sessions that have sent the most stanzas since the watching began, `most` at
/// most. The shards begin to count, or go on counting, for `lasts_ms`.
pub fn busiest(
    world: &mut World,
    most: usize,
    lasts_ms: u64,
    then: impl FnOnce(&mut World, Gathered<BusySender>) + 'static,
) {
    world.put_to_all(BusiestSenders { most, lasts_ms }, move |world, found| {
        let Gathered { mut items, is_partial } = Gathered::from(found);
        items.sort_by(|a: &BusySender, b| b.stanzas.cmp(&a.stanzas).then_with(|| a.jid.cmp(&b.jid)));
        items.truncate(most);
        then(world, Gathered { items, is_partial });
    });
}

/// Asks a shard for its sessions that have sent the most.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct BusiestSenders {
    most: usize,
    lasts_ms: u64,
}

impl Question for BusiestSenders {
    const NAME: &'static str = "operations busiest senders";
    const PATIENCE_MS: u64 = PATIENCE_MS;
    type Answer = Vec<BusySender>;

    fn ask(self, world: &mut World, reply: QuestionReply<Self::Answer>) {
        let mut senders: Vec<_> = world.watch_senders(self.lasts_ms).collect();
        senders.sort_by_key(|(_, stanzas, _)| std::cmp::Reverse(*stanzas));
        senders.truncate(self.most);
        let name = |(link, stanzas, bytes)| Some(BusySender { jid: world.address(link)?.clone(), stanzas, bytes });
        let found = senders.into_iter().filter_map(name).collect();
        reply.answer(world, found);
    }
}
