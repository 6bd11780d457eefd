//! Checks the DNS records that clients, other servers and authorities look for.

use super::CheckReport;
use crate::config::ServerConfig;
use crate::federation;
use crate::setup::machine;
use crate::setup::records::{self, Look};

/// Compares DNS with the records that the domains of a configuration should have on this machine.
pub fn look(report: &mut CheckReport, config: &ServerConfig) {
    let addresses = machine::public_addresses();
    let wanted = records::wanted_records(config, &addresses, config.federates());
    let looks = match records::look(&federation::dns_settings(config, None), &wanted, &addresses) {
        Ok(looks) => looks,
        Err(failure) => return report.warn(ABOUT, format!("DNS can't be asked: {failure}")),
    };
    for (record, look) in wanted.iter().zip(looks) {
        let record = records::in_one_line(record);
        match look {
            Look::There => report.note(ABOUT, record),
            Look::Missing => report.warn(ABOUT, format!("missing: {record}")),
            Look::Elsewhere(found) => report.warn(ABOUT, format!("DNS has {found}, and not {record}")),
            Look::NoAnswer => report.warn(ABOUT, format!("DNS gives no answer about {record}")),
        }
    }
}

const ABOUT: &str = "DNS";
