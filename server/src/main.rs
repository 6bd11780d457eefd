//! The `rookery` binary: reads its arguments, then runs one command.
//!
//! # Layout
//!
//! - [`arguments`] is the command line, [`failure`] the exit codes.
//! - [`config`] reads the configuration, [`configuration`] shows and compares it; [`bounds`] makes
//!   the page of all limits; [`settings`] turns it into the settings of hub and streams;
//!   [`loaded`] is everything that a reload replaces; [`federation`] is its part for other
//!   servers, [`logins`] for login sources.
//! - [`setup`] creates a server where there is none.
//! - [`start`] opens everything, reports the outcome to the operator ([`welcome`], [`state`]) and
//!   hands over to [`serve`].
//! - [`supervisor`] keeps systemd informed, [`cards`] passes sessions from one process to the
//!   next.
//! - [`folder`], [`database`], [`certificate`], [`watch`], [`acme`], [`acme_shared`], [`listener`],
//!   [`sockets`], [`interface`] and [`open_files`] are the things that a server needs from its
//!   machine; [`owner`] is for what root creates there; [`abort`] maps a start that was aborted to
//!   its exit code.
//! - [`uploads`] is where users' files are, [`events`] the program that is notified of events.
//! - [`dpm`] serves readings of devices in the same process, and shows them in the chat.
//! - [`cluster`] makes the process a node, and shows nodes.
//! - [`clock`] formats dates for people, [`logging`] writes the log; [`completions`] writes the
//!   completions for shells and the manual pages.
//! - [`status`], [`session`] and [`log`] show the running server, its sessions and its log,
//!   through [`control`], by which other commands also report their actions; [`columns`] prints
//!   lists.
//! - [`top`] shows the running server's activity, [`profile`] where its time goes, [`trace`] the
//!   way of stanzas, [`slow`] slow events; [`doctor`] says what is wrong with it; [`traces`] reads
//!   the settings of the collector of traces; [`memory`] tells what threads allocate.
//! - [`check`] checks all of that without changing it; [`user`], [`admin`] and [`token`] change
//!   accounts, administrators and tokens, [`s2s`] shows other servers; [`store`] changes the
//!   database as a whole, [`backup`] saves all data of a server, [`install`] downloads files for
//!   browsers, also beside a running server.

mod abort;
mod acme;
mod acme_shared;
mod admin;
mod arguments;
mod backup;
mod bounds;
mod cards;
mod certificate;
mod check;
mod clock;
mod cluster;
mod columns;
mod completions;
mod config;
mod configuration;
mod control;
mod database;
mod doctor;
mod dpm;
mod events;
mod failure;
mod federation;
mod folder;
mod install;
mod interface;
mod listener;
mod loaded;
mod log;
mod logging;
mod logins;
mod memory;
mod open_files;
mod owner;
mod profile;
#[cfg(test)]
mod reference;
mod s2s;
mod serve;
mod session;
mod settings;
mod setup;
mod slow;
mod sockets;
mod start;
mod state;
mod status;
mod store;
mod supervisor;
mod token;
mod top;
mod trace;
mod traces;
mod uploads;
mod user;
mod watch;
mod welcome;

use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::process::ExitCode;

use clap::Parser;

use arguments::{Arguments, ConfigCommand, ServerCommand, WebCommand};
use failure::CommandFailure;
use loaded::ConfigSource;
use serve::ServerEnding;

/// Returns memory to the system some seconds after a wave of logins, on threads of its own, and can
/// profile the heap.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    rookery_observe::allocated::ask_by(memory::allocated_bytes);
    rookery_store::sqlite::tell_waits(database::tell_wait_for_file);
    match run(arguments) {
        Ok(code) => code,
        Err(failure) => {
            let words = failure.to_string();
            for line in words.lines() {
                eprintln!("rookery: {line}");
            }
            failure.exit_code()
        }
    }
}

