//! This program as a server.

use std::env;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use rookery_jid::Jid;
use rookery_shard::SystemInterface;
use rookery_store::{Edit, RosterItem, Stores, Subscription, sqlite, wait};

use super::child::tied_command;
use super::population::{DOMAIN, ITERATIONS, Population, credentials, fill_template};
use super::started::{Ports, StartedReady};
use crate::{BenchOutcome, chat};

/// Writes configuration and accounts into the folder.
///
/// # Errors
/// The error of the system or the store.
pub(super) fn prepare(
    folder: &Path,
    ports: Ports,
    population: Population,
    interface: SystemInterface,
) -> BenchOutcome<StartedReady> {
    let data = folder.join("data");
    fs::create_dir(&data)?;
    let (port, web, iterations) = (ports.streams.to_string(), ports.web.to_string(), ITERATIONS.to_string());
    let values =
        [("DOMAIN", DOMAIN), ("PORT", &port), ("WEB", &web), ("ITERATIONS", &iterations), ("IO", interface.name())];
    fs::write(data.join("rookery.toml"), fill_template(CONFIG, &values))?;
    fill(&data, population)?;
    let mut command = tied_command(env::current_exe()?);
    command.arg("serve").arg("--data-dir").arg(&data).current_dir(folder);
    Ok(StartedReady { command, file: None })
}

fn fill(data: &Path, population: Population) -> BenchOutcome<()> {
    let stores = Stores::of(Arc::new(sqlite::open(&data.join("rookery.db"), &sqlite::SqliteOptions::default())?));
    let credentials = credentials()?;
    let jid = |number| Jid::parse(&chat::account(number, DOMAIN));
    let accounts: Result<Vec<_>, _> = (0..population.accounts)
        .map(|number| Ok::<_, rookery_jid::JidError>((jid(number)?, credentials.clone())))
        .collect();
    wait(stores.accounts.create_many(accounts?))?;
    let friends: Vec<Jid> = (0..population.friends).map(jid).collect::<Result<_, _>>()?;
    for owner in &friends {
        let others = friends.iter().filter(|other| *other != owner);
        let changes: Vec<_> = others.map(|contact| befriend(&stores, owner, contact)).collect();
        for change in changes {
            wait(change)?;
        }
    }
    Ok(())
}

fn befriend(stores: &Stores, owner: &Jid, contact: &Jid) -> rookery_store::Pending<rookery_store::Changed> {
    let item = RosterItem { subscription: Subscription::Both, ..RosterItem::new(contact.clone()) };
    stores.rosters.change(owner.as_ref(), contact.as_ref(), Box::new(move |_, _| Edit::Put(item.clone())))
}

const CONFIG: &str = include_str!("../../peers/rookery.toml");
