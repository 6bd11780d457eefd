//! `rookery store migrate`: the schema of the database.

use std::path::Path;

use rookery_store::sql::IndexPlan;
use rookery_store::sql::copy::EndAddress;
use rookery_store::sqlite;
use serde_json::json;

use crate::arguments::ShownAs;
use crate::columns;
use crate::database;
use crate::failure::CommandFailure;
use crate::loaded::ConfigSource;
use crate::welcome::say;

/// Brings the schema up to date, or only shows the steps.
///
/// # Errors
///
/// [`CommandFailure::Config`] if the configuration is wrong, otherwise the errors of the store.
pub fn run(source: &ConfigSource, dry_run: bool, sql: bool, shown: ShownAs) -> Result<(), CommandFailure> {
    let store = source.read()?.store;
    let database = database::address(&source.folder, &store)?;
    let plan = database.plan()?;
    if sql && !shown.json {
        for step in &plan.steps {
            say(&format!("-- version {}\n{}", step.number, step.sql));
        }
        plan.division.inspect(|division| say(&format!("-- archives in months\n{division}")));
        match plan.index {
            IndexPlan::Make(statements) => say(&format!("-- an index for searches\n{statements}{FILL}")),
            IndexPlan::Fill => say(FILL),
            IndexPlan::Remove => say("DROP TABLE rookery_search;\nDROP TABLE archive_terms;\n"),
            IndexPlan::Nothing => {}
        }
        return Ok(());
    }
    let name = match &database {
        EndAddress::Sqlite(file) => file.display().to_string(),
        server => server.to_string(),
    };
    let (found, known) = (plan.found, plan.known);
    if !dry_run && !sql {
        match &database {
            EndAddress::Sqlite(file) => {
                source.folder.find()?;
                sqlite::migrate(file, store.keeps_copy)?
            }
            EndAddress::Postgres(_) | EndAddress::Mysql(_) => database.migrate()?,
        };
    }
    let copy = match &database {
        EndAddress::Sqlite(file) => Some(sqlite::kept_copy(file, found)).filter(|copy| copy.exists()),
        EndAddress::Postgres(_) | EndAddress::Mysql(_) => None,
    };
    if shown.json {
        let steps = plan.steps.iter().map(|step| json!({ "version": step.number, "sql": step.sql }));
        let index = match plan.index {
            IndexPlan::Make(_) | IndexPlan::Fill => "to be made",
            IndexPlan::Remove => "to be removed",
            IndexPlan::Nothing => "up to date",
        };
        return columns::objects([json!({
            "database": name,
            "schema": found,
            "newest": known,
            "steps": steps.collect::<Vec<_>>(),
            "archives_in_months": plan.division,
            "index": index,
            "copy": copy.map(|copy| copy.display().to_string()),
            "done": !dry_run && !sql,
        })]);
    }
    match plan.steps.len() {
        0 if found > known => say(&format!(
            "{name} has schema version {found} of a newer server; this one knows {known} and can use it\n"
        )),
        0 => say(&format!("{name} has schema version {known}, the latest\n")),
        steps if dry_run => {
            say(&format!("{name} has schema version {found}; {steps} steps lead to {known}\n"));
        }
        _ => say(&format!(
            "{name} had schema version {found} and now has {known}\n{}",
            copy_line(&database, copy.as_deref(), found, store.keeps_copy)
        )),
    }
    if plan.division.is_some() {
        say(if dry_run {
            "its archives will be partitioned by month\n"
        } else {
            "its archives are now partitioned by month\n"
        });
    }
    match (plan.index, dry_run) {
        (IndexPlan::Make(_) | IndexPlan::Fill, true) => say("its archives will be indexed for searches\n"),
        (IndexPlan::Make(_) | IndexPlan::Fill, false) => say("its archives are now indexed for searches\n"),
        (IndexPlan::Remove, true) => say("its search index will be removed\n"),
        (IndexPlan::Remove, false) => say("its search index was removed\n"),
        (IndexPlan::Nothing, _) => {}
    }
    Ok(())
}

/// Returns the line about the copy of a database as it was before its update; empty if none was
/// wanted.
fn copy_line(database: &EndAddress, copy: Option<&Path>, found: i64, wanted: bool) -> String {
    match (copy, database) {
        (Some(copy), _) => format!("a copy from before is {}\n", copy.display()),
        (None, EndAddress::Sqlite(_)) if wanted && found > 0 => {
            "no copy from before was kept, since the disk has no room for it: free some space, and make a backup before \
             the next upgrade\n"
                .to_owned()
        }
        _ => String::new(),
    }
}

/// Stands for the step that no statement can do: this server fills the index from the messages.
const FILL: &str =
    "-- `rookery store migrate` puts the messages into the index: run it as a user who may read and write the tables\n";
