//! Checks whether another server answers.

use rookery_hub::{Answer, World};
use rookery_jid::Jid;
use rookery_xml::{Element, ns};

/// Pings another server in the name of a domain of ours (XEP-0199), and continues with `None` if it
/// has answered, even by an error, or with the condition that shows why it couldn't be reached.
pub fn ping(world: &mut World, from: &str, server: &Jid, then: impl FnOnce(&mut World, Result<(), String>) + 'static) {
    world.ask(from, server, false, &Element::new("ping", ns::PING), |world, answer| {
        let reached = match answer {
            Answer::Error { condition, .. } if UNREACHED.contains(&condition.as_str()) => Err(condition),
            Answer::Result(_) | Answer::Error { .. } => Ok(()),
            Answer::Nothing => Err("remote-server-timeout".to_owned()),
        };
        then(world, reached);
    });
}

/// The conditions by which this server reports that it hasn't reached the other one.
const UNREACHED: [&str; 3] = ["remote-server-not-found", "remote-server-timeout", "resource-constraint"];
