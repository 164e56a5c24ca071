//! The settings of all commands, from clap's own definitions: as a Markdown table, and compared with the
//! variables of the environment.

use std::{collections::BTreeSet, fmt::Write as _};

use clap::{Arg, Command, CommandFactory};

use super::Cli;
use crate::output;

const PREFIX: &str = "PETSTORE_";
/// Prefix of the variables of this program's tests.
const TEST_PREFIX: &str = "PETSTORE_TEST_";

/// Setting, and the top-level commands that have it with the same default and meaning.
#[derive(Debug)]
struct Row {
    flag: String,
    variable: String,
    default: String,
    meaning: String,
    /// Names of the commands. `account` stands for `account create` and the others under it: a new one
    /// changes no row.
    commands: Vec<String>,
}

/// Returns every setting of every command, as the Markdown table in `docs/settings.md` shows it.
#[must_use]
pub fn settings_table() -> String {
    let mut table =
        String::from("| Flag | Variable | Default | Commands | Meaning |\n|---|---|---|---|---|\n");
    for row in rows() {
        let Row { flag, variable, default, meaning, commands } = row;
        let commands = commands.join(", ");
        // Writing to a String cannot fail.
        let _ = writeln!(table, "| `{flag}` | `{variable}` | {default} | {commands} | {meaning} |");
    }
    table
}

/// Returns every flag of every command, such as `--http-addr`.
#[must_use]
pub fn flags() -> BTreeSet<String> {
    args().iter().filter_map(|(_, arg)| Some(format!("--{}", arg.get_long()?))).collect()
}

/// Returns a warning for each environment variable that has the prefix of settings and belongs to no command:
/// a misspelt one must not be ignored silently.
pub(crate) fn unknown_variables() -> Vec<String> {
    let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    warnings(names.filter(|name| name.starts_with(PREFIX) && !name.starts_with(TEST_PREFIX)))
}

fn warnings(names: impl Iterator<Item = String>) -> Vec<String> {
    let mut names = names.peekable();
    if names.peek().is_none() {
        return Vec::new();
    }
    let known: BTreeSet<_> =
        args().iter().filter_map(|(_, arg)| Some(arg.get_env()?.to_string_lossy().into_owned())).collect();
    let unknown = names.filter(|name| !known.contains(name)).collect::<BTreeSet<_>>();
    unknown.iter().map(|name| warning(name, &known)).collect()
}

fn warning(name: &str, known: &BTreeSet<String>) -> String {
    let own = |name: &str| name.strip_prefix(PREFIX).unwrap_or(name).to_owned(); // all have the prefix
    match output::most_similar(&own(name), known.iter().map(|name| own(name))) {
        Some(nearest) => format!("{name} is set, but is not a setting: did you mean {PREFIX}{nearest}?"),
        None => format!("{name} is set, but is not a setting: `petstore COMMAND --help` lists them"),
    }
}

fn rows() -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    for (command, arg) in args() {
        let Some(row) = row(&arg) else { continue };
        match rows.iter_mut().find(|known| {
            (&known.flag, &known.default, &known.meaning) == (&row.flag, &row.default, &row.meaning)
        }) {
            Some(known) if known.commands.contains(&command) => {}
            Some(known) => known.commands.push(command),
            None => rows.push(Row { commands: vec![command], ..row }),
        }
    }
    rows
}

/// Returns every flag of every command in the order of `--help`, each with the name of its top-level command.
fn args() -> Vec<(String, Arg)> {
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

/// Returns the row of a setting, which has a flag and a variable. `--help` has no variable, and a name or
/// identifier no flag.
fn row(arg: &Arg) -> Option<Row> {
    let flag = format!("--{}", arg.get_long()?);
    let variable = arg.get_env()?.to_string_lossy().into_owned();
    let default = match arg.get_default_values() {
        [] => String::new(),
        values => {
            format!("`{}`", values.iter().map(|value| value.to_string_lossy()).collect::<Vec<_>>().join(","))
        }
    };
    let meaning = arg.get_help().map(ToString::to_string).unwrap_or_default();
    Some(Row { flag, variable, default, meaning: meaning.replace('|', "\\|"), commands: Vec::new() })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Flags that select what a command does. A variable would change that unnoticed.
    const WITHOUT_VARIABLE: [&str; 28] = [
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

    #[test]
    fn a_setting_that_commands_share_is_one_row() {
        let table = settings_table();
        assert_eq!(table.matches("| `--database-url` |").count(), 1, "{table}");
        assert!(
            table.contains(
                "| `--drain-deadline` | `PETSTORE_DRAIN_DEADLINE` | `20s` | serve, core, gateway |"
            ),
            "{table}"
        );
    }

    #[test]
    fn every_row_has_five_columns() {
        for line in settings_table().lines() {
            assert_eq!(line.replace("\\|", "").matches('|').count(), 6, "{line}");
        }
    }

    #[test]
    fn a_variable_that_is_not_a_setting_is_named_with_the_most_similar_one() {
        let names = ["PETSTORE_HTP_ADDR", "PETSTORE_HTTP_ADDR", "PETSTORE_OUTPUT", "PETSTORE_ZZZ"];
        let warnings = warnings(names.into_iter().map(str::to_owned));
        assert_eq!(
            warnings,
            [
                "PETSTORE_HTP_ADDR is set, but is not a setting: did you mean PETSTORE_HTTP_ADDR?",
                "PETSTORE_ZZZ is set, but is not a setting: `petstore COMMAND --help` lists them",
            ]
        );
    }
}
