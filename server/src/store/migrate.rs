//! `rookery store migrate`: the schema of the database.

use rookery_store::{postgres, sqlite};

use crate::config::Place;
use crate::database;
use crate::failure::Failure;
use crate::loaded::Source;
use crate::welcome::say;

/// Brings the schema up to date, or only tells how that would be done.
///
/// # Errors
///
/// [`Failure::Config`] if the configuration is wrong, otherwise what the store says.
pub fn run(source: &Source, dry_run: bool, sql: bool) -> Result<(), Failure> {
    let store = source.read()?.store;
    let (plan, name, begin) = match &store.place {
        Place::Folder => {
            let file = source.folder.database();
            (sqlite::plan(&file)?, file.display().to_string(), "BEGIN IMMEDIATE")
        }
        Place::Postgres(address) => {
            (postgres::plan(&database::served(address, &store)?)?, address.to_string(), "BEGIN")
        }
    };
    if sql {
        say(&format!("{begin};\n"));
        for step in &plan.steps {
            say(&format!("-- version {}\n{}", step.number, step.sql));
        }
        say("COMMIT;\n");
        return Ok(());
    }
    let (found, known) = (plan.found, plan.known);
    match plan.steps.len() {
        0 => say(&format!("{name} has schema version {known}, the newest\n")),
        steps if dry_run => {
            say(&format!("{name} has schema version {found}; {steps} steps lead to {known}\n"));
        }
        _ => {
            match &store.place {
                Place::Folder => {
                    source.folder.create()?;
                    sqlite::migrate(&source.folder.database())?;
                }
                Place::Postgres(address) => _ = postgres::migrate(&database::served(address, &store)?)?,
            }
            say(&format!("{name} had schema version {found} and has {known} now\n"));
        }
    }
    Ok(())
}
