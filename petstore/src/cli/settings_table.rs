//! The settings as a Markdown table, from clap's own definitions.

use std::{collections::BTreeSet, fmt::Write as _};

use clap::{Arg, Command, CommandFactory};

use super::Cli;

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
    let mut flags = BTreeSet::new();
    let mut program = Cli::command();
    program.build();
    each_command(&program, &[], &mut |_, arg| flags.extend(arg.get_long().map(|flag| format!("--{flag}"))));
    flags
}

fn rows() -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    let mut program = Cli::command();
    program.build();
    each_command(&program, &[], &mut |path, arg| {
        let Some(row) = row(arg) else { return };
        let command = path.first().copied().unwrap_or_default().to_owned();
        match rows.iter_mut().find(|known| {
            (&known.flag, &known.default, &known.meaning) == (&row.flag, &row.default, &row.meaning)
        }) {
            Some(known) if known.commands.contains(&command) => {}
            Some(known) => known.commands.push(command),
            None => rows.push(Row { commands: vec![command], ..row }),
        }
    });
    rows
}

/// Visits every flag of every command that does something, in the order of `--help`.
pub(super) fn each_command<'a>(
    command: &'a Command,
    path: &[&'a str],
    visit: &mut impl FnMut(&[&str], &Arg),
) {
    for command in command.get_subcommands().filter(|command| command.get_name() != "help") {
        let path = [path, &[command.get_name()]].concat();
        for arg in command.get_arguments() {
            visit(&path, arg);
        }
        each_command(command, &path, visit);
    }
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
        let mut program = Cli::command();
        program.build();
        let mut flags = 0;
        each_command(&program, &[], &mut |path, arg| {
            let Some(flag) = arg.get_long() else { return };
            let variable = arg.get_env().map(|variable| variable.to_string_lossy().into_owned());
            let expected = format!("PETSTORE_{}", flag.to_uppercase().replace('-', "_"));
            let expected = (!WITHOUT_VARIABLE.contains(&flag)).then_some(expected);
            assert_eq!(variable, expected, "{path:?} --{flag}");
            assert!(arg.get_help().is_some(), "{path:?} --{flag} says nothing about itself");
            flags += 1;
        });
        assert!(flags > 30, "only {flags} flags were looked at");
    }

    #[test]
    fn no_help_text_shows_the_value_of_a_variable_that_may_hold_a_password() {
        let mut program = Cli::command();
        program.build();
        each_command(&program, &[], &mut |path, arg| {
            if matches!(arg.get_long(), Some("database-url" | "redis-url")) {
                assert!(arg.is_hide_env_values_set(), "{path:?}");
            }
        });
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
}
