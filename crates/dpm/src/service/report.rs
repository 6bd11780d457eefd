//! Reports of settings to the control system's log, if the database names its node.
//!
//! Such a message has no answer, and a lost one isn't sent again, so only our own log of attempts
//! is complete.

use super::Dpm;
use super::session::SettingBatch;
use crate::acnet::{AcnetHeader, PacketKind, setsdb};
use crate::setting;
use crate::status::Status;
use crate::time::Moment;

impl Dpm {
    /// Reports to the node `SETSDB` which settings of a batch front-ends accepted.
    pub(super) fn report(&mut self, batch: &SettingBatch, now: Moment) {
        let mut nodes = self.database.nodes().iter().enumerate();
        let keeper = nodes.find(|(_, node)| node.name == setsdb::TASK);
        let Some((number, keeper)) = keeper.and_then(|(number, node)| Some((number, node.acnet()?))) else { return };
        // All settings of a batch are from one client.
        let Some((_, attempt)) = batch.settings.first() else { return };
        let principal = attempt.principal.as_deref().unwrap_or_default();
        let node = self.options.name.to_string();
        let report = setsdb::SettingsReport {
            unix_millis: now.unix_millis,
            user: self.authority.roles.console_user(principal),
            host: attempt.from.map_or_else(|| node.clone(), |from| from.host()),
            account: principal.split('@').next().unwrap_or_default().to_owned(),
            node,
        };
        let header = AcnetHeader {
            kind: PacketKind::Message,
            status: Status::SUCCESS,
            server: keeper.address,
            client: self.options.address,
            task: setsdb::TASK,
            task_id: setting::TASK_ID,
            message: 0,
        };
        let bodies = report.encode(&batch.written);
        self.answers.extend(bodies.iter().map(|body| (number, header.datagram(body))));
    }
}
