//! XEP-0377: Spam Reporting. Passes a user's report about a blocked contact to the operators of the
//! domain.
//!
//! Every report is logged, added to the list for operators ([`rookery_operations::reports`]) and,
//! if the operator wants it, sent as a message. If the operator wants that too, a report that
//! allows it (`<report-origin/>`, §5) goes to the abuse contacts that the reported user's server
//! names (XEP-0157): in the name of the domain, and without the reporter's identity. Nothing goes
//! to third parties, since a server could name any address. A report without a reason is ignored;
//! the block counts anyway.

use rookery_base::Map;
use rookery_hub::{Answer, Iq, World};
use rookery_jid::Jid;
use rookery_modkit::form::Form;
use rookery_operations::events::{self, EventKind};
use rookery_operations::reports::{self, AbuseReport, MAX_TEXT};
use rookery_xml::{Element, Writer, ns};
use tracing::info;

use super::limits::NAME;

/// The number of reports that each account has made in this hour.
#[derive(Debug, Default)]
pub(crate) struct Reports {
    made: Map<Jid, u64>,
}

/// Handles the reports in a block request that was carried out, as far as the account may make
/// more.
pub(crate) fn take(world: &mut World, iq: &Iq) {
    let Some(options) = world.options(iq.to.domain(), NAME) else { return };
    let limit = options.number(REPORTS_PER_HOUR);
    let forwards = options.switch(FORWARD_REPORTS);
    let operators: Vec<Jid> = options.list(REPORT_TO).iter().filter_map(|to| Jid::parse(to).ok()).collect();
    for item in iq.payload.children() {
        let Some(report) = item.child("report", ns::REPORTING) else { continue };
        let (Some(reported), Some(reason)) = (item.attr("jid"), report.attr("reason")) else { continue };
        let made = world.state_mut::<Reports>().made.entry(iq.to.clone()).or_default();
        if *made >= limit {
            return;
        }
        *made += 1;
        info!(by = %iq.to, about = reported, reason, "a user has reported abuse");
        keep(world, iq, reported, report);
        for operator in &operators {
            tell(world, iq, operator, reported, report);
        }
        let may_leave = report.child("report-origin", ns::REPORTING).is_some();
        if let Ok(reported) = Jid::parse(reported)
            && forwards
            && may_leave
            && !world.is_ours(reported.domain())
        {
            forward(world, iq.to.domain(), reported, report);
        }
    }
}

/// Adds a report to the list for the domain's operators.
fn keep(world: &mut World, iq: &Iq, reported: &str, report: &Element) {
    // A block of an invalid address was refused.
    let Ok(about) = Jid::parse(reported) else { return };
    let reason = report.attr("reason").unwrap_or_default();
    let text = report.child_text("text", ns::REPORTING).unwrap_or_default();
    let serial = world.unique_text();
    let by = iq.to.to_bare();
    let kept = AbuseReport::new(world.time(), &serial, by.clone(), about, reason, &text);
    let fields = vec![
        ("by", by.to_string()),
        ("about", kept.about.to_string()),
        ("reason", kept.reason_in_words().to_owned()),
        ("text", kept.text.clone()),
    ];
    events::note(world, by.domain(), EventKind::Reported, fields);
    let kept = reports::keep(&world.stores, iq.to.domain(), &kept);
    world.wait(kept, move |world, kept| {
        if let Err(error) = kept {
            world.store_failed("keeping a report of abuse", &by, &error);
        }
    });
}

/// Asks a user's server for its abuse contacts, and sends them the report.
fn forward(world: &mut World, own: &str, reported: Jid, report: &Element) {
    let Ok(server) = Jid::parse(reported.domain()) else { return };
    let (own, report) = (own.to_owned(), report.clone());
    let query = Element::new("query", ns::DISCO_INFO);
    world.ask(&own.clone(), &server, false, &query, move |world, answer| {
        let Answer::Result(Some(info)) = answer else { return };
        let forms = info.children().filter_map(Form::read);
        let mut contacts = forms.filter(|form| form.value("FORM_TYPE") == Some(SERVER_INFO));
        let Some(contacts) = contacts.next() else { return };
        let all = contacts.values("report-addresses").chain(contacts.values("abuse-addresses"));
        let addresses = all.filter_map(|uri| Jid::parse(uri.strip_prefix("xmpp:")?).ok());
        // A server speaks for itself: it can't cause messages to others.
        let mut addresses: Vec<Jid> = addresses.filter(|address| address.domain() == reported.domain()).collect();
        addresses.dedup();
        for address in addresses.into_iter().take(MOST_TOLD) {
            tell_elsewhere(world, &own, &address, &reported, &report);
        }
    });
}

/// Sends a report to a contact of another server, without the reporter's identity.
fn tell_elsewhere(world: &mut World, own: &str, to: &Jid, reported: &Jid, report: &Element) {
    let reason = report.attr("reason").unwrap_or_default();
    let text = report.child_text("text", ns::REPORTING);
    let text = text.map(|text| text.trim().chars().take(MAX_TEXT).collect::<String>());
    let mut body = format!("A user of {own} reports {reported}: {reason}");
    let mut told = Element::new("report", ns::REPORTING).with_attr("reason", reason);
    told.push_child(Element::new("jid", JID).with_text(reported.as_str()));
    if let Some(text) = text.filter(|text| !text.is_empty()) {
        body.push_str("\n\n");
        body.push_str(&text);
        told.push_child(Element::new("text", ns::REPORTING).with_text(text));
    }
    let mut message = Writer::new("message");
    let id = world.unique_text();
    message.attr("from", own).attr("id", &id).text_child("body", &body);
    message.element(&told);
    world.route_built(&message.finish(), to);
}

/// Sends an operator a readable message, with the report for tools.
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
    world.route_built(&message.finish(), operator);
}

/// The addresses that get reports.
pub(crate) const REPORT_TO: &str = "report_to";
/// The option that lets reports go to the server of the reported user.
pub(crate) const FORWARD_REPORTS: &str = "forward_reports";
/// The number of reports that an account may make in an hour.
pub(crate) const REPORTS_PER_HOUR: &str = "reports_per_hour";
/// The form in which servers name their contacts (XEP-0157).
const SERVER_INFO: &str = "http://jabber.org/network/serverinfo";
/// The namespace of the reported address in a report to another server.
const JID: &str = "urn:xmpp:jid:0";
/// The most addresses of another server that get one report.
const MOST_TOLD: usize = 3;
