//! XEP-0377: Blocking with a report: what users say of those whom they block goes to the operators
//! of the domain.
//!
//! Every report is logged and, if the operator wants it, sent as a message. Nothing leaves the
//! server: a report is passed on neither to the server of whom it is about nor to others, whatever
//! it allows (§5 leaves that to the server). A report that lacks its reason is none; the block
//! counts anyway.

use rookery_base::Map;
use rookery_hub::{Iq, World};
use rookery_jid::Jid;
use rookery_xml::{Element, Writer, ns};
use tracing::info;

use super::limits::NAME;

/// Counts the reports that each account has made in this hour.
#[derive(Debug, Default)]
pub(crate) struct Reports {
    made: Map<Jid, u64>,
}

/// Takes note of the reports in a block request that was carried out, as far as the account may
/// make more.
pub(crate) fn take(world: &mut World, iq: &Iq) {
    let Some(options) = world.options(iq.to.domain(), NAME) else { return };
    let limit = options.number(REPORTS_PER_HOUR);
    let operators: Vec<Jid> = options.list(REPORT_TO).iter().filter_map(|to| Jid::parse(to).ok()).collect();
    for item in iq.payload.children() {
        let Some(report) = item.child("report", ns::REPORTING) else { continue };
        let (Some(reported), Some(reason)) = (item.attr("jid"), report.attr("reason")) else { continue };
        let made = world.state_mut::<Reports>().made.entry(iq.to.clone()).or_default();
        if *made >= limit {
            return;
        }
        *made += 1;
        info!(by = %iq.to, about = reported, reason, "a user reports abuse");
        for operator in &operators {
            tell(world, iq, operator, reported, report);
        }
    }
}

/// Sends a message for people, with the report for their tools.
fn tell(world: &mut World, iq: &Iq, operator: &Jid, reported: &str, report: &Element) {
    let reason = report.attr("reason").unwrap_or_default();
    let mut body = format!("{} reports {reported}: {reason}", iq.to);
    if let Some(text) = report.child_text("text", ns::REPORTING) {
        body.push_str("\n\n");
        body.extend(text.trim().chars().take(MAX_TEXT));
    }
    let mut message = Writer::new("message");
    let id = world.unique_text();
    message.attr("from", iq.to.domain()).attr("id", &id).text_child("body", &body);
    message.element(report);
    world.send(&message.finish(), operator);
}

/// The addresses that get reports.
pub(crate) const REPORT_TO: &str = "report_to";
/// The number of reports that an account may make in an hour.
pub(crate) const REPORTS_PER_HOUR: &str = "reports_per_hour";
/// Characters of a report that are shown.
const MAX_TEXT: usize = 2000;
