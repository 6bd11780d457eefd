//! This process as a node of a cluster, and the commands about nodes.

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use rookery_cluster::{AgreedSettings, ClusterSettings, JoinFailure, Joined, ListedNode, RedisAddresses};
use rookery_jid::Jid;
use serde_json::json;

use crate::arguments::{NodeCommand, ShownAs};
use crate::columns;
use crate::config::{ServerConfig, effective};
use crate::database::OpenedDatabase;
use crate::failure::CommandFailure;
use crate::loaded::ConfigSource;

/// Makes this process the node that the configuration names; `None` if it names none.
///
/// # Errors
///
/// [`CommandFailure::Unfit`] if another process is this node, or Redis can't be used as it is;
/// [`CommandFailure::Blocked`] if it, or the database, can't be reached now.
pub fn join(config: &ServerConfig, shards: usize, database: &OpenedDatabase) -> Result<Option<Joined>, CommandFailure> {
    let Some(settings) = settings(config) else { return Ok(None) };
    match rookery_cluster::join(&settings, shards, database.members()) {
        Ok(joined) => Ok(Some(joined)),
        Err(failed) if failed.may_pass() => Err(CommandFailure::Blocked(failed.to_string())),
        Err(failed) => Err(CommandFailure::Unfit(failed.to_string())),
    }
}

/// Returns the settings of this process's part in a cluster, if there is one.
pub fn settings(config: &ServerConfig) -> Option<ClusterSettings> {
    let cluster = &config.cluster;
    Some(ClusterSettings {
        node: cluster.node.clone().filter(|_| !cluster.redis.is_empty())?,
        redis: RedisAddresses { redis: cluster.redis.clone(), sentinels: cluster.sentinels.clone() },
        public_host: cluster.public_host.clone(),
        lease: Duration::from_secs(cluster.lease_seconds),
        agreed: settings_to_agree_on(config),
    })
}

/// Returns the settings on which all nodes have to agree: those that decide about accounts, rooms
/// and their clients, without what belongs to a machine.
pub fn settings_to_agree_on(config: &ServerConfig) -> AgreedSettings {
    let mut sections: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (key, value) in effective::settings(config) {
        if let Some(section) = AGREED.iter().find(|section| is_agreed(section, &key)) {
            sections.entry(*section).or_default().push(format!("{key} = {}", value.unwrap_or_default()));
        }
    }
    let texts: Vec<_> = sections.into_iter().map(|(section, lines)| (section, lines.join("\n"))).collect();
    let domains = config.domains.iter().map(|domain| domain.name.as_str());
    AgreedSettings::of(domains, texts.iter().map(|(section, text)| (*section, text.as_str())))
}

/// Returns whether a key belongs to a section on which nodes have to agree. Files may be at other
/// places on other machines, and secrets are left out, since anybody who can read the database
/// could try to guess them.
fn is_agreed(section: &str, key: &str) -> bool {
    let is_within = key.strip_prefix(section).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
    let name = key.rsplit('.').next().unwrap_or(key);
    let is_own = ["certificate", "key", "secret"].contains(&name) || name.ends_with("_file");
    is_within && !is_own
}

/// The sections and keys on which all nodes have to agree.
const AGREED: [&str; 8] =
    ["domains", "domain", "login", "limits", "modules", "federation", "component", "cluster.lease_seconds"];

/// Runs a command about nodes.
///
/// # Errors
///
/// The error of the configuration, the database or Redis.
pub fn run(source: &ConfigSource, command: NodeCommand) -> Result<(), CommandFailure> {
    let config = source.read()?;
    let database = OpenedDatabase::open_patiently(&source.folder, &config.store)?;
    let done = match command {
        NodeCommand::List { shown } => list(&config, &database, shown),
        NodeCommand::Home { addresses, shown } => home(&config, &database, addresses, shown),
        NodeCommand::Drain { name } => drain(&config, &database, name.as_deref()),
        NodeCommand::Remove { name } => remove(&config, &database, &name),
    };
    database.close();
    done
}

/// Prints the nodes, a line each: name, number, process, shards, whether it is up, the versions of
/// letters that it understands, whether its settings are those of this configuration, host.
///
/// # Errors
///
/// There is no cluster; the database or Redis can't be used.
fn list(config: &ServerConfig, database: &OpenedDatabase, shown: ShownAs) -> Result<(), CommandFailure> {
    let settings = settings(config).ok_or_else(no_cluster)?;
    let nodes = rookery_cluster::nodes(&settings, &*database.stores.meta)
        .map_err(|failed| CommandFailure::Failed(failed.to_string()))?;
    if shown.json {
        return columns::objects(nodes.into_iter().map(|node| {
            json!({
                "name": node.name,
                "number": node.row.number,
                "process": node.row.incarnation,
                "shards": node.row.shards,
                "up": node.is_up,
                "elsewhere": node.is_elsewhere,
                "other_settings": other_settings(&settings, &node),
                "leaving": node.row.leaves,
                "letters": node.row.letters.newest,
                "oldest_letters": node.row.letters.oldest,
                "host": node.row.public_host,
            })
        }));
    }
    println!(
        "{:<20} {:>6} {:>7} {:>6}  {:<9} {:<7} {:<8} HOST",
        "NAME", "NUMBER", "PROCESS", "SHARDS", "STATE", "LETTERS", "SETTINGS"
    );
    for node in nodes {
        let state = match (node.is_up, node.row.leaves) {
            (true, false) => "up",
            (true, true) => "leaving",
            (false, _) if node.is_elsewhere => "elsewhere",
            (false, _) => "away",
        };
        let host = node.row.public_host.as_deref().unwrap_or("-");
        let (number, process, shards) = (node.row.number, node.row.incarnation, node.row.shards);
        let letters = node.row.letters.to_string();
        let agrees = match other_settings(&settings, &node) {
            Some(differences) if differences.is_empty() => "same",
            Some(_) => "other",
            None => "-",
        };
        println!("{:<20} {number:>6} {process:>7} {shards:>6}  {state:<9} {letters:<7} {agrees:<8} {host}", node.name);
    }
    Ok(())
}

