//! The terms that client and server agree on when a session is opened (XEP-0124 §7).

use rookery_xml::ns;
use serde::{Deserialize, Serialize};

use super::answer::AnswerWriter;
use super::request::{BoshOpening, write_sid};

/// The bounds that the operator sets, in seconds unless stated otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Terms {
    /// The longest time that a request may wait.
    pub wait: u32,
    /// The longest time that a session may be without a request.
    pub inactivity: u32,
    /// The longest absence that a client may ask for; 0 for none at all.
    pub max_pause: u32,
    /// The shortest time between two requests of a client that has nothing to say.
    pub polling: u32,
    /// Requests that may wait at a time. With more than one there are clients that let all of their
    /// connections wait, and have none left to say anything.
    pub hold: u32,
}

impl Default for Terms {
    fn default() -> Self {
        Self { wait: 60, inactivity: 60, max_pause: 120, polling: 5, hold: 1 }
    }
}

impl Terms {
    /// Writes the session's properties into the first response (§7.2, XEP-0206 §4). `ack`: the
    /// request that it answers, if both sides use acknowledgements.
    pub(super) fn tell(
        self,
        sid: u128,
        requests: u32,
        opening: &BoshOpening,
        ack: Option<u64>,
        writer: &mut AnswerWriter,
    ) {
        let Self { wait, inactivity, max_pause, polling, hold } = self;
        writer.attr("sid", &write_sid(sid));
        let numbers = [("wait", wait), ("requests", requests), ("hold", hold)];
        let numbers = numbers.into_iter().chain([("inactivity", inactivity), ("polling", polling)]);
        for (name, number) in numbers.chain((max_pause > 0).then_some(("maxpause", max_pause))) {
            writer.attr(name, &number.to_string());
        }
        if let Some(ver) = &opening.ver {
            writer.attr("ver", lower(ver));
        }
        if let Some(ack) = ack {
            writer.attr("ack", &ack.to_string());
        }
        if let Some(from) = &opening.from {
            writer.attr("from", from);
        }
        writer.attr("xmlns:xmpp", ns::XBOSH);
        writer.attr("xmpp:version", "1.0");
        writer.attr("xmpp:restartlogic", "true");
    }
}

/// Returns the lower of a client's version of BOSH and ours.
fn lower(ver: &str) -> &str {
    let parts =
        |ver: &str| ver.split_once('.').and_then(|(major, minor)| Some((major.parse().ok()?, minor.parse().ok()?)));
    let lower: Option<(u32, u32)> = parts(ver).filter(|&theirs| Some(theirs) < parts(VERSION));
    if lower.is_some() { ver } else { VERSION }
}

/// The version of BOSH that is spoken here.
const VERSION: &str = "1.11";