/// Replaces this process's program with the same command, for an administrator's restart. Returns
/// only if that fails.
fn again(sockets: &[TcpListener]) -> CommandFailure {
    let mut arguments = std::env::args_os();
    let name = arguments.next().unwrap_or_default();
    let mut command = std::process::Command::new(&name);
    let passed = sockets::pass_on(&mut command, sockets);
    if let Err(error) = &passed {
        tracing::warn!(%error, "the ports can't be handed over; connections will be refused for a moment");
    }
    let error = command.args(arguments).exec();
    CommandFailure::Failed(format!("{} can't be started again: {error}", name.display()))
}

fn run(arguments: Arguments) -> Result<ExitCode, CommandFailure> {
    let command = arguments.command.unwrap_or(ServerCommand::Serve);
    let source = match command {
        // These create a server if there is none.
        ServerCommand::Serve | ServerCommand::Setup(_) => ConfigSource::new(arguments.config, arguments.data_dir),
        _ => ConfigSource::find(arguments.config, arguments.data_dir),
    };
    match command {
        ServerCommand::Bench(bench) => return Ok(bench.run()),
        ServerCommand::Dpm(command) => {
            return Ok(command.run(&|from, table| dpm::read_table(&source, from, table)));
        }
        ServerCommand::Serve => {
            rookery_observe::vital::tell_panics();
            if let ServerEnding::Restart(sockets) = serve::run(start::start(source)?)? {
                return Err(again(&sockets));
            }
        }
        ServerCommand::Setup(wishes) => setup::run(&source, &wishes)?,
        ServerCommand::Status { shown } => status::status(&source, shown)?,
        ServerCommand::Log { command, wishes } => log::run(&source, &wishes, command.as_ref())?,
        ServerCommand::Completions { shell } => completions::print(shell)?,
        ServerCommand::Manual { folder } => completions::manual(&folder)?,
        ServerCommand::Reload { shown } => status::reload(&source, shown)?,
        ServerCommand::Top(wishes) => top::run(&source, &wishes)?,
        ServerCommand::Profile(wishes) => profile::run(&source, wishes)?,
        ServerCommand::Doctor { shown } => return doctor::run(&source, shown),
        ServerCommand::Slow { shown } => slow::run(&source, shown)?,
        ServerCommand::Trace(wishes) => trace::run(&source, &wishes)?,
        ServerCommand::Session { command } => session::run(&source, command)?,
        ServerCommand::Room { command } => session::rooms(&source, command)?,
        ServerCommand::User { command } => user::run(&source, command)?,
        ServerCommand::Admin { command } => admin::run(&source, command)?,
        ServerCommand::Backup { file, shown } => backup::backup(&source, &file, shown)?,
        ServerCommand::Restore { file, to, replace } => backup::restore(&source, &file, to.as_deref(), replace)?,
        ServerCommand::Store { command } => store::run(&source, command)?,
        ServerCommand::S2s { what, domain, from, shown } => {
            s2s::run(&source, &what, domain.as_deref(), from.as_deref(), shown)?;
        }
        ServerCommand::Token { command } => token::run(&source, command)?,
        ServerCommand::Web { command: WebCommand::Install { from } } => install::run(&source, from.as_deref())?,
        ServerCommand::Node { command } => cluster::run(&source, command)?,
        ServerCommand::Config { command: ConfigCommand::Example { short } } => {
            let table = rookery_modules::table(&rookery_modules::Shared::default());
            welcome::say(&if short { config::short_example(&table) } else { config::example(&table) });
        }
        ServerCommand::Config { command: ConfigCommand::Show { given, changed, shown } } => {
            configuration::show(&source, configuration::ShownValues { given, changed }, shown)?
        }
        ServerCommand::Config { command: ConfigCommand::Diff { shown } } => configuration::diff(&source, shown)?,
        ServerCommand::Config { command: ConfigCommand::Limits { shown } } => {
            let table = rookery_modules::table(&rookery_modules::Shared::default());
            match shown.json {
                true => bounds::json(&source.read()?, &table)?,
                false => welcome::say(&bounds::page(&source.read()?, &table)),
            }
        }
        ServerCommand::Check(wishes) => return check::run(&source, wishes),
    }
    Ok(ExitCode::SUCCESS)
}
