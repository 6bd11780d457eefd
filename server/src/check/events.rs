//! Checks the program that is notified of events.

use super::{CheckReport, EVENTS};
use crate::config::ServerConfig;
use crate::events;
use crate::folder::Folder;

/// Checks the settings for posting events.
pub(super) fn look(report: &mut CheckReport, config: &ServerConfig, folder: &Folder) {
    let tells =
        |domain: &crate::config::DomainConfig| domain.modules.get("events").is_some_and(|module| module.enabled);
    let is_told = config.domains.iter().any(tells);
    match (&config.events.url, events::post_settings(config, folder)) {
        (_, Err(error)) => report.fault(EVENTS, error.to_string()),
        (Some(url), _) if !is_told => report.warn(
            EVENTS,
            format!("nothing is posted to {url}, because no domain reports events; see [modules.events]"),
        ),
        (Some(url), _) => report.note(EVENTS, format!("they are posted to {url}")),
        (None, _) => {}
    }
}
