//! The members of the cluster, as the loop handles them: it reads the rows of the database, adopts
//! the homes that follow from them, and changes the row of its own node.
//!
//! # Invariants
//!
//! * The rows are read each second, so that a change is noticed even if nobody announces it.
//! * A process that finds itself superseded ends the courier before anything else, and asks for its
//!   own end once.

use rookery_base::lock::lock;
use tracing::{error, info, warn};

use super::{CarryingLoop, SECOND};
use crate::agreed::AgreedSettings;
use crate::courier::CourierLetter;
use crate::leases::Leases;
use crate::marks::unix_ms;
use crate::members::{self, NotJoined};
use crate::service::{ClusterEnding, ServiceEvent};
use crate::table::Update;
use crate::wire::NodeProcess;

impl CarryingLoop {
    pub(crate) fn handle_update(&mut self, update: Update) {
        match update {
            Update::Same => {}
            Update::Superseded => {
                self.is_over = true;
                self.courier.end();
                if let Some(ends) = self.outer.ends.take() {
                    error!(
                        "other nodes have taken over from this process, or another process has this node's name: it exits; find out why it was stalled or cut off from Redis, and start it again"
                    );
                    ends(ClusterEnding::TakenOver);
                }
            }
            Update::Changed(gone) => {
                for process in gone {
                    self.departed(process);
                }
                self.table.raise_floor(self.clocks.latest(unix_ms()), unix_ms());
                let others = self.table.others();
                self.clocks.keep(|process| others.iter().any(|(_, other)| *other == process));
                *lock(&self.leases) = Leases::of(&self.table);
                let others = self.table.others();
                let mut letters = Vec::new();
                for (name, process) in &others {
                    info!(node = name, %process, "a node is a member of the cluster");
                    letters.append(&mut self.courier.meet(*process, self.table.shards_of(*process)));
                }
                for node in self.courier.nodes() {
                    if !others.iter().any(|(_, process)| process.node == node) {
                        letters.append(&mut self.courier.forget(node));
                    }
                }
                self.outer.door.set_view(&self.table.view(), CourierLetter::mail_of_shards(letters));
                self.slots = self.table.slots();
                self.courier.announce_rows(others.iter().map(|(_, process)| process));
                if self.table.leaves()
                    && let Some(ends) = &self.outer.ends
                {
                    ends(ClusterEnding::Leaves);
                }
            }
        }
    }

    /// Reads the rows of the database.
    pub(super) fn look_at_rows(&self) {
        let (meta, events) = (self.outer.members.meta.clone(), self.posted.events.clone());
        tokio::spawn(async move {
            // If this fails, the next reading finds them.
            if let Ok(rows) = members::all(&*meta).await {
                _ = events.send(ServiceEvent::Rows(rows));
            }
        });
    }

    /// Writes the settings of this process into its row.
    pub(super) fn settle(&self, settings: AgreedSettings) {
        let (meta, events, me) = (self.outer.members.meta.clone(), self.posted.events.clone(), self.table.me());
        tokio::spawn(async move {
            match members::settle(&*meta, me, &settings).await {
                Ok(_) => {}
                Err(NotJoined::Store(error)) if error.is_temporary() => {
                    tokio::time::sleep(SECOND).await;
                    _ = events.send(ServiceEvent::Settings(settings));
                }
                Err(error) => warn!(?error, "the other nodes of the cluster can't be told the new settings"),
            }
        });
    }

    /// Begins to leave the homes of this node to others, if a node is up that can take them.
    pub(super) fn begin_leaving(&mut self, answer: &std::sync::mpsc::SyncSender<bool>) {
        let can_take_over = |(_, process): &(String, NodeProcess)| {
            !self.table.has_leaving(*process) && !self.deaths.is_silent(*process)
        };
        let may = !self.is_over && self.connection.is_some() && self.table.others().iter().any(can_take_over);
        // The caller may have stopped waiting.
        _ = answer.try_send(may);
        if !may || self.table.leaves() {
            return;
        }
        let (meta, events, name) =
            (self.outer.members.meta.clone(), self.posted.events.clone(), self.table.name().to_owned());
        tokio::spawn(async move {
            if members::leave(&*meta, &name).await.is_ok()
                && let Ok(rows) = members::all(&*meta).await
            {
                _ = events.send(ServiceEvent::Rows(rows));
            }
        });
    }

    /// Reads the rows of the database each second.
    pub(super) fn watch_rows(&self) {
        let (meta, events) = (self.outer.members.meta.clone(), self.posted.events.clone());
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(SECOND).await;
                let event = match members::all(&*meta).await {
                    Ok(rows) => ServiceEvent::Rows(rows),
                    Err(error) => ServiceEvent::NoRows(error),
                };
                if events.send(event).is_err() {
                    return;
                }
            }
        });
    }
}
