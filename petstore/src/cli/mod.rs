//! The command line: every command, in the order of `--help`.

mod argument_error;
mod settings_table;
mod unknown_variables;

use std::ffi::OsString;

use clap::{Parser, Subcommand};

pub use self::settings_table::{flags, settings_table};
pub(crate) use self::{argument_error::report, unknown_variables::unknown_variables};
use crate::commands::{
    account, audit, ban, core, explain, export, gateway, health, import, key, migrate, operator, overview,
    serve, shell, usage,
};

/// The Animal Store Service: pets, over REST and gRPC.
///
/// Without a command, `serve` runs: `petstore --http-addr 127.0.0.1:8081` is `petstore serve --http-addr …`.
#[derive(Debug, Parser)]
#[command(name = "petstore", version, long_version = env!("BUILD_VERSION"))]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Run the whole service in one process
    Serve(serve::ServeSettings),
    /// Run the core alone: the store and its gRPC port
    Core(core::CoreSettings),
    /// Run a gateway alone: REST in front of a core
    Gateway(gateway::GatewaySettings),
    /// Show or change the schema of the store
    #[command(subcommand)]
    Migrate(migrate::Migrate),
    /// Manage accounts and their plans
    #[command(subcommand)]
    Account(account::AccountCommand),
    /// Manage API keys
    #[command(subcommand)]
    Key(key::KeyCommand),
    /// Manage bans of API keys
    #[command(subcommand)]
    Ban(ban::BanCommand),
    /// Show the usage and limits of an account
    Usage(usage::UsageSettings),
    /// Show the requests of the last minutes over all accounts, and what refused some
    Overview(overview::OverviewSettings),
    /// Manage operators and their tokens
    #[command(subcommand)]
    Operator(operator::OperatorCommand),
    /// Show what operators have changed
    Audit(audit::AuditSettings),
    /// Explain why requests were refused in the last 24 hours
    Explain(explain::ExplainSettings),
    /// Add pets from a file, each line once
    Import(import::ImportSettings),
    /// Write the pets to a file
    Export(export::ExportSettings),
    /// Ask a process whether it is ready for requests; the exit code is 0 if it is
    Health(health::HealthSettings),
    /// Print a completion script for a shell
    Completions(shell::CompletionsSettings),
    /// Write the manual pages
    Man(shell::ManSettings),
    /// Print the OpenAPI document of the REST interface
    Openapi,
}

/// Inserts `serve` if there are only flags, or nothing. If the flags of serve belonged to the program, their
/// variables would be parsed for every command.
pub(crate) fn with_default_verb(args: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut args: Vec<OsString> = args.into_iter().collect();
    let is_flag = args.get(1).is_none_or(|first| first.as_encoded_bytes().starts_with(b"-"));
    let is_global =
        args.get(1).is_some_and(|first| ["-h", "--help", "-V", "--version"].iter().any(|flag| first == flag));
    if is_flag && !is_global {
        args.insert(args.len().min(1), "serve".into());
    }
    args
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn with_verb(args: &[&str]) -> String {
        let args = with_default_verb(args.iter().map(OsString::from));
        args.iter().map(|arg| arg.to_str().unwrap()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn the_definitions_are_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn serve_is_the_default_command() {
        assert_eq!(with_verb(&["petstore"]), "petstore serve");
        assert_eq!(with_verb(&["petstore", "--http-addr", "[::1]:1"]), "petstore serve --http-addr [::1]:1");
        assert!(matches!(Cli::try_parse_from(["petstore", "serve"]).unwrap().verb, Verb::Serve(_)));
    }

    #[test]
    fn a_command_and_the_flags_of_the_program_stay_as_they_are() {
        for args in [
            &["petstore", "serve", "--http-addr", "[::1]:1"][..],
            &["petstore", "key", "list"],
            &["petstore", "--help"],
            &["petstore", "-V"],
            &["petstore", "serv"],
        ] {
            assert_eq!(with_verb(args), args.join(" "));
        }
    }
}
