//! `rookery store migrate`: the schema of the database.

use rookery_store::sql::IndexPlan;
use rookery_store::sql::copy::EndAddress;
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
        if let EndAddress::Sqlite(_) = database {
            source.folder.find()?;
        }
        database.migrate()?;
    }
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
        _ => say(&format!("{name} had schema version {found} and now has {known}\n")),
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

/// Stands for the step that no statement can do: this server fills the index from the messages.
const FILL: &str =
    "-- `rookery store migrate` puts the messages into the index: run it as a user who may read and write the tables\n";
