//! The loads of a comparison: the scenarios, their size and their accounts.

use std::time::{SystemTime, UNIX_EPOCH};

use clap::Parser;

use super::population::{DOMAIN, PASSWORD, Population};
use super::started::Started;
use super::{PeerServer, raw};
use crate::engine::Transport;
use crate::result::{FORMAT, RunMachine, RunResult};
use crate::{BenchOutcome, idle, scenario};

/// A load and its sizes.
#[derive(Debug, Clone)]
pub(super) struct ProgramLoad {
    /// Its name in `--scenarios` and in the names of files.
    pub name: &'static str,
    /// Its heading in the report.
    pub title: &'static str,
    /// The accounts that it needs.
    pub population: Population,
    /// The load of the raw limit that corresponds to it.
    pub raw: Option<raw::RawLoad>,
    /// The transport of the streams.
    pub transport: Transport,
    /// The arguments of `rookery bench run`, without the server.
    arguments: Vec<String>,
}

/// Returns the names by which the command line selects loads, in the order of the report.
pub(super) fn names() -> Vec<&'static str> {
    loads(false, None).into_iter().map(|load| load.name).collect()
}

/// Returns all loads in their order; with `quick`, small ones. `seconds` replaces the time for
/// which each is measured, which a multicast divides among its points.
pub(super) fn loads(quick: bool, seconds: Option<u32>) -> Vec<ProgramLoad> {
    let time = |full: u32, small: u32| seconds.unwrap_or(if quick { small } else { full });
    let (pairs, chat_seconds) = (if quick { 100 } else { 1000 }, f64::from(time(10, 1)));
    let chat = |name, title, window: usize| ProgramLoad {
        raw: Some(raw::RawLoad::Chat { pairs, window, seconds: chat_seconds }),
        ..load(name, title, 2 * pairs, 0, &format!("chat --pairs {pairs} --window {window} --seconds {chat_seconds}"))
    };
    let (friends, storm_seconds) = (if quick { 60 } else { 300 }, time(60, 2));
    let storm = |name, title, every: u32| {
        let contacts = friends - 1;
        let arguments =
            format!("presence-storm --users {friends} --contacts {contacts} --every {every} --seconds {storm_seconds}");
        ProgramLoad {
            raw: Some(raw::RawLoad::Everybody {
                users: friends,
                every: every.into(),
                seconds: storm_seconds.into(),
                bytes: raw::PRESENCE_BYTES,
            }),
            ..load(name, title, friends, friends, &arguments)
        }
    };
    let room = |name, title, occupants: usize, rate: u32| {
        let seconds = time(10, 2);
        // Every occupant writes equally often.
        let every = occupants as f64 / f64::from(rate);
        ProgramLoad {
            raw: Some(raw::RawLoad::Everybody {
                users: occupants,
                every,
                seconds: seconds.into(),
                bytes: raw::ROOM_BYTES,
            }),
            ..load(
                name,
                title,
                occupants,
                0,
                &format!("{name} --users {occupants} --occupants {occupants} --rate {rate} --seconds {seconds}"),
            )
        }
    };
    let (big, huge) = if quick { (50, 100) } else { (500, 3000) };
    let most = idle::most_sessions();
    let (talkers, rate) = if quick { (1000, 5000) } else { (most.min(10_000), 21_000) };
    let talk = time(30, 2);
    let (last, step, part) = if quick { (201, 100, 0.3) } else { (901, 100, 2.0) };
    let part = seconds.map_or(part, |all| f64::from(all) / 10.0);
    let (idlers, arrivals) = if quick { (1000, 500) } else { (most.min(10_000), 150) };
    let idle_seconds = time(10, 2);
    vec![
        chat("chat-1", "chat, window 1", 1),
        chat("chat-8", "chat, window 8", 8),
        load(
            "max-messages",
            "max-messages",
            talkers,
            0,
            &format!("max-messages --users {talkers} --rate {rate} --seconds {talk}"),
        ),
        ProgramLoad {
            raw: Some(raw::RawLoad::Multicast { from: 1, to: last, step, seconds: part }),
            ..load(
                "multicast",
                "multicast",
                last + 1,
                0,
                &format!("multicast --from 1 --to {last} --step {step} --part-seconds {part}"),
            )
        },
        storm("presence-storm", "presence-storm, a change every 60 s", 60),
        storm("presence-storm-5", "presence-storm, a change every 5 s", 5),
        room("muc-big", "a room of 500, 60 messages a second", big, 60),
        room("muc-huge", "a room of 3000, 10 messages a second", huge, 10),
        load(
            "idle",
            "idle sessions and logins",
            idlers,
            0,
            &format!("max-users --users {idlers} --arrival-rate {arrivals} --roster 0 --seconds {idle_seconds}"),
        ),
    ]
}

