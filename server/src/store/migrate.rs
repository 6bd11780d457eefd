//! `rookery store migrate`: the schema of the database.

use rookery_store::sql::copy::Address;

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
    let database = database::address(&source.folder, &store)?;
    let (plan, begin) = database.plan()?;
    if sql {
        begin.inspect(|begin| say(&format!("{begin};\n")));
        for step in &plan.steps {
            say(&format!("-- version {}\n{}", step.number, step.sql));
        }
        begin.inspect(|_| say("COMMIT;\n"));
        plan.division.inspect(|division| say(&format!("-- archives in months\n{division}")));
        return Ok(());
    }
    let name = match &database {
        Address::Sqlite(file) => file.display().to_string(),
        server => server.to_string(),
    };
    let (found, known) = (plan.found, plan.known);
    if !dry_run {
        if let Address::Sqlite(_) = database {
            source.folder.create()?;
        }
        database.migrate()?;
    }
    match plan.steps.len() {
        0 => say(&format!("{name} has schema version {known}, the newest\n")),
        steps if dry_run => {
            say(&format!("{name} has schema version {found}; {steps} steps lead to {known}\n"));
        }
        _ => say(&format!("{name} had schema version {found} and has {known} now\n")),
    }
    if plan.division.is_some() {
        say(if dry_run { "its archives are to be divided into months\n" } else { "its archives have months now\n" });
    }
    Ok(())
}
