//! Environment variables that look like settings but are not. A misspelt one must not be ignored silently.

use std::collections::BTreeSet;

use clap::CommandFactory;

use super::{Cli, settings_table};
use crate::output;

const PREFIX: &str = "PETSTORE_";
/// Prefix of the variables of this program's tests.
const TEST_PREFIX: &str = "PETSTORE_TEST_";

/// Returns a warning for each environment variable that has the prefix of settings and belongs to no command.
pub(crate) fn unknown_variables() -> Vec<String> {
    let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    warnings(names.filter(|name| name.starts_with(PREFIX) && !name.starts_with(TEST_PREFIX)))
}

fn warnings(names: impl Iterator<Item = String>) -> Vec<String> {
    let mut names = names.peekable();
    if names.peek().is_none() {
        return Vec::new();
    }
    let known = known();
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

fn known() -> BTreeSet<String> {
    let mut known = BTreeSet::new();
    let mut program = Cli::command();
    program.build();
    settings_table::each_command(&program, &[], &mut |_, arg| {
        known.extend(arg.get_env().map(|name| name.to_string_lossy().into_owned()));
    });
    known
}

#[cfg(test)]
mod tests {
    use super::*;

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
