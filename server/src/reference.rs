//! Pages of the book that are generated from the code: every key of the configuration, and every
//! command with its help. `UPDATE_DOC=1 cargo test --workspace up_to_date` writes them.

use std::fmt::Write;

use clap::{Command, CommandFactory};

use crate::arguments::Arguments;
use crate::config;

#[test]
fn the_configuration_is_up_to_date() {
    let table = rookery_modules::table(&rookery_modules::Shared::default());
    up_to_date("configuration.md", &configuration(&config::example(&table)));
}

#[test]
fn the_commands_are_up_to_date() {
    let mut commands = Arguments::command().name("rookery").bin_name("rookery").term_width(COLUMNS);
    commands.build();
    let mut page = COMMANDS.to_owned();
    describe(&mut page, &commands);
    up_to_date("commands.md", &page);
}

#[test]
fn every_command_that_shows_something_prints_json() {
    let mut all = Arguments::command().name("rookery").bin_name("rookery");
    all.build();
    let mut without = Vec::new();
    find_without_json(&all, &mut without);
    without.retain(|name| !TOOLS.iter().any(|tool| name.split(' ').next() == Some(tool)));
    let known: Vec<&str> = ACTS.iter().chain(DOCUMENTS).copied().collect();
    let missing: Vec<_> = without.iter().filter(|name| !known.contains(&name.as_str())).collect();
    assert!(missing.is_empty(), "give these the flag --json, or say below why they have none: {missing:?}");
    let needless: Vec<_> = known.iter().filter(|name| !without.iter().any(|found| found == *name)).collect();
    assert!(needless.is_empty(), "these have the flag, or are gone: {needless:?}");
}

/// Collects the commands that do something themselves and have no `--json`, without their program's
/// name.
fn find_without_json(command: &Command, without: &mut Vec<String>) {
    let below: Vec<_> = command.get_subcommands().filter(|below| below.get_name() != "help").collect();
    let has_json = command.get_arguments().any(|argument| argument.get_long() == Some("json"));
    if below.is_empty() && !has_json {
        let name = command.get_bin_name().unwrap_or_default();
        without.push(name.strip_prefix("rookery ").unwrap_or(name).to_owned());
    }
    below.into_iter().for_each(|below| find_without_json(below, without));
}

#[test]
fn an_example_is_cut_at_its_tables() {
    let page = configuration(
        "# All.\n\n# A key.\na = 1\n\n# A table,\n# of two keys.\n[t]\n\n# Another.\nb = 2\n\n# None.\n#[u]\n#c = 3\n",
    );
    let wanted = "```toml\n# All.\n\n# A key.\na = 1\n```\n\n## `[t]`\n\n```toml\n# A table,\n# of two keys.\n[t]\n\n# Another.\nb = 2\n```\n\n\
                  ## `[u]`\n\n```toml\n# None.\n#[u]\n#c = 3\n```\n";
    assert_eq!(page.strip_prefix(CONFIGURATION), Some(wanted));
}

/// Compares a page with the one in the book, which is written first if the environment asks for it.
fn up_to_date(name: &str, page: &str) {
    let file = format!("{}/../doc/book/reference/{name}", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("UPDATE_DOC").is_some() {
        std::fs::write(&file, page).unwrap();
    }
    let found = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(found == page, "{name} is old: run UPDATE_DOC=1 cargo test --workspace up_to_date");
}

/// Returns the page of the example configuration, with a heading for each table. The comment above
/// a table's name goes below its heading.
fn configuration(example: &str) -> String {
    let mut tables: Vec<(String, String)> = vec![Default::default()];
    for paragraph in example.trim_end().split("\n\n") {
        let heads = paragraph.lines().filter(|line| line.trim_start_matches('#').starts_with('['));
        if let Some(head) = heads.map(|line| line.trim_start_matches('#')).next() {
            tables.push((head.to_owned(), String::new()));
        }
        let (_, text) = tables.last_mut().expect("there is one from the beginning");
        if !text.is_empty() {
            text.push_str("\n\n");
        }
        text.push_str(paragraph);
    }
    let mut page = CONFIGURATION.to_owned();
    for (at, (head, text)) in tables.into_iter().enumerate() {
        if at > 0 {
            let _ = write!(page, "\n## `{head}`\n\n");
        }
        let _ = write!(page, "```toml\n{text}\n```\n");
    }
    page
}

/// Appends a command and its subcommands.
fn describe(page: &mut String, command: &Command) {
    let mut command = command.clone();
    let help = command.render_help().to_string();
    let help: Vec<&str> = help.lines().map(str::trim_end).collect();
    let name = command.get_bin_name().unwrap_or_default().to_owned();
    let _ = write!(page, "\n## `{name}`\n\n```text\n{}\n```\n", help.join("\n").trim_end());
    for below in command.get_subcommands().filter(|below| below.get_name() != "help") {
        describe(page, below);
    }
}

/// Commands that change something and report that: programs use their exit code.
const ACTS: &[&str] = &[
    "serve",
    "log level",
    "room destroy",
    "user passwd",
    "user disable",
    "user enable",
    "admin add",
    "admin remove",
    "restore",
    "store copy",
    "node drain",
    "node remove",
    "token revoke",
    "web install",
];

/// Commands that write a document, whose format is given: XML, TOML, scripts.
const DOCUMENTS: &[&str] = &["user export", "config example", "completions", "manual"];

/// Separate tools, which write their results as files (`--out` of bench) or as pages for a
/// terminal.
const TOOLS: &[&str] = &["bench", "dpm"];

/// The width of the help on these pages.
const COLUMNS: usize = 100;
const CONFIGURATION: &str = "\
# Configuration

Every key with its default and its meaning, as `rookery config example` prints it. This page is made from
the table by which the file is read. Keep the keys that you change. [Configuration](../operating/configuration.md)
says how the file works, and how to find what is wrong with one.

";
const COMMANDS: &str = "\
# Commands

The output of `rookery COMMAND -h` for every command; `--help` says more about some. The page is made from
the same text.

Every command that shows something, and most that do something, print JSON with `--json`: one object, or for a list one
object per line (nothing if the list is empty). The tools `bench` and `dpm` are exceptions, with reports of their own.
Names of members are in lower case, times in UTC as in RFC 3339, and absent values are `null`. Members may be added, but
none changes its meaning. Errors are still text on standard error, and exit codes are the same.
";
