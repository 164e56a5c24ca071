//! The Animal Store Service as one program: [`serve`](servers::start_service) runs the whole service in one
//! process, `core` and `gateway` run its halves, and the other commands administer it.
//!
//! This crate composes the parts, and is the only one that depends on all of them. The service itself is in
//! `petstore-core` (the store and gRPC) and `petstore-gateway` (REST).

// In layers, the highest first: cli, commands, error, variables, process. A module uses those after it.
mod cli;
/// The servers, and the commands that work on their store or on one of their processes.
mod commands {
    pub(crate) mod check;
    pub(crate) mod health;
    pub mod servers;
    pub(crate) mod shell;
    pub(crate) mod store;
}
mod error;
mod process;
mod variables;

use std::{ffi::OsString, process::ExitCode};

use clap::{CommandFactory, Parser};
use petstore_clock::Clock;
use petstore_command_line::output;
use petstore_telemetry::logs;

pub use crate::{
    cli::args,
    commands::servers,
    process::{Addresses, Process, ProcessError},
};
use crate::{
    cli::{Cli, Verb},
    commands::{
        check, health,
        servers::{start_core, start_gateway, start_service},
        shell, store,
    },
    error::CliError,
};

/// Runs the command that the arguments name; the first one is the program's name. A failure is one line on
/// stderr. The exit code is 0, 2 for invalid arguments and settings, 3 for a missing object, 4 for a broken
/// contract or a key that is still needed, and 1 for every other failure.
pub fn run(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let args: Vec<OsString> = args.into_iter().collect();
    if let Err(reason) = variables::normalize(&args, cli::variables) {
        return CliError::Refused(reason).report();
    }
    let verb = match Cli::try_parse_from(cli::with_default_verb(args)) {
        Ok(cli) => cli.verb,
        Err(error) => return cli::report(error),
    };
    let done = dispatch(verb);
    if let Some(log) = logs::log() {
        log.flush();
    }
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => error.report(),
    }
}

fn dispatch(verb: Verb) -> Result<(), CliError> {
    let warnings = variables::unknown_variables(cli::variables);
    // Servers log the unknown variables.
    if !matches!(verb, Verb::Serve(_) | Verb::Core(_) | Verb::Gateway(_)) {
        for warning in &warnings {
            output::note(&format!("warning: {warning}"));
        }
    }
    let clock = Clock::system();
    match verb {
        Verb::Serve(it) => Ok(process::run(&it.process.clone(), &warnings, start_service(it, clock))?),
        Verb::Core(it) => Ok(process::run(&it.process.clone(), &warnings, start_core(it, clock))?),
        Verb::Gateway(it) => Ok(process::run(&it.process.clone(), &warnings, start_gateway(it, clock))?),
        Verb::Migrate(command) => store::migrate(&command),
        Verb::Admin(verb) => Ok(verb.run()?),
        Verb::Backup(settings) => store::back_up(&settings),
        Verb::Restore(settings) => store::restore(&settings),
        Verb::Health(settings) => health::run(&settings),
        Verb::Check(settings) => check::run(&settings),
        Verb::Completions(settings) => shell::completions(&settings, Cli::command()),
        Verb::Man(settings) => shell::man(&settings, Cli::command()),
        Verb::Openapi => Ok(output::print(&format!("{:#}\n", petstore_gateway::openapi::document()))?),
    }
}
