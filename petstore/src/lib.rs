//! The Animal Store Service as one program: [`serve`](serve::start) runs the whole service in one process, `core`
//! and `gateway` run its halves, and the other verbs administer the store.
//!
//! This crate composes; it is the only one that knows the others all. What the service does is in
//! `petstore-core` (the store and gRPC) and `petstore-gateway` (REST).

mod account;
mod admin;
mod administration;
mod announcement;
mod ban;
mod cli;
mod core;
mod duration;
mod error;
mod exchange;
mod export;
mod first_key;
pub mod gateway;
mod import;
mod key;
mod lifecycle;
mod listener;
mod logging;
mod migrate;
mod openapi;
mod os_error;
mod output;
mod owned_file;
mod process;
mod readiness;
mod running_service;
pub mod serve;
pub mod settings;
mod store_disk;
mod usage;

use std::{ffi::OsString, process::ExitCode};

use clap::Parser;

use crate::{
    cli::{Cli, Verb},
    error::Failure,
};
pub use crate::{error::StartError, settings::settings_table};

/// Does what the arguments say, the program's name first. A failure is one line on stderr; the exit code is 0,
/// 2 for arguments and settings that cannot be used, and 1 for every other failure.
pub fn run(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let done = Cli::try_parse_from(cli::with_default_verb(args))
        .map_err(Failure::from)
        .and_then(|cli| dispatch(cli.verb));
    if let Some(log) = logging::log() {
        log.flush();
    }
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

fn dispatch(verb: Verb) -> Result<(), Failure> {
    // Servers have a log for it.
    if !matches!(verb, Verb::Serve(_) | Verb::Core(_) | Verb::Gateway(_)) {
        for warning in settings::unknown_variables() {
            output::note(&format!("warning: {warning}"));
        }
    }
    match verb {
        Verb::Serve(settings) => serve::run(settings),
        Verb::Core(settings) => core::run(&settings),
        Verb::Gateway(settings) => gateway::run(settings),
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
