//! The agent's turn at the outlet: letters, look-ups and writes to the journal, which the shards of
//! its process have left there.

use rookery_base::lock::lock;
use rookery_cluster::courier::{CourierLetter, Unposted};
use rookery_cluster::wire::NodeProcess;
use rookery_hub::JournalLookup;
use rookery_shard::{MailboxKind, NodeLetter};

use super::{Agent, AgentNews, LINE, MAIL, RedisCommand};
use crate::nodes::journal;

impl Agent {
    /// Takes the letters of the shards, their look-ups, and their writes to the journal. Returns
    /// whether there were any.
    pub(super) fn take_posted(&mut self) -> bool {
        let letters = std::mem::take(&mut *lock(&self.posted.letters));
        let lookups = std::mem::take(&mut *lock(&self.posted.lookups));
        let batches = std::mem::take(&mut *lock(&self.posted.journal));
        let overdue = std::mem::take(&mut *lock(&self.posted.overdue));
        for process in overdue {
            let is_member = self.table.others().iter().any(|(_, other)| *other == process);
            if is_member && self.deaths.begin(process) {
                self.take_over(process);
            }
        }
        let any = !letters.is_empty() || !lookups.is_empty() || !batches.is_empty();
        let read = std::mem::take(&mut *lock(&self.posted.read));
        for (shard, lookup) in lookups {
            let (process, reach, meta) = (process_of(&lookup), self.reach.clone(), self.members.meta.clone());
            self.journal.reads(shard, process, Vec::new());
            self.calls.push(Box::pin(async move {
                let (fields, parts) = journal::look_up(reach, meta, lookup).await;
                AgentNews::Found(shard, process, fields, parts)
            }));
        }
        for (shard, read) in read {
            let is_there = self.connection.is_some() && self.can_reach();
            let mut redis = self.reach.redis.borrow_mut();
            self.journal.have_read(shard, process_of(&read), is_there.then_some(&mut *redis));
        }
        for (shard, batch) in batches {
            let batch = self.journal.take(shard, batch);
            self.commands.extend(batch.map(|batch| RedisCommand::Write(shard, batch)));
        }
        for (from, NodeLetter { to, kind, bytes, custody, until_read }) in letters {
            let (kind, outlives) = match kind {
                MailboxKind::Mail => (MAIL, true),
                MailboxKind::Line => (LINE, false),
            };
            let letter = CourierLetter { kind, from, to: to.shard, body: bytes, outlives, until_read, share: custody };
            match self.courier.post(NodeProcess::of(to), letter) {
                Ok(()) => {}
                Err(Unposted::Full(letter)) => self.give_back(vec![letter], true),
                Err(Unposted::Gone(letter)) => self.give_back(vec![letter], false),
            }
        }
        any
    }
}

fn process_of(lookup: &JournalLookup) -> NodeProcess {
    let (node, incarnation) = lookup.process;
    NodeProcess { node, incarnation }
}
