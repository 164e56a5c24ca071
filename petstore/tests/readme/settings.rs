//! The tables of settings, from clap's own definitions.

use std::{collections::BTreeSet, fmt::Write as _};

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

/// Sentences of the help texts that the page says once for all settings, and what stands for them.
const SAID_ONCE: [(&str, &str); 5] = [
    ("; may be repeated, separated by commas in the variable", " (list)"),
    (". May be repeated; separated by commas in the variable", " (list)"),
    (". A URL with a password is accepted only from the variable or from --database-url-file", ""),
    (". A URL with a password is accepted only from the variable or from --replica-url-file", ""),
    (". A URL with a password is accepted only from the variable or from --redis-url-file", ""),
];

/// Headings of the tables, in their order.
const GROUPS: [&str; 6] = [
    "Every process: `serve`, `core`, `gateway`",
    "REST and rate limits: `serve`, `gateway`",
    "Core: `serve`, `core`",
    "Database: `serve`, `core` and commands on the store",
    "Calls to a core: gateways and commands",
    "Commands only",
];

impl Row {
    /// Returns the table that it belongs to.
    fn group(&self) -> &'static str {
        let has = |command: &str| self.commands.iter().any(|known| known == command);
        let [every, rest, core, database, calls, commands] = GROUPS;
        match (has("serve"), has("core"), has("gateway"), has("backup"), has("account")) {
            (true, true, true, false, false) => every,
            (true, false, true, false, false) => rest,
            (true, true, false, false, false) => core,
            (true, true, false, true, true) => database,
            (_, _, true, false, true) => calls,
            (false, false, false, false, _) => commands,
            _ => panic!("{self:?} belongs to no table of the settings"),
        }
    }

    /// Returns the flag, and its command if it has only one.
    fn name(&self) -> String {
        match &self.commands[..] {
            [command] => format!("`{}` ({command})", self.flag),
            _ => format!("`{}`", self.flag),
        }
    }
}

/// Returns every setting of every command, as the Markdown tables in `docs/settings.md` show it.
pub(crate) fn settings_tables() -> String {
    let (mut tables, rows) = (String::new(), rows());
    for group in GROUPS {
        // Writing to a String cannot fail.
        let _ = writeln!(tables, "\n## {group}\n\n| Flag | Default | Meaning |\n|---|---|---|");
        for row in rows.iter().filter(|row| row.group() == group) {
            let _ = writeln!(tables, "| {} | {} | {} |", row.name(), row.default, row.meaning);
        }
    }
    tables + "\n"
}

/// Returns the flags and variables of every setting.
pub(crate) fn setting_names() -> BTreeSet<String> {
    rows().into_iter().flat_map(|row| [row.flag, row.variable]).collect()
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
    let meaning = SAID_ONCE.iter().fold(meaning, |meaning, (text, instead)| meaning.replace(text, instead));
    Some(Row { flag, variable, default, meaning: meaning.replace('|', "\\|"), commands: Vec::new() })
}

#[test]
fn a_setting_that_commands_share_is_one_row() {
    let tables = settings_tables();
    assert_eq!(tables.matches("| `--database-url` |").count(), 1, "{tables}");
    assert!(tables.contains("| `--drain-deadline` | `20s` |"), "{tables}");
    assert_eq!(tables.matches("| `--environment` (key) |").count(), 2, "{tables}");
}

#[test]
fn every_row_has_three_columns() {
    for line in settings_tables().lines().filter(|line| line.starts_with('|')) {
        assert_eq!(line.replace("\\|", "").matches('|').count(), 4, "{line}");
    }
}
