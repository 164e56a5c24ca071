//! Environment variables of settings.

use std::{
    collections::BTreeSet,
    env,
    ffi::{OsStr, OsString},
    os::unix::{ffi::OsStrExt, process::CommandExt},
    process::Command,
    sync::OnceLock,
};

use petstore_command_line::output::{self, reason};

const PREFIX: &str = "PETSTORE_";
/// Prefix of the variables of this program's tests.
const TEST_PREFIX: &str = "PETSTORE_TEST_";

/// Returns the variables with the prefix of settings.
fn prefixed() -> impl Iterator<Item = (String, OsString)> {
    let named = env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value)));
    named.filter(|(name, _)| name.starts_with(PREFIX) && !name.starts_with(TEST_PREFIX))
}

/// Names of the variables of all commands.
type Known = BTreeSet<String>;

/// Function that returns the variables of all commands, once [`normalize`] has run.
static KNOWN: OnceLock<fn() -> Known> = OnceLock::new();

/// Removes blanks and line ends around the values of variables, and variables that are empty then. If that
/// changes one, this process runs the program again in its place: clap reads variables itself, and Rust has
/// no safe way to change them.
///
/// # Errors
///
/// If a setting's variable has a control character, or the program cannot be run again.
pub(crate) fn normalize(args: &[OsString], known: fn() -> Known) -> Result<(), String> {
    let _ = KNOWN.set(known); // set nowhere else
    let mut again = Command::new(env::current_exe().unwrap_or_default());
    for (name, value) in prefixed() {
        let trimmed = OsStr::from_bytes(value.as_bytes().trim_ascii());
        if trimmed.is_empty() {
            again.env_remove(name);
        } else if trimmed.to_string_lossy().contains(char::is_control) && known().contains(&name) {
            return Err(format!("{name}: must not contain control characters, such as an end of line"));
        } else if trimmed != value {
            again.env(name, trimmed);
        }
    }
    if again.get_envs().len() == 0 {
        return Ok(());
    }
    if let Some((program, args)) = args.split_first() {
        again.arg0(program).args(args);
    }
    Err(format!("cannot run without the blanks around variables: {}", reason(&again.exec())))
}

/// Names each setting in a message by its variable if that has set it, and not a flag.
pub(crate) fn name_variables(message: &str) -> String {
    let known = KNOWN.get().map(|known| known()).unwrap_or_default();
    let of_settings = prefixed().filter(|(variable, _)| known.contains(variable));
    of_settings.fold(message.to_owned(), |message, (variable, _)| {
        let flag = format!("--{}", variable.trim_start_matches(PREFIX).to_lowercase().replace('_', "-"));
        let with_value = format!("{flag}=");
        let is_flag = |arg: &OsString| *arg == *flag || arg.as_bytes().starts_with(with_value.as_bytes());
        let is_given = env::args_os().any(|arg| is_flag(&arg));
        // The value may come from the file, unless the message is about both.
        let of_value = flag.strip_suffix("-file").filter(|_| !message.contains(&flag)).unwrap_or(&flag);
        if is_given { message } else { replace(&replace(&message, &flag, &variable), of_value, &variable) }
    })
}

/// Returns the error in values that are not UTF-8, of which clap's own names none.
pub(crate) fn not_unicode() -> String {
    let known = KNOWN.get().map(|known| known()).unwrap_or_default();
    let variables = prefixed().filter(|(name, value)| value.to_str().is_none() && known.contains(name));
    let args: Vec<OsString> = env::args_os().collect();
    let args = args.array_windows().filter(|[_, value]| value.to_str().is_none()).map(|[before, value]| {
        let text = value.to_string_lossy();
        let flag = text.split_once('=').map(|(flag, _)| flag).or(before.to_str());
        flag.filter(|flag| flag.starts_with("--")).unwrap_or("each argument").to_owned()
    });
    let names: Vec<_> = variables.map(|(name, _)| name).chain(args).collect();
    format!("error: {} must be UTF-8", names.join(" and "))
}

/// Replaces a flag, and what stands for its value, as in `--http-addr <ADDR>`.
fn replace(message: &str, flag: &str, variable: &str) -> String {
    let mut parts = message.split(flag);
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |done, part| {
        if part.starts_with(|next: char| next == '-' || next.is_alphanumeric()) {
            return done + flag + part; // the flag of another setting
        }
        let after = part.strip_prefix(" <").and_then(|value| value.split_once('>'));
        done + variable + after.map_or(part, |(_, rest)| rest)
    })
}

/// Returns a warning for each environment variable that has the prefix of settings and belongs to no command:
/// a misspelt one must not be ignored silently.
pub(crate) fn unknown_variables(known: fn() -> Known) -> Vec<String> {
    let names: BTreeSet<_> = prefixed().map(|(name, _)| name).collect();
    if names.is_empty() { Vec::new() } else { warnings(&names, &known()) }
}

fn warnings(names: &BTreeSet<String>, known: &Known) -> Vec<String> {
    names.difference(known).map(|name| warning(name, known)).collect()
}

fn warning(name: &str, known: &Known) -> String {
    let own = |name: &str| name.strip_prefix(PREFIX).unwrap_or(name).to_owned(); // all have the prefix
    match output::most_similar(&own(name), known.iter().map(|name| own(name))) {
        Some(nearest) => format!("{name} is set, but is not a setting: did you mean {PREFIX}{nearest}?"),
        None => format!("{name} is set, but is not a setting: `petstore COMMAND --help` lists them"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_that_is_not_a_setting_is_named_with_the_most_similar_one() {
        let names = ["PETSTORE_HTP_ADDR", "PETSTORE_HTTP_ADDR", "PETSTORE_ZZZ"].map(str::to_owned);
        let warnings = warnings(&names.into(), &["PETSTORE_HTTP_ADDR".to_owned()].into());
        assert_eq!(
            warnings,
            [
                "PETSTORE_HTP_ADDR is set, but is not a setting: did you mean PETSTORE_HTTP_ADDR?",
                "PETSTORE_ZZZ is set, but is not a setting: `petstore COMMAND --help` lists them",
            ]
        );
    }

    #[test]
    fn only_the_flag_of_the_variable_is_replaced() {
        let message = "'--redis-url <URL>' and '--redis-url-file <FILE>': --redis-url, --redis-url";
        let named = "'X' and '--redis-url-file <FILE>': X, X";
        assert_eq!(replace(message, "--redis-url", "X"), named);
    }
}