/// Returns the sections in which a node's settings differ from those of this configuration; `None`
/// if it doesn't state them.
fn other_settings(settings: &ClusterSettings, node: &ListedNode) -> Option<Vec<String>> {
    let theirs = &node.row.notes.settings;
    theirs.is_stated().then(|| settings.agreed.differences(theirs).into_iter().map(str::to_owned).collect())
}

/// Prints the home nodes of addresses, a line for each.
///
/// # Errors
///
/// There is no cluster, or no node; an address is invalid; the database can't be used.
fn home(
    config: &ServerConfig,
    database: &OpenedDatabase,
    mut addresses: Vec<String>,
    shown: ShownAs,
) -> Result<(), CommandFailure> {
    settings(config).ok_or_else(no_cluster)?;
    if addresses == ["-"] {
        addresses = io::read_to_string(io::stdin())
            .map_err(|error| CommandFailure::Failed(format!("the standard input can't be read: {error}")))?
            .lines()
            .map(str::to_owned)
            .collect();
    }
    let bare = |text: &String| match Jid::parse(text.trim()) {
        Ok(jid) => Ok(jid.bare_str().to_owned()),
        Err(error) => Err(CommandFailure::Failed(format!("\"{text}\" isn't an address: {error}"))),
    };
    let addresses = addresses.iter().map(bare).collect::<Result<Vec<_>, _>>()?;
    let homes = rookery_cluster::homes(&*database.stores.meta, &addresses)
        .map_err(|failed| CommandFailure::Failed(failed.to_string()))?;
    if homes.is_empty() {
        return Err(CommandFailure::Failed("no node has joined the cluster".into()));
    }
    let found = addresses.iter().zip(homes);
    if shown.json {
        return columns::objects(found.map(|(address, node)| json!({ "address": address, "node": node })));
    }
    for (address, node) in found {
        println!("{address} {node}");
    }
    Ok(())
}

/// Makes a running node leave: it hands its accounts and rooms on to the others, and ends.
///
/// # Errors
///
/// There is no cluster, no such node, it is down, or no other is up; the database or Redis can't be
/// used.
fn drain(config: &ServerConfig, database: &OpenedDatabase, name: Option<&str>) -> Result<(), CommandFailure> {
    let settings = settings(config).ok_or_else(no_cluster)?;
    let name = name.unwrap_or(&settings.node);
    let failed = |failed: JoinFailure| CommandFailure::Failed(failed.to_string());
    let nodes = rookery_cluster::nodes(&settings, &*database.stores.meta).map_err(failed)?;
    let stays = |node: &ListedNode| node.name != name && node.is_up && !node.row.leaves;
    match nodes.iter().find(|node| node.name == name) {
        None => Err(CommandFailure::Failed(format!("the cluster has no node \"{name}\": see `rookery node list`"))),
        Some(node) if !node.is_up => Err(CommandFailure::Failed(format!(
            "node \"{name}\" is away and can't hand anything on; see `rookery node remove`"
        ))),
        Some(_) if !nodes.iter().any(stays) => Err(CommandFailure::Failed(format!(
            "no other node is up that could take over from \"{name}\": start one, or stop this one"
        ))),
        Some(_) if rookery_cluster::drain(&database.members(), name).map_err(failed)? => {
            println!(
                "{name} is handing on its accounts and rooms and will then stop; `rookery node list` shows when it has gone"
            );
            Ok(())
        }
        Some(_) => Err(CommandFailure::Failed(format!("node \"{name}\" has just ended: see `rookery node list`"))),
    }
}

/// Removes a node that is down for good: the others take its accounts and rooms.
///
/// # Errors
///
/// There is no cluster, no such node, or it is up; the database or Redis can't be used.
fn remove(config: &ServerConfig, database: &OpenedDatabase, name: &str) -> Result<(), CommandFailure> {
    let settings = settings(config).ok_or_else(no_cluster)?;
    let failed = |failed: JoinFailure| CommandFailure::Failed(failed.to_string());
    let nodes = rookery_cluster::nodes(&settings, &*database.stores.meta).map_err(failed)?;
    match nodes.iter().find(|node| node.name == name) {
        None => Err(CommandFailure::Failed(format!("the cluster has no node \"{name}\": see `rookery node list`"))),
        Some(node) if node.is_up => Err(CommandFailure::Failed(format!(
            "node \"{name}\" is up: stop it first, and wait until `rookery node list` says away"
        ))),
        Some(_) => {
            if rookery_cluster::remove(&database.members(), name).map_err(failed)? {
                println!("removed; the other nodes take its accounts and rooms within a second");
                return Ok(());
            }
            let text = "has just started again, or another command has removed it: see `rookery node list`";
            Err(CommandFailure::Failed(format!("node \"{name}\" {text}")))
        }
    }
}

fn no_cluster() -> CommandFailure {
    CommandFailure::Failed("the configuration has no [cluster]".into())
}
