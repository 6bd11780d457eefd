//! `rookery store migrate`: the schema of the database.

use rookery_store::sqlite;

use crate::failure::Failure;
use crate::loaded::Source;
use crate::welcome::say;

/// Brings the schema up to date, or only tells how that would be done.
///
/// # Errors
///
/// [`Failure::Config`] if the configuration is wrong, otherwise what the store says.
pub fn run(source: &Source, dry_run: bool, sql: bool) -> Result<(), Failure> {
    source.read()?;
    let file = source.folder.database();
    let plan = sqlite::plan(&file)?;
    if sql {
        say("BEGIN IMMEDIATE;\n");
        for step in &plan.steps {
            say(&format!("-- version {}\n{}", step.number, step.sql));
        }
        say("COMMIT;\n");
        return Ok(());
    }
    let (found, known) = (plan.found, plan.known);
    match plan.steps.len() {
        0 => say(&format!("{} has schema version {known}, the newest\n", file.display())),
        steps if dry_run => {
            say(&format!("{} has schema version {found}; {steps} steps lead to {known}\n", file.display()));
        }
        _ => {
            source.folder.create()?;
            sqlite::migrate(&file)?;
            say(&format!("{} had schema version {found} and has {known} now\n", file.display()));
        }
    }
    Ok(())
}
