//! Completions for shells and manual pages, generated from the table of commands, with the same
//! texts as the help.

use std::path::Path;

use clap::{Command, CommandFactory};
use clap_complete::Shell;
use clap_mangen::Man;

use crate::arguments::Arguments;
use crate::failure::CommandFailure;

/// Prints the completions for a shell.
///
/// # Errors
///
/// [`CommandFailure::Failed`] if standard output can't be written.
pub fn print(shell: Shell) -> Result<(), CommandFailure> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut commands(), NAME, &mut script);
    crate::columns::line(String::from_utf8_lossy(&script).trim_end()).map(drop)
}

/// Writes a manual page for each command into a folder: `rookery-user-add.1` and so on. The page of
/// `rookery` itself is written by hand.
///
/// # Errors
///
/// [`CommandFailure::Failed`] if a file can't be written.
pub fn manual(folder: &Path) -> Result<(), CommandFailure> {
    std::fs::create_dir_all(folder).map_err(|error| CommandFailure::file(folder, &error))?;
    let mut commands = commands();
    commands.build();
    commands.get_subcommands().try_for_each(|command| pages(folder, command))
}

/// Writes the page of a command and those of its subcommands.
fn pages(folder: &Path, command: &Command) -> Result<(), CommandFailure> {
    if command.is_hide_set() || command.get_name() == "help" {
        return Ok(());
    }
    let name = command.get_display_name().unwrap_or_else(|| command.get_name()).to_owned();
    let file = folder.join(format!("{name}.{SECTION}"));
    let mut page = Vec::new();
    let man =
        Man::new(command.clone()).title(name.to_uppercase()).section(SECTION).source("Rookery").manual("User commands");
    man.render(&mut page)
        .and_then(|()| std::fs::write(&file, page))
        .map_err(|error| CommandFailure::file(&file, &error))?;
    command.get_subcommands().try_for_each(|below| pages(folder, below))
}

/// Returns the table of commands, with texts that fit a page.
fn commands() -> Command {
    Arguments::command().name(NAME).bin_name(NAME)
}

const NAME: &str = "rookery";
/// The section of the manual for user commands.
const SECTION: &str = "1";
