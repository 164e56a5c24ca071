//! The Animal Store Service as one program: [`serve`](serve::start) runs the whole service in one process,
//! `core` and `gateway` run its halves, and the other commands administer it.
//!
//! This crate composes the parts, and is the only one that depends on all of them. The service itself is in
//! `petstore-core` (the store and gRPC) and `petstore-gateway` (REST).

// In layers, the highest first: cli, commands, admin, error, bulk, core_target, process, settings, output,
// os_error. A module uses those after it.
mod admin;
mod bulk;
mod cli;
mod commands;
mod core_target;
mod error;
mod os_error;
mod output;
mod process;
pub mod settings;

use std::{ffi::OsString, process::ExitCode};

use clap::{CommandFactory, Parser};
use petstore_telemetry::logs;

use crate::{
    cli::{Cli, Verb},
    commands::{
        account, audit, ban, core, explain, export, health, import, key, migrate, operator, overview, shell,
        usage,
    },
    error::CliError,
};
pub use crate::{
    cli::{flags, settings_table},
    commands::{gateway, serve},
    process::StartError,
};

/// Runs the command that the arguments name; the first one is the program's name. A failure is one line on
/// stderr. The exit code is 0, 2 for invalid arguments and settings, 3 for a missing object, and 1 for every
/// other failure.
pub fn run(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let verb = match Cli::try_parse_from(cli::with_default_verb(args)) {
        Ok(cli) => cli.verb,
        Err(error) => return cli::report(&error),
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
    let warnings = cli::unknown_variables();
    // Servers log the unknown variables.
    if !matches!(verb, Verb::Serve(_) | Verb::Core(_) | Verb::Gateway(_)) {
        for warning in &warnings {
            output::note(&format!("warning: {warning}"));
        }
    }
    match verb {
        Verb::Serve(settings) => Ok(serve::run(settings, &warnings)?),
        Verb::Core(settings) => Ok(core::run(&settings, &warnings)?),
        Verb::Gateway(settings) => Ok(gateway::run(settings, &warnings)?),
        Verb::Migrate(verb) => migrate::run(verb),
        Verb::Account(verb) => account::run(verb),
        Verb::Key(verb) => key::run(verb),
        Verb::Ban(verb) => ban::run(verb),
        Verb::Usage(settings) => usage::run(&settings),
        Verb::Overview(settings) => overview::run(&settings),
        Verb::Operator(verb) => operator::run(verb),
        Verb::Audit(settings) => audit::run(&settings),
        Verb::Explain(settings) => explain::run(&settings),
        Verb::Import(settings) => import::run(&settings),
        Verb::Export(settings) => export::run(&settings),
        Verb::Health(settings) => health::run(&settings),
        Verb::Completions(settings) => shell::completions(&settings, Cli::command()),
        Verb::Man(settings) => shell::man(&settings, Cli::command()),
        Verb::Openapi => Ok(output::print(&format!("{:#}\n", petstore_gateway::openapi()))?),
    }
}
