//! The table of settings, from clap's own definitions.

use std::fmt::Write as _;

use clap::Arg;

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
pub(crate) fn settings_table() -> String {
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

fn rows() -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    for (command, arg) in petstore::args() {
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

#[test]
fn a_setting_that_commands_share_is_one_row() {
    let table = settings_table();
    assert_eq!(table.matches("| `--database-url` |").count(), 1, "{table}");
    assert!(
        table.contains("| `--drain-deadline` | `PETSTORE_DRAIN_DEADLINE` | `20s` | serve, core, gateway |"),
        "{table}"
    );
}

#[test]
fn every_row_has_five_columns() {
    for line in settings_table().lines() {
        assert_eq!(line.replace("\\|", "").matches('|').count(), 6, "{line}");
    }
}
