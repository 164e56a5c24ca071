//! The command line: every command, in the order of `--help`.

use std::{collections::BTreeSet, ffi::OsString, process::ExitCode};

use clap::{
    Arg, Command, CommandFactory, Parser, Subcommand,
    error::{ContextKind, ContextValue, ErrorKind},
};

use petstore_admin_commands::AdminVerb;
use petstore_command_line::output::{self, PrintError};

use crate::{
    commands::{check, health, servers, shell, store},
    error::CliError,
    variables::{name_variables, not_unicode},
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
    Serve(servers::ServeSettings),
    /// Run the core alone: the store and its gRPC port
    Core(servers::CoreSettings),
    /// Run a gateway alone: REST in front of a core
    Gateway(servers::GatewaySettings),
    /// Show or change the schema of the store
    #[command(subcommand)]
    Migrate(store::Migrate),
    #[command(flatten)]
    Admin(AdminVerb),
    /// Copy a store in a SQLite file, even while the service runs
    Backup(store::BackupSettings),
    /// Put a backup in the place of a store in a SQLite file; the service must be stopped
    Restore(store::RestoreSettings),
    /// Show the readiness of a process; the exit code is 0 if it is ready for requests
    Health(health::HealthSettings),
    /// Check a service at any address, clause by clause of its contract; the exit code is 4 if one is broken
    Check(check::CheckSettings),
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

/// Prints help or the version if that was requested, otherwise the error in the arguments.
pub(crate) fn report(mut error: clap::Error) -> ExitCode {
    let is_answer = matches!(
        error.kind(),
        ErrorKind::DisplayHelp
            | ErrorKind::DisplayVersion
            | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
    );
    if is_answer {
        match error.print() {
            Ok(()) => ExitCode::from(if error.use_stderr() { 2 } else { 0 }),
            Err(cause) => CliError::from(PrintError(cause)).report(),
        }
    } else {
        for kind in [ContextKind::InvalidArg, ContextKind::InvalidSubcommand, ContextKind::InvalidValue] {
            let shown = error.get(kind).map(ToString::to_string).unwrap_or_default();
            if shown.contains("://") && (shown.contains('@') || shown.to_ascii_lowercase().contains("pass")) {
                error.insert(kind, ContextValue::String("…".to_owned())); // it may hold a password
            }
        }
        output::note(&name_variables(&argument_line(&error)));
        ExitCode::from(2)
    }
}

/// Returns the error in the arguments and a suggestion, in one line.
fn argument_line(error: &clap::Error) -> String {
    let text = error.render().to_string();
    let lines: Vec<_> = text.lines().map(str::trim).take_while(|line| !line.is_empty()).collect(); // no usage
    let line = if error.kind() == ErrorKind::InvalidUtf8 { not_unicode() } else { lines.join(" ") };
    let kinds = [ContextKind::SuggestedSubcommand, ContextKind::SuggestedArg, ContextKind::SuggestedValue];
    let suggested: Vec<&str> = kinds
        .into_iter()
        .filter_map(|kind| error.get(kind))
        .flat_map(|suggested| match suggested {
            ContextValue::String(one) => std::slice::from_ref(one),
            ContextValue::Strings(several) => several,
            _ => &[],
        })
        .map(String::as_str)
        .collect();
    match (suggested.is_empty(), error.kind()) {
        (false, _) => format!("{line}; did you mean {}?", suggested.join(" or ")),
        (true, ErrorKind::InvalidSubcommand | ErrorKind::UnknownArgument) => {
            format!("{line}; see `petstore --help`")
        }
        (true, _) => line,
    }
}

/// Returns the variables of all commands.
pub(crate) fn variables() -> BTreeSet<String> {
    args().iter().filter_map(|(_, arg)| Some(arg.get_env()?.to_string_lossy().into_owned())).collect()
}

/// Returns every argument of every command in the order of `--help`, each with the name of its top-level
/// command.
pub fn args() -> Vec<(String, Arg)> {
    fn collect(command: &Command, top: Option<&str>, args: &mut Vec<(String, Arg)>) {
        for command in command.get_subcommands().filter(|command| command.get_name() != "help") {
            let top = top.unwrap_or(command.get_name());
            args.extend(command.get_arguments().map(|arg| (top.to_owned(), arg.clone())));
            collect(command, Some(top), args);
        }
    }
    let (mut program, mut args) = (Cli::command(), Vec::new());
    program.build();
    collect(&program, None, &mut args);
    args
}

#[cfg(test)]
mod tests {
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

    fn line(args: &[&str]) -> String {
        argument_line(&Cli::try_parse_from(args).unwrap_err())
    }

    #[test]
    fn a_suggestion_follows_a_mistyped_argument() {
        for (args, end) in [
            (["petstore", "serv"].as_slice(), "'serv'; did you mean serve?"),
            (&["petstore", "acount", "list"], "'acount'; did you mean audit or account?"),
            (&["petstore", "account", "lst"], "'lst'; did you mean list?"),
            (&["petstore", "serve", "--htp-addr", "x"], "found; did you mean --http-addr?"),
            (&["petstore", "account", "create", "a", "--plan", "fre"], "; did you mean free?"),
            (&["petstore", "zzz"], "'zzz'; see `petstore --help`"),
        ] {
            assert!(line(args).ends_with(end), "{args:?}: {}", line(args));
        }
    }

    #[test]
    fn an_invalid_argument_is_one_line_that_names_it() {
        let line = line(&["petstore", "serve", "--http-addr", "8080"]);
        assert_eq!(
            line,
            "error: invalid value '8080' for '--http-addr <ADDR>': must be an address and a port, such as \
             127.0.0.1:8080, [::1]:8080 or localhost:8080"
        );
    }

    #[test]
    fn missing_arguments_are_named_in_one_line() {
        let line = line(&["petstore", "key", "create"]);
        assert_eq!(line, "error: the following required arguments were not provided: --account <NAME>");
    }

    /// Flags that select what a command does. A variable would change that unnoticed.
    const WITHOUT_VARIABLE: [&str; 43] = [
        "help",
        "version",
        "yes",
        "force",
        "steps",
        "plan",
        "per-minute",
        "per-day",
        "account",
        "expires-in",
        "grace",
        "for",
        "from",
        "days",
        "csv",
        "reason",
        "format",
        "strict",
        "import-id",
        "status",
        "label",
        "role",
        "operator",
        "key",
        "last",
        "limit",
        "name",
        "suspended",
        "by",
        "by-key",
        "minutes",
        "key-file",
        "ca",
        "write",
        "exhaust",
        "junit",
        "access",
        "allowed-addresses",
        "unused-for",
        "expiring-within",
        "all",
        "near-limit",
        "over-limit",
    ];

    #[test]
    fn every_setting_has_the_variable_of_its_name_and_the_others_have_none() {
        let args = args();
        for (command, arg) in &args {
            let Some(flag) = arg.get_long() else { continue };
            let variable = arg.get_env().map(|variable| variable.to_string_lossy().into_owned());
            let expected = format!("PETSTORE_{}", flag.to_uppercase().replace('-', "_"));
            let expected = (!WITHOUT_VARIABLE.contains(&flag)).then_some(expected);
            assert_eq!(variable, expected, "{command} --{flag}");
            assert!(arg.get_help().is_some(), "{command} --{flag} has no help");
        }
        assert!(args.len() > 30, "only {} flags were checked", args.len());
    }

    #[test]
    fn no_help_text_shows_the_value_of_a_variable_that_may_hold_a_password() {
        for (command, arg) in args() {
            if matches!(arg.get_long(), Some("database-url" | "redis-url")) {
                assert!(arg.is_hide_env_values_set(), "{command}");
            }
        }
    }
}
