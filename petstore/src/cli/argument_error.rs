//! Invalid arguments, reported in one line.

use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::output;

/// Prints help or the version if that was requested, otherwise the error in the arguments.
pub(crate) fn report(error: &clap::Error) -> ExitCode {
    if is_answer(error) {
        let _ = error.print(); // to stdout or stderr; nothing depends on whether it is read
        ExitCode::from(if error.use_stderr() { 2 } else { 0 })
    } else {
        output::note(&argument_line(error));
        ExitCode::from(2)
    }
}

/// Returns `true` if it is help or the version rather than a failure.
fn is_answer(error: &clap::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::DisplayHelp
            | ErrorKind::DisplayVersion
            | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
    )
}

/// Returns the error in the arguments and a suggestion, in one line.
fn argument_line(error: &clap::Error) -> String {
    let line = first_paragraph(&error.render().to_string());
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

/// Returns the error without clap's usage lines, in one line.
fn first_paragraph(text: &str) -> String {
    let lines: Vec<_> = text.lines().map(str::trim).take_while(|line| !line.is_empty()).collect();
    lines.join(" ")
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::{super::Cli, *};

    fn line(args: &[&str]) -> String {
        argument_line(&Cli::try_parse_from(args).unwrap_err())
    }

    #[test]
    fn a_mistyped_argument_gets_a_suggestion() {
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
    fn an_invalid_argument_is_named_in_one_line() {
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
}
