//! The Animal Store Service as one program: [`serve`](serve::start) runs the whole service in one process, `core`
//! and `gateway` run its halves, and the other verbs administer the store.
//!
//! This crate composes; it is the only one that knows the others all. What the service does is in
//! `petstore-core` (the store and gRPC) and `petstore-gateway` (REST).

// In layers, the highest first: a module uses those below it.

mod cli;

mod commands;

mod error;

mod bulk;

mod process;

mod logging;

pub mod settings;

mod output;

mod os_error;

use std::{ffi::OsString, process::ExitCode};

use clap::Parser;

use crate::{
    cli::{Cli, Verb},
    commands::{account, ban, core, export, import, key, migrate, openapi, usage},
    error::CliError,
};
pub use crate::{
    cli::{flags, settings_table},
    commands::{gateway, serve},
    process::StartError,
};

/// Does what the arguments say, the program's name first. A failure is one line on stderr; the exit code is 0,
/// 2 for arguments and settings that cannot be used, and 1 for every other failure.
pub fn run(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let verb = match Cli::try_parse_from(cli::with_default_verb(args)) {
        Ok(cli) => cli.verb,
        Err(error) => return cli::report(&error),
    };
    let done = dispatch(verb);
    if let Some(log) = logging::log() {
        log.flush();
    }
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => error.report(),
    }
}

fn dispatch(verb: Verb) -> Result<(), CliError> {
    let warnings = cli::unknown_variables();
    // Servers have a log for it.
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
        Verb::Import(settings) => import::run(&settings),
        Verb::Export(settings) => export::run(&settings),
        Verb::Openapi => openapi::run(),
    }
}