fn load(name: &'static str, title: &'static str, accounts: usize, friends: usize, arguments: &str) -> ProgramLoad {
    let arguments = arguments.split(' ').map(str::to_owned).collect();
    ProgramLoad {
        name,
        title,
        population: Population { accounts, friends },
        raw: None,
        transport: Transport::Tcp,
        arguments,
    }
}

/// Returns the load of users who are idle for a moment and then write to each other, over one
/// transport.
pub(super) fn over(transport: Transport, users: usize, rate: f64, seconds: f64) -> ProgramLoad {
    let arguments = format!("max-messages --users {users} --rate {rate} --seconds {seconds} --idle 3");
    ProgramLoad { transport, ..load("browsers", "websocket-vs-bosh", users, 0, &arguments) }
}

/// The table of scenarios, as a command line of its own.
#[derive(Debug, Parser)]
struct ScenarioLine {
    #[command(subcommand)]
    scenario: scenario::ScenarioCommand,
}

impl ProgramLoad {
    /// Returns whether the load can run on that server.
    pub fn fits(&self, peer: PeerServer) -> bool {
        peer != PeerServer::Raw || self.raw.is_some()
    }

    /// Runs the load against a running server.
    ///
    /// # Errors
    /// The scenario refuses the arguments.
    pub fn run(&self, peer: PeerServer, server: &Started) -> BenchOutcome<RunResult> {
        let address = if self.transport == Transport::Tcp { server.address } else { server.web };
        let line = self.line(peer, &address.to_string(), server.pid());
        let line = ScenarioLine::try_parse_from(line).map_err(|error| error.to_string())?;
        Ok(line.scenario.run())
    }

    fn line(&self, peer: PeerServer, host: &str, pid: u32) -> Vec<String> {
        let mut line = vec!["peers".to_owned()];
        line.extend(self.arguments.iter().cloned());
        // Debian's Prosody has no XEP-0033.
        if (peer, self.name) == (PeerServer::Prosody, "multicast") {
            line.extend(["--ways", "single"].map(str::to_owned));
        }
        let pid = pid.to_string();
        let common = [
            ["--host", host],
            ["--domain", DOMAIN],
            ["--password", PASSWORD],
            ["--mechanism", "SCRAM-SHA-1"],
            ["--tls", "none"],
            ["--transport", self.transport.label()],
            ["--server-pid", &pid],
            ["--name", peer.name()],
        ];
        line.extend(common.as_flattened().iter().map(|word| (*word).to_owned()));
        line
    }

    /// Returns an empty result with the reason.
    pub fn nothing(&self, why: &str) -> RunResult {
        let begun = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        RunResult {
            format: FORMAT,
            started_unix: begun.as_secs(),
            machine: RunMachine::this(),
            ended: why.to_owned(),
            ..RunResult::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::ValueEnum;

    #[test]
    fn every_load_is_one_that_the_scenarios_take() {
        for load in loads(false, None).into_iter().chain(loads(true, None)).chain(loads(false, Some(2))) {
            for peer in PeerServer::value_variants() {
                let line = load.line(*peer, "127.0.0.1:5222", 1);
                assert!(
                    ScenarioLine::try_parse_from(&line).is_ok(),
                    "{line:?}: {}",
                    ScenarioLine::try_parse_from(&line).unwrap_err()
                );
            }
        }
    }
}
